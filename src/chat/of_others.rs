//! The files of vaults that hold text of others: what an answer wrote after it had read some.
//!
//! **Invariant:** a file is noted before it is written, and stays noted although its conversation
//! is deleted.

use rusqlite::{Connection, named_params};

use crate::base::{PersonId, Result};
use crate::chat::call::Target;
use crate::store::Tx;

const NOTE: &str = "
    INSERT INTO chat_files_of_others (person_id, path, digest) VALUES (:person, :path, :digest)
    ON CONFLICT DO NOTHING";
const OF: &str = "SELECT path, digest FROM chat_files_of_others WHERE person_id = :person";

pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("chat::of_others_note", NOTE), ("chat::of_others_of", OF)];

/// Notes the file that a change leaves.
///
/// # Errors
/// As any write.
pub fn note(tx: &Tx<'_>, person: &PersonId, target: &Target) -> Result<()> {
    let path = target.to.as_ref().unwrap_or(&target.path);
    tx.prepare_cached(NOTE)?.execute(named_params! {
        ":person": person, ":path": path, ":digest": target.after,
    })?;
    Ok(())
}

/// Returns the paths of such files in a person's vault, with the digests of what was written.
///
/// # Errors
/// As any read.
pub fn of(connection: &Connection, person: &PersonId) -> Result<Vec<(String, String)>> {
    let mut statement = connection.prepare_cached(OF)?;
    let rows = statement
        .query_map(named_params! {":person": person}, |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
