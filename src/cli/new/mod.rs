//! `wiki-browser new`: a kind with its skill, a persona, an inbox or a channel type, which pass
//! `check` and `test` at once.

mod addition;
mod agent;
mod channel_type;
pub(in crate::cli) mod files;
mod first_test;
mod inbox;
mod kind;
mod persona;
mod shape;
mod skill;

use camino::{Utf8Path, Utf8PathBuf};
use clap::{Args, Subcommand};

use crate::base::{Error, Result};
use crate::cli::commands::Desk;
use crate::cli::new::shape::Produce;

/// `new`.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum NewCommand {
    /// Add a kind of job: a block at the end of the script, and a skill folder
    Kind(KindArgs),
    /// Add a persona: a file in agents/ that describes a reader
    Persona(PersonaArgs),
    /// Add an inbox: an address whose messages start agents, with schemas and a first test
    Inbox(InboxArgs),
    /// Add a long-running agent, and an engine for it if the script has none
    Agent(AgentArgs),
    /// Add a channel type: a block of the script, and a file with its goal
    ChannelType(ChannelTypeArgs),
}

/// `new kind`.
#[derive(Args, Debug)]
#[command(after_help = "\
--produces sets what the agent submits. Required inputs are added automatically.
  message       a reply in a topic
  proposal      a new version of a source for review; --inputs source_path=source for a kind without
                a topic, source_path=source:new for a source that need not exist yet
  perspective   a view of a source for a persona
  result        JSON stored with the job; --inputs none for a kind about the whole site
  topic         topics on passages of a source, or of any source with --inputs none

Inputs are NAME=TYPE, separated by commas; a trailing `?` makes one optional. Types: topic, source,
persona, blob:SOURCE, hash:PERSONA, line, text (several lines), number, choice:ONE/TWO, flag.

On a terminal, asks for what is missing. If anything is in the way, nothing is written.

Examples:
  wiki-browser new kind answer --produces message
  wiki-browser new kind translate --produces proposal --inputs language=choice:de/fr/es
  wiki-browser new kind links --produces result --inputs source_path=source,depth=number?")]
pub(in crate::cli) struct KindArgs {
    /// Name of the kind: small letters, digits, `-` and `_`
    name: String,
    /// What a job must produce to succeed [default without a terminal: message]
    #[arg(long, value_enum, value_name = "WHAT")]
    produces: Option<Produce>,
    /// Engine to run it; required if the script has several
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,
    /// Additional inputs, or none
    #[arg(long, value_name = "NAME=TYPE", value_delimiter = ',')]
    inputs: Vec<String>,
    /// One-line description
    #[arg(long, value_name = "TEXT")]
    about: Option<String>,
    /// File to add the block to [default: the script]
    #[arg(long, value_name = "FILE")]
    file: Option<Utf8PathBuf>,
    /// Only list what would be written
    #[arg(long)]
    dry_run: bool,
}

/// `new persona`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wiki-browser new persona operator --about 'Is on call at night, and wants to know what to do'
  wiki-browser new persona reviewer --paths 'docs/**,README.md'")]
pub(in crate::cli) struct PersonaArgs {
    /// Name of the persona: letters, digits, `-` and `_`
    name: String,
    /// One-line description of the reader
    #[arg(long, value_name = "TEXT")]
    about: Option<String>,
    /// Globs of the sources it covers [default: all]
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    paths: Vec<String>,
    /// Only list what would be written
    #[arg(long)]
    dry_run: bool,
}

/// `new inbox`.
#[derive(Args, Debug)]
#[command(after_help = "\
Writes a block at the end of the script (with --markdown a file agents/TEMPLATE.md), JSON schemas of
the message and of the reply, and a test. If anything is in the way, nothing is written.

Examples:
  wiki-browser new inbox accounts/teardown --about 'Tear an account down'
  wiki-browser new inbox accounts/provision --markdown")]
pub(in crate::cli) struct InboxArgs {
    /// Name of the inbox: TEMPLATE/NAME, each of letters, digits, `-` and `_`
    name: String,
    #[command(flatten)]
    declared: DeclaredArgs,
}

/// What `new inbox` and `new agent` have in common.
#[derive(Args, Debug)]
struct DeclaredArgs {
    /// One-line description
    #[arg(long, value_name = "TEXT")]
    about: Option<String>,
    /// Engine to run it; required if the script has several
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,
    /// Write a Markdown template instead of a block in the script
    #[arg(long)]
    markdown: bool,
    /// Only list what would be written
    #[arg(long)]
    dry_run: bool,
}

/// `new agent`.
#[derive(Args, Debug)]
#[command(after_help = "\
Writes a block at the end of the script, or with --markdown a file agents/NAME.md whose text becomes
a part of its system prompt. If the script has no engine for long-running agents, also declares
\"claude-live\", which runs Claude Code. If anything is in the way, nothing is written.

Examples:
  wiki-browser new agent robbo --about 'Knows the forge'
  wiki-browser new agent robbo --markdown")]
#[command(mut_arg("engine", |arg| {
    arg.help("Engine to run it, of type stream or terminal; required if the script has several")
}))]
#[command(mut_arg("markdown", |arg| {
    arg.help("Write a Markdown file instead of a block in the script")
}))]
pub(in crate::cli) struct AgentArgs {
    /// Name of the agent: letters, digits, `-` and `_`
    name: String,
    #[command(flatten)]
    declared: DeclaredArgs,
}

/// `new channel-type`.
#[derive(Args, Debug)]
#[command(after_help = "\
Writes a block at the end of the script, and channels/NAME.md with the goal that agents in such a
channel get. If anything is in the way, nothing is written.

Examples:
  wiki-browser new channel-type incident --about 'Find out what broke, and fix it'")]
pub(in crate::cli) struct ChannelTypeArgs {
    /// Name of the type: small letters, digits and `-`
    name: String,
    /// One-line description
    #[arg(long, value_name = "TEXT")]
    about: Option<String>,
    /// Only list what would be written
    #[arg(long)]
    dry_run: bool,
}

/// Runs a command.
pub(in crate::cli) fn run(desk: &Desk, command: &NewCommand) -> Result<()> {
    match command {
        NewCommand::Kind(args) => kind::add(desk, args),
        NewCommand::Persona(args) => persona::add(desk, args),
        NewCommand::Inbox(args) => inbox::add(desk, args),
        NewCommand::Agent(args) => agent::add(desk, args),
        NewCommand::ChannelType(args) => channel_type::add(desk, args),
    }
}

/// Returns the folder of a script.
fn folder_of(script: &Utf8Path) -> Utf8PathBuf {
    let parent = script.parent().filter(|it| !it.as_str().is_empty());
    parent.unwrap_or(Utf8Path::new(".")).to_owned()
}

/// Refuses a line that a script or front matter cannot hold.
fn check_line(what: &str, text: &str) -> Result<()> {
    let why = if text.trim().is_empty() {
        "is empty"
    } else if text.chars().count() > LINE_CHARS_MAX {
        "is too long"
    } else if text.chars().any(char::is_control) {
        "has a line break or another control character"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!("{what} {why}")).hint("enter one line of text"))
}

/// Longest description, in characters.
const LINE_CHARS_MAX: usize = 200;
