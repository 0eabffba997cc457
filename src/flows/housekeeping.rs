//! What is kept for a while only: events that need no audit, kept answers, ended sessions.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::base::Result;
use crate::flows::{Works, changes};
use crate::people;
use crate::store::{events, idempotency};

/// How long events are kept that need no audit, and answers to requests with a key.
const KEPT_MS: i64 = 7 * 24 * 3_600_000;
/// How often it is looked.
const EVERY: Duration = Duration::from_secs(6 * 3_600);

/// Drops what is old enough, at the start and then every six hours, until `stop`.
pub async fn serve(works: Works, stop: CancellationToken) {
    loop {
        match drop_old(&works).await {
            Ok(()) => debug!("old events, answers and sessions were dropped"),
            Err(cause) => warn!("old rows could not be dropped: {}", cause.chain()),
        }
        if let Err(cause) = changes::let_go(&works).await {
            warn!("what is held of old changes could not be dropped: {}", cause.chain());
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = stop.cancelled() => return,
        }
    }
}

async fn drop_old(works: &Works) -> Result<()> {
    works
        .store
        .write(|tx| {
            let before = tx.now().plus(-KEPT_MS);
            events::prune(tx, before)?;
            idempotency::prune(tx, before)?;
            people::prune_logins(tx)
        })
        .await
}
