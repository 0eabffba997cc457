//! The exact prompt of a job, with nothing started and no database opened.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Map, Value};

use crate::base::{Error, Result};
use crate::documents::Repo;
use crate::flows::{inputs, prepare};
use crate::process::Children;
use crate::script::{self, InputType, Kind, Loaded};

/// A job id that no job has: the prompt shows where it stands.
const EXAMPLE_JOB: &str = "00000000-0000-7000-8000-000000000000";

/// Makes the prompt of a kind from `key=value` pairs.
///
/// What follows from a Topic needs the database, which only a server opens: `source_of_topic` asks
/// one if it runs; otherwise the operator gives the Source as well.
///
/// # Errors
/// What is wrong with an input; `invalid` with code `missing_input`.
pub async fn render(
    loaded: &Loaded,
    wb_agent: &Utf8Path,
    git: Utf8PathBuf,
    kind_name: &str,
    given: &BTreeMap<String, String>,
    source_of_topic: Option<String>,
) -> Result<String> {
    let config = &loaded.config;
    let kind = config.kinds.get(kind_name).ok_or_else(|| {
        let known: Vec<&str> = config.kinds.keys().map(String::as_str).collect();
        Error::invalid(format!("there is no kind \"{kind_name}\""))
            .code("unknown_kind")
            .hint(format!("the script declares: {}", known.join(", ")))
    })?;
    inputs::refuse_unknown_names(kind, given.keys())?;
    let children = Children::new();
    let repo = Repo::open(&config.site.root, git, &config.site.sources, children).await?;
    let mut values = Map::new();
    for input in &kind.inputs {
        let text = match (input.ty, &input.from) {
            (InputType::Blob, Some(from)) => {
                let path = values.get(from).and_then(Value::as_str).unwrap_or_default().to_owned();
                repo.source(&path.parse()?).await?.blob.to_string()
            }
            (InputType::Hash, Some(from)) => {
                let name = values.get(from).and_then(Value::as_str).unwrap_or_default().to_owned();
                inputs::persona_version(&repo, &config.folder, &name).await?.to_string()
            }
            (InputType::Source, Some(_)) => {
                let own = given.get(&input.name).cloned().or_else(|| source_of_topic.clone());
                own.ok_or_else(|| missing(kind, &input.name))?
            }
            _ => match given.get(&input.name).or(input.default.as_ref()) {
                Some(text) => text.clone(),
                None if input.required => return Err(missing(kind, &input.name)),
                None => continue,
            },
        };
        if input.ty == InputType::Source {
            repo.source(&text.parse()?).await?;
        }
        values.insert(input.name.clone(), Value::String(text));
    }
    let texts = prepare::texts(config, wb_agent, kind, EXAMPLE_JOB, &values);
    script::prompt(&loaded.vm, kind, &texts).await
}

fn missing(kind: &Kind, name: &str) -> Error {
    Error::invalid(format!("kind \"{}\" needs {name}=…", kind.name))
        .code("missing_input")
        .hint("what follows from a topic can be looked up only while the server runs")
}
