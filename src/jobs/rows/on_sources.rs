//! Queued, parked and running jobs by the Sources among their inputs.

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde_json::{Map, Value};

use crate::base::{JobId, Result, SourcePath};
use crate::jobs::rows::{bulk, measures, table};
use crate::jobs::{Job, Viewer};

const PARKED: &str = "
    SELECT id FROM agent_jobs INDEXED BY jobs_by_status WHERE status = 'parked' ORDER BY seq";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] = &[("on_sources::parked", PARKED)];

/// A job with an input that a rename changes.
#[derive(Clone, Debug)]
pub struct Touched {
    /// The job.
    pub id: JobId,
    /// Its kind.
    pub kind: String,
    /// Its inputs with the new names.
    pub inputs: Map<String, Value>,
    /// Whether it runs.
    pub is_running: bool,
    /// Its lane before, if it runs in one.
    pub running_in: Option<String>,
}

/// Returns the queued and parked jobs by the Sources among their inputs: those that `names` (by
/// kind) declares to be some, and those that were some when the job was asked for.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn queued_by_source(
    c: &Connection,
    names: impl Fn(&str) -> Vec<String>,
) -> Result<BTreeMap<String, Vec<JobId>>> {
    let mut found: BTreeMap<String, Vec<JobId>> = BTreeMap::new();
    let mut see = |id: JobId, inputs: Map<String, Value>, names: Vec<String>| {
        for path in names.iter().filter_map(|it| inputs.get(it)?.as_str()) {
            found.entry(path.to_owned()).or_default().push(id.clone());
        }
    };
    for (kind, _) in measures::queue_counts(c, &Viewer::Site)?.queued {
        bulk::each_on_sources(c, &kind, Some(&names(&kind)), &mut see)?;
    }
    for job in parked(c)? {
        see(job.id, job.inputs, bulk::with_recorded(&names(&job.kind), job.sources));
    }
    Ok(found)
}

/// Returns the current name of a Source that a running job was given when it started.
pub(in crate::jobs) type AsNow<'a> =
    &'a dyn Fn(&Connection, &Job, &SourcePath) -> Result<SourcePath>;

/// Returns the queued, parked and running jobs of some kinds, each with the current names of its
/// inputs that are Sources, that renames change; without renames, all of them.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn touched(
    c: &Connection,
    kinds: &BTreeMap<String, Vec<String>>,
    renames: Option<&BTreeMap<SourcePath, SourcePath>>,
    as_now: AsNow<'_>,
) -> Result<Vec<Touched>> {
    let follow = |inputs: &mut Map<String, Value>, names: &[String]| {
        renames.is_none_or(|it| follow(inputs, names, it))
    };
    let mut found = Vec::new();
    for (kind, names) in kinds {
        let names = renames.is_some().then_some(names.as_slice());
        bulk::each_on_sources(c, kind, names, |id, mut inputs, names| {
            if follow(&mut inputs, &names) {
                let kind = kind.clone();
                found.push(Touched { id, kind, inputs, is_running: false, running_in: None });
            }
        })?;
    }
    let running = table::running(c)?.into_iter().map(|it| (it, true));
    for (job, is_running) in running.chain(parked(c)?.into_iter().map(|it| (it, false))) {
        // Conversations have lanes of their own.
        let names = kinds.get(&job.kind).filter(|_| job.owner.is_none());
        let Some(names) = names else { continue };
        let names = bulk::with_recorded(names, job.sources.clone());
        let mut inputs = job.inputs.clone();
        if is_running {
            name_as_now(&mut inputs, &names, |path| as_now(c, &job, path))?;
        }
        if follow(&mut inputs, &names) {
            let (id, kind, running_in) = (job.id, job.kind, job.lane.filter(|_| is_running));
            found.push(Touched { id, kind, inputs, is_running, running_in });
        }
    }
    Ok(found)
}

fn parked(c: &Connection) -> Result<Vec<Job>> {
    let mut statement = c.prepare_cached(PARKED)?;
    let ids = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    ids.iter().map(|id| table::find(c, &Viewer::Program, id)).collect()
}

/// Gives the Sources of a running job, which keeps the names that it was told, those of now.
fn name_as_now(
    inputs: &mut Map<String, Value>,
    names: &[String],
    now: impl Fn(&SourcePath) -> Result<SourcePath>,
) -> Result<()> {
    for name in names {
        let Some(value) = inputs.get_mut(name) else { continue };
        if let Some(path) = value.as_str().and_then(|it| it.parse().ok()) {
            *value = now(&path)?.to_string().into();
        }
    }
    Ok(())
}

/// Gives renamed Sources among inputs their new names; returns whether there were any.
pub(super) fn follow(
    inputs: &mut Map<String, Value>,
    names: &[String],
    renames: &BTreeMap<SourcePath, SourcePath>,
) -> bool {
    let mut is_any = false;
    for name in names {
        let Some(value) = inputs.get_mut(name) else { continue };
        let path = value.as_str().and_then(|it| it.parse::<SourcePath>().ok());
        if let Some(to) = path.and_then(|it| renames.get(&it)) {
            *value = Value::String(to.to_string());
            is_any = true;
        }
    }
    is_any
}
