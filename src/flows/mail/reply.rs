//! The answer to a message: what its instance came to, sent in the transaction that settles it.
//!
//! **Invariant:** sending an answer never fails a settlement: what cannot be delivered is kept,
//! with the reason.

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::api::mail::Sort;
use crate::base::{Actor, Address, ErrorKind, Ids, PersonId, Result, fault};
use crate::flows::mail::DEPTH_MAX;
use crate::flows::mail::recipient::{self, Recipient};
use crate::flows::mail::send;
use crate::flows::{Works, agents, instances};
use crate::jobs::{self, Job, Status};
use crate::mail::{self, Message, NewMessage};
use crate::people;
use crate::store::Tx;

/// Sends the answer of an instance that was settled; nothing for another job, and for one that is
/// repeated: its repetition answers.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn settle_job(tx: &Tx<'_>, works: &Works, job: &Job) -> Result<()> {
    if fault::is_off("answer") {
        return Ok(());
    }
    let works = &works.now();
    match job.status {
        Status::Succeeded => reply(tx, works, job),
        _ => fail(tx, &works.ids, job),
    }
}

/// Drops what others wrote to an instance and it did not fetch, and tells them.
fn drop_open(tx: &Tx<'_>, ids: &Ids, job: &Job) -> Result<()> {
    if job.message_id.is_none() {
        return Ok(());
    }
    let own = instances::address(&job.kind, job.root());
    let open = mail::open_of(tx.connection(), &own, u32::MAX)?;
    // A verdict comes from an agent that has read what it fetched.
    let has_read = job.status == Status::Succeeded || job.verdict.is_some();
    mail::drop_open(tx, &own, "recipient_ended", has_read)?;
    for delivery in open {
        let message = mail::find(tx.connection(), &delivery.message_id)?;
        if message.sort == Sort::Message {
            let why = format!("{own} ended before it fetched the message");
            let error = json!({"status": "dropped", "reason": "recipient_ended", "message": why});
            failure(tx, ids, (job, &message), json!({"error": error}))?;
        }
    }
    Ok(())
}

fn reply(tx: &Tx<'_>, works: &Works, job: &Job) -> Result<()> {
    drop_open(tx, &works.ids, job)?;
    let Some(message) = answered(tx.connection(), job)? else { return Ok(()) };
    let Some(to) = message.answer_to().cloned() else { return Ok(()) };
    // The row that was settled is read without long values.
    let found = jobs::find(tx.connection(), &jobs::Viewer::Program, &job.id)?;
    let payload = found.result.unwrap_or(Value::Null);
    write_reply(tx, works, answer(Sort::Reply, job, &message, &to, payload), &job.requested_by)
}

/// Writes a reply to whoever waits for it; what cannot be delivered is kept, with the reason.
fn write_reply(tx: &Tx<'_>, works: &Works, mut new: NewMessage, asked_by: &Actor) -> Result<()> {
    let to = new.to.clone();
    match target(works, tx.connection(), &to) {
        Ok(Recipient::Inbox(_)) if new.depth >= DEPTH_MAX => {
            store_only(tx, &works.ids, &new, "depth")
        }
        Ok(Recipient::Inbox(name)) if !fits(works, &name, &new.payload) => {
            store_only(tx, &works.ids, &new, "bad_payload")
        }
        Ok(recipient) => {
            let is_inbox = matches!(recipient, Recipient::Inbox(_));
            new.depth += u32::from(is_inbox);
            let lanes = works.scripts.current().capacities().clone();
            let answered = new.in_reply_to.clone();
            match send::write(tx, works, &new, (&recipient, asked_by), &lanes) {
                // The message is written before its job is refused.
                Err(cause) if cause.kind() == ErrorKind::Busy => {
                    let written = answered.as_ref();
                    let written = written.map(|it| mail::answer_of(tx.connection(), it));
                    let Some(id) = written.transpose()?.flatten() else { return Err(cause) };
                    let written = (&id.id, &new.sender);
                    mail::deliver(tx, written, &new.to, Some(cause.code_str()), None)
                }
                sent => sent.map(drop),
            }
        }
        Err(reason) => store_only(tx, &works.ids, &new, &reason),
    }
}

fn fits(works: &Works, inbox: &str, payload: &Value) -> bool {
    let kind = recipient::inbox(works, inbox).and_then(recipient::of_kind);
    let schema = kind.ok().and_then(|it| it.schema.as_ref());
    schema.is_none_or(|it| it.require(payload, "payload", "bad_payload").is_ok())
}

/// Sends that there will be no reply. An inbox takes work and no failures: if the reply was to go
/// there, the sender is told.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn fail(tx: &Tx<'_>, ids: &Ids, job: &Job) -> Result<()> {
    drop_open(tx, ids, job)?;
    let Some(message) = answered(tx.connection(), job)? else { return Ok(()) };
    let payload = json!({"error": {
        "status": job.status, "reason": job.reason, "message": failure_of(tx.connection(), job)?,
    }});
    failure(tx, ids, (job, &message), payload)
}

/// Who answers a message that started no job of its own.
pub(in crate::flows) struct Back {
    /// Who speaks.
    pub(in crate::flows) sender: Actor,
    /// Its address.
    pub(in crate::flows) from: Address,
    /// For whom it counts if the answer starts a job.
    pub(in crate::flows) asked_by: Actor,
}

/// Sends a reply or a failure to whoever wrote a message. An inbox takes work and no failures: if
/// the reply was to go there, the sender is told.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn send_back(
    tx: &Tx<'_>,
    works: &Works,
    back: &Back,
    (message, sort): (&Message, Sort),
    payload: Value,
) -> Result<()> {
    let to = match message.answer_to() {
        Some(Address::Inbox { .. }) if sort == Sort::Failure => message.from.clone(),
        other => other.cloned(),
    };
    let Some(to) = to else { return Ok(()) };
    let job_id = match &back.sender {
        Actor::Job(id) => Some(id.clone()),
        _ => None,
    };
    let new = NewMessage {
        sort,
        sender: back.sender.clone(),
        from: Some(back.from.clone()),
        to,
        payload,
        category: message.category.clone(),
        in_reply_to: Some(message.id.clone()),
        reply_to: None,
        depth: message.depth,
        job_id,
        approval_id: None,
    };
    write_reply(tx, &works.now(), new, &back.asked_by)
}

/// Writes the failure in the place of a reply, to whoever waits for it.
fn failure(tx: &Tx<'_>, ids: &Ids, (job, message): (&Job, &Message), payload: Value) -> Result<()> {
    let to = match message.answer_to() {
        Some(Address::Inbox { .. }) => message.from.clone(),
        other => other.cloned(),
    };
    let Some(to) = to else { return Ok(()) };
    // Whoever has taken the place of an agent gets what was for it.
    let heir = match &to {
        Address::Agent(name) => agents::heir(tx.connection(), name)?,
        _ => None,
    };
    let to = heir.as_ref().map_or(to, |it| Address::Agent(it.name.clone()));
    let new = answer(Sort::Failure, job, message, &to, payload);
    let person = match &to {
        Address::Person(name) => people::find_by_name(tx.connection(), name)?.map(|it| it.id),
        _ => None,
    };
    let has_ended = match &to {
        Address::Person(_) => person.is_none(),
        Address::Instance { job, .. } => match job.parse() {
            Ok(id) => jobs::last_leg(tx.connection(), &id)?.status.is_final(),
            Err(_) => true,
        },
        Address::Agent(_) => heir.is_none(),
        _ => true,
    };
    write_or_drop(tx, ids, &new, has_ended.then_some("recipient_ended"), person.as_ref())
}

/// Says in one sentence why an instance left no reply.
pub(super) fn failure_of(c: &Connection, job: &Job) -> Result<String> {
    let canceller = job.cancelled_by.as_ref();
    let canceller = canceller.map(|it| people::display_name(c, it)).transpose()?;
    let sentence = jobs::sentence(job, "the agent", (None, None), canceller.as_deref());
    Ok(sentence.unwrap_or_else(|| format!("The job ended as {}.", job.status)))
}

/// The message that an instance answers; nothing if another job will answer it.
fn answered(c: &Connection, job: &Job) -> Result<Option<Message>> {
    let Some(id) = &job.message_id else { return Ok(None) };
    if jobs::is_repeated(c, &job.id)? {
        return Ok(None);
    }
    mail::find(c, id).map(Some)
}

fn answer(sort: Sort, job: &Job, message: &Message, to: &Address, payload: Value) -> NewMessage {
    NewMessage {
        sort,
        sender: Actor::Job(job.id.clone()),
        from: Some(instances::address(&job.kind, job.root())),
        to: to.clone(),
        payload,
        category: message.category.clone(),
        in_reply_to: Some(message.id.clone()),
        reply_to: None,
        depth: message.depth,
        job_id: Some(job.id.clone()),
        approval_id: None,
    }
}

/// Whom the answer reaches, or the word for why it reaches nobody.
fn target(works: &Works, c: &Connection, to: &Address) -> std::result::Result<Recipient, String> {
    recipient::resolve(works, c, to).map_err(|cause| cause.code_str().to_owned())
}

fn store_only(tx: &Tx<'_>, ids: &Ids, new: &NewMessage, reason: &str) -> Result<()> {
    write_or_drop(tx, ids, new, Some(reason), None)
}

fn write_or_drop(
    tx: &Tx<'_>,
    ids: &Ids,
    new: &NewMessage,
    dropped: Option<&str>,
    person: Option<&PersonId>,
) -> Result<()> {
    let id = mail::send(tx, ids, new)?;
    mail::deliver(tx, (&id, &new.sender), &new.to, dropped, person)
}
