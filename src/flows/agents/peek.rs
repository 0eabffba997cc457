//! What an agent shows: the screen of its terminal, or the last of what it printed.

use serde_json::Value;

use crate::api::agents::{Peek, PeekQuery};
use crate::base::{Error, ErrorKind, JobId, Result};
use crate::flows::Site;
use crate::flows::agents::show;
use crate::flows::jobs::{require_open_output, require_own};
use crate::jobs;
use crate::people::Caller;

/// Lines that are shown if nobody says how many.
const LINES: u32 = 50;
/// Most lines.
const LINES_MAX: u32 = 1_000;

/// Returns what an agent shows now, or what its last start left.
///
/// # Errors
/// `not_found` with code `no_agent`, and with code `private_output` if it may show what the agent
/// told somebody else in private; `invalid` for a number of lines that is none; `forbidden` with
/// code `not_granted` for a job that is not the agent's own.
pub async fn peek(site: &Site, caller: &Caller, name: &str, query: &PeekQuery) -> Result<Peek> {
    caller.may_read()?;
    let lines = lines(query)?;
    let (asked, by) = (name.to_owned(), caller.clone());
    let read = site.store.read(move |c| {
        let agent = show::find(c, &asked)?;
        require_open_output(c, &by, &agent.name)?;
        Ok(agent)
    });
    let agent = read.await?;
    // What an agent shows is what others told it: an agent's token is good for its own job.
    if let (Caller::Job { id, .. }, None) = (caller, &agent.job_id) {
        let message = format!("job {id} may not look at agent {name}");
        return Err(Error::new(ErrorKind::Forbidden, message).code("not_granted"));
    }
    if let Some(job) = &agent.job_id {
        require_own(caller, job)?;
    }
    let Some(job) = agent.job_id else {
        return Ok(Peek { is_live: false, output: String::new() });
    };
    output(site, &job, lines, agent.state.is_live()).await
}

/// Returns how many lines to show.
///
/// # Errors
/// `invalid` for a number outside the range.
pub(in crate::flows) fn lines(query: &PeekQuery) -> Result<u32> {
    match query.lines.unwrap_or(LINES) {
        lines @ 1..=LINES_MAX => Ok(lines),
        _ => Err(Error::invalid(format!("`lines` is 1 to {LINES_MAX}"))),
    }
}

/// Returns the last lines of a job's terminal, or else of what its agent printed. `is_live` says
/// whether the agent is still running.
///
/// # Errors
/// `unavailable` if its files cannot be read.
pub(in crate::flows) async fn output(
    site: &Site,
    job: &JobId,
    lines: u32,
    is_live: bool,
) -> Result<Peek> {
    if let Some(screen) = site.queue.screen(job, lines).await {
        return Ok(Peek { is_live: true, output: last(&screen, lines) });
    }
    let dir = jobs::job_dir(&site.config.site.data, job);
    if let Some(screen) = jobs::last_screen(&dir)? {
        return Ok(Peek { is_live: false, output: last(&screen, lines) });
    }
    let (entries, _) = jobs::read_stream_end(&dir, lines as usize)?;
    let output = words(&entries).join("\n");
    Ok(Peek { is_live, output: last(&output, lines) })
}

/// Returns what some entries say, in their order; the end of a turn repeats its last text.
fn words(entries: &[Value]) -> Vec<&str> {
    let mut said: Vec<&str> = Vec::new();
    let mut last_text = None;
    for entry in entries {
        let text = entry["text"].as_str();
        if entry["type"] == "done" && text.is_some() && text == last_text {
            continue;
        }
        if entry["type"] == "text" {
            last_text = text;
        }
        said.extend(text.or(entry["name"].as_str()));
    }
    said
}

/// Returns the last lines of a text.
pub(in crate::flows) fn last(text: &str, lines: u32) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines as usize)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_is_shown_once() {
        let entries = [
            json!({"type": "text", "text": "four"}),
            json!({"type": "done", "text": "four"}),
            json!({"type": "tool_call", "name": "Bash"}),
            json!({"type": "done", "text": "failed"}),
        ];
        assert_eq!(words(&entries), ["four", "Bash", "failed"]);
    }
}
