//! From the fields of a request to the checked inputs of a job.

use serde_json::{Map, Value};

use crate::api::topics::TopicStatus;
use crate::base::{BlobId, Error, ErrorKind, Result, SourcePath, TopicId, number};
use crate::documents::{self, Repo};
use crate::flows::Works;
use crate::flows::perspectives::personas;
use crate::flows::repository::renames;
use crate::flows::requests::multi_topic;
use crate::jobs::{Grant, Job, Verb};
use crate::people::Persona;
use crate::script::{Input, InputType, KIND_PREFIX, Kind, Produces, nearest};

/// The code of an input with an invalid value.
pub const BAD_INPUT: &str = "bad_input";
/// The code of a required input that was not given.
pub const MISSING_INPUT: &str = "missing_input";

/// The checked inputs of a job, without those computed at its start.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// All values by name.
    pub values: Map<String, Value>,
    /// The Source among them that the job works on.
    pub source_path: Option<SourcePath>,
    /// The Topic among them.
    pub topic_id: Option<TopicId>,
    /// The persona among them.
    pub persona_name: Option<String>,
    /// All personas and all Sources among them.
    cast: (Vec<Persona>, Vec<SourcePath>),
}

/// Refuses bulk operations for a private job.
///
/// # Errors
/// `not_found` with code `no_kind`.
pub(in crate::flows) fn refuse_private(job: &Job) -> Result<()> {
    if job.owner.is_some() { Err(no_kind(&job.kind)) } else { Ok(()) }
}

/// Refuses the kinds of assistants, whose jobs are only started by messages of conversations.
///
/// # Errors
/// `not_found` with code `no_kind`.
pub(in crate::flows) fn refuse_private_kind(name: &str) -> Result<()> {
    if name.starts_with(KIND_PREFIX) { Err(no_kind(name)) } else { Ok(()) }
}

fn no_kind(name: &str) -> Error {
    let shown = crate::base::truncate_chars(name, 80);
    Error::not_found(format!("no kind \"{}\" for requests", shown.escape_debug()))
        .code("no_kind")
        .hint("ask the assistant in a conversation")
}

/// Returns a kind of the active script.
///
/// # Errors
/// `invalid` with code `unknown_kind` and the list of kinds; `not_found` with code `no_kind` for
/// one of an assistant.
pub fn kind<'a>(works: &'a Works, name: &str) -> Result<&'a Kind> {
    refuse_private_kind(name)?;
    works.config.kind(name).ok_or_else(|| {
        let known: Vec<&str> = works.config.kinds.keys().map(String::as_str).collect();
        let shown = crate::base::truncate_chars(name, 80);
        let meant = nearest(name, known.iter().copied());
        let meant = meant.map(|it| format!("did you mean \"{it}\"? ")).unwrap_or_default();
        Error::invalid(format!("no kind \"{shown}\""))
            .code("unknown_kind")
            .hint(format!("{meant}the script declares: {}", known.join(", ")))
    })
}

/// Returns a kind for a requested job.
///
/// # Errors
/// As [`kind`]; `invalid` with code `takes_messages` for an inbox and for an agent that
/// lives on: only messages start their jobs.
pub fn asked_kind<'a>(works: &'a Works, name: &str) -> Result<&'a Kind> {
    let kind = kind(works, name)?;
    if kind.takes_messages() { Err(takes_messages(kind)) } else { Ok(kind) }
}

fn takes_messages(kind: &Kind) -> Error {
    let message = format!("{} can't be started as a job; send it a message", kind.title());
    Error::invalid(message).code("takes_messages").hint(kind.instead_of_a_request())
}

/// Returns the kind of a retried job. A job for a message may be retried; a long-running agent
/// starts according to its own state.
///
/// # Errors
/// As [`kind`]; `invalid` with code `takes_messages` for an agent that lives on.
pub fn repeated_kind<'a>(works: &'a Works, name: &str) -> Result<&'a Kind> {
    let kind = kind(works, name)?;
    let Some(agent) = &kind.agent else { return Ok(kind) };
    let start = format!("wiki-browser agent start {}", agent.name);
    Err(takes_messages(kind).hint(format!("start it with `{start}`, or send to it")))
}

/// Checks the inputs of a request against the declaration of the kind.
///
/// # Errors
/// `invalid` naming the input: `unknown_input`, `missing_input`, `computed_input`,
/// `input_mismatch`, `bad_input`; `not_found` for a Topic, Source or persona that is not there;
/// `conflict` with code `topic_closed`; `invalid` with code `not_for_source` for a persona that is
/// not for the Source.
pub async fn check(works: &Works, kind: &Kind, sent: &Map<String, Value>) -> Result<Checked> {
    let (sent, topics) = multi_topic::take(kind, sent)?;
    // A client may send every field it knows: null counts as absent.
    let given = sent.iter().filter(|(_, value)| !value.is_null());
    refuse_unknown_names(kind, given.map(|(name, _)| name))?;
    multi_topic::check(works, &topics).await?;
    let mut checked = Checked::default();
    for input in &kind.inputs {
        let given = sent.get(&input.name).filter(|value| !value.is_null());
        let value = one(works, kind, input, given, &mut checked).await;
        let value = value.map_err(|it| it.of_input(&input.name))?;
        if let Some(value) = value {
            checked.values.insert(input.name.clone(), value);
        }
    }
    let source = kind.source_input(|it| checked.values.contains_key(&it.name));
    let path = source.and_then(|it| checked.values[&it.name].as_str());
    checked.source_path = path.map(str::parse).transpose()?;
    personas::require_all_for(&checked.cast.0, &checked.cast.1)?;
    multi_topic::keep(&mut checked.values, &topics);
    Ok(checked)
}

/// Refuses the inputs of a waiting job that its kind would no longer accept, without using the
/// database or the repository.
///
/// # Errors
/// As [`check`].
pub fn check_again(kind: &Kind, given: &Map<String, Value>) -> Result<()> {
    // Inputs computed for an earlier start are computed again.
    let is_sent = |name: &str| kind.input(name).is_none_or(|it| !it.ty.is_computed());
    let sent = given.iter().filter(|(name, _)| is_sent(name));
    let sent = sent.map(|(name, value)| (name.clone(), value.clone())).collect();
    let (sent, _) = multi_topic::take(kind, &sent)?;
    refuse_unknown_names(kind, sent.keys())?;
    for input in kind.inputs.iter().filter(|it| !it.ty.is_computed()) {
        match sent.get(&input.name).filter(|value| !value.is_null()) {
            Some(value) => check_plain(input, value)?,
            None if input.required && input.default.is_none() && input.from.is_none() => {
                return Err(missing(kind, input));
            }
            None => {}
        }
    }
    Ok(())
}

/// Refuses unknown names of inputs.
///
/// # Errors
/// `invalid` with code `unknown_input` and the list of inputs.
pub fn refuse_unknown_names<'a>(
    kind: &Kind,
    mut names: impl Iterator<Item = &'a String>,
) -> Result<()> {
    let Some(name) = names.find(|name| kind.input(name).is_none()) else { return Ok(()) };
    let known: Vec<&str> =
        kind.inputs.iter().filter(|it| !it.ty.is_computed()).map(|it| it.name.as_str()).collect();
    let shown = crate::base::truncate_chars(name, 80);
    let hint = match known.is_empty() {
        true => "it has no inputs".to_owned(),
        false => {
            let meant = nearest(name, known.iter().copied());
            let meant = meant.map(|it| format!("did you mean `{it}`? ")).unwrap_or_default();
            format!("{meant}it takes: {}", known.join(", "))
        }
    };
    Err(Error::invalid(format!("kind \"{}\" has no input `{shown}`", kind.name))
        .code("unknown_input")
        .hint(hint))
}

async fn one(
    works: &Works,
    kind: &Kind,
    input: &Input,
    given: Option<&Value>,
    checked: &mut Checked,
) -> Result<Option<Value>> {
    if input.ty.is_computed() {
        return if given.is_some() { Err(computed(input)) } else { Ok(None) };
    }
    let derived = derive(works, input, checked).await?;
    let value = match (derived, given) {
        (Some(derived), Some(given)) if *given != derived => {
            return Err(mismatch(input, &derived));
        }
        (Some(derived), _) => derived,
        (None, Some(given)) => given.clone(),
        (None, None) => match &input.default {
            Some(text) => value_of_text(input, text),
            None if input.required => {
                return Err(missing(kind, input));
            }
            None => return Ok(None),
        },
    };
    typed(works, input, value, checked).await.map(Some)
}

fn missing(kind: &Kind, input: &Input) -> Error {
    let message = format!("kind \"{}\" needs the input `{}`", kind.name, input.name);
    let hint = match &input.about {
        Some(about) => format!("{}=VALUE: {about}", input.name),
        None => format!("{}=VALUE, a {}", input.name, input.ty.as_str()),
    };
    Error::invalid(message).code(MISSING_INPUT).hint(hint)
}

/// Returns the error for an input that the caller may not set.
pub fn computed(input: &Input) -> Error {
    let message = format!("input `{}` is computed by the server", input.name);
    Error::invalid(message).code("computed_input").hint("leave it out")
}

/// Returns the error for an input that does not match the one it is derived from.
pub fn mismatch(input: &Input, derived: &Value) -> Error {
    Error::invalid(format!("input `{}` must be {derived}", input.name))
        .code("input_mismatch")
        .hint("leave it out; it follows from another input")
}

/// Returns the value for a text; null if there is none.
pub fn value_of_text(input: &Input, text: &str) -> Value {
    match input.ty {
        InputType::Number | InputType::Flag => serde_json::from_str(text.trim())
            .ok()
            .filter(|it: &Value| it.is_number() || it.is_boolean())
            .map_or(Value::Null, number::as_whole),
        _ => Value::String(text.to_owned()),
    }
}

/// Refuses an invalid value, without using the database or the repository.
///
/// # Errors
/// `invalid` with code `bad_input`.
pub fn check_plain(input: &Input, value: &Value) -> Result<()> {
    let Some(expected) = input.refusal(value) else { return Ok(()) };
    let hint = match &input.about {
        Some(about) => format!("{}: {about}", input.name),
        None => "wiki-browser check --print shows what the kind takes".to_owned(),
    };
    let message = format!("input `{}` must be {expected}", input.name);
    Err(Error::invalid(message).code(BAD_INPUT).hint(hint))
}

/// Returns values derived from the input named by `from`, for inputs that a person could also send.
async fn derive(works: &Works, input: &Input, checked: &Checked) -> Result<Option<Value>> {
    let (Some(from), InputType::Source) = (&input.from, input.ty) else { return Ok(None) };
    let Some(Value::String(topic)) = checked.values.get(from) else { return Ok(None) };
    let topic: TopicId = topic.parse()?;
    let topic = works.store.read(move |c| documents::topics::topic::find(c, &topic, None)).await?;
    Ok(Some(Value::String(topic.source_path.to_string())))
}

async fn typed(works: &Works, input: &Input, value: Value, checked: &mut Checked) -> Result<Value> {
    check_plain(input, &value)?;
    let text = value.as_str().unwrap_or_default();
    match input.ty {
        InputType::Topic => {
            let id: TopicId = text.parse()?;
            require_open(works, &id).await?;
            checked.topic_id.get_or_insert(id);
        }
        InputType::Source => {
            let path: SourcePath = text.parse()?;
            if let Err(cause) = source_version(&works.repo, input, &path).await {
                return Err(renames::explain(works, &path, cause).await);
            }
            checked.cast.1.push(path);
        }
        InputType::Persona => {
            let found = personas::find(&works.repo, &works.config.folder, text).await?;
            checked.cast.0.push(found.persona);
            checked.persona_name.get_or_insert(text.to_owned());
        }
        InputType::Blob | InputType::Hash => {
            return Err(Error::internal("a computed input was taken from a request"));
        }
        // Its lane is the same, and a prompt shows it, however it was written.
        InputType::Number => return Ok(number::as_whole(value)),
        InputType::Line | InputType::Text | InputType::Choice | InputType::Flag => {}
    }
    Ok(value)
}

/// Refuses a closed Topic.
///
/// # Errors
/// `not_found`; `conflict` with code `topic_closed`.
pub async fn require_open(works: &Works, id: &TopicId) -> Result<()> {
    let asked = id.clone();
    let topic = works.store.read(move |c| documents::topics::topic::find(c, &asked, None)).await?;
    match topic.status {
        TopicStatus::Open => Ok(()),
        status => {
            let message = format!("topic {id} is {}", status.as_str());
            Err(Error::conflict("topic_closed", message).hint("reopen it first"))
        }
    }
}

/// Returns the version of an input's Source, which may not exist yet.
///
/// # Errors
/// As [`Repo::source`], and for one that may be new as [`Repo::refuse_uncreatable`].
pub async fn source_version(repo: &Repo, input: &Input, path: &SourcePath) -> Result<BlobId> {
    match repo.source(path).await {
        Err(cause) if input.new && cause.kind() == ErrorKind::NotFound => {
            repo.refuse_uncreatable(path).await.map(|()| repo.absent())
        }
        found => found.map(|it| it.blob),
    }
}

/// Refuses Sources for which no proposal could be approved now.
///
/// # Errors
/// As [`Repo::refuse_unwritable`] and [`Repo::refuse_uncreatable`].
pub async fn refuse_unwritable(repo: &Repo, input: &Input, path: &SourcePath) -> Result<()> {
    match repo.refuse_unwritable(path).await {
        Err(cause) if input.new && cause.kind() == ErrorKind::NotFound => {
            repo.refuse_uncreatable(path).await
        }
        refused => refused,
    }
}

/// Returns the grants of a job's token. The script chooses the kind, not the grants.
pub fn grants(kind: &Kind, checked: &Checked) -> Vec<Grant> {
    let mut grants = multi_topic::grants(kind, &checked.values);
    if kind.may_ask() {
        grants.push(Grant::approvals());
    }
    let of_inbox = kind.inbox.iter().flat_map(|it| &it.sends);
    let sends = of_inbox.chain(kind.agent.iter().flat_map(|it| &it.sends));
    grants.extend(sends.map(|pattern| Grant::address(pattern)));
    let proposes = kind.produces == Some(Produces::Proposal);
    let has_topic = kind.inputs.iter().any(|it| it.ty == InputType::Topic);
    let mut of_site = if kind.sees_site { vec![Verb::Read] } else { Vec::new() };
    if kind.produces == Some(Produces::Topic) && checked.source_path.is_none() {
        of_site.push(Verb::Open);
    }
    if !of_site.is_empty() {
        grants.push(Grant::site(&of_site));
    }
    for input in &kind.inputs {
        let Some(Value::String(text)) = checked.values.get(&input.name) else { continue };
        match input.ty {
            InputType::Topic => {
                let Ok(id) = text.parse::<TopicId>() else { continue };
                let mut verbs = vec![Verb::Read, Verb::Message];
                if proposes {
                    verbs.push(Verb::Propose);
                }
                grants.push(Grant::topic(&id, &verbs));
            }
            InputType::Source => {
                let Ok(path) = text.parse::<SourcePath>() else { continue };
                let mut verbs = vec![Verb::Read];
                match kind.produces {
                    Some(Produces::Perspective) => verbs.push(Verb::View),
                    Some(Produces::Topic) => verbs.push(Verb::Open),
                    // For a Topic that its job opens.
                    Some(Produces::Proposal) if !has_topic => verbs.push(Verb::Propose),
                    _ => {}
                }
                grants.push(Grant::source(&path, &verbs));
            }
            InputType::Persona => grants.push(Grant::persona(text)),
            _ => {}
        }
    }
    grants
}
