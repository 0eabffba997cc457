//! Changes after which git works elsewhere: another repository at `.git`, or a link in the place of
//! one of its own files and folders.
//!
//! **Invariant:** while there is such a change, nothing is written to the repository, except that a
//! restore removes links behind which nothing is needed. Others a person puts back by hand: the
//! original is somewhere outside, and we never move anything there.

use camino::Utf8Path;

use crate::api::changes::{Item, Outcome};
use crate::base::{JobId, Result, fault};
use crate::documents::changes::plan::{item, outcome};
use crate::documents::changes::{Changes, PrivateChange};
use crate::documents::git::{GitFolder, Repo, blocking};
use crate::documents::snapshot::{
    GIT, HOOKS, Snapshot, Work, behind_now, hook_behind_a_link, hooks_facts, is_of_worktree,
    link_at, link_of, may_be_link,
};
use crate::process::Root;

/// Returns the repositories before and after, if they differ.
pub(super) fn exchanged(before: &Snapshot, after: &Snapshot) -> Option<(GitFolder, GitFolder)> {
    if fault::is_off("git_folder") {
        return None;
    }
    let both = before.git_folder.as_ref().zip(after.git_folder.as_ref());
    both.filter(|(was, is)| !was.is_same(is)).map(|(was, is)| (was.clone(), is.clone()))
}

impl Changes {
    /// Refuses to write to a repository that these changes have led elsewhere. What
    /// `is_restored` names is no obstacle.
    ///
    /// # Errors
    /// `conflict` with code `planted_repository`.
    pub async fn refuse_astray(
        &self,
        repo: &Repo,
        job: &JobId,
        is_restored: fn(&str) -> bool,
    ) -> Result<()> {
        let links = self.private.iter().filter(|it| it.leads_elsewhere() && !is_restored(&it.name));
        let links: Vec<PrivateChange> = links.cloned().collect();
        if fault::is_off("git_folder") || (self.folder.is_none() && links.is_empty()) {
            return Ok(());
        }
        let (repo, job, folder) = (repo.clone(), job.clone(), self.folder.clone());
        let looked = blocking(move || {
            if let Some((was, _)) = &folder {
                let now = repo.git_folder();
                if !was.is_same(&now) {
                    return Err(repo.replaced(was, &now, Some(&job)));
                }
                // A server that was started meanwhile has opened another one.
                repo.accept(Some(was));
            }
            for it in &links {
                if let Some(target) = link_at(&repo, &it.name)?
                    && it.before != (Work::Link { target: target.clone() })
                {
                    return Err(repo.led_by_link((&it.name, &target), &job));
                }
            }
            Ok(())
        });
        looked.await?
    }
}

/// Returns the plan for a repository that was exchanged.
pub(super) async fn repository(repo: &Repo, was: &GitFolder, is: &GitFolder) -> Result<Item> {
    let own = repo.clone();
    let now = blocking(move || own.git_folder()).await?;
    let outcome = outcome(now.is_same(was), now.is_same(is), false);
    let why = match outcome {
        Outcome::NotKept => "the earlier one is to be moved back by hand",
        _ => "it is yet another one now",
    };
    Ok(item(GIT.to_owned(), "move it back by hand".to_owned(), outcome, Some(why.to_owned())))
}

/// Returns the plan for a link in the place of one of git's own files and folders.
pub(super) fn link(repo: &Repo, it: &PrivateChange) -> Result<Option<Item>> {
    if !may_be_link(&it.name) {
        return Ok(None);
    }
    let now = link_at(repo, &it.name)?.map_or(Work::Nothing, |target| Work::Link { target });
    let outcome = outcome(now == it.before, now == it.after, it.is_removed());
    let why = match (&it.before, outcome) {
        (Work::Link { target }, Outcome::NotKept) => format!("make it a link to {target} by hand"),
        (_, Outcome::NotKept) => "remove the link, and move back what was there by hand".to_owned(),
        _ => "it is another one now".to_owned(),
    };
    let to = if it.is_removed() { "remove the link" } else { "put it back by hand" };
    Ok(Some(item(format!(".git/{}", it.name), to.to_owned(), outcome, Some(why))))
}

/// Returns the plan for what is behind a link in the place of one of git's own files.
pub(super) fn behind(repo: &Repo, it: &PrivateChange) -> Result<Option<Item>> {
    let Some(link) = link_of(&it.name) else { return Ok(None) };
    let now = behind_now(repo, link, &it.before)?;
    let outcome = outcome(now == it.before, now == it.after, false);
    let why = match outcome {
        Outcome::NotKept => {
            "it is outside of the working tree and was not kept: put it back by hand"
        }
        _ => "it is another one now",
    };
    let name = format!(".git/{}", it.name);
    Ok(Some(item(name, "put it back by hand".to_owned(), outcome, Some(why.to_owned()))))
}

/// Returns the plan for hooks that cannot be put back: behind a link, or in a closed folder.
pub(super) fn hook(repo: &Repo, root: &Root, it: &PrivateChange) -> Result<Option<Item>> {
    let is_seen = |work: &Work| matches!(work, Work::Seen { .. });
    if !is_seen(&it.before) && !is_seen(&it.after) {
        return Ok(None);
    }
    let (now, why) = match it.name.as_str() {
        HOOKS => {
            let facts = hooks_facts(root);
            let now = facts.map_or(Work::Nothing, |facts| Work::Seen { facts });
            (now, "the folder is closed to the server: give it access (chmod u+rwx)")
        }
        name if name.starts_with("hooks/") && root.path().join(HOOKS).is_symlink() => {
            (hook_behind_a_link(repo, root, name)?, "it is behind a link, and was not kept")
        }
        _ => return Ok(None),
    };
    let outcome = outcome(now == it.before, now == it.after, false);
    let why = if outcome == Outcome::NotKept { why } else { "it is another one now" };
    let name = format!(".git/{}", it.name);
    Ok(Some(item(name, "put it back".to_owned(), outcome, Some(why.to_owned()))))
}

/// Returns the plan for a file of a worktree that is removed: there is nothing to put back.
pub(super) fn removed(shared: &Root, it: &PrivateChange) -> Option<Item> {
    let folder = Utf8Path::new(&it.name).parent().filter(|_| is_of_worktree(&it.name))?;
    shared.path().join(folder).symlink_metadata().err()?;
    let to = "nothing: its worktree is removed".to_owned();
    Some(item(format!(".git/{}", it.name), to, Outcome::AsBefore, None))
}
