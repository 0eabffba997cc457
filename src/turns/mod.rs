//! Turns of agents: each exchange, what caused it, and what it came to.
//!
//! **Invariant:** a turn ends once; whoever ends it second finds no row that runs.

mod turn;

pub use turn::{
    End, NewTurn, Outcome, Turn, begin, end, find, newest_of_channel, of_end, running_of,
};

/// The statements of this module, for the schema test.
pub fn statements() -> Vec<(&'static str, &'static str)> {
    turn::STATEMENTS.to_vec()
}
