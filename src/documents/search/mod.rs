//! Full-text search over Sources, Topics and messages: indexing, parsing, searching and snippets.
//!
//! A Topic is found by its title, its first message and its quoted passage; later messages are
//! found individually. A Source is found by its path and its text.
//!
//! **Invariant:** the tables `search_…` are derived from other tables and the repository; losing
//! them loses nothing.
//! **Invariant:** what is written in a Topic is searchable from the same transaction on.

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

/// Rung when something remains to be indexed.
pub const BELL: &str = "search";

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
