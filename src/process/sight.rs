//! What can be seen of the program that a guard runs, without asking either.

use std::collections::BTreeSet;

use camino::Utf8Path;

use crate::base::{Context, ErrorKind, Result};
use crate::process::identity::{ProcessIdentity, Stat};
use crate::process::job_folder::JobFolder;
use crate::process::launch::{MARK, read_launch};
use crate::process::tree::Listing;

/// Most names of an environment that are shown.
const NAMES_MAX: usize = 500;

/// What can be seen of the program that a guard runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// It runs, or sleeps until something wakes it.
    Runs,
    /// A signal has stopped it, or a debugger holds it; with its pid.
    Stopped(i32),
    /// It is gone, or its guard is.
    Gone,
}

/// Looks at the program that a guard runs.
///
/// # Errors
/// `unavailable` if `/proc` cannot be read.
pub fn look_below(guard: &ProcessIdentity) -> Result<Sight> {
    let children = Listing::new().and_then(|it| it.children(guard.pid));
    let children = children.context(ErrorKind::Unavailable, || {
        format!("cannot look at the processes of guard {}", guard.pid)
    })?;
    if !guard.is_alive() {
        return Ok(Sight::Gone);
    }
    // The guard also inherits what the program leaves behind, which is younger.
    let program = children.iter().filter(|it| !it.is_dead()).min_by_key(|it| (it.start, it.pid));
    Ok(match program {
        None => Sight::Gone,
        Some(it) if it.is_stopped() => Sight::Stopped(it.pid),
        Some(_) => Sight::Runs,
    })
}

/// What has the keys of the terminal in whose pane a guard is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// The program that the guard runs, as far as process groups tell, or nobody yet.
    Program,
    /// A process that a signal has stopped, so nobody reads them; with its pid.
    Stopped(i32),
    /// A process of another group, with its pid.
    Other(i32),
}

/// Looks at who has the terminal of a guard.
///
/// # Errors
/// `unavailable` if `/proc` cannot be read.
pub fn look_in_front(guard: i32) -> Result<Front> {
    let seen = Stat::read(guard).and_then(|it| Ok((it, Listing::new()?.descendants(guard)?)));
    let (own, mut below) = seen.context(ErrorKind::Unavailable, || {
        format!("cannot look at the terminal of guard {guard}")
    })?;
    below.retain(|it| !it.is_dead());
    let children = below.iter().filter(|it| it.ppid == guard);
    let program = children.min_by_key(|it| (it.start, it.pid));
    let (Some(own), Some(program)) = (own, program) else { return Ok(Front::Program) };
    let group: Vec<&Stat> = below.iter().filter(|it| it.pgid == own.foreground).collect();
    if let Some(stopped) = group.iter().find(|it| it.is_stopped()) {
        return Ok(Front::Stopped(stopped.pid));
    }
    let leader = group.iter().find(|it| it.pid == it.pgid).or(group.first());
    Ok(match leader {
        Some(it) if it.pgid != program.pgid => Front::Other(it.pid),
        _ if program.is_stopped() => Front::Stopped(program.pid),
        _ => Front::Program,
    })
}

/// Returns the names of the environment with which a job's agent was started, sorted; none without
/// a launch file.
///
/// # Errors
/// Fails if the launch file cannot be read, or is none.
pub fn environment_names(job_dir: &Utf8Path) -> Result<Vec<String>> {
    let Some(folder) = JobFolder::open(job_dir)? else { return Ok(Vec::new()) };
    let launch = match read_launch(&folder) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        launch => launch?,
    };
    let named = launch.env.into_iter().map(|(name, _)| name);
    let all: BTreeSet<String> =
        named.chain(launch.private_names).chain([MARK.to_owned()]).collect();
    Ok(all.into_iter().take(NAMES_MAX).collect())
}
