//! What a function of the script may do while it is called, and what it wants done.
//!
//! **Invariant:** an effect is a wish. The core validates it and commits it after the function has
//! returned; a call that fails has no effects.

use serde_json::{Map, Value};

use crate::base::{Millis, Result};
use crate::script::source::location::Location;

/// Something that a function of the script wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A job is to be accepted.
    Enqueue {
        /// `kind`, and beside it the inputs and when, as in `POST /api/agent/jobs`.
        request: Map<String, Value>,
        /// Where `wb.enqueue` was called.
        at: Location,
    },
}

/// What a function has answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// What it returned.
    pub(crate) value: Value,
    /// What it wants done, in the order of its calls.
    pub(crate) effects: Vec<Effect>,
}

/// What one handler of an event came to.
#[derive(Debug)]
pub struct Told {
    /// What its calls are counted under: `on.EVENT`.
    pub name: String,
    /// Where it is declared.
    pub at: Location,
    /// What it wants done, or why it failed.
    pub outcome: Result<Vec<Effect>>,
}

/// What a call may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rights {
    /// The present time, which stands still during the call.
    pub(crate) now: Millis,
    /// Whether it may ask for effects.
    pub(crate) acts: bool,
}

impl Rights {
    /// Returns the rights of a function that answers only.
    pub(crate) fn answers(now: Millis) -> Rights {
        Rights { now, acts: false }
    }

    /// Returns the rights of a function that may ask for effects.
    pub(crate) fn acts(now: Millis) -> Rights {
        Rights { now, acts: true }
    }
}
