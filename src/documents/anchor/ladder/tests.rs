//! Tests of the ladder, state by state, on texts with the passage in brackets.

mod elsewhere;

use proptest::prelude::*;

use crate::api::topics::PlacementState;
use crate::documents::anchor::ladder::place;
use crate::documents::anchor::{PairMap, Placed};
use std::ops::Range;

/// Places the bracketed words of `old`; shows `new` with brackets around their place.
fn check(old: &str, new: &str, state: PlacementState, shown: &str) {
    let (text, span) = unmark(old);
    let map = PairMap::new(&text, new);
    let placed = place(&map, &text, new, span);
    let mut marked = new.to_owned();
    if let Some(range) = &placed.range {
        marked.insert(range.end, ']');
        marked.insert(range.start, '[');
    }
    assert_eq!((placed.state, marked.as_str()), (state, shown), "{old:?}: {placed:?}");
}

fn unmark(marked: &str) -> (String, Range<usize>) {
    let start = marked.find('[').unwrap();
    let end = marked.rfind(']').unwrap();
    let text = format!("{}{}{}", &marked[..start], &marked[start + 1..end], &marked[end + 1..]);
    (text, start..end - 1)
}

use PlacementState::{Edited, Exact, Orphaned, Shifted};

#[test]
fn words_that_stay_are_exact_or_shifted() {
    check("a [b c] d", "a b c d", Exact, "a [b c] d");
    check("one [two] three", "one two three four", Exact, "one [two] three four");
    check(
        "one [two words] three",
        "zero one two words three",
        Shifted,
        "zero one [two words] three",
    );
    check("one[ two ]three", "zero one two three", Shifted, "zero one[ two ]three");
    check("x [wor]d y of it", "z x word y of it", Shifted, "z x [wor]d y of it");
    check("[all of it]", "\u{feff}all of it", Shifted, "\u{feff}[all of it]");
}

/// Fails with `WB_WITHOUT=torn_passages`.
#[test]
fn text_inserted_inside_a_passage_belongs_to_it_up_to_a_length() {
    let passage = "The first thought stands here for all. A second thought comes after it.";
    let old = format!("Intro.\n\n[{passage}]\n\nEnd.\n");
    let between = |count: usize| -> String {
        let filler: String = (0..count).map(|it| format!("Filler number {it} goes on. ")).collect();
        passage.replace("A second", &format!("\n\n{filler}\n\nA second"))
    };
    let new = format!("Intro.\n\n{}\n\nEnd.\n", between(40));
    check(&old, &new, Edited, &new.replace("The first", "[The first").replace("it.\n", "it.]\n"));
    // Parts farther apart are no longer one passage: a person must check.
    let new = format!("Intro.\n\n{}\n\nEnd.\n", between(400));
    let shown = new.replace("The first", "[The first").replace("for all.", "for all.]");
    check(&old, &new, PlacementState::Rewritten, &shown);
}

#[test]
fn edited_words_are_found_where_they_stand() {
    check(
        "so the [quick brown fox jumps] over",
        "so the quick red fox jumps over",
        Edited,
        "so the [quick red fox jumps] over",
    );
    check(
        "so the [quick brown fox jumps] over",
        "so the slow brown fox jumps over",
        Edited,
        "so the [slow brown fox jumps] over",
    );
    check(
        "so the [quick brown fox jumps] over",
        "so the quick brown fox leaps over",
        Edited,
        "so the [quick brown fox leaps] over",
    );
    check(
        "so the [quick brown fox jumps] over",
        "so the quick brown fox over",
        Edited,
        "so the [quick brown fox] over",
    );
    check(
        "a [few words that\nare reflowed] b",
        "a few words\nthat are reflowed b",
        Edited,
        "a [few words\nthat are reflowed] b",
    );
}

#[test]
fn words_that_are_gone_are_orphaned() {
    check("keep this. [Drop this one.] End.", "keep this. End.", Orphaned, "keep this. End.");
    check("a [b] c", "", Orphaned, "");
    check(
        "visit [the] castle by night",
        "visit many castles and the sea by night",
        Orphaned,
        "visit many castles and the sea by night",
    );
    check(
        "intro\n\n[a few old words]\n\nend",
        "intro\n\nquite another thing here\n\nend",
        Orphaned,
        "intro\n\nquite another thing here\n\nend",
    );
}

#[test]
fn a_lookalike_is_not_taken_for_what_was_deleted() {
    let alpha = "The Alpha team meets on Monday at nine in the large room.";
    let beta = "The Beta team meets on Monday at nine in the large room.";
    let new = format!("Intro here.\n\n{beta}\n\nEnd.\n");
    check(&format!("Intro here.\n\n[{alpha}]\n\n{beta}\n\nEnd.\n"), &new, Orphaned, &new);
    check(&format!("Intro here.\n\n{beta}\n\n[{alpha}]\n\nEnd.\n"), &new, Orphaned, &new);
    let shown = format!("Intro here.\n\n[{beta}]\n\nEnd.\n");
    check(&format!("Intro here.\n\n{alpha}\n\n[{beta}]\n\nEnd.\n"), &new, Shifted, &shown);
    // Edited, while the lookalike is unchanged.
    let edited = alpha.replace("Monday at nine", "Tuesday at ten");
    let new = format!("Intro here.\n\n{edited}\n\n{beta}\n\nEnd.\n");
    let shown = format!("Intro here.\n\n[{edited}]\n\n{beta}\n\nEnd.\n");
    check(&format!("Intro here.\n\n[{alpha}]\n\n{beta}\n\nEnd.\n"), &new, Edited, &shown);
}

#[test]
fn of_two_equal_paragraphs_the_deleted_one_is_gone() {
    let twin = "The same words stand here twice.";
    let new = format!("First part.\n\nMiddle part.\n\n{twin}\n\nLast part.\n");
    let shown = format!("First part.\n\nMiddle part.\n\n[{twin}]\n\nLast part.\n");
    let old = format!("First part.\n\n[{twin}]\n\nMiddle part.\n\n{twin}\n\nLast part.\n");
    check(&old, &new, Orphaned, &new);
    let old = format!("First part.\n\n{twin}\n\nMiddle part.\n\n[{twin}]\n\nLast part.\n");
    check(&old, &new, Shifted, &shown);
}

#[test]
fn of_two_equal_neighbors_the_first_survives() {
    // The texts do not tell which of the two was deleted. Exactly one of them gets the remaining
    // place, never both.
    let (old, new) = ("Top.\n\nSame line.\n\nSame line.\n\nEnd.", "Top.\n\nSame line.\n\nEnd.");
    let map = PairMap::new(old, new);
    let first = place(&map, old, new, 6..16);
    let second = place(&map, old, new, 18..28);
    assert_eq!((first.state, first.range), (Exact, Some(6..16)));
    assert_eq!(second.state, Orphaned);
}

#[test]
fn scripts_marks_and_line_ends_are_kept_whole() {
    check(
        "前の文。[中の文です。]後の文。",
        "新しい前の文。中の文です。後の文。",
        Shifted,
        "新しい前の文。[中の文です。]後の文。",
    );
    check(
        "前の文。[中の文です。]後の文。",
        "前の文。中の絵です。後の文。",
        Edited,
        "前の文。[中の絵です。]後の文。",
    );
    check(
        "x [cafe\u{301} noir au lait] y",
        "x cafe noir au lait y",
        Edited,
        "x [cafe noir au lait] y",
    );
    check(
        "a [👩‍👩‍👧 family photograph from here] b",
        "a 👨‍👩‍👧 family photograph from here b",
        Edited,
        "a [👨‍👩‍👧 family photograph from here] b",
    );
    check("a\r\n[b words c]\r\nd", "a\nb words c\nd", Shifted, "a\n[b words c]\nd");
    check("a\r\n[b words\r\nc]\r\nd", "a\nb words\nc\nd", Edited, "a\n[b words\nc]\nd");
}

#[test]
fn a_stray_word_far_away_does_not_stretch_the_place() {
    let filler = "Some unrelated filler that is new here and rather long, again. ".repeat(8);
    let old = "Start. [Zebra: the striped horses of the savanna graze together.] End.";
    let new =
        format!("Start. Zebra {filler} the striped horses of the savanna graze together. End.");
    let (text, span) = unmark(old);
    let placed = place(&PairMap::new(&text, &new), &text, &new, span);
    let range = placed.range.unwrap();
    assert_eq!(&new[range], "the striped horses of the savanna graze together.");
}

#[test]
fn a_bad_span_has_no_place() {
    let map = PairMap::new("aé b", "aé b");
    for (from, to) in [(0, 0), (2, 3), (1, 2), (0, 99), (3, 2), (99, 100)] {
        let placed = place(&map, "aé b", "aé b", from..to);
        assert_eq!(placed.state, Orphaned);
    }
    let map = PairMap::new("a  b", "c  d");
    assert_eq!(place(&map, "a  b", "c  d", 1..3).state, Orphaned);
}

fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => "[a-e]{1,3}",
        4 => Just(" ".to_owned()),
        1 => Just("\r\n\r\n".to_owned()),
        1 => Just("\n".to_owned()),
        1 => "[.,*é日本\u{301}\u{200d}👍\u{feff}]",
    ];
    proptest::collection::vec(part, 0..60).prop_map(|parts| parts.concat())
}

/// Returns a span of a text from two numbers, on character boundaries.
fn span_of(text: &str, from: usize, to: usize) -> Range<usize> {
    let borders: Vec<usize> = (0..=text.len()).filter(|it| text.is_char_boundary(*it)).collect();
    let (a, b) = (borders[from % borders.len()], borders[to % borders.len()]);
    a.min(b)..a.max(b)
}

proptest! {
    #[test]
    fn a_place_is_always_a_piece_of_the_text(
        old in text(), new in text(), from in 0..500usize, to in 0..500usize,
    ) {
        let span = span_of(&old, from, to);
        let map = PairMap::new(&old, &new);
        let placed = place(&map, &old, &new, span.clone());
        prop_assert_eq!(placed.state.is_placed(), placed.range.is_some());
        prop_assert!((0.0..=1.0).contains(&placed.confidence));
        if let Some(range) = placed.range {
            let found = new.get(range.clone()).unwrap();
            prop_assert!(!found.trim().is_empty());
            let is_same = found == &old[span.clone()];
            match placed.state {
                Exact => prop_assert!(is_same && range == span),
                Shifted => prop_assert!(is_same && range != span),
                _ => prop_assert!(!is_same),
            }
        }
    }

    #[test]
    fn an_unchanged_text_keeps_every_place(
        old in text(), from in 0..500usize, to in 0..500usize,
    ) {
        let span = span_of(&old, from, to);
        prop_assume!(!span.is_empty());
        let placed = place(&PairMap::new(&old, &old), &old, &old, span.clone());
        prop_assert_eq!(placed, Placed::exact(span, "same"));
    }

    #[test]
    fn text_put_before_shifts_every_place(
        old in "[a-z]{2,8}( [a-z]{2,8}){3,30}", from in 0..500usize, to in 0..500usize,
    ) {
        let span = span_of(&old, from, to);
        prop_assume!(!old[span.clone()].trim().is_empty());
        let new = format!("QQ 77 {old}");
        let placed = place(&PairMap::new(&old, &new), &old, &new, span.clone());
        prop_assert_eq!(placed.state, Shifted);
        let range = placed.range.unwrap();
        prop_assert_eq!(&new[range.clone()], &old[span.clone()]);
        prop_assert_eq!(range.start, span.start + 6);
    }
}
