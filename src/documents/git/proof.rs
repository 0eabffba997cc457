//! Reads objects back through git and hashes them: each is what its id says, or is refused.
//!
//! Git does not write an object whose id exists already, and reads it without hashing: whoever can
//! write to `.git/objects` can place any text under the id of another.

use std::collections::BTreeSet;

use crate::base::{BlobId, Error, Result, fault};
use crate::documents::git::failure::damaged;
use crate::documents::git::{Repo, hash_object};

/// The code of an object that is not what its name says.
pub const OBJECT_MISMATCH: &str = "object_mismatch";

/// Most bytes that the objects of one commit may hold together: a text, the trees on the way to
/// it, and a commit.
const OBJECTS_BYTES_MAX: usize = 160 * 1024 * 1024;

/// An object as returned by git.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::documents::git) struct Object {
    pub(in crate::documents::git) id: BlobId,
    pub(in crate::documents::git) kind: String,
    pub(in crate::documents::git) bytes: Vec<u8>,
}

impl Repo {
    /// Returns the contents of some objects, if each matches its id.
    ///
    /// # Errors
    /// `unavailable` with code `object_mismatch`, naming the first object that is missing,
    /// unreadable or different.
    pub(in crate::documents) async fn proven(&self, ids: &[BlobId]) -> Result<Vec<Vec<u8>>> {
        let asked: Vec<String> = ids.iter().map(BlobId::to_string).collect();
        let mut found = self.objects_named(&asked).await?.into_iter();
        let mut proven = Vec::with_capacity(ids.len());
        for id in ids {
            match found.next().flatten() {
                Some(object) if object.id == *id => {
                    self.prove(&object)?;
                    proven.push(object.bytes);
                }
                _ => return Err(self.mismatch(id)),
            }
        }
        Ok(proven)
    }

    /// Returns the objects with these names in one call; `None` for a missing object, and for all
    /// after an unreadable one.
    pub(in crate::documents::git) async fn objects_named(
        &self,
        names: &[String],
    ) -> Result<Vec<Option<Object>>> {
        let asked: String = names.iter().map(|name| format!("{name}\n")).collect();
        let call = self.git().call(&["cat-file", "--batch"]);
        let answer = call.stdin(asked).output_max(OBJECTS_BYTES_MAX).run().await?;
        if answer.code != 0 && answer.stdout.is_empty() {
            tracing::warn!("git cat-file: {}", answer.failure().chain());
        }
        let mut rest = answer.stdout.as_slice();
        Ok(names.iter().map(|_| next_object(&mut rest)).collect())
    }

    /// Refuses a commit if it, or one of its trees, does not match its id. The blobs are not read.
    ///
    /// # Errors
    /// As [`Repo::proven`].
    pub(in crate::documents) async fn prove_trees(&self, commit: &BlobId) -> Result<()> {
        let top = format!("{commit}^{{tree}}");
        let call = self.git().call(&["ls-tree", "-r", "-d", "-z", "--full-tree"]).arg(&top);
        let answer = call.output_max(OBJECTS_BYTES_MAX).run().await?;
        let told = String::from_utf8_lossy(&answer.stdout);
        // `MODE tree ID\tPATH`; submodules are commits.
        let trees = told.split('\0').filter_map(|it| it.split_once(" tree ")?.1.split('\t').next());
        let trees: BTreeSet<BlobId> = trees.map(str::parse).collect::<Result<_>>()?;
        let mut names = vec![commit.to_string(), top];
        names.extend(trees.iter().map(BlobId::to_string));
        // Each tree names those below it, so what git has listed is what the proven ones hold.
        for (object, name) in self.objects_named(&names).await?.iter().zip(&names) {
            match object {
                Some(object) => self.prove(object)?,
                None => {
                    return Err(damaged(format!("object {name} of the repository is not there")));
                }
            }
        }
        if answer.code != 0 {
            return Err(
                damaged(format!("git cannot list commit {commit}")).source(answer.failure())
            );
        }
        Ok(())
    }

    /// Refuses an object whose content does not match its id.
    pub(in crate::documents::git) fn prove(&self, object: &Object) -> Result<()> {
        let hashed = hash_object(self.shared.format, &object.kind, &object.bytes);
        match hashed == object.id || fault::is_off("object_proof") {
            true => Ok(()),
            false => Err(self.mismatch(&object.id)),
        }
    }

    /// Returns the error for an object whose content does not match its id.
    pub(in crate::documents) fn mismatch(&self, id: &BlobId) -> Error {
        let (folder, name) = id.as_str().split_at(2);
        let file = self.shared.common.join("objects").join(folder).join(name);
        let hint = match file.symlink_metadata() {
            Ok(_) => format!(
                "`git fsck` names what is damaged; if it can be made again, remove {file} and try \
                 again, else bring the object from another clone"
            ),
            Err(_) => "`git fsck` names the pack or the alternate that holds it; bring the object \
                       from another clone, or remove what holds it"
                .to_owned(),
        };
        damaged(format!("object {id} of the repository does not hold what its name stands for"))
            .code(OBJECT_MISMATCH)
            .hint(hint)
    }
}

/// Takes the next record from the output of `git cat-file --batch`: `ID KIND SIZE
/// BYTES
/// `, or `NAME missing
/// `.
fn next_object(rest: &mut &[u8]) -> Option<Object> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let head = String::from_utf8_lossy(&rest[..end]).into_owned();
    *rest = &rest[end + 1..];
    let mut words = head.split(' ');
    let (id, kind) = (words.next()?.parse::<BlobId>().ok()?, words.next()?);
    let size = words.next()?.parse::<usize>().ok()?;
    if words.next().is_some() || !matches!(kind, "blob" | "tree" | "commit" | "tag") {
        return None;
    }
    let Some(bytes) = rest.get(..size).map(<[u8]>::to_vec) else {
        // Git ended midway: the rest is content, not a record.
        *rest = &[];
        return None;
    };
    *rest = rest.get(size + 1..).unwrap_or_default();
    Some(Object { id, kind: kind.to_owned(), bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_told_apart() {
        let id = "a".repeat(40);
        let told =
            format!("{id} blob 3\nx\ny\n{id}:a blob 3 missing\n{id} tree 0\n\n{id} blob 9\nx");
        let mut rest = told.as_bytes();
        let found: Vec<_> = (0..5).map(|_| next_object(&mut rest)).collect();
        let kinds: Vec<_> = found.iter().map(|it| it.as_ref().map(|it| it.kind.as_str())).collect();
        assert_eq!(kinds, [Some("blob"), None, Some("tree"), None, None]);
        assert_eq!(found[0].as_ref().unwrap().bytes, b"x\ny");
    }
}
