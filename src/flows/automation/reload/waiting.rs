//! Waiting jobs that a new script has no place for.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::info;

use crate::base::{Actor, Error, JobId, Result};
use crate::flows::Site;
use crate::flows::approvals::resume;
use crate::flows::automation::reload::sources::{self, Around};
use crate::flows::jobs::cancel::cancel_waiting;
use crate::flows::requests::inputs;
use crate::jobs::{self, Job, Unfit};
use crate::mail;
use crate::script::{Config, Diagnostic, Kind};

/// Jobs cancelled per transaction.
const BATCH: usize = 100;
/// The code of the error about them.
pub(super) const CODE: &str = "waiting-jobs";

/// What jobs wait for that a script would lose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Wait {
    /// Their first start.
    #[default]
    Turn,
    /// A decision.
    Parked,
    /// Their start with a decision that was made.
    Decided,
    /// Their first start, on a document that is no Source any more.
    Document,
    /// Their first start, on a document that is not there yet.
    New,
    /// Their first start, with a persona that they would not get.
    Persona,
}

/// The waiting jobs of one kind that a script would lose.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Lost {
    /// The kind.
    pub kind: String,
    /// Number of jobs.
    pub jobs: usize,
    /// The reason.
    pub why: String,
    #[serde(skip)]
    wait: Wait,
    #[serde(skip)]
    ids: Vec<JobId>,
}

impl Lost {
    fn new(kind: String, wait: Wait, why: String, ids: Vec<JobId>) -> Lost {
        Lost { kind, jobs: ids.len(), why, wait, ids }
    }

    /// Returns whether it is about these jobs, for that reason.
    fn is_like(&self, kind: &str, wait: Wait, why: &str) -> bool {
        (self.kind.as_str(), self.wait, self.why.as_str()) == (kind, wait, why)
    }
}

/// Why jobs whose kind is gone would be lost.
const NO_KIND: &str = "the new script has no such kind";

/// Returns the jobs that wait under one script and could not run under another one: their kind is
/// gone, or no longer accepts their inputs, or their document is no Source any more or must be
/// there, or they would not get their persona, or they could not go on with a decision. Jobs of an
/// inbox wait until it is back. Those that are kept from starting already, or by that their kind is
/// gone, are among them only with `drop`.
///
/// # Errors
/// As any read.
pub(super) fn lost(
    c: &Connection,
    (old, new): (&Config, &Config),
    around: &Around,
    drop: bool,
) -> Result<Vec<Lost>> {
    let mut kept: BTreeSet<JobId> = match drop {
        true => BTreeSet::new(),
        false => jobs::unfit(c)?.into_iter().map(|it| it.id).collect(),
    };
    let mut all = Vec::new();
    for (name, _) in jobs::queue_counts(c, &jobs::Viewer::Site)?.queued {
        let (before, after) = (old.kind(&name), new.kind(&name));
        let (mut ids, mut why) = (Vec::new(), NO_KIND.to_owned());
        match (before, after) {
            // Their kind was missing before. Names of inboxes have a slash, and of agents an `@`.
            (None, None) if !drop || name.contains(['/', '@']) => {}
            // A message is kept until its inbox is back or its job is cancelled.
            (Some(before), None) if before.inbox.is_some() => {}
            (_, None) => jobs::each_waiting(c, &name, |id, _| ids.push(id))?,
            // They wait for it now: whom it does not suit waits on.
            (None, Some(_)) if !drop => jobs::each_waiting(c, &name, |id, _| {
                kept.insert(id);
            })?,
            (Some(before), Some(after)) if !drop && takes_the_same(before, after) => {}
            (_, Some(after)) => {
                let refused = refused(c, &name, after)?.into_iter();
                for (id, refusal) in refused.filter(|it| !kept.contains(&it.0)) {
                    why = refusal;
                    ids.push(id);
                }
            }
        }
        if !ids.is_empty() {
            all.push(Lost::new(name, Wait::Turn, why, ids));
        }
    }
    if drop || old.site.sources != new.site.sources {
        add_first(sources::unnamed(c, new)?, Wait::Document, &kept, &mut all);
    }
    if drop {
        let taken = jobs::unfit(c)?.into_iter().filter(Unfit::is_displaced).collect();
        add_first(taken, Wait::Document, &kept, &mut all);
    }
    add_first(sources::missing(c, (Some(old), new), around)?, Wait::New, &kept, &mut all);
    add_first(sources::unspoken(c, new, around)?, Wait::Persona, &kept, &mut all);
    add_parked(c, (old, new), drop, &mut all)?;
    add_decided(c, (old, new), drop, &mut all)?;
    Ok(all)
}

/// Adds the jobs that could not have their document or their persona under a script.
fn add_first(found: Vec<Unfit>, wait: Wait, kept: &BTreeSet<JobId>, all: &mut Vec<Lost>) {
    let lost: BTreeSet<JobId> = all.iter().flat_map(|it| it.ids.iter().cloned()).collect();
    for Unfit { id, kind, why } in found {
        if kept.contains(&id) || lost.contains(&id) {
            continue;
        }
        // One document or persona is named for all jobs of a kind.
        let is_like = |it: &&Lost| (it.kind.as_str(), it.wait) == (kind.as_str(), wait);
        let why = all.iter().find(is_like).map_or(why, |it| it.why.clone());
        add(all, (kind, wait), why, id);
    }
}

/// Adds the parked jobs whose kind would be gone: nobody could decide what they ask. Those of an
/// inbox, and those whose kind was gone before, are lost only with `drop`.
fn add_parked(
    c: &Connection,
    (old, new): (&Config, &Config),
    drop: bool,
    all: &mut Vec<Lost>,
) -> Result<()> {
    for (id, _) in jobs::queued(c)?.into_iter().filter(|(_, is_parked)| *is_parked) {
        let job = jobs::find_brief(c, &jobs::Viewer::Program, &id)?;
        // The assistant's questions are withdrawn with their declaration.
        if job.owner.is_some() || new.kind(&job.kind).is_some() {
            continue;
        }
        if drop || old.kind(&job.kind).is_some_and(|it| it.inbox.is_none()) {
            add(all, (job.kind, Wait::Parked), NO_KIND.to_owned(), id);
        }
    }
    Ok(())
}

/// Adds the jobs that wait for their start with a decision, and could not go on with it: it would
/// be used up. Those that could not before are kept from starting, and are lost only with `drop`.
fn add_decided(
    c: &Connection,
    (old, new): (&Config, &Config),
    drop: bool,
    all: &mut Vec<Lost>,
) -> Result<()> {
    for leg in decided_legs(c)? {
        // One whose kind is gone waits, or is lost already.
        let waits = !drop && resume::obstacle(old, &leg).is_some();
        if waits || new.kind(&leg.kind).is_none() {
            continue;
        }
        if let Some(why) = resume::obstacle(new, &leg) {
            add(all, (leg.kind, Wait::Decided), why, leg.id);
        }
    }
    Ok(())
}

/// Returns the jobs that wait for their start with a decision, with the engine of the leg before:
/// its session goes on.
///
/// # Errors
/// As any read.
pub(super) fn decided_legs(c: &Connection) -> Result<Vec<Job>> {
    let leg = |(id, before): (JobId, JobId)| {
        let mut leg = jobs::find_brief(c, &jobs::Viewer::Program, &id)?;
        let began = jobs::find_brief(c, &jobs::Viewer::Program, &before)?;
        (leg.engine, leg.engine_mark) = (began.engine, began.engine_mark);
        Ok(leg)
    };
    jobs::legs_waiting(c)?.into_iter().map(leg).collect()
}

fn add(all: &mut Vec<Lost>, (kind, wait): (String, Wait), why: String, id: JobId) {
    match all.iter_mut().find(|it| it.is_like(&kind, wait, &why)) {
        Some(lost) => {
            lost.ids.push(id);
            lost.jobs = lost.ids.len();
        }
        None => all.push(Lost::new(kind, wait, why, vec![id])),
    }
}

/// Returns the queued jobs of a name that a kind would not accept, each with the reason. The next
/// leg of a job is accepted as its first one was.
///
/// # Errors
/// As any read.
pub(super) fn refused(c: &Connection, name: &str, kind: &Kind) -> Result<Vec<(JobId, String)>> {
    let mut refused = Vec::new();
    if kind.inbox.is_some() {
        let mut ids = Vec::new();
        jobs::each_waiting(c, name, |id, _| ids.push(id))?;
        for id in ids {
            refused.extend(refusal(c, kind, &id)?.map(|why| (id, why)));
        }
    } else {
        jobs::each_waiting(c, name, |id, given| {
            if let Err(refusal) = inputs::check_again(kind, &given) {
                refused.push((id, refusal.message().to_owned()));
            }
        })?;
    }
    let mut first = Vec::new();
    for it in refused {
        if jobs::find_brief(c, &jobs::Viewer::Program, &it.0)?.resumes.is_none() {
            first.push(it);
        }
    }
    Ok(first)
}

pub(super) fn takes_the_same(before: &Kind, after: &Kind) -> bool {
    let schema = |it: &Kind| it.inbox.as_ref().and_then(|it| it.schema.clone());
    json!(before.inputs) == json!(after.inputs) && json!(schema(before)) == json!(schema(after))
}

/// Returns why an inbox would no longer accept the message of a waiting job.
fn refusal(c: &Connection, inbox: &Kind, job: &JobId) -> Result<Option<String>> {
    let Some(schema) = inbox.inbox.as_ref().and_then(|it| it.schema.as_ref()) else {
        return Ok(None);
    };
    let Some(message) = jobs::find(c, &jobs::Viewer::Program, job)?.message_id else {
        return Ok(None);
    };
    let payload = mail::find(c, &message)?.payload;
    let refused = schema.require(&payload, "payload", "bad_payload").err();
    Ok(refused.map(|it| it.message().to_owned()))
}

/// How many jobs of a kind wait, or messages of an agent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    /// All of them.
    pub(super) all: i64,
    /// Those that are parked.
    pub(super) parked: i64,
}

/// Returns the number of queued and parked jobs of each kind, and of messages of each agent.
///
/// # Errors
/// As any read.
pub(super) fn counts(c: &Connection, config: &Config) -> Result<BTreeMap<String, Count>> {
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    for (kind, all) in jobs::queue_counts(c, &jobs::Viewer::Site)?.queued {
        counts.insert(kind, Count { all, parked: 0 });
    }
    for (id, _) in jobs::queued(c)?.into_iter().filter(|(_, is_parked)| *is_parked) {
        let job = jobs::find_brief(c, &jobs::Viewer::Program, &id)?;
        let count = counts.entry(job.kind).or_default();
        *count = Count { all: count.all + 1, parked: count.parked + 1 };
    }
    counts.retain(|kind, _| config.kind(kind).is_none_or(|it| it.agent.is_none()));
    for (kind, agent) in config.kinds.values().filter_map(|it| Some((it, it.agent.as_ref()?))) {
        let (waiting, _) = mail::count_for_agent(c, &agent.name)?;
        let all = i64::try_from(waiting).unwrap_or(i64::MAX);
        counts.insert(kind.name.clone(), Count { all, parked: 0 });
    }
    Ok(counts)
}

/// Describes them in one line.
pub(super) fn summary(lost: &[Lost]) -> String {
    let jobs: usize = lost.iter().map(|it| it.jobs).sum();
    let mut kinds: Vec<String> = lost.iter().map(|it| format!("\"{}\"", it.kind)).collect();
    kinds.dedup();
    let how = match lost.iter().all(|it| it.wait == Wait::Parked) {
        true => doing(jobs, Wait::Parked),
        false => doing(jobs, Wait::Turn),
    };
    let s = if jobs == 1 { "" } else { "s" };
    format!("{jobs} job{s} of kind {} {how} and would be lost", kinds.join(", "))
}

fn doing(jobs: usize, wait: Wait) -> &'static str {
    match (wait, jobs) {
        (Wait::Turn | Wait::Document | Wait::New | Wait::Persona, 1) => "waits",
        (Wait::Turn | Wait::Document | Wait::New | Wait::Persona, _) => "wait",
        (Wait::Parked, 1) => "is parked",
        (Wait::Parked, _) => "are parked",
        (Wait::Decided, 1) => "waits with its decision",
        (Wait::Decided, _) => "wait with their decisions",
    }
}

/// Returns the error, with what to type.
pub(super) fn errors(lost: &[Lost], new: &Config) -> Vec<Diagnostic> {
    let error = |it: &Lost| {
        let Lost { kind, jobs, why, wait, .. } = it;
        let s = if *jobs == 1 { "" } else { "s" };
        let message = format!("{jobs} job{s} of kind \"{kind}\" {}: {why}", doing(*jobs, *wait));
        let mend = match (new.kind(kind), wait) {
            (None, _) => format!("write was = \"{kind}\" in the kind that takes its place"),
            (Some(_), Wait::Decided) => {
                "keep that as it was until these jobs have ended".to_owned()
            }
            (Some(_), Wait::Document) => "keep `sources` until these jobs have ended".to_owned(),
            (Some(_), Wait::New) => "keep `new = true` until these jobs have ended".to_owned(),
            (Some(_), Wait::Persona) => "put it back until these jobs have ended".to_owned(),
            (Some(after), _) if after.inbox.is_some() => {
                "keep the schema until these messages are answered".to_owned()
            }
            (Some(_), _) => "keep the inputs until these jobs have ended".to_owned(),
        };
        let note = format!("{mend}; or type wiki-browser reload --drop, which cancels them");
        Diagnostic::error(CODE, message).note(note)
    };
    lost.iter().map(error).collect()
}

/// Cancels them. Jobs that have started in the meantime continue.
///
/// # Errors
/// As any write.
pub(super) async fn drop_all(site: &Site, lost: &[Lost], by: &Actor) -> Result<()> {
    for Lost { kind, ids, .. } in lost {
        for batch in ids.chunks(BATCH) {
            let (ids, by, lanes) = (batch.to_vec(), by.clone(), site.queue.capacities());
            let source = site.ids.clone();
            let cancel = move |tx: &crate::store::Tx<'_>| {
                let cancelled = |id| cancel_waiting(tx, &source, id, &by, &lanes);
                ids.iter().try_for_each(|id| cancelled(id).map(drop))
            };
            let cancelled: std::result::Result<(), Error> = site.store.write(cancel).await;
            cancelled?;
        }
        info!("{} jobs of kind \"{kind}\" were cancelled by {by}", ids.len());
    }
    Ok(())
}
