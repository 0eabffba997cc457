//! G31: what an agent did to the user's branch, index and working tree is noticed and named.
//!
//! An agent is to propose, not to edit. Where it edits, stages, commits or resets all the same, its
//! job is settled by its result as ever, and carries a warning that names what is different.

use std::sync::Arc;

use tracing::warn;

use crate::base::{BlobId, Result};
use crate::documents::attempt;
use crate::documents::snapshot::{Difference, Snapshot};
use crate::flows::Works;
use crate::flows::known::Known;
use crate::jobs::{Watch, Watched};

/// Returns what looks at the repository before a job's agent starts and after it has ended.
pub fn watch(works: &Works) -> Watch {
    let works = works.clone();
    let known = works.repo.folders().map(|folders| {
        let except = vec![works.config.site.data.clone(), works.repo.objects()];
        Known::new(folders, except, works.store.clock().clone())
    });
    Arc::new(move || {
        let (works, known) = (works.clone(), known.clone());
        Box::pin(async move {
            let before = look(&works, known.as_ref()).await;
            let after = move || -> futures_util::future::BoxFuture<'static, Vec<String>> {
                Box::pin(async move {
                    let Some(before) = before else { return Vec::new() };
                    let Some(after) = look(&works, known.as_ref()).await else { return Vec::new() };
                    name(&works, &before.difference(&after)).await.unwrap_or_else(|cause| {
                        warn!("what a job changed cannot be named: {}", cause.chain());
                        Vec::new()
                    })
                })
            };
            Box::new(after) as Watched
        })
    })
}

async fn look(works: &Works, known: Option<&Known<Snapshot>>) -> Option<Snapshot> {
    let looked = match known {
        Some(known) => known.or_look(works.repo.snapshot()).await,
        None => works.repo.snapshot().await,
    };
    match looked {
        Ok(snapshot) => Some(snapshot),
        Err(cause) => {
            // Git may be in the middle of something; a job is not failed for the want of it.
            warn!("the repository cannot be looked at: {}", cause.chain());
            None
        }
    }
}

async fn name(works: &Works, difference: &Difference) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    if let Some((was, is)) = &difference.branch {
        warnings.push(format!("moved_head: {is} is checked out instead of {was}"));
    }
    if let Some((was, is)) = &difference.commit
        && !is_our_commit(works, is.as_ref()).await?
    {
        let short = |it: &Option<BlobId>| {
            it.as_ref().map_or("nothing".to_owned(), |it| it.as_str()[..12].to_owned())
        };
        let (was, is) = (short(was), short(is));
        warnings.push(format!("moved_head: HEAD was {was} and is {is} (see git reflog)"));
    }
    if !difference.files.is_empty() {
        let more = match difference.files_more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let files = difference.files.join(", ");
        warnings.push(format!("touched_tree: {files}{more} changed while the job ran"));
    }
    Ok(warnings)
}

/// An approval of another Source may commit while a job runs: that is no agent's doing.
async fn is_our_commit(works: &Works, commit: Option<&BlobId>) -> Result<bool> {
    let Some(commit) = commit.cloned() else { return Ok(false) };
    works.store.read(move |c| attempt::is_commit(c, &commit)).await
}
