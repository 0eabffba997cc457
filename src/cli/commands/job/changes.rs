//! `wiki-browser job restore` and `job keep`: changes of the repository while a job ran.

use serde_json::json;

use crate::api::changes::{ChangesState, Outcome, Restored};
use crate::base::Result;
use crate::cli::commands::Desk;
use crate::cli::terminal::escape;
use crate::cli::terminal::screen::{Screen, Style, typed};
use crate::cli::terminal::short_id::Noun;
use crate::cli::terminal::table::Table;
use crate::flows::jobs::JobView;

/// Most changes listed by `job show`.
const SHOWN_MAX: usize = 20;

/// Restores changes, or reports what could be restored.
pub(in crate::cli::commands) fn restore(
    desk: &Desk,
    given: &str,
    names: &[String],
    (commits, dry_run): (bool, bool),
) -> Result<u8> {
    let client = desk.client()?;
    let id = desk.id(&client, Noun::Job, given)?;
    let body = json!({"names": names, "commits": commits, "dry_run": dry_run});
    let answer = client.post(&format!("/api/agent/jobs/{id}/restore"), &body)?;
    desk.screen.tell(&answer, |screen, answer: Restored| {
        let mut table = Table::new(&["NAME", "STATE", "WHAT", "WHY NOT"]);
        for it in &answer.items {
            let why = it.why.as_deref().unwrap_or_default();
            table.row([&it.name, state(it.outcome), &it.to, why]);
        }
        screen.table(&table, "nothing changed")?;
        if dry_run {
            screen.note("no changes made");
        } else {
            let held = escape::line(&answer.held_at);
            screen.note(&format!("the state the job left is in {held}/after"));
        }
        Ok(())
    })?;
    let restored: Restored = typed(&answer)?;
    let is_left = |outcome| !matches!(outcome, Outcome::Restored | Outcome::AsBefore);
    let left = restored.items.iter().filter(|it| is_left(it.outcome)).count();
    if dry_run || left == 0 {
        return Ok(0);
    }
    desk.screen.note(&format!("{left} of {} were not restored", restored.items.len()));
    Ok(1)
}

fn state(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ready => "can be restored",
        Outcome::Restored => "restored",
        Outcome::AsBefore => "unchanged",
        Outcome::ChangedSince => "changed since",
        Outcome::NotKept => "not kept",
    }
}

/// Keeps changes.
pub(in crate::cli::commands) fn keep(desk: &Desk, given: &str) -> Result<()> {
    let client = desk.client()?;
    let id = desk.id(&client, Noun::Job, given)?;
    let answer = client.post(&format!("/api/agent/jobs/{id}/keep"), &json!({}))?;
    desk.screen.answer(&answer, |screen, _| screen.put(&format!("changes from job {id} are kept")))
}

/// Prints the changes of a job, and what can be done about them.
pub(in crate::cli::commands) fn describe(desk: &Desk, view: &JobView) -> Result<()> {
    let Some(changes) = &view.changes else { return Ok(()) };
    for it in changes.items.iter().take(SHOWN_MAX) {
        desk.detail("changed", &escape::line(&format!("{} ({})", it.name, it.how)))?;
    }
    let more = changes.items.len().saturating_sub(SHOWN_MAX) + changes.more;
    if more > 0 {
        desk.detail("changed", &format!("and {more} more"))?;
    }
    let by = changes.decided_by_name.as_deref().unwrap_or_default();
    let what = match changes.state {
        ChangesState::Open => offer(view),
        ChangesState::Restored => format!("restored by {by}"),
        ChangesState::Kept => format!("kept by {by}"),
        _ => "nobody decided in time; no longer stored".to_owned(),
    };
    desk.detail("", &escape::line(&what))
}

/// Prints the warnings of an ended job, and what can be done about its changes.
pub(in crate::cli::commands) fn note(screen: &Screen, view: &JobView) {
    for warning in &view.job.warnings {
        let warning = escape::line(warning);
        screen.note(&format!("{} {warning}", screen.paint(Style::Yellow, "warning:")));
    }
    if view.changes.as_ref().is_some_and(|it| it.state == ChangesState::Open) {
        screen.note(&escape::line(&offer(view)));
    }
}

fn offer(view: &JobView) -> String {
    let id = &view.job.id;
    format!("wiki-browser job restore {id} restores it, wiki-browser job keep {id} keeps it")
}
