//! What rooms add to how agents are spoken to: who speaks in which room, and what follows from an
//! answer, is not known here.

use std::sync::Arc;

use crate::base::{BlockId, JobId, Result};
use crate::store::Tx;

/// What an agent is given at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its name, new.
    pub id: BlockId,
    /// What the agent reads.
    pub text: String,
    /// The places of the deliveries in it, oldest first; never empty.
    pub rows: Vec<i64>,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnEnd {
    /// The agent has had its say.
    Answered,
    /// Somebody interrupted it.
    Interrupted,
    /// Its engine failed, with what that said.
    Failed(String),
    /// Its start ended before the turn did.
    Lost,
}

/// A fact about a turn of an agent, told in the transaction that writes it down.
#[derive(Clone, Debug)]
pub enum Turn {
    /// It began; if a block is its cause, that has arrived.
    Began {
        /// The agent.
        agent: String,
        /// Its start.
        job: JobId,
        /// What it was given.
        block: Option<BlockId>,
    },
    /// It ended.
    Ended {
        /// The agent.
        agent: String,
        /// Its start.
        job: JobId,
        /// What it was given.
        block: Option<BlockId>,
        /// The agent's last words in it; may be empty.
        text: String,
        /// How it ended.
        how: TurnEnd,
        /// How many tokens it took, as far as the engine says.
        tokens: u64,
        /// What it cost in US dollars, as far as the engine says.
        cost_usd: Option<f64>,
        /// Whether its last words may hold what somebody typed, beside what it was given.
        is_mixed: bool,
    },
}

/// Makes the block of a room for an agent that is idle; nothing: not before the next bell. The
/// rows are claimed in the same transaction.
pub type Compose = dyn Fn(&Tx<'_>, &str, i64) -> Result<Option<Block>> + Send + Sync;
/// Writes what follows from a fact about a turn.
pub type OnTurn = dyn Fn(&Tx<'_>, &Turn) -> Result<()> + Send + Sync;

/// What rooms do, as flows say it.
#[derive(Clone)]
pub struct Rooms {
    /// Makes a block.
    pub compose: Arc<Compose>,
    /// Hears of turns, also of those that no room caused.
    pub turn: Arc<OnTurn>,
}
