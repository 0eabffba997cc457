//! What the files say by which git knows what is checked out: it changes with every commit,
//! checkout and pull, and is read without asking git.

use std::os::unix::fs::MetadataExt as _;

use camino::Utf8Path;

use crate::documents::git::Repo;
use crate::process::read_small;

/// Largest `HEAD` that is read, in bytes.
const HEAD_BYTES_MAX: u64 = 4 * 1024;

/// What is known of those files at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TipMarks(Vec<Option<[i64; 6]>>);

impl Repo {
    /// Returns what is known of the files that say what is checked out: a few calls of the kernel.
    pub fn tip_marks(&self) -> TipMarks {
        let (own, common) = (&self.shared.git_dir, &self.shared.common);
        let head = own.join("HEAD");
        let text = read_small(&head, HEAD_BYTES_MAX).ok().flatten().unwrap_or_default();
        let branch = String::from_utf8_lossy(&text);
        let branch = branch.trim().strip_prefix("ref: ").map(|it| common.join(it));
        let others = ["packed-refs", "reftable/tables.list"].map(|it| common.join(it));
        TipMarks([head].iter().chain(&others).chain(&branch).map(|it| mark(it)).collect())
    }
}

/// Returns what tells a file from the one that replaces it, and from itself after a write.
fn mark(file: &Utf8Path) -> Option<[i64; 6]> {
    let meta = file.symlink_metadata().ok()?;
    let (inode, size) = (meta.ino().cast_signed(), meta.size().cast_signed());
    Some([inode, size, meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()])
}
