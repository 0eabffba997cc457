//! The proposals for a document that await a decision.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::limit::PAGE_ROWS_MAX;
use crate::base::{ProposalId, Result, SourcePath, TopicId};
use crate::documents::topics::message;
use crate::flows::proposals::ProposalQuery;
use crate::flows::{self, Site};
use crate::http::pages::parts::{form, labels};
use crate::people::Caller;

/// Open proposals by Topic.
pub(in crate::http::pages) struct Waiting {
    source_path: String,
    by_topic: BTreeMap<TopicId, ProposalId>,
    /// Topics with a suggestion without a proposal.
    suggested: BTreeSet<TopicId>,
}

impl Waiting {
    /// Reads them.
    pub(in crate::http::pages) async fn of(
        site: &Site,
        caller: &Caller,
        path: &SourcePath,
    ) -> Result<Waiting> {
        let query = ProposalQuery {
            status: Some("open".to_owned()),
            source_path: Some(path.clone()),
            limit: Some(PAGE_ROWS_MAX),
            ..ProposalQuery::default()
        };
        let found = flows::proposals::list(site, caller, query).await?;
        // The newest of a Topic comes first; an earlier one is about to be superseded.
        let by_topic = found.items.into_iter().rev().map(|it| (it.topic_id, it.id)).collect();
        let asked = path.clone();
        let suggested = site.store.read(move |c| message::suggesting(c, &asked)).await?;
        Ok(Waiting { source_path: path.to_string(), by_topic, suggested })
    }

    /// Returns whether a Topic has a suggestion that is not yet a proposal.
    pub(in crate::http::pages) fn is_suggested(&self, id: &TopicId) -> bool {
        self.suggested.contains(id)
    }

    /// Returns the proposal of a Topic that awaits a decision.
    pub(in crate::http::pages) fn of_topic(&self, id: &TopicId) -> Option<&ProposalId> {
        self.by_topic.get(id)
    }

    /// Returns their number as a sentence; `None` for none.
    pub(in crate::http::pages) fn sentence(&self) -> Option<String> {
        let count = labels::count_of(self.by_topic.len(), "proposal", "proposals");
        (!self.by_topic.is_empty()).then(|| format!("{count} awaiting review"))
    }

    /// Returns a link to them: to the proposal itself if there is only one.
    pub(in crate::http::pages) fn address(&self) -> String {
        match self.by_topic.values().next() {
            Some(id) if self.by_topic.len() == 1 => format!("/proposals/{id}"),
            _ => {
                let query = [("status", Some("open")), ("source_path", Some(&*self.source_path))];
                form::address("/proposals", &query)
            }
        }
    }
}
