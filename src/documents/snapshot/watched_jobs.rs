//! The jobs being watched: the snapshot before each, and which ran at the same time.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::base::{BlobId, JobId};
use crate::documents::snapshot::own_index::{Listed, OwnIndex};
use crate::documents::snapshot::{Snapshot, Work};

/// What is known about a running job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Look {
    /// The snapshot from before its agent was started.
    pub before: Snapshot,
    /// Jobs that ran at the same time, at least partly.
    pub others: BTreeSet<JobId>,
}

/// The last listing, with the facts of its files.
type LastListed = Option<(String, Arc<Listed>)>;

/// All watched jobs; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Looks {
    running: Arc<Mutex<HashMap<JobId, Look>>>,
    listed: Arc<Mutex<LastListed>>,
    own_index: Arc<tokio::sync::Mutex<Option<OwnIndex>>>,
}

impl Looks {
    /// Starts watching a job.
    pub fn begin(&self, job: &JobId, before: Snapshot) -> Look {
        let mut running = self.running();
        let others = running.keys().cloned().collect();
        for look in running.values_mut() {
            look.others.insert(job.clone());
        }
        let look = Look { before, others };
        running.insert(job.clone(), look.clone());
        look
    }

    /// Resumes watching a job that an earlier server started.
    pub fn resume(&self, job: &JobId, look: Look) {
        self.running().insert(job.clone(), look);
    }

    /// Returns the other watched jobs.
    pub fn others(&self, job: Option<&JobId>) -> Vec<(JobId, Look)> {
        let running = self.running();
        let others = running.iter().filter(|it| Some(it.0) != job);
        others.map(|(id, look)| (id.clone(), look.clone())).collect()
    }

    /// Stops watching a job that has ended, and returns what was recorded.
    pub fn end(&self, job: &JobId) -> Option<Look> {
        self.running().remove(job)
    }

    /// Adjusts the snapshots of running jobs after a recorded change by a person.
    pub(in crate::documents) fn amend(&self, amend: impl Fn(&mut Snapshot)) {
        self.running().values_mut().for_each(|it| amend(&mut it.before));
    }

    /// Changes what one job is compared with, if it is still watched; returns what is known of it.
    pub fn amend_one(&self, job: &JobId, amend: impl FnOnce(&mut Snapshot)) -> Option<Look> {
        let mut running = self.running();
        let look = running.get_mut(job)?;
        amend(&mut look.before);
        Some(look.clone())
    }

    /// Returns the content that may have to be restored when a running job ends.
    pub fn needed(&self) -> BTreeSet<BlobId> {
        let running = self.running();
        let befores = running.values().map(|it| &it.before);
        let works = befores.flat_map(|it| {
            it.paths.values().map(|path| &path.state.work).chain(it.private.values())
        });
        works.filter_map(Work::blob).cloned().collect()
    }

    pub(super) fn listed(&self, facts: &str) -> Option<Arc<Listed>> {
        let known = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().filter(|it| it.0 == facts).map(|it| Arc::clone(&it.1))
    }

    pub(super) fn keep_listed(&self, facts: String, found: Arc<Listed>) {
        let mut known = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some((facts, found));
    }

    pub(super) fn own_index(&self) -> &tokio::sync::Mutex<Option<OwnIndex>> {
        &self.own_index
    }

    fn running(&self) -> MutexGuard<'_, HashMap<JobId, Look>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
