//! The log: one line an entry on standard error, as text for people or as JSON for programs.
//!
//! **Invariant:** an entry is one line, whatever an agent, a document or a request put into it:
//! control characters are written as escapes, so that nobody writes lines of their own.
//! **Invariant:** whoever logs goes on, whether the entry can be written or not.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt;
use std::io::IsTerminal as _;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber, error};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

use crate::app::stderr::Target;
use crate::base::Clock;

/// The format of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `TIME LEVEL message name=value …`
    #[default]
    Text,
    /// One object per line: `timestamp`, `level`, `message`, and the fields.
    Json,
}

/// Starts logging. `WB_LOG` sets the level (`info` by default), for example `debug` or
/// `wiki_browser::jobs=debug`.
pub(super) fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_env("WB_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let target = Target::new(std::io::stderr(), format, Clock::system());
    let started = match format {
        LogFormat::Text => {
            let lines =
                Lines { is_colored: std::io::stderr().is_terminal(), clock: Clock::system() };
            tracing::subscriber::set_global_default(text(filter, lines, target))
        }
        LogFormat::Json => tracing::subscriber::set_global_default(json(filter, target)),
    };
    // A second start in one process (a test) keeps the first logger.
    let _ = started;
    // The standard library's hook would wait for the reader of standard error.
    std::panic::set_hook(Box::new(|panic| {
        let trace = Backtrace::capture();
        match trace.status() {
            BacktraceStatus::Captured => error!("a fault of the program: {panic}\n{trace}"),
            _ => error!("a fault of the program: {panic}"),
        }
    }));
}

fn text<W>(filter: EnvFilter, lines: Lines, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    tracing_subscriber::fmt()
        // Otherwise a failed write is reported with `eprintln!`, which panics.
        .log_internal_errors(false)
        .event_format(lines)
        .with_env_filter(filter)
        .with_writer(writer)
        .finish()
}

fn json<W>(filter: EnvFilter, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    tracing_subscriber::fmt()
        .log_internal_errors(false)
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_span_list(false)
        .with_target(false)
        .with_env_filter(filter)
        .with_writer(writer)
        .finish()
}

/// The text form.
struct Lines {
    is_colored: bool,
    clock: Clock,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'l> LookupSpan<'l>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = *event.metadata().level();
        let (on, off) = match (self.is_colored, level) {
            (false, _) => ("", ""),
            (true, Level::ERROR) => ("\u{1b}[31m", "\u{1b}[0m"),
            (true, Level::WARN) => ("\u{1b}[33m", "\u{1b}[0m"),
            (true, Level::INFO) => ("\u{1b}[32m", "\u{1b}[0m"),
            (true, _) => ("\u{1b}[34m", "\u{1b}[0m"),
        };
        write!(writer, "{} {on}{level:>5}{off}", self.clock.now().rfc3339())?;
        let mut words = Words::default();
        event.record(&mut words);
        writeln!(writer, " {}{}", words.message, words.fields)
    }
}

/// The text of an entry, escaped.
#[derive(Default)]
struct Words {
    message: String,
    fields: String,
}

impl Words {
    fn put(&mut self, field: &Field, value: &str, is_text: bool) {
        if field.name() == "message" {
            push_harmless(&mut self.message, value);
            return;
        }
        self.fields.push(' ');
        self.fields.push_str(field.name());
        self.fields.push('=');
        let is_word = !is_text
            && !value.is_empty()
            && value.chars().all(|c| !c.is_whitespace() && c != '"' && c != '=');
        if is_word {
            push_harmless(&mut self.fields, value);
        } else {
            self.fields.push('"');
            push_harmless(&mut self.fields, &value.replace('\\', "\\\\").replace('"', "\\\""));
            self.fields.push('"');
        }
    }
}

impl Visit for Words {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value, true);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        self.put(field, &text, false);
    }
}

/// Escapes characters that move a terminal's cursor, end a line, or change the direction of a text.
fn push_harmless(to: &mut String, text: &str) {
    for c in text.chars() {
        let is_harmful = c.is_control()
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{061c}')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if is_harmful {
            to.extend(c.escape_default());
        } else {
            to.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What an agent would like to see in a log.
    const FORGED: &str = "x\n2026-01-01T00:00:00.000Z ERROR forged\r\u{1b}[2K\u{202e}\u{2028}\u{7}";

    fn log(subscriber: impl Subscriber + Send + Sync) {
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(job_id = %"7f3a", kind = FORGED, n = 3, "job {FORGED} ended");
            tracing::debug!("not this one");
        });
    }

    #[test]
    fn an_entry_is_one_line_whatever_is_in_it() {
        let kept = Kept::default();
        let writer = kept.clone();
        let lines = Lines {
            is_colored: false,
            clock: Clock::fixed(crate::base::Millis(1_767_323_045_678)),
        };
        log(text(EnvFilter::new("info"), lines, move || writer.clone()));
        let printed = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let harmless =
            "x\\n2026-01-01T00:00:00.000Z ERROR forged\\r\\u{1b}[2K\\u{202e}\\u{2028}\\u{7}";
        assert_eq!(
            printed,
            format!(
                "2026-01-02T03:04:05.678Z  INFO job {harmless} ended job_id=7f3a \
                 kind=\"{harmless}\" n=3\n"
            )
        );
    }

    #[test]
    fn an_entry_is_one_object() {
        let kept = Kept::default();
        let writer = kept.clone();
        log(json(EnvFilter::new("info"), move || writer.clone()));
        let printed = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert_eq!(printed.lines().count(), 1, "{printed}");
        assert!(!printed.trim_end().chars().any(char::is_control), "{printed:?}");
        let entry: serde_json::Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(entry["level"], "INFO");
        assert_eq!(entry["message"], format!("job {FORGED} ended"));
        assert_eq!((&entry["job_id"], &entry["n"]), (&"7f3a".into(), &3.into()));
        assert_eq!(entry["kind"], FORGED);
        assert!(entry["timestamp"].as_str().unwrap().ends_with('Z'));
    }
}
