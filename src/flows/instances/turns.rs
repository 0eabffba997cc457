//! Messages to instances whose engine goes on after a turn: each is given as a turn of its own.
//!
//! **Invariant:** a message is recorded as sent before its first byte is written, and is given
//! once.

use std::time::Duration;

use rusqlite::Connection;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::base::{Address, BlockId, JobId, Result, fault};
use crate::flows::{Site, Works, agents, instances};
use crate::jobs::speak::Fact;
use crate::jobs::{self, Job, TurnSpent, Viewer};
use crate::mail::{self, BELL_OF_INSTANCES, Delivery};
use crate::store::Tx;

/// How long to sleep if nothing rings, and after a read or a write that failed.
const FALLBACK: Duration = Duration::from_secs(600);
const AGAIN: Duration = Duration::from_secs(2);

/// Gives instances that rest between two turns what waits for them, until `stop`.
pub async fn serve(site: Site, stop: CancellationToken) {
    let bell = site.store.bell(BELL_OF_INSTANCES);
    loop {
        let mut pause = FALLBACK;
        for job in site.queue.resting() {
            if let Err(cause) = give(&site, &site.works.now(), &job).await {
                warn!(job_id = %job, "its messages wait: {}", cause.chain());
                pause = AGAIN;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = bell.notified() => {}
            () = site.queue.rested() => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Gives an instance the oldest message that waits for it.
async fn give(site: &Site, works: &Works, id: &JobId) -> Result<()> {
    let asked = id.clone();
    let find = move |c: &Connection| oldest(c, &asked);
    if works.store.read(find).await?.is_none() || !site.queue.end_rest(id) {
        return Ok(());
    }
    let (about, job) = (works.clone(), id.clone());
    let given = works.store.write(move |tx| claim(tx, &about, &job)).await;
    let Ok(Some((block, text))) = given else {
        site.queue.rest_again(id);
        return given.map(drop);
    };
    fault::crash_point("block_claimed");
    match site.queue.say(id, &block, &text) {
        true => info!(job_id = %id, "block {block} is given"),
        // Its end makes the delivery unconfirmed.
        false => info!(job_id = %id, "block {block} comes too late"),
    }
    Ok(())
}

/// Returns the oldest message that waits for an instance.
fn oldest(c: &Connection, id: &JobId) -> Result<Option<Delivery>> {
    let job = jobs::find_brief(c, &Viewer::Program, id)?;
    let own: Address = instances::address(&job.kind, job.root());
    Ok(mail::open_of(c, &own, 1)?.into_iter().next())
}

fn claim(tx: &Tx<'_>, works: &Works, id: &JobId) -> Result<Option<(BlockId, String)>> {
    let Some(delivery) = oldest(tx.connection(), id)? else { return Ok(None) };
    let block: BlockId = works.ids.mint();
    if !mail::give(tx, &delivery, id, &block)? {
        return Ok(None);
    }
    let message = mail::find(tx.connection(), &delivery.message_id)?;
    // What it says last in a turn goes nowhere: its one reply is that of its verdict.
    Ok(Some((block, agents::words(tx.connection(), works, &message, false)?)))
}

/// Writes what follows from a fact about the turns of an instance.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn heard(tx: &Tx<'_>, job: &Job, fact: &Fact) -> Result<()> {
    match fact {
        Fact::Began { block: Some(block) } | Fact::Taken { block: Some(block), .. } => {
            mail::confirm_given(tx, block)
        }
        Fact::Refused { block, .. } => mail::take_back_given(tx, block),
        // Its time is that of the whole job.
        Fact::Ended { block, tokens, cost_usd, .. } => {
            if let Some(block) = block {
                mail::confirm_given(tx, block)?;
            }
            // One that names no turn would hold up all further messages.
            mail::give_up_given(tx, &instances::address(&job.kind, job.root()), "no_proof")?;
            jobs::add_turn(tx, job, TurnSpent { tokens: *tokens, cost_usd: *cost_usd, ms: 0 })
        }
        _ => Ok(()),
    }
}
