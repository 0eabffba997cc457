//! Editing: a person's text replaces the agent's, as a new revision.

use serde_json::json;

use crate::api::proposals::{Proposal, ProposalPage};
use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{Error, Result};
use crate::cli::commands::Desk;
use crate::cli::terminal::input;
use crate::cli::terminal::screen::typed;
use crate::cli::terminal::short_id::Noun;

/// Replaces a proposal by an edited text; prints the new one.
pub(super) fn edit(
    desk: &Desk,
    given: &str,
    digest: Option<&str>,
    summary: Option<&str>,
) -> Result<()> {
    let client = desk.client()?;
    let id = desk.id(&client, Noun::Proposal, given)?;
    let edited = input::standard("the edited text", SOURCE_BYTES_MAX)?;
    let shown: ProposalPage = typed(&client.get(&format!("/api/proposals/{id}"))?)?;
    let now = shown.proposal.text_digest;
    if digest.is_some_and(|it| it != now) {
        let error = Error::conflict("text_changed", "the text has changed since you read it");
        return Err(error.hint("review the proposal again"));
    }
    let mut body = json!({"text": edited, "text_digest": now});
    if let Some(summary) = summary {
        body["summary"] = json!(summary);
    }
    let answer = client.create(&format!("/api/proposals/{id}/edit"), &body)?;
    desk.screen.tell(&answer, |screen, made: Proposal| {
        let revision = made.revision_number;
        screen.note(&format!("this is revision {revision}; review it before approving"));
        screen.put(made.id.as_str())
    })
}
