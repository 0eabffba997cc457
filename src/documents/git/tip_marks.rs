//! What the files say by which git knows what is checked out: it changes with every commit,
//! checkout and pull, and is read without asking git.

use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};

use crate::documents::git::Repo;
use crate::process::read_small;

/// Largest `HEAD` that is read, in bytes.
const HEAD_BYTES_MAX: u64 = 4 * 1024;
/// Most references that are followed, as in git.
const REFERENCES_MAX: usize = 5;

/// What is known of those files at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TipMarks(Vec<Option<[i64; 6]>>);

impl Repo {
    /// Returns what is known of the files that say what is checked out: a few calls of the kernel.
    pub fn tip_marks(&self) -> TipMarks {
        let (own, common) = (&self.shared.git_dir, &self.shared.common);
        let tables = "reftable/tables.list";
        let mut files = vec![common.join("packed-refs"), common.join(tables), own.join(tables)];
        let mut next = Some(own.join("HEAD"));
        for _ in 0..REFERENCES_MAX {
            let Some(file) = next else { break };
            next = reference(&file).map(|it| common.join(it));
            files.push(file);
        }
        files.extend(next);
        TipMarks(files.iter().map(|it| mark(it)).collect())
    }
}

/// Returns the reference that this one leads to, in a file or as the target of a link.
fn reference(file: &Utf8Path) -> Option<Utf8PathBuf> {
    if let Ok(target) = file.read_link_utf8() {
        // Those that git writes are relative to its folder; any other one leads out of it.
        return target.as_str().starts_with("refs/").then_some(target);
    }
    let text = read_small(file, HEAD_BYTES_MAX).ok().flatten()?;
    let text = String::from_utf8(text).ok()?;
    // Git skips any white space.
    Some(text.strip_prefix("ref:")?.trim().into())
}

/// Returns what tells a file from the one that replaces it, and from itself after a write.
fn mark(file: &Utf8Path) -> Option<[i64; 6]> {
    let meta = file.symlink_metadata().ok()?;
    let (inode, size) = (meta.ino().cast_signed(), meta.size().cast_signed());
    Some([inode, size, meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()])
}
