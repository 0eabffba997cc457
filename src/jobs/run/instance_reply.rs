//! Verdicts of instances: by HTTP, or by the files `reply` and `status`.
//!
//! **Invariant:** the first verdict stands. It is committed before anything is ended.

use std::time::Duration;

use camino::Utf8Path;
use rusqlite::{OptionalExtension as _, named_params};
use serde_json::Value;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::base::{Error, ErrorKind, JobId, Result, fault, has_zero, tail_of};
use crate::jobs::fence::JOB_ENDED;
use crate::jobs::rows::table;
use crate::jobs::run::dispatch::Inner;
use crate::jobs::run::settle::{ALREADY_COMPLETED, Ended, Outcome};
use crate::jobs::{Generation, Job, Phase, Reason, Status, Verdict, Viewer, job_dir};
use crate::process::JobFolder;
use crate::script::Kind;
use crate::store::Tx;

/// File of the message, in the folder of the root job.
const MESSAGE: &str = "message";
/// File of the reply.
const REPLY: &str = "reply";
/// File of the verdict: `ok`, or anything else with the reason on the following lines.
const STATUS: &str = "status";
/// Longest status file, in bytes.
const STATUS_BYTES_MAX: u64 = 64 * 1024;
/// Longest reply file, in bytes: 256 KiB of JSON, with room for whitespace.
const REPLY_BYTES_MAX: u64 = 512 * 1024;
/// Longest reason of a failure, in bytes.
const REASON_BYTES_MAX: usize = 4 * 1024;

/// How often the status file of a running instance is read.
const LOOK_EVERY: Duration = Duration::from_secs(1);

const GIVE: &str = "
    UPDATE agent_jobs SET verdict = :verdict, result_json = :result
    WHERE id = :id AND status = 'running' AND verdict IS NULL AND cancelled_by IS NULL";
// Only for a test switch: the last verdict stands.
const GIVE_ANEW: &str = "
    UPDATE agent_jobs SET verdict = :verdict, result_json = :result
    WHERE id = :id AND status = 'running' AND cancelled_by IS NULL";
const GIVEN: &str = "
    SELECT verdict, result_json FROM agent_jobs WHERE id = :id AND verdict IS NOT NULL";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] = &[
    ("instance_reply::give", GIVE),
    ("instance_reply::give_anew", GIVE_ANEW),
    ("instance_reply::given", GIVEN),
];

/// The files of an instance, written before anything is started.
#[derive(Clone, Debug)]
pub struct InstanceFiles {
    /// The payload of its message.
    pub message: Vec<u8>,
}

/// A validated verdict.
#[derive(Clone, Debug)]
pub struct Given {
    /// The verdict.
    pub verdict: Verdict,
    /// The reply, or the reason as text.
    pub result: Value,
}

/// Refuses a reply that does not match the inbox's schema, or that nobody could be sent.
///
/// # Errors
/// `invalid` with code `bad_reply`, naming the place.
pub fn check_reply(kind: &Kind, reply: &Value) -> Result<()> {
    if has_zero(reply) {
        let message = "the reply holds a zero byte, which no prompt and no variable takes";
        return Err(Error::invalid(message).code("bad_reply").hint("leave \\u0000 out"));
    }
    match kind.inbox.as_ref().and_then(|it| it.reply_schema.as_ref()) {
        Some(schema) => schema.require(reply, "reply", "bad_reply"),
        None => Ok(()),
    }
}

/// Stores the verdict of a running instance. Repeating it changes nothing.
///
/// # Errors
/// `conflict` with code `already_completed` if it has another verdict, or `job_ended` if it has
/// ended or is being cancelled.
pub fn give_verdict(tx: &Tx<'_>, id: &JobId, given: &Given) -> Result<()> {
    let result = given.result.to_string();
    let params = named_params! {":id": id, ":verdict": given.verdict.as_str(), ":result": result};
    let give = if fault::is_off("verdict_once") { GIVE_ANEW } else { GIVE };
    if tx.prepare_cached(give)?.execute(params)? == 1 {
        return Ok(());
    }
    let before: Option<(String, Option<String>)> = tx
        .prepare_cached(GIVEN)?
        .query_row(named_params! {":id": id}, |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match before {
        Some((verdict, kept)) if verdict == given.verdict.as_str() && kept == Some(result) => {
            Ok(())
        }
        Some((verdict, _)) => {
            let message = format!("job {id} has said `{verdict}` already");
            Err(Error::conflict(ALREADY_COMPLETED, message)
                .hint("the first one stands; nothing was changed"))
        }
        _ => Err(Error::conflict(JOB_ENDED, format!("job {id} has ended"))
            .hint("stop: this job can no longer write")),
    }
}

/// Creates the files of an instance: the message, and an empty reply and status. Files of an
/// earlier start, before a crash, are not overwritten.
pub(in crate::jobs) fn lay_out(inner: &Inner, job: &Job, files: &InstanceFiles) -> Result<()> {
    let folder = JobFolder::make(&job_dir(&inner.ground.data, job.root()))?;
    if folder.read(STATUS, STATUS_BYTES_MAX)?.is_some() {
        return Ok(());
    }
    folder.put(MESSAGE, &files.message)?;
    folder.put(REPLY, b"")?;
    folder.put(STATUS, b"")
}

/// Returns the end of the status file of an instance; nothing as long as it is empty, or once its
/// folder was removed.
pub fn status_file(data: &Utf8Path, root: &JobId) -> Option<String> {
    let folder = JobFolder::open(&job_dir(data, root));
    let read = folder.and_then(|it| it.map_or(Ok(None), |it| it.read(STATUS, STATUS_BYTES_MAX)));
    let text = match read {
        Ok(bytes) => tail_of(&bytes?, REASON_BYTES_MAX),
        // The agent wrote it, and may have put something else in its place.
        Err(cause) if cause.kind() == ErrorKind::TooLarge => "(too long)".to_owned(),
        Err(_) => "(not a readable file)".to_owned(),
    };
    (!text.trim().is_empty()).then_some(text)
}

/// What the files of an instance contain.
#[derive(Debug)]
pub(in crate::jobs) enum Told {
    /// Nothing yet.
    Nothing,
    /// A verdict.
    Given(Given),
    /// A refused reply, with the reason.
    Bad(String),
}

/// Reads the files of an instance, which an agent may have written.
pub(in crate::jobs) fn read_files(inner: &Inner, job: &Job, kind: Option<&Kind>) -> Result<Told> {
    let Some(folder) = JobFolder::open(&job_dir(&inner.ground.data, job.root()))? else {
        return Ok(Told::Nothing);
    };
    let status = match folder.read(STATUS, STATUS_BYTES_MAX) {
        Ok(bytes) => bytes.unwrap_or_default(),
        // Of a long reason only the status counts.
        Err(cause) if cause.kind() == ErrorKind::TooLarge => b"error\n(too long)".to_vec(),
        Err(cause) => return Err(cause),
    };
    let status = tail_of(&status, status.len());
    let (first, reason) = status.split_once('\n').unwrap_or((&status, ""));
    match (first.trim(), reason.trim()) {
        ("", _) => Ok(Told::Nothing),
        ("ok", _) => reply(&folder, kind),
        (word, "") => Ok(Told::Given(failed(word))),
        (_, reason) => Ok(Told::Given(failed(reason))),
    }
}

fn failed(reason: &str) -> Given {
    let reason = tail_of(reason.as_bytes(), REASON_BYTES_MAX);
    Given { verdict: Verdict::Error, result: Value::String(reason) }
}

fn reply(folder: &JobFolder, kind: Option<&Kind>) -> Result<Told> {
    let bytes = match folder.read(REPLY, REPLY_BYTES_MAX) {
        Ok(bytes) => bytes.unwrap_or_default(),
        Err(cause) => return Ok(Told::Bad(cause.message().to_owned())),
    };
    let reply = match bytes.trim_ascii() {
        b"" => Value::Null,
        bytes => match serde_json::from_slice(bytes) {
            Ok(reply) => reply,
            Err(cause) => return Ok(Told::Bad(format!("the reply is not JSON: {cause}"))),
        },
    };
    Ok(match kind.map_or(Ok(()), |kind| check_reply(kind, &reply)) {
        Ok(()) => Told::Given(Given { verdict: Verdict::Ok, result: reply }),
        Err(cause) => Told::Bad(cause.message().to_owned()),
    })
}

/// Waits until an instance has a verdict, given over HTTP or found in its files while it runs.
/// Never returns for other jobs.
pub(in crate::jobs) async fn given(
    (inner, job, phase): (&Inner, &Job, Phase),
    told: &CancellationToken,
) {
    if job.message_id.is_none() || phase != Phase::Run {
        return std::future::pending().await;
    }
    let generation = inner.setup.generations.of(&job.id);
    let kind = generation.as_ref().and_then(|it| it.config.kind_of_job(&job.kind));
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before = None;
    loop {
        tokio::select! {
            () = told.cancelled() => return,
            _ = looks.tick() => {}
        }
        // A file not written atomically may be incomplete: two equal reads count.
        let text = status_text(inner, job);
        let is_told = text.is_some() && text == before;
        if is_told && (fault::is_off("read_first") || keep_from_files(inner, job, kind).await) {
            return;
        }
        before = text;
    }
}

/// Reads the files of an instance once more after its agent has ended: a verdict there counts,
/// whatever the exit status.
pub(in crate::jobs) async fn look_at_end(
    (inner, generation): (&Inner, &Generation),
    job: &Job,
    outcome: &mut Outcome,
) {
    if job.message_id.is_none() {
        return;
    }
    let kind = generation.config.kind_of_job(&job.kind);
    keep_from_files(inner, job, kind).await;
    match inner.setup.store.look(|c| table::find_slim(c, &Viewer::Program, &job.id)) {
        Ok(row) if row.verdict == Some(Verdict::Ok) => {
            // Regardless of what happened to the agent after its verdict.
            outcome.ended = Ended::Well;
        }
        Ok(row) if row.verdict.is_none() => {
            if let Ok(Told::Bad(why)) = read_files(inner, job, kind) {
                outcome.ended = Ended::Not(Status::Failed, Reason::BadReply);
                outcome.error_tail = why;
            }
        }
        Ok(_) => {}
        Err(cause) => warn!(job_id = %job.id, "the verdict cannot be read: {}", cause.chain()),
    }
}

fn status_text(inner: &Inner, job: &Job) -> Option<Vec<u8>> {
    let folder = JobFolder::open(&job_dir(&inner.ground.data, job.root())).ok()??;
    let bytes = folder.read(STATUS, STATUS_BYTES_MAX).ok()??;
    Some(bytes).filter(|it| !it.trim_ascii().is_empty())
}

/// Stores the verdict in the files of an instance, if there is one and none was given before.
/// Returns whether a valid one was found.
pub(in crate::jobs) async fn keep_from_files(
    inner: &Inner,
    job: &Job,
    kind: Option<&Kind>,
) -> bool {
    if job.message_id.is_none() {
        return false;
    }
    let given = match read_files(inner, job, kind) {
        Ok(Told::Given(given)) => given,
        Ok(Told::Nothing | Told::Bad(_)) => return false,
        Err(cause) => {
            warn!(job_id = %job.id, "the status of an instance: {}", cause.chain());
            return false;
        }
    };
    let id = job.id.clone();
    let kept = inner.setup.store.write(move |tx| give_verdict(tx, &id, &given)).await;
    match kept {
        Ok(()) => true,
        Err(cause) => cause.code_str() == ALREADY_COMPLETED,
    }
}
