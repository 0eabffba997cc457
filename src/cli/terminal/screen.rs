//! The output of a command: results on standard output, messages on standard error.

use std::io::{IsTerminal, Write};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::base::{Context, Error, ErrorKind, Result, from_json};
use crate::cli::answer_shape::Shape;
use crate::cli::field;
use crate::cli::terminal::escape;
use crate::cli::terminal::table::Table;

/// The code of the error for a closed standard output.
pub(in crate::cli) const READER_LEFT: &str = "reader_left";
/// Columns of a terminal that does not report its width.
const WIDTH_DEFAULT: usize = 80;

/// Whether colors are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::cli) enum Color {
    /// If standard output is a terminal and `NO_COLOR` is not set
    #[default]
    Auto,
    /// Also into a pipe or a file
    Always,
    /// Not at all
    Never,
}

/// The format of results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Form {
    /// For a person.
    Words,
    /// The server's JSON.
    Json,
    /// One value of the JSON.
    Field(String),
}

/// A color or weight.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) enum Style {
    /// Headings.
    Bold,
    /// Less important text.
    Dim,
    /// Failures and removed lines.
    Red,
    /// Successes and added lines.
    Green,
    /// What waits or needs attention.
    Yellow,
    /// Positions in a diff.
    Cyan,
}

/// Standard output and standard error.
#[derive(Debug)]
pub(in crate::cli) struct Screen {
    form: Form,
    /// The shape of the result, for a command that changes something.
    shape: Option<Shape>,
    color: bool,
    width: Option<usize>,
}

/// Parses a response of the server.
///
/// # Errors
/// `internal` if it has another shape.
pub(in crate::cli) fn typed<T: DeserializeOwned>(answer: &Value) -> Result<T> {
    from_json(answer)
        .context(ErrorKind::Internal, || "the server's answer is of another version".to_owned())
}

impl Screen {
    /// Returns the screen of this process.
    pub(in crate::cli) fn new(form: Form, color: Color) -> Screen {
        let terminal = std::io::stdout().is_terminal();
        let width = terminal.then(|| {
            terminal_size::terminal_size().map_or(WIDTH_DEFAULT, |(width, _)| width.0.into())
        });
        let plain = std::env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty())
            || std::env::var_os("TERM").is_some_and(|it| it == "dumb");
        let color = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && !plain,
        };
        Screen { form, shape: None, color, width }
    }

    /// Returns a screen for results of a shape.
    ///
    /// # Errors
    /// `invalid` with code `no_field` if one value of them is to be printed, and they have none
    /// such.
    pub(in crate::cli) fn shaped(self, shape: Option<Shape>) -> Result<Screen> {
        if let (Some(shape), Form::Field(path)) = (&shape, &self.form) {
            shape.require(path)?;
        }
        Ok(Screen { shape, ..self })
    }

    /// The format of results.
    pub(in crate::cli) fn form(&self) -> &Form {
        &self.form
    }

    /// Whether standard output is a terminal.
    pub(in crate::cli) fn is_terminal(&self) -> bool {
        self.width.is_some()
    }

    /// The width of the terminal, if it is one.
    pub(in crate::cli) fn width(&self) -> Option<usize> {
        self.width
    }

    /// Prints a result: as JSON for programs, or by `words` for a person.
    pub(in crate::cli) fn answer(
        &self,
        value: &Value,
        words: impl FnOnce(&Screen, &Value) -> Result<()>,
    ) -> Result<()> {
        let stranger = self.shape.as_ref().and_then(|it| it.stranger(value));
        debug_assert_eq!(stranger, None, "a field of the answer is not in src/cli/answer_shape.rs");
        match &self.form {
            Form::Words => words(self, value),
            Form::Json => {
                let text = serde_json::to_string_pretty(value);
                let text = text.context(ErrorKind::Internal, || "cannot write JSON".to_owned())?;
                self.put(&escape::json(&text))
            }
            Form::Field(path) => self.field(value, path),
        }
    }

    /// Prints a result like [`Screen::answer`], from its type.
    pub(in crate::cli) fn tell<T: DeserializeOwned>(
        &self,
        value: &Value,
        words: impl FnOnce(&Screen, T) -> Result<()>,
    ) -> Result<()> {
        self.answer(value, |screen, value| words(screen, typed(value)?))
    }

    /// Prints one value of a result: raw to a pipe, escaped on a terminal.
    pub(in crate::cli) fn field(&self, value: &Value, path: &str) -> Result<()> {
        let text = field::pick(value, path)?;
        self.put(&if self.is_terminal() { escape::block(&text) } else { text })
    }

    /// Prints a line of this program; quoted text has been escaped.
    pub(in crate::cli) fn put(&self, text: &str) -> Result<()> {
        let mut out = std::io::stdout().lock();
        written(writeln!(out, "{text}").and_then(|()| out.flush()))
    }

    /// Prints a prompt.
    pub(in crate::cli) fn prompt(&self, text: &str) -> Result<()> {
        let mut out = std::io::stdout().lock();
        written(write!(out, "{text}").and_then(|()| out.flush()))
    }

    /// Prints a text: raw to a pipe or file, escaped on a terminal.
    pub(in crate::cli) fn raw(&self, text: &str) -> Result<()> {
        let mut out = std::io::stdout().lock();
        let put = if self.is_terminal() {
            let text = escape::block(text);
            let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            write!(out, "{text}{end}")
        } else {
            write!(out, "{text}")
        };
        written(put.and_then(|()| out.flush()))
    }

    /// Prints a message on standard error.
    pub(in crate::cli) fn note(&self, text: &str) {
        // If standard error is closed, nobody can be told.
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }

    /// Prints a table, or `nothing` on standard error if it has no rows.
    pub(in crate::cli) fn table(&self, table: &Table, nothing: &str) -> Result<()> {
        if table.is_empty() {
            self.note(nothing);
            return Ok(());
        }
        for (at, line) in table.lines(self.width).iter().enumerate() {
            if at == 0 { self.put(&self.paint(Style::Bold, line))? } else { self.put(line)? }
        }
        Ok(())
    }

    /// Prints a unified diff: colored and escaped on a terminal, raw elsewhere.
    pub(in crate::cli) fn diff(&self, diff: &str) -> Result<()> {
        if !self.color {
            return self.raw(diff);
        }
        for line in diff.lines() {
            let shown = escape::block(line);
            let style = match line.as_bytes() {
                [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => Style::Bold,
                [b'+', ..] => Style::Green,
                [b'-', ..] => Style::Red,
                [b'@', b'@', ..] => Style::Cyan,
                _ => {
                    self.put(&shown)?;
                    continue;
                }
            };
            self.put(&self.paint(style, &shown))?;
        }
        Ok(())
    }

    /// Returns a styled text, if colors are used.
    pub(in crate::cli) fn paint(&self, style: Style, text: &str) -> String {
        if !self.color {
            return text.to_owned();
        }
        let code = match style {
            Style::Bold => 1,
            Style::Dim => 2,
            Style::Red => 31,
            Style::Green => 32,
            Style::Yellow => 33,
            Style::Cyan => 36,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// Returns a word of state in its color.
    pub(in crate::cli) fn state(&self, word: &str) -> String {
        let style = match word {
            "succeeded" | "approved" | "amended" | "incorporated" | "clean" | "exact" => {
                Style::Green
            }
            "failed" | "timed_out" | "rejected" | "orphaned" | "void" => Style::Red,
            "cancelled" | "discarded" | "superseded" | "withdrawn" | "expired" => Style::Dim,
            _ => Style::Yellow,
        };
        self.paint(style, &escape::line(word))
    }
}

/// Prints an error on standard error: the envelope for programs, two lines for a person.
pub(in crate::cli) fn report(error: &Error, json: bool) {
    if error.code_str() == READER_LEFT {
        return;
    }
    let text = if json {
        let envelope = json!({"error": {
            "code": error.code_str(), "message": error.chain(), "hint": error.hint_str(),
        }});
        escape::json(&envelope.to_string())
    } else {
        let mut text = format!("error: {}", escape::block(&error.chain()));
        if let Some(hint) = error.hint_str() {
            text.push_str("\nhint: ");
            text.push_str(&escape::block(hint));
        }
        text
    };
    // If standard error is closed, nobody can be told.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

fn written(result: std::io::Result<()>) -> Result<()> {
    result.map_err(|cause| {
        let left = cause.kind() == std::io::ErrorKind::BrokenPipe;
        let error = Error::internal("cannot write to standard output").source(cause);
        if left { error.code(READER_LEFT) } else { error }
    })
}
