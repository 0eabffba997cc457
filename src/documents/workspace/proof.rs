//! Reads saved work back before its worktree is removed.
//!
//! **Invariant:** only content that was read and hashed after the ref was written counts as saved.
//! Git does not write an object whose id exists already, even if that object is empty, damaged, or
//! was put there by somebody else; and a `git gc` before the ref may remove new objects.

use crate::base::{BlobId, Error, Result, fault, truncate_chars};
use crate::documents::workspace::tree::{Tree, not_kept};

/// The code of saved work that cannot be read back.
pub(super) const UNREADABLE: &str = "kept_unreadable";
/// Output limit for the list of objects, in bytes.
const LISTING_BYTES_MAX: usize = crate::base::limit::GIT_LISTING_BYTES_MAX;
/// Bytes of content read at once.
const CHUNK_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Largest object that is read, in bytes, without git's compression.
const OBJECT_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// Most content that is read, in bytes, without git's compression.
const CONTENT_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Characters kept of git's error messages.
const SAID_CHARS_MAX: usize = 300;

/// Fails unless every object of `commit` that `base` does not have can be read and matches its id.
///
/// # Errors
/// `conflict` with code [`UNREADABLE`], naming the object; with code `not_kept` if it is too large;
/// `unavailable` if git fails.
pub(super) async fn require_readable(tree: &Tree, commit: &BlobId, base: &BlobId) -> Result<()> {
    if fault::is_off("kept_proof") {
        return Ok(());
    }
    let list = ["rev-list", "--objects", "--no-object-names", commit.as_str()];
    let call = tree.repo.git().call(&list).arg(format!("^{base}")).output_max(LISTING_BYTES_MAX);
    let listed = call.run().await?;
    if listed.code != 0 {
        let why = listed.said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        let why = truncate_chars(why, SAID_CHARS_MAX);
        let failure = not_kept(format!("git cannot read it back: `{}`", why.escape_debug()));
        return Err(failure.code(UNREADABLE));
    }
    let mut chunk = Vec::new();
    let (mut chunk_bytes, mut bytes) = (0_u64, 0_u64);
    for (id, size) in sizes(tree, listed.stdout).await? {
        bytes = bytes.saturating_add(size);
        if size > OBJECT_BYTES_MAX || bytes > CONTENT_BYTES_MAX {
            return Err(not_kept(format!(
                "it is too large to be read back: more than {OBJECT_BYTES_MAX} bytes in one file, \
                 or {CONTENT_BYTES_MAX} in all"
            )));
        }
        if chunk_bytes.saturating_add(size) > CHUNK_BYTES_MAX && !chunk.is_empty() {
            prove(tree, &std::mem::take(&mut chunk)).await?;
            chunk_bytes = 0;
        }
        chunk_bytes = chunk_bytes.saturating_add(size);
        chunk.push(id);
    }
    prove(tree, &chunk).await
}

/// Returns the ids in a listing with their sizes in bytes.
async fn sizes(tree: &Tree, ids: Vec<u8>) -> Result<Vec<(BlobId, u64)>> {
    let call = tree.repo.git().call(&["cat-file", "--batch-check=%(objectname) %(objectsize)"]);
    let told = call.stdin(ids.clone()).output_max(LISTING_BYTES_MAX).run().await?.stdout;
    let (told, ids) = (String::from_utf8_lossy(&told), String::from_utf8_lossy(&ids));
    let mut told = told.lines();
    ids.lines()
        .map(|name| {
            let id: BlobId = name.parse()?;
            // Git names a missing object, and ends at one whose head it cannot read.
            let size = told.next().and_then(|line| line.strip_prefix(name)?.trim().parse().ok());
            match size {
                Some(size) => Ok((id, size)),
                None => Err(unreadable(&tree.repo.mismatch(&id))),
            }
        })
        .collect()
}

async fn prove(tree: &Tree, ids: &[BlobId]) -> Result<()> {
    match tree.repo.proven(ids).await {
        Ok(_) => Ok(()),
        Err(cause) => Err(unreadable(&cause)),
    }
}

fn unreadable(cause: &Error) -> Error {
    let failure = not_kept(cause.message().to_owned()).code(UNREADABLE);
    match cause.hint_str() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
