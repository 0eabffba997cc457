//! Processes: the guard, spawning, ending, identity, output files, and confined opening of files.
//!
//! **Invariant:** nothing here knows a noun of the product: a job is an opaque word.
//! **Invariant:** no other module uses `nix`, and no other module starts a process.
//! **Invariant:** nobody waits for "any child" but the guard, which has no other children.

mod guard;
mod identity;
mod launch;
mod lock;
mod output;
mod own;
mod probe;
mod remove;
mod root;
mod run;
mod spawn;
mod sys;
mod tree;

pub use guard::guard_main;
pub use identity::{ProcessIdentity, Signal, boot_id, carries_mark, descends_from, start_time};
pub use launch::{
    Clocks, ExitCause, ExitRecord, GuardEvent, Launch, LaunchStdin, MARK, OnServerLoss, OutputCaps,
    Stream, StreamRecord, append_regular, read_exit_record, read_small,
};
pub use lock::FileLock;
pub use output::{OutputChunk, output_tail, read_output};
pub use own::{OwnUsage, own_usage};
pub use probe::{free_bytes, is_root, owner_and_mode, probe};
pub use remove::{Removal, Size, measure, remove_some};
pub use root::{FileFacts, Root};
pub use run::{Output, Run, run, which};
pub use spawn::{Guard, GuardEnd, GuardSpec, GuardStopper, spawn_guard};
pub use tree::{Children, become_subreaper, end_marked, sweep_orphans};
