//! Health checks of the machine: kernel, memory, descriptors, disks.

use std::fs;

use camino::Utf8Path;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statfs::statfs;
use nix::sys::statvfs::{FsFlags, Statvfs, statvfs};
use nix::sys::utsname::uname;
use nix::unistd::{AccessFlags, access};

use crate::base::{Context, ErrorKind, Finding, Result};

/// Oldest kernel on which the server works: `openat2`.
const KERNEL_MIN: (u32, u32) = (5, 6);
/// Oldest kernel without known gaps.
const KERNEL_GOOD: (u32, u32) = (5, 14);
/// Warn below this much free space, in bytes.
const FREE_BYTES_MIN: u64 = 1 << 30;
/// Fail below this much free space, in bytes.
const FREE_BYTES_LEAST: u64 = 32 << 20;
/// Warn below this number of free inodes.
const FREE_FILES_MIN: u64 = 10_000;
/// Warn below this much memory, in KiB.
const MEMORY_KIB_MIN: u64 = 256 << 10;
/// Warn below this number of descriptors: every open page takes one.
const DESCRIPTORS_MIN: u64 = 1_024;
/// Network file systems and FUSE: magic number and name.
const REMOTE: [(i64, &str); 11] = [
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x517b, "SMB"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x0161_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
];
/// File systems that are lost at reboot.
const PASSING: [(i64, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];

/// Checks the kernel, the memory and the limit of descriptors.
pub fn machine() -> Vec<Finding> {
    let release = uname().map(|it| it.release().to_string_lossy().into_owned());
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    vec![
        kernel(&release.unwrap_or_default()),
        judge_memory(&memory),
        match getrlimit(Resource::RLIMIT_NOFILE) {
            Ok((soft, hard)) => descriptors(soft, hard),
            Err(cause) => {
                Finding::warn("descriptors", format!("no limit is known: {cause}"), ULIMIT)
            }
        },
    ]
}

/// Checks the disk on which a folder is or will be.
pub fn disk(folder: &Utf8Path) -> Vec<Finding> {
    let place = folder.ancestors().find(|it| it.exists()).unwrap_or(folder);
    let (Ok(space), Ok(kind)) = (statvfs(place.as_std_path()), statfs(place.as_std_path())) else {
        return vec![Finding::warn("disk", format!("cannot query {place}"), "check it with df")];
    };
    let Room { bytes: free, files } = room_of(&space);
    let is_read_only = space.flags().contains(FsFlags::ST_RDONLY) || !may_write(place);
    #[allow(clippy::unnecessary_cast, reason = "its width differs between architectures")]
    let magic = kind.filesystem_type().0 as i64;
    vec![judge_space(place, free, files, is_read_only), judge_kind(place, magic)]
}

/// Returns whether this user may write to a file or folder, as far as can be told without trying.
pub fn may_write(place: &Utf8Path) -> bool {
    access(place.as_std_path(), AccessFlags::W_OK).is_ok()
}

/// What an unprivileged process may still write to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// How many bytes.
    pub bytes: u64,
    /// How many files and folders; `None` if the file system sets no bound.
    pub files: Option<u64>,
}

/// Returns what may still be written to a folder's disk.
///
/// # Errors
/// `unavailable` if the file system does not tell.
pub fn room(folder: &Utf8Path) -> Result<Room> {
    let space = statvfs(folder.as_std_path())
        .context(ErrorKind::Unavailable, || format!("cannot look at the disk of {folder}"))?;
    Ok(room_of(&space))
}

/// File systems that make inodes as they need them report none in total.
fn room_of(space: &Statvfs) -> Room {
    Room {
        bytes: space.blocks_available().saturating_mul(space.fragment_size()),
        files: (space.files() > 0).then(|| space.files_available()),
    }
}

const ULIMIT: &str = "raise it: ulimit -n 65536, or LimitNOFILE=65536 in the systemd unit";

fn kernel(release: &str) -> Finding {
    const WHAT: &str = "kernel";
    let mut numbers = release.split(|it: char| !it.is_ascii_digit()).map(str::parse::<u32>);
    let version = match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
        _ => {
            return Finding::warn(
                WHAT,
                format!("cannot read a version from `{release}`"),
                "use Linux 5.14",
            );
        }
    };
    let advice = "use Linux 5.14 or newer";
    if version < KERNEL_MIN {
        return Finding::error(WHAT, format!("Linux {release} cannot confine paths"), advice);
    }
    if version < KERNEL_GOOD {
        return Finding::warn(WHAT, format!("Linux {release} cannot kill a cgroup whole"), advice);
    }
    Finding::ok(WHAT, format!("Linux {release}"))
}

fn judge_memory(text: &str) -> Finding {
    const WHAT: &str = "memory";
    let line = text.lines().find_map(|it| it.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|it| it.split_whitespace().next()?.parse::<u64>().ok());
    let advice = "stop something, or let fewer jobs run at once: wb.limits { jobs = 1 }";
    match kib {
        None => Finding::warn(WHAT, "cannot read /proc/meminfo", "mount /proc"),
        Some(kib) if kib < MEMORY_KIB_MIN => {
            Finding::warn(WHAT, format!("{} MiB are available", kib >> 10), advice)
        }
        Some(kib) => Finding::ok(WHAT, format!("{} MiB are available", kib >> 10)),
    }
}

fn descriptors(soft: u64, hard: u64) -> Finding {
    const WHAT: &str = "descriptors";
    let says = format!("{soft} may be open at once (at most {hard})");
    if soft < DESCRIPTORS_MIN { Finding::warn(WHAT, says, ULIMIT) } else { Finding::ok(WHAT, says) }
}

fn judge_space(place: &Utf8Path, free: u64, files: Option<u64>, is_read_only: bool) -> Finding {
    const WHAT: &str = "disk";
    let full = "writes are refused with 503 when it is full: make room";
    if is_read_only {
        return Finding::error(
            WHAT,
            format!("{place} is not writable"),
            "mount it for writing, or choose another `data` in wb.site",
        );
    }
    let says = match free {
        free if free < FREE_BYTES_MIN => format!("{} MiB are free at {place}", free >> 20),
        free => format!("{} GiB are free at {place}", free >> 30),
    };
    match files {
        _ if free < FREE_BYTES_LEAST => Finding::error(WHAT, says, full),
        _ if free < FREE_BYTES_MIN => Finding::warn(WHAT, says, full),
        Some(left) if left < FREE_FILES_MIN => {
            Finding::warn(WHAT, format!("{left} more files fit at {place}"), "remove old files")
        }
        _ => Finding::ok(WHAT, says),
    }
}

fn judge_kind(place: &Utf8Path, magic: i64) -> Finding {
    const WHAT: &str = "file system";
    let name = |table: &[(i64, &'static str)]| {
        table.iter().find(|it| it.0 == magic & 0xffff_ffff).map(|it| it.1)
    };
    if let Some(name) = name(&REMOTE) {
        let says = format!("{place} is on {name}");
        let advice = "the database needs locks and memory that processes share: use a local disk";
        return Finding::warn(WHAT, says, advice);
    }
    if let Some(name) = name(&PASSING) {
        let says = format!("{place} is on {name}, which is empty after a reboot");
        return Finding::warn(WHAT, says, "use a local disk");
    }
    Finding::ok(WHAT, format!("{place} is on a local disk"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Level;

    #[track_caller]
    fn check(found: &Finding, level: Level, word: &str) {
        assert_eq!((found.level, found.advice.is_none()), (level, level == Level::Ok), "{found:?}");
        assert!(found.says.contains(word), "{found:?}");
    }

    #[test]
    fn a_kernel_is_judged_by_its_version() {
        check(&kernel("6.18.44-fc-v669"), Level::Ok, "6.18.44");
        check(&kernel("5.14.0"), Level::Ok, "5.14");
        check(&kernel("5.13.19-2-pve"), Level::Warn, "cgroup");
        check(&kernel("5.4.0-generic"), Level::Error, "paths");
        check(&kernel("4.19"), Level::Error, "paths");
        check(&kernel("weird"), Level::Warn, "weird");
        check(&kernel(""), Level::Warn, "");
    }

    #[test]
    fn memory_and_descriptors_are_judged_by_what_a_server_needs() {
        check(&judge_memory("MemTotal: 9 kB\nMemAvailable:   1048576 kB\n"), Level::Ok, "1024 MiB");
        check(&judge_memory("MemAvailable: 1024 kB\n"), Level::Warn, "1 MiB");
        check(&judge_memory(""), Level::Warn, "cannot read");
        check(&descriptors(1_024, 4_096), Level::Ok, "1024");
        check(&descriptors(256, 4_096), Level::Warn, "256");
    }

    #[test]
    fn a_disk_is_judged_by_what_fits() {
        let judge = |free, files, is_read_only| judge_space("/x".into(), free, files, is_read_only);
        check(&judge(9 << 30, Some(1 << 20), false), Level::Ok, "9 GiB");
        check(&judge(9 << 30, None, false), Level::Ok, "9 GiB");
        check(&judge(9 << 20, None, false), Level::Error, "9 MiB");
        check(&judge(99 << 20, None, false), Level::Warn, "99 MiB");
        check(&judge(9 << 30, Some(3), false), Level::Warn, "3 more files");
        check(&judge(9 << 30, None, true), Level::Error, "is not writable");
    }

    #[test]
    fn a_file_system_is_judged_by_where_it_is() {
        check(&judge_kind("/x".into(), 0xef53), Level::Ok, "local");
        check(&judge_kind("/x".into(), 0x6969), Level::Warn, "NFS");
        check(&judge_kind("/x".into(), 0xff53_4d42), Level::Warn, "CIFS");
        // As on an architecture where the magic number is negative.
        check(&judge_kind("/x".into(), -11_317_950), Level::Warn, "CIFS");
        check(&judge_kind("/x".into(), 0x0102_1994), Level::Warn, "tmpfs");
    }
}
