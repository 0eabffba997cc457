//! The rows of turns.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde_json::json;

use crate::base::{
    Actor, BlockId, Error, Event, EventKind, Ids, JobId, MailId, Millis, PersonId, Result, TurnId,
    truncate_chars,
};
use crate::store::Tx;

const INSERT: &str = "
    INSERT INTO turns (id, agent, job_id, block_id, channel, cause, cause_message, state,
        started_ms)
    VALUES (:id, :agent, :job, :block, :channel, :cause, :message, 'running', :now)
    ON CONFLICT DO NOTHING";
const END: &str = "
    UPDATE turns SET state = :state, answer = :answer, reason = :reason, ended_ms = :now,
        tokens = :tokens, cost_usd = :cost, is_mixed = :mixed
    WHERE id = :id AND state = 'running'";
const HOLD: &str = "
    UPDATE turns SET held = 'waiting', held_sequence = :sequence
    WHERE id = :id AND state = 'answered' AND held IS NULL";
const DECIDE: &str = "
    UPDATE turns SET held = :held, held_by = :by, decided_ms = :now
    WHERE id = :id AND held = 'waiting'";
const ANSWER: &str = "SELECT answer FROM turns WHERE id = :id";
const WAITING: &str = "
    SELECT * FROM turns WHERE held = 'waiting' ORDER BY ended_ms LIMIT :limit";
const FIND: &str = "SELECT * FROM turns WHERE id = :id";
const RUNNING: &str = "SELECT * FROM turns WHERE agent = :agent AND state = 'running'";
const OF_BLOCK: &str = "
    SELECT * FROM turns WHERE block_id = :block ORDER BY started_ms DESC LIMIT 1";
const NEWEST_OF_CHANNEL: &str = "
    SELECT * FROM turns WHERE channel = :channel ORDER BY started_ms DESC LIMIT :limit";

const OF_AGENT: &str = "
    SELECT * FROM turns WHERE agent = :agent AND started_ms < :before
    ORDER BY started_ms DESC LIMIT :limit";
const DIRECT_OF_AGENT: &str = "
    SELECT * FROM turns WHERE agent = :agent AND channel IS NULL AND block_id IS NOT NULL
        AND state = 'answered' AND is_mixed = 0
    ORDER BY started_ms DESC LIMIT :limit";
const HAS_OWN: &str = "
    SELECT EXISTS (SELECT 1 FROM turns WHERE agent = :agent AND block_id IS NULL)";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("turn::insert", INSERT),
    ("turn::end", END),
    ("turn::hold", HOLD),
    ("turn::decide", DECIDE),
    ("turn::answer", ANSWER),
    ("turn::waiting", WAITING),
    ("turn::find", FIND),
    ("turn::running", RUNNING),
    ("turn::of_block", OF_BLOCK),
    ("turn::newest_of_channel", NEWEST_OF_CHANNEL),
    ("turn::of_agent", OF_AGENT),
    ("turn::direct_of_agent", DIRECT_OF_AGENT),
    ("turn::has_own", HAS_OWN),
];

/// Longest answer that is kept, in characters.
const ANSWER_CHARS_MAX: usize = 64 * 1024;
/// Longest reason that is kept, in characters.
const REASON_CHARS_MAX: usize = 1_000;

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With an answer.
    Answered,
    /// Without an answer.
    Silent,
    /// Somebody interrupted it.
    Interrupted,
    /// Its engine failed.
    Failed,
    /// The agent's process ended first.
    Lost,
}

impl End {
    /// Returns the word in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            End::Answered => "answered",
            End::Silent => "silent",
            End::Interrupted => "interrupted",
            End::Failed => "failed",
            End::Lost => "lost",
        }
    }
}

/// The state of a held answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Awaiting a decision.
    Waiting,
    /// A person posted it.
    Posted,
    /// A person kept it out of the channel.
    Private,
}

impl Held {
    /// Returns the word in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Held::Waiting => "waiting",
            Held::Posted => "posted",
            Held::Private => "private",
        }
    }

    fn parse(word: &str) -> Option<Held> {
        [Held::Waiting, Held::Posted, Held::Private].into_iter().find(|it| it.as_str() == word)
    }
}

/// A turn of an agent.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Its id.
    pub id: TurnId,
    /// The agent.
    pub agent: String,
    /// The start of the agent in which it was.
    pub job_id: JobId,
    /// The block that caused it.
    pub block_id: Option<BlockId>,
    /// The channel whose block caused it.
    pub channel: Option<i64>,
    /// The newest waking message of the block.
    pub cause_message: Option<MailId>,
    /// `running answered silent interrupted failed lost`.
    pub state: String,
    /// Why it failed.
    pub reason: Option<String>,
    /// When it began.
    pub started_at: Millis,
    /// When it was completed.
    pub ended_at: Option<Millis>,
    /// What becomes of its answer, if that was kept back.
    pub held: Option<Held>,
    /// The line in its channel that tells of that.
    pub held_sequence: Option<i64>,
    /// Who decided it.
    pub held_by: Option<PersonId>,
    /// Whether somebody may have typed in it.
    pub is_mixed: bool,
    /// Tokens that it used.
    pub tokens: Option<i64>,
    /// What it cost in US dollars.
    pub cost_usd: Option<f64>,
}

impl Turn {
    /// Returns whether it ended without an answer that its agent meant.
    pub fn came_to_nothing(&self) -> bool {
        let ends = [End::Interrupted, End::Failed, End::Lost];
        ends.iter().any(|end| end.as_str() == self.state)
    }

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Turn> {
        Ok(Turn {
            id: row.get("id")?,
            agent: row.get("agent")?,
            job_id: row.get("job_id")?,
            block_id: row.get("block_id")?,
            channel: row.get("channel")?,
            cause_message: row.get("cause_message")?,
            state: row.get("state")?,
            reason: row.get("reason")?,
            started_at: row.get("started_ms")?,
            ended_at: row.get("ended_ms")?,
            held: row.get::<_, Option<String>>("held")?.and_then(|it| Held::parse(&it)),
            held_sequence: row.get("held_sequence")?,
            held_by: row.get("held_by")?,
            is_mixed: row.get("is_mixed")?,
            tokens: row.get("tokens")?,
            cost_usd: row.get("cost_usd")?,
        })
    }
}

/// The cause of a turn.
#[derive(Clone, Debug)]
pub struct NewTurn<'a> {
    /// The agent.
    pub agent: &'a str,
    /// Its start.
    pub job: &'a JobId,
    /// The block that it received.
    pub block: Option<&'a BlockId>,
    /// The channel of that block.
    pub channel: Option<i64>,
    /// The newest waking message of the block.
    pub cause_message: Option<MailId>,
}

/// Records that a turn began, unless that block already has one, or the agent is in one.
///
/// # Errors
/// As any write.
pub fn begin(tx: &Tx<'_>, ids: &Ids, new: &NewTurn<'_>, tag: Option<&str>) -> Result<()> {
    let id: TurnId = ids.mint();
    let cause = if new.block.is_some() { "block" } else { "engine" };
    let written = tx.prepare_cached(INSERT)?.execute(named_params! {
        ":id": id, ":agent": new.agent, ":job": new.job, ":block": new.block,
        ":channel": new.channel, ":message": new.cause_message, ":now": tx.now(),
        ":cause": cause,
    })?;
    if written == 0 {
        return Ok(());
    }
    tell(tx, EventKind::TurnStarted, (&id, new.agent, tag), "running")
}

/// What a turn came to.
#[derive(Clone, Debug)]
pub struct Outcome<'a> {
    /// How it ended.
    pub end: End,
    /// Its last words.
    pub answer: &'a str,
    /// Why it failed.
    pub reason: Option<&'a str>,
    /// What it took.
    pub tokens: u64,
    /// What it cost.
    pub cost_usd: Option<f64>,
    /// Whether its words may hold what somebody typed.
    pub is_mixed: bool,
}

/// Ends a turn that runs; false if it has ended.
///
/// # Errors
/// As any write.
pub fn end(tx: &Tx<'_>, turn: &Turn, outcome: &Outcome<'_>, tag: Option<&str>) -> Result<bool> {
    let answer = truncate_chars(outcome.answer, ANSWER_CHARS_MAX);
    let reason = outcome.reason.map(|it| truncate_chars(it, REASON_CHARS_MAX));
    let tokens = i64::try_from(outcome.tokens).unwrap_or(i64::MAX);
    let ended = tx.prepare_cached(END)?.execute(named_params! {
        ":id": turn.id, ":state": outcome.end.as_str(), ":answer": answer, ":reason": reason,
        ":tokens": tokens, ":cost": outcome.cost_usd, ":now": tx.now(),
        ":mixed": outcome.is_mixed,
    })?;
    if ended == 0 {
        return Ok(false);
    }
    let what = (&turn.id, turn.agent.as_str(), tag);
    tell(tx, EventKind::TurnEnded, what, outcome.end.as_str()).map(|()| true)
}

/// Keeps the answer of a turn back until a person has looked at it; `sequence` is the line in its
/// channel that tells of it. False if it was kept back before.
///
/// # Errors
/// As any write.
pub fn hold(tx: &Tx<'_>, turn: &Turn, sequence: i64, tag: Option<&str>) -> Result<bool> {
    let params = named_params! {":id": turn.id, ":sequence": sequence};
    match tx.prepare_cached(HOLD)?.execute(params)? {
        0 => Ok(false),
        _ => tell_held(tx, (turn, tag), Held::Waiting, &Actor::System).map(|()| true),
    }
}

/// Writes what a person decided of an answer that was kept back.
///
/// # Errors
/// `conflict` with code `already_decided`.
pub fn decide(
    tx: &Tx<'_>,
    (turn, tag): (&Turn, Option<&str>),
    (held, by): (Held, &PersonId),
) -> Result<()> {
    let changed = tx.prepare_cached(DECIDE)?.execute(named_params! {
        ":id": turn.id, ":held": held.as_str(), ":by": by, ":now": tx.now(),
    })?;
    if changed == 0 {
        let message = format!("somebody has decided about this answer of {}", turn.agent);
        return Err(Error::conflict("already_decided", message));
    }
    tell_held(tx, (turn, tag), held, &Actor::Person(by.clone()))
}

/// Returns the last words of a turn that has ended.
///
/// # Errors
/// As any read.
pub fn answer_of(connection: &Connection, id: &TurnId) -> Result<String> {
    let mut statement = connection.prepare_cached(ANSWER)?;
    let found = statement.query_row(named_params! {":id": id}, |row| row.get(0)).optional()?;
    Ok(found.flatten().unwrap_or_default())
}

/// Returns the turns whose answers wait for a person, the oldest first.
///
/// # Errors
/// As any read.
pub fn waiting(connection: &Connection, limit: u32) -> Result<Vec<Turn>> {
    let mut statement = connection.prepare_cached(WAITING)?;
    let params = named_params! {":limit": limit};
    Ok(statement.query_map(params, Turn::from_row)?.collect::<rusqlite::Result<_>>()?)
}

/// Returns a turn.
///
/// # Errors
/// `not_found` with code `no_turn`.
pub fn find(connection: &Connection, id: &TurnId) -> Result<Turn> {
    let mut statement = connection.prepare_cached(FIND)?;
    let found = statement.query_row(named_params! {":id": id}, Turn::from_row).optional()?;
    found.ok_or_else(|| missing(id))
}

/// Returns the error for a turn that does not exist, or not for whoever asks.
pub fn missing(id: &TurnId) -> Error {
    Error::not_found(format!("no turn {id}")).code("no_turn")
}

/// Returns the turn that an agent is in.
///
/// # Errors
/// As any read.
pub fn running_of(connection: &Connection, agent: &str) -> Result<Option<Turn>> {
    let mut statement = connection.prepare_cached(RUNNING)?;
    Ok(statement.query_row(named_params! {":agent": agent}, Turn::from_row).optional()?)
}

/// Returns the turn that an end is told of: the one that the agent is in if that block caused it,
/// or the one of that block if it has ended.
///
/// # Errors
/// As any read.
pub fn of_end(c: &Connection, agent: &str, block: Option<&BlockId>) -> Result<Option<Turn>> {
    match block {
        Some(block) => {
            let mut statement = c.prepare_cached(OF_BLOCK)?;
            let params = named_params! {":block": block};
            Ok(statement.query_row(params, Turn::from_row).optional()?)
        }
        None => Ok(running_of(c, agent)?.filter(|it| it.block_id.is_none())),
    }
}

/// Returns the newest turns that a channel caused, newest first.
///
/// # Errors
/// As any read.
pub fn newest_of_channel(connection: &Connection, channel: i64, limit: u32) -> Result<Vec<Turn>> {
    let mut statement = connection.prepare_cached(NEWEST_OF_CHANNEL)?;
    let params = named_params! {":channel": channel, ":limit": limit};
    Ok(statement.query_map(params, Turn::from_row)?.collect::<rusqlite::Result<_>>()?)
}

/// Returns the turns of an agent that began before a moment, newest first.
///
/// # Errors
/// As any read.
pub fn of_agent(c: &Connection, agent: &str, before: Millis, limit: u32) -> Result<Vec<Turn>> {
    let mut statement = c.prepare_cached(OF_AGENT)?;
    let params = named_params! {":agent": agent, ":before": before, ":limit": limit};
    Ok(statement.query_map(params, Turn::from_row)?.collect::<rusqlite::Result<_>>()?)
}

/// Returns whether an agent has had a turn that no message caused: in a terminal, somebody typed.
///
/// # Errors
/// As any read.
pub fn has_own(c: &Connection, agent: &str) -> Result<bool> {
    let mut statement = c.prepare_cached(HAS_OWN)?;
    Ok(statement.query_row(named_params! {":agent": agent}, |row| row.get(0))?)
}

/// Returns the newest turns of an agent that messages to it alone caused and that it answered,
/// newest first; none that may hold what somebody typed.
///
/// # Errors
/// As any read.
pub fn direct_of_agent(connection: &Connection, agent: &str, limit: u32) -> Result<Vec<Turn>> {
    let mut statement = connection.prepare_cached(DIRECT_OF_AGENT)?;
    let params = named_params! {":agent": agent, ":limit": limit};
    Ok(statement.query_map(params, Turn::from_row)?.collect::<rusqlite::Result<_>>()?)
}

/// Emits what became of an answer that was kept back.
fn tell_held(
    tx: &Tx<'_>,
    (turn, tag): (&Turn, Option<&str>),
    held: Held,
    by: &Actor,
) -> Result<()> {
    let data = json!({
        "turn_id": turn.id, "agent": turn.agent, "channel": tag, "state": held.as_str(),
    });
    let subject = format!("agent:{}", turn.agent);
    tx.emit(Event::new(EventKind::TurnHeld, subject, by.clone(), data))
}

/// Emits that a turn began or ended: ids and states only. `channel` is the id of its channel.
fn tell(
    tx: &Tx<'_>,
    kind: EventKind,
    (id, agent, channel): (&TurnId, &str, Option<&str>),
    state: &str,
) -> Result<()> {
    let data = json!({"turn_id": id, "agent": agent, "channel": channel, "state": state});
    tx.emit(Event::new(kind, format!("agent:{agent}"), Actor::System, data))
}
