//! Durations as operators write them.

use std::time::Duration;

use crate::base::{Error, Result};

/// Parses a duration with a unit: `500ms`, `30s`, `5m`, `2h`, `7d`.
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
            ))
            .hint("the units are ms, s, m, h and d"));
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

/// Formats a duration as an operator would write it: `5m`, `90s`, `1500ms`.
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
