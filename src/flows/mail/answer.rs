//! Waiting for the answer of a message: `wiki-browser mail wait`.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::mail::{AwaitQuery, AwaitState, Awaited, Sort, hint_of_unconfirmed};
use crate::base::{Address, ErrorKind, EventKind, MailId, Millis, Result};
use crate::flows::approvals::show::asks;
use crate::flows::mail::reply::failure_of;
use crate::flows::mail::show::require_visible;
use crate::flows::{Site, agents, instances};
use crate::jobs::{self, Outlook, Status};
use crate::mail::{self, Delivery};
use crate::people::Caller;
use crate::script::Config;
use crate::store::StoredEvent;

/// Longest wait of one request.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(55);

/// Returns the answer of a message; waits for it as long as is asked, or until something else keeps
/// it from coming.
///
/// # Errors
/// `not_found` for a message that is not there, or that is between others.
pub async fn wait(
    site: &Site,
    caller: &Caller,
    (id, query): (&MailId, &AwaitQuery),
    stop: &CancellationToken,
) -> Result<Awaited> {
    let longest = Duration::from_secs(query.timeout.unwrap_or(0)).min(WAIT_MAX);
    let until = Instant::now() + longest;
    // Heard before it is looked: what is said in between is not missed.
    let mut heard = site.store.subscribe();
    let first = look(site, caller, id).await?;
    let known = first.waiting.clone();
    let mut found = first;
    loop {
        let is_news = found.waiting.is_some() && found.waiting != known;
        let is_over = found.state != AwaitState::Pending || is_news;
        if is_over || !hears_of_mail(&mut heard, until, stop).await {
            return Ok(found);
        }
        found = look(site, caller, id).await?;
    }
}

/// Returns the answer to a message, if it has arrived.
///
/// # Errors
/// As [`wait`].
pub async fn look(site: &Site, caller: &Caller, id: &MailId) -> Result<Awaited> {
    require_visible(site, caller, id).await?;
    let asked = id.clone();
    let caller = caller.clone();
    let (config, now) = (site.works.now().config, site.store.clock().now());
    site.store
        .read(move |c| {
            let mut found = awaited(c, &asked)?;
            // What keeps an agent, and what its program printed, is for people.
            if found.state == AwaitState::Pending && !caller.is_job() {
                found.waiting = why_pending(c, (&config, now), &asked)?;
            }
            // Only people resend and settle.
            found.hint = found.hint.filter(|_| !caller.is_job());
            let own = instances::address_of(c, &caller.actor())?;
            let answer = mail::answer_of(c, &asked)?;
            let is_own = |it: &mail::Message| own.as_ref() == Some(&it.to);
            // What was written to a person is that person's, wherever it is asked for.
            let is_private = |it: &mail::Message| matches!(it.to, Address::Person(_));
            if answer.as_ref().is_some_and(|it| is_private(it) && !is_own(it)) {
                (found.reply, found.failure) = (None, None);
            }
            found.answer_id = answer.filter(is_own).map(|it| it.id);
            Ok(found)
        })
        .await
}

/// Returns why no answer can arrive yet, if a person could do something about it.
fn why_pending(
    c: &Connection,
    (config, now): (&Config, Millis),
    id: &MailId,
) -> Result<Option<String>> {
    if let Address::Agent(name) = mail::find(c, id)?.to {
        let asked = match agents::last_start_of(c, &name)? {
            Some(job) => asks(c, &job)?,
            None => None,
        };
        return match asked {
            Some(asks) => Ok(Some(format!("agent:{name} {}", asks.message))),
            None => agents::why_waiting(c, (config, now), (name.as_str(), true)),
        };
    }
    let Some(job) = jobs::last_of_message(c, id)? else { return Ok(None) };
    let job = jobs::find_brief(c, &jobs::Viewer::Program, &job)?;
    if job.status != Status::Queued {
        return Ok(asks(c, job.root())?.map(|it| format!("the instance {}", it.message)));
    }
    let waiting = Outlook::load(c, &jobs::Viewer::Site, config, now)?.why(c, &job)?;
    // What comes by itself within moments is nothing to tell.
    Ok(waiting.filter(|it| it.code != "turn").map(|it| it.message))
}

/// Sleeps until a message, a job or an agent has changed; returns false when the time is over or
/// the server stops.
pub(super) async fn hears_of_mail(
    heard: &mut Receiver<Arc<StoredEvent>>,
    until: Instant,
    stop: &CancellationToken,
) -> bool {
    loop {
        let event = tokio::select! {
            event = heard.recv() => event,
            () = tokio::time::sleep_until(until) => return false,
            () = stop.cancelled() => return false,
        };
        match event {
            Ok(event) => match event.kind {
                EventKind::MessageSent
                | EventKind::JobFinished
                | EventKind::AgentChanged
                | EventKind::ApprovalCreated => return true,
                _ => {}
            },
            // A missed event may have been the one.
            Err(RecvError::Lagged(_)) => return true,
            Err(RecvError::Closed) => return false,
        }
    }
}

fn awaited(c: &Connection, id: &MailId) -> Result<Awaited> {
    let job = jobs::last_of_message(c, id)?
        .map(|job| jobs::find(c, &jobs::Viewer::Program, &job))
        .transpose()?;
    let answer = mail::answer_of(c, id)?;
    let mut found = Awaited {
        message_id: id.clone(),
        state: AwaitState::Pending,
        reply: None,
        failure: None,
        hint: None,
        answer_id: None,
        job_id: job.as_ref().map(|it| it.id.clone()),
        job_status: job.as_ref().map(|it| it.status.to_string()),
        approval_id: job
            .as_ref()
            .filter(|it| it.status == Status::Parked)
            .and_then(|it| it.waits_for.clone()),
        waiting: None,
    };
    match (answer, job) {
        (Some(answer), _) if answer.sort == Sort::Reply => {
            found.state = AwaitState::Replied;
            found.reply = Some(answer.payload);
        }
        // A job that is repeated after a failure was told may still answer.
        (_, Some(job)) if !job.status.is_final() => {}
        (Some(answer), _) => {
            found.state = AwaitState::Failed;
            let told = answer.payload["error"]["message"].as_str();
            found.failure = Some(told.unwrap_or("it failed").to_owned());
        }
        // Of a message without an address to answer to.
        (None, Some(job)) if job.status == Status::Succeeded => {
            found.state = AwaitState::Replied;
            found.reply = Some(job.result.unwrap_or_default());
        }
        (None, Some(job)) => {
            found.state = AwaitState::Failed;
            found.failure = Some(failure_of(c, &job)?);
        }
        // A message to an instance or a person: nobody promised an answer, but it may be lost.
        (None, None) => {
            if let Some(delivery) = lost(c, id)? {
                found.state = AwaitState::Failed;
                let job = delivery.job_id.as_ref();
                let job = job.map(|id| jobs::find_brief(c, &jobs::Viewer::Program, id));
                let told = job.transpose()?.and_then(|it| agents::how_it_ended(&it));
                found.failure = told.or(delivery.reason.as_deref().map(why_lost));
                let is_open = delivery.state == "unconfirmed";
                let to = mail::find(c, id)?.to;
                found.hint = is_open.then(|| hint_of_unconfirmed(id, &to));
            } else if let Some(why) = silent_end(c, id)? {
                found.state = AwaitState::Failed;
                found.failure = Some(why);
            }
        }
    }
    Ok(found)
}

/// Returns a delivery of a message that was lost, as far as anybody knows.
fn lost(c: &Connection, id: &MailId) -> Result<Option<Delivery>> {
    let all = mail::of_message(c, id)?;
    // What was sent again has a later delivery, which counts.
    let is_last = |seq: i64, to: &Address| !all.iter().any(|it| it.seq > seq && it.to == *to);
    let lost = all.iter().find(|it| {
        // What an agent never showed to have is answered by nobody.
        let is_agent = matches!(it.to, Address::Agent(_));
        let is_lost = matches!(it.state.as_str(), "dropped" | "expired")
            || (is_agent && it.state == "unconfirmed");
        is_lost && is_last(it.seq, &it.to)
    });
    Ok(lost.cloned())
}

/// Returns why a delivery was lost, in words.
fn why_lost(reason: &str) -> String {
    match reason {
        "no_proof" => "nothing shows that the message arrived (no_proof)".to_owned(),
        _ => reason.to_owned(),
    }
}

/// Returns that the instance to which a message went has ended: it answers no more.
fn silent_end(c: &Connection, id: &MailId) -> Result<Option<String>> {
    let to = mail::find(c, id)?.to;
    let Address::Instance { job, .. } = &to else { return Ok(None) };
    let has_ended = match jobs::last_leg(c, &job.parse()?) {
        Ok(last) => last.status.is_final(),
        // Its rows are deleted after a while.
        Err(cause) if cause.kind() == ErrorKind::NotFound => true,
        Err(cause) => return Err(cause),
    };
    Ok(has_ended.then(|| format!("{to} has ended without an answer to it")))
}
