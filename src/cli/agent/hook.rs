//! `wb-agent hook EVENT`: called by a program in a terminal when something happens in it.
//!
//! **Invariant:** it never fails and prints nothing: its agent would take that for an answer.

use std::io::Read as _;

use camino::Utf8Path;

use crate::base::{Context, ErrorKind, Result};
use crate::jobs::{HOOKS_WAY, tell_hook};

/// Most bytes read of an event.
const INPUT_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Reports an event to the agent's guard, if there is one.
pub(super) fn run(event: &str) {
    let Ok(way) = std::env::var(HOOKS_WAY) else { return };
    if let Err(cause) = tell(&way, event) {
        // The guard is gone, and with it the reader of this event.
        tracing::debug!("a hook is not heard: {}", cause.chain());
    }
}

fn tell(way: &str, event: &str) -> Result<()> {
    let mut given = Vec::new();
    let read = std::io::stdin().take(INPUT_BYTES_MAX).read_to_end(&mut given);
    read.context(ErrorKind::Unavailable, || "the event cannot be read".to_owned())?;
    tell_hook(Utf8Path::new(way), event, &given)
}
