//! Whether what is checked out is what was seen last.
//!
//! **Invariant:** no job starts, and none is asked for, while a commit is checked out that was not
//! looked at: it may call documents by the names of others, and whoever names one after it means
//! the one that has the name by then. Only a request that has waited for ten seconds goes on, and
//! one that waits when the server stops is refused. A look that fails keeps nobody waiting, unless
//! a job could not read what it needs: then none starts before a look succeeds.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tracing::warn;

use crate::base::{Result, fault};
use crate::documents::{Repo, TipMarks};
use crate::jobs::{Job, Pool, Waiting};
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
    is_doubted: AtomicBool,
    tip: Mutex<Tip>,
    asked: Notify,
    looked: watch::Sender<u64>,
}

#[derive(Default)]
struct Tip {
    marks: Option<TipMarks>,
    /// Whether the look at that could not read the repository.
    is_unread: bool,
    /// Counts what was checked out and read one after another.
    number: u64,
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

    /// A look has ended that began with these marks. One that could not read the repository counts,
    /// too. Returns whether a job waits for it that may start now.
    pub(super) fn looked(&self, marks: TipMarks, is_unread: bool) -> bool {
        let mut tip = self.0.tip.lock().unwrap_or_else(PoisonError::into_inner);
        let is_readable_again = tip.is_unread && !is_unread;
        if tip.marks.as_ref() != Some(&marks) || is_readable_again {
            *tip = Tip { marks: Some(marks), is_unread, number: tip.number + 1 };
        }
        tip.is_unread = is_unread;
        drop(tip);
        if !is_unread {
            self.0.is_doubted.store(false, Ordering::SeqCst);
        }
        self.0.looked.send_modify(|it| *it += 1);
        !self.is_doubted() && self.0.is_awaited.swap(false, Ordering::SeqCst)
    }

    /// The repository could not be read at the start of a job: the next one starts after a look
    /// that can.
    pub fn doubt(&self) {
        self.0.is_doubted.store(true, Ordering::SeqCst);
        self.0.is_awaited.store(true, Ordering::SeqCst);
        self.0.asked.notify_one();
    }

    /// Returns the number of what is checked out if it was looked at, so that a job may start;
    /// otherwise asks for that. What was checked out in between has another number.
    pub fn tip(&self, repo: &Repo) -> Option<u64> {
        if !self.is_demanded() {
            return Some(0);
        }
        let seen = || self.seen(repo).filter(|_| !self.is_doubted());
        if let Some(number) = seen() {
            return Some(number);
        }
        self.0.is_awaited.store(true, Ordering::SeqCst);
        // A look that has ended in between tells nobody any more.
        let number = seen();
        // One that failed is repeated anyway.
        if number.is_none() && !self.is_doubted() {
            self.0.asked.notify_one();
        }
        number
    }

    /// Returns why a job waits that would start soon otherwise.
    pub fn reason(&self, repo: &Repo, job: &Job, waiting: Waiting) -> Waiting {
        if waiting.code != "turn" || job.pool == Pool::Chat || !self.is_demanded() {
            return waiting;
        }
        let why = if self.is_doubted() {
            "the repository cannot be read: the server’s log says why"
        } else if self.seen(repo).is_none() {
            "the repository has changed, and the server looks at it first"
        } else {
            return waiting;
        };
        Waiting { code: Cow::Borrowed("unseen"), message: why.to_owned(), ..waiting }
    }

    /// Returns whether what is checked out was looked at; otherwise asks for that.
    pub fn is_fresh(&self, repo: &Repo) -> bool {
        if !self.is_demanded() || self.seen(repo).is_some() {
            return true;
        }
        self.0.asked.notify_one();
        false
    }

    fn is_doubted(&self) -> bool {
        self.0.is_doubted.load(Ordering::SeqCst)
    }

    fn is_demanded(&self) -> bool {
        self.0.is_watched.load(Ordering::SeqCst) && !fault::is_off("fresh_look")
    }

    fn seen(&self, repo: &Repo) -> Option<u64> {
        let now = repo.tip_marks();
        let tip = self.0.tip.lock().unwrap_or_else(PoisonError::into_inner);
        (tip.marks.as_ref() == Some(&now)).then_some(tip.number)
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
