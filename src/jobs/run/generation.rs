//! Generations of the script: the current one, and those still used by running jobs.
//!
//! **Invariant:** a job keeps the generation under which it was claimed until its end, also under
//! a later server, and its agent's requests are judged by it. A generation that nobody uses is
//! dropped, with the thread of its functions.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use crate::base::JobId;
use crate::jobs::queue::claim::Caps;
use crate::jobs::queue::lane::Capacities;
use crate::jobs::queue::script_jobs::Shares;
use crate::jobs::{Engines, Job, Pool, ResolvedEngine};
use crate::script::{Config, Vm};

/// A loaded script, ready to run jobs.
#[derive(Clone, Debug)]
pub struct Generation {
    /// A sequence number, from 1 at the server's start.
    pub number: u64,
    /// The script's declarations.
    pub config: Arc<Config>,
    /// The script's functions.
    pub vm: Vm,
    /// The resolved engines of its kinds.
    pub engines: Engines,
    /// What its handlers have requested.
    pub shares: Shares,
    pub(in crate::jobs) caps: Caps,
}

impl Generation {
    /// Returns a generation with the caps of its script.
    pub fn new(number: u64, config: Arc<Config>, vm: Vm, engines: Engines) -> Generation {
        let caps = Caps::of(&config);
        Generation { number, config, vm, engines, shares: Shares::default(), caps }
    }

    /// Returns the lane capacities.
    pub fn capacities(&self) -> &Capacities {
        &self.caps.lanes
    }
}

/// A handle to the current generation and to those of running jobs, shared by its clones.
#[derive(Clone, Debug)]
pub struct Generations(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    current: RwLock<Arc<Generation>>,
    pins: Mutex<HashMap<JobId, Weak<Pinned>>>,
    /// Those of jobs that an earlier server left running, until they are settled.
    left: Mutex<HashMap<JobId, Arc<Generation>>>,
    /// The engines of long-running agents that an earlier server left running, until they end.
    engines: Mutex<HashMap<JobId, ResolvedEngine>>,
}

impl Generations {
    /// Returns a handle to a first generation.
    pub fn new(first: Generation) -> Generations {
        let (current, pins) = (RwLock::new(Arc::new(first)), Mutex::default());
        let (left, engines) = (Mutex::default(), Mutex::default());
        Generations(Arc::new(Shared { current, pins, left, engines }))
    }

    /// Returns the current generation. Holding it keeps its functions alive.
    pub fn current(&self) -> Arc<Generation> {
        Arc::clone(&self.0.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the current generation atomically.
    pub fn replace(&self, next: Generation) {
        *self.0.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
    }

    /// Returns the generation of a running job; `None` if it is not running.
    pub fn of(&self, job: &JobId) -> Option<Arc<Generation>> {
        let pinned = self.pins().get(job).and_then(Weak::upgrade).map(|it| Arc::clone(&it.0));
        pinned.or_else(|| self.left().get(job).cloned())
    }

    /// Holds the generation under which an earlier server claimed a job that it left running.
    pub fn hold(&self, job: &JobId, generation: Arc<Generation>) {
        self.left().insert(job.clone(), generation);
    }

    /// Holds the engine with which a long-running agent began that an earlier server left running.
    pub fn hold_engine(&self, job: &JobId, engine: ResolvedEngine) {
        self.engines().insert(job.clone(), engine);
    }

    /// Returns the engine with which a running job began, as its script declared it then. `None`
    /// if nobody knows that: its script is lost, and the agent has another engine now.
    pub fn engine_of(&self, job: &Job) -> Option<ResolvedEngine> {
        let held = self.engines().get(&job.id).cloned();
        held.or_else(|| {
            let generation = self.of_left(&job.id);
            let name = &generation.config.kind_of_job(&job.kind)?.engine;
            let is_other = job.engine.as_ref().is_some_and(|it| it != name);
            match job.pool == Pool::Live && is_other {
                true => None,
                false => generation.engines.find(name).ok().cloned(),
            }
        })
    }

    /// Returns the generation for a job that an earlier server left running: the one it began with,
    /// or the current one if that is not held.
    pub(in crate::jobs) fn of_left(&self, job: &JobId) -> Arc<Generation> {
        self.of(job).unwrap_or_else(|| self.current())
    }

    /// Drops what is held for a job that is settled.
    pub(in crate::jobs) fn release(&self, job: &JobId) {
        self.left().remove(job);
        self.engines().remove(job);
    }

    fn engines(&self) -> MutexGuard<'_, HashMap<JobId, ResolvedEngine>> {
        self.0.engines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn left(&self) -> MutexGuard<'_, HashMap<JobId, Arc<Generation>>> {
        self.0.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pins a generation for a job that runs under it.
    pub(in crate::jobs) fn pin(&self, job: &JobId, generation: Arc<Generation>) -> Pin {
        let generation = Arc::new(Pinned(generation));
        self.pins().insert(job.clone(), Arc::downgrade(&generation));
        Pin { generations: self.clone(), job: job.clone(), generation }
    }

    fn pins(&self) -> MutexGuard<'_, HashMap<JobId, Weak<Pinned>>> {
        self.0.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one execution of a job pins.
#[derive(Debug)]
struct Pinned(Arc<Generation>);

/// Pins a job's generation until dropped.
pub(in crate::jobs) struct Pin {
    generations: Generations,
    job: JobId,
    generation: Arc<Pinned>,
}

impl Deref for Pin {
    type Target = Arc<Generation>;
    fn deref(&self) -> &Arc<Generation> {
        &self.generation.0
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = self.generations.pins();
        // A job that was given back may be pinned anew.
        if pins.get(&self.job).is_some_and(|it| it.as_ptr() == Arc::as_ptr(&self.generation)) {
            pins.remove(&self.job);
        }
    }
}
