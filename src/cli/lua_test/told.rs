//! The results of a test run, as text and as JSON.

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::{Value, json};

use crate::base::{Context, ErrorKind, Result};
use crate::cli::lua_test::differ::{self, Sort};
use crate::cli::terminal::escape;
use crate::cli::terminal::screen::{Screen, Style};
use crate::flows::lab::{Progress, Summary, TestRun};
use crate::script::lab::Failure;
use crate::script::{Report, SaidLine};

/// Reports to a person while tests run.
pub(super) struct Teller<'s> {
    screen: &'s Screen,
    shows_log: bool,
    file: Option<Utf8PathBuf>,
}

impl<'s> Teller<'s> {
    pub(super) fn new(screen: &'s Screen, shows_log: bool) -> Teller<'s> {
        Teller { screen, shows_log, file: None }
    }

    /// Reports the result of a test or the error of a file.
    pub(super) fn tell(&mut self, progress: &Progress<'_>) -> Result<()> {
        match progress {
            Progress::Broken(path, _) => {
                self.begin(path)?;
                let word = self.screen.paint(Style::Red, "FAIL");
                self.screen.put(&format!("  {word}  the file cannot be used"))
            }
            Progress::Ended(run) => {
                self.begin(&run.file)?;
                let (word, style) = match run.ran.failure {
                    None => ("ok  ", Style::Green),
                    Some(_) => ("FAIL", Style::Red),
                };
                let word = self.screen.paint(style, word);
                self.screen.put(&format!("  {word}  {}", escape::line(&run.test.name)))?;
                match (&run.ran.failure, self.shows_log) {
                    (None, true) => self.log(&run.ran.said),
                    _ => Ok(()),
                }
            }
        }
    }

    fn begin(&mut self, path: &Utf8Path) -> Result<()> {
        if self.file.as_deref() == Some(path) {
            return Ok(());
        }
        self.file = Some(path.to_owned());
        self.screen.put(&self.screen.paint(Style::Bold, &escape::line(path.as_str())))
    }

    /// Reports why tests failed, and how many.
    pub(super) fn end(&self, summary: &Summary) -> Result<()> {
        if let Some(report) = &summary.script {
            // The report has already escaped what it quotes.
            self.screen.put(&report.to_string())?;
            return self.screen.put("no test was run: the script is wrong");
        }
        for (_, report) in &summary.broken {
            self.screen.put("")?;
            self.errors(report)?;
        }
        for run in &summary.tests {
            if let Some(failure) = &run.ran.failure {
                self.failure(run, failure)?;
            }
        }
        self.screen.put("")?;
        let words = words(summary);
        let style = if summary.is_fine() { Style::Green } else { Style::Red };
        self.screen.put(&self.screen.paint(style, &words))
    }

    fn errors(&self, report: &Report) -> Result<()> {
        report.errors.iter().try_for_each(|it| self.screen.put(&it.to_string()))
    }

    fn failure(&self, run: &TestRun, failure: &Failure) -> Result<()> {
        let title = format!("\n{}: {}", run.file, escape::line(&run.test.name));
        self.screen.put(&self.screen.paint(Style::Bold, &title))?;
        self.screen.put(&finding(failure))?;
        for (sort, line) in failure.difference.iter().flat_map(differ::lines) {
            let line = match sort {
                Sort::Plain => line,
                Sort::Wanted => self.screen.paint(Style::Green, &line),
                Sort::Got => self.screen.paint(Style::Red, &line),
            };
            self.screen.put(&format!("  {line}"))?;
        }
        self.log(&run.ran.said)
    }

    fn log(&self, said: &[SaidLine]) -> Result<()> {
        for line in said {
            let text = escape::line(&line.text);
            let line = format!("  log: {}:{}: {text}", line.at.file, line.at.line);
            self.screen.put(&self.screen.paint(Style::Dim, &line))?;
        }
        Ok(())
    }
}

/// Returns a finding as text; a note of several lines follows it.
fn finding(failure: &Failure) -> String {
    let note = failure.finding.note.clone().unwrap_or_default();
    let Some((first, rest)) = note.split_once('\n') else {
        return failure.finding.to_string();
    };
    let mut finding = failure.finding.clone();
    finding.note = Some(first.to_owned());
    let rest: String = rest.lines().map(|it| format!("\n      {}", escape::line(it))).collect();
    format!("{finding}{rest}")
}

/// Returns `2 of 5 tests failed in 0.31 s`.
fn words(summary: &Summary) -> String {
    let (count, failed) = (summary.tests.len(), summary.failed());
    let tests = if count == 1 { "test" } else { "tests" };
    let mut words = match failed {
        0 => format!("{count} {tests} passed"),
        failed => format!("{failed} of {count} {tests} failed"),
    };
    words.push_str(&format!(" in {:.2} s", summary.took.as_secs_f64()));
    match summary.broken.len() {
        0 => {}
        1 => words.push_str(", 1 file cannot be used"),
        count => words.push_str(&format!(", {count} files cannot be used")),
    }
    if summary.left_out > 0 {
        words.push_str(&format!(", {} left out", summary.left_out));
    }
    if summary.not_run > 0 {
        words.push_str(&format!(
            ", {} not run: fix the test that did not end first",
            summary.not_run
        ));
    }
    words
}

/// Returns a run as JSON.
pub(super) fn json_of(summary: &Summary) -> Result<Value> {
    let mut broken = Vec::new();
    for (path, report) in &summary.broken {
        broken.push(json!({"file": path.as_str(), "errors": value(&report.errors)?}));
    }
    let mut tests = Vec::new();
    for run in &summary.tests {
        let failure = match &run.ran.failure {
            None => Value::Null,
            Some(failure) => {
                let mut shown = value(&failure.finding)?;
                if let Some(it) = &failure.difference {
                    let diff: String =
                        differ::lines(it).into_iter().map(|(_, line)| line + "\n").collect();
                    shown["got"] = json!(it.got);
                    shown["want"] = json!(it.want);
                    shown["diff"] = json!(diff);
                }
                shown
            }
        };
        tests.push(json!({
            "file": run.file.as_str(), "name": run.test.name, "line": run.test.at.line,
            "ok": run.ran.failure.is_none(), "failure": failure, "log": value(&run.ran.said)?,
            "ms": u64::try_from(run.ran.took.as_millis()).unwrap_or(u64::MAX),
        }));
    }
    let script = summary.script.as_ref().map(|it| value(&it.errors)).transpose()?;
    Ok(json!({
        "ok": summary.is_fine(), "passed": summary.tests.len() - summary.failed(),
        "failed": summary.failed(), "left_out": summary.left_out, "not_run": summary.not_run,
        "ms": u64::try_from(summary.took.as_millis()).unwrap_or(u64::MAX),
        "script_errors": script, "broken_files": broken, "tests": tests,
    }))
}

fn value(it: &impl serde::Serialize) -> Result<Value> {
    serde_json::to_value(it).context(ErrorKind::Internal, || "cannot write JSON".to_owned())
}
