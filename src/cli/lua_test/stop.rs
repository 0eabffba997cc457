//! Ctrl-C and other signals during tests: removes the folder of the sites, and ends the program.

use std::sync::{Arc, Mutex, PoisonError};

use camino::Utf8PathBuf;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::base::{Context, ErrorKind, Result};
use crate::flows::lab::Scratch;

/// Added to the signal's number in the exit code.
const BY_SIGNAL: i32 = 128;
/// How often to try to remove a folder into which a test may be writing.
const TRIES: usize = 50;

/// The signals that end a run; recorded from now on, handled once there is a folder to remove.
pub(super) struct Signals {
    runtime: tokio::runtime::Runtime,
    signals: Vec<Signal>,
    kinds: [SignalKind; 4],
}

/// Starts listening. This precedes the creation of the folder: a signal in between would leave it
/// behind.
///
/// # Errors
/// `unavailable` if the system gives no way to listen.
pub(super) fn listen() -> Result<Signals> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = built.context(ErrorKind::Unavailable, cannot)?;
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
        SignalKind::quit(),
    ];
    let signals = {
        let _inside = runtime.enter();
        let signals: std::io::Result<Vec<_>> = kinds.into_iter().map(signal).collect();
        signals.context(ErrorKind::Unavailable, cannot)?
    };
    Ok(Signals { runtime, signals, kinds })
}

/// Held from the signal on: the thread that handles it never gives it back.
#[derive(Clone)]
pub(super) struct Stopping(Arc<Mutex<()>>);

impl Stopping {
    /// Returns at once, or never once a signal has come: a test fails when its folder is removed,
    /// and neither that failure nor its exit code is the run's.
    pub(super) fn unless_stopping(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Signals {
    /// Ends the program at the first signal, and leaves nothing behind.
    ///
    /// # Errors
    /// `unavailable` without a thread.
    pub(super) fn heed(self, scratch: &Scratch) -> Result<Stopping> {
        let Signals { runtime, mut signals, kinds } = self;
        let folder = scratch.path().to_owned();
        let stopping = Stopping(Arc::default());
        let held = stopping.clone();
        let wait = move || {
            let first = runtime.block_on(async {
                let all = signals.iter_mut().map(|it| Box::pin(it.recv()));
                futures_util::future::select_all(all).await.1
            });
            let _held = held.0.lock();
            end(&folder, kinds[first]);
        };
        let started = std::thread::Builder::new().name("wb-stop".to_owned()).spawn(wait);
        started.context(ErrorKind::Unavailable, cannot)?;
        Ok(stopping)
    }
}

fn cannot() -> String {
    "cannot listen for signals".to_owned()
}

fn end(folder: &Utf8PathBuf, kind: SignalKind) {
    for _ in 0..TRIES {
        // A test may add a file in the meantime, or remove one; what cannot be removed is left to
        // the next run.
        if std::fs::remove_dir_all(folder).is_ok() || !folder.exists() {
            break;
        }
    }
    std::process::exit(BY_SIGNAL + kind.as_raw_value());
}
