//! Owns the table `incorporation_proposals`: complete texts proposed for a Source.
//!
//! **Invariant:** a proposal is decided once, by one `UPDATE … WHERE status = 'open'`.

pub mod lineage;
mod settle;

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde_json::json;

use crate::api::proposals::{How, Origin, Proposal, ProposalStatus};
use crate::api::topics::TopicStatus;
use crate::base::limit::{
    JOB_PROPOSALS_MAX, SOURCE_BYTES_MAX, SUMMARY_BYTES_MAX, TOPIC_PROPOSALS_MAX,
};
use crate::base::{
    Actor, BlobId, Error, ErrorKind, Event, EventKind, Ids, JobId, Page, PersonId, ProposalId,
    Result, SourcePath, TopicId, digest_hex,
};
use crate::documents::topics::topic;
use crate::documents::word::check_text;
use crate::store::Tx;

pub use settle::{
    ALREADY_DECIDED, STALE_BASE, SUPERSEDED, approve, mark_stale, refusal, refuse_unfinished,
    reject, require_open, settle_job, was_approved_since,
};

/// Greater than every id.
const PAST_EVERY_ID: &str = "~";

/// A proposal to be stored.
#[derive(Clone, Debug)]
pub struct NewProposal {
    /// The Topic that it resolves.
    pub topic_id: TopicId,
    /// The job whose agent made it.
    pub job_id: Option<JobId>,
    /// The person who made it.
    pub proposed_by: Option<PersonId>,
    /// The Source.
    pub source_path: SourcePath,
    /// The version that it is based on.
    pub base_source_sha: BlobId,
    /// The blob id of the text.
    pub proposed_sha: BlobId,
    /// The complete text.
    pub text: String,
    /// The proposer's summary.
    pub summary: Option<String>,
}

/// Which proposals to list.
#[derive(Clone, Debug, Default)]
pub struct ProposalFilter {
    /// Only with this status.
    pub status: Option<ProposalStatus>,
    /// Only for this Source.
    pub source_path: Option<SourcePath>,
    /// Only for this Topic.
    pub topic_id: Option<TopicId>,
    /// Only older than this one.
    pub after: Option<ProposalId>,
    /// At most this many; 0 counts as 1.
    pub limit: u32,
}

const LAST_REVISION: &str = "
    SELECT COALESCE(MAX(revision_number), 0) FROM incorporation_proposals
    WHERE topic_id = :topic";
const COUNT_OF_JOB: &str = "
    SELECT COUNT(*) FROM incorporation_proposals WHERE job_id = :job";
const INSERT: &str = "
    INSERT INTO incorporation_proposals (id, topic_id, revision_number, job_id, proposed_by,
        source_path, base_source_sha, proposed_sha, text_digest, proposed_source, summary, status,
        created_ms)
    VALUES (:id, :topic, :revision, :job, :by, :source, :base, :proposed, :digest, :text,
            :summary, 'open', :now)";
const FIND: &str = "
    SELECT id, topic_id, revision_number, job_id, proposed_by, source_path, base_source_sha,
           proposed_sha, text_digest, OCTET_LENGTH(proposed_source) AS bytes, summary, status,
           decided_by, decided_ms, reason, created_ms,
           (SELECT commit_sha FROM incorporation_attempts AS attempt
            WHERE attempt.proposal_id = proposal.id AND attempt.topic_id = proposal.topic_id
                  AND attempt.state = 'committed' LIMIT 1) AS commit_sha,
           EXISTS (SELECT 1 FROM proposal_conflicts AS conflict
                   WHERE conflict.proposal_id = proposal.id) AS has_conflict
    FROM incorporation_proposals AS proposal WHERE id = :id";
const TEXT: &str = "SELECT proposed_source FROM incorporation_proposals WHERE id = :id";
const LAST_OF_JOB: &str = "
    SELECT id FROM incorporation_proposals WHERE job_id = :job ORDER BY id DESC LIMIT 1";
const IDS: &str = "
    SELECT id FROM incorporation_proposals WHERE id < :after ORDER BY id DESC LIMIT :limit";
const IDS_BY_STATUS: &str = "
    SELECT id FROM incorporation_proposals WHERE status = :status AND id < :after
    ORDER BY id DESC LIMIT :limit";
const IDS_BY_SOURCE: &str = "
    SELECT id FROM incorporation_proposals WHERE source_path = :source AND id < :after
    ORDER BY id DESC LIMIT :limit";
const IDS_BY_SOURCE_AND_STATUS: &str = "
    SELECT id FROM incorporation_proposals
    WHERE source_path = :source AND status = :status AND id < :after
    ORDER BY id DESC LIMIT :limit";
const IDS_BY_TOPIC: &str = "
    SELECT id FROM incorporation_proposals
    WHERE topic_id = :topic AND (:status IS NULL OR status = :status)
          AND (:source IS NULL OR source_path = :source) AND id < :after
    ORDER BY revision_number DESC LIMIT :limit";
// Those made before their Source was renamed.
const IDS_ELSEWHERE: &str = "
    SELECT proposal.id FROM topics
    JOIN incorporation_proposals AS proposal
        ON proposal.topic_id = topics.id AND proposal.status = 'open'
    WHERE topics.source_path = :source AND topics.status = 'open'
          AND proposal.source_path <> :source";
const OF_TOPIC: &str = "
    SELECT id FROM incorporation_proposals WHERE topic_id = :topic ORDER BY revision_number";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[
    ("proposal::last_revision", LAST_REVISION),
    ("proposal::count_of_job", COUNT_OF_JOB),
    ("proposal::insert", INSERT),
    ("proposal::find", FIND),
    ("proposal::text", TEXT),
    ("proposal::last_of_job", LAST_OF_JOB),
    ("proposal::ids", IDS),
    ("proposal::ids_by_status", IDS_BY_STATUS),
    ("proposal::ids_by_source", IDS_BY_SOURCE),
    ("proposal::ids_by_source_and_status", IDS_BY_SOURCE_AND_STATUS),
    ("proposal::ids_by_topic", IDS_BY_TOPIC),
    ("proposal::ids_elsewhere", IDS_ELSEWHERE),
    ("proposal::of_topic", OF_TOPIC),
    ("proposal::decide", settle::DECIDE),
    ("proposal::approved_since", settle::APPROVED_SINCE),
    ("proposal::open_of_job", settle::OPEN_OF_JOB),
    ("proposal::open_of_topic", settle::OPEN_OF_TOPIC),
];

/// Stores a proposal with the Topic's next revision number. Of two by the same job the last counts;
/// one made by a person without a job replaces all earlier ones at once.
///
/// # Errors
/// `not_found`, `topic_closed`, `too_many_proposals`; `nothing_changed` if it equals its base;
/// `invalid` or `too_large` for text, summary or Source, or if it has no proposer.
pub fn insert(tx: &Tx<'_>, ids: &Ids, new: NewProposal) -> Result<Proposal> {
    insert_with(tx, ids, new, &[], None)
}

/// Stores a proposal that resolves additional Topics of its Source, or is based on an earlier
/// revision. An edited or merged one replaces that revision at once; one revised by an agent
/// replaces it when its job succeeds.
///
/// # Errors
/// Same as [`insert`], for each Topic; for the earlier revision same as [`require_open`].
pub fn insert_with(
    tx: &Tx<'_>,
    ids: &Ids,
    new: NewProposal,
    further: &[TopicId],
    origin: Option<&Origin>,
) -> Result<Proposal> {
    check(tx.connection(), &new)?;
    for topic in further {
        check_topic(tx.connection(), topic, &new.source_path)?;
    }
    let actor = match (origin, &new.proposed_by, &new.job_id) {
        (Some(origin), ..) if origin.how != How::Reworked => origin.made_by.clone(),
        (_, Some(person), _) => Actor::Person(person.clone()),
        (_, None, Some(job)) => Actor::Job(job.clone()),
        (_, None, None) => return Err(Error::invalid("a proposal needs a person or a job")),
    };
    let last: i64 = tx
        .prepare_cached(LAST_REVISION)?
        .query_row(named_params! {":topic": new.topic_id}, |row| row.get(0))?;
    refuse_many(&new.topic_id, last)?;
    let (id, revision) = (ids.mint::<ProposalId>(), last + 1);
    match (origin, &new.job_id) {
        (Some(origin), _) if origin.how != How::Reworked => {
            settle::replace(tx, &origin.from_id, &actor)?;
        }
        (_, Some(job)) => {
            refuse_flood(tx, job)?;
            settle::supersede_of_job(tx, job, &actor)?;
        }
        (_, None) => settle::supersede_of_topic(tx, &new.topic_id, revision, &actor)?,
    }
    tx.prepare_cached(INSERT)?.execute(named_params! {
        ":id": id, ":topic": new.topic_id, ":revision": revision, ":job": new.job_id,
        ":by": new.proposed_by, ":source": new.source_path, ":base": new.base_source_sha,
        ":proposed": new.proposed_sha, ":digest": digest_hex(&new.text), ":text": new.text,
        ":summary": new.summary, ":now": tx.now(),
    })?;
    lineage::insert_topics(tx, &id, further)?;
    if let Some(origin) = origin {
        lineage::insert_origin(tx, &id, origin)?;
    }
    let data = json!({
        "proposal_id": id, "topic_id": new.topic_id, "job_id": new.job_id,
        "revision_number": revision, "source_path": new.source_path,
    });
    tx.emit(Event::new(EventKind::ProposalCreated, format!("proposal:{id}"), actor, data))?;
    find(tx.connection(), &id)
}

/// Limits the proposals of a Topic, since each is a complete text.
fn refuse_many(topic: &TopicId, count: i64) -> Result<()> {
    if count < TOPIC_PROPOSALS_MAX {
        return Ok(());
    }
    let message = format!("topic {topic} has {TOPIC_PROPOSALS_MAX} proposals");
    Err(Error::conflict("too_many_proposals", message).hint("close the topic and open another"))
}

/// Returns a proposal.
///
/// # Errors
/// `not_found` if it does not exist.
pub fn find(connection: &Connection, id: &ProposalId) -> Result<Proposal> {
    let mut statement = connection.prepare_cached(FIND)?;
    let found = statement.query_row(named_params! {":id": id}, from_row).optional()?;
    let mut proposal = found.ok_or_else(|| missing(id))?;
    proposal.topic_ids = vec![proposal.topic_id.clone()];
    proposal.topic_ids.extend(lineage::further_topics(connection, id)?);
    proposal.origin = lineage::origin(connection, id)?;
    proposal.superseded_by = lineage::successor(connection, id)?
        .filter(|_| proposal.status == ProposalStatus::Superseded);
    Ok(proposal)
}

/// Returns the text of a proposal.
///
/// # Errors
/// `not_found` if it does not exist.
pub fn text(connection: &Connection, id: &ProposalId) -> Result<String> {
    let mut statement = connection.prepare_cached(TEXT)?;
    let found = statement.query_row(named_params! {":id": id}, |row| row.get(0)).optional()?;
    found.ok_or_else(|| missing(id))
}

/// Returns one page of proposals, newest first.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn list(connection: &Connection, filter: &ProposalFilter) -> Result<Page<Proposal>> {
    let after = filter.after.as_ref().map_or(PAST_EVERY_ID, ProposalId::as_str);
    let limit = Page::<Proposal>::rows_to_read(filter.limit);
    let ids = match (&filter.topic_id, &filter.source_path, filter.status) {
        (Some(topic), source, status) => {
            let params = named_params! {
                ":topic": topic, ":status": status, ":source": source, ":after": after,
                ":limit": limit,
            };
            ids_of(connection, IDS_BY_TOPIC, params)
        }
        (None, Some(source), Some(status)) => {
            let params = named_params! {
                ":source": source, ":status": status, ":after": after, ":limit": limit,
            };
            ids_of(connection, IDS_BY_SOURCE_AND_STATUS, params)
        }
        (None, Some(source), None) => {
            let params = named_params! {":source": source, ":after": after, ":limit": limit};
            ids_of(connection, IDS_BY_SOURCE, params)
        }
        (None, None, Some(status)) => {
            let params = named_params! {":status": status, ":after": after, ":limit": limit};
            ids_of(connection, IDS_BY_STATUS, params)
        }
        (None, None, None) => {
            let params = named_params! {":after": after, ":limit": limit};
            ids_of(connection, IDS, params)
        }
    }?;
    let page = Page::of(ids, filter.limit, |id| id.to_string());
    let proposals = page.items.iter().map(|id| find(connection, id));
    Ok(Page { items: proposals.collect::<Result<_>>()?, next: page.next })
}

/// Returns the open proposals for a Source's Topics that were made for an earlier name of it,
/// oldest first.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn open_elsewhere(connection: &Connection, source: &SourcePath) -> Result<Vec<Proposal>> {
    let mut ids = ids_of(connection, IDS_ELSEWHERE, named_params! {":source": source})?;
    ids.sort();
    ids.iter().map(|id| find(connection, id)).collect()
}

/// Returns the last proposal of a job, which is the one that counts.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn by_job(connection: &Connection, job: &JobId) -> Result<Option<Proposal>> {
    let ids = ids_of(connection, LAST_OF_JOB, named_params! {":job": job})?;
    ids.first().map(|id| find(connection, id)).transpose()
}

/// Returns all proposals of a Topic by revision number.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn of_topic(connection: &Connection, topic: &TopicId) -> Result<Vec<Proposal>> {
    let ids = ids_of(connection, OF_TOPIC, named_params! {":topic": topic})?;
    ids.iter().map(|id| find(connection, id)).collect()
}

/// Limits the proposals of a job, which could otherwise fill the disk.
fn refuse_flood(tx: &Tx<'_>, job: &JobId) -> Result<()> {
    let mut statement = tx.prepare_cached(COUNT_OF_JOB)?;
    let made: i64 = statement.query_row(named_params! {":job": job}, |row| row.get(0))?;
    if made < JOB_PROPOSALS_MAX {
        return Ok(());
    }
    let message = format!("job {job} has submitted {JOB_PROPOSALS_MAX} proposals");
    Err(Error::conflict("too_many_proposals", message).hint("stop: the last one counts"))
}

fn check(connection: &Connection, new: &NewProposal) -> Result<()> {
    if new.text.len() > SOURCE_BYTES_MAX {
        let bytes = new.text.len();
        let message =
            format!("the proposed text has {bytes} bytes, {SOURCE_BYTES_MAX} are allowed");
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    if new.text.contains('\0') {
        return Err(Error::invalid("the proposed text has a NUL byte"));
    }
    if new.text.trim().is_empty() {
        return Err(Error::invalid("the proposed text is empty").code("empty_text"));
    }
    if let Some(summary) = &new.summary {
        check_text("summary", summary, SUMMARY_BYTES_MAX)?;
    }
    check_topic(connection, &new.topic_id, &new.source_path)?;
    if new.base_source_sha == new.proposed_sha {
        return Err(Error::invalid("the proposed text is the same as the current text")
            .code("nothing_changed")
            .hint("propose the complete text, including the change"));
    }
    Ok(())
}

fn check_topic(connection: &Connection, id: &TopicId, path: &SourcePath) -> Result<()> {
    let topic = topic::find(connection, id, None)?;
    if topic.status != TopicStatus::Open {
        let message = format!("topic {} is {}", topic.id, topic.status);
        return Err(Error::conflict("topic_closed", message).hint("reopen the topic first"));
    }
    if topic.source_path != *path {
        let message = format!("topic {} is about {}", topic.id, topic.source_path);
        return Err(Error::invalid(message).hint("propose a text for the source of the topic"));
    }
    Ok(())
}

fn ids_of(
    connection: &Connection,
    sql: &'static str,
    params: &[(&str, &dyn rusqlite::ToSql)],
) -> Result<Vec<ProposalId>> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params, |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn missing(id: &ProposalId) -> Error {
    Error::not_found(format!("no proposal {id}")).hint("list them: wiki-browser proposal list")
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Proposal> {
    Ok(Proposal {
        id: row.get("id")?,
        topic_id: row.get("topic_id")?,
        revision_number: row.get("revision_number")?,
        job_id: row.get("job_id")?,
        proposed_by: row.get("proposed_by")?,
        source_path: row.get("source_path")?,
        base_source_sha: row.get("base_source_sha")?,
        proposed_sha: row.get("proposed_sha")?,
        text_digest: row.get("text_digest")?,
        bytes: row.get("bytes")?,
        summary: row.get("summary")?,
        status: row.get("status")?,
        decided_by: row.get("decided_by")?,
        decided_by_name: None,
        decided_at: row.get("decided_ms")?,
        reason: row.get("reason")?,
        commit: row.get("commit_sha")?,
        topic_ids: Vec::new(),
        origin: None,
        superseded_by: None,
        has_conflict: row.get("has_conflict")?,
        created_at: row.get("created_ms")?,
    })
}

#[cfg(test)]
mod tests;
