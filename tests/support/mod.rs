//! The real programs on a site of their own: a repository, a script, shell scripts as agents.
//!
//! A test declares its agents, serves, speaks over the socket, and waits by condition. Whatever a
//! test leaves running ends by itself: a server is killed by its id when it is dropped, and its
//! guards end their jobs.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic like tests")]

mod described;
mod disk;
mod fake_prompt;
pub(crate) mod fake_terminal;
mod look;
mod model;
mod server;
mod site;
mod wire;
pub(crate) mod zoo;

pub(crate) use disk::{Cut, ForgetfulDisk, SmallDisk, shim};
pub(crate) use look::{
    Patience, arguments_with, beats, marked, processes_of, until, wait_for, within,
};
pub(crate) use model::{KEY, Model};
pub(crate) use server::{Server, shell};
pub(crate) use site::{Bench, Topic, cli, git, try_git};
pub(crate) use wire::{Answer, Call, ends_a_job, raw};
