//! Rights of a function of the script during a call, and the effects it requests.
//!
//! **Invariant:** an effect is only a request. The core validates and commits it after the function
//! has returned; a failed call has no effects.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::base::{Millis, Result};
use crate::script::source::location::Location;

/// A requested effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A job is to be accepted.
    Enqueue {
        /// `kind`, with the inputs and options, as in `POST /api/agent/jobs`.
        request: Map<String, Value>,
        /// Where `wb.enqueue` was called.
        at: Location,
    },
    /// A message is to be sent.
    Send {
        /// `to`, `payload` and options, as in `POST /api/messages`.
        message: Map<String, Value>,
        /// Where `wb.send` was called.
        at: Location,
    },
}

/// The result of a call.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The returned value.
    pub(crate) value: Value,
    /// The requested effects, in the order of its calls.
    pub(crate) effects: Vec<Effect>,
}

/// The result of one event handler.
#[derive(Debug)]
pub struct Told {
    /// Its name in the statistics: `on.EVENT`.
    pub name: String,
    /// Where it is declared.
    pub at: Location,
    /// What tells it apart from other handlers of its event.
    pub place: Arc<str>,
    /// The requested effects, or the error.
    pub outcome: Result<Vec<Effect>>,
}

/// The rights of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rights {
    /// The current time, constant during the call.
    pub(crate) now: Millis,
    /// Whether it may request effects.
    pub(crate) acts: bool,
}

impl Rights {
    /// Returns the rights of a function that only returns a value.
    pub(crate) fn answers(now: Millis) -> Rights {
        Rights { now, acts: false }
    }

    /// Returns the rights of a function that may request effects.
    pub(crate) fn acts(now: Millis) -> Rights {
        Rights { now, acts: true }
    }
}
