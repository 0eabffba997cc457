//! The life of a job with a fake agent: from the request to its last repetition.
//!
//! What an agent hands in goes through the same doors as over HTTP, with the job's own token; how
//! it ends is told to the queue as its guard would have recorded it.

use serde_json::{Map, Value, json};

use crate::base::limit::{OPENED_TOPICS_MAX, parse_duration};
use crate::base::{Actor, Error, JobId, Result};
use crate::documents;
use crate::flows::lab::ground::{Ground, Mark};
use crate::flows::lab::{known_kind, new_topic, sent};
use crate::flows::{found, incorporate, jobs as job_flow, perspectives, topics};
use crate::jobs::{self, Job, Outlook, Played, Rehearsal};
use crate::people::Caller;
use crate::process::{ExitCause, ExitRecord, StreamRecord};
use crate::script::lab::{AGENT_FAILED, Agent};
use crate::script::{InputType, Kind};

/// How long an agent works that says nothing about it, in milliseconds.
const TAKES_MS: i64 = 1_000;

/// Asks for a job as a person does, and runs it to its end with all its repetitions.
pub(super) async fn run(
    ground: &Ground,
    asked: (&str, &Value, &Value),
    agent: &mut Agent<'_>,
) -> Result<Value> {
    let mark = ground.mark();
    let id = ask(ground, asked).await?;
    run_this(ground, &id, mark, agent).await
}

/// Asks for a job as a person does, and lets it wait; returns it.
pub(super) async fn enqueue(ground: &Ground, asked: (&str, &Value, &Value)) -> Result<Value> {
    let id = ask(ground, asked).await?;
    Ok(json!(ground.site.store.read(move |c| jobs::find(c, &id)).await?))
}

/// Asks for a job of a kind, with inputs and what else a person says.
async fn ask(ground: &Ground, (kind, given, says): (&str, &Value, &Value)) -> Result<JobId> {
    let kind = known_kind(ground, kind)?;
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

/// Runs a job that waits to its end with all its repetitions, at its time.
pub(super) async fn run_this(
    ground: &Ground,
    id: &JobId,
    mark: Mark,
    agent: &mut Agent<'_>,
) -> Result<Value> {
    let first = ready(ground, id).await?;
    to_the_end(ground, first, mark, agent).await
}

/// Claims a job that waits; the clock moves to its time.
async fn ready(ground: &Ground, id: &JobId) -> Result<Rehearsal> {
    let asked = id.clone();
    let not_before = ground.site.store.read(move |c| jobs::find(c, &asked)).await?.not_before;
    if let Some(at) = not_before {
        ground.pass_time(at).await?;
    }
    match ground.site.queue.rehearse(Some(id)).await? {
        Some(next) => Ok(next),
        None => Err(waits(ground, id).await?),
    }
}

/// Runs the job that comes next to its end with all its repetitions; nothing if none waits.
pub(super) async fn next(ground: &Ground, agent: &mut Agent<'_>) -> Result<Value> {
    let mark = ground.mark();
    loop {
        if let Some(first) = ground.site.queue.rehearse(None).await? {
            return to_the_end(ground, first, mark, agent).await;
        }
        let queued = ground.queued().await?;
        let Some(oldest) = queued.last() else { return Ok(Value::Null) };
        let now = ground.clock.now();
        let later = queued.iter().filter_map(|it| it.not_before).filter(|it| *it > now).min();
        match later {
            Some(at) => ground.pass_time(at).await?,
            None => return Err(waits(ground, &oldest.id).await?),
        }
    }
}

/// Says why a job does not run.
async fn waits(ground: &Ground, id: &JobId) -> Result<Error> {
    let (id, config, now) = (id.clone(), ground.site.config.clone(), ground.clock.now());
    let why = ground.site.store.read(move |c| {
        let job = jobs::find(c, &id)?;
        Outlook::load(c, &config, now)?.why(c, &job).map(|why| (job, why))
    });
    let (job, why) = why.await?;
    let why = why.map_or_else(|| "it is not queued".to_owned(), |it| it.message);
    Ok(Error::conflict("job_waits", format!("the job of kind \"{}\" waits: {why}", job.kind))
        .hint("run what is before it with t.next, or let time pass with t.advance"))
}

async fn to_the_end(
    ground: &Ground,
    first: Rehearsal,
    mark: Mark,
    agent: &mut Agent<'_>,
) -> Result<Value> {
    let (mut attempts, mut rehearsal): (Vec<Value>, _) = (Vec::new(), first);
    loop {
        let (job, mut shown) = attempt(ground, rehearsal, attempts.len() + 1, agent).await?;
        ground.tell().await?;
        // A handler may have added a warning to it.
        let (id, again) = (job.id.clone(), job.id.clone());
        let (job, next) = ground
            .site
            .store
            .read(move |c| Ok((jobs::find(c, &id)?, jobs::retries(c, &again)?)))
            .await?;
        merge(&mut shown, &job);
        attempts.push(shown.clone());
        let Some(next) = next.first() else {
            shown["effects"] = ground.effects(&mark).await?;
            shown["attempts"] = json!(attempts);
            return Ok(shown);
        };
        rehearsal = ready(ground, next).await?;
    }
}

/// Puts the fields of a job over what is shown of it.
fn merge(shown: &mut Value, job: &Job) {
    if let (Value::Object(shown), Value::Object(fields)) = (shown, json!(job)) {
        shown.extend(fields);
    }
}

/// Runs one attempt; returns the settled job, and it as the test sees it.
async fn attempt(
    ground: &Ground,
    rehearsal: Rehearsal,
    number: usize,
    agent: &mut Agent<'_>,
) -> Result<(Job, Value)> {
    let mut shown = json!(rehearsal.job);
    shown["attempt"] = json!(number);
    shown["prompt"] = json!(rehearsal.prompt().unwrap_or_default());
    shown["env"] = Value::Object(
        rehearsal.env().into_iter().map(|(name, value)| (name, Value::String(value))).collect(),
    );
    let job = rehearsal.job.clone();
    let played = match rehearsal.prompt() {
        // What is said of an agent that was never started does not count.
        None => play(ground, None, &rehearsal, &Map::new()).await?,
        Some(_) => {
            let does = match agent(&shown, number) {
                Ok(Value::Object(does)) => does,
                Ok(_) => Map::new(),
                Err(message) => return Err(Error::invalid(message).code(AGENT_FAILED)),
            };
            let kind = known_kind(ground, &job.kind)?;
            play(ground, Some(kind), &rehearsal, &does).await?
        }
    };
    let job = rehearsal.end(played).await?;
    merge(&mut shown, &job);
    left(ground, &job, &mut shown).await?;
    Ok((job, shown))
}

/// Does what the agent does; returns how it ended.
async fn play(
    ground: &Ground,
    kind: Option<&Kind>,
    rehearsal: &Rehearsal,
    does: &Map<String, Value>,
) -> Result<Played> {
    let (cause, works_ms) = match kind {
        Some(kind) => clocks(kind, does)?,
        None => (ExitCause::SpawnFailed, TAKES_MS),
    };
    let began = ground.clock.now();
    ground.clock.advance(works_ms);
    let is_cut = cause == ExitCause::WallTimeout && !does.contains_key("timeout");
    let job = &rehearsal.job;
    if let Some(kind) = kind
        && !is_cut
        && cause != ExitCause::SpawnFailed
    {
        hand_in(ground, kind, rehearsal, does).await?;
    }
    let mut cause = cause;
    if does.get("cancelled") == Some(&Value::Bool(true)) {
        job_flow::cancel(&ground.site, &ground.caller, &job.id).await?;
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

fn ms(it: std::time::Duration) -> i64 {
    i64::try_from(it.as_millis()).unwrap_or(i64::MAX)
}

/// Returns which end the agent comes to, and how long it works, in milliseconds.
fn clocks(kind: &Kind, does: &Map<String, Value>) -> Result<(ExitCause, i64)> {
    let works = match does.get("takes").and_then(Value::as_str) {
        Some(text) => ms(parse_duration(text)?),
        None => TAKES_MS,
    };
    let without = |name: &str| {
        let message = format!("kind \"{}\" has no clock `{name}`", kind.name);
        Error::invalid(message)
            .hint(format!("write timeout = \"wall\", or {name} = \"…\" in the kind"))
    };
    if does.contains_key("unreachable") {
        return Ok((ExitCause::SpawnFailed, 0));
    }
    match does.get("timeout").and_then(Value::as_str) {
        Some("wall") => Ok((ExitCause::WallTimeout, ms(kind.timeout))),
        Some("idle") => Ok((ExitCause::IdleTimeout, ms(kind.idle.ok_or_else(|| without("idle"))?))),
        Some(_) => Ok((ExitCause::StartTimeout, ms(kind.start.ok_or_else(|| without("start"))?))),
        None if works > ms(kind.timeout) => Ok((ExitCause::WallTimeout, ms(kind.timeout))),
        None => Ok((ExitCause::Exit, works)),
    }
}

/// Hands in what the agent made, with the token of its job.
async fn hand_in(
    ground: &Ground,
    kind: &Kind,
    rehearsal: &Rehearsal,
    does: &Map<String, Value>,
) -> Result<()> {
    let (site, job) = (&ground.site, &rehearsal.job);
    let caller = Caller::Job { id: job.id.clone(), token_hash: rehearsal.token_hash.clone() };
    let refused = |what: &str, cause: Error| {
        let message = format!("the {what} of the fake agent was refused: {}", cause.message());
        match cause.hint_str() {
            Some(hint) => Error::new(cause.kind(), message).hint(hint),
            None => Error::new(cause.kind(), message),
        }
    };
    let text = |name: &str| does.get(name).and_then(Value::as_str).map(str::to_owned);
    if let Some(body) = text("message") {
        let Some(topic) = &job.topic_id else {
            return Err(refused(
                "message",
                Error::invalid("its job has no topic").hint("give the kind an input of type topic"),
            ));
        };
        let request = topics::MessageRequest { body };
        let posted = topics::post_message(site, &caller, topic, request, None).await;
        posted.map_err(|it| refused("message", it))?;
    }
    if let Some(proposal) = does.get("proposal") {
        let proposed = propose(ground, kind, job, &caller, proposal).await;
        proposed.map_err(|it| refused("proposal", it))?;
    }
    for topic in does.get("topics").and_then(Value::as_array).into_iter().flatten() {
        let opened = new_topic(ground, &caller, topic).await;
        opened.map_err(|it| refused("topic", it))?;
    }
    if let Some(view) = text("view") {
        let stored = store_view(ground, kind, job, &caller, view).await;
        stored.map_err(|it| refused("view", it))?;
    }
    if let Some(result) = does.get("result") {
        let request = job_flow::ResultRequest { result: result.clone(), summary: text("summary") };
        let kept = job_flow::finish(site, &caller, &job.id, request).await;
        kept.map_err(|it| refused("result", it))?;
    }
    Ok(())
}

/// Returns the value of the first input of a type.
fn value_of(kind: &Kind, job: &Job, ty: InputType) -> Result<String> {
    let input = kind.inputs.iter().find(|it| it.ty == ty);
    input.and_then(|it| job.input_text(&it.name)).ok_or_else(|| {
        let message = format!("kind \"{}\" has no value of type {}", kind.name, ty.as_str());
        Error::invalid(message).hint("give the kind an input of that type")
    })
}

/// Returns the source that the work is about: the one whose version the job was given. Others are
/// only read.
fn source_of(kind: &Kind, job: &Job) -> Result<String> {
    let mut blobs = kind.inputs.iter().filter(|it| it.ty == InputType::Blob);
    let of_blob = blobs.find_map(|it| job.input_text(it.from.as_ref()?));
    of_blob.map_or_else(|| value_of(kind, job, InputType::Source), Ok)
}

async fn propose(
    ground: &Ground,
    kind: &Kind,
    job: &Job,
    caller: &Caller,
    proposal: &Value,
) -> Result<()> {
    let field = |name: &str| proposal[name].as_str().map(str::to_owned);
    let text = proposal.as_str().map(str::to_owned).or_else(|| field("text")).unwrap_or_default();
    let base_source_sha = value_of(kind, job, InputType::Blob)?.parse()?;
    let has_topic = kind.inputs.iter().any(|it| it.ty == InputType::Topic);
    match &job.topic_id {
        Some(topic) if has_topic => {
            let (summary, anchors) = (field("summary"), Vec::new());
            let request = incorporate::ProposalRequest { base_source_sha, text, summary, anchors };
            incorporate::propose(&ground.site, caller, topic, request, None).await?;
        }
        _ => {
            let request = found::FoundRequest {
                source_path: source_of(kind, job)?.parse()?,
                base_source_sha,
                text,
                title: field("title"),
                summary: field("summary"),
                anchors: Vec::new(),
            };
            found::propose(&ground.site, caller, request, None).await?;
        }
    }
    Ok(())
}

async fn store_view(
    ground: &Ground,
    kind: &Kind,
    job: &Job,
    caller: &Caller,
    text: String,
) -> Result<()> {
    let request = perspectives::PutRequest {
        source_path: source_of(kind, job)?.parse()?,
        persona: value_of(kind, job, InputType::Persona)?,
        source_sha: value_of(kind, job, InputType::Blob)?.parse()?,
        persona_sha: value_of(kind, job, InputType::Hash)?.parse()?,
        text,
    };
    perspectives::put(&ground.site, caller, request).await.map(drop)
}

/// Shows what a job left.
async fn left(ground: &Ground, job: &Job, shown: &mut Value) -> Result<()> {
    let job = job.clone();
    let found = ground.site.store.read(move |c| {
        let proposal = documents::proposal::by_job(c, &job.id)?;
        let proposal = proposal
            .map(|it| Ok::<_, Error>((documents::proposal::text(c, &it.id)?, it.id)))
            .transpose()?;
        let by = Actor::Job(job.id.clone());
        let message = match &job.topic_id {
            Some(topic) => documents::message::last_body(c, topic, &by)?,
            None => None,
        };
        let has_view = documents::perspective::has_job(c, &job.id)?;
        let view = has_view.then(|| documents::perspective::body(c, &job.id)).transpose()?;
        let topics = documents::opened::opened_by(c, &by, OPENED_TOPICS_MAX)?;
        Ok((proposal, message, view, topics))
    });
    let (proposal, message, view, topics) = found.await?;
    let (text, id) = proposal.unzip();
    (shown["proposal"], shown["proposal_id"]) = (json!(text), json!(id));
    shown["message"] = json!(message);
    shown["view"] = json!(view);
    shown["topics"] = json!(topics);
    Ok(())
}
