//! What makes an approval last through a power cut: git syncs the files that it writes, and not the
//! folders in which their names stand.
//!
//! **Invariant:** objects last before the branch names them, and the branch before the rows say so.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::{BlobId, Context, ErrorKind, Result, fault};
use crate::documents::git::{Repo, blocking};
use crate::process;

impl Repo {
    /// Makes the names of new objects last.
    pub(in crate::documents) async fn sync_objects(&self, ids: &[BlobId]) -> Result<()> {
        let objects = self.shared.common.join("objects");
        let folders = ids.iter().filter_map(|id| id.as_str().get(..2)).map(|it| objects.join(it));
        let mut folders: Vec<Utf8PathBuf> = folders.collect();
        folders.sort();
        folders.dedup();
        folders.push(objects);
        sync_folders(folders).await
    }

    /// Makes the present index last.
    pub(in crate::documents) async fn sync_index(&self) -> Result<()> {
        sync_folders(vec![self.git_dir().to_owned()]).await
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
        sync_folders(folders).await
    }
}

/// Syncs folders; those that are not there hold no names.
async fn sync_folders(folders: Vec<Utf8PathBuf>) -> Result<()> {
    if fault::is_off("approval_sync") {
        return Ok(());
    }
    let synced = blocking(move || {
        for folder in folders {
            match process::sync_folder(&folder) {
                // Where branches are in tables, a file stands in the place of their folder.
                Err(cause)
                    if !matches!(
                        cause.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                    ) =>
                {
                    return Err(cause)
                        .context(ErrorKind::Unavailable, || format!("cannot sync {folder}"));
                }
                _ => {}
            }
        }
        Ok(())
    });
    synced.await?
}
