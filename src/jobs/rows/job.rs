//! A job as a row and as JSON.

use std::cell::Cell;

use camino::Utf8Path;
use rusqlite::Row;
use rusqlite::types::FromSql;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::api::jobs::Status;
use crate::base::{
    Actor, ApprovalId, Error, JobId, MailId, Millis, PersonId, Scope, SourcePath, TopicId,
};
use crate::jobs::rows::pool::Pool;
use crate::jobs::rows::state::{Phase, Reason, Verdict};
use crate::script::Engine;

/// A job. The JSON names are those of docs/http.md; internal fields are omitted.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Job {
    /// Its sequence number, in order of acceptance.
    #[serde(skip)]
    pub seq: i64,
    /// Its id.
    pub id: JobId,
    /// Its kind, as declared in the script.
    pub kind: String,
    /// The Source it works on.
    pub source_path: Option<SourcePath>,
    /// The Topic it works on.
    pub topic_id: Option<TopicId>,
    /// The persona it speaks for.
    pub persona_name: Option<String>,
    /// Its status.
    pub status: Status,
    /// Why it ended as it did.
    pub reason: Option<Reason>,
    /// When it was claimed.
    pub started_at: Option<Millis>,
    /// When it began to end: since then its token is refused.
    #[serde(rename = "ending_at")]
    pub ending_at: Option<Millis>,
    /// When it was completed.
    pub completed_at: Option<Millis>,
    /// The agent's exit status.
    pub exit_code: Option<i32>,
    /// The signal that killed the agent.
    pub signal: Option<i32>,
    /// The tail of its stderr, or a fixed sentence; null on success.
    pub error_tail: Option<String>,
    /// When it was accepted.
    pub created_at: Millis,
    /// Tokens and turns, as the engine reports them.
    pub usage: Option<Value>,
    /// Cost as reported by the engine.
    pub cost_usd: Option<f64>,
    /// `<input>=<value>`: jobs of one lane do not run at the same time.
    pub lane: Option<String>,
    /// The job that it retries.
    pub retry_of: Option<JobId>,
    /// Who requested it.
    pub requested_by: Actor,
    /// Higher goes first within lane and kind.
    pub priority: i64,
    /// The earliest start.
    pub not_before: Option<Millis>,
    /// When to retry it, if its provider was rate limiting and said so.
    pub retry_at: Option<Millis>,
    /// Its inputs.
    pub inputs: Map<String, Value>,
    /// The agent's last words, or its summary of the result.
    pub summary: Option<String>,
    /// The result submitted with `finish`.
    pub result: Option<Value>,
    /// Warnings about a result that counts anyway.
    pub warnings: Vec<String>,
    /// Who cancelled it.
    pub cancelled_by: Option<Actor>,
    /// The engine's session id, for resuming.
    pub session_ref: Option<String>,
    /// The script under which it ran.
    pub config_digest: String,
    /// The root job of its instance, if it is a later leg.
    pub root_id: Option<JobId>,
    /// The leg that it continues.
    pub resumes: Option<JobId>,
    /// The only person who sees it; `None` for a job of the site.
    #[serde(skip)]
    pub owner: Option<PersonId>,
    /// The cap that it counts toward.
    pub pool: Pool,
    /// The message that started it.
    pub message_id: Option<MailId>,
    /// The agent that lives in it.
    pub agent: Option<String>,
    /// The job that it watches, if it is a monitor.
    pub monitor_of: Option<JobId>,
    /// Its current phase: `prepare`, `run` or `cleanup`.
    pub phase: Option<Phase>,
    /// The verdict reported by its agent.
    pub verdict: Option<Verdict>,
    /// The approval that it waits for.
    pub waits_for: Option<ApprovalId>,
    /// Since when its guard does not answer, while it runs.
    pub unanswered_at: Option<Millis>,
    /// The names of the inputs that were Sources when it was asked for.
    #[serde(skip)]
    pub sources: Vec<String>,
    /// The grants of its token.
    #[serde(skip)]
    pub grants: Vec<crate::jobs::Grant>,
    /// The engine that ran it.
    #[serde(skip)]
    pub engine: Option<String>,
    /// The mark of that engine: another one of its name may run the next leg.
    #[serde(skip)]
    pub engine_mark: Option<String>,
    /// When its agent was started, recorded for jobs with hooks or an inbox.
    #[serde(skip)]
    pub run_at: Option<Millis>,
    /// Whether a person asked for the immediate end of its processes.
    #[serde(skip)]
    pub is_killed: bool,
    /// The guard, once started.
    #[serde(skip)]
    pub guard: Option<crate::process::ProcessIdentity>,
}

/// What a queued job waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Its time: `not_before` is in the future.
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
    /// Only with this status.
    pub status: Option<Status>,
    /// Of queued jobs, only these.
    pub turn: Option<Turn>,
    /// The current time, for [`JobFilter::turn`].
    pub now: Millis,
    /// Only those accepted before this job.
    pub before: Option<JobId>,
    /// At most this many.
    pub limit: u32,
}

impl Job {
    /// Reads a row with all columns.
    ///
    /// # Errors
    /// Fails if a column is missing or has the wrong type.
    pub(crate) fn from_row(row: &Row<'_>) -> rusqlite::Result<Job> {
        let row = InOrder::new(row);
        Ok(Job {
            seq: row.get("seq")?,
            id: row.get("id")?,
            kind: row.get("kind")?,
            lane: row.get("lane_key")?,
            status: Status::parse(row.text("status")?.unwrap_or_default()).map_err(column_error)?,
            reason: row.text("reason")?.and_then(Reason::parse),
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
            root_id: row.get("root_id")?,
            resumes: row.get("resumes")?,
            owner: row.get("owner")?,
            pool: Pool::parse(row.text("pool")?.unwrap_or_default())
                .ok_or_else(|| column_error(Error::internal("a pool is none")))?,
            phase: row.text("phase")?.and_then(Phase::parse),
            message_id: row.get("message_id")?,
            agent: row.get("agent")?,
            monitor_of: row.get("monitor_of")?,
            waits_for: row.get("waits_for")?,
            verdict: row.text("verdict")?.and_then(Verdict::parse),
            run_at: row.get("run_ms")?,
            unanswered_at: row.get("unanswered_ms")?,
            is_killed: row.get::<Option<i64>>("killed_ms")?.is_some(),
            guard: guard(&row)?,
            engine_mark: row.get("engine_mark")?,
            sources: row.json("sources_json")?.unwrap_or_default(),
        })
    }

    /// Returns who can see its events.
    pub(in crate::jobs) fn scope(&self) -> Scope {
        self.owner.clone().map_or(Scope::Site, Scope::Person)
    }

    /// Returns what a person who cannot see the job, but cancelled it, may know: its status and
    /// times.
    #[must_use]
    pub fn without_words(self) -> Job {
        Job {
            lane: None,
            source_path: None,
            topic_id: None,
            persona_name: None,
            inputs: Map::new(),
            grants: Vec::new(),
            requested_by: Actor::System,
            error_tail: None,
            summary: None,
            result: None,
            warnings: Vec::new(),
            session_ref: None,
            usage: None,
            cost_usd: None,
            retry_of: None,
            root_id: None,
            resumes: None,
            message_id: None,
            monitor_of: None,
            waits_for: None,
            ..self
        }
    }

    /// Returns the root job of its instance, to which address, workspace and message belong.
    pub fn root(&self) -> &JobId {
        self.root_id.as_ref().unwrap_or(&self.id)
    }

    /// Returns why an engine does not know the session of this job: another one ran it, if only
    /// under the same name. `None` if it does, or the job has not run. The folder is the script's.
    pub fn other_engine(&self, now: &Engine, folder: &Utf8Path) -> Option<String> {
        let name = self.engine.as_ref()?;
        if *name != now.name {
            return Some(format!("its session belongs to engine \"{name}\""));
        }
        let is_other = self.engine_mark.as_ref().is_some_and(|it| *it != now.mark(folder));
        is_other.then(|| {
            format!(
                "its session belongs to engine \"{name}\" as it was, with another type, protocol \
                 or program"
            )
        })
    }

    /// Returns an input as text for a template; `None` if it was not given.
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

/// A row whose columns are requested by name, mostly in order: each lookup starts after the
/// previous column. The table has some forty columns, and searching from the first one took as long
/// as everything else about reading a job.
struct InOrder<'r> {
    row: &'r Row<'r>,
    next: Cell<usize>,
}

impl<'r> InOrder<'r> {
    fn new(row: &'r Row<'r>) -> InOrder<'r> {
        InOrder { row, next: Cell::new(0) }
    }

    fn place(&self, name: &str) -> rusqlite::Result<usize> {
        let statement = self.row.as_ref();
        let (next, count) = (self.next.get(), statement.column_count());
        let is_it = |place: &usize| statement.column_name(*place).is_ok_and(|it| it == name);
        let place = (next..count).chain(0..next).find(is_it);
        let place = place.ok_or_else(|| rusqlite::Error::InvalidColumnName(name.to_owned()))?;
        self.next.set(place + 1);
        Ok(place)
    }

    fn get<T: FromSql>(&self, name: &str) -> rusqlite::Result<T> {
        self.row.get(self.place(name)?)
    }

    /// Returns a text as SQLite holds it, without a copy.
    fn text(&self, name: &str) -> rusqlite::Result<Option<&'r str>> {
        Ok(self.row.get_ref(self.place(name)?)?.as_str_or_null()?)
    }

    fn json<T: DeserializeOwned>(&self, name: &str) -> rusqlite::Result<Option<T>> {
        let value = self.text(name)?.map(serde_json::from_str).transpose();
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
