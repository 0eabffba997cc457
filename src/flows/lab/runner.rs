//! The life of a job with a fake agent: from the request to its last repetition.
//!
//! What an agent hands in goes through the same doors as over HTTP, with the job's own token; how
//! it ends is told to the queue as its guard would have recorded it.
//!
//! Whenever a job waits for what its agent does, the site is free for what else happens: another
//! commit, a reload, another job.

use rusqlite::Connection;
use serde_json::{Map, Value, json};

use crate::base::limit::parse_duration;
use crate::base::{Error, JobId, Millis, Result};
use crate::flows::jobs as job_flow;
use crate::flows::lab::site::Ground;
use crate::flows::lab::wait::{Life, Mark, Play, Waits, ms};
use crate::flows::lab::{known_kind, message, room, sent, submit};
use crate::jobs::{self, Job, Outlook, Played, Rehearsal};
use crate::process::{ExitCause, ExitRecord, StreamRecord};
use crate::script::Kind;
use crate::script::lab::Step;

/// Default run time of an agent, in milliseconds.
pub(super) const TAKES_MS: i64 = 1_000;

/// Requests a job as a person does, and runs it and its retries to the end.
pub(super) async fn run(ground: &mut Ground, asked: (&str, &Value, &Value)) -> Result<Step> {
    let mark = ground.mark();
    let id = ask(ground, asked).await?;
    run_this(ground, &id, mark).await
}

/// Requests a job as a person does, and leaves it waiting; returns it.
pub(super) async fn enqueue(ground: &Ground, asked: (&str, &Value, &Value)) -> Result<Value> {
    let id = ask(ground, asked).await?;
    Ok(json!(ground.site.store.read(move |c| jobs::find(c, &jobs::Viewer::Program, &id)).await?))
}

/// Requests a job of a kind, with inputs and options.
async fn ask(ground: &Ground, (kind, given, says): (&str, &Value, &Value)) -> Result<JobId> {
    let kind = known_kind(ground, kind)?;
    if kind.inbox.is_some() {
        if !says.is_null() {
            return Err(Error::invalid("a message to an inbox has no options of a job")
                .hint("leave the last table out"));
        }
        return message::send(ground, kind, given).await;
    }
    if kind.takes_messages() {
        let message = format!("{} takes messages, which no test sends", kind.title());
        let hint = "a long-running agent answers in a channel: t.channel, t.say and t.answer";
        return Err(Error::invalid(message).code("takes_messages").hint(hint));
    }
    let not_before = says["not_before"].as_str().map(|text| match parse_duration(text) {
        Ok(wait) => ground.clock.now().plus(ms(wait)).rfc3339(),
        Err(_) => text.to_owned(),
    });
    let request = job_flow::JobRequest {
        kind: kind.name.clone(),
        priority: says["priority"].as_i64(),
        not_before,
        replace_proposals: says["replace_proposals"] == true,
        inputs: sent(ground, kind, given)?,
    };
    let id = job_flow::create(&ground.site, &ground.caller, request, None).await?;
    ground.tell().await?;
    Ok(id)
}

/// Runs a waiting job and its retries to the end, at its time.
pub(super) async fn run_this(ground: &mut Ground, id: &JobId, mark: Mark) -> Result<Step> {
    let first = ready(ground, id).await?;
    begin(ground, first, Life { mark, attempts: Vec::new() }).await
}

/// Claims a waiting job; the clock moves to its time.
async fn ready(ground: &Ground, id: &JobId) -> Result<Rehearsal> {
    let asked = id.clone();
    let job =
        ground.site.store.read(move |c| jobs::find(c, &jobs::Viewer::Program, &asked)).await?;
    if let Some(at) = job.not_before {
        ground.pass_time(at).await?;
    }
    let rehearsed = match is_full(ground, &job.kind) {
        true => None,
        false => ground.site.queue.rehearse(Some(id)).await?,
    };
    match rehearsed {
        Some(next) => Ok(next),
        None => Err(waits(ground, id).await?),
    }
}

/// Returns whether all slots are in use.
fn is_full(ground: &Ground, kind: &str) -> bool {
    let config = &ground.site.config;
    let is_over = |count: usize, most: u32| u32::try_from(count).is_ok_and(|it| it >= most);
    let running = || ground.plays.iter().filter_map(Waits::job);
    let of_kind = running().filter(|it| it.kind() == kind).count();
    let most = config.kinds.get(kind).and_then(|it| it.max_running);
    is_over(running().count(), config.limits.jobs) || most.is_some_and(|it| is_over(of_kind, it))
}

/// Runs the next waiting job and its retries to the end; `None` if none waits.
pub(super) async fn next(ground: &mut Ground) -> Result<Step> {
    let mark = ground.mark();
    loop {
        if let Some(first) = ground.site.queue.rehearse(None).await? {
            return begin(ground, first, Life { mark, attempts: Vec::new() }).await;
        }
        let queued = ground.queued().await?;
        let Some(oldest) = queued.last() else { return Ok(Step::Done(Value::Null)) };
        let now = ground.clock.now();
        let later = queued.iter().filter_map(|it| it.not_before).filter(|it| *it > now).min();
        match later {
            Some(at) => ground.pass_time(at).await?,
            None => return Err(waits(ground, &oldest.id).await?),
        }
    }
}

/// Explains why a job does not run.
pub(super) async fn waits(ground: &Ground, id: &JobId) -> Result<Error> {
    let (id, config, now) = (id.clone(), ground.site.config.clone(), ground.clock.now());
    let why = ground.site.store.read(move |c| {
        let job = jobs::find(c, &jobs::Viewer::Program, &id)?;
        Outlook::load(c, &jobs::Viewer::Program, &config, now)?.why(c, &job).map(|why| (job, why))
    });
    let (job, why) = why.await?;
    let why = why.map_or_else(|| "it is not queued".to_owned(), |it| it.message);
    Ok(Error::conflict("job_waits", format!("the job of kind \"{}\" is waiting: {why}", job.kind))
        .hint("run earlier jobs with t.next, or let time pass with t.advance"))
}

/// Starts an attempt: the fake agent is called, unless the job fails before it starts.
async fn begin(ground: &mut Ground, first: Rehearsal, life: Life) -> Result<Step> {
    let (mut rehearsal, mut life) = (first, life);
    loop {
        let number = life.attempts.len() + 1;
        let mut shown = json!(rehearsal.job);
        shown["attempt"] = json!(number);
        shown["prompt"] = json!(rehearsal.prompt().unwrap_or_default());
        let env = rehearsal.env().into_iter().map(|(name, value)| (name, Value::String(value)));
        shown["env"] = Value::Object(env.collect());
        // Handlers of `job_started` run while the job runs.
        ground.tell().await?;
        let works = rehearsal.kind().is_some();
        let play = Play { rehearsal, shown, began: ground.clock.now(), life };
        if works {
            let step = Step::Agent(play.shown.clone(), number);
            ground.plays.push(Waits::Job(Box::new(play)));
            return Ok(step);
        }
        // The fake agent's result does not count if it was never started.
        (rehearsal, life) = match end(ground, play, &Map::new()).await? {
            Ended::Last(shown) => return Ok(Step::Done(shown)),
            Ended::Again(next, life) => (*next, life),
        };
    }
}

/// Continues with the job that started last among those waiting for their agents.
pub(super) async fn go_on(ground: &mut Ground, does: &Value) -> Result<Step> {
    let nothing = Map::new();
    let says = does.as_object().unwrap_or(&nothing);
    let play = match ground.plays.pop() {
        Some(Waits::Job(play)) => play,
        Some(Waits::Turn(turn)) => return room::end(ground, *turn, says).await.map(Step::Done),
        None => return Err(Error::internal("no job waits for an agent")),
    };
    match end(ground, *play, says).await? {
        Ended::Last(shown) => Ok(Step::Done(shown)),
        Ended::Again(next, life) => begin(ground, *next, life).await,
    }
}

/// What follows an attempt.
enum Ended {
    /// Nothing: the job is final.
    Last(Value),
    /// A retry.
    Again(Box<Rehearsal>, Life),
}

/// Ends an attempt with the fake agent's result.
async fn end(ground: &Ground, play: Play, does: &Map<String, Value>) -> Result<Ended> {
    let Play { rehearsal, mut shown, began, mut life } = play;
    let played = played(ground, &rehearsal, began, does).await?;
    let job = rehearsal.end(played).await?;
    merge(&mut shown, &job);
    submit::show(ground, &job, &mut shown).await?;
    ground.tell().await?;
    // A handler may have added a warning to it.
    let (id, again) = (job.id.clone(), job.id.clone());
    let read = move |c: &Connection| {
        Ok((
            jobs::find(c, &jobs::Viewer::Program, &id)?,
            jobs::retries(c, &jobs::Viewer::Program, &again)?,
        ))
    };
    let (job, next) = ground.site.store.read(read).await?;
    merge(&mut shown, &job);
    life.attempts.push(shown.clone());
    match next.first() {
        Some(next) => Ok(Ended::Again(Box::new(ready(ground, next).await?), life)),
        None => {
            shown["effects"] = ground.effects(&life.mark).await?;
            shown["attempts"] = json!(life.attempts);
            Ok(Ended::Last(shown))
        }
    }
}

/// Merges the fields of a job into its view.
fn merge(shown: &mut Value, job: &Job) {
    if let (Value::Object(shown), Value::Object(fields)) = (shown, json!(job)) {
        shown.extend(fields);
    }
}

/// Does what the fake agent says; returns how it ended.
async fn played(
    ground: &Ground,
    rehearsal: &Rehearsal,
    began: Millis,
    does: &Map<String, Value>,
) -> Result<Played> {
    let (site, id) = (&ground.site, rehearsal.job.id.clone());
    let spent_ms = ground.clock.now().0 - began.0;
    let is_called_off = site
        .store
        .look(|c| jobs::find_brief(c, &jobs::Viewer::Program, &id))?
        .cancelled_by
        .is_some();
    let (mut cause, works_ms) = match rehearsal.kind() {
        _ if is_called_off => (ExitCause::Stopped, 0),
        Some(kind) => clocks(kind, does, spent_ms)?,
        None => (ExitCause::SpawnFailed, TAKES_MS),
    };
    ground.refuse_beyond(ground.clock.now().plus(works_ms))?;
    ground.clock.advance(works_ms);
    let is_cut = cause == ExitCause::WallTimeout && !does.contains_key("timeout");
    if let Some(kind) = rehearsal.kind()
        && !is_cut
        && !is_called_off
        && cause != ExitCause::SpawnFailed
    {
        submit::all(ground, kind, rehearsal, does).await?;
    }
    if does.get("cancelled") == Some(&Value::Bool(true)) && !is_called_off {
        job_flow::cancel::cancel(site, &ground.caller, &id).await?;
        cause = ExitCause::Stopped;
    }
    let text = |name: &str| does.get(name).and_then(Value::as_str).unwrap_or_default();
    let number =
        |name: &str| does.get(name).and_then(Value::as_i64).and_then(|it| i32::try_from(it).ok());
    let signal = match cause {
        ExitCause::Exit => number("signal"),
        ExitCause::SpawnFailed => None,
        // The first signal of an ending.
        _ => Some(2),
    };
    let exits = cause == ExitCause::Exit && signal.is_none();
    let (stdout, stderr) = (text("stdout").as_bytes(), text("stderr").as_bytes());
    let printed = |bytes: &[u8]| StreamRecord {
        bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        cut: false,
    };
    let record = ExitRecord {
        version: 1,
        cause,
        code: exits.then(|| number("exit").unwrap_or(0)),
        signal,
        error: does.get("unreachable").and_then(Value::as_str).map(str::to_owned),
        started_ms: began.0,
        ended_ms: ground.clock.now().0,
        cpu_user_ms: 0,
        cpu_sys_ms: 0,
        rss_max_bytes: 0,
        stdout: printed(stdout),
        stderr: printed(stderr),
        swept: 0,
        survivors: Vec::new(),
    };
    Ok(Played { record, stdout: stdout.to_vec(), stderr: stderr.to_vec() })
}

/// Returns how the agent ends, and how much longer it works, in milliseconds; events in the
/// meantime have already taken some time.
fn clocks(kind: &Kind, does: &Map<String, Value>, spent_ms: i64) -> Result<(ExitCause, i64)> {
    let takes = match does.get("takes").and_then(Value::as_str) {
        Some(text) => ms(parse_duration(text)?),
        None => TAKES_MS,
    };
    let clock = |name: &str, it: Option<std::time::Duration>| {
        it.map(ms).ok_or_else(|| {
            let message = format!("kind \"{}\" has no clock `{name}`", kind.name);
            Error::invalid(message)
                .hint(format!("write timeout = \"wall\", or {name} = \"…\" in the kind"))
        })
    };
    if does.contains_key("unreachable") {
        return Ok((ExitCause::SpawnFailed, 0));
    }
    let wall = ms(kind.timeout);
    let (cause, at) = match does.get("timeout").and_then(Value::as_str) {
        Some("wall") => (ExitCause::WallTimeout, wall),
        // As if it had just printed something.
        Some("idle") => (ExitCause::IdleTimeout, spent_ms + clock("idle", kind.idle)?),
        Some(_) => (ExitCause::StartTimeout, clock("start", kind.start)?),
        None => (ExitCause::Exit, takes.max(spent_ms)),
    };
    let (cause, at) = if at > wall { (ExitCause::WallTimeout, wall) } else { (cause, at) };
    Ok((cause, (at - spent_ms).max(0)))
}
