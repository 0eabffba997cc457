//! The commands of the server itself, such as git, that must not outlive it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// The leaders of their groups; none of them has been reaped.
#[derive(Clone, Debug, Default)]
pub(in crate::process) struct Commands(Arc<Mutex<HashSet<i32>>>);

impl Commands {
    /// Registers a command that was started.
    pub(in crate::process) fn add(&self, pid: i32) {
        self.lock().insert(pid);
    }

    /// Forgets a command that is about to be reaped.
    pub(in crate::process) fn remove(&self, pid: i32) {
        self.lock().remove(&pid);
    }

    /// Ends those that still run, with their groups.
    pub(in crate::process) fn end(&self) {
        // Kept locked: none of them is reaped meanwhile, so no group's id is used again.
        for pid in self.lock().iter() {
            // ESRCH only: it has exited.
            let _ = killpg(Pid::from_raw(*pid), Signal::SIGKILL);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<i32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
