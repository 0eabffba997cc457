//! What functions of the script want done, made ready: validated like a request of a person, and
//! accepted in the transaction of whoever asked the function.
//!
//! **Invariant:** the script gets nothing that a person could not ask for; what leads from one job
//! to the next without a person ends after `SCRIPT_DEPTH_MAX` jobs, and a handler asks for no more
//! jobs within an hour than `limits.script_jobs`.

use std::sync::Arc;

use rusqlite::Connection;
use serde_json::{Map, Value, json};

use crate::base::limit::{PRIORITY_MAX, SCRIPT_DEPTH_MAX, parse_duration};
use crate::base::{
    Actor, Error, ErrorKind, Event, EventKind, JobId, Millis, Result, truncate_chars,
};
use crate::documents::proposals::proposal::lineage;
use crate::flows::Site;
use crate::flows::requests::{inputs, multi_topic, new_job, options, without_topic};
use crate::jobs::{self, NewJob, Tally};
use crate::script::{Effect, Location, MEND};
use crate::store::{StoredEvent, Tx};

/// Longest message of a failure that an event holds, in characters.
const MESSAGE_CHARS_MAX: usize = 1_000;
/// Longest part of a text that is shown, in characters.
const SHOWN_CHARS_MAX: usize = 80;

/// What a function has led to, before it is written.
pub(in crate::flows) enum Wish {
    /// A job to accept.
    Job {
        /// The job.
        new: Box<NewJob>,
        /// The function, and where it asked.
        by: Origin,
        /// The handler among whose share it counts.
        handler: Option<Arc<str>>,
    },
    /// A failure to write down.
    Failed(Failure),
}

/// Whether what is refused for a moment will be asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::flows) enum Turn {
    /// It will: nothing is written then.
    More,
    /// It was asked for so many times, and is given up.
    Last(usize),
}

/// What came of wishes.
pub(in crate::flows) struct Outcome {
    /// The jobs that were accepted.
    pub accepted: Vec<JobId>,
    /// What failed.
    pub failures: Vec<Failure>,
    /// What counts among the shares of handlers once it is committed.
    pub tally: Tally,
}

/// Which function it was.
#[derive(Clone, Debug)]
pub(in crate::flows) struct Origin {
    /// `on.job_finished`, `kind.x.retry`, `schedule.y`.
    pub function: String,
    /// The line that counts.
    pub at: Location,
}

/// Why nothing came of it.
#[derive(Clone, Debug)]
pub(in crate::flows) struct Failure {
    /// Which function.
    pub origin: Origin,
    /// Why, beginning with file and line.
    pub message: String,
    /// What the function was called for: an event's number, a job, a time.
    pub cause: String,
    is_said: bool,
}

impl Failure {
    /// Returns why nothing came of it, beginning with file and line.
    pub(in crate::flows) fn new(origin: &Origin, cause: &str, error: &Error) -> Failure {
        let mut message = error.message().to_owned();
        if !message.starts_with(origin.at.file.as_str()) {
            message = format!("{}: {message}", origin.at);
        }
        // Of a function that fails the place says it all.
        let hint = error.hint_str().filter(|it| *it != MEND);
        if let Some(hint) = hint {
            message = format!("{message} ({hint})");
        }
        let message = truncate_chars(&message, MESSAGE_CHARS_MAX);
        Failure { origin: origin.clone(), message, cause: cause.to_owned(), is_said: false }
    }

    /// Marks it as one that stands in the server's log already.
    pub(in crate::flows) fn said(mut self) -> Failure {
        self.is_said = true;
        self
    }

    /// Writes it into the log of events.
    pub(in crate::flows) fn write(&self, tx: &Tx<'_>) -> Result<()> {
        let Origin { function, at } = &self.origin;
        tx.emit(Event::new(
            EventKind::ScriptFailed,
            "script".to_owned(),
            Actor::Script,
            json!({
                "function": function, "at": at.to_string(), "message": self.message,
                "cause": self.cause,
            }),
        ))
    }

    /// Says it in the log, if it was not said yet.
    pub(in crate::flows) fn log(&self) {
        if self.is_said {
            return;
        }
        let Origin { function, at } = &self.origin;
        tracing::warn!(
            file = at.file.as_str(),
            line = at.line,
            "{} at {at} failed for {}: {}",
            title(function),
            self.cause,
            self.message
        );
    }
}

/// Returns what a function is called in a sentence.
fn title(function: &str) -> String {
    match function.strip_prefix("on.") {
        Some(event) => format!("a handler of {event}"),
        None => function.to_owned(),
    }
}

/// Returns what a handler is called among its like.
pub(in crate::flows) fn handler(function: &str, at: &Location) -> Arc<str> {
    format!("{} ({}:{})", title(function), at.file, at.line).into()
}

/// Makes what a function wants ready, each effect on its own; `handler` is the one that wants it.
pub(in crate::flows) async fn ready(
    site: &Site,
    effects: Vec<Effect>,
    (by, depth): (&Actor, u32),
    (function, handler): (&str, Option<Arc<str>>),
    cause: &str,
) -> Vec<Wish> {
    let mut wishes = Vec::new();
    for effect in effects {
        let Effect::Enqueue { request, at } = effect;
        let origin = Origin { function: function.to_owned(), at };
        wishes.push(match job(site, request, by, depth).await {
            Ok(new) => Wish::Job { new: Box::new(new), by: origin, handler: handler.clone() },
            Err(error) => Wish::Failed(Failure::new(&origin, cause, &error)),
        });
    }
    wishes
}

/// Makes a job of a request of the script.
///
/// # Errors
/// As asking for a job; `conflict` with code `script_depth`.
pub(in crate::flows) async fn job(
    site: &Site,
    mut request: Map<String, Value>,
    by: &Actor,
    depth: u32,
) -> Result<NewJob> {
    if depth > SCRIPT_DEPTH_MAX && !crate::base::fault::is_off("script_depth") {
        let message = format!("{SCRIPT_DEPTH_MAX} jobs of the script led to one another already");
        return Err(Error::conflict("script_depth", message)
            .hint("a handler must not trigger itself through the jobs it enqueues"));
    }
    let name = match request.remove("kind") {
        Some(Value::String(name)) => name,
        _ => return Err(Error::invalid("a job needs `kind`, the name of a kind")),
    };
    let kind = inputs::asked_kind(site, &name)?;
    let priority = request.remove("priority");
    let not_before = request.remove("not_before");
    let replaces = request.remove("replace_proposals") == Some(Value::Bool(true));
    let checked = inputs::check(site, kind, &request).await?;
    new_job::refuse_unready_sources(site, kind, &checked).await?;
    if !replaces {
        multi_topic::refuse_proposed(site, checked.topic_id.as_ref(), &checked.values).await?;
    }
    let mut new = new_job::new_job(site, kind, checked, by.clone()).await?;
    if let Some(priority) = priority {
        let number = priority.as_i64().filter(|it| it.abs() <= PRIORITY_MAX);
        new.priority = number.ok_or_else(|| {
            let most = format!("-{PRIORITY_MAX} to {PRIORITY_MAX}");
            Error::invalid(format!("`priority` must be a whole number from {most}"))
        })?;
    }
    new.not_before = not_before.map(|it| time(site, &it)).transpose()?;
    new.depth = depth;
    Ok(new)
}

/// Reads `"10m"` or `"2026-01-02T03:04:05Z"`.
pub(in crate::flows) fn time(site: &Site, value: &Value) -> Result<Millis> {
    let text = value.as_str().ok_or_else(|| {
        Error::invalid("`not_before` must be a duration like \"10m\", or a time with its zone")
    })?;
    match parse_duration(text) {
        Ok(wait) => {
            let ms = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
            Ok(site.store.clock().now().plus(ms))
        }
        Err(_) => options::parse_time(text).map_err(|cause| {
            let shown = truncate_chars(text, SHOWN_CHARS_MAX);
            let message = format!("`{}` is neither a duration nor a time", shown.escape_debug());
            Error::invalid(message)
                .code(cause.code_str().to_owned())
                .hint("use \"10m\", or a time with a zone such as 2026-01-02T03:04:05Z")
        }),
    }
}

/// Accepts what is ready, and writes down what failed.
///
/// A job that is refused now is a failure of its own: the others are accepted all the same. What
/// failed for a job stands among its warnings, too.
pub(in crate::flows) fn write(
    tx: &Tx<'_>,
    site: &Site,
    wishes: &[Wish],
    (cause, job): (&str, Option<&JobId>),
    turn: Turn,
) -> Result<Outcome> {
    let outcome = accept_all(tx, site, wishes, cause, turn)?;
    for failure in &outcome.failures {
        failure.write(tx)?;
        if let Some(job) = job {
            let warning = format!("{}: {}", failure.origin.function, failure.message);
            jobs::warn(tx, job, &warning)?;
        }
    }
    Ok(outcome)
}

/// The same without a word in the log of events.
///
/// # Errors
/// `busy` for what is refused for a moment, if another turn comes.
pub(in crate::flows) fn accept_all(
    tx: &Tx<'_>,
    site: &Site,
    wishes: &[Wish],
    cause: &str,
    turn: Turn,
) -> Result<Outcome> {
    let (mut accepted, mut failures, mut tally) = (Vec::new(), Vec::new(), Tally::default());
    for wish in wishes {
        match wish {
            Wish::Job { new, by, handler } => match shared(tx, site, (new, handler), &mut tally) {
                Ok(id) => accepted.extend(id),
                Err(error) if is_refusal(&error) => {
                    let mut failure = Failure::new(by, cause, &error);
                    match turn {
                        Turn::More if is_momentary(&error) => return Err(error),
                        Turn::Last(times) if times > 1 && is_momentary(&error) => {
                            failure.message += &format!("; it was asked for {times} times");
                        }
                        _ => {}
                    }
                    failures.push(failure);
                }
                Err(error) => return Err(error),
            },
            Wish::Failed(failure) => failures.push(failure.clone()),
        }
    }
    Ok(Outcome { accepted, failures, tally })
}

/// Accepts one job within the share of its handler.
fn shared(
    tx: &Tx<'_>,
    site: &Site,
    (new, handler): (&NewJob, &Option<Arc<str>>),
    tally: &mut Tally,
) -> Result<Option<JobId>> {
    let Some(handler) = handler else { return accept(tx, site, new) };
    site.shares().require(tally, handler, (site.config.limits.script_jobs, tx.now()))?;
    let accepted = accept(tx, site, new)?;
    if accepted.is_some() {
        tally.accept(handler);
    }
    Ok(accepted)
}

/// Accepts one job; nothing if it would repeat one that somebody has repeated meanwhile.
///
/// # Errors
/// As accepting a job.
pub(in crate::flows) fn accept(tx: &Tx<'_>, site: &Site, new: &NewJob) -> Result<Option<JobId>> {
    if let Some(old) = &new.retry_of
        && jobs::is_repeated(tx.connection(), old)?
    {
        return Ok(None);
    }
    site.queue.admit(tx, new)?;
    let id = jobs::enqueue(tx, &site.ids, &site.queue.capacities(), new)?;
    if let Some(old) = &new.retry_of {
        lineage::repeat_rework(tx, &id, old)?;
        without_topic::reopen(tx, old, new)?;
    }
    Ok(Some(id))
}

/// What says no before anything is written; the rest is a fault of the database.
pub(in crate::flows) fn is_refusal(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Conflict | ErrorKind::Busy)
}

/// What may be accepted in a moment: jobs that wait come to their turn. A daily cap does not.
pub(in crate::flows) fn is_momentary(error: &Error) -> bool {
    error.code_str() == jobs::QUEUE_FULL && !crate::base::fault::is_off("handler_again")
}

/// Returns how deep a job would be that is asked for because of an event: one deeper than the job
/// that the event tells of or was done by. What a person does begins anew.
pub(in crate::flows) fn depth_after(c: &Connection, event: &StoredEvent) -> Result<u32> {
    let of_subject = event.subject.strip_prefix("job:").map(str::to_owned);
    let named = event.data["job_id"].as_str().map(str::to_owned);
    let by = event.actor.strip_prefix("job:").map(str::to_owned);
    let jobs = [of_subject, named, by].into_iter().flatten().filter_map(|it| it.parse().ok());
    let mut depth = 0;
    for id in jobs {
        let id: JobId = id;
        depth = depth.max(jobs::depth_of(c, &id)? + 1);
    }
    Ok(depth.max(1))
}
