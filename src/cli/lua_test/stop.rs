//! Ctrl-C and its like while tests run: the folder of their sites goes, and then the program.

use camino::Utf8PathBuf;
use tokio::signal::unix::{SignalKind, signal};

use crate::base::{Context, ErrorKind, Result};
use crate::flows::lab::Scratch;

/// What a shell is told of a program that ended by a signal, beside its number.
const BY_SIGNAL: i32 = 128;
/// How often it is tried to remove a folder into which a test may just be writing.
const TRIES: usize = 50;

/// Ends the program when the first signal comes that asks for it, and leaves nothing behind.
///
/// # Errors
/// `unavailable` without a thread.
pub(super) fn listen(scratch: &Scratch) -> Result<()> {
    let folder = scratch.path().to_owned();
    let cannot = || "cannot listen for signals".to_owned();
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = built.context(ErrorKind::Unavailable, cannot)?;
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
        SignalKind::quit(),
    ];
    let mut signals = {
        let _inside = runtime.enter();
        let signals: std::io::Result<Vec<_>> = kinds.into_iter().map(signal).collect();
        signals.context(ErrorKind::Unavailable, cannot)?
    };
    let wait = move || {
        let first = runtime.block_on(async {
            let all = signals.iter_mut().map(|it| Box::pin(it.recv()));
            futures_util::future::select_all(all).await.1
        });
        end(&folder, kinds[first]);
    };
    let started = std::thread::Builder::new().name("wb-stop".to_owned()).spawn(wait);
    started.context(ErrorKind::Unavailable, cannot).map(drop)
}

fn end(folder: &Utf8PathBuf, kind: SignalKind) {
    for _ in 0..TRIES {
        match std::fs::remove_dir_all(folder) {
            // A test has put something there meanwhile.
            Err(cause) if cause.kind() == std::io::ErrorKind::DirectoryNotEmpty => {}
            // Gone; what cannot be removed at all is left to the next run.
            _ => break,
        }
    }
    std::process::exit(BY_SIGNAL + kind.as_raw_value());
}
