//! What the server adds to what a job's agent says: requests that it refused, whose errors agents
//! often hide from people, and calls that a person changed, of which the agent prints the original.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::base::{Error, truncate_chars};
use crate::jobs::access::NOT_GRANTED;

/// Most remarks buffered; beyond that the oldest are dropped.
const WAITING_MAX: usize = 32;
/// Longest message or hint, in characters.
const TEXT_CHARS_MAX: usize = 500;
/// Longest changed input, in characters.
const INPUT_CHARS_MAX: usize = 16 * 1024;

/// What the server adds.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::jobs) enum Remark {
    /// A request was refused.
    Refused(Refusal),
    /// A person changed a call before it ran.
    Changed {
        /// The tool.
        tool: String,
        /// The input that it got.
        input: String,
    },
}

/// A refused request of a job's agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::jobs) struct Refusal {
    code: String,
    message: String,
    hint: Option<String>,
}

impl Refusal {
    /// Returns the entry for the job's stream.
    pub(in crate::jobs) fn entry(&self) -> Value {
        json!({
            "type": "refusal", "code": self.code, "message": self.message, "hint": self.hint,
        })
    }

    /// Returns the line added to the error of a failed job.
    pub(in crate::jobs) fn line(&self) -> String {
        let hint = self.hint.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
        format!("wb-agent was refused ({}): {}{hint}", self.code, self.message)
    }

    /// Returns whether it was refused for lack of a grant.
    pub(in crate::jobs) fn is_of_rights(&self) -> bool {
        self.code == NOT_GRANTED
    }

    /// Returns whether a text already mentions it.
    pub(in crate::jobs) fn is_told_in(&self, text: &str) -> bool {
        text.contains(&self.message)
    }
}

/// Remarks on a running job that are not stored yet, shared by clones.
#[derive(Clone, Debug, Default)]
pub(in crate::jobs) struct Remarks(Arc<Mutex<VecDeque<Remark>>>);

impl Remarks {
    /// Adds a refused request.
    pub(in crate::jobs) fn refused(&self, error: &Error) {
        let short = |text: &str| truncate_chars(text, TEXT_CHARS_MAX);
        self.push(Remark::Refused(Refusal {
            code: error.code_str().to_owned(),
            message: short(error.message()),
            hint: error.hint_str().map(short),
        }));
    }

    /// Adds a call that a person changed.
    pub(in crate::jobs) fn changed(&self, tool: &str, input: &Value) {
        let tool = truncate_chars(tool, TEXT_CHARS_MAX);
        let input = truncate_chars(&input.to_string(), INPUT_CHARS_MAX);
        self.push(Remark::Changed { tool, input });
    }

    fn push(&self, remark: Remark) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= WAITING_MAX {
            waiting.pop_front();
        }
        waiting.push_back(remark);
    }

    /// Takes all of them, oldest first.
    pub(in crate::jobs) fn take(&self) -> Vec<Remark> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_refusals_are_kept_and_their_texts_are_bounded() {
        let remarks = Remarks::default();
        for number in 0..100 {
            let error = Error::invalid(format!("{number} {}", "x".repeat(9_000))).hint("mend it");
            remarks.refused(&error);
        }
        let taken = remarks.take();
        assert_eq!(taken.len(), WAITING_MAX);
        let Some(Remark::Refused(last)) = taken.last() else { panic!("{taken:?}") };
        let line = last.line();
        assert!(line.starts_with("wb-agent was refused (invalid): 99 x"), "{line}");
        assert!(line.ends_with(" (mend it)") && line.len() < 1_000, "{line}");
        assert!(remarks.take().is_empty());
    }
}
