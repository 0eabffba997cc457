//! Starting a guard in a pane: it is told its secrets over its own door.

use std::time::Duration;

use camino::Utf8Path;
use tokio::time::Instant;

use crate::base::{Error, Result, tail_of};
use crate::process::adopt::adopt;
use crate::process::identity::ProcessIdentity;
use crate::process::launch::{GUARD_LOG, MARK};
use crate::process::running_guard::Guard;
use crate::process::terminal::{Pane, Terminals};
use crate::process::tree::Children;

/// How long a guard may take until it opens its door.
const DOOR_MAX: Duration = Duration::from_secs(5);
/// How often it is tried.
const DOOR_EVERY: Duration = Duration::from_millis(5);
/// Most of a guard's own words that are told.
const LOG_BYTES_MAX: usize = 2_000;

/// That a guard is started in a terminal, and how.
#[derive(Clone, Debug)]
pub struct InPane {
    /// The terminals of the site.
    pub terminals: Terminals,
    /// The name of its session.
    pub session: String,
    /// The key by which its guard lets a server in.
    pub key: String,
    /// Further files of the job's folder, by name.
    pub files: Vec<(String, Vec<u8>)>,
}

/// Starts the guard of a job whose files are there.
pub(in crate::process) async fn spawn_in_pane(
    children: &Children,
    program: &Utf8Path,
    (job_dir, job): (&Utf8Path, &str),
    pane: &InPane,
    (secrets, masked): (Vec<(String, String)>, Vec<String>),
) -> Result<Guard> {
    // The guard leaves out what its server leaves out.
    #[cfg(feature = "faults")]
    let off = std::env::var("WB_WITHOUT").ok();
    #[cfg(not(feature = "faults"))]
    let off: Option<String> = None;
    let left_out = off.as_deref().map(|it| ("WB_WITHOUT", it));
    let env: Vec<(&str, &str)> = [(MARK, job)].into_iter().chain(left_out).collect();
    let argv = [program.as_str(), "__guard", job_dir.as_str()];
    let cwd = job_dir.as_str();
    let made = Pane::start(&pane.terminals, &pane.session, cwd, &env, &argv).await?;
    let guard = match knock(children, (job_dir, job), &made, &pane.key).await {
        Ok(guard) => guard,
        Err(cause) => {
            // It has not been told what to start: with its pane it ends.
            made.close().await?;
            return Err(cause);
        }
    };
    guard.send_start(secrets, masked);
    Ok(guard)
}

/// Waits for the guard's door, and goes in.
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
            return Err(Error::unavailable(format!("its guard ended at once: {}", log(job_dir))));
        };
        let is_late = Instant::now() > deadline;
        // Until it has become the guard, nothing proves that it is one.
        match adopt(children, (job_dir, job), &identity, key).await {
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
