//! Messages between addresses, and their deliveries.
//!
//! **Invariant:** a message never changes; what happens to it is recorded in `deliveries`.
//! **Invariant:** flows resolve addresses and decide what follows from a message.

pub mod agent;
mod block;
mod delivery;
mod forget;
mod later;
mod message;
mod overdue;
mod room;
mod rooms;
mod unconfirmed;

pub use block::{
    OpenBlock, begin_block, claim_block, confirm_given, confirm_late, end_block, give_back_block,
    give_up_given, messages_of, open_block, take_back_block, take_back_given,
};
pub use delivery::{
    Delivery, STATES, confirm_pulled, confirm_read, count_for_agent, deliver, deliver_to_job,
    drop_open, give, given_to, of_message, oldest_direct, open_of, outcome, pull, rooms_awaiting,
    take_over_direct,
};
pub use forget::{forget, forgettable};
pub use later::{stop_again, take_later};
pub use message::{
    Filter, Message, NewMessage, answer_of, find, is_answered_by_job, list, other_person,
    recent_of_job, recent_of_job_to, send, thread,
};

pub use overdue::{end_waiting, overdue, waiting_for_agent};
pub use room::{
    Heard, Waiting, calm_waiting, count_in_room, deliver_in_room, drop_in_room, drop_waiting,
    heard_in_room, is_briefed, is_repeated, left_out_in_room, repeat_block, take_over_room,
    waiting_in_room, waking_of_block,
};
pub use rooms::{Block, Compose, OnTurn, Rooms, Turn, TurnEnd};
pub use unconfirmed::{
    resend, resend_block, settle, settle_block, unconfirmed_block, unconfirmed_in_room,
};

/// The bell rung when a message is accepted or a delivery changes.
pub const BELL: &str = "mail";
/// The bell rung when a message to an instance is accepted.
pub const BELL_OF_INSTANCES: &str = "mail_of_instances";

/// The statements of this module, for the schema test.
pub fn statements() -> Vec<(&'static str, &'static str)> {
    [
        message::STATEMENTS,
        forget::STATEMENTS,
        later::STATEMENTS,
        delivery::STATEMENTS,
        agent::STATEMENTS,
        block::STATEMENTS,
        unconfirmed::STATEMENTS,
        overdue::STATEMENTS,
        room::STATEMENTS,
    ]
    .concat()
}
