//! The integration tests, in one binary because it links once.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod agents;
mod approvals;
mod architecture;
mod assistant;
mod channels;
mod cli;
mod cookbook;
mod engines;
mod failures;
mod git;
mod guarantees;
mod http;
mod lua_test;
mod mail;
mod pages;
mod perspectives;
mod places;
mod process;
mod review;
mod script;
mod search;
mod store;
mod stress;
mod support;
