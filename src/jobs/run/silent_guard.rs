//! Guards that do not answer a new server: their jobs are neither ended nor started again until the
//! guard answers or ends, or a person cancels the job.
//!
//! **Invariant:** the guard of a job that nobody cancels is resumed here, and never ended.

use std::time::Duration;

use rusqlite::named_params;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::base::{JobId, Result};
use crate::jobs::run::dispatch::{Inner, Running};
use crate::jobs::run::recovery::{Taken, take_over};
use crate::jobs::{BELL, Job};
use crate::process::Adopted;
use crate::store::Tx;

/// How long one attempt lasts; each resumes a guard that was stopped again.
const ATTEMPT: Duration = Duration::from_secs(30);
/// The pause after an attempt.
const PAUSE: Duration = Duration::from_secs(1);

const NOTE_SILENCE: &str = "
    UPDATE agent_jobs SET unanswered_ms = COALESCE(unanswered_ms, :now)
    WHERE id = :id AND status = 'running'";
const NOTE_ANSWER: &str = "UPDATE agent_jobs SET unanswered_ms = NULL WHERE id = :id";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] =
    &[("silent::note_silence", NOTE_SILENCE), ("silent::note_answer", NOTE_ANSWER)];

/// What became of a guard that did not answer.
pub(super) enum Waited {
    /// It answers.
    Answered(Box<Adopted>),
    /// It is gone, or its job is to end.
    Gone,
    /// The server stops first.
    Left,
}

/// Waits until a guard answers or ends, or a person cancels its job.
pub(super) async fn wait(
    inner: &Inner,
    job: &Job,
    outside: &Running,
    stop: &CancellationToken,
) -> Waited {
    loop {
        let attempt = async {
            let taken = take_over(inner, job, ATTEMPT).await;
            if matches!(taken, Taken::Silent) {
                tokio::time::sleep(PAUSE).await;
            }
            taken
        };
        let taken = tokio::select! {
            taken = attempt => taken,
            () = outside.cancel.cancelled() => return Waited::Gone,
            () = outside.kill.cancelled() => return Waited::Gone,
            () = stop.cancelled() => return Waited::Left,
        };
        match taken {
            Taken::Over(adopted) => {
                info!(job_id = %job.id, "the guard of job {} answers again", job.id);
                note(inner, job, false).await;
                return Waited::Answered(adopted);
            }
            Taken::Silent => {}
            Taken::Gone => return Waited::Gone,
        }
    }
}

/// Records whether the guard of a job answers.
pub(super) async fn note(inner: &Inner, job: &Job, is_silent: bool) {
    let (id, answers) = (job.id.clone(), inner.setup.hooks.answers.clone());
    let about = job.clone();
    let write = move |tx: &Tx<'_>| {
        let changed = if is_silent { silence(tx, &id)? } else { answer(tx, &id)? };
        if changed > 0 {
            tx.ring(BELL);
            answers(tx, &about)?;
        }
        Ok(())
    };
    if let Err(cause) = inner.setup.store.write(write).await {
        // It is shown later, or not at all: what happens to the job does not depend on it.
        error!(job_id = %job.id, "whether its guard answers is not noted: {}", cause.chain());
    }
}

fn silence(tx: &Tx<'_>, id: &JobId) -> Result<usize> {
    let params = named_params! {":id": id, ":now": tx.now()};
    Ok(tx.prepare_cached(NOTE_SILENCE)?.execute(params)?)
}

fn answer(tx: &Tx<'_>, id: &JobId) -> Result<usize> {
    Ok(tx.prepare_cached(NOTE_ANSWER)?.execute(named_params! {":id": id})?)
}
