//! The refs that are looked at: those that hold work, and those by which git shows other commits.

use std::collections::BTreeMap;

use crate::base::{BlobId, Result};
use crate::documents::git::Repo;
use crate::documents::snapshot::{REFS_BYTES_MAX, STASH, name};

/// All others are left out: fetching and other tools move them at any time.
const LOOKED_AT: [&str; 5] = ["refs/heads", "refs/tags", STASH, "refs/replace", "refs/notes"];

impl Repo {
    /// Returns the commits of branches, tags, the stash, replacements and notes by full names.
    pub(in crate::documents) async fn named_commits(&self) -> Result<BTreeMap<String, BlobId>> {
        let call = self.git().call(&["for-each-ref", "--format=%(objectname) %(refname)"]);
        let call = LOOKED_AT.iter().fold(call, |call, it| call.arg(*it));
        let listed = call.output_max(REFS_BYTES_MAX).output().await?;
        let listed = name::shown(&listed);
        let named = listed.lines().filter_map(|line| line.split_once(' '));
        named.map(|(id, name)| Ok((name.to_owned(), id.parse()?))).collect()
    }
}
