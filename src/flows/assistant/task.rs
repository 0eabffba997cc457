//! An answer as a task in the server, for models that the server calls itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use crate::base::{DISK_FULL, Error, JobId, NO_ROOM, PersonId, Result};
use crate::chat::model::{Ask, Block, Claude, Fault, Model, OfPerson, Tokens};
use crate::chat::{self, IMAGE_BYTES_MAX, Item, Line, Message, Role, Run, Scribe, ToolCall};
use crate::flows::Site;
use crate::flows::assistant::context_window::{self, Branch};
use crate::flows::assistant::disk::on_disk;
use crate::flows::assistant::fallback::fall_back;
use crate::flows::assistant::steps::{Answer, Halt, ended};
use crate::flows::assistant::{run, tools, vault};
use crate::flows::check::external;
use crate::jobs::{self, Pieces, Reason, RunTask, Status, Task, TaskEnd, TaskFailure};
use crate::people::{self, Person};
use crate::script::{Assistant, Config, Engine, EngineBody, Mode, Price};

/// Most messages of a branch.
const MESSAGES_MAX: usize = 400;
/// The last questions whose images are included.
const SHOWN_QUESTIONS: usize = 3;
/// Bytes per token of a request; a low estimate, so that it fits.
const TOKEN_BYTES: usize = 3;

/// The message for an error whose cause is only in the log.
const INTERNAL: &str = "a fault of this program";

/// Returns the function that runs jobs without a process.
pub fn tasks(site: &Site) -> RunTask {
    let site = site.clone();
    Arc::new(move |task| {
        let site = site.now();
        Box::pin(async move { do_task(&site, task).await })
    })
}

/// The rows of a run.
struct Found {
    run: Run,
    question: Message,
    before: Vec<Message>,
    calls: BTreeMap<JobId, Vec<ToolCall>>,
    person: Option<Person>,
}

/// The script's settings for a run.
struct Setting {
    config: Arc<Config>,
    assistant: Assistant,
    engine: Engine,
}

/// The result of one engine.
struct Attempt {
    ended: std::result::Result<(), Halt>,
    /// Whether readers have seen nothing of its text.
    is_unseen: bool,
    tokens: Tokens,
    summary: Option<String>,
    price: Option<Price>,
    engine: Option<String>,
}

impl Attempt {
    /// Returns the result of an engine that could not be called.
    fn failed(halt: Halt, engine: Option<String>) -> Attempt {
        Attempt {
            ended: Err(halt),
            is_unseen: true,
            tokens: Tokens::default(),
            summary: None,
            price: None,
            engine,
        }
    }
}

async fn do_task(site: &Site, task: Task) -> TaskEnd {
    let line = match open(site, &task).await {
        Ok(Some(line)) => line,
        // Its conversation was deleted.
        Ok(None) => return TaskEnd::default(),
        Err(cause) => {
            tracing::error!(job_id = %task.job.id, "an answer cannot begin: {}", cause.chain());
            let failure = failure(site, fault_of(&cause));
            return TaskEnd { failure: Some(failure), ..TaskEnd::default() };
        }
    };
    let attempt = loop {
        let attempt = attempt(site, &task, &line).await;
        let Err(Halt::Fault(fault)) = &attempt.ended else { break attempt };
        if !attempt.is_unseen {
            break attempt;
        }
        match fall_back(site, &task, &line, fault).await {
            Ok(true) => {}
            Ok(false) => break attempt,
            Err(cause) => break Attempt { ended: Err(ended(cause)), ..attempt },
        }
    };
    let failure = match attempt.ended {
        Ok(()) | Err(Halt::Stopped) => None,
        Err(Halt::Fault(fault)) => Some(told((site, &task), &line, fault).await),
        Err(Halt::Error(cause)) => {
            tracing::error!(job_id = %task.job.id, "an answer failed: {}", cause.chain());
            Some(told((site, &task), &line, fault_of(&cause)).await)
        }
    };
    let tokens = attempt.tokens;
    let usage = (tokens != Tokens::default()).then(|| {
        json!({
            "input_tokens": tokens.input, "output_tokens": tokens.output,
            "cache_read_input_tokens": tokens.cache_read,
            "cache_creation_input_tokens": tokens.cache_write,
        })
    });
    let cost_usd = usage.as_ref().and(attempt.price.as_ref()).map(|it| tokens.cost(it));
    TaskEnd { failure, summary: attempt.summary, usage, cost_usd, engine: attempt.engine }
}

/// Returns what is said of an error. A full disk is nobody's fault.
fn fault_of(cause: &Error) -> Fault {
    match cause.code_str() {
        DISK_FULL => Fault::lasting(DISK_FULL, NO_ROOM),
        _ => Fault::lasting("internal", INTERNAL),
    }
}

/// Opens the stream of a run; `None` if its conversation was deleted.
async fn open(site: &Site, task: &Task) -> Result<Option<Arc<Line>>> {
    let Some(run) = site.store.look(|c| chat::by_job(c, &task.job.id))? else { return Ok(None) };
    let answer = run::answer(&site.config_of(&task.job.id), &run);
    let (clock, hub) = (site.store.clock().clone(), site.chat.clone());
    let scribe = on_disk(move || Scribe::open(&answer, clock, hub)).await?;
    Ok(Some(site.chat.write(&run.job_id, scribe)))
}

/// Runs the engine of the run's mode.
async fn attempt(site: &Site, task: &Task, line: &Arc<Line>) -> Attempt {
    let (engine, mut answer) = match begin(site, task, line).await {
        Ok((engine, Ok(answer))) => (engine, answer),
        Ok((engine, Err(halt))) => return Attempt::failed(halt, Some(engine)),
        Err(halt) => return Attempt::failed(halt, None),
    };
    let ended = answer.write().await;
    Attempt {
        ended,
        is_unseen: answer.is_unseen(),
        tokens: answer.tokens,
        summary: answer.last_words(),
        price: answer.model_of().price().copied(),
        engine: Some(engine),
    }
}

/// Records why an answer ends, in its stream; returns the failure for its job.
async fn told((site, task): (&Site, &Task), line: &Arc<Line>, fault: Fault) -> TaskFailure {
    let item = Item::Status { code: fault.code.to_owned(), message: fault.message.clone() };
    let line = Arc::clone(line);
    if let Err(cause) = on_disk(move || line.push(item)).await {
        tracing::error!(job_id = %task.job.id, "an answer has no ending: {}", cause.chain());
    }
    failure(site, fault)
}

fn failure(site: &Site, fault: Fault) -> TaskFailure {
    let now = site.store.clock().now();
    let wait_ms = |it: std::time::Duration| i64::try_from(it.as_millis()).unwrap_or(i64::MAX);
    let limit = (fault.code == "rate_limited").then(|| fault.wait.map(|it| now.plus(wait_ms(it))));
    let (status, reason) = match fault.code {
        "stalled" => (Status::TimedOut, Reason::IdleTimeout),
        "internal" | DISK_FULL => (Status::Failed, Reason::Internal),
        _ => (Status::Failed, Reason::ExitStatus),
    };
    TaskFailure { status, reason, text: fault.message, limit }
}

type Begun<'a> = (String, std::result::Result<Answer<'a>, Halt>);

/// Prepares a run; with the name of its engine.
async fn begin<'a>(
    site: &'a Site,
    task: &'a Task,
    line: &Arc<Line>,
) -> std::result::Result<Begun<'a>, Halt> {
    let id = task.job.id.clone();
    let found = site.store.read(move |c| find(c, &id)).await.map_err(Halt::Error)?;
    let Some(found) = found else { return Err(Halt::Stopped) };
    let setting = setting(site, task, &found.run).map_err(Halt::Error)?;
    let engine = setting.engine.name.clone();
    Ok((engine, answer((site, task), Arc::clone(line), found, setting).await))
}

async fn answer<'a>(
    (site, task): (&'a Site, &'a Task),
    line: Arc<Line>,
    found: Found,
    setting: Setting,
) -> std::result::Result<Answer<'a>, Halt> {
    let Setting { config, assistant, engine } = setting;
    let model = model(site, (&config, &engine), &found.run)?;
    refuse_held(site, &engine.name, &found.run.person_id)?;
    let tools = tools::described(&assistant).map_err(Halt::Error)?;
    let place = (config.folder.as_path(), external::environment());
    let pieces = Pieces::of(&config, (place.0, &place.1), Vec::new());
    let images = images(&config, &assistant, &found).await;
    let mut words = run::words(site, found.person, !tools.is_empty()).await;
    words.system += run::dry_words(&found.run);
    if let Some(unread) = words.unread.take() {
        let line = Arc::clone(&line);
        on_disk(move || line.push(run::unread_item(unread))).await.map_err(Halt::Error)?;
    }
    let mut limits = assistant.limits;
    limits.steps = found.run.policy.max_steps.map_or(limits.steps, |it| it.min(limits.steps));
    let branch = Branch {
        before: &found.before,
        question: &found.question,
        images: &images,
        calls: &found.calls,
        memory: words.memory.as_deref(),
    };
    let turns =
        context_window::turns(&branch, (model.provider(), &model.name(), !tools.is_empty()));
    let ask = Ask { system: words.system, turns, tools };
    let fixed = ask.system.len() + ask.tools.iter().map(|it| it.to_string().len()).sum::<usize>();
    let (max_output, context) = model.room();
    let room = (context - max_output) as usize * TOKEN_BYTES;
    Ok(Answer::new(
        (site, task),
        (found.run, line),
        (model, pieces, limits),
        (ask, room.saturating_sub(fixed)),
    ))
}

/// Reads the images of the last questions. A missing one is mentioned by name only.
async fn images(
    config: &Arc<Config>,
    assistant: &Assistant,
    found: &Found,
) -> BTreeMap<String, Block> {
    let Some(person) = found.person.clone() else { return BTreeMap::new() };
    let asked = found.before.iter().filter(|it| it.role == Role::User);
    let last = std::iter::once(&found.question).chain(asked.rev()).take(SHOWN_QUESTIONS);
    let files = last.flat_map(|it| it.attachments.iter().filter(|it| it.is_image()));
    let files: Vec<(String, String)> = files.map(|it| (it.path.clone(), it.kind.clone())).collect();
    if files.is_empty() {
        return BTreeMap::new();
    }
    let (config, assistant) = (Arc::clone(config), assistant.clone());
    let read = on_disk(move || {
        let vault = vault::open(&config, &assistant, &person)?;
        let mut images = BTreeMap::new();
        for (path, kind) in files {
            let bytes = vault.bytes(&path.parse()?, IMAGE_BYTES_MAX)?;
            // The person may have replaced the file.
            if let Some(bytes) = bytes.filter(|it| chat::kind_of(it).is_ok_and(|it| it == kind)) {
                images.insert(path, Block::Image { kind, bytes: bytes.into() });
            }
        }
        Ok(images)
    });
    read.await.unwrap_or_else(|cause| {
        tracing::warn!("no images are shown: {}", cause.chain());
        BTreeMap::new()
    })
}

fn setting(site: &Site, task: &Task, run: &Run) -> Result<Setting> {
    let config = site.config_of(&task.job.id);
    let gone = || Error::unavailable("the assistant no longer has this mode");
    let assistant = config.assistant.clone().ok_or_else(gone)?;
    let mode = Mode::parse(&run.mode).ok_or_else(gone)?;
    let engine = assistant.runtimes.get(&mode).and_then(|it| config.engines.get(it));
    Ok(Setting { engine: engine.cloned().ok_or_else(gone)?, config, assistant })
}

/// Returns a run's model.
fn model(
    site: &Site,
    (config, engine): (&Config, &Engine),
    run: &Run,
) -> std::result::Result<Model, Halt> {
    match &engine.body {
        EngineBody::Anthropic(model) => {
            let key = model.key.read(&config.folder, &external::environment());
            let key = key.map_err(|it| Halt::Fault(Fault::lasting("key_missing", it.message())))?;
            Ok(Model::Claude(Claude::new(site.outbound.clone(), model.clone(), key)))
        }
        EngineBody::Gateway(model) => {
            let of = (run.person_id.clone(), run.session_id.clone());
            Ok(Model::OfPerson(OfPerson::new(site.gateway.clone(), model.clone(), of)))
        }
        EngineBody::Process { .. } | EngineBody::Builtin(_) => {
            Err(Halt::Error(Error::internal("a program answers by itself")))
        }
    }
}

fn find(c: &rusqlite::Connection, id: &JobId) -> Result<Option<Found>> {
    let Some(run) = chat::by_job(c, id)? else { return Ok(None) };
    let question = chat::find_message(c, &run.session_id, &run.question_id)?;
    let before = match &question.parent_id {
        Some(parent) => {
            let (mut newest, has_more) = chat::branch(c, &run.session_id, parent, MESSAGES_MAX)?;
            if has_more {
                // A request begins with a question, and not within an answer.
                let first = newest.iter().position(|it| it.role == chat::Role::User);
                newest.drain(..first.unwrap_or(newest.len()));
            }
            newest
        }
        None => Vec::new(),
    };
    let mut calls = BTreeMap::new();
    for message in before.iter().filter(|it| it.native.is_some()) {
        if let Some(run) = message.run_id.as_ref().filter(|it| !calls.contains_key(*it)) {
            calls.insert(run.clone(), chat::calls_of_run(c, run)?);
        }
    }
    let person = people::find(c, &run.person_id)?;
    Ok(Some(Found { run, question, before, calls, person }))
}

/// Refuses an engine that is on hold.
fn refuse_held(site: &Site, engine: &str, person: &PersonId) -> std::result::Result<(), Halt> {
    let hold = site.store.look(|c| jobs::hold_for(c, engine, person)).map_err(Halt::Error)?;
    let now = site.store.clock().now();
    let Some(hold) = hold.filter(|it| it.until > now) else { return Ok(()) };
    let until = hold.until.minute();
    let message = format!("the provider's rate limit is reached until {until} UTC");
    Err(Halt::Fault(Fault::lasting("held", message)))
}
