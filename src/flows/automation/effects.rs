//! Effects requested by functions of the script: validated like a person's request, and accepted in
//! the caller's transaction.
//!
//! **Invariant:** the script gets nothing that a person could not ask for; what leads from one job
//! to the next without a person ends after `SCRIPT_DEPTH_MAX` jobs, and a handler asks for no more
//! jobs within an hour than `limits.script_jobs`, and sends no more messages.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::base::limit::{PRIORITY_MAX, SCRIPT_DEPTH_MAX, parse_duration};
use crate::base::{
    Actor, Error, ErrorKind, Event, EventKind, JobId, Millis, Result, fault, number, truncate_chars,
};
use crate::documents::proposals::proposal::lineage;
use crate::flows::Site;
use crate::flows::mail::{self, Draft};
use crate::flows::requests::{inputs, multi_topic, new_job, options, without_topic};
use crate::jobs::{self, NewJob, Requested, Tally};
use crate::script::{Effect, Location, MEND};
use crate::store::{self, Tx};

/// Longest message of a failure in an event, in characters.
const MESSAGE_CHARS_MAX: usize = 1_000;
/// Longest quoted text, in characters.
const SHOWN_CHARS_MAX: usize = 80;

/// An effect of a function, before it is written.
pub(in crate::flows) enum Wish {
    /// A job to accept.
    Job {
        /// The job.
        new: Box<NewJob>,
        /// The function and the line of the call.
        by: Origin,
        /// The handler in whose share it counts.
        handler: Option<Arc<str>>,
    },
    /// A message to send.
    Message {
        /// The message.
        draft: Box<Draft>,
        /// The function and the line of the call.
        by: Origin,
        /// The handler in whose share the job that it starts counts.
        handler: Option<Arc<str>>,
    },
    /// A failure to record.
    Failed(Failure),
}

impl Wish {
    /// Returns whether it failed only because the server stops: the next start asks again.
    pub(in crate::flows) fn is_stopped(&self) -> bool {
        matches!(self, Wish::Failed(failure) if failure.is_of_stop) && !fault::is_off("asked_again")
    }
}

/// Whether an effect that is refused temporarily will be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::flows) enum Turn {
    /// It will be retried, so nothing is written.
    More,
    /// It was retried often enough, and is given up.
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

/// The function that failed.
#[derive(Clone, Debug)]
pub(in crate::flows) struct Origin {
    /// `on.job_finished`, `kind.x.retry`, `schedule.y`.
    pub function: String,
    /// The line of the script.
    pub at: Location,
}

/// The reason.
#[derive(Clone, Debug)]
pub(in crate::flows) struct Failure {
    /// Which function.
    pub origin: Origin,
    /// The reason, starting with file and line.
    pub message: String,
    /// What the function was called for: an event's number, a job, a time.
    pub cause: String,
    is_said: bool,
    /// Whether only a stop is the reason.
    is_of_stop: bool,
}

impl Failure {
    /// Returns the reason, starting with file and line.
    pub(in crate::flows) fn new(origin: &Origin, cause: &str, error: &Error) -> Failure {
        let mut message = error.message().to_owned();
        if !message.starts_with(origin.at.file.as_str()) {
            message = format!("{}: {message}", origin.at);
        }
        // The position identifies a failed function.
        let hint = error.hint_str().filter(|it| *it != MEND);
        if let Some(hint) = hint {
            message = format!("{message} ({hint})");
        }
        let message = truncate_chars(&message, MESSAGE_CHARS_MAX);
        let is_of_stop = error.code_str() == store::STOPPING;
        Failure {
            origin: origin.clone(),
            message,
            cause: cause.to_owned(),
            is_said: false,
            is_of_stop,
        }
    }

    /// Marks the failure as already in the server's log.
    pub(in crate::flows) fn said(mut self) -> Failure {
        self.is_said = true;
        self
    }

    /// Writes the failure to the log of events.
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

    /// Logs the failure, unless it is already in the log.
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

/// Returns the name of the function for a sentence.
fn title(function: &str) -> String {
    match function.strip_prefix("on.") {
        Some(event) => format!("a handler of {event}"),
        None => function.to_owned(),
    }
}

/// Returns the name of a handler, with its own place.
pub(in crate::flows) fn handler(function: &str, own: &str) -> Arc<str> {
    format!("{} ({own})", title(function)).into()
}

/// Validates the effects of a function, each separately; `handler` is the one that requests them.
pub(in crate::flows) async fn ready(
    site: &Site,
    effects: Vec<Effect>,
    (by, depth): (&Actor, u32),
    (function, handler): (&str, Option<Arc<str>>),
    cause: &str,
) -> Vec<Wish> {
    let mut wishes = Vec::new();
    for effect in effects {
        let (at, wished) = wish(site, effect, (by, depth), (function, handler.clone())).await;
        let origin = Origin { function: function.to_owned(), at };
        wishes.push(
            wished.unwrap_or_else(|error| Wish::Failed(Failure::new(&origin, cause, &error))),
        );
    }
    wishes
}

/// Makes one effect ready; returns where it was asked for, too.
pub(in crate::flows) async fn wish(
    site: &Site,
    effect: Effect,
    (by, depth): (&Actor, u32),
    (function, handler): (&str, Option<Arc<str>>),
) -> (Location, Result<Wish>) {
    let origin = |at: &Location| Origin { function: function.to_owned(), at: at.clone() };
    match effect {
        Effect::Enqueue { request, at } => {
            let new = job(site, request, by, depth).await;
            let wish = new.map(|new| Wish::Job { new: Box::new(new), by: origin(&at), handler });
            (at, wish)
        }
        Effect::Send { message, at } => {
            let draft = message_of(site, message, by, depth);
            let wish = draft.map(|draft| Wish::Message {
                draft: Box::new(draft),
                by: origin(&at),
                handler,
            });
            (at, wish)
        }
    }
}

/// Makes a message of a request of the script.
fn message_of(site: &Site, request: Map<String, Value>, by: &Actor, depth: u32) -> Result<Draft> {
    let request = serde_json::from_value(Value::Object(request))
        .map_err(|cause| Error::invalid(format!("wb.send: {cause}")))?;
    Ok(mail::draft(site, by.clone(), request)?.at_depth(depth))
}

/// Turns a request of the script into a job.
///
/// # Errors
/// As asking for a job; `conflict` with code `script_depth`.
pub(in crate::flows) async fn job(
    site: &Site,
    mut request: Map<String, Value>,
    by: &Actor,
    depth: u32,
) -> Result<NewJob> {
    if depth > SCRIPT_DEPTH_MAX && !fault::is_off("script_depth") {
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
    let replaces = match request.remove("replace_proposals") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(replaces)) => replaces,
        Some(_) => return Err(Error::invalid("`replace_proposals` must be true or false")),
    };
    site.freshness.catch_up(&site.repo).await?;
    let checked = inputs::check(site, kind, &request).await?;
    new_job::refuse_unready_sources(site, kind, &checked).await?;
    if !replaces {
        multi_topic::refuse_proposed(site, checked.topic_id.as_ref(), &checked.values).await?;
    }
    let mut new = new_job::new_job(site, kind, checked, by.clone()).await?;
    if let Some(priority) = priority {
        let number = number::whole(&priority).filter(|it| it.abs() <= PRIORITY_MAX);
        new.priority = number.ok_or_else(|| {
            let most = format!("-{PRIORITY_MAX} to {PRIORITY_MAX}");
            Error::invalid(format!("`priority` must be a whole number from {most}"))
        })?;
    }
    new.not_before = not_before.map(|it| time(site, &it)).transpose()?;
    new.depth = depth;
    Ok(new)
}

/// Parses `"10m"` or `"2026-01-02T03:04:05Z"`.
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

/// Accepts valid effects and records failures; returns the failures.
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

/// Like [`write()`], but without an event in the log; returns the accepted effects and the
/// failures.
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
        let by = match wish {
            Wish::Job { by, .. } | Wish::Message { by, .. } => by,
            Wish::Failed(failure) => {
                failures.push(failure.clone());
                continue;
            }
        };
        match shared(tx, site, wish, &mut tally) {
            Ok(id) => accepted.extend(id),
            Err(error) if is_refusal(&error) => {
                let mut failure = Failure::new(by, cause, &error);
                match turn {
                    Turn::More if is_momentary(&error) => return Err(error),
                    Turn::Last(times) if times > 1 && is_momentary(&error) => {
                        failure.message += &format!("; it was requested {times} times");
                    }
                    _ => {}
                }
                failures.push(failure);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Outcome { accepted, failures, tally })
}

/// Accepts one wish; what a handler requests, only within its share.
fn shared(tx: &Tx<'_>, site: &Site, wish: &Wish, tally: &mut Tally) -> Result<Option<JobId>> {
    let most = (site.config.limits.script_jobs, tx.now());
    let (handler, is_message) = match wish {
        Wish::Job { handler: Some(handler), .. } => (handler, false),
        Wish::Message { handler: Some(handler), .. } => (handler, true),
        _ => return grant(tx, site, wish),
    };
    let starts_job = match wish {
        Wish::Message { draft, .. } => draft.starts_job(),
        _ => true,
    };
    let shares = site.shares();
    if is_message {
        shares.require(tally, (handler, Requested::Messages), most)?;
    }
    if starts_job {
        shares.require(tally, (handler, Requested::Jobs), most)?;
    }
    let accepted = grant(tx, site, wish)?;
    if is_message {
        tally.accept(handler, Requested::Messages);
    }
    if accepted.is_some() {
        tally.accept(handler, Requested::Jobs);
    }
    Ok(accepted)
}

/// Accepts one wish; returns the job that it starts.
///
/// # Errors
/// As accepting a job or sending a message; nothing was written then.
pub(in crate::flows) fn grant(tx: &Tx<'_>, site: &Site, wish: &Wish) -> Result<Option<JobId>> {
    match wish {
        Wish::Job { new, .. } => accept(tx, site, new),
        Wish::Message { draft, .. } => {
            mail::send_of_script(tx, site, draft).map(|sent| sent.job_id)
        }
        Wish::Failed(_) => Ok(None),
    }
}

/// Accepts one job; `None` if it retries one that has been retried in the meantime.
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

/// Returns whether an error is a refusal, as opposed to a failure of the database.
pub(in crate::flows) fn is_refusal(error: &Error) -> bool {
    use ErrorKind::{Busy, Conflict, Invalid, NotFound, TooLarge};
    matches!(error.kind(), Invalid | Conflict | Busy | NotFound | TooLarge)
}

/// Returns whether a retry may succeed: waiting jobs will start. A daily cap does not change so
/// soon.
pub(in crate::flows) fn is_momentary(error: &Error) -> bool {
    error.code_str() == jobs::QUEUE_FULL && !fault::is_off("handler_again")
}
