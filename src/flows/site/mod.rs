//! The site as a whole: start, backups, configuration, metrics and retention.

pub mod backup;
pub mod config;
pub mod housekeeping;
pub mod job_folders;
pub mod metrics;
pub mod offline;
pub mod recover;
pub mod restore;
pub mod servable;
pub mod server_file;
pub mod start;
mod undecided;
pub(in crate::flows) mod unknown_commits;
