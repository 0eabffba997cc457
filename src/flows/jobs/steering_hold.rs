//! Holds of all agents because of changes made while a job ran, and what else waits for the same
//! decision: approvals, if the repository was replaced.

use tracing::{debug, warn};

use crate::base::{Error, JobId, Result, fault};
use crate::documents::changes::{ChangesState, row};
use crate::documents::git::{PLANTED_REPOSITORY, RESTORE, SPECIAL_FILE};
use crate::flows::Works;
use crate::flows::check::external;
use crate::flows::jobs::tree_guard;
use crate::jobs;

/// Holds all agents because of files that changed while a job ran.
pub(super) async fn hold(works: &Works, job: &JobId, files: Vec<String>) {
    let (id, files) = (job.clone(), covered(works, job, files));
    let held = works.store.write(move |tx| jobs::hold_steering(tx, &id, &files)).await;
    if let Err(cause) = held {
        warn!(job_id = %job, "agents cannot be held: {}", cause.chain());
    }
}

/// Releases the hold of a job, if there is one.
pub(super) async fn let_go_of(works: &Works, job: &JobId) {
    let (asked, id) = (job.clone(), job.clone());
    let is_held = works.store.read(move |c| Ok(jobs::holding(c)?.contains(&asked)));
    let gone = match is_held.await {
        Ok(true) => works.store.write(move |tx| jobs::release_steering(tx, &id)).await,
        other => other.map(drop),
    };
    if let Err(cause) = gone {
        warn!(job_id = %job, "agents stay held: {}", cause.chain());
    }
}

/// Covers secrets in the names of files and branches: an agent can put them there.
pub(super) fn covered(works: &Works, job: &JobId, texts: Vec<String>) -> Vec<String> {
    if texts.is_empty() {
        return texts;
    }
    let config = works.config_of(job);
    jobs::covered(texts, &config, (&works.config.folder, &external::environment()))
}

/// Refuses to write to a repository that was led elsewhere while a job ran, until a person has put
/// it back or decided to keep it so: also after a restart, for which the other repository is the
/// one that it opened.
///
/// # Errors
/// `conflict` with code `planted_repository`; `unavailable` with code `special_file` if git could
/// not look after a job, because it would wait.
pub(in crate::flows) async fn refuse_astray(works: &Works) -> Result<()> {
    refuse_astray_but(works, |_| false).await
}

/// Like [`refuse_astray`], but links that `is_restored` names are no obstacle.
///
/// # Errors
/// Same as [`refuse_astray`].
pub(in crate::flows) async fn refuse_astray_but(
    works: &Works,
    is_restored: fn(&str) -> bool,
) -> Result<()> {
    for job in works.store.read(jobs::holding).await? {
        if let Err(cause) = tree_guard::look_late(works, &job).await {
            if cause.code_str() == SPECIAL_FILE {
                return Err(blocked(cause, &job));
            }
            debug!(job_id = %job, "no look yet: {}", cause.chain());
        }
        let asked = job.clone();
        match works.store.read(move |c| row::find(c, &asked)).await? {
            Some(found) if found.state == ChangesState::Open => {
                found.changes.refuse_astray(&works.repo, &job, is_restored).await?;
            }
            Some(_) => {}
            None => refuse_lost(works, &job).await?,
        }
    }
    Ok(())
}

/// Adds to a refusal the job after which git could not look.
fn blocked(cause: Error, job: &JobId) -> Error {
    let message = format!("{}; that came about while job {job} ran", cause.message());
    let hint = cause.hint_str().unwrap_or_default();
    let hint = hint.replace(&format!("{RESTORE} ID"), &format!("{RESTORE} {job}"));
    Error::new(cause.kind(), message).code(SPECIAL_FILE).hint(hint).source(cause)
}

/// Refuses if nobody can tell whether it is the repository that a job began with.
async fn refuse_lost(works: &Works, job: &JobId) -> Result<()> {
    match tree_guard::remembered(works, job).await {
        Err(cause) if !fault::is_off("git_folder") => {
            let message = format!(
                "what was there before job {job} is lost: nobody can tell whether .git is the same \
                 repository"
            );
            Err(Error::conflict(PLANTED_REPOSITORY, message).source(cause).hint(format!(
                "check it, then run `wiki-browser job keep {job}` once the job has ended"
            )))
        }
        _ => Ok(()),
    }
}
