//! The clock of approvals: one whose time has passed is expired.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::approvals::{self, BELL, Decision, State};
use crate::base::{Actor, Result};
use crate::flows::Works;
use crate::flows::approvals::{notice, resume};

/// Longest sleep: the clock of the machine may be set, and a machine may have slept.
const LOOK_AGAIN: Duration = Duration::from_secs(20);
/// The pause after a read or a write that failed.
const AGAIN: Duration = Duration::from_secs(2);

/// Expires approvals when their time has passed, until `stop`. Without one that can expire, it
/// sleeps until one is created.
pub async fn serve(works: Works, stop: CancellationToken) {
    let bell = works.store.bell(BELL);
    loop {
        let pause = match round(&works).await {
            Ok(pause) => pause,
            Err(cause) => {
                warn!("approvals expire later: {}", cause.chain());
                Some(AGAIN)
            }
        };
        let asleep = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = asleep => {}
            () = bell.notified() => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Expires what is due; returns how long there is nothing to do, or nothing if nothing expires.
async fn round(works: &Works) -> Result<Option<Duration>> {
    loop {
        let now = works.store.clock().now();
        let (due, next) = works
            .store
            .read(move |c| Ok((approvals::due(c, now)?, approvals::next_due(c)?)))
            .await?;
        if due.is_empty() {
            let wait = next.map(|at| u64::try_from(at.0.saturating_sub(now.0)).unwrap_or(0));
            return Ok(wait.map(|ms| Duration::from_millis(ms.max(1)).min(LOOK_AGAIN)));
        }
        let site = works.clone();
        let expired = works.store.write(move |tx| {
            let mut expired = Vec::new();
            for id in &due {
                let decision =
                    Decision { state: State::Expired, changes: None, note: None, version: None };
                match approvals::decide(tx, id, &Actor::System, &decision) {
                    Ok(approval) => {
                        resume::go_on(tx, &site, &approval, &Actor::System)?;
                        notice::send(tx, &site, &approval, &Actor::System)?;
                        expired.push(id.clone());
                    }
                    // A person was faster.
                    Err(cause) if cause.code_str() == "approval_decided" => {}
                    Err(cause) => return Err(cause),
                }
            }
            Ok(expired)
        });
        expired.await?.iter().for_each(|id| info!("approval {id} has expired"));
    }
}
