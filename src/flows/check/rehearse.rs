//! Calls a script's functions with made-up values, for `check`: those of prompts, lanes and
//! webhooks are called once, so that failures show before a paid agent runs.
//!
//! **Invariant:** nothing that a function asks for is done.

use std::collections::BTreeMap;
use std::sync::Arc;

use camino::Utf8Path;
use serde_json::{Map, Value, json};

use crate::base::{Clock, Context, Error, ErrorKind, Result, number};
use crate::flows::requests::render::EXAMPLE_JOB;
use crate::flows::requests::{inputs, new_job, prepare};
use crate::script::{
    self, Config, Diagnostic, INBOX_NAMES, Input, InputType, Kind, Lane, Loaded, Location, Prompt,
};

/// A blob that exists in every repository: the empty one.
const EXAMPLE_BLOB: &str = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
/// Parts of messages of functions that fail because they read what only a real call would have.
const READS_NOTHING: [&str; 2] = ["nil value", "is not there"];

/// What a function calls to judge its values by itself.
const JUDGES: [&str; 2] = ["error(", "assert("];
/// What a function calls to read a text.
const READERS: [&str; 2] = ["wb.date.", "wb.json.decode"];
/// Texts that an input could hold: what can be read out of one is not in another.
const EXAMPLE_TEXTS: [&str; 4] = ["text", "2026-01-02T03:04:05Z", "1", "{}"];

/// Depth of a made-up payload.
const FITTING_DEPTH_MAX: usize = 4;

/// Calls the functions of prompts, lanes and webhooks, and returns failures as warnings. Errors
/// raised by the script itself (`error`, `assert`) reject the made-up values, and are no findings.
/// Blocks for a few seconds at most.
///
/// # Errors
/// `unavailable` if nothing can be called.
pub fn rehearse(loaded: &Loaded) -> Result<Vec<Diagnostic>> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = built.context(ErrorKind::Unavailable, || "no runtime".to_owned())?;
    Ok(runtime.block_on(call_all(loaded)))
}

async fn call_all(loaded: &Loaded) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for kind in loaded.config.kinds.values() {
        let prompt = match prompt(loaded, kind, Given::All).await {
            None => prompt(loaded, kind, Given::Least).await,
            some => some,
        };
        let lane = match lane(loaded, kind, Given::All).await {
            None => lane(loaded, kind, Given::Least).await,
            some => some,
        };
        found.extend([prompt, lane].into_iter().flatten());
    }
    found.extend(webhooks(loaded).await);
    found
}

/// Which inputs a made-up call has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given {
    /// All of them.
    All,
    /// Those that every real call has: what is required, and what has a default.
    Least,
}

async fn prompt(loaded: &Loaded, kind: &Kind, given: Given) -> Option<Diagnostic> {
    let mut first = None;
    for text in EXAMPLE_TEXTS {
        let (finding, is_final) = prompt_with(loaded, kind, &made_up(kind, given, text)).await?;
        let finding = first.get_or_insert(finding);
        if is_final {
            return Some(finding.clone());
        }
    }
    first
}

async fn lane(loaded: &Loaded, kind: &Kind, given: Given) -> Option<Diagnostic> {
    let Some(Lane::Function(slot)) = &kind.lane else { return None };
    let title = format!("the lane of {}", kind.title());
    let mut first = None;
    for text in EXAMPLE_TEXTS {
        let inputs = made_up(kind, given, text);
        let cause = new_job::lane(&loaded.vm, kind, &inputs).await.err()?;
        let finding = failed(&loaded.config, &slot.at, &title, &cause)?;
        let finding = first.get_or_insert(finding);
        if !is_of_text(&cause) {
            return Some(finding.clone());
        }
    }
    first
}

/// Returns whether a function may have failed because it read something out of a made-up text.
fn is_of_text(cause: &Error) -> bool {
    cause.message().contains("nil")
}

/// Calls the function of a prompt; returns the finding, and whether another text would change
/// nothing.
async fn prompt_with(
    loaded: &Loaded,
    kind: &Kind,
    inputs: &Map<String, Value>,
) -> Option<(Diagnostic, bool)> {
    let Prompt::Function(slot) = &kind.prompt else { return None };
    let config = &loaded.config;
    let mut texts = prepare::texts(config, Utf8Path::new("/wb-agent"), kind, EXAMPLE_JOB, inputs);
    if kind.inbox.is_some() || kind.agent.is_some() {
        let names = INBOX_NAMES.into_iter().chain(["agent"]);
        texts.extend(names.map(|name| (name.to_owned(), format!("({name})"))));
        let schema = kind.inbox.as_ref().and_then(|it| it.schema.as_ref());
        let payload = schema.map_or(json!({}), |it| fitting(it.as_json(), 0));
        texts.insert("payload".to_owned(), payload.to_string());
    }
    let title = format!("the prompt of {}", kind.title());
    // Without a schema, the content of a message is unknown.
    let is_open = kind.inbox.as_ref().is_some_and(|it| it.schema.is_none());
    match script::prompt(&loaded.vm, kind, &texts).await {
        Err(cause) if is_open && reads_nothing(&cause) => None,
        Err(cause) => Some((failed(config, &slot.at, &title, &cause)?, !is_of_text(&cause))),
        Ok(text) if says_nil(&text, &texts) => {
            let message = format!("{title} contains `nil` where a value should be");
            let note = "it uses a missing name, or the result of a function that returned nothing";
            let finding = Diagnostic::warning("prompt-nil", message).note(note);
            Some((placed(config, &slot.at, finding), false))
        }
        Ok(text) => {
            let name = texts.keys().find(|it| text.contains(&format!("{{{{{it}}}}}")))?;
            let message = format!("{title} returns {{{{{name}}}}}, which only a template fills");
            let note = format!("join the value: .. job.{name} ..");
            let finding = Diagnostic::warning("prompt-unfilled", message).note(note);
            Some((placed(config, &slot.at, finding), true))
        }
    }
}

/// Returns whether a prompt contains the word `nil`, which is in no value. A template in a long
/// text may be about Lua, and then it probably says more.
fn says_nil(text: &str, given: &BTreeMap<String, String>) -> bool {
    let is_word = |part: &str| part.trim_matches(|it: char| !it.is_alphanumeric()) == "nil";
    text.split_whitespace().any(is_word)
        && !text.contains('`')
        && !given.values().any(|value| value.contains("nil"))
}

/// Calls webhooks with an empty body. Failures because of missing fields do not count.
async fn webhooks(loaded: &Loaded) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for webhook in loaded.config.webhooks.values() {
        let now = Clock::system().now();
        let arg = json!({"name": webhook.name, "event": "push", "now": now, "body": {}});
        let slot = &webhook.enqueue;
        let told = loaded.vm.tell(&format!("webhook.{}", webhook.name), slot, arg).await;
        let cause = match told {
            Err(cause) if !reads_nothing(&cause) => cause,
            _ => continue,
        };
        let title = format!("webhook \"{}\"", webhook.name);
        found.extend(failed(&loaded.config, &slot.at, &title, &cause));
    }
    found
}

fn reads_nothing(cause: &Error) -> bool {
    READS_NOTHING.iter().any(|it| cause.message().contains(it))
}

/// Returns a value that matches a plain schema, with all of its properties.
fn fitting(schema: &Value, depth: usize) -> Value {
    let first = |list: &Value| list.as_array().and_then(|it| it.first()).cloned();
    let named = ["const", "default"].into_iter().find_map(|it| schema.get(it).cloned());
    let listed = ["enum", "examples"].into_iter().find_map(|it| first(schema.get(it)?));
    if let Some(value) = named.or(listed) {
        return value;
    }
    let word = |it: &Value| it.as_str().map(str::to_owned);
    let types = schema.get("type");
    let of_type = types.and_then(|it| word(it).or_else(|| word(&first(it)?)));
    let properties = schema.get("properties").and_then(Value::as_object);
    match of_type.as_deref() {
        Some("string") => json!("text"),
        Some("number" | "integer") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(true),
        Some("null") => Value::Null,
        Some("array") => json!(
            schema
                .get("items")
                .filter(|_| depth < FITTING_DEPTH_MAX)
                .map(|it| fitting(it, depth + 1))
                .into_iter()
                .collect::<Vec<_>>()
        ),
        _ => {
            let inner = properties.into_iter().flatten().filter(|_| depth < FITTING_DEPTH_MAX);
            inner.map(|(name, it)| (name.clone(), fitting(it, depth + 1))).collect()
        }
    }
}

/// Returns the finding of a failed call, at the line that failed if known.
fn failed(config: &Config, at: &Location, title: &str, cause: &Error) -> Option<Diagnostic> {
    let (place, says) = place_of(config, cause.message());
    let line = place.as_ref().and_then(|at| line_of(config, at));
    let is_judged = |line: &str| JUDGES.iter().any(|it| line.contains(it));
    // A made-up text is neither a time nor JSON.
    let is_read = |line: &str| READERS.iter().any(|it| line.contains(it)) && !is_of_text(cause);
    if line.is_some_and(|line| is_judged(line) || is_read(line)) {
        return None;
    }
    let message = format!("{title} fails with made-up values: {says}");
    let finding = Diagnostic::warning("function-failed", message);
    Some(placed(config, place.as_ref().unwrap_or(at), finding))
}

fn placed(config: &Config, at: &Location, finding: Diagnostic) -> Diagnostic {
    let line = line_of(config, at);
    let len = line.map_or(0, |it| it.trim().chars().count());
    let column = line.map_or(1, |it| it.chars().take_while(|it| it.is_whitespace()).count() + 1);
    let finding = finding.in_file(&at.file, at.line, line);
    finding.at_column(u32::try_from(column).unwrap_or(1), u32::try_from(len).unwrap_or(0))
}

fn line_of<'c>(config: &'c Config, at: &Location) -> Option<&'c str> {
    let file = config.files.iter().find(|it| it.path == *at.file)?;
    file.text.lines().nth(at.line.saturating_sub(1) as usize)
}

/// Splits `FILE:LINE: ` off a message, if the file belongs to the script.
fn place_of<'m>(config: &Config, message: &'m str) -> (Option<Location>, &'m str) {
    for file in &config.files {
        let rest = message.strip_prefix(file.path.as_str()).and_then(|it| it.strip_prefix(':'));
        let Some((line, says)) = rest.and_then(|it| it.split_once(": ")) else { continue };
        if let Ok(line) = line.parse() {
            let at = Location { file: Arc::from(file.path.as_path()), line, column: 1 };
            return (Some(at), says);
        }
    }
    (None, message)
}

/// Returns a value for each input that is given, with this text where any would do.
fn made_up(kind: &Kind, given: Given, text: &str) -> Map<String, Value> {
    let is_given = |it: &&Input| given == Given::All || it.required || it.default.is_some();
    let value = |input: &Input| match (given, &input.default) {
        (Given::Least, Some(text)) => inputs::value_of_text(input, text),
        _ => value(input, text),
    };
    let inputs = kind.inputs.iter().filter(is_given);
    inputs.map(|input| (input.name.clone(), value(input))).collect()
}

fn value(input: &Input, text: &str) -> Value {
    match input.ty {
        InputType::Topic => json!(EXAMPLE_JOB),
        InputType::Source => json!("guide.md"),
        InputType::Persona => json!("editor"),
        InputType::Blob | InputType::Hash => json!(EXAMPLE_BLOB),
        InputType::Line | InputType::Text => json!(input.default.as_deref().unwrap_or(text)),
        InputType::Number => number::as_whole(json!(input.min.or(input.max).unwrap_or(1.0))),
        InputType::Choice => json!(input.choices.first().map_or("", String::as_str)),
        InputType::Flag => json!(true),
    }
}
