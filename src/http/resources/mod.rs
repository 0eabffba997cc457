//! Answers as JSON and files: one file a resource.

pub(in crate::http) mod agents;
pub(in crate::http) mod approvals;
pub(in crate::http) mod assistant;
mod assistant_stream;
pub(in crate::http) mod channels;
pub(in crate::http) mod claude_api;
pub(in crate::http) mod config;
pub(in crate::http) mod description;
pub(in crate::http) mod health;
pub(in crate::http) mod images;
pub(in crate::http) mod jobs;
pub(in crate::http) mod login;
pub(in crate::http) mod mail;
pub(in crate::http) mod me;
pub(in crate::http) mod metrics;
pub(in crate::http) mod operations;
pub(in crate::http) mod people;
pub(in crate::http) mod perspectives;
pub(in crate::http) mod proposals;
pub(in crate::http) mod rendered;
pub(in crate::http) mod script;
pub(in crate::http) mod search;
pub(in crate::http) mod sources;
pub(in crate::http) mod topics;
pub(in crate::http) mod usage;
pub(in crate::http) mod webhooks;
pub(in crate::http) mod workspaces;
