//! Decisions on a proposal besides approval: reject, request changes, edit; and its history.

use serde_json::json;

use crate::api::proposals::{Approved, Proposal, ProposalPage, Standing};
use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{Error, Result};
use crate::cli::commands::job::follow::Show;
use crate::cli::commands::{Desk, job, plain};
use crate::cli::terminal::screen::{Screen, Style, typed};
use crate::cli::terminal::short_id::Noun;
use crate::cli::terminal::{escape, input};

/// Rejects a proposal.
pub(super) fn reject(desk: &Desk, given: &str, reason: &str) -> Result<()> {
    let client = desk.client()?;
    let id = desk.id(&client, Noun::Proposal, given)?;
    let answer = client.post(&format!("/api/proposals/{id}/reject"), &json!({"reason": reason}))?;
    desk.screen.tell(&answer, |screen, it: Proposal| {
        screen.put(&format!("proposal {id} is {}", screen.state(it.status.as_str())))
    })
}

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

/// Returns a text of several lines as a detail: those after the first below it.
pub(super) fn paragraph(text: Option<&str>) -> String {
    let lines = text.unwrap_or_default().lines().filter(|it| !it.trim().is_empty());
    lines.map(escape::line).collect::<Vec<_>>().join(&format!("\n{:12}", ""))
}

/// Shows the origin of a revision, what else it settles, and what is in progress.
pub(super) fn lineage(desk: &Desk, page: &ProposalPage) -> Result<()> {
    let proposal = &page.proposal;
    if let Some(origin) = &proposal.origin {
        let who = plain(origin.made_by_name.as_ref());
        desk.detail(origin.how.as_str(), &format!("from {} by {who}", origin.from_id))?;
    }
    desk.detail("replaced by", &plain(proposal.superseded_by.as_ref()))?;
    desk.detail("rework", &plain(page.rework_job_id.as_ref()))?;
    desk.detail("note", &plain(page.note.as_ref()))?;
    for editor in &page.editors {
        desk.detail("co-author", &escape::line(editor))?;
    }
    for suggester in &page.suggesters {
        desk.detail("suggested", &escape::line(suggester))?;
    }
    for topic in &page.further_topics {
        desk.detail("also", &format!("topic {}: {}", topic.id, escape::line(&topic.title)))?;
    }
    Ok(())
}

/// Shows the conflicting lines of a proposal and its Source.
pub(super) fn conflict(screen: &Screen, page: &ProposalPage) -> Result<()> {
    let Some(Standing { conflicts, .. }) = &page.conflict else { return Ok(()) };
    let title = format!("\nThe source has changed in the same lines ({})", conflicts.count);
    screen.put(&screen.paint(Style::Bold, &title))?;
    for it in &conflicts.shown {
        screen.put(&format!("  line {} is now:", it.line))?;
        for (words, title) in [(&it.current, None), (&it.proposed, Some("  proposed:"))] {
            if let Some(title) = title {
                screen.put(title)?;
            }
            for line in words.lines() {
                screen.put(&format!("    {}", escape::line(line)))?;
            }
        }
    }
    Ok(())
}

/// Lists other open work on the Source after an approval.
pub(super) fn left_over(screen: &Screen, answer: &Approved) {
    for it in &answer.followed {
        let id = &it.proposal_id;
        screen.note(&match &*it.outcome {
            "merged" => {
                let made = plain(it.revision_id.as_ref());
                format!("proposal {id} was merged; review {made}")
            }
            "conflict" => format!("proposal {id} now conflicts with it: request changes"),
            _ => format!("proposal {id} no longer changes anything"),
        });
    }
    for it in &answer.still_open {
        screen.note(&format!("still open: topic {}: {}", it.id, escape::line(&it.title)));
    }
}
