//! The end of a run: its text becomes messages in the transaction that settles the job.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::base::{ChatMessageId, DISK_FULL, NO_ROOM, Result};
use crate::chat::model::{TOKEN_BYTES, Tokens};
use crate::chat::{self, End, Ended, NewMessage, Role, Run, Spent, State, Sum};
use crate::flows::Works;
use crate::flows::assistant::record;
use crate::jobs::{self, Job, Pool, Reason, Status, job_dir};
use crate::script::{EngineBody, Mode};
use crate::store::Tx;

/// Settles a job's run.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn settle_job(tx: &Tx<'_>, works: &Works, job: &Job) -> Result<()> {
    let Some(run) = run_of(tx, job)? else { return Ok(()) };
    // The messages are made from the stream, so they match what readers saw.
    let dir = job_dir(&works.config.site.data, &job.id);
    let said = chat::sum(&dir)?.unwrap_or_default();
    let end = judge(job, &said);
    let answers = keep_answers(tx, works, &run, &said, &end)?;
    chat::close_calls(tx, &job.id)?;
    let is_recorded = record::is_due(&run, &chat::calls_of_run(tx.connection(), &job.id)?);
    chat::settle_run(tx, &job.id, &end, (said.steps().count(), is_recorded))?;
    let (person, session) = (&run.person_id, &run.session_id);
    chat::note_answer(tx, (person, session), (&run.question_id, &answers), spent(job))?;
    if let (Ended::Ok, Some(reference), Some(at)) = (end.ended, &job.session_ref, answers.last()) {
        chat::keep_ref(tx, (session, &run.mode), reference, at)?;
    }
    Ok(())
}

/// Closes the run of a job that was cancelled before it started.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn cancelled(tx: &Tx<'_>, job: &Job) -> Result<()> {
    let Some(run) = run_of(tx, job)? else { return Ok(()) };
    let end = end(Ended::Stopped, "stopped", "it was stopped before it began");
    chat::settle_run(tx, &job.id, &end, (0, false))?;
    let of = (&run.person_id, &run.session_id);
    chat::note_answer(tx, of, (&run.question_id, &[]), Spent::default())
}

fn run_of(tx: &Tx<'_>, job: &Job) -> Result<Option<Run>> {
    if job.pool != Pool::Chat {
        return Ok(None);
    }
    Ok(chat::by_job(tx.connection(), &job.id)?.filter(|it| it.end.is_none()))
}

fn end(ended: Ended, code: &str, text: impl Into<String>) -> End {
    End { ended, code: Some(code.to_owned()), text: Some(text.into()) }
}

/// Returns how a run ended, according to its job and its stream.
fn judge(job: &Job, said: &Sum) -> End {
    let tail = || job.error_tail.clone().unwrap_or_default();
    let is_ended = matches!(job.status, Status::Cancelled | Status::TimedOut)
        || job.reason == Some(Reason::ServerRestarted);
    // What a program prints when it is stopped is not the reason.
    if let (Some((code, text)), false) = (&said.fault, is_ended) {
        let ended = match code.as_str() {
            "stalled" => Ended::Timeout,
            it if it.starts_with("limit_") => Ended::Limit,
            _ => Ended::Error,
        };
        return end(ended, code, text.clone());
    }
    match (job.status, job.reason) {
        (Status::Succeeded, _) if said.steps().next().is_some() => {
            End { ended: Ended::Ok, code: None, text: None }
        }
        (Status::Succeeded, _) => end(Ended::Error, "no_output", "the answer is empty"),
        (Status::Cancelled, _) => end(Ended::Stopped, "stopped", "it was stopped"),
        (_, Some(Reason::WallTimeout)) => {
            end(Ended::Timeout, "timeout", "the answer took too long")
        }
        (Status::TimedOut, _) => end(Ended::Timeout, "stalled", "the model fell silent"),
        (_, Some(Reason::ServerRestarted)) => {
            end(Ended::Interrupted, "interrupted", "the server was restarted")
        }
        // Its stream had no room for the reason.
        (_, Some(Reason::Internal)) if tail() == NO_ROOM => end(Ended::Error, DISK_FULL, NO_ROOM),
        (_, Some(Reason::RateLimited)) => end(Ended::Error, "rate_limited", tail()),
        (_, Some(Reason::SpawnFailed | Reason::KindChanged)) => {
            end(Ended::Error, "internal", tail())
        }
        (_, Some(Reason::GuardLost)) => {
            end(Ended::Error, "internal", "the program was killed from outside")
        }
        _ => end(Ended::Error, "internal", first_line(&tail())),
    }
}

/// Returns the first line of a program's error output.
fn first_line(tail: &str) -> String {
    let line = tail.lines().map(str::trim).find(|it| !it.is_empty());
    let line = line.unwrap_or("the program ended without an answer");
    crate::base::truncate_chars(line, 400)
}

fn keep_answers(
    tx: &Tx<'_>,
    works: &Works,
    run: &Run,
    said: &Sum,
    end: &End,
) -> Result<Vec<ChatMessageId>> {
    // Steps with calls are stored already.
    let kept = chat::of_run(tx.connection(), &run.job_id)?;
    let is_kept = |step: u32| kept.iter().any(|it| it.0 == step);
    let steps: Vec<(u32, &str)> = said.steps().filter(|it| !is_kept(it.0)).collect();
    let mut answers: Vec<ChatMessageId> = kept.iter().map(|it| it.1.clone()).collect();
    let provider = Mode::parse(&run.mode).map_or("", provider);
    for (place, (step, text)) in steps.iter().enumerate() {
        let is_last = place + 1 == steps.len();
        let new = NewMessage {
            session: &run.session_id,
            parent: Some(answers.last().unwrap_or(&run.question_id)),
            role: Role::Assistant,
            run: Some((&run.job_id, *step)),
            state: if is_last { state(end.ended) } else { State::Whole },
            body: text,
            native: Some((provider, None)),
            model: None,
            attachments: &[],
        };
        let id = chat::add_message(tx, &works.ids, &new)?;
        answers.push(id);
    }
    Ok(answers)
}

/// Returns the provider of a mode, as stored with messages.
pub(super) fn provider(mode: Mode) -> &'static str {
    match mode {
        Mode::AnthropicApiKey => "anthropic",
        Mode::ClaudeCode => "claude_code",
        Mode::GatewaySubscription => "gateway",
    }
}

fn state(ended: Ended) -> State {
    match ended {
        Ended::Ok => State::Whole,
        Ended::Stopped => State::Stopped,
        Ended::Interrupted => State::Interrupted,
        Ended::Timeout | Ended::Limit | Ended::Error => State::Failed,
    }
}

/// Returns what an answer had spent when its server died: a model that the server calls reports it
/// in the stream only. What was written after the last report is estimated.
pub(in crate::flows) fn spent_left(works: &Works) -> Arc<jobs::LeftSpent> {
    let works = works.clone();
    Arc::new(move |job| {
        left_by(&works, job).unwrap_or_else(|cause| {
            tracing::warn!(job_id = %job.id, "its tokens are not counted: {}", cause.chain());
            (None, None)
        })
    })
}

fn left_by(works: &Works, job: &Job) -> Result<(Option<Value>, Option<f64>)> {
    if job.pool != Pool::Chat {
        return Ok((None, None));
    }
    let run = works.store.look(|c| chat::by_job(c, &job.id))?;
    let mode = run.and_then(|it| Mode::parse(&it.mode)).filter(|it| *it != Mode::ClaudeCode);
    let said = chat::sum(&job_dir(&works.config.site.data, &job.id))?;
    let (Some(mode), Some(said)) = (mode, said) else { return Ok((None, None)) };
    let reported = said.usage.unwrap_or_default();
    let count = |name: &str| reported[name].as_u64().unwrap_or(0);
    let written = said.unreported as u64 / TOKEN_BYTES;
    let assistant = works.config.assistant.as_ref();
    let engine = assistant.and_then(|it| works.config.engines.get(it.runtimes.get(&mode)?));
    let price = match engine.map(|it| &it.body) {
        Some(EngineBody::Anthropic(model)) => model.price.as_ref(),
        _ => None,
    };
    let rest = Tokens { output: written, ..Tokens::default() };
    let cost = price.map(|it| reported["cost_usd"].as_f64().unwrap_or(0.0) + rest.cost(it));
    let usage = json!({
        "input_tokens": count("input"), "output_tokens": count("output") + written,
        "cache_read_input_tokens": count("cache_read"),
        "cache_creation_input_tokens": count("cache_write"), "is_partial": true,
    });
    Ok((Some(usage), cost))
}

/// Returns a job's tokens and cost.
pub(super) fn spent(job: &Job) -> Spent {
    let usage = job.usage.as_ref();
    let count = |name: &str| usage.and_then(|it| it[name].as_i64()).unwrap_or(0).max(0);
    let cost = job.cost_usd.unwrap_or(0.0) * 1e6;
    Spent {
        tokens_in: count("input_tokens")
            + count("cache_read_input_tokens")
            + count("cache_creation_input_tokens"),
        tokens_out: count("output_tokens"),
        cost_micros: if cost.is_finite() { cost.clamp(0.0, 1e15) as i64 } else { 0 },
    }
}
