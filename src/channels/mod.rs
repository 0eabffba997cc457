//! Channels: conversations of people and agents, in one order.
//!
//! **Invariant:** a message, its number, its deliveries and a resulting pause are one
//! transaction.
//! **Invariant:** pure functions decide who is woken, when a channel pauses, and what a block
//! contains.

mod attachment;
mod block;
mod budget;
mod chain;
mod channel;
mod kind;
mod later;
mod leave;
mod member;
mod mention;
mod message;
mod name_and_goal;
mod pause;
mod post;
mod primer;
mod slug;
mod starts;
mod waiting;
mod wake;

pub use attachment::{
    Attachment, Uploader, content as attachment_content, drop_unsent, droppable,
    find as find_attachment, no_attachment, of_message as attachments_of, upload,
};
pub use block::FRAMES;
pub use block::{
    BLOCK_BYTES_MAX, Envelope, MESSAGES_MAX, NEW as NEW_MESSAGES, UNSURE, cut, envelopes, left_out,
    read as read_block,
};
pub use chain::Cause;
pub use channel::{
    Channel, NewChannel, Status, archive, change, complete, create, find, list,
    nothing as no_channel, resolve, resume, spend, warned,
};
pub use kind::{ChannelType, Limits, Speaks, Wakes};
pub use later::{Taken, all, take_later};
pub use leave::{leave, leave_after_turn, release_all};
pub use member::{
    Joining, Member, Standing, channels_of, find as find_member, hears, join,
    of_channel as members, read, require_free, reseat, seat_of, seats_of, seen, set_chair,
    set_muted,
};
pub use mention::mentions;
pub use message::{
    Sort, Spoken, after, answer_of_turn, before, escalation_after, find as find_message,
    mentions_after, outcomes_after, since,
};
pub use pause::Pause;
pub use post::{Author, NewPost, TEXT_CHARS_MAX, add_late_line, is_too_fast, pause, post};
pub use primer::{PrimerWords, briefing, briefing_max, own_primer, primer, primer_words};
pub use starts::{count_start, inherit_starts};
pub use waiting::brief;

/// The statements of this module, for the schema test.
pub fn statements() -> Vec<(&'static str, &'static str)> {
    [
        attachment::STATEMENTS,
        channel::STATEMENTS,
        leave::STATEMENTS,
        member::STATEMENTS,
        message::STATEMENTS,
        starts::STATEMENTS,
    ]
    .concat()
}
