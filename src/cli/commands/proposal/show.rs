//! Showing a proposal: its changes, where it comes from, and what it means for other Topics.

use serde_json::Value;

use crate::api::proposals::{Approvable, Fate, ProposalPage, Standing};
use crate::base::{Error, ErrorKind, Result};
use crate::cli::commands::{Desk, plain};
use crate::cli::terminal::escape;
use crate::cli::terminal::screen::{Screen, Style};
use crate::cli::terminal::short_id::Noun;
use crate::client::{Client, query};

/// Returns a proposal with its changes, as the server sends it.
pub(super) fn fetch(desk: &Desk, client: &Client, given: &str) -> Result<Value> {
    let id = desk.id(client, Noun::Proposal, given)?;
    client.get(&format!("/api/proposals/{id}"))
}

/// Prints the unified diff of a proposal.
pub(super) fn diff(desk: &Desk, given: &str, against: Option<&str>) -> Result<()> {
    let client = desk.client()?;
    let id = desk.id(&client, Noun::Proposal, given)?;
    let against = match against {
        // The number of a revision stays as it is; anything else is an abbreviated id.
        Some(it) if it.parse::<i64>().is_err() || it.len() > 4 => {
            Some(desk.id(&client, Noun::Proposal, it)?)
        }
        number => number.map(str::to_owned),
    };
    let path = format!("/api/proposals/{id}");
    let shown = client.get(&query(&path, &[("against", against.as_deref())]))?;
    desk.screen.tell(&shown, |screen, page: ProposalPage| screen.diff(&page.diff))
}

/// Prints a proposal, or only its text.
pub(super) fn show(desk: &Desk, given: &str, whole: bool) -> Result<()> {
    let shown = fetch(desk, &desk.client()?, given)?;
    desk.screen.tell(&shown, |screen, page: ProposalPage| {
        if whole {
            return screen.raw(&page.text);
        }
        describe(desk, &page)
    })
}

/// Prints a proposal: what it changes, and what that means for others.
pub(super) fn describe(desk: &Desk, page: &ProposalPage) -> Result<()> {
    let (screen, proposal) = (&desk.screen, &page.proposal);
    screen.put(&screen.paint(Style::Bold, &escape::line(&page.title)))?;
    desk.detail("proposal", proposal.id.as_str())?;
    desk.detail("revision", &proposal.revision_number.to_string())?;
    desk.detail("status", &screen.state(proposal.status.as_str()))?;
    desk.detail("decided by", &plain(proposal.decided_by_name.as_ref()))?;
    desk.detail("reason", &plain(proposal.reason.as_ref()))?;
    desk.detail("commit", &plain(proposal.commit.as_ref()))?;
    desk.detail("source", &escape::line(proposal.source_path.as_str()))?;
    desk.detail("topic", proposal.topic_id.as_str())?;
    desk.detail("job", &plain(proposal.job_id.as_ref()))?;
    lineage(desk, page)?;
    desk.detail("when", &desk.since(Some(proposal.created_at)))?;
    desk.detail("summary", &paragraph(proposal.summary.as_deref()))?;
    let base = &page.base;
    let current = if base.is_current { "is current" } else { "has moved" };
    let state = base.state.map_or("", |it| it.as_str());
    desk.detail(
        "base",
        &match (proposal.base_source_sha.is_absent(), base.is_current) {
            (true, true) => "none: approving creates the source".to_owned(),
            (true, false) => "none, but the source exists now".to_owned(),
            (false, _) => format!("{current}, source {state}"),
        },
    )?;
    if let Some(refusal) = refusal(&page.approvable) {
        desk.detail("approvable", &format!("no: {}", escape::line(refusal.message())))?;
    }
    conflict(screen, page)?;
    fates(screen, &page.fate)?;
    screen.put("")?;
    screen.diff(&page.diff)
}

fn fates(screen: &Screen, fates: &[Fate]) -> Result<()> {
    if fates.is_empty() {
        return Ok(());
    }
    screen.put(&screen.paint(Style::Bold, "\nOther open topics of this source"))?;
    for fate in fates {
        screen.put(&format!("  {}", crate::cli::agent::fate_line(fate)))?;
    }
    Ok(())
}

/// Returns why a proposal cannot be approved, if so.
pub(super) fn refusal(approvable: &Approvable) -> Option<Error> {
    if approvable.ok {
        return None;
    }
    let message = approvable.message.as_deref().unwrap_or("the proposal cannot be approved");
    let mut error = Error::new(ErrorKind::Conflict, message);
    if let Some(code) = &approvable.code {
        error = error.code(code.clone());
    }
    match &approvable.hint {
        Some(hint) => Some(error.hint(hint.clone())),
        None => Some(error),
    }
}

/// Returns a text of several lines as a detail: those after the first below it.
fn paragraph(text: Option<&str>) -> String {
    let lines = text.unwrap_or_default().lines().filter(|it| !it.trim().is_empty());
    lines.map(escape::line).collect::<Vec<_>>().join(&format!("\n{:12}", ""))
}

/// Shows the origin of a revision, what else it settles, and what is in progress.
fn lineage(desk: &Desk, page: &ProposalPage) -> Result<()> {
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
fn conflict(screen: &Screen, page: &ProposalPage) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_reason_is_the_refusal() {
        let (code, message) = (Some("stale_base".to_owned()), Some("moved".to_owned()));
        let told = Approvable { ok: false, code, message, hint: None };
        let error = refusal(&told).unwrap();
        assert_eq!((error.code_str(), error.kind()), ("stale_base", ErrorKind::Conflict));
        assert!(refusal(&Approvable { ok: true, ..told }).is_none());
    }
}
