//! Finds words in different parts of a long Source, and excludes a long Source that contains an
//! unwanted word in any part.
//!
//! The index knows parts, while people search for documents. For a Source of one part the index is
//! enough; here each word or phrase is looked up separately among the parts of long Sources, which
//! are marked and few.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::base::Result;
use crate::documents::search::ask::Ask;
use crate::documents::search::mark;

/// Most parts of long Sources examined per word.
pub(super) const PARTS_MAX: i64 = 50_000;

/// A part of a Source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Its id; later parts have greater ids.
    pub(super) part: i64,
    /// The id of its Source.
    pub(super) source: i64,
}

/// Corrections to the results found part by part.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Spread {
    /// Sources that contain an unwanted word.
    pub(super) barred: HashSet<i64>,
    /// For each long Source that contains all wanted words, the part that contains most of them.
    pub(super) found: Vec<Place>,
}

/// Looks up the words of a query one by one; `look` returns the parts that match an expression.
///
/// # Errors
/// The error of `look`.
pub(super) fn look_for(
    ask: &Ask,
    mut look: impl FnMut(&str) -> Result<Vec<Place>>,
) -> Result<Spread> {
    let mut spread = Spread::default();
    let mut among_long = |term: &str| look(&format!("({term}) AND {}", mark::LONG));
    if let Some(unwanted) = ask.unwanted() {
        spread.barred = among_long(&unwanted)?.into_iter().map(|it| it.source).collect();
    }
    let wanted = ask.wanted_each();
    if wanted.len() < 2 {
        // A single term was already found in its part.
        return Ok(spread);
    }
    // For each Source that contained all terms so far: how many of them each part contains.
    let mut held: BTreeMap<i64, HashMap<i64, usize>> = BTreeMap::new();
    for (number, term) in wanted.iter().enumerate() {
        let places = among_long(term)?;
        let now: HashSet<i64> = places.iter().map(|it| it.source).collect();
        held.retain(|source, _| now.contains(source));
        for Place { part, source } in places {
            let is_candidate = number == 0 || held.contains_key(&source);
            if is_candidate && !spread.barred.contains(&source) {
                *held.entry(source).or_default().entry(part).or_default() += 1;
            }
        }
    }
    let best = |(source, parts): (i64, HashMap<i64, usize>)| {
        // The first of the parts with the most terms.
        let part = parts.into_iter().max_by_key(|(part, count)| (*count, -part))?.0;
        Some(Place { part, source })
    };
    spread.found = held.into_iter().filter_map(best).collect();
    Ok(spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts with their words: two Sources, of three and two parts.
    const PARTS: &[(i64, i64, &str)] =
        &[(1, 1, "red"), (2, 1, "green blue"), (3, 1, "red green"), (4, 2, "red"), (5, 2, "blue")];

    fn look(asked: &str) -> (Vec<i64>, Vec<i64>) {
        let look = |query: &str| {
            let term = query.split(')').next().unwrap().trim_start_matches('(');
            let words: Vec<&str> = term.split(" OR ").map(|it| it.trim_matches('"')).collect();
            let has = |text: &str| text.split(' ').any(|it| words.contains(&it));
            let found = PARTS.iter().filter(|it| has(it.2));
            Ok(found.map(|it| Place { part: it.0, source: it.1 }).collect())
        };
        let found = look_for(&Ask::parse(asked).unwrap(), look).unwrap();
        let mut barred: Vec<i64> = found.barred.into_iter().collect();
        barred.sort_unstable();
        (found.found.into_iter().map(|it| it.part).collect(), barred)
    }

    #[test]
    fn words_of_different_parts_are_those_of_one_source() {
        assert_eq!(look("red blue"), (vec![1, 4], vec![]));
        assert_eq!(look("red green blue"), (vec![2], vec![]));
        assert_eq!(look("green red"), (vec![3], vec![]));
        assert_eq!(look("red none"), (vec![], vec![]));
        assert_eq!(look("none red"), (vec![], vec![]));
        assert_eq!(look("red -green"), (vec![], vec![1]));
        assert_eq!(look("red blue -green -none"), (vec![4], vec![1]));
    }
}
