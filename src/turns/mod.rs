//! Turns of agents: each exchange, what caused it, and what it came to; and what an agent that
//! leaves writes down for its successor.
//!
//! **Invariant:** a turn ends once; whoever ends it second finds no row that runs.

pub mod handoff;
mod turn;

pub use turn::{
    End, Held, NewTurn, Outcome, Turn, answer_of, begin, decide, direct_of_agent, end, find, hold,
    newest_of_channel, of_agent, of_end, running_of, waiting,
};

/// The statements of this module, for the schema test.
pub fn statements() -> Vec<(&'static str, &'static str)> {
    [handoff::STATEMENTS, turn::STATEMENTS].concat()
}
