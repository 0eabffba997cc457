//! Keeps files replaced by approvals for a day: a program that had one open may still write to it,
//! and those writes must not be lost.
//!
//! **Invariant:** a file is removed only while it contains exactly what the approval replaced, or a
//! month after the last write to it.
//! after somebody last wrote to it.

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{AttemptId, BlobId, Millis, Result};
use crate::documents::commit::place::Change;
use crate::documents::git::{Repo, blocking};
use crate::documents::proposals::attempt;
use crate::process::{FILE_GONE, Root, Standing};
use crate::store::Store;

/// The folder inside of the data folder.
const FOLDER: &str = "replaced";
/// How long an unchanged file is kept.
const KEPT_MS: i64 = 24 * 3_600_000;
/// How long a file with late writes is kept.
const LATE_MS: i64 = 30 * 24 * 3_600_000;
/// Most unchanged files kept; the oldest are removed first.
const FILES_MAX: usize = 500;
/// Most names examined.
const NAMES_MAX: usize = 10_000;

/// Where to keep the file that an approval replaces.
#[derive(Clone, Debug)]
pub(super) struct Aside {
    /// Its temporary name beside the Source.
    pub(super) spare: String,
    /// The data folder.
    pub(super) data: Utf8PathBuf,
    /// Its path inside.
    pub(super) kept: Utf8PathBuf,
}

impl Aside {
    pub(super) fn of(store: &Store, attempt: &AttemptId, base: &BlobId) -> Aside {
        let data = store.path().parent().unwrap_or(store.path()).to_owned();
        let kept = Utf8Path::new(FOLDER).join(format!("{attempt}.{base}"));
        Aside { spare: format!(".wb-{attempt}.tmp"), data, kept }
    }
}

impl Change {
    /// Returns a note if somebody wrote to the replaced file since.
    pub(super) async fn late_write(&self, repo: &Repo, aside: &Aside) -> Option<String> {
        let (data, kept) = (aside.data.clone(), aside.kept.clone());
        let look = blocking(move || Root::open(&data)?.standing(&kept, SOURCE_BYTES_MAX));
        match look.await.and_then(|held| held) {
            Ok(Standing::Nothing) => None,
            Ok(held) if is_unchanged(repo, &held, &self.base_blob) => None,
            Ok(_) => {
                let note = note(self.path.as_str(), &aside.kept);
                tracing::warn!("{note}");
                Some(note)
            }
            Err(cause) => {
                // The commit is made; housekeeping checks the file again.
                tracing::warn!("{} cannot be looked at: {}", aside.kept, cause.chain());
                None
            }
        }
    }
}

/// Notes late writes to kept files, and removes old ones.
///
/// # Errors
/// Fails if the disk or the database cannot be read or written.
pub async fn look_after_replaced(repo: &Repo, store: &Store) -> Result<()> {
    let data = store.path().parent().unwrap_or(store.path()).to_owned();
    let (at, now) = (repo.clone(), store.clock().now());
    for (attempt, kept) in blocking(move || sweep(&at, &data, now)).await?? {
        let text = note("the document", &kept);
        let id = attempt.clone();
        if store.write(move |tx| attempt::note_late(tx, &id, &text)).await? {
            tracing::warn!(attempt_id = %attempt, "{}", note("a replaced file", &kept));
        }
    }
    Ok(())
}

/// Removes old files; returns those with late writes.
fn sweep(repo: &Repo, data: &Utf8Path, now: Millis) -> Result<Vec<(AttemptId, Utf8PathBuf)>> {
    let root = Root::open(data)?;
    let names = match root.names(Utf8Path::new(FOLDER), NAMES_MAX) {
        Ok(names) => names,
        Err(cause) if cause.code_str() == FILE_GONE => return Ok(Vec::new()),
        Err(cause) => return Err(cause),
    };
    let (mut unchanged, mut late) = (Vec::new(), Vec::new());
    for name in names {
        let Some((attempt, base)) = parse(&name) else { continue };
        let kept = Utf8Path::new(FOLDER).join(&name);
        let age = root.changed_ms(&kept).map_or(0, |changed| now.0 - changed);
        let held = root.standing(&kept, SOURCE_BYTES_MAX)?;
        if is_unchanged(repo, &held, &base) {
            unchanged.push((age, kept, base));
        } else if age > LATE_MS {
            root.swap(&kept, SOURCE_BYTES_MAX, |it| *it == held, &Standing::Nothing)?;
        } else if held != Standing::Nothing {
            late.push((attempt, kept));
        }
    }
    unchanged.sort_unstable_by_key(|(age, ..)| *age);
    for (at, (age, kept, base)) in unchanged.into_iter().enumerate() {
        if age > KEPT_MS || at >= FILES_MAX {
            let is_same = |it: &Standing| is_unchanged(repo, it, &base);
            root.swap(&kept, SOURCE_BYTES_MAX, is_same, &Standing::Nothing)?;
        }
    }
    Ok(late)
}

fn parse(name: &str) -> Option<(AttemptId, BlobId)> {
    let (attempt, base) = name.split_once('.')?;
    Some((attempt.parse().ok()?, base.parse().ok()?))
}

fn is_unchanged(repo: &Repo, held: &Standing, base: &BlobId) -> bool {
    matches!(held, Standing::File { bytes, .. } if repo.hash(bytes) == *base)
}

fn note(what: &str, kept: &Utf8Path) -> String {
    format!(
        "{what} was written to through an older open file after the approval had replaced it: that \
         text is kept for 30 days as {kept} in the data folder"
    )
}
