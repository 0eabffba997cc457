//! Owns what stands beside a proposal: the revision that it comes from, the further Topics that it
//! settles, its conflict with a newer Source, and the jobs that were asked to do it again.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde::Serialize;

use crate::api::proposals::{Conflicts, How, Origin, Standing};
use crate::base::limit::TOPIC_PROPOSALS_MAX;
use crate::base::{Actor, BlobId, Error, JobId, MessageId, ProposalId, Result, TopicId};
use crate::store::Tx;

/// A job that was asked to do a proposal again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Rework {
    /// The job.
    pub job_id: JobId,
    /// The proposal.
    pub proposal_id: ProposalId,
    /// What should be different: a message of the Topic.
    pub comment: String,
    /// Who asked.
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

/// Writes down where a new revision comes from.
///
/// # Errors
/// As any insert.
pub(super) fn insert_origin(tx: &Tx<'_>, proposal: &ProposalId, origin: &Origin) -> Result<()> {
    tx.prepare_cached(INSERT_ORIGIN)?.execute(named_params! {
        ":proposal": proposal, ":how": origin.how, ":from": origin.from_id,
        ":by": origin.made_by,
    })?;
    Ok(())
}

/// Returns where a revision comes from; none for one that a job made of the Source alone.
///
/// # Errors
/// As any read.
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

/// Returns the newest revision that was made from this one.
///
/// # Errors
/// As any read.
pub fn successor(connection: &Connection, proposal: &ProposalId) -> Result<Option<ProposalId>> {
    let mut statement = connection.prepare_cached(SUCCESSOR)?;
    let found = statement.query_row(named_params! {":proposal": proposal}, |row| row.get(0));
    Ok(found.optional()?)
}

/// Returns who has edited the text of a proposal, the first one first. What an agent did again
/// after an edit is the agent's.
///
/// # Errors
/// As any read.
pub fn editors(connection: &Connection, proposal: &ProposalId) -> Result<Vec<Actor>> {
    let mut editors = Vec::new();
    let mut at = proposal.clone();
    // One revision comes from an earlier one: the chain is no longer than a Topic has proposals.
    for _ in 0..TOPIC_PROPOSALS_MAX {
        let Some(origin) = origin(connection, &at)? else { break };
        match origin.how {
            How::Reworked => break,
            How::Merged => {}
            How::Edited => {
                editors.retain(|it| *it != origin.made_by);
                editors.insert(0, origin.made_by);
            }
        }
        at = origin.from_id;
    }
    Ok(editors)
}

/// Writes down which Topics a proposal settles beside its own.
///
/// # Errors
/// As any insert.
pub(super) fn insert_topics(tx: &Tx<'_>, proposal: &ProposalId, further: &[TopicId]) -> Result<()> {
    for topic in further {
        let params = named_params! {":proposal": proposal, ":topic": topic};
        tx.prepare_cached(INSERT_TOPIC)?.execute(params)?;
    }
    Ok(())
}

/// Returns the Topics that a proposal settles beside its own.
///
/// # Errors
/// As any read.
pub fn further_topics(connection: &Connection, proposal: &ProposalId) -> Result<Vec<TopicId>> {
    let mut statement = connection.prepare_cached(TOPICS)?;
    let rows = statement.query_map(named_params! {":proposal": proposal}, |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns the open proposals that settle a Topic, oldest first, whether it is their own or not.
///
/// # Errors
/// As any read.
pub fn settling(connection: &Connection, topic: &TopicId) -> Result<Vec<ProposalId>> {
    let mut statement = connection.prepare_cached(SETTLING)?;
    let rows = statement.query_map(named_params! {":topic": topic}, |row| row.get(0))?;
    let mut found: Vec<ProposalId> = rows.collect::<rusqlite::Result<_>>()?;
    found.sort();
    Ok(found)
}

/// Keeps why a proposal cannot be brought onto a version of its Source.
///
/// # Errors
/// As any write.
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

/// Forgets a conflict: the Source is again the one that the proposal was made from.
///
/// # Errors
/// As any write.
pub fn clear_conflict(tx: &Tx<'_>, proposal: &ProposalId) -> Result<()> {
    tx.prepare_cached(CLEAR_CONFLICT)?.execute(named_params! {":proposal": proposal})?;
    Ok(())
}

/// Returns why a proposal cannot be brought onto the present version of its Source, if so.
///
/// # Errors
/// As any read.
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

/// Writes down that a job does a proposal again, with the message that says what for.
///
/// # Errors
/// As any insert.
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

/// Gives a job that repeats another one the same rework, if that had one.
///
/// # Errors
/// As any insert.
pub fn repeat_rework(tx: &Tx<'_>, job: &JobId, old: &JobId) -> Result<()> {
    tx.prepare_cached(REPEAT_REWORK)?.execute(named_params! {":job": job, ":old": old})?;
    Ok(())
}

/// Returns what a job is to do again; none for a job that begins from the Source alone.
///
/// # Errors
/// As any read.
pub fn rework_of_job(connection: &Connection, job: &JobId) -> Result<Option<Rework>> {
    let mut statement = connection.prepare_cached(REWORK_OF_JOB)?;
    Ok(statement.query_row(named_params! {":job": job}, rework).optional()?)
}

/// Returns the job that was asked last to do a proposal again.
///
/// # Errors
/// As any read.
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
