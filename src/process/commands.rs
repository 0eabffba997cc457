//! The commands of the server itself, such as git, that must not outlive it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use camino::Utf8Path;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::base::Result;
use crate::process::tree::{Children, end_marked};

/// The variable with the site's data folder, in commands that must not outlive their server.
const SITE_MARK: &str = "WB_COMMAND_OF";

/// The leaders of their groups; none of them has been reaped.
#[derive(Clone, Debug, Default)]
pub(in crate::process) struct Commands {
    leaders: Arc<Mutex<HashSet<i32>>>,
    site: Option<Arc<str>>,
}

impl Children {
    /// Returns an empty registry of the server of a site, whose next server ends what a killed one
    /// has left.
    pub fn of_site(data: &Utf8Path) -> Children {
        let mut children = Children::default();
        children.commands.site = Some(data.as_str().into());
        children
    }

    /// Returns the variable that marks a command which must not outlive its server.
    pub fn site_mark(&self) -> Option<(&'static str, &str)> {
        self.commands.site.as_deref().map(|it| (SITE_MARK, it))
    }

    /// Ends the marked commands that an earlier server of this site left running when it was
    /// killed, and returns how many; call it before the first one is started.
    ///
    /// # Errors
    /// `unavailable`, with code `survivors` if some cannot be killed.
    pub async fn end_left_over(&self) -> Result<u32> {
        match self.site_mark() {
            Some((name, site)) => end_marked(name, site, Duration::ZERO).await,
            None => Ok(0),
        }
    }
}

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
        self.leaders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
