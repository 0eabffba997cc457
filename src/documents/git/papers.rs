//! In-memory Sources instead of a repository, for tests of a script.
//!
//! **Invariant:** nothing is started and no file is read. Texts count as committed, unless they
//! were put over a committed one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use camino::{Utf8Path, Utf8PathBuf};
use tokio::sync::RwLock;
use tokio_util::task::TaskTracker;

use crate::api::sources::SourceState;
use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{BlobId, Clock, Error, ErrorKind, Result, SourcePath};
use crate::documents::git::settings::StandIn;
use crate::documents::git::{Git, Head, ObjectFormat, Person, Repo, Shared, TreeEntry};
use crate::documents::git::{SourceGlobs, entries};
use crate::documents::seen::{Seen, Sighting, SourceChange};
use crate::documents::snapshot::Looks;
use crate::documents::sources::source::{Source, not_a_source};
use crate::process::{Children, Root};

/// The program's path where none may be started.
const NO_GIT: &str = "/dev/null/git-is-not-started-for-tests";
/// The current branch.
const BRANCH: &str = "refs/heads/main";

/// Old and new version of a Source.
type Versions = (Option<BlobId>, Option<BlobId>);

/// A commit of in-memory texts.
#[derive(Clone, Debug)]
pub struct PaperCommit {
    /// Its id.
    pub id: BlobId,
    /// The author.
    pub author: Person,
    /// The committer.
    pub committer: Person,
    /// The complete message.
    pub message: String,
    /// What it changed.
    changed: BTreeMap<SourcePath, Versions>,
}

/// The texts.
#[derive(Default)]
pub(in crate::documents) struct Papers {
    texts: Mutex<BTreeMap<SourcePath, String>>,
    /// Uncommitted texts of the working tree.
    edits: Mutex<BTreeMap<SourcePath, String>>,
    /// The commits after the first one, oldest first.
    commits: Mutex<Vec<PaperCommit>>,
    /// Every text that ever existed, by version.
    versions: Mutex<BTreeMap<BlobId, String>>,
    /// Whether every path has a text, except those left out.
    is_full: AtomicBool,
    left_out: Mutex<BTreeSet<SourcePath>>,
    /// Texts that replace files beside the script.
    beside: Mutex<BTreeMap<Utf8PathBuf, String>>,
}

impl PaperCommit {
    /// Returns the paths that it changed.
    pub fn paths(&self) -> Vec<SourcePath> {
        self.changed.keys().cloned().collect()
    }
}

impl Repo {
    /// Returns a repository of in-memory texts, initially empty; `folder` is an empty folder.
    ///
    /// # Errors
    /// `invalid` with code `bad_glob`; `unavailable` if the folder cannot be opened.
    pub fn of_texts(folder: &Utf8Path, sources: &[String]) -> Result<Repo> {
        let git_dir = folder.join("git");
        let shared = Shared {
            walked: super::last_change::Walked::default(),
            deletions: super::deletion::Deletions::default(),
            git: Git::new(Utf8PathBuf::from(NO_GIT), folder, Children::new()),
            common: git_dir.clone(),
            root: Root::open(folder)?,
            prefix: String::new(),
            sources: SourceGlobs::of(sources)?,
            format: ObjectFormat::Sha1,
            approving: RwLock::new(()),
            worktrees: tokio::sync::Mutex::new(()),
            entries: entries::Entries::default(),
            looks: Looks::default(),
            tasks: TaskTracker::new(),
            opened: None,
            papers: Some(Papers::default()),
            git_dir: git_dir.clone(),
        };
        let stand_in = StandIn::at(git_dir.clone(), git_dir, ObjectFormat::Sha1);
        Ok(Repo { shared: Arc::new(shared), stand_in: Arc::new(stand_in), settings: None })
    }

    /// Puts a committed text at a path; only for a repository of texts. The path is then a Source,
    /// regardless of the globs.
    ///
    /// # Errors
    /// `too_large`; `invalid` with code `not_text`.
    pub fn put_text(&self, path: &SourcePath, text: &str) -> Result<BlobId> {
        let (papers, blob) = self.take_text(path, text)?;
        lock(&papers.texts).insert(path.clone(), text.to_owned());
        Ok(blob)
    }

    /// Puts an uncommitted text into the working tree; only for a repository of texts.
    ///
    /// # Errors
    /// Same as [`Repo::put_text`]; `not_found` with code `not_a_source`.
    pub fn put_edit(&self, path: &SourcePath, text: &str) -> Result<()> {
        self.require_match(path)?;
        let (papers, _) = self.take_text(path, text)?;
        let is_same = papers.text(path).as_deref() == Some(text);
        match is_same {
            true => lock(&papers.edits).remove(path),
            false => lock(&papers.edits).insert(path.clone(), text.to_owned()),
        };
        Ok(())
    }

    /// Commits texts, or deletions for `None`; only for a repository of texts.
    ///
    /// # Errors
    /// Same as [`Repo::put_text`]; `not_found` for the deletion of a missing Source.
    pub fn put_commit(
        &self,
        files: &BTreeMap<SourcePath, Option<String>>,
        (author, committer): (&Person, &Person),
        message: &str,
    ) -> Result<PaperCommit> {
        for (path, text) in files {
            match text {
                Some(text) => {
                    self.require_match(path)?;
                    self.take_text(path, text)?;
                }
                None => drop(self.papers().map(|it| self.committed(it, path)).transpose()?),
            }
        }
        let papers = self.papers().ok_or_else(not_of_texts)?;
        let mut changed = BTreeMap::new();
        for (path, text) in files {
            let old = papers.text(path).map(|it| self.hash(it.as_bytes()));
            let new = text.as_ref().map(|it| self.hash(it.as_bytes()));
            lock(&papers.edits).remove(path);
            match text {
                Some(text) => drop(lock(&papers.texts).insert(path.clone(), text.clone())),
                None => {
                    lock(&papers.texts).remove(path);
                    self.leave_out(path);
                }
            }
            changed.insert(path.clone(), (old, new));
        }
        let id = papers.next_commit(self);
        let (author, committer) = (author.clone(), committer.clone());
        let commit = PaperCommit { id, author, committer, message: message.to_owned(), changed };
        lock(&papers.commits).push(commit.clone());
        Ok(commit)
    }

    /// Returns a commit of a repository of texts.
    pub fn paper_commit(&self, id: &BlobId) -> Option<PaperCommit> {
        lock(&self.papers()?.commits).iter().find(|it| it.id == *id).cloned()
    }

    /// Stores a text that a Source may have.
    fn take_text(&self, path: &SourcePath, text: &str) -> Result<(&Papers, BlobId)> {
        let papers = self.papers().ok_or_else(not_of_texts)?;
        if text.len() > SOURCE_BYTES_MAX {
            let message = format!("{path} would have more than {SOURCE_BYTES_MAX} bytes");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        if text.contains('\0') {
            return Err(Error::invalid(format!("{path} has a NUL byte")).code("not_text"));
        }
        let blob = self.hash(text.as_bytes());
        lock(&papers.versions).insert(blob.clone(), text.to_owned());
        Ok((papers, blob))
    }

    /// Replaces a file beside the script by a text; only for a repository of texts.
    pub fn put_beside(&self, path: &Utf8Path, text: &str) {
        if let Some(papers) = &self.shared.papers {
            lock(&papers.beside).insert(path.to_owned(), text.to_owned());
        }
    }

    /// Returns the text that replaces a file beside the script, if any.
    pub fn text_beside(&self, path: &Utf8Path) -> Option<String> {
        lock(&self.shared.papers.as_ref()?.beside).get(path).cloned()
    }

    /// Returns the paths of the files beside the script that texts replace.
    pub fn paths_beside(&self) -> Vec<Utf8PathBuf> {
        let Some(papers) = &self.shared.papers else { return Vec::new() };
        lock(&papers.beside).keys().cloned().collect()
    }

    /// Makes up a text for every path that matches a glob, on request.
    pub fn make_up(&self) {
        if let Some(papers) = &self.shared.papers {
            papers.is_full.store(true, Ordering::SeqCst);
        }
    }

    /// Stops a text from being made up at a path.
    pub fn leave_out(&self, path: &SourcePath) {
        if let Some(papers) = &self.shared.papers {
            lock(&papers.left_out).insert(path.clone());
        }
    }

    /// Returns whether the text at a path was put there rather than made up.
    pub fn is_put(&self, path: &SourcePath) -> bool {
        self.shared.papers.as_ref().is_some_and(|it| it.is_there(path))
    }

    /// Returns whether it is one of texts, as in a test of a script: no git knows its documents.
    pub fn is_of_texts(&self) -> bool {
        self.papers().is_some()
    }

    /// Returns the in-memory texts, if this is such a repository.
    pub(in crate::documents) fn papers(&self) -> Option<&Papers> {
        self.shared.papers.as_ref()
    }

    /// Returns an in-memory Source.
    pub(in crate::documents) fn paper(&self, papers: &Papers, path: &SourcePath) -> Result<Source> {
        let (head_blob, committed) = self.committed(papers, path)?;
        let edit = lock(&papers.edits).get(path).cloned();
        let state = if edit.is_some() { SourceState::Modified } else { SourceState::Clean };
        let text = edit.unwrap_or(committed);
        Ok(Source {
            path: path.clone(),
            bytes: u64::try_from(text.len()).unwrap_or(u64::MAX),
            head_blob: Some(head_blob),
            state,
            links: 1,
            blob: self.hash(text.as_bytes()),
            text,
        })
    }

    /// Returns the committed text of a Source, with its version.
    fn committed(&self, papers: &Papers, path: &SourcePath) -> Result<(BlobId, String)> {
        self.require_match(path)?;
        let text = papers.text(path).ok_or_else(|| {
            not_a_source(path, "the test has none there")
                .hint(format!("write t.source(\"{path}\", \"its text\") before"))
        })?;
        let blob = self.hash(text.as_bytes());
        lock(&papers.versions).insert(blob.clone(), text.clone());
        Ok((blob, text))
    }
}

impl Papers {
    /// Returns the committed text at a path.
    fn text(&self, path: &SourcePath) -> Option<String> {
        let put = lock(&self.texts).get(path).cloned();
        let is_made_up =
            self.is_full.load(Ordering::SeqCst) && !lock(&self.left_out).contains(path);
        put.or_else(|| is_made_up.then(|| format!("# {path}\n\nA page of a test.\n")))
    }

    /// Returns the text of a version.
    pub(in crate::documents) fn version(&self, blob: &BlobId) -> Result<Vec<u8>> {
        let found = lock(&self.versions).get(blob).map(|it| it.clone().into_bytes());
        found.ok_or_else(|| Error::not_found(format!("no blob {blob}")).code("blob_gone"))
    }

    /// Returns whether a text was put at a path.
    pub(in crate::documents) fn is_there(&self, path: &SourcePath) -> bool {
        lock(&self.texts).contains_key(path)
    }

    /// Returns whether an uncommitted text covers the committed one.
    pub(in crate::documents) fn is_edited(&self, path: &SourcePath) -> bool {
        lock(&self.edits).contains_key(path)
    }

    /// Returns what the checked-out commit contains at a path.
    pub(in crate::documents) fn entry(&self, repo: &Repo, path: &SourcePath) -> Option<TreeEntry> {
        // A text that would be made up counts as present, unless the path is to be new.
        let blob = repo.committed(self, path).ok()?.0;
        Some(TreeEntry { blob, mode: "100644".to_owned() })
    }

    /// Returns the current branch with its newest commit.
    pub(in crate::documents) fn head(&self, repo: &Repo) -> Head {
        let commit = lock(&self.commits).last().map(|it| it.id.clone());
        let commit = commit.unwrap_or_else(|| repo.hash(b"a commit"));
        Head { branch: BRANCH.to_owned(), commit }
    }

    /// Returns the id of the next commit.
    pub(in crate::documents) fn next_commit(&self, repo: &Repo) -> BlobId {
        repo.hash(format!("a commit after {}", lock(&self.commits).len()).as_bytes())
    }

    /// Scans the Sources like those of a repository.
    pub(in crate::documents) fn sighted(
        &self,
        repo: &Repo,
        before: Option<&Seen>,
        clock: &Clock,
    ) -> Sighting {
        let head = self.head(repo);
        let edits = lock(&self.edits).clone();
        let hash = |text: &String| Some(repo.hash(text.as_bytes()));
        let dirty: BTreeMap<SourcePath, Option<BlobId>> =
            edits.iter().map(|(path, text)| (path.clone(), hash(text))).collect();
        let seen = Seen { head: Some(head.commit.clone()), dirty, at: clock.now() };
        let mut changes = Vec::new();
        if let Some(before) = before {
            let moved = self.moved(before.head.as_ref());
            let looked: BTreeSet<&SourcePath> =
                before.dirty.keys().chain(seen.dirty.keys()).chain(moved.keys()).collect();
            let is_changed = |it: &&SourcePath| {
                moved.contains_key(*it) || before.dirty.get(*it) != seen.dirty.get(*it)
            };
            changes.extend(looked.into_iter().filter(is_changed).map(|path| {
                let head_blob = self.text(path).as_ref().and_then(hash);
                let (blob, is_clean) = match seen.dirty.get(path) {
                    Some(work) => (work.clone(), false),
                    None => (head_blob.clone(), true),
                };
                SourceChange { path: path.clone(), blob, head_blob, is_clean }
            }));
        }
        Sighting { seen, branch: Some(head.branch), changes, is_all_new: false }
    }

    /// Returns what changed in the commits after one.
    fn moved(&self, from: Option<&BlobId>) -> BTreeMap<SourcePath, Versions> {
        let commits = lock(&self.commits);
        let known = commits.iter().position(|it| Some(&it.id) == from).map_or(0, |it| it + 1);
        let mut moved = BTreeMap::<SourcePath, Versions>::new();
        for (path, (old, new)) in commits[known..].iter().flat_map(|it| &it.changed) {
            let versions = moved.entry(path.clone()).or_insert_with(|| (old.clone(), None));
            versions.1.clone_from(new);
        }
        moved.retain(|_, (old, new)| old != new);
        moved
    }

    /// Returns the new names of Sources that disappeared since a commit and reappeared with the
    /// same text.
    pub(in crate::documents) fn renames(
        &self,
        from: &BlobId,
        gone: &BTreeSet<SourcePath>,
    ) -> BTreeMap<SourcePath, SourcePath> {
        let moved = self.moved(Some(from));
        let name_of = |old: &Option<BlobId>| {
            let came = moved.iter().find(|(_, (was, is))| was != is && is == old);
            came.map(|(path, _)| path.clone())
        };
        let old = |path: &SourcePath| moved.get(path)?.0.clone();
        gone.iter().filter_map(|it| Some((it.clone(), name_of(&Some(old(it)?))?))).collect()
    }
}

fn not_of_texts() -> Error {
    Error::internal("only a repository of texts takes a text")
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
