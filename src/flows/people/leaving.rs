//! What ends with a person's right to write: private jobs, and requests that only they could
//! decide.

use crate::approvals::{self, Decision, State};
use crate::base::{Actor, ErrorKind, Ids, PersonId, Result, fault};
use crate::chat::RECORD_BELL;
use crate::flows::jobs::cancel::{self, cancel_waiting};
use crate::jobs::{self, Capacities};
use crate::store::Tx;

/// Cancels the waiting and running private jobs of a person, and withdraws the approvals that only
/// they could decide.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn end_private(
    tx: &Tx<'_>,
    person: &PersonId,
    by: &Actor,
    (ids, lanes): (&Ids, &Capacities),
) -> Result<()> {
    if fault::is_off("leaving") {
        return Ok(());
    }
    for job in jobs::active_of_owner(tx.connection(), person)? {
        if cancel_waiting(tx, ids, &job, by, lanes)? {
            continue;
        }
        match cancel::request(tx, &job, by) {
            // A job that is already ending is left alone.
            Err(cause) if cause.kind() == ErrorKind::Conflict => {}
            done => done?,
        }
    }
    for id in approvals::pending_of_person(tx.connection(), person)? {
        let decision = Decision {
            state: State::Withdrawn,
            changes: None,
            note: Some("its person may not decide any more".to_owned()),
            version: None,
        };
        let withdrawn = approvals::decide(tx, &id, by, &decision)?;
        if let Some(job) = &withdrawn.job_id {
            jobs::stop_waiting(tx, job, &id)?;
        }
        if let Some(job) = jobs::parked_for(tx.connection(), &id)? {
            jobs::resume(tx, ids, &job, (by, lanes))?;
        }
    }
    Ok(())
}

/// Lifts the holds on a person's own subscriptions, and has the files of their sign-ins removed.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn end_sign_ins(tx: &Tx<'_>, person: &PersonId) -> Result<()> {
    jobs::release_all_of(tx, person)?;
    tx.ring(RECORD_BELL);
    Ok(())
}
