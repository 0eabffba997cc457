//! A cache of index entries, valid until git writes a new index.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::{BlobId, Clock, Result, SourcePath};
use crate::documents::git::{IndexEntry, Repo};

/// Most entries cached.
const KEPT_MAX: usize = 1_000;
/// Minimum age of an index: another one written within the same clock tick would look the same.
const SETTLED_MS: i64 = 100;

/// Identifies an index file: git replaces it by a new file at each change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Cached entries of one index by path; `None` for a path that it does not contain.
type OfOne = (Identity, HashMap<SourcePath, Option<IndexEntry>>);

/// All Sources of an index with their versions, ordered by the bytes of their paths.
pub type KnownSources = Arc<[(SourcePath, BlobId)]>;

/// All Sources of one index.
type Listed = (Identity, KnownSources);

/// The cache.
#[derive(Default)]
pub(super) struct Entries {
    known: Mutex<Option<OfOne>>,
    listed: Mutex<Option<Listed>>,
}

impl Repo {
    /// Like [`Repo::entry`], but does not ask git again while the index is unchanged.
    pub(in crate::documents) async fn known_entry(
        &self,
        path: &SourcePath,
    ) -> Result<Option<IndexEntry>> {
        let before = self.index_identity();
        if let Some(identity) = &before
            && let Some(entry) = self.shared.entries.find(identity, path)
        {
            return Ok(entry);
        }
        let entry = self.entry(path).await?;
        if let Some(identity) = before.filter(|it| it.is_settled())
            && self.index_identity() == Some(identity)
        {
            self.shared.entries.keep(identity, path, &entry);
        }
        Ok(entry)
    }

    /// Returns all tracked Sources, ordered by the bytes of their paths, without asking git again
    /// while the index is unchanged. Their files may be missing from the working tree.
    ///
    /// # Errors
    /// `unavailable` if git fails.
    pub async fn known_sources(&self) -> Result<KnownSources> {
        let before = self.index_identity();
        let kept = || self.shared.entries.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, sources)) = &*kept()
            && Some(*of) == before
        {
            return Ok(Arc::clone(sources));
        }
        let tracked = self.tracked().await?.into_iter();
        let mut sources: Vec<_> = tracked.map(|(path, entry)| (path, entry.blob)).collect();
        sources.sort_unstable_by(|a, b| a.0.as_str().cmp(b.0.as_str()));
        let sources: KnownSources = sources.into();
        if let Some(identity) = before.filter(|it| it.is_settled())
            && self.index_identity() == Some(identity)
        {
            *kept() = Some((identity, Arc::clone(&sources)));
        }
        Ok(sources)
    }

    /// Returns the identity of the current index file; it changes with every commit, checkout, pull
    /// or `git add`. `None` if there is no index.
    pub fn index_identity(&self) -> Option<Identity> {
        let meta = self.shared.git_dir.join("index").symlink_metadata().ok()?;
        Some(Identity {
            inode: meta.ino(),
            bytes: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        })
    }
}

impl Identity {
    fn is_settled(&self) -> bool {
        let changed_ms = self.changed.0.saturating_mul(1_000) + self.changed.1 / 1_000_000;
        changed_ms.saturating_add(SETTLED_MS) <= Clock::system().now().0
    }
}

impl Entries {
    fn find(&self, identity: &Identity, path: &SourcePath) -> Option<Option<IndexEntry>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, entries) = known.as_ref().filter(|(of, _)| of == identity)?;
        entries.get(path).cloned()
    }

    fn keep(&self, identity: Identity, path: &SourcePath, entry: &Option<IndexEntry>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same =
            known.as_ref().is_some_and(|(of, all)| *of == identity && all.len() < KEPT_MAX);
        if !is_same {
            *known = Some((identity, HashMap::new()));
        }
        if let Some((_, entries)) = known.as_mut() {
            entries.insert(path.clone(), entry.clone());
        }
    }
}
