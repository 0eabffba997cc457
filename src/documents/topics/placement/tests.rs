//! Tests of placements and baselines.

use super::*;
use crate::api::topics::PlacementState;
use crate::documents::fixture::{Fixture, TEXT, blob, source};
use crate::documents::topics::topic;

fn placed(state: PlacementState, range: Option<Range<usize>>) -> Placed {
    Placed { state, range, confidence: 0.75, method: "diff" }
}

#[test]
fn the_baseline_is_the_latest_place() {
    let mut fixture = Fixture::new();
    let topic = fixture.topic("a.md", "rain stops");
    fixture.topic("a.md", "");
    fixture.topic("b.md", "steel");
    let origin = topic.anchor.clone().unwrap().origin;
    let baseline = |fixture: &Fixture| {
        let all = baselines(&fixture.connection, &source("a.md")).unwrap();
        assert_eq!(all.len(), 1, "global topics and other sources have no part in it");
        (all[0].blob.clone(), all[0].start, all[0].end)
    };
    assert_eq!(baseline(&fixture), (blob('a'), origin.start, origin.end));
    for (digit, state, range) in [
        ('b', PlacementState::Shifted, Some(4..9)),
        ('c', PlacementState::Orphaned, None),
        ('d', PlacementState::Ambiguous, Some(1..2)),
    ] {
        let placed = placed(state, range);
        fixture.write(|tx, _| put(tx, &topic.id, &blob(digit), &placed, &Actor::System)).unwrap();
        assert_eq!(baseline(&fixture), (blob('b'), 4, 9));
    }
    // The same version again replaces the earlier decision.
    let again = placed(PlacementState::Edited, Some(5..9));
    fixture.write(|tx, _| put(tx, &topic.id, &blob('c'), &again, &Actor::System)).unwrap();
    assert_eq!(baseline(&fixture), (blob('c'), 5, 9));
    let found = find(&fixture.connection, &topic.id, &blob('c')).unwrap().unwrap();
    assert_eq!(found.range(), Some(5..9));
    let states: Vec<_> = history(&fixture.connection, &topic.id)
        .unwrap()
        .into_iter()
        .map(|it| it.state.as_str())
        .collect();
    assert_eq!(states, ["edited", "ambiguous", "shifted", "exact"]);
}

#[test]
fn a_new_baseline_leaves_the_origin() {
    let mut fixture = Fixture::new();
    let made = fixture.topic("a.md", "rain stops");
    let text = TEXT.replace("rain stops", "snow stops").replace("Risks", "Dangers");
    let start = text.find("snow").unwrap();
    fixture
        .write(|tx, _| {
            let words = anchor::describe(&text, &blob('b'), start..start + 10)?;
            anchor::row::rebase(tx, &made.id, &words)
        })
        .unwrap();
    let anchor = topic::find(&fixture.connection, &made.id, None).unwrap().anchor.unwrap();
    assert_eq!(anchor.quote, "snow stops");
    assert_eq!(anchor.heading_path, ["Plan", "Dangers"]);
    assert_eq!(Some(anchor.origin), made.anchor.map(|it| it.origin));
    let moved = fixture.connection.execute("UPDATE anchors SET origin_start = 0", []);
    assert!(moved.unwrap_err().to_string().contains("never changes"));
}

#[test]
fn topics_of_one_version_are_placed_together() {
    let mut fixture = Fixture::new();
    let one = fixture.topic("a.md", "rain stops").id;
    let two = fixture.topic("a.md", "the bridge").id;
    let all = baselines(&fixture.connection, &source("a.md")).unwrap();
    assert!(all.iter().all(|it| it.blob == blob('a')));
    let origin = |it: &Baseline| TopicOrigin { id: it.topic_id.clone(), span: it.start..it.end };
    let group: Vec<TopicOrigin> = all.iter().map(origin).collect();
    let new = TEXT.replace("- rain stops the work\n", "").replace("# Plan", "# The Plan");
    let found = place_all(&group, TEXT, &new);
    assert_eq!(found[0], (one, Placed::orphaned()));
    assert_eq!((&found[1].0, found[1].1.state), (&two, PlacementState::Shifted));
    assert!(place_all(&[], TEXT, &new).is_empty());
}
