//! Messages that no agent takes any more: those that have waited for a week, and those to an agent
//! that the script no longer declares. Their senders get a failure.

use serde_json::json;

use crate::api::mail::Sort;
use crate::base::limit::MAIL_WAIT_MS_MAX;
use crate::base::{Actor, Result};
use crate::flows::Works;
use crate::flows::mail::reply::{Back, send_back};
use crate::mail::agent;
use crate::mail::{self, Delivery};
use crate::script::kind_of_agent;
use crate::store::Tx;

/// Messages that one transaction ends.
const AT_ONCE: u32 = 200;

/// Ends them all; returns how many.
///
/// # Errors
/// As any write.
pub async fn end_overdue(works: &Works) -> Result<u64> {
    let mut ended = 0;
    loop {
        let about = works.now();
        let some = works.store.write(move |tx| end_some(tx, &about)).await?;
        ended += some;
        if some == 0 {
            return Ok(ended);
        }
    }
}

fn end_some(tx: &Tx<'_>, works: &Works) -> Result<u64> {
    let before = tx.now().plus(-MAIL_WAIT_MS_MAX);
    let mut ended = 0;
    for delivery in mail::overdue(tx.connection(), before, AT_ONCE)? {
        let why = format!("{} did not take the message within 7 days", delivery.to);
        end(tx, works, &delivery, ("expired", "expired", why))?;
        ended += 1;
    }
    for agent in agent::list(tx.connection())? {
        let is_declared = works.config.kinds.contains_key(&kind_of_agent(&agent.declared));
        if is_declared || agent.heir.is_some() {
            continue;
        }
        for delivery in mail::waiting_for_agent(tx.connection(), &agent.name, AT_ONCE)? {
            let why = format!("{} is no longer declared in the script", delivery.to);
            end(tx, works, &delivery, ("dropped", "recipient_ended", why))?;
            ended += 1;
        }
    }
    Ok(ended)
}

/// Ends one delivery, and tells the sender of a message; replies, failures and notices have none
/// who waits.
fn end(
    tx: &Tx<'_>,
    works: &Works,
    delivery: &Delivery,
    (state, reason, why): (&str, &str, String),
) -> Result<()> {
    mail::end_waiting(tx, delivery, state, reason)?;
    let message = mail::find(tx.connection(), &delivery.message_id)?;
    if message.sort != Sort::Message {
        return Ok(());
    }
    let back =
        Back { sender: Actor::System, from: delivery.to.clone(), asked_by: message.sender.clone() };
    let error = json!({"status": state, "reason": reason, "message": why});
    send_back(tx, works, &back, (&message, Sort::Failure), json!({"error": error}))
}
