//! Requesting changes: a new job revises the proposal.

use serde_json::json;

use crate::base::Result;
use crate::cli::commands::job::follow::Show;
use crate::cli::commands::{Desk, job};
use crate::cli::terminal::short_id::Noun;

/// Requests changes to a proposal; prints the job, or follows it. Returns the exit code.
pub(super) fn rework(desk: &Desk, given: &str, reason: &str, wait: bool) -> Result<u8> {
    let client = desk.client()?;
    let id = desk.id(&client, Noun::Proposal, given)?;
    let body = json!({"reason": reason});
    let answer = client.create(&format!("/api/proposals/{id}/rework"), &body)?;
    if !wait {
        desk.screen.note(&format!("proposal {id} stays open until the job proposes a revision"));
    }
    job::accepted(desk, &client, &answer, wait.then_some(Show::Nothing))
}
