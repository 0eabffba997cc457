//! What jobs have spent, what may still be spent today, and engines whose provider takes no more.

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::base::{Error, Millis, Result};
use crate::flows::{Site, viewer};
use crate::jobs::{self, CapOf, UsageBy, Viewer};
use crate::people::{self, Caller};

/// How far sums go back if nothing is asked, in milliseconds.
const SINCE_MS: i64 = 30 * 24 * 3_600_000;

/// The query of `GET /api/usage`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UsageQuery {
    /// `day` (the default), `kind`, `person` or `engine`.
    pub by: Option<String>,
    /// A day like `2026-01-02` (UTC): from its beginning on; 30 days back if it is not given.
    pub since: Option<String>,
}

/// Returns sums of what jobs have spent, and how much of each daily cap is used.
///
/// # Errors
/// `invalid` for a word or a day that is none; `forbidden` for jobs.
pub async fn usage(site: &Site, caller: &Caller, query: UsageQuery) -> Result<Value> {
    caller.person()?;
    let by = query.by.as_deref().map_or(Ok(UsageBy::Day), UsageBy::parse)?;
    let now = site.store.clock().now();
    let since = query.since.as_deref().map_or(Ok(now.plus(-SINCE_MS)), parse_day)?;
    // Of private jobs of others an admin sees one sum for each kind.
    let of_all = by == UsageBy::Kind && caller.may_administer().is_ok();
    let own = viewer(caller);
    let seen = if of_all { Viewer::Program } else { own.clone() };
    let queue = site.queue.clone();
    site.store
        .read(move |c| {
            let (items, total) = jobs::usage(c, &seen, by, since)?;
            let items = items.into_iter().map(|item| {
                let shown = match (by, item.name.parse()) {
                    (UsageBy::Person, Ok(actor)) => Some(people::display_name(c, &actor)?),
                    _ => None,
                };
                let mut item = as_json(&item)?;
                if let Some(shown) = shown {
                    item["display_name"] = json!(shown);
                }
                Ok(item)
            });
            let items: Vec<Value> = items.collect::<Result<_>>()?;
            let caps = queue.caps(c, &own, now)?.into_iter().map(|cap| {
                let shown = match (&cap.cap, cap.of.as_deref().map(str::parse)) {
                    (CapOf::Person(_), Some(Ok(actor))) => Some(people::display_name(c, &actor)?),
                    _ => None,
                };
                let mut cap = as_json(&cap)?;
                if let Some(shown) = shown {
                    cap["display_name"] = json!(shown);
                }
                Ok(cap)
            });
            let caps: Vec<Value> = caps.collect::<Result<_>>()?;
            let since: String = since.rfc3339().chars().take(10).collect();
            Ok(json!({
                "by": by.as_str(), "since": since, "items": items, "total": as_json(&total)?,
                "caps": caps, "next": null,
            }))
        })
        .await
}

fn as_json(usage: &impl Serialize) -> Result<Value> {
    serde_json::to_value(usage).map_err(|cause| Error::internal("usage is not JSON").source(cause))
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

/// Returns the engines of the script, each with its hold if it is held.
///
/// # Errors
/// `forbidden` for jobs.
pub async fn engines(site: &Site, caller: &Caller) -> Result<Value> {
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
            // It has no time: a person has to decide, whatever the provider says.
            (_, Some(it)) => json!({
                "engine": engine.name, "since": it.since, "until": null, "is_said": false,
                "job_id": it.job_id, "message": it.sentence(),
            }),
            (Some(hold), None) => json!(hold),
            (None, None) => Value::Null,
        };
        json!({
            "name": engine.name,
            "type": match &engine.speech {
                Some(it) if it.typed.is_some() => "terminal",
                Some(_) => "stream",
                None => engine.body.word(),
            },
            "reads": engine.reads(),
            "on_rate_limit": if engine.is_held_by_limits { "hold" } else { "go_on" },
            "hold": hold,
        })
    });
    Ok(json!({"items": engines.collect::<Vec<Value>>(), "next": null}))
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

/// Lets an engine go on before the time until which it is held.
///
/// # Errors
/// `not_found` for an engine that the script does not have; `conflict` with code
/// `engine_not_held`; `forbidden` for viewers and jobs.
pub async fn release(site: &Site, caller: &Caller, name: &EngineName) -> Result<Value> {
    let name = name.0.as_str();
    caller.may_write()?;
    if !site.config.engines.contains_key(name) {
        let shown = crate::base::truncate_chars(name, 60);
        let known: Vec<&str> = site.config.engines.keys().map(String::as_str).collect();
        return Err(Error::not_found(format!("no engine \"{}\"", shown.escape_debug()))
            .hint(format!("the script declares: {}", known.join(", "))));
    }
    let (engine, by) = (name.to_owned(), caller.actor());
    let is_builtin = site.config.engines.get(name).is_some_and(|it| it.is_builtin());
    let released = site.store.write(move |tx| {
        jobs::release(tx, &engine, &by).map_err(|cause| match jobs::steering(tx.connection()) {
            Ok(Some(steering)) if !is_builtin => cause.hint(steering.sentence()),
            _ => cause,
        })
    });
    released.await?;
    Ok(json!({"engine": name, "hold": null}))
}
