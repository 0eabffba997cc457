//! `wiki-browser proposal`: showing proposals, and deciding them.

mod review;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::api::proposals::{Approvable, Approved, Fate, Proposal, ProposalPage};
use crate::base::{Error, ErrorKind, Page as List, Result, SourcePath, digest_hex};
use crate::cli::commands::{Desk, Page, plain};
use crate::cli::terminal::escape;
use crate::cli::terminal::question;
use crate::cli::terminal::screen::{Screen, Style, typed};
use crate::cli::terminal::short_id::{Noun, shorten};
use crate::cli::terminal::table::Table;
use crate::client::{Client, query};

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

/// `proposal approve`.
#[derive(Args, Debug)]
#[command(after_help = "\
What is committed is what was shown: its digest and its base are sent along, and a text that has
changed meanwhile is refused.

Examples:
  wiki-browser proposal approve 81bc
  wiki-browser proposal show 81bc --field proposal.text_digest
  wiki-browser proposal approve 81bc --yes --digest SHA256")]
pub(in crate::cli) struct ApproveArgs {
    /// Id of the proposal
    id: String,
    /// Skip the confirmation; required without a terminal
    #[arg(long)]
    yes: bool,
    /// Approve only if the text still has this `text_digest`
    #[arg(long, value_name = "SHA256")]
    digest: Option<String>,
    /// Subject of the commit
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// Body of the commit message
    #[arg(long, value_name = "TEXT")]
    body: Option<String>,
}

/// Runs a command; returns the exit code.
pub(in crate::cli) fn run(desk: &Desk, command: ProposalCommand) -> Result<u8> {
    match command {
        ProposalCommand::List { status, source, topic, page } => {
            let source = source.map(|path| path.parse::<SourcePath>()).transpose()?;
            list(desk, status.as_deref(), source.as_ref(), topic.as_deref(), &page)?;
        }
        ProposalCommand::Show { id, text } => show(desk, &id, text)?,
        ProposalCommand::Diff { id, against } => diff(desk, &id, against.as_deref())?,
        ProposalCommand::Approve(args) => approve(desk, &args)?,
        ProposalCommand::Reject { id, reason } => review::reject(desk, &id, &reason)?,
        ProposalCommand::Rework { id, reason, wait } => {
            return review::rework(desk, &id, &reason, wait);
        }
        ProposalCommand::Edit { id, digest, summary } => {
            review::edit(desk, &id, digest.as_deref(), summary.as_deref())?;
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

fn fetch(desk: &Desk, client: &Client, given: &str) -> Result<Value> {
    let id = desk.id(client, Noun::Proposal, given)?;
    client.get(&format!("/api/proposals/{id}"))
}

fn diff(desk: &Desk, given: &str, against: Option<&str>) -> Result<()> {
    let client = desk.client()?;
    let id = desk.id(&client, Noun::Proposal, given)?;
    let against = match against {
        // The number of a revision stays as it is; anything else is an abbreviated id.
        Some(it) if it.parse::<i64>().is_err() || it.len() > 4 => {
            Some(desk.id(&client, Noun::Proposal, it)?)
        }
        number => number.map(str::to_owned),
    };
    let path = format!("/api/proposals/{id}");
    let shown = client.get(&query(&path, &[("against", against.as_deref())]))?;
    desk.screen.tell(&shown, |screen, page: ProposalPage| screen.diff(&page.diff))
}

fn show(desk: &Desk, given: &str, whole: bool) -> Result<()> {
    let shown = fetch(desk, &desk.client()?, given)?;
    desk.screen.tell(&shown, |screen, page: ProposalPage| {
        if whole {
            return screen.raw(&page.text);
        }
        describe(desk, &page)
    })
}

fn describe(desk: &Desk, page: &ProposalPage) -> Result<()> {
    let (screen, proposal) = (&desk.screen, &page.proposal);
    screen.put(&screen.paint(Style::Bold, &escape::line(&page.title)))?;
    desk.detail("proposal", proposal.id.as_str())?;
    desk.detail("revision", &proposal.revision_number.to_string())?;
    desk.detail("status", &screen.state(proposal.status.as_str()))?;
    desk.detail("decided by", &plain(proposal.decided_by_name.as_ref()))?;
    desk.detail("reason", &plain(proposal.reason.as_ref()))?;
    desk.detail("commit", &plain(proposal.commit.as_ref()))?;
    desk.detail("source", &escape::line(proposal.source_path.as_str()))?;
    desk.detail("topic", proposal.topic_id.as_str())?;
    desk.detail("job", &plain(proposal.job_id.as_ref()))?;
    review::lineage(desk, page)?;
    desk.detail("when", &desk.since(Some(proposal.created_at)))?;
    desk.detail("summary", &review::paragraph(proposal.summary.as_deref()))?;
    let base = &page.base;
    let current = if base.is_current { "is current" } else { "has moved" };
    let state = base.state.map_or("", |it| it.as_str());
    desk.detail(
        "base",
        &match (proposal.base_source_sha.is_absent(), base.is_current) {
            (true, true) => "none: approving creates the source".to_owned(),
            (true, false) => "none, but the source exists now".to_owned(),
            (false, _) => format!("{current}, source {state}"),
        },
    )?;
    if let Some(refusal) = refusal(&page.approvable) {
        desk.detail("approvable", &format!("no: {}", escape::line(refusal.message())))?;
    }
    review::conflict(screen, page)?;
    fates(screen, &page.fate)?;
    screen.put("")?;
    screen.diff(&page.diff)
}

fn fates(screen: &Screen, fates: &[Fate]) -> Result<()> {
    if fates.is_empty() {
        return Ok(());
    }
    screen.put(&screen.paint(Style::Bold, "\nOther open topics of this source"))?;
    for fate in fates {
        screen.put(&format!("  {}", crate::cli::agent::fate_line(fate)))?;
    }
    Ok(())
}

/// Returns why a proposal cannot be approved, if so.
fn refusal(approvable: &Approvable) -> Option<Error> {
    if approvable.ok {
        return None;
    }
    let message = approvable.message.as_deref().unwrap_or("the proposal cannot be approved");
    let mut error = Error::new(ErrorKind::Conflict, message);
    if let Some(code) = &approvable.code {
        error = error.code(code.clone());
    }
    match &approvable.hint {
        Some(hint) => Some(error.hint(hint.clone())),
        None => Some(error),
    }
}

fn approve(desk: &Desk, args: &ApproveArgs) -> Result<()> {
    let asks = !args.yes;
    const HINT: &str = "review it with `wiki-browser proposal show ID`, then approve with --yes";
    if asks {
        question::need_person(&desk.screen, "approve", HINT)?;
    }
    let client = desk.client()?;
    let shown: ProposalPage = typed(&fetch(desk, &client, &args.id)?)?;
    let proposal = &shown.proposal;
    let digest = proposal.text_digest.as_str();
    check_text(&shown.text, digest, args.digest.as_deref())?;
    if asks {
        describe(desk, &shown)?;
    }
    if let Some(refusal) = refusal(&shown.approvable) {
        return Err(refusal);
    }
    if asks {
        let (revision, path) = (proposal.revision_number, proposal.source_path.as_str());
        let ask = format!("Commit revision {revision} of {}?", escape::line(path));
        question::confirm(&desk.screen, "approve", &ask, HINT)?;
    }
    let mut body = json!({
        "text_digest": digest, "base_source_sha": proposal.base_source_sha,
    });
    for (name, given) in [("subject", &args.subject), ("body", &args.body)] {
        if let Some(given) = given {
            body[name] = json!(given);
        }
    }
    let id = &proposal.id;
    let answer = client.create(&format!("/api/proposals/{id}/approve"), &body)?;
    desk.screen.tell(&answer, |screen, answer: Approved| {
        let (commit, branch) = (&answer.commit, escape::line(&answer.branch));
        let branch = branch.strip_prefix("refs/heads/").unwrap_or(&branch);
        screen.put(&format!("{}: commit {commit} on {branch}", screen.state("approved")))?;
        if let Some(note) = &answer.note {
            screen.put(&format!("note: {}", escape::line(note)))?;
        }
        review::left_over(screen, &answer);
        Ok(())
    })
}

/// Refuses a text whose digest is not the one to be sent, or not the one given.
fn check_text(text: &str, digest: &str, wanted: Option<&str>) -> Result<()> {
    if digest != digest_hex(text) {
        return Err(Error::internal("the proposal's digest does not match its text"));
    }
    if wanted.is_some_and(|wanted| wanted != digest) {
        let error = Error::conflict("text_changed", "the text has changed since you read it");
        return Err(error.hint("review the proposal again"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_that_was_shown_is_approved() {
        let digest = digest_hex("abc");
        assert!(check_text("abc", &digest, None).is_ok());
        assert!(check_text("abc", &digest, Some(&digest)).is_ok());
        let error = check_text("abc", &digest, Some("other")).unwrap_err();
        assert_eq!(error.code_str(), "text_changed");
        assert!(check_text("abc", &digest_hex("abd"), None).is_err());
    }

    #[test]
    fn the_servers_reason_is_the_refusal() {
        let (code, message) = (Some("stale_base".to_owned()), Some("moved".to_owned()));
        let told = Approvable { ok: false, code, message, hint: None };
        let error = refusal(&told).unwrap();
        assert_eq!((error.code_str(), error.kind()), ("stale_base", ErrorKind::Conflict));
        assert!(refusal(&Approvable { ok: true, ..told }).is_none());
    }
}
