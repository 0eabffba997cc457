//! `wiki-browser source`.

use clap::Subcommand;
use serde_json::Value;

use crate::base::{Result, SourcePath};
use crate::cli::commands::{Desk, Page, number, text};
use crate::cli::short_id::items;
use crate::cli::table::Table;
use crate::client::query;

/// What can be done with sources.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum SourceCommand {
    /// List the sources of the site
    #[command(
        after_help = "Examples:\n  wiki-browser source list\n  wiki-browser source list guide"
    )]
    List {
        /// Part of the path
        query: Option<String>,
        #[command(flatten)]
        page: Page,
    },
    /// Print the text of a source as the working tree has it
    Show {
        /// Path of the source, relative to the root
        path: String,
    },
    /// List the commits that changed a source
    History {
        /// Path of the source, relative to the root
        path: String,
        /// Most commits to print
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: u16,
    },
}

/// Runs a command.
pub(in crate::cli) fn run(desk: &Desk, command: SourceCommand) -> Result<()> {
    match command {
        SourceCommand::List { query, page } => list(desk, query.as_deref(), &page),
        SourceCommand::Show { path } => show(desk, &path.parse()?),
        SourceCommand::History { path, limit } => history(desk, &path.parse()?, limit),
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
        screen.table(&table, "no sources: they are the tracked files that wb.site names")?;
        desk.more(answer);
        Ok(())
    })
}

fn show(desk: &Desk, path: &SourcePath) -> Result<()> {
    let route = query("/api/source", &[("path", Some(path.as_str()))]);
    let answer = desk.client()?.get(&route)?;
    desk.screen.answer(&answer, |screen, answer| screen.raw(text(answer, "text")))
}

fn history(desk: &Desk, path: &SourcePath, limit: u16) -> Result<()> {
    let limit = limit.to_string();
    let pairs = [("path", Some(path.as_str())), ("limit", Some(&*limit))];
    let answer = desk.client()?.get(&query("/api/source/history", &pairs))?;
    desk.screen.answer(&answer, |screen, answer| {
        let mut table = Table::new(&["COMMIT", "WHEN", "AUTHOR", "APPROVED BY", "SUBJECT"]);
        for it in items(answer) {
            table.row(history_row(desk, it));
        }
        screen.table(&table, "no commit has changed it")
    })
}

fn history_row(desk: &Desk, it: &Value) -> [String; 5] {
    let commit = text(it, "commit").chars().take(8).collect();
    let name = |name| text(it, name).to_owned();
    [commit, desk.ago(&it["at"]), name("author"), name("approved_by"), name("subject")]
}
