//! Live updates: the event stream.

pub(in crate::http) mod events;
