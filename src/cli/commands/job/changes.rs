//! `wiki-browser job restore` and `job keep`: what changed in the repository while a job ran.

use serde_json::{Value, json};

use crate::base::Result;
use crate::cli::commands::{Desk, text};
use crate::cli::terminal::escape;
use crate::cli::terminal::screen::{Screen, Style};
use crate::cli::terminal::short_id::Noun;
use crate::cli::terminal::table::Table;

/// Most changes that `job show` names.
const SHOWN_MAX: usize = 20;

/// Puts changes back, or says what could be.
pub(in crate::cli::commands) fn restore(
    desk: &Desk,
    given: &str,
    names: &[String],
    dry_run: bool,
) -> Result<()> {
    let client = desk.client()?;
    let id = desk.id(&client, Noun::Job, given)?;
    let body = json!({"names": names, "dry_run": dry_run});
    let answer = client.post(&format!("/api/agent/jobs/{id}/restore"), &body)?;
    desk.screen.answer(&answer, |screen, answer| {
        let mut table = Table::new(&["NAME", "STATE", "WHAT", "WHY NOT"]);
        for it in answer["items"].as_array().into_iter().flatten() {
            table.row([text(it, "name"), state(it), text(it, "to"), text(it, "why")]);
        }
        screen.table(&table, "nothing changed")?;
        if dry_run {
            screen.note("no changes made");
        } else {
            let held = text(answer, "held_at");
            screen.note(&format!("the state the job left is in {}/after", escape::line(held)));
        }
        Ok(())
    })
}

fn state(item: &Value) -> &str {
    match text(item, "outcome") {
        "ready" => "can be restored",
        "restored" => "restored",
        "as_before" => "unchanged",
        "changed_since" => "changed since",
        "not_kept" => "not kept",
        other => other,
    }
}

/// Leaves changes as they are.
pub(in crate::cli::commands) fn keep(desk: &Desk, given: &str) -> Result<()> {
    let client = desk.client()?;
    let id = desk.id(&client, Noun::Job, given)?;
    let answer = client.post(&format!("/api/agent/jobs/{id}/keep"), &json!({}))?;
    desk.screen.answer(&answer, |screen, _| screen.put(&format!("changes from job {id} are kept")))
}

/// Prints the changes of a job, and what can be done about them.
pub(in crate::cli::commands) fn describe(desk: &Desk, job: &Value) -> Result<()> {
    let changes = &job["changes"];
    let Some(items) = changes["items"].as_array() else { return Ok(()) };
    for it in items.iter().take(SHOWN_MAX) {
        let line = format!("{} ({})", text(it, "name"), text(it, "how"));
        desk.detail("changed", &escape::line(&line))?;
    }
    let shown = items.len().min(SHOWN_MAX) as u64;
    let more = items.len() as u64 - shown + changes["more"].as_u64().unwrap_or(0);
    if more > 0 {
        desk.detail("changed", &format!("and {more} more"))?;
    }
    let what = match text(changes, "state") {
        "open" => offer(job),
        "restored" => format!("restored by {}", text(changes, "decided_by_name")),
        "kept" => format!("kept by {}", text(changes, "decided_by_name")),
        _ => "nobody decided in time; no longer stored".to_owned(),
    };
    desk.detail("", &escape::line(&what))
}

/// Says at a job's end what should be known of it, and what can be done about what it changed.
pub(in crate::cli::commands) fn note(screen: &Screen, job: &Value) {
    for warning in job["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let warning = escape::line(warning);
        screen.note(&format!("{} {warning}", screen.paint(Style::Yellow, "warning:")));
    }
    if text(&job["changes"], "state") == "open" {
        screen.note(&escape::line(&offer(job)));
    }
}

fn offer(job: &Value) -> String {
    let id = text(job, "id");
    format!("wiki-browser job restore {id} restores it, wiki-browser job keep {id} keeps it")
}
