//! The only writer: it batches pending writes into one commit.
//!
//! **Invariant:** a closure runs inside its own savepoint; its writes are kept entirely or not at
//! all.
//! **Invariant:** when SQLite drops the whole transaction (full disk), no closure of the batch is
//! reported as successful; each is retried in its own transaction.
//! **Invariant:** a connection whose transaction cannot be ended is dropped and reopened; the
//! connection of a corrupt database is kept, unused.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::base::{Clock, DATABASE_CORRUPT, DISK_ERROR, DISK_FULL, Error, Result, fault};
use crate::store::commit_count::CommitCount;
use crate::store::trouble::Watch;
use crate::store::tx::{Effects, Tx};
use crate::store::{Answer, Bells, StoredEvent, WriterStats, connect, step};

/// Most writes per commit.
const BATCH_MAX: usize = 64;
/// How often a failing disk is probed while nobody writes.
const PROBE_EVERY: Duration = Duration::from_secs(5);

const TOUCH: &str = "UPDATE site SET created_ms = created_ms WHERE one = 1";
const CHANGES: &str = "SELECT total_changes()";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[("writer::touch", TOUCH), ("writer::changes", CHANGES)];

/// A write with a type-erased result.
type Write = dyn FnMut(&Tx<'_>) -> Result<Answer> + Send;

/// One caller's closure and its reply channel.
pub(super) struct Work {
    write: Box<Write>,
    result: Option<Result<Answer>>,
    reply: Option<oneshot::Sender<Result<Answer>>>,
}

/// Wraps a caller's closure for the queue.
pub(super) fn caller<T, F>(mut write: F) -> (Work, oneshot::Receiver<Result<Answer>>)
where
    T: Send + 'static,
    F: FnMut(&Tx<'_>) -> Result<T> + Send + 'static,
{
    Work::new(Box::new(move |tx| Ok(Box::new(write(tx)?))))
}

impl Work {
    fn new(write: Box<Write>) -> (Work, oneshot::Receiver<Result<Answer>>) {
        let (reply, answer) = oneshot::channel();
        (Work { write, result: None, reply: Some(reply) }, answer)
    }

    /// Runs the closure; returns whether it succeeded.
    fn run(&mut self, tx: &Tx<'_>) -> bool {
        // A panic fails this caller only; its savepoint is rolled back.
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.write)(tx)))
            .unwrap_or_else(|_| Err(Error::internal("a write panicked").code("panic")));
        let is_ok = outcome.is_ok();
        self.result = Some(outcome);
        is_ok
    }

    /// Replaces the result by an error, if it was not committed.
    fn fail(&mut self, error: Error) {
        self.result = Some(Err(error));
    }

    /// Reports the closure's error to the watch.
    fn note(&mut self, watch: &Watch) {
        if let Some(Err(error)) = self.result.take_if(|it| it.is_err()) {
            self.result = Some(Err(watch.note(error)));
        }
    }

    /// Sends the caller its answer; a second call does nothing.
    fn answer(&mut self) {
        let Some(reply) = self.reply.take() else { return };
        let result = self.result.take();
        let result = result.unwrap_or_else(|| Err(Error::internal("a write was not run")));
        // The caller may have left; its write is committed regardless.
        let _ = reply.send(result);
    }
}

/// The loop that owns the writing connection.
pub struct Writer {
    connection: Option<Connection>,
    counting: Option<Arc<CommitCount>>,
    path: Utf8PathBuf,
    queue: mpsc::Receiver<Work>,
    published: broadcast::Sender<Arc<StoredEvent>>,
    bells: Bells,
    watch: Watch,
    clock: Clock,
    stats: Arc<WriterStats>,
}

/// The outcome of one batch.
struct Done {
    /// `None` if the connection can no longer be trusted.
    connection: Option<Connection>,
    batch: Vec<Work>,
    effects: Effects,
    /// Whether a trouble ended.
    is_well_again: bool,
}

impl Writer {
    pub(super) fn new(
        (connection, counting): (Connection, Option<Arc<CommitCount>>),
        path: &Utf8Path,
        queue: mpsc::Receiver<Work>,
        (published, bells): (broadcast::Sender<Arc<StoredEvent>>, Bells),
        (watch, stats): (Watch, Arc<WriterStats>),
        clock: Clock,
    ) -> Writer {
        let (connection, path) = (Some(connection), path.to_owned());
        Writer { connection, counting, path, queue, published, bells, watch, clock, stats }
    }

    /// Commits what arrives until `stop`, and then drains the queue.
    pub async fn serve(mut self, stop: CancellationToken) {
        loop {
            let trouble = self.watch.trouble().filter(|it| it.code != DATABASE_CORRUPT);
            let first = tokio::select! {
                biased;
                work = self.queue.recv() => work,
                () = stop.cancelled() => {
                    self.queue.close();
                    self.queue.recv().await
                }
                () = tokio::time::sleep(PROBE_EVERY), if trouble.is_some() => Some(probe()),
                () = until_due(self.counting.as_deref()) => {
                    sync(self.counting.clone()).await;
                    continue;
                }
            };
            let Some(first) = first else { break };
            let mut batch = vec![first];
            while batch.len() < BATCH_MAX {
                match self.queue.try_recv() {
                    Ok(work) => batch.push(work),
                    Err(_) => break,
                }
            }
            self.commit(batch).await;
        }
        sync(self.counting.clone()).await;
        match self.connection.take() {
            Some(connection) if self.watch.damage().is_some() => leave_alone(&connection),
            Some(connection) => close(connection),
            None => {}
        }
    }

    /// Runs one batch on a blocking thread.
    async fn commit(&mut self, batch: Vec<Work>) {
        let (connection, counting) = (self.connection.take(), self.counting.clone());
        let (path, clock, watch) = (self.path.clone(), self.clock.clone(), self.watch.clone());
        let start = Instant::now();
        self.stats.batch.note(batch.len() as u64);
        let done = tokio::task::spawn_blocking(move || {
            run((connection, counting.as_deref()), batch, &path, &watch, &clock)
        });
        match done.await {
            Ok(mut done) => {
                self.connection = done.connection;
                self.stats.time.note_time(start.elapsed());
                self.publish(done.effects);
                done.batch.iter_mut().for_each(|it| it.answer());
                if done.is_well_again {
                    // Tasks that gave up during the trouble try again.
                    self.bells.ring_all();
                }
            }
            // Callers see a dropped channel: `unavailable`. Only a panic outside of any closure
            // ends here; the next batch reopens the database.
            Err(cause) => error!("a batch of writes ended in a fault of the program: {cause}"),
        }
    }

    fn publish(&self, effects: Effects) {
        for event in effects.events {
            // Without subscribers sending fails, which is fine: the table has the event.
            let _ = self.published.send(event);
        }
        let mut bells = effects.bells;
        bells.sort_unstable();
        bells.dedup();
        if fault::is_off("bell") {
            bells.clear();
        }
        for name in bells {
            self.bells.bell(name).notify_one();
        }
    }
}

/// Closes a database so that its main file contains everything: SQLite skips that on close because
/// readers' connections stay open a little longer.
fn close(connection: Connection) {
    let emptied = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    let closed = connection.close().map_err(|(_, cause)| cause);
    // The log stays for the next open; nothing is lost.
    if let Err(cause) = emptied.and(closed) {
        warn!("the database did not close cleanly: {cause}");
    }
}

async fn sync(counting: Option<Arc<CommitCount>>) {
    let Some(counting) = counting.filter(|it| it.due().is_some()) else { return };
    if let Err(cause) = tokio::task::spawn_blocking(move || counting.sync()).await {
        error!("syncing ended in a fault of the program: {cause}");
    }
}

async fn until_due(counting: Option<&CommitCount>) {
    match counting.and_then(CommitCount::due) {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

/// Returns a write that changes nothing but reaches the disk: it shows whether a trouble is over.
fn probe() -> Work {
    let (work, _) = caller(|tx: &Tx<'_>| {
        let connection = tx.connection();
        // SQLite skips writing an unchanged row, but not its own header.
        tx.prepare_cached(TOUCH)?.execute([])?;
        let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        Ok(connection.pragma_update(None, "user_version", version)?)
    });
    work
}

/// Runs a batch on the connection, or on a new one if the previous was lost.
fn run(
    (connection, counting): (Option<Connection>, Option<&CommitCount>),
    mut batch: Vec<Work>,
    path: &Utf8Path,
    watch: &Watch,
    clock: &Clock,
) -> Done {
    let refuse = |mut batch: Vec<Work>, connection, cause: &dyn Fn() -> Error| {
        batch.iter_mut().for_each(|it| it.fail(cause()));
        let (effects, is_well_again) = Default::default();
        Done { connection, batch, effects, is_well_again }
    };
    if let Some(damage) = watch.damage() {
        if let Some(connection) = &connection {
            leave_alone(connection);
        }
        return refuse(batch, connection, &|| damage.to_error());
    }
    let connection = match connection.map_or_else(|| connect(path, true), Ok) {
        Ok(connection) => connection,
        Err(cause) => {
            let cause = watch.note(cause);
            return refuse(batch, None, &|| same(&cause));
        }
    };
    let (on, is_well_again) = (&connection, false);
    let mut round = Round { connection: on, counting, watch, clock, is_well_again };
    let effects = round.run_batch(&mut batch);
    let is_well_again = round.is_well_again;
    // A transaction that could not be rolled back would swallow every later write.
    let is_usable = connection.is_autocommit() || fault::is_off("reopen");
    let connection = is_usable.then_some(connection);
    Done { connection, batch, effects, is_well_again }
}

/// Returns a copy of an error.
fn same(cause: &Error) -> Error {
    let error = Error::new(cause.kind(), cause.message()).code(cause.code_str().to_owned());
    match cause.hint_str() {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

/// Prevents a checkpoint into a damaged file, including at close.
fn leave_alone(connection: &Connection) {
    if let Err(cause) = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true) {
        warn!("the log may be written into a damaged database: {cause}");
    }
}

/// A batch being committed.
struct Round<'a> {
    connection: &'a Connection,
    counting: Option<&'a CommitCount>,
    watch: &'a Watch,
    clock: &'a Clock,
    is_well_again: bool,
}

impl Round<'_> {
    /// Runs all writes in one transaction or, if that fails to commit, each in its own.
    fn run_batch(&mut self, batch: &mut [Work]) -> Effects {
        if batch.len() > 1 {
            match self.run_together(batch) {
                Ok(effects) => return effects,
                Err(cause) => {
                    let count = batch.len();
                    warn!("a commit of {count} writes failed, each is tried alone: {cause}");
                }
            }
        }
        let mut all = Effects::default();
        for work in batch {
            match self.run_together(std::slice::from_mut(work)) {
                Ok(effects) => {
                    all.events.extend(effects.events);
                    all.bells.extend(effects.bells);
                }
                Err(cause) => work.fail(self.watch.note(cause)),
            }
        }
        all
    }

    fn run_together(&mut self, batch: &mut [Work]) -> Result<Effects> {
        let connection = self.connection;
        if !connection.is_autocommit() {
            // A transaction that could not be rolled back blocks until the connection is reopened.
            return Err(Error::unavailable("a transaction cannot be ended")
                .code(DISK_ERROR)
                .hint("try again; the database is being reopened"));
        }
        let changes = self.changes()?;
        step(connection, "BEGIN IMMEDIATE")?;
        let tx = Tx::new(connection, self.clock.now());
        let (mut count, mut has_changed) = (None, false);
        let outcome = self.run_savepoints(&tx, batch).and_then(|()| {
            // An empty commit is not counted: counting would need the disk.
            has_changed = self.changes()? != changes;
            if let (Some(counting), true) = (self.counting, has_changed) {
                count = Some((counting, counting.count(connection)?));
            }
            if has_changed {
                fault::crash_point("before_commit");
            }
            if fault::is_off("commit_first") {
                batch.iter_mut().for_each(|it| it.answer());
                // Simulates a slow disk, so that a kill can hit the moment in between.
                std::thread::park_timeout(std::time::Duration::from_millis(20));
            }
            if fault::fails("commit") {
                return Err(Error::unavailable("the disk is failing").code(DISK_ERROR));
            }
            step(connection, "COMMIT")
        });
        if let Err(cause) = outcome {
            // SQLite may have rolled back by itself; a second ROLLBACK would hide the real error.
            if !connection.is_autocommit() {
                roll_back(connection);
            }
            return Err(cause);
        }
        if has_changed {
            fault::crash_point("after_commit");
        }
        if let Some((counting, commits)) = count {
            counting.note(commits);
        }
        // An empty commit does not reach the disk and proves nothing.
        if self.watch.trouble().is_some() && has_changed {
            self.is_well_again |= self.watch.committed();
        }
        Ok(tx.into_effects())
    }

    /// Returns how many rows this connection has ever changed.
    fn changes(&self) -> Result<i64> {
        Ok(self.connection.prepare_cached(CHANGES)?.query_row([], |row| row.get(0))?)
    }

    fn run_savepoints(&self, tx: &Tx<'_>, batch: &mut [Work]) -> Result<()> {
        let connection = self.connection;
        for work in batch {
            let mark = tx.mark();
            step(connection, "SAVEPOINT one")?;
            let is_ok = work.run(tx);
            if connection.is_autocommit() && !fault::is_off("autocommit_check") {
                return Err(Error::unavailable("the database dropped a transaction")
                    .code(DISK_FULL)
                    .hint("is the disk full? nothing that was acknowledged is lost"));
            }
            if !is_ok {
                work.note(self.watch);
                tx.forget_since(mark);
                step(connection, "ROLLBACK TO one")?;
            }
            step(connection, "RELEASE one")?;
        }
        Ok(())
    }
}

/// Rolls back. A failure shows up when the caller checks whether the transaction is still open.
fn roll_back(connection: &Connection) {
    if fault::fails("rollback") {
        return;
    }
    if let Err(cause) = connection.execute_batch("ROLLBACK") {
        warn!("a transaction cannot be rolled back, the database is opened again: {cause}");
    }
}
