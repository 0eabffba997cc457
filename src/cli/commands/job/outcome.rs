//! What came of a job, as `job show` tells it: Topics, warnings, and what to type next.

use serde_json::Value;

use crate::base::Result;
use crate::cli::commands::{Desk, text};
use crate::cli::terminal::escape;

/// Prints what a job has opened, what it warns of, and what helps if it did not succeed.
pub(in crate::cli) fn describe(desk: &Desk, job: &Value) -> Result<()> {
    for it in job["opened_topics"].as_array().into_iter().flatten() {
        desk.detail("opened", &escape::line(&format!("{} {}", text(it, "id"), text(it, "title"))))?;
    }
    for warning in job["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        desk.detail("warning", &escape::line(warning))?;
    }
    let Some(id) = job["id"].as_str().filter(|_| is_in_vain(job)) else { return Ok(()) };
    if let Some(agent) = text(job, "kind").strip_prefix('@') {
        // What becomes of it follows from the state of the agent, and is asked for there.
        let start = format!("wiki-browser agent show {agent}, or agent start {agent}");
        return desk.detail("next", &escape::line(&start));
    }
    desk.detail("next", &escape::line(&first_step(job).unwrap_or_default()))?;
    let when = if text(job, "reason") == "rate_limited" { " --when-allowed" } else { "" };
    desk.detail("again", &escape::line(&format!("wiki-browser job retry {id}{when}")))
}

/// Whether a job has ended without what was asked for.
fn is_in_vain(job: &Value) -> bool {
    !matches!(text(job, "status"), "queued" | "running" | "parked" | "succeeded")
}

/// What comes before asking for the job again; nothing where the message says it.
fn first_step(job: &Value) -> Option<String> {
    let (id, kind) = (text(job, "id"), text(job, "kind"));
    let raise = |field: &str| {
        format!("raise `{field}` of kind \"{kind}\" in the script, then run: wiki-browser reload")
    };
    Some(match text(job, "reason") {
        "exit_status" | "signal" | "no_result" => {
            format!("see its activity: wiki-browser job log {id}")
        }
        "server_restarted" => "nothing is wrong with the job itself, and nothing is repeated by \
                               itself"
            .to_owned(),
        "spawn_failed" => "find out what is missing: wiki-browser doctor".to_owned(),
        "prompt_failed" => {
            "fix the script, then run: wiki-browser check && wiki-browser reload".to_owned()
        }
        "wall_timeout" => raise("timeout"),
        "idle_timeout" => raise("idle"),
        "start_timeout" => raise("start"),
        _ => return None,
    })
}
