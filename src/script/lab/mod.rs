//! Files of tests: Lua in the same sandboxed VM as the script, with `wb.test` in addition.
//!
//! A test never touches a site directly. It sends requests to a [`Stage`], created for this one
//! test, which executes them with the code of the server and returns plain data.
//!
//! **Invariant:** a test can access no more of the machine than a script, and none of its
//! variables.
//! **Invariant:** each test runs in a fresh VM on its own thread, and always ends.

mod api;
mod check;
mod compare;
mod fixture;
mod thread;

use std::time::Duration;

use camino::Utf8PathBuf;
use serde_json::Value;

use crate::base::{Millis, Result};
use crate::script::source::diagnostic::{Diagnostic, Report};
use crate::script::source::location::Location;
use crate::script::vm::outside::{Said, SaidLine};

pub use thread::{list, run};

/// Initial time of the fake clock: Monday, 2026-01-05T09:00:00Z.
pub const START: Millis = Millis(1_767_603_600_000);

/// A request of a test to its site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Set the initial state; comes first.
    Site,
    /// Put a Source.
    Source,
    /// Put a persona.
    Persona,
    /// Open a Topic.
    Topic,
    /// Add a message.
    Message,
    /// Make a prompt.
    Render,
    /// Request a job and run it.
    Run,
    /// Run the next queued job.
    Next,
    /// List the queued jobs.
    Jobs,
    /// Fire an event.
    Fire,
    /// Call a webhook.
    Webhook,
    /// Move the clock.
    Advance,
    /// Request a job and leave it queued.
    Enqueue,
    /// List the proposals.
    Proposals,
    /// Approve a proposal.
    Approve,
    /// Reject a proposal.
    Reject,
    /// Have a proposal done again.
    Rework,
    /// Commit files without the server.
    Commit,
    /// Edit a file without committing it.
    Edit,
    /// Reload the script.
    Reload,
    /// Open a channel.
    Channel,
    /// Post in a channel.
    Say,
    /// Let an agent answer in a channel.
    Answer,
    /// List the messages of a channel.
    Said,
}

/// Progress of the site with a request.
#[derive(Debug)]
pub enum Step {
    /// Done; this is the answer.
    Done(Value),
    /// A job runs and waits for its fake agent: the job, and the number of the attempt, from 1.
    /// Until [`Stage::played`] provides that, the test can send other requests, which happen while
    /// the agent works.
    Agent(Value, usize),
}

/// The site of one test.
pub trait Stage {
    /// Executes a request with its arguments as plain data.
    ///
    /// # Errors
    /// The error, with a hint for the author of the test.
    fn act(&mut self, verb: Verb, args: &[Value]) -> Result<Step>;

    /// Continues the job that waits for its agent, given what the agent does; if several wait, the
    /// one that started last.
    ///
    /// # Errors
    /// Same as [`Stage::act`].
    fn played(&mut self, does: &Value) -> Result<Step>;

    /// Continues without that job: the test's own function that plays the agent failed.
    fn forsake(&mut self);

    /// Returns the time of the fake clock.
    fn now(&self) -> Millis;
}

/// Creates the site of a test on first use; the test's log is part of it.
pub type Make = Box<dyn FnOnce(Said) -> Result<Box<dyn Stage>> + Send>;

/// Where a test is.
#[derive(Clone, Debug)]
pub struct File {
    /// The canonical folder of the script.
    pub folder: Utf8PathBuf,
    /// Path of the file, relative to it.
    pub path: Utf8PathBuf,
}

/// A test, before it is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Its place.
    pub at: Location,
}

/// The content of a file of tests.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its tests in their order.
    pub tests: Vec<Named>,
    /// All files that it reads, starting with itself, relative to the folder.
    pub files: Vec<Utf8PathBuf>,
}

/// The outcome of a test.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The failure; `None` if it passed.
    pub failure: Option<Failure>,
    /// The log of the test and the script.
    pub said: Vec<SaidLine>,
    /// How long it took.
    pub took: Duration,
    /// Whether its thread had to be abandoned.
    pub is_lost: bool,
}

/// Why a test failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The finding.
    pub finding: Diagnostic,
    /// The difference, if two values were compared.
    pub difference: Option<Difference>,
}

/// Two values that should be equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The actual value.
    pub got: String,
    /// The expected value; `None` if the actual value is only shown.
    pub want: Option<String>,
}

impl Failure {
    fn of(finding: Diagnostic) -> Failure {
        Failure { finding, difference: None }
    }
}

/// Returns a report on a file that could not be read.
fn unusable(message: String, note: &str) -> Report {
    Report::of(Diagnostic::error("test", message).note(note))
}
