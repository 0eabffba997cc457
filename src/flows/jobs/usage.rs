//! The usage of jobs, the rest of today's caps, and engines on hold.

use rusqlite::Connection;
use serde::Deserialize;

use crate::api::usage::{CapRow, EngineHold, EngineReleased, EngineRow, Spending, UsageRow};
use crate::base::{Error, Millis, Page, Result};
use crate::flows::people::named;
use crate::flows::{Site, viewer};
use crate::jobs::{self, CapOf, CapState, UsageBy, Viewer};
use crate::mail;
use crate::people::{self, Caller};

/// Default period of the totals, in milliseconds.
const SINCE_MS: i64 = 30 * 24 * 3_600_000;

/// The query of `GET /api/usage`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UsageQuery {
    /// `day` (the default), `kind`, `person` or `engine`.
    pub by: Option<String>,
    /// A day such as `2026-01-02` (UTC), from its beginning; by default 30 days ago.
    pub since: Option<String>,
}

/// Returns totals of usage, and the used share of each daily cap.
///
/// # Errors
/// `invalid` for a word or a day that is none; `forbidden` for jobs.
pub async fn usage(site: &Site, caller: &Caller, query: UsageQuery) -> Result<Spending> {
    caller.person()?;
    let by = query.by.as_deref().map_or(Ok(UsageBy::Day), UsageBy::parse)?;
    let now = site.store.clock().now();
    let since = query.since.as_deref().map_or(Ok(now.plus(-SINCE_MS)), parse_day)?;
    // Of other people's private jobs, an admin sees only a total per kind.
    let of_all = by == UsageBy::Kind && caller.may_administer().is_ok();
    let own = viewer(caller);
    let seen = if of_all { Viewer::Program } else { own.clone() };
    let queue = site.queue.clone();
    site.store
        .read(move |c| {
            let (items, total) = jobs::usage(c, &seen, by, since)?;
            let items = items.into_iter().map(|usage| {
                let display_name = match (by, usage.name.parse()) {
                    (UsageBy::Person, Ok(actor)) => Some(people::display_name(c, &actor)?),
                    _ => None,
                };
                Ok(UsageRow { usage, display_name })
            });
            let items: Vec<UsageRow> = items.collect::<Result<_>>()?;
            let caps = queue.caps(c, &own, now)?.into_iter().map(|cap| {
                let display_name = match (&cap.cap, cap.of.as_deref().map(str::parse)) {
                    (CapOf::Person(_), Some(Ok(actor))) => Some(people::display_name(c, &actor)?),
                    _ => None,
                };
                Ok(row_of(cap, display_name))
            });
            let caps: Vec<CapRow> = caps.collect::<Result<_>>()?;
            let since: String = since.rfc3339().chars().take(10).collect();
            Ok(Spending { by: by.as_str().to_owned(), since, items, total, caps, next: None })
        })
        .await
}

fn row_of(state: CapState, display_name: Option<String>) -> CapRow {
    CapRow {
        cap: state.cap.word().to_owned(),
        of: state.of,
        measure: state.measure.to_owned(),
        used: state.used,
        limit: state.limit,
        is_spent: state.is_spent,
        frees_at: state.frees_at,
        display_name,
    }
}

fn parse_day(text: &str) -> Result<Millis> {
    let day: std::result::Result<jiff::civil::Date, _> = text.parse();
    let at = day.ok().filter(|_| text.len() == 10);
    let at = at.and_then(|it| it.to_zoned(jiff::tz::TimeZone::UTC).ok());
    at.map(|it| Millis(it.timestamp().as_millisecond())).ok_or_else(|| {
        Error::invalid("since must be a day such as 2026-01-02")
            .code("bad_time")
            .hint("a day in UTC")
    })
}

/// Returns the engines of the script with their holds.
///
/// # Errors
/// `forbidden` for jobs.
pub async fn engines(site: &Site, caller: &Caller) -> Result<Page<EngineRow>> {
    caller.person()?;
    let (now, config) = (site.store.clock().now(), site.config.clone());
    let viewer = viewer(caller);
    let look = move |c: &Connection| Ok((jobs::holds(c, &viewer, now)?, jobs::steering(c)?));
    let read = site.store.read(look);
    let (holds, steering) = read.await?;
    let engines = config.engines.values().map(|engine| {
        let limit = holds.iter().find(|it| it.engine == engine.name && engine.is_held_by_limits);
        let steering = steering.as_ref().filter(|_| !engine.is_builtin());
        let hold = match (limit, steering) {
            // Without a time: a person must decide, whatever the provider says.
            (_, Some(it)) => Some(EngineHold {
                engine: engine.name.clone(),
                since: it.since,
                until: None,
                is_said: false,
                job_id: Some(it.job_id.clone()),
                message: it.sentence(),
            }),
            (Some(hold), None) => Some(EngineHold {
                engine: hold.engine.clone(),
                since: hold.since,
                until: Some(hold.until),
                is_said: hold.is_said,
                job_id: hold.job_id.clone(),
                message: hold.message.clone(),
            }),
            (None, None) => None,
        };
        let kind = match &engine.speech {
            Some(it) if it.typed.is_some() => "terminal",
            Some(_) => "stream",
            None => engine.body.word(),
        };
        EngineRow {
            name: engine.name.clone(),
            kind: kind.to_owned(),
            reads: engine.reads().map(|it| it.as_str().to_owned()),
            on_rate_limit: if engine.is_held_by_limits { "hold" } else { "go_on" }.to_owned(),
            hold,
        }
    });
    Ok(Page { items: engines.collect(), next: None })
}

/// The name of an engine in a path.
#[derive(Clone, Debug)]
pub struct EngineName(String);

impl std::str::FromStr for EngineName {
    type Err = Error;
    fn from_str(text: &str) -> Result<EngineName> {
        Ok(EngineName(text.to_owned()))
    }
}

/// Releases an engine's hold early.
///
/// # Errors
/// `not_found` for an engine that the script does not have, and with code `no_person`; `conflict`
/// with code `engine_not_held`; `forbidden` for viewers and jobs, and for those who name a person
/// and are no admin.
pub async fn release(
    site: &Site,
    caller: &Caller,
    (name, person): (&EngineName, Option<&str>),
) -> Result<EngineReleased> {
    let name = name.0.as_str();
    caller.may_write()?;
    let of = match person {
        None => None,
        Some(person) => {
            caller.may_administer()?;
            Some(site.store.look(|c| named(c, person))?.id)
        }
    };
    if !site.config.engines.contains_key(name) {
        let shown = crate::base::truncate_chars(name, 60);
        let known: Vec<&str> = site.config.engines.keys().map(String::as_str).collect();
        return Err(Error::not_found(format!("no engine \"{}\"", shown.escape_debug()))
            .hint(format!("the script declares: {}", known.join(", "))));
    }
    let (engine, by) = (name.to_owned(), caller.actor());
    let is_builtin = site.config.engines.get(name).is_some_and(|it| it.is_builtin());
    let released = site.store.write(move |tx| {
        jobs::release(tx, &engine, of.as_ref(), &by).map_err(|cause| {
            match jobs::steering(tx.connection()) {
                Ok(Some(steering)) if !is_builtin => cause.hint(steering.sentence()),
                _ => cause,
            }
        })?;
        // Its agents get what waits for them.
        tx.ring(mail::BELL);
        Ok(())
    });
    released.await?;
    Ok(EngineReleased { engine: name.to_owned(), hold: None })
}
