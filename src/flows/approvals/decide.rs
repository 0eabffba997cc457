//! A person's decision on an approval, and the effects of its end.

use std::slice;

use serde::Deserialize;
use serde_json::Value;

use crate::approvals::{self, Approval, Decision, Sort, State, Viewer};
use crate::base::{ApprovalId, Error, Result, fault};
use crate::flows::Site;
use crate::flows::approvals::{daily_cap, named, notice, resume, schema, settle};
use crate::flows::assistant::right;
use crate::people::Caller;

/// The body of `POST /api/approvals/{id}/approve` and `…/reject`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DecideRequest {
    /// The version that the person saw.
    pub version: i64,
    /// The complete changed payload; without it, the payload is approved as it is.
    #[serde(default)]
    pub changes: Option<Value>,
    /// A comment on the decision.
    #[serde(default)]
    pub note: Option<String>,
}

/// The answer of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Approved, perhaps with a changed payload.
    Approve,
    /// Rejected.
    Reject,
}

/// Decides an approval.
///
/// # Errors
/// `conflict` with codes `approval_decided`, `version_changed`, and `run_ended` for a call of an
/// answer that has ended; `invalid` with code
/// `bad_payload` and the path; `cannot_resume` if a job is parked for it that the script of now
/// cannot go on with; `forbidden` for viewers, jobs and tokens without the scope, and with code
/// `not_named` for a call of somebody who may no longer use the assistant; `not_found`, with code
/// `no_tool` for a call of a tool that was withdrawn.
pub async fn decide(
    site: &Site,
    caller: &Caller,
    id: &ApprovalId,
    answer: Answer,
    request: DecideRequest,
) -> Result<Approval> {
    let person = caller.may_decide()?.id.clone();
    if answer == Answer::Reject && request.changes.is_some() {
        return Err(Error::invalid("a rejection cannot include changes")
            .code("bad_parameter")
            .hint("approve with changes, or reject with a note"));
    }
    let viewer = Viewer::Person(person.clone());
    let (asked, wanted) = (viewer.clone(), id.clone());
    let texts = site.store.read(move |c| {
        let sort = approvals::find(c, &wanted, &asked)?.sort;
        Ok((approvals::texts(c, &wanted)?, sort))
    });
    let (texts, sort) = texts.await?;
    if sort == Sort::Call && request.changes.is_some() {
        return Err(Error::invalid("a call can only be allowed as it is, or rejected")
            .code("no_changes")
            .hint("decline it and say what you want instead"));
    }
    // An unchanged payload is approved as it is.
    let changes = request.changes.filter(|it| *it != texts.payload);
    let changes = match changes {
        Some(changes) => Some(checked(texts.schema, changes).await?),
        None => None,
    };
    let state = match (answer, &changes) {
        (Answer::Reject, _) => State::Rejected,
        (Answer::Approve, None) => State::Approved,
        (Answer::Approve, Some(_)) => State::Amended,
    };
    let decision = Decision { state, changes, note: request.note, version: Some(request.version) };
    let (id, by, works) = (id.clone(), caller.actor(), site.works.clone());
    let tool = (sort == Sort::Call && answer == Answer::Approve)
        .then(|| texts.payload["tool"].as_str().unwrap_or_default().to_owned());
    let decided = site.store.write(move |tx| {
        approvals::find(tx.connection(), &id, &viewer)?;
        resume::refuse_lost(tx.connection(), &works, &id)?;
        if let Some(tool) = tool.as_deref().filter(|_| !fault::is_off("named_now")) {
            right::check(tx.connection(), &works, (&person, tool))?;
        }
        let decided = settle(tx, &id, &by, &decision)?;
        resume::go_on(tx, &works, &decided, &by)?;
        notice::send(tx, &works, &decided, &by)?;
        let mut decided = named(tx.connection(), decided)?;
        daily_cap::fill(tx.connection(), &works, slice::from_mut(&mut decided))?;
        Ok(decided)
    });
    let decided = decided.await;
    fault::crash_point("after_decision");
    decided
}

async fn checked(schema: Option<Value>, changes: Value) -> Result<Value> {
    let checking = tokio::task::spawn_blocking(move || {
        schema::require(schema.as_ref(), &changes)?;
        Ok(changes)
    });
    checking.await.map_err(|_| Error::internal("a check of a schema panicked").code("panic"))?
}
