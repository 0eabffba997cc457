//! The store: migrations, group commit, a full disk in the middle of a batch, reading while
//! writing.

mod damage;
mod full_disk;
mod migrations;
mod releases;

use wiki_browser::base::{Actor, Clock, Error, Event, EventKind, Result};
use wiki_browser::store::{MIGRATIONS, Store, Tx, events};

use camino::Utf8PathBuf;
use rusqlite::named_params;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A served store in a folder of its own.
pub(crate) struct Served {
    pub(crate) store: Store,
    pub(crate) path: Utf8PathBuf,
    stop: CancellationToken,
    writer: JoinHandle<()>,
    _folder: tempfile::TempDir,
}

impl Served {
    pub(crate) fn start() -> Served {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(folder.path().join("wiki.db")).unwrap();
        let (store, writer) = Store::open(&path, MIGRATIONS, Clock::system()).unwrap();
        let stop = CancellationToken::new();
        #[allow(clippy::disallowed_methods, reason = "a test waits for this task by its handle")]
        let writer = tokio::spawn(writer.serve(stop.clone()));
        Served { store, path, stop, writer, _folder: folder }
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.writer.await.unwrap();
    }
}

pub(crate) fn note(tx: &Tx<'_>, subject: &str) -> Result<()> {
    tx.emit(Event::new(EventKind::SourceChanged, subject.to_owned(), Actor::System, json!({})))
}

#[tokio::test]
async fn a_failed_write_keeps_nothing_and_its_neighbors_keep_all() {
    let served = Served::start();
    let mut heard = served.store.subscribe();
    let writes = (0..200).map(|n| {
        served.store.write(move |tx| {
            note(tx, &format!("source:{n}"))?;
            if n % 3 == 0 { Err(Error::invalid("odd one out")) } else { Ok(n) }
        })
    });
    let answers = futures_util::future::join_all(writes).await;
    let ok: Vec<i32> = answers.into_iter().flatten().collect();
    assert_eq!(ok.len(), 133);
    let rows = served.store.read(|c| events::after(c, 0, 1000)).await.unwrap();
    let subjects: Vec<String> = rows.iter().map(|it| it.subject.clone()).collect();
    let mut expected: Vec<String> = ok.iter().map(|n| format!("source:{n}")).collect();
    expected.sort();
    let mut sorted = subjects.clone();
    sorted.sort();
    assert_eq!(sorted, expected);
    // Published: the same events, in the same order, and none of a write that failed.
    let mut published = Vec::new();
    while let Ok(event) = heard.try_recv() {
        published.push(event.subject.clone());
    }
    assert_eq!(published, subjects);
    served.stop().await;
}

#[tokio::test]
async fn a_panic_fails_its_own_caller_only() {
    let served = Served::start();
    let store = served.store.clone();
    let bad = store.write(|_| -> Result<()> { panic!("as a test wants it") });
    let good = store.write(|tx| note(tx, "source:good"));
    let (bad, good) = tokio::join!(bad, good);
    assert_eq!(bad.unwrap_err().code_str(), "panic");
    good.unwrap();
    assert_eq!(served.store.read(|c| events::after(c, 0, 10)).await.unwrap().len(), 1);
    served.stop().await;
}

#[tokio::test]
async fn what_was_sent_before_the_stop_is_committed() {
    let served = Served::start();
    let store = served.store.clone();
    let writes: Vec<_> =
        (0..50).map(|n| store.write(move |tx| note(tx, &format!("source:{n}")))).collect();
    let all = futures_util::future::join_all(writes);
    let (answers, ()) = tokio::join!(all, async { served.stop.cancel() });
    let kept = answers.iter().filter(|it| it.is_ok()).count();
    served.writer.await.unwrap();
    let rows = served.store.read(|c| events::after(c, 0, 100)).await.unwrap();
    assert_eq!(rows.len(), kept);
    let late = served.store.write(|tx| note(tx, "source:late")).await.unwrap_err();
    assert_eq!(late.code_str(), "stopping");
}

#[tokio::test]
async fn readers_cannot_write() {
    let served = Served::start();
    let tried = served
        .store
        .read(|c| Ok(c.execute("DELETE FROM events WHERE id = :id", named_params! {":id": 1})?))
        .await;
    assert!(tried.is_err());
    served.stop().await;
}

#[tokio::test]
async fn a_bell_rings_after_the_commit() {
    let served = Served::start();
    let bell = served.store.bell("jobs");
    served
        .store
        .write(|tx| {
            tx.ring("jobs");
            note(tx, "source:a")
        })
        .await
        .unwrap();
    bell.notified().await;
    assert_eq!(served.store.read(|c| events::after(c, 0, 10)).await.unwrap().len(), 1);
    served.stop().await;
}

#[tokio::test]
async fn the_database_is_private_and_complete() {
    use std::os::unix::fs::PermissionsExt as _;
    let served = Served::start();
    let mode = std::fs::metadata(&served.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0);
    let modes = served
        .store
        .write(|tx| {
            let ask = |name: &str| {
                tx.connection().pragma_query_value(None, name, |row| row.get::<_, String>(0))
            };
            let sync: i64 =
                tx.connection().pragma_query_value(None, "synchronous", |row| row.get(0))?;
            Ok((ask("journal_mode")?, sync))
        })
        .await
        .unwrap();
    assert_eq!(modes, ("wal".to_owned(), 2));
    served.stop().await;
}
