//! The decisions on a proposal beside its approval: refused, done again, edited; and what is shown
//! of how it came about.

use serde_json::{Value, json};

use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{Error, Result};
use crate::cli::commands::job::follow::Show;
use crate::cli::commands::{Desk, job, line, number, text};
use crate::cli::terminal::screen::{Screen, Style};
use crate::cli::terminal::short_id::Noun;
use crate::cli::terminal::{escape, input};

/// Refuses a proposal.
pub(super) fn reject(desk: &Desk, given: &str, reason: &str) -> Result<()> {
    let client = desk.client()?;
    let id = desk.id(&client, Noun::Proposal, given)?;
    let answer = client.post(&format!("/api/proposals/{id}/reject"), &json!({"reason": reason}))?;
    desk.screen.answer(&answer, |screen, proposal| {
        screen.put(&format!("proposal {id} is {}", screen.state(text(proposal, "status"))))
    })
}

/// Requests changes to a proposal; prints the job, or watches it. Returns the exit code.
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

/// Puts an edited text into the place of a proposal; prints the new one.
pub(super) fn edit(
    desk: &Desk,
    given: &str,
    digest: Option<&str>,
    summary: Option<&str>,
) -> Result<()> {
    let client = desk.client()?;
    let id = desk.id(&client, Noun::Proposal, given)?;
    let edited = input::standard("the edited text", SOURCE_BYTES_MAX)?;
    let shown = client.get(&format!("/api/proposals/{id}"))?;
    let now = text(&shown["proposal"], "text_digest");
    if digest.is_some_and(|it| it != now) {
        let error = Error::conflict("text_changed", "the text has changed since you looked");
        return Err(error.hint("review the proposal again"));
    }
    let mut body = json!({"text": edited, "text_digest": now});
    if let Some(summary) = summary {
        body["summary"] = json!(summary);
    }
    let answer = client.create(&format!("/api/proposals/{id}/edit"), &body)?;
    desk.screen.answer(&answer, |screen, made| {
        let revision = number(made, "revision_number");
        screen.note(&format!("this is revision {revision}; review it before approving"));
        screen.put(&line(made, "id"))
    })
}

/// Shows where a revision comes from, what else it settles, and what is under way.
pub(super) fn lineage(desk: &Desk, shown: &Value) -> Result<()> {
    let proposal = &shown["proposal"];
    let origin = &proposal["origin"];
    if !origin.is_null() {
        let (how, from) = (line(origin, "how"), line(origin, "from_id"));
        desk.detail(&how, &format!("from {from} by {}", line(origin, "made_by_name")))?;
    }
    desk.detail("replaced by", &line(proposal, "superseded_by"))?;
    desk.detail("rework", &line(shown, "rework_job_id"))?;
    desk.detail("note", &line(shown, "note"))?;
    for editor in shown["editors"].as_array().into_iter().flatten() {
        desk.detail("co-author", &escape::line(editor.as_str().unwrap_or_default()))?;
    }
    for topic in shown["further_topics"].as_array().into_iter().flatten() {
        desk.detail("also", &format!("topic {}: {}", line(topic, "id"), line(topic, "title")))?;
    }
    Ok(())
}

/// Shows the lines that a proposal and its Source both change.
pub(super) fn conflict(screen: &Screen, shown: &Value) -> Result<()> {
    let conflict = &shown["conflict"];
    if conflict.is_null() {
        return Ok(());
    }
    let title =
        format!("\nThe source has changed in the same lines ({})", number(conflict, "count"));
    screen.put(&screen.paint(Style::Bold, &title))?;
    for it in conflict["shown"].as_array().into_iter().flatten() {
        screen.put(&format!("  line {} is now:", number(it, "line")))?;
        for (name, title) in [("current", None), ("proposed", Some("  proposed:"))] {
            if let Some(title) = title {
                screen.put(title)?;
            }
            for line in text(it, name).lines() {
                screen.put(&format!("    {}", escape::line(line)))?;
            }
        }
    }
    Ok(())
}

/// Tells what is open on the Source after an approval.
pub(super) fn left_over(screen: &Screen, answer: &Value) {
    for it in answer["followed"].as_array().into_iter().flatten() {
        let id = line(it, "proposal_id");
        screen.note(&match text(it, "outcome") {
            "merged" => format!("proposal {id} was merged; review {}", line(it, "revision_id")),
            "conflict" => format!("proposal {id} now conflicts with it: request changes"),
            _ => format!("proposal {id} no longer changes anything"),
        });
    }
    for it in answer["still_open"].as_array().into_iter().flatten() {
        screen.note(&format!("still open: topic {}: {}", line(it, "id"), line(it, "title")));
    }
}
