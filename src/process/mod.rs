//! Processes: the guard, spawning, ending, identity, output files, and confined file access.
//!
//! **Invariant:** no domain concept is known here: a job is an opaque id.
//! **Invariant:** no other module uses `nix`, and no other module starts a process.
//! **Invariant:** only the guard waits for "any child", and it has no other children.

mod adopt;
mod cgroup;
mod commands;
mod descriptors;
mod folder_stamp;
mod guard;
mod guard_lookout;
mod identity;
mod job_folder;
mod launch;
mod lifeline;
mod lock;
mod machine;
mod name_watch;
mod notices;
mod output;
mod own_folder;
mod probe;
mod relaunch;
mod remove;
mod replace;
mod root;
mod run;
mod running_guard;
mod scratch;
mod secret_forms;
mod sight;
mod spawn;
mod sys;
mod terminal;
mod tree;
mod usage;

pub use adopt::{Adopted, GUARD_SILENT, adopt, at_door};
pub use cgroup::Cgroups;
pub use descriptors::{is_writable, raise_descriptors};
pub use folder_stamp::Stamp;
pub use guard::guard_main;
pub use identity::{
    ProcessIdentity, Signal, boot_id, carries_mark, descends_from, live_in, start_time,
};
pub use job_folder::JobFolder;
pub use launch::{
    Clocks, ExitCause, ExitRecord, GUARD_SOCKET, GuardEvent, HOOKS_PIPE, Launch, LaunchStdin, MARK,
    OnServerLoss, OutputCaps, PROMPT_FILE, Stream, StreamRecord, is_usurped, launched,
    read_exit_record, read_small, sync_path,
};
pub use lifeline::GuardStopper;
pub use lock::FileLock;
pub use machine::{Room, disk, machine, may_write, room};
pub use name_watch::NameWatch;
pub use notices::{Noticed, Notices};
pub use output::{OutputChunk, last_printed, output_tail, put_output, read_output};
pub use own_folder::own_folder;
pub use probe::{is_occupied, is_root, owner_and_mode, probe, probe_folder, probe_guard};
pub use relaunch::{Reached, reached, undo_launch};
pub use remove::{Removal, Size, measure, remove_some};
pub use replace::{HARD_LINK, Replacement, SOURCE_DIRTY, Spare, private_file, private_folder};
pub use root::{
    CLOSED, Entry, EntryKind, FILE_GONE, FileFacts, NOT_A_FILE, PATH_IS_LINK, Root, SOURCE_GONE,
    Standing,
};
pub use run::{COMMAND_NOT_STARTED, COMMAND_TIMEOUT, Output, Run, become_program, run, which};
pub use running_guard::{Guard, GuardEnd, end_below};
pub use scratch::Scratch;
pub use secret_forms::{Needles, secret_forms};
pub use sight::{Front, Sight, environment_names, look_below, look_in_front};
pub use spawn::{GuardSpec, spawn_guard};
pub use terminal::{
    InPane, Pane, PaneState, Pasted, Screen, Terminals, brackets_main, bytes_from, has_other_words,
    is_ours, last_bytes, plain, presses_keys, sanitized, tell_hooks, token_names, with_token,
};
pub use tree::{Children, become_subreaper, end_marked, reap_orphans, sweep_orphans};
pub use usage::{OwnUsage, live_long, own_usage};
