//! An agent that prints plain text: each line is an entry, and the last lines are its last words.
//!
//! There are no tokens, no cost and no final result. A rate limit only counts at the end of the
//! output, because a text about limits is just a text.

use serde_json::json;

use crate::base::Millis;
use crate::jobs::telemetry::{Reading, Report, limit};

/// Number of lines in the agent's last words.
const LAST_LINES: usize = 5;

/// Parses one line.
pub(super) fn read_line(line: &str, now: Millis, report: &mut Report) -> Reading {
    let before = report.summary.take().unwrap_or_default();
    let mut lines: Vec<&str> = before.lines().collect();
    lines.push(line);
    let last = lines.split_off(lines.len().saturating_sub(LAST_LINES));
    report.limit = last.iter().rev().find_map(|it| limit::in_prose(it, now));
    report.summary = Some(last.join("\n"));
    Reading::one(json!({"type": "text", "text": line}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_what_it_said() {
        let mut report = Report::default();
        for number in 1..=7 {
            let reading = read_line(&format!("line {number}"), Millis(0), &mut report);
            assert_eq!(reading.turn, None);
            assert_eq!(reading.entries.len(), 1);
        }
        assert_eq!(report.summary.as_deref(), Some("line 3\nline 4\nline 5\nline 6\nline 7"));
        assert!(report.limit.is_none() && report.usage.is_none() && report.cost_usd.is_none());
    }

    #[test]
    fn a_limit_counts_at_the_end_only() {
        let mut report = Report::default();
        read_line("You've hit your usage limit. Try again later.", Millis(0), &mut report);
        assert!(report.limit.is_some());
        for number in 1..=5 {
            read_line(&format!("line {number}"), Millis(0), &mut report);
        }
        assert!(report.limit.is_none());
    }
}
