//! The jobs being watched: the snapshot before each, and which ran at the same time.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::base::{BlobId, JobId, Millis};
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

/// A look at the repository that a job waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Since when.
    pub since: Millis,
    /// The job that has looked for longest, if it is another one.
    pub other: Option<JobId>,
}

/// Marks a job as waiting for a look at the repository until it is dropped.
#[derive(Debug)]
pub struct Looking {
    looks: Looks,
    job: JobId,
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.looks.looking().remove(&self.job);
    }
}

/// The last listing, with the facts of its files.
type LastListed = Option<(String, Arc<Listed>)>;

/// All watched jobs; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Looks {
    running: Arc<Mutex<HashMap<JobId, Look>>>,
    looking: Arc<Mutex<HashMap<JobId, Millis>>>,
    listed: Arc<Mutex<LastListed>>,
    own_index: Arc<tokio::sync::Mutex<Option<OwnIndex>>>,
    deciding: Arc<tokio::sync::Mutex<()>>,
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

    /// Waits until nobody decides about changes or records any. Whoever holds this finds each job
    /// either watched, or with its changes on record.
    pub async fn decision(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.deciding.lock().await
    }

    /// Returns what is known of a watched job.
    pub fn find(&self, job: &JobId) -> Option<Look> {
        self.running().get(job).cloned()
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

    /// Notes that a job waits for a look at the repository. There is one look at a time.
    #[must_use]
    pub fn begin_look(&self, job: &JobId, now: Millis) -> Looking {
        self.looking().insert(job.clone(), now);
        Looking { looks: self.clone(), job: job.clone() }
    }

    /// Returns the look that a job waits for, if it does.
    pub fn wait_of(&self, job: &JobId) -> Option<Wait> {
        let looking = self.looking();
        let since = *looking.get(job)?;
        let first = looking.iter().min_by_key(|(id, at)| (**at, (*id).clone()));
        let other = first.map(|it| it.0).filter(|it| *it != job).cloned();
        Some(Wait { since, other })
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

    fn looking(&self) -> MutexGuard<'_, HashMap<JobId, Millis>> {
        self.looking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, HashMap<JobId, Look>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
