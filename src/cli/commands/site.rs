//! `wiki-browser login`, `status` and `events`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::api::people::LoginLink;
use crate::base::{Error, ErrorKind, Result};
use crate::cli::commands::{Desk, line, text};
use crate::cli::terminal::escape;
use crate::cli::terminal::screen::{Form, Style};
use crate::client::{Client, Next, ServerEvent, query};

/// How long a command waits for a server that has gone away.
pub(super) const RESTART_WAIT_MAX: Duration = Duration::from_secs(120);

/// Prints a one-time link.
pub(super) fn login(desk: &Desk) -> Result<()> {
    let answer = desk.client()?.post("/api/login-links", &json!({}))?;
    desk.screen.tell(&answer, |screen, link: LoginLink| {
        screen.put(&escape::line(&link.url))?;
        let until = desk.since(Some(link.expires_at));
        screen.note(&format!("works once; expires {until}"));
        Ok(())
    })
}

/// Prints the server's health, and the waiting work; exits 6 if it is not ready.
pub(super) fn status(desk: &Desk) -> Result<u8> {
    let client = desk.client()?;
    client.get("/healthz")?;
    let ready = match client.get("/readyz") {
        Ok(ready) => ready,
        Err(cause) if cause.kind() == ErrorKind::Unavailable => json!({
            "status": "not ready", "code": cause.code_str(), "message": cause.message(),
            "hint": cause.hint_str(),
        }),
        Err(cause) => return Err(cause),
    };
    let config = client.get("/api/config")?;
    let health = client.get("/api/health")?;
    let counts = json!({
        "jobs_running": health["jobs"]["running"], "jobs_queued": health["jobs"]["queued"],
        "topics_open": count(&client, "/api/topics", "open")?,
        "proposals_open": count(&client, "/api/proposals", "open")?,
    });
    let backups = match client.get("/api/backups") {
        Ok(backups) => backups,
        // Only admins see backups; the rest is for everybody.
        Err(cause) if cause.kind() == ErrorKind::Forbidden => Value::Null,
        Err(cause) => return Err(cause),
    };
    let search = match client.get("/api/search/index") {
        // A server of an earlier release has no search.
        Err(cause) if cause.kind() == ErrorKind::NotFound => Value::Null,
        search => search?,
    };
    let is_ready = ready["status"] == "ready";
    let value = json!({
        "ready": ready, "health": health["status"], "site": config["site"],
        "version": config["version"],
        "warnings": config["warnings"], "counts": counts, "backup": backups["items"][0],
        "engines": client.get("/api/engines")?["items"],
        "search": search, "script": config["script"],
    });
    desk.screen.answer(&value, |_, value| words(desk, value))?;
    Ok(if is_ready { 0 } else { ErrorKind::Unavailable.exit_code() })
}

fn words(desk: &Desk, value: &Value) -> Result<()> {
    let site = &value["site"];
    desk.detail("site", &line(site, "name"))?;
    desk.detail("root", &line(site, "root"))?;
    // A server of an earlier release reports only the script's text.
    let address = [line(site, "address"), line(site, "listen")];
    desk.detail("listens on", address.iter().find(|it| !it.is_empty()).map_or("", |it| it))?;
    desk.detail("version", &line(value, "version"))?;
    let ready = &value["ready"];
    let is_well = ready["status"] == "ready" && value["health"] == "ok";
    let style = if is_well { Style::Green } else { Style::Red };
    let state = match is_well || ready["status"] != "ready" {
        true => line(ready, "status"),
        false => line(value, "health"),
    };
    let why = [state, line(ready, "message")];
    desk.detail("state", &desk.screen.paint(style, why.join(" ").trim_end()))?;
    let n = |name: &str| match value["counts"][name].as_u64() {
        Some(200) => "200 or more".to_owned(),
        Some(n) => n.to_string(),
        None => "?".to_owned(),
    };
    desk.detail("jobs", &format!("{} running, {} queued", n("jobs_running"), n("jobs_queued")))?;
    for engine in value["engines"].as_array().into_iter().flatten() {
        let hold = &engine["hold"];
        if hold.is_object() {
            let until = match text(hold, "until") {
                "" => String::new(),
                until => format!(" until {until}"),
            };
            let said = format!("{}{until}: {}", text(engine, "name"), text(hold, "message"));
            desk.detail("held", &desk.screen.paint(Style::Red, &escape::line(&said)))?;
        }
    }
    desk.detail("topics", &format!("{} open", n("topics_open")))?;
    desk.detail("proposals", &format!("{} awaiting review", n("proposals_open")))?;
    desk.detail("search", &search_words(&value["search"]))?;
    let newest = &value["backup"];
    if !newest.is_null() {
        let when = escape::line(&desk.ago(&newest["at"]));
        desk.detail("backup", &format!("{when}: {}", line(newest, "path")))?;
    }
    for (style, said) in script_words(&value["script"]) {
        desk.detail("script", &desk.screen.paint(style, &escape::line(&said)))?;
    }
    for warning in value["warnings"].as_array().into_iter().flatten() {
        let warning = warning.as_str().map_or_else(|| warning.to_string(), str::to_owned);
        desk.detail("warning", &escape::line(&warning))?;
    }
    Ok(())
}

/// Prints the active generation of the script, and its errors.
fn script_words(script: &Value) -> Vec<(Style, String)> {
    let Some(number) = script["generation"].as_u64() else { return Vec::new() };
    let mut said = vec![(Style::Dim, format!("generation {number}"))];
    if script["stuck"] == true {
        let what = "its functions are disabled because one timed out; restart the server";
        said.push((Style::Red, what.to_owned()));
    }
    let trouble = &script["trouble"];
    if !trouble.is_null() {
        let summary = text(trouble, "summary");
        said.push((
            Style::Red,
            format!("not reloaded: {summary}; wiki-browser reload --dry-run shows it"),
        ));
    }
    let waits = script["needs_restart"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let waits: Vec<&str> = waits.collect();
    if !waits.is_empty() {
        said.push((Style::Red, format!("needs a restart: {}", waits.join(", "))));
    }
    said
}

fn search_words(index: &Value) -> String {
    let left = |name: &str| index["left"][name].as_u64().unwrap_or(0);
    match text(index, "state") {
        "" => String::new(),
        "ready" => "up to date".to_owned(),
        "failed" => format!("not up to date: {}", line(index, "problem")),
        _ => format!(
            "{} sources, {} topics and {} messages left to index",
            left("sources"),
            left("topics"),
            left("messages"),
        ),
    }
}

/// Returns the number of items, up to one page of 200.
fn count(client: &Client, route: &str, status: &str) -> Result<usize> {
    let page = client.get(&query(route, &[("status", Some(status)), ("limit", Some("200"))]))?;
    Ok(page["items"].as_array().map_or(0, Vec::len))
}

/// Prints events until the reader leaves or the server stays away.
pub(super) fn events(desk: &Desk, after: Option<String>) -> Result<u8> {
    let client = desk.client()?;
    let mut events = client.events(after);
    let mut absence = Absence::default();
    loop {
        match events.next(Duration::from_secs(10))? {
            Next::Event(event) => {
                absence.end(desk);
                print(desk, &event)?;
            }
            Next::Reset => {
                absence.end(desk);
                desk.screen.note("events were lost: the log starts later than requested");
            }
            Next::Quiet | Next::Opened => absence.end(desk),
            Next::Lost(cause) => absence.goes_on(desk, cause)?,
        }
    }
}

fn print(desk: &Desk, event: &ServerEvent) -> Result<()> {
    match desk.screen.form() {
        // One event per line, flushed, so that a pipe can read them as they arrive.
        Form::Json => desk.screen.put(&escape::json(&event.data.to_string())),
        Form::Field(path) => desk.screen.field(&event.data, path),
        Form::Words => {
            let at: String = text(&event.data, "at").chars().take(19).collect();
            let at = desk.screen.paint(Style::Dim, &escape::line(&at.replace('T', " ")));
            let kind = format!("{:<16}", escape::line(&event.kind));
            let subject = line(&event.data, "subject");
            desk.screen.put(&format!("{at} {kind} {subject} {}", line(&event.data, "actor")))
        }
    }
}

/// How long the server has been away.
#[derive(Debug, Default)]
pub(super) struct Absence {
    was_there: bool,
    since: Option<std::time::Instant>,
}

impl Absence {
    /// Records that the server is away.
    ///
    /// # Errors
    /// The cause, if no server was there to begin with or if it has been away for too long.
    pub(super) fn goes_on(&mut self, desk: &Desk, cause: Error) -> Result<()> {
        if !self.was_there {
            return Err(cause);
        }
        let since = match self.since {
            Some(since) => since,
            None => {
                desk.screen.note("the server is unreachable; waiting for it");
                *self.since.insert(std::time::Instant::now())
            }
        };
        if since.elapsed() > RESTART_WAIT_MAX { Err(cause) } else { Ok(()) }
    }

    /// Returns whether the server was ever reachable.
    pub(super) fn was_there(&self) -> bool {
        self.was_there
    }

    /// Returns whether the server is away.
    pub(super) fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// Records that the server is reachable.
    pub(super) fn end(&mut self, desk: &Desk) {
        self.was_there = true;
        if self.since.take().is_some() {
            desk.screen.note("the server is back");
        }
    }
}
