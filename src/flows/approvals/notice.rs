//! The message to a requester about a decision: exactly one per approval, in the transaction of the
//! decision.

use serde_json::json;

use crate::api::mail::Sort as MailSort;
use crate::approvals::{self, Approval, Sort};
use crate::base::{Actor, Address, JobId, Result};
use crate::flows::Works;
use crate::jobs;
use crate::mail::{self, NewMessage};
use crate::people;
use crate::store::Tx;

/// Tells the requester of an approval that it was decided or has expired. Private approvals send no
/// message, a requester without an address polls, and a waiting engine already has the answer.
///
/// # Errors
/// As any write.
pub(super) fn send(tx: &Tx<'_>, works: &Works, approval: &Approval, by: &Actor) -> Result<()> {
    let Some(to) = approval.from.clone().filter(|_| approval.private_to.is_none()) else {
        return Ok(());
    };
    if approval.sort == Sort::Permission && approval.left_at.is_none() {
        return Ok(());
    }
    let texts = approvals::texts(tx.connection(), &approval.id)?;
    let payload = json!({
        "approval_id": approval.id, "title": approval.title, "state": approval.state,
        "note": approval.note, "payload": texts.changes.unwrap_or(texts.payload),
    });
    let new = NewMessage {
        sort: MailSort::Notice,
        sender: by.clone(),
        from: None,
        to: to.clone(),
        payload,
        category: None,
        in_reply_to: None,
        reply_to: None,
        depth: 0,
        job_id: None,
        approval_id: Some(approval.id.to_string()),
    };
    let id = mail::send(tx, &works.ids, &new)?;
    let written = (&id, by);
    match &to {
        Address::Person(name) => match people::find_by_name(tx.connection(), name)? {
            Some(person) => mail::deliver(tx, written, &to, None, Some(&person.id)),
            None => mail::deliver(tx, written, &to, Some("recipient_ended"), None),
        },
        Address::Instance { job, .. } => {
            let root: JobId = job.parse()?;
            let last = jobs::last_leg(tx.connection(), &root)?;
            // The next leg was queued earlier and reads the decision in its prompt.
            if last.resumes.is_some() && last.started_at.is_none() && !last.status.is_final() {
                return mail::deliver_to_job(tx, written, &to, (&last.id, "leg"));
            }
            let ended = last.status.is_final().then_some("recipient_ended");
            mail::deliver(tx, written, &to, ended, None)
        }
        Address::Agent(_) => mail::deliver(tx, written, &to, None, None),
        _ => mail::deliver(tx, written, &to, Some("not_deliverable"), None),
    }
}
