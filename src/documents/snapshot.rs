//! What of the user's repository an agent could have changed: branch, commit, index, working tree.

use std::collections::BTreeMap;

use camino::Utf8Path;

use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{BlobId, Result};
use crate::documents::git::Repo;
use crate::documents::git::blocking;

/// Most changed files whose content is compared; of more, only that they are changed.
const COMPARED_MAX: usize = 500;
/// Most files that are named in one difference.
const NAMED_MAX: usize = 20;

/// The state of the repository at one moment, as far as it differs from the last commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    branch: Option<String>,
    commit: Option<BlobId>,
    /// Path of a tracked file that is changed → how, and its content in the working tree.
    changed: BTreeMap<String, String>,
}

/// What became different between two snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// The branch that was checked out, and the one that is now, if it is another.
    pub branch: Option<(String, String)>,
    /// The commit that was checked out, and the one that is now, if it is another.
    pub commit: Option<(Option<BlobId>, Option<BlobId>)>,
    /// Tracked files whose index entry or content is different now; at most some are named.
    pub files: Vec<String>,
    /// How many more there are.
    pub files_more: usize,
}

impl Snapshot {
    /// Returns the commit that is checked out.
    pub fn commit(&self) -> Option<&BlobId> {
        self.commit.as_ref()
    }

    /// Returns what is different in `after`.
    pub fn difference(&self, after: &Snapshot) -> Difference {
        let name = |it: &Option<String>| it.clone().unwrap_or_else(|| "no branch".to_owned());
        let paths = self.changed.keys().chain(after.changed.keys());
        let is_other = |path: &&String| self.changed.get(*path) != after.changed.get(*path);
        let mut files: Vec<String> = paths.filter(is_other).cloned().collect();
        files.sort();
        files.dedup();
        let files_more = files.len().saturating_sub(NAMED_MAX);
        files.truncate(NAMED_MAX);
        Difference {
            branch: (self.branch != after.branch)
                .then(|| (name(&self.branch), name(&after.branch))),
            commit: (self.commit != after.commit)
                .then(|| (self.commit.clone(), after.commit.clone())),
            files,
            files_more,
        }
    }
}

impl Repo {
    /// Looks at the repository as it is now. Untracked files are nobody's work in progress here:
    /// they are not looked at.
    ///
    /// # Errors
    /// `unavailable` if git cannot say.
    pub async fn snapshot(&self) -> Result<Snapshot> {
        let branch = self.branch().await?;
        let commit = self.tip("HEAD").await?;
        let records = self.status_records().await?;
        let repo = self.clone();
        let changed = blocking(move || {
            let mut changed = BTreeMap::new();
            for (number, (path, about)) in records.into_iter().enumerate() {
                let content = if number < COMPARED_MAX { repo.content(&path) } else { None };
                let state = format!("{about} {}", content.unwrap_or_default());
                changed.insert(path, state);
            }
            changed
        })
        .await?;
        Ok(Snapshot { branch, commit, changed })
    }

    /// Returns the version of a file of the working tree; nothing if it cannot be read.
    fn content(&self, git_path: &str) -> Option<String> {
        let below = git_path.strip_prefix(self.prefix())?;
        let (bytes, _) = self.root().read_relative(Utf8Path::new(below), SOURCE_BYTES_MAX).ok()?;
        Some(self.hash(&bytes).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(commit: char, changed: &[(&str, &str)]) -> Snapshot {
        let pair = |(path, state): &(&str, &str)| ((*path).to_owned(), (*state).to_owned());
        Snapshot {
            branch: Some("refs/heads/main".to_owned()),
            commit: commit.to_string().repeat(40).parse().ok(),
            changed: changed.iter().map(pair).collect(),
        }
    }

    #[test]
    fn only_what_became_different_is_named() {
        let before = snapshot('a', &[("mine.md", "M 1"), ("both.md", "M 1")]);
        assert_eq!(before.difference(&before), Difference::default());
        let after = snapshot('a', &[("both.md", "M 2"), ("new.md", "M 1"), ("mine.md", "M 1")]);
        let difference = before.difference(&after);
        assert_eq!(difference.files, ["both.md", "new.md"]);
        assert_eq!(difference.commit, None);
        let undone = snapshot('b', &[]);
        assert_eq!(before.difference(&undone).files, ["both.md", "mine.md"]);
        assert!(before.difference(&undone).commit.is_some());
    }
}
