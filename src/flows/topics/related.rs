//! Other open work on a job's Source, shown to its requester: Topics and proposals awaiting a
//! decision.

use crate::api::jobs::{AlsoOpen, OpenProposal, OpenTopic};
use crate::api::proposals::Proposal;
use crate::api::proposals::ProposalStatus;
use crate::api::topics::TopicStatus;
use crate::base::limit::PAGE_ROWS_MAX;
use crate::base::{JobId, Result};
use crate::documents::proposals::proposal::{self, ProposalFilter};
use crate::documents::topics::topic::{self, TopicFilter};
use crate::flows::Works;
use crate::jobs::{self, Verb};

/// Most Topics, and most proposals, that are named.
const SHOWN: usize = 20;

/// Returns open work on a job's Source, besides its own Topics; empty for a job without a Source.
///
/// # Errors
/// `not_found` if there is no such job.
pub async fn beside(works: &Works, id: &JobId) -> Result<Option<AlsoOpen>> {
    let id = id.clone();
    let found = works.store.read(move |c| {
        let job = jobs::find_brief(c, &jobs::Viewer::Program, &id)?;
        let Some(path) = &job.source_path else { return Ok(None) };
        let open = TopicFilter {
            source_path: Some(path.clone()),
            status: Some(TopicStatus::Open),
            limit: PAGE_ROWS_MAX,
            ..TopicFilter::default()
        };
        let mut topics = topic::list(c, &open)?.items;
        let all = topics.len();
        topics.retain(|it| job.require_topic(&it.id, Verb::Read).is_err());
        let own = i64::try_from(all - topics.len()).unwrap_or(i64::MAX);
        let waiting = ProposalFilter {
            status: Some(ProposalStatus::Open),
            source_path: Some(path.clone()),
            limit: PAGE_ROWS_MAX,
            ..ProposalFilter::default()
        };
        let waiting = proposal::list(c, &waiting)?.items;
        let proposal_count = waiting.len();
        let named = |it: Proposal| {
            let topic_title = topic::find(c, &it.topic_id, None)?.title;
            Ok(OpenProposal { id: it.id, topic_id: it.topic_id, topic_title })
        };
        Ok(Some(AlsoOpen {
            topic_count: topic::count_open_of(c, path)? - own,
            topics: topics
                .into_iter()
                .take(SHOWN)
                .map(|it| OpenTopic { id: it.id, title: it.title })
                .collect(),
            proposals: waiting.into_iter().take(SHOWN).map(named).collect::<Result<_>>()?,
            proposal_count,
        }))
    });
    found.await
}
