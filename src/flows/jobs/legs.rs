//! The runs of a job that was parked and went on.

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::base::{ApprovalId, JobId, Millis, Result};
use crate::jobs::{self, Job, Status};

/// One run of a job that was parked and went on.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Leg {
    /// Its job.
    pub id: JobId,
    /// Its status.
    pub status: Status,
    /// When it was accepted.
    pub created_at: Millis,
    /// The approval that it was parked for.
    pub waits_for: Option<ApprovalId>,
}

/// Returns all runs of a job, first one first; none if it has one only. The caller may see the job.
///
/// # Errors
/// As any read.
pub(super) fn of(c: &Connection, job: &Job) -> Result<Vec<Leg>> {
    let all = jobs::legs(c, job.root())?;
    let leg = |it: Job| Leg {
        id: it.id,
        status: it.status,
        created_at: it.created_at,
        waits_for: it.waits_for,
    };
    Ok(if all.len() > 1 { all.into_iter().map(leg).collect() } else { Vec::new() })
}
