//! Tool calls: what a run requested, whether it was executed, and the result.
//!
//! **Invariant:** a call's arguments never change, so what is executed is what was shown.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params, types};
use serde_json::Value;

use crate::base::{
    ApprovalId, CallId, ChatMessageId, Error, Ids, JobId, Millis, PersonId, Result, fault,
};
use crate::store::Tx;

const INSERT: &str = "
    INSERT INTO chat_calls (id, run_id, step, place, call_ref, tool, args_json, args_digest, state,
        asks, approval_id, target, before_digest, after_digest, target_to, created_ms)
    SELECT :id, :run, :step, COUNT(*) + 1, :ref, :tool, :args, :digest, :state,
        :asks, :approval, :target, :before, :after, :to, :now
    FROM chat_calls WHERE run_id = :run";
const FIND: &str = "
    SELECT chat_calls.* FROM chat_calls
    JOIN chat_runs ON chat_runs.job_id = run_id
    JOIN chat_sessions ON chat_sessions.id = chat_runs.session_id
    WHERE chat_calls.id = :id AND person_id = :person";
const BY_REF: &str = "SELECT * FROM chat_calls WHERE run_id = :run AND call_ref = :ref";
const OF_RUN: &str = "SELECT * FROM chat_calls WHERE run_id = :run ORDER BY place";
const COUNT: &str = "SELECT COUNT(*) FROM chat_calls WHERE run_id = :run";
const START: &str = "
    UPDATE chat_calls SET state = 'running', started_ms = :now
    WHERE id = :id AND state IN ('ready', 'waiting')";
const NOTE_OF_OTHERS: &str = "UPDATE chat_calls SET of_others = 1 WHERE id = :id";
const FINISH: &str = "
    UPDATE chat_calls SET state = :state, ok = :ok, summary = :summary, result_text = :result,
        ended_ms = :now
    WHERE id = :id AND state IN ('ready', 'waiting', 'running')";
const CLOSE: &str = "
    UPDATE chat_calls SET state = IIF(state = 'running', 'unknown', 'cancelled'), ended_ms = :now
    WHERE run_id = :run AND state IN ('ready', 'waiting', 'running')
        AND again_approval_id IS NULL";
const AGAIN: &str = "
    UPDATE chat_calls SET state = 'running', ok = NULL, again_approval_id = :approval,
        started_ms = :now, ended_ms = NULL
    WHERE id = :id AND state = 'expired' AND again_approval_id IS NULL";
const FINISH_AGAIN: &str = "
    UPDATE chat_calls SET state = :state, ok = :ok, summary = :summary, ended_ms = :now
    WHERE id = :id AND state = 'running' AND again_approval_id IS NOT NULL";
const CLOSE_AGAIN: &str = "
    UPDATE chat_calls SET state = 'unknown', ended_ms = :now
    WHERE state = 'running' AND again_approval_id IS NOT NULL RETURNING run_id";
const SETTLE_UNKNOWN: &str = "
    UPDATE chat_calls SET state = 'done', ok = :ok, summary = :summary
    WHERE id = :id AND state = 'unknown' AND undone_ms IS NULL";
const UNDO: &str = "
    UPDATE chat_calls SET undone_ms = :now
    WHERE id = :id AND undone_ms IS NULL AND target IS NOT NULL AND state IN ('done', 'unknown')";
const ABOVE: &str = along_branch!(
    "SELECT DISTINCT tool, json_extract(args_json, '$.path') AS path,
        started_ms IS NOT NULL AS is_started, ok IS TRUE AS is_ok, of_others
    FROM chat_calls
    WHERE run_id IN (SELECT run_id FROM branch JOIN chat_messages USING (id))"
);

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("chat::call_insert", INSERT),
    ("chat::calls_above", ABOVE),
    ("chat::call_find", FIND),
    ("chat::call_by_ref", BY_REF),
    ("chat::calls_of_run", OF_RUN),
    ("chat::call_count", COUNT),
    ("chat::call_start", START),
    ("chat::call_note_of_others", NOTE_OF_OTHERS),
    ("chat::call_finish", FINISH),
    ("chat::call_close", CLOSE),
    ("chat::call_settle_unknown", SETTLE_UNKNOWN),
    ("chat::call_undo", UNDO),
    ("chat::call_again", AGAIN),
    ("chat::call_finish_again", FINISH_AGAIN),
    ("chat::call_close_again", CLOSE_AGAIN),
];

/// The state of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallState {
    /// Ready to execute.
    Ready,
    /// Awaiting confirmation.
    Waiting,
    /// Executing.
    Running,
    /// Finished, successfully or not.
    Done,
    /// Declined by the person.
    Declined,
    /// The confirmation expired.
    Expired,
    /// Its target had changed.
    Void,
    /// The run ended before it was executed.
    Cancelled,
    /// The run ended while it was executing.
    Unknown,
}

impl CallState {
    const ALL: [CallState; 9] = [
        CallState::Ready,
        CallState::Waiting,
        CallState::Running,
        CallState::Done,
        CallState::Declined,
        CallState::Expired,
        CallState::Void,
        CallState::Cancelled,
        CallState::Unknown,
    ];

    /// Returns the word in the table and over HTTP.
    pub fn as_str(self) -> &'static str {
        match self {
            CallState::Ready => "ready",
            CallState::Waiting => "waiting",
            CallState::Running => "running",
            CallState::Done => "done",
            CallState::Declined => "declined",
            CallState::Expired => "expired",
            CallState::Void => "void",
            CallState::Cancelled => "cancelled",
            CallState::Unknown => "unknown",
        }
    }

    /// Returns whether the state is final.
    pub fn is_final(self) -> bool {
        !matches!(self, CallState::Ready | CallState::Waiting | CallState::Running)
    }

    /// Returns whether a call in this state succeeded; `None` if nobody knows.
    fn outcome(self, ok: bool) -> Option<bool> {
        (self != CallState::Unknown).then_some(ok)
    }
}

/// What a call changes: a path, and the content before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The path.
    pub path: String,
    /// The digest of the content before.
    pub before: String,
    /// The digest of the content after.
    pub after: String,
    /// The target of a move.
    pub to: Option<String>,
}

/// A tool call.
#[derive(Clone, Debug)]
pub struct ToolCall {
    /// Its id.
    pub id: CallId,
    /// The run that requested it.
    pub run_id: JobId,
    /// The step of that run.
    pub step: u32,
    /// The runtime's id of it.
    pub call_ref: String,
    /// The tool.
    pub tool: String,
    /// The arguments.
    pub args: Value,
    /// The digest of the arguments.
    pub args_digest: String,
    /// Its state.
    pub state: CallState,
    /// Why it needs confirmation.
    pub asks: Option<String>,
    /// The approval that asks the person.
    pub approval_id: Option<ApprovalId>,
    /// The approval under which it was executed after its confirmation had expired. The model has
    /// been told that it was not.
    pub again_id: Option<ApprovalId>,
    /// What it changes.
    pub target: Option<Target>,
    /// Whether it succeeded.
    pub ok: Option<bool>,
    /// Whether it read a file with text of others.
    pub is_of_others: bool,
    /// The result, in one line.
    pub summary: Option<String>,
    /// The result given to the model.
    pub result: Option<String>,
    /// When it was undone.
    pub undone_at: Option<Millis>,
    /// When it was requested.
    pub created_at: Millis,
    /// When it started.
    pub started_at: Option<Millis>,
    /// When it ended.
    pub ended_at: Option<Millis>,
}

impl ToolCall {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<ToolCall> {
        let state: String = row.get("state")?;
        let args: String = row.get("args_json")?;
        let target = match row.get::<_, Option<String>>("target")? {
            None => None,
            Some(path) => Some(Target {
                path,
                before: row.get("before_digest")?,
                after: row.get("after_digest")?,
                to: row.get("target_to")?,
            }),
        };
        let known = CallState::ALL.into_iter().find(|it| it.as_str() == state);
        Ok(ToolCall {
            id: row.get("id")?,
            run_id: row.get("run_id")?,
            step: row.get("step")?,
            call_ref: row.get("call_ref")?,
            tool: row.get("tool")?,
            args: serde_json::from_str(&args).unwrap_or_default(),
            args_digest: row.get("args_digest")?,
            state: known.unwrap_or(CallState::Unknown),
            asks: row.get("asks")?,
            approval_id: row.get("approval_id")?,
            again_id: row.get("again_approval_id")?,
            target,
            ok: row.get("ok")?,
            is_of_others: row.get("of_others")?,
            summary: row.get("summary")?,
            result: row.get("result_text")?,
            undone_at: row.get("undone_ms")?,
            created_at: row.get("created_ms")?,
            started_at: row.get("started_ms")?,
            ended_at: row.get("ended_ms")?,
        })
    }

    /// Returns its duration in milliseconds.
    pub fn ms(&self) -> i64 {
        match (self.started_at, self.ended_at) {
            (Some(start), Some(end)) => (end.0 - start.0).max(0),
            _ => 0,
        }
    }
}

/// A new call.
#[derive(Clone, Debug)]
pub struct NewCall<'a> {
    /// Its id.
    pub id: &'a CallId,
    /// The run that requests it, and its step.
    pub run: (&'a JobId, u32),
    /// The runtime's id of it.
    pub call_ref: &'a str,
    /// The tool.
    pub tool: &'a str,
    /// The arguments as JSON text, and their digest.
    pub args: (&'a str, &'a str),
    /// Why it needs confirmation, and the approval.
    pub asks: Option<(&'a str, &'a ApprovalId)>,
    /// What it changes.
    pub target: Option<&'a Target>,
}

/// Returns a new call id.
pub fn mint(ids: &Ids) -> CallId {
    ids.mint()
}

/// Inserts a call.
///
/// # Errors
/// As any write.
pub fn insert(tx: &Tx<'_>, new: &NewCall<'_>) -> Result<ToolCall> {
    let state = if new.asks.is_some() { CallState::Waiting } else { CallState::Ready };
    tx.prepare_cached(INSERT)?.execute(named_params! {
        ":id": new.id, ":run": new.run.0, ":step": new.run.1, ":ref": new.call_ref,
        ":tool": new.tool, ":args": new.args.0, ":digest": new.args.1, ":state": state.as_str(),
        ":asks": new.asks.map(|it| it.0), ":approval": new.asks.map(|it| it.1),
        ":target": new.target.map(|it| &it.path), ":before": new.target.map(|it| &it.before),
        ":after": new.target.map(|it| &it.after),
        ":to": new.target.and_then(|it| it.to.as_ref()), ":now": tx.now(),
    })?;
    by_ref(tx.connection(), new.run.0, new.call_ref)?
        .ok_or_else(|| Error::internal("a call was not written down"))
}

/// Returns a person's call.
///
/// # Errors
/// `not_found` with code `no_call`, also for another person's.
pub fn find(connection: &Connection, person: &PersonId, id: &CallId) -> Result<ToolCall> {
    let params = named_params! {":id": id, ":person": person};
    let found =
        connection.prepare_cached(FIND)?.query_row(params, ToolCall::from_row).optional()?;
    found.ok_or_else(|| Error::not_found(format!("no call {id}")).code("no_call"))
}

/// Returns a run's call by its runtime's id.
///
/// # Errors
/// As any read.
pub fn by_ref(connection: &Connection, run: &JobId, call_ref: &str) -> Result<Option<ToolCall>> {
    let params = named_params! {":run": run, ":ref": call_ref};
    Ok(connection.prepare_cached(BY_REF)?.query_row(params, ToolCall::from_row).optional()?)
}

/// Returns a run's calls in order.
///
/// # Errors
/// As any read.
pub fn of_run(connection: &Connection, run: &JobId) -> Result<Vec<ToolCall>> {
    let mut statement = connection.prepare_cached(OF_RUN)?;
    let rows = statement.query_map(named_params! {":run": run}, ToolCall::from_row)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// How a call of a tool went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The tool.
    pub tool: String,
    /// Its argument `path`, if there is one and it is text.
    pub path: Option<String>,
    /// Whether it was started.
    pub is_started: bool,
    /// Whether it did what was asked.
    pub is_ok: bool,
    /// Whether it read a file with text of others.
    pub is_of_others: bool,
}

/// Returns the tools that the answers of a branch called, and how that went, each once. The branch
/// ends with a message.
///
/// # Errors
/// As any read.
pub fn tried_above(connection: &Connection, end: &ChatMessageId) -> Result<Vec<Tried>> {
    let tried = |row: &Row<'_>| {
        Ok(Tried {
            tool: row.get("tool")?,
            path: row.get::<_, types::Value>("path").map(|it| match it {
                types::Value::Text(path) => Some(path),
                _ => None,
            })?,
            is_started: row.get("is_started")?,
            is_ok: row.get("is_ok")?,
            is_of_others: row.get("of_others")?,
        })
    };
    let mut statement = connection.prepare_cached(ABOVE)?;
    let rows = statement.query_map(named_params! {":end": end}, tried)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns how many calls a run has requested.
///
/// # Errors
/// As any read.
pub fn count(connection: &Connection, run: &JobId) -> Result<u32> {
    let params = named_params! {":run": run};
    Ok(connection.prepare_cached(COUNT)?.query_row(params, |row| row.get(0))?)
}

/// Starts a call. Returns `false` if it was started already.
///
/// # Errors
/// As any write.
pub fn start(tx: &Tx<'_>, id: &CallId) -> Result<bool> {
    let params = named_params! {":id": id, ":now": tx.now()};
    Ok(tx.prepare_cached(START)?.execute(params)? == 1 || fault::is_off("use_once"))
}

/// Records that a call reads a file with text of others.
///
/// # Errors
/// As any write.
pub fn note_of_others(tx: &Tx<'_>, id: &CallId) -> Result<()> {
    tx.prepare_cached(NOTE_OF_OTHERS)?.execute(named_params! {":id": id})?;
    Ok(())
}

/// Records the result of a call: whether it succeeded, a line for people, and the text for the
/// model. Returns whether the call was open.
///
/// # Errors
/// As any write.
pub fn finish(
    tx: &Tx<'_>,
    id: &CallId,
    state: CallState,
    (ok, summary, result): (bool, &str, &str),
) -> Result<bool> {
    let params = named_params! {
        ":id": id, ":state": state.as_str(), ":ok": state.outcome(ok), ":summary": summary,
        ":result": result, ":now": tx.now(),
    };
    Ok(tx.prepare_cached(FINISH)?.execute(params)? == 1)
}

/// Closes a run's open calls.
///
/// # Errors
/// As any write.
pub fn close(tx: &Tx<'_>, run: &JobId) -> Result<()> {
    tx.prepare_cached(CLOSE)?.execute(named_params! {":run": run, ":now": tx.now()})?;
    Ok(())
}

/// Records what was found out about a call that was cut short: whether it was made, and a line for
/// people. What the model was told stays as it was.
///
/// # Errors
/// As any write.
pub fn settle_unknown(tx: &Tx<'_>, id: &CallId, (ok, summary): (bool, &str)) -> Result<()> {
    let params = named_params! {":id": id, ":ok": ok, ":summary": summary};
    tx.prepare_cached(SETTLE_UNKNOWN)?.execute(params)?;
    Ok(())
}

/// Records that a call was undone. Returns `false` if it was undone already.
///
/// # Errors
/// As any write.
pub fn note_undone(tx: &Tx<'_>, id: &CallId) -> Result<bool> {
    Ok(tx.prepare_cached(UNDO)?.execute(named_params! {":id": id, ":now": tx.now()})? == 1)
}

/// Starts a call whose confirmation expired, under a new approval.
///
/// # Errors
/// `conflict` with code `cannot_do` if it was started already, or did not expire.
pub fn start_again(tx: &Tx<'_>, id: &CallId, approval: &ApprovalId) -> Result<()> {
    let params = named_params! {":id": id, ":approval": approval, ":now": tx.now()};
    match tx.prepare_cached(AGAIN)?.execute(params)? {
        1 => Ok(()),
        _ => Err(Error::conflict("cannot_do", "the call was executed already, or has not expired")),
    }
}

/// Records the result of such a call. The model's result stays as it was.
///
/// # Errors
/// As any write.
pub fn finish_again(
    tx: &Tx<'_>,
    id: &CallId,
    state: CallState,
    (ok, summary): (bool, &str),
) -> Result<()> {
    let params = named_params! {
        ":id": id, ":state": state.as_str(), ":ok": state.outcome(ok), ":summary": summary,
        ":now": tx.now(),
    };
    tx.prepare_cached(FINISH_AGAIN)?.execute(params)?;
    Ok(())
}

/// Closes such calls that a killed server left executing; returns their runs.
///
/// # Errors
/// As any write.
pub fn close_again(tx: &Tx<'_>) -> Result<Vec<JobId>> {
    let mut statement = tx.prepare_cached(CLOSE_AGAIN)?;
    let runs = statement.query_map(named_params! {":now": tx.now()}, |row| row.get(0))?;
    Ok(runs.collect::<rusqlite::Result<_>>()?)
}
