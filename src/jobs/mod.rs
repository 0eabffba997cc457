//! Jobs: one row is one execution of a kind, from acceptance to its one outcome.
//!
//! **Invariant:** documents are unknown here. `topic_id`, `source_path` and `persona_name` are
//! opaque; what a job must have produced, and what follows from its end, flows pass in as
//! [`Hooks`].
//! **Invariant:** a row is claimed before anything is started, and settled after everything ended.

mod access;
mod again;
pub mod board;
mod bulk;
mod cap;
mod claim;
mod engine;
mod enqueue;
mod execution;
mod generation;
mod hold;
mod job;
mod keeping;
mod lane;
mod launch;
mod leg;
mod listener;
mod long_inputs;
mod lost;
mod measured;
#[cfg(test)]
mod model;
mod outcome;
mod parking;
mod pool;
mod queue;
mod recovery;
mod refusal;
mod rehearsal;
mod renamed;
mod retained;
mod sentence;
mod settle;
pub mod speak;
#[cfg(test)]
mod spending;
mod state;
mod steering;
mod step;
mod table;
mod telemetry;
mod usage;
mod verdict;
mod viewer;
mod waiting;
mod workspace;

pub use access::{Grant, JobToken, TokenState, Verb, fence, token_owner};
pub use again::{attempt_of, depth_of, is_repeated, warn};
pub use board::retries;
pub use bulk::{Choice, chosen, count, each_waiting, refuse_runaway, rename_kind};
pub use cap::{CapOf, CapState, DailyCaps};
pub use claim::{Caps, claim};
pub use engine::{Engines, ResolvedEngine};
pub use enqueue::{NewJob, active_of_owner, cancel_queued, enqueue, queued_of};
pub use generation::{Generation, Generations};
pub use hold::{Hold, hold_of, holds, release};
pub use job::{Job, JobFilter, Turn};
pub use lane::{Capacities, refresh_all};
pub use launch::Alone;
pub use leg::{last_leg, last_of_message, legs};
pub use listener::{Listen, Listener};
pub use measured::{QueueCounts, Spent, queue_counts, spent};
pub use parking::{parked_for, resume, stop_waiting, wait_for};
pub use pool::{Pool, PoolCaps};
pub use queue::{Hooks, Prepared, Queue, Recall, Setup, Watch, Watched};
pub use recovery::Left;
pub use rehearsal::{Played, Rehearsal};
pub use renamed::rename_source;
pub use retained::{Files, Rest, fence_all, files, forget_words, give_up_files, queued, rest_of};
pub use sentence::sentence;
pub use settle::{keep_result, keep_topic, request_cancel};
pub use state::{Phase, Reason, Status, Verdict};
pub use steering::{Steering, hold_steering, release_steering, steering};
pub use step::{Step, StepKind};
pub use table::{
    active_of_persona, find, find_slim as find_brief, holder, list, recent_of_topic, running_guards,
};
pub use telemetry::{read_stream, read_stream_end};
pub use usage::{Usage, UsageBy, usage};
pub use verdict::{Given, InstanceFiles, check_reply, give_verdict};
pub use viewer::Viewer;
pub use waiting::{Outlook, Waiting};
pub use workspace::{Cleanup, HookRun, WorkspaceNeed, Workspaces};

use crate::base::JobId;
use camino::{Utf8Path, Utf8PathBuf};

/// The bell that is rung when a job may be claimed.
pub const BELL: &str = "jobs";

/// Returns the folder of a job below the data folder.
pub fn job_dir(data: &Utf8Path, id: &JobId) -> Utf8PathBuf {
    data.join("jobs").join(id.as_str())
}

/// The statements of this module, for the schema test.
pub fn statements() -> Vec<(&'static str, &'static str)> {
    [
        table::STATEMENTS,
        lane::STATEMENTS,
        parking::STATEMENTS,
        pool::STATEMENTS,
        again::STATEMENTS,
        enqueue::STATEMENTS,
        claim::STATEMENTS,
        settle::STATEMENTS,
        access::STATEMENTS,
        usage::STATEMENTS,
        hold::STATEMENTS,
        steering::STATEMENTS,
        waiting::STATEMENTS,
        measured::STATEMENTS,
        renamed::STATEMENTS,
        retained::STATEMENTS,
        keeping::STATEMENTS,
        long_inputs::STATEMENTS,
        board::STATEMENTS,
        bulk::STATEMENTS,
        leg::STATEMENTS,
        verdict::STATEMENTS,
    ]
    .concat()
}
