//! Waiting for the decision on an approval.
//!
//! **Invariant:** a wait sleeps on the events of the database; it never looks again and again.

use std::time::Duration;

use serde::Deserialize;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::approvals::ApprovalOutcome;
use crate::approvals::{self, State};
use crate::base::limit::APPROVAL_WAIT_MS_MAX;
use crate::base::{ApprovalId, Error, EventKind, Result};
use crate::flows::Site;
use crate::flows::approvals::resume::can_park;
use crate::flows::approvals::viewer;
use crate::jobs::{self, Outlook, Pool};
use crate::people::Caller;

/// The query of `GET /api/approvals/{id}/await`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// Longest time to wait for a decision, in seconds; 0 returns at once.
    pub timeout: Option<u64>,
    /// Whether to return at once if the caller's job holds the last place of `limits.jobs`, and can
    /// be parked instead: `advice` then says so.
    pub yields: Option<bool>,
}

impl Wait {
    fn duration(&self) -> Result<Duration> {
        let most = APPROVAL_WAIT_MS_MAX / 1_000;
        match self.timeout.unwrap_or(most) {
            seconds if seconds <= most => Ok(Duration::from_secs(seconds)),
            seconds => Err(Error::invalid(format!("timeout {seconds} is above {most}"))
                .code("bad_parameter")
                .hint(format!("wait again after at most {most} seconds"))),
        }
    }
}

/// Returns an approval as soon as it is decided, or with state `pending` after the timeout or if
/// the server stops.
///
/// # Errors
/// `not_found`; `invalid` for a timeout above the longest.
pub async fn outcome(
    site: &Site,
    caller: &Caller,
    (id, wait): (&ApprovalId, Wait),
    stop: &CancellationToken,
) -> Result<ApprovalOutcome> {
    caller.may_read()?;
    let deadline = Instant::now() + wait.duration()?;
    let _asking = caller.job().ok().and_then(|(id, _)| site.queue.asking(id));
    // Before the first look, so that nothing in between is missed.
    let mut events = site.store.subscribe();
    let yields = wait.yields.unwrap_or(false);
    loop {
        let mut answer = look(site, caller, id).await?;
        if yields && answer.state == State::Pending {
            answer.advice = advice(site, caller).await?;
        }
        if answer.advice.is_some() {
            return Ok(answer);
        }
        if answer.state != State::Pending || Instant::now() >= deadline || stop.is_cancelled() {
            return Ok(answer);
        }
        loop {
            let heard = tokio::select! {
                heard = events.recv() => heard,
                () = tokio::time::sleep_until(deadline) => break,
                () = stop.cancelled() => break,
            };
            match heard {
                Ok(event) => {
                    let is_about = event.data["id"].as_str() == Some(id.as_str());
                    if event.kind == EventKind::ApprovalDecided && is_about {
                        break;
                    }
                }
                Err(RecvError::Lagged(_)) => break,
                Err(RecvError::Closed) => return Ok(answer),
            }
        }
    }
}

/// Returns what a job should do that would keep all others waiting with its own wait. One that
/// cannot be parked has no other way to get its answer.
async fn advice(site: &Site, caller: &Caller) -> Result<Option<String>> {
    let Ok((id, _)) = caller.job() else { return Ok(None) };
    let (id, works) = (id.clone(), site.works.now());
    site.store
        .read(move |c| {
            let job = jobs::find_brief(c, &jobs::Viewer::Program, &id)?;
            let now = works.store.clock().now();
            let outlook = Outlook::load(c, &jobs::Viewer::Program, &works.config, now)?;
            let blocks = job.pool == Pool::Work && outlook.is_full(Pool::Work);
            Ok((blocks && can_park(&works.config, &job)).then(|| {
                "waiting here keeps every other job waiting: withdraw the request, ask again with \
                 `wb-agent approval create … --and-exit`, and end your turn"
                    .to_owned()
            }))
        })
        .await
}

async fn look(site: &Site, caller: &Caller, id: &ApprovalId) -> Result<ApprovalOutcome> {
    let (caller, id) = (caller.clone(), id.clone());
    site.store
        .read(move |c| {
            let found = approvals::find(c, &id, &viewer(c, &caller)?)?;
            let texts = approvals::texts(c, &id)?;
            Ok(ApprovalOutcome {
                id: found.id,
                state: found.state,
                version: found.version,
                payload: texts.changes.unwrap_or(texts.payload),
                note: found.note,
                decided_by: found.decided_by,
                advice: None,
            })
        })
        .await
}
