//! Makes approvals survive a power cut: git syncs most files that it writes (except those of
//! `mktree`, which ignores `core.fsync`), but not the folders that contain them.
//!
//! **Invariant:** objects are durable before the branch refers to them, and the branch before the
//! rows say so.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::{BlobId, Context, ErrorKind, Result, fault};
use crate::documents::git::{Repo, blocking};
use crate::process;

impl Repo {
    /// Syncs new objects to disk.
    pub(in crate::documents) async fn sync_objects(&self, ids: &[BlobId]) -> Result<()> {
        let objects = self.shared.common.join("objects");
        // Files before folders. Packed objects have no file of their own.
        let split = ids.iter().filter_map(|id| id.as_str().split_at_checked(2));
        let split: Vec<(&str, &str)> = split.collect();
        let files = split.iter().map(|(folder, file)| objects.join(folder).join(file));
        let mut folders: Vec<Utf8PathBuf> = split.iter().map(|it| objects.join(it.0)).collect();
        folders.sort();
        folders.dedup();
        folders.push(objects.clone());
        sync_all(files.chain(folders).collect()).await
    }

    /// Syncs the current index to disk.
    pub(in crate::documents) async fn sync_index(&self) -> Result<()> {
        sync_all(vec![self.git_dir().to_owned()]).await
    }

    /// Syncs the current tip of a branch to disk.
    pub(in crate::documents) async fn sync_branch(&self, branch: &str) -> Result<()> {
        let common = &self.shared.common;
        let file = common.join(branch);
        let mut folders: Vec<Utf8PathBuf> = file
            .ancestors()
            .skip(1)
            .take_while(|it| it.starts_with(common))
            .map(Utf8Path::to_owned)
            .collect();
        // With the reftable backend, branches are stored here.
        folders.push(common.join("reftable"));
        sync_all(folders).await
    }
}

/// Syncs files and folders; missing ones are skipped.
async fn sync_all(paths: Vec<Utf8PathBuf>) -> Result<()> {
    if fault::is_off("approval_sync") {
        return Ok(());
    }
    let synced = blocking(move || {
        for path in paths {
            match process::sync_path(&path) {
                Err(cause)
                    if !matches!(
                        cause.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                    ) =>
                {
                    return Err(cause)
                        .context(ErrorKind::Unavailable, || format!("cannot sync {path}"));
                }
                _ => {}
            }
        }
        Ok(())
    });
    synced.await?
}
