//! The verbs of an instance: what it came to, its mail, and writing to others.

use std::io::Write as _;

use camino::{Utf8Path, Utf8PathBuf};
use clap::Args;
use serde_json::{Value, json};

use crate::api::mail::{Sent, VerdictRequest};
use crate::base::{Context, Error, ErrorKind, Result, truncate_chars};
use crate::cli::agent::args::Place;
use crate::cli::agent::{client, job_id, print};
use crate::cli::terminal::input;
use crate::cli::terminal::screen::Screen;
use crate::jobs::{ALREADY_COMPLETED, JOB_ENDED};

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

/// The places that an instance was given; nothing outside of one.
struct Mode {
    reply: Utf8PathBuf,
    status: Utf8PathBuf,
}

impl Mode {
    /// Two of the three names never make an instance.
    fn of_environment() -> Option<Mode> {
        let given = |name: &str| std::env::var(name).ok().filter(|it| !it.is_empty());
        given("MESSAGE_ID")?;
        given("AGENT_TEMPLATE")?;
        let reply = Utf8PathBuf::from(given("REPLY_PATH")?);
        let status =
            given("STATUS_PATH").map_or_else(|| reply.with_file_name("status"), Into::into);
        Some(Mode { reply, status })
    }

    fn require() -> Result<Mode> {
        Mode::of_environment().ok_or_else(|| {
            Error::invalid("this works only inside an instance of an inbox")
                .code("no_instance")
                .hint("in a job that no message started, use `wb-agent finish`")
        })
    }
}

/// `complete`: the reply goes into its file, then to the server, then the status into its file.
pub(super) fn complete(screen: &Screen, place: &Place, reply: Option<&str>) -> Result<()> {
    let mode = Mode::require()?;
    let reply = reply.map(|it| json_of(it, "the reply")).transpose()?.unwrap_or(Value::Null);
    refuse_second(&mode, "ok\n", Some(&reply.to_string()))?;
    replace(&mode.reply, reply.to_string().as_bytes())?;
    let request = VerdictRequest { verdict: "ok".to_owned(), reply: Some(reply), reason: None };
    give(screen, place, &mode, &request, "ok\n")
}

/// `fail`.
pub(super) fn fail(screen: &Screen, place: &Place, reason: &str) -> Result<()> {
    let mode = Mode::require()?;
    let status = format!("error\n{reason}\n");
    refuse_second(&mode, &status, None)?;
    let request = VerdictRequest {
        verdict: "error".to_owned(),
        reply: None,
        reason: Some(reason.to_owned()),
    };
    give(screen, place, &mode, &request, &status)
}

/// The first verdict is final, also if no server has read it yet. The same one again is none.
fn refuse_second(mode: &Mode, status: &str, reply: Option<&str>) -> Result<()> {
    let text = |path: &Utf8Path| {
        let is_file = std::fs::symlink_metadata(path).is_ok_and(|it| it.is_file());
        is_file.then(|| std::fs::read(path).ok()).flatten()
    };
    let Some(given) = text(&mode.status).filter(|it| !it.is_empty()) else { return Ok(()) };
    let has_reply = |reply: &str| text(&mode.reply).is_some_and(|it| it == reply.as_bytes());
    if given == status.as_bytes() && reply.is_none_or(has_reply) {
        return Ok(());
    }
    let given = String::from_utf8_lossy(&given);
    let word = truncate_chars(given.lines().next().unwrap_or_default(), 20);
    Err(Error::conflict(ALREADY_COMPLETED, format!("this instance has said `{word}` already"))
        .hint("the first one stands; nothing was changed"))
}

/// A verdict that the server refuses leaves no status, so that the agent can correct it. Without a
/// server the files alone count.
fn give(
    screen: &Screen,
    place: &Place,
    mode: &Mode,
    request: &VerdictRequest,
    status: &str,
) -> Result<()> {
    let told = client(place).and_then(|client| {
        client.post(&format!("/api/agent/jobs/{}/verdict", job_id(&client)?), &json!(request))
    });
    match told {
        Ok(_) => {}
        Err(cause) if cause.kind() == ErrorKind::Unavailable => {
            screen.note("no server is running; it reads the status file when it is back");
        }
        Err(cause) if cause.code_str() == JOB_ENDED => {
            // A server that was started again refuses the token, and still reads the file.
            replace(&mode.status, status.as_bytes())?;
            return Err(cause);
        }
        Err(cause) => return Err(cause),
    }
    replace(&mode.status, status.as_bytes())?;
    screen.answer(&json!({}), |_, _| Ok(()))
}

/// Puts a file in place whole or not at all.
fn replace(path: &Utf8Path, bytes: &[u8]) -> Result<()> {
    let aside = Utf8PathBuf::from(format!("{path}.{}", std::process::id()));
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::File::create(&aside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&aside, path)
    };
    write().context(ErrorKind::Unavailable, || format!("cannot write {path}"))
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
    let sent: Sent = serde_json::from_value(answer.clone())
        .context(ErrorKind::Internal, || "the server has a different version".to_owned())?;
    screen.answer(&answer, |screen, _| screen.put(sent.message_id.as_str()))
}

/// JSON, a file with JSON, or a text.
fn json_of(given: &str, what: &str) -> Result<Value> {
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
