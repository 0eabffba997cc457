//! When each Source was last changed, according to the commits.
//!
//! The commits are walked once, newest first, and the result is cached: after a commit only new
//! ones are walked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::task::TaskTracker;

use crate::base::limit::GIT_LISTING_BYTES_MAX;
use crate::base::{BlobId, Millis, Result, SourcePath};
use crate::documents::git::Repo;

/// Commits walked per call of git.
const STEP_COMMITS: usize = 2_000;
/// Steps per walk; older changes get no time.
const STEPS_MAX: usize = 10;
/// Timeout of one step.
const STEP_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a reader waits for a walk before it is answered without its result.
const WAIT_MAX: Duration = Duration::from_millis(400);
/// Marks the line of a commit; no Source's path contains it.
const MARK: char = '\u{2}';

/// Time of the last change per Source.
pub type LastChanges = Arc<HashMap<SourcePath, Millis>>;

/// The result of the last walk.
#[derive(Default)]
pub(super) struct Walked {
    known: Mutex<Option<(BlobId, LastChanges)>>,
    /// Held during a walk: others wait for its result.
    turn: tokio::sync::Mutex<()>,
    /// Walks that outlive the request that started them. They only read, in bounded time, so a
    /// shutdown does not wait for them.
    walks: TaskTracker,
}

impl Walked {
    fn known(&self) -> Option<(BlobId, LastChanges)> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Repo {
    /// Returns when each Source was last changed by a commit. If the walk takes long, it continues
    /// in the background, and the previous result is returned.
    pub async fn last_changes(&self) -> LastChanges {
        if self.papers().is_some() {
            return LastChanges::default();
        }
        let repo = self.clone();
        let walk = self.shared.walked.walks.spawn(async move { repo.walk_changes().await });
        match tokio::time::timeout(WAIT_MAX, walk).await {
            Ok(Ok(Ok(found))) => return found,
            Ok(Ok(Err(cause))) => {
                tracing::warn!("the times of the last changes are not known: {}", cause.chain());
            }
            Ok(Err(_)) | Err(_) => {}
        }
        self.shared.walked.known().map(|it| it.1).unwrap_or_default()
    }

    async fn walk_changes(&self) -> Result<LastChanges> {
        let _turn = self.shared.walked.turn.lock().await;
        let Some(head) = self.tip("HEAD").await? else { return Ok(LastChanges::default()) };
        let known = self.shared.walked.known();
        let (mut times, since) = match known {
            Some((of, times)) if of == head => return Ok(times),
            Some((of, times)) if self.is_ancestor(&of, &head).await? => {
                (times.as_ref().clone(), Some(of))
            }
            _ => (HashMap::new(), None),
        };
        let mut newer = HashMap::new();
        for step in 0..STEPS_MAX {
            let told = self.changes_step(&head, since.as_ref(), step * STEP_COMMITS).await?;
            if self.take_changes(&String::from_utf8_lossy(&told), &mut newer) < STEP_COMMITS {
                break;
            }
        }
        times.extend(newer);
        let times = Arc::new(times);
        let kept = Some((head, Arc::clone(&times)));
        *self.shared.walked.known.lock().unwrap_or_else(PoisonError::into_inner) = kept;
        Ok(times)
    }

    async fn changes_step(
        &self,
        head: &BlobId,
        since: Option<&BlobId>,
        skip: usize,
    ) -> Result<Vec<u8>> {
        let (skip, max) = (format!("--skip={skip}"), format!("--max-count={STEP_COMMITS}"));
        let range = match since {
            Some(since) => format!("{since}..{head}"),
            None => head.to_string(),
        };
        let args = [
            "log",
            &skip,
            &max,
            "-z",
            "--name-only",
            "--no-renames",
            "--no-show-signature",
            "--no-notes",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            "--format=tformat:%x02%ct",
            &range,
            "--",
        ];
        let call = self.git().call(&args).within(STEP_TIME_MAX);
        call.output_max(GIT_LISTING_BYTES_MAX).output().await
    }

    /// Adds the times in `\u{2}TIME\0
    /// NAME\0NAME\0`; returns the number of commits.
    fn take_changes(&self, told: &str, times: &mut HashMap<SourcePath, Millis>) -> usize {
        let (mut at, mut commits) = (Millis(0), 0);
        for field in told.split('\0') {
            if let Some(time) = field.strip_prefix(MARK) {
                at = Millis(time.parse::<i64>().unwrap_or(0).saturating_mul(1_000));
                commits += 1;
            } else if let Some(path) = self.source_path(field.trim_start_matches('\n').as_bytes()) {
                // The newest commit comes first.
                times.entry(path).or_insert(at);
            }
        }
        commits
    }
}
