//! Engine holds: when an engine's provider is rate limiting, its queued jobs wait instead of
//! failing one by one.
//!
//! **Invariant:** a hold is written in the transaction that settles the rate-limited job, or ends
//! the turn, so no later claim starts a job of that engine, and no agent of it is given a message,
//! before the hold expires or a person lifts it.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde::Serialize;
use serde_json::json;

use crate::base::{Actor, Error, Event, EventKind, JobId, Millis, PersonId, Result, Scope, fault};
use crate::jobs::telemetry::limit::{self, AHEAD_MS_MAX, Limit};
use crate::jobs::{BELL, Job, Viewer};
use crate::store::Tx;

/// The first hold for a limit without a known end.
const FIRST_MS: i64 = 60_000;
/// The longest hold; each consecutive one is twice as long.
const LONGEST_MS: i64 = 30 * 60_000;

// The person of a hold is '' if it applies to everybody.
const FIND: &str = "SELECT * FROM engine_holds WHERE engine = :engine AND person_id = :person";
const ACTIVE: &str = "
    SELECT * FROM engine_holds WHERE until_ms > :now AND person_id IN ('', :person)
    ORDER BY engine, until_ms DESC";
const PUT: &str = "
    INSERT INTO engine_holds (engine, person_id, since_ms, until_ms, is_said, strikes, job_id)
    VALUES (:engine, :person, :since, :until, :said, :strikes, :job)
    ON CONFLICT (engine, person_id) DO UPDATE SET since_ms = :since, until_ms = :until,
        is_said = :said, strikes = :strikes, job_id = :job";
const DROP: &str = "
    DELETE FROM engine_holds
    WHERE engine = :engine AND person_id = :person AND until_ms <= :now";
const RELEASE_ALL_OF: &str = "DELETE FROM engine_holds WHERE person_id = :person";
const RELEASE: &str = "
    DELETE FROM engine_holds
    WHERE engine = :engine AND person_id = :person AND until_ms > :now";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] = &[
    ("engine_hold::find", FIND),
    ("engine_hold::active", ACTIVE),
    ("engine_hold::put", PUT),
    ("engine_hold::drop", DROP),
    ("engine_hold::release", RELEASE),
    ("engine_hold::release_all_of", RELEASE_ALL_OF),
];

/// A held engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Hold {
    /// The engine.
    pub engine: String,
    /// When it was last updated.
    pub since: Millis,
    /// When it expires.
    pub until: Millis,
    /// Whether the provider named the end; otherwise it is a growing guess.
    pub is_said: bool,
    /// The rate-limited job; `None` if it is private.
    pub job_id: Option<JobId>,
    /// The reason, as a clause without a full stop.
    pub message: String,
    #[serde(skip)]
    strikes: i64,
}

/// Returns the person to whom a job's limit applies, as stored. A private job uses its owner's
/// login, shared with nobody else's jobs, unless it uses a key of the site.
fn person_of(job: &Job, is_of_site: bool) -> String {
    let owner = job.owner.as_ref().filter(|_| !is_of_site);
    owner.map(ToString::to_string).unwrap_or_default()
}

/// Holds the engine of a rate-limited job, for all jobs of the site or for its owner's.
pub(in crate::jobs) fn hold(
    tx: &Tx<'_>,
    engine: &str,
    (job, is_of_site): (&Job, bool),
    limit: Limit,
) -> Result<()> {
    if fault::is_off("engine_hold") {
        return Ok(());
    }
    let now = tx.now();
    let person = person_of(job, is_of_site);
    let before = find(tx.connection(), engine, &person)?;
    let strikes = match &before {
        None => 1,
        // Jobs that ran concurrently hit the same limit: it does not count again.
        Some(before) if job.started_at.is_some_and(|it| it < before.until) => before.strikes,
        Some(before) => before.strikes.saturating_add(1),
    };
    let said = limit.retry_at.filter(|it| *it > now && !limit.is_prose);
    let said = said.map(|it| it.min(now.plus(AHEAD_MS_MAX)));
    let doublings = u32::try_from(strikes - 1).unwrap_or(0).min(16);
    let guess = now.plus((FIRST_MS << doublings).min(LONGEST_MS));
    let before = before.filter(|it| it.until > now);
    let is_said = said.is_some() || before.as_ref().is_some_and(|it| it.is_said);
    let until = match (said, before) {
        (Some(said), before) => before.map_or(said, |it| it.until.max(said)),
        (None, Some(before)) if before.is_said => before.until,
        (None, before) => before.map_or(guess, |it| it.until.max(guess)),
    };
    let named = Some(&job.id).filter(|_| job.owner.is_none());
    tx.prepare_cached(PUT)?.execute(named_params! {
        ":engine": engine, ":person": person, ":since": now, ":until": until, ":said": is_said,
        ":strikes": strikes, ":job": named,
    })?;
    let event = Event::new(
        EventKind::EngineHeld,
        format!("engine:{engine}"),
        Actor::System,
        json!({"engine": engine, "until": until, "job_id": named}),
    );
    tx.emit(event.scoped(if is_of_site { Scope::Site } else { job.scope() }))
}

/// Holds the engine of a long-running agent whose turn, begun then, failed because of a rate limit,
/// as its engine told; nothing for another failure.
///
/// # Errors
/// As any write.
pub fn hold_for_turn(tx: &Tx<'_>, job: &Job, began: Millis, why: &str) -> Result<()> {
    let limit = limit::in_words(why, tx.now());
    let (Some(limit), Some(engine)) = (limit, &job.engine) else { return Ok(()) };
    // Its start may be long ago.
    let job = Job { started_at: Some(began), ..job.clone() };
    hold(tx, engine, (&job, false), limit)
}

/// Deletes an expired hold after a turn of a long-running agent was answered.
///
/// # Errors
/// As any write.
pub fn well_after_turn(tx: &Tx<'_>, job: &Job) -> Result<()> {
    job.engine.as_ref().map_or(Ok(()), |engine| well(tx, engine, (job, false)))
}

/// Deletes an expired hold after a job of the engine has succeeded.
pub(in crate::jobs) fn well(
    tx: &Tx<'_>,
    engine: &str,
    (job, is_of_site): (&Job, bool),
) -> Result<()> {
    let person = person_of(job, is_of_site);
    let params = named_params! {":engine": engine, ":person": person, ":now": tx.now()};
    tx.prepare_cached(DROP)?.execute(params)?;
    Ok(())
}

/// Lifts an engine's hold for all jobs of the site, and the one for a person's own jobs: of the
/// person who lifts it, or of another one.
///
/// # Errors
/// `conflict` with code `engine_not_held`.
pub fn release(tx: &Tx<'_>, engine: &str, of: Option<&PersonId>, by: &Actor) -> Result<()> {
    let lift = |person: &str| -> Result<bool> {
        let params = named_params! {":engine": engine, ":person": person, ":now": tx.now()};
        Ok(tx.prepare_cached(RELEASE)?.execute(params)? > 0)
    };
    // Naming a person lifts their hold only.
    let is_sites = of.is_none() && lift("")?;
    let person = match of.or_else(|| by.person()) {
        Some(person) if lift(person.as_str())? => Some(person.clone()),
        _ => None,
    };
    if !is_sites && person.is_none() {
        let whose = if of.is_some() { " for this person" } else { "" };
        let message = format!("engine \"{engine}\" is not on hold{whose}");
        return Err(
            Error::conflict("engine_not_held", message).hint("list them: wiki-browser engine list")
        );
    }
    tx.ring(BELL);
    tx.emit(
        Event::new(
            EventKind::EngineReleased,
            format!("engine:{engine}"),
            by.clone(),
            json!({"engine": engine}),
        )
        .scoped(person.filter(|_| !is_sites).map_or(Scope::Site, Scope::Person))
        .audited(),
    )
}

/// Deletes the holds for a person's own jobs, whose sign-ins end.
///
/// # Errors
/// As any write.
pub fn release_all_of(tx: &Tx<'_>, person: &PersonId) -> Result<()> {
    tx.prepare_cached(RELEASE_ALL_OF)?.execute(named_params! {":person": person})?;
    Ok(())
}

/// Returns the engines currently held for the site, and for a viewer's own private jobs; the longer
/// of two holds of an engine.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn holds(connection: &Connection, viewer: &Viewer, now: Millis) -> Result<Vec<Hold>> {
    let person = viewer.person().map_or("", PersonId::as_str);
    let mut statement = connection.prepare_cached(ACTIVE)?;
    let rows = statement.query_map(named_params! {":now": now, ":person": person}, from_row)?;
    let mut holds: Vec<Hold> = rows.collect::<rusqlite::Result<_>>()?;
    holds.dedup_by(|later, first| later.engine == first.engine);
    Ok(holds)
}

/// Returns an engine's hold for the site, even an expired one if no job has succeeded since; `None`
/// if a person lifted it.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn hold_of(connection: &Connection, engine: &str) -> Result<Option<Hold>> {
    find(connection, engine, "")
}

/// Returns the hold of an engine that counts for a person's own jobs, if there is one: of the site,
/// or of what that person has signed in with.
///
/// # Errors
/// As any read.
pub fn hold_for(connection: &Connection, engine: &str, person: &PersonId) -> Result<Option<Hold>> {
    let (of_site, own) = (hold_of(connection, engine)?, find(connection, engine, person.as_str())?);
    Ok(of_site.into_iter().chain(own).max_by_key(|it| it.until))
}

fn find(connection: &Connection, engine: &str, person: &str) -> Result<Option<Hold>> {
    let mut statement = connection.prepare_cached(FIND)?;
    let params = named_params! {":engine": engine, ":person": person};
    Ok(statement.query_row(params, from_row).optional()?)
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Hold> {
    Ok(Hold {
        engine: row.get("engine")?,
        since: row.get("since_ms")?,
        until: row.get("until_ms")?,
        is_said: row.get("is_said")?,
        message: "its provider's rate limit is reached".to_owned(),
        job_id: row.get("job_id")?,
        strikes: row.get("strikes")?,
    })
}
