//! Tests of the whole queue, with a clock set by the tests.

pub(in crate::jobs) mod model;
mod spending;
