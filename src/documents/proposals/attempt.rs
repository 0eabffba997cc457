//! The table `incorporation_attempts`: the journal of approvals.
//!
//! A row is `prepared` before anything of the user's is touched, and settled afterwards:
//! `committed` together with everything that depends on it, or `dropped`. A refusal that changed
//! nothing leaves no row. One row is one approval, even if it is rebuilt on a newer commit.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};

use crate::api::sources::{Cause, CauseTopic};
use crate::base::{
    Actor, AttemptId, BlobId, Error, ProposalId, Result, SourcePath, TopicId, truncate_chars,
};
use crate::store::Tx;

/// Characters kept of a note.
const NOTE_CHARS_MAX: usize = 1_000;

/// An approval in progress.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Its own id.
    pub id: AttemptId,
    /// The approved proposal.
    pub proposal_id: ProposalId,
    /// Its Topic.
    pub topic_id: TopicId,
    /// Who approved it.
    pub approver: Actor,
    /// The digest of the text that the approver saw.
    pub text_digest: String,
    /// The commit on which it is based.
    pub base_commit: BlobId,
    /// The branch to be moved, `refs/heads/…`.
    pub branch: String,
    /// The commit.
    pub commit: BlobId,
}

/// An approval that a crash or a lost reply left unfinished, with its file.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The row.
    pub attempt: Attempt,
    /// The proposal's Source.
    pub path: SourcePath,
    /// The version for which the proposal was made.
    pub base_blob: BlobId,
    /// The proposed version.
    pub proposed_blob: BlobId,
    /// The proposed text: git may have lost it.
    pub text: String,
    /// What it waits for, if it could not be finished at the last try.
    pub waits_for: Option<String>,
}

/// Rung when an approval begins: it may have to be finished later.
pub const BELL: &str = "approvals begun";

const BUSY: &str = "
    SELECT proposal_id FROM incorporation_attempts WHERE branch = :branch AND state = 'prepared'";
const PREPARE: &str = "
    INSERT INTO incorporation_attempts (id, proposal_id, topic_id, approver, text_digest,
        base_commit, branch, commit_sha, state, started_ms)
    VALUES (:id, :proposal, :topic, :approver, :digest, :base, :branch, :commit, 'prepared', :now)
    ON CONFLICT (id) DO UPDATE SET state = 'prepared', base_commit = excluded.base_commit,
        branch = excluded.branch, commit_sha = excluded.commit_sha, note = NULL, ended_ms = NULL
    WHERE state = 'dropped'";
const COMPLETE: &str = "
    UPDATE incorporation_attempts
    SET state = 'committed', commit_sha = :commit, note = NULL, ended_ms = :now
    WHERE id = :id AND state = 'prepared'";
const DROP: &str = "
    UPDATE incorporation_attempts SET state = 'dropped', note = :note, ended_ms = :now
    WHERE id = :id AND state = 'prepared'";
const FORGET: &str = "
    DELETE FROM incorporation_attempts WHERE id = :id AND state = 'prepared'";
// `branch > ''` is always true: it makes SQLite use the partial index.
const PREPARED: &str = "
    SELECT a.id, a.proposal_id, a.topic_id, a.approver, a.text_digest, a.base_commit, a.branch,
        a.commit_sha, a.note, p.source_path, p.base_source_sha, p.proposed_sha, p.proposed_source
    FROM incorporation_attempts AS a JOIN incorporation_proposals AS p ON p.id = a.proposal_id
    WHERE a.state = 'prepared' AND a.branch > '' ORDER BY a.branch";
const IS_PREPARED: &str = "
    SELECT 1 FROM incorporation_attempts
    WHERE proposal_id = :proposal AND state = 'prepared' LIMIT 1";
const WAITS_FOR: &str = "
    SELECT note FROM incorporation_attempts
    WHERE proposal_id = :proposal AND state = 'prepared' LIMIT 1";
const IS_TOPIC_PREPARED: &str = "
    SELECT 1 FROM incorporation_attempts WHERE topic_id = :topic AND state = 'prepared'
    UNION ALL
    SELECT 1 FROM proposal_topics AS further
    JOIN incorporation_attempts AS attempt ON attempt.proposal_id = further.proposal_id
    WHERE further.topic_id = :topic AND attempt.state = 'prepared'";
const COMMITTED: &str = "
    SELECT commit_sha, branch FROM incorporation_attempts
    WHERE proposal_id = :proposal AND state = 'committed'";

const UNFINISHED: &str = "
    SELECT p.id FROM incorporation_proposals AS p
    JOIN incorporation_attempts AS a ON a.proposal_id = p.id
    WHERE p.proposed_sha = :blob AND p.source_path = :path AND a.state <> 'committed'
    ORDER BY a.id DESC LIMIT 1";
const NOTE: &str = "
    SELECT note FROM incorporation_attempts WHERE proposal_id = :proposal AND state = 'committed'";
const ANNOTATE: &str = "
    UPDATE incorporation_attempts SET note = :note WHERE id = :id";
const NOTE_LATE: &str = "
    UPDATE incorporation_attempts SET note = :note WHERE id = :id AND note IS NULL";
const APPROVERS: &str = "
    SELECT proposal_id, approver FROM incorporation_attempts WHERE state <> 'dropped'";
const IS_COMMIT: &str = "
    SELECT EXISTS (SELECT 1 FROM incorporation_attempts
                   WHERE commit_sha = :commit AND state <> 'dropped')";

const CAUSES_OF: &str = "
    SELECT a.proposal_id, a.topic_id, a.approver, p.source_path, p.revision_number, p.job_id,
        t.title, t.status
    FROM incorporation_attempts AS a
    JOIN incorporation_proposals AS p ON p.id = a.proposal_id
    JOIN topics AS t ON t.id = a.topic_id
    WHERE a.commit_sha = :commit AND a.state = 'committed' ORDER BY a.id LIMIT 50";

const FURTHER_TOPICS: &str = "
    SELECT t.id, t.title, t.status FROM proposal_topics AS p JOIN topics AS t ON t.id = p.topic_id
    WHERE p.proposal_id = :proposal ORDER BY t.id";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[
    ("attempt::is_commit", IS_COMMIT),
    ("attempt::annotate", ANNOTATE),
    ("attempt::note", NOTE),
    ("attempt::note_late", NOTE_LATE),
    ("attempt::unfinished", UNFINISHED),
    ("attempt::approvers", APPROVERS),
    ("attempt::busy", BUSY),
    ("attempt::prepare", PREPARE),
    ("attempt::complete", COMPLETE),
    ("attempt::drop", DROP),
    ("attempt::forget", FORGET),
    ("attempt::prepared", PREPARED),
    ("attempt::is_prepared", IS_PREPARED),
    ("attempt::waits_for", WAITS_FOR),
    ("attempt::is_topic_prepared", IS_TOPIC_PREPARED),
    ("attempt::committed", COMMITTED),
    ("attempt::causes_of", CAUSES_OF),
    ("attempt::further_topics", FURTHER_TOPICS),
];

/// Inserts the row of an approval that is about to touch the repository.
///
/// # Errors
/// `conflict` with code `branch_busy` while another approval of that branch is in progress.
pub fn prepare(tx: &Tx<'_>, attempt: &Attempt) -> Result<()> {
    let busy: Option<String> = tx
        .prepare_cached(BUSY)?
        .query_row(named_params! {":branch": attempt.branch}, |row| row.get(0))
        .optional()?;
    if let Some(other) = busy {
        let message = format!("the approval of proposal {other} is under way");
        return Err(Error::conflict("branch_busy", message).hint("try again when it has ended"));
    }
    let written = tx.prepare_cached(PREPARE)?.execute(named_params! {
        ":id": attempt.id, ":proposal": attempt.proposal_id, ":topic": attempt.topic_id,
        ":approver": attempt.approver, ":digest": attempt.text_digest,
        ":base": attempt.base_commit, ":branch": attempt.branch, ":commit": attempt.commit,
        ":now": tx.now(),
    })?;
    tx.ring(BELL);
    one_row(written, &attempt.id, "already used")
}

/// Settles an approval whose text is on the branch since `commit`.
///
/// # Errors
/// `conflict` if it is not in progress.
pub fn complete(tx: &Tx<'_>, id: &AttemptId, commit: &BlobId) -> Result<()> {
    let params = named_params! {":id": id, ":commit": commit, ":now": tx.now()};
    one_row(tx.prepare_cached(COMPLETE)?.execute(params)?, id, "not under way")
}

/// Settles an approval that failed, with the reason.
///
/// # Errors
/// `conflict` if it is not in progress.
pub fn drop_row(tx: &Tx<'_>, id: &AttemptId, note: &str) -> Result<()> {
    let note = truncate_chars(note, NOTE_CHARS_MAX);
    let params = named_params! {":id": id, ":note": note, ":now": tx.now()};
    one_row(tx.prepare_cached(DROP)?.execute(params)?, id, "not under way")
}

/// Attaches a note to an approval.
///
/// # Errors
/// `conflict` if the row does not exist.
pub fn annotate(tx: &Tx<'_>, id: &AttemptId, note: &str) -> Result<()> {
    let params = named_params! {":id": id, ":note": truncate_chars(note, NOTE_CHARS_MAX)};
    one_row(tx.prepare_cached(ANNOTATE)?.execute(params)?, id, "not there")
}

/// Attaches a later finding to an approval; returns whether it is new.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn note_late(tx: &Tx<'_>, id: &AttemptId, note: &str) -> Result<bool> {
    let params = named_params! {":id": id, ":note": truncate_chars(note, NOTE_CHARS_MAX)};
    Ok(tx.prepare_cached(NOTE_LATE)?.execute(params)? > 0)
}

/// Returns the note on the approval that committed a proposal.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn note(c: &Connection, proposal: &ProposalId) -> Result<Option<String>> {
    let params = named_params! {":proposal": proposal};
    let found = c.prepare_cached(NOTE)?.query_row(params, |row| row.get(0)).optional()?;
    Ok(found.flatten())
}

/// Returns the proposal of a text that a Source got by a failed or unfinished approval.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn unfinished(c: &Connection, path: &SourcePath, blob: &BlobId) -> Result<Option<ProposalId>> {
    let params = named_params! {":path": path, ":blob": blob};
    Ok(c.prepare_cached(UNFINISHED)?.query_row(params, |row| row.get(0)).optional()?)
}

/// Returns the approver of each proposal that is approved or being approved.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn approvers(connection: &Connection) -> Result<BTreeMap<ProposalId, Actor>> {
    let mut statement = connection.prepare_cached(APPROVERS)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Deletes the row of an approval that was refused afterwards, with everything as before.
///
/// # Errors
/// `conflict` if it is not in progress.
pub fn forget(tx: &Tx<'_>, id: &AttemptId) -> Result<()> {
    let params = named_params! {":id": id};
    one_row(tx.prepare_cached(FORGET)?.execute(params)?, id, "not under way")
}

/// Returns the approvals in progress.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn prepared(connection: &Connection) -> Result<Vec<Prepared>> {
    let mut statement = connection.prepare_cached(PREPARED)?;
    let rows = statement.query_map([], from_row)?.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(rows)
}

/// Returns whether an approval of this proposal is in progress: nothing else may decide it then.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn is_prepared(connection: &Connection, proposal: &ProposalId) -> Result<bool> {
    let params = named_params! {":proposal": proposal};
    Ok(connection.prepare_cached(IS_PREPARED)?.exists(params)?)
}

/// Returns what the unfinished approval of a proposal waits for; `None` if there is none, or it has
/// only begun.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn waits_for(connection: &Connection, proposal: &ProposalId) -> Result<Option<String>> {
    let params = named_params! {":proposal": proposal};
    let mut statement = connection.prepare_cached(WAITS_FOR)?;
    let found: Option<Option<String>> = statement.query_row(params, |row| row.get(0)).optional()?;
    Ok(found.flatten())
}

/// Returns whether a proposal of this Topic is being approved: the Topic must not be closed then.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn is_topic_prepared(connection: &Connection, topic: &TopicId) -> Result<bool> {
    let params = named_params! {":topic": topic};
    Ok(connection.prepare_cached(IS_TOPIC_PREPARED)?.exists(params)?)
}

/// Returns the commit of an approved proposal, and its branch (`refs/heads/…`).
///
/// # Errors
/// Fails if the database cannot be read.
pub fn committed(c: &Connection, proposal: &ProposalId) -> Result<Option<(BlobId, String)>> {
    let params = named_params! {":proposal": proposal};
    let mut statement = c.prepare_cached(COMMITTED)?;
    let found = statement.query_row(params, |row| Ok((row.get(0)?, row.get(1)?)));
    Ok(found.optional()?)
}

/// Returns whether a commit was made by an approval of this site.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn is_commit(connection: &Connection, commit: &BlobId) -> Result<bool> {
    let params = named_params! {":commit": commit};
    Ok(connection.prepare_cached(IS_COMMIT)?.query_row(params, |row| row.get(0))?)
}

/// Returns the causes of a commit according to this site's records; empty for a commit by somebody
/// else. A commit with the texts of several proposals has several causes.
///
/// # Errors
/// As any read.
pub fn causes_of(
    connection: &Connection,
    commit: &BlobId,
    path: &SourcePath,
) -> Result<Vec<Cause>> {
    let mut statement = connection.prepare_cached(CAUSES_OF)?;
    let rows = statement.query_map(named_params! {":commit": commit}, |row| {
        let source_path: SourcePath = row.get("source_path")?;
        let cause = Cause {
            proposal_id: row.get("proposal_id")?,
            revision_number: row.get("revision_number")?,
            topic_id: row.get("topic_id")?,
            topic_title: row.get::<_, Option<String>>("title")?.unwrap_or_default(),
            topic_status: row.get("status")?,
            further_topics: Vec::new(),
            job_id: row.get("job_id")?,
            approver: row.get("approver")?,
            approver_name: None,
        };
        Ok((source_path, cause))
    })?;
    let found: Vec<(SourcePath, Cause)> = rows.collect::<rusqlite::Result<_>>()?;
    let of_path = found.into_iter().filter(|(of, _)| of == path);
    let mut causes: Vec<Cause> = of_path.map(|(_, cause)| cause).collect();
    let mut further = connection.prepare_cached(FURTHER_TOPICS)?;
    for cause in &mut causes {
        let rows = further.query_map(named_params! {":proposal": cause.proposal_id}, |row| {
            Ok(CauseTopic {
                topic_id: row.get("id")?,
                topic_title: row.get::<_, Option<String>>("title")?.unwrap_or_default(),
                topic_status: row.get("status")?,
            })
        })?;
        cause.further_topics = rows.collect::<rusqlite::Result<_>>()?;
    }
    Ok(causes)
}

fn one_row(written: usize, id: &AttemptId, why: &str) -> Result<()> {
    match written {
        1 => Ok(()),
        _ => Err(Error::conflict("conflict", format!("attempt {id} is {why}"))),
    }
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Prepared> {
    let attempt = Attempt {
        id: row.get("id")?,
        proposal_id: row.get("proposal_id")?,
        topic_id: row.get("topic_id")?,
        approver: row.get("approver")?,
        text_digest: row.get("text_digest")?,
        base_commit: row.get("base_commit")?,
        branch: row.get("branch")?,
        commit: row.get("commit_sha")?,
    };
    Ok(Prepared {
        attempt,
        path: row.get("source_path")?,
        base_blob: row.get("base_source_sha")?,
        proposed_blob: row.get("proposed_sha")?,
        text: row.get("proposed_source")?,
        waits_for: row.get("note")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Clock, Ids, Millis};
    use crate::store::in_memory;

    fn with_proposal(work: impl FnOnce(&Tx<'_>, Attempt)) {
        let clock = Clock::fixed(Millis(1_000));
        let mut connection = in_memory();
        let ids = Ids::new(clock);
        let attempt = Attempt {
            id: ids.mint(),
            proposal_id: ids.mint(),
            topic_id: ids.mint(),
            approver: Actor::System,
            text_digest: "d".into(),
            base_commit: "a".repeat(40).parse().unwrap(),
            branch: "refs/heads/main".into(),
            commit: "b".repeat(40).parse().unwrap(),
        };
        let person: crate::base::PersonId = ids.mint();
        let rows = format!(
            "INSERT INTO persons (id, name, display_name, role, created_ms)
             VALUES ('{person}', 'p', 'P', 'admin', 0);
             INSERT INTO topics VALUES ('{topic}', 'a.md', 1, NULL, 'open', 'system', 0, NULL);
             INSERT INTO incorporation_proposals (id, topic_id, revision_number, proposed_by,
                source_path, base_source_sha, proposed_sha, text_digest, proposed_source, status,
                created_ms)
             VALUES ('{proposal}', '{topic}', 1, '{person}', 'a.md', '{a}', '{b}', 'd', '', 'open',
                0);",
            topic = attempt.topic_id,
            proposal = attempt.proposal_id,
            a = attempt.base_commit,
            b = attempt.commit,
        );
        connection.execute_batch(&rows).unwrap();
        let transaction = connection.transaction().unwrap();
        work(&Tx::for_test(&transaction, Millis(1_000)), attempt);
    }

    #[test]
    fn one_approval_of_a_branch_is_under_way_at_a_time() {
        with_proposal(|tx, first| {
            let second = Attempt { id: Ids::new(Clock::system()).mint(), ..first.clone() };
            prepare(tx, &first).unwrap();
            assert!(is_prepared(tx.connection(), &first.proposal_id).unwrap());
            assert_eq!(prepare(tx, &second).unwrap_err().code_str(), "branch_busy");
            let elsewhere = Attempt { branch: "refs/heads/other".into(), ..second };
            prepare(tx, &elsewhere).unwrap();
            assert_eq!(prepared(tx.connection()).unwrap().len(), 2);
        });
    }

    #[test]
    fn a_dropped_row_can_be_prepared_again_and_a_committed_one_cannot() {
        with_proposal(|tx, attempt| {
            prepare(tx, &attempt).unwrap();
            forget(tx, &attempt.id).unwrap();
            assert!(forget(tx, &attempt.id).is_err());
            prepare(tx, &attempt).unwrap();
            drop_row(tx, &attempt.id, "the branch moved").unwrap();
            assert!(prepared(tx.connection()).unwrap().is_empty());
            assert!(complete(tx, &attempt.id, &attempt.commit).is_err());
            let again = Attempt { commit: "c".repeat(40).parse().unwrap(), ..attempt };
            prepare(tx, &again).unwrap();
            assert_eq!(prepared(tx.connection()).unwrap()[0].attempt.commit, again.commit);
            assert_eq!(committed(tx.connection(), &again.proposal_id).unwrap(), None);
            complete(tx, &again.id, &again.commit).unwrap();
            let found = committed(tx.connection(), &again.proposal_id).unwrap();
            let commit = found.map(|it| it.0);
            assert_eq!(commit.as_ref(), Some(&again.commit));
            assert!(prepare(tx, &again).is_err() && drop_row(tx, &again.id, "").is_err());
        });
    }

    #[test]
    fn no_statement_scans_a_table() {
        let connection = in_memory();
        // All approvers are only requested by a restore, without a server.
        for (name, sql) in STATEMENTS.iter().filter(|it| it.0 != "attempt::approvers") {
            let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let mut rows = plan.raw_query();
            while let Some(row) = rows.next().unwrap() {
                let step: String = row.get("detail").unwrap();
                assert!(
                    !step.starts_with("SCAN ") || step == "SCAN CONSTANT ROW",
                    "{name}: {step}"
                );
            }
        }
    }
}
