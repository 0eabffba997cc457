//! The last screen of an agent in a terminal: kept in its job's folder when the agent has ended.

use camino::Utf8Path;
use tracing::info;

use crate::base::Result;
use crate::jobs::speak::veil::veiled;
use crate::process::{JobFolder, Pane, Terminals, plain};

/// Keeps the last screen of an agent that has ended, and removes its pane.
pub(in crate::jobs) async fn put_away(
    terminals: &Terminals,
    (session, guard): (&str, i32),
    (dir, secrets): (&Utf8Path, &[String]),
) {
    let put = async {
        let pane = Pane::find(terminals, session, guard).await?;
        let screen = veiled(&plain(&pane.last_lines(0).await?), secrets);
        JobFolder::make(dir)?.put(SCREEN_FILE, screen.as_bytes())?;
        pane.close().await
    };
    if let Err(cause) = put.await {
        info!("its last screen is not kept: {}", cause.chain());
    }
}

/// Returns the last screen of an agent that has ended, if it had one.
///
/// # Errors
/// `unavailable` if it cannot be read.
pub fn last_screen(dir: &Utf8Path) -> Result<Option<String>> {
    let Some(folder) = JobFolder::open(dir)? else { return Ok(None) };
    let bytes = folder.read(SCREEN_FILE, SCREEN_BYTES_MAX)?;
    Ok(bytes.map(|it| String::from_utf8_lossy(&it).into_owned()))
}

/// The file of a job's folder with the last screen of its agent.
const SCREEN_FILE: &str = "screen";
/// Largest such file.
const SCREEN_BYTES_MAX: u64 = 1024 * 1024;
