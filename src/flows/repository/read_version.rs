//! What somebody has read before they write about it: a document is known by more than its name,
//! which another one may have by now.

use std::fmt;
use std::str::FromStr;

use crate::base::{BlobId, Error, ErrorKind, Millis, Result, SourcePath};
use crate::documents::SOURCE_GONE;
use crate::documents::sources::rename;
use crate::flows::Works;
use crate::flows::repository::renames;

/// When a Source was read under its name, and which version of it.
#[derive(Clone, Debug)]
pub struct ReadVersion {
    at: Millis,
    blob: BlobId,
}

impl ReadVersion {
    /// Returns that a version was read at a time.
    pub fn new(at: Millis, blob: BlobId) -> ReadVersion {
        ReadVersion { at, blob }
    }

    /// Returns the name that the Source has now which was read under this one; `None` if it is the
    /// same, or gone.
    ///
    /// # Errors
    /// As any read.
    pub async fn name_now(&self, works: &Works, path: &SourcePath) -> Result<Option<SourcePath>> {
        match renames::document_since(works, path, self.at).await {
            Ok(name) => Ok(Some(name).filter(|it| it != path)),
            Err(cause) if cause.code_str() == SOURCE_GONE => Ok(None),
            Err(cause) => Err(cause),
        }
    }
}

impl fmt::Display for ReadVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.at.0, self.blob)
    }
}

impl FromStr for ReadVersion {
    type Err = Error;

    fn from_str(text: &str) -> Result<ReadVersion> {
        let parts = text.split_once(' ');
        let parts = parts.and_then(|(at, blob)| Some((at.parse().ok()?, blob.parse().ok()?)));
        let wrong = || Error::invalid(format!("{text:?} is not a time and a version"));
        parts.map(|(at, blob)| ReadVersion { at: Millis(at), blob }).ok_or_else(wrong)
    }
}

/// Refuses what was written about a Source if another one has its name since it was read.
///
/// # Errors
/// `not_found` with code `source_gone`, and the name of the one that was read, if it has one; as
/// any read. A name that no Source has is left to who asks for it.
pub async fn require_same(works: &Works, path: &SourcePath, read: &ReadVersion) -> Result<()> {
    match works.repo.present(path).await {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(cause),
        Ok((blob, _)) if blob == read.blob => return Ok(()),
        Ok(_) => {}
    }
    let gone = |message: String| Error::not_found(message).code(SOURCE_GONE);
    match renames::document_since(works, path, read.at).await {
        Ok(name) if name == *path => Ok(()),
        Ok(name) => {
            let message = format!("{path} is another document by now: yours was renamed to {name}");
            Err(gone(message).hint(format!("ask for {name}")))
        }
        Err(cause) if cause.code_str() == SOURCE_GONE => {
            let message = format!("{path} is another document by now: yours is gone");
            Err(gone(message).hint("its history shows what it said"))
        }
        Err(cause) => Err(cause),
    }
}

/// Returns where the Source is that had this name last before the one that has it, and until when.
///
/// # Errors
/// As reading the database.
pub async fn before(works: &Works, path: &SourcePath) -> Result<Option<(Millis, SourcePath)>> {
    let asked = path.clone();
    works.store.read(move |c| rename::last_left(c, &asked)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_is_written() {
        let text = format!("1700000000000 {}", "0a".repeat(20));
        assert_eq!(text.parse::<ReadVersion>().unwrap().to_string(), text);
        for wrong in ["", "1", "x y", "1 x"] {
            assert!(wrong.parse::<ReadVersion>().is_err(), "{wrong}");
        }
    }
}
