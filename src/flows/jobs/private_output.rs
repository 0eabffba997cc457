//! What a long-running agent prints holds its answers to everybody who writes to it, also in
//! private: it is for admins, and for whoever is the only person that has written to it directly.

use rusqlite::Connection;

use crate::base::{Actor, Error, Result};
use crate::mail;
use crate::people::{Caller, Role};

/// The code of an output that may hold what an agent told somebody else in private.
pub const PRIVATE_OUTPUT: &str = "private_output";

/// Refuses a person the output of an agent that may hold what others said to it in private.
///
/// # Errors
/// `not_found` with code `private_output`.
pub(in crate::flows) fn require_open_output(
    c: &Connection,
    caller: &Caller,
    agent: &str,
) -> Result<()> {
    let Caller::Person { person, .. } = caller else { return Ok(()) };
    let own = Actor::Person(person.id.clone());
    if person.role == Role::Admin || mail::other_person(c, agent, &own)?.is_none() {
        return Ok(());
    }
    let message = format!("the output of agent:{agent} is private: others have written to it");
    Err(Error::not_found(message).code(PRIVATE_OUTPUT).hint("only admins can read it now"))
}
