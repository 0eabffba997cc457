//! The refs of the repository, apart from our own and those that git's maintenance moves.

use std::collections::BTreeMap;

use crate::base::{BlobId, Result};
use crate::documents::git::Repo;
use crate::documents::snapshot::{REFS_BYTES_MAX, STASH, name};

/// Most refs that are neither branches, tags nor the stash; if there are more, none of them is
/// known. Each watched job has all of them.
const OTHERS_MAX: usize = 20_000;
/// What is always known. Another git shows other commits by the last two.
const KNOWN: [&str; 4] = ["refs/heads/", "refs/tags/", "refs/replace/", "refs/notes/"];
/// What belongs to this program, or is fetched by git's own schedule.
const IGNORED: [&str; 2] = ["refs/wiki-browser/", "refs/prefetch/"];

/// Commits by the full names of their refs.
pub(in crate::documents) struct Refs {
    pub(in crate::documents) named: BTreeMap<String, BlobId>,
    /// Whether refs that are neither branches, tags nor the stash are among them.
    pub(in crate::documents) has_others: bool,
}

/// Returns whether a ref is neither a branch, a tag nor the stash.
pub(in crate::documents) fn is_other(name: &str) -> bool {
    name != STASH && !KNOWN.iter().any(|it| name.starts_with(it))
}

impl Repo {
    /// Returns branches, tags, the stash, and other refs unless they are too many.
    pub(in crate::documents) async fn named_commits(&self) -> Result<Refs> {
        let call =
            self.git().call(&["for-each-ref", "--format=%(objectname) %(refname) %(symref)"]);
        let listed = call.output_max(REFS_BYTES_MAX).output().await?;
        let listed = name::shown(&listed);
        let mut named = BTreeMap::new();
        let mut others = Vec::new();
        for line in listed.lines() {
            let mut words = line.split(' ');
            let (Some(id), Some(name), target) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            if IGNORED.iter().any(|it| name.starts_with(it)) {
                continue;
            }
            let is_symbolic = target.is_some_and(|it| !it.is_empty());
            match is_other(name) {
                // It is where the other one is, and moves with that.
                true if is_symbolic => {}
                true => others.push((name, id)),
                false => {
                    named.insert(name.to_owned(), id.parse()?);
                }
            }
        }
        let has_others = others.len() <= OTHERS_MAX;
        for (name, id) in others.into_iter().filter(|_| has_others) {
            named.insert(name.to_owned(), id.parse()?);
        }
        Ok(Refs { named, has_others })
    }
}
