//! Owns the table `source_renames`: what Sources that were renamed are called.
//!
//! **Invariant:** of each name the last rename is kept, so the table is no longer than the names
//! that there ever were.

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::base::{Millis, Result, SourcePath};
use crate::store::Tx;

/// How many renames of one Source are followed.
const STEPS_MAX: usize = 100;

const PUT: &str = "
    INSERT OR REPLACE INTO source_renames (from_path, at_ms, to_path) VALUES (:from, :now, :to)";
const FIND: &str = "
    SELECT at_ms, to_path FROM source_renames WHERE from_path = :from AND at_ms >= :since";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[("rename::put", PUT), ("rename::find", FIND)];

/// Writes down that a Source is called otherwise from now on.
///
/// # Errors
/// As any write.
pub fn put(tx: &Tx<'_>, from: &SourcePath, to: &SourcePath) -> Result<()> {
    let params = named_params! {":from": from, ":to": to, ":now": tx.now()};
    tx.prepare_cached(PUT)?.execute(params)?;
    Ok(())
}

/// Returns what a Source is called that had this name at a time, or at any (`Millis(0)`); none if
/// it was not renamed, or has its name again.
///
/// # Errors
/// As any read.
pub fn name_since(
    connection: &Connection,
    path: &SourcePath,
    since: Millis,
) -> Result<Option<SourcePath>> {
    let mut statement = connection.prepare_cached(FIND)?;
    let (mut name, mut at) = (path.clone(), since);
    for _ in 0..STEPS_MAX {
        let step = statement
            .query_row(named_params! {":from": name, ":since": at}, |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        let Some((then, next)) = step else { break };
        (at, name) = (then, next);
    }
    Ok((name != *path).then_some(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::fixture::{Fixture, source};

    #[test]
    fn a_name_is_followed_forward_in_time_only() {
        let mut fixture = Fixture::new();
        let start = fixture.clock.now();
        let mut at = Vec::new();
        for (from, to) in [("a.md", "b.md"), ("b.md", "c.md"), ("c.md", "b.md"), ("x.md", "a.md")] {
            fixture.write(|tx, _| put(tx, &source(from), &source(to))).unwrap();
            at.push(fixture.clock.now());
        }
        let name = |path: &str, since: Millis| {
            let found = name_since(&fixture.connection, &source(path), since).unwrap();
            found.map(|it| it.to_string())
        };
        // a was b, then c, then b again; the a that was x is another one.
        assert_eq!(name("a.md", start).as_deref(), Some("b.md"));
        assert_eq!(name("b.md", start), None, "it has its name again");
        assert_eq!(name("c.md", start).as_deref(), Some("b.md"));
        assert_eq!(name("x.md", start).as_deref(), Some("a.md"));
        // Who began after a rename means another Source.
        assert_eq!(name("a.md", at[1]), None);
        assert_eq!(name("c.md", at[3]), None);
        assert_eq!(name("never.md", start), None);
    }
}
