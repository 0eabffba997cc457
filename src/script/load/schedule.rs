//! `wb.schedule "name" { … }`: jobs that are requested regularly.
//!
//! **Invariant:** the next time follows from the declaration and the previous time alone, so that a
//! test needs neither a clock nor a server.

use std::time::Duration;

use jiff::civil::{Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::base::limit::format_duration;
use crate::base::{Millis, digest_hex};
use crate::script::load::extract::{Checked, Given};
use crate::script::load::node::Declared;
use crate::script::source::diagnostic::{Diagnostic, Findings, suggestion};
use crate::script::source::location::{Location, Slot};
use crate::script::vm::dates::{zone_note, zone_of};

/// Names of the days of the week.
const DAYS: [(&str, Weekday); 7] = [
    ("monday", Weekday::Monday),
    ("tuesday", Weekday::Tuesday),
    ("wednesday", Weekday::Wednesday),
    ("thursday", Weekday::Thursday),
    ("friday", Weekday::Friday),
    ("saturday", Weekday::Saturday),
    ("sunday", Weekday::Sunday),
];
/// Shortest interval.
const EVERY_MIN: Duration = Duration::from_secs(1);
/// The shortest interval of `at` without `days`.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Schedule {
    /// Its name.
    pub name: String,
    /// Its purpose, for people.
    pub about: Option<String>,
    /// When it is due.
    pub timing: Timing,
    /// Maximum delay.
    #[serde(skip)]
    pub jitter: Duration,
    /// What happens to runs missed while no server ran.
    pub missed: Missed,
    /// What it requests.
    pub enqueue: Wanted,
    /// Where it is declared.
    pub at: Location,
}

/// When a schedule is due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    /// An interval, in milliseconds.
    Every(u64),
    /// At a time of some days.
    At {
        /// `07:30`.
        time: String,
        /// Names of days; empty for all.
        days: Vec<String>,
        /// The zone, or `local`.
        zone: String,
    },
}

/// What happens to runs missed while no server ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// All of them together run once, as soon as a server runs.
    Once,
    /// They are left out.
    Skip,
}

impl Missed {
    /// Returns the word in the script.
    pub fn as_str(self) -> &'static str {
        match self {
            Missed::Once => "once",
            Missed::Skip => "skip",
        }
    }
}

/// What a schedule has done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// A job: `kind`, together with its inputs.
    Job(Map<String, Value>),
    /// Whatever a function requests.
    Function(Slot),
}

impl Schedule {
    /// Returns its time as a person reads it, which is also how the database tells whether it is
    /// the same as before.
    pub fn describe(&self) -> String {
        let jitter = match self.jitter.is_zero() {
            true => String::new(),
            false => format!(", up to {} later", format_duration(self.jitter)),
        };
        match &self.timing {
            Timing::Every(ms) => {
                format!("every {}{jitter}", format_duration(Duration::from_millis(*ms)))
            }
            Timing::At { time, days, zone } => {
                let on = if days.is_empty() { "daily".to_owned() } else { days.join(", ") };
                format!("{on} at {time} ({zone}){jitter}")
            }
        }
    }

    /// Returns the first time after `after`; `every` counts from `planned`, the previous scheduled
    /// time, or from `after` without one.
    pub fn next(&self, planned: Option<Millis>, after: Millis) -> Millis {
        match &self.timing {
            Timing::Every(ms) => {
                let step = i64::try_from(*ms).unwrap_or(i64::MAX).max(1);
                let from = planned.unwrap_or(after);
                let passed = after.0.saturating_sub(from.0).max(0) / step;
                from.plus(step.saturating_mul(passed.saturating_add(1)))
            }
            Timing::At { time, days, zone } => {
                let zone = zone_of(zone).unwrap_or(TimeZone::UTC);
                next_at(time, days, &zone, after).unwrap_or_else(|| after.plus(86_400_000))
            }
        }
    }

    /// Returns a scheduled time with its jitter, which is always the same for the same time.
    pub fn with_jitter(&self, planned: Millis) -> Millis {
        let most = u64::try_from(self.jitter.as_millis()).unwrap_or(u64::MAX);
        if most == 0 {
            return planned;
        }
        let digest = digest_hex(format!("{}\n{}", self.name, planned.0));
        let number = u64::from_str_radix(digest.get(..12).unwrap_or("0"), 16).unwrap_or(0);
        planned.plus(i64::try_from(number % most).unwrap_or(0))
    }
}

/// A time skipped by a clock change runs right after it; a repeated one runs once.
fn next_at(time: &str, days: &[String], zone: &TimeZone, after: Millis) -> Option<Millis> {
    let time = parse_time(time)?;
    let after = Timestamp::from_millisecond(after.0).ok()?;
    let mut date = after.to_zoned(zone.clone()).date();
    let is_day = |weekday| {
        let name = DAYS.iter().find(|(_, it)| *it == weekday).map(|(name, _)| *name);
        days.is_empty() || days.iter().any(|it| Some(it.as_str()) == name)
    };
    for _ in 0..=8 {
        if is_day(date.weekday()) {
            let at: Zoned = date.to_datetime(time).to_zoned(zone.clone()).ok()?;
            if at.timestamp() > after {
                return Some(Millis(at.timestamp().as_millisecond()));
            }
        }
        date = date.tomorrow().ok()?;
    }
    None
}

/// Returns the time of day that was probably meant: `08:00` for `8:00`, `8am` or `8`.
fn time_meant(text: &str) -> String {
    let text = text.trim().to_ascii_lowercase();
    let (digits, shift) = match (text.strip_suffix("am"), text.strip_suffix("pm")) {
        (Some(digits), _) => (digits, Some(0)),
        (_, Some(digits)) => (digits, Some(12)),
        _ => (text.as_str(), None),
    };
    let (hour, minute) = digits.trim().split_once([':', '.', 'h']).unwrap_or((digits.trim(), "0"));
    let minute = if minute.is_empty() { "0" } else { minute };
    let parts: (Result<u8, _>, Result<u8, _>) = (hour.parse(), minute.parse());
    match (parts, shift) {
        ((Ok(hour), Ok(minute @ 0..60)), None) if hour < 24 => format!("{hour:02}:{minute:02}"),
        ((Ok(hour @ 1..=12), Ok(minute @ 0..60)), Some(shift)) => {
            format!("{:02}:{minute:02}", hour % 12 + shift)
        }
        _ => "07:30".to_owned(),
    }
}

fn parse_time(text: &str) -> Option<Time> {
    let (hour, minute) = text.split_once(':')?;
    let is_two = |it: &str| it.len() == 2 && it.bytes().all(|byte| byte.is_ascii_digit());
    if !is_two(hour) || !is_two(minute) {
        return None;
    }
    Time::new(hour.parse().ok()?, minute.parse().ok()?, 0, 0).ok()
}

/// Builds a schedule from its declaration.
pub(crate) fn build(declared: &Declared, checked: &Checked, findings: &mut Findings) -> Schedule {
    let title = declared.title();
    let mut error = |code, message: String, name: &str, note: &str| {
        findings.add(Diagnostic::error(code, message).at(checked.spot(name)).note(note));
    };
    let timing = match (checked.duration("every"), checked.text("at")) {
        (Some(_), Some(_)) => {
            let note = "leave one of them out";
            error("broken-rule", format!("{title} has both `every` and `at`"), "at", note);
            Timing::Every(0)
        }
        (Some(every), None) => {
            for name in ["days", "zone"].into_iter().filter(|it| checked.has(it)) {
                let message = format!("`{name}` of {title} is for `at`, not for `every`");
                error("broken-rule", message, name, "leave it out");
            }
            if every < EVERY_MIN {
                let message = format!("`every` of {title} is shorter than a second");
                error("out-of-range", message, "every", "write every = \"1m\", or more");
            }
            Timing::Every(u64::try_from(every.as_millis()).unwrap_or(u64::MAX))
        }
        (None, Some(time)) => {
            if parse_time(time).is_none() {
                let message =
                    format!("`at` of {title} is `{}`, no time of day", time.escape_debug());
                error("bad-time", message, "at", &format!("write \"{}\"", time_meant(time)));
            }
            let zone = checked.text("zone").unwrap_or("local");
            if zone_of(zone).is_none() {
                let message = format!("unknown time zone `{}`", zone.escape_debug());
                error("bad-zone", message, "zone", &zone_note(zone));
            }
            Timing::At { time: time.to_owned(), days: Vec::new(), zone: zone.to_owned() }
        }
        (None, None) => {
            if !checked.is_wrong("every") && !checked.is_wrong("at") {
                let note = "write every = \"1h\" or at = \"07:30\"";
                error("missing-field", format!("{title} has no time"), "every", note);
            }
            Timing::Every(0)
        }
    };
    let timing = with_days(timing, title, checked, findings);
    let jitter = checked.duration("jitter").unwrap_or_default();
    warn_of_jitter(&timing, jitter, (title, checked), findings);
    let enqueue = match checked.given("enqueue") {
        Some(Given::Function(slot)) => Wanted::Function(slot.clone()),
        Some(Given::Request(request, _)) => Wanted::Job(request.clone()),
        _ => Wanted::Job(Map::new()),
    };
    Schedule {
        name: declared.name.clone().unwrap_or_default(),
        about: checked.text("about").map(str::to_owned),
        timing,
        jitter,
        missed: if checked.text("missed") == Some("skip") { Missed::Skip } else { Missed::Once },
        enqueue,
        at: declared.spot.at(),
    }
}

/// Returns the smallest number of days from one of these days to the next; all days by default.
fn days_between(days: &[String]) -> u32 {
    let is_on = |it: usize| {
        let name = DAYS[it % DAYS.len()].0;
        days.is_empty() || days.iter().any(|day| day == name)
    };
    let to_next = |from: usize| (1..=DAYS.len()).find(|it| is_on(from + it));
    let all = (0..DAYS.len()).filter(|it| is_on(*it)).filter_map(to_next);
    all.min().and_then(|it| u32::try_from(it).ok()).unwrap_or(1)
}

/// Warns if a run may be delayed until the next one is due, which is dropped then.
fn warn_of_jitter(
    timing: &Timing,
    jitter: Duration,
    (title, checked): (&str, &Checked),
    findings: &mut Findings,
) {
    let interval = match timing {
        // A wrong interval has its own finding.
        Timing::Every(0) => return,
        Timing::Every(ms) => Duration::from_millis(*ms),
        Timing::At { days, .. } => DAY * days_between(days),
    };
    if jitter < interval {
        return;
    }
    let (most, every) = (format_duration(jitter), format_duration(interval));
    let message = format!("`jitter` of {title} is {most}, not below its interval of {every}");
    let note = "a run that falls due before a delayed one is dropped: write less";
    let finding = Diagnostic::warning("out-of-range", message).at(checked.spot("jitter"));
    findings.add(finding.note(note));
}

fn with_days(timing: Timing, title: &str, checked: &Checked, findings: &mut Findings) -> Timing {
    let Timing::At { time, zone, .. } = timing else { return timing };
    let mut days = Vec::new();
    for (day, spot) in checked.lines("days") {
        if DAYS.iter().any(|(name, _)| name == day) {
            days.push(day.clone());
        } else {
            let message = format!("`{}` in `days` of {title} is not a day", day.escape_debug());
            let note = suggestion(day, DAYS.iter().map(|(name, _)| *name));
            findings.add(Diagnostic::error("unknown-word", message).at(spot).note(note));
        }
    }
    Timing::At { time, days, zone }
}

/// Returns a schedule for tests.
#[cfg(test)]
fn example(every: &str) -> Schedule {
    let every = crate::base::limit::parse_duration(every).unwrap();
    Schedule {
        name: "s".to_owned(),
        about: None,
        timing: Timing::Every(every.as_millis() as u64),
        jitter: Duration::ZERO,
        missed: Missed::Once,
        enqueue: Wanted::Job(Map::new()),
        at: Location { file: camino::Utf8Path::new("x").into(), line: 1, column: 1 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_written_otherwise_is_told_as_it_must_be() {
        for (text, meant) in [
            ("8:00", "08:00"),
            ("8", "08:00"),
            ("8 AM", "08:00"),
            ("12am", "00:00"),
            ("7.30pm", "19:30"),
            ("8h", "08:00"),
            ("25:00", "07:30"),
            ("7:99", "07:30"),
            ("noon", "07:30"),
            ("", "07:30"),
        ] {
            assert_eq!(time_meant(text), meant, "{text}");
        }
    }

    fn at(text: &str) -> Millis {
        Millis(text.parse::<Timestamp>().unwrap().as_millisecond())
    }

    fn daily(time: &str, days: &[&str], zone: &str) -> Schedule {
        let days = days.iter().map(|it| (*it).to_owned()).collect();
        let timing = Timing::At { time: time.to_owned(), days, zone: zone.to_owned() };
        Schedule { timing, ..example("1h") }
    }

    #[test]
    fn every_keeps_its_beat_whatever_was_missed() {
        let hourly = example("1h");
        let start = at("2026-01-02T03:10:00Z");
        assert_eq!(hourly.next(None, start), at("2026-01-02T04:10:00Z"));
        let late = at("2026-01-02T07:10:01Z");
        assert_eq!(hourly.next(Some(start), late), at("2026-01-02T08:10:00Z"));
        // A clock that was set back.
        assert_eq!(
            hourly.next(Some(start), at("2026-01-01T00:00:00Z")),
            at("2026-01-02T04:10:00Z")
        );
    }

    #[test]
    fn a_time_of_day_is_that_of_its_zone_and_its_days() {
        let berlin = daily("07:30", &[], "Europe/Berlin");
        assert_eq!(berlin.next(None, at("2026-01-02T06:30:00Z")), at("2026-01-03T06:30:00Z"));
        assert_eq!(berlin.next(None, at("2026-07-02T05:29:59Z")), at("2026-07-02T05:30:00Z"));
        let weekly = daily("09:00", &["monday"], "UTC");
        assert_eq!(weekly.next(None, at("2026-01-05T09:00:00Z")), at("2026-01-12T09:00:00Z"));
        // 02:30 is skipped on 29 March 2026 in Berlin, and repeated on 25 October.
        let night = daily("02:30", &[], "Europe/Berlin");
        assert_eq!(night.next(None, at("2026-03-28T12:00:00Z")), at("2026-03-29T01:30:00Z"));
        assert_eq!(night.next(None, at("2026-10-24T12:00:00Z")), at("2026-10-25T00:30:00Z"));
        assert_eq!(night.next(None, at("2026-10-25T00:30:00Z")), at("2026-10-26T01:30:00Z"));
    }

    #[test]
    fn jitter_is_the_same_for_the_same_time() {
        let jittered = Schedule { jitter: Duration::from_secs(600), ..example("1h") };
        let planned = at("2026-01-02T03:00:00Z");
        let moved = jittered.with_jitter(planned);
        assert_eq!(moved, jittered.with_jitter(planned));
        assert!(moved >= planned && moved.0 < planned.0 + 600_000);
        assert_ne!(moved.0 - planned.0, jittered.with_jitter(planned.plus(1)).0 - planned.0 - 1);
    }

    #[test]
    fn only_hours_and_minutes_are_a_time_of_day() {
        assert!(parse_time("00:00").is_some() && parse_time("23:59").is_some());
        for bad in ["7:30", "24:00", "07:60", "07.30", "", "07:30:00", "+7:30"] {
            assert!(parse_time(bad).is_none(), "{bad}");
        }
    }
}
