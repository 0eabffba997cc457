//! One decision for one change: if a person keeps a change to files that steer agents, this counts
//! for every job that saw the same change.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use tracing::{info, warn};

use crate::base::{Actor, JobId, Result, fault};
use crate::documents::changes::{
    Changes, ChangesRow, ChangesState, FileChange, PrivateChange, row,
};
use crate::documents::git::GitFolder;
use crate::documents::snapshot::{PathState, Work};
use crate::flows::Works;
use crate::flows::jobs::{steering_hold, tree_guard};
use crate::jobs;
use crate::store::Tx;

/// The accepted content of files that steer agents.
struct Wanted<'a> {
    /// The repository, if it is another one.
    folder: Option<&'a GitFolder>,
    /// Files, by path.
    files: BTreeMap<&'a str, &'a PathState>,
    /// Git's own files, by name.
    private: BTreeMap<&'a str, &'a Work>,
}

impl<'a> Wanted<'a> {
    fn of(kept: &'a Changes, named: &'a [String]) -> Wanted<'a> {
        let files = kept.steering_files(named).map(|it| (it.path.as_str(), &it.after));
        let private = kept.steering_private().map(|it| (it.name.as_str(), &it.after));
        let folder = kept.folder.as_ref().map(|it| &it.1);
        Wanted { folder, files: files.collect(), private: private.collect() }
    }

    fn has_folder(&self, folder: &GitFolder) -> bool {
        self.folder.is_some_and(|it| it.is_same(folder))
    }

    fn has(&self, file: &FileChange) -> bool {
        self.files.get(file.path.as_str()).is_some_and(|it| **it == file.after)
    }

    fn has_private(&self, file: &PrivateChange) -> bool {
        self.private.get(file.name.as_str()).is_some_and(|it| **it == file.after)
    }

    /// Returns whether all that steers agents among some changes is wanted.
    fn covers(&self, found: &Changes, named: &[String]) -> bool {
        found.folder.as_ref().is_none_or(|it| self.has_folder(&it.1))
            && found.steering_files(named).all(|it| self.has(it))
            && found.steering_private().all(|it| self.has_private(it))
    }
}

/// Makes the current files that steer agents the earlier state of a running job, because a person
/// accepts them; to be called with `Looks::decision`. Returns what had changed, unless the job is
/// not watched.
///
/// # Errors
/// What git says if it cannot look.
pub(super) async fn accept(works: &Works, job: &JobId) -> Result<Option<Changes>> {
    let looks = works.repo.looks();
    let Some(begun) = looks.find(job) else { return Ok(None) };
    let Some(found) = tree_guard::steering_since(works, job, &begun, None).await? else {
        return Ok(Some(Changes::default()));
    };
    let begun = looks.amend_one(job, |before| {
        before.accept_folder(&found, |_| true);
        before.accept(&found, |_| true);
        before.accept_private(&found, |_| true);
    });
    let Some(begun) = begun else { return Ok(None) };
    tree_guard::remember(works, job, begun).await?;
    Ok(Some(found))
}

/// Applies the decision to other jobs that saw the same content. Changes that cannot be compared
/// still need a decision.
pub(super) async fn keep_alike(works: &Works, decided: &JobId, kept: &Changes, by: &Actor) {
    let named = tree_guard::named_for(works, decided);
    let wanted = Wanted::of(kept, &named);
    let is_none = wanted.files.is_empty() && wanted.private.is_empty() && wanted.folder.is_none();
    if is_none || fault::is_off("one_decision") {
        return;
    }
    if let Err(cause) = accept_running(works, decided, &wanted).await {
        warn!(job_id = %decided, "jobs that run are asked about: {}", cause.chain());
    }
    if let Err(cause) = settle_ended(works, kept, &wanted, by).await {
        warn!(job_id = %decided, "jobs that ended are asked about: {}", cause.chain());
    }
}

/// Makes the accepted content the earlier state of each running job.
async fn accept_running(works: &Works, decided: &JobId, wanted: &Wanted<'_>) -> Result<()> {
    let looks = works.repo.looks();
    let running = looks.others(Some(decided));
    if running.is_empty() {
        return Ok(());
    }
    let named = tree_guard::named_for(works, decided);
    let now = works.repo.look(&tree_guard::open_kept(works).await?, &named).await?;
    for (job, begun) in running {
        let moments = (&begun.before, &now);
        let Some(found) = tree_guard::steering_between(works, &job, moments).await? else {
            continue;
        };
        let begun = looks.amend_one(&job, |before| {
            before.accept_folder(&found, |folder| wanted.has_folder(folder));
            before.accept(&found, |file| wanted.has(file));
            before.accept_private(&found, |file| wanted.has_private(file));
        });
        let Some(begun) = begun else { continue };
        tree_guard::remember(works, &job, begun).await?;
        let named = tree_guard::named_for(works, &job);
        if wanted.covers(&found, &named) {
            steering_hold::let_go_of(works, &job).await;
        }
    }
    Ok(())
}

/// Releases the holds of ended jobs. If all their changes are among the kept ones, they are
/// decided; otherwise the rest can still be restored.
async fn settle_ended(
    works: &Works,
    kept: &Changes,
    wanted: &Wanted<'_>,
    by: &Actor,
) -> Result<()> {
    let read = works.store.read(|c| {
        let held = jobs::holding(c)?.into_iter();
        let rows = held.map(|job| row::find(c, &job)).collect::<Result<Vec<_>>>()?;
        Ok(rows.into_iter().flatten().collect::<Vec<ChangesRow>>())
    });
    for found in read.await?.into_iter().filter(|it| it.state == ChangesState::Open) {
        let (job, named) = (found.job.clone(), tree_guard::named_for(works, &found.job));
        if !wanted.covers(&found.changes, &named) || found.changes.more > 0 {
            continue;
        }
        let (id, is_all, by) = (job.clone(), found.changes.are_within(kept), by.clone());
        let settled = works.store.write(move |tx| match is_all {
            true => decide(tx, &id, ChangesState::Kept, &by),
            false => jobs::release_steering(tx, &id),
        });
        settled.await?;
        info!(job_id = %job, "what agents obey, as it is since job {job}, is kept");
    }
    Ok(())
}

/// Returns the jobs that a decision about one is for, itself among them: if what there was before
/// it is lost, all that have ended and of which the same is true.
///
/// # Errors
/// As any read.
pub(super) fn lost_with(c: &Connection, job: &JobId) -> Result<BTreeSet<JobId>> {
    let mut all = BTreeSet::from([job.clone()]);
    let lost = jobs::lost(c)?;
    if lost.contains(job) {
        for other in lost {
            // Nobody decides about a private one but its owner.
            let found = jobs::find_brief(c, &jobs::Viewer::Site, &other);
            if found.is_ok_and(|it| it.status.is_final()) {
                all.insert(other);
            }
        }
    }
    Ok(all)
}

/// Settles the changes of a job, whose steering files hold agents no longer.
pub(super) fn decide(tx: &Tx<'_>, job: &JobId, state: ChangesState, by: &Actor) -> Result<()> {
    row::decide(tx, job, state, by)?;
    jobs::release_steering(tx, job)
}
