//! The one opener of SQLite: a writer with group commit, read connections, migrations, events.
//!
//! **Invariant:** nobody is answered before COMMIT returned, and an event is published after it.
//! **Invariant:** no noun of the product is known here; other modules own their tables.

pub mod backup;
pub mod events;
pub mod idempotency;
mod migrate;
mod read;
pub mod salvage;
mod stats;
mod tx;
mod writer;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::{Connection, OpenFlags};
use tokio::sync::{Notify, broadcast, mpsc};

use crate::base::{Clock, Context, ErrorKind, Result};

pub use events::StoredEvent;
pub use migrate::{MIGRATIONS, Migration, migrate};
pub use stats::WriterStats;
pub use tx::Tx;
pub use writer::Writer;

use read::Readers;
use writer::Work;

/// How many writes may wait before callers wait too.
const WRITES_QUEUED_MAX: usize = 1_024;
/// How many published events a slow subscriber may lag behind before it must read the table.
const EVENTS_BUFFERED_MAX: usize = 1_024;

/// A handle to the database; cheap to clone.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    path: Utf8PathBuf,
    epoch: String,
    clock: Clock,
    writes: mpsc::Sender<Box<dyn Work>>,
    readers: Readers,
    published: broadcast::Sender<Arc<StoredEvent>>,
    bells: Bells,
    stats: Arc<WriterStats>,
}

/// Named bells that are rung after a commit.
#[derive(Clone, Default)]
pub(crate) struct Bells(Arc<Mutex<HashMap<&'static str, Arc<Notify>>>>);

impl Bells {
    fn bell(&self, name: &'static str) -> Arc<Notify> {
        let mut bells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(bells.entry(name).or_default())
    }
}

impl Store {
    /// Opens (or creates, mode 0600) the database and brings it to the newest version.
    ///
    /// The returned [`Writer`] must be served by the caller; until then writes wait.
    ///
    /// # Errors
    /// `unavailable` if the file cannot be opened; `conflict` with code `database_newer` if a newer
    /// program wrote it, which then is left untouched.
    pub fn open(
        path: &Utf8Path,
        migrations: &[Migration],
        clock: Clock,
    ) -> Result<(Store, Writer)> {
        let writing = open_for_writing(path, migrations, &clock)?;
        let epoch = migrate::epoch(&writing)?;
        let (writes, queue) = mpsc::channel(WRITES_QUEUED_MAX);
        let (published, _) = broadcast::channel(EVENTS_BUFFERED_MAX);
        let bells = Bells::default();
        let inner = Inner {
            path: path.to_owned(),
            epoch,
            clock: clock.clone(),
            writes,
            readers: Readers::new(path),
            published: published.clone(),
            bells: bells.clone(),
            stats: Arc::default(),
        };
        let stats = Arc::clone(&inner.stats);
        let writer = Writer::new(writing, queue, published, bells, clock, stats);
        Ok((Store { inner: Arc::new(inner) }, writer))
    }

    /// Runs `work` in a transaction and returns what it returned, after COMMIT.
    ///
    /// The closure may run twice (a batch that fails is run again one by one): it must be pure
    /// apart from SQL, and it returns its effects by [`Tx::emit`] and [`Tx::ring`], which are
    /// carried out after COMMIT. If it returns an error, nothing of it is kept.
    ///
    /// # Errors
    /// What `work` returned; `unavailable` if the disk is full or the program is stopping.
    pub async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&Tx<'_>) -> Result<T> + Send + 'static,
    {
        let (caller, answer) = writer::caller(work);
        self.inner.writes.send(caller).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }

    /// Runs `look` on a read-only connection, on a blocking thread.
    ///
    /// # Errors
    /// What `look` returned; `unavailable` if no connection can be opened.
    pub async fn read<T, F>(&self, look: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        self.inner.readers.run(look).await
    }

    /// Returns whether writes are still taken.
    pub fn is_writing(&self) -> bool {
        !self.inner.writes.is_closed()
    }

    /// Returns what the writer has done since the program started.
    pub fn writer_stats(&self) -> &WriterStats {
        &self.inner.stats
    }

    /// Returns the clock of this site.
    pub fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    /// Returns the file of the database.
    pub fn path(&self) -> &Utf8Path {
        &self.inner.path
    }

    /// Returns the name of this life of the database; a restored backup has another.
    pub fn epoch(&self) -> &str {
        &self.inner.epoch
    }

    /// Returns a stream of the events that are committed from now on, in commit order. A receiver
    /// that lags must read the table again.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<StoredEvent>> {
        self.inner.published.subscribe()
    }

    /// Returns the bell of this name, which [`Tx::ring`] rings after COMMIT.
    pub fn bell(&self, name: &'static str) -> Arc<Notify> {
        self.inner.bells.bell(name)
    }
}

fn stopped() -> crate::base::Error {
    crate::base::Error::unavailable("the server is stopping").code("stopping")
}

fn open_for_writing(
    path: &Utf8Path,
    migrations: &[Migration],
    clock: &Clock,
) -> Result<Connection> {
    migrate::refuse_newer(path, migrations)?;
    create_private(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let writing = Connection::open_with_flags(path, flags)
        .context(ErrorKind::Unavailable, || format!("cannot open the database {path}"))?;
    writing.busy_timeout(std::time::Duration::from_secs(5))?;
    writing.pragma_update(None, "journal_mode", "WAL")?;
    // FULL: what was acknowledged survives a power cut. `faults` shows that the tests notice.
    let level = if crate::base::fault::is_off("synchronous") { "OFF" } else { "FULL" };
    writing.pragma_update(None, "synchronous", level)?;
    writing.pragma_update(None, "foreign_keys", true)?;
    writing.set_prepared_statement_cache_capacity(256);
    migrate(&writing, migrations, clock)?;
    Ok(writing)
}

/// Creates the file before SQLite does, so that it is never readable by others, not even briefly.
fn create_private(path: &Utf8Path) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let made = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    made.map(|_| ())
        .context(ErrorKind::Unavailable, || format!("cannot create the database {path}"))
}
