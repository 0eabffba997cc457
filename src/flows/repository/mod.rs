//! The repository as others change it: watched, remembered, followed through renames.

pub(in crate::flows) mod look_cache;
pub mod presence;
pub mod renames;
pub mod watch;
