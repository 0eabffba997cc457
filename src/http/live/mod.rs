//! What is sent as it happens.

pub(in crate::http) mod events;
