//! What is asked of those who look at the repository around a job.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::base::JobId;

/// Where the watch over a job begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// Its agent is about to start.
    Now,
    /// Its agent was started by an earlier server, which looked.
    Earlier,
}

/// Looks again when the job has ended, and names what is different.
pub type Watched = Box<dyn FnOnce() -> BoxFuture<'static, Vec<String>> + Send>;
/// Looks at what a job's agent could touch without being asked to, before it starts.
pub type Watch = Arc<dyn Fn(JobId, Beginning) -> BoxFuture<'static, Watched> + Send + Sync>;
/// Says whether a job may start: not if what steers agents is another than when a job began that
/// still runs. Then that is on record, and holds the queue.
pub type Steady = Arc<dyn Fn(JobId) -> BoxFuture<'static, bool> + Send + Sync>;
/// Looks once more after a job that an earlier server had watched, and names what is different.
pub type Recall = Arc<dyn Fn(JobId) -> BoxFuture<'static, Vec<String>> + Send + Sync>;
