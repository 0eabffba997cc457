//! Conversations of people with the assistant: their rows, the streams of their answers, and what
//! a runtime says while it answers.
//!
//! **Invariant:** a message never changes; an answer is a message once its run is settled.
//! **Invariant:** the id of the person is in every question to the database that a person asks.
//! **Invariant:** what a reader saw of an answer stands in a file before it is told.

mod claude;
mod history;
mod home;
mod hub;
mod item;
mod message;
mod replay;
mod run;
mod scribe;
mod session;
mod setting;

pub use claude::{ClaudeReader, arguments as claude_arguments, is_inherited};
pub use history::transcript;
pub use home::Home;
pub use hub::{Hub, Pokes};
pub use item::{Item, STREAM_FILE};
pub use message::{
    Message, NewMessage, Role, State, branch, find as find_message, insert as add_message,
    siblings, tip,
};
pub use replay::{Sum, Tail, sum};
pub use run::{
    End, Ended, Run, by_job, find as find_run, insert as add_run, latest_of, open_of, runs_of,
    settle as settle_run,
};
pub use scribe::{Answer, Scribe};
pub use session::{
    Change, Session, Spent, begin, change, find as find_session, forget, list as list_sessions,
    note_answer, note_question, remove,
};
pub use setting::{Setting, forget_ref, keep_ref, keep_setting, ref_of, setting_of};

/// The statements of this module, for the schema test.
pub fn statements() -> Vec<(&'static str, &'static str)> {
    [session::STATEMENTS, message::STATEMENTS, run::STATEMENTS, setting::STATEMENTS].concat()
}
