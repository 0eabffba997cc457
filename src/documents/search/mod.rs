//! Full-text search over Sources, Topics and messages: what is taken in, asked, found and shown.
//!
//! A Topic is found by its title, its first message and the words that it points at; the messages
//! after the first one are found by themselves. A Source is found by its path and its text.
//!
//! **Invariant:** the tables `search_…` are made from other tables and from the repository; losing
//! them loses nothing.
//! **Invariant:** what is written in a Topic is found from the transaction on that writes it.

mod across_parts;
mod ask;
mod find;
mod fold;
mod mark;
mod rank;
mod snippet;
mod source;
mod state;
mod thread;
mod title;

pub use ask::Ask;
pub use find::{
    Candidate, Filter, Found, FoundMessage, FoundPart, FoundTopic, Sort, find, message, part, topic,
};
pub use fold::{FOLD_VERSION, folded};
pub use mark::of_owner;
pub use snippet::{Piece, Snippet, marked, snippet};
pub use source::{
    KnownTitle, Part, known_sources, parts_of, put_part, remove_source, seal_source, title, titles,
};
pub use state::{Left, State, begin_anew, left, mark_damaged, state};
pub use thread::{take_in_messages, take_in_topics};

pub(in crate::documents) use thread::{move_topic, put_message, put_topic, rename_topic};

/// Rung when something is left to be taken in.
pub const BELL: &str = "search";
/// What the error says if an index of the database is damaged and the rest is whole.
pub const DAMAGED: &str = "index_damaged";

/// The statements of this module, for the schema test.
pub fn statements() -> Vec<(&'static str, &'static str)> {
    [
        find::STATEMENTS,
        rank::STATEMENTS,
        source::STATEMENTS,
        state::STATEMENTS,
        thread::STATEMENTS,
        title::STATEMENTS,
    ]
    .concat()
}
