//! What makes an approval last through a power cut: git syncs most of the files that it writes (not
//! those of `mktree`, which knows no `core.fsync`), and not the folders in which their names stand.
//!
//! **Invariant:** objects last before the branch names them, and the branch before the rows say so.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::{BlobId, Context, ErrorKind, Result, fault};
use crate::documents::git::{Repo, blocking};
use crate::process;

impl Repo {
    /// Makes new objects last.
    pub(in crate::documents) async fn sync_objects(&self, ids: &[BlobId]) -> Result<()> {
        let objects = self.shared.common.join("objects");
        // Bytes before names: one that is packed has no file of its own.
        let split = ids.iter().filter_map(|id| id.as_str().split_at_checked(2));
        let split: Vec<(&str, &str)> = split.collect();
        let files = split.iter().map(|(folder, file)| objects.join(folder).join(file));
        let mut folders: Vec<Utf8PathBuf> = split.iter().map(|it| objects.join(it.0)).collect();
        folders.sort();
        folders.dedup();
        folders.push(objects.clone());
        sync_all(files.chain(folders).collect()).await
    }

    /// Makes the present index last.
    pub(in crate::documents) async fn sync_index(&self) -> Result<()> {
        sync_all(vec![self.git_dir().to_owned()]).await
    }

    /// Makes the present tip of a branch last.
    pub(in crate::documents) async fn sync_branch(&self, branch: &str) -> Result<()> {
        let common = &self.shared.common;
        let file = common.join(branch);
        let mut folders: Vec<Utf8PathBuf> = file
            .ancestors()
            .skip(1)
            .take_while(|it| it.starts_with(common))
            .map(Utf8Path::to_owned)
            .collect();
        // Where git keeps branches in tables, their names stand here.
        folders.push(common.join("reftable"));
        sync_all(folders).await
    }
}

/// Syncs files and folders; what is not there holds nothing.
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
