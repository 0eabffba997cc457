//! Owns the table `anchors`: the anchor of each Topic and its current baseline.

use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, Type, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Row, named_params};

use crate::api::topics::{Anchor, Origin};
use crate::base::{Error, Result, TopicId};
use crate::documents::anchor::NewAnchor;
use crate::store::Tx;

const INSERT: &str = "
    INSERT INTO anchors (topic_id, origin_blob, origin_start, origin_end, origin_quote,
                         quote, prefix, suffix, heading_path_json, block_kind)
    VALUES (:topic, :blob, :start, :end, :quote, :quote, :prefix, :suffix, :headings, :kind)";
const FIND: &str = "
    SELECT origin_blob, origin_start, origin_end, origin_quote, quote, prefix, suffix,
           heading_path_json, block_kind
    FROM anchors WHERE topic_id = :topic";
const REBASE: &str = "
    UPDATE anchors SET quote = :quote, prefix = :prefix, suffix = :suffix,
                       heading_path_json = :headings, block_kind = :kind
    WHERE topic_id = :topic";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] =
    &[("anchor::insert", INSERT), ("anchor::find", FIND), ("anchor::rebase", REBASE)];

/// A byte offset as stored in SQL.
#[derive(Clone, Copy, Debug)]
pub(in crate::documents) struct Offset(pub(in crate::documents) usize);

impl ToSql for Offset {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let number = i64::try_from(self.0)
            .map_err(|cause| rusqlite::Error::ToSqlConversionFailure(Box::new(cause)))?;
        Ok(ToSqlOutput::from(number))
    }
}

impl FromSql for Offset {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let number = value.as_i64()?;
        usize::try_from(number).map(Offset).map_err(|_| FromSqlError::OutOfRange(number))
    }
}

/// Stores the anchor of a new Topic.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn insert(tx: &Tx<'_>, topic: &TopicId, anchor: &NewAnchor) -> Result<()> {
    tx.prepare_cached(INSERT)?.execute(named_params! {
        ":topic": topic, ":blob": anchor.blob, ":start": Offset(anchor.start),
        ":end": Offset(anchor.end), ":quote": anchor.quote, ":prefix": anchor.prefix,
        ":suffix": anchor.suffix, ":headings": headings_json(anchor),
        ":kind": anchor.block_kind,
    })?;
    Ok(())
}

/// Returns the anchor of a Topic; `None` for a global one.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn find(connection: &Connection, topic: &TopicId) -> Result<Option<Anchor>> {
    let mut statement = connection.prepare_cached(FIND)?;
    Ok(statement.query_row(named_params! {":topic": topic}, from_row).optional()?)
}

/// Replaces the baseline of an anchor by its current words. The origin stays.
///
/// # Errors
/// `not_found` if the Topic has no anchor.
pub fn rebase(tx: &Tx<'_>, topic: &TopicId, anchor: &NewAnchor) -> Result<()> {
    let changed = tx.prepare_cached(REBASE)?.execute(named_params! {
        ":topic": topic, ":quote": anchor.quote, ":prefix": anchor.prefix,
        ":suffix": anchor.suffix, ":headings": headings_json(anchor),
        ":kind": anchor.block_kind,
    })?;
    match changed {
        1 => Ok(()),
        _ => Err(Error::not_found(format!("topic {topic} has no anchor"))),
    }
}

fn headings_json(anchor: &NewAnchor) -> String {
    serde_json::Value::from(anchor.heading_path.clone()).to_string()
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Anchor> {
    let headings: String = row.get("heading_path_json")?;
    let heading_path = serde_json::from_str(&headings).map_err(|cause| {
        rusqlite::Error::FromSqlConversionFailure(7, Type::Text, Box::new(cause))
    })?;
    Ok(Anchor {
        quote: row.get("quote")?,
        prefix: row.get("prefix")?,
        suffix: row.get("suffix")?,
        heading_path,
        block_kind: row.get("block_kind")?,
        origin: Origin {
            blob: row.get("origin_blob")?,
            start: row.get::<_, Offset>("origin_start")?.0,
            end: row.get::<_, Offset>("origin_end")?.0,
            quote: row.get("origin_quote")?,
        },
    })
}
