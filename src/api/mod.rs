//! Requests and answers of the HTTP interface as types: one file a resource. Server, pages and
//! command line use the same ones, so that a renamed field is found by the compiler.
//!
//! **Invariant:** plain data; nothing here reads a table or decides anything.

pub mod agents;
pub mod approvals;
pub mod arrival;
pub mod backups;
pub mod changes;
pub mod channel_export;
pub mod channels;
pub mod chat;
pub mod chat_settings;
pub mod chat_stream;
pub mod config;
pub mod description;
pub mod error;
pub mod handoffs;
pub mod health;
pub mod instances;
pub mod jobs;
pub mod mail;
pub mod people;
pub mod perspectives;
pub mod promotion;
pub mod proposals;
pub mod sources;
pub mod topics;
pub mod usage;
pub mod voice;
pub mod workspaces;

pub use error::Refusal;

/// A response without data.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Done {}
