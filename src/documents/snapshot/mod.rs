//! Snapshots of everything in the user's repository that an agent could change: checkout, branches,
//! tags and stash, index, working tree, and the files that steer git itself.
//!
//! Clean paths are not listed: there index and working tree match the checked-out commit. A
//! snapshot is therefore as large as the uncommitted work, not as the repository.

mod behind;
mod by_content;
mod huge;
mod kept;
mod links;
pub(in crate::documents) mod name;
mod own_index;
mod private;
mod refs;
pub(in crate::documents) mod status;
mod steering;
mod watched_jobs;

use std::collections::BTreeMap;

use camino::Utf8Path;
use serde::{Deserialize, Serialize};

use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{BlobId, Result, is_agent_file};
use crate::documents::git::{GitFolder, Repo, blocking};
use crate::process::{Root, Standing};

pub use behind::leads_out;
pub(in crate::documents) use behind::{again as behind_again, link_of, now as behind_now};
pub(in crate::documents) use huge::is_huge;
pub use kept::Kept;
pub(in crate::documents) use links::{ASIDE, OTHER_NAME, link_at, may_be_link};
pub use links::{are_below as are_links_below, is_removable};
pub(in crate::documents) use private::{
    ALTERNATES, COMMON_DIR, CONFIG_OF_WORKTREE, HOOKS, git_root, hook_behind_a_link, hooks_facts,
    is_of_worktree, is_usual, names_lock,
};
pub(in crate::documents) use status::ANNOUNCED;
pub(in crate::documents) use steering::{GIT, STEERS, facts_within};
pub use watched_jobs::{Look, Looks, Wait};

/// Most files whose content is read and stored; for others only size and times are.
const READ_MAX: usize = 2_000;
/// Most ignored files whose content is read, nearest to the top first.
const IGNORED_READ_MAX: usize = 500;
/// The facts of a folder of agents that has too many names to be searched.
pub(in crate::documents) const LARGE: &str = "more than can be searched";
/// Most bytes of content stored per snapshot.
const READ_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Output limit for the names of refs, in bytes.
const REFS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Most stash entries recorded.
const STASHED_MAX: usize = 1_000;
/// The ref of the newest stash entry.
pub(in crate::documents) const STASH: &str = "refs/stash";

/// A blob in a commit or the index, with its mode in git's notation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spot {
    /// `100644`, `100755`, `120000` or `160000`.
    pub mode: String,
    /// The content.
    pub blob: BlobId,
}

/// An index entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staged {
    /// Content and mode.
    #[serde(flatten)]
    pub spot: Spot,
    /// 0, or 1 to 3 for the sides of a conflict.
    pub stage: u8,
    /// `assume-unchanged` or `skip-worktree`, if git was told to ignore changes; `intent-to-add` if
    /// the file was only announced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flag: Option<String>,
}

/// What stands at a path of the working tree or among git's own files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Work {
    /// What the index says, as checked out by git.
    Indexed,
    /// Nothing.
    Nothing,
    /// A file.
    File {
        /// Its bytes as an unfiltered blob.
        blob: BlobId,
        /// Its permission bits.
        mode: u32,
    },
    /// A symbolic link.
    Link {
        /// Its target.
        target: String,
    },
    /// Something that is not read; its facts distinguish it from others.
    Seen {
        /// Size, times, inode.
        facts: String,
    },
}

/// The state of a path, apart from the checked-out commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathState {
    /// Its index entries; empty if it is not tracked.
    pub index: Vec<Staged>,
    /// Its state in the working tree.
    pub work: Work,
}

/// A path that is not clean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unclean {
    /// Its entry in the checked-out commit.
    pub head: Option<Spot>,
    /// Its state.
    pub state: PathState,
    /// Whether git ignores it: it is known by its digest, and its content is stored nowhere.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_ignored: bool,
}

/// A stash entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stashed {
    /// Its commit.
    pub commit: BlobId,
    /// Its description.
    pub title: String,
}

/// What is checked out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tip {
    /// The branch, `refs/heads/…`; `None` for a detached head.
    pub branch: Option<String>,
    /// The commit; `None` on a branch without one.
    pub commit: Option<BlobId>,
}

/// The state of the repository at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// What is checked out.
    pub tip: Tip,
    /// Branches, tags, the stash, replacements and notes.
    pub refs: BTreeMap<String, BlobId>,
    /// The repository; absent in the snapshot of an earlier version of this program, which has no
    /// links in it, either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_folder: Option<GitFolder>,
    /// The stash entries, newest first: the ref only names the newest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stash: Vec<Stashed>,
    /// Unclean paths as git names them; invalid UTF-8 bytes are written `\xNN`.
    pub paths: BTreeMap<String, Unclean>,
    /// Git's own files that steer it, and locks, relative to its folder.
    pub private: BTreeMap<String, Work>,
    /// Whether files that git ignores and that steer agents are among the paths.
    #[serde(default)]
    pub has_ignored: bool,
    /// Further files and folders that steer agents: behind links, and named by git's settings;
    /// among git's own files also those that are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<String>,
}

impl PathState {
    /// Returns the state of a clean path.
    pub fn clean(spot: Option<&Spot>) -> PathState {
        match spot {
            None => PathState { index: Vec::new(), work: Work::Nothing },
            Some(spot) => {
                let staged = Staged { spot: spot.clone(), stage: 0, flag: None };
                PathState { index: vec![staged], work: Work::Indexed }
            }
        }
    }

    /// Returns whether it is a link, there or in the index.
    pub fn is_link(&self) -> bool {
        let is_staged = self.staged().is_some_and(|it| it.spot.mode == "120000");
        is_staged || matches!(self.work, Work::Link { .. })
    }

    /// Returns the index entry that is not a side of a conflict.
    pub fn staged(&self) -> Option<&Staged> {
        self.index.iter().find(|it| it.stage == 0)
    }
}

impl Staged {
    /// Returns whether it was only announced (`git add -N`).
    pub fn is_announced(&self) -> bool {
        self.flag.as_deref() == Some(ANNOUNCED)
    }
}

impl Work {
    /// Returns the content, as far as it is known without git.
    pub fn blob(&self) -> Option<&BlobId> {
        match self {
            Work::File { blob, .. } => Some(blob),
            _ => None,
        }
    }
}

impl Snapshot {
    /// Returns whether all names could come from git: those read from a file may have been written
    /// by an agent.
    pub fn is_plausible(&self) -> bool {
        let is_plain = |name: &str| {
            let parts = Utf8Path::new(name).components();
            let mut parts = parts.map(|it| matches!(it, camino::Utf8Component::Normal(_)));
            !name.is_empty() && !name.contains('\0') && parts.all(|it| it)
        };
        let is_word = |name: &str| !name.contains(|it: char| it.is_whitespace() || it.is_control());
        let is_ref = |name: &str| name.starts_with("refs/") && is_plain(name) && is_word(name);
        self.refs.keys().all(|it| is_ref(it))
            && self.tip.branch.iter().all(|it| is_ref(it))
            && self.paths.keys().all(|it| is_plain(it))
            && self.private.keys().all(|it| is_plain(it))
    }
}

impl Repo {
    /// Takes a snapshot of the repository while no approval is in progress. Content that exists
    /// nowhere else is stored in `kept`. `named` are files and folders, relative to the
    /// repository's top, that steer the script's agents.
    ///
    /// # Errors
    /// `unavailable` if git fails or the content cannot be stored; with code `object_mismatch` if
    /// the checked-out commit is forged or damaged; with code `special_file` if git would wait.
    pub async fn look(&self, kept: &Kept, named: &[String]) -> Result<Snapshot> {
        let _still = self.stillness().await;
        self.look_within(kept, named).await
    }

    /// Like [`Repo::look`], for a caller that holds the turn.
    pub(in crate::documents) async fn look_within(
        &self,
        kept: &Kept,
        named: &[String],
    ) -> Result<Snapshot> {
        self.refuse_special().await?;
        let (told, refs) = tokio::join!(self.status_by_content(kept), self.named_commits());
        let ((mut status, flagged), refs) = (told?, refs?);
        if let Some(commit) = &status.tip.commit {
            // Git compares the index with trees that it does not hash.
            self.prove_trees(commit).await?;
        }
        status::add_flagged(&mut status, flagged);
        let own = kept.folder_below(self.git().folder());
        let found = self.find_steering(&status, named, own).await?;
        self.read_steering(&mut status, &found.named).await?;
        let stash = match refs.contains_key(STASH) {
            true => self.stashed().await?,
            false => Vec::new(),
        };
        let (repo, kept) = (self.clone(), kept.clone());
        let closed = self.closed_files().await?;
        blocking(move || repo.fill((status, closed, found), (refs, stash), &kept)).await?
    }

    fn fill(
        &self,
        (status, closed, found): (status::Status, BTreeMap<String, Unclean>, Steering),
        (refs, stash): (BTreeMap<String, BlobId>, Vec<Stashed>),
        kept: &Kept,
    ) -> Result<Snapshot> {
        let top = Root::open(self.git().folder())?;
        let mut reader = Reader { repo: self, kept, files_left: READ_MAX, bytes: 0 };
        let own = kept.folder_below(self.git().folder());
        // These first, so that there is always room for them: their content decides who changed
        // what steers git.
        let branch = status.tip.branch.as_deref();
        let private = private::look(self, &mut reader, branch, &found.named)?;
        let mut paths = closed;
        let is_steering = |it: &(String, status::Found)| is_agent_file(&it.0);
        let (first, rest): (Vec<_>, Vec<_>) = status.paths.into_iter().partition(is_steering);
        for (path, found) in first.into_iter().chain(rest) {
            if own.as_ref().is_some_and(|own| path.starts_with(own.as_str())) {
                continue;
            }
            let work = match found.is_work_as_indexed {
                true => Work::Indexed,
                false => reader.work(&top, &path)?,
            };
            let state = PathState { index: found.index, work };
            paths.insert(path, Unclean { head: found.head, state, is_ignored: false });
        }
        let mut reader = Reader { repo: self, kept, files_left: IGNORED_READ_MAX, bytes: 0 };
        let large = found.large.into_iter().map(|it| (it, Work::Seen { facts: LARGE.to_owned() }));
        let ignored = found.ignored.into_iter().map(|it| (reader.digest(&top, &it), it));
        let ignored = ignored.map(|(work, it)| Ok((it, work?))).collect::<Result<Vec<_>>>()?;
        for (path, work) in ignored.into_iter().chain(large) {
            let state = PathState { index: Vec::new(), work };
            paths.entry(path).or_insert(Unclean { head: None, state, is_ignored: true });
        }
        let (tip, named) = (status.tip, found.named);
        Ok(Snapshot {
            tip,
            refs,
            git_folder: Some(self.git_folder()),
            stash,
            paths,
            private,
            has_ignored: true,
            named,
        })
    }

    /// Returns the stash entries, newest first; empty if the stash is damaged.
    pub(in crate::documents) async fn stashed(&self) -> Result<Vec<Stashed>> {
        let limit = format!("--max-count={STASHED_MAX}");
        let args = ["log", "--walk-reflogs", "--no-show-signature", "--format=%H %gs", &limit];
        let call = self.git().call(&args).arg(STASH).arg("--");
        let answer = call.output_max(REFS_BYTES_MAX).run().await?;
        if answer.code != 0 {
            return Ok(Vec::new());
        }
        let told = String::from_utf8_lossy(&answer.stdout);
        let entries = told.lines().filter_map(|line| line.split_once(' '));
        entries
            .map(|(id, title)| Ok(Stashed { commit: id.parse()?, title: title.to_owned() }))
            .collect()
    }
}

/// Returns facts that distinguish a file from its later replacement.
fn facts_of(path: &Utf8Path) -> String {
    use std::os::unix::fs::MetadataExt as _;
    match path.symlink_metadata() {
        Err(_) => "nothing".to_owned(),
        Ok(it) => {
            format!("{} {} {} {}", it.ino(), it.len(), it.ctime(), it.ctime_nsec())
        }
    }
}

/// What steers agents in a repository.
#[derive(Default)]
struct Steering {
    /// Files and folders, by what names them.
    named: Vec<String>,
    /// Files that git neither tracks nor lists.
    ignored: Vec<String>,
    /// Folders that have too many names to be searched.
    large: Vec<String>,
}

/// Reads what stands at paths, within the limits of what can be stored.
struct Reader<'a> {
    repo: &'a Repo,
    kept: &'a Kept,
    files_left: usize,
    bytes: usize,
}

impl Repo {
    /// Reads what stands at paths now, as a snapshot does.
    pub(in crate::documents) async fn works(
        &self,
        kept: &Kept,
        paths: Vec<String>,
    ) -> Result<BTreeMap<String, Work>> {
        let (repo, kept) = (self.clone(), kept.clone());
        let read = move || {
            let top = Root::open(repo.git().folder())?;
            let mut reader = Reader { repo: &repo, kept: &kept, files_left: READ_MAX, bytes: 0 };
            let there = paths.into_iter().map(|it| {
                // A folder without a name in it is none of git's.
                let is_there = top.changed_ms(name::path(&it)).is_some();
                let work = if is_there { reader.work(&top, &it)? } else { Work::Nothing };
                Ok((it, work))
            });
            there.collect()
        };
        blocking(read).await?
    }
}

impl Reader<'_> {
    fn work(&mut self, root: &Root, path: &str) -> Result<Work> {
        if path.ends_with('/') {
            // A nested repository in the working tree: git reports no more than that.
            return Ok(Work::Seen { facts: steering::facts_within(self.repo, root, path)? });
        }
        Ok(match root.standing(name::path(path), self.limit())? {
            Standing::Nothing => Work::Nothing,
            Standing::Link { target } => {
                self.kept.put(&self.repo.hash(target.as_bytes()), target.as_bytes())?;
                Work::Link { target }
            }
            Standing::Other { facts } => Work::Seen { facts },
            Standing::File { bytes, mode } => {
                self.bytes += bytes.len();
                let blob = self.repo.hash(&bytes);
                self.kept.put(&blob, &bytes)?;
                Work::File { blob, mode }
            }
        })
    }
}

impl Reader<'_> {
    /// Returns how many bytes of the next file may be read.
    fn limit(&mut self) -> usize {
        let room = READ_BYTES_MAX.saturating_sub(self.bytes).min(SOURCE_BYTES_MAX);
        let is_read = self.files_left > 0;
        self.files_left = self.files_left.saturating_sub(1);
        if is_read { room } else { 0 }
    }

    /// Reads what stands at a path without storing it.
    fn digest(&mut self, root: &Root, path: &str) -> Result<Work> {
        Ok(match root.standing(name::path(path), self.limit())? {
            Standing::Nothing => Work::Nothing,
            Standing::Link { target } => Work::Link { target },
            Standing::Other { facts } => Work::Seen { facts },
            Standing::File { bytes, mode } => {
                self.bytes += bytes.len();
                Work::File { blob: self.repo.hash(&bytes), mode }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_git_never_gives_are_not_believed() {
        let blob: BlobId = "a".repeat(40).parse().unwrap();
        let with_ref = |name: &str| Snapshot {
            refs: BTreeMap::from([(name.to_owned(), blob.clone())]),
            ..Snapshot::default()
        };
        let with_file = |name: &str| Snapshot {
            private: BTreeMap::from([(name.to_owned(), Work::Nothing)]),
            ..Snapshot::default()
        };
        assert!(with_ref("refs/heads/a-b/c").is_plausible());
        assert!(with_file("hooks/my hook").is_plausible());
        for bad in ["refs/heads/x\ndelete refs/heads/main", "refs/heads/a b", "refs/../x", "HEAD"] {
            assert!(!with_ref(bad).is_plausible(), "{bad}");
        }
        for bad in ["../../outside", "/etc/passwd", "", "a\0b"] {
            assert!(!with_file(bad).is_plausible(), "{bad}");
        }
    }
}
