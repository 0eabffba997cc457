//! The agent's client and the guard of a job.

use std::process::ExitCode;

fn main() -> ExitCode {
    wiki_browser::cli::agent::main(std::env::args_os())
}
