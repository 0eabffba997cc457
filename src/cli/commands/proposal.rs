//! `wiki-browser proposal`: showing proposals, and deciding them.

mod approve;
mod edit;
mod reject;
mod rework;
mod show;

use clap::Subcommand;

use crate::api::proposals::Proposal;
use crate::base::{Page as List, Result, SourcePath};
use crate::cli::commands::proposal::approve::ApproveArgs;
use crate::cli::commands::{Desk, Page};
use crate::cli::terminal::short_id::{Noun, shorten};
use crate::cli::terminal::table::Table;
use crate::client::query;

/// Commands on proposals.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ProposalCommand {
    /// List proposals, newest first
    List {
        /// Only proposals with this status
        #[arg(long, value_name = "STATUS",
              value_parser = ["open", "superseded", "approved", "rejected", "stale", "void"])]
        status: Option<String>,
        /// Only proposals for this source
        #[arg(long, value_name = "PATH")]
        source: Option<String>,
        /// Only proposals for this topic
        #[arg(long, value_name = "ID")]
        topic: Option<String>,
        #[command(flatten)]
        page: Page,
    },
    /// Show a proposal: its changes, and how they affect other open topics
    Show {
        /// Id of the proposal
        id: String,
        /// Print the full proposed text instead, byte for byte into a pipe
        #[arg(long)]
        text: bool,
    },
    /// Print the unified diff of a proposal
    #[command(after_help = "Examples:
  wiki-browser proposal diff 81bc | less -R
  wiki-browser proposal diff 81bc --against 1")]
    Diff {
        /// Id of the proposal
        id: String,
        /// Compare with this revision (number or proposal id) instead of the base
        #[arg(long, value_name = "REVISION")]
        against: Option<String>,
    },
    /// Show a proposal, ask for confirmation, and commit it
    Approve(ApproveArgs),
    /// Reject a proposal; its topic stays open
    #[command(
        after_help = "Example:\n  wiki-browser proposal reject 81bc --reason 'Changes too much'"
    )]
    Reject {
        /// Id of the proposal
        id: String,
        /// Reason; shown with the proposal and to the next agent
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Request changes: a new job revises the proposal with your comment
    #[command(
        after_help = "Example:\n  wiki-browser proposal rework 81bc --reason 'Keep the list' --wait"
    )]
    Rework {
        /// Id of the proposal
        id: String,
        /// What should change; added to the topic as a message
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// Watch the job until it ends, and print the new proposal
        #[arg(long)]
        wait: bool,
    },
    /// Replace a proposal with an edited text from standard input
    ///
    /// The edited text becomes a new revision that awaits approval. The agent stays the commit's
    /// author; the editor becomes a co-author.
    #[command(after_help = "Example:
  wiki-browser proposal show 81bc --text > new.md
  wiki-browser proposal edit 81bc < new.md")]
    Edit {
        /// Id of the proposal
        id: String,
        /// Edit only if the text still has this `text_digest`
        #[arg(long, value_name = "SHA256")]
        digest: Option<String>,
        /// One-line summary of the changes [default: the earlier one]
        #[arg(long, value_name = "TEXT")]
        summary: Option<String>,
    },
}

/// Runs a command; returns the exit code.
pub(in crate::cli) fn run(desk: &Desk, command: ProposalCommand) -> Result<u8> {
    match command {
        ProposalCommand::List { status, source, topic, page } => {
            let source = source.map(|path| path.parse::<SourcePath>()).transpose()?;
            list(desk, status.as_deref(), source.as_ref(), topic.as_deref(), &page)?;
        }
        ProposalCommand::Show { id, text } => show::show(desk, &id, text)?,
        ProposalCommand::Diff { id, against } => show::diff(desk, &id, against.as_deref())?,
        ProposalCommand::Approve(args) => approve::approve(desk, &args)?,
        ProposalCommand::Reject { id, reason } => reject::reject(desk, &id, &reason)?,
        ProposalCommand::Rework { id, reason, wait } => {
            return rework::rework(desk, &id, &reason, wait);
        }
        ProposalCommand::Edit { id, digest, summary } => {
            edit::edit(desk, &id, digest.as_deref(), summary.as_deref())?;
        }
    }
    Ok(0)
}

fn list(
    desk: &Desk,
    status: Option<&str>,
    source: Option<&SourcePath>,
    topic: Option<&str>,
    page: &Page,
) -> Result<()> {
    let client = desk.client()?;
    let topic = topic.map(|it| desk.id(&client, Noun::Topic, it)).transpose()?;
    let limit = page.limit();
    let pairs = [
        ("status", status),
        ("source_path", source.map(SourcePath::as_str)),
        ("topic_id", topic.as_deref()),
        ("after", page.after()),
        ("limit", Some(&*limit)),
    ];
    let answer = client.get(&query("/api/proposals", &pairs))?;
    desk.screen.tell(&answer, |screen, page: List<Proposal>| {
        let mut table = Table::new(&["ID", "STATUS", "REV", "WHEN", "TOPIC", "SOURCE", "SUMMARY"]);
        for it in &page.items {
            table.row([
                shorten(it.id.as_str()),
                it.status.as_str(),
                &it.revision_number.to_string(),
                &desk.since(Some(it.created_at)),
                shorten(it.topic_id.as_str()),
                it.source_path.as_str(),
                it.summary.as_deref().and_then(|it| it.lines().next()).unwrap_or_default(),
            ]);
        }
        screen.table(&table, "no proposals")?;
        desk.more(page.next.as_deref());
        Ok(())
    })
}
