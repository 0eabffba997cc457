//! Tests of the operator's script: each on a site of its own, with a fake agent and a fake clock.
//!
//! A site of a test is a real one: the same database with its migrations, queue, effects, checks
//! and settlement, in a temporary folder that goes with it. Three things are played: the agent's
//! process (`jobs::Rehearsal`, also that of a long-running agent), the repository (texts in memory)
//! and the clock.
//!
//! **Invariant:** no process is started, no connection is made, and nothing of the operator's site
//! is opened but the script, what it reads, and its personas.

mod decide;
mod happen;
mod message;
mod outside;
mod people;
mod room;
mod runner;
mod site;
mod submit;
mod suite;
mod wait;

use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use crate::base::{Error, Millis, Result, SourcePath};
use crate::flows::lab::site::{Ground, Wanted};
use crate::flows::perspectives::personas;
use crate::flows::requests::{inputs, prepare, render};
use crate::flows::topics;
use crate::jobs::PROMPT_FAILED;
use crate::people::Caller;
use crate::script::lab::{Stage, Step, Verb};
use crate::script::{InputType, Kind, SCRIPT_FAILED, Said, suggestion};

pub use crate::process::Scratch;
pub use suite::{Progress, Suite, Summary, TestRun, find, foreign, tests_folder};

/// The site of one test; opened when the test first needs it.
pub(in crate::flows) struct Stand {
    runtime: Runtime,
    wanted: Option<Wanted>,
    ground: Option<Ground>,
}

impl Stand {
    /// Returns a site that is not open yet.
    ///
    /// # Errors
    /// `unavailable` without a runtime.
    pub(in crate::flows) fn new(wanted: Wanted) -> Result<Stand> {
        let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = built.map_err(|cause| Error::unavailable("no runtime").source(cause))?;
        Ok(Stand { runtime, wanted: Some(wanted), ground: None })
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        if let Some(ground) = self.ground.take() {
            self.runtime.block_on(ground.close());
        }
    }
}

impl Stage for Stand {
    fn act(&mut self, verb: Verb, args: &[Value]) -> Result<Step> {
        if let Some(mut wanted) = self.wanted.take() {
            if verb == Verb::Site {
                wanted.read(args.first().unwrap_or(&Value::Null))?;
            }
            self.ground = Some(self.runtime.block_on(Ground::open(wanted))?);
            if verb == Verb::Site {
                return Ok(Step::Done(Value::Null));
            }
        }
        let Some(ground) = &mut self.ground else { return Err(no_site()) };
        let acted = self.runtime.block_on(act(ground, verb, args));
        acted.map_err(|cause| with_line(ground, cause))
    }

    fn played(&mut self, does: &Value) -> Result<Step> {
        let Some(ground) = &mut self.ground else { return Err(no_site()) };
        let played = self.runtime.block_on(runner::go_on(ground, does));
        played.map_err(|cause| with_line(ground, cause))
    }

    fn forsake(&mut self) {
        if let Some(ground) = &mut self.ground {
            ground.plays.pop();
        }
    }

    fn now(&self) -> Millis {
        self.ground.as_ref().map_or(crate::script::lab::START, |it| it.clock.now())
    }
}

fn no_site() -> Error {
    Error::conflict("no_site", "the site of this test could not be opened")
}

/// Adds the line of the script where a function failed.
fn with_line(ground: &Ground, cause: Error) -> Error {
    if !matches!(cause.code_str(), PROMPT_FAILED | SCRIPT_FAILED) {
        return cause;
    }
    let message = cause.message().to_owned();
    let line = ground.site.config.files.iter().find_map(|file| {
        let rest = message.strip_prefix(file.path.as_str())?.strip_prefix(':')?;
        let number: usize = rest.split(':').next()?.parse().ok()?;
        let text = file.text.lines().nth(number.checked_sub(1)?)?;
        Some(format!("line {number} of {} is: {}", file.path, text.trim()))
    });
    match line {
        Some(line) => cause.hint(line),
        None => cause,
    }
}

async fn act(ground: &mut Ground, verb: Verb, args: &[Value]) -> Result<Step> {
    let nothing = Value::Null;
    let arg = |place: usize| args.get(place).unwrap_or(&nothing);
    let text = |place: usize| arg(place).as_str().unwrap_or_default();
    let done = match verb {
        Verb::Run => return runner::run(ground, (text(0), arg(1), arg(3))).await,
        Verb::Next => return runner::next(ground).await,
        Verb::Rework => return decide::rework(ground, (arg(0), text(1))).await,
        Verb::Answer => return room::answer(ground, (arg(0), text(1))).await,
        Verb::Channel => room::open(ground, text(0), arg(1)).await,
        Verb::Say => room::say(ground, (arg(0), text(1)), arg(2)).await,
        Verb::Said => room::said(ground, arg(0)).await,
        Verb::Site => Err(Error::conflict("site_is_open", "t.site must come first")
            .hint("write it first in its test: the script is loaded by what it says")),
        Verb::Source => {
            let path: SourcePath = text(0).parse()?;
            ground.site.repo.put_text(&path, text(1))?;
            Ok(Value::Null)
        }
        Verb::Persona => {
            let (name, text) = (text(0), text(1));
            ground.site.repo.put_beside(&personas::path_of(name), text);
            personas::find(&ground.site.repo, &ground.site.config.folder, name).await?;
            Ok(Value::Null)
        }
        Verb::Topic => ground.silent(new_topic(ground, &ground.caller, arg(0))).await,
        Verb::Message => ground.silent(happen::post_message(ground, arg(0), text(1))).await,
        Verb::Render => rendered(ground, text(0), arg(1)).await.map(Value::String),
        Verb::Enqueue => runner::enqueue(ground, (text(0), arg(1), arg(2))).await,
        Verb::Jobs => ground.waiting().await,
        Verb::Fire => happen::fire(ground, text(0), arg(1)).await,
        Verb::Webhook => happen::webhook(ground, text(0), (arg(2).as_str(), arg(1).clone())).await,
        Verb::Advance => happen::advance(ground, text(0)).await,
        Verb::Proposals => decide::list(ground).await,
        Verb::Approve => decide::approve(ground, arg(0), arg(1)).await,
        Verb::Reject => decide::reject(ground, arg(0), text(1)).await,
        Verb::Commit => outside::commit(ground, arg(0), arg(1).as_str()).await,
        Verb::Edit => outside::edit(ground, text(0), text(1)).await,
        Verb::Reload => outside::reload(ground, arg(0)).await,
    };
    done.map(Step::Done)
}

/// Makes the prompt of a job without starting it.
async fn rendered(ground: &Ground, kind: &str, given: &Value) -> Result<String> {
    let kind = known_kind(ground, kind)?;
    if let Some(inbox) = &kind.inbox {
        return message::rendered(ground, (kind, inbox), given).await;
    }
    let sent = sent(ground, kind, given)?;
    let site = &ground.site;
    let checked = inputs::check(site, kind, &sent).await?;
    let mut values = checked.values;
    prepare::compute(site, kind, &mut values).await?;
    prepare::prompt(site, kind, render::EXAMPLE_JOB, &values, Default::default()).await
}

/// Returns a kind, or a suggestion for its name.
fn known_kind<'g>(ground: &'g Ground, name: &str) -> Result<&'g Kind> {
    inputs::kind(&ground.site, name).map_err(|cause| {
        let names = ground.site.config.kinds.keys().map(String::as_str);
        let meant = suggestion(name, names);
        if meant.starts_with("did you mean") { cause.hint(meant) } else { cause }
    })
}

/// Returns inputs as in a request: a Topic by its id, and a possibly new page as one that does not
/// exist.
fn sent(ground: &Ground, kind: &Kind, given: &Value) -> Result<Map<String, Value>> {
    let mut sent = match given {
        Value::Null => Map::new(),
        Value::Object(fields) => fields.clone(),
        _ => {
            return Err(Error::invalid("the inputs are a list")
                .hint("pass a table of inputs: { input = value }"));
        }
    };
    let names: Vec<&str> =
        kind.inputs.iter().filter(|it| !it.ty.is_computed()).map(|it| it.name.as_str()).collect();
    for name in sent.keys() {
        if kind.input(name).is_none() && name != "topic_ids" {
            let message = format!("kind \"{}\" has no input `{name}`", kind.name);
            return Err(Error::invalid(message)
                .code("unknown_input")
                .hint(suggestion(name, names.iter().copied())));
        }
    }
    for (name, value) in &mut sent {
        let input = kind.input(name);
        match value {
            Value::Object(topic) if topic.contains_key("id") => *value = topic["id"].clone(),
            Value::Array(list) => {
                for one in list.iter_mut().filter(|it| !it["id"].is_null()) {
                    *one = one["id"].take();
                }
            }
            Value::String(text) if input.is_some_and(|it| it.ty == InputType::Topic) => {
                text.parse::<crate::base::TopicId>().map_err(|cause| {
                    cause.hint(format!(
                        "open one: {name} = t.topic {{ source_path = \"guide.md\" }}"
                    ))
                })?;
            }
            Value::String(path) if input.is_some_and(|it| it.new) => {
                if let Ok(path) = path.parse() {
                    ground.site.repo.leave_out(&path);
                }
            }
            _ => {}
        }
    }
    Ok(sent)
}

/// Returns a Topic as a test sees it.
fn topic_json(topic: &crate::documents::Topic, body: &str) -> Value {
    json!({
        "id": topic.id, "source_path": topic.source_path, "title": topic.title, "body": body,
    })
}

/// Opens a Topic from the fields of `t.topic`.
async fn new_topic(ground: &Ground, caller: &Caller, fields: &Value) -> Result<Value> {
    let path = fields["source_path"].as_str().unwrap_or_default();
    let body = fields["body"].as_str().unwrap_or("Please look at this.");
    let path: SourcePath = path.parse()?;
    let selection = match fields["quote"].as_str() {
        None => None,
        Some(quote) => Some(ground.selection(&path, quote).await?),
    };
    let request = topics::TopicRequest {
        source_path: path,
        body: body.to_owned(),
        suggestion: None,
        propose: false,
        global: selection.is_none(),
        selection,
        title: fields["title"].as_str().map(str::to_owned),
    };
    let made = topics::create(&ground.site, caller, request, None).await?;
    Ok(topic_json(&made, body))
}

/// Creates the site of a test.
pub(in crate::flows) fn stage(wanted: Wanted) -> crate::script::lab::Make {
    Box::new(move |said: Said| {
        let mut wanted = wanted;
        wanted.said = said;
        let stand = Stand::new(wanted)?;
        Ok(Box::new(stand) as Box<dyn Stage>)
    })
}
