//! The thread of a test. A Lua C function cannot be interrupted, so a stuck one costs the thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use crate::script::lab::fixture::Bed;
use crate::script::lab::{Failure, File, Listed, Make, Named, Ran, unusable};
use crate::script::source::diagnostic::{Diagnostic, Report};
use crate::script::vm::budget::{Budget, Credit, cpu_of, own_task};
use crate::script::vm::outside::Said;

/// Longest time that the site may take for one request of a test.
const SITE_PATIENCE: Duration = Duration::from_secs(60);
/// Stack size of a thread in bytes: functions of a test that recurse through its site hit the
/// engine's limit before they overflow it.
const STACK_BYTES: usize = 16 * 1024 * 1024;
/// How often a silent thread is checked.
const LOOK: Duration = Duration::from_millis(200);

/// An event from the thread of a test to its waiter.
pub(super) enum Event {
    /// It has started; the name identifies it for reading its processor time.
    Began(Option<String>),
    /// It has called its site.
    Entered,
    /// The site has answered.
    Left,
    /// It has listed its tests.
    Listed(Result<Listed, Report>),
    /// It has run a test.
    Ended(Option<Box<Failure>>),
}

/// The context of a thread: where it reports, whether it was abandoned, and time that does not
/// count.
pub(super) struct Watched {
    events: Sender<Event>,
    pub(super) is_abandoned: Arc<AtomicBool>,
    pub(super) credit: Credit,
}

impl Watched {
    /// Reports that the site works now; its time does not count against the test.
    pub(super) fn enter(&self) {
        self.tell(Event::Entered);
        self.credit.begin();
    }

    /// Reports that the test continues.
    pub(super) fn leave(&self) {
        self.credit.end();
        self.tell(Event::Left);
    }

    fn tell(&self, event: Event) {
        // If nobody waits any more, this thread was abandoned: its next hook ends it.
        let _ = self.events.send(event);
    }
}

/// Lists the tests in a file without running them.
///
/// # Errors
/// Every error in the file.
pub fn list(file: &File) -> Result<Listed, Report> {
    let own = file.clone();
    let work = move |watched: Watched| {
        let listed = Bed::load(&own, Said::default(), watched.into()).map(|bed| bed.listed());
        Event::Listed(listed)
    };
    match on_thread(work, Budget::TEST_LOAD) {
        Waited::Told(Event::Listed(listed)) => listed,
        Waited::Told(_) | Waited::Gone => {
            Err(unusable(format!("{}: reading it ended in a fault of the program", file.path), ""))
        }
        Waited::Stuck => Err(unusable(
            format!("{} does not end while it loads", file.path),
            "look for a text pattern that takes very long",
        )),
        Waited::Without(why) => Err(unusable(why, "")),
    }
}

/// Runs one test of a file; `make` creates its site.
pub fn run(file: &File, test: &Named, place: usize, make: Make) -> Ran {
    let (own, said, began) = (file.clone(), Said::default(), Instant::now());
    let kept = said.clone();
    let work = move |watched: Watched| {
        let failure = match Bed::load(&own, said, watched.into()) {
            Ok(bed) => bed.run(place, make),
            Err(report) => report.errors.into_iter().next().map(Failure::of),
        };
        Event::Ended(failure.map(Box::new))
    };
    let waited = on_thread(work, Budget::TEST);
    let failed = |message: &str, note: &str| {
        let mut finding = Diagnostic::error("limit", message).note(note);
        finding.at = Some(test.at.clone());
        Some(Failure::of(finding))
    };
    let (failure, is_lost) = match waited {
        Waited::Told(Event::Ended(failure)) => (failure.map(|it| *it), false),
        Waited::Stuck => {
            let note = "look for a text pattern that takes very long";
            (failed("this test does not end, and its thread was given up", note), true)
        }
        Waited::Told(_) | Waited::Gone => {
            (failed("this test ended in a fault of the program", "please report it"), false)
        }
        Waited::Without(why) => (failed(&why, ""), false),
    };
    Ran { failure, said: kept.after(0), took: began.elapsed(), is_lost }
}

enum Waited {
    Told(Event),
    Stuck,
    Gone,
    Without(String),
}

/// Runs work on its own thread and waits for its last event.
fn on_thread(work: impl FnOnce(Watched) -> Event + Send + 'static, budget: Budget) -> Waited {
    let (events, told) = mpsc::channel();
    let is_abandoned = Arc::new(AtomicBool::new(false));
    let given_up = Arc::clone(&is_abandoned);
    let thread = std::thread::Builder::new().name("wb-test".to_owned()).stack_size(STACK_BYTES);
    let started = thread.spawn(move || {
        let last = events.clone();
        // As in `Watched::tell`.
        let _ = last.send(Event::Began(own_task()));
        let credit = Credit::default();
        let event = work(Watched { events, is_abandoned: given_up, credit });
        // As in `Watched::tell`.
        let _ = last.send(event);
    });
    if let Err(cause) = started {
        return Waited::Without(format!("cannot start a thread: {cause}"));
    }
    let waited = wait(&told, budget);
    is_abandoned.store(true, Ordering::Relaxed);
    waited
}

/// Waits for the last event. A thread is stuck if its processor time says so: on a busy machine, a
/// healthy thread may be silent for long.
fn wait(told: &Receiver<Event>, budget: Budget) -> Waited {
    let (mut inside, mut task) = (0_u32, None::<String>);
    let used = |task: &Option<String>| task.as_deref().and_then(cpu_of);
    let (mut heard, mut used_then) = (Instant::now(), None);
    loop {
        match told.recv_timeout(LOOK) {
            Ok(Event::Began(name)) => task = name,
            Ok(Event::Entered) => inside += 1,
            Ok(Event::Left) => inside = inside.saturating_sub(1),
            Ok(event) => return Waited::Told(event),
            Err(RecvTimeoutError::Disconnected) => return Waited::Gone,
            Err(RecvTimeoutError::Timeout) => {
                let patience = if inside > 0 { SITE_PATIENCE } else { budget.wall };
                // A thread that has just started has used nothing yet.
                let then = used_then.unwrap_or_default();
                let spent = used(&task).map(|now| now.saturating_sub(then));
                let is_over = spent.is_some_and(|it| it > budget.cpu + Budget::PATIENCE);
                if heard.elapsed() > patience + Budget::PATIENCE || (inside == 0 && is_over) {
                    return Waited::Stuck;
                }
                continue;
            }
        }
        (heard, used_then) = (Instant::now(), used(&task));
    }
}
