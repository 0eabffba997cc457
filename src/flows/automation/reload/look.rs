//! What waits, judged for a new script before it becomes active.

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::Connection;

use crate::api::config::Trouble;
use crate::base::{Millis, Result};
use crate::flows::Site;
use crate::flows::agents;
use crate::flows::automation::reload::sources::{self, Around};
use crate::flows::automation::reload::unfit;
use crate::flows::automation::reload::waiting::{self, Count, Lost};
use crate::jobs::Generation;
use crate::script::{Config, kind_of_agent};

/// What a new script would do to what waits.
pub(super) struct Look {
    /// How much waits.
    pub(super) queued: BTreeMap<String, Count>,
    /// The waiting jobs that would be lost.
    pub(super) lost: Vec<Lost>,
    /// A warning about proposals.
    pub(super) open: Option<String>,
    /// What would wait on, as it does under the active script.
    pub(super) held: Vec<String>,
    /// Why it is refused.
    pub(super) trouble: Option<Trouble>,
}

/// Looks at what waits, for a new script with its own `sources` and one with those of now, which
/// change with a restart only.
///
/// # Errors
/// As any read.
pub(super) async fn look(
    site: &Site,
    old: &Generation,
    (new, settled): (Config, Config),
    around: Arc<Around>,
    drop: bool,
) -> Result<Look> {
    let (old, now) = (old.config.clone(), site.store.clock().now());
    let look = move |c: &Connection| {
        let lost = waiting::lost(c, (&old, &new), &around, drop)?;
        let taken = agents::taken(c, &settled)?;
        let is_old = |name: &str| old.kinds.contains_key(&kind_of_agent(name));
        let (before, clashes): (Vec<_>, Vec<_>) =
            taken.into_iter().partition(|it| is_old(&it.name));
        let trouble = trouble(now, if drop { &[] } else { &lost }, &clashes, &settled);
        let mut held: Vec<String> = before.iter().map(agents::Taken::sentence).collect();
        if !drop {
            held.extend(unfit::would_strand(c, &settled, &around)?);
        }
        let queued = waiting::counts(c, &old)?;
        Ok(Look { queued, lost, open: sources::unapprovable(c, &old, &new)?, held, trouble })
    };
    site.store.read(look).await
}

fn trouble(at: Millis, lost: &[Lost], clashes: &[agents::Taken], new: &Config) -> Option<Trouble> {
    let summary = match (lost, clashes) {
        ([], []) => return None,
        ([], [first, ..]) => first.what(),
        _ => waiting::summary(lost),
    };
    let mut errors = waiting::errors(lost, new);
    errors.extend(clashes.iter().map(agents::Taken::error));
    Some(Trouble { at, summary, errors })
}
