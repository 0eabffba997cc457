//! What a proposed text does to the open Topics of its Source: shown before anybody approves it.

use serde::Serialize;

use crate::base::{Actor, BlobId, TopicId};
use crate::documents::anchor::{self, PairMap, Placed};
use crate::documents::placement::Placement;
use crate::documents::topic::Topic;

/// A text and the blob id that it has.
#[derive(Clone, Copy, Debug)]
pub struct Version<'t> {
    /// The blob id.
    pub blob: &'t BlobId,
    /// The text.
    pub text: &'t str,
}

/// What happens to one Topic.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fate {
    /// The Topic.
    pub topic_id: TopicId,
    /// What it is called.
    pub title: String,
    /// The words that it is about; empty for a global one.
    pub quote: String,
    /// Where they are in the base; none for a global Topic.
    pub before: Option<Placement>,
    /// Where they would be; none for a global Topic.
    pub after: Option<Placement>,
}

/// Returns the fate of every open Topic but the one that the proposal settles. `topics` are the
/// open Topics of the Source; the placement of each must be that in the base text, if known.
///
/// A Topic whose place in the base is not known, or that has none, is looked for by its quote:
/// text can come back.
pub fn fates(
    topics: &[Topic],
    settled: &TopicId,
    base: Version<'_>,
    proposed: Version<'_>,
) -> Vec<Fate> {
    let map = PairMap::new(base.text, proposed.text);
    let others = topics.iter().filter(|it| it.id != *settled);
    others.map(|topic| fate(topic, &map, base, proposed)).collect()
}

fn fate(topic: &Topic, map: &PairMap, base: Version<'_>, proposed: Version<'_>) -> Fate {
    let mut fate = Fate {
        topic_id: topic.id.clone(),
        title: topic.title.clone(),
        quote: String::new(),
        before: None,
        after: None,
    };
    let Some(anchor) = &topic.anchor else { return fate };
    fate.quote.clone_from(&anchor.quote);
    let by_quote =
        |text: &str| anchor::place_by_quote(text, &anchor.quote, &anchor.prefix, &anchor.suffix);
    let known = topic.placement.clone().filter(|it| it.blob == *base.blob);
    let before = known.unwrap_or_else(|| decided(base.blob, &by_quote(base.text)));
    let after = match before.range() {
        Some(range) => anchor::place(map, base.text, proposed.text, range),
        None => by_quote(proposed.text),
    };
    fate.before = Some(before);
    fate.after = Some(decided(proposed.blob, &after));
    fate
}

fn decided(blob: &BlobId, placed: &Placed) -> Placement {
    Placement::new(blob, placed, &Actor::System)
}
