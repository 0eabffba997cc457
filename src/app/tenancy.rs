//! Ownership of the data folder: the lock of the one server, and its socket.
//!
//! **Invariant:** a lock file that was removed lets no second server in: one that listens has the
//! folder too, and the first server makes the file again or ends.

use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::Value;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::app::data;
use crate::base::{Error, Result, fault};
use crate::flows::site::server_file::SERVER_FILE;
use crate::process::{FileLock, NameWatch, live_in};

/// File name of the socket in the data folder.
pub(super) const SOCKET: &str = "wb.sock";
/// How long a second server waits for the first to end.
const LOCK_WAIT: Duration = Duration::from_secs(2);
/// How long a listening server may take to accept a connection before it counts as busy.
const CONNECT_WAIT: Duration = Duration::from_millis(500);
/// How often the lock is checked if the kernel does not notify us.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The same if it does: a folder above may be moved all the same.
const LOOK_EVERY_WATCHED: Duration = Duration::from_secs(600);

/// The data folder, owned by this process.
#[derive(Clone)]
pub(super) struct Tenancy {
    data: Utf8PathBuf,
    lock: Arc<Mutex<FileLock>>,
}

impl Tenancy {
    /// Takes a data folder, waiting briefly for a server that is stopping.
    ///
    /// # Errors
    /// `conflict` with code `already_running`.
    pub(super) async fn take(data: &Utf8Path) -> Result<Tenancy> {
        let give_up = tokio::time::Instant::now() + LOCK_WAIT;
        loop {
            if let Some(held) = Tenancy::try_take(data).await? {
                return Ok(held);
            }
            if tokio::time::Instant::now() >= give_up {
                let (who, stop) = match data::running_server(data) {
                    Some(pid) => (format!(" (pid {pid})"), format!("stop it first (kill {pid})")),
                    None => (String::new(), "stop it first".to_owned()),
                };
                return Err(Error::conflict(
                    "already_running",
                    format!("another server{who} has the data folder {data}"),
                )
                .hint(format!("{stop}, or use another `data` folder in the script")));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Takes a data folder at once; `None` if a server has it.
    ///
    /// # Errors
    /// As [`FileLock::try_take`].
    pub(super) async fn try_take(data: &Utf8Path) -> Result<Option<Tenancy>> {
        let Some(lock) = FileLock::try_take(&lock_path(data))? else { return Ok(None) };
        if is_served(data).await && !fault::is_off("site_lock") {
            return Ok(None);
        }
        // Before anything is ended: the processes of another site may have the same ids.
        live_in(data);
        let lock = Arc::new(Mutex::new(lock));
        Ok(Some(Tenancy { data: data.to_owned(), lock }))
    }

    /// Recreates a removed lock file, until `stop`; returns earlier if another server was faster.
    pub(super) async fn keep(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            // Watches before it looks, so that changes in between are noticed.
            let watch = NameWatch::of(&lock_path(&self.data));
            if let Err(cause) = self.look() {
                error!("{}", cause.chain());
                return;
            }
            tokio::select! {
                () = until_touched(watch) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Writes the server file again whenever it was removed, until `stop`: no command would find
    /// this server.
    pub(super) async fn keep_named(self, facts: Value, stop: CancellationToken) {
        let path = self.data.join(SERVER_FILE);
        while !stop.is_cancelled() {
            // As above: watches before it looks.
            let watch = NameWatch::of(&path);
            let found = path.symlink_metadata();
            let is_gone = found.is_err_and(|it| it.kind() == std::io::ErrorKind::NotFound);
            if is_gone && self.has_folder() {
                match data::write_server_file(&self.data, &facts) {
                    Ok(()) => {
                        warn!("{path} was removed, and is written again");
                        continue;
                    }
                    Err(cause) => warn!("{path} was removed: {}", cause.chain()),
                }
            }
            tokio::select! {
                () = until_touched(watch) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Returns whether the folder at this path is still the one that this server has.
    fn has_folder(&self) -> bool {
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        lock.is_at(&lock_path(&self.data))
    }

    fn look(&self) -> Result<()> {
        let path = lock_path(&self.data);
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if lock.is_at(&path) {
            return Ok(());
        }
        match FileLock::try_take(&path) {
            Ok(Some(again)) => {
                *lock = again;
                warn!("{path} was removed, and is made again");
                Ok(())
            }
            Ok(None) => Err(Error::conflict(
                "already_running",
                format!("{path} was removed, and another server now has the data folder"),
            )),
            // A full or read-only disk does not allow another server's lock either.
            Err(cause) => {
                warn!("{path} was removed, and cannot be made again: {}", cause.chain());
                Ok(())
            }
        }
    }
}

/// Waits until a file may have lost its name.
async fn until_touched(watch: Result<NameWatch>) {
    let Ok(mut watch) = watch else { return tokio::time::sleep(LOOK_EVERY).await };
    tokio::select! {
        told = watch.touched() => if told.is_err() {
            tokio::time::sleep(LOOK_EVERY).await;
        },
        () = tokio::time::sleep(LOOK_EVERY_WATCHED) => {}
    }
}

/// The identity of a socket.
#[derive(Clone, Debug)]
pub(super) struct SocketMark {
    path: Utf8PathBuf,
    id: Option<(u64, u64)>,
}

impl SocketMark {
    /// Records the socket that was just created in a data folder.
    pub(super) fn of(data: &Utf8Path) -> SocketMark {
        let path = data.join(SOCKET);
        SocketMark { id: id(&path), path }
    }

    /// Checks that the socket is still the one that this server listens on.
    ///
    /// # Errors
    /// `unavailable` with code `socket_lost`.
    pub(super) fn check(&self) -> Result<()> {
        if self.id.is_some() && id(&self.path) == self.id {
            return Ok(());
        }
        let message = format!("the socket {} was removed or replaced", self.path);
        Err(Error::unavailable(message).code("socket_lost").hint("restart the server"))
    }
}

fn id(path: &Utf8Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|facts| (facts.dev(), facts.ino()))
}

fn lock_path(data: &Utf8Path) -> Utf8PathBuf {
    match fault::is_off("site_lock") {
        true => data.join(format!("lock.{}", std::process::id())),
        false => data.join("lock"),
    }
}

/// Returns whether anybody listens on the socket of a data folder.
async fn is_served(data: &Utf8Path) -> bool {
    // The path of a socket is limited to 107 bytes; a path through the open folder is short.
    let Ok(folder) = std::fs::File::open(data) else { return false };
    let path = format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd());
    match tokio::time::timeout(CONNECT_WAIT, UnixStream::connect(path)).await {
        Ok(Ok(_)) | Err(_) => true,
        // Its queue is full.
        Ok(Err(cause)) => cause.kind() == std::io::ErrorKind::WouldBlock,
    }
}
