//! The operator's commands: from arguments to requests, and from answers to words.

mod follow;
pub(super) mod job;
pub(super) mod proposal;
mod site;
pub(super) mod source;
pub(super) mod topic;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use serde_json::Value;

use crate::base::{Clock, Error, Millis, Result};
use crate::cli::args::{Cli, Command, Common, ServeArgs};
use crate::cli::screen::{self, Form, Screen, Style};
use crate::cli::short_id::{self, Noun};
use crate::cli::{escape, init, usage, when};
use crate::client::{Client, Search};

/// What a command works with.
pub(super) struct Desk {
    /// Where it prints.
    pub(super) screen: Screen,
    common: Common,
    clock: Clock,
}

/// Runs `wiki-browser` with these arguments, the program's name first. `serve` is what the command
/// of that name does.
pub fn main(
    args: impl IntoIterator<Item = OsString>,
    serve: impl FnOnce(ServeArgs) -> ExitCode,
) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let Cli { common, command } = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(cause) => return usage(&cause, &args),
    };
    let form = match (&common.field, common.json) {
        (Some(path), _) => Form::Field(path.clone()),
        (None, true) => Form::Json,
        (None, false) => Form::Words,
    };
    let json = common.json;
    let screen = Screen::new(form, common.color);
    let desk = Desk { screen, common, clock: Clock::system() };
    let done = match command {
        Command::Serve => match desk.serve_args() {
            Ok(args) => return serve(args),
            Err(error) => Err(error),
        },
        other => run(&desk, other),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            screen::report(&error, json);
            let left = error.code_str() == screen::READER_LEFT;
            ExitCode::from(if left { 0 } else { error.kind().exit_code() })
        }
    }
}

fn run(desk: &Desk, command: Command) -> Result<u8> {
    match command {
        Command::Serve => Err(Error::internal("serve is not a request")),
        Command::Init(args) => init::run(&desk.screen, &args).map(|()| 0),
        Command::Job(command) => job::run(desk, command),
        Command::Topic(command) => topic::run(desk, command).map(|()| 0),
        Command::Proposal(command) => proposal::run(desk, command).map(|()| 0),
        Command::Source(command) => source::run(desk, command).map(|()| 0),
        Command::Login => site::login(desk).map(|()| 0),
        Command::Status => site::status(desk),
        Command::Events { after } => site::events(desk, after),
    }
}

impl Desk {
    fn search(&self) -> Search {
        Search {
            data: self.common.data.clone(),
            config: self.common.config.clone(),
            socket: None,
            folder: None,
        }
    }

    fn serve_args(&self) -> Result<ServeArgs> {
        if self.common.data.is_some() {
            return Err(Error::invalid("serve takes no --data")
                .hint("the script names the data folder: wb.site { data = … }"));
        }
        Ok(ServeArgs { script: self.search().script()? })
    }

    /// Returns the client of this site's server, with the operator's token.
    pub(super) fn client(&self) -> Result<Client> {
        let site = self.search().site()?;
        let data = site.data.ok_or_else(|| Error::internal("the site has no data folder"))?;
        Client::with_token_file(&site.socket, &data.join("operator.token"))
    }

    /// Returns the present time.
    pub(super) fn now(&self) -> Millis {
        self.clock.now()
    }

    /// Returns how long ago a time of an answer was.
    pub(super) fn ago(&self, value: &Value) -> String {
        value.as_str().map_or_else(String::new, |text| when::ago(self.now(), text))
    }

    /// Returns a whole id from what a person wrote.
    pub(super) fn id(&self, client: &Client, noun: Noun, given: &str) -> Result<String> {
        short_id::resolve(client, noun, given)
    }

    /// Prints `name  value` if there is a value.
    pub(super) fn detail(&self, name: &str, value: &str) -> Result<()> {
        if value.is_empty() {
            return Ok(());
        }
        let name = self.screen.paint(Style::Dim, &format!("{name:<10}"));
        self.screen.put(&format!("{name} {value}"))
    }

    /// Says that a list has another page.
    pub(super) fn more(&self, page: &Value) {
        if let Some(next) = page["next"].as_str() {
            self.screen.note(&format!("more: --after {}", escape::line(next)));
        }
    }
}

/// Returns the text of a field, or nothing.
pub(super) fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

/// Returns the text of a field on one harmless line.
pub(super) fn line(value: &Value, name: &str) -> String {
    escape::line(text(value, name))
}

/// Returns a number of a field as text, or nothing.
pub(super) fn number(value: &Value, name: &str) -> String {
    value[name].as_number().map(ToString::to_string).unwrap_or_default()
}

/// Where a page of a list begins and how long it is.
#[derive(clap::Args, Debug)]
pub(super) struct Page {
    /// Most rows to print
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=200))]
    limit: u16,
    /// Begin after this place, as the page before told
    #[arg(long, value_name = "PLACE")]
    after: Option<String>,
}

impl Page {
    /// Returns `limit` as text.
    pub(super) fn limit(&self) -> String {
        self.limit.to_string()
    }

    /// Returns where to begin.
    pub(super) fn after(&self) -> Option<&str> {
        self.after.as_deref()
    }
}
