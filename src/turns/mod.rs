//! The turns of agents: what caused each and how it ended; and the handoffs that an agent
//! writes for its successor.
//!
//! **Invariant:** a turn ends once: a second end finds no running row.

pub mod handoff;
mod turn;

pub use turn::{
    End, Held, NewTurn, Outcome, Turn, answer_of, begin, decide, direct_of_agent, end, find,
    has_own, hold, missing, newest_of_channel, of_agent, of_end, running_of, waiting,
};

/// The statements of this module, for the schema test.
pub fn statements() -> Vec<(&'static str, &'static str)> {
    [handoff::STATEMENTS, turn::STATEMENTS].concat()
}
