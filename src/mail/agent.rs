//! Long-lived agents as rows: their wanted state, and what they were last seen doing.
//!
//! **Invariant:** a state is only recorded for a fact: a start, a turn, an end, or a person's
//! request.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde_json::json;

use crate::base::{Actor, Error, Event, EventKind, JobId, Millis, Result};
use crate::store::Tx;

const FIND: &str = "SELECT * FROM agents WHERE name = :name";
const LIST: &str = "SELECT * FROM agents ORDER BY name";
const INSERT: &str = "
    INSERT INTO agents (name, number, persona, declared, wanted, state, config_digest, changed_ms)
    VALUES (:name, (SELECT COALESCE(MAX(number), 0) + 1 FROM agents), :persona, :declared, :wanted,
        'stopped', :digest, :now)
    ON CONFLICT (name) DO NOTHING";
const WANT: &str = "
    UPDATE agents SET wanted = :wanted, changed_ms = :now WHERE name = :name";
const SHOW: &str = "
    UPDATE agents SET state = :state, fact = :fact, fact_ms = :now, reason = :reason,
        changed_ms = :now
    WHERE name = :name";
const EXPLAIN: &str = "
    UPDATE agents SET reason = :reason, changed_ms = :now WHERE name = :name";
const START: &str = "
    UPDATE agents SET state = 'starting', job_id = :job, config_digest = :digest,
        not_before_ms = NULL, reason = NULL, fact = 'queued', fact_ms = :now, changed_ms = :now
    WHERE name = :name";
const WAIT: &str = "
    UPDATE agents SET state = :state, ends_json = :ends, not_before_ms = :not_before,
        reason = :reason, fact = 'ended', fact_ms = :now, changed_ms = :now
    WHERE name = :name";
const CLEAR_ENDS: &str = "
    UPDATE agents SET ends_json = '[]', not_before_ms = NULL WHERE name = :name";
const KEEP_SESSION: &str = "
    UPDATE agents SET session_ref = :session, session_engine = :engine,
        session_mark = :mark
    WHERE name = :name";
const SET_HEIR: &str = "UPDATE agents SET heir = :heir, changed_ms = :now WHERE name = :name";
const REST_AS: &str = "UPDATE agents SET rests = :rests WHERE name = :name";
const STARTED: &str = "
    UPDATE agents SET started_by = :by, started_ms = :now WHERE name = :name";
const COUNT_STARTED: &str = "
    SELECT COUNT(*) FROM agents
    WHERE started_by = :by AND started_ms > :since AND started_ms <= :now";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("agent::find", FIND),
    ("agent::list", LIST),
    ("agent::insert", INSERT),
    ("agent::want", WANT),
    ("agent::show", SHOW),
    ("agent::explain", EXPLAIN),
    ("agent::start", START),
    ("agent::wait", WAIT),
    ("agent::clear_ends", CLEAR_ENDS),
    ("agent::keep_session", KEEP_SESSION),
    ("agent::set_heir", SET_HEIR),
    ("agent::rest_as", REST_AS),
    ("agent::started", STARTED),
    ("agent::count_started", COUNT_STARTED),
];

/// Prefix of the reason of an agent of which it is not known whether its state still holds.
const UNKNOWN: &str = "unknown_";

/// The wanted state of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// It can be contacted: it runs, or is started when a message arrives.
    Running,
    /// It does not run until a person starts it.
    Stopped,
}

impl Wanted {
    /// Returns the stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            Wanted::Running => "running",
            Wanted::Stopped => "stopped",
        }
    }

    fn parse(word: &str) -> Wanted {
        if word == "running" { Wanted::Running } else { Wanted::Stopped }
    }
}

/// The observed state of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not running.
    Stopped,
    /// Its start is queued, or its process is starting.
    Starting,
    /// Waiting for input.
    Idle,
    /// Working.
    Busy,
    /// Waiting for a person.
    Blocked,
    /// It ended too often; a person must start it.
    Failed,
}

impl State {
    /// All states.
    pub const ALL: [State; 6] =
        [State::Stopped, State::Starting, State::Idle, State::Busy, State::Blocked, State::Failed];

    /// Returns the stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Stopped => "stopped",
            State::Starting => "starting",
            State::Idle => "idle",
            State::Busy => "busy",
            State::Blocked => "blocked",
            State::Failed => "failed",
        }
    }

    /// Returns whether it has a process, or is about to.
    pub fn is_live(self) -> bool {
        !matches!(self, State::Stopped | State::Failed)
    }
}

/// A long-lived agent.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Its name; its address is `agent:NAME`.
    pub name: String,
    /// A sequence number from 1, never reused.
    pub number: i64,
    /// The persona that it represents.
    pub persona: Option<String>,
    /// The declaration whose kind it starts.
    pub declared: String,
    /// Its wanted state.
    pub wanted: Wanted,
    /// Its observed state.
    pub state: State,
    /// The agent that receives its messages instead.
    pub heir: Option<String>,
    /// The job of its last start.
    pub job_id: Option<JobId>,
    /// The engine's session id.
    pub session_ref: Option<String>,
    /// The engine that the session belongs to, if it is known.
    pub session_engine: Option<String>,
    /// The mark of that engine, if it is known.
    pub session_mark: Option<String>,
    /// The script generation of its last start.
    pub config_digest: String,
    /// When its recent starts ended unexpectedly, oldest first.
    pub ends: Vec<Millis>,
    /// It is not restarted before this time.
    pub not_before: Option<Millis>,
    /// The fact behind its state.
    pub fact: Option<String>,
    /// When the fact was observed.
    pub fact_at: Option<Millis>,
    /// The reason for its state.
    pub reason: Option<String>,
    /// What it returns to once it has no seat, if it was started to take one.
    pub rests: Option<Wanted>,
    /// The first of the agents on whose account it was started.
    pub started_by: Option<String>,
    /// When its row last changed.
    pub changed_at: Millis,
}

impl Agent {
    /// Returns why it is not known whether its state still holds, if so.
    pub fn doubt(&self) -> Option<&str> {
        self.reason.as_deref().filter(|it| it.starts_with(UNKNOWN))
    }

    /// Returns the session that a start with an engine, given with its mark, goes on with: no other
    /// engine's.
    pub fn session_in(&self, (engine, mark): (&str, &str)) -> Option<&str> {
        let is_its_own = self.session_engine.as_deref().is_none_or(|it| it == engine)
            && self.session_mark.as_deref().is_none_or(|it| it == mark);
        self.session_ref.as_deref().filter(|_| is_its_own)
    }

    /// Returns the word for its state, as it is shown: `unknown` if it may not hold any more.
    pub fn state_word(&self) -> &'static str {
        if self.doubt().is_some() { "unknown" } else { self.state.as_str() }
    }

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Agent> {
        let (wanted, state): (String, String) = (row.get("wanted")?, row.get("state")?);
        let ends: String = row.get("ends_json")?;
        let ends: Vec<i64> = serde_json::from_str(&ends)
            .map_err(|cause| wrong(Error::internal("the ends are no list").source(cause)))?;
        let state = State::ALL.into_iter().find(|it| it.as_str() == state);
        Ok(Agent {
            name: row.get("name")?,
            number: row.get("number")?,
            persona: row.get("persona")?,
            declared: row.get("declared")?,
            wanted: Wanted::parse(&wanted),
            state: state.ok_or_else(|| wrong(Error::internal("no state of an agent")))?,
            heir: row.get("heir")?,
            job_id: row.get("job_id")?,
            session_ref: row.get("session_ref")?,
            session_engine: row.get("session_engine")?,
            session_mark: row.get("session_mark")?,
            config_digest: row.get("config_digest")?,
            ends: ends.into_iter().map(Millis).collect(),
            not_before: row.get("not_before_ms")?,
            fact: row.get("fact")?,
            fact_at: row.get("fact_ms")?,
            reason: row.get("reason")?,
            rests: row.get::<_, Option<String>>("rests")?.map(|word| Wanted::parse(&word)),
            started_by: row.get("started_by")?,
            changed_at: row.get("changed_ms")?,
        })
    }
}

fn wrong(cause: Error) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(cause))
}

/// Returns an agent by name.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn find(connection: &Connection, name: &str) -> Result<Option<Agent>> {
    let mut statement = connection.prepare_cached(FIND)?;
    Ok(statement.query_row(named_params! {":name": name}, Agent::from_row).optional()?)
}

/// Returns all agents by name.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn list(connection: &Connection) -> Result<Vec<Agent>> {
    let mut statement = connection.prepare_cached(LIST)?;
    Ok(statement.query_map([], Agent::from_row)?.collect::<rusqlite::Result<_>>()?)
}

/// Creates the row of an agent if it does not exist; returns whether it did not.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn make(
    tx: &Tx<'_>,
    (name, declared): (&str, &str),
    persona: Option<&str>,
    wanted: Wanted,
    digest: &str,
) -> Result<bool> {
    let made = tx.prepare_cached(INSERT)?.execute(named_params! {
        ":name": name, ":persona": persona, ":declared": declared, ":wanted": wanted.as_str(),
        ":digest": digest, ":now": tx.now(),
    })?;
    if made == 1 {
        tell(tx, name, State::Stopped, None, &Actor::System)?;
    }
    Ok(made == 1)
}

/// Sets the wanted state of an agent. Starting one resets its record of unexpected ends.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn want(tx: &Tx<'_>, agent: &Agent, wanted: Wanted) -> Result<()> {
    tx.prepare_cached(WANT)?.execute(named_params! {
        ":name": agent.name, ":wanted": wanted.as_str(), ":now": tx.now(),
    })?;
    tx.prepare_cached(CLEAR_ENDS)?.execute(named_params! {":name": agent.name})?;
    tx.ring(super::BELL);
    Ok(())
}

/// Sets the observed state of an agent, and emits an event if it changed.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn show(
    tx: &Tx<'_>,
    agent: &Agent,
    state: State,
    (fact, reason): (&str, Option<&str>),
    by: &Actor,
) -> Result<()> {
    // Whoever passes the reason on has seen it: there is no doubt any more.
    let reason = reason.filter(|it| !it.starts_with(UNKNOWN));
    tx.prepare_cached(SHOW)?.execute(named_params! {
        ":name": agent.name, ":state": state.as_str(), ":fact": fact, ":reason": reason,
        ":now": tx.now(),
    })?;
    tx.ring(super::BELL);
    match state == agent.state && agent.doubt().is_none() {
        true => Ok(()),
        false => tell(tx, &agent.name, state, agent.job_id.as_ref(), by),
    }
}

/// Records the reason for an agent's state; the fact behind it stays.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn explain(tx: &Tx<'_>, agent: &Agent, reason: Option<&str>) -> Result<()> {
    let params = named_params! {":name": agent.name, ":reason": reason, ":now": tx.now()};
    tx.prepare_cached(EXPLAIN)?.execute(params)?;
    tx.ring(super::BELL);
    Ok(())
}

/// Records that it is not known whether an agent's state still holds, with the reason, or that it
/// does; the fact behind it stays.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn doubt(tx: &Tx<'_>, agent: &Agent, reason: Option<&str>) -> Result<()> {
    let params = named_params! {":name": agent.name, ":reason": reason, ":now": tx.now()};
    tx.prepare_cached(EXPLAIN)?.execute(params)?;
    tx.ring(super::BELL);
    let now = Agent { reason: reason.map(str::to_owned), ..agent.clone() };
    tell_word(tx, &now.name, now.state_word(), now.job_id.as_ref(), &Actor::System)
}

/// Records that a job starts an agent.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn start(tx: &Tx<'_>, agent: &Agent, job: &JobId, digest: &str) -> Result<()> {
    tx.prepare_cached(START)?.execute(named_params! {
        ":name": agent.name, ":job": job, ":digest": digest, ":now": tx.now(),
    })?;
    tell(tx, &agent.name, State::Starting, Some(job), &Actor::System)
}

/// Records the end of an agent's start: its new state, its recent unexpected ends, and when it may
/// start again.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn ended(
    tx: &Tx<'_>,
    agent: &Agent,
    (state, reason): (State, Option<&str>),
    ends: &[Millis],
    not_before: Option<Millis>,
) -> Result<()> {
    let ends: Vec<i64> = ends.iter().map(|it| it.0).collect();
    tx.prepare_cached(WAIT)?.execute(named_params! {
        ":name": agent.name, ":state": state.as_str(), ":ends": json!(ends).to_string(),
        ":not_before": not_before, ":reason": reason, ":now": tx.now(),
    })?;
    tx.ring(super::BELL);
    tell(tx, &agent.name, state, agent.job_id.as_ref(), &Actor::System)
}

/// Stores an agent's session, and the engine that it belongs to with its mark.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn keep_session(
    tx: &Tx<'_>,
    name: &str,
    session: &str,
    (engine, mark): (Option<&str>, Option<&str>),
) -> Result<()> {
    let params =
        named_params! {":name": name, ":session": session, ":engine": engine, ":mark": mark};
    tx.prepare_cached(KEEP_SESSION)?.execute(params)?;
    Ok(())
}

/// Forgets an agent's session: its next start begins a new one.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn forget_session(tx: &Tx<'_>, name: &str) -> Result<()> {
    let none: Option<&str> = None;
    let params = named_params! {":name": name, ":session": none, ":engine": none, ":mark": none};
    tx.prepare_cached(KEEP_SESSION)?.execute(params)?;
    Ok(())
}

/// Sets which agent receives an agent's messages from now on.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn set_heir(tx: &Tx<'_>, name: &str, heir: Option<&str>) -> Result<()> {
    let params = named_params! {":name": name, ":heir": heir, ":now": tx.now()};
    tx.prepare_cached(SET_HEIR)?.execute(params)?;
    Ok(())
}

/// Sets what an agent returns to once it has no seat; with `None` it runs for other reasons, too.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn rest_as(tx: &Tx<'_>, name: &str, rests: Option<Wanted>) -> Result<()> {
    let params = named_params! {":name": name, ":rests": rests.map(Wanted::as_str)};
    tx.prepare_cached(REST_AS)?.execute(params)?;
    tx.ring(super::BELL);
    Ok(())
}

/// Records on which agent's account an agent was started.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn started(tx: &Tx<'_>, name: &str, by: &str) -> Result<()> {
    let params = named_params! {":name": name, ":by": by, ":now": tx.now()};
    tx.prepare_cached(STARTED)?.execute(params)?;
    Ok(())
}

/// Returns how many agents were started on an agent's account since a time, ignoring times in the
/// future.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn count_started(c: &Connection, by: &str, (since, now): (Millis, Millis)) -> Result<u32> {
    let params = named_params! {":by": by, ":since": since, ":now": now};
    Ok(c.prepare_cached(COUNT_STARTED)?.query_row(params, |row| row.get(0))?)
}

fn tell(tx: &Tx<'_>, name: &str, state: State, job: Option<&JobId>, by: &Actor) -> Result<()> {
    tell_word(tx, name, state.as_str(), job, by)
}

fn tell_word(tx: &Tx<'_>, name: &str, state: &str, job: Option<&JobId>, by: &Actor) -> Result<()> {
    let data = json!({"name": name, "state": state, "job_id": job});
    tx.emit(Event::new(EventKind::AgentChanged, format!("agent:{name}"), by.clone(), data))
}
