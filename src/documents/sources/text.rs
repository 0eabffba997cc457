//! Owns the table `source_texts`: uncommitted texts of Sources on which somebody opened a Topic.
//! Git need not keep such a text, and the Topic is placed from it.

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::base::limit::{SOURCE_TEXTS_BYTES_MAX, SOURCE_TEXTS_MAX};
use crate::base::{BlobId, Error, Result, SourcePath};
use crate::documents::topics::placement;
use crate::store::Tx;

const PUT: &str = "
    INSERT INTO source_texts (source_path, blob, kept_ms, bytes, text)
    VALUES (:source, :blob, :now, :bytes, :text)
    ON CONFLICT (source_path, blob) DO NOTHING";
const ROOM: &str = "
    SELECT COUNT(*), COALESCE(SUM(bytes), 0) FROM source_texts
    WHERE source_path = :source AND blob <> :blob";
const FIND: &str = "SELECT text FROM source_texts WHERE source_path = :source AND blob = :blob";
const BLOBS: &str = "SELECT blob FROM source_texts WHERE source_path = :source ORDER BY blob";
const DROP: &str = "DELETE FROM source_texts WHERE source_path = :source AND blob = :blob";
const RENAME: &str = "
    UPDATE OR IGNORE source_texts SET source_path = :to WHERE source_path = :from";
const DROP_ALL: &str = "DELETE FROM source_texts WHERE source_path = :source";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[
    ("text::put", PUT),
    ("text::room", ROOM),
    ("text::find", FIND),
    ("text::blobs", BLOBS),
    ("text::drop", DROP),
    ("text::rename", RENAME),
    ("text::drop_all", DROP_ALL),
];

/// Stores the text of a version from which a Topic is placed.
///
/// # Errors
/// `conflict` with code `too_many_texts` if so many, or such large, texts of the Source are stored
/// that the next Topic has to wait for a commit.
pub fn put(tx: &Tx<'_>, source: &SourcePath, blob: &BlobId, text: &str) -> Result<()> {
    let bytes = i64::try_from(text.len()).unwrap_or(i64::MAX);
    if !has_room(tx, source, blob, bytes)? {
        prune(tx, source)?;
        if !has_room(tx, source, blob, bytes)? {
            let message =
                format!("{source} has too many versions with topics that no commit holds");
            return Err(Error::conflict("too_many_texts", message)
                .hint("commit the source, then try again"));
        }
    }
    tx.prepare_cached(PUT)?.execute(named_params! {
        ":source": source, ":blob": blob, ":now": tx.now(), ":bytes": bytes, ":text": text,
    })?;
    Ok(())
}

fn has_room(tx: &Tx<'_>, source: &SourcePath, blob: &BlobId, bytes: i64) -> Result<bool> {
    let params = named_params! {":source": source, ":blob": blob};
    let (count, sum): (i64, i64) =
        tx.prepare_cached(ROOM)?.query_row(params, |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(count < SOURCE_TEXTS_MAX && sum + bytes <= SOURCE_TEXTS_BYTES_MAX)
}

/// Returns the text of a version, if it is stored.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn find(connection: &Connection, source: &SourcePath, blob: &BlobId) -> Result<Option<String>> {
    let mut statement = connection.prepare_cached(FIND)?;
    let params = named_params! {":source": source, ":blob": blob};
    Ok(statement.query_row(params, |row| row.get(0)).optional()?)
}

/// Returns the versions of a Source whose texts are stored.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn kept(connection: &Connection, source: &SourcePath) -> Result<Vec<BlobId>> {
    let mut statement = connection.prepare_cached(BLOBS)?;
    let rows = statement.query_map(named_params! {":source": source}, |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Deletes the texts of a Source from which no open Topic is placed any more; returns how many.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn prune(tx: &Tx<'_>, source: &SourcePath) -> Result<usize> {
    let kept = kept(tx.connection(), source)?;
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

/// Moves the texts of a renamed Source to its new name. A version has the same text under any name.
///
/// # Errors
/// Fails if the database cannot be written.
pub(in crate::documents) fn rename_source(
    tx: &Tx<'_>,
    from: &SourcePath,
    to: &SourcePath,
) -> Result<()> {
    tx.prepare_cached(RENAME)?.execute(named_params! {":from": from, ":to": to})?;
    tx.prepare_cached(DROP_ALL)?.execute(named_params! {":source": from})?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::fixture::{Fixture, TEXT, blob, source};

    #[test]
    fn texts_have_room_and_those_that_nobody_needs_make_some() {
        let mut fixture = Fixture::new();
        let topic = fixture.topic("a.md", "rain stops");
        let a = source("a.md");
        let half = "x".repeat(usize::try_from(SOURCE_TEXTS_BYTES_MAX / 2 + 1).unwrap());
        let mut put = |digit: char, text: &str| {
            fixture
                .write(|tx, _| put(tx, &a, &blob(digit), text))
                .map_err(|it| it.code_str().to_owned())
        };
        assert_eq!(put('b', &half), Ok(()));
        assert_eq!(put('a', &half), Ok(()), "nobody is placed from the first one");
        assert_eq!(put('a', &half), Ok(()), "it is there already");
        assert_eq!(put('c', &half), Err("too_many_texts".to_owned()));
        assert_eq!(put('c', "short"), Ok(()));
        assert!(find(&fixture.connection, &a, &blob('b')).unwrap().is_none());
        assert_eq!(topic.anchor.unwrap().origin.blob, blob('a'));
    }

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
