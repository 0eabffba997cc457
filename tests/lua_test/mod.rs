//! `wiki-browser test`: what it runs, its output for failures, and what tests cannot do.

mod documents;
mod failures;
mod hostile;
mod lives;
mod meanwhile;
mod mistakes;
mod people;
mod same;
mod watch;

use std::fs;

use camino::{Utf8Path, Utf8PathBuf};
use tempfile::TempDir;
use wiki_browser::flows::lab::{Suite, Summary, find};

use crate::cli::wiki_browser;

/// The script of the documentation: three kinds, two handlers and a schedule.
pub(crate) fn documented() -> String {
    let text =
        fs::read_to_string(Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/testing.md"));
    let text = text.unwrap();
    let block = text.split("```lua\n-- wiki-browser.lua\n").nth(1).unwrap();
    block.split("```").next().unwrap().to_owned()
}

/// A script with its tests in a temporary folder.
pub(crate) struct Desk {
    folder: TempDir,
}

impl Desk {
    /// A desk with this script.
    pub(crate) fn new(script: &str) -> Desk {
        let desk = Desk { folder: tempfile::tempdir().unwrap() };
        desk.write("wiki-browser.lua", script);
        desk
    }

    /// A desk with the script of the documentation, and a file of tests with this in it.
    pub(crate) fn with_tests(body: &str) -> Desk {
        let desk = Desk::new(&documented());
        desk.tests("a", body);
        desk
    }

    pub(crate) fn path(&self) -> &Utf8Path {
        Utf8Path::from_path(self.folder.path()).unwrap()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Writes `tests/NAME.lua`; its first line is `local t = …`.
    pub(crate) fn tests(&self, name: &str, body: &str) {
        let text = format!("local t = require \"wb.test\"\n{body}");
        self.write(&format!("tests/{name}.lua"), &text);
    }

    /// Runs all tests inside of this process.
    pub(crate) fn run(&self) -> Summary {
        let script: Utf8PathBuf = self.path().join("wiki-browser.lua");
        let files = find(&script, &[]).unwrap();
        Suite { script, files, filter: None }.run(&Suite::scratch().unwrap(), &mut |_| {})
    }

    /// Runs the program; returns its exit code and what it printed, without the time it took.
    pub(crate) fn command(&self, args: &[&str]) -> (i32, String) {
        let output = wiki_browser(self.folder.path()).arg("test").args(args).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let text = text + &String::from_utf8(output.stderr).unwrap();
        let lines = text.lines().map(|it| without_time(it) + "\n");
        (output.status.code().unwrap(), lines.collect())
    }
}

/// Returns a line without the time that something took: `2 tests passed in 0.31 s`.
pub(crate) fn without_time(line: &str) -> String {
    let is_time = |it: &str| it.starts_with(|c: char| c.is_ascii_digit());
    let split = line.split_once("ed in ").filter(|(_, rest)| is_time(rest));
    match split.and_then(|(before, rest)| Some((before, rest.split_once(" s")?.1))) {
        Some((before, after)) => format!("{before}ed{after}"),
        None => line.to_owned(),
    }
}

/// Refuses a run in which anything failed, and says why.
#[track_caller]
pub(crate) fn all_pass(summary: &Summary) {
    if let Some(report) = &summary.script {
        panic!("{report}");
    }
    if let Some((path, report)) = summary.broken.first() {
        panic!("{path}: {report}");
    }
    let failures: Vec<String> = summary
        .tests
        .iter()
        .filter_map(|it| {
            let failure = it.ran.failure.as_ref()?;
            Some(format!("{}: {}\n{:?}", it.test.name, failure.finding, failure.difference))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(summary.is_fine(), "{summary:?}");
}
