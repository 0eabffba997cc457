//! Topics, their messages and their placements.

pub mod annotation;
pub mod job_topics;
pub mod message;
pub mod placement;
pub mod suggestion;
pub mod topic;
