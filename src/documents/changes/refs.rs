//! Which branches, tags, stash entries, replacements and notes changed between two snapshots.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::base::BlobId;
use crate::documents::changes::{list, opt, short};
use crate::documents::snapshot::{STASH, Snapshot, Stashed};

/// A changed branch, tag, replacement or note, or the stash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefChange {
    /// Its full name.
    pub name: String,
    /// Its commit before; `None` if it did not exist.
    pub before: Option<BlobId>,
    /// Its commit after.
    pub after: Option<BlobId>,
    /// Whether approvals are among its commits since: those are never undone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_approved: bool,
    /// For the stash: all entries before, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries_before: Vec<Stashed>,
    /// For the stash: all entries after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries_after: Vec<Stashed>,
}

impl RefChange {
    fn sentence(&self) -> String {
        let name = &self.name;
        match (&self.before, &self.after) {
            (None, Some(is)) => format!("{name} was made at {}", short(is)),
            (Some(was), None) => format!("{name}, which was {}, is gone", short(was)),
            (was, is) if was == is => {
                let (was, is) = (self.entries_before.len(), self.entries_after.len());
                format!("{name} had {was} entries and has {is}, other ones")
            }
            (was, is) => format!("{name} was {} and is {}", opt(was), opt(is)),
        }
    }
}

/// Returns what changed.
pub(super) fn refs(before: &Snapshot, after: &Snapshot) -> Vec<RefChange> {
    let names: BTreeSet<&String> = before.refs.keys().chain(after.refs.keys()).collect();
    let entries = |of: &Snapshot, name: &str| match name {
        STASH => of.stash.clone(),
        _ => Vec::new(),
    };
    let changes = names.into_iter().map(|name| RefChange {
        name: name.clone(),
        before: before.refs.get(name).cloned(),
        after: after.refs.get(name).cloned(),
        is_approved: false,
        entries_before: entries(before, name),
        entries_after: entries(after, name),
    });
    changes.filter(|it| it.before != it.after || it.entries_before != it.entries_after).collect()
}

/// Returns the sentence about all of them, if there are any.
pub(super) fn sentence(refs: &[RefChange]) -> Option<String> {
    let named = list(refs.iter().map(RefChange::sentence));
    (!refs.is_empty()).then(|| format!("moved_head: {named} while the job ran"))
}
