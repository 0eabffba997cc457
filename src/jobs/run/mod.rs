//! Running jobs: from the claim to the single outcome, across restarts.

pub(in crate::jobs) mod asks;
pub(in crate::jobs) mod decide;
pub(in crate::jobs) mod dispatch;
pub(in crate::jobs) mod engine;
pub(in crate::jobs) mod execution;
pub(in crate::jobs) mod generation;
pub(in crate::jobs) mod instance_reply;
pub(in crate::jobs) mod launch;
pub(in crate::jobs) mod lost;
pub(in crate::jobs) mod monitor;
pub(in crate::jobs) mod outcome;
mod put_back;
pub(in crate::jobs) mod recovery;
pub(in crate::jobs) mod rehearsal;
mod remarks;
pub(in crate::jobs) mod rest;
pub(in crate::jobs) mod settle;
pub(in crate::jobs) mod silent_guard;
pub(in crate::jobs) mod speech;
pub(in crate::jobs) mod takeover;
pub(in crate::jobs) mod task;
mod tasks;
pub(in crate::jobs) mod unkept_files;
pub(in crate::jobs) mod watch;
pub(in crate::jobs) mod workspace;
