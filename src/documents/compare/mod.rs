//! Differences of texts: sequences, lines, rendered documents, and merges.

pub mod diff;
pub mod merge;
pub mod redline;
pub(in crate::documents) mod tokens;
