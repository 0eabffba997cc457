//! Topics on a deleted Source: their passage has no place, and the placement gives the reason.

use std::collections::BTreeMap;

use crate::api::topics::{Placement, PlacementState, Topic, TopicStatus};
use crate::base::{Actor, Result, SourcePath};
use crate::documents::topics::placement;
use crate::flows::Site;

/// The method of a placement that is lost because its Source was deleted.
const METHOD: &str = "source_deleted";

/// Marks open Topics of deleted Sources, of any Source.
///
/// # Errors
/// As [`mark_of`].
pub(in crate::flows) async fn mark_all(site: &Site, topics: &mut [Topic]) -> Result<()> {
    let mut by_source: BTreeMap<SourcePath, Vec<&mut Topic>> = BTreeMap::new();
    for topic in topics {
        by_source.entry(topic.source_path.clone()).or_default().push(topic);
    }
    for (path, topics) in by_source {
        mark_of(site, &path, topics).await?;
    }
    Ok(())
}

/// Marks the open Topics of one Source, if it was deleted.
///
/// # Errors
/// `unavailable` if git cannot say; as any read.
pub(in crate::flows) async fn mark_of(
    site: &Site,
    path: &SourcePath,
    topics: impl IntoIterator<Item = &mut Topic>,
) -> Result<()> {
    let is_open = |topic: &&mut Topic| topic.status == TopicStatus::Open;
    let mut open = topics.into_iter().filter(is_open).peekable();
    if open.peek().is_none() {
        return Ok(());
    }
    let Some(deletion) = site.repo.deletion(path).await? else { return Ok(()) };
    for topic in open {
        if topic.anchor.is_some() {
            let last = match topic.placement.take() {
                Some(last) => Some(last),
                None => site.store.look(|c| placement::latest(c, &topic.id))?,
            };
            topic.placement = last.map(|last| Placement {
                state: PlacementState::Orphaned,
                start: None,
                end: None,
                confidence: 0.0,
                method: METHOD.to_owned(),
                decided_by: Actor::System,
                ..last
            });
        }
        topic.source_deleted = Some(deletion.clone());
    }
    Ok(())
}
