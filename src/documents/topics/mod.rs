//! Topics and their messages, and where their words are.

pub mod annotation;
pub mod job_topics;
pub mod message;
pub mod placement;
pub mod suggestion;
pub mod topic;
