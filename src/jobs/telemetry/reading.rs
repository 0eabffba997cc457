//! What one line of an agent's output says.

use serde_json::Value;

/// The contents of one line.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// Entries for the stream: `type` and its fields.
    pub(super) entries: Vec<Value>,
    /// What it tells of the agent's turn; `None` if nothing.
    pub(super) turn: Option<Turn>,
}

impl Reading {
    pub(super) fn one(entry: Value) -> Reading {
        Reading { entries: vec![entry], turn: None }
    }
}

/// Where an agent is in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::jobs) enum Turn {
    /// It works: a result before, if any, was not its last.
    Working,
    /// It gave the turn's result.
    Ended,
}
