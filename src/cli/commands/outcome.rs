//! What came of a job, as `job show` tells it: Topics, warnings, and what to type next.

use serde_json::Value;

use crate::base::Result;
use crate::cli::commands::{Desk, text};
use crate::cli::escape;

/// Longest command that is worth copying, in characters.
const COMMAND_CHARS_MAX: usize = 400;

/// Prints what a job has opened, what it warns of, and what helps if it did not succeed.
pub(in crate::cli) fn describe(desk: &Desk, job: &Value) -> Result<()> {
    for it in job["opened_topics"].as_array().into_iter().flatten() {
        desk.detail("opened", &escape::line(&format!("{} {}", text(it, "id"), text(it, "title"))))?;
    }
    for warning in job["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        desk.detail("warning", &escape::line(warning))?;
    }
    let Some(first) = first_step(text(job, "reason"), text(job, "kind")) else { return Ok(()) };
    desk.detail("next", &escape::line(&first))?;
    desk.detail("ask again", &escape::line(&command(job).unwrap_or_default()))
}

/// What comes before asking for the job again; nothing where the end of its output says it.
fn first_step(reason: &str, kind: &str) -> Option<String> {
    let raise = |field: &str| {
        format!("raise `{field}` of kind \"{kind}\" in the script, then type: wiki-browser reload")
    };
    Some(match reason {
        "server_restarted" => "nothing is wrong with the job itself, and nothing is repeated by \
                               itself"
            .to_owned(),
        "spawn_failed" => "find what is missing with: wiki-browser doctor".to_owned(),
        "prompt_failed" => {
            "mend the script, then type: wiki-browser check && wiki-browser reload".to_owned()
        }
        "wall_timeout" => raise("timeout"),
        "idle_timeout" => raise("idle"),
        "start_timeout" => raise("start"),
        _ => return None,
    })
}

/// Returns the command that asks for the same job; nothing if it is too long to be typed.
fn command(job: &Value) -> Option<String> {
    let mut command = format!("wiki-browser job create {}", text(job, "kind"));
    for (name, value) in job["inputs"].as_object().into_iter().flatten() {
        let value = value.as_str()?;
        // A version follows from what has it, and may be another one by now.
        if matches!(value.len(), 40 | 64) && value.bytes().all(|it| it.is_ascii_hexdigit()) {
            continue;
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,".contains(c);
        command += &match value.chars().all(is_plain) {
            true => format!(" {name}={value}"),
            false => format!(" '{name}={}'", value.replace('\'', "'\\''")),
        };
    }
    let is_short = command.chars().count() <= COMMAND_CHARS_MAX && !command.contains('\n');
    is_short.then_some(command)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_leaves_out_versions_and_quotes_the_rest() {
        let sha = "0".repeat(40);
        let job = json!({"kind": "naps", "inputs": {"path": "a/b.md", "sha": sha, "say": "it's"}});
        let wanted = r"wiki-browser job create naps path=a/b.md 'say=it'\''s'";
        assert_eq!(command(&job).as_deref(), Some(wanted));
        for long in ["x".repeat(500), "two\nlines".to_owned()] {
            assert_eq!(command(&json!({"kind": "naps", "inputs": {"say": long}})), None);
        }
        assert_eq!(first_step("exit_status", "naps"), None);
    }
}
