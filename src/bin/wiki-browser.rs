//! The server and the operator's commands.

use std::io::Write as _;
use std::process::ExitCode;

use wiki_browser::app::{self, LogFormat, ServeOptions};
use wiki_browser::cli::{self, Seams, ServeArgs};

fn main() -> ExitCode {
    cli::main(
        std::env::args_os(),
        Seams {
            serve,
            doctor: app::doctor,
            offline: app::offline,
            render: |asked| {
                app::render(asked.loaded, asked.kind, asked.inputs, asked.source_of_topic)
            },
        },
    )
}

fn serve(args: ServeArgs) -> ExitCode {
    let options = ServeOptions {
        log: if args.is_json_log { LogFormat::Json } else { LogFormat::Text },
        daily_backups: args.daily_backups,
        prints_link: args.prints_link,
        watches: args.watches,
    };
    app::serve(&args.script, options, |text| {
        // Nobody to tell if standard output is closed; the site serves all the same.
        let _ = writeln!(std::io::stdout(), "{text}");
    })
}
