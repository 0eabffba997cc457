//! Handoffs as rows: what an agent was asked to write down for its successor, and who may read it.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde_json::json;

use crate::base::{Actor, Error, Event, EventKind, HandoffId, Ids, MailId, Millis, Result};
use crate::store::Tx;

const INSERT: &str = "
    INSERT INTO handoffs (id, persona, agent, state, stamp, note, keeps, message_id, asked_by,
        asked_ms)
    VALUES (:id, :persona, :agent, 'asked', :stamp, :note, :keeps, :message, :by, :now)";
const OPEN: &str = "
    SELECT * FROM handoffs WHERE agent = :agent AND state IN ('asked', 'written')";
const LAST: &str = "
    SELECT * FROM handoffs WHERE agent = :agent ORDER BY asked_ms DESC LIMIT 1";
const HAS_STAMP: &str = "
    SELECT EXISTS (SELECT 1 FROM handoffs WHERE persona = :persona AND stamp = :stamp)";
const OF_STAMP: &str = "
    SELECT * FROM handoffs WHERE persona = :persona AND stamp = :stamp";
const WRITTEN: &str = "
    SELECT * FROM handoffs WHERE persona = :persona AND file IS NOT NULL
    ORDER BY stamp DESC LIMIT :limit";
const WRITE: &str = "
    UPDATE handoffs SET state = 'written', file = :file, written_ms = :now
    WHERE id = :id AND state = 'asked'";
const ASK_AGAIN: &str = "
    UPDATE handoffs SET message_id = :message WHERE id = :id AND state = 'asked'";
const FOLLOW: &str = "
    UPDATE handoffs SET successor = :successor, read_id = :read
    WHERE id = :id AND state = 'written' AND successor IS NULL";
const SEAT: &str = "
    UPDATE handoffs SET state = 'seated', ended_ms = :now WHERE id = :id AND state = 'written'";
const FAIL: &str = "
    UPDATE handoffs SET state = 'failed', reason = :reason, ended_ms = :now
    WHERE id = :id AND state IN ('asked', 'written')";
const MAY_READ: &str = "
    SELECT persona FROM handoff_reads WHERE agent = :agent AND file = :file LIMIT 1";
const LET_READ: &str = "
    INSERT INTO handoff_reads (persona, file, agent, by, at_ms)
    VALUES (:persona, :file, :agent, :by, :now)
    ON CONFLICT DO NOTHING";
const READERS: &str = "
    SELECT agent FROM handoff_reads WHERE persona = :persona AND file = :file ORDER BY at_ms";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("handoff::insert", INSERT),
    ("handoff::open", OPEN),
    ("handoff::last", LAST),
    ("handoff::has_stamp", HAS_STAMP),
    ("handoff::of_stamp", OF_STAMP),
    ("handoff::written", WRITTEN),
    ("handoff::write", WRITE),
    ("handoff::ask_again", ASK_AGAIN),
    ("handoff::follow", FOLLOW),
    ("handoff::seat", SEAT),
    ("handoff::fail", FAIL),
    ("handoff::may_read", MAY_READ),
    ("handoff::let_read", LET_READ),
    ("handoff::readers", READERS),
];

/// Where a handover is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandoffState {
    /// The agent is asked to write.
    Asked,
    /// It has written; its successor starts.
    Written,
    /// The successor has its seats.
    Seated,
    /// It came to nothing: the agent keeps its seats.
    Failed,
}

impl HandoffState {
    const ALL: [HandoffState; 4] =
        [HandoffState::Asked, HandoffState::Written, HandoffState::Seated, HandoffState::Failed];

    /// Returns the word in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            HandoffState::Asked => "asked",
            HandoffState::Written => "written",
            HandoffState::Seated => "seated",
            HandoffState::Failed => "failed",
        }
    }
}

/// A handover.
#[derive(Clone, Debug)]
pub struct Handoff {
    /// Its id.
    pub id: HandoffId,
    /// The persona that goes on.
    pub persona: String,
    /// The agent that leaves.
    pub agent: String,
    /// Where it is.
    pub state: HandoffState,
    /// Why it came to nothing.
    pub reason: Option<String>,
    /// With what its file begins.
    pub stamp: String,
    /// The name of its file.
    pub file: Option<String>,
    /// What the person who asked for it said.
    pub note: Option<String>,
    /// Whether the agent goes on afterwards.
    pub keeps: bool,
    /// The message that asks for it.
    pub message_id: MailId,
    /// Who asked for it.
    pub asked_by: Actor,
    /// When.
    pub asked_at: Millis,
    /// When it was written.
    pub written_at: Option<Millis>,
    /// The agent that follows.
    pub successor: Option<String>,
    /// The message that tells it to read.
    pub read_id: Option<MailId>,
}

impl Handoff {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Handoff> {
        let state: String = row.get("state")?;
        let state = HandoffState::ALL.into_iter().find(|it| it.as_str() == state);
        Ok(Handoff {
            id: row.get("id")?,
            persona: row.get("persona")?,
            agent: row.get("agent")?,
            state: state.unwrap_or(HandoffState::Failed),
            reason: row.get("reason")?,
            stamp: row.get("stamp")?,
            file: row.get("file")?,
            note: row.get("note")?,
            keeps: row.get("keeps")?,
            message_id: row.get("message_id")?,
            asked_by: row.get("asked_by")?,
            asked_at: row.get("asked_ms")?,
            written_at: row.get("written_ms")?,
            successor: row.get("successor")?,
            read_id: row.get("read_id")?,
        })
    }
}

/// What is asked of an agent that leaves.
#[derive(Clone, Debug)]
pub struct NewHandoff<'a> {
    /// Its persona.
    pub persona: &'a str,
    /// The agent.
    pub agent: &'a str,
    /// With what its file begins.
    pub stamp: &'a str,
    /// What it is to mind.
    pub note: Option<&'a str>,
    /// Whether it goes on afterwards.
    pub keeps: bool,
    /// The message that asks for it.
    pub message: &'a MailId,
    /// Who asks.
    pub by: &'a Actor,
}

/// Writes that an agent is asked for a handoff.
///
/// # Errors
/// `conflict` with code `handover_running`.
pub fn ask(tx: &Tx<'_>, ids: &Ids, new: &NewHandoff<'_>) -> Result<HandoffId> {
    if let Some(open) = open(tx.connection(), new.agent)? {
        let message = format!("agent:{} is being handed over already", open.agent);
        return Err(Error::conflict("handover_running", message));
    }
    let id: HandoffId = ids.mint();
    tx.prepare_cached(INSERT)?.execute(named_params! {
        ":id": id, ":persona": new.persona, ":agent": new.agent, ":stamp": new.stamp,
        ":note": new.note, ":keeps": new.keeps, ":message": new.message, ":by": new.by,
        ":now": tx.now(),
    })?;
    tell(tx, (&id, new.agent, new.persona), (HandoffState::Asked, None), new.by)?;
    Ok(id)
}

/// Returns whether a persona has a handoff of this stamp.
///
/// # Errors
/// As any read.
pub fn has_stamp(connection: &Connection, persona: &str, stamp: &str) -> Result<bool> {
    let mut statement = connection.prepare_cached(HAS_STAMP)?;
    let params = named_params! {":persona": persona, ":stamp": stamp};
    Ok(statement.query_row(params, |row| row.get(0))?)
}

/// Returns the handoff of a persona with this stamp.
///
/// # Errors
/// As any read.
pub fn of_stamp(connection: &Connection, persona: &str, stamp: &str) -> Result<Option<Handoff>> {
    let mut statement = connection.prepare_cached(OF_STAMP)?;
    let params = named_params! {":persona": persona, ":stamp": stamp};
    Ok(statement.query_row(params, Handoff::from_row).optional()?)
}

/// Returns the handoffs of a persona that were written, newest first.
///
/// # Errors
/// As any read.
pub fn of_persona(connection: &Connection, persona: &str, limit: u32) -> Result<Vec<Handoff>> {
    let mut statement = connection.prepare_cached(WRITTEN)?;
    let params = named_params! {":persona": persona, ":limit": limit};
    Ok(statement.query_map(params, Handoff::from_row)?.collect::<rusqlite::Result<_>>()?)
}

/// Returns the handover of an agent that is under way.
///
/// # Errors
/// As any read.
pub fn open(connection: &Connection, agent: &str) -> Result<Option<Handoff>> {
    let mut statement = connection.prepare_cached(OPEN)?;
    Ok(statement.query_row(named_params! {":agent": agent}, Handoff::from_row).optional()?)
}

/// Returns the newest handover of an agent.
///
/// # Errors
/// As any read.
pub fn last(connection: &Connection, agent: &str) -> Result<Option<Handoff>> {
    let mut statement = connection.prepare_cached(LAST)?;
    Ok(statement.query_row(named_params! {":agent": agent}, Handoff::from_row).optional()?)
}

/// Writes that an agent has written its handoff into a file; false if that is known.
///
/// # Errors
/// As any write.
pub fn written(tx: &Tx<'_>, it: &Handoff, file: &str) -> Result<bool> {
    let params = named_params! {":id": it.id, ":file": file, ":now": tx.now()};
    if tx.prepare_cached(WRITE)?.execute(params)? == 0 {
        return Ok(false);
    }
    let by = Actor::System;
    tell(tx, (&it.id, &it.agent, &it.persona), (HandoffState::Written, None), &by).map(|()| true)
}

/// Records that an agent was asked again, by another message.
///
/// # Errors
/// As any write.
pub fn ask_again(tx: &Tx<'_>, it: &Handoff, message: &MailId) -> Result<()> {
    let params = named_params! {":id": it.id, ":message": message};
    tx.prepare_cached(ASK_AGAIN)?.execute(params)?;
    Ok(())
}

/// Writes which agent follows, and what tells it to read.
///
/// # Errors
/// `conflict` if one does already.
pub fn follow(tx: &Tx<'_>, it: &Handoff, (successor, read): (&str, &MailId)) -> Result<()> {
    let params = named_params! {":id": it.id, ":successor": successor, ":read": read};
    match tx.prepare_cached(FOLLOW)?.execute(params)? {
        0 => Err(Error::conflict("not_changed", format!("{} has a successor", it.agent))),
        _ => Ok(()),
    }
}

/// Writes that the successor has the seats of the agent.
///
/// # Errors
/// `conflict` if that is so already.
pub fn seated(tx: &Tx<'_>, it: &Handoff) -> Result<()> {
    let params = named_params! {":id": it.id, ":now": tx.now()};
    if tx.prepare_cached(SEAT)?.execute(params)? == 0 {
        return Err(Error::conflict("not_changed", format!("{} is handed over", it.agent)));
    }
    let who = (&it.id, it.agent.as_str(), it.persona.as_str());
    tell(tx, who, (HandoffState::Seated, it.successor.as_deref()), &Actor::System)
}

/// Writes that a handover came to nothing; nothing if it has ended.
///
/// # Errors
/// As any write.
pub fn failed(tx: &Tx<'_>, it: &Handoff, reason: &str) -> Result<()> {
    let params = named_params! {":id": it.id, ":reason": reason, ":now": tx.now()};
    match tx.prepare_cached(FAIL)?.execute(params)? {
        0 => Ok(()),
        _ => {
            let who = (&it.id, it.agent.as_str(), it.persona.as_str());
            tell(tx, who, (HandoffState::Failed, None), &Actor::System)
        }
    }
}

/// Lets an agent read a handoff from now on.
///
/// # Errors
/// As any write.
pub fn let_read(
    tx: &Tx<'_>,
    (persona, file): (&str, &str),
    (agent, by): (&str, &Actor),
) -> Result<()> {
    let params = named_params! {
        ":persona": persona, ":file": file, ":agent": agent, ":by": by, ":now": tx.now(),
    };
    tx.prepare_cached(LET_READ)?.execute(params)?;
    Ok(())
}

/// Returns the persona of a file that an agent was told to read; nothing for any other.
///
/// # Errors
/// As any read.
pub fn may_read(connection: &Connection, agent: &str, file: &str) -> Result<Option<String>> {
    let mut statement = connection.prepare_cached(MAY_READ)?;
    let params = named_params! {":agent": agent, ":file": file};
    Ok(statement.query_row(params, |row| row.get(0)).optional()?)
}

/// Returns the agents that were told to read a file.
///
/// # Errors
/// As any read.
pub fn readers(connection: &Connection, persona: &str, file: &str) -> Result<Vec<String>> {
    let mut statement = connection.prepare_cached(READERS)?;
    let found = statement
        .query_map(named_params! {":persona": persona, ":file": file}, |row| row.get(0))?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// Emits that a handover is in another state: ids and states only.
fn tell(
    tx: &Tx<'_>,
    (id, agent, persona): (&HandoffId, &str, &str),
    (state, successor): (HandoffState, Option<&str>),
    by: &Actor,
) -> Result<()> {
    let data = json!({
        "id": id, "agent": agent, "persona": persona, "state": state.as_str(),
        "successor": successor,
    });
    tx.emit(Event::new(EventKind::HandoffChanged, format!("agent:{agent}"), by.clone(), data))
}
