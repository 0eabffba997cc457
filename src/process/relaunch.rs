//! A launch that came to nothing because its server died: how that is known, and how the job can be
//! launched again.
//!
//! **Invariant:** both are asked only while the job's lock is held, so no guard is at work.

use camino::Utf8Path;

use crate::base::{Error, Result};
use crate::process::job_folder::JobFolder;
use crate::process::launch::{
    EXIT_FILE, ExitCause, GUARD_LOG, GUARD_SOCKET, HOOKS_PIPE, LAUNCH_FILE, PROMPT_FILE,
    read_exit_record,
};

/// How far a launch came whose guard is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// No guard was started.
    NoGuard,
    /// Its guard ended before it started the agent, and has recorded that.
    NoAgent,
    /// Its agent may have been started.
    Agent,
}

/// Returns how far the launch of a job came.
///
/// # Errors
/// `unavailable` if the folder cannot be read; `internal` if its exit file makes no sense.
pub fn reached(job_dir: &Utf8Path) -> Result<Reached> {
    let Some(folder) = JobFolder::open(job_dir)? else { return Ok(Reached::NoGuard) };
    Ok(match read_exit_record(job_dir)? {
        // An agent that ran leaves no such error: it had been started.
        Some(record) if record.error.is_some() && is_of_server(record.cause) => Reached::NoAgent,
        // The log is the last file that is made before the guard is started.
        None if !folder.has(GUARD_LOG) => Reached::NoGuard,
        _ => Reached::Agent,
    })
}

fn is_of_server(cause: ExitCause) -> bool {
    matches!(cause, ExitCause::Lifeline | ExitCause::Stopped)
}

/// Removes what a launch without an agent left, so that the job can be launched. `files` are those
/// that the guard was given besides its own.
///
/// # Errors
/// `unavailable` if something cannot be removed.
pub fn undo_launch(job_dir: &Utf8Path, files: &[&str]) -> Result<()> {
    let Some(folder) = JobFolder::open(job_dir)? else { return Ok(()) };
    // The record last: until then it says that there was no agent.
    let own = [GUARD_LOG, LAUNCH_FILE, PROMPT_FILE, HOOKS_PIPE, GUARD_SOCKET];
    for name in own.iter().chain(files).chain(&[EXIT_FILE]) {
        let gone = folder.remove(name);
        gone.map_err(|cause| Error::of_disk(format!("cannot remove {name} in {job_dir}"), cause))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use camino::Utf8PathBuf;

    use super::*;

    fn record(cause: &str, error: Option<&str>) -> Vec<u8> {
        let stream = serde_json::json!({"bytes": 0, "cut": false});
        let text = serde_json::json!({
            "version": 1, "cause": cause, "code": null, "signal": null, "error": error,
            "started_ms": 1, "ended_ms": 2, "cpu_user_ms": 0, "cpu_sys_ms": 0,
            "rss_max_bytes": 0, "swept": 0, "survivors": [], "stdout": stream, "stderr": stream,
        });
        text.to_string().into_bytes()
    }

    #[test]
    fn only_a_launch_without_an_agent_is_known_as_one() {
        let data = tempfile::tempdir().unwrap();
        let data = Utf8PathBuf::from_path_buf(data.path().to_owned()).unwrap();
        let dir = data.join("jobs/a");
        assert_eq!(reached(&dir).unwrap(), Reached::NoGuard);
        let folder = JobFolder::make(&dir).unwrap();
        folder.create(LAUNCH_FILE).unwrap();
        folder.create("hooks.json").unwrap();
        assert_eq!(reached(&dir).unwrap(), Reached::NoGuard);
        folder.create(GUARD_LOG).unwrap();
        assert_eq!(reached(&dir).unwrap(), Reached::Agent);
        let gone = Some("the server was gone before the agent started");
        for (cause, error, expected) in [
            ("lifeline", None, Reached::Agent),
            ("lifeline", gone, Reached::NoAgent),
            ("stopped", None, Reached::Agent),
            ("stopped", gone, Reached::NoAgent),
            ("exit", None, Reached::Agent),
            ("spawn_failed", gone, Reached::Agent),
        ] {
            folder.put(EXIT_FILE, &record(cause, error)).unwrap();
            assert_eq!(reached(&dir).unwrap(), expected, "{cause} {error:?}");
        }
        folder.put(EXIT_FILE, &record("lifeline", gone)).unwrap();
        folder.remove(GUARD_LOG).unwrap();
        // Undone by halves.
        assert_eq!(reached(&dir).unwrap(), Reached::NoAgent);
        undo_launch(&dir, &["hooks.json"]).unwrap();
        assert_eq!(reached(&dir).unwrap(), Reached::NoGuard);
        for name in [LAUNCH_FILE, "hooks.json", EXIT_FILE] {
            folder.create(name).unwrap();
        }
    }
}
