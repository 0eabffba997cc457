//! Expires approvals on time.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::approvals::{self, BELL, Decision, State};
use crate::base::{Actor, Result};
use crate::flows::approvals::{notice, resume};
use crate::flows::{Works, clock};

/// Expires approvals on time, until `stop`. If none can expire, it sleeps until one is created.
pub async fn serve(works: Works, stop: CancellationToken) {
    let bell = works.store.bell(BELL);
    while clock::sleep(round(&works).await, "approvals expire", &bell, &stop).await {}
}

/// Expires due approvals; returns how long until the next one, or `None` if there is none.
async fn round(works: &Works) -> Result<Option<Duration>> {
    loop {
        let now = works.store.clock().now();
        let (due, next) = works
            .store
            .read(move |c| Ok((approvals::due(c, now)?, approvals::next_due(c)?)))
            .await?;
        if due.is_empty() {
            return Ok(next.map(|at| clock::until(at, now)));
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
                    // A person decided first.
                    Err(cause) if cause.code_str() == approvals::APPROVAL_DECIDED => {}
                    Err(cause) => return Err(cause),
                }
            }
            Ok(expired)
        });
        expired.await?.iter().for_each(|id| info!("approval {id} has expired"));
    }
}
