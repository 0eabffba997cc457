//! The log: one line an entry on standard error.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// Starts logging. `WB_LOG` sets what is logged (`info` by default), for example `debug` or
/// `wiki_browser::jobs=debug`.
pub(super) fn start() {
    let filter = EnvFilter::try_from_env("WB_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let started = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .try_init();
    // A second start in one process (a test) keeps the first log.
    let _ = started;
}
