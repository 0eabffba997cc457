//! The arguments of `wiki-browser`.

use camino::Utf8PathBuf;
use clap::{Args, Parser, Subcommand};

use crate::cli::commands::agent::AgentCommand;
use crate::cli::commands::approval::ApprovalCommand;
use crate::cli::commands::ask::AskArgs;
use crate::cli::commands::backup::{BackupArgs, CleanupArgs, RecoverArgs, RestoreArgs};
use crate::cli::commands::channel::ChannelCommand;
use crate::cli::commands::channel::msg::MsgCommand;
use crate::cli::commands::chat::ChatCommand;
use crate::cli::commands::claude::ClaudeCommand;
use crate::cli::commands::completions::CompletionsArgs;
use crate::cli::commands::gateway::GatewayCommand;
use crate::cli::commands::instances::InstancesArgs;
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

/// Heading of the common options.
const HEADING: &str = "Site and output";
/// The end of `wiki-browser --help`.
const AFTER_HELP: &str = "\
A first site:
  wiki-browser init                     in a git repository: writes wiki-browser.lua and skills/
  wiki-browser new kind answer          adds a kind of job: a block in the script, and a skill
  wiki-browser check                    checks the script
  wiki-browser test                     runs its tests, with a fake agent and a fake clock
  wiki-browser serve                    starts the server and prints a login link

Every day:
  wiki-browser topic create --source guide.md --quote 'old words' --body 'Say it simpler'
  wiki-browser job create incorporate topic_id=7f3a --wait
  wiki-browser proposal approve 81bc

IDs can be abbreviated to the first or last four or more characters; tables show the last.

Exit codes: 0 success, 1 failed, 2 invalid input, 3 not allowed, 4 not found, 5 conflict with the
current state, 6 busy or no server.";

/// A self-hosted site where people and coding agents work on documents together.
#[derive(Debug, Parser)]
#[command(name = "wiki-browser", version, after_help = AFTER_HELP)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// The common options.
#[derive(Args, Debug)]
pub(super) struct Common {
    /// Script of the site [default: the nearest wiki-browser.lua in this folder or above]
    #[arg(long, global = true, help_heading = HEADING, value_name = "FILE")]
    pub(super) config: Option<Utf8PathBuf>,
    /// Data folder of the site [default: the one that the script names, `data` next to it]
    #[arg(long, global = true, help_heading = HEADING, value_name = "DIR")]
    pub(super) data: Option<Utf8PathBuf>,
    /// Print the server's JSON, and errors as JSON
    #[arg(long, global = true, help_heading = HEADING)]
    pub(super) json: bool,
    /// Print one value of the JSON, such as `proposal.id` or `items.0.path`
    #[arg(long, global = true, help_heading = HEADING, value_name = "PATH")]
    #[arg(conflicts_with = "json")]
    pub(super) field: Option<String>,
    /// Use colors: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(long, global = true, help_heading = HEADING, value_enum, value_name = "WHEN")]
    #[arg(default_value_t, hide_possible_values = true, hide_default_value = true)]
    pub(super) color: Color,
}

/// The operator's commands.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Start the server
    #[command(after_help = "\
Prints a one-time login link if standard output is a terminal (or with --print-link), and runs until
Ctrl-C or SIGTERM. Running agents then get the `grace` period of wb.limits to stop. Listens on
localhost unless the script sets `listen`. Set WB_LOG=debug for a detailed log. To run it as a
service, see docs/operations.md.")]
    Serve(ServeFlags),
    /// Create a site in a git repository: the script, the skills and an example persona
    Init(InitArgs),
    /// Add a kind, an inbox, an agent, a persona or a channel type
    #[command(subcommand)]
    New(NewCommand),
    /// Check the script and the personas
    Check(CheckArgs),
    /// Run the tests of the script, with a fake agent and a fake clock
    Test(TestArgs),
    /// Write the type annotations that editors use to complete and check the script
    Types(TypesArgs),
    /// Check this machine: which guarantees hold here, with advice
    #[command(after_help = "\
Exits 0 if a site can work here (warnings are fine), 1 if something must be fixed. Needs no server;
outside a site it checks only the machine.

Examples:
  wiki-browser doctor
  wiki-browser doctor --json")]
    Doctor,
    /// Print the exact prompt a job would get, without starting it
    Render(RenderArgs),
    /// Manage jobs: runs of agents
    #[command(subcommand)]
    Job(JobCommand),
    /// Send a message to an inbox, an agent, a channel or a person
    Send(SendArgs),
    /// Read messages, and wait for replies
    #[command(subcommand)]
    Mail(MailCommand),
    /// Manage long-running agents
    #[command(subcommand)]
    Agent(AgentCommand),
    /// List instances: the agents that messages to inboxes started
    Instances(InstancesArgs),
    /// List and show inboxes
    #[command(subcommand)]
    Inbox(InboxCommand),
    /// Ask your assistant; the answer streams as it is written
    Ask(AskArgs),
    /// Manage your conversations with the assistant
    #[command(subcommand)]
    Chat(ChatCommand),
    /// Show whether your assistant can work: what answers, your vault, your accounts
    Assistant,
    /// Use your own subscription for the assistant: install, sign in, look
    #[command(subcommand)]
    Gateway(GatewayCommand),
    /// Sign in to Claude for the assistant, and sign out
    #[command(subcommand)]
    Claude(ClaudeCommand),
    /// Manage channels: conversations between people and agents
    #[command(subcommand)]
    Channel(ChannelCommand),
    /// Send and read messages in a channel
    #[command(subcommand)]
    Msg(MsgCommand),
    /// Manage topics: threads about a passage of a source
    #[command(subcommand)]
    Topic(TopicCommand),
    /// Review proposals: new versions of a source
    #[command(subcommand)]
    Proposal(ProposalCommand),
    /// Approve or reject requests from agents
    #[command(subcommand)]
    Approval(ApprovalCommand),
    /// List everything awaiting review: proposals and approvals, oldest first
    Decisions,
    /// Manage workspaces: the separate folders that agents work in
    #[command(subcommand)]
    Workspace(WorkspaceCommand),
    /// List and show sources: the documents of the site
    #[command(subcommand)]
    Source(SourceCommand),
    /// List and show personas: the files in agents/ that describe a reader
    #[command(subcommand)]
    Persona(PersonaCommand),
    /// Show and request perspectives: sources as personas see them
    #[command(subcommand)]
    Perspective(PerspectiveCommand),
    /// Search sources, topics and messages
    Search(SearchArgs),
    /// Show what jobs have spent, and how much of each daily cap is used
    Usage(UsageArgs),
    /// List engines, and release one that is on hold
    #[command(subcommand)]
    Engine(EngineCommand),
    /// Reload the script without a restart
    Reload(ReloadArgs),
    /// List schedules and their last and next runs
    #[command(subcommand)]
    Schedule(ScheduleCommand),
    /// Manage people and their roles
    #[command(subcommand)]
    Person(PersonCommand),
    /// Manage access tokens for scripts and other programs
    #[command(subcommand)]
    Token(TokenCommand),
    /// Back up the database, with or without a running server
    Backup(BackupArgs),
    /// Restore the database from a backup
    Restore(RestoreArgs),
    /// Check the database, and salvage a damaged one
    Recover(RecoverArgs),
    /// Remove old job folders and expired rows
    Cleanup(CleanupArgs),
    /// Print the OpenAPI 3.1 description of the HTTP API; needs no server
    Openapi,
    /// Print shell completions
    Completions(CompletionsArgs),
    /// Print a one-time link to log in with a browser
    Login,
    /// Show the server's health and what is waiting; exits 6 if it is not ready
    Status,
    /// Stream the site's events until interrupted
    #[command(after_help = "\
Examples:
  wiki-browser events
  wiki-browser events --json --after EPOCH-120")]
    Events {
        /// Start after this event
        #[arg(long, value_name = "ID")]
        after: Option<String>,
    },
}

/// How the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogFormatWord {
    /// One line per entry, for people
    #[default]
    Text,
    /// One JSON object per line, for programs
    Json,
}

/// Flags of `serve`.
#[derive(Args, Debug)]
pub(super) struct ServeFlags {
    /// Stands for the one of all commands, which the script of a server names: refused, not offered
    #[arg(long, hide = true, value_name = "DIR")]
    pub(super) data: Option<Utf8PathBuf>,
    /// Format of the log on standard error
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    pub(super) log_format: LogFormatWord,
    /// Number of daily backups to keep in the data folder; 0 disables them
    #[arg(long, value_name = "N", default_value_t = crate::flows::site::backup::DAILY_KEPT)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(super) daily_backups: u32,
    /// Print the one-time link even if standard output is not a terminal
    #[arg(long)]
    pub(super) print_link: bool,
    /// Reload the script whenever it is saved; for development, where no agent can write to it
    #[arg(long)]
    pub(super) watch: bool,
}

/// Options of `serve`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeArgs {
    /// The script of the site; it exists.
    pub script: Utf8PathBuf,
    /// Whether the log is JSON.
    pub is_json_log: bool,
    /// Number of daily backups to keep; 0 disables them.
    pub daily_backups: u32,
    /// Whether to print the operator's one-time link.
    pub prints_link: bool,
    /// Whether to reload the script when it is saved.
    pub watches: bool,
}
