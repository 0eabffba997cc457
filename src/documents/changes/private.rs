//! Which of git's own files changed between two snapshots.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use camino::Utf8Path;
use serde::{Deserialize, Serialize};

use crate::base::{Error, Result};
use crate::documents::git::{Repo, blocking};
use crate::documents::snapshot::{
    GIT, HOOKS, Kept, OTHER_NAME, Snapshot, Work, behind_again, is_removable, is_usual, link_of,
    may_be_link, names_lock,
};

/// A changed file of git's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrivateChange {
    /// Relative to the git folder.
    pub name: String,
    /// Its state before.
    pub before: Work,
    /// Its state after.
    pub after: Work,
    /// What git starts since and did not start before: the hook, or the names of settings; or the
    /// link that leads it elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<String>,
}

impl PrivateChange {
    /// Returns whether it is a link that leads git elsewhere, and did not before.
    pub(super) fn leads_elsewhere(&self) -> bool {
        may_be_link(&self.name) && matches!(self.after, Work::Link { .. })
    }

    /// Returns whether it is a link that a restore removes.
    pub(super) fn is_removed(&self) -> bool {
        self.leads_elsewhere() && self.before == Work::Nothing && is_removable(&self.name)
    }

    /// Returns whether it is a log with another name since.
    pub(super) fn has_other_name(&self) -> bool {
        is_other_name(&self.after)
    }

    /// Returns its name, and what happened to it.
    pub(super) fn shown(&self) -> String {
        let how = match (&self.before, &self.after) {
            (Work::Nothing, _) if names_lock(&self.name) => "left behind",
            (Work::Nothing, Work::Link { .. }) if may_be_link(&self.name) => "a link since",
            (Work::Nothing, _) => "made",
            (Work::Link { .. }, Work::Nothing) if may_be_link(&self.name) => "no link any more",
            (_, Work::Nothing) => "removed",
            _ => "changed",
        };
        format!(".git/{} ({how})", self.name)
    }
}

fn is_other_name(work: &Work) -> bool {
    matches!(work, Work::Link { target } if target == OTHER_NAME)
}

/// Drops what is behind links that changed themselves, unless it is not behind the earlier link any
/// more as it was.
pub(super) async fn judge_behind(repo: &Repo, changes: &mut Vec<PrivateChange>) -> Result<()> {
    let is_behind = |it: &PrivateChange| link_of(&it.name).is_some();
    if !changes.iter().any(is_behind) {
        return Ok(());
    }
    let (behind, mut all): (Vec<_>, Vec<_>) = mem::take(changes).into_iter().partition(is_behind);
    let links: BTreeSet<String> = all.iter().map(|it| it.name.clone()).collect();
    let repo = repo.clone();
    let judged = blocking(move || {
        let mut judged = Vec::new();
        // A link that is new, or a snapshot of an earlier version of this program, has nothing.
        for mut it in behind.into_iter().filter(|it| it.before != Work::Nothing) {
            if link_of(&it.name).is_some_and(|link| links.contains(link)) {
                it.after = behind_again(&repo, &it.before)?;
            }
            judged.extend(Some(it).filter(|it| it.before != it.after));
        }
        Ok::<_, Error>(judged)
    });
    all.extend(judged.await??);
    *changes = all;
    Ok(())
}

/// Corrects changes of files that only one of the looks has read, because git's settings name them
/// since, or not any more: what was there before nobody knows, and what is there now is read.
pub(super) async fn judge_named(
    repo: &Repo,
    kept: &Kept,
    (before, after): (&Snapshot, &Snapshot),
    changes: &mut Vec<PrivateChange>,
) -> Result<()> {
    let own = |it: &PrivateChange| link_of(&it.name).unwrap_or(&it.name).to_owned();
    let is_read = |of: &Snapshot, it: &PrivateChange| is_usual(&own(it)) || of.names(&own(it));
    changes.retain(|it| is_read(before, it));
    let unread = changes.iter().filter(|it| !is_read(after, it));
    let unread: Vec<String> = unread.map(|it| it.name.clone()).collect();
    if unread.is_empty() {
        return Ok(());
    }
    let plain = unread.iter().filter(|it| link_of(it).is_none()).cloned().collect();
    let works = repo.own_works(kept, plain).await?;
    for it in changes.iter_mut().filter(|it| unread.contains(&it.name)) {
        it.after = match works.get(&it.name) {
            Some(work) => work.clone(),
            None => {
                let (repo, before) = (repo.clone(), it.before.clone());
                blocking(move || behind_again(&repo, &before)).await??
            }
        };
    }
    changes.retain(|it| it.before != it.after);
    Ok(())
}

impl Snapshot {
    /// Returns whether git's settings name one of git's own files, or a folder that it is in.
    pub(super) fn names(&self, own: &str) -> bool {
        let own = Utf8Path::new(GIT).join(own);
        self.named.iter().any(|it| Utf8Path::new(it) != GIT && own.starts_with(it))
    }
}

pub(super) fn private(before: &Snapshot, after: &Snapshot) -> Vec<PrivateChange> {
    let names: BTreeSet<&String> = before.private.keys().chain(after.private.keys()).collect();
    // A snapshot of an earlier version of this program has no links.
    let names = names.into_iter().filter(|it| before.git_folder.is_some() || !may_be_link(it));
    let state =
        |all: &BTreeMap<String, Work>, name: &str| all.get(name).cloned().unwrap_or(Work::Nothing);
    let changes = names.map(|name| PrivateChange {
        name: name.clone(),
        before: state(&before.private, name),
        after: state(&after.private, name),
        starts: Vec::new(),
    });
    // A log whose other name is gone leads nowhere any more.
    let is_gone = |it: &PrivateChange| is_other_name(&it.before) && it.after == Work::Nothing;
    let changes = changes.filter(|it| it.before != it.after && !is_gone(it));
    let mut changes: Vec<PrivateChange> = changes.collect();
    let is_link = |it: &PrivateChange| it.name == HOOKS && matches!(it.after, Work::Link { .. });
    if changes.iter().any(|it| is_link(it) && it.before == Work::Nothing) {
        // What is behind a link that is new goes with it.
        let is_behind = |it: &PrivateChange| {
            it.name.starts_with("hooks/") && matches!(it.after, Work::Seen { .. })
        };
        changes.retain(|it| !is_behind(it) || it.before != Work::Nothing);
    }
    let new = changes.iter().filter(|it| it.leads_elsewhere());
    let new: Vec<String> = new.map(|it| format!("{}/", it.name)).collect();
    // The same: whoever puts the folder back puts its files back.
    let is_unseen = |it: &PrivateChange| matches!(it.after, Work::Nothing | Work::Seen { .. });
    changes.retain(|it| !is_unseen(it) || !new.iter().any(|link| it.name.starts_with(link)));
    changes
}
