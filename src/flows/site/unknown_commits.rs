//! Commits in the branch that a database does not know: those of proposals that it has as open.
//!
//! **Invariant:** nobody approves by what a commit's text says, since whoever may commit can write
//! it: an approver is taken from a journal of approvals, or it is nobody.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::api::proposals::{Proposal, ProposalStatus};
use crate::base::limit::PAGE_ROWS_MAX;
use crate::base::{Actor, BlobId, Ids, ProposalId, Result, TopicId};
use crate::documents::Repo;
use crate::documents::commit::{Adopted, adopt, commit_of};
use crate::documents::proposals::proposal::{self, ProposalFilter};
use crate::flows::Works;
use crate::flows::proposals::approve;
use crate::flows::search::Index;
use crate::flows::site::restore::{Offline, Report};
use crate::jobs::{Engines, Generation, Generations};
use crate::people;
use crate::store::Store;

/// How far back git is searched for the commit of an open proposal.
const COMMITS_MAX: usize = 200;

/// Which proposals whose text is in a commit are recorded as approved.
#[derive(Clone, Copy)]
pub(in crate::flows) enum Adopts<'a> {
    /// None; they are only reported.
    Nothing,
    /// Those that a later database has as approved, with its approver.
    Approved(&'a BTreeMap<ProposalId, Actor>),
    /// All, without an approver.
    All,
}

/// A proposal in the branch that the database does not have as approved.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Found {
    /// The proposal.
    pub proposal_id: ProposalId,
    /// Its Topic.
    pub topic_id: TopicId,
    /// The commit that holds it.
    pub commit: BlobId,
    /// The approver named in the commit; anybody who can commit can write that.
    pub claimed_by: Option<String>,
    /// Whether it is now recorded as approved.
    pub settled: bool,
}

/// Completes or rolls back unfinished approvals, if changes are allowed, and searches git for the
/// commits of open proposals.
///
/// # Errors
/// As the database; what git cannot say is in the report.
pub(in crate::flows) async fn reconcile(
    site: &Offline,
    store: &Store,
    (changes, adopts): (bool, Adopts<'_>),
    report: &mut Report,
) -> Result<()> {
    let repo = match &site.repo {
        Ok(repo) => repo,
        Err(cause) => {
            report.git_problem = Some(cause.chain());
            return Ok(());
        }
    };
    let ids = Ids::new(site.clock.clone());
    if changes {
        let works = Works {
            store: store.clone(),
            ids: ids.clone(),
            config: Arc::clone(&site.config),
            scripts: Generations::new(Generation::new(
                1,
                Arc::clone(&site.config),
                site.vm.clone(),
                Engines::default(),
            )),
            held: None,
            repo: repo.clone(),
            freshness: Default::default(),
            wb_agent: site.wb_agent.clone(),
            search: Index::default(),
            chat: Default::default(),
            outbound: Default::default(),
            gateway: Default::default(),
        };
        // An unfinished approval is completed or rolled back first, because it holds its branch.
        if let Err(cause) = approve::recover(&works).await {
            report.git_problem = Some(cause.chain());
        }
    }
    for proposal in open_proposals(store).await? {
        match find_approval(repo, store, &ids, &proposal, adopts).await {
            Ok(Some(found)) => report.approvals.push(found),
            Ok(None) => {}
            Err(cause) => report.git_problem = Some(cause.chain()),
        }
    }
    repo.close().await;
    Ok(())
}

async fn open_proposals(store: &Store) -> Result<Vec<Proposal>> {
    let mut filter = ProposalFilter {
        status: Some(ProposalStatus::Open),
        limit: PAGE_ROWS_MAX,
        ..ProposalFilter::default()
    };
    let mut open = Vec::new();
    loop {
        let asked = filter.clone();
        let page = store.read(move |c| proposal::list(c, &asked)).await?;
        open.extend(page.items);
        match page.next {
            Some(next) => filter.after = Some(next.parse()?),
            None => return Ok(open),
        }
    }
}

async fn find_approval(
    repo: &Repo,
    store: &Store,
    ids: &Ids,
    proposal: &Proposal,
    adopts: Adopts<'_>,
) -> Result<Option<Found>> {
    let asked = proposal.id.clone();
    let now = store.read(move |c| proposal::find(c, &asked)).await?;
    // Another approval may have made it stale in the meantime.
    let is_open = matches!(now.status, ProposalStatus::Open | ProposalStatus::Stale);
    let found = commit_of(repo, proposal, COMMITS_MAX).await?;
    let (Some((commit, claimed_by)), true) = (found, is_open) else { return Ok(None) };
    let approver = match adopts {
        Adopts::Nothing => None,
        Adopts::Approved(approvers) => approvers.get(&proposal.id).cloned(),
        Adopts::All => Some(Actor::System),
    };
    let mut settled = false;
    if let (Some(approver), ProposalStatus::Open) = (approver, now.status) {
        let approver = known(store, approver).await?;
        let note = match &claimed_by {
            Some(name) => format!("found in git; the commit says: approved by {name}"),
            None => "found in git".to_owned(),
        };
        let adopted = Adopted { id: ids.mint(), commit: commit.clone(), approver, note };
        adopt(repo, store, &approve::settle(), proposal, adopted).await?;
        settled = true;
    }
    let (proposal_id, topic_id) = (proposal.id.clone(), proposal.topic_id.clone());
    Ok(Some(Found { proposal_id, topic_id, commit, claimed_by, settled }))
}

/// A person added after the backup is unknown in it.
async fn known(store: &Store, approver: Actor) -> Result<Actor> {
    let Some(id) = approver.person().cloned() else { return Ok(approver) };
    let found = store.read(move |c| people::find(c, &id)).await?;
    Ok(if found.is_some() { approver } else { Actor::System })
}
