//! Renders the exact prompt of a job, without starting anything or opening the database.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Map, Value};

use crate::base::{BlobId, Error, Result, TopicId};
use crate::documents::Repo;
use crate::flows::perspectives::personas;
use crate::flows::requests::inputs::MISSING_INPUT;
use crate::flows::requests::{inputs, prepare};
use crate::process::Children;
use crate::script::{self, Input, InputType, Kind, Loaded};

/// A job id that does not exist; shows where the prompt has the id.
pub(in crate::flows) const EXAMPLE_JOB: &str = "00000000-0000-7000-8000-000000000000";

/// Makes the prompt of a kind from `key=value` pairs.
///
/// What follows from a Topic needs the database, which only a server opens: `known` is what a
/// running one says; otherwise the operator gives the Source as well.
///
/// # Errors
/// What is wrong with an input; `invalid` with code `missing_input`.
pub async fn render(
    loaded: &Loaded,
    wb_agent: &Utf8Path,
    git: Utf8PathBuf,
    kind_name: &str,
    given: &BTreeMap<String, String>,
    known: Option<&str>,
) -> Result<String> {
    let config = &loaded.config;
    let kind = config.kinds.get(kind_name).ok_or_else(|| {
        let known: Vec<&str> = config.kinds.keys().map(String::as_str).collect();
        Error::invalid(format!("no kind \"{kind_name}\""))
            .code("unknown_kind")
            .hint(format!("the script declares: {}", known.join(", ")))
    })?;
    if kind.takes_messages() {
        return Err(takes_messages(kind));
    }
    inputs::refuse_unknown_names(kind, given.keys())?;
    let children = Children::new();
    let repo = Repo::open(&config.site.root, git, &config.site.sources, children).await?;
    let (mut named, mut sources) = (Vec::new(), Vec::new());
    let mut values = Map::new();
    for input in &kind.inputs {
        let own = given.get(&input.name);
        let from = input.from.as_ref().and_then(|it| values.get(it)).and_then(Value::as_str);
        let value = match input.ty {
            InputType::Blob | InputType::Hash if own.is_some() => {
                return Err(inputs::computed(input));
            }
            InputType::Blob => {
                let source = input.from.as_ref().and_then(|it| kind.input(it)).unwrap_or(input);
                let path = from.unwrap_or_default().parse()?;
                version(inputs::source_version(&repo, source, &path).await?)
            }
            InputType::Hash => {
                let name = from.unwrap_or_default();
                version(personas::find(&repo, &config.folder, name).await?.sha)
            }
            InputType::Source if input.from.is_some() => source(kind, input, own, known)?,
            _ => match own.or(input.default.as_ref()) {
                Some(text) => inputs::value_of_text(input, text),
                None if input.required => return Err(missing(kind, &input.name)),
                None => continue,
            },
        };
        inputs::check_plain(input, &value)?;
        let text = value.as_str().unwrap_or_default();
        match input.ty {
            InputType::Topic => drop(text.parse::<TopicId>()?),
            InputType::Source => {
                let path = text.parse()?;
                inputs::source_version(&repo, input, &path).await?;
                sources.push(path);
            }
            InputType::Persona => {
                let found = personas::find(&repo, &config.folder, text).await?;
                named.push(found.persona);
            }
            _ => {}
        }
        values.insert(input.name.clone(), value);
    }
    personas::require_all_for(&named, &sources)?;
    let texts = prepare::texts(config, wb_agent, kind, EXAMPLE_JOB, &values);
    script::prompt(&loaded.vm, kind, &texts).await
}

fn takes_messages(kind: &Kind) -> Error {
    let message = format!("the prompt of {} is not made of a request", kind.title());
    let hint = match &kind.agent {
        Some(agent) => {
            format!("`wiki-browser job prompt` shows that of a start of agent:{}", agent.name)
        }
        None => format!("t.render(\"{}\", {{ payload = … }}) in a test shows it", kind.name),
    };
    Error::invalid(message).code("takes_messages").hint(hint)
}

fn version(id: BlobId) -> Value {
    Value::String(id.to_string())
}

/// Returns the Source of a Topic: from the server, otherwise from the given values.
fn source(kind: &Kind, input: &Input, own: Option<&String>, known: Option<&str>) -> Result<Value> {
    match (own, known) {
        (Some(own), Some(known)) if own != known => {
            Err(inputs::mismatch(input, &Value::String(known.to_owned())))
        }
        (_, Some(path)) => Ok(Value::String(path.to_owned())),
        (Some(path), None) => Ok(Value::String(path.clone())),
        (None, None) => Err(missing(kind, &input.name)
            .hint("it follows from the topic, which only a running server can look up")),
    }
}

fn missing(kind: &Kind, name: &str) -> Error {
    let message = format!("kind \"{}\" needs {name}=…", kind.name);
    Error::invalid(message).code(MISSING_INPUT).hint("add it after the kind: NAME=VALUE")
}
