//! The script's event handlers: told after the commit, and never able to change what was committed.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::base::{EventKind, Result};
use crate::flows::Works;
use crate::jobs;
use crate::store::StoredEvent;

/// Calls the script's handlers for every event that `events` receives, in commit order. Whoever
/// subscribed before the recovery hears of the jobs that it settled.
pub async fn serve(works: Works, mut events: Receiver<Arc<StoredEvent>>, stop: CancellationToken) {
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            () = stop.cancelled() => return,
        };
        match event {
            Ok(event) => {
                if works.config.handlers.iter().any(|it| it.event == event.kind) {
                    tell(&works, &event).await;
                }
            }
            Err(RecvError::Lagged(count)) => {
                warn!("the script's handlers missed {count} events: they are slower than the site");
            }
            Err(RecvError::Closed) => return,
        }
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
        let job = works.store.read(move |c| jobs::find(c, &id)).await?;
        payload["job"] = serde_json::to_value(&job)
            .map_err(|cause| crate::base::Error::internal("a job is not JSON").source(cause))?;
    }
    Ok(payload)
}
