//! A run of tests: finds the files, and runs each test with a site of its own.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::limit::SCRIPT_FILE_BYTES_MAX;
use crate::base::{Context, Error, ErrorKind, Result};
use crate::flows::lab::site::Wanted;
use crate::flows::lab::stage;
use crate::process::{Root, Scratch};
use crate::script::lab::{self, File, Listed, Named, Ran};
use crate::script::{self, Outside, Report, Said, Wear};

/// The folder of tests next to the script.
const FOLDER: &str = "tests";
/// Most files per run.
const FILES_MAX: usize = 1_000;
/// Abandoned threads after which a run ends early.
const LOST_MAX: usize = 2;

/// What to run.
#[derive(Clone, Debug)]
pub struct Suite {
    /// The script.
    pub script: Utf8PathBuf,
    /// The test files.
    pub files: Vec<File>,
    /// Only tests whose name, or whose file's name, contains this.
    pub filter: Option<String>,
}

/// Progress of a run.
#[derive(Debug)]
pub enum Progress<'a> {
    /// A file is invalid.
    Broken(&'a Utf8Path, &'a Report),
    /// A test has ended.
    Ended(&'a TestRun),
}

/// An executed test.
#[derive(Clone, Debug)]
pub struct TestRun {
    /// Its file, relative to the script's folder.
    pub file: Utf8PathBuf,
    /// The test.
    pub test: Named,
    /// Its result.
    pub ran: Ran,
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The error of the script; then nothing was run.
    pub script: Option<Report>,
    /// Invalid files, with their errors.
    pub broken: Vec<(Utf8PathBuf, Report)>,
    /// The executed tests.
    pub tests: Vec<TestRun>,
    /// Number of tests excluded by the filter.
    pub left_out: usize,
    /// Number of tests not run because the run ended early.
    pub not_run: usize,
    /// Absolute paths of all files that the result depends on.
    pub files: Vec<Utf8PathBuf>,
    /// How long it took.
    pub took: Duration,
}

impl Summary {
    /// Returns the number of failed tests.
    pub fn failed(&self) -> usize {
        self.tests.iter().filter(|it| it.ran.failure.is_some()).count()
    }

    /// Returns whether something was run and everything passed.
    pub fn is_fine(&self) -> bool {
        self.script.is_none()
            && self.broken.is_empty()
            && self.failed() == 0
            && self.not_run == 0
            && !self.tests.is_empty()
    }
}

/// Returns the folder of the tests of a script.
pub fn tests_folder(script: &Utf8Path) -> Utf8PathBuf {
    folder_of(script).join(FOLDER)
}

fn folder_of(script: &Utf8Path) -> Utf8PathBuf {
    let parent = script.parent().filter(|it| !it.as_str().is_empty());
    parent.unwrap_or(Utf8Path::new(".")).to_owned()
}

/// Returns the test files: the named ones, or `tests/*.lua` next to the script. A folder stands for
/// its files.
///
/// # Errors
/// `not_found` with code `no_tests` or for a file that is not there; `invalid` for one that is not
/// below the script's folder, or no Lua.
pub fn find(script: &Utf8Path, given: &[Utf8PathBuf]) -> Result<Vec<File>> {
    let folder = folder_of(script)
        .canonicalize_utf8()
        .context(ErrorKind::NotFound, || format!("cannot read {script}"))?;
    let mut found = Vec::new();
    if given.is_empty() {
        found = listed(&folder.join(FOLDER))?;
    }
    for path in given {
        let whole = path.canonicalize_utf8().map_err(|cause| {
            Error::not_found(format!("no file {path}"))
                .hint("without a name, tests/*.lua next to the script is run")
                .source(cause)
        })?;
        match whole.is_dir() {
            true => found.extend(listed(&whole)?),
            false => found.push(whole),
        }
    }
    let mut files = Vec::new();
    for whole in found {
        let Ok(path) = whole.strip_prefix(&folder) else {
            let message = format!("{whole} is not below the folder of the script");
            return Err(Error::invalid(message).hint(format!("move it into {folder}/{FOLDER}")));
        };
        if path.extension() != Some("lua") {
            return Err(
                Error::invalid(format!("{path} is not a Lua file")).hint("test files end in .lua")
            );
        }
        if !files.iter().any(|it: &File| it.path == path) {
            files.push(File { folder: folder.clone(), path: path.to_owned() });
        }
    }
    match files.len() {
        0 => Err(Error::not_found("no tests found").code("no_tests").hint(
            "write tests/first.lua next to the script: local t = require \"wb.test\", then \
             t.test(\"what holds\", function() … end)",
        )),
        count if count > FILES_MAX => {
            Err(Error::invalid(format!("more than {FILES_MAX} test files")))
        }
        _ => Ok(files),
    }
}

/// Returns the files among `tests/*.lua` in the folder of a script that do not name `wb.test`, as
/// every test does: they belong to another program.
///
/// # Errors
/// `unavailable` if the folder cannot be read.
pub fn foreign(folder: &Utf8Path) -> Result<Vec<Utf8PathBuf>> {
    let root = Root::open(folder)?;
    let bytes_max = usize::try_from(SCRIPT_FILE_BYTES_MAX).unwrap_or(usize::MAX);
    let is_ours = |it: &Utf8PathBuf| {
        let read = root.read_relative(it, bytes_max);
        read.is_ok_and(|(bytes, _)| String::from_utf8_lossy(&bytes).contains("wb.test"))
    };
    let files = listed(&folder.join(FOLDER))?.into_iter();
    let files = files.map(|it| Utf8Path::new(FOLDER).join(it.file_name().unwrap_or_default()));
    Ok(files.filter(|it| !is_ours(it)).collect())
}

/// Returns the Lua files in a folder, in order; empty if there is no such folder.
fn listed(folder: &Utf8Path) -> Result<Vec<Utf8PathBuf>> {
    let entries = match folder.read_dir_utf8() {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.context(ErrorKind::Unavailable, || format!("cannot read {folder}"))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.context(ErrorKind::Unavailable, || format!("cannot read {folder}"))?;
        let is_lua = entry.path().extension() == Some("lua");
        if is_lua && !entry.file_name().starts_with('.') {
            found.push(entry.into_path());
        }
    }
    found.sort();
    Ok(found)
}

impl Suite {
    /// Creates the temporary folder for the sites of tests.
    ///
    /// # Errors
    /// `unavailable` if it cannot be made.
    pub fn scratch() -> Result<Scratch> {
        Scratch::open("wiki-browser-test-")
    }

    /// Runs the tests one after the other and reports each.
    pub fn run(&self, scratch: &Scratch, tell: &mut dyn FnMut(Progress<'_>)) -> Summary {
        let began = Instant::now();
        let mut summary = Summary::default();
        let wear = Wear::default();
        match self.script_files(&wear) {
            Ok(files) => {
                summary.files = files;
                self.run_files((&wear, scratch), &mut summary, tell);
            }
            Err(report) => summary.script = Some(report),
        }
        summary.files.push(self.script.clone());
        summary.files.extend(self.files.iter().map(|it| it.folder.join(&it.path)));
        summary.files.sort();
        summary.files.dedup();
        summary.took = began.elapsed();
        summary
    }

    /// Returns the files of the script, if it can be loaded.
    fn script_files(&self, wear: &Wear) -> std::result::Result<Vec<Utf8PathBuf>, Report> {
        let outside = Outside::feigned(BTreeMap::new(), Said::default());
        let loaded = script::load_for_test(&self.script, BTreeMap::new(), outside, wear);
        let loaded = loaded.or_else(|report| {
            // It may need variables, which each test sets for itself.
            script::load_again(&self.script, wear).map_err(|_| report)
        })?;
        let config = &loaded.config;
        let files = config.files.iter().map(|it| config.folder.join(&it.path));
        let skills = config.kinds.values().filter_map(|it| it.skill.as_ref());
        let skills = skills.map(|it| config.folder.join(&it.path).join("SKILL.md"));
        let personas = config.folder.join("agents").read_dir_utf8().into_iter().flatten().flatten();
        Ok(files.chain(skills).chain(personas.map(|it| it.into_path())).collect())
    }

    fn run_files(
        &self,
        (wear, scratch): (&Wear, &Scratch),
        summary: &mut Summary,
        tell: &mut dyn FnMut(Progress<'_>),
    ) {
        let mut lost = 0;
        for file in &self.files {
            let listed = match lab::list(file) {
                Ok(listed) => listed,
                Err(report) => {
                    tell(Progress::Broken(&file.path, &report));
                    summary.broken.push((file.path.clone(), report));
                    continue;
                }
            };
            summary.files.extend(listed.files.iter().map(|it| file.folder.join(it)));
            for (place, test) in self.chosen(file, &listed, summary) {
                if lost >= LOST_MAX || wear.is_out() {
                    // A stuck thread keeps a processor from all tests that follow.
                    summary.not_run += 1;
                    continue;
                }
                let wanted = Wanted::of(&self.script, wear, scratch);
                let folder = wanted.place.clone();
                let ran = lab::run(file, &test, place, stage(wanted));
                if ran.is_lost {
                    lost += 1;
                    folder.remove();
                }
                let run = TestRun { file: file.path.clone(), test, ran };
                tell(Progress::Ended(&run));
                summary.tests.push(run);
            }
        }
    }

    /// Returns the selected tests of a file, with their positions.
    fn chosen(&self, file: &File, listed: &Listed, summary: &mut Summary) -> Vec<(usize, Named)> {
        let is_wanted = |test: &Named| match &self.filter {
            None => true,
            Some(part) => test.name.contains(part.as_str()) || file.path.as_str().contains(part),
        };
        let all = listed.tests.iter().cloned().enumerate();
        let chosen: Vec<(usize, Named)> = all.filter(|(_, test)| is_wanted(test)).collect();
        summary.left_out += listed.tests.len() - chosen.len();
        chosen
    }
}
