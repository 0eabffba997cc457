//! `wiki-browser`: people and coding agents work on documents together.

pub mod base;
pub mod documents;
pub mod store;

pub mod process;
