//! Times and durations for people.

use crate::base::limit::parse_duration;
use crate::base::{Millis, Result};

/// Parses an RFC 3339 time.
pub(in crate::cli) fn parse(text: &str) -> Option<Millis> {
    text.parse::<jiff::Timestamp>().ok().map(|at| Millis(at.as_millisecond()))
}

/// Parses a time, or a delay from now.
///
/// # Errors
/// `invalid` for what is neither.
pub(in crate::cli) fn point(now: Millis, given: &str) -> Result<String> {
    if let Some(at) = parse(given) {
        return Ok(at.rfc3339());
    }
    let wait = parse_duration(given.strip_prefix('+').unwrap_or(given)).map_err(|cause| {
        cause.hint("use a time such as 2026-01-02T03:04:05Z, or a delay such as +30s, 5m or 2h")
    })?;
    let ms = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
    Ok(now.plus(ms).rfc3339())
}

/// Returns the past point in time that a person means by a time or by an age.
///
/// # Errors
/// `invalid` for what is neither.
pub(in crate::cli) fn past(now: Millis, given: &str) -> Result<String> {
    if let Some(at) = parse(given) {
        return Ok(at.rfc3339());
    }
    let age = parse_duration(given).map_err(|cause| {
        cause.hint("use a time such as 2026-01-02T03:04:05Z, or an age such as 30m, 2h or 3d")
    })?;
    let ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    Ok(now.plus(ms.saturating_neg()).rfc3339())
}

/// Returns how long ago an RFC 3339 time was, in one unit; any other text is returned unchanged.
pub(in crate::cli) fn ago(now: Millis, text: &str) -> String {
    parse(text).map_or_else(|| text.to_owned(), |at| since(now, at))
}

/// Returns how long ago a time was, in one unit.
pub(in crate::cli) fn since(now: Millis, at: Millis) -> String {
    let seconds = (now.0 - at.0) / 1000;
    if seconds.abs() < 5 {
        return "just now".to_owned();
    }
    let (count, unit) = one_unit(seconds.unsigned_abs());
    if seconds < 0 { format!("in {count} {unit}") } else { format!("{count} {unit} ago") }
}

/// The same, with seconds for times within the next hour, because somebody is waiting.
pub(in crate::cli) fn exact(now: Millis, text: &str) -> String {
    match parse(text).map(|at| at.0 - now.0) {
        Some(ahead @ 60_000..3_600_000) => format!("in {}", span(ahead)),
        _ => ago(now, text),
    }
}

fn one_unit(seconds: u64) -> (u64, &'static str) {
    match seconds {
        0..60 => (seconds, "s"),
        60..3_600 => (seconds / 60, "min"),
        3_600..86_400 => (seconds / 3_600, "h"),
        86_400..172_800 => (1, "day"),
        172_800..63_072_000 => (seconds / 86_400, "days"),
        _ => (seconds / 31_536_000, "years"),
    }
}

/// Returns a duration as `8s`, `1m05s` or `2h03m`.
pub(in crate::cli) fn span(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_in_one_unit() {
        let now = parse("2026-01-02T03:04:05.678Z").unwrap();
        for (text, told) in [
            ("2026-01-02T03:04:04Z", "just now"),
            ("2026-01-02T03:03:35Z", "30 s ago"),
            ("2026-01-02T03:00:05Z", "4 min ago"),
            ("2026-01-01T05:04:05+01:00", "23 h ago"),
            ("2025-12-31T03:04:05Z", "2 days ago"),
            ("2022-01-02T03:04:05Z", "4 years ago"),
            ("2026-01-02T03:14:06Z", "in 10 min"),
            ("yesterday", "yesterday"),
        ] {
            assert_eq!(ago(now, text), told);
        }
        for (text, told) in [
            ("", ""),
            ("2026-01-02T03:14:06.678Z", "in 10m01s"),
            ("2026-01-02T03:04:55Z", "in 49 s"),
            ("2026-01-02T05:04:06Z", "in 2 h"),
            ("2026-01-02T03:00:05Z", "4 min ago"),
        ] {
            assert_eq!(exact(now, text), told);
        }
    }

    #[test]
    fn a_span_has_two_units_at_most() {
        assert_eq!([span(-5), span(65_000), span(7_380_000)], ["0s", "1m05s", "2h03m"]);
    }
}
