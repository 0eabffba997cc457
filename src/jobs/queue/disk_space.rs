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
/// Minimum number of files that must fit: those of a job, with room for a few others.
const START_FILES_MIN: u64 = 64;

/// What there is too little of.
struct Lack {
    measure: String,
    message: &'static str,
    advice: &'static str,
}

/// The last result of the check.
#[derive(Default)]
pub(in crate::jobs) struct Room(Mutex<Option<Trouble>>);

impl Room {
    /// Checks the disk of the data folder. Returns why no job can start, if space is lacking.
    pub(in crate::jobs) fn look(&self, data: &Utf8Path, now: Millis) -> Option<Trouble> {
        let free = match process::room(data) {
            Ok(free) => free,
            Err(cause) => {
                // An unknown amount of space stops nobody.
                warn!("cannot determine the free space for jobs: {}", cause.chain());
                process::Room { bytes: u64::MAX, files: None }
            }
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(lack) = lack(free) else {
            if known.take().is_some() {
                info!("jobs start again: there is room on the disk");
            }
            return None;
        };
        let found = known.get_or_insert_with(|| {
            error!("no job starts until there is room: {} at {data}", lack.measure);
            Trouble {
                code: DISK_FULL.to_owned(),
                message: lack.message.to_owned(),
                hint: Some(format!("{}: jobs that wait then start by themselves", lack.advice)),
                since: now,
            }
        });
        Some(found.clone())
    }
}

fn lack(free: process::Room) -> Option<Lack> {
    if free.bytes < START_BYTES_MIN {
        return Some(Lack {
            measure: format!("{} bytes are free", free.bytes),
            message: "the disk is full, so no job starts",
            advice: "free some space",
        });
    }
    let files = free.files.filter(|it| *it < START_FILES_MIN)?;
    Some(Lack {
        measure: format!("{files} more files fit (free inodes)"),
        message: "the disk has no room for more files (inodes), so no job starts",
        advice: "remove some files",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_files_are_needed_and_only_those_that_are_bounded_lack() {
        let lack = |bytes, files| lack(process::Room { bytes, files }).map(|it| it.message);
        assert_eq!(lack(1 << 20, Some(64)), None);
        assert_eq!(lack(1 << 20, None), None);
        assert!(lack((1 << 20) - 1, None).unwrap().contains("disk is full"));
        assert!(lack(1 << 40, Some(63)).unwrap().contains("inodes"));
        assert!(lack(1 << 40, Some(0)).unwrap().contains("inodes"));
    }
}
