//! Lists the Topics opened by an actor; `topic` owns the table `topics`.

use rusqlite::{Connection, named_params};

use crate::api::topics::OpenedTopic;
use crate::base::{Actor, Result};

const OPENED_BY: &str = "
    SELECT id, source_path, COALESCE(title, '') AS title, status FROM topics
    WHERE created_by = :by ORDER BY id LIMIT :limit";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[("opened::opened_by", OPENED_BY)];

/// Returns the first Topics opened by an actor, oldest first.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn opened_by(connection: &Connection, by: &Actor, limit: usize) -> Result<Vec<OpenedTopic>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(OPENED_BY)?;
    let rows = statement.query_map(named_params! {":by": by, ":limit": limit}, |row| {
        Ok(OpenedTopic {
            id: row.get("id")?,
            source_path: row.get("source_path")?,
            title: row.get("title")?,
            status: row.get("status")?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
