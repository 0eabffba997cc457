//! `wiki-browser source`.

use clap::Subcommand;
use serde_json::Value;

use crate::base::{Result, SourcePath};
use crate::cli::commands::{Desk, Page, number, text};
use crate::cli::terminal::short_id::{items, shorten};
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
    desk.screen.answer(&answer, |screen, answer| {
        let mut table = Table::new(&["PATH", "STATE", "TOPICS", "BLOB"]);
        for it in items(answer) {
            let blob: String = text(it, "blob").chars().take(8).collect();
            table.row([text(it, "path"), text(it, "state"), &number(it, "open_topics"), &blob]);
        }
        screen
            .table(&table, "no sources; they are tracked files that match `sources` in wb.site")?;
        desk.more(answer);
        Ok(())
    })
}

fn show(desk: &Desk, path: &SourcePath) -> Result<()> {
    let route = query("/api/source", &[("path", Some(path.as_str()))]);
    let answer = desk.client()?.get(&route)?;
    desk.screen.answer(&answer, |screen, answer| screen.raw(text(answer, "text")))
}

fn history(desk: &Desk, path: &SourcePath, page: &Page) -> Result<()> {
    let limit = page.limit();
    let pairs = [("path", Some(path.as_str())), ("after", page.after()), ("limit", Some(&*limit))];
    let answer = desk.client()?.get(&query("/api/source/history", &pairs))?;
    desk.screen.answer(&answer, |screen, answer| {
        let mut table =
            Table::new(&["COMMIT", "WHEN", "AUTHOR", "APPROVED BY", "TOPIC", "SUBJECT"]);
        for it in items(answer) {
            table.row(history_row(desk, it));
        }
        screen.table(&table, "no commits")?;
        desk.more(answer);
        if answer["next"].is_null() && answer["is_shallow"] == true {
            screen.note("the repository is a shallow clone; older commits are not available");
        }
        Ok(())
    })
}

fn history_row(desk: &Desk, it: &Value) -> [String; 6] {
    let commit = text(it, "commit").chars().take(8).collect();
    let name = |name| text(it, name).to_owned();
    let causes = || it["causes"].as_array().into_iter().flatten();
    let mut approvers: Vec<&str> = causes().map(|it| text(it, "approver_name")).collect();
    approvers.dedup();
    let further = |it: &Value| it["further_topics"].as_array().cloned().unwrap_or_default();
    let topics = causes().flat_map(|it| std::iter::once(it.clone()).chain(further(it)));
    let topics: Vec<String> = topics.map(|it| shorten(text(&it, "topic_id")).to_owned()).collect();
    let (approvers, topics) = (approvers.join(", "), topics.join(" "));
    let subject = match it["renamed_from"].as_str() {
        Some(before) => format!("{} (renamed from {before})", name("subject")),
        None => name("subject"),
    };
    [commit, desk.ago(&it["at"]), name("author"), approvers, topics, subject]
}
