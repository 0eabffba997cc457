//! Queueing: acceptance, lanes, caps, holds, and the claim.

pub(in crate::jobs) mod asking;
pub(in crate::jobs) mod cap;
pub(in crate::jobs) mod claim;
pub(in crate::jobs) mod disk_space;
pub(in crate::jobs) mod engine_hold;
pub(in crate::jobs) mod enqueue;
pub(in crate::jobs) mod lane;
pub(in crate::jobs) mod parking;
pub(in crate::jobs) mod script_jobs;
pub(in crate::jobs) mod steering_hold;
pub(in crate::jobs) mod unfit;
pub(in crate::jobs) mod waiting;
