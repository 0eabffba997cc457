//! Lists the Topics opened by an actor; `topic` owns the table `topics`.

use rusqlite::{Connection, named_params};
use serde::Serialize;

use crate::base::{Actor, Result, SourcePath, TopicId};
use crate::documents::topics::topic::TopicStatus;

const OPENED_BY: &str = "
    SELECT id, source_path, COALESCE(title, '') AS title, status FROM topics
    WHERE created_by = :by ORDER BY id LIMIT :limit";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[("opened::opened_by", OPENED_BY)];

/// A Topic opened by an actor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OpenedTopic {
    /// The Topic.
    pub id: TopicId,
    /// The Source.
    pub source_path: SourcePath,
    /// Its title.
    pub title: String,
    /// Its status.
    pub status: TopicStatus,
}

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
