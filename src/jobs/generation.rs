//! Generations of the script: the one in force, and those that running jobs still hold.
//!
//! **Invariant:** a job keeps the generation that it was claimed under to its end. One that nobody
//! holds is gone, with the thread of its functions.

use std::sync::{Arc, PoisonError, RwLock};

use crate::jobs::Engines;
use crate::jobs::claim::Caps;
use crate::jobs::lane::Capacities;
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
    pub(super) caps: Caps,
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

/// A handle to the generation in force; clones share it.
#[derive(Clone, Debug)]
pub struct Generations(Arc<RwLock<Arc<Generation>>>);

impl Generations {
    /// Returns a handle to a first generation.
    pub fn new(first: Generation) -> Generations {
        Generations(Arc::new(RwLock::new(Arc::new(first))))
    }

    /// Returns the generation in force. Whoever keeps it keeps its functions alive.
    pub fn current(&self) -> Arc<Generation> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another generation in force, whole and at once.
    pub fn replace(&self, next: Generation) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
    }
}
