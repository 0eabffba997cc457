//! What a running script accesses of the machine: variables, and the log.
//!
//! **Invariant:** in a test both are fake: it sees no variable of the machine, and its log lines
//! stay within the test.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

use crate::base::truncate_chars;
use crate::script::source::location::Location;

/// Most lines that a test keeps.
const LINES_MAX: usize = 1_000;
/// Longest line that is kept, in characters.
const LINE_CHARS_MAX: usize = crate::base::limit::SCRIPT_LOG_CHARS_MAX;

/// The environment of a script.
#[derive(Clone, Debug, Default)]
pub struct Outside(Option<Feigned>);

#[derive(Clone, Debug)]
struct Feigned {
    variables: BTreeMap<String, String>,
    said: Said,
}

/// A line logged by a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SaidLine {
    /// `debug`, `info`, `warn` or `error`.
    pub level: String,
    /// Where.
    pub at: Location,
    /// What.
    pub text: String,
}

/// The lines logged by scripts in a test, in order; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Said(Arc<Mutex<Vec<SaidLine>>>);

impl Said {
    /// Adds a line, unless there are too many.
    pub(crate) fn add(&self, level: tracing::Level, at: Location, text: &str) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() < LINES_MAX {
            let level = level.as_str().to_ascii_lowercase();
            lines.push(SaidLine { level, at, text: truncate_chars(text, LINE_CHARS_MAX) });
        }
    }

    /// Returns the lines after the first `from` ones.
    pub fn after(&self, from: usize) -> Vec<SaidLine> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().skip(from).cloned().collect()
    }

    /// Returns how many there are.
    pub fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Outside {
    /// Returns a fake one: these variables, and its own log.
    pub fn feigned(variables: BTreeMap<String, String>, said: Said) -> Outside {
        Outside(Some(Feigned { variables, said }))
    }

    /// Returns a variable.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        match &self.0 {
            Some(it) => it.variables.get(name).cloned(),
            None => std::env::var(name).ok(),
        }
    }

    /// Returns the destination of log lines instead of the server's log.
    pub(crate) fn said(&self) -> Option<&Said> {
        self.0.as_ref().map(|it| &it.said)
    }
}
