//! Starts a guard in a pane: it receives its secrets over its own socket.

use std::time::Duration;

use camino::Utf8Path;
use tokio::time::Instant;

use crate::base::{Error, Result, tail_of};
use crate::process::adopt::adopt;
use crate::process::identity::ProcessIdentity;
use crate::process::launch::{GUARD_LOG, MARK, PLACE};
use crate::process::running_guard::Guard;
use crate::process::terminal::{Pane, Terminals};
use crate::process::tree::Children;

/// Timeout for a guard to open its socket.
const DOOR_MAX: Duration = Duration::from_secs(5);
/// Timeout for its answer there.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Polling interval for that.
const DOOR_EVERY: Duration = Duration::from_millis(5);
/// Most bytes of a guard's log shown in an error.
const LOG_BYTES_MAX: usize = 2_000;

/// How to start a guard in a terminal.
#[derive(Clone, Debug)]
pub struct InPane {
    /// The terminals of the site.
    pub terminals: Terminals,
    /// The name of its session.
    pub session: String,
    /// The key with which a server connects to the guard.
    pub key: String,
    /// Additional files for the job's folder, by name.
    pub files: Vec<(String, Vec<u8>)>,
}

/// Starts the guard of a job whose files are prepared.
pub(in crate::process) async fn spawn_in_pane(
    children: &Children,
    program: &Utf8Path,
    (job_dir, job): (&Utf8Path, &str),
    pane: &InPane,
    (secrets, masked): (Vec<(String, String)>, Vec<String>),
) -> Result<Guard> {
    // The guard disables what its server disables.
    #[cfg(feature = "faults")]
    let off = std::env::var("WB_WITHOUT").ok();
    #[cfg(not(feature = "faults"))]
    let off: Option<String> = None;
    let left_out = off.as_deref().map(|it| ("WB_WITHOUT", it));
    let env: Vec<(&str, &str)> =
        [(MARK, job), (PLACE, job_dir.as_str())].into_iter().chain(left_out).collect();
    let argv = [program.as_str(), "__guard", job_dir.as_str()];
    let cwd = job_dir.as_str();
    let made = Pane::start(&pane.terminals, (&pane.session, program), cwd, &env, &argv).await?;
    let guard = match knock(children, (job_dir, job), &made, &pane.key).await {
        Ok(guard) => guard,
        Err(cause) => {
            // It has not been told what to start: it ends with its pane.
            made.close().await?;
            return Err(cause);
        }
    };
    guard.send_start(secrets, masked);
    Ok(guard)
}

/// Waits for the guard's socket and connects.
async fn knock(
    children: &Children,
    (job_dir, job): (&Utf8Path, &str),
    pane: &Pane,
    key: &str,
) -> Result<Guard> {
    let deadline = Instant::now() + DOOR_MAX;
    loop {
        let identity = ProcessIdentity::of(pane.pid())?;
        let Some(identity) = identity.filter(ProcessIdentity::is_alive) else {
            return Err(Error::unavailable(format!(
                "its guard ended immediately: {}",
                log(job_dir)
            )));
        };
        let is_late = Instant::now() > deadline;
        // Until the process has become the guard, nothing proves that it is one.
        match adopt(children, (job_dir, job), (&identity, key), ANSWER_MAX).await {
            Ok(Some(adopted)) => return Ok(adopted.guard),
            Err(cause) if is_late => return Err(cause),
            Ok(None) if is_late => {
                let message = format!("its guard does not answer: {}", log(job_dir));
                return Err(Error::unavailable(message));
            }
            Ok(None) | Err(_) => {}
        }
        tokio::time::sleep(DOOR_EVERY).await;
    }
}

fn log(job_dir: &Utf8Path) -> String {
    match crate::process::read_small(&job_dir.join(GUARD_LOG), 1 << 20) {
        Ok(text) => tail_of(&text.unwrap_or_default(), LOG_BYTES_MAX).trim().to_owned(),
        Err(cause) => cause.chain(),
    }
}
