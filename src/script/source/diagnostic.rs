//! Findings about a script with their places, and their text for people and programs.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use camino::Utf8Path;
use serde::{Deserialize, Serialize};
use unicode_width::UnicodeWidthChar;

pub use crate::base::nearest;
use crate::base::truncate_chars;
pub(crate) use crate::base::{expected, suggestion};
use crate::script::source::location::Location;
use crate::script::source::location::ScriptFile;
use crate::script::source::span::Spot;

/// Most findings of one report.
const FINDINGS_MAX: usize = 100;
/// Longest message or note, in characters.
const MESSAGE_CHARS_MAX: usize = 1_000;
/// Longest source line that is shown, in characters.
const LINE_CHARS_MAX: usize = 160;

/// Codes of findings about the value of a field; all others are about the field itself.
const OF_VALUES: [&str; 31] = [
    "bad-address",
    "bad-choices",
    "bad-default",
    "bad-duration",
    "bad-from",
    "bad-glob",
    "bad-host",
    "bad-hook",
    "bad-identity",
    "bad-lane",
    "bad-path",
    "bad-schema",
    "bad-skill",
    "bad-template",
    "bad-text",
    "bad-time",
    "bad-zone",
    "missing-hook",
    "missing-schema",
    "missing-skill",
    "nil-field",
    "not-built-yet",
    "not-loopback",
    "out-of-range",
    "unknown-engine",
    "unknown-input",
    "unknown-kind",
    "unknown-name",
    "unknown-word",
    "wrong-type",
    "cycle",
];

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The script cannot be used.
    Error,
    /// It can, but this is hardly meant.
    Warning,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Stable word for programs.
    pub code: Cow<'static, str>,
    /// The message.
    pub message: String,
    /// Its place, if it has one.
    pub at: Option<Location>,
    /// The line at that place.
    pub line_text: Option<String>,
    /// Number of characters that are meant.
    pub span_len: u32,
    /// The hint.
    pub note: Option<String>,
    /// Whether the place is that of a declaration whose table is built elsewhere.
    #[serde(skip)]
    pub(crate) is_elsewhere: bool,
    /// Bytes of the file that it is about, where the place is that of a field and this its value.
    #[serde(skip)]
    pub(crate) given: Option<Range<usize>>,
}

impl Diagnostic {
    /// Returns an error at a place.
    pub(crate) fn error(code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            code: Cow::Borrowed(code),
            message: truncate_chars(&message.into(), MESSAGE_CHARS_MAX),
            at: None,
            line_text: None,
            span_len: 0,
            note: None,
            is_elsewhere: false,
            given: None,
        }
    }

    /// Returns a warning at a place.
    pub(crate) fn warning(code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, message) }
    }

    /// Returns the finding on one line: place and message.
    pub fn headline(&self) -> String {
        let at = self.at.as_ref();
        let at =
            at.map_or_else(String::new, |it| format!("{}:{}: ", plain(it.file.as_str()), it.line));
        format!("{at}{}", plain(&self.message))
    }

    /// Sets the place; for a finding about a value, that of the field's value.
    #[must_use]
    pub(crate) fn at(self, spot: &Spot) -> Diagnostic {
        let given = spot.value().filter(|_| OF_VALUES.contains(&&*self.code));
        Diagnostic { given, ..self.at_name(spot) }
    }

    /// Sets the place: of a field its name.
    #[must_use]
    pub(crate) fn at_name(mut self, spot: &Spot) -> Diagnostic {
        self.at = Some(spot.at());
        self.span_len = spot.len();
        self.is_elsewhere = spot.is_elsewhere();
        self
    }

    /// Sets a line of a file that is no part of the script, and its text.
    #[must_use]
    pub(crate) fn in_file(mut self, file: &Utf8Path, line: u32, text: Option<&str>) -> Self {
        self.at = Some(Location { file: Arc::from(file), line, column: 1 });
        self.line_text = text.map(str::to_owned);
        self
    }

    /// Sets the column and the number of characters that it is about.
    #[must_use]
    pub(crate) fn at_column(mut self, column: u32, len: u32) -> Self {
        if let Some(at) = &mut self.at {
            at.column = column;
        }
        self.span_len = len;
        self
    }

    /// Sets the hint.
    #[must_use]
    pub(crate) fn note(mut self, note: impl Into<String>) -> Diagnostic {
        let note = note.into();
        self.note = (!note.is_empty()).then(|| truncate_chars(&note, MESSAGE_CHARS_MAX));
        self
    }
}

/// Findings as they come up.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    list: Vec<Diagnostic>,
}

impl Findings {
    /// Adds a finding, unless it is a duplicate; beyond the limit, adds a note about it once.
    pub(crate) fn add(&mut self, finding: Diagnostic) {
        if self.list.len() > FINDINGS_MAX || self.list.contains(&finding) {
            return;
        }
        self.list.push(match self.list.len() {
            FINDINGS_MAX => {
                Diagnostic::error("more", format!("only {FINDINGS_MAX} findings are shown"))
                    .note("fix these, then check again")
            }
            _ => finding,
        });
    }

    /// Returns the findings in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// Returns how many errors there are.
    pub(crate) fn errors(&self) -> usize {
        self.list.iter().filter(|it| it.severity == Severity::Error).count()
    }

    /// Returns all findings and clears the list.
    pub(crate) fn take(&mut self) -> Vec<Diagnostic> {
        std::mem::take(&mut self.list)
    }
}

/// All findings about a script.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Why it cannot be used.
    pub errors: Vec<Diagnostic>,
    /// Warnings.
    pub warnings: Vec<Diagnostic>,
}

impl Report {
    /// Sorts findings by place, the script itself first, and adds the lines they are about.
    pub(crate) fn new(mut findings: Vec<Diagnostic>, files: &[ScriptFile]) -> Report {
        for finding in &mut findings {
            let (Some(at), Some(given)) = (&mut finding.at, &finding.given) else { continue };
            let text = files.iter().find(|file| *file.path == *at.file).map(|file| &*file.text);
            let Some((before, value)) =
                text.and_then(|it| Some((it.get(..given.start)?, it.get(given.clone())?)))
            else {
                continue;
            };
            let count = |text: &str| u32::try_from(text.chars().count()).unwrap_or(0);
            let line = before.rsplit('\n').next().unwrap_or_default();
            at.line = u32::try_from(before.matches('\n').count()).unwrap_or(0) + 1;
            at.column = count(line) + 1;
            finding.span_len = count(value.lines().next().unwrap_or_default().trim_end());
        }
        let rank = |path: &Utf8Path| files.iter().position(|file| file.path == path);
        findings.sort_by_key(|finding| {
            let at = finding.at.as_ref();
            (at.map(|at| (rank(&at.file), at.line, at.column)), finding.severity as u8)
        });
        for finding in &mut findings {
            let Some(at) = &finding.at else { continue };
            let Some(file) = files.iter().find(|file| *file.path == *at.file) else { continue };
            let line = file.text.lines().nth(at.line as usize - 1);
            finding.line_text = line.map(str::to_owned);
            if finding.is_elsewhere {
                let note = finding.note.take().map(|it| format!("{it} ")).unwrap_or_default();
                finding.note = Some(format!("{note}(its table is made elsewhere)"));
            }
        }
        let (errors, warnings) =
            findings.into_iter().partition(|finding| finding.severity == Severity::Error);
        Report { errors, warnings }
    }

    /// Returns the report on an unreadable script.
    pub(crate) fn of(finding: Diagnostic) -> Report {
        Report::new(vec![finding], &[])
    }

    /// Returns `2 errors, 1 warning`.
    pub fn summary(&self) -> String {
        let part = |count: usize, word: &str| match count {
            0 => None,
            1 => Some(format!("1 {word}")),
            _ => Some(format!("{count} {word}s")),
        };
        let parts = [part(self.errors.len(), "error"), part(self.warnings.len(), "warning")];
        let text = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
        if text.is_empty() { "no errors".to_owned() } else { text }
    }
}

impl std::error::Error for Report {}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in self.errors.iter().chain(&self.warnings) {
            writeln!(f, "{finding}\n")?;
        }
        f.write_str(&self.summary())
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.as_ref().map(|it| (it.file.as_str(), it.line, it.column));
        let shown = Shown {
            severity: self.severity,
            code: &self.code,
            message: &self.message,
            at,
            line_text: self.line_text.as_deref(),
            span_len: self.span_len,
            note: self.note.as_deref(),
        };
        shown.fmt(f)
    }
}

/// A finding for display, with its line and the relevant part underlined.
#[derive(Clone, Copy, Debug)]
struct Shown<'a> {
    severity: Severity,
    code: &'a str,
    message: &'a str,
    at: Option<(&'a str, u32, u32)>,
    line_text: Option<&'a str>,
    span_len: u32,
    note: Option<&'a str>,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{word}[{}]: {}", plain(self.code), plain(self.message))?;
        let note = self.note.map(plain);
        let Some((file, at, column)) = self.at else {
            return note.map_or(Ok(()), |note| write!(f, "\n  = {note}"));
        };
        let number = at.to_string();
        let margin = " ".repeat(number.len());
        write!(f, "\n{margin}--> {}:{at}:{column}", plain(file))?;
        let Some(line) = self.line_text else {
            return note.map_or(Ok(()), |note| write!(f, "\n{margin} = {note}"));
        };
        let (shown, indent, carets) = window(line, column as usize - 1, self.span_len as usize);
        write!(f, "\n{margin} |\n{number} | {shown}")?;
        let under = match (carets, note) {
            (0, None) => return Ok(()),
            (0, Some(note)) => return write!(f, "\n{margin} = {note}"),
            (carets, None) => "^".repeat(carets),
            (carets, Some(note)) => format!("{} {note}", "^".repeat(carets)),
        };
        write!(f, "\n{margin} | {indent}{under}")
    }
}

/// Cuts a line to the visible part: the text, the spaces before the carets, and their number.
fn window(line: &str, column: usize, len: usize) -> (String, String, usize) {
    let skipped = if column + len > LINE_CHARS_MAX { column.saturating_sub(20) } else { 0 };
    let width = |c: char| if c == '\t' { 2 } else { c.width().unwrap_or(1) };
    let (mut shown, mut indent, mut carets) = (String::new(), String::new(), 0);
    for (index, c) in line.chars().enumerate().skip(skipped).take(LINE_CHARS_MAX) {
        match c {
            '\t' => shown.push_str("  "),
            c if is_hidden(c) => shown.push('\u{fffd}'),
            c => shown.push(c),
        }
        if index < column {
            indent.extend(std::iter::repeat_n(' ', width(c)));
        } else if index < column + len {
            carets += width(c);
        }
    }
    (shown.trim_end().to_owned(), indent, carets)
}

/// Replaces characters that could deceive a terminal or imitate another finding.
fn plain(text: &str) -> String {
    let text = text.replace('\n', "\\n");
    text.chars().map(|c| if is_hidden(c) { '\u{fffd}' } else { c }).collect()
}

/// Control characters, and those that change the text direction.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::source::field_span::Source;

    #[test]
    fn a_report_reads_like_the_documentation() {
        let text = "local wb = require \"wb\"\n\n\twb.kind \"x\" { timout = \"5m\" }\n".to_owned();
        let source = Arc::new(Source::new(Utf8Path::new("wiki-browser.lua").into(), &*text));
        let files = [ScriptFile { path: "wiki-browser.lua".into(), text: text.into() }];
        let finding = Diagnostic::error("unknown-field", "kind \"x\" has no field `timout`")
            .at(&source.name_in_line("timout", 3).unwrap())
            .note(suggestion("timout", ["about", "timeout"]));
        let line = "wiki-browser.lua:3: kind \"x\" has no field `timout`";
        assert_eq!(finding.headline(), line);
        let report = Report::new(vec![finding], &files);
        let expected = "\
error[unknown-field]: kind \"x\" has no field `timout`
 --> wiki-browser.lua:3:16
  |
3 |   wb.kind \"x\" { timout = \"5m\" }
  |                 ^^^^^^ did you mean `timeout`?

1 error";
        assert_eq!(report.to_string(), expected);
    }

    #[test]
    fn a_hostile_line_cannot_reach_the_terminal() {
        let finding = Diagnostic::error("x", "a\u{1b}[31m\u{202e}b");
        assert!(!finding.to_string().contains(['\u{1b}', '\u{202e}']));
        let (shown, _, _) = window(&"y".repeat(5_000), 4_000, 3);
        assert!(shown.chars().count() <= LINE_CHARS_MAX);
    }
}
