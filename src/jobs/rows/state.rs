//! Where a job is in its life, why it ended as it did, and what its agent said of it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::api::jobs::Status;
use crate::base::Error;

impl Status {
    /// All, in the order of a job's life.
    pub const ALL: [Status; 7] = [
        Status::Queued,
        Status::Running,
        Status::Parked,
        Status::Succeeded,
        Status::Failed,
        Status::TimedOut,
        Status::Cancelled,
    ];

    /// Returns the word in the table.
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

    /// Returns whether a job in this state has ended.
    pub fn is_final(self) -> bool {
        !matches!(self, Status::Queued | Status::Running | Status::Parked)
    }

    /// Returns the state with this word.
    ///
    /// # Errors
    /// `invalid` with the list of words.
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

/// Why a job ended as it did; none for success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The agent could not be started.
    SpawnFailed,
    /// The agent exited with another status than 0.
    ExitStatus,
    /// The agent was ended by a signal that we did not send.
    Signal,
    /// The agent exited with 0 but left nothing of what its kind produces.
    NoResult,
    /// No output for the kind's `idle`.
    IdleTimeout,
    /// No output at all within the kind's `start`.
    StartTimeout,
    /// The kind's `timeout` passed.
    WallTimeout,
    /// The prompt could not be made.
    PromptFailed,
    /// The kind is gone, or the inputs do not fit it any more.
    KindChanged,
    /// What the job works on has changed so that it cannot be done.
    InputsChanged,
    /// The guard ended without a record.
    GuardLost,
    /// The server ended while the job ran.
    ServerRestarted,
    /// The agent's provider takes no more at present.
    RateLimited,
    /// A person cancelled it.
    Cancelled,
    /// The script's own check refused the result.
    VerifyFailed,
    /// The script's own check could not be asked.
    VerifyUnasked,
    /// Its agent said that it failed.
    Reported,
    /// The reply that it left does not fit the inbox.
    BadReply,
    /// What runs before its agent failed.
    PrepareFailed,
    /// The terminal that it lived in is gone.
    TerminalLost,
    /// The engine does not know the session any more.
    SessionLost,
    /// It went on as another job.
    Resumed,
    /// A fault of this program.
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

    /// Returns the word in the table.
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

/// A part of the run of a job: each is a guard of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The script's hook before the agent.
    Prepare,
    /// The agent.
    Run,
    /// The script's hook after it.
    Cleanup,
}

impl Phase {
    /// Returns the word in the table.
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

/// What the agent of an instance said it came to; it decides, whatever the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It did what the message asked for.
    Ok,
    /// It could not.
    Error,
}

impl Verdict {
    /// Returns the word in the table.
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
