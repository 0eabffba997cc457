//! A disk that fills up in the middle of a batch: acknowledged writes are kept, and nothing else.

use rusqlite::named_params;
use wiki_browser::base::{Actor, Event, EventKind};
use wiki_browser::store::events;

use serde_json::json;

use crate::store::Served;

/// SQLite treats `max_page_count` as the size of the disk: it raises the same SQLITE_FULL, which
/// drops the *whole* transaction, not only the statement.
#[tokio::test]
async fn acknowledgements_equal_rows_when_the_disk_fills_up() {
    let served = Served::start();
    let pages: i64 = served
        .store
        .write(|tx| {
            let pages: i64 =
                tx.connection().pragma_query_value(None, "page_count", |row| row.get(0))?;
            tx.connection().pragma_update(None, "max_page_count", pages + 40)?;
            Ok(pages)
        })
        .await
        .unwrap();
    assert!(pages > 0);
    // Small writes and large ones in the same batches: the large ones hit the wall, and every small
    // one that stood in their batch must be either acknowledged and there, or neither.
    let writes = (0..300).map(|n| {
        served.store.write(move |tx| {
            let size = if n % 10 == 9 { 60_000 } else { 20 };
            tx.emit(Event::new(
                EventKind::SourceChanged,
                format!("source:{n}"),
                Actor::System,
                json!({"fill": "x".repeat(size)}),
            ))?;
            Ok(n)
        })
    });
    let answers = futures_util::future::join_all(writes).await;
    let refused = answers.iter().filter(|it| it.is_err()).count();
    assert!(refused > 0, "the disk was never full");
    for answer in &answers {
        if let Err(cause) = answer {
            assert_eq!(cause.code_str(), "disk_full", "{}", cause.chain());
        }
    }
    let mut acknowledged: Vec<String> =
        answers.into_iter().flatten().map(|n| format!("source:{n}")).collect();
    let rows = served.store.read(|c| events::after(c, 0, 10_000)).await.unwrap();
    let mut kept: Vec<String> = rows.into_iter().map(|it| it.subject).collect();
    acknowledged.sort();
    kept.sort();
    assert_eq!(acknowledged, kept);
    // When there is room again, writing goes on without a restart.
    served
        .store
        .write(|tx| {
            tx.connection().pragma_update(None, "max_page_count", 1_000_000)?;
            tx.connection().execute(
                "DELETE FROM events WHERE length(data_json) > :size",
                named_params! {":size": 1000},
            )?;
            Ok(())
        })
        .await
        .unwrap();
    served.stop().await;
}
