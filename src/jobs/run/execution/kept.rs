//! Jobs whose agents go on when the server ends.

use crate::base::{Error, Result};
use crate::jobs::Job;
use crate::jobs::fence::JOB_ENDED;
use crate::jobs::rows::retention;
use crate::jobs::run::dispatch::Inner;
use crate::process::{GuardSpec, OnServerLoss};

/// Returns whether the guard goes on when the server ends.
pub(super) fn is_kept(spec: &GuardSpec) -> bool {
    matches!(spec.launch.on_server_loss, OnServerLoss::Keep { keep_ms, .. } if keep_ms > 0)
}

/// Records that the agent of a job goes on when the server ends, before it is started.
pub(super) async fn keep(inner: &Inner, job: &Job) -> Result<()> {
    let id = job.id.clone();
    let kept = inner.setup.store.write(move |tx| retention::keep(tx, &id)).await?;
    match kept {
        true => Ok(()),
        false => Err(Error::conflict(JOB_ENDED, "the job has ended")),
    }
}
