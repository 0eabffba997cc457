//! Resource usage of this process.

use std::{fs, io};

use crate::base::{Context, Error, ErrorKind, Result, fault};
use crate::process::sys;

/// The resource usage of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OwnUsage {
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
    /// CPU time of all threads so far, in seconds.
    pub cpu_seconds: f64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Threads.
    pub threads: u64,
}

/// Returns the resource usage of this process.
///
/// # Errors
/// `unavailable` without `/proc`.
pub fn own_usage() -> Result<OwnUsage> {
    let cannot = || "cannot read /proc/self".to_owned();
    let stat = fs::read_to_string("/proc/self/stat").context(ErrorKind::Unavailable, cannot)?;
    let open = fs::read_dir("/proc/self/fd").context(ErrorKind::Unavailable, cannot)?;
    // One of them belongs to the listing.
    let descriptors = (open.count() as u64).saturating_sub(1);
    parse(&stat, descriptors).ok_or_else(|| Error::unavailable("/proc/self/stat is strange"))
}

/// Parses the line described in `proc(5)`: the name may contain anything, so fields count from the
/// last `)`.
fn parse(stat: &str, descriptors: u64) -> Option<OwnUsage> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // The first field here is the third in the manual.
    let number = |nth: usize| fields.get(nth - 3)?.parse::<u64>().ok();
    let ticks = number(14)?.checked_add(number(15)?)?;
    let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??;
    Some(OwnUsage {
        resident_bytes: number(24)?.checked_mul(u64::try_from(page).ok()?)?,
        cpu_seconds: ticks as f64 / per_second as f64,
        descriptors,
        threads: number(20)?,
    })
}

/// Prepares a long-lived process: large memory blocks go back to the system as soon as they are
/// freed, and a write beyond the limit of a file's size fails instead of ending it.
///
/// # Errors
/// The system call's error.
pub fn live_long() -> io::Result<()> {
    if !fault::is_off("large_blocks") {
        sys::map_large_blocks();
    }
    Ok(sys::survive_file_limit()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_takes_something() {
        let usage = own_usage().unwrap();
        assert!(usage.resident_bytes > 1_000_000 && usage.descriptors >= 3 && usage.threads >= 1);
    }

    #[test]
    fn a_name_cannot_shift_the_fields() {
        let line = "7 (a) 9 9 (b) S 1 1 1 0 -1 0 0 0 0 0 150 50 0 0 20 0 4 0 100 1000 10 0";
        let usage = parse(line, 3).unwrap();
        assert!((usage.cpu_seconds - 2.0).abs() < 1e-9, "{usage:?}");
        assert_eq!((usage.threads, usage.descriptors), (4, 3));
        assert!(usage.resident_bytes >= 10 * 4096);
    }
}
