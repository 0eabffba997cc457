//! Puts git's own files aside: locks, unfinished operations, hooks that were added.
//!
//! **Invariant:** what is put aside stays in the repository, and replaces nothing there: no link is
//! followed.

use camino::{Utf8Path, Utf8PathBuf};

use crate::api::changes::Outcome;
use crate::base::{Error, JobId, Result};
use crate::documents::changes::{Changes, Plan};
use crate::documents::git::{PLANTED_REPOSITORY, Repo, blocking};
use crate::documents::snapshot::{ASIDE, git_root, link_at, name};
use crate::process::Root;

/// Most files of the same name that are put aside for a job.
const NAMESAKES_MAX: usize = 1_000;

impl Changes {
    /// Refuses to put anything aside where a link is, unless this restore removes the link.
    ///
    /// # Errors
    /// `conflict` with code `planted_repository`.
    pub(super) async fn refuse_linked_aside(
        &self,
        repo: &Repo,
        job: &JobId,
        plan: &Plan,
    ) -> Result<()> {
        let is_ready = |name: &str| {
            let name = format!(".git/{name}");
            plan.items.iter().any(|it| it.name == name && it.outcome == Outcome::Ready)
        };
        let names = [ASIDE.to_owned(), folder_of(job).into_string()];
        let names: Vec<String> = names.into_iter().filter(|it| !is_ready(it)).collect();
        let repo = repo.clone();
        let look = move || {
            for name in names {
                let Some(target) = link_at(&repo, &name)? else { continue };
                let place = git_root(&repo, &name)?.path().join(&name);
                let message =
                    format!("{place} is a link: what is put aside would be moved to {target}");
                return Err(Error::conflict(PLANTED_REPOSITORY, message).hint(format!(
                    "nothing was changed. Check what it leads to, and remove it: `rm '{place}'`"
                )));
            }
            Ok(())
        };
        blocking(look).await?
    }
}

/// Returns the folder, among git's own files, for what a job left.
fn folder_of(job: &JobId) -> Utf8PathBuf {
    Utf8Path::new(ASIDE).join(job.as_str())
}

/// Moves a file of git's own out of the way.
///
/// # Errors
/// `invalid` with code `path_is_link` if a link is on the way; `not_found` if it is gone;
/// `unavailable` if the file system refuses.
pub(super) async fn put(repo: &Repo, job: &JobId, (root, own): (Root, &str)) -> Result<()> {
    let (folder, target, own) = (folder_of(job), repo.git_dir().to_owned(), own.to_owned());
    let work = move || {
        let target = Root::open(&target)?;
        target.make_private(&folder)?;
        let from = name::path(&own);
        let flat = own.replace('/', "-");
        for number in 1..=NAMESAKES_MAX {
            // A job may have put something there itself.
            let new = if number == 1 { flat.clone() } else { format!("{flat}.{number}") };
            if root.move_to(&from, &target, &folder.as_std_path().join(name::path(&new)))? {
                return Ok(());
            }
        }
        Err(Error::unavailable(format!("{folder} has too many files named {flat}")))
    };
    blocking(work).await?
}
