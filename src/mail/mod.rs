//! Messages between addresses, and what became of each for its recipient.
//!
//! **Invariant:** a message never changes; what happens to it are rows of `deliveries`.
//! **Invariant:** whom an address means, and what follows from a message, flows say.

mod delivery;
mod message;

pub use delivery::{
    Delivery, confirm_pulled, confirm_read, deliver, deliver_to_job, drop_open, of_message,
    open_of, pull,
};
pub use message::{
    Filter, Message, NewMessage, answer_of, find, list, recent_of_job, send, thread,
};

/// The bell that is rung when a message was accepted, or something became of one.
pub const BELL: &str = "mail";

/// The statements of this module, for the schema test.
pub fn statements() -> Vec<(&'static str, &'static str)> {
    [message::STATEMENTS, delivery::STATEMENTS].concat()
}
