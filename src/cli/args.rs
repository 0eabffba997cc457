//! The arguments of `wiki-browser`.

use camino::Utf8PathBuf;
use clap::{Args, Parser, Subcommand};

use crate::cli::commands::agent::AgentCommand;
use crate::cli::commands::approval::ApprovalCommand;
use crate::cli::commands::ask::{AskArgs, ChatCommand};
use crate::cli::commands::backup::{BackupArgs, CleanupArgs, RecoverArgs, RestoreArgs};
use crate::cli::commands::channel::{ChannelCommand, MsgCommand};
use crate::cli::commands::completions::CompletionsArgs;
use crate::cli::commands::gateway::GatewayCommand;
use crate::cli::commands::job::JobCommand;
use crate::cli::commands::mail::{InboxCommand, MailCommand, SendArgs};
use crate::cli::commands::person::PersonCommand;
use crate::cli::commands::perspective::{PersonaCommand, PerspectiveCommand};
use crate::cli::commands::proposal::ProposalCommand;
use crate::cli::commands::script::reload::{ReloadArgs, ScheduleCommand};
use crate::cli::commands::script::types::TypesArgs;
use crate::cli::commands::script::{CheckArgs, RenderArgs};
use crate::cli::commands::search::SearchArgs;
use crate::cli::commands::source::SourceCommand;
use crate::cli::commands::token::TokenCommand;
use crate::cli::commands::topic::TopicCommand;
use crate::cli::commands::usage::{EngineCommand, UsageArgs};
use crate::cli::commands::workspace::WorkspaceCommand;
use crate::cli::init::InitArgs;
use crate::cli::lua_test::TestArgs;
use crate::cli::new::NewCommand;
use crate::cli::terminal::screen::Color;

/// Heading of what every command takes.
const HEADING: &str = "Site and output";
/// What stands at the end of `wiki-browser --help`.
const AFTER_HELP: &str = "\
A first site:
  wiki-browser init                     in a git repository: writes wiki-browser.lua and skills/
  wiki-browser new kind answer          adds a sort of job: a block of the script, and a skill
  wiki-browser check                    reads the script and says what is wrong with it
  wiki-browser test                     runs its tests, with a fake agent and a fake clock
  wiki-browser serve                    serves the site and prints a link to log in with

Every day:
  wiki-browser topic create --source guide.md --quote 'old words' --body 'Say it simpler'
  wiki-browser job create incorporate topic_id=7f3a --wait
  wiki-browser proposal approve 81bc

Ids may be shortened to four or more characters of their beginning or end; tables show the end.

Exit codes: 0 done, 1 failed, 2 wrong input, 3 not allowed, 4 no such thing, 5 conflict with the
present state, 6 too busy or no server.";

/// A place where people and coding agents work on documents together.
#[derive(Debug, Parser)]
#[command(name = "wiki-browser", version, after_help = AFTER_HELP)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// What every command takes.
#[derive(Args, Debug)]
pub(super) struct Common {
    /// Script of the site; without it, the nearest wiki-browser.lua upwards
    #[arg(long, global = true, help_heading = HEADING, value_name = "FILE")]
    pub(super) config: Option<Utf8PathBuf>,
    /// Data folder of the site, if it is not `data` beside the script
    #[arg(long, global = true, help_heading = HEADING, value_name = "DIR")]
    pub(super) data: Option<Utf8PathBuf>,
    /// Print the server's JSON, and errors as JSON
    #[arg(long, global = true, help_heading = HEADING)]
    pub(super) json: bool,
    /// Print one value of the JSON, such as `proposal.id` or `items.0.path`
    #[arg(long, global = true, help_heading = HEADING, value_name = "PATH")]
    #[arg(conflicts_with = "json")]
    pub(super) field: Option<String>,
    /// Use colours: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(long, global = true, help_heading = HEADING, value_enum, value_name = "WHEN")]
    #[arg(default_value_t, hide_possible_values = true, hide_default_value = true)]
    pub(super) color: Color,
}

/// What the operator can do.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Serve the site until it is told to stop
    #[command(after_help = "\
Prints a one-time link to log in with a browser, if standard output is a terminal (or with
--print-link), and serves until Ctrl-C or a TERM signal: agents that run then get the grace of
wb.limits to end. The script says where it listens; without it, that is a port of this machine only.
WB_LOG=debug logs more. docs/operations.md says how to run it as a service.")]
    Serve(ServeFlags),
    /// Make a site in a git repository: the script, the skills and an example persona
    Init(InitArgs),
    /// Add a kind with its skill, or a persona
    #[command(subcommand)]
    New(NewCommand),
    /// Read the script and say what is wrong with it
    Check(CheckArgs),
    /// Run the tests of the script, with a fake agent and a fake clock
    Test(TestArgs),
    /// Write what an editor needs to complete and check the script
    Types(TypesArgs),
    /// Look at this machine: which guarantees hold here, with advice
    #[command(after_help = "\
Exits 0 if a site can work here, 1 if something must be mended. Warnings alone are fine. It needs no
server, and outside of a site it looks at the machine only.

Examples:
  wiki-browser doctor
  wiki-browser doctor --json")]
    Doctor,
    /// Print the exact prompt that a job would be given, with nothing started
    Render(RenderArgs),
    /// Work with jobs: the runs of agents
    #[command(subcommand)]
    Job(JobCommand),
    /// Write to an inbox, an instance or a person
    Send(SendArgs),
    /// Read messages, and wait for replies
    #[command(subcommand)]
    Mail(MailCommand),
    /// Work with agents that live on: start, stop, see what they do
    #[command(subcommand)]
    Agent(AgentCommand),
    /// Look at inboxes: where messages start instances
    #[command(subcommand)]
    Inbox(InboxCommand),
    /// Ask your assistant; the answer is printed as it is written
    Ask(AskArgs),
    /// Work with your conversations with the assistant
    #[command(subcommand)]
    Chat(ChatCommand),
    /// Use your own subscription for the assistant: install, sign in, look
    #[command(subcommand)]
    Gateway(GatewayCommand),
    /// Work with channels: conversations of people and agents
    #[command(subcommand)]
    Channel(ChannelCommand),
    /// Say something in a channel, and read what was said
    #[command(subcommand)]
    Msg(MsgCommand),
    /// Work with topics: the threads about words of a source
    #[command(subcommand)]
    Topic(TopicCommand),
    /// Work with proposals: new texts that wait for a decision
    #[command(subcommand)]
    Proposal(ProposalCommand),
    /// Answer what agents ask: approve or reject
    #[command(subcommand)]
    Approval(ApprovalCommand),
    /// List what waits for a decision: proposals and approvals, oldest first
    Decisions,
    /// Look at workspaces: the folders of their own in which agents work
    #[command(subcommand)]
    Workspace(WorkspaceCommand),
    /// Look at sources: the documents of the site
    #[command(subcommand)]
    Source(SourceCommand),
    /// Look at personas: the files in agents/ that say who a view is for
    #[command(subcommand)]
    Persona(PersonaCommand),
    /// Look at sources as personas see them, and have such views made
    #[command(subcommand)]
    Perspective(PerspectiveCommand),
    /// Find sources, topics and messages by their words
    Search(SearchArgs),
    /// Print what jobs have spent, and how much of each daily cap is used
    Usage(UsageArgs),
    /// Look at engines: which are held because their provider takes no more
    #[command(subcommand)]
    Engine(EngineCommand),
    /// Have the server read its script again, without a restart
    Reload(ReloadArgs),
    /// Look at what the script does by itself, and when
    #[command(subcommand)]
    Schedule(ScheduleCommand),
    /// Say who may use the site, and as what
    #[command(subcommand)]
    Person(PersonCommand),
    /// Give scripts and other programs access in a person's name
    #[command(subcommand)]
    Token(TokenCommand),
    /// Copy the database, while the server runs or without it
    Backup(BackupArgs),
    /// Put a backup in place of the database
    Restore(RestoreArgs),
    /// Look whether the database is whole, and save what can be read of a damaged one
    Recover(RecoverArgs),
    /// Remove old folders of jobs, and rows that are kept for a while only
    Cleanup(CleanupArgs),
    /// Print the description of the HTTP interface, as OpenAPI 3.1; no server is needed
    Openapi,
    /// Print what a shell needs to complete commands and options
    Completions(CompletionsArgs),
    /// Print a new one-time link to log in with a browser
    Login,
    /// Print whether the server is well, and what waits; exits 6 if it is not ready
    Status,
    /// Print what happens on the site, until interrupted
    #[command(after_help = "\
Examples:
  wiki-browser events
  wiki-browser events --json --after EPOCH-120")]
    Events {
        /// Begin after this event
        #[arg(long, value_name = "ID")]
        after: Option<String>,
    },
}

/// How the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogFormatWord {
    /// One line an entry, for people
    #[default]
    Text,
    /// One JSON object a line, for programs
    Json,
}

/// Flags of `serve`.
#[derive(Args, Debug)]
pub(super) struct ServeFlags {
    /// Stands for the one of all commands, which the script of a server names: refused, not offered
    #[arg(long, hide = true, value_name = "DIR")]
    pub(super) data: Option<Utf8PathBuf>,
    /// How the log on standard error is written
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    pub(super) log_format: LogFormatWord,
    /// How many daily backups are kept in the data folder; 0 makes none
    #[arg(long, value_name = "N", default_value_t = crate::flows::site::backup::DAILY_KEPT)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(super) daily_backups: u32,
    /// Print the one-time link although standard output is no terminal, but a log or a file
    #[arg(long)]
    pub(super) print_link: bool,
    /// Reload the script whenever it is saved; for developing one, where no agent can write it
    #[arg(long)]
    pub(super) watch: bool,
}

/// What `serve` is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeArgs {
    /// The script of the site; it exists.
    pub script: Utf8PathBuf,
    /// Whether the log is JSON.
    pub is_json_log: bool,
    /// How many daily backups are kept; none are made if it is 0.
    pub daily_backups: u32,
    /// Whether the operator's one-time link is printed.
    pub prints_link: bool,
    /// Whether the script is reloaded whenever it is saved.
    pub watches: bool,
}
