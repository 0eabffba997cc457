//! Whether what is checked out is what was seen last.
//!
//! **Invariant:** no job starts, and none is asked for, while a commit is checked out that was not
//! looked at: it may call documents by the names of others, and whoever names one after it means
//! the one that has the name by then. Only a request that has waited for ten seconds goes on, and
//! one that waits when the server stops is refused.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tracing::warn;

use crate::base::{Result, fault};
use crate::documents::{Repo, TipMarks};
use crate::store;

/// How long a request waits for a look; one takes seconds in a very large repository.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// What was checked out at the last look, if anybody looks.
#[derive(Clone, Default)]
pub struct Freshness(Arc<Inner>);

#[derive(Default)]
struct Inner {
    is_watched: AtomicBool,
    has_ended: AtomicBool,
    is_awaited: AtomicBool,
    marks: Mutex<Option<TipMarks>>,
    asked: Notify,
    looked: watch::Sender<u64>,
}

impl Freshness {
    /// Somebody looks from now on.
    pub(super) fn begin(&self) {
        self.0.is_watched.store(true, Ordering::SeqCst);
    }

    /// Nobody looks any more: the server stops.
    pub(super) fn end(&self) {
        self.0.has_ended.store(true, Ordering::SeqCst);
        self.0.looked.send_modify(|it| *it += 1);
    }

    /// Waits until somebody asks for a look.
    pub(super) async fn asked(&self) {
        self.0.asked.notified().await;
    }

    /// A look has ended that began with these marks. One that fails counts, too: what can’t be read
    /// keeps nobody waiting. Returns whether somebody waits for it.
    pub(super) fn looked(&self, marks: TipMarks) -> bool {
        *self.0.marks.lock().unwrap_or_else(PoisonError::into_inner) = Some(marks);
        self.0.looked.send_modify(|it| *it += 1);
        self.0.is_awaited.swap(false, Ordering::SeqCst)
    }

    /// Returns whether what is checked out was looked at; otherwise asks for that.
    pub fn is_fresh(&self, repo: &Repo) -> bool {
        if !self.0.is_watched.load(Ordering::SeqCst) || fault::is_off("fresh_look") {
            return true;
        }
        if self.is_seen(repo) {
            return true;
        }
        self.0.is_awaited.store(true, Ordering::SeqCst);
        // A look that has ended in between tells nobody any more.
        if self.is_seen(repo) {
            return true;
        }
        self.0.asked.notify_one();
        false
    }

    fn is_seen(&self, repo: &Repo) -> bool {
        let now = repo.tip_marks();
        self.0.marks.lock().unwrap_or_else(PoisonError::into_inner).as_ref() == Some(&now)
    }

    /// Waits until what is checked out was looked at, for some seconds at most.
    ///
    /// # Errors
    /// `unavailable` with code `stopping` if the server stops before that.
    pub async fn catch_up(&self, repo: &Repo) -> Result<()> {
        let mut looked = self.0.looked.subscribe();
        let caught_up = async {
            while !self.is_fresh(repo) {
                if self.0.has_ended.load(Ordering::SeqCst) && !fault::is_off("look_ends") {
                    return Err(store::stopping());
                }
                // Its sender lives as long as this.
                let _ = looked.changed().await;
            }
            Ok(())
        };
        tokio::time::timeout(WAIT_MAX, caught_up).await.unwrap_or_else(|_| {
            warn!("what is checked out was not looked at within {WAIT_MAX:?}");
            Ok(())
        })
    }
}
