//! What a proposed text does to the open Topics of its Source, computed where it is handed in,
//! edited, merged or shown.

use std::collections::BTreeMap;

use crate::base::{Actor, BlobId, Error, Result, SourcePath, TopicId};
use crate::documents::fate::{self, Version};
use crate::documents::{Fate, Placed, Placement, Topic, placement, topic};
use crate::flows::{Works, place};
use crate::store::Tx;

/// What the fate of Topics is judged from.
pub(super) struct Judge {
    /// The open Topics of the Source, each with its place in the base.
    pub(super) open: Vec<Topic>,
    /// Those that the text settles.
    pub(super) settled: Vec<TopicId>,
    /// What was changed.
    pub(super) base: (BlobId, String),
    /// What is proposed.
    pub(super) proposed: (BlobId, String),
    /// Where an agent said where a Topic went; that was verified when it was handed in.
    pub(super) by_agent: BTreeMap<TopicId, Placement>,
}

/// What happens to every other open Topic.
pub(super) struct Judged {
    /// As it is shown.
    pub(super) fate: Vec<Fate>,
    /// As it is kept with the proposed text.
    pub(super) placements: Vec<(TopicId, Placed, Actor)>,
}

impl Judge {
    /// Reads the open Topics of a Source and their places in the base.
    ///
    /// # Errors
    /// As reading the database or git.
    pub(super) async fn of(
        works: &Works,
        path: &SourcePath,
        settled: &[TopicId],
        base: (BlobId, String),
        proposed: (BlobId, String),
    ) -> Result<Judge> {
        let before = place::in_text(works, path, &base.0, &base.1).await?;
        let asked = path.clone();
        let mut open = works.store.read(move |c| topic::list_open_of(c, &asked, None)).await?;
        for topic in &mut open {
            topic.placement = before.get(&topic.id).cloned();
        }
        let (settled, by_agent) = (settled.to_vec(), BTreeMap::new());
        Ok(Judge { open, settled, base, proposed, by_agent })
    }

    /// Judges every open Topic but those that are settled.
    ///
    /// # Errors
    /// `internal` if placing panicked.
    pub(super) async fn judge(self) -> Result<Judged> {
        let judged = tokio::task::spawn_blocking(move || {
            let base = Version { blob: &self.base.0, text: &self.base.1 };
            let proposed = Version { blob: &self.proposed.0, text: &self.proposed.1 };
            let mut fates = fate::fates(&self.open, &self.settled, base, proposed);
            for fate in &mut fates {
                if let Some(placement) = self.by_agent.get(&fate.topic_id) {
                    fate.after = Some(placement.clone());
                }
            }
            let placements = fates.iter().filter_map(kept).collect();
            Judged { fate: fates, placements }
        });
        judged.await.map_err(|cause| Error::internal("placing panicked").source(cause))
    }
}

fn kept(fate: &Fate) -> Option<(TopicId, Placed, Actor)> {
    let after = fate.after.as_ref()?;
    let method = if after.decided_by == Actor::System { "diff" } else { "agent" };
    let range = after.start.zip(after.end).map(|(start, end)| start..end);
    let placed = Placed { state: after.state, range, confidence: after.confidence, method };
    Some((fate.topic_id.clone(), placed, after.decided_by.clone()))
}

/// Keeps the places with the proposed version, in the transaction that stores the proposal.
///
/// # Errors
/// As any write.
pub(super) fn keep(
    tx: &Tx<'_>,
    version: &BlobId,
    placements: &[(TopicId, Placed, Actor)],
) -> Result<()> {
    for (topic, placed, by) in placements {
        placement::put_proposed(tx, topic, version, placed, by)?;
    }
    Ok(())
}
