//! Times and durations in words.

use std::fmt;

use askama::filters::HtmlSafe;

use crate::base::Millis;

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;
/// Older times are shown as a date.
const DAYS_MAX: i64 = 14;

/// A time on a page: a `<time>` element, made only of digits and our own words.
#[derive(Clone, Copy, Debug)]
pub(in crate::http::pages) struct When {
    pub(in crate::http::pages) at: Millis,
    pub(in crate::http::pages) now: Millis,
}

impl HtmlSafe for When {}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, &said(self.at, self.now))
    }
}

impl When {
    fn write(self, f: &mut fmt::Formatter<'_>, said: &str) -> fmt::Result {
        let exact = self.at.rfc3339();
        let shown = exact.get(..19).unwrap_or(&exact).replace('T', " ");
        write!(f, "<time datetime=\"{exact}\" title=\"{shown} UTC\">{said}</time>")
    }
}

/// A time to come on a page: how long until then.
#[derive(Clone, Copy, Debug)]
pub(in crate::http::pages) struct Until(pub(super) When);

impl HtmlSafe for Until {}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, &left(self.0.at, self.0.now))
    }
}

fn left(at: Millis, now: Millis) -> String {
    match at.0.saturating_sub(now.0) {
        ms if ms < 1_000 => "now".to_owned(),
        ms => format!("in {}", rough(ms)),
    }
}

fn said(at: Millis, now: Millis) -> String {
    let past = now.0.saturating_sub(at.0);
    // A time slightly in the future means that a clock was set, not an appointment.
    if past < -10_000 {
        return format!("in {}", rough(-past));
    }
    match past {
        ..10_000 => "just now".to_owned(),
        past if past < DAYS_MAX * DAY_MS => format!("{} ago", rough(past)),
        _ => at.rfc3339().get(..10).unwrap_or_default().to_owned(),
    }
}

fn rough(ms: i64) -> String {
    match ms {
        ms if ms < MINUTE_MS => format!("{} s", ms / 1_000),
        ms if ms < HOUR_MS => format!("{} min", ms / MINUTE_MS),
        ms if ms < 2 * DAY_MS => format!("{} h", ms / HOUR_MS),
        ms => format!("{} days", ms / DAY_MS),
    }
}

/// Returns a duration: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`.
pub(in crate::http::pages) fn span(ms: i64) -> String {
    let both = |large: i64, unit: &str, small: i64, sub: &str| match small {
        0 => format!("{large} {unit}"),
        small => format!("{large} {unit} {small} {sub}"),
    };
    match ms.max(0) {
        ..100 => "less than 0.1 s".to_owned(),
        ms if ms < 1_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        ms if ms < MINUTE_MS => format!("{} s", ms / 1_000),
        ms if ms < HOUR_MS => both(ms / MINUTE_MS, "min", ms % MINUTE_MS / 1_000, "s"),
        ms => both(ms / HOUR_MS, "h", ms % HOUR_MS / MINUTE_MS, "min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_said_as_a_person_would() {
        let now = Millis(1_700_000_000_000);
        for (past, words) in [
            (0, "just now"),
            (-3_000, "just now"),
            (12_000, "12 s ago"),
            (3 * MINUTE_MS + 1, "3 min ago"),
            (47 * HOUR_MS, "47 h ago"),
            (3 * DAY_MS, "3 days ago"),
            (20 * DAY_MS, "2023-10-25"),
            (-5 * MINUTE_MS, "in 5 min"),
        ] {
            assert_eq!(said(now.plus(-past), now), words);
        }
        for (ms, words) in [(8_400, "in 8 s"), (5 * MINUTE_MS, "in 5 min"), (-1, "now")] {
            assert_eq!(left(now.plus(ms), now), words);
        }
        let html = When { at: now, now }.to_string();
        assert!(html.contains("datetime=\"2023-11-14T22:13:20.000Z\""), "{html}");
        assert!(html.contains("title=\"2023-11-14 22:13:20 UTC\""), "{html}");
    }

    #[test]
    fn a_span_has_two_units_at_most() {
        for (ms, words) in [
            (-1, "less than 0.1 s"),
            (430, "0.4 s"),
            (12_900, "12 s"),
            (60_000, "1 min"),
            (200_000, "3 min 20 s"),
            (7_500_000, "2 h 5 min"),
        ] {
            assert_eq!(span(ms), words);
        }
    }
}
