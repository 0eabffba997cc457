//! The place of an answer among those that are written: given back while its person is asked.

use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::base::{JobId, Result};
use crate::chat::{self, CallState};
use crate::flows::Site;
use crate::jobs;

/// Until when to wait for a call.
pub(super) type Until<'a> = (Instant, &'a CancellationToken);

/// Waits until a run that asked its person has a place among the running ones again.
///
/// # Errors
/// As any write.
pub(super) async fn has_place(site: &Site, id: &JobId, (at, stop): Until<'_>) -> Result<bool> {
    let mut events = site.store.subscribe();
    loop {
        if !site.store.look(|c| jobs::is_asking(c, id))? {
            return Ok(true);
        }
        // The last one that is decided takes the place.
        let calls = site.store.look(|c| chat::calls_of_run(c, id))?;
        if calls.iter().any(|it| it.state == CallState::Waiting) {
            return Ok(true);
        }
        let (queue, run) = (site.queue.clone(), id.clone());
        if site.store.write(move |tx| queue.take_place(tx, &run)).await? {
            return Ok(true);
        }
        loop {
            tokio::select! {
                heard = events.recv() => match heard {
                    Ok(event) if is_of_places(&event.subject) => break,
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => break,
                    Err(RecvError::Closed) => return Ok(false),
                },
                () = tokio::time::sleep_until(at) => return Ok(false),
                () = stop.cancelled() => return Ok(false),
            }
        }
    }
}

/// Returns whether an event may have made a place free: the end of a job, a question to a person,
/// or a new script.
fn is_of_places(subject: &str) -> bool {
    subject.starts_with("job:") || subject.starts_with("approval:") || subject == "config"
}
