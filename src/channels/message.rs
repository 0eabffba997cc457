//! The messages of channels, in one order; a row is written once and never changes.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde::{Deserialize, Serialize};

use crate::base::{Actor, Error, MailId, Millis, Result, TurnId};
use crate::channels::chain::Cause;
use crate::store::Tx;

const TAKE_SEQUENCE: &str = "
    UPDATE channels SET last_sequence = last_sequence + 1, last_ms = :now,
        agent_messages = CASE WHEN :voice = 'agent' THEN agent_messages + 1
            WHEN :voice IN ('person', 'clock') THEN 0 ELSE agent_messages END,
        agent_starts = CASE WHEN :voice IN ('person', 'clock') THEN 0 ELSE agent_starts END,
        status = CASE WHEN status = 'pending' AND :voice <> 'system' THEN 'active' ELSE status END,
        active_ms = CASE WHEN active_ms IS NULL AND :voice <> 'system' THEN :now ELSE active_ms END
    WHERE number = :channel
    RETURNING last_sequence";
const INSERT: &str = "
    INSERT INTO channel_messages (message_id, channel, sequence, type, author, handle, agent,
        turn_id, is_answer, answers_sequence, cause_id, root, hop, created_ms)
    VALUES (:id, :channel, :sequence, :type, :author, :handle, :agent, :turn, :is_answer, :answers,
        :cause, :root, :hop, :now)";
const MENTION: &str = "
    INSERT OR IGNORE INTO mentions (member, channel, sequence)
    VALUES (:member, :channel, :sequence)";
const FIND: &str = "SELECT * FROM channel_messages WHERE message_id = :id";
const AFTER: &str = "
    SELECT * FROM channel_messages WHERE channel = :channel AND sequence > :after
    ORDER BY sequence LIMIT :limit";
const SINCE: &str = "
    SELECT * FROM channel_messages
    WHERE channel = :channel AND created_ms >= :since AND sequence > :after
    ORDER BY created_ms, sequence LIMIT :limit";
const ANSWER_OF_TURN: &str = "
    SELECT * FROM channel_messages WHERE turn_id = :turn AND is_answer = 1";
const BEFORE: &str = "
    SELECT * FROM channel_messages WHERE channel = :channel AND sequence < :before
    ORDER BY sequence DESC LIMIT :limit";
const ESCALATION: &str = "
    SELECT * FROM channel_messages INDEXED BY channel_messages_escalations
    WHERE channel = :channel AND sequence > :after AND type = 'escalation'
    ORDER BY sequence LIMIT 1";
/// Names one index: the messages of a channel since a number, which are not many.
const OUTCOMES: &str = "
    SELECT channel_messages.* FROM channel_messages INDEXED BY channel_messages_sequence
        JOIN messages ON messages.id = message_id
    WHERE channel = :channel AND sequence > :after AND type <> 'system'
        AND (instr(payload, 'Decision:') > 0 OR instr(payload, 'Action:') > 0)
    ORDER BY sequence LIMIT :limit";
const OF_ROOT: &str = "
    SELECT COUNT(*) FROM channel_messages WHERE root = :root AND author = :author
        AND sequence >= :from";
const RECENT: &str = "
    SELECT COUNT(*), COALESCE(SUM(author = :author), 0) FROM channel_messages
    WHERE channel = :channel AND created_ms > :since AND created_ms <= :now
        AND agent IS NOT NULL";
const RECENT_OF: &str = "
    SELECT COUNT(*) FROM channel_messages
    WHERE channel = :channel AND author = :author AND created_ms > :since AND created_ms <= :now";
const MENTIONS_AFTER: &str = "
    SELECT COUNT(*) FROM mentions
    WHERE member = :member AND channel = :channel AND sequence > :after";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("channel_message::take_sequence", TAKE_SEQUENCE),
    ("channel_message::insert", INSERT),
    ("channel_message::mention", MENTION),
    ("channel_message::find", FIND),
    ("channel_message::after", AFTER),
    ("channel_message::since", SINCE),
    ("channel_message::answer_of_turn", ANSWER_OF_TURN),
    ("channel_message::before", BEFORE),
    ("channel_message::escalation", ESCALATION),
    ("channel_message::outcomes", OUTCOMES),
    ("channel_message::of_root", OF_ROOT),
    ("channel_message::recent", RECENT),
    ("channel_message::recent_of", RECENT_OF),
    ("channel_message::mentions_after", MENTIONS_AFTER),
];

/// The type of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// An ordinary message.
    Message,
    /// A report by the server.
    System,
    /// Work for another member.
    Delegation,
    /// A request to the chair.
    Escalation,
}

impl Sort {
    /// Returns the word in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Sort::Message => "message",
            Sort::System => "system",
            Sort::Delegation => "delegation",
            Sort::Escalation => "escalation",
        }
    }

    /// Returns the type with this word.
    pub fn parse(word: &str) -> Option<Sort> {
        let all = [Sort::Message, Sort::System, Sort::Delegation, Sort::Escalation];
        all.into_iter().find(|it| it.as_str() == word)
    }
}

/// A message of a channel; its text is the payload of the message with this id.
#[derive(Clone, Debug)]
pub struct Spoken {
    /// The message.
    pub id: MailId,
    /// The channel's number.
    pub channel: i64,
    /// Its number in the channel: from 1, without gaps.
    pub sequence: i64,
    /// Its type.
    pub sort: Sort,
    /// `persona:NAME`, `person:ID`, `script` or `system`.
    pub author: Actor,
    /// The author's handle, if it is a member.
    pub handle: Option<String>,
    /// The agent that posted it.
    pub agent: Option<String>,
    /// The turn that it is the answer of, or was posted in.
    pub turn_id: Option<TurnId>,
    /// The number of the message that it answers or replies to.
    pub answers: Option<i64>,
    /// The first message of its chain.
    pub root: MailId,
    /// Its distance from that.
    pub hop: u32,
    /// When it was posted.
    pub created_at: Millis,
}

impl Spoken {
    /// Returns it as the cause of another message.
    pub fn as_cause(&self) -> Cause {
        Cause {
            id: self.id.clone(),
            sequence: self.sequence,
            root: self.root.clone(),
            hop: self.hop,
        }
    }

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Spoken> {
        let sort: String = row.get("type")?;
        let sort = Sort::parse(&sort).ok_or_else(|| {
            let cause = Box::new(Error::internal("no type of a message"));
            rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, cause)
        })?;
        Ok(Spoken {
            id: row.get("message_id")?,
            channel: row.get("channel")?,
            sequence: row.get("sequence")?,
            sort,
            author: row.get("author")?,
            handle: row.get("handle")?,
            agent: row.get("agent")?,
            turn_id: row.get("turn_id")?,
            answers: row.get("answers_sequence")?,
            root: row.get("root")?,
            hop: row.get("hop")?,
            created_at: row.get("created_ms")?,
        })
    }
}

/// Takes the next number of a channel, updates the counters of agents, and makes a pending channel
/// active. `voice` is `person`, `agent`, `outside`, `script`, `system`, or `clock` for what a
/// schedule or a webhook says.
pub(super) fn take_sequence(tx: &Tx<'_>, channel: i64, voice: &str) -> Result<i64> {
    let params = named_params! {":channel": channel, ":voice": voice, ":now": tx.now()};
    Ok(tx.prepare_cached(TAKE_SEQUENCE)?.query_row(params, |row| row.get(0))?)
}

pub(super) fn insert(
    tx: &Tx<'_>,
    new: &Spoken,
    (cause, is_answer): (Option<&MailId>, bool),
) -> Result<()> {
    tx.prepare_cached(INSERT)?.execute(named_params! {
        ":id": new.id, ":channel": new.channel, ":sequence": new.sequence,
        ":type": new.sort.as_str(), ":author": new.author, ":handle": new.handle,
        ":agent": new.agent, ":turn": new.turn_id,
        ":is_answer": is_answer && new.turn_id.is_some(), ":answers": new.answers,
        ":cause": cause, ":root": new.root, ":hop": new.hop, ":now": tx.now(),
    })?;
    Ok(())
}

pub(super) fn mention(tx: &Tx<'_>, member: &Actor, channel: i64, sequence: i64) -> Result<()> {
    let params = named_params! {":member": member, ":channel": channel, ":sequence": sequence};
    tx.prepare_cached(MENTION)?.execute(params)?;
    Ok(())
}

/// Returns a message; none if it is not one of a channel.
///
/// # Errors
/// As any read.
pub fn find(connection: &Connection, id: &MailId) -> Result<Option<Spoken>> {
    let mut statement = connection.prepare_cached(FIND)?;
    Ok(statement.query_row(named_params! {":id": id}, Spoken::from_row).optional()?)
}

/// Returns the message that a turn was answered with.
///
/// # Errors
/// As any read.
pub fn answer_of_turn(connection: &Connection, turn: &TurnId) -> Result<Option<Spoken>> {
    let mut statement = connection.prepare_cached(ANSWER_OF_TURN)?;
    Ok(statement.query_row(named_params! {":turn": turn}, Spoken::from_row).optional()?)
}

/// Returns the messages after a number, in order.
///
/// # Errors
/// As any read.
pub fn after(connection: &Connection, channel: i64, after: i64, limit: u32) -> Result<Vec<Spoken>> {
    let mut statement = connection.prepare_cached(AFTER)?;
    let params = named_params! {":channel": channel, ":after": after, ":limit": limit};
    Ok(statement.query_map(params, Spoken::from_row)?.collect::<rusqlite::Result<_>>()?)
}

/// Returns the messages since a moment and after a number, in order.
///
/// # Errors
/// As any read.
pub fn since(
    connection: &Connection,
    channel: i64,
    (since, after): (Millis, i64),
    limit: u32,
) -> Result<Vec<Spoken>> {
    let mut statement = connection.prepare_cached(SINCE)?;
    let params = named_params! {
        ":channel": channel, ":since": since, ":after": after, ":limit": limit,
    };
    let mut found: Vec<Spoken> =
        statement.query_map(params, Spoken::from_row)?.collect::<rusqlite::Result<_>>()?;
    // A clock that was set back must not change the order.
    found.sort_by_key(|message| message.sequence);
    Ok(found)
}

/// Returns the last messages before a number, in order.
///
/// # Errors
/// As any read.
pub fn before(
    connection: &Connection,
    channel: i64,
    before: Option<i64>,
    limit: u32,
) -> Result<Vec<Spoken>> {
    let mut statement = connection.prepare_cached(BEFORE)?;
    let before = before.unwrap_or(i64::MAX);
    let params = named_params! {":channel": channel, ":before": before, ":limit": limit};
    let mut found: Vec<Spoken> =
        statement.query_map(params, Spoken::from_row)?.collect::<rusqlite::Result<_>>()?;
    found.reverse();
    Ok(found)
}

/// Returns the messages after a number that may tell what the conversation came to, in order.
///
/// # Errors
/// As any read.
pub fn outcomes_after(c: &Connection, channel: i64, after: i64, limit: u32) -> Result<Vec<Spoken>> {
    let mut statement = c.prepare_cached(OUTCOMES)?;
    let params = named_params! {":channel": channel, ":after": after, ":limit": limit};
    Ok(statement.query_map(params, Spoken::from_row)?.collect::<rusqlite::Result<_>>()?)
}

/// Returns how many messages an author posted in a chain, from a number on.
pub(super) fn of_root(c: &Connection, root: &MailId, author: &Actor, from: i64) -> Result<u32> {
    let mut statement = c.prepare_cached(OF_ROOT)?;
    let params = named_params! {":root": root, ":author": author, ":from": from};
    Ok(statement.query_row(params, |row| row.get(0))?)
}

/// Returns how many messages all agents, and this author, posted in a span of time. Messages that a
/// fast clock dated later do not count.
pub(super) fn recent(
    c: &Connection,
    channel: i64,
    author: &Actor,
    (since, now): (Millis, Millis),
) -> Result<(u32, u32)> {
    let mut statement = c.prepare_cached(RECENT)?;
    let params =
        named_params! {":channel": channel, ":author": author, ":since": since, ":now": now};
    Ok(statement.query_row(params, |row| Ok((row.get(0)?, row.get(1)?)))?)
}

/// Returns the first escalation after a number.
///
/// # Errors
/// As any read.
pub fn escalation_after(c: &Connection, channel: i64, after: i64) -> Result<Option<Spoken>> {
    let params = named_params! {":channel": channel, ":after": after};
    let mut statement = c.prepare_cached(ESCALATION)?;
    Ok(statement.query_row(params, Spoken::from_row).optional()?)
}

/// Returns how often a member was mentioned after a number.
///
/// # Errors
/// As any read.
pub fn mentions_after(c: &Connection, channel: i64, member: &Actor, after: i64) -> Result<u32> {
    let mut statement = c.prepare_cached(MENTIONS_AFTER)?;
    let params = named_params! {":channel": channel, ":member": member, ":after": after};
    Ok(statement.query_row(params, |row| row.get(0))?)
}

/// Returns how many messages somebody posted in a span of time.
pub(super) fn recent_of(
    c: &Connection,
    channel: i64,
    author: &Actor,
    (since, now): (Millis, Millis),
) -> Result<u32> {
    let params = named_params! {
        ":channel": channel, ":author": author, ":since": since, ":now": now,
    };
    Ok(c.prepare_cached(RECENT_OF)?.query_row(params, |row| row.get(0))?)
}
