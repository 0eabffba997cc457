//! Content that was nowhere but in the working tree while a job ran: kept, so that it can be put
//! back. One file a content, named by its blob id, in the data folder.

use std::collections::BTreeSet;
use std::os::unix::fs::DirBuilderExt as _;
use std::time::{Duration, SystemTime};

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::{BlobId, Context, ErrorKind, Result};
use crate::process::Root;

/// How long content is kept that no running job needs.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3_600);
/// How old a file may be before it is written again.
const FRESH: Duration = Duration::from_secs(24 * 3_600);

/// The folder of kept content; cheap to clone.
#[derive(Clone, Debug)]
pub struct Kept {
    data: Utf8PathBuf,
    root: Root,
}

impl Kept {
    /// Opens the folder below the data folder, and makes it.
    ///
    /// # Errors
    /// `unavailable` if it cannot be made.
    pub fn open(data: &Utf8Path) -> Result<Kept> {
        let folder = data.join("kept");
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .context(ErrorKind::Unavailable, || format!("cannot create {folder}"))?;
        Ok(Kept { data: data.to_owned(), root: Root::open(&folder)? })
    }

    /// Returns the file of a content.
    pub(in crate::documents) fn file(&self, blob: &BlobId) -> Utf8PathBuf {
        self.root.path().join(blob.as_str())
    }

    /// Returns the data folder relative to the working tree, with a `/` behind it, if it is there.
    pub(super) fn folder_below(&self, top: &Utf8Path) -> Option<String> {
        self.data.strip_prefix(top).ok().map(|it| format!("{it}/"))
    }

    /// Keeps a content.
    ///
    /// # Errors
    /// `unavailable` if the disk does not take it.
    pub(super) fn put(&self, blob: &BlobId, bytes: &[u8]) -> Result<()> {
        // One that is a day old is written again: what is needed is never old.
        let is_there = |it: std::fs::Metadata| {
            let is_new = it.modified().is_ok_and(|it| age(it) < FRESH);
            it.is_file() && it.len() == bytes.len() as u64 && is_new
        };
        if self.file(blob).symlink_metadata().is_ok_and(is_there) {
            return Ok(());
        }
        self.root.put(Utf8Path::new(blob.as_str()), bytes)
    }

    /// Drops what is older than a week and not needed.
    ///
    /// # Errors
    /// `unavailable` if the folder cannot be listed.
    pub fn prune(&self, needed: &BTreeSet<BlobId>) -> Result<()> {
        let folder = self.root.path();
        let cannot = || format!("cannot list {folder}");
        for entry in folder.read_dir_utf8().context(ErrorKind::Unavailable, cannot)? {
            let entry = entry.context(ErrorKind::Unavailable, cannot)?;
            let is_needed = entry.file_name().parse().is_ok_and(|it: BlobId| needed.contains(&it));
            let modified = entry.metadata().and_then(|it| it.modified());
            if !is_needed && modified.is_ok_and(|it| age(it) > KEPT) {
                let path = entry.path();
                std::fs::remove_file(path)
                    .context(ErrorKind::Unavailable, || format!("cannot remove {path}"))?;
            }
        }
        Ok(())
    }
}

#[allow(clippy::disallowed_methods, reason = "it is compared with times of the file system")]
fn age(modified: SystemTime) -> Duration {
    SystemTime::now().duration_since(modified).unwrap_or_default()
}
