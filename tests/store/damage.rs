//! Damage found while the database is open.

use std::os::unix::fs::FileExt as _;

use rusqlite::Connection;
use wiki_browser::base::DATABASE_CORRUPT;
use wiki_browser::store::events;

use crate::store::{Served, note};

/// Fails with `WB_WITHOUT=damage_stop`.
#[tokio::test]
async fn g29_a_look_that_meets_damage_stops_the_writer() {
    let served = Served::start();
    for n in 0..200 {
        let subject = format!("source:{n}-{}", "x".repeat(400));
        served.store.write(move |tx| note(tx, &subject)).await.unwrap();
    }
    let root: i64 = {
        let connection = Connection::open(&served.path).unwrap();
        connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
            .unwrap();
        let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'events'";
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let file = std::fs::OpenOptions::new().write(true).open(&served.path).unwrap();
    file.write_all_at(&[0xa5; 4096], (root as u64 - 1) * 4096).unwrap();
    let met = served.store.read(|c| events::after(c, 0, 10)).await.unwrap_err();
    assert_eq!(met.code_str(), DATABASE_CORRUPT, "{}", met.chain());
    assert!(met.hint_str().is_some_and(|it| it.contains("backup")), "{met:?}");
    assert_eq!(served.store.trouble().unwrap().code, DATABASE_CORRUPT);
    let refused = served.store.write(|_| Ok(())).await.unwrap_err();
    assert_eq!(refused.code_str(), DATABASE_CORRUPT);
    served.stop().await;
}
