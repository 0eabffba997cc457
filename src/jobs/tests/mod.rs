//! The queue as a whole, with a clock that the tests set.

pub(in crate::jobs) mod model;
mod spending;
