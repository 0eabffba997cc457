//! What waits in a test for what its fake agent does: a job, or a turn in a channel.

use serde_json::Value;

use crate::base::{BlockId, Millis, TurnId};
use crate::jobs::{Job, Rehearsal};

/// A point in a test.
pub(super) struct Mark {
    pub(super) event: i64,
    pub(super) said: usize,
}

/// What waits for its fake agent.
pub(super) enum Waits {
    /// A job.
    Job(Box<Play>),
    /// A turn in a channel.
    Turn(Box<Turn>),
}

impl Waits {
    /// Returns the job that waits, if it is one.
    pub(super) fn job(&self) -> Option<&Play> {
        match self {
            Waits::Job(play) => Some(play),
            Waits::Turn(_) => None,
        }
    }
}

/// A job that waits for its fake agent.
pub(super) struct Play {
    pub(super) rehearsal: Rehearsal,
    /// The job as the test sees it.
    pub(super) shown: Value,
    /// When its agent started.
    pub(super) began: Millis,
    pub(super) life: Life,
}

impl Play {
    /// Returns the name of its kind.
    pub(super) fn kind(&self) -> &str {
        &self.rehearsal.job.kind
    }

    /// Returns when its clock would end it; `None` if its agent was never started.
    pub(super) fn ends_at(&self) -> Option<Millis> {
        self.rehearsal.kind().map(|it| self.began.plus(ms(it.timeout)))
    }
}

/// A job and its retries.
pub(super) struct Life {
    /// The line of the test that requested it.
    pub(super) mark: Mark,
    /// Ended attempts.
    pub(super) attempts: Vec<Value>,
}

/// A turn that waits for what its agent says.
pub(super) struct Turn {
    pub(super) id: TurnId,
    pub(super) job: Job,
    pub(super) block: BlockId,
    pub(super) slug: String,
    pub(super) mark: Mark,
    /// The turn as the test sees it.
    pub(super) shown: Value,
}

/// Returns a duration in milliseconds.
pub(super) fn ms(it: std::time::Duration) -> i64 {
    i64::try_from(it.as_millis()).unwrap_or(i64::MAX)
}
