//! The script's event handlers: told after the commit, and never able to change what was committed.
//!
//! Every event is told at least once, in the order of commits: how far it got stands in the
//! database, and is written after the handlers of an event have returned, in one transaction with
//! the jobs that they asked for. So a server that is killed between the two tells that one event
//! again, and no job of it is made twice. A handler that fails, or does not end within its time,
//! has been told.
//!
//! **Invariant:** of an event that was told, and of all before it, no handler hears again after an
//! orderly stop.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use rusqlite::{Connection, named_params};

use crate::base::{Actor, EventKind, JobId, Result, fault};
use crate::flows::automation::effects::{self, Failure, Origin, Turn, Wish};
use crate::flows::automation::origin;
use crate::flows::automation::retry;
use crate::flows::automation::told;
use crate::flows::{Site, Works};
use crate::jobs::{self, Generation};
use crate::store::{StoredEvent, Tx, events};

/// Rung when another generation of the script becomes active.
pub const BELL: &str = "script";

/// Most events read at once.
const BATCH: u32 = 100;
/// Most events handled late, after a restart. Older ones are skipped, and that is logged.
const BACKLOG_MAX: i64 = 10_000;
/// Delay after a failed read or write.
const AGAIN: Duration = Duration::from_secs(2);
/// Delay before a temporarily refused job is retried.
const PAUSES_MS: [u64; 6] = [500, 1_000, 2_000, 4_000, 8_000, 16_000];
/// Interval between looks at the log without a bell.
const FALLBACK: Duration = Duration::from_secs(300);

const TOLD: &str = "SELECT event_id FROM handlers_told WHERE one = 1";
const KEEP: &str = "UPDATE handlers_told SET event_id = :id WHERE one = 1 AND event_id < :id";
const SKIP: &str = "
    UPDATE handlers_told
    SET event_id = MAX(event_id, COALESCE((SELECT MAX(id) FROM events), 0)) WHERE one = 1";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] =
    &[("relay::told", TOLD), ("relay::keep", KEEP), ("relay::skip", SKIP)];

/// The position of the handlers.
struct Relay {
    site: Site,
    /// The last event that was read.
    told: i64,
    /// The last one recorded in the database.
    kept: i64,
}

/// Calls the script's handlers for every event after the last one handled.
pub async fn serve(site: Site, stop: CancellationToken) {
    let mut bell = site.store.subscribe();
    let reloaded = site.store.bell(BELL);
    let Some(mut relay) = begin(site, &stop).await else { return };
    loop {
        let current = relay.site.scripts.current();
        if current.vm.stuck() {
            // Events not handled now are handled after the restart that the operator was asked for.
            error!("events wait for a restart: the functions of the script are switched off");
            return stop.cancelled().await;
        }
        if !is_heard(&current) {
            drop(current);
            tokio::select! {
                () = reloaded.notified() => {}
                () = stop.cancelled() => break,
            }
            // The reload has recorded where the new handlers start.
            let Some(again) = begin(relay.site, &stop).await else { return };
            relay = again;
            continue;
        }
        drop(current);
        let pause = match relay.tell_all(&stop).await {
            Ok(()) => FALLBACK,
            Err(cause) => {
                warn!("the script's handlers will run later: {}", cause.chain());
                AGAIN
            }
        };
        tokio::select! {
            heard = bell.recv() => if matches!(heard, Err(RecvError::Closed)) { return },
            () = reloaded.notified() => {}
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => break,
        }
        // However many were published in the meantime, the table is read once.
        while bell.try_recv().is_ok() {}
    }
    if let Err(cause) = relay.keep(relay.told).await {
        warn!("cannot record the progress of the handlers: {}", cause.chain());
    }
}

/// Returns whether a generation of the script has handlers.
pub(in crate::flows) fn is_heard(generation: &Generation) -> bool {
    let config = &generation.config;
    !config.handlers.is_empty() || config.kinds.values().any(|kind| kind.retry.is_some())
}

/// Makes added handlers start with the next event.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn skip(tx: &Tx<'_>) -> Result<()> {
    tx.prepare_cached(SKIP)?.execute([])?;
    Ok(())
}

/// Reads the position, as soon as the database can be read and written.
async fn begin(site: Site, stop: &CancellationToken) -> Option<Relay> {
    loop {
        match place(&site).await {
            Ok(told) => return Some(Relay { site, told, kept: told }),
            Err(cause) => warn!("the script's handlers will run later: {}", cause.chain()),
        }
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            () = stop.cancelled() => return None,
        }
    }
}

/// Returns the last handled event. Without handlers it is the newest one, so a handler added later
/// gets only events after the last start without it.
async fn place(works: &Works) -> Result<i64> {
    let look = |c: &Connection| {
        let told: i64 = c.prepare_cached(TOLD)?.query_row([], |row| row.get(0))?;
        Ok((told, events::edges(c)?.1))
    };
    let (told, newest) = works.store.read(look).await?;
    if !is_heard(&works.scripts.current()) {
        keep(works, newest).await?;
        return Ok(newest);
    }
    let oldest = newest.saturating_sub(BACKLOG_MAX);
    if told < oldest {
        warn!("skipping {} old events for the script's handlers", oldest - told);
    }
    Ok(told.max(oldest))
}

async fn keep(works: &Works, id: i64) -> Result<()> {
    works.store.write(move |tx| keep_in(tx, id)).await
}

fn keep_in(tx: &Tx<'_>, id: i64) -> Result<()> {
    if !fault::is_off("handlers_told") {
        tx.prepare_cached(KEEP)?.execute(named_params! {":id": id})?;
    }
    Ok(())
}

impl Relay {
    /// Handles all events in the log.
    async fn tell_all(&mut self, stop: &CancellationToken) -> Result<()> {
        loop {
            let told = self.told;
            let batch = self.site.store.read(move |c| events::after(c, told, BATCH)).await?;
            if batch.is_empty() {
                return Ok(());
            }
            for event in &batch {
                // One event is handled by one generation.
                let site = self.site.now();
                if stop.is_cancelled() || site.vm().stuck() {
                    return Ok(());
                }
                if concerns(&site, event) && !was_told(&site, event).await? {
                    if !tell(&site, event, stop).await? {
                        return Ok(());
                    }
                    self.kept = event.id;
                }
                self.told = event.id;
            }
            // Events without a handler need no write each.
            if self.told - self.kept >= i64::from(BATCH) {
                self.keep(self.told).await?;
            }
        }
    }

    async fn keep(&mut self, id: i64) -> Result<()> {
        if id > self.kept {
            keep(&self.site, id).await?;
            self.kept = id;
        }
        Ok(())
    }
}

/// Handles all events after a given one, and their consequences; returns the last event.
///
/// # Errors
/// As reading and writing.
pub(in crate::flows) async fn catch_up(site: &Site, from: i64) -> Result<i64> {
    let mut relay = Relay { site: site.clone(), told: from, kept: from };
    relay.tell_all(&CancellationToken::new()).await?;
    Ok(relay.told)
}

/// Returns whether the database that a restore replaced has told of this. That is so once.
async fn was_told(site: &Site, event: &StoredEvent) -> Result<bool> {
    if !site.store.look(|c| told::is_told(c, event))? {
        return Ok(false);
    }
    let event = event.clone();
    let passed = site.store.write(move |tx| {
        told::pass_over(tx, &event)?;
        keep_in(tx, event.id)
    });
    passed.await?;
    Ok(true)
}

fn concerns(site: &Site, event: &StoredEvent) -> bool {
    let config = &site.config;
    let retries = || {
        let kind = event.data["kind"].as_str().and_then(|kind| config.kind(kind));
        event.kind == EventKind::JobFinished && kind.is_some_and(|kind| kind.retry.is_some())
    };
    // Private events are not passed to the script, which belongs to everybody.
    let is_private = event.scope != "site";
    !is_private && (config.handlers.iter().any(|it| it.event == event.kind) || retries())
}

/// Calls the handlers of one event, and commits their effects together with the position. A
/// temporarily refused job is retried, with nothing written until then. Returns whether the event
/// was handled: a stop may interrupt it.
async fn tell(site: &Site, event: &StoredEvent, stop: &CancellationToken) -> Result<bool> {
    let cause = format!("event {} ({})", event.id, event.kind.as_str());
    let wishes = match payload(site, event).await {
        Ok((payload, depth)) => wishes(site, event, payload, (depth, &cause)).await,
        Err(error) => {
            warn!("event {} was not delivered to the script: {}", event.id, error.chain());
            Vec::new()
        }
    };
    fault::crash_point("after_handler");
    if wishes.iter().any(Wish::is_stopped) {
        return Ok(false);
    }
    let wishes = Arc::new(wishes);
    let mut pauses = PAUSES_MS.into_iter();
    let failures = loop {
        let pause = pauses.next();
        let turn = if pause.is_some() { Turn::More } else { Turn::Last(PAUSES_MS.len() + 1) };
        let refused = match commit(site, event, &wishes, &cause, turn).await {
            Err(error) if effects::is_momentary(&error) => error,
            outcome => break outcome?,
        };
        let pause = Duration::from_millis(pause.unwrap_or_default());
        let message = refused.message();
        warn!("retrying a job for {cause} in {} ms: {message}", pause.as_millis());
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return Ok(false),
        }
    };
    failures.iter().for_each(Failure::log);
    fault::crash_point("after_effects");
    Ok(true)
}

/// Commits the effects of an event's handlers together with the position.
async fn commit(
    site: &Site,
    event: &StoredEvent,
    wishes: &Arc<Vec<Wish>>,
    cause: &str,
    turn: Turn,
) -> Result<Vec<Failure>> {
    let (id, is_own, at) = (event.id, event.kind == EventKind::ScriptFailed, site.clone());
    let (job, wishes, cause) = (job_of(event), Arc::clone(wishes), cause.to_owned());
    let write = move |tx: &Tx<'_>| {
        keep_in(tx, id)?;
        if is_own {
            // A failing handler of failures must not be called for its own failure.
            return effects::accept_all(tx, &at, &wishes, &cause, turn);
        }
        effects::write(tx, &at, &wishes, (&cause, job.as_ref()), turn)
    };
    let outcome = site.store.write(write).await?;
    site.shares().add(outcome.tally, site.store.clock().now());
    Ok(outcome.failures)
}

async fn wishes(
    site: &Site,
    event: &StoredEvent,
    payload: Value,
    (depth, cause): (u32, &str),
) -> Vec<Wish> {
    let mut wishes = Vec::new();
    for told in site.vm().fire(event.kind, payload.clone()).await {
        match told.outcome {
            Ok(effects) => {
                let by = (&Actor::Script, depth);
                let own = (&*told.name, Some(effects::handler(&told.name, &told.place)));
                wishes.extend(effects::ready(site, effects, by, own, cause).await);
            }
            Err(error) => {
                let origin = Origin { function: told.name, at: told.at };
                wishes.push(Wish::Failed(Failure::new(&origin, cause, &error).said()));
            }
        }
    }
    wishes.extend(retry::after(site, event, &payload).await);
    wishes
}

/// Returns the job of an event, if it has one.
fn job_of(event: &StoredEvent) -> Option<JobId> {
    event.subject.strip_prefix("job:").and_then(|id| id.parse().ok())
}

/// The argument of a handler: the event, with the whole job for an event of a job. Also returns the
/// depth of jobs requested because of it.
async fn payload(works: &Works, event: &StoredEvent) -> Result<(Value, u32)> {
    let mut payload = json!({
        "id": event.id, "at": event.at, "kind": event.kind, "subject": event.subject,
        "actor": event.actor, "data": event.data,
    });
    let told = event.clone();
    let depth = works.store.read(move |c| origin::depth_after(c, &told)).await?;
    let is_job =
        matches!(event.kind, EventKind::JobQueued | EventKind::JobStarted | EventKind::JobFinished);
    if let (true, Some(id)) = (is_job, event.data["id"].as_str()) {
        let id = id.parse()?;
        let job = works.store.read(move |c| jobs::find_brief(c, &jobs::Viewer::Site, &id)).await?;
        payload["job"] = serde_json::to_value(&job)
            .map_err(|cause| crate::base::Error::internal("a job is not JSON").source(cause))?;
    }
    Ok((payload, depth))
}
