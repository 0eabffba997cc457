//! How git converts files before and after a job: what decides it are files that the job may have
//! changed, so each state is judged by its own.

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8PathBuf;

use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{BlobId, JobId, Result};
use crate::documents::changes::plan::Want;
use crate::documents::changes::{Changes, FileChange};
use crate::documents::git::{Checkout, Repo, blocking};
use crate::documents::snapshot::{Kept, PathState, Staged, Work, name};
use crate::process::{Root, Standing};

/// The name of the files with attributes.
const ATTRIBUTES: &str = ".gitattributes";

/// One of the two states of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Before,
    After,
}

/// The conversions at one end.
struct Rules {
    /// A tree with the attribute files; `None` if the present ones are the same.
    tree: Option<BlobId>,
    checkouts: BTreeMap<String, Checkout>,
}

/// The conversions at both ends.
pub(super) struct Conversions {
    before: Rules,
    after: Rules,
}

impl End {
    /// Returns the state of a change at this end.
    pub(super) fn of(self, it: &FileChange) -> &PathState {
        match self {
            End::Before => &it.before,
            End::After => &it.after,
        }
    }
}

impl Conversions {
    /// Reads how the changed paths were converted.
    pub(super) async fn of(
        repo: &Repo,
        changes: &Changes,
        paths: &BTreeSet<String>,
        (kept, job): (&Kept, &JobId),
    ) -> Result<Conversions> {
        let changed: Vec<&FileChange> =
            changes.files.iter().filter(|it| has_attributes(&it.path)).collect();
        if changed.is_empty() {
            let checkouts = repo.checkouts(paths, None).await?;
            let rules = || Rules { tree: None, checkouts: checkouts.clone() };
            return Ok(Conversions { before: rules(), after: rules() });
        }
        let present = present(repo).await?;
        let aside = Utf8PathBuf::from(format!(
            "{}.attributes",
            kept.file(&repo.hash(job.as_str().as_bytes()))
        ));
        let rules = async |end: End| -> Result<Rules> {
            let mut files = present.clone();
            for it in &changed {
                match content(end.of(it)) {
                    Some(blob) => files.insert(it.path.clone(), blob),
                    None => files.remove(&it.path),
                };
            }
            let mut lines = Vec::new();
            for (path, blob) in &files {
                lines.extend_from_slice(format!("100644 {blob} 0\t").as_bytes());
                lines.extend_from_slice(&name::bytes(path));
                lines.push(0);
            }
            let tree = repo.tree_with(None, &lines, &aside).await?;
            let checkouts = repo.checkouts(paths, Some(&tree)).await?;
            Ok(Rules { tree: Some(tree), checkouts })
        };
        Ok(Conversions { before: rules(End::Before).await?, after: rules(End::After).await? })
    }

    fn rules(&self, end: End) -> &Rules {
        match end {
            End::Before => &self.before,
            End::After => &self.after,
        }
    }

    /// Returns how a path is checked out at one end; `None` for its blob's own bytes.
    pub(super) fn checkout(&self, path: &str, end: End) -> Option<Checkout> {
        self.rules(end).checkouts.get(path).copied()
    }

    /// Returns the bytes that git would write for a blob at one end.
    pub(super) async fn checked_out(
        &self,
        repo: &Repo,
        (path, blob): (&str, &BlobId),
        end: End,
    ) -> Result<Vec<u8>> {
        repo.checked_out(path, blob, self.rules(end).tree.as_ref()).await
    }

    /// Returns whether git cannot tell what stands at a path from `want`, which is in the index at
    /// one end: several texts may be the same blob to it.
    pub(super) async fn is_as_indexed(
        &self,
        (repo, top): (&Repo, &Root),
        it: &FileChange,
        want: &Want,
        end: End,
    ) -> Result<bool> {
        let is_converted = self.checkout(&it.path, end) == Some(Checkout::Converted);
        let (true, Want::File { mode: wanted, .. }) = (is_converted, want) else {
            return Ok(false);
        };
        let (root, at) = (top.clone(), it.path.clone());
        let look = move || root.standing(name::path(&at), SOURCE_BYTES_MAX);
        let Standing::File { bytes, mode } = blocking(look).await?? else { return Ok(false) };
        let is_same_mode = (mode & 0o111 != 0) == (wanted & 0o111 != 0);
        Ok(is_same_mode && self.is_cleaned_alike(repo, it, &bytes, end).await?)
    }

    /// Returns whether git would store these bytes as the blob that is in the index at one end,
    /// where the file was as indexed.
    pub(super) async fn is_cleaned_alike(
        &self,
        repo: &Repo,
        it: &FileChange,
        bytes: &[u8],
        end: End,
    ) -> Result<bool> {
        let (path, state) = (it.path.as_str(), end.of(it));
        let is_converted = self.checkout(path, end) == Some(Checkout::Converted);
        let (true, Work::Indexed, Some(staged)) = (is_converted, &state.work, state.staged())
        else {
            return Ok(false);
        };
        let tree = self.rules(end).tree.as_ref();
        Ok(repo.cleaned(path, bytes, tree).await? == staged.spot.blob)
    }
}

/// Returns whether a path is that of a file with attributes.
fn has_attributes(path: &str) -> bool {
    path.rsplit('/').next() == Some(ATTRIBUTES)
}

/// Returns the attribute file in a state: git reads the index where no file is.
fn content(state: &PathState) -> Option<BlobId> {
    let staged = || state.staged().filter(|it| is_file(it)).map(|it| it.spot.blob.clone());
    match &state.work {
        Work::File { blob, .. } => Some(blob.clone()),
        Work::Indexed | Work::Nothing | Work::Link { .. } | Work::Seen { .. } => staged(),
    }
}

fn is_file(staged: &Staged) -> bool {
    staged.spot.mode.starts_with("100") && !staged.is_announced()
}

/// Stores the present attribute files as blobs, by their paths.
async fn present(repo: &Repo) -> Result<BTreeMap<String, BlobId>> {
    let paths = repo.files_named(ATTRIBUTES).await?;
    let indexed = repo.entries_of(&paths).await?;
    let mut found = BTreeMap::new();
    let top = repo.git().folder().to_owned();
    let top = blocking(move || Root::open(&top)).await??;
    for path in paths {
        let (root, at) = (top.clone(), path.clone());
        let look = move || root.standing(name::path(&at), SOURCE_BYTES_MAX);
        let blob = match blocking(look).await?? {
            Standing::File { bytes, .. } => Some(repo.write_bytes(&bytes).await?),
            _ => {
                let staged = indexed.get(&path).into_iter().flatten();
                let mut staged = staged.filter(|it| it.stage == 0 && is_file(it));
                staged.next().map(|it| it.spot.blob.clone())
            }
        };
        if let Some(blob) = blob {
            found.insert(path, blob);
        }
    }
    Ok(found)
}
