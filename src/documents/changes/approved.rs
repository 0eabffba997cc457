//! What approvals committed while a job ran: not its doing, and never undone with it.

use std::collections::BTreeSet;

use rusqlite::Connection;

use crate::base::{BlobId, Result};
use crate::documents::changes::{COMMITS_MAX, Changes, between, refs};
use crate::documents::git::Repo;
use crate::documents::proposals::attempt;
use crate::documents::snapshot::Snapshot;
use crate::store::Store;

/// Most commits among which approvals are looked for.
const SEARCHED_MAX: usize = 50_000;

/// What approvals committed meanwhile on top of commits that are not this site's.
#[derive(Debug, Default)]
pub(super) struct Approved {
    branches: BTreeSet<String>,
    /// The files of those on the branch that is checked out.
    paths: BTreeSet<String>,
}

impl Approved {
    /// Such a branch is not moved back, and such a file keeps its text.
    pub(super) fn note(&self, changes: &mut Changes) {
        for it in &mut changes.refs {
            it.is_approved = self.branches.contains(&it.name);
        }
        for it in changes.files.iter_mut().filter(|it| self.paths.contains(&it.path)) {
            it.obstacle = Some("an approval has committed it meanwhile".to_owned());
        }
    }
}

/// Removes what this site's approvals committed meanwhile, on any branch, from the changes. Returns
/// what they committed behind other commits.
pub(super) async fn forgive(
    repo: &Repo,
    store: &Store,
    before: &mut Snapshot,
    after: &Snapshot,
) -> Result<Approved> {
    let mut approved = Approved::default();
    // A new branch begins where the checked-out one was, as far as anybody knows.
    let begun = before.tip.commit.clone();
    let moved: Vec<(String, bool, BlobId, BlobId)> = refs(before, after)
        .into_iter()
        .filter(|it| it.name.starts_with("refs/heads/"))
        .filter_map(|it| {
            let is_new = it.before.is_none();
            Some((it.name, is_new, it.before.or_else(|| begun.clone())?, it.after?))
        })
        .collect();
    for (name, is_new, was, is) in moved {
        let own = if is_new { was.clone() } else { own_tip(repo, store, &was, &is).await? };
        for (commit, parent) in approvals(repo, store, &own, &is).await? {
            approved.branches.insert(name.clone());
            if after.tip.branch.as_ref() == Some(&name) {
                let paths = between(repo, Some(&parent), Some(&commit)).await?;
                approved.paths.extend(paths.into_keys());
            }
        }
        if own == was {
            continue;
        }
        if before.tip.branch.as_ref() == Some(&name) {
            // An approval requires its file to be clean, and leaves it clean.
            for path in between(repo, Some(&was), Some(&own)).await?.keys() {
                before.paths.remove(path);
            }
            before.tip.commit = Some(own.clone());
        }
        before.refs.insert(name, own);
    }
    Ok(approved)
}

/// Returns the last commit after `was`, toward `is`, that is reached through our approvals only.
async fn own_tip(repo: &Repo, store: &Store, was: &BlobId, is: &BlobId) -> Result<BlobId> {
    let mut own = was.clone();
    let listed = commits(repo, ("--first-parent", COMMITS_MAX), was, is).await?;
    for (commit, parent) in listed.into_iter().rev() {
        let asked = commit.clone();
        let is_ours = store.read(move |c| attempt::is_commit(c, &asked)).await?;
        if parent != own || !is_ours {
            break;
        }
        own = commit;
    }
    Ok(own)
}

/// Returns those of the commits after `was`, toward `is`, that our approvals made, each with its
/// parent.
async fn approvals(
    repo: &Repo,
    store: &Store,
    was: &BlobId,
    is: &BlobId,
) -> Result<Vec<(BlobId, BlobId)>> {
    let all = commits(repo, ("--topo-order", SEARCHED_MAX), was, is).await?;
    let look = move |c: &Connection| {
        let ours = all.into_iter().map(|it| Ok((attempt::is_commit(c, &it.0)?, it)));
        let ours: Vec<(bool, _)> = ours.collect::<Result<_>>()?;
        Ok(ours.into_iter().filter(|it| it.0).map(|it| it.1).collect())
    };
    store.read(look).await
}

/// Returns the commits after `was`, toward `is`, each with its first parent, the newest first.
async fn commits(
    repo: &Repo,
    (how, most): (&str, usize),
    was: &BlobId,
    is: &BlobId,
) -> Result<Vec<(BlobId, BlobId)>> {
    let range = format!("{was}..{is}");
    let limit = format!("--max-count={most}");
    let args = ["rev-list", how, "--parents", &limit, &range, "--"];
    let answer = repo.git().call(&args).run().await?;
    if answer.code != 0 {
        // One of the commits is gone: none of them counts as ours.
        return Ok(Vec::new());
    }
    let listed = String::from_utf8_lossy(&answer.stdout).into_owned();
    let pair = |line: &str| {
        let mut words = line.split(' ');
        Some((words.next()?.to_owned(), words.next()?.to_owned()))
    };
    // A first commit has no parent, and none of them is ours.
    let pairs = listed.lines().filter_map(pair);
    pairs.map(|(commit, parent)| Ok((commit.parse()?, parent.parse()?))).collect()
}
