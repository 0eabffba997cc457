//! Accuracy of the ladder on a large generated text, for which the truth is known.

use std::ops::Range;

use crate::documents::anchor::ladder::place;
use crate::documents::anchor::{PairMap, Placed};

/// Deterministic pseudo-random numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(limit).unwrap()).unwrap()
    }

    /// Returns a word; a few are frequent, as in natural language.
    fn word(&mut self) -> String {
        let rank = self.below(40) * self.below(40) * (1 + self.below(3));
        let frequent = ["the", "of", "and", "to", "a", "in", "is", "for", "that", "with"];
        match frequent.get(rank / 4) {
            Some(word) => (*word).to_owned(),
            None => format!("word{rank}x"),
        }
    }

    fn words(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.word()).collect()
    }
}

fn sentence(words: &[String]) -> String {
    words.join(" ") + "."
}

/// How many placements were right, wrong or missing.
#[derive(Debug, Default, PartialEq)]
struct Score {
    right: usize,
    wrong: usize,
    lost: usize,
}

impl Score {
    /// Counts a placement; right if it covers at least half of the truth and little else.
    fn count(&mut self, placed: &Placed, truth: Option<&Range<usize>>) {
        match (&placed.range, truth) {
            (None, None) => self.right += 1,
            (None, Some(_)) => self.lost += 1,
            (Some(_), None) => self.wrong += 1,
            (Some(found), Some(truth)) => {
                let shared = found.end.min(truth.end).saturating_sub(found.start.max(truth.start));
                let all = found.end.max(truth.end) - found.start.min(truth.start);
                if shared * 2 >= all { self.right += 1 } else { self.wrong += 1 }
            }
        }
    }
}

/// Writes a text of paragraphs; returns it with the range of each.
fn write(paragraphs: &[Option<String>]) -> (String, Vec<Option<Range<usize>>>) {
    let mut text = String::from("# Title\n\n");
    let mut places = Vec::new();
    for paragraph in paragraphs {
        places.push(paragraph.as_ref().map(|it| {
            let start = text.len();
            text.push_str(it);
            text.push_str("\n\n");
            start..start + it.len()
        }));
    }
    (text, places)
}

/// Generates a text of about 100 KB, changes it, and places 200 of its paragraphs.
fn score(
    mut change: impl FnMut(&mut Dice, usize, &[String]) -> Option<Vec<String>>,
    lookalikes: bool,
) -> Score {
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let mut olds: Vec<Vec<String>> = Vec::new();
    for number in 0..400 {
        if lookalikes && number % 2 == 1 {
            let mut twin = olds[number - 1].clone();
            for _ in 0..3 {
                let place = dice.below(twin.len());
                twin[place] = dice.word();
            }
            olds.push(twin);
        } else {
            let count = 25 + dice.below(25);
            olds.push(dice.words(count));
        }
    }
    let news: Vec<Option<Vec<String>>> =
        olds.iter().enumerate().map(|(number, it)| change(&mut dice, number, it)).collect();
    let (old, spans) = write(&olds.iter().map(|it| Some(sentence(it))).collect::<Vec<_>>());
    let (new, truths) =
        write(&news.iter().map(|it| it.as_deref().map(sentence)).collect::<Vec<_>>());
    assert!(old.len() > 80_000, "{}", old.len());
    let map = PairMap::new(&old, &new);
    let mut score = Score::default();
    for number in (0..400).step_by(2) {
        let placed = place(&map, &old, &new, spans[number].clone().unwrap());
        score.count(&placed, truths[number].as_ref());
    }
    score
}

fn replace(dice: &mut Dice, words: &[String], percent: usize) -> Option<Vec<String>> {
    let replaced =
        words.iter().map(|word| if dice.below(100) < percent { dice.word() } else { word.clone() });
    Some(replaced.collect())
}

#[test]
fn a_deleted_paragraph_is_gone_even_if_its_lookalike_stays() {
    let delete = |_: &mut Dice, number: usize, words: &[String]| {
        (!number.is_multiple_of(4)).then(|| words.to_vec())
    };
    assert_eq!(score(delete, false), Score { right: 200, wrong: 0, lost: 0 });
    assert_eq!(score(delete, true), Score { right: 200, wrong: 0, lost: 0 });
}

#[test]
fn edited_paragraphs_stay_where_they_are() {
    let edit = |dice: &mut Dice, _: usize, words: &[String]| replace(dice, words, 20);
    let found = score(edit, false);
    assert!(found.right >= 196 && found.wrong <= 2, "{found:?}");
    let edit = |dice: &mut Dice, _: usize, words: &[String]| replace(dice, words, 40);
    let found = score(edit, false);
    assert!(found.right >= 180 && found.wrong <= 2, "{found:?}");
}

#[test]
fn edits_and_deletions_together_are_never_silently_wrong() {
    let both = |dice: &mut Dice, number: usize, words: &[String]| {
        if number.is_multiple_of(4) { None } else { replace(dice, words, 15) }
    };
    let found = score(both, true);
    assert!(found.wrong <= 2, "{found:?}");
}
