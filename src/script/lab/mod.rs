//! Files of tests: Lua in the same locked-down VM as the script, with `wb.test` beside it.
//!
//! A test never touches a site by itself. What it wants is asked of a [`Stage`], which is made for
//! that one test, does it with the code of the server, and answers with plain data.
//!
//! **Invariant:** a test reaches no more of the machine than a script, and sees no variable of it.
//! **Invariant:** each test runs in a fresh VM on a thread of its own, with an end.

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

/// What the fake clock shows where a test begins: Monday, 2026-01-05T09:00:00Z.
pub const START: Millis = Millis(1_767_603_600_000);

/// What a test asks of its site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Say how it is; comes first.
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
    /// Run a job that is asked for.
    Run,
    /// Run the job that comes next.
    Next,
    /// List the jobs that wait.
    Jobs,
    /// Tell handlers of something.
    Fire,
    /// Call a webhook.
    Webhook,
    /// Move the clock.
    Advance,
    /// Ask for a job and let it wait.
    Enqueue,
    /// List what was proposed.
    Proposals,
    /// Approve a proposal.
    Approve,
    /// Reject a proposal.
    Reject,
    /// Have a proposal done again.
    Rework,
    /// Commit texts, as somebody else does.
    Commit,
    /// Change a text and not commit it.
    Edit,
    /// Reload the script.
    Reload,
}

/// How far the site has come with what a test asked for.
#[derive(Debug)]
pub enum Step {
    /// It is done; this is the answer.
    Done(Value),
    /// A job runs and waits for what its agent does: the job, and the number of the attempt, the
    /// first of which is 1. Until [`Stage::played`] says it, the test can ask for other things:
    /// they happen while the agent works.
    Agent(Value, usize),
}

/// The site that one test works on.
pub trait Stage {
    /// Does what a test asks for, with its arguments as plain data.
    ///
    /// # Errors
    /// What is wrong, with a hint for whoever wrote the test.
    fn act(&mut self, verb: Verb, args: &[Value]) -> Result<Step>;

    /// Goes on with the job that waits for its agent, of several with the one that began last, by
    /// what the agent does.
    ///
    /// # Errors
    /// Same as [`Stage::act`].
    fn played(&mut self, does: &Value) -> Result<Step>;

    /// Goes on without that job: the test's own function failed that says what its agent does.
    fn forsake(&mut self);

    /// Returns what the fake clock shows.
    fn now(&self) -> Millis;
}

/// Makes the site of a test, when it first asks for something; the test's log goes with it.
pub type Make = Box<dyn FnOnce(Said) -> Result<Box<dyn Stage>> + Send>;

/// Where a test is.
#[derive(Clone, Debug)]
pub struct File {
    /// The canonical folder of the script.
    pub folder: Utf8PathBuf,
    /// The file, relative to it.
    pub path: Utf8PathBuf,
}

/// A test, before it is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub at: Location,
}

/// What stands in a file of tests.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its tests in their order.
    pub tests: Vec<Named>,
    /// All files that it reads, itself first, relative to the folder.
    pub files: Vec<Utf8PathBuf>,
}

/// What became of a test.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Why it failed; nothing for one that passed.
    pub failure: Option<Failure>,
    /// What it and the script have logged.
    pub said: Vec<SaidLine>,
    /// How long it took.
    pub took: Duration,
    /// Whether its thread had to be given up.
    pub is_lost: bool,
}

/// Why a test failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What is wrong, with its place.
    pub finding: Diagnostic,
    /// What there is and what there must be, if two values were compared.
    pub difference: Option<Difference>,
}

/// Two values that should have been the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What there is.
    pub got: String,
    /// What there must be; nothing if the value is shown only.
    pub want: Option<String>,
}

impl Failure {
    fn of(finding: Diagnostic) -> Failure {
        Failure { finding, difference: None }
    }
}

/// Returns a report on a file that could not even be looked at.
fn unusable(message: String, note: &str) -> Report {
    Report::of(Diagnostic::error("test", message).note(note))
}
