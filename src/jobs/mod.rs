//! Jobs: a row is one execution of a kind, from acceptance to its single outcome.
//!
//! **Invariant:** documents are unknown here. `topic_id`, `source_path` and `persona_name` are
//! opaque; what a job must produce, and what follows from its end, is passed in by flows as
//! [`Hooks`].
//! **Invariant:** a row is claimed before anything is started, and settled after everything has
//! ended.

mod access;
mod fence;
mod queue;
pub mod rows;
mod run;
pub mod speak;
mod telemetry;
#[cfg(test)]
mod tests;

pub use crate::api::jobs::{Status, Usage, Waiting};
pub use access::{Grant, Verb};
pub use fence::{JOB_ENDED, JobToken, TokenState, fence, token_owner};
pub use queue::asking::{ask_person, is_asking};
pub use queue::cap::{CapOf, CapState, DailyCaps, capped_until};
pub use queue::claim::{Caps, claim};
pub use queue::engine_hold::{
    Hold, hold_for, hold_for_turn, hold_of, holds, release, release_all_of, well_after_turn,
};
pub use queue::enqueue::{
    LANE_BUSY, NewJob, QUEUE_FULL, active_of_owner, cancel_queued, enqueue, queued_of, require_room,
};
pub use queue::lane::{Capacities, enter, refresh_all};
pub use queue::parking::{legs_waiting, parked_for, resume, stop_waiting, wait_for};
pub use queue::script_jobs::{Requested, Shares, Tally};
pub use queue::steering_hold::{
    LOST, STEERING_BELL, Steering, UNSEEN, hold_steering, holding, lost, release_steering, steering,
};
pub use queue::unfit::{
    NO_NEW, RESTART_ONLY, Unfit, displaced, displaced_by, mark_unfit, unfit, unmark_unfit, way_back,
};
pub use queue::waiting::Outlook;
pub use rows::before::{before_of, keep_before};
pub use rows::board::retries;
pub use rows::bulk::{Choice, chosen, count, each_waiting, rename_kind};
pub use rows::carry::{carry, carry_usage, ended_since, is_known};
pub use rows::dismissal::{dismiss, dismissed};
pub use rows::instance::{
    instances, last_leg, last_of_message, legs, open_inboxes, open_of_inbox, roots_of_message,
};
pub use rows::job::{Job, JobFilter, Turn};
pub use rows::kind_name::{forget_kind_name, note_kind_name};
pub use rows::measures::{QueueCounts, Spent, queue_counts, spent};
pub use rows::on_sources::{Touched, queued_by_source, touched};
pub use rows::pool::{Pool, PoolCaps};
pub use rows::rename_source::{
    Follow, move_running, move_waiting, rename_given_back, rename_source, source_names,
};
pub use rows::retention::{
    Files, Rest, fence_all, files, forget_words, give_up_files, queued, rest_of,
};
pub use rows::retry::{attempt_of, depth_of, is_repeated, unended_of, warn};
pub use rows::sentence::sentence;
pub use rows::state::{Phase, Reason, Verdict};
pub use rows::table::{
    active_of_persona, find, find_slim as find_brief, holder, is_named, list, recent_of_topic,
    running, running_guards,
};
pub use rows::usage::{TurnSpent, UsageBy, add_turn, usage};
pub use rows::viewer::Viewer;
pub use run::asks::Asking;
pub use run::dispatch::{Hooks, LeftSpent, Prepared, Queue, Quiet, Setup};
pub use run::engine::{Engines, KIND_CHANGED, PROMPT_FAILED, ResolvedEngine};
pub use run::generation::{Generation, Generations};
pub use run::instance_reply::{Given, InstanceFiles, check_reply, give_verdict, status_file};
pub use run::launch::{Alone, HOOKS_WAY};
pub use run::monitor::monitor_of;
pub use run::recovery::Left;
pub use run::rehearsal::{Played, Rehearsal};
pub use run::settle::{
    ALREADY_COMPLETED, change_engine, keep_result, keep_topic, request_cancel, request_kill,
};
pub use run::task::{Pause, RunTask, Task, TaskClock, TaskEnd, TaskFailure};
pub use run::unkept_files::{Unkept, account_plugins, unkept_files};
pub use run::watch::{Beginning, Recall, Steady, Watch, Watched};
pub use run::workspace::{
    Cleanup, HookRun, WorkspaceNeed, Workspaces, is_folder, usual_worktree, worktree_path,
};
pub use speak::curb::{CURBS, Curb};
pub use speak::listener::{Listen, Listener};
pub use speak::pieces::Pieces;
pub use speak::veil::covered;
pub use speak::{last_screen, tell_hook};

/// Replaces this process by the command that attaches to an agent's terminal; returns on failure.
pub use crate::process::become_program;
pub use telemetry::step::{Step, StepKind};
pub use telemetry::{read_stream, read_stream_end};

use crate::base::JobId;
use camino::{Utf8Path, Utf8PathBuf};

/// The bell rung when a job may be claimable.
pub const BELL: &str = "jobs";

/// Returns a job's folder inside of the data folder.
pub fn job_dir(data: &Utf8Path, id: &JobId) -> Utf8PathBuf {
    data.join("jobs").join(id.as_str())
}

/// The statements of this module, for the schema test.
pub fn statements() -> Vec<(&'static str, &'static str)> {
    [
        rows::table::STATEMENTS,
        queue::lane::STATEMENTS,
        queue::parking::STATEMENTS,
        queue::asking::STATEMENTS,
        rows::pool::STATEMENTS,
        rows::carry::STATEMENTS,
        rows::retry::STATEMENTS,
        queue::enqueue::STATEMENTS,
        queue::claim::STATEMENTS,
        run::settle::STATEMENTS,
        run::silent_guard::STATEMENTS,
        fence::STATEMENTS,
        rows::usage::STATEMENTS,
        queue::engine_hold::STATEMENTS,
        queue::steering_hold::STATEMENTS,
        queue::waiting::STATEMENTS,
        queue::unfit::STATEMENTS,
        rows::measures::STATEMENTS,
        rows::on_sources::STATEMENTS,
        rows::rename_source::STATEMENTS,
        rows::before::STATEMENTS,
        rows::retention::STATEMENTS,
        run::takeover::STATEMENTS,
        rows::long_inputs::STATEMENTS,
        rows::kind_name::STATEMENTS,
        rows::board::STATEMENTS,
        rows::bulk::STATEMENTS,
        rows::instance::STATEMENTS,
        run::monitor::STATEMENTS,
        rows::dismissal::STATEMENTS,
        run::instance_reply::STATEMENTS,
    ]
    .concat()
}
