//! Owns the tables beside a proposal: the revision it is based on, the additional Topics that it
//! resolves, its conflict with a newer Source, and the jobs asked to revise it.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde::Serialize;

use crate::api::proposals::{Conflicts, How, Origin, Standing};
use crate::base::limit::TOPIC_PROPOSALS_MAX;
use crate::base::{Actor, BlobId, Error, JobId, MessageId, ProposalId, Result, TopicId};
use crate::store::Tx;

/// A job asked to revise a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Rework {
    /// The job.
    pub job_id: JobId,
    /// The proposal.
    pub proposal_id: ProposalId,
    /// The requested changes: a message in the Topic.
    pub comment: String,
    /// Who requested them.
    pub asked_by: Actor,
}

const INSERT_ORIGIN: &str = "
    INSERT INTO proposal_origins (proposal_id, how, from_id, made_by)
    VALUES (:proposal, :how, :from, :by)";
const ORIGIN: &str = "
    SELECT how, from_id, made_by FROM proposal_origins WHERE proposal_id = :proposal";
const SUCCESSOR: &str = "
    SELECT proposal_id FROM proposal_origins WHERE from_id = :proposal
    ORDER BY proposal_id DESC LIMIT 1";
const INSERT_TOPIC: &str = "
    INSERT INTO proposal_topics (proposal_id, topic_id) VALUES (:proposal, :topic)";
const TOPICS: &str = "
    SELECT topic_id FROM proposal_topics WHERE proposal_id = :proposal ORDER BY topic_id";
const SETTLING: &str = "
    SELECT id FROM incorporation_proposals WHERE topic_id = :topic AND status = 'open'
    UNION
    SELECT proposal.id FROM proposal_topics AS further
    JOIN incorporation_proposals AS proposal ON proposal.id = further.proposal_id
    WHERE further.topic_id = :topic AND proposal.status = 'open'";
const PUT_CONFLICT: &str = "
    INSERT INTO proposal_conflicts (proposal_id, current_sha, found_ms, hunks_json)
    VALUES (:proposal, :current, :now, :hunks)
    ON CONFLICT (proposal_id) DO UPDATE SET current_sha = excluded.current_sha,
        found_ms = excluded.found_ms, hunks_json = excluded.hunks_json";
const CLEAR_CONFLICT: &str = "DELETE FROM proposal_conflicts WHERE proposal_id = :proposal";
const CONFLICT: &str = "
    SELECT current_sha, found_ms, hunks_json FROM proposal_conflicts
    WHERE proposal_id = :proposal";
const INSERT_REWORK: &str = "
    INSERT INTO proposal_reworks (job_id, proposal_id, message_id, asked_by)
    VALUES (:job, :proposal, :message, :by)";
const REPEAT_REWORK: &str = "
    INSERT INTO proposal_reworks (job_id, proposal_id, message_id, asked_by)
    SELECT :job, proposal_id, message_id, asked_by FROM proposal_reworks WHERE job_id = :old";
const REWORK_OF_JOB: &str = "
    SELECT rework.job_id, rework.proposal_id, rework.asked_by, message.body
    FROM proposal_reworks AS rework JOIN topic_messages AS message ON message.id = message_id
    WHERE rework.job_id = :job";
const LAST_REWORK: &str = "
    SELECT rework.job_id, rework.proposal_id, rework.asked_by, message.body
    FROM proposal_reworks AS rework JOIN topic_messages AS message ON message.id = message_id
    WHERE rework.proposal_id = :proposal ORDER BY rework.job_id DESC LIMIT 1";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[
    ("lineage::insert_origin", INSERT_ORIGIN),
    ("lineage::origin", ORIGIN),
    ("lineage::successor", SUCCESSOR),
    ("lineage::insert_topic", INSERT_TOPIC),
    ("lineage::topics", TOPICS),
    ("lineage::settling", SETTLING),
    ("lineage::put_conflict", PUT_CONFLICT),
    ("lineage::clear_conflict", CLEAR_CONFLICT),
    ("lineage::conflict", CONFLICT),
    ("lineage::insert_rework", INSERT_REWORK),
    ("lineage::repeat_rework", REPEAT_REWORK),
    ("lineage::rework_of_job", REWORK_OF_JOB),
    ("lineage::last_rework", LAST_REWORK),
];

/// Records the origin of a new revision.
///
/// # Errors
/// Fails if the database cannot be written.
pub(super) fn insert_origin(tx: &Tx<'_>, proposal: &ProposalId, origin: &Origin) -> Result<()> {
    tx.prepare_cached(INSERT_ORIGIN)?.execute(named_params! {
        ":proposal": proposal, ":how": origin.how, ":from": origin.from_id,
        ":by": origin.made_by,
    })?;
    Ok(())
}

/// Returns the origin of a revision; `None` if a job made it from the Source alone.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn origin(connection: &Connection, proposal: &ProposalId) -> Result<Option<Origin>> {
    let mut statement = connection.prepare_cached(ORIGIN)?;
    let found = statement.query_row(named_params! {":proposal": proposal}, |row| {
        Ok(Origin {
            how: row.get("how")?,
            from_id: row.get("from_id")?,
            made_by: row.get("made_by")?,
            made_by_name: None,
        })
    });
    Ok(found.optional()?)
}

/// Returns the newest revision based on this one.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn successor(connection: &Connection, proposal: &ProposalId) -> Result<Option<ProposalId>> {
    let mut statement = connection.prepare_cached(SUCCESSOR)?;
    let found = statement.query_row(named_params! {":proposal": proposal}, |row| row.get(0));
    Ok(found.optional()?)
}

/// Returns who edited the text of a proposal, in order. After an agent's revision the earlier edits
/// count as the agent's, unless the engine that applies suggestions made it, which keeps them
/// (`is_applied`).
///
/// # Errors
/// Fails if the database cannot be read.
pub fn editors(
    connection: &Connection,
    proposal: &ProposalId,
    is_applied: bool,
) -> Result<Vec<Actor>> {
    let mut editors = Vec::new();
    let mut at = proposal.clone();
    // A revision is based on an earlier one, so the chain is no longer than the Topic's proposals.
    for _ in 0..TOPIC_PROPOSALS_MAX {
        let Some(origin) = origin(connection, &at)? else { break };
        match origin.how {
            How::Reworked if !is_applied => break,
            How::Reworked | How::Merged => {}
            How::Edited => {
                editors.retain(|it| *it != origin.made_by);
                editors.insert(0, origin.made_by);
            }
        }
        at = origin.from_id;
    }
    Ok(editors)
}

/// Returns whether a person has edited the text of a proposal, or of one that it was made from.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn is_edited(connection: &Connection, proposal: &ProposalId) -> Result<bool> {
    let mut at = proposal.clone();
    for _ in 0..TOPIC_PROPOSALS_MAX {
        let Some(origin) = origin(connection, &at)? else { break };
        if origin.how == How::Edited {
            return Ok(true);
        }
        at = origin.from_id;
    }
    Ok(false)
}

/// Records the additional Topics that a proposal resolves.
///
/// # Errors
/// Fails if the database cannot be written.
pub(super) fn insert_topics(tx: &Tx<'_>, proposal: &ProposalId, further: &[TopicId]) -> Result<()> {
    for topic in further {
        let params = named_params! {":proposal": proposal, ":topic": topic};
        tx.prepare_cached(INSERT_TOPIC)?.execute(params)?;
    }
    Ok(())
}

/// Returns the additional Topics that a proposal resolves.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn further_topics(connection: &Connection, proposal: &ProposalId) -> Result<Vec<TopicId>> {
    let mut statement = connection.prepare_cached(TOPICS)?;
    let rows = statement.query_map(named_params! {":proposal": proposal}, |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns the open proposals that resolve a Topic, oldest first, including those of other Topics.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn settling(connection: &Connection, topic: &TopicId) -> Result<Vec<ProposalId>> {
    let mut statement = connection.prepare_cached(SETTLING)?;
    let rows = statement.query_map(named_params! {":topic": topic}, |row| row.get(0))?;
    let mut found: Vec<ProposalId> = rows.collect::<rusqlite::Result<_>>()?;
    found.sort();
    Ok(found)
}

/// Records why a proposal cannot be rebased onto a version of its Source.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn put_conflict(
    tx: &Tx<'_>,
    proposal: &ProposalId,
    current: &BlobId,
    conflicts: &Conflicts,
) -> Result<()> {
    let hunks = serde_json::to_string(conflicts)
        .map_err(|cause| Error::internal("conflicts are not JSON").source(cause))?;
    tx.prepare_cached(PUT_CONFLICT)?.execute(named_params! {
        ":proposal": proposal, ":current": current, ":now": tx.now(), ":hunks": hunks,
    })?;
    Ok(())
}

/// Deletes a conflict: the Source is again the proposal's base.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn clear_conflict(tx: &Tx<'_>, proposal: &ProposalId) -> Result<()> {
    tx.prepare_cached(CLEAR_CONFLICT)?.execute(named_params! {":proposal": proposal})?;
    Ok(())
}

/// Returns why a proposal cannot be rebased onto the current version of its Source, if so.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn conflict(connection: &Connection, proposal: &ProposalId) -> Result<Option<Standing>> {
    let mut statement = connection.prepare_cached(CONFLICT)?;
    let found = statement.query_row(named_params! {":proposal": proposal}, |row| {
        let hunks: String = row.get("hunks_json")?;
        Ok((row.get("current_sha")?, row.get("found_ms")?, hunks))
    });
    let Some((current_sha, found_at, hunks)) = found.optional()? else { return Ok(None) };
    let conflicts = serde_json::from_str(&hunks)
        .map_err(|cause| Error::internal("a conflict on record is not JSON").source(cause))?;
    Ok(Some(Standing { current_sha, found_at, conflicts }))
}

/// Records that a job revises a proposal, with the message that requests it.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn ask_rework(
    tx: &Tx<'_>,
    job: &JobId,
    proposal: &ProposalId,
    message: &MessageId,
    by: &Actor,
) -> Result<()> {
    tx.prepare_cached(INSERT_REWORK)?.execute(named_params! {
        ":job": job, ":proposal": proposal, ":message": message, ":by": by,
    })?;
    Ok(())
}

/// Copies a job's revision request to its retry, if it has one.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn repeat_rework(tx: &Tx<'_>, job: &JobId, old: &JobId) -> Result<()> {
    tx.prepare_cached(REPEAT_REWORK)?.execute(named_params! {":job": job, ":old": old})?;
    Ok(())
}

/// Returns what a job is to revise; `None` if it starts from the Source alone.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn rework_of_job(connection: &Connection, job: &JobId) -> Result<Option<Rework>> {
    let mut statement = connection.prepare_cached(REWORK_OF_JOB)?;
    Ok(statement.query_row(named_params! {":job": job}, rework).optional()?)
}

/// Returns the last job asked to revise a proposal.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn last_rework(connection: &Connection, proposal: &ProposalId) -> Result<Option<Rework>> {
    let mut statement = connection.prepare_cached(LAST_REWORK)?;
    Ok(statement.query_row(named_params! {":proposal": proposal}, rework).optional()?)
}

fn rework(row: &Row<'_>) -> rusqlite::Result<Rework> {
    Ok(Rework {
        job_id: row.get("job_id")?,
        proposal_id: row.get("proposal_id")?,
        comment: row.get("body")?,
        asked_by: row.get("asked_by")?,
    })
}
