//! Approvals that could not be finished: what they wait for, and further tries.

use std::time::Duration;

use rusqlite::Connection;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::base::Result;
use crate::documents::proposals::attempt;
use crate::flows::Works;
use crate::flows::proposals::approve;

/// How often to try again while an approval is not finished.
const AGAIN: Duration = Duration::from_secs(2);

/// Finishes or takes back, until `stop`, what stands in the way of no more. An approval that has
/// only begun is waited for.
pub async fn serve(works: Works, stop: CancellationToken) {
    let begun = works.store.bell(attempt::BELL);
    let mut told = String::new();
    loop {
        // A database that cannot be read is tried again, too.
        let left = works.store.read(attempt::prepared).await;
        let is_calm = left.is_ok_and(|it| it.is_empty());
        tokio::select! {
            () = begun.notified() => continue,
            () = tokio::time::sleep(AGAIN), if !is_calm => {}
            () = stop.cancelled() => return,
        }
        let why = approve::recover(&works).await.err().map(|it| it.chain()).unwrap_or_default();
        match why == told {
            true => debug!("approvals still cannot be finished: {why}"),
            false if why.is_empty() => {}
            false => warn!("approvals cannot be finished: {why}"),
        }
        told = why;
    }
}

/// Returns a sentence for each approval that could not be finished.
///
/// # Errors
/// Fails if the database cannot be read.
pub(in crate::flows) fn waiting(c: &Connection) -> Result<Vec<String>> {
    let tell = |it: attempt::Prepared| {
        let why = it.waits_for?;
        Some(format!("the approval of proposal {} is not finished: {why}", it.attempt.proposal_id))
    };
    Ok(attempt::prepared(c)?.into_iter().filter_map(tell).collect())
}
