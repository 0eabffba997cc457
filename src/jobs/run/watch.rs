//! The interface to the code that watches the repository around a job.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::base::JobId;

/// When watching a job begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// Its agent is about to start.
    Now,
    /// Its agent was started by an earlier server, which took a snapshot.
    Earlier,
}

/// Compares again when the job has ended, and describes the differences.
pub type Watched = Box<dyn FnOnce() -> BoxFuture<'static, Vec<String>> + Send>;
/// Takes a snapshot before a job's agent starts, of everything that it could change.
pub type Watch = Arc<dyn Fn(JobId, Beginning) -> BoxFuture<'static, Watched> + Send + Sync>;
/// Returns whether a job may start. It may not if what steers agents changed since a running job
/// began; that is recorded, and holds the queue.
pub type Steady = Arc<dyn Fn(JobId) -> BoxFuture<'static, bool> + Send + Sync>;
/// Compares once more after a job that an earlier server watched, and describes the differences.
pub type Recall = Arc<dyn Fn(JobId) -> BoxFuture<'static, Vec<String>> + Send + Sync>;
