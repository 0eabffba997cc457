//! Predicts what a proposed text does to the open Topics of its Source, shown before approval.

use std::ops::Range;

use crate::api::proposals::Fate;
use crate::api::topics::{Anchor, Placement, PlacementState, Topic};
use crate::base::{Actor, BlobId, TopicId};
use crate::documents::anchor::{self, PairMap, Placed};

/// A text with its blob id.
#[derive(Clone, Copy, Debug)]
pub struct Version<'t> {
    /// The blob id.
    pub blob: &'t BlobId,
    /// The text.
    pub text: &'t str,
}

/// Returns the fate of every open Topic except those that the proposal resolves. `topics` are the
/// open Topics of the Source, each with its placement in the base text, if known.
///
/// A Topic without a known place in the base is searched by its quote: text can come back.
pub fn fates(
    topics: &[Topic],
    settled: &[TopicId],
    base: Version<'_>,
    proposed: Version<'_>,
) -> Vec<Fate> {
    let others = topics.iter().filter(|it| !settled.contains(&it.id));
    let mut fates: Vec<(Fate, Option<&Anchor>)> =
        others.map(|topic| (before(topic, base), topic.anchor.as_ref())).collect();
    let ranges = fates.iter().filter_map(|(fate, _)| fate.before.as_ref()?.range());
    let spans: Vec<Range<usize>> = ranges.collect();
    let map = PairMap::new(base.text, proposed.text);
    let mut placed = anchor::place_together(&map, base.text, proposed.text, &spans).into_iter();
    for (fate, anchor) in &mut fates {
        let (Some(anchor), Some(before)) = (anchor, &fate.before) else { continue };
        let after = match before.range() {
            Some(_) => {
                let found = placed.next().unwrap_or_else(Placed::orphaned);
                if before.state == PlacementState::Rewritten { found.in_doubt() } else { found }
            }
            None => by_quote(anchor, proposed.text),
        };
        fate.after = Some(decided(proposed.blob, &after));
    }
    fates.into_iter().map(|(fate, _)| fate).collect()
}

/// Returns a Topic's placement in the base, without the one in the proposed text.
fn before(topic: &Topic, base: Version<'_>) -> Fate {
    let known = topic.placement.clone().filter(|it| it.blob == *base.blob);
    let before = topic
        .anchor
        .as_ref()
        .map(|anchor| known.unwrap_or_else(|| decided(base.blob, &by_quote(anchor, base.text))));
    Fate {
        topic_id: topic.id.clone(),
        title: topic.title.clone(),
        quote: topic.anchor.as_ref().map_or_else(String::new, |it| it.quote.clone()),
        before,
        after: None,
    }
}

fn by_quote(anchor: &Anchor, text: &str) -> Placed {
    anchor::place_by_quote(text, &anchor.quote, &anchor.prefix, &anchor.suffix)
}

fn decided(blob: &BlobId, placed: &Placed) -> Placement {
    Placement::new(blob, placed, &Actor::System)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::fixture::{Fixture, TEXT, blob, source};
    use crate::documents::topics::topic;

    #[test]
    fn every_other_open_topic_has_a_fate() {
        let mut fixture = Fixture::new();
        let settled = fixture.topic("a.md", "May").id;
        for words in ["rain stops the work", "steel comes late", "We build the bridge", ""] {
            fixture.topic("a.md", words);
        }
        let (base, proposed) = (blob('a'), blob('b'));
        let topics =
            topic::list_open_of(&fixture.connection, &source("a.md"), Some(&base)).unwrap();
        let text = "# Plan\n\nWe build the bridge in June.\n\n## Risks\n\n\
            - the steel may come late\n";
        let fates = fates(
            &topics,
            std::slice::from_ref(&settled),
            Version { blob: &base, text: TEXT },
            Version { blob: &proposed, text },
        );
        let shown: Vec<(&str, Option<&str>)> = fates
            .iter()
            .map(|it| (it.quote.as_str(), it.after.as_ref().map(|after| after.state.as_str())))
            .collect();
        assert_eq!(
            shown,
            [
                ("rain stops the work", Some("orphaned")),
                ("steel comes late", Some("edited")),
                ("We build the bridge", Some("exact")),
                ("", None),
            ]
        );
        let after = fates[1].after.as_ref().unwrap();
        assert_eq!(after.blob, proposed);
        assert_eq!(&text[after.range().unwrap()], "steel may come late");
        let json = serde_json::to_value(&fates[3]).unwrap();
        assert_eq!(json["before"], serde_json::Value::Null);
        assert_eq!(json["after"], serde_json::Value::Null);
    }

    #[test]
    fn words_that_come_back_are_found_by_their_quote() {
        let mut fixture = Fixture::new();
        let settled = fixture.topic("a.md", "").id;
        fixture.topic("a.md", "rain stops the work");
        let (base, proposed) = (blob('c'), blob('a'));
        let topics =
            topic::list_open_of(&fixture.connection, &source("a.md"), Some(&base)).unwrap();
        let without = TEXT.replace("- rain stops the work\n", "");
        let fates = fates(
            &topics,
            std::slice::from_ref(&settled),
            Version { blob: &base, text: &without },
            Version { blob: &proposed, text: TEXT },
        );
        assert_eq!(fates[0].before.as_ref().unwrap().state.as_str(), "orphaned");
        let after = fates[0].after.as_ref().unwrap();
        assert_eq!((after.state.as_str(), after.method.as_str()), ("shifted", "quote"));
        assert_eq!(&TEXT[after.range().unwrap()], "rain stops the work");
    }
}
