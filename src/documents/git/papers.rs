//! Sources that are texts in memory, in place of a repository: for tests of a script.
//!
//! **Invariant:** nothing is started and no file is read; each text is as if it were committed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use camino::{Utf8Path, Utf8PathBuf};
use tokio::sync::RwLock;
use tokio_util::task::TaskTracker;

use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{BlobId, Error, ErrorKind, Result, SourcePath};
use crate::documents::git::settings::StandIn;
use crate::documents::git::{Git, Head, ObjectFormat, Repo, Shared, entries, globs};
use crate::documents::snapshot::Looks;
use crate::documents::source::{Source, SourceState, not_a_source};
use crate::process::{Children, Root};

/// The program that is named where none must be started.
const NO_GIT: &str = "/dev/null/git-is-not-started-for-tests";

/// The texts.
#[derive(Default)]
pub(in crate::documents) struct Papers {
    texts: Mutex<BTreeMap<SourcePath, String>>,
    /// Every text that there was, by its version.
    versions: Mutex<BTreeMap<BlobId, String>>,
    /// Whether there is a text at every path but those that are left out.
    is_full: AtomicBool,
    left_out: Mutex<BTreeSet<SourcePath>>,
    /// Texts that stand for files beside the script.
    beside: Mutex<BTreeMap<Utf8PathBuf, String>>,
}

impl Repo {
    /// Returns a repository of texts in memory, at first without any; `folder` is an empty one.
    ///
    /// # Errors
    /// `invalid` with code `bad_glob`; if the folder cannot be opened.
    pub fn of_texts(folder: &Utf8Path, sources: &[String]) -> Result<Repo> {
        let git_dir = folder.join("git");
        let shared = Shared {
            git: Git::new(Utf8PathBuf::from(NO_GIT), folder, Children::new()),
            common: git_dir.clone(),
            root: Root::open(folder)?,
            prefix: String::new(),
            sources: globs(sources)?,
            format: ObjectFormat::Sha1,
            approving: RwLock::new(()),
            entries: entries::Entries::default(),
            looks: Looks::default(),
            tasks: TaskTracker::new(),
            papers: Some(Papers::default()),
            git_dir: git_dir.clone(),
        };
        let stand_in = StandIn::at(git_dir.clone(), git_dir, ObjectFormat::Sha1);
        Ok(Repo { shared: Arc::new(shared), stand_in: Arc::new(stand_in), settings: None })
    }

    /// Puts a text at a path, as if it were committed there; for a repository of texts only.
    ///
    /// # Errors
    /// `not_found` with code `not_a_source`; `too_large`; `invalid` with code `not_text`.
    pub fn put_text(&self, path: &SourcePath, text: &str) -> Result<BlobId> {
        self.require_match(path)?;
        let Some(papers) = &self.shared.papers else {
            return Err(Error::internal("only a repository of texts takes a text"));
        };
        if text.len() > SOURCE_BYTES_MAX {
            let message = format!("{path} would have more than {SOURCE_BYTES_MAX} bytes");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        if text.contains('\0') {
            return Err(Error::invalid(format!("{path} holds a NUL byte")).code("not_text"));
        }
        let blob = self.hash(text.as_bytes());
        lock(&papers.versions).insert(blob.clone(), text.to_owned());
        lock(&papers.texts).insert(path.clone(), text.to_owned());
        Ok(blob)
    }

    /// Puts a text in place of a file beside the script; for a repository of texts only.
    pub fn put_beside(&self, path: &Utf8Path, text: &str) {
        if let Some(papers) = &self.shared.papers {
            lock(&papers.beside).insert(path.to_owned(), text.to_owned());
        }
    }

    /// Returns the text that stands for a file beside the script, if one does.
    pub fn text_beside(&self, path: &Utf8Path) -> Option<String> {
        lock(&self.shared.papers.as_ref()?.beside).get(path).cloned()
    }

    /// Lets every path that a glob names have a text, made up when it is asked for.
    pub fn make_up(&self) {
        if let Some(papers) = &self.shared.papers {
            papers.is_full.store(true, Ordering::SeqCst);
        }
    }

    /// Has no text made up at a path.
    pub fn leave_out(&self, path: &SourcePath) {
        if let Some(papers) = &self.shared.papers {
            lock(&papers.left_out).insert(path.clone());
        }
    }

    /// Returns whether the text at a path was put there, and not made up.
    pub fn is_put(&self, path: &SourcePath) -> bool {
        self.shared.papers.as_ref().is_some_and(|it| it.is_there(path))
    }

    /// Returns the texts in memory, if this is a repository of such.
    pub(in crate::documents) fn papers(&self) -> Option<&Papers> {
        self.shared.papers.as_ref()
    }

    /// Returns a Source of the texts in memory.
    pub(in crate::documents) fn paper(&self, papers: &Papers, path: &SourcePath) -> Result<Source> {
        self.require_match(path)?;
        let text = papers.text(path).ok_or_else(|| {
            not_a_source(path, "the test has none there")
                .hint(format!("write t.source(\"{path}\", \"its text\") before"))
        })?;
        let blob = self.hash(text.as_bytes());
        lock(&papers.versions).insert(blob.clone(), text.clone());
        Ok(Source {
            path: path.clone(),
            bytes: u64::try_from(text.len()).unwrap_or(u64::MAX),
            head_blob: Some(blob.clone()),
            state: SourceState::Clean,
            links: 1,
            text,
            blob,
        })
    }
}

impl Papers {
    fn text(&self, path: &SourcePath) -> Option<String> {
        let put = lock(&self.texts).get(path).cloned();
        let is_made_up =
            self.is_full.load(Ordering::SeqCst) && !lock(&self.left_out).contains(path);
        put.or_else(|| is_made_up.then(|| format!("# {path}\n\nA page of a test.\n")))
    }

    /// Returns a text that there was.
    pub(in crate::documents) fn version(&self, blob: &BlobId) -> Result<Vec<u8>> {
        let found = lock(&self.versions).get(blob).map(|it| it.clone().into_bytes());
        found.ok_or_else(|| Error::not_found(format!("no blob {blob}")).code("blob_gone"))
    }

    /// Returns whether there is a text at a path.
    pub(in crate::documents) fn is_there(&self, path: &SourcePath) -> bool {
        lock(&self.texts).contains_key(path)
    }

    /// Returns the branch that is checked out: one with a commit.
    pub(in crate::documents) fn head(repo: &Repo) -> Head {
        Head { branch: "refs/heads/main".to_owned(), commit: repo.hash(b"a commit") }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
