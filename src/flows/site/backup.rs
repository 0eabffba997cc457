//! Backups of the database: on demand, daily, and how many are kept.
//!
//! A copy holds what the database holds: Topics, proposals, jobs, persons, the log of events. The
//! documents are in git, and the folders of jobs (prompts, logs) are not in it.

use std::time::Duration;

use camino::{Utf8DirEntry, Utf8Path, Utf8PathBuf};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::api::backups::{Backup, Made};
use crate::base::{Context, DISK_FULL, Error, ErrorKind, Millis, Result, digest_hex, fault};
use crate::flows::Works;
use crate::process;
use crate::store::{MIGRATIONS, backup};

/// Default number of daily backups kept.
pub const DAILY_KEPT: u32 = 7;
/// Most backups that can be kept.
const KEPT_MAX: u32 = 1_000;
/// Longest path of a backup, in bytes.
const PATH_BYTES_MAX: usize = 4_000;
/// Length of the key in a file name that identifies the site.
const KEY_DIGITS: usize = 8;
/// Age at which the next daily backup is due.
const DAY_MS: i64 = 24 * 3_600_000;
/// Delay of a due backup after a start, which has more urgent work.
const AFTER_START: Duration = Duration::from_secs(60);
/// Interval of checks, and of retries after a failure.
const AGAIN: Duration = Duration::from_secs(3_600);
/// Bytes that must be free on the disk besides a backup.
const ROOM_BYTES: u64 = 64 * 1024 * 1024;

impl Backup {
    /// Returns whether its name has an impossible time: the clock was wrong then, or is now. Such a
    /// backup counts as the oldest.
    fn is_ahead(&self, now: Millis) -> bool {
        self.at > now.plus(DAY_MS)
    }
}

/// The body of `POST /api/backups`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BackupRequest {
    /// An absolute path: a new file, or a folder in which the backup gets a name.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub to: Option<Utf8PathBuf>,
    /// Number of backups with such a name to keep in the folder.
    #[serde(default)]
    pub keep: Option<u32>,
}

/// Returns the folder of a site's backups.
pub fn folder(data: &Utf8Path) -> Utf8PathBuf {
    data.join("backups")
}

/// Backs up the database while it is in use; nobody waits for it.
///
/// # Errors
/// `invalid` for a path that is not absolute; `conflict` with code `file_exists`; `unavailable`
/// with code `disk_full`, `database_corrupt` or `backup_failed`.
pub async fn create(works: &Works, request: BackupRequest) -> Result<Made> {
    let data = works.config.site.data.clone();
    let (database, now) = (works.store.path().to_owned(), works.store.clock().clone());
    let made = tokio::task::spawn_blocking(move || {
        let start = now.now();
        let mut made = make(&database, &data, &request, start)?;
        made.took_ms = now.now().0 - start.0;
        Ok(made)
    });
    made.await.map_err(|cause| Error::internal("a backup panicked").source(cause))?
}

/// The same for a database that no server uses; the caller holds the lock of the site.
///
/// # Errors
/// As [`create`].
pub fn make(
    database: &Utf8Path,
    data: &Utf8Path,
    request: &BackupRequest,
    now: Millis,
) -> Result<Made> {
    if request.keep.is_some_and(|it| !(1..=KEPT_MAX).contains(&it)) {
        return Err(Error::invalid(format!("keep must be between 1 and {KEPT_MAX}")));
    }
    let key = digest_hex(backup::epoch_of(database)?).split_off(64 - KEY_DIGITS);
    let name = name_of(&format!("site-{key}"), now);
    let own = folder(data);
    let path = match &request.to {
        None => {
            backup::make_folder(&own)?;
            own.join(name)
        }
        Some(to) if to.is_dir() => to.join(name),
        Some(to) => to.clone(),
    };
    let is_plain = path.is_absolute()
        && path.as_str().len() <= PATH_BYTES_MAX
        && !path.as_str().chars().any(char::is_control);
    if !is_plain {
        return Err(Error::invalid("the path of a backup must be absolute").code("bad_path"));
    }
    let facts = backup::copy(database, &path, MIGRATIONS)?;
    let mut removed = Vec::new();
    if let (Some(keep), Some(folder)) = (request.keep, path.parent()) {
        // Other sites may have backups in the same folder, but not in this site's own.
        let is_ours = |it: &Backup| !it.daily && (folder == own || it.key.as_ref() == Some(&key));
        removed = forget(list(folder, now)?.into_iter().filter(is_ours), keep)?;
    }
    Ok(Made { path, bytes: facts.bytes, version: facts.version, took_ms: 0, removed })
}

/// Returns the backups in a folder, newest first; those from the future come last.
///
/// # Errors
/// `unavailable` if it cannot be read; no folder has no copies.
pub fn list(folder: &Utf8Path, now: Millis) -> Result<Vec<Backup>> {
    let mut found = Vec::new();
    for entry in entries(folder)? {
        let Some((daily, key, at)) = parse_name(entry.file_name()) else { continue };
        // A name that was reserved but never written is skipped.
        let bytes = entry.metadata().map_or(0, |it| it.len());
        if bytes > 0 {
            found.push(Backup { path: entry.into_path(), at, bytes, daily, key });
        }
    }
    found.sort_by(|one, other| {
        let ahead = one.is_ahead(now).cmp(&other.is_ahead(now));
        ahead.then_with(|| (other.at, &other.path).cmp(&(one.at, &one.path)))
    });
    Ok(found)
}

/// Returns the databases that a restore or a recovery put aside in a folder, by name. A person must
/// remove them.
///
/// # Errors
/// `unavailable` if it cannot be read; no folder has none.
pub fn list_aside(folder: &Utf8Path) -> Result<Vec<Utf8PathBuf>> {
    let mut found = Vec::new();
    for entry in entries(folder)? {
        let name = entry.file_name();
        let is_aside = ["replaced-", "damaged-"].iter().any(|word| name.starts_with(word));
        if is_aside && name.ends_with(".db") {
            found.push(entry.into_path());
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the content of a folder; empty if it does not exist.
fn entries(folder: &Utf8Path) -> Result<Vec<Utf8DirEntry>> {
    let cannot = || format!("cannot read {folder}");
    let entries = match folder.read_dir_utf8() {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.context(ErrorKind::Unavailable, cannot)?,
    };
    entries.map(|it| it.context(ErrorKind::Unavailable, cannot)).collect()
}

/// Returns the newest backup of a site.
pub fn newest(data: &Utf8Path, now: Millis) -> Option<Backup> {
    list(&folder(data), now).ok()?.into_iter().find(|it| !it.is_ahead(now))
}

/// Removes all but the first backups; returns the removed ones.
fn forget(copies: impl Iterator<Item = Backup>, keep: u32) -> Result<Vec<Utf8PathBuf>> {
    let mut removed = Vec::new();
    for backup in copies.skip(keep as usize) {
        std::fs::remove_file(&backup.path)
            .context(ErrorKind::Unavailable, || format!("cannot remove {}", backup.path))?;
        removed.push(backup.path);
    }
    Ok(removed)
}

fn name_of(word: &str, at: Millis) -> String {
    // `2026-01-02T03:04:05.678Z`
    let digits: String = at.rfc3339().chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{word}-{digits}.db")
}

/// Returns whether a backup was automatic, its site, and its start time. Names without a key and
/// without milliseconds are from earlier releases.
fn parse_name(name: &str) -> Option<(bool, Option<String>, Millis)> {
    let (words, at) = name.strip_suffix("Z.db")?.rsplit_once('-')?;
    let (daily, key) = match words.split_once('-') {
        None if words == "daily" => (true, None),
        None if words == "site" => (false, None),
        Some(("site", key)) if key.len() == KEY_DIGITS => (false, Some(key.to_owned())),
        _ => return None,
    };
    let (date, time) = at.split_once('T')?;
    let is_digits = |text: &str| text.bytes().all(|it| it.is_ascii_digit());
    if date.len() != 8 || !matches!(time.len(), 6 | 9) || !is_digits(date) || !is_digits(time) {
        return None;
    }
    let text = format!(
        "{}-{}-{}T{}:{}:{}.{:0<3}Z",
        &date[..4],
        &date[4..6],
        &date[6..],
        &time[..2],
        &time[2..4],
        &time[4..6],
        &time[6..]
    );
    let at: jiff::Timestamp = text.parse().ok()?;
    Some((daily, key, Millis(at.as_millisecond())))
}

/// Backs up the database daily and keeps a number of these backups, until `stop`.
pub async fn serve(works: Works, kept: u32, stop: CancellationToken) {
    if kept == 0 {
        return;
    }
    let folder = folder(&works.config.site.data);
    if let Err(cause) = backup::make_folder(&folder).and_then(|()| backup::remove_parts(&folder)) {
        warn!("the folder of backups: {}", cause.chain());
    }
    let mut pause = if fault::is_absent("backup_wait") { Duration::ZERO } else { AFTER_START };
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return,
        }
        pause = match daily(&works, &folder, kept).await {
            Ok(pause) => pause,
            Err(cause) => {
                let hint = cause.hint_str().unwrap_or("see docs/operations.md");
                error!(code = cause.code_str(), "no daily backup: {} ({hint})", cause.chain());
                AGAIN
            }
        };
    }
}

/// Makes a daily backup if one is due; returns when to check again.
async fn daily(works: &Works, folder: &Utf8Path, kept: u32) -> Result<Duration> {
    let now = works.store.clock().now();
    let newest = list(folder, now)?.into_iter().find(|it| it.daily && !it.is_ahead(now));
    // A time in the near future is from before the clock was set back and counts as now. A backup
    // from further ahead would otherwise prevent all others until that day.
    let age = newest.map_or(DAY_MS, |it| (now.0 - it.at.0).max(0));
    if age < DAY_MS {
        // The machine may sleep, and its clock may be set, so this never waits for the rest of the
        // day.
        let left = Duration::from_millis((DAY_MS - age).unsigned_abs());
        return Ok(left.min(AGAIN));
    }
    require_room(works.store.path(), folder)?;
    let to = folder.join(name_of("daily", now));
    let made = create(works, BackupRequest { to: Some(to), keep: None }).await?;
    forget(list(folder, now)?.into_iter().filter(|it| it.daily), kept)?;
    info!(bytes = made.bytes, duration_ms = made.took_ms, "daily backup: {}", made.path);
    Ok(AGAIN)
}

/// An automatic backup must not fill the disk.
fn require_room(database: &Utf8Path, folder: &Utf8Path) -> Result<()> {
    let bytes = std::fs::metadata(database).map_or(0, |it| it.len());
    let free = process::room(folder)?.bytes;
    if free < bytes.saturating_mul(2).saturating_add(ROOM_BYTES) {
        return Err(Error::unavailable(format!("only {} MiB are free", free / (1024 * 1024)))
            .code(DISK_FULL)
            .hint("free some space, or store backups elsewhere: wiki-browser backup --to DIR"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_when() {
        let at = Millis(1_767_323_045_678);
        assert_eq!(name_of("daily", at), "daily-20260102T030405678Z.db");
        for (name, expected) in [
            ("daily-20260102T030405678Z.db", (true, None, at)),
            ("daily-20260102T030405Z.db", (true, None, Millis(1_767_323_045_000))),
            ("site-20260102T030405Z.db", (false, None, Millis(1_767_323_045_000))),
            ("site-0a1b2c3d-20260102T030405678Z.db", (false, Some("0a1b2c3d".to_owned()), at)),
        ] {
            assert_eq!(parse_name(name), Some(expected), "{name}");
        }
        for bad in [
            "site-2026.db",
            "site-20261302T030405Z.db",
            "other-20260102T030405Z.db",
            "site-20260102T030405Z.db.part",
            "site-20260102T0304é5Z.db",
            "site-20260102T030405+9Z.db",
            "site-mine-20260102T030405678Z.db",
            "daily-0a1b2c3d-20260102T030405678Z.db",
        ] {
            assert_eq!(parse_name(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_old_copies_of_its_own_sort_are_forgotten() {
        let temp = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(temp.path()).unwrap();
        for name in ["site-20260101T000000Z.db", "daily-20260101T000000Z.db", "mine.db"] {
            std::fs::write(folder.join(name), "x").unwrap();
        }
        for day in 2..6 {
            std::fs::write(folder.join(format!("daily-2026010{day}T000000Z.db")), "x").unwrap();
        }
        std::fs::write(folder.join("daily-20260109T000000Z.db"), "").unwrap();
        // A time in the future counts as the oldest.
        std::fs::write(folder.join("daily-20990101T000000Z.db"), "x").unwrap();
        let (_, _, now) = parse_name("daily-20260105T120000Z.db").unwrap();
        let daily = list(folder, now).unwrap().into_iter().filter(|it| it.daily);
        let removed = forget(daily, 2).unwrap();
        assert_eq!(removed.len(), 4);
        let left = list(folder, now).unwrap();
        let left: Vec<&str> = left.iter().map(|it| it.path.file_name().unwrap()).collect();
        assert_eq!(
            left,
            ["daily-20260105T000000Z.db", "daily-20260104T000000Z.db", "site-20260101T000000Z.db"]
        );
        assert!(folder.join("mine.db").exists());
    }
}
