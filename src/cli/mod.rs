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
mod when;

use std::ffi::OsString;
use std::process::ExitCode;

pub use args::ServeArgs;
pub use commands::{RenderRequest, Seams, main};

/// Prints what the parser says: help and version on standard output, a mistake on standard error,
/// as the JSON envelope if `--json` is among the arguments.
fn usage(cause: &clap::Error, args: &[OsString]) -> ExitCode {
    if cause.use_stderr() && args.iter().any(|it| it == "--json") {
        let text = cause.render().to_string();
        let first = text.lines().next().unwrap_or_default();
        let message = first.strip_prefix("error: ").unwrap_or(first);
        let error = crate::base::Error::invalid(message).code("usage").hint("see --help");
        screen::report(&error, true);
        return ExitCode::from(2);
    }
    // Nobody to tell if the output is closed.
    let _ = cause.print();
    ExitCode::from(if cause.use_stderr() { 2 } else { 0 })
}
