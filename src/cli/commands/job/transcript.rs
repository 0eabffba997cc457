//! An agent's transcript for `job log` and `job follow`.

use serde_json::Value;

use crate::base::{ErrorKind, Result};
use crate::cli::commands::text;
use crate::cli::terminal::screen::{Screen, Style};
use crate::cli::terminal::{escape, table};
use crate::client::Client;
use crate::flows::jobs::output::LOG_EXPIRED;
use crate::jobs::{Step, StepKind};
use crate::script::Reads;

/// Columns if standard output is no terminal.
const WIDTH_DEFAULT: usize = 120;
/// Lines of a failed tool call that are printed.
const FAILED_LINES_MAX: usize = 4;

/// The steps of a job that were printed so far.
#[derive(Debug, Default)]
pub(in crate::cli::commands) struct Transcript {
    after: u64,
    last_words: String,
}

/// Returns whether the engine of a job records steps.
pub(in crate::cli::commands) fn has_steps(job: &Value) -> bool {
    Reads::tells_steps(text(job, "reads"))
}

/// Returns the route of the entries after a number.
fn route(id: &str, after: u64) -> String {
    format!("/api/agent/jobs/{id}/stream?after={after}")
}

impl Transcript {
    /// Returns the next steps as lines, and the response; `None` if there are none.
    ///
    /// # Errors
    /// What the server refuses.
    pub(in crate::cli::commands) fn next(
        &mut self,
        screen: &Screen,
        client: &Client,
        id: &str,
    ) -> Result<Option<(Vec<String>, Value)>> {
        let page = match client.look(&route(id, self.after)) {
            Ok(page) => page,
            // A job that has not started has no steps yet.
            Err(cause) if cause.kind() == ErrorKind::NotFound && self.after == 0 => {
                return if cause.code_str() == LOG_EXPIRED { Err(cause) } else { Ok(None) };
            }
            Err(cause) => return Err(cause),
        };
        let Some(next) = page["next"].as_u64().filter(|it| *it > self.after) else {
            return Ok(None);
        };
        self.after = next;
        let items = page["items"].as_array().map_or(&[][..], Vec::as_slice);
        let steps: Vec<Step> = items.iter().filter_map(Step::of).collect();
        let lines = steps.iter().filter_map(|it| self.lines(screen, it)).collect();
        Ok(Some((lines, page)))
    }

    /// Returns a step for a person, escaped for a terminal.
    fn lines(&mut self, screen: &Screen, step: &Step) -> Option<String> {
        let width = screen.width().unwrap_or(WIDTH_DEFAULT);
        let cut = |before: usize, words: &str| {
            table::cut(&escape::line(words), width.saturating_sub(before))
        };
        let name = escape::line(&step.name);
        Some(match step.kind {
            StepKind::Started => {
                let words = [step.name.as_str(), step.line.as_str()];
                let words: Vec<&str> = words.into_iter().filter(|it| !it.is_empty()).collect();
                screen.paint(Style::Dim, &cut(0, &format!("started: {}", words.join(", session "))))
            }
            StepKind::Said => {
                step.text.trim_end().clone_into(&mut self.last_words);
                escape::block(step.text.trim_end())
            }
            StepKind::Called => {
                let line = cut(name.chars().count() + 3, &step.line);
                format!("> {} {line}", screen.paint(Style::Bold, &name))
            }
            StepKind::Answered if step.line.is_empty() => return None,
            StepKind::Answered => {
                let more = step.text.trim().lines().count().saturating_sub(1);
                let more = if more > 0 { format!(" (+{more} lines)") } else { String::new() };
                let line = cut(2 + more.len(), &step.line);
                screen.paint(Style::Dim, &format!("  {line}{more}"))
            }
            StepKind::Failed => {
                let lines = step.text.lines().filter(|it| !it.trim().is_empty());
                let lines: Vec<String> =
                    lines.take(FAILED_LINES_MAX).map(|it| format!("  {}", cut(2, it))).collect();
                let words = if lines.is_empty() { vec![String::new()] } else { lines };
                format!("{}\n{}", screen.paint(Style::Red, "  failed:"), words.join("\n"))
            }
            StepKind::Retried => {
                screen.paint(Style::Yellow, &cut(0, &format!("retrying: {}", step.line)))
            }
            StepKind::Warned => {
                screen.paint(Style::Yellow, &cut(0, &format!("warning: {}", step.line)))
            }
            StepKind::Cut => screen.paint(Style::Dim, &cut(0, &step.line)),
            StepKind::Refused => {
                let words = format!("refused ({name}): {}", escape::line(&step.line));
                let hint = step.text.split_once('\n').map(|(_, hint)| hint);
                let hint = hint.map(|it| format!("\n  hint: {}", escape::line(it)));
                format!("{}{}", screen.paint(Style::Red, &words), hint.unwrap_or_default())
            }
            StepKind::Changed => {
                let words = format!("a person changed this call to: {name} {}", step.line);
                format!("  {}", screen.paint(Style::Yellow, &cut(2, &words)))
            }
            StepKind::Done => return None,
            // Of a job that was ended there are no words.
            StepKind::GaveUp if step.line.is_empty() => return None,
            StepKind::GaveUp if step.text.trim_end() == self.last_words => {
                screen.paint(Style::Red, "reported failure")
            }
            StepKind::GaveUp => {
                screen.paint(Style::Red, &cut(0, &format!("failed: {}", step.line)))
            }
        })
    }
}

/// Returns the usage of a job, with a line per model if there are several.
pub(in crate::cli::commands) fn spent(job: &Value) -> Vec<String> {
    let usage = &job["usage"];
    let tokens = |of: &Value| {
        let count = |name: &str| of[name].as_u64();
        let read = count("input_tokens").zip(count("output_tokens"));
        let (input, output) = read?;
        let input = input.saturating_add(count("cache_creation_input_tokens").unwrap_or(0));
        let cached = count("cache_read_input_tokens").filter(|it| *it > 0);
        let cached = cached.map(|it| format!(" and {it} from a cache")).unwrap_or_default();
        Some(format!("{input} tokens read{cached}, {output} written"))
    };
    let dollars = |of: &Value| of["cost_usd"].as_f64().map(|it| format!("{it:.4} USD"));
    let partly = usage["is_partial"] == true;
    let partly = partly.then(|| "as far as reported".to_owned());
    let all: Vec<String> = [dollars(job), tokens(usage), partly].into_iter().flatten().collect();
    let mut lines = Vec::new();
    if !all.is_empty() {
        lines.push(format!("spent: {}", all.join(", ")));
    }
    let models = usage["by_model"].as_array().filter(|it| it.len() > 1);
    for model in models.into_iter().flatten() {
        let parts: Vec<String> = [dollars(model), tokens(model)].into_iter().flatten().collect();
        lines.push(format!("  {}: {}", escape::line(text(model, "model")), parts.join(", ")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::terminal::screen::{Color, Form};
    use serde_json::json;

    fn shown(entries: &[Value], color: Color) -> String {
        let screen = Screen::new(Form::Words, color);
        let mut transcript = Transcript::default();
        let numbered = entries.iter().enumerate().map(|(at, entry)| {
            let mut entry = entry.clone();
            entry["seq"] = json!(at + 1);
            entry
        });
        let steps = numbered.filter_map(|it| Step::of(&it));
        let lines: Vec<String> = steps.filter_map(|it| transcript.lines(&screen, &it)).collect();
        lines.join("\n")
    }

    #[test]
    fn steps_are_lines_that_a_person_reads_and_a_terminal_does_not_obey() {
        let hostile = "\u{1b}]0;owned\u{7}\u{9b}2J";
        let entries = [
            json!({"type": "start", "model": "m-1", "session": "s"}),
            json!({"type": "text", "text": format!("I look.\n{hostile}")}),
            json!({"type": "tool_call", "name": format!("Bash{hostile}"),
                "input": json!({"command": format!("ls {hostile}\nrm")}).to_string()}),
            json!({"type": "tool_result", "ok": true, "text": format!("one{hostile}\ntwo\n")}),
            json!({"type": "tool_result", "ok": false, "text": format!("no {hostile}")}),
            json!({"type": "changed", "name": "Bash", "input": "{\"command\":\"echo y\"}"}),
            json!({"type": "refusal", "code": "stale_base", "message": format!("it moved{hostile}"),
                "hint": format!("start again{hostile}")}),
            json!({"type": "reset", "error": format!("overloaded{hostile}")}),
            json!({"type": "warning", "text": format!("it stopped{hostile}")}),
            json!({"type": "reset", "cut_bytes": 500}),
            json!({"type": "done", "ok": false, "text": format!("over{hostile}")}),
        ];
        let plain = shown(&entries, Color::Never);
        assert!(!plain.chars().any(|c| c.is_control() && c != '\n'), "{plain:?}");
        for words in [
            "started: m-1, session s\n",
            "\nI look.\n",
            "\n> Bash",
            " ls ",
            "\n  one",
            " (+1 lines)\n",
            "\n  failed:\n  no ",
            "\n  a person changed this call to: Bash echo y\n",
            "\nrefused (stale_base): it moved",
            "\n  hint: start again",
            "\nretrying: overloaded",
            "\nwarning: it stopped",
            "\n500 bytes of its output were passed over\n",
            "\nfailed: over",
        ] {
            assert!(plain.contains(words), "{words:?}: {plain}");
        }
        let colored = shown(&entries, Color::Always);
        let ours = colored.replace("\u{1b}[0m", "").replace("\u{1b}[1m", "");
        let ours = ["2", "31", "33"]
            .iter()
            .fold(ours, |text, it| text.replace(&format!("\u{1b}[{it}m"), ""));
        assert_eq!(ours, plain);
    }

    #[test]
    fn what_was_spent_is_told_by_model_if_there_are_several() {
        let job = json!({"cost_usd": 0.5, "usage": {
            "input_tokens": 10, "output_tokens": 2, "cache_creation_input_tokens": 5,
            "cache_read_input_tokens": 7, "is_partial": true,
            "by_model": [
                {"model": "a", "input_tokens": 4, "output_tokens": 1, "cost_usd": 0.25},
                {"model": "b\u{1b}", "input_tokens": 6, "output_tokens": 1},
            ],
        }});
        assert_eq!(
            spent(&job),
            [
                "spent: 0.5000 USD, 15 tokens read and 7 from a cache, 2 written, \
                 as far as reported",
                "  a: 0.2500 USD, 4 tokens read, 1 written",
                "  b\\u{1b}: 6 tokens read, 1 written",
            ]
        );
        assert!(spent(&json!({"usage": null, "cost_usd": null})).is_empty());
    }
}
