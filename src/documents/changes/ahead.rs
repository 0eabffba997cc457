//! Commits that were made while a job ran: they may be somebody's work, so nothing takes them off a
//! branch, or off a detached `HEAD`, unless that was asked for.

use crate::api::changes::Outcome;
use crate::base::{BlobId, Result};
use crate::documents::changes::Changes;
use crate::documents::changes::plan::{Plan, Present};
use crate::documents::git::Repo;

const BRANCH: &str = "refs/heads/";
/// Most commits with which a new branch is compared.
const OTHERS_MAX: usize = 1_000;

impl Present {
    /// Leaves the branches alone from which commits would be taken.
    pub(super) async fn leave_commits(
        &self,
        repo: &Repo,
        changes: &Changes,
        plan: &mut Plan,
    ) -> Result<()> {
        let stays = self.stays(changes);
        let branches = changes.refs.iter().filter(|it| it.name.starts_with(BRANCH));
        let branches = branches.filter_map(|it| {
            let was = it.before.as_ref().map(std::slice::from_ref);
            Some((it.name.as_str(), it.after.as_ref()?, was))
        });
        let bare = changes.tip.iter().filter(|(_, is)| is.branch.is_none());
        let bare = bare.filter_map(|(_, is)| Some(("HEAD", is.commit.as_ref()?, None)));
        for (name, is, was) in branches.chain(bare) {
            let mut items = plan.items.iter_mut();
            let ready = items.find(|it| it.name == name && it.outcome == Outcome::Ready);
            let Some(item) = ready else { continue };
            // A ref to an object that does not exist has no commits to lose.
            if !repo.has_object(is).await? {
                continue;
            }
            let what = match ahead(repo, (was.unwrap_or(&stays), was.is_none()), is).await? {
                Some(0) => continue,
                Some(1) => "it has a commit since".to_owned(),
                Some(count) => format!("it has {count} commits since"),
                None => "its commits cannot be counted".to_owned(),
            };
            item.outcome = Outcome::NotKept;
            item.why = Some(format!(
                "{what} (the last is {}), perhaps someone else's: name it, or pass `--commits`, to \
                 restore it anyway",
                &is.as_str()[..12]
            ));
        }
        Ok(())
    }

    /// Returns what has a name after everything was restored.
    fn stays(&self, changes: &Changes) -> Vec<BlobId> {
        let is_changed = |name: &str| changes.refs.iter().any(|it| it.name == name);
        let tip = changes.tip.iter().filter_map(|(was, _)| was.commit.clone());
        let before = changes.refs.iter().filter_map(|it| it.before.clone());
        let entries = changes.refs.iter().flat_map(|it| &it.entries_before);
        let entries = entries.map(|it| it.commit.clone());
        let others = self.refs.iter().filter(|it| !is_changed(it.0)).map(|it| it.1.clone());
        tip.chain(before).chain(entries).chain(others).take(OTHERS_MAX).collect()
    }
}

/// Returns how many commits `is` has that none of the others has, nor a remote if those count, too;
/// `None` if git cannot tell.
async fn ahead(
    repo: &Repo,
    (others, with_remotes): (&[BlobId], bool),
    is: &BlobId,
) -> Result<Option<u64>> {
    let call = repo.git().call(&["rev-list", "--count", "--ignore-missing", is.as_str(), "--not"]);
    let call = others.iter().fold(call, |call, it| call.arg(it.to_string()));
    let call = if with_remotes { call.arg("--remotes".to_owned()) } else { call };
    let answer = call.arg("--").run().await?;
    let counted = String::from_utf8_lossy(&answer.stdout).trim().parse().ok();
    Ok(counted.filter(|_| answer.code == 0))
}
