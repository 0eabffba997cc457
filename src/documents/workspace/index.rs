//! The index of a worktree: what is only staged there, and what a sparse checkout hides.
//!
//! **Invariant:** git reads and writes a copy. An index that git cannot read, or only in part,
//! does not keep anything else from being saved: it is saved as far as it can be.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::limit::KEPT_WORK_BYTES_MAX;
use crate::base::{BlobId, Context, DISK_FULL, Error, ErrorKind, READ_ONLY, Result};
use crate::documents::git::{Call, blocking};
use crate::documents::workspace::tree::{Tree, not_kept};
use crate::process::{is_usurped, read_small};

/// Longest index and listing of one, in bytes.
const INDEX_BYTES_MAX: usize = crate::base::limit::GIT_LISTING_BYTES_MAX;
/// Where the entries of an index with conflicts are saved, by their stage.
const STAGES: [&str; 4] = ["merged/", "base/", "ours/", "theirs/"];
/// The name under which an index is saved that git cannot read.
const UNREADABLE_NAME: &str = "index";

/// A copy of a worktree's index.
pub(super) struct Index<'t> {
    tree: &'t Tree,
    /// The copy; `None` if the worktree has no index.
    copy: Option<Utf8PathBuf>,
    /// Whether it is whole, and git would read nothing but regular files with it.
    is_sound: bool,
}

/// An entry of an index.
struct Entry<'l> {
    mode: &'l str,
    id: &'l str,
    stage: usize,
    path: &'l [u8],
}

impl<'t> Index<'t> {
    /// Copies the index of a worktree into a folder that nobody else uses.
    ///
    /// # Errors
    /// `conflict` with code `not_kept` if it is too large; `unavailable` if it cannot be read.
    pub(super) async fn copy(tree: &'t Tree, folder: &Utf8Path) -> Result<Index<'t>> {
        let (repo, own, copy) = (tree.repo.clone(), tree.own.clone(), folder.join("staged"));
        let copied = blocking(move || {
            let bytes_max = u64::try_from(INDEX_BYTES_MAX).unwrap_or(u64::MAX);
            let bytes = match read_small(&own.join("index"), bytes_max) {
                // A link leads to a file that is not removed with the worktree.
                Err(cause) if is_usurped(&cause) => None,
                Err(cause) if cause.kind() == ErrorKind::TooLarge => {
                    let why = format!("its index has more than {INDEX_BYTES_MAX} bytes");
                    return Err(not_kept(why));
                }
                read => read?.filter(|it| !it.is_empty()),
            };
            let Some(bytes) = bytes else { return Ok((None, true)) };
            std::fs::write(&copy, &bytes)
                .context(ErrorKind::Unavailable, || format!("cannot write {copy}"))?;
            // The other half of a split index. Git would wait at a FIFO.
            let beside = own
                .read_dir_utf8()
                .context(ErrorKind::Unavailable, || format!("cannot read {own}"))?;
            let mut shared =
                beside.flatten().filter(|it| it.file_name().starts_with("sharedindex."));
            let is_regular = shared.all(|it| it.file_type().is_ok_and(|it| it.is_file()));
            let is_sound = is_regular && repo.is_whole_index(&bytes);
            Ok::<_, Error>((Some(copy), is_sound))
        });
        let (copy, is_sound) = copied.await??;
        Ok(Index { tree, copy, is_sound })
    }

    /// Returns the files that git was told to leave out of the worktree (`skip-worktree`); none if
    /// git cannot read the index.
    ///
    /// # Errors
    /// `unavailable` if git cannot be started or times out.
    pub(super) async fn hidden(&self) -> Result<BTreeSet<Vec<u8>>> {
        let Some(copy) = self.copy.as_ref().filter(|_| self.is_sound) else {
            return Ok(BTreeSet::new());
        };
        let listed = self.call(copy, &["ls-files", "-t", "-z"]).await?.run().await?;
        if listed.code != 0 {
            return Ok(BTreeSet::new());
        }
        let records = listed.stdout.split(|byte| *byte == 0);
        Ok(records.filter_map(|it| it.strip_prefix(b"S ")).map(<[u8]>::to_vec).collect())
    }

    /// Stores what is staged as a tree; returns its id, or `None` without an index. With conflicts,
    /// the tree has a folder for each stage; of an index that git cannot read, the index itself.
    ///
    /// # Errors
    /// `conflict` with code `not_kept` if an unreadable index is too large; `unavailable` if
    /// nothing can be written, or git times out.
    pub(super) async fn tree(&self) -> Result<Option<String>> {
        let Some(copy) = &self.copy else { return Ok(None) };
        if !self.is_sound {
            return self.tree_of_unreadable(copy).await.map(Some);
        }
        let written = self.call(copy, &["write-tree"]).await?.run().await?;
        if written.code == 0 {
            return written.line().map(Some);
        }
        pass_over(written.failure())?;
        let listed = self.call(copy, &["ls-files", "--stage", "-z"]).await?.run().await?;
        if listed.code == 0 {
            let lines = self.storable(&listed.stdout).await?;
            let index = copy.with_file_name("storable");
            match self.tree.repo.tree_with(None, &lines, &index).await {
                Ok(stored) => return Ok(Some(stored.to_string())),
                Err(failure) => pass_over(failure)?,
            }
        } else {
            pass_over(listed.failure())?;
        }
        self.tree_of_unreadable(copy).await.map(Some)
    }

    /// Returns the lines for a tree of those entries whose objects exist.
    async fn storable(&self, listed: &[u8]) -> Result<Vec<u8>> {
        let records = listed.split(|byte| *byte == 0).filter(|it| !it.is_empty());
        let entries: Vec<Entry<'_>> = records.filter_map(entry).collect();
        let ids: BTreeSet<&str> = entries.iter().map(|it| it.id).collect();
        let asked: String = ids.iter().map(|it| format!("{it}\n")).collect();
        let check = ["cat-file", "--batch-check=%(objectname) %(objecttype)"];
        let call = self.tree.repo.git().call(&check).stdin(asked).output_max(INDEX_BYTES_MAX);
        let told = String::from_utf8_lossy(&call.output().await?).into_owned();
        let blobs: BTreeSet<&str> =
            told.lines().filter_map(|line| line.strip_suffix(" blob")).collect();
        let has_conflicts = entries.iter().any(|it| it.stage != 0);
        let mut lines = Vec::new();
        for entry in entries {
            let is_submodule = entry.mode == "160000";
            if is_submodule || blobs.contains(entry.id) {
                let folder = if has_conflicts { STAGES[entry.stage] } else { "" };
                lines.extend(format!("{} {}\t{folder}", entry.mode, entry.id).into_bytes());
                lines.extend([entry.path, b"\0"].concat());
            }
        }
        Ok(lines)
    }

    async fn tree_of_unreadable(&self, copy: &Utf8Path) -> Result<String> {
        let at = copy.to_owned();
        let bytes = blocking(move || at.symlink_metadata().map(|it| it.len())).await?;
        let bytes = bytes.context(ErrorKind::Unavailable, || format!("cannot read {copy}"))?;
        if bytes > KEPT_WORK_BYTES_MAX {
            return Err(not_kept(format!("git cannot read its index of {bytes} bytes")));
        }
        let repo = &self.tree.repo;
        let store = ["hash-object", "-w", "--no-filters", "--", copy.as_str()];
        let blob: BlobId = repo.git().call(&store).writing().line().await?.parse()?;
        let line = format!("100644 {blob}\t{UNREADABLE_NAME}\0");
        let index = copy.with_file_name("storable");
        Ok(repo.tree_with(None, line.as_bytes(), &index).await?.to_string())
    }

    /// Starts a call on the copy. It sees no configuration of the repository, and needs no files:
    /// those of the worktree may be gone.
    async fn call(&self, copy: &Utf8Path, args: &[&str]) -> Result<Call<'_>> {
        let settings = self.tree.repo.settings().await?;
        let call = self.tree.repo.git().call(args).set("core.sparseCheckout=false");
        let call = call.set("core.splitIndex=false").env("GIT_INDEX_FILE", copy.as_str());
        // The other half of a split index is there.
        let call = call.env("GIT_DIR", self.tree.own.as_str()).on_files(&settings);
        Ok(call.writing().output_max(INDEX_BYTES_MAX))
    }
}

/// Passes over a failure that is the index's own, and returns any other.
fn pass_over(failure: Error) -> Result<()> {
    match [DISK_FULL, READ_ONLY].contains(&failure.code_str()) {
        true => Err(failure),
        false => Ok(()),
    }
}

/// Parses `MODE ID STAGE<tab>PATH`.
fn entry(record: &[u8]) -> Option<Entry<'_>> {
    let at = record.iter().position(|byte| *byte == b'\t')?;
    let mut words = std::str::from_utf8(&record[..at]).ok()?.split(' ');
    let (mode, id) = (words.next()?, words.next()?);
    let stage = words.next()?.parse().ok().filter(|it| *it < STAGES.len())?;
    Some(Entry { mode, id, stage, path: &record[at + 1..] })
}
