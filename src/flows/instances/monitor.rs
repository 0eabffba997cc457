//! Monitors: jobs that watch one run of an instance, and may look at it and write to it.

use rusqlite::Connection;
use serde_json::{Map, Value};

use crate::api::instances::MonitorView;
use crate::base::{ErrorKind, JobId, Result};
use crate::flows::requests::inputs;
use crate::flows::{Works, instances};
use crate::jobs::{self, Grant, Job, NewJob, Pool};
use crate::script::{Config, WORKER};
use crate::store::Tx;

/// Accepts the monitor of an instance whose run begins, if its inbox has one. A full queue does not
/// keep the instance from running.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn begin(
    tx: &Tx<'_>,
    works: &Works,
    config: &Config,
    worker: &Job,
) -> Result<()> {
    let inbox = config.kinds.get(&worker.kind).and_then(|it| it.inbox.as_ref());
    let Some(name) = inbox.and_then(|it| it.monitor.as_deref()) else { return Ok(()) };
    let current = works.scripts.current();
    let Some(kind) = current.config.kinds.get(name) else {
        return jobs::warn(tx, &worker.id, &format!("no_monitor: kind {name} no longer exists"));
    };
    let before = jobs::monitor_of(tx.connection(), &worker.id)?;
    if before.is_some_and(|it| !it.status.is_final()) {
        // The run was begun by a server that died before its agent was started.
        return jobs::warn(tx, &worker.id, "no_monitor: the one begun before has not ended");
    }
    let root = Value::String(worker.root().to_string());
    let mut grants = inputs::grants(kind, &Default::default());
    grants.extend(grants_on(worker));
    let new = NewJob {
        inputs: Map::from_iter([(WORKER.to_owned(), root)]),
        grants,
        priority: kind.priority,
        depth: jobs::depth_of(tx.connection(), &worker.id)?,
        pool: Pool::Monitor,
        monitor_of: Some(worker.id.clone()),
        ..NewJob::plain(name, &current.config.digest, worker.requested_by.clone())
    };
    match jobs::enqueue(tx, &works.ids, current.capacities(), &new) {
        Ok(_) => Ok(()),
        Err(cause) if cause.kind() == ErrorKind::Busy => {
            jobs::warn(tx, &worker.id, &format!("no_monitor: {}", cause.message()))
        }
        Err(cause) => Err(cause),
    }
}

/// Returns the monitor of a job, also one that has ended.
///
/// # Errors
/// As any read.
pub(in crate::flows) fn of(c: &Connection, worker: &JobId) -> Result<Option<MonitorView>> {
    let found = jobs::monitor_of(c, worker)?;
    Ok(found.map(|it| MonitorView { job_id: it.id, kind: it.kind, status: it.status }))
}

/// What the token of a monitor may do with its worker.
fn grants_on(worker: &Job) -> Vec<Grant> {
    let address = instances::address(&worker.kind, worker.root());
    vec![Grant::worker(worker.root()), Grant::address(&address.to_string())]
}

/// What a monitor is given.
#[derive(Default)]
pub(in crate::flows) struct Watch {
    /// What its token may do with its worker.
    pub(in crate::flows) grants: Vec<Grant>,
    /// Names of its environment, without secrets.
    pub(in crate::flows) env: Vec<(String, String)>,
}

/// Returns what a job is given to watch its worker; nothing if it watches none.
///
/// # Errors
/// As reading the worker.
pub(in crate::flows) async fn watch(works: &Works, job: &Job) -> Result<Watch> {
    let Some(id) = job.monitor_of.clone() else { return Ok(Watch::default()) };
    let find = move |c: &Connection| jobs::find_brief(c, &jobs::Viewer::Program, &id);
    let worker = works.store.read(find).await?;
    let address = instances::address(&worker.kind, worker.root());
    let env = [("WORKER_ID", worker.root().to_string()), ("WORKER_ADDR", address.to_string())];
    Ok(Watch {
        grants: grants_on(&worker),
        env: env.map(|(name, value)| (name.to_owned(), value)).to_vec(),
    })
}
