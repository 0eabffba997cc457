//! The only module that opens SQLite: a writer with group commit, read connections, migrations,
//! events.
//!
//! **Invariant:** callers are answered, and events published, only after COMMIT has returned.
//! **Invariant:** this module knows no domain concept; other modules own their tables.

pub mod backup;
mod commit_count;
pub mod events;
#[cfg(test)]
mod fixture;
pub mod idempotency;
mod migrate;
pub mod other_rows;
mod read;
pub mod salvage;
mod stats;
mod trouble;
mod tx;
mod writer;

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, named_params};
use tokio::sync::{Notify, broadcast, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::base::{Clock, Context, DATABASE_CORRUPT, Error, ErrorKind, Ids, JobId, Result};

pub use commit_count::{Loss, STATEMENTS as COMMIT_COUNT_STATEMENTS, loss};
pub use events::StoredEvent;
#[cfg(test)]
pub(crate) use fixture::in_memory;
pub use migrate::{MIGRATIONS, Migration, migrate};
pub use read::peek;
pub use stats::WriterStats;
pub use trouble::Trouble;
pub use tx::Tx;
pub use writer::{STATEMENTS as WRITER_STATEMENTS, Writer};

use commit_count::CommitCount;
use read::Readers;
use trouble::Watch;
use writer::Work;

const BEGIN_LIFE: &str = "UPDATE site SET life = :life WHERE one = 1";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[("store::begin_life", BEGIN_LIFE)];

/// The code of what a stop leaves undone.
pub const STOPPING: &str = "stopping";
/// Length of the write queue; beyond it callers wait.
const WRITES_QUEUED_MAX: usize = 1_024;
/// Largest database that is checked before it is served (about 50 ms). Larger ones are checked
/// while they are served.
const CHECKED_AT_OPEN_BYTES_MAX: i64 = 16 * 1024 * 1024;
/// How many events a slow subscriber may lag behind before it must reread the table.
const EVENTS_BUFFERED_MAX: usize = 1_024;

/// How durable writes are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeping {
    /// Survives a power cut, and lost commits are detected.
    Kept,
    /// Survives a power cut.
    Aside,
    /// Nothing is guaranteed.
    Nothing,
}

/// A handle to the database; cheap to clone.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    path: Utf8PathBuf,
    epoch: String,
    clock: Clock,
    writes: mpsc::Sender<Work>,
    readers: Readers,
    published: broadcast::Sender<Arc<StoredEvent>>,
    bells: Bells,
    watch: Watch,
    is_checked: bool,
    is_index_damaged: AtomicBool,
    stats: Arc<WriterStats>,
}

/// Named notifications, triggered after a commit.
#[derive(Clone, Default)]
pub(crate) struct Bells(Arc<Mutex<HashMap<&'static str, Arc<Notify>>>>);

impl Bells {
    fn bell(&self, name: &'static str) -> Arc<Notify> {
        let mut bells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(bells.entry(name).or_default())
    }

    fn ring_all(&self) {
        let bells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bells.values().for_each(|it| it.notify_one());
    }
}

impl Inner {
    async fn commit(
        &self,
        work: Work,
        answer: oneshot::Receiver<Result<Answer>>,
    ) -> Result<Answer> {
        self.writes.send(work).await.map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())?
    }

    /// Records damage found by a read.
    fn noting<T>(&self, outcome: Result<T>) -> Result<T> {
        outcome.map_err(|cause| match cause.code_str() {
            DATABASE_CORRUPT => self.watch.note(cause),
            _ => cause,
        })
    }
}

impl Store {
    /// Opens (or creates with mode 0600) the database and migrates it.
    ///
    /// The caller must serve the returned [`Writer`]; until then writes wait.
    ///
    /// # Errors
    /// `unavailable` if the file cannot be opened; `conflict` with code `database_newer` if a newer
    /// program wrote it (it is then left untouched); `unavailable` with code `database_corrupt` and
    /// a hint that names the newest backup.
    pub fn open(
        path: &Utf8Path,
        migrations: &[Migration],
        clock: Clock,
    ) -> Result<(Store, Writer)> {
        Store::open_with(path, migrations, clock, Keeping::Kept)
    }

    /// Opens a database that is being prepared to replace another: its commits are not counted in a
    /// file beside it.
    ///
    /// # Errors
    /// Same as [`Store::open`].
    pub fn open_aside(
        path: &Utf8Path,
        migrations: &[Migration],
        clock: Clock,
    ) -> Result<(Store, Writer)> {
        Store::open_with(path, migrations, clock, Keeping::Aside)
    }

    /// Opens a database that lives as long as this process: nothing is synced, and a power cut may
    /// leave it in any state.
    ///
    /// # Errors
    /// Same as [`Store::open`].
    pub fn open_for_a_moment(
        path: &Utf8Path,
        migrations: &[Migration],
        clock: Clock,
    ) -> Result<(Store, Writer)> {
        Store::open_with(path, migrations, clock, Keeping::Nothing)
    }

    fn open_with(
        path: &Utf8Path,
        migrations: &[Migration],
        clock: Clock,
        keeping: Keeping,
    ) -> Result<(Store, Writer)> {
        let is_kept = keeping != Keeping::Nothing;
        let named = |cause| with_advice(path, cause);
        if keeping == Keeping::Kept {
            // Before anything is written, since writing would destroy the evidence in the log.
            refuse_unusable(path, migrations)?;
        }
        let (writing, checked) =
            open_for_writing(path, migrations, &clock, is_kept).map_err(named)?;
        let epoch = migrate::epoch(&writing).map_err(named)?;
        let counting = match keeping {
            Keeping::Kept => CommitCount::open(path, &writing)?.map(Arc::new),
            Keeping::Aside | Keeping::Nothing => None,
        };
        let readers = Readers::new(path);
        if keeping == Keeping::Kept {
            readers.fill().map_err(named)?;
        }
        let watch = Watch::new(path, clock.clone());
        let (writes, queue) = mpsc::channel(WRITES_QUEUED_MAX);
        let (published, _) = broadcast::channel(EVENTS_BUFFERED_MAX);
        let bells = Bells::default();
        let inner = Inner {
            path: path.to_owned(),
            epoch,
            clock: clock.clone(),
            writes,
            readers,
            published: published.clone(),
            bells: bells.clone(),
            watch: watch.clone(),
            is_checked: checked.is_some(),
            is_index_damaged: AtomicBool::new(checked == Some(true)),
            stats: Arc::default(),
        };
        let stats = Arc::clone(&inner.stats);
        let ends = (published, bells);
        let writer = Writer::new((writing, counting), path, queue, ends, (watch, stats), clock);
        Ok((Store { inner: Arc::new(inner) }, writer))
    }

    /// Runs `work` in a transaction and returns its result after COMMIT.
    ///
    /// The closure may run twice (the writes of a failed batch are retried one by one): it must be
    /// pure apart from SQL, and declare its effects with [`Tx::emit`] and [`Tx::ring`], which run
    /// after COMMIT. If it fails, everything it wrote is rolled back.
    ///
    /// # Errors
    /// The error of `work`; `unavailable` if the disk is full or the program is stopping.
    pub async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&Tx<'_>) -> Result<T> + Send + 'static,
    {
        let (caller, answer) = writer::caller(work);
        typed(self.inner.commit(caller, answer).await)
    }

    /// Runs `look` on a read-only connection and a blocking thread, in one snapshot.
    ///
    /// # Errors
    /// The error of `look`; `unavailable` if no connection can be opened.
    pub async fn read<T, F>(&self, look: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        self.inner.noting(self.inner.readers.run(None, look).await)
    }

    /// Like [`Store::read`], but interrupts `look` after `limit`. Waiting for a connection does not
    /// count.
    ///
    /// # Errors
    /// Same as [`Store::read`]; `unavailable` with code `search_timeout`.
    pub async fn read_within<T, F>(&self, limit: Duration, look: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        self.inner.noting(self.inner.readers.run(Some(limit), look).await)
    }

    /// Returns what prevents writing, if anything does.
    pub fn trouble(&self) -> Option<Trouble> {
        self.inner.watch.trouble()
    }

    /// Checks a database that was too large to be checked when it was opened, until `stop`. If it
    /// finds damage, writing stops.
    pub async fn check(self, stop: CancellationToken) {
        if self.inner.is_checked {
            return;
        }
        let opened = match read::open(&self.inner.path) {
            Ok(opened) => opened,
            Err(cause) => return warn!("the database is not checked: {}", cause.chain()),
        };
        let (path, interrupt) = (self.inner.path.clone(), opened.get_interrupt_handle());
        let mut checking = tokio::task::spawn_blocking(move || trouble::check(&opened, &path));
        let checked = tokio::select! {
            checked = &mut checking => checked,
            () = stop.cancelled() => {
                interrupt.interrupt();
                return;
            }
        };
        match checked {
            Ok(Ok(false)) => info!("the database was checked and is whole"),
            Ok(Ok(true)) => {
                warn!("the database is intact except for the search index, which is being rebuilt");
                self.inner.is_index_damaged.store(true, Ordering::Relaxed);
                self.inner.bells.ring_all();
            }
            Ok(Err(cause)) => {
                self.inner.watch.note(cause);
            }
            Err(cause) => error!("the check of the database: {cause}"),
        }
    }

    /// Runs a read of a few rows by key on the calling thread: handing it to another thread would
    /// take longer than the read itself. Use [`Store::read`] for anything that may scan many rows.
    ///
    /// # Errors
    /// Same as [`Store::read`].
    pub fn look<T>(&self, look: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.inner.noting(self.inner.readers.look(look))
    }

    /// Returns whether a check found a damaged full-text index, and resets the flag.
    pub fn take_index_damage(&self) -> bool {
        self.inner.is_index_damaged.swap(false, Ordering::Relaxed)
    }

    /// Returns whether writes are still accepted.
    pub fn is_writing(&self) -> bool {
        !self.inner.writes.is_closed()
    }

    /// Returns the writer's statistics since the program started.
    pub fn writer_stats(&self) -> &WriterStats {
        &self.inner.stats
    }

    /// Returns the clock of this site.
    pub fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    /// Returns the path of the database.
    pub fn path(&self) -> &Utf8Path {
        &self.inner.path
    }

    /// Returns the epoch of the database; a restored backup gets a new one.
    pub fn epoch(&self) -> &str {
        &self.inner.epoch
    }

    /// Records that a new run of the server begins and returns its id; see [`has_lost`].
    ///
    /// # Errors
    /// Fails if the database cannot be written.
    pub async fn begin_life(&self) -> Result<String> {
        let life = Ids::new(self.clock().clone()).mint::<JobId>().to_string();
        let word = life.clone();
        self.write(move |tx| {
            tx.prepare_cached(BEGIN_LIFE)?.execute(named_params! {":life": word})?;
            Ok(())
        })
        .await?;
        Ok(life)
    }

    /// Subscribes to events committed from now on, in commit order. A receiver that lags must
    /// reread the table.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<StoredEvent>> {
        self.inner.published.subscribe()
    }

    /// Returns the bell of this name, which [`Tx::ring`] rings after COMMIT.
    pub fn bell(&self, name: &'static str) -> Arc<Notify> {
        self.inner.bells.bell(name)
    }
}

/// The type-erased result of a read or write. Internally the store only knows this form, so its
/// code is compiled once instead of for each of several hundred callers.
type Answer = Box<dyn Any + Send>;

fn typed<T: 'static>(answer: Result<Answer>) -> Result<T> {
    let typed = answer?.downcast::<T>();
    typed.map(|it| *it).map_err(|_| Error::internal("a result of the store has another type"))
}

/// Returns the error of what a stop leaves undone.
pub fn stopping() -> Error {
    Error::unavailable("the server is stopping").code(STOPPING)
}

fn open_for_writing(
    path: &Utf8Path,
    migrations: &[Migration],
    clock: &Clock,
    is_kept: bool,
) -> Result<(Connection, Option<bool>)> {
    migrate::refuse_newer(path, migrations)?;
    create_private(path)?;
    let writing = connect(path, is_kept)?;
    let pages: i64 = writing.pragma_query_value(None, "page_count", |row| row.get(0))?;
    let page_bytes: i64 = writing.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let is_small = pages.saturating_mul(page_bytes) <= CHECKED_AT_OPEN_BYTES_MAX
        && !crate::base::fault::is_absent("check_at_open");
    // Whether the full-text index is damaged, if it was checked.
    let checked = if is_small { Some(trouble::check(&writing, path)?) } else { None };
    migrate(&writing, migrations, clock)?;
    Ok((writing, checked))
}

/// Opens the only writing connection.
fn connect(path: &Utf8Path, is_kept: bool) -> Result<Connection> {
    read::refuse_emptied(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let writing = Connection::open_with_flags(path, flags)
        .context(ErrorKind::Unavailable, || format!("cannot open the database {path}"))?;
    writing.busy_timeout(std::time::Duration::from_secs(5))?;
    writing.pragma_update(None, "journal_mode", "WAL")?;
    // FULL: acknowledged writes survive a power cut, which NORMAL in WAL mode does not promise.
    let level = match is_kept {
        true if crate::base::fault::is_off("synchronous") => "NORMAL",
        true => "FULL",
        false => "OFF",
    };
    writing.pragma_update(None, "synchronous", level)?;
    writing.pragma_update(None, "foreign_keys", true)?;
    if crate::base::fault::is_off("bare_names") {
        writing.pragma_update(None, "ignore_check_constraints", true)?;
    }
    keep_plans(&writing)?;
    writing.set_prepared_statement_cache_capacity(256);
    Ok(writing)
}

/// Runs a statement of every transaction; it is parsed once.
fn step(connection: &Connection, sql: &'static str) -> Result<()> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}

/// Makes SQLite keep a prepared statement's plan regardless of the bound values. Otherwise a
/// statement that compares an indexed column with a parameter is parsed and planned again at every
/// call, at several times the cost of the call, and the plan may differ from the one that was
/// tested.
fn keep_plans(connection: &Connection) -> Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Creates the file before SQLite does, so that it is never readable by others, even briefly.
fn create_private(path: &Utf8Path) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let made = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    made.map(|_| ())
        .map_err(|cause| Error::of_disk(format!("cannot create the database {path}"), cause))
}

/// Refuses a database from a newer program, or one that has lost commits. Changes nothing.
///
/// # Errors
/// `conflict` with code `database_newer`; `unavailable` with code `database_corrupt`; `unavailable`
/// if it cannot be read.
pub fn refuse_unusable(path: &Utf8Path, migrations: &[Migration]) -> Result<()> {
    migrate::refuse_newer(path, migrations)?;
    commit_count::refuse_loss(path).map_err(|cause| with_advice(path, cause))
}

/// Adds to the error of a damaged database what can be restored.
fn with_advice(path: &Utf8Path, cause: Error) -> Error {
    match cause.code_str() {
        DATABASE_CORRUPT if cause.hint_str().is_none() => trouble::damaged(path).source(cause),
        _ => cause,
    }
}

/// Returns whether a database has lost the writes of a server run: it does not know that run, and
/// it was not replaced since. Changes nothing.
///
/// # Errors
/// `unavailable` if it cannot be read.
pub fn has_lost(path: &Utf8Path, epoch: &str, life: &str) -> Result<bool> {
    let named = |cause: Error| match cause.code_str() {
        DATABASE_CORRUPT => trouble::damaged(path).source(cause),
        _ => cause,
    };
    let last = read::open(path).and_then(|it| migrate::last_life(&it)).map_err(named)?;
    Ok(match last {
        None => true,
        Some((other, _)) if other != epoch => false,
        Some((_, last)) => last.as_deref() != Some(life),
    })
}
