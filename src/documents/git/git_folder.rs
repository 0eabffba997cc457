//! Which repository the site works on: what is at `.git`, and the folders that it leads to.
//!
//! **Invariant:** nothing is committed to another repository than the one that was opened, unless a
//! person has accepted it. A name proves nothing: an agent can put a copy in its place, and change
//! that unseen.

use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, PoisonError};

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use tokio::sync::RwLockWriteGuard;

use crate::base::{Error, JobId, Result, fault};
use crate::documents::git::planted::{PLANTED_REPOSITORY, refuse_diverted_since};
use crate::documents::git::special_search::led_by;
use crate::documents::git::{Repo, blocking};
use crate::process::Root;

/// What stands for a folder that is missing or closed.
const NOTHING: &str = "nothing";

/// What is at `.git`, and the folders that git uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitFolder {
    /// `a folder`, `a link to X`, `a file that leads to X`, or `nothing`.
    kind: String,
    /// The folder that `.git` leads to, and the one shared by all worktrees, if it is another one.
    folders: Vec<Folder>,
}

/// A folder as it is known again. As long as it exists, its inode is no other's; if another got it
/// since, the earlier one is gone, and what the new one contains is compared like any other change.
/// When it was created says less: an overlay file system creates it anew at the first write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Folder {
    /// Without links; relative if it is below the top of the working tree.
    path: String,
    device: u64,
    inode: u64,
}

impl GitFolder {
    /// Reads what is there now. `common` is the folder shared by all worktrees.
    fn read(top: &Utf8Path, common: &Utf8Path) -> GitFolder {
        let (kind, own) = at(top, &top.join(".git"));
        let mut folders: Vec<Folder> = Vec::new();
        for folder in own.iter().map(Utf8PathBuf::as_path).chain([common]) {
            let found = Folder::of(top, folder);
            if folders.first() != Some(&found) {
                folders.push(found);
            }
        }
        GitFolder { kind, folders }
    }

    /// Returns whether it is the same repository, as far as a later server can tell. A device may
    /// have another number after a reboot, and inodes may then, too.
    pub fn is_same(&self, other: &GitFolder) -> bool {
        let is_same = |(one, other): (&Folder, &Folder)| {
            let is_inode = one.device != other.device || one.inode == other.inode;
            one.path == other.path && is_inode
        };
        self.kind == other.kind
            && self.folders.len() == other.folders.len()
            && self.folders.iter().zip(&other.folders).all(is_same)
    }

    /// Returns a description.
    pub fn shown(&self) -> String {
        match self.folders.first() {
            Some(it) if it.path != NOTHING => format!("{} (inode {})", self.kind, it.inode),
            _ => self.kind.clone(),
        }
    }

    /// Opens its folders, so that their inodes are not given to others.
    fn opened(self, top: &Utf8Path) -> OpenedFolder {
        let paths = self.folders.iter().map(|it| top.join(&it.path));
        // One that cannot be opened is known by its numbers alone.
        let held = paths.filter_map(|it| Root::open(&it).ok()).collect();
        OpenedFolder { folder: self, _held: held }
    }
}

impl Folder {
    fn of(top: &Utf8Path, path: &Utf8Path) -> Folder {
        let nothing = Folder { path: NOTHING.to_owned(), device: 0, inode: 0 };
        let Ok(real) = path.canonicalize_utf8() else { return nothing };
        let Ok(meta) = real.metadata() else { return nothing };
        let top = top.canonicalize_utf8().unwrap_or_else(|_| top.to_owned());
        let below = real.strip_prefix(&top).unwrap_or(&real).as_str().to_owned();
        Folder { path: below, device: meta.dev(), inode: meta.ino() }
    }
}

/// Returns what is at `.git`, and the folder that it leads to.
fn at(top: &Utf8Path, place: &Utf8Path) -> (String, Option<Utf8PathBuf>) {
    let Ok(meta) = place.symlink_metadata() else { return (NOTHING.to_owned(), None) };
    if meta.is_dir() {
        return ("a folder".to_owned(), Some(place.to_owned()));
    }
    if meta.is_symlink() {
        let target = place.read_link().map(|it| it.to_string_lossy().into_owned());
        let kind = format!("a link to {}", target.as_deref().unwrap_or("?"));
        return match place.canonicalize_utf8() {
            Ok(real) if real.is_dir() => (kind, Some(real)),
            // Git follows a file there as well.
            Ok(real) => (kind, led_by(real.parent().unwrap_or(top), &real).map(|it| it.1)),
            Err(_) => (kind, None),
        };
    }
    match led_by(top, place) {
        Some((told, led)) => (format!("a file that leads to {told}"), Some(led)),
        None => ("a file".to_owned(), None),
    }
}

/// The repository that was opened, or accepted since; its folders are held open.
pub(super) struct OpenedFolder {
    folder: GitFolder,
    _held: Vec<Root>,
}

impl OpenedFolder {
    pub(super) fn of(top: &Utf8Path, common: &Utf8Path) -> Mutex<OpenedFolder> {
        Mutex::new(GitFolder::read(top, common).opened(top))
    }
}

impl Repo {
    /// Returns what is at `.git` now, and where it leads.
    pub(in crate::documents) fn git_folder(&self) -> GitFolder {
        GitFolder::read(self.top(), self.common_dir())
    }

    /// Returns whether a link stands in the place of git's folder, or a file that leads to none of
    /// these folders.
    pub fn is_led_elsewhere(top: &Utf8Path, folders: &[Utf8PathBuf]) -> bool {
        let place = top.join(".git");
        match place.symlink_metadata() {
            Ok(it) if it.is_file() => {
                let led = led_by(top, &place).and_then(|it| it.1.canonicalize_utf8().ok());
                led.is_none_or(|it| !folders.contains(&it))
            }
            Ok(it) => !it.is_dir(),
            Err(_) => false,
        }
    }

    /// Refuses a repository that is neither the one that was opened nor the one with which a
    /// running job began, one in which a link leads git elsewhere since a running job began, and
    /// one where git would wait.
    ///
    /// # Errors
    /// `conflict` with code `planted_repository`; `unavailable` with code `special_file`.
    pub(in crate::documents) async fn refuse_replaced(&self) -> Result<()> {
        let Some(opened) = &self.shared.opened else { return Ok(()) };
        self.refuse_special().await?;
        if fault::is_off("git_folder") {
            return Ok(());
        }
        let repo = self.clone();
        let now = blocking(move || repo.git_folder()).await?;
        let known = opened.lock().unwrap_or_else(PoisonError::into_inner).folder.clone();
        if now.kind == NOTHING && known.kind != NOTHING {
            // Git says so itself.
            return Ok(());
        }
        if now != known {
            return Err(self.replaced(&known, &now, None));
        }
        let running = self.looks().others(None);
        if running.is_empty() {
            return Ok(());
        }
        let repo = self.clone();
        let links = blocking(move || repo.links()).await??;
        for (job, look) in running {
            if let Some((name, target)) = look.before.new_link(&links) {
                return Err(self.led_by_link((name, target), &job));
            }
            if let Some(known) = look.before.git_folder.filter(|it| !it.is_same(&now)) {
                return Err(self.replaced(&known, &now, Some(&job)));
            }
        }
        Ok(())
    }

    /// Waits until nothing else in this program changes the repository. Unlike any other lock it is
    /// held across `.await`, because it stands for the only index and working tree.
    ///
    /// # Errors
    /// `conflict` with code `planted_repository` if it is another repository by now; `unavailable`
    /// with code `special_file` if git would wait somewhere.
    pub(in crate::documents) async fn turn(&self) -> Result<RwLockWriteGuard<'_, ()>> {
        let turn = self.shared.approving.write().await;
        self.refuse_led_away().await?;
        Ok(turn)
    }

    /// Does the same for who takes back what leads git elsewhere.
    ///
    /// # Errors
    /// The same, but for a `commondir`.
    pub(in crate::documents) async fn turn_to_restore(&self) -> Result<RwLockWriteGuard<'_, ()>> {
        let turn = self.shared.approving.write().await;
        self.refuse_replaced().await?;
        Ok(turn)
    }

    /// Refuses what `refuse_replaced` does, and a `commondir` that leads git elsewhere: by that
    /// name alone git finds its branches.
    ///
    /// # Errors
    /// As [`Repo::refuse_replaced`].
    pub(in crate::documents) async fn refuse_led_away(&self) -> Result<()> {
        Box::pin(self.refuse_replaced()).await?;
        if self.shared.opened.is_none() || fault::is_off("git_folder") {
            return Ok(());
        }
        let repo = self.clone();
        blocking(move || refuse_diverted_since(&repo.shared.git_dir, repo.common_dir())).await?
    }

    /// Returns a warning if another repository is in the place of the known one: people put one
    /// there, too, by cloning it again.
    ///
    /// # Errors
    /// Never fails: what cannot be read is nothing.
    pub async fn replacement(&self) -> Result<Option<String>> {
        let Some(opened) = self.shared.opened.as_ref().filter(|_| !fault::is_off("git_folder"))
        else {
            return Ok(None);
        };
        let repo = self.clone();
        let now = blocking(move || repo.git_folder()).await?;
        let known = opened.lock().unwrap_or_else(PoisonError::into_inner).folder.clone();
        if now.kind == NOTHING || now == known {
            return Ok(None);
        }
        let message = self.replaced(&known, &now, None).message().to_owned();
        Ok(Some(format!(
            "{message}: approvals and worktrees are refused; move the earlier one back by hand, \
             or, if it was you, restart the server"
        )))
    }

    /// Returns the error for another repository in the place of the known one, since a job ran.
    pub(in crate::documents) fn replaced(
        &self,
        known: &GitFolder,
        now: &GitFolder,
        job: Option<&JobId>,
    ) -> Error {
        let place = self.top().join(".git");
        let (was, is) = (known.shown(), now.shown());
        let since = job.map(|job| format!(" since job {job} ran")).unwrap_or_default();
        let message = format!("{place} is another repository{since}: it was {was}, and is {is}");
        let back = format!(
            "nothing was changed. An agent may have replaced it: find the earlier one, and move it \
             back to {place} by hand"
        );
        Error::conflict(PLANTED_REPOSITORY, message).hint(match job {
            Some(job) => format!(
                "{back}, then run `wiki-browser job restore {job}` once the job has ended; or keep \
                 this one: `wiki-browser job keep {job}`"
            ),
            None => format!("{back}; if it was you, restart the server"),
        })
    }

    /// Makes a repository that a person has accepted the known one, unless it was replaced again;
    /// `None` accepts whatever is there.
    ///
    /// # Errors
    /// Never fails: what cannot be read is nothing.
    pub async fn accept_git_folder(&self, wanted: Option<GitFolder>) -> Result<()> {
        let repo = self.clone();
        blocking(move || repo.accept(wanted.as_ref())).await
    }

    pub(in crate::documents) fn accept(&self, wanted: Option<&GitFolder>) {
        let Some(opened) = &self.shared.opened else { return };
        let now = self.git_folder().opened(self.top());
        if wanted.is_none_or(|it| it.is_same(&now.folder)) {
            *opened.lock().unwrap_or_else(PoisonError::into_inner) = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// What a backup, a move or another mount changes is not another repository; a copy, a link or
    /// another folder is.
    #[test]
    fn a_repository_is_known_again_by_its_place_and_its_folder() {
        let base = tempfile::tempdir().unwrap();
        let base = Utf8Path::from_path(base.path()).unwrap();
        let top = base.join("top");
        fs::create_dir_all(top.join(".git/refs")).unwrap();
        let read = |top: &Utf8Path| GitFolder::read(top, &top.join(".git"));
        let first = read(&top);
        assert_eq!(first.folders.len(), 1);
        let mut other_device = first.clone();
        for it in &mut other_device.folders {
            (it.device, it.inode) = (it.device + 1, it.inode + 1);
        }
        assert!(first.is_same(&other_device) && first != other_device);
        // The site as a whole is moved.
        fs::rename(&top, base.join("moved")).unwrap();
        assert!(read(&base.join("moved")).is_same(&first));
        fs::rename(base.join("moved"), &top).unwrap();
        let away = base.join("away");
        fs::rename(top.join(".git"), &away).unwrap();
        assert_eq!(read(&top).kind, NOTHING);
        // A copy, a link, and a file with a link on the way.
        fs::create_dir_all(top.join(".git/refs")).unwrap();
        assert!(!read(&top).is_same(&first));
        fs::remove_dir_all(top.join(".git")).unwrap();
        symlink(&away, top.join(".git")).unwrap();
        assert!(!read(&top).is_same(&first) && Repo::is_led_elsewhere(&top, &[]));
        fs::remove_file(top.join(".git")).unwrap();
        let link = base.join("link");
        symlink(&away, &link).unwrap();
        fs::write(top.join(".git"), format!("gitdir: {link}\n")).unwrap();
        let by_file = read(&top);
        assert!(!by_file.is_same(&first));
        let known = [away.canonicalize_utf8().unwrap()];
        assert!(!Repo::is_led_elsewhere(&top, &known) && Repo::is_led_elsewhere(&top, &[]));
        fs::create_dir_all(base.join("evil/refs")).unwrap();
        fs::remove_file(&link).unwrap();
        symlink(base.join("evil"), &link).unwrap();
        assert!(!read(&top).is_same(&by_file) && Repo::is_led_elsewhere(&top, &known));
        fs::remove_file(top.join(".git")).unwrap();
        fs::rename(&away, top.join(".git")).unwrap();
        assert!(read(&top).is_same(&first));
    }
}
