//! An answer that is written inside of the server: what the queue runs for a model that the server
//! asks.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use crate::base::{Error, JobId, PersonId, Result};
use crate::chat::model::{Ask, Block, Claude, Fault, Model, OfPerson, Tokens};
use crate::chat::{self, IMAGE_BYTES_MAX, Item, Message, Role, Run, Scribe, ToolCall};
use crate::flows::Site;
use crate::flows::assistant::branch::{self, Branch};
use crate::flows::assistant::calls::on_disk;
use crate::flows::assistant::steps::{Answer, Halt};
use crate::flows::assistant::{run, tools, vault};
use crate::flows::check::external;
use crate::jobs::{self, Reason, RunTask, Status, Task, TaskEnd, TaskFailure};
use crate::people::{self, Person};
use crate::script::{Assistant, Config, Engine, EngineBody, Mode};

/// Most messages of a branch that are looked at.
const MESSAGES_MAX: usize = 400;
/// Questions whose images are shown again.
const SHOWN_QUESTIONS: usize = 3;
/// Bytes for each token of a request: fewer than a text has, so that it fits.
const TOKEN_BYTES: usize = 3;

/// Returns what does the jobs that need no process.
pub fn tasks(site: &Site) -> RunTask {
    let site = site.clone();
    Arc::new(move |task| {
        let site = site.now();
        Box::pin(async move { do_task(&site, task).await })
    })
}

/// What stands in the database of a run.
struct Found {
    run: Run,
    question: Message,
    before: Vec<Message>,
    calls: BTreeMap<JobId, Vec<ToolCall>>,
    person: Option<Person>,
}

/// What the script says of a run.
struct Setting {
    config: Arc<Config>,
    assistant: Assistant,
    engine: Engine,
}

async fn do_task(site: &Site, task: Task) -> TaskEnd {
    let mut tokens = Tokens::default();
    let (ended, summary, price) = match begin(site, &task).await {
        Err(halt) => (Err(halt), None, None),
        Ok(mut answer) => {
            let ended = answer.write().await;
            tokens = answer.tokens;
            (ended, answer.last_words(), answer.model_of().price().copied())
        }
    };
    let failure = match ended {
        Ok(()) | Err(Halt::Stopped) => None,
        Err(Halt::Fault(fault)) => Some(told(site, &task, fault).await),
        Err(Halt::Error(cause)) => {
            tracing::error!(job_id = %task.job.id, "an answer failed: {}", cause.chain());
            let fault = Fault::lasting("internal", "a fault of this program");
            Some(told(site, &task, fault).await)
        }
    };
    let usage = (tokens != Tokens::default()).then(|| {
        json!({
            "input_tokens": tokens.input, "output_tokens": tokens.output,
            "cache_read_input_tokens": tokens.cache_read,
            "cache_creation_input_tokens": tokens.cache_write,
        })
    });
    let cost_usd = usage.as_ref().and(price.as_ref()).map(|it| tokens.cost(it));
    TaskEnd { failure, summary, usage, cost_usd }
}

/// Writes down why an answer ends, and says it of the job.
async fn told(site: &Site, task: &Task, fault: Fault) -> TaskFailure {
    let now = site.store.clock().now();
    let wait_ms = |it: std::time::Duration| i64::try_from(it.as_millis()).unwrap_or(i64::MAX);
    let limit = (fault.code == "rate_limited").then(|| fault.wait.map(|it| now.plus(wait_ms(it))));
    let item = Item::Status { code: fault.code.to_owned(), message: fault.message.clone() };
    if let Err(cause) = tell(site, task, item).await {
        tracing::error!(job_id = %task.job.id, "an answer has no ending: {}", cause.chain());
    }
    let (status, reason) = match fault.code {
        "stalled" => (Status::TimedOut, Reason::IdleTimeout),
        "internal" => (Status::Failed, Reason::Internal),
        _ => (Status::Failed, Reason::ExitStatus),
    };
    TaskFailure { status, reason, text: fault.message, limit }
}

async fn tell(site: &Site, task: &Task, item: Item) -> Result<()> {
    let run = site.store.look(|c| chat::by_job(c, &task.job.id))?;
    let Some(run) = run else { return Ok(()) };
    let answer = run::answer(&site.config_of(&task.job.id), &run);
    let (clock, hub) = (site.store.clock().clone(), site.chat.clone());
    on_disk(move || Scribe::open(&answer, clock, hub)?.push(item)).await
}

/// Puts together what a run needs.
async fn begin<'a>(site: &'a Site, task: &'a Task) -> std::result::Result<Answer<'a>, Halt> {
    let id = task.job.id.clone();
    let found = site.store.read(move |c| find(c, &id)).await.map_err(Halt::Error)?;
    let Some(found) = found else { return Err(Halt::Stopped) };
    let Setting { config, assistant, engine } =
        setting(site, task, &found.run).map_err(Halt::Error)?;
    let start = run::answer(&config, &found.run);
    let (clock, hub) = (site.store.clock().clone(), site.chat.clone());
    let scribe = on_disk(move || Scribe::open(&start, clock, hub)).await.map_err(Halt::Error)?;
    let line = site.chat.write(&found.run.job_id, scribe);
    let model = model(site, (&config, &engine), &found.run)?;
    refuse_held(site, &engine.name, &found.run.person_id)?;
    let tools = tools::described(&assistant).map_err(Halt::Error)?;
    let images = images(&config, &assistant, &found).await;
    let mut words = run::words(site, found.person, !tools.is_empty()).await;
    words.system += run::dry_words(&found.run);
    let mut limits = assistant.limits;
    limits.steps = found.run.policy.max_steps.map_or(limits.steps, |it| it.min(limits.steps));
    let branch = Branch {
        before: &found.before,
        question: &found.question,
        images: &images,
        calls: &found.calls,
        memory: words.memory.as_deref(),
    };
    let turns = branch::turns(&branch, (model.provider(), &model.name(), !tools.is_empty()));
    let ask = Ask { system: words.system, turns, tools };
    let fixed = ask.system.len() + ask.tools.iter().map(|it| it.to_string().len()).sum::<usize>();
    let (max_output, context) = model.room();
    let room = (context - max_output) as usize * TOKEN_BYTES;
    Ok(Answer::new(
        (site, task),
        (found.run, line),
        (model, limits),
        (ask, room.saturating_sub(fixed)),
    ))
}

/// Reads the images of the last questions. One that is gone is named, and not shown.
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
            // A person may have put something else there.
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
    let gone = || Error::unavailable("the site has no assistant with this mode any more");
    let assistant = config.assistant.clone().ok_or_else(gone)?;
    let mode = Mode::parse(&run.mode).ok_or_else(gone)?;
    let engine = assistant.runtimes.get(&mode).and_then(|it| config.engines.get(it));
    Ok(Setting { engine: engine.cloned().ok_or_else(gone)?, config, assistant })
}

/// Returns the model that a run asks.
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
        Some(parent) => chat::branch(c, &run.session_id, parent, MESSAGES_MAX)?.0,
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

/// Refuses to ask a provider that takes no more at present.
fn refuse_held(site: &Site, engine: &str, person: &PersonId) -> std::result::Result<(), Halt> {
    let hold = site.store.look(|c| jobs::hold_for(c, engine, person)).map_err(Halt::Error)?;
    let now = site.store.clock().now();
    let Some(hold) = hold.filter(|it| it.until > now) else { return Ok(()) };
    let until = hold.until.minute();
    let message = format!("the provider takes no more until {until} UTC");
    Err(Halt::Fault(Fault::lasting("held", message)))
}
