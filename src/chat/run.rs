//! Runs: a run is one answer, and a job.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde::{Deserialize, Serialize};

use crate::base::{ChatId, ChatMessageId, Error, JobId, Millis, PersonId, Result, fault};
use crate::chat::message::{self, Message, Role};
use crate::store::Tx;

/// Most messages of a branch that are searched for text typed by the person.
const TYPED_MAX: usize = 400;

const INSERT: &str = "
    INSERT INTO chat_runs (job_id, session_id, question_id, asked_mode, mode, action, dry_run,
        piped, policy_json, created_ms)
    VALUES (:id, :session, :question, :asked, :mode, :action, :dry_run, :piped, :policy, :now)";
const FIND: &str = "
    SELECT chat_runs.*, person_id FROM chat_runs JOIN chat_sessions ON chat_sessions.id = session_id
    WHERE job_id = :id AND person_id = :person";
const BY_JOB: &str = "
    SELECT chat_runs.*, person_id FROM chat_runs JOIN chat_sessions ON chat_sessions.id = session_id
    WHERE job_id = :id";
const OPEN_OF: &str = "
    SELECT chat_runs.*, person_id FROM chat_runs JOIN chat_sessions ON chat_sessions.id = session_id
    WHERE session_id = :session AND ended IS NULL";
const LATEST_OF: &str = "
    SELECT chat_runs.*, person_id FROM chat_runs JOIN chat_sessions ON chat_sessions.id = session_id
    WHERE question_id = :question AND session_id = :session ORDER BY job_id DESC LIMIT 1";
const RUNS_OF: &str = "SELECT job_id FROM chat_runs WHERE session_id = :session";
const NOT_TYPED: &str = "
    SELECT question_id FROM chat_runs
    WHERE session_id = :session AND (action IS NOT NULL OR piped = 1)";
const HAS_PIPED: &str = along_branch!(
    "SELECT EXISTS (SELECT 1 FROM chat_runs
        WHERE session_id = :session AND piped = 1 AND question_id IN (SELECT id FROM branch))"
);
const SETTLE: &str = "
    UPDATE chat_runs SET ended = :ended, error_code = :code, error_text = :text, steps = :steps,
        tool_calls = (SELECT COUNT(*) FROM chat_calls WHERE run_id = :id), ended_ms = :now,
        is_recorded = :recorded, artefact = IIF(:recorded, NULL, '')
    WHERE job_id = :id AND ended IS NULL";

const UNRECORDED: &str = "
    SELECT job_id, ended_ms FROM chat_runs
    WHERE artefact IS NULL AND ended_ms IS NOT NULL AND (ended_ms, job_id) > (:ended, :after)
    ORDER BY ended_ms, job_id LIMIT :limit";
const NOTE_CHANGE: &str = "
    UPDATE chat_runs SET artefact = NULL, record_version = record_version + 1
    WHERE job_id = :id AND ended IS NOT NULL AND (:is_made OR artefact IS NOT '')";
const NOTE_FALLBACK: &str = "
    UPDATE chat_runs SET mode = :mode, fell_back = 1
    WHERE job_id = :id AND ended IS NULL AND fell_back = 0";
const NOTE_DIGESTS: &str = "UPDATE chat_runs SET record_digests = :digests WHERE job_id = :id";
const NOTE_RECORD: &str = "
    UPDATE chat_runs SET artefact = :artefact, record_digests = :digests
    WHERE job_id = :id AND record_version = :version";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("chat::run_insert", INSERT),
    ("chat::run_find", FIND),
    ("chat::run_by_job", BY_JOB),
    ("chat::run_open_of", OPEN_OF),
    ("chat::run_latest_of", LATEST_OF),
    ("chat::runs_of", RUNS_OF),
    ("chat::runs_not_typed", NOT_TYPED),
    ("chat::run_has_piped", HAS_PIPED),
    ("chat::run_settle", SETTLE),
    ("chat::run_unrecorded", UNRECORDED),
    ("chat::run_note_change", NOTE_CHANGE),
    ("chat::run_note_fallback", NOTE_FALLBACK),
    ("chat::run_note_digests", NOTE_DIGESTS),
    ("chat::run_note_record", NOTE_RECORD),
];

/// Rings when a run's record is due.
pub const RECORD_BELL: &str = "records";

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The model ended its turn.
    Ok,
    /// Stopped by the person.
    Stopped,
    /// It reached its time limit, or the model was silent.
    Timeout,
    /// It reached another limit.
    Limit,
    /// Failed.
    Error,
    /// Interrupted by the server's end.
    Interrupted,
}

impl Ended {
    const ALL: [Ended; 6] =
        [Ended::Ok, Ended::Stopped, Ended::Timeout, Ended::Limit, Ended::Error, Ended::Interrupted];

    /// Returns the word in the table and over HTTP.
    pub fn as_str(self) -> &'static str {
        match self {
            Ended::Ok => "ok",
            Ended::Stopped => "stopped",
            Ended::Timeout => "timeout",
            Ended::Limit => "limit",
            Ended::Error => "error",
            Ended::Interrupted => "interrupted",
        }
    }
}

/// How a run ended, and why.
#[derive(Clone, Debug)]
pub struct End {
    /// Which way.
    pub ended: Ended,
    /// The error code; `None` if it succeeded.
    pub code: Option<String>,
    /// The error message for people.
    pub text: Option<String>,
}

/// Limits of one run that are below the script's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Policy {
    /// Most steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The job.
    pub job_id: JobId,
    /// The conversation.
    pub session_id: ChatId,
    /// The owner of the conversation.
    pub person_id: PersonId,
    /// The question that it answers.
    pub question_id: ChatMessageId,
    /// The mode that answers.
    pub mode: String,
    /// Whether it was started in another mode, which could not be used.
    pub fell_back: bool,
    /// The action, if it runs one.
    pub action: Option<String>,
    /// Whether it is a dry run.
    pub is_dry: bool,
    /// Limits below the script's.
    pub policy: Policy,
    /// How it ended; `None` while it is open.
    pub end: Option<End>,
    /// Its record in the person's vault.
    pub record: Record,
    /// When it was requested.
    pub created_at: Millis,
    /// When it ended.
    pub ended_at: Option<Millis>,
}

/// The record of a run in the person's vault.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Whether there was something to record when the run was settled.
    pub is_due: bool,
    /// The path; `None` until it is written, or if nothing is recorded.
    pub path: Option<String>,
    /// Counts changes that require writing it again.
    pub version: i64,
    /// The digests of the contents that were written, or are about to be.
    pub digests: String,
}

impl Run {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Run> {
        let ended: Option<String> = row.get("ended")?;
        let ended = ended.map(|word| Ended::ALL.into_iter().find(|it| it.as_str() == word));
        let end = match ended {
            None => None,
            Some(ended) => Some(End {
                ended: ended.unwrap_or(Ended::Error),
                code: row.get("error_code")?,
                text: row.get("error_text")?,
            }),
        };
        Ok(Run {
            job_id: row.get("job_id")?,
            session_id: row.get("session_id")?,
            person_id: row.get("person_id")?,
            question_id: row.get("question_id")?,
            mode: row.get("mode")?,
            fell_back: row.get("fell_back")?,
            action: row.get("action")?,
            is_dry: row.get("dry_run")?,
            policy: serde_json::from_str(&row.get::<_, String>("policy_json")?).map_err(|it| {
                rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, it.into())
            })?,
            end,
            record: Record {
                is_due: row.get("is_recorded")?,
                path: row.get::<_, Option<String>>("artefact")?.filter(|it| !it.is_empty()),
                version: row.get("record_version")?,
                digests: row.get("record_digests")?,
            },
            created_at: row.get("created_ms")?,
            ended_at: row.get("ended_ms")?,
        })
    }
}

/// A new run.
#[derive(Debug)]
pub struct NewRun<'a> {
    /// The requested mode, and the one that answers.
    pub mode: (Option<&'a str>, &'a str),
    /// The action, if it runs one.
    pub action: Option<&'a str>,
    /// Whether it is a dry run.
    pub is_dry: bool,
    /// Whether the question came from another program.
    pub is_piped: bool,
    /// Limits below the script's.
    pub policy: Policy,
}

/// Inserts a run for a job.
///
/// # Errors
/// `conflict` if the conversation has an open run.
pub fn insert(
    tx: &Tx<'_>,
    job: &JobId,
    (session, question): (&ChatId, &ChatMessageId),
    new: &NewRun<'_>,
) -> Result<()> {
    let policy = serde_json::to_string(&new.policy)
        .map_err(|cause| Error::internal("the bounds of a run are no JSON").source(cause))?;
    tx.prepare_cached(INSERT)?.execute(named_params! {
        ":id": job, ":session": session, ":question": question, ":asked": new.mode.0,
        ":mode": new.mode.1, ":action": new.action, ":dry_run": new.is_dry,
        ":piped": new.is_piped, ":policy": policy, ":now": tx.now(),
    })?;
    Ok(())
}

/// Returns a person's run.
///
/// # Errors
/// `not_found` with code `no_run`, also for another person's.
pub fn find(connection: &Connection, person: &PersonId, id: &JobId) -> Result<Run> {
    let params = named_params! {":id": id, ":person": person};
    let found = match fault::is_off("own_rows") {
        true => by_job(connection, id)?,
        false => connection.prepare_cached(FIND)?.query_row(params, Run::from_row).optional()?,
    };
    found.ok_or_else(|| Error::not_found(format!("no run {id}")).code("no_run"))
}

/// Returns a job's run, whoever owns it; for managing the job.
///
/// # Errors
/// As any read.
pub fn by_job(connection: &Connection, id: &JobId) -> Result<Option<Run>> {
    let params = named_params! {":id": id};
    Ok(connection.prepare_cached(BY_JOB)?.query_row(params, Run::from_row).optional()?)
}

/// Returns the open run of a conversation.
///
/// # Errors
/// As any read.
pub fn open_of(connection: &Connection, session: &ChatId) -> Result<Option<Run>> {
    let params = named_params! {":session": session};
    Ok(connection.prepare_cached(OPEN_OF)?.query_row(params, Run::from_row).optional()?)
}

/// Returns the newest run for a question.
///
/// # Errors
/// As any read.
pub fn latest_of(
    connection: &Connection,
    session: &ChatId,
    question: &ChatMessageId,
) -> Result<Option<Run>> {
    let params = named_params! {":session": session, ":question": question};
    Ok(connection.prepare_cached(LATEST_OF)?.query_row(params, Run::from_row).optional()?)
}

/// Returns the runs of a conversation.
///
/// # Errors
/// As any read.
pub fn runs_of(connection: &Connection, session: &ChatId) -> Result<Vec<JobId>> {
    let mut statement = connection.prepare_cached(RUNS_OF)?;
    let ids = statement.query_map(named_params! {":session": session}, |row| row.get(0))?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}

/// A question that a person typed.
#[derive(Clone, Debug)]
pub struct Typed {
    /// What it says.
    pub text: String,
    /// What nobody typed and it may have been edited from: prompts of actions, and what another
    /// program wrote.
    pub from: Vec<String>,
}

/// Returns whether a question on a run's branch holds text of another program.
///
/// # Errors
/// As any read.
pub fn has_piped(connection: &Connection, run: &Run) -> Result<bool> {
    let params = named_params! {":end": run.question_id, ":session": run.session_id};
    Ok(connection.prepare_cached(HAS_PIPED)?.query_row(params, |row| row.get(0))?)
}

/// Returns what the person typed on a run's branch, newest first, without the prompts of actions
/// and what another program wrote, even if those were answered again.
///
/// # Errors
/// As any read.
pub fn typed(connection: &Connection, run: &Run) -> Result<Vec<Typed>> {
    let (session, question) = (&run.session_id, &run.question_id);
    let mut statement = connection.prepare_cached(NOT_TYPED)?;
    let others = statement.query_map(named_params! {":session": session}, |row| row.get(0))?;
    let others: BTreeSet<ChatMessageId> = others.collect::<rusqlite::Result<_>>()?;
    let find = |it: &ChatMessageId| message::find(connection, session, it);
    let untyped: Vec<Message> = others.iter().map(find).collect::<Result<_>>()?;
    let (branch, _) = message::branch(connection, session, question, TYPED_MAX)?;
    let is_typed = |it: &Message| it.role == Role::User && !others.contains(&it.id);
    // An edited question stands beside the one that it was.
    let as_typed = |it: Message| {
        let beside = untyped.iter().filter(|other| other.parent_id == it.parent_id);
        Typed { text: it.body, from: beside.map(|other| other.body.clone()).collect() }
    };
    Ok(branch.into_iter().rev().filter(is_typed).map(as_typed).collect())
}

/// Records how a run ended. Returns `false` if it had ended before.
///
/// # Errors
/// As any write.
pub fn settle(
    tx: &Tx<'_>,
    id: &JobId,
    end: &End,
    (steps, is_recorded): (usize, bool),
) -> Result<bool> {
    let params = named_params! {
        ":id": id, ":ended": end.ended.as_str(), ":code": end.code, ":text": end.text,
        ":steps": steps as i64, ":recorded": is_recorded, ":now": tx.now(),
    };
    if is_recorded {
        tx.ring(RECORD_BELL);
    }
    Ok(tx.prepare_cached(SETTLE)?.execute(params)? == 1)
}

/// Returns runs whose record is due, in the order of their ends, after a given one.
///
/// # Errors
/// As any read.
pub fn unrecorded(
    connection: &Connection,
    (ended, after): (i64, &str),
    limit: u32,
) -> Result<Vec<(JobId, i64)>> {
    let params = named_params! {":ended": ended, ":after": after, ":limit": limit};
    let mut statement = connection.prepare_cached(UNRECORDED)?;
    let rows = statement.query_map(params, |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Marks a run's record as due again. A run without a record gets one only if something was
/// executed.
///
/// # Errors
/// As any write.
pub fn note_change(tx: &Tx<'_>, id: &JobId, is_made: bool) -> Result<()> {
    let params = named_params! {":id": id, ":is_made": is_made};
    tx.prepare_cached(NOTE_CHANGE)?.execute(params)?;
    tx.ring(RECORD_BELL);
    Ok(())
}

/// Records that another mode answers, because the run's own could not be used. Returns whether the
/// run is open and had not fallen back before.
///
/// # Errors
/// As any write.
pub fn note_fallback(tx: &Tx<'_>, id: &JobId, mode: &str) -> Result<bool> {
    let params = named_params! {":id": id, ":mode": mode};
    Ok(tx.prepare_cached(NOTE_FALLBACK)?.execute(params)? == 1)
}

/// Stores the digests of what is about to be written.
///
/// # Errors
/// As any write.
pub fn note_digests(tx: &Tx<'_>, id: &JobId, digests: &str) -> Result<()> {
    tx.prepare_cached(NOTE_DIGESTS)?.execute(named_params! {":id": id, ":digests": digests})?;
    Ok(())
}

/// Stores the path of a run's record; empty if it has none. Returns `false` if the run has changed
/// since it was read.
///
/// # Errors
/// As any write.
pub fn note_record(
    tx: &Tx<'_>,
    id: &JobId,
    version: i64,
    (path, digests): (&str, &str),
) -> Result<bool> {
    let params = named_params! {
        ":id": id, ":version": version, ":artefact": path, ":digests": digests,
    };
    Ok(tx.prepare_cached(NOTE_RECORD)?.execute(params)? == 1)
}
