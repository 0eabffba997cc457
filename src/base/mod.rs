//! Values shared by the whole program: no files, no sockets, no tables, no async.
//!
//! **Invariant:** nothing here performs I/O, with two exceptions: the clock and the source of ids.
//! Both are handles that tests replace.

mod actor;
mod address;
mod base_url;
mod clock;
mod did_you_mean;
mod display;
mod error;
mod event;
pub mod fault;
mod finding;
mod from_json;
mod front_matter;
pub mod histogram;
mod id;
pub mod image_size;
mod imitation;
mod invisible;
pub mod limit;
mod loose_json;
mod media;
pub mod number;
mod page;
mod secret_name;
mod skeleton;
mod source_path;
pub mod sse;
mod steering_file;
mod tail;
mod word;

pub use actor::Actor;
pub use address::{Address, is_person_name, is_segment};
pub use base_url::BaseUrl;
pub use clock::{Clock, Millis};
pub use did_you_mean::{expected, nearest, suggestion};
pub use error::{
    Context, DATABASE_CORRUPT, DATABASE_LOCKED, DISK_ERROR, DISK_FULL, Error, ErrorKind,
    INDEX_DAMAGED, NO_ROOM, READ_ONLY, Result,
};
pub use event::{Event, EventKind, Scope};
pub use finding::{Finding, Level};
pub use from_json::{from_json, has_zero};
pub use front_matter::{FrontMatter, split_front_matter};
pub use id::{
    ApprovalId, AttemptId, BlobId, BlockId, CallId, ChannelId, ChatId, ChatMessageId, HandoffId,
    Ids, JobId, MailId, MessageId, PersonId, ProposalId, TokenId, TopicId, TurnId, digest_hex,
    random_token,
};
pub use imitation::{Frames, is_imitation, is_line_end, is_one_line, mark_lines, unmark_lines};
pub use invisible::{invisible_name, is_needed, without_invisible};
pub use loose_json::read_loose_json;
pub use media::{image_type, is_text, shown_file_name};
pub use page::Page;
pub use secret_name::is_secret_name;
pub use skeleton::drawn_name;
pub use source_path::SourcePath;
pub use steering_file::{AGENT_NAMES, is_agent_file, links_skills, may_steer};
pub use tail::{tail_of, truncate_chars};
pub(crate) use word::word_enum;
