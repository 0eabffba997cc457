//! The start of a run: what its program is told, and who writes down what it says.

use std::sync::Arc;

use camino::Utf8Path;

use crate::base::{ChatId, Error, Result};
use crate::chat::{self, Answer, ClaudeReader, Home, Item, Message, Run, Scribe};
use crate::flows::Works;
use crate::jobs::{Alone, Generation, Job, Listen, Listener, Pool, Prepared, job_dir};
use crate::people;
use crate::process::JobFolder;
use crate::script::{Config, EngineBody, Mode};

/// The file of a run's folder with what its program is told of itself.
const SYSTEM_FILE: &str = "system.md";
/// Most messages that are looked at for a transcript.
const MESSAGES_MAX: usize = 400;

/// Returns what a run's program is given.
///
/// # Errors
/// With code `kind_changed` if the script has no assistant any more; as reading and writing.
pub(in crate::flows) async fn prepare(works: &Works, job: &Job) -> Result<Prepared> {
    let gone = |what: &str| Error::unavailable(what.to_owned()).code("kind_changed");
    if works.config.assistant.is_none() {
        return Err(gone("the site has no assistant any more"));
    }
    let id = job.id.clone();
    let begun = works.store.write(move |tx| {
        let c = tx.connection();
        let Some(run) = chat::by_job(c, &id)? else { return Ok(None) };
        let question = chat::find_message(c, &run.session_id, &run.question_id)?;
        let (mut before, mut reference) = (Vec::new(), None);
        if let Some(parent) = &question.parent_id {
            before = chat::branch(c, &run.session_id, parent, MESSAGES_MAX)?.0;
            reference = chat::ref_of(c, (&run.session_id, &run.mode), parent)?;
        }
        // From here on its session may stand anywhere.
        chat::forget_ref(tx, &run.session_id, &run.mode)?;
        let person = people::find(c, &run.person_id)?;
        Ok(Some((run, question, before, reference, person)))
    });
    let Some((run, question, before, reference, person)) = begun.await? else {
        return Err(gone("its conversation was deleted"));
    };
    let home = Home::of(&works.config.site.data, &run.person_id);
    let reference = reference.filter(|it| home.has_claude_session(&run.session_id, it));
    let name = person.map_or_else(String::new, |it| it.display_name);
    let system = system_prompt(works, &name);
    let dir = job_dir(&works.config.site.data, &job.id);
    JobFolder::make(&dir)?.put(SYSTEM_FILE, system.as_bytes())?;
    let prompt = prompt(&before, &question, reference.is_some());
    let alone = alone(&home, &run.session_id, &dir, reference.as_deref())?;
    Ok(Prepared {
        inputs: job.inputs.clone(),
        prompt,
        grants: Vec::new(),
        env: Vec::new(),
        files: None,
        session: None,
        alone: Some(alone),
    })
}

fn prompt(before: &[Message], question: &Message, is_known: bool) -> String {
    let before = if is_known { &[] } else { before };
    chat::transcript(before, &question.body)
}

fn system_prompt(works: &Works, name: &str) -> String {
    let now = works.store.clock().now().rfc3339();
    let date = now.split('T').next().unwrap_or_default();
    format!(
        "You are the assistant of {name} on the site \"{}\". Answer in Markdown, in the language \
         of the question. Be brief and exact: say what you do not know. You have no tools: you \
         cannot read files, open pages or change anything. Today is {date} (UTC).\n",
        works.config.site.title()
    )
}

/// Returns how the program runs: in a folder of the conversation, with the person's own sign-in.
fn alone(home: &Home, session: &ChatId, dir: &Utf8Path, reference: Option<&str>) -> Result<Alone> {
    let token = home.claude_token()?;
    let secrets = token.map(|it| ("CLAUDE_CODE_OAUTH_TOKEN".to_owned(), it));
    let config = home.claude_config()?;
    Ok(Alone {
        arguments: chat::claude_arguments(dir.join(SYSTEM_FILE).as_str(), reference),
        cwd: home.claude_cwd(session)?,
        inherits: chat::is_inherited,
        env: vec![("CLAUDE_CONFIG_DIR".to_owned(), config.into_string())],
        secrets: secrets.into_iter().collect(),
    })
}

/// Returns who hears the programs of runs.
pub(in crate::flows) fn listen(works: &Works) -> Listen {
    let works = works.clone();
    Arc::new(move |generation: &Generation, job: &Job| {
        if job.pool != Pool::Chat {
            return Ok(None);
        }
        let Some(run) = works.store.look(|c| chat::by_job(c, &job.id))? else { return Ok(None) };
        let config = &generation.config;
        let Some(assistant) = &config.assistant else {
            return Err(Error::unavailable("the site has no assistant any more"));
        };
        let answer = answer(config, &run);
        let scribe = Scribe::open(&answer, works.store.clock().clone(), works.chat.clone())?;
        let reader = ClaudeReader::new(scribe, assistant.limits.output_bytes);
        Ok(Some(Box::new(reader) as Box<dyn Listener>))
    })
}

/// Returns where the answer of a run is written, and how it begins.
pub(super) fn answer(config: &Config, run: &Run) -> Answer {
    let start = Item::Start {
        session_id: run.session_id.clone(),
        mode: run.mode.clone(),
        model: model(config, &run.mode),
    };
    let dir = job_dir(&config.site.data, &run.job_id);
    Answer { run: run.job_id.clone(), dir, start, at: run.created_at }
}

/// Returns the model that the engine of a mode names.
fn model(config: &Config, mode: &str) -> Option<String> {
    let assistant = config.assistant.as_ref()?;
    let engine = config.engines.get(assistant.runtimes.get(&Mode::parse(mode)?)?)?;
    let EngineBody::Process { command, .. } = &engine.body else { return None };
    let place = command.iter().position(|it| it == "--model")?;
    command.get(place + 1).cloned()
}
