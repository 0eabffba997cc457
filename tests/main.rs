//! The one integration binary.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cli;
