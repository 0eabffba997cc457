//! One cgroup per job, if this process may create any: forking does not escape it.
//!
//! **Invariant:** cgroups are optional: where they cannot be created, the sweep does the work
//! alone.
//! **Invariant:** controllers are left as they are: a cgroup with processes must not enable any.
//! **Invariant:** a cgroup belongs to this site only if its name says so and it is on a cgroup file
//! system.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use nix::fcntl::OFlag;
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
use serde::Deserialize;

use crate::base::{Context, Error, ErrorKind, Result, digest_hex, fault};
use crate::process::identity::{Signal, Stat, signal_verified};
use crate::process::job_folder::JobFolder;
use crate::process::launch::{LAUNCH_BYTES_MAX, LAUNCH_FILE};

/// Timeout for killed processes to disappear.
const KILL_MAX: Duration = Duration::from_millis(900);
/// Timeout for all processes of a cgroup to freeze; one blocked on a disk does not.
const FREEZE_MAX: Duration = Duration::from_millis(200);
/// Polling interval for that.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Depth of nested cgroups, made by an agent, that are removed.
const DEPTH_MAX: usize = 16;
/// Longest job id that may become part of a cgroup's name.
const JOB_BYTES_MAX: usize = 128;

/// The cgroups of a site's jobs. A cheap handle.
#[derive(Clone, Debug, Default)]
pub struct Cgroups {
    place: Option<Arc<Place>>,
}

#[derive(Debug)]
struct Place {
    /// This process's own cgroup; those of the jobs are created inside.
    folder: Utf8PathBuf,
    /// Prefix of the names of this site's cgroups.
    prefix: String,
    has_failed: AtomicBool,
}

/// The cgroup of one job.
#[derive(Clone, Debug)]
pub(in crate::process) struct Cgroup {
    folder: Utf8PathBuf,
}

impl Cgroups {
    /// Returns a handle that creates no cgroups.
    pub fn none() -> Cgroups {
        Cgroups::default()
    }

    /// Tries to create a cgroup below this process's own. The data folder identifies the site.
    ///
    /// # Errors
    /// A message for people that explains why there are no cgroups. The site works without them.
    pub fn open(data: &Utf8Path) -> Result<Cgroups, String> {
        if fault::is_off("cgroup") || fault::is_absent("cgroup") {
            return Err("left out by a switch".to_owned());
        }
        let folder = own_folder()?;
        let prefix = prefix(data).map_err(|cause| format!("{data}: {cause}"))?;
        let trial = Cgroup { folder: folder.join(format!("{prefix}trial")) };
        let cannot = |cause: io::Error| format!("{folder} takes no cgroup of ours: {cause}");
        trial.make().map_err(cannot)?;
        let tried = trial.check(&folder);
        trial.remove(0).map_err(cannot)?;
        tried?;
        let place = Place { folder, prefix, has_failed: AtomicBool::new(false) };
        Ok(Cgroups { place: Some(Arc::new(place)) })
    }

    /// Returns the cgroup in which those of the jobs are created, if available.
    pub fn folder(&self) -> Option<&Utf8Path> {
        self.place.as_deref().map(|it| it.folder.as_path())
    }

    /// Creates the cgroup of a job; `None` if it cannot be created, which is logged once.
    pub(in crate::process) fn make(&self, job: &str) -> Option<Cgroup> {
        let place = self.place.as_ref()?;
        let cgroup = place.of_job(job)?;
        match cgroup.make() {
            Ok(()) => Some(cgroup),
            Err(cause) => {
                if !place.has_failed.swap(true, Ordering::Relaxed) {
                    let folder = &cgroup.folder;
                    tracing::warn!("jobs go without a cgroup from here on: {folder}: {cause}");
                }
                None
            }
        }
    }

    /// Kills whatever is left in the cgroup of a job whose guard has ended, and removes it. Returns
    /// whether anything was left. `job_dir` tells where a server in another cgroup created it.
    ///
    /// # Errors
    /// `unavailable` with code `survivors` if some processes cannot be killed.
    pub async fn end(&self, job: &str, data: &Utf8Path, job_dir: &Utf8Path) -> Result<bool> {
        if fault::is_off("cgroup") {
            return Ok(false);
        }
        let own = self.place.as_ref().and_then(|it| it.of_job(job));
        let (job, data, dir) = (job.to_owned(), data.to_owned(), job_dir.to_owned());
        let ended = tokio::task::spawn_blocking(move || {
            let recorded = recorded(&job, &data, &dir);
            let mut has_ended = false;
            for cgroup in [own, recorded].into_iter().flatten() {
                has_ended |= cgroup.end()?;
            }
            Ok(has_ended)
        });
        ended.await.context(ErrorKind::Internal, || "ending a cgroup failed".into())?
    }

    /// Ends and removes cgroups of finished jobs, left behind by a server that was killed. Returns
    /// how many there were. Only the server that holds the data folder's lock may call it.
    ///
    /// # Errors
    /// `unavailable` with code `survivors` if some processes cannot be killed.
    pub async fn end_leftovers(&self, is_running: impl Fn(&str) -> bool) -> Result<u32> {
        let Some(place) = &self.place else { return Ok(0) };
        let left: Vec<Cgroup> = place
            .leftovers()
            .context(ErrorKind::Unavailable, || format!("cannot list {}", place.folder))?
            .into_iter()
            .filter(|job| !is_running(job))
            .filter_map(|job| place.of_job(&job))
            .collect();
        let ended = tokio::task::spawn_blocking(move || {
            let mut count = 0;
            for cgroup in left {
                cgroup.end()?;
                count += 1;
            }
            Ok(count)
        });
        ended.await.context(ErrorKind::Internal, || "ending cgroups failed".into())?
    }
}

impl Place {
    fn of_job(&self, job: &str) -> Option<Cgroup> {
        let is_name = !job.is_empty()
            && job.len() <= JOB_BYTES_MAX
            && job.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_".contains(&it));
        let folder = self.folder.join(format!("{}{job}", self.prefix));
        is_name.then_some(Cgroup { folder })
    }

    fn leftovers(&self) -> io::Result<Vec<String>> {
        let mut jobs = Vec::new();
        for entry in self.folder.read_dir_utf8()? {
            let entry = entry?;
            if let Some(job) = entry.file_name().strip_prefix(&self.prefix)
                && entry.file_type()?.is_dir()
            {
                jobs.push(job.to_owned());
            }
        }
        Ok(jobs)
    }
}

impl Cgroup {
    /// Returns the cgroup at the path in a launch file.
    pub(in crate::process) fn at(folder: Utf8PathBuf) -> Cgroup {
        Cgroup { folder }
    }

    pub(in crate::process) fn folder(&self) -> &Utf8Path {
        &self.folder
    }

    /// Removes the cgroup of a job that did not start, killing anything that did.
    pub(in crate::process) async fn give_up(self) {
        let folder = self.folder.clone();
        match tokio::task::spawn_blocking(move || self.end()).await {
            Ok(Ok(_)) => {}
            Ok(Err(cause)) => tracing::warn!("{folder} is left: {}", cause.chain()),
            Err(cause) => tracing::warn!("{folder} is left: {cause}"),
        }
    }

    fn make(&self) -> io::Result<()> {
        match fs::create_dir(&self.folder) {
            // Left by an earlier attempt; job ids are unique.
            Err(cause)
                if cause.kind() == io::ErrorKind::AlreadyExists && !self.has_processes()? =>
            {
                Ok(())
            }
            made => made,
        }
    }

    /// Checks that processes can be moved into and killed in this cgroup.
    fn check(&self, from: &Utf8Path) -> Result<(), String> {
        let kind = fs::read_to_string(self.folder.join("cgroup.type")).unwrap_or_default();
        if kind.trim() != "domain" {
            return Err(format!("a cgroup in {from} would be of the type `{}`", kind.trim()));
        }
        // Moving a process requires write access to the common ancestor of both cgroups.
        for procs in [from.join("cgroup.procs"), self.folder.join("cgroup.procs")] {
            open_to_write(&procs).map_err(|cause| format!("{procs}: {cause}"))?;
        }
        let ways = ["cgroup.kill", "cgroup.freeze"];
        match ways.iter().any(|it| self.folder.join(it).exists()) {
            true => Ok(()),
            false => Err("this kernel can neither kill nor freeze a cgroup".to_owned()),
        }
    }

    /// Opens the file to which a process writes `0` to move itself into this cgroup.
    pub(in crate::process) fn entrance(&self) -> io::Result<File> {
        open_to_write(&self.folder.join("cgroup.procs"))
    }

    /// Returns whether this cgroup or one below contains a process; a removed cgroup contains none.
    pub(in crate::process) fn has_processes(&self) -> io::Result<bool> {
        self.says("populated 1")
    }

    fn says(&self, line: &str) -> io::Result<bool> {
        match fs::read_to_string(self.folder.join("cgroup.events")) {
            Ok(text) => Ok(text.lines().any(|it| it == line)),
            Err(cause) if is_gone(&cause) => Ok(false),
            Err(cause) => Err(cause),
        }
    }

    /// Kills all its processes at once; none escapes by forking meanwhile.
    pub(in crate::process) fn kill(&self) -> io::Result<()> {
        let killed = match fault::is_absent("cgroup_kill") {
            true => Err(io::ErrorKind::NotFound.into()),
            false => write(&self.folder.join("cgroup.kill"), "1"),
        };
        match killed {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => self.kill_frozen(),
            // ENODEV: the cgroup itself is gone.
            Err(cause) if is_gone(&cause) => Ok(()),
            killed => killed,
        }
    }

    /// [`Cgroup::kill`] for kernels before 5.14: a frozen process cannot fork, but can be killed.
    fn kill_frozen(&self) -> io::Result<()> {
        let frozen = self.folder.join("cgroup.freeze");
        match write(&frozen, "1") {
            Err(cause) if is_gone(&cause) => return Ok(()),
            frozen => frozen?,
        }
        // Freezing takes a moment; until then a process could still fork.
        let give_up_at = Instant::now() + FREEZE_MAX;
        while !self.says("frozen 1")? && Instant::now() < give_up_at {
            std::thread::sleep(LOOK_EVERY);
        }
        let killed = self.kill_each(0);
        write(&frozen, "0")?;
        killed
    }

    fn kill_each(&self, depth: usize) -> io::Result<()> {
        let text = fs::read_to_string(self.folder.join("cgroup.procs"))?;
        for pid in text.lines().filter_map(|it| it.parse().ok()) {
            // EPERM and the like show up as processes that are still there afterwards.
            let _ = signal_verified(pid, Signal::Kill, || self.holds(pid));
        }
        self.each_below(depth, |it| it.kill_each(depth + 1))
    }

    /// Returns whether a process is in exactly this cgroup now.
    fn holds(&self, pid: i32) -> bool {
        let is_here = |file: &std::path::Path| {
            let text = fs::read_to_string(file).unwrap_or_default();
            let path = text.lines().find_map(|line| line.strip_prefix("0::"));
            path.is_some_and(|it| self.folder.ends_with(it.trim_start_matches('/')))
        };
        // The main thread may have exited, and is then in no cgroup; ask the other threads.
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        threads.map(|it| it.path().join("cgroup")).any(|it| is_here(&it)) && Stat::of(pid).is_some()
    }

    /// Kills until nothing is left, then removes the cgroup. Returns whether anything was killed.
    fn end(&self) -> Result<bool> {
        let cannot = || format!("cannot end the cgroup {}", self.folder);
        let look = || self.has_processes().context(ErrorKind::Unavailable, cannot);
        let was_there = look()?;
        let give_up_at = Instant::now() + KILL_MAX;
        while look()? {
            if Instant::now() >= give_up_at {
                return Err(Error::unavailable(format!(
                    "processes in the cgroup {} do not end",
                    self.folder
                ))
                .code("survivors")
                .hint("look at its file cgroup.procs; the lane stays held until they are gone"));
            }
            self.kill().context(ErrorKind::Unavailable, cannot)?;
            // Freezing and killing skips processes whose main thread has exited; kill those one by
            // one.
            match self.kill_each(0) {
                Err(cause) if !is_gone(&cause) => Err(cause),
                _ => Ok(()),
            }
            .context(ErrorKind::Unavailable, cannot)?;
            std::thread::sleep(LOOK_EVERY);
        }
        self.remove(0).context(ErrorKind::Unavailable, cannot)?;
        Ok(was_there)
    }

    fn remove(&self, depth: usize) -> io::Result<()> {
        match fs::remove_dir(&self.folder) {
            Err(cause) if is_gone(&cause) => Ok(()),
            // The agent may have created cgroups inside.
            Err(_) if depth < DEPTH_MAX => {
                self.each_below(depth, |it| it.remove(depth + 1))?;
                fs::remove_dir(&self.folder)
            }
            removed => removed,
        }
    }

    fn each_below(
        &self,
        depth: usize,
        mut act: impl FnMut(&Cgroup) -> io::Result<()>,
    ) -> io::Result<()> {
        if depth >= DEPTH_MAX {
            return Ok(());
        }
        for entry in self.folder.read_dir_utf8()? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                act(&Cgroup { folder: entry.into_path() })?;
            }
        }
        Ok(())
    }
}

/// The part of a launch file that concerns the cgroup.
#[derive(Deserialize)]
struct Recorded {
    cgroup: Option<Utf8PathBuf>,
}

/// Returns the cgroup in the launch file. Agents can write that file, so the name must be that of
/// this very job and site, on a cgroup file system: whoever could move a process there could have
/// killed it as well.
fn recorded(job: &str, data: &Utf8Path, job_dir: &Utf8Path) -> Option<Cgroup> {
    let text = JobFolder::open(job_dir).ok()??.read(LAUNCH_FILE, LAUNCH_BYTES_MAX).ok()??;
    let folder = serde_json::from_slice::<Recorded>(&text).ok()?.cgroup?;
    let is_plain = folder
        .components()
        .all(|it| matches!(it, Utf8Component::RootDir | Utf8Component::Normal(_)));
    let name = format!("{}{job}", prefix(data).ok()?);
    let is_ours = is_plain && folder.is_absolute() && folder.file_name() == Some(name.as_str());
    let is_cgroup = || {
        fs::symlink_metadata(&folder).is_ok_and(|it| it.is_dir())
            && statfs(folder.as_std_path())
                .is_ok_and(|it| it.filesystem_type() == CGROUP2_SUPER_MAGIC)
    };
    (is_ours && is_cgroup()).then_some(Cgroup { folder })
}

/// Returns the name prefix of a site's cgroups. Two sites never share one, even if both see their
/// data folder at the same path.
fn prefix(data: &Utf8Path) -> io::Result<String> {
    let facts = fs::metadata(data)?;
    let key = digest_hex(format!("{data}\n{}\n{}", facts.dev(), facts.ino()));
    Ok(format!("wiki-browser-{}-", &key[..12]))
}

/// Returns where this process's own cgroup is mounted.
fn own_folder() -> Result<Utf8PathBuf, String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|cause| format!("{path}: {cause}"));
    let own = read("/proc/self/cgroup")?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::"));
    let own = own.ok_or("this kernel has no cgroup v2")?;
    let mounts = read("/proc/self/mountinfo")?;
    let (root, at) = mounts.lines().find_map(mount).ok_or("no cgroup v2 is mounted")?;
    let below = Utf8Path::new(own).strip_prefix(&root);
    let below = below.map_err(|_| format!("this process' cgroup {own} is not mounted at {at}"))?;
    Ok(at.join(below))
}

/// Returns root and mount point of a cgroup v2 mount.
fn mount(line: &str) -> Option<(Utf8PathBuf, Utf8PathBuf)> {
    let (before, after) = line.split_once(" - ")?;
    let mut fields = before.split(' ').skip(3);
    let (root, at) = (fields.next()?, fields.next()?);
    let is_it = after.split(' ').next() == Some("cgroup2") && !at.contains('\\');
    is_it.then(|| (root.into(), at.into()))
}

fn open_to_write(path: &Utf8Path) -> io::Result<File> {
    OpenOptions::new().write(true).custom_flags(OFlag::O_NOFOLLOW.bits()).open(path)
}

fn write(path: &Utf8Path, text: &str) -> io::Result<()> {
    open_to_write(path)?.write_all(text.as_bytes())
}

fn is_gone(cause: &io::Error) -> bool {
    let code = cause.raw_os_error();
    cause.kind() == io::ErrorKind::NotFound || code == Some(nix::libc::ENODEV)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_read_from_its_line() {
        let line = "35 24 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw";
        assert_eq!(mount(line), Some(("/".into(), "/sys/fs/cgroup".into())));
        let line = "35 24 0:30 /a/b /x rw shared:9 master:2 - cgroup2 none rw";
        assert_eq!(mount(line), Some(("/a/b".into(), "/x".into())));
        assert_eq!(mount("35 24 0:30 / /a\\040b rw - cgroup2 none rw"), None);
        assert_eq!(mount("35 24 0:30 / /sys rw - cgroup cgroup rw"), None);
        assert_eq!(mount("nonsense"), None);
    }

    #[test]
    fn a_job_dir_cannot_name_another_folder() {
        let folder = tempfile::tempdir().unwrap();
        let data = Utf8Path::from_path(folder.path()).unwrap();
        let name = format!("{}job", prefix(data).unwrap());
        fs::create_dir(data.join(&name)).unwrap();
        let named = [
            // The right name, but not on a cgroup file system.
            data.join(&name),
            Utf8PathBuf::from("/sys/fs/cgroup"),
            format!("/sys/fs/cgroup/../{name}").into(),
            name.clone().into(),
            Utf8PathBuf::new(),
        ];
        for cgroup in named {
            let text = serde_json::json!({"cgroup": cgroup, "job": "job"}).to_string();
            fs::write(data.join("launch.json"), text).unwrap();
            assert!(recorded("job", data, data).is_none(), "{cgroup}");
        }
        fs::write(data.join("launch.json"), "[").unwrap();
        assert!(recorded("job", data, data).is_none());
    }

    #[test]
    fn a_name_that_is_no_name_has_no_cgroup() {
        let has_failed = AtomicBool::new(false);
        let place = Place { folder: "/x".into(), prefix: "p-".into(), has_failed };
        assert_eq!(place.of_job("a-1_B").unwrap().folder, "/x/p-a-1_B");
        for job in ["", "..", "a/b", "a b", "ü", &"x".repeat(200)] {
            assert!(place.of_job(job).is_none(), "{job}");
        }
    }
}
