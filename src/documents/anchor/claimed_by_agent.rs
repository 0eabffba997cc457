//! Judges an agent's claim where words went, by comparing both texts.

use std::ops::Range;

use crate::api::topics::PlacementState;
use crate::documents::anchor::ladder::place;
use crate::documents::anchor::{PairMap, Placed};

/// Judges where an agent put the words of a span of `old`; `given` is a range of `new` on character
/// boundaries. `span` is `None` for words without a place.
///
/// Unchanged words are where they are, whatever the agent says: `None`. If the claimed words were
/// elsewhere in the old text, or differ, a person must check (`Rewritten`); the same words have
/// moved.
pub fn weigh(
    map: &PairMap,
    old: &str,
    new: &str,
    span: Option<Range<usize>>,
    given: &Range<usize>,
) -> Option<Placed> {
    let is_same = span.as_ref().is_some_and(|it| old.get(it.clone()) == new.get(given.clone()));
    if let Some(span) = &span {
        let placed = place(map, old, new, span.clone());
        if matches!(placed.state, PlacementState::Exact | PlacementState::Shifted) {
            return None;
        }
    }
    let state = match is_same && !is_of_others(map, span.as_ref(), given) {
        true => PlacementState::Moved,
        false => PlacementState::Rewritten,
    };
    Some(Placed { state, range: Some(given.clone()), confidence: 0.9, method: "agent" })
}

/// Returns whether most of a range was in the old text outside of the span.
fn is_of_others(map: &PairMap, span: Option<&Range<usize>>, given: &Range<usize>) -> bool {
    let (mut all, mut others) = (0, 0);
    let last = map.new.at(given.end - 1);
    for token in (map.new.at(given.start)..=last).filter(|it| !map.new.is_space(*it)) {
        let bytes = map.new.end(token) - map.new.start(token);
        all += bytes;
        let was = map.old_of(token).map(|it| map.old.start(it));
        if was.is_some_and(|was| span.is_none_or(|span| !span.contains(&was))) {
            others += bytes;
        }
    }
    others * 2 > all
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str =
        "Team Alpha meets on Monday.\n\nTeam Beta meets on Monday.\n\nThe end is near.\n";

    fn weighed(new: &str, words: &str, given: &str) -> Option<&'static str> {
        let span = OLD.find(words).map(|it| it..it + words.len());
        let start = new.find(given).unwrap();
        let map = PairMap::new(OLD, new);
        let placed = weigh(&map, OLD, new, span, &(start..start + given.len()));
        placed.map(|it| it.state.as_str())
    }

    #[test]
    fn an_agent_is_believed_only_where_the_texts_do_not_say_otherwise() {
        let new =
            "Team Beta meets on Monday.\n\nNobody meets any more, ever.\n\nThe end is near.\n";
        let alpha = "Team Alpha meets on Monday.";
        assert_eq!(weighed(new, "The end is near.", "Nobody meets"), None, "it stands unchanged");
        assert_eq!(weighed(new, alpha, "Team Beta meets on Monday."), Some("rewritten"));
        assert_eq!(weighed(new, alpha, "Nobody meets any more, ever."), Some("rewritten"));
        let new = "The end is near.\n\nX Y Z.\n\nAll in all: Team Alpha meets on Monday.\n";
        assert!(matches!(weighed(new, alpha, alpha), None | Some("moved")));
        assert_eq!(weighed(new, "never there", "X Y Z"), Some("rewritten"));
    }
}
