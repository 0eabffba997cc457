//! Waiting jobs that the active script has no place for, and what the operator can do about them.

use std::collections::BTreeMap;

use rusqlite::Connection;

use crate::base::{JobId, Result};
use crate::flows::automation::reload::waiting::{refused, takes_the_same};
use crate::jobs::{self, Capacities};
use crate::script::Config;
use crate::store::Tx;

/// Keeps jobs from starting that their kind no longer accepts; returns those that it accepts again.
/// They may start only under the new script: see [`release`]. Kinds that accept the same as under
/// an earlier script are passed over.
///
/// # Errors
/// As any write.
pub(super) fn keep(
    tx: &Tx<'_>,
    old: Option<&Config>,
    new: &Config,
    lanes: &Capacities,
) -> Result<Vec<JobId>> {
    let c = tx.connection();
    let (marked, mut fit) = (jobs::unfit(c)?, Vec::new());
    for (name, _) in jobs::queue_counts(c, &jobs::Viewer::Site)?.queued {
        let Some(kind) = new.kinds.get(&name) else { continue };
        let before = old.and_then(|it| it.kinds.get(&name));
        if before.is_some_and(|it| takes_the_same(it, kind)) {
            continue;
        }
        let refused: BTreeMap<_, _> = refused(c, &name, kind)?.into_iter().collect();
        let again = marked.iter().filter(|it| it.kind == name && !refused.contains_key(&it.id));
        fit.extend(again.map(|it| it.id.clone()));
        for (id, why) in &refused {
            jobs::mark_unfit(tx, id, why, lanes)?;
        }
    }
    Ok(fit)
}

/// Lets jobs start again, once the script that accepts them is active.
///
/// # Errors
/// As any write.
pub(super) fn release(tx: &Tx<'_>, fit: &[JobId], lanes: &Capacities) -> Result<()> {
    fit.iter().try_for_each(|id| jobs::unmark_unfit(tx, id, lanes))
}

/// Returns a sentence for each kind whose jobs wait until the script changes: it does not have the
/// kind, or the kind does not accept them.
///
/// # Errors
/// As any read.
pub fn stranded(c: &Connection, config: &Config) -> Result<Vec<String>> {
    let queued = jobs::queue_counts(c, &jobs::Viewer::Site)?.queued;
    let gone = queued.into_iter().filter(|it| !config.kinds.contains_key(&it.0));
    let mut all: Vec<String> = gone.map(|(kind, count)| of_gone(&kind, count)).collect();
    let mut changed: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for it in jobs::unfit(c)? {
        changed.entry(it.kind).or_insert((0, it.why)).0 += 1;
    }
    for (name, (count, why)) in &changed {
        let Some(kind) = config.kinds.get(name) else { continue };
        let (title, jobs) = (kind.title(), if *count == 1 { "job waits" } else { "jobs wait" });
        all.push(format!(
            "{count} {jobs} because {title} no longer accepts what was requested ({why}): change \
             the script back and reload, or wiki-browser reload --drop cancels them"
        ));
    }
    Ok(all)
}

fn of_gone(kind: &str, count: i64) -> String {
    // Names of kinds have no slash.
    let (what, was) = match kind.contains('/') {
        true => ("inbox", String::new()),
        false => ("kind", format!("was = \"{kind}\" in another kind takes them over, ")),
    };
    format!(
        "{count} jobs of {what} \"{kind}\" wait until the script has that {what} again; \
         {was}wiki-browser job cancel --kind {kind} cancels them"
    )
}
