//! The agent's client, the guard of a job, and what watches its terminal.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1).peekable();
    if args.next_if(|it| it == "__guard").is_some() {
        // Before anything else: the guard must start within a millisecond or two.
        let args = args.map(|it| it.to_string_lossy().into_owned());
        return wiki_browser::process::guard_main(args);
    }
    if args.next_if(|it| it == "__brackets").is_some() {
        let args = args.map(|it| it.to_string_lossy().into_owned());
        return wiki_browser::process::brackets_main(args);
    }
    wiki_browser::cli::agent::main(std::env::args_os())
}
