//! The interface between agent turns and rooms: who speaks in a room, and what follows from an
//! answer, is decided by flows.

use std::sync::Arc;

use crate::base::{BlockId, JobId, Result};
use crate::store::Tx;

/// The input that an agent is given at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its new id.
    pub id: BlockId,
    /// The text for the agent.
    pub text: String,
    /// The sequence numbers of its deliveries, oldest first; never empty.
    pub rows: Vec<i64>,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnEnd {
    /// The agent answered.
    Answered,
    /// Somebody interrupted it.
    Interrupted,
    /// Its engine failed, with this message.
    Failed(String),
    /// Its process ended before the turn did.
    Lost,
}

/// A change of an agent's turn, reported in the transaction that records it.
#[derive(Clone, Debug)]
pub enum Turn {
    /// It began; if a block caused it, the block has arrived.
    Began {
        /// The agent.
        agent: String,
        /// Its start.
        job: JobId,
        /// The block that it was given.
        block: Option<BlockId>,
    },
    /// It ended.
    Ended {
        /// The agent.
        agent: String,
        /// Its start.
        job: JobId,
        /// The block that it was given.
        block: Option<BlockId>,
        /// The agent's last words; may be empty.
        text: String,
        /// How it ended.
        how: TurnEnd,
        /// Tokens used, as reported by the engine.
        tokens: u64,
        /// Cost in US dollars, as reported by the engine.
        cost_usd: Option<f64>,
        /// Whether its last words may contain text that somebody typed besides the block.
        is_mixed: bool,
    },
}

/// Composes the block of a room for an idle agent; `None` to wait for the next bell. The rows are
/// claimed in the same transaction.
pub type Compose = dyn Fn(&Tx<'_>, &str, i64) -> Result<Option<Block>> + Send + Sync;
/// Records what follows from a change of a turn.
pub type OnTurn = dyn Fn(&Tx<'_>, &Turn) -> Result<()> + Send + Sync;

/// The callbacks of rooms, provided by flows.
#[derive(Clone)]
pub struct Rooms {
    /// Composes a block.
    pub compose: Arc<Compose>,
    /// Called for every turn, including those not caused by a room.
    pub turn: Arc<OnTurn>,
}
