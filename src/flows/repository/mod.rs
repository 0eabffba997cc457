//! Changes of the repository by others: watching, caching, following renames.

pub mod freshness;
pub(in crate::flows) mod lanes;
pub(in crate::flows) mod look_cache;
pub mod presence;
pub mod read_version;
pub mod renames;
pub mod watch;
