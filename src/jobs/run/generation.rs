//! Generations of the script: the one in force, and those that running jobs still hold.
//!
//! **Invariant:** a job keeps the generation that it was claimed under to its end, and what its
//! agent asks for meanwhile is judged by it. One that nobody holds is gone, with the thread of its
//! functions.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use crate::base::JobId;
use crate::jobs::Engines;
use crate::jobs::queue::claim::Caps;
use crate::jobs::queue::lane::Capacities;
use crate::script::{Config, Vm};

/// One loaded script, ready to run jobs.
#[derive(Clone, Debug)]
pub struct Generation {
    /// Counts from 1 at the start of the server.
    pub number: u64,
    /// What the script declares.
    pub config: Arc<Config>,
    /// Its functions.
    pub vm: Vm,
    /// The engines of this machine that its kinds name.
    pub engines: Engines,
    pub(in crate::jobs) caps: Caps,
}

impl Generation {
    /// Returns a generation with the caps that its script declares.
    pub fn new(number: u64, config: Arc<Config>, vm: Vm, engines: Engines) -> Generation {
        let caps = Caps::of(&config);
        Generation { number, config, vm, engines, caps }
    }

    /// Returns how many jobs of a lane may run at once.
    pub fn capacities(&self) -> &Capacities {
        &self.caps.lanes
    }
}

/// A handle to the generation in force, and to those that running jobs hold; clones share it.
#[derive(Clone, Debug)]
pub struct Generations(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    current: RwLock<Arc<Generation>>,
    pins: Mutex<HashMap<JobId, Weak<Generation>>>,
}

impl Generations {
    /// Returns a handle to a first generation.
    pub fn new(first: Generation) -> Generations {
        let (current, pins) = (RwLock::new(Arc::new(first)), Mutex::default());
        Generations(Arc::new(Shared { current, pins }))
    }

    /// Returns the generation in force. Whoever keeps it keeps its functions alive.
    pub fn current(&self) -> Arc<Generation> {
        Arc::clone(&self.0.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another generation in force, whole and at once.
    pub fn replace(&self, next: Generation) {
        *self.0.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
    }

    /// Returns the generation that a job runs under; nothing if it does not run.
    pub fn of(&self, job: &JobId) -> Option<Arc<Generation>> {
        self.pins().get(job)?.upgrade()
    }

    /// Holds a generation for a job that runs under it.
    pub(in crate::jobs) fn pin(&self, job: &JobId, generation: Arc<Generation>) -> Pin {
        self.pins().insert(job.clone(), Arc::downgrade(&generation));
        Pin { generations: self.clone(), job: job.clone(), generation }
    }

    fn pins(&self) -> MutexGuard<'_, HashMap<JobId, Weak<Generation>>> {
        self.0.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a job runs under, until it is dropped.
pub(in crate::jobs) struct Pin {
    generations: Generations,
    job: JobId,
    generation: Arc<Generation>,
}

impl Deref for Pin {
    type Target = Arc<Generation>;
    fn deref(&self) -> &Arc<Generation> {
        &self.generation
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.generations.pins().remove(&self.job);
    }
}
