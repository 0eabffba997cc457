//! `wiki-browser`: people and coding agents work on documents together.

pub mod base;
pub mod http;
pub mod people;
pub mod store;
