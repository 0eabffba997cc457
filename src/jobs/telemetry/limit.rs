//! Detects rate limits in the messages of agents, and when they end.
//!
//! Only messages of failed runs are searched. A time of day without a time zone is in the machine's
//! zone, as the agents mean it.

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use crate::base::Millis;

/// Farthest plausible time: the longest quotas of the providers are weekly.
pub(in crate::jobs) const AHEAD_MS_MAX: i64 = 8 * 24 * 3_600_000;
/// HTTP statuses of rate limits and overload.
pub(super) const LIMIT_STATUSES: [u64; 2] = [429, 529];
/// Longest text searched, in characters.
const WORDS_CHARS_MAX: usize = 4_000;

/// A provider's rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::jobs) struct Limit {
    /// When it ends, if the agent said so.
    pub(in crate::jobs) retry_at: Option<Millis>,
    /// Whether it was found in prose for people: a document about limits reads the same, so other
    /// jobs do not wait for its time.
    pub(in crate::jobs) is_prose: bool,
}

/// Phrases in messages of Claude Code, Codex, Gemini and their providers, in lower case.
const SAYINGS: [&str; 21] = [
    "usage limit reached",
    "usage limit has been reached",
    "hit your usage limit",
    "hit your limit",
    "hit your session limit",
    "hit your weekly limit",
    "hour limit reached",
    "weekly limit reached",
    "rate_limit_error",
    "rate limit reached",
    "429 too many requests",
    "rejected (429)",
    "overloaded_error",
    "529 overloaded",
    "unexpected status 429",
    "unexpected status 529",
    "resource_exhausted",
    "exceeded your current quota",
    "exhausted your capacity",
    "exhausted your daily quota",
    "model is overloaded",
];

/// Returns the rate limit that a message reports, if any.
pub(in crate::jobs) fn in_words(text: &str, now: Millis) -> Option<Limit> {
    let text: String = text.chars().take(WORDS_CHARS_MAX).collect();
    let small = text.to_lowercase().replace('\u{2019}', "'");
    if !SAYINGS.iter().any(|it| small.contains(it)) {
        return None;
    }
    Some(Limit { retry_at: when(&small, now), is_prose: false })
}

/// Returns the rate limit that prose reports, if any.
pub(in crate::jobs) fn in_prose(text: &str, now: Millis) -> Option<Limit> {
    in_words(text, now).map(|it| Limit { is_prose: true, ..it })
}

/// Returns the time of seconds since 1970.
pub(super) fn of_seconds(seconds: i64, now: Millis) -> Option<Millis> {
    believed(seconds.checked_mul(1_000)?, now)
}

/// Returns the time this many seconds from now.
pub(super) fn after_seconds(seconds: i64, now: Millis) -> Option<Millis> {
    believed(now.0.checked_add(seconds.checked_mul(1_000)?)?, now)
}

/// Returns when the limit ends, according to a message.
pub(super) fn when(small: &str, now: Millis) -> Option<Millis> {
    if let Some((_, rest)) = small.split_once("limit reached|") {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).take(12).collect();
        return of_seconds(digits.parse().ok()?, now);
    }
    let waits = ["try again in ", "retry in ", "reset after "];
    if let Some((_, rest)) = waits.iter().find_map(|mark| small.split_once(mark)) {
        return believed(now.0.checked_add(span_ms(rest)?)?, now);
    }
    let marks = ["try again at ", "resets at ", "reset at ", "resets "];
    let rest = marks.iter().find_map(|mark| small.split_once(mark))?.1;
    let at = clock_time(rest, now)?;
    believed(at.as_millisecond(), now)
}

fn believed(at_ms: i64, now: Millis) -> Option<Millis> {
    (1..=AHEAD_MS_MAX).contains(&at_ms.checked_sub(now.0)?).then_some(Millis(at_ms))
}

/// Parses `11.054s`, `20 seconds`, `1h30m`, `3 days 4 hours 5 minutes`.
fn span_ms(text: &str) -> Option<i64> {
    let mut total = 0.0_f64;
    let mut rest = text;
    let mut has_some = false;
    while let Some((number, unit, after)) = number_with_unit(rest) {
        let scale = match unit {
            "ms" | "millisecond" | "milliseconds" => 1.0,
            "s" | "sec" | "secs" | "second" | "seconds" => 1_000.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60_000.0,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000.0,
            "d" | "day" | "days" => 86_400_000.0,
            _ => break,
        };
        total += number * scale;
        has_some = true;
        rest = after;
    }
    let is_usable = has_some && total.is_finite() && total < 1e12;
    is_usable.then(|| total.ceil() as i64)
}

fn number_with_unit(text: &str) -> Option<(f64, &str, &str)> {
    let text = text.trim_start_matches([' ', ',']);
    let text = text.strip_prefix("and ").unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].trim_end_matches('.').parse().ok()?;
    let rest = text[end..].trim_start();
    let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    Some((number, &rest[..end], &rest[end..]))
}

/// Parses `3pm (Europe/Berlin)`, `3:45 PM.`, `Nov 30th, 2026 10:15 PM`, `Mon 12:00am`; returns the
/// next such time.
fn clock_time(text: &str, now: Millis) -> Option<Timestamp> {
    let zone = zone(text);
    let present = Timestamp::from_millisecond(now.0).ok()?;
    let here = present.to_zoned(zone.clone());
    let (mut month, mut day, mut year, mut weekday) = (None, None, None, None);
    let words = text.split([' ', ',']).map(|it| it.trim_matches(['.', '(', ')', ';', '·']));
    let words: Vec<&str> = words.filter(|it| !it.is_empty()).take(8).collect();
    for (place, word) in words.iter().enumerate() {
        let half = words.get(place + 1).copied().unwrap_or_default();
        if let Some(time) = time_of_day(word, half) {
            let date = match (month, day) {
                (Some(month), Some(day)) => {
                    let year = year.unwrap_or(here.year());
                    Some(Date::new(year, month, day).ok()?)
                }
                _ => None,
            };
            return next(here.date(), date, weekday, time, &zone, present);
        }
        let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        if let Some(name) = month_of(word) {
            month = Some(name);
        } else if let Some(name) = weekday_of(word) {
            weekday = Some(name);
        } else if let Ok(number) = digits.parse::<i16>() {
            match number {
                1..=31 => day = i8::try_from(number).ok(),
                _ => year = Some(number),
            }
        } else if *word != "at" {
            return None;
        }
    }
    None
}

fn next(
    today: Date,
    date: Option<Date>,
    weekday: Option<Weekday>,
    time: Time,
    zone: &TimeZone,
    present: Timestamp,
) -> Option<Timestamp> {
    let at = |date: Date| Some(date.to_datetime(time).to_zoned(zone.clone()).ok()?.timestamp());
    if let Some(date) = date {
        return at(date);
    }
    for days in 0..=7 {
        let date = today.checked_add(days.days()).ok()?;
        let is_meant = weekday.is_none_or(|it| date.weekday() == it);
        if let Some(found) = at(date).filter(|it| is_meant && *it > present) {
            return Some(found);
        }
    }
    None
}

fn zone(text: &str) -> TimeZone {
    let named = text.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    // Names of time zones are case-insensitive.
    named.and_then(|(name, _)| TimeZone::get(name).ok()).unwrap_or_else(TimeZone::system)
}

fn time_of_day(word: &str, after: &str) -> Option<Time> {
    let (digits, half) = match word.strip_suffix("am").map(|it| (it, "am")) {
        Some(found) => found,
        None => match word.strip_suffix("pm") {
            Some(digits) => (digits, "pm"),
            None => (word, after),
        },
    };
    let (hour, minute) = match digits.split_once(':') {
        Some((hour, minute)) => (hour.parse::<i8>().ok()?, minute.get(..2)?.parse::<i8>().ok()?),
        None => (digits.parse::<i8>().ok()?, 0),
    };
    let hour = match half {
        "am" if (1..=12).contains(&hour) => hour % 12,
        "pm" if (1..=12).contains(&hour) => hour % 12 + 12,
        // Without am or pm it is only a time if it contains a colon.
        _ if digits.contains(':') => hour,
        _ => return None,
    };
    Time::new(hour, minute, 0, 0).ok()
}

fn month_of(word: &str) -> Option<i8> {
    let names =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let place = names.iter().position(|it| word.starts_with(it))?;
    i8::try_from(place + 1).ok()
}

fn weekday_of(word: &str) -> Option<Weekday> {
    let names = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    let place = names.iter().position(|it| word.starts_with(it))?;
    Weekday::from_monday_one_offset(i8::try_from(place + 1).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-22T13:30:00Z, a Sunday.
    const NOW: Millis = Millis(1_795_354_200_000);

    fn at(text: &str) -> Option<String> {
        in_words(text, NOW).unwrap().retry_at.map(|it| it.rfc3339())
    }

    #[test]
    fn times_are_read_as_the_agents_write_them() {
        assert_eq!(NOW.rfc3339(), "2026-11-22T13:30:00.000Z");
        for (text, expected) in [
            ("Claude AI usage limit reached|1795361400", "2026-11-22T15:30:00.000Z"),
            ("You've hit your limit · resets 3pm (UTC)", "2026-11-22T15:00:00.000Z"),
            ("You've hit your session limit · resets 1pm (UTC)", "2026-11-23T13:00:00.000Z"),
            (
                "You\u{2019}ve hit your weekly limit · resets Mon 12:00am (UTC)",
                "2026-11-23T00:00:00.000Z",
            ),
            ("5-hour limit reached · resets 3:05am (Asia/Shanghai)", "2026-11-22T19:05:00.000Z"),
            ("You've hit your limit · resets Nov 25, 10am (Etc/UTC)", "2026-11-25T10:00:00.000Z"),
            ("429 Too Many Requests. Please try again in 11.054s.", "2026-11-22T13:30:11.054Z"),
            ("Rate limit reached. Try again in 1h30m", "2026-11-22T15:00:00.000Z"),
            (
                "You've hit your usage limit. Try again in 3 days 4 hours 5 minutes.",
                "2026-11-25T17:35:00.000Z",
            ),
        ] {
            assert_eq!(at(text).as_deref(), Some(expected), "{text}");
        }
        // In the machine's time zone, whichever that is.
        for text in [
            "You've hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro) or try \
             again at 3:45 PM.",
            "You've hit your usage limit. Try again at Nov 29th, 2026 10:15 PM.",
        ] {
            assert!(at(text).is_some(), "{text}");
        }
    }

    #[test]
    fn a_limit_without_a_time_that_can_be_believed_has_none() {
        for text in [
            "You've hit your usage limit. Try again later.",
            "exceeded retry limit, last status: 429 Too Many Requests, request id: 9c84",
            "API Error: 529 Overloaded. This is a server-side issue",
            "Claude AI usage limit reached|99999999999",
            "Claude AI usage limit reached|1",
            "Claude AI usage limit reached|",
            "usage limit reached, resets someday",
            "usage limit reached, resets 99:99pm (Nowhere/Land)",
            "usage limit reached, try again in 99999999 days",
            "usage limit reached, try again in 0.0.0s",
            "You've hit your limit · resets Jan 3, 2031 10am (UTC)",
        ] {
            assert_eq!(at(text), None, "{text}");
        }
    }

    #[test]
    fn other_words_are_no_limit() {
        for text in ["", "401 Unauthorized", "the limits of rates", "line 429", "overload"] {
            assert_eq!(in_words(text, NOW), None, "{text}");
        }
        let long = format!("{}429 too many requests", "x".repeat(WORDS_CHARS_MAX));
        assert_eq!(in_words(&long, NOW), None);
    }
}
