//! The signals that end the server, and the one that reloads its script.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::base::{Context, ErrorKind, Result};

/// The effect of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Stop; a second one stops at once.
    Stop(&'static str),
    /// Reload the script.
    Reload,
}

/// The signals.
pub(super) struct Stops {
    term: Signal,
    int: Signal,
    quit: Signal,
    hup: Signal,
    had_terminal: bool,
}

/// Starts listening.
pub(super) fn listen() -> Result<Stops> {
    let on = |kind| {
        signal(kind).context(ErrorKind::Unavailable, || "cannot listen for signals".to_owned())
    };
    Ok(Stops {
        term: on(SignalKind::terminate())?,
        int: on(SignalKind::interrupt())?,
        quit: on(SignalKind::quit())?,
        hup: on(SignalKind::hangup())?,
        had_terminal: has_terminal(),
    })
}

impl Stops {
    /// Waits for one of them and returns its effect.
    pub(super) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.term.recv() => Asked::Stop("SIGTERM"),
            _ = self.int.recv() => Asked::Stop("SIGINT"),
            _ = self.quit.recv() => Asked::Stop("SIGQUIT"),
            // The kernel sends the same signal when the server's terminal is closed.
            _ = self.hup.recv() => match self.had_terminal && !has_terminal() {
                true => Asked::Stop("SIGHUP"),
                false => Asked::Reload,
            },
        }
    }

    /// Waits until one of them asks to stop, and returns its name.
    pub(super) async fn stop(&mut self) -> &'static str {
        loop {
            if let Asked::Stop(name) = self.next().await {
                return name;
            }
        }
    }
}

fn has_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}
