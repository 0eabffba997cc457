//! An empty database in memory for tests of tables.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::Backup;

use crate::base::{Clock, Millis};
use crate::store::{MIGRATIONS, migrate};

/// Returns a database with all tables: a copy of one that is migrated once for all tests, because
/// that takes longer than most of them.
pub(crate) fn in_memory() -> Connection {
    static MIGRATED: Mutex<Option<Connection>> = Mutex::new(None);
    let mut migrated = MIGRATED.lock().unwrap_or_else(PoisonError::into_inner);
    let migrated = migrated.get_or_insert_with(|| {
        let connection = Connection::open_in_memory().unwrap();
        migrate(&connection, MIGRATIONS, &Clock::fixed(Millis(0))).unwrap();
        connection
    });
    let mut copy = Connection::open_in_memory().unwrap();
    let copying = Backup::new(migrated, &mut copy).unwrap();
    copying.run_to_completion(i32::MAX, Duration::ZERO, None).unwrap();
    drop(copying);
    copy
}
