//! What makes an approval last through a power cut: git syncs most of the files that it writes (not
//! those of `mktree`, which knows no `core.fsync`), and not the folders in which their names stand.
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
    /// Makes a commit, its trees down to a path, and the blob there last.
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
        // Bytes before names: one that is packed has no file of its own.
        let split = ids.lines().filter_map(|id| Some((id.get(..2)?, id.get(2..)?)));
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
        sync_all(folders).await
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
