//! Rejecting: the Topic stays open.

use serde_json::json;

use crate::api::proposals::Proposal;
use crate::base::Result;
use crate::cli::commands::Desk;
use crate::cli::terminal::short_id::Noun;

/// Rejects a proposal.
pub(super) fn reject(desk: &Desk, given: &str, reason: &str) -> Result<()> {
    let client = desk.client()?;
    let id = desk.id(&client, Noun::Proposal, given)?;
    let answer = client.post(&format!("/api/proposals/{id}/reject"), &json!({"reason": reason}))?;
    desk.screen.tell(&answer, |screen, it: Proposal| {
        screen.put(&format!("proposal {id} is {}", screen.state(it.status.as_str())))
    })
}
