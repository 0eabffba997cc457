//! Checks for disk space before starting jobs: without it their folder, prompt and log could not be
//! written, and they would fail through no fault of their own.
//!
//! **Invariant:** nothing is claimed without space; queued jobs start by themselves once there is
//! some.

use std::sync::{Mutex, PoisonError};

use camino::Utf8Path;
use tracing::{error, info, warn};

use crate::base::{DISK_FULL, Millis};
use crate::process;
use crate::store::Trouble;

/// Minimum free space, in bytes: a job's folder without its output.
const START_BYTES_MIN: u64 = 1 << 20;

/// The last result of the check.
#[derive(Default)]
pub(in crate::jobs) struct Room(Mutex<Option<Trouble>>);

impl Room {
    /// Checks the disk of the data folder. Returns why no job can start, if space is lacking.
    pub(in crate::jobs) fn look(&self, data: &Utf8Path, now: Millis) -> Option<Trouble> {
        let free = match process::free_bytes(data) {
            Ok(free) => free,
            Err(cause) => {
                // An unknown amount of space stops nobody.
                warn!("cannot determine the free space for jobs: {}", cause.chain());
                u64::MAX
            }
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if free >= START_BYTES_MIN {
            if known.take().is_some() {
                info!("jobs start again: there is room on the disk");
            }
            return None;
        }
        let found = known.get_or_insert_with(|| {
            error!("no job starts until there is room: {free} bytes are free at {data}");
            Trouble {
                code: DISK_FULL.to_owned(),
                message: "the disk is full, so no job starts".to_owned(),
                hint: Some("free some space: jobs that wait then start by themselves".to_owned()),
                since: now,
            }
        });
        Some(found.clone())
    }
}
