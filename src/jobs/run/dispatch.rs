//! The queue's main loop: claims what may run, runs it, and sleeps until a bell rings.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use camino::Utf8PathBuf;
use futures_util::future::BoxFuture;
use rusqlite::Connection;
use serde_json::{Map, Value};
use tokio::sync::Notify;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::base::{Error, Ids, JobId, Millis, Result, digest_hex, fault, random_token};
use crate::jobs::queue::claim;
use crate::jobs::queue::disk_space::Room;
use crate::jobs::queue::lane::Capacities;
use crate::jobs::queue::parking;
use crate::jobs::rows::{retention, table};
use crate::jobs::run::execution::Unread;
use crate::jobs::run::execution::around::{self, Cleaned};
use crate::jobs::run::launch::{self, Ground};
use crate::jobs::run::recovery::Left;
use crate::jobs::run::rest::Rest;
use crate::jobs::run::task::RunTask;
use crate::jobs::run::tasks::{self, Tasks};
use crate::jobs::run::watch::{Recall, Steady, Watch};
use crate::jobs::run::workspace::{WorkspaceNeed, Workspaces};
use crate::jobs::run::{recovery, settle, speech};
use crate::jobs::speak::{Fact, Voice};
use crate::jobs::telemetry::remark::Remarks;
use crate::jobs::{
    Alone, BELL, CapState, Generation, Generations, Grant, InstanceFiles, Job, Listen, NewJob,
    Pool, Reason, Viewer,
};
use crate::process::{Adopted, Cgroups, Children, Terminals};
use crate::script::Produces;
use crate::store::{Store, Trouble, Tx};

/// Longest sleep while something opens by itself: clocks are set, and machines sleep.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// The same while nothing does, and nothing rings.
const FALLBACK: Duration = Duration::from_secs(600);
/// How often a full disk is checked again: nothing rings when space becomes available.
const WITHOUT_ROOM: Duration = Duration::from_secs(2);

/// What starting a job requires from other domains.
pub struct Prepared {
    /// All inputs, including those computed at the start.
    pub inputs: Map<String, Value>,
    /// The exact prompt.
    pub prompt: String,
    /// The grants of the current kind.
    pub grants: Vec<Grant>,
    /// Additional environment for agent and hooks; no secrets.
    pub env: Vec<(String, String)>,
    /// The files of an instance.
    pub files: Option<InstanceFiles>,
    /// The session that a long-lived agent resumes.
    pub session: Option<String>,
    /// The workspace that the earlier legs of a job have left.
    pub workspace: Option<WorkspaceNeed>,
    /// How to run it isolated from the site's other agents, if so.
    pub alone: Option<Alone>,
}

type Prepare = dyn Fn(Arc<Generation>, Job) -> BoxFuture<'static, Result<Prepared>> + Send + Sync;
type Verify =
    dyn Fn(Arc<Generation>, Job) -> BoxFuture<'static, Option<(Reason, String)>> + Send + Sync;
type Produced = dyn Fn(&Tx<'_>, &Job, Produces) -> Result<bool> + Send + Sync;
type Heard = dyn Fn(&Tx<'_>, &Job, &Fact) -> Result<()> + Send + Sync;
type Begun = dyn Fn(&Tx<'_>, &Generation, &Job) -> Result<()> + Send + Sync;
type Settled = dyn Fn(&Tx<'_>, &Job) -> Result<()> + Send + Sync;
/// Tokens and cost of a job.
pub type LeftSpent = dyn Fn(&Job) -> (Option<Value>, Option<f64>) + Send + Sync;
/// Waits for what the server itself does for a job.
pub type Quiet = dyn Fn(JobId) -> BoxFuture<'static, ()> + Send + Sync;

/// Callbacks of flows in a job's life cycle.
#[derive(Clone)]
pub struct Hooks {
    /// Validates the inputs again, computes derived ones, and renders the prompt. The code of its
    /// error tells why the job fails: `kind_changed`, `prompt_failed`, or else the inputs.
    pub prepare: Arc<Prepare>,
    /// Runs the script's check of what a job produced; returns its objection, or why it could not.
    pub verify: Arc<Verify>,
    /// Returns whether the job produced what its kind promises.
    pub produced: Arc<Produced>,
    /// Follow-up of the start of an instance's agent, in the transaction that records it.
    pub begun: Arc<Begun>,
    /// Follow-up of a guard that does not answer, or does again, in the same transaction.
    pub answers: Arc<Settled>,
    /// Follow-up of a settled job, in the same transaction.
    pub settled: Arc<Settled>,
    /// Returns what a job had spent when its server died, unless its agent reported it.
    pub spent: Arc<LeftSpent>,
    /// Waits for what the server itself still does for a job that has ended, for a few seconds at
    /// most; its settlement comes after that.
    pub quiet: Arc<Quiet>,
    /// Follow-up of a parked job, in the same transaction: it may continue at once.
    pub parked: Arc<Settled>,
    /// Follow-up of a fact about a long-lived agent, in the transaction that records it.
    pub heard: Arc<Heard>,
    /// Returns warnings about unwanted changes made by the agent.
    pub watch: Watch,
    /// Returns the number of what is checked out, if it was looked at; if not, it is, and the bell
    /// rings.
    pub tip: Arc<dyn Fn() -> Option<u64> + Send + Sync>,
    /// Follow-up of a job that is given back as it was claimed, in the same transaction.
    pub given_back: Arc<Settled>,
    /// Waits until what is checked out was looked at, for some seconds at most.
    pub look: Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>,
    /// Something could not be read at the start of a job: after the next look the bell rings.
    pub unread: Arc<dyn Fn() + Send + Sync>,
    /// Checks that nothing that steers agents changes under running ones.
    pub steady: Steady,
    /// Like `watch`, for a job whose beginning an earlier server saw.
    pub recall: Recall,
    /// Creates and removes workspaces.
    pub workspace: Workspaces,
    /// Receives what an agent prints.
    pub listen: Listen,
}

/// The parts of a queue.
pub struct Setup {
    /// The database.
    pub store: Store,
    /// The source of ids.
    pub ids: Ids,
    /// The processes started by this server.
    pub children: Children,
    /// Where the cgroups of jobs are created.
    pub cgroups: Cgroups,
    /// The current script.
    pub generations: Generations,
    /// The absolute path of the guard's program.
    pub wb_agent: Utf8PathBuf,
    /// The server's environment.
    pub env: Vec<(String, String)>,
    /// The callbacks of flows.
    pub hooks: Hooks,
}

pub(in crate::jobs) struct Inner {
    pub(in crate::jobs) setup: Setup,
    pub(in crate::jobs) ground: Ground,
    pub(in crate::jobs) running: Mutex<HashMap<JobId, Running>>,
    /// All values of secrets that this server has read for what jobs show.
    pub(in crate::jobs) secrets_seen: Mutex<BTreeSet<String>>,
    /// Serializes cleanups of finished jobs.
    cleaning: tokio::sync::Mutex<()>,
    room: Room,
    /// Rings when an instance may be given another text.
    pub(in crate::jobs) rested: Notify,
    /// Jobs whose start is tried again.
    pub(in crate::jobs) unread: Unread,
}

impl Inner {
    /// Returns what tells that the processes of a job are to be killed.
    pub(in crate::jobs) fn kill_of(&self, job: &JobId) -> CancellationToken {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.get(job).map(|it| it.kill.clone()).unwrap_or_default()
    }
}

/// Signals to the execution of a job.
#[derive(Clone, Debug, Default)]
pub(in crate::jobs) struct Running {
    /// A person cancelled it.
    pub(in crate::jobs) cancel: CancellationToken,
    /// A person wants its processes to end at once.
    pub(in crate::jobs) kill: CancellationToken,
    /// It waits for an approval and should end soon.
    pub(in crate::jobs) leaves: CancellationToken,
    /// Requests of its agent that were refused.
    pub(in crate::jobs) remarks: Remarks,
    /// Its agent has given its verdict.
    pub(in crate::jobs) verdict: CancellationToken,
    /// The channel to an agent that is spoken to.
    pub(in crate::jobs) voice: Voice,
    /// The turns of an instance that is spoken to.
    pub(in crate::jobs) rest: Rest,
    /// How many of its requests wait for a person.
    pub(in crate::jobs) asks: super::asks::Asks,
}

/// A handle to the queue; cheap to clone.
#[derive(Clone)]
pub struct Queue {
    pub(in crate::jobs) inner: Arc<Inner>,
}

impl Queue {
    /// Returns a queue that starts nothing until [`Queue::serve`].
    pub fn new(mut setup: Setup) -> Queue {
        let config = Arc::clone(&setup.generations.current().config);
        let terminals = Terminals::new(setup.children.clone(), &config.site.data, &setup.env);
        let ground = Ground {
            terminals,
            data: config.site.data.clone(),
            folder: config.folder.clone(),
            socket: launch::socket_path(&config.site.data),
            wb_agent: setup.wb_agent.clone(),
            env: launch::inheritable(std::mem::take(&mut setup.env)),
            grace: config.limits.grace,
            cgroups: setup.cgroups.clone(),
        };
        Queue {
            inner: Arc::new(Inner {
                setup,
                ground,
                running: Mutex::default(),
                secrets_seen: Mutex::default(),
                cleaning: Default::default(),
                room: Room::default(),
                rested: Notify::new(),
                unread: Unread::default(),
            }),
        }
    }

    pub(in crate::jobs) fn current(&self) -> Arc<Generation> {
        self.inner.setup.generations.current()
    }

    /// Returns the lane capacities.
    pub fn capacities(&self) -> Capacities {
        self.current().capacities().clone()
    }

    /// Returns the processes started by this server.
    pub fn children(&self) -> Children {
        self.inner.setup.children.clone()
    }

    /// Returns every daily cap with today's usage, for a viewer.
    ///
    /// # Errors
    /// Fails if the database cannot be read.
    pub fn caps(
        &self,
        connection: &Connection,
        viewer: &Viewer,
        now: Millis,
    ) -> Result<Vec<CapState>> {
        self.current().caps.rules.daily.states(connection, viewer, now)
    }

    /// Refuses a job that could not start today because of a daily cap.
    ///
    /// # Errors
    /// `busy` with code `daily_cap`.
    pub fn admit(&self, tx: &Tx<'_>, new: &NewJob) -> Result<()> {
        self.current().caps.rules.daily.admit(tx.connection(), new, tx.now())
    }

    /// Signals cancelled executions to stop.
    fn stop_cancelled(&self) {
        let looked =
            self.inner.setup.store.look(|c| Ok((settle::cancelled(c)?, parking::leaving(c)?)));
        match looked {
            Ok((cancelled, leaving)) => {
                let running = self.inner.running.lock().unwrap_or_else(PoisonError::into_inner);
                for it in cancelled {
                    let Some(signals) = running.get(&it.id) else { continue };
                    if it.is_cancelled {
                        signals.cancel.cancel();
                    }
                    if it.is_killed {
                        signals.kill.cancel();
                    }
                }
                leaving.iter().filter_map(|id| running.get(id)).for_each(|it| it.leaves.cancel());
            }
            Err(cause) => warn!("cancelled jobs cannot be read: {}", cause.chain()),
        }
    }

    /// Settles jobs left running by an earlier server whose guards have ended. [`Queue::serve`]
    /// settles the others as their locks become free.
    ///
    /// # Errors
    /// `unavailable` if the database cannot be read.
    pub async fn recover(&self) -> Result<Left> {
        recovery::recover(&self.inner).await
    }

    /// Claims and runs jobs until `stop`; then every running job gets its grace period and is
    /// settled. `left` is the result of [`Queue::recover`]; `run_task` runs jobs without a process.
    pub async fn serve(self, left: Left, run_task: RunTask, stop: CancellationToken) {
        let bell = self.inner.setup.store.bell(BELL);
        let mut tasks = Tasks::default();
        for (job, adopted) in left.adopted {
            let outside = Running::default();
            self.open_voice(&job, &adopted, &outside);
            self.remember(&job.id, &outside);
            let (about, inner) = (about(&job), Arc::clone(&self.inner));
            tasks.spawn(about, tasks::go_on_to_end(inner, (job, adopted), outside, stop.clone()));
        }
        for job in left.silent {
            let outside = Running::default();
            self.remember(&job.id, &outside);
            let (about, inner) = (about(&job), Arc::clone(&self.inner));
            tasks.spawn(about, tasks::wait_to_end(inner, job, outside, stop.clone()));
        }
        for job in left.dying {
            let outside = Running::default();
            self.remember(&job.id, &outside);
            let (about, inner) = (about(&job), Arc::clone(&self.inner));
            tasks.spawn(about, recovery::wait_and_settle(inner, job, outside.kill, stop.clone()));
        }
        while !stop.is_cancelled() {
            self.stop_cancelled();
            let since = self.inner.setup.store.clock().now();
            self.start_all(&mut tasks, &run_task, &stop).await;
            if fault::is_absent("haste") {
                // Simulates a machine on which much time passes here.
                tokio::time::sleep(Duration::from_millis(400)).await;
            }
            let pause = self.pause(since);
            tokio::select! {
                () = bell.notified() => {}
                Some(ended) = tasks.join_next() => self.forget(ended, &tasks),
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => {}
            }
        }
        while let Some(ended) = tasks.join_next().await {
            self.forget(ended, &tasks);
        }
        self.inner.ground.terminals.close_if_unused().await;
    }

    async fn start_all(&self, tasks: &mut Tasks, run_task: &RunTask, stop: &CancellationToken) {
        while !stop.is_cancelled() && self.no_room().is_none() {
            // A task ends after its row is settled, so no pool has more running rows than tasks. In
            // that of the chats some tasks wait for a person, and count to no cap.
            let caps = &self.current().caps.pools;
            let has_room =
                |pool: &Pool| *pool == Pool::Chat || !caps.is_full(*pool, tasks.of(*pool));
            let mut open: Vec<Pool> = Pool::ALL.into_iter().filter(has_room).collect();
            if !self.is_awaited(&open) {
                return;
            }
            // Conversations are about no document by its name.
            let tip = (self.inner.setup.hooks.tip)();
            if tip.is_none() {
                open.retain(|it| *it == Pool::Chat);
            }
            match self.claim(&open).await {
                Ok(Some((job, token, generation))) => {
                    let outside = Running::default();
                    self.remember(&job.id, &outside);
                    let (about, inner) = (about(&job), Arc::clone(&self.inner));
                    let with = (outside, RunTask::clone(run_task), tip);
                    let run =
                        tasks::run_to_end(inner, generation, (job, token), with, stop.clone());
                    tasks.spawn(about, run);
                }
                Ok(None) => return,
                Err(cause) => {
                    warn!("no job can be claimed: {}", cause.chain());
                    return;
                }
            }
        }
    }

    /// Returns why no job can start on this disk, if space is lacking.
    pub fn no_room(&self) -> Option<Trouble> {
        let inner = &self.inner;
        inner.room.look(&inner.ground.data, inner.setup.store.clock().now())
    }

    /// Returns whether a claim in these pools is worth a transaction. With room for work it usually
    /// is; otherwise every bell would cost a transaction.
    fn is_awaited(&self, open: &[Pool]) -> bool {
        if open.contains(&Pool::Work) {
            return true;
        }
        let store = &self.inner.setup.store;
        let now = store.clock().now();
        match store.look(|c| claim::is_awaited(c, open, now)) {
            Ok(is_awaited) => is_awaited,
            Err(cause) => {
                warn!("the queue cannot be read: {}", cause.chain());
                false
            }
        }
    }

    /// Runs the cleanup of a finished instance; returns a note for people.
    ///
    /// # Errors
    /// `conflict` with code `still_running`; `unavailable` if the database cannot be read or
    /// written.
    pub async fn clean_up(&self, root: &JobId, stop: &CancellationToken) -> Result<Option<String>> {
        let _one = self.inner.cleaning.lock().await;
        let id = root.clone();
        let (job, rest) = self
            .inner
            .setup
            .store
            .read(move |c| {
                Ok((table::find_slim(c, &Viewer::Program, &id)?, retention::rest_of(c, &id)?))
            })
            .await?;
        if rest.is_active {
            return Err(Error::conflict("still_running", format!("job {root} has not ended")));
        }
        match around::clean_up(&self.inner, &job, stop).await? {
            Cleaned::Done(warning) => Ok(warning),
            Cleaned::Left => Err(around::left(&job)),
        }
    }

    fn remember(&self, id: &JobId, outside: &Running) {
        let mut running = self.inner.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.insert(id.clone(), outside.clone());
    }

    /// Opens the channel to the agent of a guard that was taken over.
    pub(super) fn open_voice(&self, job: &Job, adopted: &Adopted, outside: &Running) {
        let engine = self.inner.setup.generations.engine_of(job);
        let Some(speaks) = engine.and_then(|it| it.speech).map(|it| it.speaks) else { return };
        let last = adopted.last_input.clone();
        let greeting = speech::greeting_of(&self.inner, job, job.session_ref.clone());
        let about = (speaks, greeting, speech::folder_of(&self.inner, job));
        outside.voice.open(adopted.guard.stopper(), about, last);
    }

    /// Returns the channel to a job's agent, if it is running.
    pub(in crate::jobs) fn voice(&self, job: &JobId) -> Option<Voice> {
        let running = self.inner.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.get(job).map(|it| it.voice.clone())
    }

    /// Marks the next job as running under the current generation.
    pub(in crate::jobs) async fn claim(
        &self,
        pools: &[Pool],
    ) -> Result<Option<(Job, String, Arc<Generation>)>> {
        let token = random_token("wbj_")?;
        let generation = self.current();
        let (hash, caps) = (digest_hex(&token), generation.caps.clone());
        let (config, pools) = (generation.config.digest.clone(), pools.to_vec());
        let claim = move |tx: &Tx<'_>| claim::claim_in(tx, &caps, &pools, (&hash, &config));
        let job = self.inner.setup.store.write(claim).await?;
        Ok(job.map(|job| (job, token, generation)))
    }

    /// Returns how long nothing unblocks by itself. `since` is a time before the last claim: what
    /// came due after that claim looked is claimed at once.
    fn pause(&self, since: Millis) -> Duration {
        if self.no_room().is_some() {
            return WITHOUT_ROOM;
        }
        let late = fault::is_off("due_meanwhile");
        let since = if late { self.inner.setup.store.clock().now() } else { since };
        match self.inner.setup.store.look(|c| self.current().caps.rules.next_opening(c, since)) {
            Ok(Some(at)) => {
                let ms = at.0.saturating_sub(self.inner.setup.store.clock().now().0).max(0);
                Duration::from_millis(ms.unsigned_abs()).min(LOOK_AGAIN)
            }
            Ok(None) => FALLBACK,
            Err(cause) => {
                warn!("the queue cannot be read: {}", cause.chain());
                LOOK_AGAIN
            }
        }
    }

    fn forget(&self, ended: std::result::Result<JobId, JoinError>, tasks: &Tasks) {
        match ended {
            Ok(id) if tasks.has(&id) => {}
            Ok(id) => {
                let mut running = self.inner.running.lock().unwrap_or_else(PoisonError::into_inner);
                running.remove(&id);
            }
            Err(cause) => error!("a task of the queue ended badly: {cause}"),
        }
    }
}

fn about(job: &Job) -> (Pool, JobId) {
    (job.pool, job.id.clone())
}
