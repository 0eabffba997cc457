//! What makes an approval last through a power cut: git syncs the files that it writes, and not the
//! folders in which their names stand.
//!
//! **Invariant:** objects last before the branch names them, and the branch before the rows say so.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::{BlobId, Context, ErrorKind, Result, SourcePath, fault};
use crate::documents::git::{Repo, blocking};
use crate::process;

/// Longest path in the file that names the folder which working trees share.
const COMMON_DIR_BYTES_MAX: u64 = 8 * 1024;

impl Repo {
    /// Makes the names of a commit, its trees down to a path, and the blob there last.
    pub(in crate::documents) async fn sync_objects(
        &self,
        commit: &BlobId,
        path: &SourcePath,
    ) -> Result<()> {
        let path = Utf8PathBuf::from(self.git_path(path));
        let mut names = vec![commit.to_string(), format!("{commit}^{{tree}}")];
        let above = path.ancestors().filter(|it| !it.as_str().is_empty());
        names.extend(above.map(|it| format!("{commit}:{it}")));
        let mut args = vec!["rev-parse"];
        args.extend(names.iter().map(String::as_str));
        let ids = self.git().call(&args).line().await?;
        let objects = self.common_dir()?.join("objects");
        let folders = ids.lines().filter_map(|id| id.get(..2)).map(|it| objects.join(it));
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
        let common = self.common_dir()?;
        let file = common.join(branch);
        let mut folders: Vec<Utf8PathBuf> = file
            .ancestors()
            .skip(1)
            .take_while(|it| it.starts_with(&common))
            .map(Utf8Path::to_owned)
            .collect();
        // Where git keeps branches in tables, their names stand here.
        folders.push(common.join("reftable"));
        sync_folders(folders).await
    }

    /// Returns the folder of objects and branches, which a linked working tree shares with others.
    fn common_dir(&self) -> Result<Utf8PathBuf> {
        let file = self.git_dir().join("commondir");
        let Some(bytes) = process::read_small(&file, COMMON_DIR_BYTES_MAX)? else {
            return Ok(self.git_dir().to_owned());
        };
        let text = String::from_utf8(bytes)
            .context(ErrorKind::Unavailable, || format!("{file} is not UTF-8"))?;
        Ok(self.git_dir().join(text.trim_end()))
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
