//! Parses durations of a script, and suggests one for an invalid text.

use std::fmt::Arguments;
use std::time::Duration;

use crate::base::limit::{format_duration, parse_duration};
use crate::script::load::extract::Given;
use crate::script::load::node::Node;
use crate::script::source::diagnostic::{Diagnostic, Findings};

/// Parses a duration; reports an invalid one with the one that was probably meant.
pub(crate) fn fit_duration(
    label: Arguments<'_>,
    text: &str,
    node: &Node,
    findings: &mut Findings,
) -> Given {
    match parse_duration(text) {
        Ok(duration) => Given::Duration(duration),
        Err(cause) => {
            let message = format!("{label} is not a duration");
            let meant = meant_duration(text).map(|it| format!("write \"{it}\""));
            let said = || cause.message().escape_debug().to_string().replace("\\\"", "\"");
            let note = meant.unwrap_or_else(said);
            let finding = Diagnostic::error("bad-duration", message).at(&node.spot);
            findings.add(finding.note(note));
            Given::Wrong
        }
    }
}

/// Returns the duration meant by `5 minutes`, `30 sec`, `1.5h`, `1h30m`, `1w` or `PT5M`.
fn meant_duration(text: &str) -> Option<String> {
    let text = text.trim().to_ascii_lowercase();
    let mut rest = text.strip_prefix("pt").unwrap_or(&text);
    let mut whole = 0.0;
    while !rest.is_empty() {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let digits = rest.find(|c: char| !is_number(c)).unwrap_or(rest.len());
        let end = rest[digits..].find(is_number).map_or(rest.len(), |it| digits + it);
        whole += part_ms(&rest[..end])?;
        rest = &rest[end..];
    }
    let is_right = (1.0..=366.0 * 8.64e7).contains(&whole) && whole.fract() == 0.0;
    is_right.then(|| format_duration(Duration::from_millis(whole as u64)))
}

/// Returns the milliseconds of a number with its unit.
fn part_ms(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, word) = (text[..end].parse::<f64>().ok()?, text[end..].trim());
    let units: [(&str, &[&str], f64); 6] = [
        ("ms", &["ms", "msec", "millis", "milliseconds"], 1.0),
        ("s", &["s", "sec", "secs", "second", "seconds"], 1e3),
        ("m", &["m", "min", "mins", "minute", "minutes"], 6e4),
        ("h", &["h", "hr", "hrs", "hour", "hours"], 3.6e6),
        ("d", &["d", "day", "days"], 8.64e7),
        ("w", &["w", "week", "weeks"], 7.0 * 8.64e7),
    ];
    // So large a number was probably meant in milliseconds.
    let word = if word.is_empty() && number >= 1e4 { "ms" } else { word };
    let (_, _, scale) = units.iter().find(|(_, words, _)| words.contains(&word))?;
    Some(number * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_in_other_words_is_understood() {
        for (text, meant) in [
            ("5 minutes", Some("5m")),
            ("1.5h", Some("90m")),
            ("1h30m", Some("90m")),
            ("1h 30m", Some("90m")),
            ("1w", Some("7d")),
            ("PT5M", Some("5m")),
            ("86400000", Some("1d")),
            ("soon", None),
            ("1x", None),
        ] {
            assert_eq!(meant_duration(text).as_deref(), meant, "{text}");
        }
    }
}
