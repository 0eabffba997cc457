//! The repository of the Sources: opening it, its head, its objects.
//!
//! The root of the site may be a folder inside of the working tree. A `SourcePath` is relative to
//! the root; git's paths are relative to the top of the working tree: `prefix` and path.

mod aside;
mod call;
mod convert;
mod deletion;
mod entries;
mod failure;
mod git_folder;
mod globs;
mod head;
mod history;
mod index;
mod last_change;
mod papers;
mod planted;
pub(in crate::documents) mod programs;
mod proof;
mod reach;
mod renames;
mod settings;
mod special;
mod special_search;
mod swapped_names;
mod sync;
mod tip_marks;
mod tree;
mod write;

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use sha1::{Digest as _, Sha1};
use sha2::Sha256;
use tokio::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
use tokio_util::task::TaskTracker;

use crate::base::{BlobId, Context, Error, ErrorKind, Result, SourcePath, fault};
use crate::documents::git::failure::UNSAFE_REPOSITORY;
use crate::documents::snapshot::Looks;
use crate::process::{Children, Root};

use git_folder::OpenedFolder;
use planted::{refuse_diverted, refuse_planted};
use settings::{Settings, StandIn, common_folder};

pub use convert::CONTENT_FILTER;
pub use entries::{Identity, KnownSources};
pub use failure::{GIT_FAILED, INDEX_LOCKED, MERGE_IN_PROGRESS, REPOSITORY_DAMAGED};
pub use git_folder::GitFolder;
pub use globs::{SourceGlobs, matches_any};
pub use head::{DETACHED_HEAD, Head, UNBORN_HEAD};
pub use history::{HistoryPage, HistoryPlace};
pub use last_change::LastChanges;
pub use papers::PaperCommit;
pub use planted::PLANTED_REPOSITORY;
pub use proof::OBJECT_MISMATCH;
pub use special::{RESTORE, SPECIAL_FILE};
pub use tip_marks::TipMarks;
pub use write::Person;

pub(in crate::documents) use aside::{Checkout, joined};
pub(in crate::documents) use call::{Call, Git};
pub(in crate::documents) use convert::Conversion;
pub(in crate::documents) use index::{Change, IndexEntry};
pub(in crate::documents) use papers::Papers;
pub(in crate::documents) use special::refuse_in_tree;
pub(in crate::documents) use special_search::{Special, Way};
pub(in crate::documents) use tree::{Grove, TreeEntry};
pub(in crate::documents) use write::Moved;

/// Oldest git with all required options (`GIT_CONFIG_COUNT`).
const VERSION_MIN: (u32, u32) = (2, 31);

/// A handle to the repository of the Sources; cheap to clone.
#[derive(Clone)]
pub struct Repo {
    shared: Arc<Shared>,
    stand_in: Arc<StandIn>,
    /// The configuration for all calls of this handle; if absent, each operation reads it.
    settings: Option<Arc<Settings>>,
}

struct Shared {
    git: Git,
    git_dir: Utf8PathBuf,
    common: Utf8PathBuf,
    root: Root,
    prefix: String,
    sources: SourceGlobs,
    format: ObjectFormat,
    approving: RwLock<()>,
    worktrees: Mutex<()>,
    entries: entries::Entries,
    walked: last_change::Walked,
    deletions: deletion::Deletions,
    looks: Looks,
    tasks: TaskTracker,
    /// The repository that the site works on; absent in a test without one.
    opened: Option<std::sync::Mutex<OpenedFolder>>,
    /// The Sources of a test, which has no repository.
    papers: Option<papers::Papers>,
}

/// The repository's hash algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObjectFormat {
    Sha1,
    Sha256,
}

impl ObjectFormat {
    /// Returns the length of a binary object id.
    fn id_bytes(self) -> usize {
        match self {
            ObjectFormat::Sha1 => 20,
            ObjectFormat::Sha256 => 32,
        }
    }
}

impl Repo {
    /// Opens the repository that contains a folder. `sources` are globs below that folder.
    ///
    /// # Errors
    /// `not_found` if the folder does not exist; `unavailable` with code `not_a_repository`,
    /// `bare_repository`, `unsafe_repository`, `special_file`, `git_too_old` or `no_openat2`;
    /// `invalid` with code `bad_glob`.
    pub async fn open(
        root: &Utf8Path,
        git: Utf8PathBuf,
        sources: &[String],
        children: Children,
    ) -> Result<Repo> {
        let sources = SourceGlobs::of(sources)?;
        let folder = Root::open(root)?;
        special::refuse_unopenable(root).await?;
        let git = Git::new(git, root, children);
        refuse_old(&git.call(&["version"]).line().await?)?;
        let format = refuse_foreign(&git, root).await?;
        let asked = ["rev-parse", "--absolute-git-dir", "--show-toplevel", "--git-common-dir"];
        let found = git.call(&asked).line().await?;
        // A separate call, because this answer may be empty.
        let prefix = git.call(&["rev-parse", "--show-prefix"]).line().await?;
        let mut lines = found.lines();
        let (Some(git_dir), Some(top), Some(common), None) =
            (lines.next(), lines.next(), lines.next(), lines.next())
        else {
            return Err(Error::unavailable(format!("the repository of {root} has a strange path"))
                .code("not_a_repository")
                .hint("a folder name cannot contain a line break"));
        };
        let (git_dir, work_tree) = (Utf8PathBuf::from(git_dir), Utf8PathBuf::from(top));
        refuse_planted(&git, &work_tree).await?;
        // Git prints it relative to the root.
        let common = common_folder(root, common)?;
        refuse_diverted(&git_dir, &common)?;
        let git = git.within((&git_dir, &common), &work_tree);
        let opened = Some(OpenedFolder::of(&work_tree, &common));
        let stand_in = Arc::new(StandIn::temporary(common.clone(), format)?);
        let shared = Shared {
            git,
            git_dir,
            common,
            root: folder,
            prefix,
            sources,
            format,
            approving: RwLock::new(()),
            worktrees: Mutex::new(()),
            entries: entries::Entries::default(),
            walked: last_change::Walked::default(),
            deletions: deletion::Deletions::default(),
            looks: Looks::default(),
            tasks: TaskTracker::new(),
            opened,
            papers: None,
        };
        Ok(Repo { shared: Arc::new(shared), stand_in, settings: None })
    }

    /// Returns the same repository with its auxiliary files in the data folder instead of the
    /// system's temporary folder, which may be cleaned.
    #[must_use]
    pub fn beside(mut self, data: &Utf8Path) -> Repo {
        self.look_past(data);
        self.stand_in = Arc::new(self.stand_in.moved(data.join("git")));
        self
    }

    /// Opens another repository with the same git program.
    ///
    /// # Errors
    /// Same as [`Repo::open`].
    pub(in crate::documents) async fn elsewhere(&self, folder: &Utf8Path) -> Result<Repo> {
        let (program, children) = self.git().program();
        // Boxed, since who asks is deep in futures of its own.
        Box::pin(Repo::open(folder, program, &[], children)).await
    }

    /// Waits until no other task of this program adds or removes a worktree.
    pub(in crate::documents) async fn worktree_turn(&self) -> MutexGuard<'_, ()> {
        self.shared.worktrees.lock().await
    }

    /// Returns the root of the Sources.
    pub fn root(&self) -> &Root {
        &self.shared.root
    }

    /// Returns the top of the working tree, to which git's paths are relative.
    pub fn top(&self) -> &Utf8Path {
        self.git().folder()
    }

    /// Returns the folders that contain everything visible in the repository: the working tree and
    /// git's own folder. `None` if parts are elsewhere, as for a linked worktree.
    pub fn folders(&self) -> Option<Vec<Utf8PathBuf>> {
        let (top, git_dir) = (self.git().folder(), &self.shared.git_dir);
        let is_elsewhere = git_dir.join("commondir").symlink_metadata().is_ok()
            || [git_dir, &top.join(".git")].iter().any(|it| it.is_symlink());
        if is_elsewhere {
            return None;
        }
        let mut folders = vec![top.to_owned()];
        if !git_dir.starts_with(top) {
            folders.push(git_dir.clone());
        }
        Some(folders)
    }

    /// Returns the folder of git's objects, whose names are hashes of their contents.
    pub fn objects(&self) -> Utf8PathBuf {
        self.shared.git_dir.join("objects")
    }

    /// Returns whether a path matches the site's globs, or a test put a text there; the file need
    /// not exist.
    pub fn matches(&self, path: &SourcePath) -> bool {
        self.shared.sources.is_match(path.as_str()) || self.is_put(path)
    }

    /// Returns git's id of a text, without filters (`git hash-object`).
    ///
    /// # Errors
    /// Never fails: the repository's hash algorithm is known.
    pub async fn hash_text(&self, text: &str) -> Result<BlobId> {
        Ok(self.hash(text.as_bytes()))
    }

    /// Returns the version of a Source that does not exist: git's null id.
    pub fn absent(&self) -> BlobId {
        let zeros = "0".repeat(2 * self.shared.format.id_bytes());
        BlobId::try_from(zeros).unwrap_or_else(|_| unreachable!("zeros are an id"))
    }

    /// Returns the content of a blob of at most `bytes_max` bytes.
    ///
    /// The null id ([`Repo::absent`]) is empty.
    ///
    /// # Errors
    /// `not_found` with code `blob_gone`; `too_large`; `invalid` if the object is not a blob;
    /// `unavailable` with code `object_mismatch` if its content does not match its id.
    pub async fn read_blob(&self, blob: &BlobId, bytes_max: usize) -> Result<Vec<u8>> {
        if blob.is_absent() {
            return Ok(Vec::new());
        }
        if let Some(papers) = self.papers() {
            return papers.version(blob);
        }
        let asked = self.git().call(&["cat-file", "--batch-check=%(objecttype) %(objectsize)"]);
        let about = asked.stdin(format!("{blob}\n")).line().await?;
        let size = match about.split_once(' ') {
            Some(("blob", size)) => size.parse::<usize>().ok(),
            Some((_, "missing")) => {
                return Err(Error::not_found(format!("no blob {blob}")).code("blob_gone"));
            }
            _ => None,
        };
        let Some(size) = size else {
            return Err(Error::invalid(format!("{blob} is not a blob")).code("not_a_blob"));
        };
        if size > bytes_max {
            let message = format!("blob {blob} has more than {bytes_max} bytes");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let call = self.git().call(&["cat-file", "blob", blob.as_str()]);
        let bytes = call.output_max(size.saturating_add(64 * 1024)).output().await?;
        if self.hash(&bytes) != *blob && !fault::is_off("object_proof") {
            return Err(self.mismatch(blob));
        }
        Ok(bytes)
    }

    /// Waits for all approvals in progress; call it when no more can begin. The database must be
    /// served until then.
    pub async fn close(&self) {
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    /// Runs work as a task that continues if the caller goes away.
    ///
    /// # Errors
    /// The error of the work.
    pub async fn run_to_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let done = self.shared.tasks.spawn(work).await;
        done.context(ErrorKind::Internal, || "work on the repository panicked".to_owned())?
    }

    pub(in crate::documents) fn git(&self) -> &Git {
        &self.shared.git
    }

    /// Waits until nothing in this program changes the repository, and blocks changes meanwhile.
    pub(in crate::documents) async fn stillness(&self) -> RwLockReadGuard<'_, ()> {
        self.shared.approving.read().await
    }

    /// Returns the jobs being watched.
    pub fn looks(&self) -> &Looks {
        &self.shared.looks
    }

    /// Returns the folder that contains index and HEAD.
    pub(in crate::documents) fn git_dir(&self) -> &Utf8Path {
        &self.shared.git_dir
    }

    /// Returns the folder that contains the branches and everything shared between worktrees.
    pub(in crate::documents) fn common_dir(&self) -> &Utf8Path {
        &self.shared.common
    }

    /// Returns the prefix of Sources in git's paths: empty, or ending in `/`.
    pub(in crate::documents) fn git_prefix(&self) -> String {
        self.shared.prefix.clone()
    }

    /// Returns the path relative to the top of the working tree.
    pub fn git_path(&self, path: &SourcePath) -> String {
        format!("{}{path}", self.shared.prefix)
    }

    pub(in crate::documents) fn hash(&self, bytes: &[u8]) -> BlobId {
        hash_object(self.shared.format, "blob", bytes)
    }
}

/// Returns the version printed by a git program.
///
/// # Errors
/// `unavailable` with code `git_too_old`, or if it fails.
pub async fn git_version(
    git: Utf8PathBuf,
    folder: &Utf8Path,
    children: Children,
) -> Result<String> {
    let answer = Git::new(git, folder, children).call(&["version"]).line().await?;
    refuse_old(&answer)?;
    Ok(answer)
}

fn refuse_old(answer: &str) -> Result<()> {
    let version = answer.strip_prefix("git version ").unwrap_or(answer);
    let mut numbers = version.split('.').map(|it| it.parse::<u32>().ok());
    let parsed = numbers.next().flatten().zip(numbers.next().flatten());
    if parsed.is_some_and(|it| it >= VERSION_MIN) {
        return Ok(());
    }
    let (major, minor) = VERSION_MIN;
    Err(Error::unavailable(format!("git {version} is too old"))
        .code("git_too_old")
        .hint(format!("install git {major}.{minor} or later")))
}

/// Refuses a folder outside of a working tree; returns the hash algorithm.
async fn refuse_foreign(git: &Git, root: &Utf8Path) -> Result<ObjectFormat> {
    let asked =
        ["rev-parse", "--is-bare-repository", "--is-inside-work-tree", "--show-object-format"];
    let answer = git.call(&asked).run().await?;
    if answer.code != 0 {
        let failure = answer.failure();
        return Err(match failure.code_str() {
            UNSAFE_REPOSITORY => failure,
            _ => Error::unavailable(format!("{root} is not in a git repository"))
                .code("not_a_repository")
                .hint("run `git init` there, or name another root")
                .source(failure.chain()),
        });
    }
    let answer = answer.line()?;
    let words: Vec<&str> = answer.lines().collect();
    match words.as_slice() {
        ["true", ..] => Err(Error::unavailable(format!("the repository of {root} is bare"))
            .code("bare_repository")
            .hint("use a clone with a working tree")),
        [_, "true", "sha1"] => Ok(ObjectFormat::Sha1),
        [_, "true", "sha256"] => Ok(ObjectFormat::Sha256),
        [_, "true", other] => Err(Error::unavailable(format!("{root} has objects of {other}"))
            .code("not_a_repository")
            .hint("use a repository with SHA-1 or SHA-256 objects")),
        _ => Err(Error::unavailable(format!("{root} is not in a working tree"))
            .code("not_a_repository")
            .hint("name a folder of the working tree, not of `.git`; see also `core.worktree`")),
    }
}

fn hash_object(format: ObjectFormat, kind: &str, bytes: &[u8]) -> BlobId {
    let head = format!("{kind} {}\0", bytes.len());
    let hex = hex(&digest(format, &[head.as_bytes(), bytes]));
    BlobId::try_from(hex).unwrap_or_else(|_| unreachable!("a digest in hexadecimal is an id"))
}

fn digest(format: ObjectFormat, parts: &[&[u8]]) -> Vec<u8> {
    match format {
        ObjectFormat::Sha1 => {
            parts.iter().fold(Sha1::new(), |it, part| it.chain_update(part)).finalize().to_vec()
        }
        ObjectFormat::Sha256 => {
            use sha2::Digest as _;
            parts.iter().fold(Sha256::new(), |it, part| it.chain_update(part)).finalize().to_vec()
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Longest `.git` file that is read: it contains one path.
const GIT_FILE_BYTES_MAX: usize = 16 * 1024;

/// Returns the nearest folder, upwards, that git would accept as a working tree.
pub fn work_tree(folder: &Utf8Path) -> Option<&Utf8Path> {
    folder.ancestors().find(|above| {
        above.join(".git/HEAD").is_file()
            // A file refers to a repository elsewhere: a linked worktree or a submodule.
            || Root::open(above)
                .and_then(|root| root.read_relative(".git".into(), GIT_FILE_BYTES_MAX))
                .is_ok_and(|(text, _)| text.starts_with(b"gitdir:"))
    })
}

/// Runs blocking work on a thread made for it.
pub(in crate::documents) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.context(ErrorKind::Internal, || "a look at the disk panicked".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_the_id_that_git_gives_it() {
        let id = hash_object(ObjectFormat::Sha1, "blob", b"hello\n");
        assert_eq!(id.as_str(), "ce013625030ba8dba906f756967f9e9ca394464a");
        let id = hash_object(ObjectFormat::Sha256, "blob", b"hello\n");
        let known = "2cf8d83d9ee29543b34a87727421fdecb7e3f3a183d337639025de576db9ebb4";
        assert_eq!(id.as_str(), known);
    }

    #[test]
    fn an_old_git_is_refused_by_its_version() {
        for good in ["git version 2.31.0", "git version 2.47.3 (Apple Git-1)", "git version 3.0"] {
            assert!(refuse_old(good).is_ok(), "{good}");
        }
        for bad in ["git version 2.30.9", "git version 1.99", "not git"] {
            let error = refuse_old(bad).unwrap_err();
            assert_eq!(error.code_str(), "git_too_old", "{bad}");
        }
    }
}
