//! Ctrl-C and its like while tests run: the folder of their sites goes, and then the program.

use camino::Utf8PathBuf;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::base::{Context, ErrorKind, Result};
use crate::flows::lab::Scratch;

/// What a shell is told of a program that ended by a signal, beside its number.
const BY_SIGNAL: i32 = 128;
/// How often it is tried to remove a folder into which a test may just be writing.
const TRIES: usize = 50;

/// The signals that end a run; heard from now on, heeded once there is a folder to remove.
pub(super) struct Signals {
    runtime: tokio::runtime::Runtime,
    signals: Vec<Signal>,
    kinds: [SignalKind; 4],
}

/// Begins to listen. This comes before the folder is made: a signal between the two would leave it
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

impl Signals {
    /// Ends the program when the first signal comes, or came, and leaves nothing behind.
    ///
    /// # Errors
    /// `unavailable` without a thread.
    pub(super) fn heed(self, scratch: &Scratch) -> Result<()> {
        let Signals { runtime, mut signals, kinds } = self;
        let folder = scratch.path().to_owned();
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
}

fn cannot() -> String {
    "cannot listen for signals".to_owned()
}

fn end(folder: &Utf8PathBuf, kind: SignalKind) {
    for _ in 0..TRIES {
        // A test may put something there meanwhile, or take away what is just to be removed; what
        // cannot be removed at all is left to the next run.
        if std::fs::remove_dir_all(folder).is_ok() || !folder.exists() {
            break;
        }
    }
    std::process::exit(BY_SIGNAL + kind.as_raw_value());
}
