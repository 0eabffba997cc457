//! Who may use the assistant and which tools it has, by the active script.
//!
//! **Invariant:** an answer keeps the script that it began with, but no right that was taken away
//! since: a decision and an act are judged by the script that is active at that moment.

use std::sync::Arc;

use rusqlite::Connection;

use crate::base::{Actor, Error, ErrorKind, Ids, PersonId, Result, fault};
use crate::chat;
use crate::flows::Works;
use crate::flows::jobs::cancel::{self, cancel_waiting};
use crate::jobs::{self, Capacities};
use crate::people::{self, Person, Role};
use crate::script::{Assistant, Config, Mode, Policy};
use crate::store::Tx;

/// The code of a tool that the script does not allow.
pub(super) const NO_TOOL: &str = "no_tool";

/// Returns the active script, also for a handle that holds an older one.
pub(super) fn script(works: &Works) -> Arc<Config> {
    match fault::is_off("call_right") {
        true => Arc::clone(&works.config),
        false => Arc::clone(&works.scripts.current().config),
    }
}

/// Returns a person who may use the assistant now.
///
/// # Errors
/// As any read.
pub(super) fn owner(c: &Connection, works: &Works, id: &PersonId) -> Result<Option<Person>> {
    let script = script(works);
    let Some(assistant) = &script.assistant else { return Ok(None) };
    let may = |it: &Person| {
        it.disabled_at.is_none() && it.role != Role::Viewer && assistant.admits(&it.name)
    };
    Ok(people::find(c, id)?.filter(may))
}

/// Returns when a tool asks.
///
/// # Errors
/// `not_found` with code `no_tool` for a tool that is not allowed.
pub(super) fn policy(assistant: &Assistant, tool: &str) -> Result<Policy> {
    assistant.tools.get(tool).copied().ok_or_else(|| {
        Error::not_found(format!("the tool {tool} is not allowed here"))
            .code(NO_TOOL)
            .hint("an admin names it in `tools` of wb.assistant")
    })
}

/// Checks that a person may allow a call of a tool now.
///
/// # Errors
/// `forbidden` with code `not_named`; `not_found` with code `no_tool`.
pub(in crate::flows) fn check(
    c: &Connection,
    works: &Works,
    (person, tool): (&PersonId, &str),
) -> Result<()> {
    let script = script(works);
    match (owner(c, works, person)?, &script.assistant) {
        (Some(_), Some(assistant)) => policy(assistant, tool).map(|_| ()),
        _ => Err(Error::new(ErrorKind::Forbidden, "you may no longer use the assistant")
            .code("not_named")
            .hint("an admin names you in `persons` of wb.assistant; you may still decline")),
    }
}

/// Stops the answers of people whom a script does not name any more.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn end_runs(
    tx: &Tx<'_>,
    config: &Config,
    by: &Actor,
    (ids, lanes): (&Ids, &Capacities),
) -> Result<()> {
    if fault::is_off("named_now") {
        return Ok(());
    }
    for person in people::list(tx.connection())? {
        for job in jobs::active_of_owner(tx.connection(), &person.id)? {
            let Some(run) = chat::by_job(tx.connection(), &job)? else { continue };
            if may_go_on(config, &person, &run.mode) || cancel_waiting(tx, ids, &job, by, lanes)? {
                continue;
            }
            match cancel::request(tx, &job, by) {
                // A job that is already ending is left alone.
                Err(cause) if cause.kind() == ErrorKind::Conflict => {}
                done => done?,
            }
        }
    }
    Ok(())
}

/// Returns whether a script still names the person of an answer. A mode that it does not have any
/// more is no right of a person.
fn may_go_on(config: &Config, person: &Person, mode: &str) -> bool {
    let Some(assistant) = &config.assistant else { return false };
    let is_named =
        |it: Mode| !assistant.runtimes.contains_key(&it) || assistant.admits_to(it, &person.name);
    assistant.admits(&person.name) && Mode::parse(mode).is_none_or(is_named)
}
