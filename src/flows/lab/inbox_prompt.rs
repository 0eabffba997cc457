//! The prompt of an inbox for a made-up message.

use serde_json::{Map, Value};

use crate::base::{Error, Result};
use crate::flows::lab::site::Ground;
use crate::flows::requests::{prepare, render};
use crate::script::{self, Inbox, Kind, suggestion};

/// The fields of a message in a test.
const NAMES: [&str; 4] = ["payload", "from", "reply_to", "banner"];

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
    let given = match given {
        Value::Object(fields) => fields,
        _ => &none,
    };
    if let Some(name) = given.keys().find(|name| !NAMES.contains(&name.as_str())) {
        let message = format!("a message has no `{name}`");
        return Err(Error::invalid(message).code("unknown_input").hint(suggestion(name, NAMES)));
    }
    let payload = match given.get("payload") {
        // In Lua, an empty table is both a list and a map.
        Some(Value::Array(list)) if list.is_empty() => Value::Object(Map::new()),
        Some(payload) => payload.clone(),
        None => Value::Null,
    };
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
