//! Waiting jobs that the active script has no place for, and what the operator can do about them.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;

use crate::base::{JobId, Result};
use crate::flows::approvals::resume;
use crate::flows::automation::reload::sources::{self, Around};
use crate::flows::automation::reload::waiting::{decided_legs, refused, takes_the_same};
use crate::jobs::{self, Capacities, Choice, Status, Unfit};
use crate::script::Config;
use crate::store::Tx;

/// Most parked jobs that are judged for a report.
const PARKED_MAX: usize = 1_000;

/// Keeps jobs from starting that a script has no place for; returns the marked ones that fit again.
/// They may start only under the new script: see [`release`].
///
/// # Errors
/// As any write.
pub(super) fn keep(
    tx: &Tx<'_>,
    both: (Option<&Config>, &Config),
    around: &Around,
    lanes: &Capacities,
) -> Result<Vec<JobId>> {
    let Judged { unfit, fit } = judge(tx.connection(), both, around)?;
    for it in &unfit {
        jobs::mark_unfit(tx, &it.id, &it.why, lanes)?;
    }
    Ok(fit)
}

/// The waiting jobs that a script has no place for, and the marked ones that fit it.
struct Judged {
    unfit: Vec<Unfit>,
    fit: Vec<JobId>,
}

/// Returns the jobs that their kind does not accept, that would not get their persona, whose
/// document is no Source or not there yet, or that could not go on with their decision: it would be
/// used up. Kinds that accept the same as under an earlier script are passed over, unless jobs of
/// theirs are marked or waited for them, and so are jobs whose kind is gone.
///
/// # Errors
/// As any read.
fn judge(
    c: &Connection,
    (old, new): (Option<&Config>, &Config),
    around: &Around,
) -> Result<Judged> {
    let (marked, mut judged) = (jobs::unfit(c)?, Judged { unfit: Vec::new(), fit: Vec::new() });
    for (name, _) in jobs::queue_counts(c, &jobs::Viewer::Site)?.queued {
        let Some(kind) = new.kind(&name) else { continue };
        let before = old.and_then(|it| it.kinds.get(&name));
        let is_marked = marked.iter().any(|it| it.kind == name);
        let takes_the_same = before.is_some_and(|it| takes_the_same(it, kind));
        if takes_the_same && !is_marked && !sources::is_back(old, kind) {
            continue;
        }
        let refused: BTreeMap<_, _> = refused(c, &name, kind)?.into_iter().collect();
        let again = |it: &&Unfit| it.kind == name && !refused.contains_key(&it.id);
        judged.fit.extend(marked.iter().filter(again).map(|it| it.id.clone()));
        let unfit = |(id, why)| Unfit { id, kind: name.clone(), why };
        judged.unfit.extend(refused.into_iter().map(unfit));
    }
    for leg in decided_legs(c)?.into_iter().filter(|it| new.kind(&it.kind).is_some()) {
        judged.fit.retain(|it| *it != leg.id);
        match resume::obstacle(new, &leg) {
            Some(why) => judged.unfit.push(Unfit { id: leg.id, kind: leg.kind, why }),
            None if marked.iter().any(|it| it.id == leg.id) => judged.fit.push(leg.id),
            None => {}
        }
    }
    let mut homeless = sources::unspoken(c, new, around)?;
    // The Sources are those of the last start: a reload has no others.
    if !judged.fit.is_empty() || new.kinds.values().any(|it| sources::is_back(old, it)) {
        homeless.extend(sources::unnamed(c, new)?);
    }
    homeless.extend(sources::missing(c, (old, new), around)?);
    let gone: BTreeSet<&JobId> = homeless.iter().map(|it| &it.id).collect();
    judged.fit.retain(|it| !gone.contains(it));
    let mut known: BTreeSet<JobId> = judged.unfit.iter().map(|it| it.id.clone()).collect();
    homeless.retain(|it| known.insert(it.id.clone()));
    judged.unfit.extend(homeless);
    // No script gives them their document back.
    let taken: Vec<Unfit> = marked.into_iter().filter(Unfit::is_displaced).collect();
    let ids: BTreeSet<&JobId> = taken.iter().map(|it| &it.id).collect();
    judged.fit.retain(|it| !ids.contains(it));
    judged.unfit.retain(|it| !ids.contains(&it.id));
    judged.unfit.extend(taken);
    Ok(judged)
}

/// Lets jobs start again, once the script that accepts them is active.
///
/// # Errors
/// As any write.
pub(super) fn release(tx: &Tx<'_>, fit: &[JobId], lanes: &Capacities) -> Result<()> {
    fit.iter().try_for_each(|id| jobs::unmark_unfit(tx, id, lanes))
}

/// Returns a sentence for each kind whose jobs wait until the script changes: it does not have the
/// kind, the kind does not accept them, or they could not go on with a decision.
///
/// # Errors
/// As any read.
pub(super) fn stranded(c: &Connection, config: &Config) -> Result<Vec<String>> {
    sentences(c, config, jobs::unfit(c)?)
}

/// Returns the same for a script that was not started yet.
///
/// # Errors
/// As any read.
pub fn would_strand(c: &Connection, config: &Config, around: &Around) -> Result<Vec<String>> {
    sentences(c, config, judge(c, (None, config), around)?.unfit)
}

fn sentences(c: &Connection, config: &Config, unfit: Vec<Unfit>) -> Result<Vec<String>> {
    let queued = jobs::queue_counts(c, &jobs::Viewer::Site)?.queued;
    let gone = queued.into_iter().filter(|it| config.kind(&it.0).is_none());
    let mut all: Vec<String> = gone.map(|(kind, count)| of_gone(&kind, count)).collect();
    let mut changed: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for it in unfit {
        changed.entry(it.kind).or_insert((0, it.why)).0 += 1;
    }
    for (name, (count, why)) in &changed {
        let Some(kind) = config.kind(name) else { continue };
        let title = kind.title();
        let (jobs, them) = if *count == 1 { ("job waits", "it") } else { ("jobs wait", "them") };
        all.push(format!(
            "{count} {jobs} because {title} can no longer run {them} ({why}): {}, or wiki-browser \
             reload --drop cancels {them}",
            jobs::way_back(why)
        ));
    }
    all.extend(of_parked(c, config)?);
    Ok(all)
}

fn of_gone(kind: &str, count: i64) -> String {
    let (wait, them) = if count == 1 { ("job waits", "it") } else { ("jobs wait", "them") };
    format!(
        "{count} {wait} until the script has {} again; {}wiki-browser job cancel --kind {kind} \
         cancels {them}",
        title(kind),
        taken_over(kind)
    )
}

/// Returns a sentence for the parked jobs of each kind that could not go on with a decision.
fn of_parked(c: &Connection, config: &Config) -> Result<Vec<String>> {
    let choice = Choice { status: Status::Parked, kind: None, before: None, is_unrepeated: false };
    let mut found: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (_, id) in jobs::chosen(c, &choice, 0, PARKED_MAX)? {
        let job = jobs::find_brief(c, &jobs::Viewer::Program, &id)?;
        if let Some(why) = resume::obstacle(config, &job) {
            *found.entry((job.kind, why)).or_default() += 1;
        }
    }
    let sentence = |((kind, why), count): ((String, String), usize)| {
        let (jobs, them) = if count == 1 { ("parked job", "it") } else { ("parked jobs", "them") };
        let took = if config.kind(&kind).is_none() { taken_over(&kind) } else { String::new() };
        format!(
            "{count} {jobs} of {} could not go on with a decision ({why}): change the script back \
             and reload, {took}or wiki-browser job cancel --kind {kind} --status parked cancels \
             {them}",
            title(&kind)
        )
    };
    Ok(found.into_iter().map(sentence).collect())
}

// Names of kinds have no slash.
fn title(kind: &str) -> String {
    format!("{} \"{kind}\"", if kind.contains('/') { "inbox" } else { "kind" })
}

fn taken_over(kind: &str) -> String {
    match kind.contains('/') {
        true => String::new(),
        false => format!("was = \"{kind}\" in another kind takes them over, "),
    }
}
