//! `wiki-browser workspace`: the folders of their own in which agents work.

use clap::Subcommand;
use serde_json::{Value, json};

use crate::base::Result;
use crate::cli::commands::{Desk, line, text};
use crate::cli::terminal::escape;
use crate::cli::terminal::short_id::{Noun, items, shorten};
use crate::cli::terminal::table::Table;

/// What can be done with workspaces.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum WorkspaceCommand {
    /// List workspaces, newest first
    List,
    /// Keep a job's folder: the server no longer touches it
    Keep {
        /// Id of the job
        job: String,
    },
    /// Remove a job's folder, including work that cannot be saved
    #[command(after_help = "\
Its work is saved to refs/wiki-browser/jobs/ID/work first, except files beyond 64 MiB in total and
repositories inside the worktree.")]
    Remove {
        /// Id of the job
        job: String,
    },
    /// Clean up after finished jobs; the server does this every hour
    #[command(after_help = "Example:\n  wiki-browser workspace sweep --dry-run")]
    Sweep {
        /// Only report what would be cleaned up
        #[arg(long)]
        dry_run: bool,
    },
}

/// Runs a command.
pub(in crate::cli) fn run(desk: &Desk, command: WorkspaceCommand) -> Result<()> {
    match command {
        WorkspaceCommand::List => list(desk),
        WorkspaceCommand::Keep { job } => decide(desk, &job, "keep"),
        WorkspaceCommand::Remove { job } => decide(desk, &job, "remove"),
        WorkspaceCommand::Sweep { dry_run } => sweep(desk, dry_run),
    }
}

fn list(desk: &Desk) -> Result<()> {
    let answer = desk.client()?.get("/api/workspaces")?;
    desk.screen.answer(&answer, |screen, answer| {
        let mut table = Table::new(&["JOB", "STATE", "MADE", "PATH", "KEPT"]);
        for it in items(answer) {
            table.row([
                shorten(text(it, "job_id")),
                text(it, "state"),
                &desk.ago(&it["made_at"]),
                text(it, "path"),
                text(it, "kept_ref"),
            ]);
        }
        screen.table(&table, "no workspaces")?;
        for it in items(answer).iter().filter(|it| it["state"] == "failed") {
            let why = format!("{}: {}", shorten(text(it, "job_id")), text(it, "note"));
            desk.detail("failed", &escape::line(&why))?;
        }
        Ok(())
    })
}

fn decide(desk: &Desk, given: &str, verb: &str) -> Result<()> {
    let client = desk.client()?;
    let id = desk.id(&client, Noun::Job, given)?;
    let done = client.post(&format!("/api/workspaces/{id}/{verb}"), &json!({}))?;
    desk.screen.answer(&done, |screen, done| {
        screen.put(&format!("{} is {}", line(done, "path"), line(done, "state")))?;
        desk.detail("kept in", &line(done, "kept_ref"))?;
        desk.detail("note", &line(done, "note"))
    })
}

fn sweep(desk: &Desk, dry_run: bool) -> Result<()> {
    let swept = desk.client()?.post("/api/workspaces/sweep", &json!({"dry_run": dry_run}))?;
    desk.screen.answer(&swept, |screen, swept| {
        let mut table = Table::new(&["JOB", "PATH", "PROBLEM"]);
        for it in items(swept) {
            table.row([shorten(text(it, "job_id")), text(it, "path"), problem(it)]);
        }
        screen.table(&table, "nothing to clean up")
    })
}

fn problem(it: &Value) -> &str {
    if it["problem"].is_null() { "none" } else { text(it, "problem") }
}
