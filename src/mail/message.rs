//! Messages: rows that are written once.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde_json::{Value, json};

use crate::api::mail::Sort;
use crate::base::{
    Actor, Address, Error, Event, EventKind, Ids, JobId, MailId, Millis, Result, Scope,
};
use crate::store::Tx;

const INSERT: &str = "
    INSERT INTO messages (id, sort, sender, from_class, from_name, to_class, to_name, payload,
        category, in_reply_to, reply_class, reply_name, thread, depth, job_id, approval_id,
        created_ms)
    VALUES (:id, :sort, :sender, :from_class, :from_name, :to_class, :to_name, :payload,
        :category, :in_reply_to, :reply_class, :reply_name, :thread, :depth, :job, :approval,
        :now)";
const FIND: &str = "SELECT * FROM messages WHERE id = :id";
const LIST: &str = "SELECT * FROM messages WHERE seq < :before ORDER BY seq DESC LIMIT :limit";
const LIST_TO: &str = "
    SELECT * FROM messages WHERE to_class = :class AND to_name = :name AND seq < :before
    ORDER BY seq DESC LIMIT :limit";
const LIST_FROM: &str = "
    SELECT * FROM messages WHERE from_class = :class AND from_name = :name AND seq < :before
    ORDER BY seq DESC LIMIT :limit";
const THREAD: &str = "
    SELECT * FROM messages WHERE thread = :thread AND seq > :after ORDER BY seq LIMIT :limit";
const ANSWER: &str = "
    SELECT * FROM messages WHERE in_reply_to = :id AND sort IN ('reply', 'failure')
    ORDER BY sort = 'reply' DESC, seq DESC LIMIT 1";
const ANSWERED_BY_JOB: &str = "
    SELECT 1 FROM messages WHERE in_reply_to = :id AND job_id = :job LIMIT 1";
const RECENT_OF_JOB: &str = "
    SELECT COUNT(*) FROM messages WHERE job_id = :job
        AND created_ms > :since AND created_ms <= :now";
const RECENT_OF_JOB_TO: &str = "
    SELECT COUNT(*) FROM messages INDEXED BY messages_by_job WHERE job_id = :job
        AND created_ms > :since AND created_ms <= :now
        AND sort = 'message' AND to_class = :class AND to_name = :name";

const OTHER_PERSON: &str = "
    SELECT sender FROM messages WHERE to_class = 'agent' AND to_name = :agent
        AND sender LIKE 'person:%' AND sender <> :person
    ORDER BY seq DESC LIMIT 1";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("mail::insert", INSERT),
    ("mail::find", FIND),
    ("mail::list", LIST),
    ("mail::list_to", LIST_TO),
    ("mail::list_from", LIST_FROM),
    ("mail::thread", THREAD),
    ("mail::answer", ANSWER),
    ("mail::answered_by_job", ANSWERED_BY_JOB),
    ("mail::recent_of_job", RECENT_OF_JOB),
    ("mail::recent_of_job_to", RECENT_OF_JOB_TO),
    ("mail::other_person", OTHER_PERSON),
];

/// A message.
#[derive(Clone, Debug)]
pub struct Message {
    /// Its sequence number, in order of acceptance.
    pub seq: i64,
    /// Its id.
    pub id: MailId,
    /// Its kind.
    pub sort: Sort,
    /// Who sent it.
    pub sender: Actor,
    /// The sender's address.
    pub from: Option<Address>,
    /// The recipient.
    pub to: Address,
    /// Its content: any JSON.
    pub payload: Value,
    /// A category chosen by the sender.
    pub category: Option<String>,
    /// The message that it answers.
    pub in_reply_to: Option<MailId>,
    /// Where to send the reply, if not to the sender.
    pub reply_to: Option<Address>,
    /// The first message of its thread.
    pub thread: MailId,
    /// How many jobs led to it.
    pub depth: u32,
    /// The job that sent it.
    pub job_id: Option<JobId>,
    /// When it was accepted.
    pub created_at: Millis,
    /// When its payload was deleted; it is null since then.
    pub forgotten_at: Option<Millis>,
}

impl Message {
    /// Returns where to send the answer; `None` if the message has no sender address and names
    /// none.
    pub fn answer_to(&self) -> Option<&Address> {
        self.reply_to.as_ref().or(self.from.as_ref())
    }

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Message> {
        let sort: String = row.get("sort")?;
        let payload: String = row.get("payload")?;
        let payload = serde_json::from_str(&payload)
            .map_err(|cause| wrong(Error::internal("a payload is not JSON").source(cause)))?;
        let to: (String, String) = (row.get("to_class")?, row.get("to_name")?);
        Ok(Message {
            seq: row.get("seq")?,
            id: row.get("id")?,
            sort: Sort::parse(&sort)
                .ok_or_else(|| wrong(Error::internal(format!("no sort of a message: {sort}"))))?,
            sender: row.get("sender")?,
            from: address(row, "from_class", "from_name")?,
            to: Address::from_row(&to.0, &to.1).map_err(wrong)?,
            payload,
            category: row.get("category")?,
            in_reply_to: row.get("in_reply_to")?,
            reply_to: address(row, "reply_class", "reply_name")?,
            thread: row.get("thread")?,
            depth: row.get("depth")?,
            job_id: row.get("job_id")?,
            created_at: row.get("created_ms")?,
            forgotten_at: row.get("forgotten_ms")?,
        })
    }
}

fn address(row: &Row<'_>, class: &str, name: &str) -> rusqlite::Result<Option<Address>> {
    let (class, name): (Option<String>, Option<String>) = (row.get(class)?, row.get(name)?);
    match (class, name) {
        (Some(class), Some(name)) => Address::from_row(&class, &name).map(Some).map_err(wrong),
        _ => Ok(None),
    }
}

fn wrong(cause: Error) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(cause))
}

/// A message to be written, whose recipient was resolved and payload validated.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// Its kind.
    pub sort: Sort,
    /// Who sends it.
    pub sender: Actor,
    /// The sender's address.
    pub from: Option<Address>,
    /// The recipient; not a label.
    pub to: Address,
    /// Its content: any JSON.
    pub payload: Value,
    /// A category chosen by the sender.
    pub category: Option<String>,
    /// The message that it answers.
    pub in_reply_to: Option<MailId>,
    /// Where to send the reply.
    pub reply_to: Option<Address>,
    /// How many jobs led to it.
    pub depth: u32,
    /// The job that sends it.
    pub job_id: Option<JobId>,
    /// The approval whose decision it reports.
    pub approval_id: Option<String>,
}

/// Writes a message; the caller records its deliveries in the same transaction.
///
/// # Errors
/// `not_found` if it answers a message that does not exist; `internal` if the recipient is a label.
pub fn send(tx: &Tx<'_>, ids: &Ids, new: &NewMessage) -> Result<MailId> {
    let id: MailId = ids.mint();
    let thread = match &new.in_reply_to {
        None => id.clone(),
        Some(answered) => find(tx.connection(), answered)?.thread,
    };
    let class = |address: &Option<Address>| address.as_ref().and_then(Address::class);
    let name = |address: &Option<Address>| address.as_ref().map(Address::name);
    let to_class =
        new.to.class().ok_or_else(|| Error::internal("a message to a label was written"))?;
    tx.prepare_cached(INSERT)?.execute(named_params! {
        ":id": id, ":sort": new.sort.as_str(), ":sender": new.sender,
        ":from_class": class(&new.from), ":from_name": name(&new.from),
        ":to_class": to_class, ":to_name": new.to.name(),
        ":payload": new.payload.to_string(), ":category": new.category,
        ":in_reply_to": new.in_reply_to, ":reply_class": class(&new.reply_to),
        ":reply_name": name(&new.reply_to), ":thread": thread, ":depth": new.depth,
        ":job": new.job_id, ":approval": new.approval_id, ":now": tx.now(),
    })?;
    tx.ring(super::BELL);
    Ok(id)
}

/// Returns whether a job has answered a message in any way.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn is_answered_by_job(connection: &Connection, id: &MailId, job: &JobId) -> Result<bool> {
    let mut statement = connection.prepare_cached(ANSWERED_BY_JOB)?;
    Ok(statement.exists(named_params! {":id": id, ":job": job})?)
}

/// Emits the event for an accepted message: only ids, and for a person's mail visible only to them.
///
/// # Errors
/// Fails if the database cannot be written.
pub(super) fn tell(
    tx: &Tx<'_>,
    kind: EventKind,
    message: &MailId,
    by: &Actor,
    scope: Scope,
    data: Value,
) -> Result<()> {
    let subject = format!("message:{message}");
    let mut event = Event::new(kind, subject, by.clone(), json!({"message_id": message}));
    if let (Value::Object(all), Value::Object(more)) = (&mut event.data, data) {
        all.extend(more);
    }
    event.scope = scope;
    tx.emit(event)
}

/// Returns a message.
///
/// # Errors
/// `not_found` if it does not exist.
pub fn find(connection: &Connection, id: &MailId) -> Result<Message> {
    let mut statement = connection.prepare_cached(FIND)?;
    let found = statement.query_row(named_params! {":id": id}, Message::from_row).optional()?;
    found.ok_or_else(|| Error::not_found(format!("no message {id}")))
}

/// Which messages to list.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only to this address.
    pub to: Option<Address>,
    /// Only from this address.
    pub from: Option<Address>,
    /// Only accepted before this one.
    pub before: Option<i64>,
    /// At most this many.
    pub limit: u32,
}

/// Returns messages, newest first.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn list(connection: &Connection, filter: &Filter) -> Result<Vec<Message>> {
    let before = filter.before.unwrap_or(i64::MAX);
    let (sql, address) = match (&filter.to, &filter.from) {
        (Some(to), _) => (LIST_TO, Some(to)),
        (None, Some(from)) => (LIST_FROM, Some(from)),
        (None, None) => (LIST, None),
    };
    let mut statement = connection.prepare_cached(sql)?;
    let found = match address {
        None => statement.query_map(
            named_params! {":before": before, ":limit": filter.limit},
            Message::from_row,
        )?,
        Some(address) => statement.query_map(
            named_params! {
                ":class": address.class(), ":name": address.name(), ":before": before,
                ":limit": filter.limit,
            },
            Message::from_row,
        )?,
    };
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// Returns the messages of a thread, oldest first.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn thread(
    connection: &Connection,
    thread: &MailId,
    after: i64,
    limit: u32,
) -> Result<Vec<Message>> {
    let mut statement = connection.prepare_cached(THREAD)?;
    let params = named_params! {":thread": thread, ":after": after, ":limit": limit};
    let found = statement.query_map(params, Message::from_row)?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// Returns the reply to a message, or the failure sent instead.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn answer_of(connection: &Connection, id: &MailId) -> Result<Option<Message>> {
    let mut statement = connection.prepare_cached(ANSWER)?;
    Ok(statement.query_row(named_params! {":id": id}, Message::from_row).optional()?)
}

/// Returns how many messages a job has sent since a time, ignoring times in the future.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn recent_of_job(
    connection: &Connection,
    job: &JobId,
    (since, now): (Millis, Millis),
) -> Result<u32> {
    let mut statement = connection.prepare_cached(RECENT_OF_JOB)?;
    let params = named_params! {":job": job, ":since": since, ":now": now};
    Ok(statement.query_row(params, |row| row.get(0))?)
}

/// Returns how many of them it has sent to one address.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn recent_of_job_to(
    connection: &Connection,
    (job, to): (&JobId, &Address),
    (since, now): (Millis, Millis),
) -> Result<u32> {
    let mut statement = connection.prepare_cached(RECENT_OF_JOB_TO)?;
    let params = named_params! {
        ":job": job, ":since": since, ":now": now, ":class": to.class(), ":name": to.name(),
    };
    Ok(statement.query_row(params, |row| row.get(0))?)
}

/// Returns the last person but this one who has written to an agent.
///
/// # Errors
/// As any read.
pub fn other_person(c: &Connection, agent: &str, person: &Actor) -> Result<Option<Actor>> {
    let mut statement = c.prepare_cached(OTHER_PERSON)?;
    let params = named_params! {":agent": agent, ":person": person};
    Ok(statement.query_row(params, |row| row.get(0)).optional()?)
}
