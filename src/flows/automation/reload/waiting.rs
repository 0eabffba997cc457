//! Waiting jobs that a new script has no place for.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::info;

use crate::base::{Actor, Error, JobId, Result};
use crate::flows::Site;
use crate::flows::jobs::cancel::cancel_waiting;
use crate::flows::requests::inputs;
use crate::jobs;
use crate::mail;
use crate::script::{Config, Diagnostic, Kind};

/// Jobs cancelled per transaction.
const BATCH: usize = 100;
/// The code of the error about them.
pub(super) const CODE: &str = "waiting-jobs";

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
    ids: Vec<JobId>,
}

/// Returns the jobs that wait under one script and could not run under another one: their kind is
/// gone, or no longer accepts their inputs. Jobs of an inbox wait until it is back. Those that are
/// kept from starting already are among them only with `drop`.
///
/// # Errors
/// As any read.
pub(super) fn lost(
    c: &Connection,
    (old, new): (&Config, &Config),
    drop: bool,
) -> Result<Vec<Lost>> {
    let kept: BTreeSet<JobId> = match drop {
        true => BTreeSet::new(),
        false => jobs::unfit(c)?.into_iter().map(|it| it.id).collect(),
    };
    let mut all = Vec::new();
    for (name, _) in jobs::queue_counts(c, &jobs::Viewer::Site)?.queued {
        let (before, after) = (old.kind(&name), new.kind(&name));
        let (mut ids, mut why) = (Vec::new(), "the new script has no such kind".to_owned());
        match (before, after) {
            // Their kind was missing before.
            (None, None) => {}
            // A message is kept until its inbox is back or its job is cancelled.
            (Some(before), None) if before.inbox.is_some() => {}
            (Some(_), None) => jobs::each_waiting(c, &name, |id, _| ids.push(id))?,
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
            all.push(Lost { kind: name, jobs: ids.len(), why, ids });
        }
    }
    Ok(all)
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

/// Returns the number of queued and parked jobs of each kind, and of messages of each agent.
///
/// # Errors
/// As any read.
pub(super) fn counts(c: &Connection, config: &Config) -> Result<Vec<(String, i64)>> {
    let mut queued: BTreeMap<String, i64> =
        jobs::queue_counts(c, &jobs::Viewer::Site)?.queued.into_iter().collect();
    for (id, _) in jobs::queued(c)?.into_iter().filter(|(_, is_parked)| *is_parked) {
        let job = jobs::find_brief(c, &jobs::Viewer::Program, &id)?;
        *queued.entry(job.kind).or_default() += 1;
    }
    let mut counts: Vec<(String, i64)> = queued.into_iter().collect();
    counts.retain(|(kind, _)| config.kind(kind).is_none_or(|it| it.agent.is_none()));
    for (kind, agent) in config.kinds.values().filter_map(|it| Some((it, it.agent.as_ref()?))) {
        let (waiting, _) = mail::count_for_agent(c, &agent.name)?;
        counts.push((kind.name.clone(), i64::try_from(waiting).unwrap_or(i64::MAX)));
    }
    Ok(counts)
}

/// Describes them in one line.
pub(super) fn summary(lost: &[Lost]) -> String {
    let jobs: usize = lost.iter().map(|it| it.jobs).sum();
    let kinds: Vec<String> = lost.iter().map(|it| format!("\"{}\"", it.kind)).collect();
    let (verb, s) = if jobs == 1 { ("waits", "") } else { ("wait", "s") };
    format!("{jobs} job{s} of kind {} {verb} and would be lost", kinds.join(", "))
}

/// Returns the error, with what to type.
pub(super) fn errors(lost: &[Lost], new: &Config) -> Vec<Diagnostic> {
    let error = |it: &Lost| {
        let Lost { kind, jobs, why, .. } = it;
        let (verb, s) = if *jobs == 1 { ("waits", "") } else { ("wait", "s") };
        let message = format!("{jobs} job{s} of kind \"{kind}\" {verb}: {why}");
        let mend = match new.kind(kind) {
            None => format!("write was = \"{kind}\" in the kind that takes its place"),
            Some(after) if after.inbox.is_some() => {
                "keep the schema until these messages are answered".to_owned()
            }
            Some(_) => "keep the inputs until these jobs have ended".to_owned(),
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
        info!("{} waiting jobs of kind \"{kind}\" were cancelled by {by}", ids.len());
    }
    Ok(())
}
