//! From a request for a job to a checked new job, and from the job to its prompt.

pub mod inputs;
pub(in crate::flows) mod multi_topic;
pub(in crate::flows) mod new_job;
pub(in crate::flows) mod options;
pub mod prepare;
pub mod render;
pub(in crate::flows) mod rework;
pub(in crate::flows) mod verify;
pub mod without_topic;
