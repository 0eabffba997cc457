//! Scans the repository's Sources and returns those that changed since the last scan.
//!
//! **Invariant:** only Sources that git reports as changed, or that differ between the two commits,
//! are read: the cost depends on the changes, not on the size of the repository.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::base::limit::{DIRTY_SOURCES_MAX, GIT_LISTING_BYTES_MAX, SOURCE_BYTES_MAX};
use crate::base::{BlobId, Clock, Error, Result, SourcePath};
use crate::documents::git::{Conversion, IndexEntry, Repo, blocking};
use crate::documents::seen::{Hint, Seen, Sighting, SourceChange};
use crate::documents::snapshot::status::{self, Found, Status};

/// Most paths passed to git; with more it scans everything.
const PATHS_NAMED_MAX: usize = 200;
/// Bytes of output per object.
const ANSWER_BYTES_MAX: usize = 256;

/// The versions of Sources in two commits.
pub(in crate::documents) type Moved = BTreeMap<SourcePath, (Option<BlobId>, Option<BlobId>)>;

/// A Source with changes in the working tree or the index.
struct Dirty {
    /// The version in the working tree.
    work: Option<BlobId>,
    /// The committed version.
    head: Option<BlobId>,
}

impl Repo {
    /// Scans the Sources while no approval is in progress; `before` is the previous result.
    ///
    /// # Errors
    /// `unavailable` if git fails.
    pub async fn sight(
        &self,
        before: Option<&Seen>,
        hint: &Hint,
        clock: &Clock,
    ) -> Result<Sighting> {
        let _still = self.stillness().await;
        if let Some(papers) = self.papers() {
            return Ok(papers.sighted(self, before, clock));
        }
        let repo = self.settled().await?;
        let hint = match (before, hint) {
            (Some(_), Hint::Paths(paths)) if paths.len() <= PATHS_NAMED_MAX => hint,
            _ => &Hint::All,
        };
        let status = repo.status_of_sources(hint).await?;
        match before {
            Some(seen) if *hint != Hint::All && status.tip.commit != seen.head => {
                let status = repo.status_of_sources(&Hint::All).await?;
                repo.sighted(before, &Hint::All, status, clock).await
            }
            _ => repo.sighted(before, hint, status, clock).await,
        }
    }

    /// Returns every Source in its scanned version, changed or not.
    ///
    /// # Errors
    /// `unavailable` if git fails.
    pub async fn all_seen(&self, seen: &Seen) -> Result<Vec<SourceChange>> {
        let repo = self.settled().await?;
        let dirty: Vec<SourcePath> = seen.dirty.keys().cloned().collect();
        let (tracked, mut committed) =
            tokio::try_join!(repo.tracked(), repo.blobs_at(seen.head.as_ref(), &dirty))?;
        let change = |(path, entry): (SourcePath, IndexEntry)| match seen.dirty.get(&path) {
            Some(work) => {
                let (blob, head_blob) = (work.clone(), committed.remove(&path));
                SourceChange { path, blob, head_blob, is_clean: false }
            }
            None => {
                let blob = Some(entry.blob);
                SourceChange { path, head_blob: blob.clone(), blob, is_clean: true }
            }
        };
        Ok(tracked.into_iter().map(change).collect())
    }

    /// Returns those of some changes that show the Source as it was in an earlier scan: in its
    /// commit, or `dirty` if it differed from that. None if the commit is gone.
    ///
    /// # Errors
    /// `unavailable` if git fails.
    pub async fn told_of(
        &self,
        head: Option<&BlobId>,
        dirty: &BTreeMap<SourcePath, Option<BlobId>>,
        changes: &[SourceChange],
    ) -> Result<BTreeSet<SourcePath>> {
        let is_here = match head {
            Some(commit) if self.papers().is_none() => self.has_object(commit).await?,
            _ => false,
        };
        if changes.is_empty() || !is_here {
            return Ok(BTreeSet::new());
        }
        let paths: Vec<SourcePath> = changes.iter().map(|it| it.path.clone()).collect();
        let committed = self.blobs_at(head, &paths).await?;
        let is_same = |it: &&SourceChange| match dirty.get(&it.path) {
            Some(work) => !it.is_clean && *work == it.blob,
            None => it.is_clean && committed.get(&it.path) == it.head_blob.as_ref(),
        };
        Ok(changes.iter().filter(is_same).map(|it| it.path.clone()).collect())
    }

    /// Returns which of some Sources had another name in a commit than in the one before it; none
    /// if one of the commits is gone.
    ///
    /// # Errors
    /// `unavailable` if git fails.
    pub async fn renames_until(
        &self,
        from: &BlobId,
        to: &BlobId,
        names: &BTreeSet<SourcePath>,
    ) -> Result<BTreeMap<SourcePath, SourcePath>> {
        if names.is_empty()
            || self.papers().is_some()
            || !self.has_object(from).await?
            || !self.has_object(to).await?
        {
            return Ok(BTreeMap::new());
        }
        let paths: Vec<SourcePath> = names.iter().cloned().collect();
        let there = self.blobs_at(Some(to), &paths).await?;
        let gone = names.iter().filter(|it| !there.contains_key(*it)).cloned().collect();
        self.renames(from, to, &gone, names).await
    }

    async fn sighted(
        &self,
        before: Option<&Seen>,
        hint: &Hint,
        status: Status,
        clock: &Clock,
    ) -> Result<Sighting> {
        let Status { tip, paths } = status;
        let found = self.dirty(paths).await?;
        let mut seen = Seen {
            head: tip.commit,
            dirty: found.iter().map(|(path, it)| (path.clone(), it.work.clone())).collect(),
            at: clock.now(),
        };
        let branch = tip.branch;
        let Some(before) = before else {
            return Ok(Sighting { seen, branch, changes: Vec::new(), is_all_new: false });
        };
        let Some(moved) = self.moved(before.head.as_ref(), seen.head.as_ref()).await? else {
            return Ok(Sighting { seen, branch, changes: Vec::new(), is_all_new: true });
        };
        let looked: BTreeSet<SourcePath> = match hint {
            Hint::All => before.dirty.keys().chain(found.keys()).cloned().collect(),
            Hint::Paths(paths) => {
                let unseen = before.dirty.iter().filter(|(path, _)| !paths.contains(*path));
                seen.dirty.extend(unseen.map(|(path, blob)| (path.clone(), blob.clone())));
                paths.clone()
            }
        };
        let mut changed: Vec<SourcePath> = looked
            .into_iter()
            .filter(|it| before.dirty.get(it) != seen.dirty.get(it))
            .chain(moved.keys().cloned())
            .collect();
        changed.sort_unstable();
        changed.dedup();
        let changes = self.described(changed, &seen, &found, &moved).await?;
        Ok(Sighting { seen, branch, changes, is_all_new: false })
    }

    /// Adds the versions of changed Sources.
    async fn described(
        &self,
        changed: Vec<SourcePath>,
        seen: &Seen,
        found: &BTreeMap<SourcePath, Dirty>,
        moved: &Moved,
    ) -> Result<Vec<SourceChange>> {
        let is_asked = |it: &&SourcePath| !found.contains_key(*it) && !moved.contains_key(*it);
        let asked: Vec<SourcePath> = changed.iter().filter(is_asked).cloned().collect();
        let committed = self.blobs_at(seen.head.as_ref(), &asked).await?;
        let clean: Vec<SourcePath> =
            changed.iter().filter(|it| !found.contains_key(*it)).cloned().collect();
        let converted = self.converted(&clean).await?;
        let change = |path: SourcePath| {
            if let Some(Dirty { work, head }) = found.get(&path) {
                let (blob, head_blob) = (work.clone(), head.clone());
                return SourceChange { path, blob, head_blob, is_clean: false };
            }
            let head_blob = match moved.get(&path) {
                Some((_, new)) => new.clone(),
                None => committed.get(&path).cloned(),
            };
            let blob = match converted.get(&path) {
                Some(blob) if head_blob.is_some() => blob.clone(),
                _ => head_blob.clone(),
            };
            SourceChange { path, blob, head_blob, is_clean: true }
        };
        Ok(changed.into_iter().map(change).collect())
    }

    async fn status_of_sources(&self, hint: &Hint) -> Result<Status> {
        let call = self.git().call(&[
            "status",
            "--porcelain=v2",
            "-z",
            "--branch",
            "--untracked-files=no",
            "--no-renames",
            "--ignore-submodules=all",
            "--no-ahead-behind",
        ]);
        let below: Vec<String> = match hint {
            Hint::All => Vec::from_iter(Some(self.git_prefix()).filter(|it| !it.is_empty())),
            Hint::Paths(paths) => paths.iter().map(|it| self.git_path(it)).collect(),
        };
        let huge = self.huge_files((*hint != Hint::All).then_some(&below)).await?;
        let call = call.on_paths(&below, &huge).output_max(GIT_LISTING_BYTES_MAX);
        let told = call.on_files(&*self.settings().await?).output().await?;
        let mut status = status::parse(&told)?;
        status::add_flagged(&mut status, huge);
        Ok(status)
    }

    /// Returns the Sources that git reports as changed, with their versions in the working tree.
    async fn dirty(&self, paths: BTreeMap<String, Found>) -> Result<BTreeMap<SourcePath, Dirty>> {
        let sources: Vec<(SourcePath, Found)> = paths
            .into_iter()
            .filter_map(|(name, found)| Some((self.source_path(name.as_bytes())?, found)))
            .collect();
        if sources.len() > DIRTY_SOURCES_MAX {
            tracing::warn!(
                "{} sources are changed and not committed: only the first {DIRTY_SOURCES_MAX} are \
                 looked at",
                sources.len()
            );
        }
        let repo = self.clone();
        blocking(move || {
            let all = sources.into_iter().take(DIRTY_SOURCES_MAX);
            all.map(|(path, found)| {
                let is_file = |mode: &str| matches!(mode, "100644" | "100755");
                let is_tracked = found.index.iter().any(|it| is_file(&it.spot.mode));
                let work = if is_tracked { repo.hash_of_file(&path) } else { None };
                let head = found.head.filter(|it| is_file(&it.mode)).map(|it| it.blob);
                (path, Dirty { work, head })
            })
            .collect()
        })
        .await
    }

    /// Returns the version of a working file; `None` if it cannot be a Source.
    fn hash_of_file(&self, path: &SourcePath) -> Option<BlobId> {
        let read = self.root().read(path, SOURCE_BYTES_MAX).inspect_err(|cause| {
            tracing::debug!(source_path = %path, "has no version: {}", cause.chain());
        });
        Some(self.hash(&read.ok()?.0))
    }

    /// Returns the versions of those clean Sources whose bytes git converts.
    async fn converted(&self, paths: &[SourcePath]) -> Result<HashMap<SourcePath, Option<BlobId>>> {
        if paths.is_empty() {
            return Ok(HashMap::new());
        }
        let conversions = self.conversions(paths).await?;
        let repo = self.clone();
        blocking(move || {
            let possible = conversions.into_iter().filter(|(_, it)| Conversion::is_possible(it));
            possible.map(|(path, _)| (path.clone(), repo.hash_of_file(&path))).collect()
        })
        .await
    }

    /// Returns the Sources that differ between two commits; `None` if the first one is gone.
    pub(in crate::documents) async fn moved(
        &self,
        from: Option<&BlobId>,
        to: Option<&BlobId>,
    ) -> Result<Option<Moved>> {
        if from == to {
            return Ok(Some(Moved::new()));
        }
        if let Some(from) = from
            && !self.has_object(from).await?
        {
            return Ok(None);
        }
        let empty = self.empty_tree().await?;
        let (from, to) = (from.unwrap_or(&empty), to.unwrap_or(&empty));
        let args = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev"];
        let call = self.git().call(&args).arg(from.as_str()).arg(to.as_str()).arg("--");
        let call = match self.git_prefix() {
            prefix if prefix.is_empty() => call,
            prefix => call.arg(prefix),
        };
        let listed = call.output_max(GIT_LISTING_BYTES_MAX).output().await?;
        self.moved_sources(&listed).map(Some)
    }

    /// Parses `:MODE MODE BLOB BLOB STATE\0PATH\0`.
    fn moved_sources(&self, listed: &[u8]) -> Result<Moved> {
        let mut moved = Moved::new();
        let mut records = listed.split(|byte| *byte == 0).filter(|it| !it.is_empty());
        while let (Some(about), Some(name)) = (records.next(), records.next()) {
            let about = String::from_utf8_lossy(about);
            let words: Vec<&str> = about.split(' ').collect();
            let [old_mode, new_mode, old, new, _] = words[..] else {
                return Err(Error::internal(format!("git diff-tree answered `{about}`")));
            };
            let version = |mode: &str, blob: &str| -> Result<Option<BlobId>> {
                match mode.trim_start_matches(':') {
                    "100644" | "100755" => blob.parse().map(Some),
                    _ => Ok(None),
                }
            };
            let versions = (version(old_mode, old)?, version(new_mode, new)?);
            // A change of the mode alone does not change the text.
            if versions.0 != versions.1
                && let Some(path) = self.source_path(name)
            {
                moved.insert(path, versions);
            }
        }
        Ok(moved)
    }

    /// Returns the blobs of some paths in a commit, without those that do not exist.
    pub(in crate::documents) async fn blobs_at(
        &self,
        commit: Option<&BlobId>,
        paths: &[SourcePath],
    ) -> Result<HashMap<SourcePath, BlobId>> {
        let Some(commit) = commit.filter(|_| !paths.is_empty()) else {
            return Ok(HashMap::new());
        };
        let asked: String =
            paths.iter().map(|it| format!("{commit}:{}\n", self.git_path(it))).collect();
        let call = self.git().call(&["cat-file", "--batch-check=%(objecttype) %(objectname)"]);
        let limit = asked.len() + paths.len() * ANSWER_BYTES_MAX;
        let told = call.stdin(asked).output_max(limit).output().await?;
        let told = String::from_utf8_lossy(&told);
        let lines: Vec<&str> = told.lines().collect();
        if lines.len() != paths.len() {
            return Err(Error::internal("git cat-file answered about other paths than requested"));
        }
        let found = paths.iter().zip(lines).filter_map(|(path, line)| {
            Some((path.clone(), line.strip_prefix("blob ")?.parse().ok()?))
        });
        Ok(found.collect())
    }
}
