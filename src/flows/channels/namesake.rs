//! Further agents of a declaration, with numbers in their names.

use rusqlite::Connection;

use crate::base::{Error, Result};
use crate::mail::agent::{self, Agent, Wanted};
use crate::store::Tx;

/// Maximum number of agents of one declaration.
const NUMBER_MAX: u32 = 10_000;

/// Returns the name of the next agent of a declaration, such as `robbo-2`.
///
/// # Errors
/// As any read.
pub(super) fn next_name(c: &Connection, declared: &str) -> Result<Option<String>> {
    for number in 2..NUMBER_MAX {
        let name = format!("{declared}-{number}");
        if agent::find(c, &name)?.is_none() {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Creates another agent of a declaration, such as `robbo-2`.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn fresh(tx: &Tx<'_>, old: &Agent, digest: &str) -> Result<Agent> {
    if let Some(name) = next_name(tx.connection(), &old.declared)? {
        let persona = old.persona.as_deref();
        agent::make(tx, (&name, &old.declared), persona, Wanted::Running, digest)?;
        return agent::find(tx.connection(), &name)?.ok_or_else(|| lost(&name));
    }
    Err(Error::conflict("too_many_agents", format!("{} has too many agents", old.declared)))
}

fn lost(name: &str) -> Error {
    Error::internal(format!("agent:{name}, which was just made, is not there"))
}
