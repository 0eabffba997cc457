//! Which of git's own files changed between two snapshots.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::documents::snapshot::{HOOKS, Snapshot, Work, may_be_link, names_lock};

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
    let mut changes: Vec<PrivateChange> = changes.filter(|it| it.before != it.after).collect();
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
