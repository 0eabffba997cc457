//! Waiting for the answer of a message: `wiki-browser mail wait`.

use std::time::Duration;

use rusqlite::Connection;
use tokio::time::Instant;

use crate::api::mail::{AwaitQuery, AwaitState, Awaited, Sort};
use crate::base::{MailId, Result};
use crate::flows::Site;
use crate::flows::mail::reply::failure_of;
use crate::flows::mail::show::require_visible;
use crate::jobs::{self, Status};
use crate::mail;
use crate::people::Caller;

/// Longest wait of one request.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(55);

/// Returns the answer of a message; waits for it as long as is asked.
///
/// # Errors
/// `not_found` for a message that is not there, or that is between others.
pub async fn wait(
    site: &Site,
    caller: &Caller,
    id: &MailId,
    query: &AwaitQuery,
) -> Result<Awaited> {
    let longest = Duration::from_secs(query.timeout.unwrap_or(0)).min(WAIT_MAX);
    let until = Instant::now() + longest;
    // Heard before it is looked: what is said in between is not missed.
    let mut heard = site.store.subscribe();
    require_visible(site, caller, id).await?;
    loop {
        let asked = id.clone();
        let found = site.store.read(move |c| awaited(c, &asked)).await?;
        if found.state != AwaitState::Pending {
            return Ok(found);
        }
        // Any event may be the one; a receiver that lagged looks as well.
        match tokio::time::timeout_at(until, heard.recv()).await {
            Err(_) => return Ok(found),
            Ok(Err(tokio::sync::broadcast::error::RecvError::Closed)) => return Ok(found),
            Ok(_) => {}
        }
    }
}

fn awaited(c: &Connection, id: &MailId) -> Result<Awaited> {
    let job = jobs::last_of_message(c, id)?.map(|job| jobs::find(c, &job)).transpose()?;
    let answer = mail::answer_of(c, id)?;
    let mut found = Awaited {
        message_id: id.clone(),
        state: AwaitState::Pending,
        reply: None,
        failure: None,
        job_id: job.as_ref().map(|it| it.id.clone()),
        job_status: job.as_ref().map(|it| it.status.to_string()),
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
            found.failure = Some(failure_of(&job));
        }
        (None, None) => {}
    }
    Ok(found)
}
