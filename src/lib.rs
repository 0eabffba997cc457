//! `wiki-browser`: people and coding agents work on documents together.

pub mod api;
pub mod base;

pub mod client;
pub mod outbound;
pub mod process;
pub mod script;
pub mod store;

pub mod approvals;
pub mod channels;
pub mod chat;
pub mod documents;
pub mod jobs;
pub mod linkedin;
pub mod mail;
pub mod people;
pub mod turns;
pub mod vault;

pub mod flows;

pub mod cli;
pub mod http;

pub mod app;
