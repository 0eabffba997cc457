//! The escape zoo: a program with every trick by which an agent may try to leave a process behind.

use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};

use crate::support::look::{beats, marked, within};
use crate::support::site::Bench;

/// All tricks; `tests/data/zoo.c` says what each does.
pub(crate) const TRICKS: [&str; 16] = [
    "background",
    "session",
    "double_fork",
    "deaf",
    "storm",
    "forks_at_term",
    "clean_env",
    "clean_deaf_daemon",
    "renamed",
    "own_subreaper",
    "pipes",
    "namespaces",
    "stopped",
    "traced",
    "cloned",
    "headless",
];
/// The grace of a zoo's site.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// Returns a site with a kind `zoo`, whose agent lets all tricks loose and then does its `last`.
pub(crate) fn zoo(fields: &str, last: &str) -> Bench {
    let bench = Bench::new();
    bench.limits("jobs = 2, grace = \"1s\"");
    zoo_kind(&bench, "zoo", fields, last, &TRICKS);
    bench
}

/// Declares a kind of some tricks; its agent leaves `ready` in `$OUT` when all hearts beat.
pub(crate) fn zoo_kind(bench: &Bench, name: &str, fields: &str, last: &str, tricks: &[&str]) {
    let program = bench.base.join("zoo");
    std::fs::copy(compiled(), &program).unwrap();
    let tricks = tricks.join(" ");
    bench.raw_engine(name, &format!("exec '{program}' \"$OUT\" ready {last} {tricks}\n"));
    bench.lua(&format!(
        "wb.kind \"{name}\" {{ about = \"A test\", engine = \"{name}\", {fields},\n\
         prompt = \"x\", inputs = {{}} }}\n"
    ));
}

/// Asserts that all is gone within the grace and a second of a moment, and two more that a busy
/// machine may add: by the mark, by the heartbeats, and by who still names the site's folder.
#[track_caller]
pub(crate) fn assert_gone(bench: &Bench, job: &str, since: Instant) {
    let limit = (GRACE + Duration::from_secs(3)).saturating_sub(since.elapsed());
    let is_clear = within(limit, || marked(job).is_empty());
    assert!(is_clear, "marked and alive: {:?} {:?}", marked(job), bench.alive());
    assert_still(&bench.out);
    let zoo = bench.base.join("zoo");
    let left = bench.alive().into_iter().filter(|it| it.1.contains(zoo.as_str()));
    assert_eq!(left.collect::<Vec<_>>(), []);
}

/// Asserts that no heart beats. One that lives beats ten times in this while.
#[track_caller]
pub(crate) fn assert_still(out: &Utf8Path) {
    let hearts = beats(out);
    assert!(!hearts.is_empty(), "there was a zoo");
    let is_alive = within(Duration::from_millis(200), || beats(out) != hearts);
    assert!(!is_alive, "{hearts:?} {:?}", beats(out));
}

/// Compiles the zoo, once in a run of tests.
#[allow(clippy::disallowed_methods, reason = "a test prepares its agent")]
fn compiled() -> &'static Utf8Path {
    static PROGRAM: OnceLock<Utf8PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/zoo.c");
        let name = format!("zoo-{}", std::process::id());
        let program = Utf8Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let mut command = Command::new("cc");
        command.args(["-O1", "-pthread", "-o", program.as_str(), source]);
        let output = command.output().expect("cc compiles Lua and SQLite too");
        assert!(output.status.success(), "{output:?}");
        program
    })
}
