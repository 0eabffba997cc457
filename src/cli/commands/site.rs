//! `wiki-browser login`, `status` and `events`.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use crate::api::backups::{Backup, BackupList};
use crate::api::config::{ConfigView, ScriptView, SiteView};
use crate::api::health::{Health, Report};
use crate::api::people::LoginLink;
use crate::api::usage::EngineRow;
use crate::base::limit::PAGE_ROWS_MAX;
use crate::base::{Error, ErrorKind, Page, Result};
use crate::cli::commands::{Desk, line, text};
use crate::cli::terminal::escape;
use crate::cli::terminal::screen::{Form, Style, typed};
use crate::client::{Client, Next, ServerEvent, query};
use crate::flows::search::Progress;

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

/// What `status` prints.
#[derive(Serialize)]
struct Status {
    ready: Ready,
    health: String,
    site: SiteView,
    version: String,
    warnings: Vec<String>,
    counts: Counts,
    backup: Option<Backup>,
    engines: Vec<EngineRow>,
    search: Option<Progress>,
    script: ScriptView,
}

/// Whether the server is ready, and if not, its error.
#[derive(Serialize)]
struct Ready {
    status: String,
    #[serde(flatten)]
    problem: Option<Problem>,
}

/// Why a server is not ready.
#[derive(Serialize)]
struct Problem {
    code: String,
    message: String,
    hint: Option<String>,
}

/// Numbers of jobs, Topics and proposals.
#[derive(Serialize)]
struct Counts {
    jobs_running: i64,
    jobs_queued: i64,
    topics_open: usize,
    proposals_open: usize,
}

const READY: &str = "ready";

/// Prints the server's health, and the waiting work; exits 6 if it is not ready.
pub(super) fn status(desk: &Desk) -> Result<u8> {
    let client = desk.client()?;
    client.get("/healthz")?;
    let ready = match client.get("/readyz") {
        Ok(ready) => Ready { status: typed::<Health>(&ready)?.status.into_owned(), problem: None },
        Err(cause) if cause.kind() == ErrorKind::Unavailable => Ready {
            status: "not ready".to_owned(),
            problem: Some(Problem {
                code: cause.code_str().to_owned(),
                message: cause.message().to_owned(),
                hint: cause.hint_str().map(str::to_owned),
            }),
        },
        Err(cause) => return Err(cause),
    };
    let config: ConfigView = typed(&client.get("/api/config")?)?;
    let health: Report = typed(&client.get("/api/health")?)?;
    let backup = match client.get("/api/backups") {
        Ok(backups) => typed::<BackupList>(&backups)?.items.into_iter().next(),
        // Only admins see backups; the rest is for everybody.
        Err(cause) if cause.kind() == ErrorKind::Forbidden => None,
        Err(cause) => return Err(cause),
    };
    let is_ready = ready.status == READY;
    let status = Status {
        ready,
        health: health.status.into_owned(),
        site: config.site,
        version: config.version,
        warnings: config.warnings,
        counts: Counts {
            jobs_running: health.jobs.running,
            jobs_queued: health.jobs.queued,
            topics_open: count(&client, "/api/topics", "open")?,
            proposals_open: count(&client, "/api/proposals", "open")?,
        },
        backup,
        engines: typed::<Page<EngineRow>>(&client.get("/api/engines")?)?.items,
        search: Some(typed(&client.get("/api/search/index")?)?),
        script: config.script,
    };
    let value = serde_json::to_value(&status)
        .map_err(|cause| Error::internal("the status is not JSON").source(cause))?;
    desk.screen.answer(&value, |_, _| words(desk, &status))?;
    Ok(if is_ready { 0 } else { ErrorKind::Unavailable.exit_code() })
}

fn words(desk: &Desk, status: &Status) -> Result<()> {
    let site = &status.site;
    desk.detail("site", &escape::line(site.name.as_deref().unwrap_or_default()))?;
    desk.detail("root", &escape::line(site.root.as_str()))?;
    let listen = site.listen.to_string();
    desk.detail("listens on", &escape::line(site.address.as_ref().unwrap_or(&listen)))?;
    desk.detail("version", &escape::line(&status.version))?;
    let ready = &status.ready;
    let is_ready = ready.status == READY;
    let is_well = is_ready && status.health == "ok";
    let style = if is_well { Style::Green } else { Style::Red };
    let state = if is_well || !is_ready { &ready.status } else { &status.health };
    let why = ready.problem.as_ref().map(|it| it.message.as_str()).unwrap_or_default();
    let state = escape::line(format!("{state} {why}").trim_end());
    desk.detail("state", &desk.screen.paint(style, &state))?;
    let counts = &status.counts;
    let jobs = format!("{} running, {} queued", counts.jobs_running, counts.jobs_queued);
    desk.detail("jobs", &jobs)?;
    let held = status.engines.iter().filter_map(|it| Some((&it.name, it.hold.as_ref()?)));
    for (name, hold) in held {
        let until = hold.until.map_or_else(String::new, |until| format!(" until {until}"));
        let said = format!("{name}{until}: {}", hold.message);
        desk.detail("held", &desk.screen.paint(Style::Red, &escape::line(&said)))?;
    }
    desk.detail("topics", &format!("{} open", up_to_page(counts.topics_open)))?;
    desk.detail("proposals", &format!("{} awaiting review", up_to_page(counts.proposals_open)))?;
    desk.detail("search", &status.search.as_ref().map_or_else(String::new, search_words))?;
    if let Some(newest) = &status.backup {
        let path = escape::line(newest.path.as_str());
        desk.detail("backup", &format!("{}: {path}", desk.since(Some(newest.at))))?;
    }
    for (style, said) in script_words(&status.script) {
        desk.detail("script", &desk.screen.paint(style, &escape::line(&said)))?;
    }
    for warning in &status.warnings {
        desk.detail("warning", &escape::line(warning))?;
    }
    Ok(())
}

/// Returns the number of items, if there are fewer than fit on a page.
fn up_to_page(count: usize) -> String {
    match u32::try_from(count) {
        Ok(count) if count < PAGE_ROWS_MAX => count.to_string(),
        _ => format!("{PAGE_ROWS_MAX} or more"),
    }
}

/// Returns the active generation of the script, and its errors.
fn script_words(script: &ScriptView) -> Vec<(Style, String)> {
    let mut said = vec![(Style::Dim, format!("generation {}", script.generation))];
    if script.stuck {
        let what = "its functions are disabled because one timed out; restart the server";
        said.push((Style::Red, what.to_owned()));
    }
    if let Some(trouble) = &script.trouble {
        let summary = &trouble.summary;
        said.push((
            Style::Red,
            format!("not reloaded: {summary}; wiki-browser reload --dry-run shows it"),
        ));
    }
    if !script.needs_restart.is_empty() {
        let waits = script.needs_restart.join(", ");
        said.push((Style::Red, format!("needs a restart: {waits}")));
    }
    said
}

fn search_words(index: &Progress) -> String {
    let left = &index.left;
    match index.state.as_ref() {
        "ready" => "up to date".to_owned(),
        "failed" => {
            let problem = index.problem.as_deref().unwrap_or_default();
            format!("not up to date: {}", escape::line(problem))
        }
        _ => format!(
            "{} sources, {} topics and {} messages left to index",
            left.sources, left.topics, left.messages,
        ),
    }
}

/// Returns the number of items, up to one page.
fn count(client: &Client, route: &str, status: &str) -> Result<usize> {
    let limit = PAGE_ROWS_MAX.to_string();
    let page = client.get(&query(route, &[("status", Some(status)), ("limit", Some(&limit))]))?;
    Ok(typed::<Page<Value>>(&page)?.items.len())
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
