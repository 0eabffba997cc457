//! Statistics of the functions of a script over all its generations: abandoned threads, and calls,
//! errors and time per function.
//!
//! **Invariant:** a reload does not reset the number of abandoned threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::base::histogram::{Counted, Histogram, QUICK_US};

/// Abandoned threads before the functions are disabled.
pub(crate) const ABANDONED_MAX: u32 = 2;
/// Most functions with their own statistics; the others are counted together.
const NAMES_MAX: usize = 1_000;
/// The name of all others.
const OTHER: &str = "other";

/// A handle to the statistics; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Wear(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    abandoned: AtomicU32,
    functions: Mutex<BTreeMap<String, Counts>>,
}

#[derive(Debug)]
struct Counts {
    errors: u64,
    times: Histogram,
}

/// The statistics of one function.
#[derive(Clone, Debug)]
pub struct Called {
    /// Its name: `kind.NAME.prompt`, `on.EVENT`, `schedule.NAME`.
    pub name: String,
    /// Calls that failed.
    pub errors: u64,
    /// How long the calls took, including their time in the queue.
    pub times: Counted,
}

impl Wear {
    /// Returns whether the functions are disabled.
    pub fn is_out(&self) -> bool {
        self.abandoned() >= ABANDONED_MAX
    }

    /// Returns the number of abandoned threads.
    pub fn abandoned(&self) -> u32 {
        self.0.abandoned.load(Ordering::SeqCst)
    }

    /// Returns the statistics of every called function, by name.
    pub fn functions(&self) -> Vec<Called> {
        let functions = self.0.functions.lock().unwrap_or_else(PoisonError::into_inner);
        let called = functions.iter().map(|(name, counts)| Called {
            name: name.clone(),
            errors: counts.errors,
            times: counts.times.counted(),
        });
        called.collect()
    }

    /// Counts an abandoned thread; returns the new number.
    pub(crate) fn abandon(&self) -> u32 {
        self.0.abandoned.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Switches the functions off.
    pub(crate) fn put_out(&self) {
        self.0.abandoned.fetch_max(ABANDONED_MAX, Ordering::SeqCst);
    }

    /// Counts a call.
    pub(crate) fn note(&self, name: &str, took: Duration, is_error: bool) {
        let mut functions = self.0.functions.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = functions.len() < NAMES_MAX || functions.contains_key(name);
        let name = if has_room { name } else { OTHER };
        if !functions.contains_key(name) {
            let counts = Counts { errors: 0, times: Histogram::new(QUICK_US) };
            functions.insert(name.to_owned(), counts);
        }
        if let Some(counts) = functions.get_mut(name) {
            counts.times.note_time(took);
            counts.errors += u64::from(is_error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_limit_and_calls_have_none() {
        let wear = Wear::default();
        for number in 0..NAMES_MAX + 5 {
            wear.note(&format!("on.{number}"), Duration::from_micros(9), number % 2 == 0);
        }
        let functions = wear.functions();
        assert_eq!(functions.len(), NAMES_MAX + 1);
        let other = functions.iter().find(|it| it.name == OTHER).unwrap();
        assert_eq!((other.times.at_most.last(), other.errors), (Some(&5), 3));
    }
}
