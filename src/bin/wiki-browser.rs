//! The server and the operator's commands.

use std::io::Write as _;
use std::process::ExitCode;

use wiki_browser::{app, cli};

fn main() -> ExitCode {
    cli::main(std::env::args_os(), |args| {
        app::serve(&args.script, |text| {
            // Nobody to tell if standard output is closed; the site serves all the same.
            let _ = writeln!(std::io::stdout(), "{text}");
        })
    })
}
