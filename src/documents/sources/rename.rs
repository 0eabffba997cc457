//! Owns the table `source_renames`: the new names of renamed Sources.
//!
//! **Invariant:** only the last rename of each name is kept, so the table has at most one row per
//! name.

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::base::{Millis, Result, SourcePath};
use crate::store::Tx;

/// Most renames followed.
const STEPS_MAX: usize = 100;

const PUT: &str = "
    INSERT OR REPLACE INTO source_renames (from_path, at_ms, to_path) VALUES (:from, :now, :to)";
const FIND: &str = "
    SELECT at_ms, to_path FROM source_renames WHERE from_path = :from AND at_ms >= :since";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[("rename::put", PUT), ("rename::find", FIND)];

/// Records that a Source has a new name.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn put(tx: &Tx<'_>, from: &SourcePath, to: &SourcePath) -> Result<()> {
    let params = named_params! {":from": from, ":to": to, ":now": tx.now()};
    tx.prepare_cached(PUT)?.execute(params)?;
    Ok(())
}

/// Returns the current name of the Source that had this name at a time, or ever (`Millis(0)`);
/// `None` if it was not renamed, or has its old name again.
///
/// # Errors
/// Fails if the database cannot be read.
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
        // a became b, then c, then b again; the a that became x is another one.
        assert_eq!(name("a.md", start).as_deref(), Some("b.md"));
        assert_eq!(name("b.md", start), None, "it has its name again");
        assert_eq!(name("c.md", start).as_deref(), Some("b.md"));
        assert_eq!(name("x.md", start).as_deref(), Some("a.md"));
        // After a rename the name means another Source.
        assert_eq!(name("a.md", at[1]), None);
        assert_eq!(name("c.md", at[3]), None);
        assert_eq!(name("never.md", start), None);
    }
}
