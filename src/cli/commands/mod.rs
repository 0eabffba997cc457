//! The operator's commands: from arguments to requests, and from responses to text.

pub(super) mod agent;
pub(super) mod approval;
pub(super) mod ask;
mod assistant;
pub(super) mod backup;
pub(super) mod channel;
pub(super) mod chat;
pub(super) mod claude;
pub(super) mod completions;
mod doctor;
pub(super) mod gateway;
pub(super) mod instances;
pub(super) mod job;
pub(super) mod mail;
pub(super) mod person;
pub(super) mod perspective;
pub(super) mod proposal;
pub(super) mod script;
pub(super) mod search;
mod site;
pub(super) mod source;
pub(super) mod token;
pub(super) mod topic;
pub(super) mod usage;
pub(super) mod workspace;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Display;
use std::process::ExitCode;

use camino::{Utf8Path, Utf8PathBuf};
use clap::{CommandFactory as _, Parser as _};
use serde_json::Value;

use crate::base::{Clock, Error, Finding, Millis, Result};
use crate::cli::answer_shape::Shape;
use crate::cli::args::{Cli, Command, Common, LogFormatWord, ServeArgs, ServeFlags};
use crate::cli::terminal::screen::{self, Form, Screen, Style};
use crate::cli::terminal::short_id::{self, Noun};
use crate::cli::terminal::usage::usage as refuse_usage;
use crate::cli::terminal::{escape, when};
use crate::cli::{init, lua_test, new};
use crate::client::{Client, NO_SERVER, Search};
use crate::flows::doctor::Patient;
use crate::flows::site::offline::OfflineRequest;
use crate::script::{Loaded, load as load_script};

/// What the command line delegates.
#[derive(Clone, Copy)]
pub struct Seams {
    /// Serves a site until it is told to stop.
    pub serve: fn(ServeArgs) -> ExitCode,
    /// Runs the doctor's checks for a site, or for a folder without one.
    pub doctor: fn(&Patient<'_>) -> Result<Vec<Finding>>,
    /// Works on a site without a server.
    pub offline: fn(&Loaded, OfflineRequest) -> Result<Value>,
    /// Renders the prompt of a kind, without starting anything.
    pub render: fn(RenderRequest<'_>) -> Result<String>,
}

/// The arguments of `render`.
#[derive(Clone, Copy, Debug)]
pub struct RenderRequest<'a> {
    /// The script.
    pub loaded: &'a Loaded,
    /// Name of the kind, as typed.
    pub kind: &'a str,
    /// The inputs, as typed.
    pub inputs: &'a BTreeMap<String, String>,
    /// The Source of the Topic among the inputs, if a server returned it.
    pub source_of_topic: Option<&'a str>,
}

/// What every command uses.
pub(super) struct Desk {
    /// The output.
    pub(super) screen: Screen,
    /// The delegates.
    pub(super) seams: Seams,
    common: Common,
    clock: Clock,
}

/// Runs `wiki-browser` with these arguments, the program's name first.
pub fn main(args: impl IntoIterator<Item = OsString>, seams: Seams) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let Cli { common, command } = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(cause) => return refuse_usage(cause, &Cli::command(), &args),
    };
    let form = match (&common.field, common.json) {
        (Some(path), _) => Form::Field(path.clone()),
        (None, true) => Form::Json,
        (None, false) => Form::Words,
    };
    let json = common.json;
    let screen = Screen::new(form, common.color).shaped(Shape::of(&command));
    let desk = screen.map(|screen| Desk { screen, seams, common, clock: Clock::system() });
    let done = match (desk, command) {
        (Err(error), _) => Err(error),
        (Ok(desk), Command::Serve(flags)) => match desk.serve_args(&flags) {
            Ok(args) => return (seams.serve)(args),
            Err(error) => Err(error),
        },
        (Ok(desk), other) => run(&desk, other),
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
        Command::Serve(_) => Err(Error::internal("serve is not a request")),
        Command::Init(args) => init::run(&desk.screen, &args).map(|()| 0),
        Command::New(command) => new::run(desk, &command).map(|()| 0),
        Command::Check(args) => script::check(desk, &args),
        Command::Test(args) => lua_test::run(desk, &args),
        Command::Types(args) => script::types::types(desk, &args),
        Command::Doctor => doctor::doctor(desk),
        Command::Render(args) => script::render(desk, &args),
        Command::Job(command) => job::run(desk, command),
        Command::Send(args) => mail::send(desk, &args),
        Command::Mail(command) => mail::run(desk, command),
        Command::Channel(command) => channel::run(desk, command).map(|()| 0),
        Command::Msg(command) => channel::msg::run(desk, command).map(|()| 0),
        Command::Instances(args) => instances::run(desk, &args).map(|()| 0),
        Command::Inbox(command) => mail::inbox(desk, command).map(|()| 0),
        Command::Ask(args) => ask::ask(desk, &args),
        Command::Chat(command) => chat::chat(desk, command),
        Command::Assistant => assistant::run(desk),
        Command::Gateway(command) => gateway::run(desk, &command).map(|()| 0),
        Command::Claude(command) => claude::run(desk, &command).map(|()| 0),
        Command::Topic(command) => topic::run(desk, command).map(|()| 0),
        Command::Proposal(command) => proposal::run(desk, command),
        Command::Approval(command) => approval::run(desk, command).map(|()| 0),
        Command::Agent(command) => agent::run(desk, command).map(|()| 0),
        Command::Workspace(command) => workspace::run(desk, command),
        Command::Decisions => approval::decisions(desk).map(|()| 0),
        Command::Source(command) => source::run(desk, command).map(|()| 0),
        Command::Persona(command) => perspective::persona(desk, command).map(|()| 0),
        Command::Perspective(command) => perspective::run(desk, command),
        Command::Search(args) => search::run(desk, &args).map(|()| 0),
        Command::Usage(args) => usage::run(desk, &args).map(|()| 0),
        Command::Engine(command) => usage::engine(desk, command).map(|()| 0),
        Command::Reload(args) => script::reload::run(desk, &args),
        Command::Schedule(command) => script::reload::schedule(desk, &command).map(|()| 0),
        Command::Person(command) => person::run(desk, command).map(|()| 0),
        Command::Token(command) => token::run(desk, command).map(|()| 0),
        Command::Backup(args) => backup::backup(desk, &args).map(|()| 0),
        Command::Restore(args) => backup::restore(desk, &args).map(|()| 0),
        Command::Recover(args) => backup::recover(desk, &args),
        Command::Cleanup(args) => backup::cleanup(desk, &args).map(|()| 0),
        Command::Completions(args) => completions::run(desk, &args).map(|()| 0),
        Command::Openapi => desk.screen.raw(&crate::api::description::openapi()?).map(|()| 0),
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

    fn serve_args(&self, flags: &ServeFlags) -> Result<ServeArgs> {
        if self.common.data.is_some() || flags.data.is_some() {
            return Err(Error::invalid("serve takes no --data")
                .hint("set the data folder in the script: wb.site { data = … }"));
        }
        Ok(ServeArgs {
            script: self.script()?,
            is_json_log: flags.log_format == LogFormatWord::Json,
            daily_backups: flags.daily_backups,
            prints_link: flags.print_link || self.screen.is_terminal(),
            watches: flags.watch,
        })
    }

    /// Returns the data folder given by `--data`.
    pub(super) fn data(&self) -> Option<&Utf8Path> {
        self.common.data.as_deref()
    }

    /// Returns the path of this site's script.
    pub(super) fn script(&self) -> Result<Utf8PathBuf> {
        self.search().script()
    }

    /// Returns the client of the server that uses a data folder, with the operator's token.
    pub(super) fn client_of(&self, data: &Utf8Path) -> Result<Client> {
        let data = self.common.data.clone().unwrap_or_else(|| data.to_owned());
        let search = Search { data: Some(data), ..Search::default() };
        Client::of_operator(&search.site()?)
    }

    /// Returns the client of this site's server, with the operator's token.
    pub(super) fn client(&self) -> Result<Client> {
        let near = self.search().site().and_then(|site| Client::of_operator(&site));
        // Most sites have `data` next to the script; only for the others the script must be read.
        let (near, missing) = match near {
            Ok(client) => match client.probe() {
                Err(cause) => (Some(client), cause),
                Ok(()) => return Ok(client),
            },
            Err(cause) => (None, cause),
        };
        if missing.code_str() != NO_SERVER || self.common.data.is_some() {
            return near.ok_or(missing);
        }
        match load_script(&self.script()?) {
            Ok(loaded) => self.client_of(&loaded.config.site.data),
            Err(report) => {
                let hint = format!(
                    "start it with: wiki-browser serve; the script has {} and cannot name the \
                     data folder: if it is not `data`, give --data DIR",
                    report.summary()
                );
                // What is wrong with the arguments is said before a request finds no server.
                near.map(|client| client.hinting(hint.clone())).ok_or_else(|| missing.hint(hint))
            }
        }
    }

    /// Returns the current time.
    pub(super) fn now(&self) -> Millis {
        self.clock.now()
    }

    /// Returns how long ago a time in a response was.
    pub(super) fn ago(&self, value: &Value) -> String {
        value.as_str().map_or_else(String::new, |text| when::ago(self.now(), text))
    }

    /// Returns how long ago a time was; `None` without a time.
    pub(super) fn since(&self, at: Option<Millis>) -> String {
        at.map_or_else(String::new, |at| when::since(self.now(), at))
    }

    /// Returns a full id from an abbreviated one.
    pub(super) fn id(&self, client: &Client, noun: Noun, given: &str) -> Result<String> {
        short_id::resolve(client, noun, given)
    }

    /// Prints `name  value` if there is a value.
    pub(super) fn detail(&self, name: &str, value: &str) -> Result<()> {
        if value.is_empty() {
            return Ok(());
        }
        let name = self.screen.paint(Style::Dim, &format!("{name:<11}"));
        self.screen.put(&format!("{name} {value}"))
    }

    /// Prints how to get the next page of a list.
    pub(super) fn more(&self, next: Option<&str>) {
        if let Some(next) = next {
            self.screen.note(&format!("more: --after {}", escape::line(next)));
        }
    }
}

/// Returns the text of a field, or an empty one.
pub(super) fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

/// Returns the text of a field on one escaped line.
pub(super) fn line(value: &Value, name: &str) -> String {
    escape::line(text(value, name))
}

/// Returns an optional text on one escaped line.
pub(super) fn plain(value: Option<&impl Display>) -> String {
    value.map_or_else(String::new, |it| escape::line(&it.to_string()))
}

/// The page of a list.
#[derive(clap::Args, Debug)]
pub(super) struct Page {
    /// Most rows to print
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=200))]
    limit: u16,
    /// Begin after this place: the page before names it in its last line
    #[arg(long, value_name = "PLACE")]
    after: Option<String>,
}

impl Page {
    /// Returns `limit` as text.
    pub(super) fn limit(&self) -> String {
        self.limit.to_string()
    }

    /// Returns the cursor.
    pub(super) fn after(&self) -> Option<&str> {
        self.after.as_deref()
    }
}
