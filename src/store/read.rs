//! Read-only connections, lent for one short look each.
//!
//! **Invariant:** a connection is lent to one look at a time, and given back when that has ended.

use std::sync::{Arc, Mutex, PoisonError};

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;

use crate::base::{Context, Error, ErrorKind, Result};

/// Most looks at one time.
const READERS_MAX: usize = 8;

/// The pool. A connection is opened when none is free, and kept.
pub(super) struct Readers {
    shared: Arc<Shared>,
}

struct Shared {
    path: Utf8PathBuf,
    free: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(path: &Utf8Path) -> Readers {
        let shared = Shared {
            path: path.to_owned(),
            free: Mutex::default(),
            permits: Arc::new(Semaphore::new(READERS_MAX)),
        };
        Readers { shared: Arc::new(shared) }
    }

    /// Looks on the calling thread.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let connection = self.shared.take()?;
        let outcome = look(&connection);
        self.shared.give_back(connection);
        outcome
    }

    pub(super) async fn run<T, F>(&self, look: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let shared = Arc::clone(&self.shared);
        let permit = Arc::clone(&shared.permits).acquire_owned().await.map_err(|_| closed())?;
        let looked = tokio::task::spawn_blocking(move || {
            // Held by the look and not by the caller, who may leave earlier.
            let _permit = permit;
            let connection = shared.take()?;
            let outcome = look(&connection);
            shared.give_back(connection);
            outcome
        })
        .await;
        looked.map_err(|_| Error::internal("a read panicked").code("panic"))?
    }
}

impl Shared {
    fn take(&self) -> Result<Connection> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match free {
            Some(connection) => Ok(connection),
            None => open(&self.path),
        }
    }

    fn give_back(&self, connection: Connection) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }
}

fn closed() -> Error {
    Error::unavailable("the server is stopping").code("stopping")
}

fn open(path: &Utf8Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let reading = Connection::open_with_flags(path, flags)
        .context(ErrorKind::Unavailable, || format!("cannot open the database {path}"))?;
    reading.busy_timeout(std::time::Duration::from_secs(5))?;
    reading.pragma_update(None, "query_only", true)?;
    reading.set_prepared_statement_cache_capacity(128);
    Ok(reading)
}
