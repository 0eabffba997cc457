//! The script's event handlers: told after the commit, and never able to change what was committed.
//!
//! Every event is told at least once, in the order of commits: how far it got stands in the
//! database, and is written after the handlers of an event have returned. So a server that is
//! killed between the two tells that one event again, and none is left out by a restart. A handler
//! that fails, or does not end within its time, has been told.
//!
//! **Invariant:** of an event that was told, and of all before it, no handler hears again after an
//! orderly stop.

use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use rusqlite::{Connection, named_params};

use crate::base::{EventKind, Result, fault};
use crate::flows::Works;
use crate::jobs;
use crate::store::{StoredEvent, Tx, events};

/// Most events that are read at a time.
const BATCH: u32 = 100;
/// Most events that handlers are told of late, after a restart. What is older is left out, and said
/// to be.
const BACKLOG_MAX: i64 = 10_000;
/// How long it is waited after a read or a write that failed.
const AGAIN: std::time::Duration = std::time::Duration::from_secs(2);
/// Between two looks at the log without a bell.
const FALLBACK: std::time::Duration = std::time::Duration::from_secs(300);

const TOLD: &str = "SELECT event_id FROM handlers_told WHERE one = 1";
const KEEP: &str = "UPDATE handlers_told SET event_id = :id WHERE one = 1 AND event_id < :id";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[("relay::told", TOLD), ("relay::keep", KEEP)];

/// How far the handlers were told.
struct Relay {
    works: Works,
    /// The last event that was looked at.
    told: i64,
    /// The last one that the database knows of.
    kept: i64,
}

/// Tells the script's handlers of every event after the last one that they were told of.
pub async fn serve(works: Works, stop: CancellationToken) {
    let mut bell = works.store.subscribe();
    let Some(mut relay) = begin(works, &stop).await else { return };
    if relay.works.config.handlers.is_empty() {
        return stop.cancelled().await;
    }
    loop {
        if relay.works.vm.stuck() {
            // What is not told now is told after the restart that the operator was asked for.
            error!("events wait for a restart: the functions of the script are switched off");
            return stop.cancelled().await;
        }
        let pause = match relay.tell_all(&stop).await {
            Ok(()) => FALLBACK,
            Err(cause) => {
                warn!("the script's handlers are told later: {}", cause.chain());
                AGAIN
            }
        };
        tokio::select! {
            heard = bell.recv() => if matches!(heard, Err(RecvError::Closed)) { return },
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => break,
        }
        // However many were published meanwhile, the table is read once.
        while bell.try_recv().is_ok() {}
    }
    if let Err(cause) = relay.keep(relay.told).await {
        warn!("how far the handlers were told is not written down: {}", cause.chain());
    }
}

/// Finds out where it was left, as soon as that can be read and written.
async fn begin(works: Works, stop: &CancellationToken) -> Option<Relay> {
    loop {
        match place(&works).await {
            Ok(told) => return Some(Relay { works, told, kept: told }),
            Err(cause) => warn!("the script's handlers are told later: {}", cause.chain()),
        }
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            () = stop.cancelled() => return None,
        }
    }
}

/// Returns the last event that the handlers were told of. Without handlers that is the newest one:
/// one that is added later hears of what happens after the last start without it.
async fn place(works: &Works) -> Result<i64> {
    let look = |c: &Connection| {
        let told: i64 = c.prepare_cached(TOLD)?.query_row([], |row| row.get(0))?;
        Ok((told, events::edges(c)?.1))
    };
    let (told, newest) = works.store.read(look).await?;
    if works.config.handlers.is_empty() {
        keep(works, newest).await?;
        return Ok(newest);
    }
    let oldest = newest.saturating_sub(BACKLOG_MAX);
    if told < oldest {
        warn!("the script's handlers are not told of {} old events", oldest - told);
    }
    Ok(told.max(oldest))
}

async fn keep(works: &Works, id: i64) -> Result<()> {
    let write = move |tx: &Tx<'_>| {
        tx.prepare_cached(KEEP)?.execute(named_params! {":id": id})?;
        Ok(())
    };
    works.store.write(write).await
}

impl Relay {
    /// Tells all that stands in the log.
    async fn tell_all(&mut self, stop: &CancellationToken) -> Result<()> {
        loop {
            let told = self.told;
            let batch = self.works.store.read(move |c| events::after(c, told, BATCH)).await?;
            if batch.is_empty() {
                return Ok(());
            }
            for event in &batch {
                if stop.is_cancelled() || self.works.vm.stuck() {
                    return Ok(());
                }
                if self.works.config.handlers.iter().any(|it| it.event == event.kind) {
                    tell(&self.works, event).await;
                    fault::crash_point("after_handler");
                    self.told = event.id;
                    self.keep(event.id).await?;
                }
                self.told = event.id;
            }
            // What nobody is told of need not be written down each time.
            if self.told - self.kept >= i64::from(BATCH) {
                self.keep(self.told).await?;
            }
        }
    }

    async fn keep(&mut self, id: i64) -> Result<()> {
        if id > self.kept && !fault::is_off("handlers_told") {
            keep(&self.works, id).await?;
            self.kept = id;
        }
        Ok(())
    }
}

async fn tell(works: &Works, event: &StoredEvent) {
    match payload(works, event).await {
        Ok(payload) => works.vm.fire(event.kind, payload).await,
        Err(cause) => warn!("event {} was not told to the script: {}", event.id, cause.chain()),
    }
}

/// What a handler gets: the event, and for an event of a job the whole job.
async fn payload(works: &Works, event: &StoredEvent) -> Result<Value> {
    let mut payload = json!({
        "id": event.id, "at": event.at, "kind": event.kind, "subject": event.subject,
        "actor": event.actor, "data": event.data,
    });
    let is_job =
        matches!(event.kind, EventKind::JobQueued | EventKind::JobStarted | EventKind::JobFinished);
    if let (true, Some(id)) = (is_job, event.data["id"].as_str()) {
        let id = id.parse()?;
        let job = works.store.read(move |c| jobs::find_brief(c, &id)).await?;
        payload["job"] = serde_json::to_value(&job)
            .map_err(|cause| crate::base::Error::internal("a job is not JSON").source(cause))?;
    }
    Ok(payload)
}
