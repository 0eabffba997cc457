//! `wiki-browser`: people and coding agents work on documents together.

pub mod base;
pub mod cli;
pub mod client;
pub mod store;
