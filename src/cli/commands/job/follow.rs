//! Following a job until it ends, even across a restart of the server.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::api::jobs::{AlsoOpen, LogText};
use crate::base::{Error, ErrorKind, Result};
use crate::cli::commands::job::changes;
use crate::cli::commands::job::log::log_route;
use crate::cli::commands::job::transcript::{self, Transcript};
use crate::cli::commands::site::Absence;
use crate::cli::commands::{Desk, plain};
use crate::cli::terminal::screen::{Form, Style, typed};
use crate::cli::terminal::{escape, table, when};
use crate::client::{CONNECTION_LOST, Client, Events, Next};
use crate::flows::jobs::JobView;
use crate::jobs::{Job, Reason, Status};

/// Interval of looks while the agent's output or a line of progress is shown.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of looks without an event, because events alone are not relied upon.
const FALLBACK_INTERVAL: Duration = Duration::from_secs(15);
/// Most parts of the output printed per look.
const LOG_PIECES_MAX: usize = 64;

/// Most lines of an agent's last words.
const LAST_WORDS_MAX: usize = 5;

/// What to follow.
#[derive(Debug)]
pub(in crate::cli::commands) struct Follow {
    /// The job.
    pub(in crate::cli::commands) id: String,
    /// What to print of its agent.
    pub(in crate::cli::commands) show: Show,
}

/// What to print of an agent while it works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli::commands) enum Show {
    /// Nothing.
    Nothing,
    /// Its transcript, if its engine records one.
    Steps,
    /// The same; otherwise its output.
    Log,
    /// Its raw output.
    Raw,
}

impl Show {
    /// Returns the choice made by a command's options.
    pub(in crate::cli::commands) fn of(otherwise: Show, log: bool, raw: bool) -> Show {
        match (log, raw) {
            (_, true) => Show::Raw,
            (true, false) => Show::Log,
            (false, false) => otherwise,
        }
    }

    fn is_output(self) -> bool {
        matches!(self, Show::Log | Show::Raw)
    }
}

/// What has been printed so far.
struct Watch<'d> {
    desk: &'d Desk,
    client: &'d Client,
    follow: &'d Follow,
    status: Option<Status>,
    offsets: [(&'static str, u64); 2],
    transcript: Transcript,
    has_progress_line: bool,
    shows_progress: bool,
    absence: Absence,
}

/// Lists other open work on the Source, if there is any.
pub(in crate::cli::commands) fn note_open(desk: &Desk, open: &AlsoOpen) {
    let say = |count: i64, noun: &str| match count {
        1 => format!("1 other {noun}"),
        count => format!("{count} other {noun}s"),
    };
    let proposals = i64::try_from(open.proposal_count).unwrap_or(i64::MAX);
    let counts = [(open.topic_count, "topic"), (proposals, "proposal")];
    let open: Vec<String> = counts.iter().filter(|it| it.0 > 0).map(|it| say(it.0, it.1)).collect();
    if !open.is_empty() {
        desk.screen.note(&format!("open on this source: {}", open.join(", ")));
    }
}

/// Follows a job and returns the exit code: 0 if it succeeded, 1 otherwise.
///
/// # Errors
/// What the server refuses, and that it stays away.
pub(in crate::cli::commands) fn run(desk: &Desk, client: &Client, follow: &Follow) -> Result<u8> {
    let shows_progress = std::io::stderr().is_terminal();
    let mut watch = Watch {
        desk,
        client,
        follow,
        status: None,
        offsets: [("stdout", 0), ("stderr", 0)],
        transcript: Transcript::default(),
        has_progress_line: false,
        shows_progress,
        absence: Absence::default(),
    };
    let mut events = client.events(None);
    // The stream is connected before the first look, so that no change is missed.
    watch.wait_or_pause(&mut events)?;
    loop {
        match watch.look() {
            Ok(Some(job)) => return watch.end(&job),
            Ok(None) => {}
            Err(cause) if is_absence(&cause) => watch.goes_on_without(cause)?,
            Err(cause) => return Err(cause),
        }
        watch.wait_or_pause(&mut events)?;
    }
}

/// Returns the last words of the agent of a job that did not succeed.
fn last_words(job: &Job) -> Vec<&str> {
    let tail = job.error_tail.as_deref().unwrap_or_default();
    let mut words: Vec<&str> = tail.lines().filter(|it| !it.trim().is_empty()).collect();
    let said = job.summary.as_deref().and_then(|it| it.lines().next()).unwrap_or_default();
    if !words.contains(&said) && !said.is_empty() {
        words.push(said);
    }
    words.split_off(words.len().saturating_sub(LAST_WORDS_MAX))
}

/// Whether the server may come back: absent, disconnected, or not ready yet.
fn is_absence(cause: &Error) -> bool {
    cause.kind() == ErrorKind::Unavailable
}

impl Watch<'_> {
    /// Looks at the job and prints what is new; returns it if it has ended.
    fn look(&mut self) -> Result<Option<Value>> {
        let answer = self.client.look(&format!("/api/agent/jobs/{}", self.follow.id))?;
        let view: JobView = typed(&answer)?;
        let was_away = self.absence.is_on();
        if was_away {
            self.clear();
        }
        // Before anything new is printed: the server is back.
        self.absence.end(self.desk);
        let status = view.job.status;
        let has_ended = status.is_final();
        if self.status != Some(status) {
            self.clear();
            // It may have started and ended between two looks, or while the server was away.
            let was_running = self.status == Some(Status::Running);
            if has_ended && !was_running && view.job.started_at.is_some() {
                self.say_state(Status::Running, &view);
            }
            self.status = Some(status);
            self.say_state(status, &view);
        }
        self.print_new(&answer)?;
        if !has_ended {
            self.progress(&view);
        } else if was_away {
            self.clear();
            self.say_when_it_ended(&view);
        }
        Ok(has_ended.then_some(answer))
    }

    fn say_state(&self, status: Status, view: &JobView) {
        if *self.desk.screen.form() != Form::Words {
            return;
        }
        let (state, id) = (self.desk.screen.state(status.as_str()), &view.job.id);
        let why = match (status, &view.waiting) {
            (Status::Queued, Some(it)) if it.code != "turn" => {
                format!(": {}", escape::line(&it.message))
            }
            _ => String::new(),
        };
        self.desk.screen.note(&format!("job {id} {state}{why}"));
    }

    /// Reports that the server was away, so what follows happened earlier.
    fn say_when_it_ended(&self, view: &JobView) {
        let how = match view.job.reason {
            Some(Reason::ServerRestarted) => "the job was settled when the server restarted",
            _ => "the job ended while the server was away",
        };
        self.desk.screen.note(how);
    }

    /// Records that the server is away.
    fn goes_on_without(&mut self, cause: Error) -> Result<()> {
        self.clear();
        self.absence.goes_on(self.desk, cause)
    }

    /// Waits for an event. The next look notices a server that was never there.
    fn wait_or_pause(&mut self, events: &mut Events<'_>) -> Result<()> {
        match self.wait(events) {
            Err(cause) if is_absence(&cause) => {
                std::thread::sleep(LOOK_INTERVAL);
                Ok(())
            }
            done => done,
        }
    }

    fn wait(&mut self, events: &mut Events<'_>) -> Result<()> {
        let subject = format!("job:{}", self.follow.id);
        let often = self.follow.show != Show::Nothing || self.shows_progress;
        let interval = if often { LOOK_INTERVAL } else { FALLBACK_INTERVAL };
        let deadline = Instant::now() + interval;
        let mut is_broken = false;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match events.next(left)? {
                Next::Event(event) if !event.is_about(&subject) => {
                    if left.is_zero() {
                        return Ok(());
                    }
                }
                // Only the stream may have ended: the next connection shows whether there is a
                // server.
                Next::Lost(cause) if cause.code_str() == CONNECTION_LOST && !is_broken => {
                    is_broken = true;
                }
                // Reported now, because the next look waits for a server that was there before.
                Next::Lost(cause) if self.absence.was_there() => {
                    return self.goes_on_without(cause);
                }
                _ => return Ok(()),
            }
        }
    }

    fn print_new(&mut self, job: &Value) -> Result<()> {
        let is_for_person = *self.desk.screen.form() == Form::Words;
        match self.follow.show {
            Show::Nothing => Ok(()),
            Show::Steps if !is_for_person || !transcript::has_steps(job) => Ok(()),
            Show::Log if !transcript::has_steps(job) => self.print_output(),
            Show::Steps | Show::Log => self.print_steps(),
            Show::Raw => self.print_output(),
        }
    }

    fn print_steps(&mut self) -> Result<()> {
        let (screen, id) = (&self.desk.screen, &self.follow.id);
        while let Some((lines, _)) = self.transcript.next(screen, self.client, id)? {
            self.clear();
            lines.iter().for_each(|it| self.desk.screen.note(it));
        }
        Ok(())
    }

    fn print_output(&mut self) -> Result<()> {
        let mut pieces = Vec::new();
        for (stream, offset) in &mut self.offsets {
            for _ in 0..LOG_PIECES_MAX {
                let page = self.client.look(&log_route(&self.follow.id, stream, *offset));
                let page = match page {
                    Ok(page) => page,
                    // A job that has not started has no output yet.
                    Err(cause) if cause.kind() == ErrorKind::NotFound => break,
                    Err(cause) => return Err(cause),
                };
                let page: LogText = typed(&page)?;
                if page.next_offset <= *offset {
                    break;
                }
                if page.offset > *offset {
                    pieces.push(format!("[{} bytes not kept]\n", page.offset - *offset));
                }
                *offset = page.next_offset;
                pieces.push(page.text);
            }
        }
        if pieces.is_empty() {
            return Ok(());
        }
        self.clear();
        // Output goes to standard error: standard output is for the job itself (`--json`).
        for piece in &pieces {
            let mut err = std::io::stderr().lock();
            // If standard error is closed, nobody can be told.
            let _ = write!(err, "{}", escape::block(piece));
        }
        Ok(())
    }

    /// Rewrites the line of progress.
    fn progress(&mut self, view: &JobView) {
        if !self.shows_progress || self.follow.show.is_output() {
            return;
        }
        let since = view.job.started_at.unwrap_or(view.job.created_at);
        let elapsed = when::span(self.desk.now().0 - since.0);
        let status = view.job.status;
        let limit = view.timeout_ms.filter(|_| status == Status::Running);
        let limit = limit.and_then(|it| i64::try_from(it).ok());
        let limit = limit.map_or_else(String::new, |ms| format!(" of {}", when::span(ms)));
        let words = format!("{status} {elapsed}{limit}");
        let words = table::cut(&words, self.desk.screen.width().unwrap_or(80).saturating_sub(1));
        let words = self.desk.screen.paint(Style::Dim, &words);
        let mut err = std::io::stderr().lock();
        // If standard error is closed, nobody can be told.
        let _ = write!(err, "\r\x1b[K{words}").and_then(|()| err.flush());
        self.has_progress_line = true;
    }

    /// Clears the line of progress.
    fn clear(&mut self) {
        if std::mem::take(&mut self.has_progress_line) {
            let mut err = std::io::stderr().lock();
            // If standard error is closed, nobody can be told.
            let _ = write!(err, "\r\x1b[K").and_then(|()| err.flush());
        }
    }

    fn end(&mut self, answer: &Value) -> Result<u8> {
        self.clear();
        let view: JobView = typed(answer)?;
        self.desk.screen.answer(answer, |screen, answer| {
            if self.follow.show != Show::Nothing {
                transcript::spent(answer).iter().for_each(|it| screen.note(it));
            }
            let message = plain(view.message.as_ref());
            if !message.is_empty() {
                screen.note(&message);
                for words in last_words(&view.job) {
                    screen.note(&format!("  {}", escape::line(words)));
                }
            }
            changes::note(screen, &view);
            // For scripts, the id of a proposal matters; the proposal of a job that failed is void.
            match view.proposal_id.as_ref().filter(|_| view.job.status == Status::Succeeded) {
                Some(proposal) => screen.put(proposal.as_str()),
                None => Ok(()),
            }
        })?;
        Ok(u8::from(view.job.status != Status::Succeeded))
    }
}
