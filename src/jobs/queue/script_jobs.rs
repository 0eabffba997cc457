//! How many jobs and messages each handler of the script has requested within an hour: one that
//! runs away is stopped, and the others go on.
//!
//! **Invariant:** only what was committed counts, and a generation of the script begins without a
//! count.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::{Error, ErrorKind, Millis, Result, fault};

const HOUR_MS: i64 = 3_600_000;

/// What a handler requests; each is counted by itself.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Requested {
    /// Jobs, also those that its messages start.
    Jobs,
    /// Messages.
    Messages,
}

impl Requested {
    /// Returns what the handler has done and with what, for a sentence.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Requested::Jobs => ("enqueued", "jobs"),
            Requested::Messages => ("sent", "messages"),
        }
    }
}

/// A handler is named by its title.
type Key = (Arc<str>, Requested);

/// The counts of one generation, shared by its clones.
#[derive(Clone, Debug, Default)]
pub struct Shares(Arc<Mutex<BTreeMap<Key, Share>>>);

#[derive(Debug, Default)]
struct Share {
    /// When it requested each of the last hour.
    asked: VecDeque<Millis>,
    is_refused: bool,
}

/// What handlers requested in one transaction, until it is committed.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    accepted: BTreeMap<Key, u32>,
    refused: BTreeSet<Key>,
}

impl Tally {
    /// Counts what was accepted.
    pub fn accept(&mut self, handler: &Arc<str>, what: Requested) {
        *self.accepted.entry((Arc::clone(handler), what)).or_default() += 1;
    }
}

impl Shares {
    /// Refuses what a handler asks for that has had `most` within an hour.
    ///
    /// # Errors
    /// `busy` with code `script_jobs`.
    pub fn require(
        &self,
        tally: &mut Tally,
        (handler, what): (&Arc<str>, Requested),
        (most, now): (u32, Millis),
    ) -> Result<()> {
        let key = (Arc::clone(handler), what);
        let before = self.counts().get_mut(&key).map_or(0, |share| share.count(now));
        let asked = before.saturating_add(tally.accepted.get(&key).copied().unwrap_or(0));
        if asked < most || fault::is_off("script_jobs") {
            return Ok(());
        }
        tally.refused.insert(key);
        let (has, nouns) = what.words();
        let message = format!("the handler has {has} {asked} {nouns} within an hour, the maximum");
        Err(Error::new(ErrorKind::Busy, message).code("script_jobs").hint(format!(
            "if that is meant, raise script_jobs in wb.limits; else look whether its own {nouns} \
             call it again, change it, and reload"
        )))
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

    /// Returns the handlers that are refused now, each with the time when it may request the next.
    pub fn refused(&self, most: u32, now: Millis) -> Vec<(Arc<str>, Requested, Millis)> {
        let mut counts = self.counts();
        let refused = counts.iter_mut().filter_map(|((handler, what), share)| {
            let is_over = share.count(now) >= most && share.is_refused;
            share.is_refused = is_over;
            let first = share.asked.front().filter(|_| is_over)?;
            Some((Arc::clone(handler), *what, first.plus(HOUR_MS)))
        });
        refused.collect()
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<Key, Share>> {
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
                let what = (handler, Requested::Jobs);
                let is_fine = shares.require(&mut tally, what, (3, now)).is_ok();
                is_fine.then(|| tally.accept(handler, Requested::Jobs)).is_some()
            });
            let accepted = accepted.count();
            shares.add(tally, now);
            accepted
        };
        let refused = |minutes: i64| shares.refused(3, Millis(minutes * 60_000));
        assert_eq!((ask(&noisy, 1, 2), ask(&noisy, 2, 5)), (2, 1));
        assert_eq!(ask(&quiet, 2, 1), 1);
        assert_eq!(refused(2), [(Arc::clone(&noisy), Requested::Jobs, Millis(61 * 60_000))]);
        assert_eq!((ask(&noisy, 60, 1), ask(&noisy, 61, 9)), (0, 2));
        assert_eq!(refused(200), []);
        // What was not committed does not count.
        let mut tally = Tally::default();
        tally.accept(&quiet, Requested::Jobs);
        assert_eq!(ask(&quiet, 201, 9), 3);
    }
}
