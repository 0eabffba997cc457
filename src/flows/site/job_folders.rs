//! Deletes folders of jobs: those older than thirty days, and the oldest beyond 2 GiB.
//!
//! **Invariant:** the folder of a job that waits, runs or is not settled is never touched.
//! **Invariant:** the row says that the folder is gone before anything of it is removed; after a
//! crash the next look removes the rest.

use std::borrow::Cow;
use std::collections::HashMap;

use camino::Utf8Path;
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use crate::base::{Context, Error, ErrorKind, JobId, Millis, Result, fault};
use crate::jobs::{self, Files};
use crate::process;
use crate::store::Store;

/// How long the folder of a job is kept after its end.
pub const KEPT_MS: i64 = 30 * 24 * 3_600_000;
/// Total size limit of all folders.
pub const BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;
/// Most entries of one folder that are measured; the rest does not count.
const MEASURED_MAX: usize = 20_000;
/// Entries removed per step on a blocking thread.
const STEP: usize = 2_000;
/// Rows read or updated per transaction.
const ROWS: usize = 200;
/// Prefix of a folder that is being removed.
const GONE: &str = ".gone-";

/// A folder to delete.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GivenUp {
    /// The job.
    pub job_id: JobId,
    /// Its size on disk, in bytes.
    pub bytes: u64,
    /// `age` or `size`.
    pub why: Cow<'static, str>,
}

/// The result of a cleanup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "GivenUpJobs"))]
pub struct Report {
    /// The deleted folders; at most a thousand are named.
    pub removed: Vec<GivenUp>,
    /// Number of deleted folders.
    pub removed_count: u64,
    /// Freed bytes.
    pub removed_bytes: u64,
    /// Number of kept folders.
    pub kept_count: u64,
    /// Their size in bytes.
    pub kept_bytes: u64,
    /// What could not be removed, and why.
    pub problems: Vec<String>,
}

/// Most folders, and most problems, in a report.
const NAMED_MAX: usize = 1_000;

/// The measured sizes of folders. The folder of an ended job does not grow, so each is measured
/// once per server run.
#[derive(Debug, Default)]
pub struct Sizes(HashMap<JobId, u64>);

struct Folder {
    id: JobId,
    bytes: u64,
    ended: Option<Millis>,
    why: Option<&'static str>,
}

/// Deletes folders that are too old or exceed the limit; with `dry_run` it only reports.
///
/// # Errors
/// `unavailable` if the folders or the database cannot be read.
pub async fn clean(
    store: &Store,
    data: &Utf8Path,
    sizes: &mut Sizes,
    dry_run: bool,
) -> Result<Report> {
    let folder = data.join("jobs");
    let (names, leftovers) = names(&folder)?;
    sizes.0.retain(|id, _| names.binary_search(id).is_ok());
    let now = store.clock().now();
    let mut report = Report::default();
    let mut folders = Vec::new();
    for chunk in names.chunks(ROWS) {
        folders.extend(judge(store, &folder, chunk, sizes, now, &mut report).await?);
    }
    by_size(&mut folders, &mut report);
    if dry_run {
        return Ok(report);
    }
    for name in leftovers {
        remove(&folder, &name, &mut report).await;
    }
    let gone: Vec<JobId> =
        folders.into_iter().filter(|it| it.why.is_some()).map(|it| it.id).collect();
    for chunk in gone.chunks(ROWS) {
        let ids = chunk.to_vec();
        let noted = store
            .write(move |tx| ids.iter().try_for_each(|id| jobs::give_up_files(tx, id).map(|_| ())));
        noted.await?;
        fault::crash_point("retention_noted");
        for id in chunk {
            let name = format!("{GONE}{id}");
            match std::fs::rename(folder.join(id.as_str()), folder.join(&name)) {
                Ok(()) => remove(&folder, &name, &mut report).await,
                Err(cause) => problem(&mut report, format!("cannot move {folder}/{id}: {cause}")),
            }
            sizes.0.remove(id);
        }
    }
    if report.removed_count > 0 {
        let (count, mib) = (report.removed_count, report.removed_bytes / (1024 * 1024));
        info!(count, "the folders of {count} jobs were removed ({mib} MiB)");
    }
    for problem in &report.problems {
        warn!("{problem}");
    }
    Ok(report)
}

/// Returns the jobs that have a folder, in order, and the remains of interrupted removals.
fn names(folder: &Utf8Path) -> Result<(Vec<JobId>, Vec<String>)> {
    let cannot = || format!("cannot read {folder}");
    let entries = match std::fs::read_dir(folder) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
            return Ok((Vec::new(), Vec::new()));
        }
        entries => entries.context(ErrorKind::Unavailable, cannot)?,
    };
    let (mut ids, mut leftovers) = (Vec::new(), Vec::new());
    for entry in entries {
        let entry = entry.context(ErrorKind::Unavailable, cannot)?;
        // Other names are left alone.
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
        if let Ok(id) = name.parse::<JobId>() {
            ids.push(id);
        } else if name.starts_with(GONE) {
            leftovers.push(name);
        }
    }
    ids.sort();
    Ok((ids, leftovers))
}

/// Returns the sizes of some folders, and whether they are too old.
async fn judge(
    store: &Store,
    folder: &Utf8Path,
    ids: &[JobId],
    sizes: &mut Sizes,
    now: Millis,
    report: &mut Report,
) -> Result<Vec<Folder>> {
    let asked = ids.to_vec();
    let rows = store.read(move |c| {
        asked.into_iter().map(|id| Ok((jobs::files(c, &id)?, id))).collect::<Result<Vec<_>>>()
    });
    let mut folders = Vec::new();
    for (files, id) in rows.await? {
        let why = match files {
            // Not settled: not even measured.
            Some(Files { ended: None, .. }) => {
                report.kept_count += 1;
                continue;
            }
            // A removal that was interrupted between its two steps.
            Some(Files { removed: Some(_), .. }) => Some("age"),
            Some(Files { ended: Some(ended), .. }) => (ended.plus(KEPT_MS) <= now).then_some("age"),
            // A restored database does not know the jobs after it.
            None => is_untouched_since(folder, &id, now.plus(-KEPT_MS)).then_some("age"),
        };
        let bytes = match sizes.0.get(&id) {
            Some(bytes) => *bytes,
            None => {
                let (folder, name) = (folder.to_owned(), id.to_string());
                let size = blocking(move || process::measure(&folder, &name, MEASURED_MAX)).await;
                match size {
                    Ok(size) => size.bytes,
                    Err(cause) => {
                        problem(report, cause.chain());
                        continue;
                    }
                }
            }
        };
        sizes.0.insert(id.clone(), bytes);
        let ended = files.and_then(|it| it.ended);
        folders.push(Folder { id, bytes, ended, why });
    }
    Ok(folders)
}

fn is_untouched_since(folder: &Utf8Path, id: &JobId, before: Millis) -> bool {
    let facts = std::fs::symlink_metadata(folder.join(id.as_str()));
    let modified = facts.and_then(|it| it.modified()).ok();
    let modified = modified.and_then(|it| it.duration_since(std::time::UNIX_EPOCH).ok());
    modified.is_some_and(|it| i64::try_from(it.as_millis()).is_ok_and(|ms| ms < before.0))
}

/// Deletes the oldest folders until the rest fits, and counts all of them.
fn by_size(folders: &mut [Folder], report: &mut Report) {
    let mut total: u64 = folders.iter().filter(|it| it.why.is_none()).map(|it| it.bytes).sum();
    let mut order: Vec<usize> = (0..folders.len())
        .filter(|at| folders[*at].why.is_none() && folders[*at].ended.is_some())
        .collect();
    order.sort_by_key(|at| folders[*at].ended);
    for at in order {
        if total <= BYTES_MAX {
            break;
        }
        total -= folders[at].bytes;
        folders[at].why = Some("size");
    }
    for folder in folders.iter() {
        let Some(why) = folder.why else {
            report.kept_count += 1;
            report.kept_bytes += folder.bytes;
            continue;
        };
        report.removed_count += 1;
        report.removed_bytes += folder.bytes;
        if report.removed.len() < NAMED_MAX {
            let (job_id, bytes) = (folder.id.clone(), folder.bytes);
            report.removed.push(GivenUp { job_id, bytes, why: why.into() });
        }
    }
}

/// Removes a folder in steps, so that a million files delay nobody.
async fn remove(folder: &Utf8Path, name: &str, report: &mut Report) {
    loop {
        let (at, what) = (folder.to_owned(), name.to_owned());
        match blocking(move || process::remove_some(&at, &what, STEP)).await {
            Ok(it) if it.is_done => return,
            Ok(_) => tokio::task::yield_now().await,
            Err(cause) => return problem(report, cause.chain()),
        }
        fault::crash_point("retention_step");
    }
}

fn problem(report: &mut Report, what: String) {
    if report.problems.len() < NAMED_MAX {
        report.problems.push(what);
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|cause| Error::internal("a look at a folder panicked").source(cause))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(n: u32, mib: u64, ended: Option<i64>) -> Folder {
        let id = format!("018bcfe5-6800-7000-8000-{n:012}").parse().unwrap();
        Folder { id, bytes: mib * 1024 * 1024, ended: ended.map(Millis), why: None }
    }

    #[test]
    fn the_oldest_go_until_the_rest_is_small_enough() {
        let mut folders = vec![
            folder(1, 1_500, Some(30)),
            folder(2, 600, Some(10)),
            folder(3, 500, Some(20)),
            folder(4, 100, None),
        ];
        let mut report = Report::default();
        by_size(&mut folders, &mut report);
        let gone: Vec<_> = folders.iter().map(|it| it.why).collect();
        // 2,700 MiB: 2,100 without the oldest, 1,600 without the next.
        assert_eq!(gone, [None, Some("size"), Some("size"), None]);
        assert_eq!((report.removed_count, report.kept_count), (2, 2));
        assert_eq!(report.removed_bytes / (1024 * 1024), 1_100);
    }
}
