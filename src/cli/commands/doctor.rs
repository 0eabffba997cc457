//! `wiki-browser doctor`: one line per finding, with advice below.

use serde_json::json;
use unicode_width::UnicodeWidthStr;

use crate::base::{Context, ErrorKind, Finding, Level, Result};
use crate::cli::commands::Desk;
use crate::cli::terminal::escape;
use crate::cli::terminal::screen::{Form, Screen, Style};
use crate::client::working_folder;
use crate::flows::check::templates;
use crate::flows::doctor::Patient;
use crate::script::Wear;

/// Narrowest column of text; below it lines are longer than the terminal.
const TEXT_WIDTH_MIN: usize = 24;
/// Width of the words OK, WARN and ERROR, and of a gap.
const LEVEL_WIDTH: usize = 5;
const GAP: &str = "  ";

/// Runs the checks; returns 0 if the site can work here, and 1 otherwise.
pub(in crate::cli) fn doctor(desk: &Desk) -> Result<u8> {
    let findings = match desk.script() {
        Err(cause) if cause.kind() == ErrorKind::NotFound => {
            (desk.seams.doctor)(&Patient::Folder(&working_folder()?))?
        }
        Err(cause) => return Err(cause),
        Ok(path) => match templates::load(&path, &Wear::default()) {
            Ok(loaded) => (desk.seams.doctor)(&Patient::Site(&loaded))?,
            Err(report) => {
                if *desk.screen.form() == Form::Words {
                    desk.screen.note(&report.to_string());
                }
                (desk.seams.doctor)(&Patient::Broken(&path, report.summary()))?
            }
        },
    };
    let worst = findings.iter().map(|it| it.level).max().unwrap_or(Level::Ok);
    let list = serde_json::to_value(&findings)
        .context(ErrorKind::Internal, || "cannot write JSON".to_owned())?;
    let value = json!({"ok": worst != Level::Error, "worst": worst, "findings": list});
    desk.screen.answer(&value, |screen, _| {
        for line in lines(&findings, screen) {
            screen.put(&line)?;
        }
        screen.put(&summary(&findings))
    })?;
    Ok(u8::from(worst == Level::Error))
}

fn lines(findings: &[Finding], screen: &Screen) -> Vec<String> {
    let what_width = findings.iter().map(|it| it.what.width()).max().unwrap_or(0);
    let indent = LEVEL_WIDTH + what_width + 2 * GAP.len();
    let text_width = screen.width().map(|it| it.saturating_sub(indent).max(TEXT_WIDTH_MIN));
    let mut lines = Vec::new();
    for finding in findings {
        let style = match finding.level {
            Level::Ok => Style::Green,
            Level::Warn => Style::Yellow,
            Level::Error => Style::Red,
        };
        let word = screen.paint(style, &format!("{:LEVEL_WIDTH$}", finding.level.as_str()));
        let head = format!("{word}{GAP}{:what_width$}{GAP}", finding.what);
        let mut texts = wrap(&escape::line(&finding.says), text_width).into_iter();
        lines.push(format!("{head}{}", texts.next().unwrap_or_default()));
        let advice = finding.advice.iter();
        let advice = advice.flat_map(|it| wrap(&format!("→ {}", escape::line(it)), text_width));
        lines.extend(texts.chain(advice).map(|text| format!("{:indent$}{text}", "")));
    }
    lines
}

fn summary(findings: &[Finding]) -> String {
    let count = |level| findings.iter().filter(|it| it.level == level).count();
    match (count(Level::Error), count(Level::Warn)) {
        (0, 0) => "no problems found".to_owned(),
        (0, warnings) => format!("a site works here; warnings: {warnings}"),
        (errors, warnings) => format!("errors: {errors}, warnings: {warnings}"),
    }
}

/// Wraps a text at `width` columns; a longer word, such as a path that somebody may want to copy,
/// stays whole.
fn wrap(text: &str, width: Option<usize>) -> Vec<String> {
    let Some(width) = width else { return vec![text.to_owned()] };
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.width() + 1 + word.width() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_broken_between_words_only() {
        assert_eq!(wrap("a bc def", None), ["a bc def"]);
        assert_eq!(wrap("a bc def", Some(4)), ["a bc", "def"]);
        assert_eq!(wrap("/a/long/path is ü", Some(4)), ["/a/long/path", "is ü"]);
        assert_eq!(wrap("", Some(4)), [""]);
    }

    #[test]
    fn the_last_line_counts() {
        let ok = || Finding::ok("a", "b");
        let warn = || Finding::warn("a", "b", "c");
        let error = || Finding::error("a", "b", "c");
        assert_eq!(summary(&[ok()]), "no problems found");
        assert_eq!(summary(&[ok(), warn()]), "a site works here; warnings: 1");
        assert_eq!(summary(&[error(), warn(), warn()]), "errors: 1, warnings: 2");
    }
}
