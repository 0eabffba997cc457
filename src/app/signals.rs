//! The signals that end the server.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::base::{Context, ErrorKind, Result};

/// The signals that end the server; a second one ends it at once.
pub(super) struct Stops {
    term: Signal,
    int: Signal,
    quit: Signal,
    hup: Signal,
}

/// Begins to listen.
pub(super) fn listen() -> Result<Stops> {
    let on = |kind| {
        signal(kind).context(ErrorKind::Unavailable, || "cannot listen for signals".to_owned())
    };
    Ok(Stops {
        term: on(SignalKind::terminate())?,
        int: on(SignalKind::interrupt())?,
        quit: on(SignalKind::quit())?,
        hup: on(SignalKind::hangup())?,
    })
}

impl Stops {
    /// Waits for one of them and returns its name.
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.int.recv() => "SIGINT",
            _ = self.quit.recv() => "SIGQUIT",
            // The terminal is gone, or somebody wants a reload, which is a restart in this release.
            _ = self.hup.recv() => "SIGHUP",
        }
    }
}
