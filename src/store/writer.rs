//! The one writer: it collects what waits, and commits it together.
//!
//! **Invariant:** a closure runs inside its own savepoint; what it did is kept whole or not at all.
//! **Invariant:** when SQLite drops the whole transaction (a full disk), no closure of the batch is
//! answered with success; each is run again in a transaction of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use rusqlite::Connection;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::base::{Clock, Error, Result, fault};
use crate::store::tx::{Effects, Tx};
use crate::store::{Bells, StoredEvent, WriterStats};

/// Most writes of one commit.
const BATCH_MAX: usize = 64;

/// One caller's closure with the way back to it.
pub(super) trait Work: Send {
    /// Runs the closure; whether it succeeded.
    fn run(&mut self, tx: &Tx<'_>) -> bool;
    /// Replaces a success that was not committed.
    fn fail(&mut self, error: Error);
    /// Gives the caller its answer; a second call does nothing.
    fn answer(&mut self);
}

struct Caller<T, F> {
    work: F,
    result: Option<Result<T>>,
    reply: Option<oneshot::Sender<Result<T>>>,
}

pub(super) fn caller<T, F>(work: F) -> (Box<dyn Work>, oneshot::Receiver<Result<T>>)
where
    T: Send + 'static,
    F: FnMut(&Tx<'_>) -> Result<T> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    (Box::new(Caller { work, result: None, reply: Some(reply) }), answer)
}

impl<T, F> Work for Caller<T, F>
where
    T: Send + 'static,
    F: FnMut(&Tx<'_>) -> Result<T> + Send + 'static,
{
    fn run(&mut self, tx: &Tx<'_>) -> bool {
        // A panic is a fault of this caller alone; its savepoint is rolled back.
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.work)(tx)))
            .unwrap_or_else(|_| Err(Error::internal("a write panicked").code("panic")));
        let is_ok = outcome.is_ok();
        self.result = Some(outcome);
        is_ok
    }

    fn fail(&mut self, error: Error) {
        self.result = Some(Err(error));
    }

    fn answer(&mut self) {
        let Some(reply) = self.reply.take() else { return };
        let result = self.result.take();
        let result = result.unwrap_or_else(|| Err(Error::internal("a write was not run")));
        // The caller may have left; its write is committed all the same.
        let _ = reply.send(result);
    }
}

/// The loop that owns the writing connection.
pub struct Writer {
    connection: Option<Connection>,
    queue: mpsc::Receiver<Box<dyn Work>>,
    published: broadcast::Sender<Arc<StoredEvent>>,
    bells: Bells,
    clock: Clock,
    stats: Arc<WriterStats>,
}

impl Writer {
    pub(super) fn new(
        connection: Connection,
        queue: mpsc::Receiver<Box<dyn Work>>,
        published: broadcast::Sender<Arc<StoredEvent>>,
        bells: Bells,
        clock: Clock,
        stats: Arc<WriterStats>,
    ) -> Writer {
        Writer { connection: Some(connection), queue, published, bells, clock, stats }
    }

    /// Commits what arrives until `stop`, and then what had arrived by then.
    pub async fn serve(mut self, stop: CancellationToken) {
        loop {
            let first = tokio::select! {
                biased;
                work = self.queue.recv() => work,
                () = stop.cancelled() => {
                    self.queue.close();
                    self.queue.recv().await
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
            if !self.commit(batch).await {
                break;
            }
        }
        if let Some(connection) = self.connection.take() {
            // Closing checkpoints the log; a failure leaves the log for the next open.
            if let Err((_, cause)) = connection.close() {
                warn!("the database did not close cleanly: {cause}");
            }
        }
    }

    /// Runs one batch on a blocking thread; whether the connection is still there.
    async fn commit(&mut self, batch: Vec<Box<dyn Work>>) -> bool {
        let Some(connection) = self.connection.take() else { return false };
        let clock = self.clock.clone();
        let start = Instant::now();
        self.stats.batch.note(batch.len() as u64);
        let done = tokio::task::spawn_blocking(move || {
            let mut batch = batch;
            let effects = run_batch(&connection, &mut batch, &clock);
            (connection, batch, effects)
        });
        match done.await {
            Ok((connection, mut batch, effects)) => {
                self.connection = Some(connection);
                self.stats.time.note_time(start.elapsed());
                self.publish(effects);
                batch.iter_mut().for_each(|it| it.answer());
                true
            }
            Err(cause) => {
                // Callers see a dropped channel: `unavailable`. Only a panic outside of every
                // closure ends here, and then the state of the connection is unknown.
                error!("the writer stopped: {cause}");
                false
            }
        }
    }

    fn publish(&self, effects: Effects) {
        for event in effects.events {
            // No subscriber is no error: the table has it.
            let _ = self.published.send(event);
        }
        let mut bells = effects.bells;
        bells.sort_unstable();
        bells.dedup();
        for name in bells {
            self.bells.bell(name).notify_one();
        }
    }
}

/// Runs all in one transaction, or, if that cannot be committed, each in its own.
fn run_batch(connection: &Connection, batch: &mut [Box<dyn Work>], clock: &Clock) -> Effects {
    if batch.len() > 1 {
        match run_together(connection, batch, clock) {
            Ok(effects) => return effects,
            Err(cause) => {
                warn!("a commit of {} writes failed, each is tried alone: {cause}", batch.len())
            }
        }
    }
    let mut all = Effects::default();
    for work in batch {
        match run_together(connection, std::slice::from_mut(work), clock) {
            Ok(effects) => {
                all.events.extend(effects.events);
                all.bells.extend(effects.bells);
            }
            Err(cause) => work.fail(cause),
        }
    }
    all
}

fn run_together(
    connection: &Connection,
    batch: &mut [Box<dyn Work>],
    clock: &Clock,
) -> Result<Effects> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let tx = Tx::new(connection, clock.now());
    let outcome = run_savepoints(connection, &tx, batch).and_then(|()| {
        fault::crash_point("before_commit");
        if fault::is_off("commit_first") {
            batch.iter_mut().for_each(|it| it.answer());
            // A slow disk, so that a kill finds the moment in between.
            std::thread::park_timeout(std::time::Duration::from_millis(20));
        }
        Ok(connection.execute_batch("COMMIT")?)
    });
    if let Err(cause) = outcome {
        // SQLite may have rolled back by itself; a second ROLLBACK would hide the real error.
        if !connection.is_autocommit() {
            connection.execute_batch("ROLLBACK")?;
        }
        return Err(cause);
    }
    fault::crash_point("after_commit");
    Ok(tx.into_effects())
}

fn run_savepoints(connection: &Connection, tx: &Tx<'_>, batch: &mut [Box<dyn Work>]) -> Result<()> {
    for work in batch {
        let mark = tx.mark();
        connection.execute_batch("SAVEPOINT one")?;
        let is_ok = work.run(tx);
        if connection.is_autocommit() && !fault::is_off("autocommit_check") {
            return Err(Error::unavailable("the database dropped a transaction")
                .code("disk_full")
                .hint("is the disk full? nothing that was acknowledged is lost"));
        }
        if !is_ok {
            tx.forget_since(mark);
            connection.execute_batch("ROLLBACK TO one")?;
        }
        connection.execute_batch("RELEASE one")?;
    }
    Ok(())
}
