//! Topics opened by jobs: their number and their Source are limited by the kind.

use rusqlite::Connection;

use crate::api::topics::{OpenedTopic, TopicStatus};
use crate::base::limit::OPENED_TOPICS_MAX;
use crate::base::{Actor, Error, ErrorKind, Result, SourcePath};
use crate::documents::topics::job_topics;
use crate::documents::topics::topic;
use crate::documents::{SOURCE_GONE, Selection};
use crate::flows::Site;
use crate::flows::repository::renames;
use crate::flows::requests::without_topic;
use crate::jobs::{self, Job, Verb};
use crate::people::Caller;
use crate::store::Tx;

/// Refuses a caller who may not open a Topic on a Source; returns the job with its token.
///
/// # Errors
/// `forbidden`, for a job with code `not_granted`.
pub(in crate::flows) async fn require(
    site: &Site,
    caller: &Caller,
    path: &SourcePath,
) -> Result<Option<(Job, String)>> {
    let Caller::Job { id, token_hash } = caller else {
        return caller.may_write().map(|_| None);
    };
    let id = id.clone();
    let job = site.store.read(move |c| jobs::find(c, &jobs::Viewer::Program, &id)).await?;
    job.require_source(path, Verb::Open)?;
    Ok(Some((job, token_hash.clone())))
}

/// Returns the current name of the Source that a job calls by the name that it was given, unless
/// the selection is of the version that has that name now. A job that sees the whole site was given
/// none, and may have read it at any time.
///
/// # Errors
/// `source_gone` if another Source has the name; as any read.
pub(in crate::flows) async fn meant(
    site: &Site,
    job: &Job,
    path: &SourcePath,
    selection: Option<&Selection>,
) -> Result<SourcePath> {
    let now = match site.repo.present(path).await {
        Ok((blob, _)) => Some(blob),
        Err(cause) if cause.kind() == ErrorKind::NotFound => None,
        Err(cause) => return Err(cause),
    };
    if now.is_some() && selection.and_then(Selection::blob) == now.as_ref() {
        return Ok(path.clone());
    }
    if job.is_given(path) {
        return renames::document_since(site, path, renames::start_of(job)).await;
    }
    let (begun, asked) = (job.clone(), path.clone());
    let name = site.store.read(move |c| renames::since_start(c, &begun, &asked)).await?;
    if name != *path && now.is_some() {
        let message = format!("{path} is another document by now: it was renamed to {name}");
        return Err(Error::conflict(SOURCE_GONE, message)
            .hint("name the version that is meant: `blob` in `selection`"));
    }
    Ok(name)
}

/// Refuses Topics beyond the number that one job may open.
///
/// # Errors
/// `conflict` with code `too_many_topics`; `forbidden` with code `not_granted`.
pub(in crate::flows) fn admit(tx: &Tx<'_>, job: &Job, path: &SourcePath) -> Result<()> {
    job.require_source(path, Verb::Open)?;
    if of_job(tx.connection(), job)?.len() < OPENED_TOPICS_MAX {
        return Ok(());
    }
    let message = format!("job {} has opened {OPENED_TOPICS_MAX} topics already", job.id);
    Err(Error::conflict("too_many_topics", message)
        .hint("put the rest in one of them, or in the result"))
}

/// Returns the Topics opened by a job, oldest first.
///
/// # Errors
/// As any read.
pub(in crate::flows) fn of_job(c: &Connection, job: &Job) -> Result<Vec<OpenedTopic>> {
    job_topics::opened_by(c, &Actor::Job(job.id.clone()), OPENED_TOPICS_MAX)
}

/// Closes the Topics opened by a failed job, if nobody has written in them.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn settle_job(tx: &Tx<'_>, job: &Job, succeeded: bool) -> Result<()> {
    if succeeded {
        return Ok(());
    }
    for opened in of_job(tx.connection(), job)? {
        if opened.status == TopicStatus::Open {
            without_topic::close_if_bare(tx, &topic::find(tx.connection(), &opened.id, None)?)?;
        }
    }
    Ok(())
}
