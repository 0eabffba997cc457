//! What approvals committed while a job ran: not its doing, and never undone with it.

use std::collections::BTreeSet;

use rusqlite::Connection;

use crate::base::{BlobId, Result};
use crate::documents::changes::{COMMITS_MAX, Changes, RefChange, between, refs};
use crate::documents::git::Repo;
use crate::documents::proposals::attempt;
use crate::documents::snapshot::Snapshot;
use crate::store::Store;

/// Most commits among which approvals are looked for.
const SEARCHED_MAX: usize = 50_000;

/// Most branches that are asked what they have.
const BRANCHES_MAX: usize = 1_000;

/// What approvals committed meanwhile on top of commits that are not this site's.
#[derive(Debug, Default)]
pub(super) struct Approved {
    branches: BTreeSet<String>,
    /// Their files, as far as they may be checked out.
    paths: BTreeSet<String>,
}

impl Approved {
    async fn add(
        &mut self,
        repo: &Repo,
        (name, found): (&str, Vec<(BlobId, BlobId)>),
        after: &Snapshot,
    ) -> Result<()> {
        for (commit, parent) in found {
            self.branches.insert(name.to_owned());
            if after.tip.branch.as_deref() == Some(name) {
                let paths = between(repo, Some(&parent), Some(&commit)).await?;
                self.paths.extend(paths.into_keys());
            }
        }
        Ok(())
    }

    /// Such a branch is not moved back, and such a file keeps its text.
    pub(super) fn note(&self, changes: &mut Changes) {
        for it in &mut changes.refs {
            it.is_approved |= self.branches.contains(&it.name);
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
    let heads = refs(before, after).into_iter().filter(|it| it.name.starts_with("refs/heads/"));
    let (new, moved): (Vec<RefChange>, Vec<RefChange>) = heads.partition(|it| it.before.is_none());
    // What other branches have is not lost with a new one.
    let is_other =
        |name: &&String| name.starts_with("refs/heads/") && before.refs.contains_key(*name);
    let others = after.refs.iter().filter(|it| is_other(&it.0)).map(|it| it.1.clone());
    let others: Vec<BlobId> = others.take(BRANCHES_MAX).collect();
    for (name, is) in new.into_iter().filter_map(|it| Some((it.name, it.after?))) {
        let found = approvals(repo, store, &others, &is).await?;
        approved.add(repo, (&name, found), after).await?;
    }
    for (name, was, is) in moved.into_iter().filter_map(|it| Some((it.name, it.before?, it.after?)))
    {
        let own = own_tip(repo, store, &was, &is).await?;
        let found = approvals(repo, store, std::slice::from_ref(&own), &is).await?;
        approved.add(repo, (&name, found), after).await?;
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

impl Changes {
    /// Finds the approvals in changes that an earlier version recorded without them.
    ///
    /// # Errors
    /// `unavailable` if git or the database fails.
    pub async fn find_approved(&mut self, repo: &Repo, store: &Store) -> Result<()> {
        let mut approved = Approved::default();
        for it in self.refs.iter().filter(|it| it.name.starts_with("refs/heads/")) {
            let (Some(was), Some(is)) = (&it.before, &it.after) else { continue };
            for (commit, parent) in approvals(repo, store, std::slice::from_ref(was), is).await? {
                approved.branches.insert(it.name.clone());
                let paths = between(repo, Some(&parent), Some(&commit)).await?;
                approved.paths.extend(paths.into_keys());
            }
        }
        approved.note(self);
        Ok(())
    }
}

/// Returns the last commit after `was`, toward `is`, that is reached through our approvals only.
async fn own_tip(repo: &Repo, store: &Store, was: &BlobId, is: &BlobId) -> Result<BlobId> {
    let mut own = was.clone();
    let was_only = std::slice::from_ref(was);
    let listed = commits(repo, ("--first-parent", COMMITS_MAX), was_only, is).await?;
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

/// Returns those of the commits that `is` has and none of the others, and that our approvals made,
/// each with its parent.
async fn approvals(
    repo: &Repo,
    store: &Store,
    others: &[BlobId],
    is: &BlobId,
) -> Result<Vec<(BlobId, BlobId)>> {
    let all = commits(repo, ("--topo-order", SEARCHED_MAX), others, is).await?;
    let look = move |c: &Connection| {
        let ours = all.into_iter().map(|it| Ok((attempt::is_commit(c, &it.0)?, it)));
        let ours: Vec<(bool, _)> = ours.collect::<Result<_>>()?;
        Ok(ours.into_iter().filter(|it| it.0).map(|it| it.1).collect())
    };
    store.read(look).await
}

/// Returns the commits that `is` has and none of the others, each with its first parent, the newest
/// first.
async fn commits(
    repo: &Repo,
    (how, most): (&str, usize),
    others: &[BlobId],
    is: &BlobId,
) -> Result<Vec<(BlobId, BlobId)>> {
    let limit = format!("--max-count={most}");
    let call = repo.git().call(&["rev-list", how, "--parents", &limit, is.as_str()]);
    let call = others.iter().fold(call, |call, it| call.arg(format!("^{it}"))).arg("--");
    let answer = call.run().await?;
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
