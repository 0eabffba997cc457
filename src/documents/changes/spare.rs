//! The files beside those that a restore replaces, under which the new ones wait: a crash leaves
//! them, and their names are known, so they are removed when the server starts and before the next
//! restore.
//!
//! **Invariant:** one is removed only if it contains what was being written, or what is stored as
//! the job's result; anything else is somebody's edit, and stays.

use std::path::PathBuf;

use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{JobId, Result, digest_hex};
use crate::documents::changes::attributes::End;
use crate::documents::changes::plan::{Present, Want, plain, want_of};
use crate::documents::changes::{Changes, FileChange};
use crate::documents::git::{Repo, blocking};
use crate::documents::snapshot::{Kept, Work, git_root, name};
use crate::process::{Root, Standing};

/// Returns the name of the file that waits beside a path.
pub(super) fn spare_of(job: &JobId, path: &str) -> String {
    let digest = digest_hex(format!("{job} {path}"));
    format!(".wb-{}.tmp", &digest[..20])
}

impl Changes {
    /// Removes what an interrupted restore of the job left beside files.
    ///
    /// # Errors
    /// As any read of the repository; `unavailable` if one cannot be removed.
    pub async fn clear_spares(&self, repo: &Repo, kept: &Kept, job: &JobId) -> Result<()> {
        let top = repo.git().folder().to_owned();
        let places: Vec<(String, PathBuf)> =
            self.files.iter().map(|it| (it.path.clone(), beside(job, &it.path))).collect();
        let find = move || {
            let top = Root::open(&top)?;
            let there = places.into_iter().filter(|(_, spare)| top.changed_ms(spare).is_some());
            Ok::<_, crate::base::Error>(there.collect::<Vec<_>>())
        };
        let left = blocking(find).await??;
        for it in &self.private {
            let (root, spare) = (git_root(repo, &it.name)?, beside(job, &it.name));
            if root.changed_ms(&spare).is_none() {
                continue;
            }
            let new = match &it.before {
                Work::File { blob, .. } => repo.read_blob(blob, SOURCE_BYTES_MAX).await?,
                _ => Vec::new(),
            };
            let own = vec![plain(&it.before), plain(&it.after)];
            clear(repo, root, spare, (own, new)).await?;
        }
        if left.is_empty() {
            return Ok(());
        }
        let present = Present::of(repo, self, (kept, job)).await?;
        for (path, spare) in left {
            let Some(it) = self.files.iter().find(|it| it.path == path) else { continue };
            let was = present.want(repo, it, End::Before).await?;
            let is = present.want(repo, it, End::After).await?;
            let new = match present.standing_before(repo, it, &was).await? {
                Some(Standing::File { bytes, .. }) => bytes,
                _ => Vec::new(),
            };
            clear(repo, present.top().clone(), spare, (vec![was, is], new)).await?;
        }
        Ok(())
    }
}

impl Present {
    /// Returns what is to stand at a path again; `None` if that is not known.
    pub(super) async fn standing_before(
        &self,
        repo: &Repo,
        it: &FileChange,
        was: &Want,
    ) -> Result<Option<Standing>> {
        Ok(Some(match was {
            Want::Nothing => Standing::Nothing,
            Want::Link(target) => Standing::Link { target: target.clone() },
            Want::File { mode, .. } => {
                let bytes = self.bytes(repo, it).await?;
                let own = match &it.before.work {
                    Work::File { mode, .. } => Some(*mode),
                    _ => None,
                };
                Standing::File { bytes, mode: own.unwrap_or(*mode) }
            }
            Want::Seen(_) | Want::Unknown(_) => return Ok(None),
        }))
    }
}

fn beside(job: &JobId, path: &str) -> PathBuf {
    name::path(path).with_file_name(spare_of(job, path))
}

async fn clear(repo: &Repo, root: Root, spare: PathBuf, ours: (Vec<Want>, Vec<u8>)) -> Result<()> {
    let repo = repo.clone();
    let work = move || {
        let held = root.standing(&spare, SOURCE_BYTES_MAX)?;
        if held == Standing::Nothing {
            return Ok(());
        }
        let is_removed = is_ours(&repo, &held, &ours)
            && root.swap_here(&spare, SOURCE_BYTES_MAX, |it| *it == held, &Standing::Nothing)?;
        if !is_removed {
            tracing::warn!(
                "{} holds an edit that was taken out when a restore was interrupted: look at it, \
                 and move it away",
                spare.display()
            );
        }
        Ok(())
    };
    blocking(work).await?
}

/// Returns whether a spare file is one of these versions, or the beginning of what was written.
fn is_ours(repo: &Repo, held: &Standing, (wants, new): &(Vec<Want>, Vec<u8>)) -> bool {
    let same = |it: &Want| match (it, want_of(repo, held)) {
        // The mode is set last.
        (Want::File { bytes, .. }, Want::File { bytes: held, .. }) => *bytes == held,
        (it, held) => *it == held,
    };
    let begun = matches!(held, Standing::File { bytes, .. } if new.starts_with(bytes));
    begun || wants.iter().any(same)
}
