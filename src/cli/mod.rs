//! The command lines of both binaries; the only user of clap.

pub mod agent;
mod answer;
mod args;
mod ask;
mod commands;
mod escape;
mod field;
mod init;
mod input;
mod lua_test;
mod new;
mod plan;
mod screen;
mod short_id;
mod table;
mod usage;
mod when;

pub use args::ServeArgs;
pub use commands::{RenderRequest, Seams, main};
