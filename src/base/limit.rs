//! The limits of the program in one place, and the units in which an operator writes limits.

use std::time::Duration;

use crate::base::{Error, Result};

/// Longest path of a Source, in bytes (below Linux's PATH_MAX of 4,096).
pub const SOURCE_PATH_BYTES_MAX: usize = 1_024;
/// Largest Source that is read, proposed or committed, in bytes.
pub const SOURCE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Longest message of a Topic, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Most messages of one Topic.
pub const TOPIC_MESSAGES_MAX: i64 = 10_000;
/// Most messages that one job writes in a Topic: the rest of the room is for people.
pub const JOB_MESSAGES_MAX: i64 = 20;
/// Most proposals that one job hands in; the last one counts.
pub const JOB_PROPOSALS_MAX: i64 = 10;
/// Longest single-line input of a job, in bytes.
pub const LINE_BYTES_MAX: usize = 4 * 1024;
/// Longest `text` input of a job, and so about the longest prompt, in bytes.
pub const TEXT_INPUT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Kept end of an agent's stderr in the job's row, in bytes (document A).
pub const ERROR_TAIL_BYTES_MAX: usize = 4 * 1024;
/// First bytes of an agent's output stream that are kept.
pub const OUTPUT_HEAD_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Last bytes of an agent's output stream that are kept.
pub const OUTPUT_TAIL_BYTES_MAX: u64 = 1024 * 1024;
/// Largest result that a job may hand in by `wb-agent finish`, in bytes.
pub const RESULT_BYTES_MAX: usize = 1024 * 1024;
/// Longest summary or reason, in bytes.
pub const SUMMARY_BYTES_MAX: usize = 4 * 1024;
/// Most jobs that wait in one lane.
pub const LANE_QUEUED_MAX: i64 = 1_000;
/// Most jobs that wait in all.
pub const QUEUED_MAX: i64 = 10_000;
/// Farthest place of a job before or behind the others that wait.
pub const PRIORITY_MAX: i64 = 100;
/// Most rows of one page of a list.
pub const PAGE_ROWS_MAX: u32 = 200;
/// Rows of one page of a list if nothing is asked (document A).
pub const PAGE_ROWS_DEFAULT: u32 = 20;

/// Reads a duration with a unit: `500ms`, `30s`, `5m`, `2h`, `7d`.
///
/// # Errors
/// `invalid` without a unit, for zero, and above 366 days.
pub fn parse_duration(text: &str) -> Result<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "" => {
            return Err(Error::invalid(format!(
                "a duration needs a unit: write \"{text}s\" or \"{text}m\""
            )));
        }
        _ => {
            return Err(Error::invalid(format!(
                "`{text}` is not a duration like \"30s\" or \"5m\""
            )));
        }
    };
    let ms = number.parse::<u64>().ok().and_then(|n| n.checked_mul(scale_ms));
    match ms {
        Some(ms) if (1..=366 * 86_400_000).contains(&ms) => Ok(Duration::from_millis(ms)),
        _ => Err(Error::invalid(format!("`{text}` is not between 1ms and 366d"))),
    }
}

/// Writes a duration as an operator would: `5m`, `90s`, `1500ms`.
pub fn format_duration(duration: Duration) -> String {
    let ms = duration.as_millis();
    for (scale, unit) in [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")] {
        if ms >= scale && ms.is_multiple_of(scale) {
            return format!("{}{unit}", ms / scale);
        }
    }
    format!("{ms}ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("5m").unwrap(), Duration::from_secs(300));
        assert_eq!(parse_duration("250ms").unwrap(), Duration::from_millis(250));
        for bad in ["", "5", "m", "5 m", "-5m", "5min", "0s", "99999999999999999999d", "400d"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
        assert!(parse_duration("300").unwrap_err().message().contains("300s"));
    }

    #[test]
    fn a_duration_is_written_as_it_is_read() {
        for text in ["5m", "90s", "2h", "1500ms", "7d"] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
    }
}
