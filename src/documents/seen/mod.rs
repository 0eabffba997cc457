//! Owns the tables `repository_seen` and `sources_dirty`: the state of the repository at the last
//! scan, so that later changes are noticed even after a restart.

mod folders;
mod look;

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::base::{BlobId, Millis, Result, SourcePath, fault};
use crate::store::Tx;

pub(in crate::documents) use look::Moved;

/// The scanned state of the working tree's Sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The checked-out commit; `None` before the first one.
    pub head: Option<BlobId>,
    /// The Sources that differed from it, with their version in the working tree; `None` if the
    /// file is gone, untracked, too large or not a regular file. All others were as committed.
    pub dirty: BTreeMap<SourcePath, Option<BlobId>>,
    /// When it was scanned.
    pub at: Millis,
}

/// Where to scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Everywhere.
    All,
    /// Only these paths: nothing else has changed.
    Paths(BTreeSet<SourcePath>),
}

/// A Source that changed since the last scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceChange {
    /// Its path.
    pub path: SourcePath,
    /// The current version in the working tree; `None` if the Source no longer exists.
    pub blob: Option<BlobId>,
    /// The committed version.
    pub head_blob: Option<BlobId>,
    /// Whether the working tree is as committed.
    pub is_clean: bool,
}

/// The result of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The current state.
    pub seen: Seen,
    /// The current branch, `refs/heads/…`.
    pub branch: Option<String>,
    /// The changes since the last scan, ordered by path.
    pub changes: Vec<SourceChange>,
    /// Whether the changes cannot be determined because the previous commit is gone.
    pub is_all_new: bool,
}

const FIND: &str = "SELECT head, seen_ms FROM repository_seen WHERE one = 1";
const DIRTY: &str = "
    SELECT source_path, blob FROM sources_dirty WHERE source_path > '' ORDER BY source_path";
const PUT: &str = "
    INSERT INTO repository_seen (one, head, seen_ms) VALUES (1, :head, :now)
    ON CONFLICT (one) DO UPDATE SET head = excluded.head, seen_ms = excluded.seen_ms";
const PUT_DIRTY: &str = "
    INSERT INTO sources_dirty (source_path, blob) VALUES (:path, :blob)
    ON CONFLICT (source_path) DO UPDATE SET blob = excluded.blob";
const DROP_DIRTY: &str = "DELETE FROM sources_dirty WHERE source_path = :path";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[
    ("seen::find", FIND),
    ("seen::dirty", DIRTY),
    ("seen::put", PUT),
    ("seen::put_dirty", PUT_DIRTY),
    ("seen::drop_dirty", DROP_DIRTY),
];

/// Returns the last scan; `None` before the first one.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn find(connection: &Connection) -> Result<Option<Seen>> {
    let mut statement = connection.prepare_cached(FIND)?;
    let found = statement.query_row([], |row| Ok((row.get("head")?, row.get("seen_ms")?)));
    let Some((head, at)) = found.optional()? else { return Ok(None) };
    let mut statement = connection.prepare_cached(DIRTY)?;
    let rows = statement.query_map([], |row| Ok((row.get("source_path")?, row.get("blob")?)))?;
    Ok(Some(Seen { head, dirty: rows.collect::<rusqlite::Result<_>>()?, at }))
}

/// Stores a scan, in the transaction that reports it. `before` is the stored one.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn put(tx: &Tx<'_>, before: Option<&Seen>, now: &Seen) -> Result<()> {
    if before.is_some() && fault::is_off("seen_record") {
        return Ok(());
    }
    tx.prepare_cached(PUT)?.execute(named_params! {":head": now.head, ":now": tx.now()})?;
    let empty = BTreeMap::new();
    let known = before.map_or(&empty, |it| &it.dirty);
    for path in known.keys().filter(|it| !now.dirty.contains_key(*it)) {
        tx.prepare_cached(DROP_DIRTY)?.execute(named_params! {":path": path})?;
    }
    for (path, blob) in now.dirty.iter().filter(|(path, blob)| known.get(*path) != Some(blob)) {
        tx.prepare_cached(PUT_DIRTY)?.execute(named_params! {":path": path, ":blob": blob})?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::fixture::{Fixture, blob, source};

    #[test]
    fn what_was_seen_is_found_again() {
        let mut fixture = Fixture::new();
        assert_eq!(find(&fixture.connection).unwrap(), None);
        let mut seen = Seen {
            head: None,
            dirty: [("a.md", Some('a')), ("b.md", None), ("c.md", Some('c'))]
                .map(|(path, digit)| (source(path), digit.map(blob)))
                .into(),
            at: fixture.clock.now(),
        };
        fixture.write(|tx, _| put(tx, None, &seen)).unwrap();
        assert_eq!(find(&fixture.connection).unwrap().unwrap(), seen);
        let before = seen.clone();
        seen.head = Some(blob('d'));
        seen.dirty.remove(&source("a.md"));
        seen.dirty.insert(source("b.md"), Some(blob('b')));
        seen.at = fixture.clock.now();
        fixture.write(|tx, _| put(tx, Some(&before), &seen)).unwrap();
        assert_eq!(find(&fixture.connection).unwrap().unwrap(), seen);
    }
}
