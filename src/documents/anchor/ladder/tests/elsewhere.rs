//! Tests of the later steps: moved blocks, replaced words, ties.

use proptest::prelude::*;

use super::{check, unmark};
use crate::api::topics::PlacementState;
use crate::documents::anchor::ladder::place;
use crate::documents::anchor::{PairMap, place_together};

use PlacementState::{Ambiguous, Edited, Moved, Orphaned, Rewritten};

const RAIN: &str = "The crew stops work when heavy rain falls on the steel deck.";
const CRANE: &str = "A mobile crane lifts every beam onto its two concrete bearings.";
const PAINT: &str = "Two coats of grey paint protect all surfaces against the salty air.";
const STAFF: &str = "Visitors report to the site office and wear a helmet at all times.";

fn text(blocks: &[&str]) -> String {
    blocks.join("\n\n") + "\n"
}

#[test]
fn a_paragraph_that_went_elsewhere_is_moved() {
    let rain = RAIN.replace("heavy rain", "[heavy rain]");
    let old = text(&[&rain, CRANE, PAINT, STAFF]);
    let new = text(&[CRANE, PAINT, STAFF, RAIN]);
    check(&old, &new, Moved, &text(&[CRANE, PAINT, STAFF, &rain]));
    // Edited while it moved.
    let edited = RAIN.replace("stops work", "goes home").replace("heavy rain", "strong rain");
    let new = text(&[CRANE, PAINT, STAFF, &edited]);
    check(
        &old,
        &new,
        Moved,
        &text(&[CRANE, PAINT, STAFF, &edited.replace("strong rain", "[strong rain]")]),
    );
}

#[test]
fn a_section_moves_with_its_short_and_repeated_blocks() {
    let note = "See above.";
    let old = text(&["# A", PAINT, "[See above.]", "# B", STAFF, CRANE, note, RAIN]);
    let new = text(&["# B", STAFF, CRANE, note, RAIN, "# A", PAINT, note]);
    let shown = text(&["# B", STAFF, CRANE, note, RAIN, "# A", PAINT, "[See above.]"]);
    check(&old, &new, Moved, &shown);
}

#[test]
fn a_lookalike_is_no_place_to_move_to() {
    let twin = RAIN.replace("heavy", "light").replace("steel", "wooden");
    let old = text(&[&format!("[{RAIN}]"), CRANE, PAINT, &twin]);
    // The twin stays in place, and is therefore no candidate.
    let new = text(&[CRANE, PAINT, &twin]);
    check(&old, &new, Orphaned, &new);
    // The twin moves: the words are the twin's, not the deleted block's.
    let new = text(&[CRANE, &twin, PAINT]);
    check(&old, &new, Orphaned, &new);
}

#[test]
fn a_lookalike_that_is_edited_beside_the_deleted_one_is_not_taken_for_it() {
    let twin = RAIN.replace("heavy rain falls", "deep snow lies").replace("steel", "wooden");
    let old = text(&[CRANE, &format!("[{RAIN}]"), &twin, PAINT]);
    let edited = twin.replace("crew", "team");
    let new = text(&[CRANE, &edited, PAINT]);
    check(&old, &new, Orphaned, &new);
}

#[test]
fn two_places_of_equal_right_are_ambiguous() {
    let old = text(&[&format!("[{RAIN}]"), CRANE, PAINT, STAFF]);
    let new = text(&[CRANE, PAINT, RAIN, STAFF, RAIN]);
    check(&old, &new, Ambiguous, &new);
    // Two lines of which one is left, changed: it may be either.
    check("[a]👍    \n\naa aaa acaa\n\n a👍\n", "👍b", Ambiguous, "👍b");
}

#[test]
fn replaced_words_between_words_that_stay_are_for_a_person_to_look_at() {
    check(
        "They meet [on the second Monday] of each month.",
        "They meet [whenever somebody asks] of each month.".replace(['[', ']'], "").as_str(),
        Rewritten,
        "They meet [whenever somebody asks] of each month.",
    );
    // Something different in place of a whole paragraph is not a rewrite of it.
    let old = text(&[CRANE, &format!("[{RAIN}]"), PAINT]);
    let new = text(&[CRANE, STAFF, PAINT]);
    check(&old, &new, Orphaned, &new);
}

#[test]
fn few_words_are_enough_in_a_paragraph_that_stayed() {
    let old = "The crew stops work when [heavy rain falls upon deck] plates near the old bridge.";
    let new = "The crew stops work when strong wind blows upon tower plates near the old bridge.";
    let (plain, span) = unmark(old);
    let placed = place(&PairMap::new(&plain, new), &plain, new, span);
    assert!(matches!(placed.state, Edited | Rewritten), "{placed:?}");
    assert_eq!(placed.range.map(|it| &new[it]), Some("strong wind blows upon tower"));
}

proptest! {
    /// Spans that shared nothing never get the same words, however blocks are shuffled.
    #[test]
    fn no_words_are_given_to_two_spans(
        order in proptest::sample::subsequence((0..8_usize).collect::<Vec<_>>(), 2..8)
            .prop_shuffle(),
        dropped in 0..8_usize,
        words in proptest::collection::vec("[a-d]{3,6}", 64),
    ) {
        let blocks: Vec<String> = words.chunks(8).map(|it| it.join(" ")).collect();
        let old = blocks.join("\n\n") + "\n";
        let kept: Vec<String> = order
            .iter()
            .map(|it| blocks[*it].replacen(&words[it * 8 + dropped], "other", 1))
            .collect();
        let new = kept.join("\n\n") + "\n";
        let map = PairMap::new(&old, &new);
        let mut start = 0;
        let mut spans = Vec::new();
        for block in &blocks {
            spans.push(start..start + block.len());
            start += block.len() + 2;
        }
        let placed = place_together(&map, &old, &new, &spans);
        let mut taken: Vec<_> = placed.into_iter().filter_map(|it| it.range).collect();
        taken.sort_by_key(|it| it.start);
        for it in &taken {
            prop_assert!(new.get(it.clone()).is_some());
        }
        for pair in taken.windows(2) {
            let shared = pair[0].end.saturating_sub(pair[1].start);
            let shorter = pair[0].len().min(pair[1].len());
            prop_assert!(shared * 2 <= shorter, "{taken:?}\n{old}\n{new}");
        }
    }
}
