//! Ends a job: sends the right signal at the right time until no descendant is left.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal as RawSignal, killpg};
use nix::unistd::{Pid, getpid};

use crate::base::fault;
use crate::process::cgroup::Cgroup;
use crate::process::guard::agent::Agent;
use crate::process::guard::note;
use crate::process::identity::Stat;
use crate::process::tree::{Listing, Sweep};

/// Time between TERM and KILL for what is left after the agent exited by itself.
const AFTER_EXIT: Duration = Duration::from_millis(500);
/// How long killed processes may take to disappear before they count as survivors: on a busy
/// machine even a killed process has to be scheduled.
const KILL_MAX: Duration = Duration::from_secs(3);
/// How often to look for new descendants between TERM and KILL.
const TERM_EVERY: Duration = Duration::from_millis(25);
/// How often while killing: a process that keeps forking must not win the race.
const KILL_EVERY: Duration = Duration::from_millis(1);
/// Most survivors that are reported.
const SURVIVORS_MAX: usize = 1_000;

/// An end in progress.
pub(in crate::process::guard) struct Ending {
    kill_at: Instant,
    next_look: Instant,
    give_up_at: Option<Instant>,
    sweep: Sweep,
    /// The job's cgroup, if any, which kills everything at once.
    cgroup: Option<Cgroup>,
}

impl Ending {
    /// Ends what the agent left behind when it exited by itself: TERM now, KILL after a short
    /// delay.
    pub(in crate::process::guard) fn after_exit(now: Instant, cgroup: Option<Cgroup>) -> Ending {
        Ending::new(now + AFTER_EXIT, now, cgroup)
    }

    /// Ends a running agent: INT now, TERM at 40 % and KILL at 100 % of the grace period.
    pub(in crate::process::guard) fn by_force(
        now: Instant,
        grace: Duration,
        agent: &Agent,
        cgroup: Option<Cgroup>,
    ) -> Ending {
        if agent.exit.is_none() {
            // The agent is not reaped yet, so its pid and group cannot have been reused. INT comes
            // first because it lets an agent print its cost before it exits.
            signal_group(agent, RawSignal::SIGINT);
            // A stopped process would not see the INT.
            signal_group(agent, RawSignal::SIGCONT);
        }
        Ending::new(now + grace, now + grace * 2 / 5, cgroup)
    }

    fn new(kill_at: Instant, term_at: Instant, cgroup: Option<Cgroup>) -> Ending {
        Ending { kill_at, next_look: term_at, give_up_at: None, sweep: Sweep::default(), cgroup }
    }

    /// Sends what is due. Returns when to look again, or `None` if waiting is pointless.
    pub(in crate::process::guard) fn advance(
        &mut self,
        now: Instant,
        agent: &Agent,
    ) -> Option<Instant> {
        if self.give_up_at.is_some_and(|it| now >= it) {
            return None;
        }
        if now < self.next_look {
            return Some(self.next_look);
        }
        let is_kill = now >= self.kill_at;
        if is_kill {
            // Counted from the first look rather than from `kill_at`: if a fork bomb starves the
            // machine, the guard may be late, and must still have its time.
            self.give_up_at.get_or_insert(now + KILL_MAX);
        }
        // Only for a test that shows what the sweep is for: the process group alone is signalled.
        if fault::is_off("sweep") {
            let signal = if is_kill { RawSignal::SIGKILL } else { RawSignal::SIGTERM };
            if agent.exit.is_none() {
                signal_group(agent, signal);
            }
        } else if is_kill {
            // Listed before the cgroup is killed, so that they are counted.
            let found = descendants();
            self.kill_cgroup();
            // The cgroup may be absent or not cover all of them: each descendant is killed as well.
            self.sweep.kill(&found, None);
        } else {
            self.sweep.terminate(&descendants(), None);
        }
        let every = if is_kill { KILL_EVERY } else { TERM_EVERY };
        self.next_look = Instant::now() + every;
        // Do not overshoot the switch from TERM to KILL.
        if !is_kill {
            self.next_look = self.next_look.min(self.kill_at);
        }
        Some(self.next_look)
    }

    fn kill_cgroup(&mut self) {
        if let Some(cgroup) = &self.cgroup
            && let Err(cause) = cgroup.kill()
        {
            note(&format!("{} is not killed: {cause}", cgroup.folder()));
            // Not tried again: it would fail at every look. The sweep kills one by one.
            self.cgroup = None;
        }
    }

    /// Returns how many processes besides the agent were signalled.
    pub(in crate::process::guard) fn swept(&self, agent: &Agent) -> u32 {
        self.sweep.count_without(agent.pid)
    }
}

/// Returns the pids of descendants that are still running.
pub(in crate::process::guard) fn survivors() -> Vec<i32> {
    let alive = descendants().into_iter().filter(|it| !it.is_dead());
    alive.map(|it| it.pid).take(SURVIVORS_MAX).collect()
}

/// Lists all descendants. If `/proc` cannot be read, the list is empty and the next look tries
/// again; the loop ends when the guard has no children left, not when this list is empty.
fn descendants() -> Vec<Stat> {
    let found = Listing::new().and_then(|it| it.descendants(getpid().as_raw()));
    found.unwrap_or_else(|cause| {
        note(&format!("processes cannot be seen: {cause}"));
        Vec::new()
    })
}

fn signal_group(agent: &Agent, signal: RawSignal) {
    // ESRCH only: the agent is a zombie about to be reaped.
    let _ = killpg(Pid::from_raw(agent.pid), signal);
}
