//! The server and the operator's commands.

use std::io::Write;
use std::process::ExitCode;

use wiki_browser::cli::{self, ServeArgs};

fn main() -> ExitCode {
    cli::main(std::env::args_os(), serve)
}

fn serve(args: ServeArgs) -> ExitCode {
    // Nobody to tell if standard error is closed.
    let _ = writeln!(std::io::stderr(), "error: this build cannot serve {}", args.script);
    ExitCode::FAILURE
}
