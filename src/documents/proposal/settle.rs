//! What becomes of a proposal: approved, rejected, stale, superseded or void.

use rusqlite::named_params;
use serde_json::{Value, json};

use crate::base::limit::SUMMARY_BYTES_MAX;
use crate::base::{Actor, BlobId, Error, Event, EventKind, JobId, ProposalId, Result, TopicId};
use crate::documents::attempt;
use crate::documents::proposal::{Proposal, ProposalStatus, find};
use crate::documents::word::check_text;
use crate::store::Tx;

pub(super) const DECIDE: &str = "
    UPDATE incorporation_proposals
    SET status = :status, decided_by = :by, decided_ms = :now, reason = :reason
    WHERE id = :id AND status = 'open'";
pub(super) const OPEN_OF_JOB: &str = "
    SELECT id, topic_id, revision_number FROM incorporation_proposals
    WHERE job_id = :job AND status = 'open' ORDER BY id";
pub(super) const OPEN_OF_TOPIC: &str = "
    SELECT id, topic_id, revision_number FROM incorporation_proposals
    WHERE topic_id = :topic AND revision_number < :before AND status = 'open'
    ORDER BY revision_number";

/// Marks a proposal as approved, in the transaction that says its text is committed. Other open
/// proposals of the Topic are superseded.
///
/// # Errors
/// `not_found`, or a conflict if it is decided.
pub fn approve(tx: &Tx<'_>, id: &ProposalId, actor: &Actor, commit: &BlobId) -> Result<()> {
    let proposal = find(tx.connection(), id)?;
    decide(tx, id, ProposalStatus::Approved, actor, None, json!({"commit": commit}))?;
    supersede_of_topic(tx, &proposal.topic_id, i64::MAX, actor)
}

/// Marks a proposal as refused, with the reason.
///
/// # Errors
/// `not_found`, a conflict if it is decided, `invalid` or `too_large` for the reason.
pub fn reject(tx: &Tx<'_>, id: &ProposalId, actor: &Actor, reason: &str) -> Result<()> {
    check_text("reason", reason, SUMMARY_BYTES_MAX)?;
    decide(tx, id, ProposalStatus::Rejected, actor, Some(reason), json!({}))
}

/// Marks a proposal as made from a version that the Source no longer has.
///
/// # Errors
/// `not_found`, or a conflict if it is decided.
pub fn mark_stale(tx: &Tx<'_>, id: &ProposalId) -> Result<()> {
    let reason = "the source has changed since";
    decide(tx, id, ProposalStatus::Stale, &Actor::System, Some(reason), json!({}))
}

/// Settles the open proposals of a job that has ended: void if it did not succeed; if it did,
/// earlier open revisions of the same Topics are superseded.
///
/// # Errors
/// As any write.
pub fn settle_job(tx: &Tx<'_>, job: &JobId, succeeded: bool, actor: &Actor) -> Result<()> {
    for open in open_of_job(tx, job)? {
        if succeeded {
            supersede_of_topic(tx, &open.topic_id, open.revision_number, actor)?;
        } else {
            let reason = Some("its job did not succeed");
            decide(tx, &open.id, ProposalStatus::Void, actor, reason, json!({}))?;
        }
    }
    Ok(())
}

/// Supersedes what a job has proposed so far.
pub(super) fn supersede_of_job(tx: &Tx<'_>, job: &JobId, actor: &Actor) -> Result<()> {
    for open in open_of_job(tx, job)? {
        decide(tx, &open.id, ProposalStatus::Superseded, actor, None, json!({}))?;
    }
    Ok(())
}

/// Supersedes the open revisions of a Topic before a number.
pub(super) fn supersede_of_topic(
    tx: &Tx<'_>,
    topic: &TopicId,
    before: i64,
    actor: &Actor,
) -> Result<()> {
    let params = named_params! {":topic": topic, ":before": before};
    for open in open_rows(tx, OPEN_OF_TOPIC, params)? {
        decide(tx, &open.id, ProposalStatus::Superseded, actor, None, json!({}))?;
    }
    Ok(())
}

struct Open {
    id: ProposalId,
    topic_id: TopicId,
    revision_number: i64,
}

fn open_of_job(tx: &Tx<'_>, job: &JobId) -> Result<Vec<Open>> {
    open_rows(tx, OPEN_OF_JOB, named_params! {":job": job})
}

fn open_rows(
    tx: &Tx<'_>,
    sql: &'static str,
    params: &[(&str, &dyn rusqlite::ToSql)],
) -> Result<Vec<Open>> {
    let mut statement = tx.prepare_cached(sql)?;
    let rows = statement.query_map(params, |row| {
        Ok(Open {
            id: row.get("id")?,
            topic_id: row.get("topic_id")?,
            revision_number: row.get("revision_number")?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn decide(
    tx: &Tx<'_>,
    id: &ProposalId,
    status: ProposalStatus,
    actor: &Actor,
    reason: Option<&str>,
    more: Value,
) -> Result<()> {
    if status != ProposalStatus::Approved && attempt::is_prepared(tx.connection(), id)? {
        // Its commit may exist already: only the end of that approval decides now. What happens by
        // itself (stale, superseded, void) passes it over; a person is told.
        return match status {
            ProposalStatus::Rejected => {
                Err(Error::conflict("branch_busy", format!("proposal {id} is being approved"))
                    .hint("look at it again in a moment"))
            }
            _ => Ok(()),
        };
    }
    let changed = tx.prepare_cached(DECIDE)?.execute(named_params! {
        ":id": id, ":status": status, ":by": actor, ":now": tx.now(), ":reason": reason,
    })?;
    let proposal = find(tx.connection(), id)?;
    if changed == 0 {
        return Err(refusal(&proposal));
    }
    let mut data = json!({
        "proposal_id": id, "topic_id": proposal.topic_id, "status": status,
        "source_path": proposal.source_path,
    });
    if let (Value::Object(data), Value::Object(more)) = (&mut data, more) {
        data.extend(more);
    }
    let subject = format!("proposal:{id}");
    let event = Event::new(EventKind::ProposalDecided, subject, actor.clone(), data);
    tx.emit(event.audited())
}

/// Says why a proposal that is not open cannot be decided.
fn refusal(proposal: &Proposal) -> Error {
    let id = &proposal.id;
    match proposal.status {
        ProposalStatus::Superseded => {
            Error::conflict("superseded", format!("a later revision replaced proposal {id}"))
                .hint("look at the latest revision of the topic")
        }
        ProposalStatus::Void => {
            Error::conflict("job_failed", format!("the job of proposal {id} did not succeed"))
                .hint("start the job again")
        }
        ProposalStatus::Stale => {
            let message = format!("the source has changed since proposal {id} was made");
            Error::conflict("stale_base", message).hint("start a new job on the present text")
        }
        ProposalStatus::Open | ProposalStatus::Approved | ProposalStatus::Rejected => {
            Error::conflict("already_decided", format!("proposal {id} is {}", proposal.status))
                .hint("wiki-browser proposal show says by whom")
        }
    }
}
