//! Refuses a repository that somebody has put in the place of the site's.

use camino::Utf8Path;

use crate::base::{Error, Result};
use crate::documents::git::call::Git;
use crate::documents::git::settings::common_folder;
use crate::process::read_small;

/// Largest file of git that leads to a folder, in bytes.
const GIT_FILE_BYTES_MAX: u64 = 64 * 1024;

/// The code of a repository that somebody has put in the place of the site's.
pub const PLANTED_REPOSITORY: &str = "planted_repository";

/// Refuses a repository in a folder whose files another one tracks: somebody has put it there, and
/// what is approved would go astray.
pub(super) async fn refuse_planted(git: &Git, top: &Utf8Path) -> Result<()> {
    let Some((parent, name)) = top.parent().zip(top.file_name()) else { return Ok(()) };
    let (program, children) = git.program();
    let outer = Git::new(program, parent, children);
    // A submodule is a commit there, and anything else is not there.
    let found = outer.call(&["cat-file", "-t"]).arg(format!("HEAD:./{name}")).run().await?;
    if found.stdout.trim_ascii() != b"tree" {
        return Ok(());
    }
    let message = format!("{top} is a repository of its own, and another one tracks its files");
    let made = match top.join(".git").symlink_metadata() {
        Ok(_) => format!("{top}/.git"),
        Err(_) => format!("HEAD, config, objects and refs in {top}"),
    };
    Err(Error::unavailable(message)
        .code(PLANTED_REPOSITORY)
        .hint(format!("remove {made} if you have not made it: an agent may have")))
}

/// Refuses a repository whose `commondir` leads to another one, where approvals would go.
pub(super) fn refuse_diverted(git_dir: &Utf8Path, common: &Utf8Path) -> Result<()> {
    let own = common_folder(git_dir, ".")?;
    // As git makes the worktree NAME: `.git/worktrees/NAME`.
    let is_worktree = || own.parent().is_some_and(|it| it == common.join("worktrees"));
    if own == *common || is_worktree() {
        return Ok(());
    }
    let (message, hint) = diverted(git_dir, common);
    Err(Error::unavailable(message).code(PLANTED_REPOSITORY).hint(hint))
}

/// Refuses a `commondir` that does not lead to the shared folder with which the repository was
/// opened: git looks there for branches, whatever it is told in its environment.
///
/// # Errors
/// `conflict` with code `planted_repository`.
pub(super) fn refuse_diverted_since(git_dir: &Utf8Path, common: &Utf8Path) -> Result<()> {
    let told = read_small(&git_dir.join("commondir"), GIT_FILE_BYTES_MAX)?;
    let told = told.map(|it| String::from_utf8_lossy(&it).trim().to_owned());
    let led = git_dir.join(told.as_deref().unwrap_or("."));
    let own = common.canonicalize_utf8().ok();
    match led.canonicalize_utf8() {
        Ok(led) if Some(&led) == own.as_ref() => return Ok(()),
        // Nothing is there any more: git says so itself.
        Err(_) if told.is_none() => return Ok(()),
        Ok(_) | Err(_) => {}
    }
    let (message, hint) = diverted(git_dir, &led);
    Err(Error::conflict(PLANTED_REPOSITORY, message).hint(hint))
}

/// Returns what is said of it, and what to do.
fn diverted(git_dir: &Utf8Path, common: &Utf8Path) -> (String, String) {
    let message = format!("{git_dir}/commondir leads to another repository: {common}");
    // Where git puts worktrees: without that file it would be none.
    let is_of_worktree = git_dir.parent().is_some_and(|it| it.file_name() == Some("worktrees"));
    let hint = match is_of_worktree {
        true => format!("write `../..` into {git_dir}/commondir: an agent may have changed it"),
        false => format!("remove {git_dir}/commondir: an agent may have made it"),
    };
    (message, hint)
}
