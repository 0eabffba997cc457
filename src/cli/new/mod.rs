//! `wiki-browser new`: a kind with its skill, a persona, an inbox or a type of channel, which pass
//! `check` and `test` at once.

mod addition;
mod channel_type;
mod first_test;
mod inbox;
mod kind;
mod persona;
pub(in crate::cli) mod plan;
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
    /// Add a sort of job: a block at the end of the script, and a skill folder
    Kind(KindArgs),
    /// Add a reader: a file in agents/ that says who a view of a source is for
    Persona(PersonaArgs),
    /// Add an inbox: an address whose messages start agents, with schemas and a first test
    Inbox(InboxArgs),
    /// Add a type of channel: a block of the script, and a file with what it is to come to
    ChannelType(ChannelTypeArgs),
}

/// `new kind`.
#[derive(Args, Debug)]
#[command(after_help = "\
What is produced decides what the agent hands in, and which inputs there must be: those are added.
  message       an answer in a topic
  proposal      a new text of a source, which a person decides on; --inputs source_path=source makes
                it one without a topic, source_path=source:new one for a page that need not exist
  perspective   a view of a source for a persona
  result        JSON that stays with the job; --inputs none makes it one about the whole site
  topic         topics on passages of a source, or of any with --inputs none

Inputs are NAME=TYPE, parted by commas; `?` at the end makes one optional. Types: topic, source,
persona, blob:SOURCE, hash:PERSONA, line, text (several lines), number, choice:ONE/TWO, flag.

On a terminal it asks for what is not given. If anything is in the way, nothing is written.

Examples:
  wiki-browser new kind answer --produces message
  wiki-browser new kind translate --produces proposal --inputs language=choice:de/fr/es
  wiki-browser new kind links --produces result --inputs source_path=source,depth=number?")]
pub(in crate::cli) struct KindArgs {
    /// Name of the kind: small letters, digits, `-` and `_`
    name: String,
    /// What a job must leave behind to be a success; without a terminal, message is taken
    #[arg(long, value_enum, value_name = "WHAT")]
    produces: Option<Produce>,
    /// Engine of the script that runs it; needed if there are several
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,
    /// Inputs beside those that it must have, or none
    #[arg(long, value_name = "NAME=TYPE", value_delimiter = ',')]
    inputs: Vec<String>,
    /// What it does, in one line
    #[arg(long, value_name = "TEXT")]
    about: Option<String>,
    /// File of the script that the block is added to, if it is not the script itself
    #[arg(long, value_name = "FILE")]
    file: Option<Utf8PathBuf>,
    /// Only tell what would be written
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
    /// Who it is, in one line
    #[arg(long, value_name = "TEXT")]
    about: Option<String>,
    /// Globs of the sources that it is for; all of them without it
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    paths: Vec<String>,
    /// Only tell what would be written
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
    /// What it does, in one line
    #[arg(long, value_name = "TEXT")]
    about: Option<String>,
    /// Engine of the script that runs it; needed if there are several
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,
    /// Write a Markdown template instead of a block of the script
    #[arg(long)]
    markdown: bool,
    /// Only tell what would be written
    #[arg(long)]
    dry_run: bool,
}

/// `new channel-type`.
#[derive(Args, Debug)]
#[command(after_help = "\
Writes a block at the end of the script, and channels/NAME.md: what agents in such a channel are
told that it is to come to. If anything is in the way, nothing is written.

Examples:
  wiki-browser new channel-type incident --about 'Find out what broke, and mend it'")]
pub(in crate::cli) struct ChannelTypeArgs {
    /// Name of the type: small letters, digits and `-`
    name: String,
    /// What it is for, in one line
    #[arg(long, value_name = "TEXT")]
    about: Option<String>,
    /// Only tell what would be written
    #[arg(long)]
    dry_run: bool,
}

/// Writes what was asked for.
pub(in crate::cli) fn run(desk: &Desk, command: &NewCommand) -> Result<()> {
    match command {
        NewCommand::Kind(args) => kind::add(desk, args),
        NewCommand::Persona(args) => persona::add(desk, args),
        NewCommand::Inbox(args) => inbox::add(desk, args),
        NewCommand::ChannelType(args) => channel_type::add(desk, args),
    }
}

/// Returns the folder of a script.
fn folder_of(script: &Utf8Path) -> Utf8PathBuf {
    let parent = script.parent().filter(|it| !it.as_str().is_empty());
    parent.unwrap_or(Utf8Path::new(".")).to_owned()
}

/// Refuses a line that no script and no front matter can hold.
fn check_line(what: &str, text: &str) -> Result<()> {
    let why = if text.trim().is_empty() {
        "is empty"
    } else if text.chars().count() > LINE_CHARS_MAX {
        "is too long"
    } else if text.chars().any(char::is_control) {
        "holds a line break or another control character"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!("{what} {why}")).hint("write one line of text"))
}

/// Longest line that says what something is, in characters.
const LINE_CHARS_MAX: usize = 200;
