//! Conversations with the assistant: their rows, the streams of their answers, and the output of
//! runtimes.
//!
//! **Invariant:** a message never changes. A step with tool calls is stored before the calls are
//! executed, and the last step when its run is settled.
//! **Invariant:** every query on behalf of a person contains that person's id.
//! **Invariant:** an item is in the file before any reader sees it.

/// Makes a statement that begins with `branch`: the ids from the message `:end` up to the first
/// one.
macro_rules! along_branch {
    ($statement:literal) => {
        concat!(
            "WITH RECURSIVE branch (id) AS (
                SELECT :end UNION ALL
                SELECT parent_id FROM branch JOIN chat_messages USING (id)
                WHERE parent_id IS NOT NULL) ",
            $statement
        )
    };
}

pub mod action;
mod call;
mod claude;
mod claude_launch;
mod gateway;
mod history;
mod hub;
mod item;
mod kept_files;
mod message;
pub mod model;
mod of_others;
mod replay;
mod run;
mod scribe;
mod search;
mod session;
mod setting;
#[cfg(test)]
mod tests;
mod tracker;
mod upload;

pub use call::{
    CallState, NewCall, Target, ToolCall, Tried, by_ref, close as close_calls, close_again,
    count as count_calls, find as find_call, finish as finish_call, finish_again,
    insert as add_call, mint as mint_call, note_of_others as note_call_of_others, note_undone,
    of_run as calls_of_run, settle_unknown, start as start_call, start_again, tried_above,
};
pub use claude::ClaudeReader;
pub use claude_launch::{
    arguments as claude_arguments, is_inherited, prompt as claude_prompt,
    server_file as claude_server_file,
};
pub use gateway::{
    Access, GATEWAY_FOLDER, Gateway, Standing, forget_sign_in, has_sign_in, is_signed_in,
};
pub use history::transcript;
pub use hub::{Hub, Line, Pokes, Use};
pub use item::{Item, STREAM_FILE};
pub use kept_files::Home;
pub use message::{
    Message, NewMessage, Role, State, below, branch, find as find_message, has_images,
    insert as add_message, is_above, of_run, siblings, tip,
};
pub use of_others::{note as note_file_of_others, of as files_of_others};
pub use replay::{Sum, Tail, sum};
pub use run::{
    End, Ended, NewRun, Policy, RECORD_BELL, Record, Run, Typed, by_job, find as find_run,
    has_piped, insert as add_run, latest_of, note_change, note_digests, note_fallback, note_record,
    open_of, runs_of, settle as settle_run, typed, unrecorded,
};
pub use scribe::{Answer, Scribe};
pub use search::{
    FoundChat, forget_words, has_all_words, has_gone_words, merge_words, message_of, search,
    take_in_chats,
};
pub use session::{
    Change, NO_SESSION, Session, Spent, begin, change, find as find_session, forget,
    list as list_sessions, note_answer, note_call, note_question, remove,
};
pub use setting::{Setting, forget_ref, keep_ref, keep_setting, ref_of, setting_of};
pub use tracker::{Tracked, Tracker};
pub use upload::{
    ATTACHMENTS_MAX, Attachment, IMAGE_BYTES_MAX, IMAGES_MAX, insert as add_upload, kind_of,
    old as old_uploads, path_for as upload_path, take as take_upload, type_of,
};

/// Returns the statements of this module, for the schema test.
pub fn statements() -> Vec<(&'static str, &'static str)> {
    [
        session::STATEMENTS,
        message::STATEMENTS,
        run::STATEMENTS,
        call::STATEMENTS,
        of_others::STATEMENTS,
        setting::STATEMENTS,
        search::STATEMENTS,
        upload::STATEMENTS,
    ]
    .concat()
}
