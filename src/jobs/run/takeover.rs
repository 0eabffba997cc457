//! Jobs that outlive the server: how a later server takes them over, and how much of their agents'
//! output was processed.
//!
//! **Invariant:** the effects of a line of output, and the record that it was processed, are
//! written in one transaction.

use camino::Utf8Path;
use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::base::{Context, Error, ErrorKind, JobId, Result, digest_hex, random_token};
use crate::process::{GUARD_SOCKET, OnServerLoss, private_file, read_small};
use crate::store::Tx;

/// How long an agent continues without a server, in milliseconds.
const KEEP_MS: u64 = 24 * 3_600_000;
/// The file in the data folder with the key from which jobs' keys are derived.
const KEY_FILE: &str = "guard.key";
/// Longest key file, in bytes.
const KEY_BYTES_MAX: u64 = 256;

const NOTE_HEARD: &str = "
    UPDATE agent_jobs SET counted_json = json_object('heard', :heard)
    WHERE id = :id AND status = 'running'";
const HEARD: &str = "
    SELECT json_extract(counted_json, '$.heard') FROM agent_jobs WHERE id = :id";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] =
    &[("keeping::note_heard", NOTE_HEARD), ("keeping::heard", HEARD)];

/// Returns the key of a job, derived from the site's key and stored nowhere.
///
/// # Errors
/// `unavailable` if the site's key cannot be read or created.
pub(in crate::jobs) fn key(data: &Utf8Path, job: &JobId) -> Result<String> {
    let path = data.join(KEY_FILE);
    let known = match read_small(&path, KEY_BYTES_MAX)? {
        Some(known) => known,
        None => {
            let made = random_token("wbk_")?;
            private_file(&path, made.as_bytes())
                .context(ErrorKind::Unavailable, || format!("cannot write {path}"))?;
            // If another process was faster, its key counts.
            read_small(&path, KEY_BYTES_MAX)?
                .ok_or_else(|| Error::unavailable(format!("{path} is gone")))?
        }
    };
    let known = String::from_utf8_lossy(&known);
    Ok(digest_hex(format!("{}:{job}", known.trim())))
}

/// Returns the setting for a guard that outlives its server.
///
/// # Errors
/// Same as [`key`].
pub(in crate::jobs) fn keep(data: &Utf8Path, job: &JobId) -> Result<OnServerLoss> {
    keep_for(data, job, KEEP_MS)
}

/// Returns the setting for a guard that waits this long for another server.
///
/// # Errors
/// Same as [`key`].
pub(in crate::jobs) fn keep_for(
    data: &Utf8Path,
    job: &JobId,
    keep_ms: u64,
) -> Result<OnServerLoss> {
    let adopt_digest = digest_hex(&key(data, job)?);
    Ok(OnServerLoss::Keep { keep_ms, adopt_digest })
}

/// Returns the jobs whose folders contain a guard's socket, whether or not a guard listens.
///
/// # Errors
/// `unavailable` if the folders cannot be read.
pub(in crate::jobs) fn doors(data: &Utf8Path) -> Result<Vec<JobId>> {
    let jobs = data.join("jobs");
    let cannot = || format!("cannot read {jobs}");
    let folders = match jobs.read_dir_utf8() {
        Ok(folders) => folders,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(cause).context(ErrorKind::Unavailable, cannot),
    };
    let mut found = Vec::new();
    for folder in folders {
        let folder = folder.context(ErrorKind::Unavailable, cannot)?;
        let Ok(id) = folder.file_name().parse::<JobId>() else { continue };
        if folder.path().join(GUARD_SOCKET).symlink_metadata().is_ok() {
            found.push(id);
        }
    }
    Ok(found)
}

/// Records how much of a job's output was processed, in bytes.
pub(in crate::jobs) fn note_heard(tx: &Tx<'_>, id: &JobId, heard: u64) -> Result<()> {
    let heard = i64::try_from(heard).unwrap_or(i64::MAX);
    tx.prepare_cached(NOTE_HEARD)?.execute(named_params! {":id": id, ":heard": heard})?;
    Ok(())
}

/// Returns how much of a job's output was processed, in bytes.
pub(in crate::jobs) fn heard(connection: &Connection, id: &JobId) -> Result<u64> {
    let mut statement = connection.prepare_cached(HEARD)?;
    let heard: Option<Option<i64>> =
        statement.query_row(named_params! {":id": id}, |row| row.get(0)).optional()?;
    Ok(heard.flatten().map_or(0, i64::unsigned_abs))
}
