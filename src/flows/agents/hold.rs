//! What keeps an agent that is ready for messages from getting any: a daily cap, or the rate limit
//! of its engine's provider.

use rusqlite::Connection;

use crate::base::{Actor, Millis, Result};
use crate::jobs::{self, Job};
use crate::mail::TurnEnd;
use crate::script::{Config, Kind};
use crate::store::Tx;

/// Why an agent that is ready for messages gets none.
pub(super) const CAPPED: &str = "daily_cap";
pub(super) const ENGINE_HELD: &str = "engine_held";

/// Returns what holds an agent of a kind back, and until when.
pub(super) fn hold(
    c: &Connection,
    config: &Config,
    kind: &str,
    now: Millis,
) -> Result<Option<(&'static str, Millis)>> {
    if let Some(until) = jobs::capped_until(c, config, (kind, &Actor::System), now)? {
        return Ok(Some((CAPPED, until)));
    }
    let until = config.kinds.get(kind).map(|it| held_until(c, it, now)).transpose()?.flatten();
    Ok(until.map(|until| (ENGINE_HELD, until)))
}

/// Returns until when the engine of a kind is held.
pub(super) fn held_until(c: &Connection, kind: &Kind, now: Millis) -> Result<Option<Millis>> {
    let held = jobs::hold_of(c, &kind.engine)?;
    Ok(held.map(|it| it.until).filter(|until| *until > now))
}

/// Holds the engine of an agent whose turn, begun then, has failed because of a rate limit: what
/// waits would fail message by message.
pub(super) fn follow(
    tx: &Tx<'_>,
    config: &Config,
    (job, began): (&Job, Millis),
    how: &TurnEnd,
) -> Result<()> {
    let engine = job.engine.as_ref().and_then(|it| config.engines.get(it));
    match how {
        TurnEnd::Failed(why) if engine.is_some_and(|it| it.is_held_by_limits) => {
            jobs::hold_for_turn(tx, job, began, why)
        }
        TurnEnd::Answered => jobs::well_after_turn(tx, job),
        _ => Ok(()),
    }
}
