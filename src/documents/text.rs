//! Owns the table `source_texts`: what Sources held when somebody pointed at words that were not
//! committed. Git need not keep such a text, and a Topic is placed from it.

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::base::{BlobId, Result, SourcePath};
use crate::documents::placement;
use crate::store::Tx;

const PUT: &str = "
    INSERT INTO source_texts (source_path, blob, kept_ms, text) VALUES (:source, :blob, :now, :text)
    ON CONFLICT (source_path, blob) DO NOTHING";
const FIND: &str = "SELECT text FROM source_texts WHERE source_path = :source AND blob = :blob";
const BLOBS: &str = "SELECT blob FROM source_texts WHERE source_path = :source ORDER BY blob";
const DROP: &str = "DELETE FROM source_texts WHERE source_path = :source AND blob = :blob";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] =
    &[("text::put", PUT), ("text::find", FIND), ("text::blobs", BLOBS), ("text::drop", DROP)];

/// Keeps the text of a version.
///
/// # Errors
/// As any insert.
pub fn put(tx: &Tx<'_>, source: &SourcePath, blob: &BlobId, text: &str) -> Result<()> {
    tx.prepare_cached(PUT)?.execute(named_params! {
        ":source": source, ":blob": blob, ":now": tx.now(), ":text": text,
    })?;
    Ok(())
}

/// Returns the text of a version, if it was kept.
///
/// # Errors
/// As any read.
pub fn find(connection: &Connection, source: &SourcePath, blob: &BlobId) -> Result<Option<String>> {
    let mut statement = connection.prepare_cached(FIND)?;
    let params = named_params! {":source": source, ":blob": blob};
    Ok(statement.query_row(params, |row| row.get(0)).optional()?)
}

/// Drops the texts of a Source from which no open Topic is placed any more; returns how many.
///
/// # Errors
/// As any write.
pub fn prune(tx: &Tx<'_>, source: &SourcePath) -> Result<usize> {
    let kept: Vec<BlobId> = tx
        .prepare_cached(BLOBS)?
        .query_map(named_params! {":source": source}, |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    if kept.is_empty() {
        return Ok(0);
    }
    let baselines = placement::baselines(tx.connection(), source)?;
    let mut dropped = 0;
    for blob in kept.iter().filter(|blob| !baselines.iter().any(|it| it.blob == **blob)) {
        let params = named_params! {":source": source, ":blob": blob};
        dropped += tx.prepare_cached(DROP)?.execute(params)?;
    }
    Ok(dropped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::fixture::{Fixture, TEXT, blob, source};

    #[test]
    fn a_text_is_kept_for_as_long_as_a_topic_is_placed_from_it() {
        let mut fixture = Fixture::new();
        fixture.topic("a.md", "rain stops");
        let a = source("a.md");
        for (path, digit, text) in [("a.md", 'a', TEXT), ("a.md", 'b', "b"), ("c.md", 'b', "c")] {
            fixture.write(|tx, _| put(tx, &source(path), &blob(digit), text)).unwrap();
        }
        fixture.write(|tx, _| put(tx, &a, &blob('b'), "again")).unwrap();
        assert_eq!(find(&fixture.connection, &a, &blob('b')).unwrap().unwrap(), "b");
        assert_eq!(fixture.write(|tx, _| prune(tx, &a)).unwrap(), 1);
        assert_eq!(find(&fixture.connection, &a, &blob('b')).unwrap(), None);
        assert_eq!(find(&fixture.connection, &a, &blob('a')).unwrap().unwrap(), TEXT);
        assert!(find(&fixture.connection, &source("c.md"), &blob('b')).unwrap().is_some());
    }
}
