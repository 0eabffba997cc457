//! `wiki-browser source`.

use clap::Subcommand;

use crate::api::sources::{History, HistoryRow, SourceRow, SourceView};
use crate::base::{Page as List, Result, SourcePath};
use crate::cli::commands::{Desk, Page};
use crate::cli::terminal::short_id::shorten;
use crate::cli::terminal::table::Table;
use crate::client::query;

/// What can be done with sources.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum SourceCommand {
    /// List sources
    #[command(
        after_help = "Examples:\n  wiki-browser source list\n  wiki-browser source list guide"
    )]
    List {
        /// Part of the path
        query: Option<String>,
        #[command(flatten)]
        page: Page,
    },
    /// Print a source as it is in the working tree
    Show {
        /// Path of the source, relative to the root
        path: String,
    },
    /// List the commits of a source, with the topics that led to them
    #[command(after_help = "\
APPROVED BY and TOPIC are what this site wrote down when it made the commit. A commit of somebody
else has none; what its message claims is in --json.

Examples:
  wiki-browser source history guide.md
  wiki-browser source history guide.md --limit 200 --json")]
    History {
        /// Path of the source, relative to the root
        path: String,
        #[command(flatten)]
        page: Page,
    },
}

/// Runs a command.
pub(in crate::cli) fn run(desk: &Desk, command: SourceCommand) -> Result<()> {
    match command {
        SourceCommand::List { query, page } => list(desk, query.as_deref(), &page),
        SourceCommand::Show { path } => show(desk, &path.parse()?),
        SourceCommand::History { path, page } => history(desk, &path.parse()?, &page),
    }
}

fn list(desk: &Desk, part: Option<&str>, page: &Page) -> Result<()> {
    let limit = page.limit();
    let pairs = [("query", part), ("after", page.after()), ("limit", Some(&*limit))];
    let answer = desk.client()?.get(&query("/api/sources", &pairs))?;
    desk.screen.tell(&answer, |screen, page: List<SourceRow>| {
        let mut table = Table::new(&["PATH", "STATE", "TOPICS", "BLOB"]);
        for it in &page.items {
            let blob: String = it.blob.as_str().chars().take(8).collect();
            let topics = it.open_topics.to_string();
            table.row([it.path.as_str(), it.state.as_str(), &topics, &blob]);
        }
        screen
            .table(&table, "no sources; they are tracked files that match `sources` in wb.site")?;
        desk.more(page.next.as_deref());
        Ok(())
    })
}

fn show(desk: &Desk, path: &SourcePath) -> Result<()> {
    let route = query("/api/source", &[("path", Some(path.as_str()))]);
    let answer = desk.client()?.get(&route)?;
    desk.screen.tell(&answer, |screen, source: SourceView| screen.raw(&source.text))
}

fn history(desk: &Desk, path: &SourcePath, page: &Page) -> Result<()> {
    let limit = page.limit();
    let pairs = [("path", Some(path.as_str())), ("after", page.after()), ("limit", Some(&*limit))];
    let answer = desk.client()?.get(&query("/api/source/history", &pairs))?;
    desk.screen.tell(&answer, |screen, page: History| {
        let mut table =
            Table::new(&["COMMIT", "WHEN", "AUTHOR", "APPROVED BY", "TOPIC", "SUBJECT"]);
        for it in &page.items {
            table.row(history_row(desk, it));
        }
        screen.table(&table, "no commits")?;
        desk.more(page.next.as_deref());
        if page.next.is_none() && page.is_shallow {
            screen.note("the repository is a shallow clone; older commits are not available");
        }
        Ok(())
    })
}

fn history_row(desk: &Desk, HistoryRow { entry, causes }: &HistoryRow) -> [String; 6] {
    let commit = entry.commit.as_str().chars().take(8).collect();
    let mut approvers: Vec<&str> =
        causes.iter().map(|it| it.approver_name.as_deref().unwrap_or_default()).collect();
    approvers.dedup();
    let topics = causes.iter().flat_map(|it| {
        std::iter::once(&it.topic_id).chain(it.further_topics.iter().map(|it| &it.topic_id))
    });
    let topics: Vec<&str> = topics.map(|it| shorten(it.as_str())).collect();
    let subject = match &entry.renamed_from {
        Some(before) => format!("{} (renamed from {before})", entry.subject),
        None => entry.subject.clone(),
    };
    let (when, author) = (desk.since(Some(entry.at)), entry.author.clone());
    [commit, when, author, approvers.join(", "), topics.join(" "), subject]
}
