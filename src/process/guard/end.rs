//! The end of a job: which signal is due when, until no descendant is left.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal as RawSignal, killpg};
use nix::unistd::{Pid, getpid};

use crate::base::fault;
use crate::process::cgroup::Cgroup;
use crate::process::guard::agent::Agent;
use crate::process::guard::note;
use crate::process::identity::Stat;
use crate::process::tree::{Listing, Sweep};

/// What is left after the agent's own exit gets this long between TERM and KILL.
const AFTER_EXIT: Duration = Duration::from_millis(500);
/// How long processes may take to vanish once they are killed, before they are survivors: on a busy
/// machine also a killed process needs its turn.
const KILL_MAX: Duration = Duration::from_secs(3);
/// How often new descendants are looked for between TERM and KILL.
const TERM_EVERY: Duration = Duration::from_millis(25);
/// How often while they are killed: a process that forks all the time must not win the race.
const KILL_EVERY: Duration = Duration::from_millis(1);
/// Most survivors that are named.
const SURVIVORS_MAX: usize = 1_000;

/// An end under way.
pub(in crate::process::guard) struct Ending {
    kill_at: Instant,
    next_look: Instant,
    give_up_at: Option<Instant>,
    sweep: Sweep,
    /// What ends all at once, where there is one.
    cgroup: Option<Cgroup>,
}

impl Ending {
    /// What the agent left behind when it exited by itself.
    pub(in crate::process::guard) fn after_exit(now: Instant, cgroup: Option<Cgroup>) -> Ending {
        Ending::new(now + AFTER_EXIT, now, cgroup)
    }

    /// The end of an agent that runs: INT now, TERM at 40 % and KILL at 100 % of the grace.
    pub(in crate::process::guard) fn by_force(
        now: Instant,
        grace: Duration,
        agent: &Agent,
        cgroup: Option<Cgroup>,
    ) -> Ending {
        if agent.exit.is_none() {
            // The agent is not reaped, so its group is still its own. An agent that is asked in
            // this way prints its cost.
            signal_group(agent, RawSignal::SIGINT);
            signal_group(agent, RawSignal::SIGCONT);
        }
        Ending::new(now + grace, now + grace * 2 / 5, cgroup)
    }

    fn new(kill_at: Instant, term_at: Instant, cgroup: Option<Cgroup>) -> Ending {
        Ending { kill_at, next_look: term_at, give_up_at: None, sweep: Sweep::default(), cgroup }
    }

    /// Sends what is due. Returns when to look again, or `None` once waiting is pointless.
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
            // From the first look, not from `kill_at`: on a machine that a fork bomb starves, the
            // guard may come late, and then it must not give up at once.
            self.give_up_at.get_or_insert(now + KILL_MAX);
        }
        if fault::is_off("sweep") {
            let signal = if is_kill { RawSignal::SIGKILL } else { RawSignal::SIGTERM };
            if agent.exit.is_none() {
                signal_group(agent, signal);
            }
        } else if is_kill {
            // Listed first, so that they are counted.
            let found = descendants();
            self.kill_cgroup();
            self.sweep.kill(&found, None);
        } else {
            self.sweep.terminate(&descendants(), None);
        }
        let every = if is_kill { KILL_EVERY } else { TERM_EVERY };
        self.next_look = Instant::now() + every;
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
            self.cgroup = None;
        }
    }

    /// Returns how many processes beside the agent were told to end.
    pub(in crate::process::guard) fn swept(&self, agent: &Agent) -> u32 {
        self.sweep.count_without(agent.pid)
    }
}

/// Returns the pids of descendants that still run.
pub(in crate::process::guard) fn survivors() -> Vec<i32> {
    let alive = descendants().into_iter().filter(|it| !it.is_dead());
    alive.map(|it| it.pid).take(SURVIVORS_MAX).collect()
}

/// What cannot be seen now is looked for again, until the time to give up; and who has children is
/// not done.
fn descendants() -> Vec<Stat> {
    let found = Listing::new().and_then(|it| it.descendants(getpid().as_raw()));
    found.unwrap_or_else(|cause| {
        note(&format!("processes cannot be seen: {cause}"));
        Vec::new()
    })
}

fn signal_group(agent: &Agent, signal: RawSignal) {
    // ESRCH only: the agent is a zombie that is about to be reaped.
    let _ = killpg(Pid::from_raw(agent.pid), signal);
}
