//! Whether there is room on the disk to start a job: without it its folder, its prompt and its log
//! could not be written, and it would fail for what is not its fault.
//!
//! **Invariant:** nothing is claimed without room; what waits goes on by itself once there is some.

use std::sync::{Mutex, PoisonError};

use camino::Utf8Path;
use tracing::{error, info, warn};

use crate::base::Millis;
use crate::process;
use crate::store::Trouble;

/// Less than this is no room: a job's folder without its output.
const START_BYTES_MIN: u64 = 1 << 20;

/// What was last seen of the room.
#[derive(Default)]
pub(in crate::jobs) struct Room(Mutex<Option<Trouble>>);

impl Room {
    /// Looks at the disk of the data folder. Returns why no job can start, if there is no room.
    pub(in crate::jobs) fn look(&self, data: &Utf8Path, now: Millis) -> Option<Trouble> {
        let free = match process::free_bytes(data) {
            Ok(free) => free,
            Err(cause) => {
                // What cannot be told stops nobody.
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
                code: "disk_full".to_owned(),
                message: "the disk is full, so no job starts".to_owned(),
                hint: Some("free some space: jobs that wait then start by themselves".to_owned()),
                since: now,
            }
        });
        Some(found.clone())
    }
}
