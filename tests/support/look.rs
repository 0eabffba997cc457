//! Waiting by condition, and finding live processes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use camino::Utf8Path;
use wiki_browser::process::{MARK, carries_mark};

/// How long a test waits for what must happen.
pub(crate) struct Patience;

impl Patience {
    /// Generous: the machine may be busy with other tests.
    pub(crate) const MAX: Duration = Duration::from_secs(30);
}

/// The pauses between looks: a tenth of what was waited already, within these.
const PAUSE_MIN: Duration = Duration::from_millis(4);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Looks until something is so, or it has taken too long. What takes longer is looked at less
/// often, because a look is a request or a process, and others are busy.
pub(crate) fn within(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        let waited = begun.elapsed();
        if waited >= limit {
            return false;
        }
        std::thread::park_timeout((waited / 10).clamp(PAUSE_MIN, PAUSE_MAX));
    }
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn until(what: &str, is_so: impl FnMut() -> bool) {
    assert!(within(Patience::MAX, is_so), "waited in vain until {what}");
}

/// Waits until something is there, and returns it.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    until(what, || {
        found = find();
        found.is_some()
    });
    found.unwrap()
}

pub(crate) fn all_pids() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|it| it.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the processes that carry the mark of a job.
pub(crate) fn marked(job: &str) -> Vec<i32> {
    let is_of_job = |pid: &i32| carries_mark(*pid, MARK).as_deref() == Some(job);
    all_pids().into_iter().filter(is_of_job).collect()
}

/// Returns the processes of which an argument holds some text.
pub(crate) fn arguments_with(text: &str) -> Vec<i32> {
    let holds = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    };
    all_pids().into_iter().filter(holds).collect()
}

/// Returns the lengths of all heartbeat files (`hb.NAME`) of a folder.
pub(crate) fn beats(folder: &Utf8Path) -> BTreeMap<String, u64> {
    let files = folder.read_dir_utf8().unwrap().flatten();
    let files = files.filter(|it| it.file_name().starts_with("hb."));
    files.map(|it| (it.file_name().to_owned(), it.metadata().map_or(0, |it| it.len()))).collect()
}

/// Returns the processes that work in a folder or name it in their arguments, with their arguments.
pub(crate) fn processes_of(folder: &Utf8Path) -> Vec<(i32, String)> {
    let of_folder = |pid: i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let works_there = std::fs::read_link(format!("/proc/{pid}/cwd"))
            .is_ok_and(|cwd| cwd.starts_with(folder.as_std_path()));
        // A zombie has no arguments and no folder.
        (works_there || line.contains(folder.as_str())).then_some((pid, line))
    };
    let own = i32::try_from(std::process::id()).unwrap();
    all_pids().into_iter().filter(|pid| *pid != own).filter_map(of_folder).collect()
}
