//! The mail of an instance: what waits for it, and writing to others.

use camino::Utf8Path;
use clap::Args;
use serde_json::{Value, json};

use crate::api::mail::Sent;
use crate::base::{Context, Error, ErrorKind, Result, from_json};
use crate::cli::agent::args::Place;
use crate::cli::agent::{client, print};
use crate::cli::terminal::input;
use crate::cli::terminal::screen::Screen;

/// Longest reply or payload that is read from a file, in bytes.
const JSON_BYTES_MAX: usize = 1024 * 1024;

/// `send`.
#[derive(Args, Debug)]
pub(super) struct Send {
    /// Recipient: agent:NAME, topic:TEMPLATE/NAME, person:NAME
    #[arg(value_name = "ADDRESS")]
    to: String,
    /// The message: JSON, @FILE, or text
    #[arg(long, value_name = "JSON", required_unless_present = "message")]
    payload: Option<String>,
    /// Message this replies to
    #[arg(long, value_name = "ID")]
    in_reply_to: Option<String>,
    /// Address for the reply [default: this instance]
    #[arg(long, value_name = "ADDRESS")]
    reply_to: Option<String>,
    /// A label of your own; the reply carries it too
    #[arg(long, value_name = "WORD", alias = "topic")]
    category: Option<String>,
    /// Idempotency key: repeating it returns the first answer
    #[arg(long, value_name = "WORD")]
    key: Option<String>,
    /// Text of the message, instead of --payload
    #[arg(value_name = "MESSAGE", conflicts_with = "payload")]
    message: Option<String>,
}

/// `inbox`: what waits for this instance.
pub(super) fn inbox(
    screen: &Screen,
    place: &Place,
    after: Option<i64>,
    wait: Option<&str>,
) -> Result<()> {
    let wait = wait.map(crate::base::limit::parse_duration).transpose()?;
    let body = json!({"after": after, "wait": wait.map(|it| it.as_secs())});
    print(screen, &client(place)?.post("/api/agent/inbox", &body)?)
}

/// `send`.
pub(super) fn send(screen: &Screen, place: &Place, args: &Send) -> Result<()> {
    let payload = match (&args.payload, &args.message) {
        (Some(payload), _) => json_of(payload, "the payload")?,
        (None, text) => Value::String(text.clone().unwrap_or_default()),
    };
    let body = json!({
        "to": args.to, "payload": payload, "in_reply_to": args.in_reply_to,
        "reply_to": args.reply_to, "category": args.category,
    });
    let client = client(place)?;
    let answer = match &args.key {
        Some(key) => client.post_once("/api/messages", &body, key)?,
        None => client.create("/api/messages", &body)?,
    };
    let sent: Sent = from_json(&answer)
        .context(ErrorKind::Internal, || "the server has a different version".to_owned())?;
    screen.answer(&answer, |screen, _| screen.put(sent.message_id.as_str()))
}

/// JSON, a file with JSON, or a text.
pub(super) fn json_of(given: &str, what: &str) -> Result<Value> {
    let wrong = |cause: serde_json::Error| {
        Error::invalid(format!("{what} is not valid JSON: {cause}"))
            .code("bad_reply")
            .hint("put plain text in double quotes")
    };
    match given.strip_prefix('@') {
        Some(path) => {
            let text = input::file(Utf8Path::new(path), what, JSON_BYTES_MAX)?;
            text_or_json(text, wrong)
        }
        None => text_or_json(given.to_owned(), wrong),
    }
}

/// What begins like a record, a list or a quoted text was meant as JSON.
fn text_or_json(text: String, wrong: impl Fn(serde_json::Error) -> Error) -> Result<Value> {
    match serde_json::from_str(&text) {
        Ok(value) => Ok(value),
        Err(cause) if text.trim_start().starts_with(['{', '[', '"']) => Err(wrong(cause)),
        Err(_) => Ok(Value::String(text)),
    }
}
