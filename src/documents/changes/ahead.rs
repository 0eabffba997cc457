//! Branches that got commits while a job ran: those may be somebody's work, so nothing takes them
//! off a branch unless that was asked for.

use crate::api::changes::Outcome;
use crate::base::{BlobId, Error, Result};
use crate::documents::changes::plan::{Plan, Present};
use crate::documents::changes::{Changes, RefChange};
use crate::documents::git::Repo;

const BRANCH: &str = "refs/heads/";
/// Most refs that are asked whether they have the commits of a new branch, too.
const OTHERS_MAX: usize = 1_000;

impl Present {
    /// Leaves the branches alone from which commits would be taken.
    pub(super) async fn leave_commits(
        &self,
        repo: &Repo,
        changes: &Changes,
        plan: &mut Plan,
    ) -> Result<()> {
        for it in changes.refs.iter().filter(|it| it.name.starts_with(BRANCH)) {
            let is_ready = |name: &str, outcome| name == it.name && outcome == Outcome::Ready;
            let mut items = plan.items.iter_mut();
            let Some(item) = items.find(|item| is_ready(&item.name, item.outcome)) else {
                continue;
            };
            let Some(is) = &it.after else { continue };
            let commits = match ahead(repo, &self.besides(changes, it), is).await? {
                0 => continue,
                1 => "a commit".to_owned(),
                count => format!("{count} commits"),
            };
            item.outcome = Outcome::NotKept;
            item.why = Some(format!(
                "it has {commits} since, up to {}, which may be somebody's: `--commits`, or its \
                 name, restores it all the same",
                &is.as_str()[..12]
            ));
        }
        Ok(())
    }

    /// Returns the commits whose history is not lost with what a branch got: where it was, or for a
    /// new one what was there besides.
    fn besides(&self, changes: &Changes, it: &RefChange) -> Vec<BlobId> {
        if let Some(was) = &it.before {
            return vec![was.clone()];
        }
        let is_new = |name: &str| {
            changes.refs.iter().any(|other| other.name == name && other.before.is_none())
        };
        let others = self.refs.iter().filter(|other| !is_new(other.0));
        let kept = others.filter(|other| !other.0.starts_with("refs/wiki-browser/"));
        kept.take(OTHERS_MAX).map(|other| other.1.clone()).collect()
    }
}

/// Returns how many commits `is` has that none of the others has.
async fn ahead(repo: &Repo, others: &[BlobId], is: &BlobId) -> Result<usize> {
    let call = repo.git().call(&["rev-list", "--count", is.as_str()]);
    let call = others.iter().fold(call, |call, it| call.arg(format!("^{it}"))).arg("--");
    let answer = call.run().await?;
    let counted = String::from_utf8_lossy(&answer.stdout).trim().parse();
    counted.map_err(|_| {
        Error::unavailable(format!("commits of {is} cannot be counted: {}", answer.said))
    })
}
