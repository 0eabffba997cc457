//! The queue: it claims what may run, runs it, and sleeps on a bell.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use camino::Utf8PathBuf;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::base::{Ids, JobId, Result, digest_hex, random_token};
use crate::jobs::claim::{self, Caps};
use crate::jobs::lane::{self, Capacities};
use crate::jobs::launch::{self, Ground};
use crate::jobs::{BELL, Engines, Job, execution, recovery};
use crate::process::Children;
use crate::script::{Config, Produces};
use crate::store::{Store, Tx};

/// How long the queue sleeps if nothing rings: twice a minute at most.
const FALLBACK: Duration = Duration::from_secs(30);

/// What the start of a job needs from other domains.
pub struct Prepared {
    /// All inputs, with those that are computed at the start.
    pub inputs: Map<String, Value>,
    /// The exact prompt.
    pub prompt: String,
}

type Prepare = dyn Fn(Job) -> BoxFuture<'static, Result<Prepared>> + Send + Sync;
type Produced = dyn Fn(&Tx<'_>, &Job, Produces) -> Result<bool> + Send + Sync;
type Settled = dyn Fn(&Tx<'_>, &Job) -> Result<()> + Send + Sync;

/// Looks again when the job has ended, and names what is different.
pub type Watched = Box<dyn FnOnce() -> BoxFuture<'static, Vec<String>> + Send>;
/// Looks at what a job's agent could touch without being asked to, before it starts.
pub type Watch = Arc<dyn Fn() -> BoxFuture<'static, Watched> + Send + Sync>;

/// What flows add to a job's life.
#[derive(Clone)]
pub struct Hooks {
    /// Validates the inputs again, computes those that are derived, and makes the prompt. Its
    /// error's code tells why the job fails: `kind_changed`, `prompt_failed`, or else the inputs.
    pub prepare: Arc<Prepare>,
    /// Whether the job left what its kind promises.
    pub produced: Arc<Produced>,
    /// What follows from a settled job, in the same transaction.
    pub settled: Arc<Settled>,
    /// Warnings for what the agent changed that it was not to change.
    pub watch: Watch,
}

/// What a queue is made of.
pub struct Setup {
    /// The database.
    pub store: Store,
    /// The source of ids.
    pub ids: Ids,
    /// What this server started.
    pub children: Children,
    /// The script in force.
    pub config: Arc<Config>,
    /// The engines of this machine.
    pub engines: Engines,
    /// The program of the guard, absolute.
    pub wb_agent: Utf8PathBuf,
    /// The server's environment.
    pub env: Vec<(String, String)>,
    /// What flows add.
    pub hooks: Hooks,
}

pub(super) struct Inner {
    pub(super) setup: Setup,
    pub(super) caps: Caps,
    pub(super) ground: Ground,
    running: Mutex<HashMap<JobId, CancellationToken>>,
}

/// A handle to the queue; cheap to clone.
#[derive(Clone)]
pub struct Queue {
    inner: Arc<Inner>,
}

impl Queue {
    /// Returns a queue that starts nothing until [`Queue::serve`].
    pub fn new(mut setup: Setup) -> Queue {
        let config = &setup.config;
        let kinds = config.kinds.values();
        let caps = Caps {
            jobs: config.limits.jobs,
            kinds: kinds.filter_map(|it| Some((it.name.clone(), it.max_running?))).collect(),
            lanes: Capacities(config.limits.lanes.clone()),
        };
        let ground = Ground {
            data: config.site.data.clone(),
            folder: config.folder.clone(),
            socket: launch::socket_path(&config.site.data),
            wb_agent: setup.wb_agent.clone(),
            env: launch::inheritable(std::mem::take(&mut setup.env)),
            grace: config.limits.grace,
        };
        Queue { inner: Arc::new(Inner { setup, caps, ground, running: Mutex::default() }) }
    }

    /// Returns how many jobs of a lane may run at once.
    pub fn capacities(&self) -> &Capacities {
        &self.inner.caps.lanes
    }

    /// Tells the execution of a job to stop, after `request_cancel` was committed. A job that was
    /// left by an earlier server has none: its guard is ending already.
    pub fn stop_job(&self, id: &JobId) {
        let running = self.inner.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cancel) = running.get(id) {
            cancel.cancel();
        }
    }

    /// Settles the jobs that an earlier server left running, as far as their guards have ended.
    /// The others are settled by [`Queue::serve`] as their locks come free.
    ///
    /// # Errors
    /// `unavailable` if the database cannot be read.
    pub async fn recover(&self) -> Result<Vec<Job>> {
        recovery::recover(&self.inner).await
    }

    /// Claims and runs jobs until `stop`; then every running job gets its grace and is settled.
    /// `left` is what [`Queue::recover`] returned.
    pub async fn serve(self, left: Vec<Job>, stop: CancellationToken) {
        let bell = self.inner.setup.store.bell(BELL);
        let mut tasks: JoinSet<JobId> = JoinSet::new();
        for job in left {
            tasks.spawn(recovery::wait_and_settle(Arc::clone(&self.inner), job, stop.clone()));
        }
        while !stop.is_cancelled() {
            self.start_all(&mut tasks, &stop).await;
            let pause = self.pause().await;
            tokio::select! {
                () = bell.notified() => {}
                Some(ended) = tasks.join_next() => self.forget(ended),
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => {}
            }
        }
        while let Some(ended) = tasks.join_next().await {
            self.forget(ended);
        }
    }

    async fn start_all(&self, tasks: &mut JoinSet<JobId>, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            match self.claim().await {
                Ok(Some((job, token))) => {
                    let cancel = CancellationToken::new();
                    let id = job.id.clone();
                    self.remember(&id, &cancel);
                    self.stop_if_cancelled_meanwhile(&id, &cancel).await;
                    let run = execution::execute(
                        Arc::clone(&self.inner),
                        job,
                        token,
                        cancel,
                        stop.clone(),
                    );
                    tasks.spawn(async move {
                        run.await;
                        id
                    });
                }
                Ok(None) => return,
                Err(cause) => {
                    warn!("no job can be claimed: {}", cause.chain());
                    return;
                }
            }
        }
    }

    fn remember(&self, id: &JobId, cancel: &CancellationToken) {
        let mut running = self.inner.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.insert(id.clone(), cancel.clone());
    }

    /// A cancel that was committed between the claim and the entry in `running` found nobody to
    /// tell.
    async fn stop_if_cancelled_meanwhile(&self, id: &JobId, cancel: &CancellationToken) {
        let asked = id.clone();
        let job = self.inner.setup.store.read(move |c| crate::jobs::find(c, &asked)).await;
        match job {
            Ok(job) if job.cancelled_by.is_some() => cancel.cancel(),
            Ok(_) => {}
            Err(cause) => warn!(job_id = %id, "the job cannot be read: {}", cause.chain()),
        }
    }

    async fn claim(&self) -> Result<Option<(Job, String)>> {
        let token = random_token("wbj_")?;
        let (hash, caps) = (digest_hex(&token), self.inner.caps.clone());
        let config = self.inner.setup.config.digest.clone();
        let job =
            self.inner.setup.store.write(move |tx| claim::claim(tx, &caps, &hash, &config)).await?;
        Ok(job.map(|job| (job, token)))
    }

    async fn pause(&self) -> Duration {
        match self.inner.setup.store.read(lane::next_due).await {
            Ok(Some(due)) => {
                let ms = due - self.inner.setup.store.clock().now().0;
                Duration::from_millis(ms.max(1).unsigned_abs()).min(FALLBACK)
            }
            Ok(None) => FALLBACK,
            Err(cause) => {
                warn!("the queue cannot be read: {}", cause.chain());
                FALLBACK
            }
        }
    }

    fn forget(&self, ended: std::result::Result<JobId, tokio::task::JoinError>) {
        match ended {
            Ok(id) => {
                let mut running = self.inner.running.lock().unwrap_or_else(PoisonError::into_inner);
                running.remove(&id);
            }
            // The row stays running and its lane held until the next start recovers it.
            Err(cause) => error!("an execution panicked: {cause}"),
        }
    }
}
