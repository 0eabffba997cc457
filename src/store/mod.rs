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
mod tally;
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

use crate::base::{Clock, Context, Error, ErrorKind, Ids, JobId, Result};

pub use events::StoredEvent;
pub use migrate::{MIGRATIONS, Migration, migrate};
pub use stats::WriterStats;
pub use tally::{Loss, STATEMENTS as TALLY_STATEMENTS, loss};
pub use trouble::{CORRUPT, Trouble};
pub use tx::Tx;
pub use writer::{STATEMENTS as WRITER_STATEMENTS, Writer};

use read::Readers;
use tally::Tally;
use trouble::Watch;
use writer::Work;

const BEGIN_LIFE: &str = "UPDATE site SET life = :life WHERE one = 1";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[("store::begin_life", BEGIN_LIFE)];

/// How many writes may wait before callers wait too.
const WRITES_QUEUED_MAX: usize = 1_024;
/// Largest database that is read whole before it is served: some 50 ms. A larger one is read while
/// it is served.
const CHECKED_AT_OPEN_BYTES_MAX: i64 = 16 * 1024 * 1024;
/// How many published events a slow subscriber may lag behind before it must read the table.
const EVENTS_BUFFERED_MAX: usize = 1_024;

/// What becomes of what is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeping {
    /// It is there after a power cut, and its loss is noticed.
    Kept,
    /// It is there after a power cut.
    Aside,
    /// Anything.
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

/// Named bells that are rung after a commit.
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
        self.writes.send(work).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }

    /// Notes damage that a read has found.
    fn noting<T>(&self, outcome: Result<T>) -> Result<T> {
        outcome.map_err(|cause| match cause.code_str() {
            CORRUPT => self.watch.note(cause),
            _ => cause,
        })
    }
}

impl Store {
    /// Opens (or creates, mode 0600) the database and brings it to the newest version.
    ///
    /// The returned [`Writer`] must be served by the caller; until then writes wait.
    ///
    /// # Errors
    /// `unavailable` if the file cannot be opened; `conflict` with code `database_newer` if a newer
    /// program wrote it, which then is left untouched; `unavailable` with code `database_corrupt`,
    /// naming the newest backup.
    pub fn open(
        path: &Utf8Path,
        migrations: &[Migration],
        clock: Clock,
    ) -> Result<(Store, Writer)> {
        Store::open_with(path, migrations, clock, Keeping::Kept)
    }

    /// Opens a database that is made ready to replace another: its commits are not counted beside
    /// it.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_aside(
        path: &Utf8Path,
        migrations: &[Migration],
        clock: Clock,
    ) -> Result<(Store, Writer)> {
        Store::open_with(path, migrations, clock, Keeping::Aside)
    }

    /// Opens a database that goes with this process: nothing waits for the disk, and a power cut
    /// may leave anything of it.
    ///
    /// # Errors
    /// As [`Store::open`].
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
        let named = |cause: Error| match cause.code_str() {
            CORRUPT if cause.hint_str().is_none() => trouble::damaged(path).source(cause),
            _ => cause,
        };
        if keeping == Keeping::Kept {
            // Before anything is written: the log is worth keeping.
            migrate::refuse_newer(path, migrations)?;
            tally::refuse_loss(path).map_err(named)?;
        }
        let (writing, checked) =
            open_for_writing(path, migrations, &clock, is_kept).map_err(named)?;
        let epoch = migrate::epoch(&writing).map_err(named)?;
        let tally = match keeping {
            Keeping::Kept => Tally::open(path, &writing)?.map(Arc::new),
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
        let writer = Writer::new((writing, tally), path, queue, ends, (watch, stats), clock);
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
        typed(self.inner.commit(caller, answer).await)
    }

    /// Runs `look` on a read-only connection, on a blocking thread. All that it reads is of one
    /// moment.
    ///
    /// # Errors
    /// What `look` returned; `unavailable` if no connection can be opened.
    pub async fn read<T, F>(&self, look: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        self.inner.noting(self.inner.readers.run(None, look).await)
    }

    /// Runs a look as [`Store::read`] does, and ends it when it takes more than `limit`. How long
    /// it waited for a connection does not count.
    ///
    /// # Errors
    /// As [`Store::read`]; `unavailable` with code `search_timeout`.
    pub async fn read_within<T, F>(&self, limit: Duration, look: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        self.inner.noting(self.inner.readers.run(Some(limit), look).await)
    }

    /// Returns what stands in the way of writing, if anything does.
    pub fn trouble(&self) -> Option<Trouble> {
        self.inner.watch.trouble()
    }

    /// Reads a database that was too large to be checked when it was opened, until `stop`. Damage
    /// that it finds stops all writing.
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
                warn!("the database is whole, but an index of words, which is made anew");
                self.inner.is_index_damaged.store(true, Ordering::Relaxed);
                self.inner.bells.ring_all();
            }
            Ok(Err(cause)) => {
                self.inner.watch.note(cause);
            }
            Err(cause) => error!("the check of the database: {cause}"),
        }
    }

    /// Runs a look that touches a few rows by their keys, on the calling thread: handing it to
    /// another one would take longer than the look itself. What may walk through many rows is for
    /// [`Store::read`].
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn look<T>(&self, look: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.inner.noting(self.inner.readers.look(look))
    }

    /// Returns whether a check has found that an index of words is damaged, once for each time.
    pub fn take_index_damage(&self) -> bool {
        self.inner.is_index_damaged.swap(false, Ordering::Relaxed)
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

    /// Writes that a new run of the server begins, and returns its name; see [`has_lost`].
    ///
    /// # Errors
    /// As any write.
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

/// What a look or a write returned, without its type. The store's own code knows results in this
/// form only: it is compiled once, and not again for each of the several hundred callers.
type Answer = Box<dyn Any + Send>;

fn typed<T: 'static>(answer: Result<Answer>) -> Result<T> {
    let typed = answer?.downcast::<T>();
    typed.map(|it| *it).map_err(|_| Error::internal("a result of the store has another type"))
}

fn stopped() -> Error {
    Error::unavailable("the server is stopping").code("stopping")
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
    // What it found of an index of words, if it was checked.
    let checked = if is_small { Some(trouble::check(&writing, path)?) } else { None };
    migrate(&writing, migrations, clock)?;
    Ok((writing, checked))
}

/// Opens the one connection that writes.
fn connect(path: &Utf8Path, is_kept: bool) -> Result<Connection> {
    read::refuse_emptied(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let writing = Connection::open_with_flags(path, flags)
        .context(ErrorKind::Unavailable, || format!("cannot open the database {path}"))?;
    writing.busy_timeout(std::time::Duration::from_secs(5))?;
    writing.pragma_update(None, "journal_mode", "WAL")?;
    // FULL: what was acknowledged survives a power cut, which NORMAL in WAL mode does not promise.
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

/// Runs a step of every transaction; it is parsed once.
fn step(connection: &Connection, sql: &'static str) -> Result<()> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}

/// Has SQLite keep the plan of a prepared statement whatever is bound to it. Otherwise a statement
/// that compares an indexed column with a parameter is parsed and planned again at every call, for
/// several times the cost of the call itself; and a plan that was tested could become another.
fn keep_plans(connection: &Connection) -> Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Creates the file before SQLite does, so that it is never readable by others, not even briefly.
fn create_private(path: &Utf8Path) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let made = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    made.map(|_| ())
        .map_err(|cause| Error::of_disk(format!("cannot create the database {path}"), cause))
}

/// Returns whether a database has lost what a run of the server wrote: it does not know that run,
/// and it is no other database, put in its place since. Changes nothing.
///
/// # Errors
/// `unavailable` if it cannot be read.
pub fn has_lost(path: &Utf8Path, epoch: &str, life: &str) -> Result<bool> {
    let named = |cause: Error| match cause.code_str() {
        CORRUPT => trouble::damaged(path).source(cause),
        _ => cause,
    };
    let last = read::open(path).and_then(|it| migrate::last_life(&it)).map_err(named)?;
    Ok(match last {
        None => true,
        Some((other, _)) if other != epoch => false,
        Some((_, last)) => last.as_deref() != Some(life),
    })
}
