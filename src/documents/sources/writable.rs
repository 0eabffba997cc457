//! Whether an approval can write a Source: it is committed, and nobody works on it
//! (`source_dirty`).

use crate::base::{Error, Result, SourcePath, fault};
use crate::documents::git::{Conversion, MERGE_IN_PROGRESS, Repo};
use crate::documents::sources::source::text_of;
use crate::process::{HARD_LINK, SOURCE_DIRTY};

/// A Source that an approval can write.
#[derive(Clone, Debug)]
pub(in crate::documents) struct Writable {
    /// The content of the working file, which is the text of HEAD; `None` for a new Source.
    pub(in crate::documents) bytes: Option<Vec<u8>>,
    /// Its conversion attributes.
    pub(in crate::documents) conversion: Conversion,
}

impl Repo {
    /// Refuses a Source that an approval could not write, with the reason.
    ///
    /// # Errors
    /// Same as [`Repo::source`]; `conflict` with code `source_dirty`, `content_filter`, `hard_link`
    /// or `merge_in_progress`.
    pub async fn refuse_unwritable(&self, path: &SourcePath) -> Result<()> {
        if let Some(papers) = self.papers() {
            self.paper(papers, path)?;
            return if papers.is_edited(path) { Err(dirty(path)) } else { Ok(()) };
        }
        self.settled().await?.writable(path).await.map(drop)
    }

    /// Returns what an approval needs, or refuses like [`Repo::refuse_unwritable`].
    pub(in crate::documents) async fn writable(&self, path: &SourcePath) -> Result<Writable> {
        if fault::is_off("approval_dirty") {
            return self.unguarded(path).await;
        }
        let (entry, bytes, links) = self.read_tracked(path).await?;
        if entry.is_unmerged {
            return Err(Error::conflict(MERGE_IN_PROGRESS, format!("{path} is in conflict"))
                .hint("resolve the conflict and commit it"));
        }
        if let Some(flag) = entry.unwatched {
            let name = self.git_path(path);
            return Err(Error::conflict(
                SOURCE_DIRTY,
                format!("{path} is marked {flag}, so git does not see its changes"),
            )
            .hint(format!(
                "run `git update-index --no-{flag} -- '{name}'` at the top of the tree"
            )));
        }
        if links > 1 {
            return Err(Error::conflict(
                HARD_LINK,
                format!("{path} has {links} names (hard links)"),
            )
            .hint("replace it with a copy; writing would break the link"));
        }
        let conversion = self.conversion(path).await?;
        conversion.refuse_always(path)?;
        if !self.changes(Some(std::slice::from_ref(path))).await?.is_empty() {
            return Err(dirty(path));
        }
        let blob = self.hash(&bytes);
        self.refuse_converted(path, &conversion, (&bytes, &blob)).await?;
        if blob != entry.blob {
            // The file times cached by git are wrong.
            return Err(dirty(path));
        }
        text_of(path, bytes.clone())?;
        Ok(Writable { bytes: Some(bytes), conversion })
    }

    /// Skips all checks, for a test that shows what they are for.
    async fn unguarded(&self, path: &SourcePath) -> Result<Writable> {
        Ok(Writable { bytes: None, conversion: self.conversion(path).await? })
    }
}

/// Returns the error for a Source with uncommitted changes.
pub(in crate::documents) fn dirty(path: &SourcePath) -> Error {
    Error::conflict(SOURCE_DIRTY, format!("{path} has uncommitted changes"))
        .hint("commit, stash or undo them first")
}
