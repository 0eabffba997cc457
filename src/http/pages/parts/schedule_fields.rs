//! Fields for when a job starts (`turn.html`): its earliest time and its priority.

use crate::base::limit::PRIORITY_MAX;
use crate::base::{Error, Result};
use crate::flows::jobs::JobRequest;
use crate::http::pages::parts::fields::Refused;
use crate::people::{Person, Role};
use crate::script::Kind;

/// The names of the fields; no input of a kind can have such a name.
pub(in crate::http::pages) const NAMES: [&str; 3] = ["not_before", "zone", "priority"];
/// Longest name of a time zone, in bytes.
const ZONE_BYTES_MAX: usize = 64;

/// The fields; after a refusal with the typed values.
pub(in crate::http::pages) struct Turn {
    /// A date and a time without a zone.
    pub(in crate::http::pages) not_before: Part,
    /// The browser's zone: `+01:00[Europe/Berlin]`; empty without scripts, which means UTC.
    pub(in crate::http::pages) zone: String,
    pub(in crate::http::pages) priority: Part,
    /// The priority of the kind.
    pub(in crate::http::pages) usual: i64,
    /// The highest priority that the reader may request.
    pub(in crate::http::pages) most: i64,
}

/// The error of a field.
#[derive(Default)]
pub(in crate::http::pages) struct Part {
    pub(in crate::http::pages) value: String,
    pub(in crate::http::pages) refusal: Option<String>,
}

impl Turn {
    /// Returns the fields of a kind's form for a person.
    pub(in crate::http::pages) fn of(
        kind: &Kind,
        person: &Person,
        refused: Option<&Refused>,
    ) -> Turn {
        let refused = refused.filter(|it| it.kind == kind.name);
        let part = |name: &str| match refused {
            Some(refused) => Part {
                value: field(&refused.sent, name).to_owned(),
                refusal: (refused.cause.input_str() == Some(name)).then(|| refused.sentence()),
            },
            None => Part::default(),
        };
        let zone = refused.map_or("", |it| field(&it.sent, "zone"));
        Turn {
            not_before: part("not_before"),
            zone: zone_of(zone).map(|_| zone.to_owned()).unwrap_or_default(),
            priority: part("priority"),
            usual: kind.priority,
            most: if person.role == Role::Admin { PRIORITY_MAX } else { kind.priority },
        }
    }

    /// Returns the lowest possible priority.
    pub(in crate::http::pages) fn least(&self) -> i64 {
        -PRIORITY_MAX
    }

    /// Returns whether one of them was filled in.
    pub(in crate::http::pages) fn is_used(&self) -> bool {
        !self.not_before.value.is_empty() || !self.priority.value.is_empty()
    }

    /// Returns the name of the zone.
    pub(in crate::http::pages) fn zone_name(&self) -> &str {
        zone_of(&self.zone).map_or("UTC", |it| it.1)
    }
}

/// Returns whether one of the fields shows the error.
pub(in crate::http::pages) fn is_meant(refused: &Refused) -> bool {
    refused.cause.input_str().is_some_and(|it| NAMES.contains(&it))
}

/// Returns a request with the priority and the time from the fields.
///
/// # Errors
/// `invalid`, of the field that does not say what it should.
pub(in crate::http::pages) fn in_turn(
    request: JobRequest,
    sent: &[(String, String)],
) -> Result<JobRequest> {
    let (priority, not_before) = asked(sent)?;
    Ok(JobRequest { priority, not_before, ..request })
}

fn asked(sent: &[(String, String)]) -> Result<(Option<i64>, Option<String>)> {
    let priority = match field(sent, "priority") {
        "" => None,
        typed => Some(typed.parse::<i64>().map_err(|_| {
            Error::invalid("the priority must be a whole number")
                .hint("higher runs first; leave it empty for the kind's default")
                .of_input("priority")
        })?),
    };
    let not_before = match (field(sent, "not_before"), field(sent, "zone")) {
        ("", _) => None,
        (typed, "") => Some(format!("{typed}Z")),
        (typed, zone) => {
            let (offset, _) = zone_of(zone).ok_or_else(|| {
                Error::invalid("the time zone is not one like +01:00[Europe/Berlin]")
                    .code("bad_time")
                    .of_input("not_before")
            })?;
            Some(format!("{typed}{offset}"))
        }
    };
    Ok((priority, not_before))
}

fn field<'s>(sent: &'s [(String, String)], name: &str) -> &'s str {
    sent.iter().find(|it| it.0 == name).map_or("", |it| it.1.trim())
}

/// Returns the offset and the name of a zone.
fn zone_of(zone: &str) -> Option<(&str, &str)> {
    let (offset, name) = zone.strip_suffix(']')?.split_once('[')?;
    let is_offset = offset.len() == 6
        && offset.bytes().enumerate().all(|(at, it)| match at {
            0 => matches!(it, b'+' | b'-'),
            3 => it == b':',
            _ => it.is_ascii_digit(),
        });
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'/' | b'_' | b'-' | b'+');
    let is_name = (1..=ZONE_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain);
    (is_offset && is_name).then_some((offset, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_one_of_the_zone_that_the_form_says() {
        let told = |not_before: &str, zone: &str| {
            let sent = [("not_before", not_before), ("zone", zone)];
            asked(&sent.map(|it| (it.0.to_owned(), it.1.to_owned()))).map(|it| it.1)
        };
        let at = "2026-01-02T03:04";
        assert_eq!(told("", "+01:00[Europe/Berlin]").unwrap(), None);
        assert_eq!(told(at, "").unwrap().unwrap(), "2026-01-02T03:04Z");
        let here = told(at, "-09:30[Pacific/Marquesas]").unwrap().unwrap();
        assert_eq!(here, "2026-01-02T03:04-09:30");
        for zone in ["+01:00", "+1:00[A]", "+01:00[]", "+01:00[<b>]", "x", "+01:00[A] "] {
            let is_trimmed = zone.ends_with(' ');
            assert_eq!(told(at, zone).is_ok(), is_trimmed, "{zone}");
        }
        let long = format!("+01:00[{}]", "a".repeat(65));
        assert_eq!(told(at, &long).unwrap_err().input_str(), Some("not_before"));
    }

    #[test]
    fn a_priority_is_a_whole_number() {
        let told = |typed: &str| asked(&[("priority".to_owned(), typed.to_owned())]);
        assert_eq!(told("").unwrap().0, None);
        assert_eq!(told(" -5 ").unwrap().0, Some(-5));
        for typed in ["1.5", "x", "99999999999999999999"] {
            assert_eq!(told(typed).unwrap_err().input_str(), Some("priority"));
        }
    }
}
