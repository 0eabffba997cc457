//! What is sent to an agent itself: given to it one by one, its last words sent back.
//!
//! **Invariant:** what an agent said after a person typed into its turn is sent to nobody.

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::api::mail::Sort;
use crate::base::{Actor, Address, BlockId, ErrorKind, JobId, Result, mark_lines};
use crate::channels;
use crate::flows::Works;
use crate::flows::agents::heard::End;
use crate::flows::agents::speech_of;
use crate::flows::mail::{Back, send_back};
use crate::jobs::speak::NO_REPLY;
use crate::jobs::{self, Pool};
use crate::mail::{self, Block, Message, TurnEnd, agent};
use crate::store::Tx;

/// Why a message has no answer whose turn a person typed into.
const TYPED_INTO: &str = "typed_into";
/// Longest payload that is written on several lines, in bytes as one line.
const PRETTY_BYTES_MAX: usize = 16 * 1024;

/// Makes the block of the oldest message that waits for an agent.
pub(super) fn compose(tx: &Tx<'_>, works: &Works, agent: &str) -> Result<Option<Block>> {
    let Some((seq, id)) = mail::oldest_direct(tx.connection(), agent)? else { return Ok(None) };
    let message = mail::find(tx.connection(), &id)?;
    let job = agent::find(tx.connection(), agent)?.and_then(|it| it.job_id);
    let viewer = &jobs::Viewer::Program;
    let job = job.map(|it| jobs::find_brief(tx.connection(), viewer, &it)).transpose()?;
    // Of one whose screen alone is seen nobody hears the last words.
    let speech = job.and_then(|it| speech_of(&works.scripts, &it));
    let is_heard = !speech.is_some_and(|it| it.is_by_screen());
    let text = words(tx.connection(), works, &message, is_heard)?;
    Ok(Some(Block { id: works.ids.mint(), text, rows: vec![seq] }))
}

/// Returns a message as its recipient reads it. `is_heard`: what it says last in the turn is sent
/// back.
///
/// # Errors
/// As any read.
pub(in crate::flows) fn words(
    c: &Connection,
    works: &Works,
    message: &Message,
    is_heard: bool,
) -> Result<String> {
    let payload = mark_lines(&text_of(&message.payload), channels::FRAMES);
    let from = writer(c, message)?;
    Ok(format!("{}\n{payload}", head(works, message, &from, is_heard)))
}

/// Returns who wrote a message: the address, or what has none.
fn writer(c: &Connection, message: &Message) -> Result<String> {
    let job = match (&message.from, &message.sender) {
        (Some(from), _) => return Ok(from.to_string()),
        (None, Actor::Job(job)) => job,
        (None, _) => return Ok("the site".to_owned()),
    };
    match jobs::find_brief(c, &jobs::Viewer::Program, job) {
        Ok(job) if job.monitor_of.is_some() => Ok(format!("the monitor {}", job.kind)),
        Ok(job) => Ok(format!("job {} ({})", job.id, job.kind)),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(format!("job {job}")),
        Err(cause) => Err(cause),
    }
}

/// Says who wrote, on a line of its own.
fn head(works: &Works, message: &Message, from: &str, is_heard: bool) -> String {
    let id = &message.id;
    let sort = match message.sort {
        Sort::Message => "message",
        Sort::Reply => "reply",
        Sort::Failure => "failure",
        Sort::Notice => "notice",
    };
    let answered = message.in_reply_to.as_ref();
    let to = answered.map(|it| format!(", to your message {it}")).unwrap_or_default();
    let how = match message.answer_to() {
        Some(to)
            if message.sort == Sort::Message && !(is_heard && is_answered_by_itself(message)) =>
        {
            format!("; to answer: {} send {to} --in-reply-to {id} --payload JSON", works.wb_agent)
        }
        _ => String::new(),
    };
    format!("[{sort} {id} from {from}{to}{how}]")
}

fn text_of(payload: &Value) -> String {
    match payload.as_str() {
        Some(text) => text.to_owned(),
        // Deep nesting makes many times as much of it on lines of its own.
        None => match payload.to_string() {
            short if short.len() <= PRETTY_BYTES_MAX => format!("{payload:#}"),
            long => long,
        },
    }
}

/// Whether the last words of the turn are sent back by themselves. Not to another agent that lives
/// on: two of them would answer each other for ever.
fn is_answered_by_itself(message: &Message) -> bool {
    message.sort == Sort::Message && !matches!(message.answer_to(), None | Some(Address::Agent(_)))
}

/// Sends the last words of a turn to whoever wrote what caused it; of one into which a person
/// typed, what it had answered before.
pub(super) fn answer(
    tx: &Tx<'_>,
    works: &Works,
    (agent, job, block): (&str, &JobId, &BlockId),
    end: &End<'_>,
) -> Result<()> {
    let Some(id) = mail::messages_of(tx.connection(), block)?.into_iter().next() else {
        return Ok(());
    };
    let message = mail::find(tx.connection(), &id)?;
    let has_answered = mail::answer_of(tx.connection(), &id)?.is_some()
        || mail::is_answered_by_job(tx.connection(), &id, job)?;
    if !is_answered_by_itself(&message) || has_answered {
        return Ok(());
    }
    let failed = |reason: &str, why: String| {
        let error = json!({"status": "failed", "reason": reason, "message": why});
        (Sort::Failure, json!({"error": error}))
    };
    let text = end.before_typed.unwrap_or(end.text);
    let is_typed = end.before_typed.is_some_and(str::is_empty);
    let (sort, payload) = match &end.how {
        TurnEnd::Answered if is_typed => {
            let why = "somebody typed in its terminal during its turn, and got the answer";
            failed(TYPED_INTO, format!("agent:{agent}: {why}; send it again if you need one"))
        }
        TurnEnd::Answered if text.trim() == NO_REPLY => (Sort::Reply, Value::Null),
        TurnEnd::Answered => (Sort::Reply, json!(text)),
        TurnEnd::Interrupted => failed("interrupted", format!("agent:{agent} was interrupted")),
        TurnEnd::Failed(why) => failed("engine_failed", format!("agent:{agent}: {why}")),
        TurnEnd::Lost => failed("turn_lost", format!("agent:{agent} ended before it had answered")),
    };
    let row = jobs::find_brief(tx.connection(), &jobs::Viewer::Program, job)?;
    debug_assert_eq!(row.pool, Pool::Live);
    let from = Address::Agent(agent.to_owned());
    let back = Back { sender: Actor::Job(job.clone()), from, asked_by: row.requested_by };
    send_back(tx, works, &back, (&message, sort), payload)
}
