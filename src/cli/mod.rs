//! The command lines of both binaries; the only user of clap.

pub mod agent;
mod answer_shape;
mod args;
mod commands;
mod field;
mod init;
mod lua_test;
mod new;
mod terminal;

pub use args::ServeArgs;
pub use commands::{RenderRequest, Seams, main};
