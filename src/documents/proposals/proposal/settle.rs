//! Decides proposals: approved, rejected, stale, superseded or void.

use rusqlite::{Connection, named_params};
use serde_json::{Value, json};

use crate::api::proposals::{Proposal, ProposalStatus};
use crate::base::limit::SUMMARY_BYTES_MAX;
use crate::base::{
    Actor, BlobId, Error, Event, EventKind, JobId, Millis, ProposalId, Result, SourcePath, TopicId,
};
use crate::documents::proposals::attempt;
use crate::documents::proposals::proposal::{find, lineage};
use crate::documents::word::check_text;
use crate::store::Tx;

/// The code of a decided proposal.
pub const ALREADY_DECIDED: &str = "already_decided";
/// The code of a proposal for an older version of its document.
pub const STALE_BASE: &str = "stale_base";
/// The code of a proposal that a later revision replaced.
pub const SUPERSEDED: &str = "superseded";

pub(super) const DECIDE: &str = "
    UPDATE incorporation_proposals
    SET status = :status, decided_by = :by, decided_ms = :now, reason = :reason
    WHERE id = :id AND status = 'open'";
pub(super) const OPEN_OF_JOB: &str = "
    SELECT id, topic_id, revision_number FROM incorporation_proposals
    WHERE job_id = :job AND status = 'open' ORDER BY id";
pub(super) const APPROVED_SINCE: &str = "
    SELECT 1 FROM incorporation_proposals
    WHERE proposed_sha = :blob AND status = 'approved' AND source_path = :path
          AND decided_ms >= :since LIMIT 1";
pub(super) const OPEN_OF_TOPIC: &str = "
    SELECT id, topic_id, revision_number FROM incorporation_proposals
    WHERE topic_id = :topic AND revision_number < :before AND status = 'open'
    ORDER BY revision_number";

/// Marks a proposal as approved, in the transaction that records its commit. Other open proposals
/// that resolve one of its Topics are superseded.
///
/// # Errors
/// `not_found`; `conflict` if it is already decided.
pub fn approve(tx: &Tx<'_>, id: &ProposalId, actor: &Actor, commit: &BlobId) -> Result<()> {
    let proposal = find(tx.connection(), id)?;
    decide(tx, id, ProposalStatus::Approved, actor, None, json!({"commit": commit}))?;
    supersede_sharing(tx, &proposal, |_| true, actor)
}

/// Refuses a proposal that cannot be decided because it is not open or is being approved.
///
/// # Errors
/// `not_found`; `branch_busy`, `superseded`, `stale_base`, `job_failed`, `already_decided`.
pub fn require_open(tx: &Tx<'_>, id: &ProposalId) -> Result<Proposal> {
    let proposal = find(tx.connection(), id)?;
    if proposal.status != ProposalStatus::Open {
        return Err(refusal(&proposal));
    }
    refuse_unfinished(tx.connection(), id)?;
    Ok(proposal)
}

/// Refuses while the approval of a proposal is not finished: its commit may exist already.
///
/// # Errors
/// `conflict` with code `branch_busy`, and what it waits for, if it could not be finished.
pub fn refuse_unfinished(connection: &Connection, id: &ProposalId) -> Result<()> {
    if !attempt::is_prepared(connection, id)? {
        return Ok(());
    }
    Err(match attempt::waits_for(connection, id)? {
        None => Error::conflict("branch_busy", format!("proposal {id} is being approved"))
            .hint("try again in a moment"),
        Some(why) => {
            let message = format!("the approval of proposal {id} is not finished: {why}");
            Error::conflict("branch_busy", message).hint(
                "leave its document as it is. Once nothing is in the way, the approval is finished \
                 within seconds, or taken back if that is impossible",
            )
        }
    })
}

/// Supersedes a proposal by a revision based on it.
pub(super) fn replace(tx: &Tx<'_>, id: &ProposalId, actor: &Actor) -> Result<()> {
    require_open(tx, id)?;
    lineage::clear_conflict(tx, id)?;
    decide(tx, id, ProposalStatus::Superseded, actor, None, json!({}))
}

/// Returns whether a version of a Source was approved since a time.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn was_approved_since(
    connection: &Connection,
    path: &SourcePath,
    blob: &BlobId,
    since: Millis,
) -> Result<bool> {
    let mut statement = connection.prepare_cached(APPROVED_SINCE)?;
    let params = named_params! {":path": path, ":blob": blob, ":since": since};
    Ok(statement.exists(params)?)
}

/// Rejects a proposal with a reason.
///
/// # Errors
/// `not_found`; `conflict` if it is already decided; `invalid` or `too_large` for the reason.
pub fn reject(tx: &Tx<'_>, id: &ProposalId, actor: &Actor, reason: &str) -> Result<()> {
    check_text("reason", reason, SUMMARY_BYTES_MAX)?;
    decide(tx, id, ProposalStatus::Rejected, actor, Some(reason), json!({}))
}

/// Marks a proposal as stale because the Source already contains all of its changes.
///
/// # Errors
/// `not_found`; `conflict` if it is already decided.
pub fn mark_stale(tx: &Tx<'_>, id: &ProposalId) -> Result<()> {
    let reason = "the source has all of this change already";
    decide(tx, id, ProposalStatus::Stale, &Actor::System, Some(reason), json!({}))
}

/// Settles the open proposals of a job that has ended: void if it failed; if it succeeded, earlier
/// open proposals that resolve one of the same Topics are superseded.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn settle_job(tx: &Tx<'_>, job: &JobId, succeeded: bool, actor: &Actor) -> Result<()> {
    for open in open_of_job(tx, job)? {
        if succeeded {
            supersede_of_topic(tx, &open.topic_id, open.revision_number, actor)?;
            let proposal = find(tx.connection(), &open.id)?;
            supersede_sharing(tx, &proposal, |it| *it < proposal.id, actor)?;
        } else {
            let reason = Some("its job did not succeed");
            decide(tx, &open.id, ProposalStatus::Void, actor, reason, json!({}))?;
        }
    }
    Ok(())
}

/// Supersedes a job's earlier proposals.
pub(super) fn supersede_of_job(tx: &Tx<'_>, job: &JobId, actor: &Actor) -> Result<()> {
    for open in open_of_job(tx, job)? {
        decide(tx, &open.id, ProposalStatus::Superseded, actor, None, json!({}))?;
    }
    Ok(())
}

/// Supersedes the open revisions of a Topic below a number.
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

/// Supersedes those other open proposals with a common Topic for which `is_meant` holds.
fn supersede_sharing(
    tx: &Tx<'_>,
    proposal: &Proposal,
    is_meant: impl Fn(&ProposalId) -> bool,
    actor: &Actor,
) -> Result<()> {
    for topic in &proposal.topic_ids {
        for other in lineage::settling(tx.connection(), topic)? {
            if other != proposal.id && is_meant(&other) {
                decide(tx, &other, ProposalStatus::Superseded, actor, None, json!({}))?;
            }
        }
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
        // Its commit may exist already, so only the approval itself may decide it. Automatic
        // decisions (stale, superseded, void) skip it; a person gets an error.
        return match status {
            ProposalStatus::Rejected => refuse_unfinished(tx.connection(), id),
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

/// Returns the error for a proposal that is not open, with a hint where to continue.
pub fn refusal(proposal: &Proposal) -> Error {
    let id = &proposal.id;
    match proposal.status {
        ProposalStatus::Superseded => {
            let error =
                Error::conflict(SUPERSEDED, format!("a later revision replaced proposal {id}"));
            match &proposal.superseded_by {
                Some(later) => error.hint(format!("review proposal {later}")),
                None => error.hint("review the latest revision of the topic"),
            }
        }
        ProposalStatus::Void => {
            Error::conflict("job_failed", format!("the job of proposal {id} did not succeed"))
                .hint("start the job again")
        }
        ProposalStatus::Stale => {
            let message = format!("the source has changed since proposal {id} was made");
            Error::conflict(STALE_BASE, message).hint("request changes, or start a new job")
        }
        ProposalStatus::Approved => {
            let commit = proposal.commit.as_ref().map(|it| format!(" as commit {it}"));
            let message =
                format!("proposal {id} is approved already{}", commit.unwrap_or_default());
            Error::conflict(ALREADY_DECIDED, message).hint("nothing left to do")
        }
        ProposalStatus::Open | ProposalStatus::Rejected => {
            Error::conflict(ALREADY_DECIDED, format!("proposal {id} is {}", proposal.status))
                .hint("start another job on the topic; it gets the reason")
        }
    }
}
