//! Messages to inboxes in a test: the prompt of a made-up one, and the instance that one starts.

use serde_json::{Map, Value, json};

use crate::api::mail::SendRequest;
use crate::base::{Error, JobId, Result};
use crate::flows::lab::site::Ground;
use crate::flows::mail;
use crate::flows::requests::{prepare, render};
use crate::jobs::{Job, Status};
use crate::script::{self, Inbox, Kind, suggestion};

/// The fields of a message whose prompt is made.
const NAMES: [&str; 4] = ["payload", "from", "reply_to", "banner"];
/// The fields of a message that is sent.
const SENT_NAMES: [&str; 3] = ["payload", "reply_to", "category"];

/// Sends a message to an inbox as a person does; returns the instance that it starts.
///
/// # Errors
/// `invalid`: `bad_payload` with the place; as sending.
pub(super) async fn send(ground: &Ground, kind: &Kind, given: &Value) -> Result<JobId> {
    let none = Map::new();
    let given = fields(given, &none, &SENT_NAMES)?;
    let text = |name: &str| given.get(name).and_then(Value::as_str).map(str::to_owned);
    let request = SendRequest {
        to: format!("topic:{}", kind.name),
        payload: given.get("payload").map_or(Value::Null, json_of),
        reply_to: text("reply_to"),
        in_reply_to: None,
        category: text("category"),
    };
    let sent = mail::send(&ground.site, &ground.caller, request, None).await?;
    ground.tell().await?;
    sent.job_id.ok_or_else(|| Error::internal("a message to an inbox started no job"))
}

/// Adds the answer of an instance to its view, and the request for a decision that it waits for.
///
/// # Errors
/// As any read.
pub(super) async fn show_answer(ground: &Ground, job: &Job, shown: &mut Value) -> Result<()> {
    shown["approval_id"] = json!(job.waits_for.as_ref().filter(|_| job.status == Status::Parked));
    let Some(message) = &job.message_id else { return Ok(()) };
    let answer = mail::look(&ground.site, &ground.caller, message).await?;
    (shown["reply"], shown["failure"]) = (json!(answer.reply), json!(answer.failure));
    Ok(())
}

/// Returns a value of Lua as JSON: there, an empty table is both a list and a map.
pub(super) fn json_of(value: &Value) -> Value {
    match value {
        Value::Array(list) if list.is_empty() => Value::Object(Map::new()),
        other => other.clone(),
    }
}

/// Returns the fields of a message, which may have only these.
fn fields<'v>(
    given: &'v Value,
    none: &'v Map<String, Value>,
    names: &[&'static str],
) -> Result<&'v Map<String, Value>> {
    let given = given.as_object().unwrap_or(none);
    match given.keys().find(|name| !names.contains(&name.as_str())) {
        None => Ok(given),
        Some(name) => Err(Error::invalid(format!("a message has no `{name}`"))
            .code("unknown_input")
            .hint(suggestion(name, names.iter().copied()))),
    }
}

/// Returns the prompt of an instance for a message: `{ payload = …, from = … }`.
///
/// # Errors
/// `invalid`: `bad_payload` with the place; what the prompt refuses.
pub(super) async fn rendered(
    ground: &Ground,
    (kind, inbox): (&Kind, &Inbox),
    given: &Value,
) -> Result<String> {
    let none = Map::new();
    let given = fields(given, &none, &NAMES)?;
    let payload = given.get("payload").map_or(Value::Null, json_of);
    if let Some(schema) = &inbox.schema {
        schema.require(&payload, "payload", "bad_payload")?;
    }
    let text = |name: &str, default: &str| {
        given.get(name).and_then(Value::as_str).unwrap_or(default).to_owned()
    };
    let banner = format!("You handle one message of topic:{}.", kind.name);
    let site = &ground.site;
    let job = render::EXAMPLE_JOB;
    let mut texts = prepare::texts(&site.config, &site.wb_agent, kind, job, &none);
    for (name, value) in [
        ("banner", text("banner", &banner)),
        ("payload", format!("{payload:#}")),
        ("message_id", job.to_owned()),
        ("message_path", site.config.site.data.join("jobs").join(job).join("message").into()),
        ("from", text("from", "person:operator")),
        ("reply_to", text("reply_to", "person:operator")),
    ] {
        texts.insert(name.to_owned(), value);
    }
    script::prompt(&site.vm(), kind, &texts).await
}
