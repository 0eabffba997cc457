//! Events on a test's site besides its jobs: messages, webhooks, time.

use serde_json::{Map, Value, json};

use crate::base::limit::parse_duration;
use crate::base::{Actor, Error, Event, EventKind, JobId, Result, TopicId};
use crate::flows::automation::webhooks;
use crate::flows::lab::site::Ground;
use crate::flows::lab::{known_kind, new_topic, sent};
use crate::flows::topics;
use crate::jobs::{self, NewJob, Reason, Status};
use crate::script::{InputType, Kind, Member, event_data, suggestion};

/// The fields of a job's event.
const OF_JOB: [&str; 9] = [
    "kind",
    "inputs",
    "source_path",
    "topic_id",
    "topic",
    "status",
    "reason",
    "error_tail",
    "priority",
];
/// Longest single move of the clock.
const STEP_DAYS_MAX: u64 = 400;

/// Adds a message of a person.
pub(super) async fn post_message(ground: &Ground, topic: &Value, body: &str) -> Result<Value> {
    let id = topic_id(topic)?;
    let request =
        topics::MessageRequest { body: body.to_owned(), suggestion: None, propose: false };
    topics::post_message(&ground.site, &ground.caller, &id, request, None).await?;
    Ok(Value::Null)
}

/// Reads a Topic given as the result of `t.topic`, or by its id.
fn topic_id(given: &Value) -> Result<TopicId> {
    let id = given["id"].as_str().or_else(|| given.as_str()).unwrap_or_default();
    id.parse().map_err(|cause: Error| {
        cause.hint("write local topic = t.topic { source_path = \"guide.md\" }, and then topic")
    })
}

/// Moves the clock; returns what the script did in the meantime.
pub(super) async fn advance(ground: &Ground, duration: &str) -> Result<Value> {
    let wait = parse_duration(duration)?;
    if wait.as_secs() > STEP_DAYS_MAX * 24 * 3_600 {
        let message = format!("the clock moves by {STEP_DAYS_MAX} days at most");
        return Err(Error::invalid(message).hint("start later: t.site { now = \"…\" }"));
    }
    let mark = ground.mark();
    let ms = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
    ground.pass_time(ground.clock.now().plus(ms)).await?;
    ground.effects(&mark).await
}

/// Emits an event and calls the handlers; returns what they did.
pub(super) async fn fire(ground: &Ground, name: &str, data: &Value) -> Result<Value> {
    let words = EventKind::ALL.map(EventKind::as_str);
    let event = EventKind::parse(name).ok_or_else(|| {
        Error::invalid(format!("no event `{name}`")).hint(suggestion(name, words))
    })?;
    let data = match data {
        Value::Object(data) => data.clone(),
        _ => Map::new(),
    };
    ground.pass_over().await?;
    let mark = match event {
        EventKind::TopicCreated => {
            let known = ["source_path", "quote", "body", "title"];
            refuse_unknown(name, &data, &known)?;
            let mark = ground.mark();
            let data = with(data, "source_path", || json!("guide.md"));
            new_topic(ground, &ground.caller, &Value::Object(data)).await?;
            ground.tell().await?;
            mark
        }
        EventKind::MessagePosted => {
            refuse_unknown(name, &data, &["topic", "topic_id", "body"])?;
            let topic = match data.get("topic").or_else(|| data.get("topic_id")) {
                Some(topic) => topic.clone(),
                None => {
                    ground
                        .silent(new_topic(ground, &ground.caller, &sample_topic("guide.md")))
                        .await?
                }
            };
            let mark = ground.mark();
            let body = data.get("body").and_then(Value::as_str).unwrap_or("Please look again.");
            post_message(ground, &topic, body).await?;
            ground.tell().await?;
            mark
        }
        EventKind::JobQueued | EventKind::JobStarted | EventKind::JobFinished => {
            refuse_unknown(name, &data, &OF_JOB)?;
            of_job(ground, event, &data).await?;
            ground.back_to_last().await?;
            let mark = ground.mark();
            ground.tell().await?;
            mark
        }
        other => {
            let data = filled(ground, other, data).await?;
            ground.pass_over().await?;
            let mark = ground.mark();
            emit(ground, other, data).await?;
            ground.tell().await?;
            mark
        }
    };
    ground.effects(&mark).await
}

/// Calls a webhook as if its proof were valid; returns the result.
pub(super) async fn webhook(
    ground: &Ground,
    name: &str,
    (event, body): (Option<&str>, Value),
) -> Result<Value> {
    let known = &ground.site.config.webhooks;
    let webhook = known.get(name).ok_or_else(|| {
        let names = known.keys().map(String::as_str);
        Error::invalid(format!("no webhook `{name}`")).hint(suggestion(name, names))
    })?;
    ground.pass_over().await?;
    let mark = ground.mark();
    let body = serde_json::to_vec(&body)
        .map_err(|cause| Error::invalid(format!("the body is not JSON: {cause}")))?;
    let event = event.map(str::to_owned);
    webhooks::take_proven(&ground.site, webhook, event, &body).await?;
    ground.tell().await?;
    ground.effects(&mark).await
}

fn with(
    mut data: Map<String, Value>,
    name: &str,
    make: impl FnOnce() -> Value,
) -> Map<String, Value> {
    if !data.contains_key(name) {
        data.insert(name.to_owned(), make());
    }
    data
}

fn sample_topic(path: &str) -> Value {
    json!({"source_path": path})
}

fn refuse_unknown(event: &str, data: &Map<String, Value>, known: &[&str]) -> Result<()> {
    match data.keys().find(|it| !known.contains(&it.as_str())) {
        None => Ok(()),
        Some(name) => Err(Error::invalid(format!("t.fire(\"{event}\") has no field `{name}`"))
            .hint(suggestion(name, known.iter().copied()))),
    }
}

/// Creates the job of an event, in the state that the event needs.
async fn of_job(ground: &Ground, event: EventKind, data: &Map<String, Value>) -> Result<()> {
    let word = event.as_str();
    let Some(name) = data.get("kind").and_then(Value::as_str) else {
        return Err(Error::invalid(format!("t.fire(\"{word}\") needs `kind`"))
            .hint(format!("write t.fire(\"{word}\", {{ kind = \"NAME\" }})")));
    };
    let kind = known_kind(ground, name)?;
    let end = ending(data)?;
    let new = new_job(ground, kind, data)?;
    let (site, ids) = (&ground.site, ground.site.ids.clone());
    let capacities = site.queue.capacities();
    let id: JobId = site.store.write(move |tx| jobs::enqueue(tx, &ids, &capacities, &new)).await?;
    match event {
        EventKind::JobQueued => {}
        EventKind::JobStarted => {
            site.queue.rehearse(Some(&id)).await?;
        }
        _ => {
            let tail = data.get("error_tail").and_then(Value::as_str).unwrap_or_default();
            site.queue.pretend(&id, end, tail.to_owned()).await?;
        }
    }
    Ok(())
}

fn new_job(ground: &Ground, kind: &Kind, data: &Map<String, Value>) -> Result<NewJob> {
    let mut given = match data.get("inputs") {
        Some(inputs) => sent(ground, kind, inputs)?,
        None => Map::new(),
    };
    let topic = data.get("topic").or_else(|| data.get("topic_id"));
    let topic = topic.map(topic_id).transpose()?;
    let path = data.get("source_path").and_then(Value::as_str);
    for input in &kind.inputs {
        let value = match input.ty {
            InputType::Topic => topic.as_ref().map(|it| json!(it)),
            InputType::Source => path.map(|it| json!(it)),
            _ => None,
        };
        if let (Some(value), false) = (value, given.contains_key(&input.name)) {
            given.insert(input.name.clone(), value);
        }
    }
    let first = |ty: InputType| {
        let input = kind.inputs.iter().find(|it| it.ty == ty)?;
        given.get(&input.name)?.as_str().map(str::to_owned)
    };
    let source = kind.source_input(|it| given.get(&it.name).is_some_and(Value::is_string));
    let of_source = || given.get(&source?.name)?.as_str().map(str::to_owned);
    let path = path.map(str::to_owned).or_else(of_source);
    let topic = topic.or_else(|| first(InputType::Topic).and_then(|it| it.parse().ok()));
    let digest = &ground.site.config.digest;
    Ok(NewJob {
        source_path: path.map(|it| it.parse()).transpose()?,
        topic_id: topic,
        persona_name: first(InputType::Persona),
        priority: data.get("priority").and_then(Value::as_i64).unwrap_or(kind.priority),
        inputs: given,
        ..NewJob::plain(&kind.name, digest, ground.caller.actor())
    })
}

/// Returns how a job ended, from the fields of the event; succeeded by default.
fn ending(data: &Map<String, Value>) -> Result<(Status, Option<Reason>)> {
    let reason = match data.get("reason").and_then(Value::as_str) {
        None => None,
        Some(word) => {
            let found = Reason::ALL.into_iter().find(|it| it.as_str() == word);
            let words = Reason::ALL.map(Reason::as_str);
            Some(found.ok_or_else(|| {
                Error::invalid(format!("`{word}` is not a reason for a job to end"))
                    .hint(suggestion(word, words))
            })?)
        }
    };
    let ends = [Status::Succeeded, Status::Failed, Status::TimedOut, Status::Cancelled];
    let status = match data.get("status").and_then(Value::as_str) {
        None if reason.is_some() => Status::Failed,
        None => Status::Succeeded,
        Some(word) => {
            let found = ends.into_iter().find(|it| it.as_str() == word);
            let words = ends.map(Status::as_str);
            found.ok_or_else(|| {
                Error::invalid(format!("`{word}` is not a final state of a job"))
                    .hint(suggestion(word, words))
            })?
        }
    };
    let usual = match status {
        Status::Failed => Some(Reason::ExitStatus),
        Status::TimedOut => Some(Reason::WallTimeout),
        Status::Cancelled => Some(Reason::Cancelled),
        _ => None,
    };
    Ok((status, reason.filter(|_| status != Status::Succeeded).or(usual)))
}

/// Returns the data of an event, with missing ids filled in.
async fn filled(
    ground: &Ground,
    event: EventKind,
    data: Map<String, Value>,
) -> Result<Map<String, Value>> {
    let (word, members) = (event.as_str(), event_data(event));
    let names: Vec<&str> = members.iter().map(|it| it.name).collect();
    refuse_unknown(word, &data, &names)?;
    let path = ["source_path", "path"].iter().find_map(|it| data.get(*it)?.as_str());
    let path = path.unwrap_or("guide.md").to_owned();
    let mut full = Map::new();
    for member in members {
        let (ty, is_rare) = match member.ty.strip_suffix('?') {
            Some(ty) => (ty, true),
            None => (member.ty, false),
        };
        let value = match data.get(member.name) {
            Some(value) => typed(word, member, ty, value)?,
            None if is_rare => continue,
            None => match made_up(ground, member, ty, &path).await? {
                Some(value) => value,
                None => {
                    return Err(Error::invalid(format!(
                        "t.fire(\"{word}\") needs `{}`",
                        member.name
                    ))
                    .hint(format!("write {} = …: {}", member.name, member.doc)));
                }
            },
        };
        full.insert(member.name.to_owned(), value);
    }
    Ok(full)
}

fn typed(event: &str, member: &Member, ty: &str, value: &Value) -> Result<Value> {
    let (fits, what) = match ty {
        "string" => (value.is_string() || value["id"].is_string(), "a text"),
        "integer" => (value.is_i64(), "a whole number"),
        "boolean" => (value.is_boolean(), "true or false"),
        _ => (value.is_array() || value.as_object().is_some_and(Map::is_empty), "a list"),
    };
    if !fits {
        let message = format!("`{}` of t.fire(\"{event}\") must be {what}", member.name);
        return Err(Error::invalid(message).hint(member.doc));
    }
    Ok(match value {
        Value::Object(fields) if fields.contains_key("id") => fields["id"].clone(),
        Value::Object(_) => json!([]),
        other => other.clone(),
    })
}

/// Returns a default value; `None` for one that the event needs.
async fn made_up(ground: &Ground, member: &Member, ty: &str, path: &str) -> Result<Option<Value>> {
    let site = &ground.site;
    Ok(match (member.name, ty) {
        ("topic_id", _) => {
            let topic = new_topic(ground, &ground.caller, &sample_topic(path)).await?;
            Some(topic["id"].clone())
        }
        (_, "integer") => Some(json!(1)),
        (_, "boolean") => Some(json!(false)),
        (name, "string") if name == "id" || name.ends_with("_id") => {
            Some(json!(site.ids.mint::<JobId>()))
        }
        (name, "string") if name.ends_with("_sha") => Some(json!(site.repo.hash_text(path).await?)),
        ("planned", _) => Some(json!(ground.clock.now())),
        ("digest", _) => Some(json!(site.config.digest)),
        (_, "string") => None,
        _ => Some(json!([])),
    })
}

/// Writes an event into the log.
async fn emit(ground: &Ground, event: EventKind, data: Map<String, Value>) -> Result<()> {
    let of = |name: &str| data.get(name).and_then(Value::as_str).map(str::to_owned);
    let subject = [
        ("proposal_id", "proposal"),
        ("topic_id", "topic"),
        ("job_id", "job"),
        ("path", "source"),
        ("source_path", "source"),
        ("schedule", "schedule"),
        ("engine", "engine"),
        ("id", "job"),
    ];
    let subject = subject.iter().find_map(|(name, word)| Some(format!("{word}:{}", of(name)?)));
    let subject = subject.unwrap_or_else(|| "site".to_owned());
    let actor = match event {
        EventKind::TopicChanged
        | EventKind::TopicReattached
        | EventKind::ProposalDecided
        | EventKind::ChangesDecided
        | EventKind::EngineReleased
        | EventKind::ConfigReloaded
        | EventKind::PersonChanged
        | EventKind::ApprovalCreated
        | EventKind::ApprovalDecided => ground.caller.actor(),
        _ => Actor::System,
    };
    let event = Event::new(event, subject, actor, Value::Object(data));
    ground.site.store.write(move |tx| tx.emit(event.clone())).await
}
