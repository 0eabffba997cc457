//! A job as a row and as JSON.

use std::cell::Cell;
use std::fmt;

use rusqlite::Row;
use rusqlite::types::FromSql;
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::base::{Actor, Error, JobId, Millis, SourcePath, TopicId};

/// Where a job is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Accepted; nothing was started.
    Queued,
    /// Claimed; its lane is held until it is settled.
    Running,
    /// Ended with what it promised.
    Succeeded,
    /// Ended without.
    Failed,
    /// Ended by one of its clocks.
    TimedOut,
    /// Ended by a person.
    Cancelled,
}

impl Status {
    /// All, in the order of a job's life.
    pub const ALL: [Status; 6] = [
        Status::Queued,
        Status::Running,
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
            Status::Succeeded => "succeeded",
            Status::Failed => "failed",
            Status::TimedOut => "timed_out",
            Status::Cancelled => "cancelled",
        }
    }

    /// Returns whether a job in this state has ended.
    pub fn is_final(self) -> bool {
        !matches!(self, Status::Queued | Status::Running)
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

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Why a job ended as it did; none for success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// A fault of this program.
    Internal,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Reason; 17] = [
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
            Reason::Internal => "internal",
        }
    }

    fn parse(word: &str) -> Option<Reason> {
        Self::ALL.into_iter().find(|it| it.as_str() == word)
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A job. JSON has document A's names; what only the program needs is left out.
#[derive(Clone, Debug, Serialize)]
pub struct Job {
    /// Its place in the order of acceptance.
    #[serde(skip)]
    pub seq: i64,
    /// Its name.
    pub id: JobId,
    /// Its kind, as declared in the script.
    pub kind: String,
    /// The Source it works on.
    pub source_path: Option<SourcePath>,
    /// The Topic it works on.
    pub topic_id: Option<TopicId>,
    /// The persona it speaks for.
    pub persona_name: Option<String>,
    /// Where it is.
    pub status: Status,
    /// Why it ended so.
    pub reason: Option<Reason>,
    /// When it was claimed.
    pub started_at: Option<Millis>,
    /// When its ending began: from then on its token is refused.
    #[serde(rename = "ending_at")]
    pub ending_at: Option<Millis>,
    /// When it was settled.
    pub completed_at: Option<Millis>,
    /// The agent's exit status.
    pub exit_code: Option<i32>,
    /// The signal that ended the agent.
    pub signal: Option<i32>,
    /// The end of its stderr, or a fixed sentence; null on success.
    pub error_tail: Option<String>,
    /// When it was accepted.
    pub created_at: Millis,
    /// Tokens and turns, as the engine reports them.
    pub usage: Option<Value>,
    /// What the engine says it cost.
    pub cost_usd: Option<f64>,
    /// `<input>=<value>`: jobs of one lane do not run at once.
    pub lane: Option<String>,
    /// The job that this one repeats.
    pub retry_of: Option<JobId>,
    /// Who asked for it.
    pub requested_by: Actor,
    /// Larger goes first within a lane and a kind.
    pub priority: i64,
    /// Not before this time.
    pub not_before: Option<Millis>,
    /// When it can be tried again, if its agent's provider took no more and said so.
    pub retry_at: Option<Millis>,
    /// The values of its inputs.
    pub inputs: Map<String, Value>,
    /// The agent's last words, or what it said of its result.
    pub summary: Option<String>,
    /// What the agent handed in by `finish`.
    pub result: Option<Value>,
    /// What should be known although the result counts.
    pub warnings: Vec<String>,
    /// Who cancelled it.
    pub cancelled_by: Option<Actor>,
    /// The engine's name for the session, for a later resume.
    pub session_ref: Option<String>,
    /// The script that it ran under.
    pub config_digest: String,
    /// What its token may do.
    #[serde(skip)]
    pub grants: Vec<crate::jobs::Grant>,
    /// The engine that ran it.
    #[serde(skip)]
    pub engine: Option<String>,
    /// The guard, once it was started.
    #[serde(skip)]
    pub guard: Option<crate::process::ProcessIdentity>,
}

/// What a queued job waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Its time: its `not_before` is still to come.
    Time,
    /// Anything else.
    Turn,
}

/// Which jobs to list.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    /// Only of this Source.
    pub source_path: Option<SourcePath>,
    /// Only of this Topic.
    pub topic_id: Option<TopicId>,
    /// Only of this kind.
    pub kind: Option<String>,
    /// Only in this state.
    pub status: Option<Status>,
    /// Of those that are queued, only these.
    pub turn: Option<Turn>,
    /// The present time, for [`JobFilter::turn`].
    pub now: Millis,
    /// Only accepted before this job.
    pub before: Option<JobId>,
    /// At most so many.
    pub limit: u32,
}

impl Job {
    /// Reads a row with all columns.
    ///
    /// # Errors
    /// As any column.
    pub(crate) fn from_row(row: &Row<'_>) -> rusqlite::Result<Job> {
        let row = InOrder::new(row);
        Ok(Job {
            seq: row.get("seq")?,
            id: row.get("id")?,
            kind: row.get("kind")?,
            lane: row.get("lane_key")?,
            status: Status::parse(&row.get::<String>("status")?).map_err(column_error)?,
            reason: row.get::<Option<String>>("reason")?.as_deref().and_then(Reason::parse),
            source_path: row.get("source_path")?,
            topic_id: row.get("topic_id")?,
            persona_name: row.get("persona_name")?,
            inputs: row.json("inputs_json")?.unwrap_or_default(),
            grants: row.json("grants_json")?.unwrap_or_default(),
            requested_by: row.get("requested_by")?,
            priority: row.get("priority")?,
            not_before: row.get("not_before_ms")?,
            created_at: row.get("created_ms")?,
            started_at: row.get("started_ms")?,
            ending_at: row.get("ending_ms")?,
            completed_at: row.get("completed_ms")?,
            exit_code: row.get("exit_code")?,
            signal: row.get("signal")?,
            error_tail: row.get("error_tail")?,
            summary: row.get("summary")?,
            result: row.json("result_json")?,
            warnings: row.json("warnings_json")?.unwrap_or_default(),
            cancelled_by: row.get("cancelled_by")?,
            session_ref: row.get("session_ref")?,
            usage: row.json("usage_json")?,
            cost_usd: row.get("cost_usd")?,
            config_digest: row.get("config_digest")?,
            retry_of: row.get("retry_of")?,
            engine: row.get("engine")?,
            retry_at: row.get("retry_at_ms")?,
            guard: guard(&row)?,
        })
    }

    /// Returns an input as the text that a template shows; nothing if it was not given.
    pub fn input_text(&self, name: &str) -> Option<String> {
        match self.inputs.get(name)? {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }
}

fn guard(row: &InOrder<'_>) -> rusqlite::Result<Option<crate::process::ProcessIdentity>> {
    let Some(pid) = row.get("guard_pid")? else { return Ok(None) };
    let start = row.get::<i64>("guard_start")?.unsigned_abs();
    Ok(Some(crate::process::ProcessIdentity { boot_id: row.get("boot_id")?, pid, start }))
}

/// A row whose columns are asked for by name and mostly in their order: each is looked for from the
/// last one on. A row of this table has some forty, and looking for each name from the first one on
/// took as long as all else about reading a job.
struct InOrder<'r> {
    row: &'r Row<'r>,
    next: Cell<usize>,
}

impl<'r> InOrder<'r> {
    fn new(row: &'r Row<'r>) -> InOrder<'r> {
        InOrder { row, next: Cell::new(0) }
    }

    fn get<T: FromSql>(&self, name: &str) -> rusqlite::Result<T> {
        let statement = self.row.as_ref();
        let (next, count) = (self.next.get(), statement.column_count());
        let is_it = |place: &usize| statement.column_name(*place).is_ok_and(|it| it == name);
        let place = (next..count).chain(0..next).find(is_it);
        let place = place.ok_or_else(|| rusqlite::Error::InvalidColumnName(name.to_owned()))?;
        self.next.set(place + 1);
        self.row.get(place)
    }

    fn json<T: DeserializeOwned>(&self, name: &str) -> rusqlite::Result<Option<T>> {
        let text: Option<String> = self.get(name)?;
        let value = text.map(|text| serde_json::from_str(&text)).transpose();
        value.map_err(|cause| column_error(Error::internal("a column is not JSON").source(cause)))
    }
}

fn column_error(cause: Error) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_know_every_state_and_reason() {
        assert_eq!(Status::ALL.map(Status::as_str), crate::script::JOB_STATUS);
        assert_eq!(Reason::ALL.map(Reason::as_str), crate::script::JOB_REASON);
    }

    #[test]
    fn columns_are_found_by_name_in_any_order() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        let found: (i64, i64, i64, i64) = connection
            .query_row("SELECT 1 AS a, 2 AS b, 3 AS c", [], |row| {
                let row = InOrder::new(row);
                Ok((row.get("b")?, row.get("c")?, row.get("a")?, row.get("a")?))
            })
            .unwrap();
        assert_eq!(found, (2, 3, 1, 1));
        let missing = connection
            .query_row("SELECT 1 AS a", [], |row| InOrder::new(row).get::<i64>("b"))
            .unwrap_err();
        assert!(matches!(missing, rusqlite::Error::InvalidColumnName(name) if name == "b"));
    }
}
