//! Schedules of the script: what comes due by itself, served once.
//!
//! **Invariant:** when a schedule is next due stands in the database, and is moved in the
//! transaction that accepts its jobs: a server that is killed in between serves that time when it
//! is back, and never twice.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, named_params};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::api::config::ScheduleView;
use crate::base::{Actor, Error, Event, EventKind, JobId, Millis, Page, Result, fault};
use crate::flows::automation::effects::{self, Failure, Origin, Turn, Wish};
use crate::flows::{Site, Works, clock};
use crate::jobs;
use crate::script::{Missed, Schedule, Wanted};
use crate::store::{Tx, other_rows};

/// Rung when the schedules change.
pub const BELL: &str = "schedules";
/// How long to wait while the functions of the script are switched off.
const STUCK_PAUSE: Duration = Duration::from_secs(60);
/// From this delay on, a time counts as missed.
const MISSED_MS: i64 = 60_000;

const FIND: &str = "
    SELECT timing, planned_ms, next_ms, last_ms, last_job, last_error FROM schedules
    WHERE name = :name";
const NAMES: &str = "SELECT name FROM schedules WHERE name > ''";
const KEEP: &str = "
    INSERT INTO schedules (name, timing, planned_ms, next_ms)
    VALUES (:name, :timing, :planned, :next)
    ON CONFLICT (name) DO UPDATE SET timing = :timing, planned_ms = :planned, next_ms = :next";
const REMOVE: &str = "DELETE FROM schedules WHERE name = :name";
const MOVE: &str = "
    UPDATE schedules SET planned_ms = :planned, next_ms = :next, last_ms = :now,
        last_job = COALESCE(:job, last_job), last_error = :error
    WHERE name = :name AND next_ms = :due";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[
    ("schedules::find", FIND),
    ("schedules::names", NAMES),
    ("schedules::keep", KEEP),
    ("schedules::remove", REMOVE),
    ("schedules::move", MOVE),
];

/// The state of a schedule.
#[derive(Clone, Debug)]
struct State {
    timing: String,
    planned: Millis,
    next: Millis,
    last: Option<Millis>,
    last_job: Option<JobId>,
    last_error: Option<String>,
}

impl State {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<State> {
        Ok(State {
            timing: row.get("timing")?,
            planned: row.get("planned_ms")?,
            next: row.get("next_ms")?,
            last: row.get("last_ms")?,
            last_job: row.get("last_job")?,
            last_error: row.get("last_error")?,
        })
    }

    fn find(c: &Connection, name: &str) -> Result<Option<State>> {
        let mut statement = c.prepare_cached(FIND)?;
        let found = statement.query_row(named_params! {":name": name}, State::from_row);
        Ok(found.optional()?)
    }
}

/// Returns whether a stored time lies beyond the time after the next one: the clock was ahead when
/// it was planned.
fn is_too_far(schedule: &Schedule, state: &State, now: Millis) -> bool {
    let first = schedule.next(None, now);
    state.planned > schedule.next(Some(first), first)
}

/// Stores the times of the declared schedules. An unchanged schedule keeps its time; a changed one,
/// or one that a wrong clock has postponed, starts anew; removed ones are deleted.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn keep(tx: &Tx<'_>, declared: &BTreeMap<String, Schedule>) -> Result<()> {
    let c = tx.connection();
    for name in names(c)?.iter().filter(|it| !declared.contains_key(*it)) {
        tx.prepare_cached(REMOVE)?.execute(named_params! {":name": name})?;
    }
    for (name, schedule) in declared {
        let timing = schedule.describe();
        if let Some(state) = State::find(c, name)?.filter(|it| it.timing == timing) {
            if !is_too_far(schedule, &state, tx.now()) {
                continue;
            }
            warn!(
                "schedule {name} was put off to {} by a clock that was ahead: it starts anew",
                state.planned
            );
        }
        let planned = schedule.next(None, tx.now());
        let next = schedule.with_jitter(planned);
        tx.prepare_cached(KEEP)?.execute(named_params! {
            ":name": name, ":timing": timing, ":planned": planned, ":next": next,
        })?;
    }
    Ok(())
}

fn names(c: &Connection) -> Result<Vec<String>> {
    let mut names = c.prepare_cached(NAMES)?;
    let names = names.query_map([], |row| row.get(0))?;
    Ok(names.collect::<rusqlite::Result<_>>()?)
}

/// Takes over the times of a later database of the same site: what it has served is not served
/// again.
///
/// # Errors
/// As any read or write.
pub(in crate::flows) fn take_later(tx: &Tx<'_>, later: &Connection) -> Result<()> {
    for name in names(later)? {
        let key = ("name", &name as &dyn ToSql);
        let here = State::find(tx.connection(), &name)?;
        let there = State::find(later, &name)?;
        if there.map(|it| it.next) <= here.map(|it| it.next) {
            continue;
        }
        if let Some(row) = other_rows::row(later, "schedules", key)? {
            other_rows::remove(tx, "schedules", key)?;
            other_rows::put(tx, "schedules", row)?;
        }
    }
    Ok(())
}

/// Runs due schedules until `stop`.
pub async fn serve(site: Site, stop: CancellationToken) {
    let bell = site.store.bell(BELL);
    let mut is_kept = false;
    loop {
        let looked = round(&site, &mut is_kept, &stop).await;
        if !clock::sleep(looked, "the schedules are looked at", &bell, &stop).await {
            return;
        }
    }
}

/// Runs everything due now, once; returns the next due time.
///
/// # Errors
/// As reading and writing.
pub(in crate::flows) async fn serve_due(site: &Site) -> Result<Option<Millis>> {
    round(site, &mut false, &CancellationToken::new()).await?;
    let names: Vec<String> = site.config.schedules.keys().cloned().collect();
    let next = site.store.read(move |c| {
        let states = names.iter().map(|name| State::find(c, name));
        let states = states.collect::<Result<Vec<_>>>()?;
        Ok(states.into_iter().flatten().map(|it| it.next).min())
    });
    next.await
}

/// Runs everything due now; returns how long until the next one, or `None` without schedules.
async fn round(
    site: &Site,
    is_kept: &mut bool,
    stop: &CancellationToken,
) -> Result<Option<Duration>> {
    let site = site.now();
    if !*is_kept {
        let declared = site.config.schedules.clone();
        site.store.write(move |tx| keep(tx, &declared)).await?;
        *is_kept = true;
    }
    if site.vm().stuck() {
        // What is due waits for the restart that the operator was asked for.
        return Ok(Some(STUCK_PAUSE));
    }
    let mut pause = None;
    for schedule in site.config.schedules.values() {
        if stop.is_cancelled() || site.vm().stuck() {
            break;
        }
        let name = schedule.name.clone();
        let Some(state) = site.store.read(move |c| State::find(c, &name)).await? else { continue };
        let now = site.store.clock().now();
        if is_too_far(schedule, &state, now) {
            *is_kept = false;
            return Ok(Some(Duration::ZERO));
        }
        let next = match state.next <= now {
            true => fire(&site, schedule, &state, now).await?,
            false => state.next,
        };
        let wait = clock::until(next, now);
        pause = Some(pause.map_or(wait, |it: Duration| it.min(wait)));
    }
    Ok(pause)
}

/// The result of one run of a schedule, before it is written.
struct Fired {
    wishes: Vec<Wish>,
    skipped: Option<String>,
}

/// Runs a schedule; returns its next time. One that a stop has cut short is still due.
async fn fire(site: &Site, schedule: &Schedule, state: &State, now: Millis) -> Result<Millis> {
    let planned = schedule.next(Some(state.planned), now);
    let next = schedule.with_jitter(planned);
    let fired = fired(site, schedule, state, now).await?;
    if fired.wishes.iter().any(Wish::is_stopped) {
        return Ok(state.next);
    }
    fault::crash_point("after_schedule");
    let (at, schedule, state) = (site.clone(), schedule.clone(), state.clone());
    let write =
        move |tx: &Tx<'_>| write(tx, &at, (&schedule, &state), &fired, (planned, next, now));
    let failures = site.store.write(write).await?;
    failures.iter().for_each(Failure::log);
    fault::crash_point("after_schedule_commit");
    Ok(next)
}

async fn fired(site: &Site, schedule: &Schedule, state: &State, now: Millis) -> Result<Fired> {
    let skipped = |why: String| Ok(Fired { wishes: Vec::new(), skipped: Some(why) });
    if schedule.missed == Missed::Skip && now.0 - state.next.0 > MISSED_MS {
        return skipped("its time had passed while no server served".to_owned());
    }
    let by = Actor::Schedule(schedule.name.clone());
    // Also those that its messages started.
    let asked = by.clone();
    if let Some(job) = site.store.read(move |c| jobs::unended_of(c, &asked)).await? {
        return skipped(format!("job {job} of the time before has not ended"));
    }
    let function = format!("schedule.{}", schedule.name);
    let cause = format!("the time {state}", state = state.planned);
    let origin = Origin { function: function.clone(), at: schedule.at.clone() };
    let failed =
        |origin: &Origin, error: &Error| vec![Wish::Failed(Failure::new(origin, &cause, error))];
    let wishes = match &schedule.enqueue {
        Wanted::Job(request) => match effects::job(site, request.clone(), &by, 0).await {
            Ok(new) => vec![Wish::Job { new: Box::new(new), by: origin, handler: None }],
            Err(error) => failed(&origin, &error),
        },
        Wanted::Function(slot) => {
            let arg = json!({"name": schedule.name, "planned": state.planned, "now": now});
            match site.vm().tell_in_turn(&function, slot, arg).await {
                Ok(wanted) => {
                    effects::ready(site, wanted, (&by, 0), (&function, None), &cause).await
                }
                Err(error) => failed(&Origin { at: slot.at.clone(), ..origin }, &error),
            }
        }
    };
    Ok(Fired { wishes, skipped: None })
}

fn write(
    tx: &Tx<'_>,
    site: &Site,
    (schedule, state): (&Schedule, &State),
    fired: &Fired,
    (planned, next, now): (Millis, Millis, Millis),
) -> Result<Vec<Failure>> {
    let cause = format!("the time {}", state.planned);
    let outcome = effects::accept_all(tx, site, &fired.wishes, &cause, Turn::Last(1))?;
    let (accepted, failures) = (outcome.accepted, outcome.failures);
    for failure in &failures {
        failure.write(tx)?;
    }
    let error = failures.first().map(|it| it.message.clone()).or_else(|| fired.skipped.clone());
    if fault::is_off("schedule_kept") {
        return Ok(failures);
    }
    let moved = tx.prepare_cached(MOVE)?.execute(named_params! {
        ":name": schedule.name, ":planned": planned, ":next": next, ":now": now,
        ":job": accepted.first(), ":error": error, ":due": state.next,
    })?;
    if moved == 0 {
        // A reload has changed its times in the meantime.
        return Err(Error::conflict("schedule_moved", "the schedule now has another time"));
    }
    let mut data = json!({
        "schedule": schedule.name, "planned": state.planned, "jobs": accepted,
        "late_ms": now.0.saturating_sub(state.next.0).max(0),
    });
    if let Some(why) = &fired.skipped {
        data["skipped"] = json!(why);
    }
    if let Some(failure) = failures.first() {
        data["error"] = json!(failure.message);
    }
    let by = Actor::Schedule(schedule.name.clone());
    let subject = format!("schedule:{}", schedule.name);
    tx.emit(Event::new(EventKind::ScheduleFired, subject, by, data))?;
    info!("schedule {} came due and made {} jobs", schedule.name, accepted.len());
    Ok(failures)
}

/// Returns all schedules with their times.
///
/// # Errors
/// As any read.
pub fn list(works: &Works) -> Result<Page<ScheduleView>> {
    works.store.look(|c| {
        let mut items = Vec::new();
        for it in works.config.schedules.values() {
            let state = State::find(c, &it.name)?;
            let state = state.as_ref();
            let last_job = state.and_then(|state| state.last_job.clone());
            let status = match &last_job {
                Some(id) => {
                    jobs::find_brief(c, &jobs::Viewer::Site, id).ok().map(|job| job.status.as_str())
                }
                None => None,
            };
            let kind = match &it.enqueue {
                Wanted::Job(request) => request.get("kind").and_then(Value::as_str),
                Wanted::Function(_) => None,
            };
            items.push(ScheduleView {
                name: it.name.clone(),
                about: it.about.clone(),
                when: it.describe(),
                missed: it.missed.as_str().to_owned(),
                at: it.at.to_string(),
                kind: kind.map(str::to_owned),
                next_at: state.map(|it| it.next),
                last_at: state.and_then(|it| it.last),
                last_job,
                last_status: status.map(str::to_owned),
                last_error: state.and_then(|it| it.last_error.clone()),
            });
        }
        Ok(Page { items, next: None })
    })
}
