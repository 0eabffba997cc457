//! Checks whether an approval is possible; also used by the page.

use crate::base::{BlobId, Error, Result, SourcePath};
use crate::documents::commit::place::{Change, Place};
use crate::documents::git::{Grove, Head, Repo};
use crate::documents::proposals::proposal::STALE_BASE;
use crate::documents::sources::creation::exists;
use crate::documents::sources::source::{ADD_GLOB, NOT_A_SOURCE};
use crate::documents::sources::writable::Writable;
use crate::process::SOURCE_GONE;

/// The result of the survey.
pub(super) enum Survey {
    /// The branch already contains the proposed text.
    Already(Head),
    /// The approval is possible.
    Ready(Box<Ready>),
}

/// A repository in which an approval is possible.
pub(super) struct Ready {
    pub(super) head: Head,
    pub(super) grove: Grove,
    pub(super) source: Writable,
}

/// Returns the refusal that an approval would get now, if any.
///
/// # Errors
/// `conflict` with one of the codes of a refused approval; otherwise same as [`Repo::source`].
pub async fn obstacle(
    repo: &Repo,
    path: &SourcePath,
    base_blob: &BlobId,
    proposed_blob: &BlobId,
) -> Result<()> {
    let change = Change {
        path: path.clone(),
        base_blob: base_blob.clone(),
        proposed_blob: proposed_blob.clone(),
    };
    survey(&repo.settled().await?, &change).await.map(drop)
}

/// Examines everything that an approval depends on.
pub(super) async fn survey(repo: &Repo, change: &Change) -> Result<Survey> {
    let head = repo.head_at_rest().await?;
    let grove = repo.grove(&head.commit, &change.path).await?;
    // The new commit carries over all other folders as well.
    repo.prove_trees(&head.commit).await?;
    let place = change.place_of(grove.entry());
    if place == Place::Proposed {
        repo.proven(std::slice::from_ref(&change.proposed_blob)).await?;
        return Ok(Survey::Already(head));
    }
    if change.is_new() {
        if !grove.is_free() {
            return Err(exists(&change.path));
        }
        let source = repo.creatable(&change.path).await.map_err(gone_is_conflict)?;
        return Ok(Survey::Ready(Box::new(Ready { head, grove, source })));
    }
    let source = repo.writable(&change.path).await.map_err(gone_is_conflict)?;
    match place {
        Place::Base => Ok(Survey::Ready(Box::new(Ready { head, grove, source }))),
        _ => Err(stale(&change.path)),
    }
}

/// A missing Source is a conflict here, not a wrong address: the approval comes too late.
pub(super) fn gone_is_conflict(cause: Error) -> Error {
    if cause.kind() != crate::base::ErrorKind::NotFound {
        return cause;
    }
    let hint = match (cause.code_str(), cause.hint_str()) {
        (SOURCE_GONE, Some(hint)) => hint.to_owned(),
        (NOT_A_SOURCE, Some(ADD_GLOB)) => "the site's `sources` no longer names it; name it again \
                                           and restart the server, or reject the proposal"
            .to_owned(),
        _ => "the source was deleted or renamed; bring it back, or reject the proposal".to_owned(),
    };
    Error::conflict(SOURCE_GONE, cause.message().to_owned()).hint(hint)
}

/// Returns the error for a base that is no longer the newest version.
pub(super) fn stale(path: &SourcePath) -> Error {
    Error::conflict(STALE_BASE, format!("{path} has changed since"))
        .hint("request changes, or start a new job")
}
