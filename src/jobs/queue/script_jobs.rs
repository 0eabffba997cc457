//! How many jobs each handler of the script has requested within an hour: one that runs away is
//! stopped, and the others go on.
//!
//! **Invariant:** only committed jobs count, and a generation of the script begins without a count.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::{Error, ErrorKind, Millis, Result, fault};

const HOUR_MS: i64 = 3_600_000;

/// The counts of one generation, shared by its clones. A handler is named by its title.
#[derive(Clone, Debug, Default)]
pub struct Shares(Arc<Mutex<BTreeMap<Arc<str>, Share>>>);

#[derive(Debug, Default)]
struct Share {
    /// When it requested each job of the last hour.
    asked: VecDeque<Millis>,
    is_refused: bool,
}

/// What handlers requested in one transaction, until it is committed.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    accepted: BTreeMap<Arc<str>, u32>,
    refused: BTreeSet<Arc<str>>,
}

impl Tally {
    /// Counts a job that was accepted.
    pub fn accept(&mut self, handler: &Arc<str>) {
        *self.accepted.entry(Arc::clone(handler)).or_default() += 1;
    }
}

impl Shares {
    /// Refuses a job of a handler that has requested `most` within an hour.
    ///
    /// # Errors
    /// `busy` with code `script_jobs`.
    pub fn require(
        &self,
        tally: &mut Tally,
        handler: &Arc<str>,
        (most, now): (u32, Millis),
    ) -> Result<()> {
        let before = self.counts().get_mut(handler).map_or(0, |share| share.count(now));
        let asked = before.saturating_add(tally.accepted.get(handler).copied().unwrap_or(0));
        if asked < most || fault::is_off("script_jobs") {
            return Ok(());
        }
        tally.refused.insert(Arc::clone(handler));
        let message = format!("the handler has enqueued {asked} jobs within an hour, the maximum");
        Err(Error::new(ErrorKind::Busy, message).code("script_jobs").hint(
            "if that is meant, raise script_jobs in wb.limits; else look whether its own jobs call \
             it again, change it, and reload",
        ))
    }

    /// Adds what was committed.
    pub fn add(&self, tally: Tally, now: Millis) {
        let mut counts = self.counts();
        for (handler, count) in tally.accepted {
            let share = counts.entry(handler).or_default();
            share.asked.extend(std::iter::repeat_n(now, count as usize));
        }
        for handler in tally.refused {
            counts.entry(handler).or_default().is_refused = true;
        }
    }

    /// Returns the handlers whose jobs are refused now, each with the time when it may request the
    /// next.
    pub fn refused(&self, most: u32, now: Millis) -> Vec<(Arc<str>, Millis)> {
        let mut counts = self.counts();
        let refused = counts.iter_mut().filter_map(|(handler, share)| {
            let is_over = share.count(now) >= most && share.is_refused;
            share.is_refused = is_over;
            let first = share.asked.front().filter(|_| is_over)?;
            Some((Arc::clone(handler), first.plus(HOUR_MS)))
        });
        refused.collect()
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Share>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    fn count(&mut self, now: Millis) -> u32 {
        let since = now.plus(-HOUR_MS);
        while self.asked.front().is_some_and(|at| *at <= since) {
            self.asked.pop_front();
        }
        u32::try_from(self.asked.len()).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_handler_has_its_share_of_an_hour() {
        let shares = Shares::default();
        let (noisy, quiet): (Arc<str>, Arc<str>) = ("noisy".into(), "quiet".into());
        let ask = |handler: &Arc<str>, minutes: i64, times: u32| {
            let (now, mut tally) = (Millis(minutes * 60_000), Tally::default());
            let accepted = (0..times).filter(|_| {
                let is_fine = shares.require(&mut tally, handler, (3, now)).is_ok();
                is_fine.then(|| tally.accept(handler)).is_some()
            });
            let accepted = accepted.count();
            shares.add(tally, now);
            accepted
        };
        let refused = |minutes: i64| shares.refused(3, Millis(minutes * 60_000));
        assert_eq!((ask(&noisy, 1, 2), ask(&noisy, 2, 5)), (2, 1));
        assert_eq!(ask(&quiet, 2, 1), 1);
        assert_eq!(refused(2), [(Arc::clone(&noisy), Millis(61 * 60_000))]);
        assert_eq!((ask(&noisy, 60, 1), ask(&noisy, 61, 9)), (0, 2));
        assert_eq!(refused(200), []);
        // What was not committed does not count.
        let mut tally = Tally::default();
        tally.accept(&quiet);
        assert_eq!(ask(&quiet, 201, 9), 3);
    }
}
