//! Withdrawing a request: by its requester, or because the requesting job ended.

use serde::Deserialize;

use crate::approvals::{self, Approval, Decision, State};
use crate::base::{Actor, ApprovalId, Error, ErrorKind, Result};
use crate::flows::approvals::{named, settle, viewer};
use crate::flows::{Site, agents};
use crate::jobs::{self, Job, Reason};
use crate::people::Caller;
use crate::store::Tx;

/// The optional body of `POST /api/approvals/{id}/withdraw`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WithdrawRequest {
    /// The version that the requester saw.
    #[serde(default)]
    pub version: Option<i64>,
    /// The reason.
    #[serde(default)]
    pub note: Option<String>,
}

/// Withdraws an approval.
///
/// # Errors
/// `conflict` with codes `approval_decided` and `version_changed`; `forbidden` with code
/// `not_requester`; `not_found`.
pub async fn withdraw(
    site: &Site,
    caller: &Caller,
    id: &ApprovalId,
    request: WithdrawRequest,
) -> Result<Approval> {
    if !caller.is_job() {
        caller.may_write()?;
    }
    let (id, caller) = (id.clone(), caller.clone());
    let decision = Decision {
        state: State::Withdrawn,
        changes: None,
        note: request.note,
        version: request.version,
    };
    let withdrawn = site.store.write(move |tx| {
        if let Caller::Job { token_hash, .. } = &caller {
            agents::block(tx, &jobs::fence(tx, token_hash)?, false)?;
        }
        let found = approvals::find(tx.connection(), &id, &viewer(tx.connection(), &caller)?)?;
        // A later leg may withdraw a request of an earlier one; other jobs cannot find it.
        if !caller.is_job() && found.requester != caller.actor() {
            let message = format!("only the requester of approval {id} can withdraw it");
            return Err(Error::new(ErrorKind::Forbidden, message)
                .code("not_requester")
                .hint("reject it instead"));
        }
        let withdrawn = settle(tx, &id, &caller.actor(), &decision)?;
        if let Some(job) = &withdrawn.job_id {
            jobs::stop_waiting(tx, job, &id)?;
        }
        named(tx.connection(), withdrawn)
    });
    withdrawn.await
}

/// Withdraws the requests of a job and its earlier legs once the last leg has ended, because nobody
/// would receive the answer.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn settle_job(tx: &Tx<'_>, job: &Job) -> Result<()> {
    if !job.status.is_final() || job.reason == Some(Reason::Resumed) {
        return Ok(());
    }
    settle_cancelled(tx, job)
}

/// Withdraws the requests of a job that is ending because somebody cancelled it: a decision that
/// came before its processes are gone would change nothing.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn settle_cancelled(tx: &Tx<'_>, job: &Job) -> Result<()> {
    for id in approvals::pending_of_root(tx.connection(), job.root())? {
        let decision = Decision {
            state: State::Withdrawn,
            changes: None,
            note: Some(format!("job {} ended", job.id)),
            version: None,
        };
        approvals::decide(tx, &id, &Actor::System, &decision)?;
    }
    Ok(())
}
