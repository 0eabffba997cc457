//! The verdict of an instance: `complete` and `fail`.

use std::io::Write as _;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Value, json};

use crate::api::mail::VerdictRequest;
use crate::base::{Context, Error, ErrorKind, Result, truncate_chars};
use crate::cli::agent::args::Place;
use crate::cli::agent::mail::json_of;
use crate::cli::agent::{client, job_id};
use crate::cli::terminal::screen::Screen;
use crate::jobs::{ALREADY_COMPLETED, JOB_ENDED};

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
