//! Agents that live on, as rows: what is wanted of each, and what it was last seen doing.
//!
//! **Invariant:** a state is written for a fact: a start, a turn, an end, or what a person asked.

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
    UPDATE agents SET session_ref = :session WHERE name = :name";
const SET_HEIR: &str = "UPDATE agents SET heir = :heir, changed_ms = :now WHERE name = :name";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("agent::find", FIND),
    ("agent::list", LIST),
    ("agent::insert", INSERT),
    ("agent::want", WANT),
    ("agent::show", SHOW),
    ("agent::start", START),
    ("agent::wait", WAIT),
    ("agent::clear_ends", CLEAR_ENDS),
    ("agent::keep_session", KEEP_SESSION),
    ("agent::set_heir", SET_HEIR),
];

/// What is wanted of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// That it can be spoken to: it runs, or is started when something comes for it.
    Running,
    /// That it does not run until a person says so.
    Stopped,
}

impl Wanted {
    /// Returns the word in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Wanted::Running => "running",
            Wanted::Stopped => "stopped",
        }
    }
}

/// What an agent was last seen doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It does not run.
    Stopped,
    /// Its start waits, or its process begins.
    Starting,
    /// It waits to be spoken to.
    Idle,
    /// It works.
    Busy,
    /// It waits for a person.
    Blocked,
    /// It ended too often; a person has to start it.
    Failed,
}

impl State {
    /// All states.
    pub const ALL: [State; 6] =
        [State::Stopped, State::Starting, State::Idle, State::Busy, State::Blocked, State::Failed];

    /// Returns the word in the table.
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

    /// Returns whether a process of it runs or is about to.
    pub fn is_live(self) -> bool {
        !matches!(self, State::Stopped | State::Failed)
    }
}

/// An agent that lives on.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Its name: its address is `agent:NAME`.
    pub name: String,
    /// Counts agents from 1; never given twice.
    pub number: i64,
    /// The persona that it speaks for.
    pub persona: Option<String>,
    /// The declaration whose kind it starts.
    pub declared: String,
    /// What is wanted of it.
    pub wanted: Wanted,
    /// What it was last seen doing.
    pub state: State,
    /// Who gets what is sent to this one.
    pub heir: Option<String>,
    /// Its last start.
    pub job_id: Option<JobId>,
    /// The engine's name for its session.
    pub session_ref: Option<String>,
    /// The generation of the script that its last start ran under.
    pub config_digest: String,
    /// When its last starts ended unasked, oldest first.
    pub ends: Vec<Millis>,
    /// It is not started again before this time.
    pub not_before: Option<Millis>,
    /// The fact behind its state.
    pub fact: Option<String>,
    /// When that was seen.
    pub fact_at: Option<Millis>,
    /// Why it is in this state.
    pub reason: Option<String>,
    /// When its row last changed.
    pub changed_at: Millis,
}

impl Agent {
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
            wanted: if wanted == "running" { Wanted::Running } else { Wanted::Stopped },
            state: state.ok_or_else(|| wrong(Error::internal("no state of an agent")))?,
            heir: row.get("heir")?,
            job_id: row.get("job_id")?,
            session_ref: row.get("session_ref")?,
            config_digest: row.get("config_digest")?,
            ends: ends.into_iter().map(Millis).collect(),
            not_before: row.get("not_before_ms")?,
            fact: row.get("fact")?,
            fact_at: row.get("fact_ms")?,
            reason: row.get("reason")?,
            changed_at: row.get("changed_ms")?,
        })
    }
}

fn wrong(cause: Error) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(cause))
}

/// Returns an agent, if there is one of that name.
///
/// # Errors
/// As any read.
pub fn find(connection: &Connection, name: &str) -> Result<Option<Agent>> {
    let mut statement = connection.prepare_cached(FIND)?;
    Ok(statement.query_row(named_params! {":name": name}, Agent::from_row).optional()?)
}

/// Returns all agents by name.
///
/// # Errors
/// As any read.
pub fn list(connection: &Connection) -> Result<Vec<Agent>> {
    let mut statement = connection.prepare_cached(LIST)?;
    Ok(statement.query_map([], Agent::from_row)?.collect::<rusqlite::Result<_>>()?)
}

/// Makes the row of an agent that is not there yet; whether it was not.
///
/// # Errors
/// As any insert.
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

/// Writes what is wanted of an agent. A person who starts one forgives its ends.
///
/// # Errors
/// As any write.
pub fn want(tx: &Tx<'_>, agent: &Agent, wanted: Wanted) -> Result<()> {
    tx.prepare_cached(WANT)?.execute(named_params! {
        ":name": agent.name, ":wanted": wanted.as_str(), ":now": tx.now(),
    })?;
    tx.prepare_cached(CLEAR_ENDS)?.execute(named_params! {":name": agent.name})?;
    tx.ring(super::BELL);
    Ok(())
}

/// Writes what an agent is seen doing; tells it if that is another state than before.
///
/// # Errors
/// As any write.
pub fn show(
    tx: &Tx<'_>,
    agent: &Agent,
    state: State,
    (fact, reason): (&str, Option<&str>),
    by: &Actor,
) -> Result<()> {
    tx.prepare_cached(SHOW)?.execute(named_params! {
        ":name": agent.name, ":state": state.as_str(), ":fact": fact, ":reason": reason,
        ":now": tx.now(),
    })?;
    tx.ring(super::BELL);
    match state == agent.state {
        true => Ok(()),
        false => tell(tx, &agent.name, state, agent.job_id.as_ref(), by),
    }
}

/// Writes that an agent is started by this job.
///
/// # Errors
/// As any write.
pub fn start(tx: &Tx<'_>, agent: &Agent, job: &JobId, digest: &str) -> Result<()> {
    tx.prepare_cached(START)?.execute(named_params! {
        ":name": agent.name, ":job": job, ":digest": digest, ":now": tx.now(),
    })?;
    tell(tx, &agent.name, State::Starting, Some(job), &Actor::System)
}

/// Writes that a start of an agent ended: what it is now, when it was so before, and when it may
/// start again.
///
/// # Errors
/// As any write.
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

/// Keeps the engine's name for the session of an agent; nothing: its next start begins a new one.
///
/// # Errors
/// As any write.
pub fn keep_session(tx: &Tx<'_>, name: &str, session: Option<&str>) -> Result<()> {
    let params = named_params! {":name": name, ":session": session};
    tx.prepare_cached(KEEP_SESSION)?.execute(params)?;
    Ok(())
}

/// Says who gets what is sent to an agent from now on.
///
/// # Errors
/// As any write.
pub fn set_heir(tx: &Tx<'_>, name: &str, heir: Option<&str>) -> Result<()> {
    let params = named_params! {":name": name, ":heir": heir, ":now": tx.now()};
    tx.prepare_cached(SET_HEIR)?.execute(params)?;
    Ok(())
}

fn tell(tx: &Tx<'_>, name: &str, state: State, job: Option<&JobId>, by: &Actor) -> Result<()> {
    let data = json!({"name": name, "state": state.as_str(), "job_id": job});
    tx.emit(Event::new(EventKind::AgentChanged, format!("agent:{name}"), by.clone(), data))
}
