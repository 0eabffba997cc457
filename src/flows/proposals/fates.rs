//! The effect of a proposed text on the open Topics of its Source, computed when the text is
//! submitted, edited, rebased or shown.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::api::proposals::Fate;
use crate::api::topics::{Placement, PlacementState, Topic};
use crate::base::{Actor, BlobId, Error, ProposalId, Result, SourcePath, TopicId, fault};
use crate::documents::Placed;
use crate::documents::anchor::{self, PairMap};
use crate::documents::proposals::fate::{self, Version};
use crate::documents::proposals::proposal;
use crate::documents::topics::{placement, topic};
use crate::flows::Works;
use crate::flows::topics::places;
use crate::store::Tx;

/// The facts behind the fates of Topics.
pub(in crate::flows) struct Judge {
    /// The open Topics of the Source, each with its place in the base.
    pub(in crate::flows) open: Vec<Topic>,
    /// The Topics that the text settles.
    pub(in crate::flows) settled: Vec<TopicId>,
    /// The base.
    pub(in crate::flows) base: (BlobId, String),
    /// The proposed text.
    pub(in crate::flows) proposed: (BlobId, String),
    /// Places that an agent named; they were verified when the text was submitted.
    pub(in crate::flows) by_agent: BTreeMap<TopicId, Placement>,
    /// Topics without a place in the base, searched from the last text in which they had one.
    again: BTreeMap<TopicId, Placed>,
}

/// A place of a Topic in the proposed text that somebody named.
pub(in crate::flows) struct Claim {
    pub(in crate::flows) topic: TopicId,
    pub(in crate::flows) range: Range<usize>,
    pub(in crate::flows) by: Actor,
}

/// The fate of every other open Topic.
pub(in crate::flows) struct Judged {
    /// For display.
    pub(in crate::flows) fate: Vec<Fate>,
    /// For storage with the proposed text.
    pub(in crate::flows) placements: Vec<(TopicId, Placed, Actor)>,
}

impl Judge {
    /// Reads the open Topics of a Source and their places in the base.
    ///
    /// # Errors
    /// As reading the database or git.
    pub(in crate::flows) async fn of(
        works: &Works,
        path: &SourcePath,
        settled: &[TopicId],
        base: (BlobId, String),
        proposed: (BlobId, String),
    ) -> Result<Judge> {
        let before = places::in_text(works, path, &base.0, &base.1).await?;
        let asked = path.clone();
        let mut open = works.store.read(move |c| topic::list_open_of(c, &asked, None)).await?;
        for topic in &mut open {
            topic.placement = before.get(&topic.id).cloned();
        }
        let lost =
            before.into_iter().filter(|(id, it)| it.range().is_none() && !settled.contains(id));
        let lost = lost.map(|(id, _)| id).collect();
        let again = places::again(works, path, lost, &proposed.1).await?;
        let (settled, by_agent) = (settled.to_vec(), BTreeMap::new());
        Ok(Judge { open, settled, base, proposed, by_agent, again })
    }

    /// Applies named places where the texts do not contradict them.
    ///
    /// # Errors
    /// `internal` if weighing panicked.
    pub(in crate::flows) async fn believe(&mut self, claims: Vec<Claim>) -> Result<()> {
        if claims.is_empty() {
            return Ok(());
        }
        let place = |id: &TopicId| {
            let topic = self.open.iter().find(|it| it.id == *id)?;
            topic.placement.as_ref()?.range()
        };
        let spans: Vec<_> = claims.iter().map(|it| place(&it.topic)).collect();
        let (base, (blob, text)) = (self.base.1.clone(), self.proposed.clone());
        let weighed = tokio::task::spawn_blocking(move || {
            let map = PairMap::new(&base, &text);
            let all = claims.into_iter().zip(spans);
            all.filter_map(|(it, span)| {
                let placed = anchor::weigh(&map, &base, &text, span, &it.range)?;
                Some((it.topic, Placement::new(&blob, &placed, &it.by)))
            })
            .collect()
        });
        self.by_agent =
            weighed.await.map_err(|cause| Error::internal("weighing panicked").source(cause))?;
        Ok(())
    }

    /// Keeps the places that agents named for an earlier revision, if their passages are unchanged
    /// in this one.
    ///
    /// # Errors
    /// As reading the database.
    pub(in crate::flows) async fn carry(&mut self, works: &Works, from: &ProposalId) -> Result<()> {
        let (from, settled) = (from.clone(), self.settled.clone());
        let open: Vec<TopicId> = self.open.iter().map(|it| it.id.clone()).collect();
        let (was, claims) = works
            .store
            .read(move |c| {
                let version = proposal::find(c, &from)?.proposed_sha;
                let mut claims = Vec::new();
                for topic in open.into_iter().filter(|it| !settled.contains(it)) {
                    let found = placement::find(c, &topic, &version)?;
                    let found = found.filter(|it| it.method == "agent");
                    if let Some((range, it)) = found.and_then(|it| Some((it.range()?, it))) {
                        claims.push(Claim { topic, range, by: it.decided_by });
                    }
                }
                Ok((proposal::text(c, &from)?, claims))
            })
            .await?;
        if claims.is_empty() || fault::is_off("carried_anchors") {
            return Ok(());
        }
        let text = self.proposed.1.clone();
        let carried = tokio::task::spawn_blocking(move || {
            let map = PairMap::new(&was, &text);
            let is_same =
                |it: &Placed| matches!(it.state, PlacementState::Exact | PlacementState::Shifted);
            let followed = claims.into_iter().filter_map(|it| {
                let placed = anchor::place(&map, &was, &text, it.range.clone());
                Some(Claim { range: Some(placed).filter(is_same)?.range?, ..it })
            });
            followed.collect()
        });
        let carried = carried.await;
        self.believe(carried.map_err(|cause| Error::internal("placing panicked").source(cause))?)
            .await
    }

    /// Computes the fate of every open Topic that is not settled.
    ///
    /// # Errors
    /// `internal` if placing panicked.
    pub(in crate::flows) async fn judge(self) -> Result<Judged> {
        let judged = tokio::task::spawn_blocking(move || {
            let base = Version { blob: &self.base.0, text: &self.base.1 };
            let proposed = Version { blob: &self.proposed.0, text: &self.proposed.1 };
            let mut fates = fate::fates(&self.open, &self.settled, base, proposed);
            self.look_again(&mut fates);
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

impl Judge {
    /// Fills in the places of Topics without one in the base, unless their passage belongs to
    /// another Topic.
    fn look_again(&self, fates: &mut [Fate]) {
        let origin = |it: &Fate| {
            let topic = self.open.iter().find(|topic| topic.id == it.topic_id)?;
            topic.anchor.as_ref().map(|it| it.origin.clone())
        };
        let mut found = Vec::new();
        for (at, fate) in fates.iter().enumerate() {
            let (Some(after), Some(origin)) = (&fate.after, origin(fate)) else { continue };
            let again = self.again.get(&fate.topic_id).filter(|it| it.state.is_placed());
            let placed = again.cloned().unwrap_or_else(|| Placed {
                state: after.state,
                range: after.range(),
                confidence: after.confidence,
                method: "diff",
            });
            found.push((at, placed, origin));
        }
        let mut placed: Vec<Placed> = found.iter().map(|it| it.1.clone()).collect();
        let is_lost = |at: usize| self.again.contains_key(&fates[found[at].0].topic_id);
        anchor::part(&mut placed, |left, right| {
            let (one, other) = (&found[left].2, &found[right].2);
            let is_shared =
                one.blob == other.blob && one.start < other.end && other.start < one.end;
            is_shared || !(is_lost(left) || is_lost(right))
        });
        let changed = found
            .iter()
            .zip(placed)
            .filter(|((at, ..), _)| self.again.contains_key(&fates[*at].topic_id));
        let changed: Vec<(usize, Placed)> = changed.map(|((at, ..), it)| (*at, it)).collect();
        for (at, placed) in changed {
            fates[at].after = Some(Placement::new(&self.proposed.0, &placed, &Actor::System));
        }
    }
}

fn kept(fate: &Fate) -> Option<(TopicId, Placed, Actor)> {
    let after = fate.after.as_ref()?;
    let method = if after.decided_by == Actor::System { "diff" } else { "agent" };
    let range = after.start.zip(after.end).map(|(start, end)| start..end);
    let placed = Placed { state: after.state, range, confidence: after.confidence, method };
    Some((fate.topic_id.clone(), placed, after.decided_by.clone()))
}

/// Stores the places in the proposed version, in the transaction that stores the proposal.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn keep(
    tx: &Tx<'_>,
    version: &BlobId,
    placements: &[(TopicId, Placed, Actor)],
) -> Result<()> {
    for (topic, placed, by) in placements {
        placement::put_proposed(tx, topic, version, placed, by)?;
    }
    Ok(())
}
