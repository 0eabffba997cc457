//! Proposals: their list, the review of one, and its editing.

pub(in crate::http::pages) mod edit;
pub(in crate::http::pages) mod list;
pub(in crate::http::pages) mod review;
