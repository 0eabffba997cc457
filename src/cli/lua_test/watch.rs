//! Runs the tests again whenever a file that they depend on is saved.

use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::{Clock, Millis, Result};
use crate::cli::commands::Desk;
use crate::cli::lua_test::{Place, TestArgs, once};
use crate::cli::terminal::screen;
use crate::flows::lab::{find, tests_folder};

/// Interval of looks at the files.
const EVERY: Duration = Duration::from_millis(300);
/// How long they must be unchanged: an editor writes several.
const STILL: Duration = Duration::from_millis(100);

/// The modification time, length and inode of a file.
type Facts = Option<(i64, i64, u64, u64)>;
type Look = Vec<(Utf8PathBuf, Facts)>;

/// Runs the tests until interrupted.
pub(super) fn watch(
    desk: &Desk,
    script: &Utf8Path,
    args: &TestArgs,
    place: Place<'_>,
) -> Result<u8> {
    let mut files: Vec<Utf8PathBuf> = Vec::new();
    loop {
        // Includes files saved while the tests run.
        let (begin, before) = (Clock::system().now(), look(script, args, &files));
        match once(desk, script, args, place) {
            Ok(summary) if summary.script.is_none() => files = summary.files,
            // The files of a broken script are unknown, so the previous ones are still watched.
            Ok(summary) => files.extend(summary.files),
            Err(cause) if cause.code_str() == screen::READER_LEFT => return Err(cause),
            Err(cause) => screen::report(&cause, false),
        }
        files.sort();
        files.dedup();
        desk.screen.note(&format!("\nwatching {} files; Ctrl-C ends", files.len()));
        let mut seen = look(script, args, &files);
        let was_saved = !seen.iter().all(|it| is_same(it, &before, begin));
        let first = seen.clone();
        while !was_saved && seen == first {
            std::thread::sleep(EVERY);
            seen = look(script, args, &files);
        }
        loop {
            std::thread::sleep(STILL);
            let now = look(script, args, &files);
            if now == seen {
                break;
            }
            seen = now;
        }
    }
}

/// Returns whether a file is unchanged since a run began. One that was not known then must be
/// older.
fn is_same(it: &(Utf8PathBuf, Facts), before: &Look, begin: Millis) -> bool {
    let (path, facts) = it;
    if let Some((_, known)) = before.iter().find(|(other, _)| other == path) {
        return known == facts;
    }
    facts.is_none_or(|(seconds, nanoseconds, ..)| {
        seconds.saturating_mul(1_000) + nanoseconds / 1_000_000 < begin.0
    })
}

fn look(script: &Utf8Path, args: &TestArgs, files: &[Utf8PathBuf]) -> Look {
    let mut paths = files.to_vec();
    // A new test file counts as well.
    let found = find(script, &args.files).unwrap_or_default();
    paths.extend(found.into_iter().map(|it| it.folder.join(it.path)));
    paths.push(tests_folder(script));
    paths.push(script.to_owned());
    paths.sort();
    paths.dedup();
    let facts = |path: &Utf8PathBuf| {
        let it = std::fs::metadata(path).ok()?;
        Some((it.mtime(), it.mtime_nsec(), it.len(), it.ino()))
    };
    paths.into_iter().map(|path| (path.clone(), facts(&path))).collect()
}
