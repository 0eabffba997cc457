//! The status of a job, the reason for it, and its agent's verdict.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::api::jobs::Status;
use crate::base::Error;

impl Status {
    /// All, in the order of the life cycle.
    pub const ALL: [Status; 7] = [
        Status::Queued,
        Status::Running,
        Status::Parked,
        Status::Succeeded,
        Status::Failed,
        Status::TimedOut,
        Status::Cancelled,
    ];

    /// Returns the stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Queued => "queued",
            Status::Running => "running",
            Status::Parked => "parked",
            Status::Succeeded => "succeeded",
            Status::Failed => "failed",
            Status::TimedOut => "timed_out",
            Status::Cancelled => "cancelled",
        }
    }

    /// Returns whether this status is final.
    pub fn is_final(self) -> bool {
        !matches!(self, Status::Queued | Status::Running | Status::Parked)
    }

    /// Parses a status.
    ///
    /// # Errors
    /// `invalid`, listing the valid ones.
    pub fn parse(word: &str) -> Result<Status, Error> {
        Self::ALL.into_iter().find(|it| it.as_str() == word).ok_or_else(|| {
            let words: Vec<&str> = Self::ALL.iter().map(|it| it.as_str()).collect();
            Error::invalid(format!("`{word}` is not a status of a job"))
                .hint(format!("one of {}", words.join(", ")))
        })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a job ended as it did; absent on success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The agent could not be started.
    SpawnFailed,
    /// The agent exited with a status other than 0.
    ExitStatus,
    /// The agent was killed by a signal that we did not send.
    Signal,
    /// The agent exited with 0 but produced nothing of what its kind promises.
    NoResult,
    /// No output for the kind's `idle`.
    IdleTimeout,
    /// No output at all within the kind's `start`.
    StartTimeout,
    /// The kind's `timeout` passed.
    WallTimeout,
    /// The prompt could not be made.
    PromptFailed,
    /// The kind is gone, or the inputs no longer fit it.
    KindChanged,
    /// The objects that it works on changed so that it cannot be done.
    InputsChanged,
    /// The guard ended without a record.
    GuardLost,
    /// The server ended while the job ran.
    ServerRestarted,
    /// The agent's provider is rate limiting.
    RateLimited,
    /// A person cancelled it.
    Cancelled,
    /// The script's own check rejected the result.
    VerifyFailed,
    /// The script's own check could not be run.
    VerifyUnasked,
    /// Its agent reported failure.
    Reported,
    /// Its reply does not match the inbox's schema.
    BadReply,
    /// The hook before its agent failed.
    PrepareFailed,
    /// Its terminal is gone.
    TerminalLost,
    /// The engine no longer knows the session.
    SessionLost,
    /// It continued as another job.
    Resumed,
    /// A bug in this program.
    Internal,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Reason; 23] = [
        Reason::SpawnFailed,
        Reason::ExitStatus,
        Reason::Signal,
        Reason::NoResult,
        Reason::IdleTimeout,
        Reason::StartTimeout,
        Reason::WallTimeout,
        Reason::PromptFailed,
        Reason::KindChanged,
        Reason::InputsChanged,
        Reason::GuardLost,
        Reason::ServerRestarted,
        Reason::RateLimited,
        Reason::Cancelled,
        Reason::VerifyFailed,
        Reason::VerifyUnasked,
        Reason::Reported,
        Reason::BadReply,
        Reason::PrepareFailed,
        Reason::TerminalLost,
        Reason::SessionLost,
        Reason::Resumed,
        Reason::Internal,
    ];

    /// Returns the stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::SpawnFailed => "spawn_failed",
            Reason::ExitStatus => "exit_status",
            Reason::Signal => "signal",
            Reason::NoResult => "no_result",
            Reason::IdleTimeout => "idle_timeout",
            Reason::StartTimeout => "start_timeout",
            Reason::WallTimeout => "wall_timeout",
            Reason::PromptFailed => "prompt_failed",
            Reason::KindChanged => "kind_changed",
            Reason::InputsChanged => "inputs_changed",
            Reason::GuardLost => "guard_lost",
            Reason::ServerRestarted => "server_restarted",
            Reason::RateLimited => "rate_limited",
            Reason::Cancelled => "cancelled",
            Reason::VerifyFailed => "verify_failed",
            Reason::VerifyUnasked => "verify_unasked",
            Reason::Reported => "reported",
            Reason::BadReply => "bad_reply",
            Reason::PrepareFailed => "prepare_failed",
            Reason::TerminalLost => "terminal_lost",
            Reason::SessionLost => "session_lost",
            Reason::Resumed => "resumed",
            Reason::Internal => "internal",
        }
    }

    pub(in crate::jobs) fn parse(word: &str) -> Option<Reason> {
        Self::ALL.into_iter().find(|it| it.as_str() == word)
    }
}

/// A phase of a job; each has its own guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The script's hook before the agent.
    Prepare,
    /// The agent.
    Run,
    /// The script's hook after the agent.
    Cleanup,
}

impl Phase {
    /// Returns the stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Prepare => "prepare",
            Phase::Run => "run",
            Phase::Cleanup => "cleanup",
        }
    }

    pub(in crate::jobs) fn parse(word: &str) -> Option<Phase> {
        [Phase::Prepare, Phase::Run, Phase::Cleanup].into_iter().find(|it| it.as_str() == word)
    }
}

/// The verdict reported by an instance's agent, which decides regardless of the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It did what the message asked for.
    Ok,
    /// It could not do it.
    Error,
}

impl Verdict {
    /// Returns the stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Error => "error",
        }
    }

    pub(in crate::jobs) fn parse(word: &str) -> Option<Verdict> {
        [Verdict::Ok, Verdict::Error].into_iter().find(|it| it.as_str() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_know_every_state_and_reason() {
        assert_eq!(Status::ALL.map(Status::as_str), crate::script::JOB_STATUS);
        assert_eq!(Reason::ALL.map(Reason::as_str), crate::script::JOB_REASON);
    }
}
