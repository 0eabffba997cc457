//! `wiki-browser workspace`: the folders that agents work in.

use clap::Subcommand;
use serde_json::json;

use crate::api::workspaces::{Workspace, WorkspaceList, WorkspaceState};
use crate::base::Result;
use crate::cli::commands::{Desk, plain};
use crate::cli::terminal::escape;
use crate::cli::terminal::screen::typed;
use crate::cli::terminal::short_id::{Noun, shorten};
use crate::cli::terminal::table::Table;
use crate::flows::workspaces::Swept;

/// Commands on workspaces.
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
repositories inside the worktree. Exits 1 if it could not be removed; the note says why.")]
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
pub(in crate::cli) fn run(desk: &Desk, command: WorkspaceCommand) -> Result<u8> {
    match command {
        WorkspaceCommand::List => list(desk).map(|()| 0),
        WorkspaceCommand::Keep { job } => decide(desk, &job, "keep"),
        WorkspaceCommand::Remove { job } => decide(desk, &job, "remove"),
        WorkspaceCommand::Sweep { dry_run } => sweep(desk, dry_run).map(|()| 0),
    }
}

fn list(desk: &Desk) -> Result<()> {
    let answer = desk.client()?.get("/api/workspaces")?;
    desk.screen.tell(&answer, |screen, WorkspaceList { items }: WorkspaceList| {
        let mut table = Table::new(&["JOB", "STATE", "MADE", "PATH", "KEPT"]);
        for it in &items {
            table.row([
                shorten(it.root.as_str()),
                it.state.as_str(),
                &desk.since(Some(it.made_at)),
                it.path.as_str(),
                it.kept_ref.as_deref().unwrap_or_default(),
            ]);
        }
        screen.table(&table, "no workspaces")?;
        for it in items.iter().filter(|it| it.state == WorkspaceState::Failed) {
            let note = it.note.as_deref().unwrap_or_default();
            let why = format!("{}: {note}", shorten(it.root.as_str()));
            desk.detail("failed", &escape::line(&why))?;
        }
        Ok(())
    })
}

/// Keeps or removes a workspace; returns 1 if it could not be removed.
fn decide(desk: &Desk, given: &str, verb: &str) -> Result<u8> {
    let client = desk.client()?;
    let id = desk.id(&client, Noun::Job, given)?;
    let done = client.post(&format!("/api/workspaces/{id}/{verb}"), &json!({}))?;
    desk.screen.tell(&done, |screen, done: Workspace| {
        let path = escape::line(done.path.as_str());
        screen.put(&match (verb, done.state) {
            ("keep", WorkspaceState::Gone) => format!("{path} is yours, the server leaves it"),
            (_, WorkspaceState::Failed) => format!("{path} was not removed"),
            (_, state) => format!("{path} is {state}"),
        })?;
        desk.detail("kept in", &plain(done.kept_ref.as_ref()))?;
        desk.detail("note", &plain(done.note.as_ref()))
    })?;
    Ok(u8::from(typed::<Workspace>(&done)?.state == WorkspaceState::Failed))
}

fn sweep(desk: &Desk, dry_run: bool) -> Result<()> {
    let swept = desk.client()?.post("/api/workspaces/sweep", &json!({"dry_run": dry_run}))?;
    desk.screen.tell(&swept, |screen, swept: Swept| {
        let mut table = Table::new(&["JOB", "PATH", "PROBLEM"]);
        for it in &swept.items {
            let problem = it.problem.as_deref().unwrap_or("none");
            table.row([shorten(it.job_id.as_str()), it.path.as_str(), problem]);
        }
        screen.table(&table, "nothing to clean up")
    })
}
