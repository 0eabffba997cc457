//! A pool of read-only connections.
//!
//! **Invariant:** a connection serves one read at a time and is returned when that ends.
//! **Invariant:** a read is one transaction: all its statements see the same snapshot.
//! **Invariant:** as many connections as may look at one time are open from the start and stay so:
//! no request has to find descriptors for the database, and none keeps those that it found.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;

use crate::base::{Context, DATABASE_CORRUPT, Error, ErrorKind, Result, fault};
use crate::store::trouble;
use crate::store::{Answer, MIGRATIONS, keep_plans, step, stopping, typed};

/// Most concurrent reads.
const READERS_MAX: usize = 8;
/// SQLite instructions between two checks of a read's deadline.
const STEPS_BETWEEN_LOOKS: i32 = 1_000;

/// A read that runs on another thread.
type Look = dyn FnOnce(&Connection) -> Result<Answer> + Send;
/// A read that stores its result where the caller finds it.
type Looking<'a> = dyn FnMut(&Connection) -> Result<()> + 'a;

/// The pool. Keeps some connections; opens another when none is idle, and closes it after use.
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

    /// Opens what the pool keeps. A connection that nothing was read on has not opened the log yet.
    ///
    /// # Errors
    /// `unavailable` if one cannot be opened.
    pub(super) fn fill(&self) -> Result<()> {
        if fault::is_off("readers_filled") {
            return Ok(());
        }
        let opened = (0..READERS_MAX).map(|_| {
            let connection = open(&self.shared.path)?;
            connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))?;
            Ok(connection)
        });
        let opened = opened.collect::<Result<Vec<_>>>()?;
        self.shared.free().extend(opened);
        Ok(())
    }

    /// Reads on the calling thread.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let (mut look, mut seen) = (Some(look), None);
        self.shared.look(&mut |connection| {
            seen = look.take().map(|look| look(connection)).transpose()?;
            Ok(())
        })?;
        seen.ok_or_else(|| Error::internal("a look was not run"))
    }

    /// Reads on a blocking thread, for at most `limit` if given.
    pub(super) async fn run<T, F>(&self, limit: Option<Duration>, look: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        typed(self.aside(limit, Box::new(move |it| Ok(Box::new(look(it)?)))).await)
    }

    /// Reads on a blocking thread once a permit is free.
    async fn aside(&self, limit: Option<Duration>, look: Box<Look>) -> Result<Answer> {
        let shared = Arc::clone(&self.shared);
        let permit = Arc::clone(&shared.permits).acquire_owned().await.map_err(|_| stopping())?;
        let looked = tokio::task::spawn_blocking(move || {
            // Held by the read, not by the caller, who may leave earlier.
            let _permit = permit;
            let (mut look, mut seen) = (Some(look), None);
            let mut once = |connection: &Connection| {
                seen = look.take().map(|look| look(connection)).transpose()?;
                Ok(())
            };
            match limit {
                Some(limit) => shared.look_within(limit, &mut once)?,
                None => shared.look(&mut once)?,
            }
            seen.ok_or_else(|| Error::internal("a look was not run"))
        })
        .await;
        looked.map_err(|_| Error::internal("a read panicked").code("panic"))?
    }
}

impl Shared {
    fn look_within(&self, limit: Duration, look: &mut Looking<'_>) -> Result<()> {
        let mut connection = self.take()?;
        let end = Instant::now() + limit;
        let is_unlimited = fault::is_off("search_time");
        connection.progress_handler(
            STEPS_BETWEEN_LOOKS,
            Some(move || !is_unlimited && Instant::now() >= end),
        )?;
        step(&connection, "BEGIN")?;
        let outcome = look(&connection);
        connection.progress_handler(0, None::<fn() -> bool>)?;
        step(&connection, "COMMIT")?;
        self.give_back(connection);
        outcome.map_err(|cause| match is_interrupt(&cause) {
            true => Error::unavailable(format!("the search took more than {limit:?}"))
                .code("search_timeout")
                .hint("use rarer words, or fewer prefixes")
                .source(cause),
            false => cause,
        })
    }

    fn look(&self, look: &mut Looking<'_>) -> Result<()> {
        let connection = self.take()?;
        // Also for speed: otherwise each statement locks and unlocks the file.
        step(&connection, "BEGIN")?;
        let outcome = look(&connection);
        // If the transaction cannot be ended, the connection is closed instead of returned.
        step(&connection, "COMMIT")?;
        self.give_back(connection);
        outcome
    }

    fn take(&self) -> Result<Connection> {
        let free = self.free().pop();
        match free {
            Some(connection) => Ok(connection),
            None => open(&self.path),
        }
    }

    fn give_back(&self, connection: Connection) {
        let mut free = self.free();
        if free.len() < READERS_MAX {
            free.push(connection);
        }
    }

    fn free(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_interrupt(cause: &Error) -> bool {
    let inner = std::error::Error::source(cause);
    let inner = inner.and_then(|it| it.downcast_ref::<rusqlite::Error>());
    inner.and_then(rusqlite::Error::sqlite_error_code)
        == Some(rusqlite::ErrorCode::OperationInterrupted)
}

/// Refuses to open an empty database that has a log: SQLite would treat it as new and delete the
/// log (<https://www.sqlite.org/walformat.html>, recovery), which may contain everything that was
/// acknowledged.
///
/// # Errors
/// `unavailable` with code `database_corrupt`.
pub(super) fn refuse_emptied(path: &Utf8Path) -> Result<()> {
    let log = Utf8PathBuf::from(format!("{path}-wal"));
    let bytes_of = |it: &Utf8Path| std::fs::metadata(it).map(|it| it.len());
    let logged = bytes_of(&log).unwrap_or(0);
    if logged == 0 || bytes_of(path).ok() != Some(0) || fault::is_off("emptied_refusal") {
        return Ok(());
    }
    Err(Error::unavailable(format!("{path} is empty, though its log holds {logged} bytes"))
        .code(DATABASE_CORRUPT)
        .hint(trouble::advice(path)))
}

/// Reads the database of a site without a server and without changing anything; `None` if it has
/// not been migrated to the newest version.
///
/// # Errors
/// `unavailable` if the file cannot be opened or read.
pub fn peek<T>(path: &Utf8Path, look: impl FnOnce(&Connection) -> Result<T>) -> Result<Option<T>> {
    let connection = open(path)?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let newest = MIGRATIONS.last().map_or(0, |it| it.version);
    (version == newest).then(|| look(&connection)).transpose()
}

pub(super) fn open(path: &Utf8Path) -> Result<Connection> {
    refuse_emptied(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let reading = Connection::open_with_flags(path, flags)
        .context(ErrorKind::Unavailable, || format!("cannot open the database {path}"))?;
    reading.busy_timeout(std::time::Duration::from_secs(5))?;
    reading.pragma_update(None, "query_only", true)?;
    keep_plans(&reading)?;
    reading.set_prepared_statement_cache_capacity(128);
    Ok(reading)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::StatementStatus;

    #[test]
    fn a_look_sees_one_moment() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap().join("x.db");
        let writing = Connection::open(&path).unwrap();
        writing.pragma_update(None, "journal_mode", "WAL").unwrap();
        writing.execute_batch("CREATE TABLE t (a INTEGER)").unwrap();
        let readers = Readers::new(&path);
        let count = |c: &Connection| c.query_row("SELECT COUNT(*) FROM t", [], |row| row.get(0));
        let counts: (i64, i64) = readers
            .look(|c| {
                let first = count(c)?;
                writing.execute("INSERT INTO t VALUES (1)", [])?;
                Ok((first, count(c)?))
            })
            .unwrap();
        assert_eq!(counts, (0, 0));
        assert_eq!(readers.look(|c| Ok(count(c)?)).unwrap(), 1);
        // A look that fails leaves nothing behind either.
        assert!(readers.look(|_| Err::<(), _>(stopping())).is_err());
        assert_eq!(readers.look(|c| Ok(count(c)?)).unwrap(), 1);
    }

    /// Fails with `WB_WITHOUT=readers_filled`.
    #[tokio::test]
    async fn looks_at_one_time_open_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap().join("x.db");
        let writing = Connection::open(&path).unwrap();
        writing.pragma_update(None, "journal_mode", "WAL").unwrap();
        writing.execute_batch("CREATE TABLE t (a INTEGER)").unwrap();
        let descriptors = || {
            let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            let files = links.filter_map(|it| std::fs::read_link(it.path()).ok());
            files.filter(|it| it.starts_with(folder.path())).count()
        };
        let readers = Readers::new(&path);
        readers.fill().unwrap();
        let before = descriptors();
        let met = Arc::new(std::sync::Barrier::new(READERS_MAX));
        let looks = (0..READERS_MAX).map(|_| {
            let met = Arc::clone(&met);
            readers.run(None, move |c| {
                met.wait();
                let rows: i64 = c.query_row("SELECT COUNT(*) FROM t", [], |row| row.get(0))?;
                met.wait();
                Ok(rows)
            })
        });
        let seen = futures_util::future::join_all(looks).await;
        assert!(seen.into_iter().all(|it| it.unwrap() == 0));
        assert_eq!(descriptors(), before);
    }

    #[test]
    fn a_prepared_statement_is_not_planned_again_for_other_values() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap().join("x.db");
        let making = Connection::open(&path).unwrap();
        let schema = "CREATE TABLE t (a TEXT, b INTEGER);
            CREATE INDEX t_a ON t (b) WHERE a = 'x'; CREATE INDEX t_b ON t (b);";
        making.execute_batch(schema).unwrap();
        let sql = "SELECT COUNT(*) FROM t WHERE a = ?1 AND b > ?2";
        let planned_again = |connection: &Connection| {
            let mut statement = connection.prepare(sql).unwrap();
            for (a, b) in [("x", 1), ("y", 2), ("x", 3)] {
                statement.query_row((a, b), |row| row.get::<_, i64>(0)).unwrap();
            }
            statement.get_status(StatementStatus::RePrepare)
        };
        assert!(planned_again(&making) > 0, "SQLite does so if it is not told otherwise");
        assert_eq!(planned_again(&open(&path).unwrap()), 0);
    }

    /// Fails with `WB_WITHOUT=search_time`.
    #[tokio::test]
    async fn a_look_with_a_limit_of_time_is_ended_and_harms_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap().join("x.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (a INTEGER)").unwrap();
        let readers = Readers::new(&path);
        let long =
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9000000)
            SELECT SUM(i) FROM n";
        let look = |c: &Connection| Ok(c.query_row(long, [], |row| row.get::<_, i64>(0))?);
        let ended = readers.run(Some(Duration::from_millis(20)), look).await;
        assert_eq!(ended.unwrap_err().code_str(), "search_timeout");
        // The same connection, for which there is no limit now.
        let short = |c: &Connection| Ok(c.query_row("SELECT 7", [], |row| row.get::<_, i64>(0))?);
        assert_eq!(readers.run(Some(Duration::from_secs(5)), short).await.unwrap(), 7);
        assert_eq!(readers.run(None, look).await.unwrap(), 9_000_000 * 9_000_001 / 2);
    }
}
