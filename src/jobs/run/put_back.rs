//! Puts back into the queue what a server had claimed to go on with a decision, and had not started
//! when it died: the decision is not used up.
//!
//! **Invariant:** a leg is put back only if it is certain that its agent was not started, and while
//! its locks are held. Any other one is settled like every lost job.

use std::sync::Arc;

use tracing::{error, info};

use crate::base::{Result, fault};
use crate::jobs::queue::claim;
use crate::jobs::rows::table;
use crate::jobs::run::dispatch::{Inner, Queue};
use crate::jobs::run::launch::HOOKS_FILE_NAME;
use crate::jobs::run::{monitor, recovery};
use crate::jobs::{BELL, Job, job_dir};
use crate::process::{self, Reached};
use crate::store::Tx;

impl Queue {
    /// Puts back the later legs that an earlier server claimed and did not start. They are judged
    /// like all waiting jobs after that, so this comes before [`Queue::recover`] and before the
    /// script is compared with what waits.
    ///
    /// # Errors
    /// `unavailable` if the database cannot be read.
    pub async fn put_back(&self) -> Result<()> {
        if fault::is_off("leg_put_back") || fault::is_off("job_recovery") {
            return Ok(());
        }
        let running = self.inner.setup.store.read(table::running).await?;
        for leg in running.into_iter().filter(|it| it.resumes.is_some()) {
            match one(&self.inner, &leg).await {
                Ok(true) => info!(job_id = %leg.id, "job {} was not started: it waits", leg.id),
                Ok(false) => {}
                Err(cause) => {
                    error!(job_id = %leg.id, "whether it was started: {}", cause.chain());
                }
            }
        }
        Ok(())
    }
}

/// Returns whether a leg was put back.
async fn one(inner: &Arc<Inner>, leg: &Job) -> Result<bool> {
    if leg.ending_at.is_some() {
        return Ok(false);
    }
    let Some(locks) = recovery::try_locks(inner, leg)? else { return Ok(false) };
    let dir = job_dir(&inner.ground.data, &leg.id);
    let reached = process::reached(&dir)?;
    if reached == Reached::Agent {
        return Ok(false);
    }
    recovery::end_left_behind(inner, leg).await?;
    let (leg, boot) = (leg.clone(), process::boot_id()?);
    let lanes = inner.setup.generations.current().capacities().clone();
    let put_back = move |tx: &Tx<'_>| {
        let is_recorded = reached == Reached::NoAgent;
        let is_back = claim::put_back(tx, &leg, (is_recorded, &boot), &lanes)?;
        if is_back {
            process::undo_launch(&dir, &[HOOKS_FILE_NAME])?;
            // Its next run begins with one of its own.
            monitor::end(tx, &leg.id, &lanes)?;
            tx.ring(BELL);
        }
        Ok(is_back)
    };
    let is_back = inner.setup.store.write(put_back).await?;
    drop(locks);
    Ok(is_back)
}
