//! Bounds of one call into a script: processor time, wall-clock time and memory.
//!
//! **Invariant:** `pcall` cannot extend the budget. Once it is used up, the hook fires at every
//! instruction, so that code which catches the error is stopped at its next instruction.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mlua::{HookTriggers, Lua, VmState};

use crate::base::fault;

/// Memory limit of one VM, in bytes.
pub(crate) const MEMORY_BYTES_MAX: usize = crate::base::limit::SCRIPT_MEMORY_BYTES_MAX;
/// Instructions between two checks of the clock; about 5 µs.
const STRIDE: u32 = 250;
/// Instructions before the first check. The interval grows from there, so that a loop of long calls
/// is detected early and a short call is never checked.
const FIRST_STRIDE: u32 = 16;
/// If this many instructions take longer, they call slow C functions: then every instruction is
/// checked until they are fast again.
const SLOW: Duration = Duration::from_millis(1);
/// Shorter calls skip reading the processor time, which takes as long as a short call. A longer
/// call is assumed to have used all of the elapsed time so far.
const UNASKED: Duration = Duration::from_millis(5);

/// Stack frames searched for one of the script.
const FRAMES_MAX: usize = 8;

/// Time limits of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Processor time.
    pub(crate) cpu: Duration,
    /// Wall-clock time; larger, so that a busy machine does not fail a call that does little.
    pub(crate) wall: Duration,
}

impl Budget {
    /// The budget of one call.
    pub(crate) const CALL: Budget =
        Budget { cpu: Duration::from_millis(100), wall: Duration::from_millis(500) };
    /// The budget of loading all files.
    pub(crate) const LOAD: Budget =
        Budget { cpu: Duration::from_millis(500), wall: Duration::from_secs(2) };
    /// The budget of one test, excluding the time of its site. Nobody waits for it in a queue, and
    /// a busy machine may make it slow.
    pub(crate) const TEST: Budget =
        Budget { cpu: Duration::from_secs(1), wall: Duration::from_secs(60) };
    /// The budget of loading a file of tests.
    pub(crate) const TEST_LOAD: Budget = Budget { cpu: Budget::LOAD.cpu, wall: Budget::TEST.wall };
    /// Extra wait beyond the budget before the thread is abandoned.
    pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
}

/// Time within a call that does not count: work of others on its behalf. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credit(Rc<CreditInner>);

#[derive(Debug, Default)]
struct CreditInner {
    cpu: Cell<Duration>,
    wall: Cell<Duration>,
    since: Cell<Option<(Instant, Option<Duration>)>>,
}

impl Credit {
    /// Starts an interval that does not count.
    pub(crate) fn begin(&self) {
        self.0.since.set(Some((Instant::now(), thread_cpu())));
    }

    /// Ends the interval.
    pub(crate) fn end(&self) {
        let Some((at, cpu)) = self.0.since.take() else { return };
        self.0.wall.set(self.0.wall.get() + at.elapsed());
        if let (Some(before), Some(after)) = (cpu, thread_cpu()) {
            self.0.cpu.set(self.0.cpu.get() + after.saturating_sub(before));
        }
    }
}

/// Meters one call.
pub(crate) struct Meter {
    lua: Lua,
    state: Rc<State>,
}

struct State {
    budget: Budget,
    started: Instant,
    /// Processor time of the thread at the start of the call; read on first use.
    cpu_before: Cell<Option<Option<Duration>>>,
    look_at: Cell<Instant>,
    looked_at: Cell<Instant>,
    stride: Cell<u32>,
    is_abandoned: Arc<AtomicBool>,
    credit: Credit,
    tripped_at: RefCell<Option<String>>,
}

impl Meter {
    /// Begins to watch.
    pub(crate) fn start(
        lua: &Lua,
        budget: Budget,
        is_abandoned: &Arc<AtomicBool>,
    ) -> mlua::Result<Meter> {
        Meter::start_with(lua, budget, is_abandoned, Credit::default())
    }

    /// Starts to meter a call of which some time does not count.
    pub(crate) fn start_with(
        lua: &Lua,
        budget: Budget,
        is_abandoned: &Arc<AtomicBool>,
        credit: Credit,
    ) -> mlua::Result<Meter> {
        let started = Instant::now();
        let state = Rc::new(State {
            budget,
            started,
            cpu_before: Cell::new(None),
            look_at: Cell::new(started + UNASKED.min(budget.cpu)),
            looked_at: Cell::new(started),
            stride: Cell::new(FIRST_STRIDE),
            is_abandoned: Arc::clone(is_abandoned),
            credit,
            tripped_at: RefCell::new(None),
        });
        arm(lua, &state, FIRST_STRIDE)?;
        Ok(Meter { lua: lua.clone(), state })
    }

    /// Stops metering; returns the message with the place if the budget was used up.
    pub(crate) fn stop(self) -> Option<String> {
        self.lua.remove_global_hook();
        let place = self.state.tripped_at.take()?;
        Some(format!("{place}{}", over_text(self.state.budget)))
    }
}

/// Schedules the next check after this many instructions.
fn arm(lua: &Lua, state: &Rc<State>, stride: u32) -> mlua::Result<()> {
    state.stride.set(stride);
    let watched = Rc::clone(state);
    let triggers = HookTriggers::new().every_nth_instruction(stride);
    lua.set_global_hook(triggers, move |lua, _| {
        let now = Instant::now();
        if !watched.is_over(now) {
            let next = watched.next_stride(now);
            if next != watched.stride.get() {
                arm(lua, &watched, next)?;
            }
            return Ok(VmState::Continue);
        }
        let budget = watched.budget;
        *watched.tripped_at.borrow_mut() = Some(place(lua));
        if !fault::is_off("script_rearm") {
            let each = HookTriggers::new().every_nth_instruction(1);
            lua.set_global_hook(each, move |_, _| Err(over(budget)))?;
        }
        Err(over(budget))
    })
}

/// Returns `FILE:LINE: ` of the script's code that is running, perhaps inside one of our functions.
fn place(lua: &Lua) -> String {
    let frame = |level| {
        lua.inspect_stack(level, |debug| {
            let source = debug.source().source?;
            let path = source.strip_prefix('@')?;
            Some(format!("{path}:{}: ", debug.current_line()?))
        })
    };
    (0..FRAMES_MAX).map_while(frame).flatten().next().unwrap_or_default()
}

impl State {
    /// Returns the number of instructions until the next check.
    fn next_stride(&self, now: Instant) -> u32 {
        match now.duration_since(self.looked_at.replace(now)) > SLOW {
            true => 1,
            false => (self.stride.get() * 4).min(STRIDE),
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        if self.is_abandoned.load(Ordering::Relaxed) {
            return true;
        }
        if now < self.look_at.get() {
            return false;
        }
        let wall = now.duration_since(self.started).saturating_sub(self.credit.0.wall.get());
        let after = thread_cpu().map(|it| it.saturating_sub(self.credit.0.cpu.get()));
        let before = self.cpu_before.get().unwrap_or_else(|| {
            let assumed = after.map(|it| it.saturating_sub(wall.min(UNASKED)));
            self.cpu_before.set(Some(assumed));
            assumed
        });
        let cpu = match (before, after) {
            (Some(before), Some(after)) => after.saturating_sub(before),
            _ => wall,
        };
        if cpu >= self.budget.cpu || wall >= self.budget.wall {
            return true;
        }
        let rest = (self.budget.cpu - cpu).min(self.budget.wall - wall);
        self.look_at.set(now + rest);
        false
    }
}

fn over(budget: Budget) -> mlua::Error {
    mlua::Error::RuntimeError(over_text(budget))
}

fn over_text(budget: Budget) -> String {
    format!("used more than {} ms of processor time", budget.cpu.as_millis())
}

/// Returns the processor time of this thread; `None` if the kernel does not report it, in which
/// case only the wall clock counts.
fn thread_cpu() -> Option<Duration> {
    cpu_of("thread-self")
}

/// Returns the name by which another thread can read the processor time of this one.
pub(crate) fn own_task() -> Option<String> {
    std::fs::read_link("/proc/thread-self").ok()?.into_os_string().into_string().ok()
}

/// Returns the processor time of a thread by its name.
pub(crate) fn cpu_of(task: &str) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{task}/schedstat")).ok()?;
    let nanos = text.split_whitespace().next()?.parse().ok()?;
    (nanos > 0).then(|| Duration::from_nanos(nanos))
}
