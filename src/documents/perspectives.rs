//! Owns the table `perspectives`: Sources as seen by personas, by version of Source and persona.
//!
//! **Invariant:** a perspective counts once its job has succeeded; it then replaces an earlier one
//! of the same versions.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde_json::json;

use crate::base::limit::{PERSPECTIVES_KEPT, SOURCE_BYTES_MAX};
use crate::base::{
    Actor, BlobId, Error, ErrorKind, Event, EventKind, JobId, Millis, Result, SourcePath,
    digest_hex,
};
use crate::documents::sources::rename;
use crate::store::Tx;

/// A perspective without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Perspective {
    /// The job that made it.
    pub job_id: JobId,
    /// The Source.
    pub source_path: SourcePath,
    /// The persona.
    pub persona: String,
    /// The version of the Source.
    pub source_sha: BlobId,
    /// The version of the persona.
    pub persona_sha: BlobId,
    /// Length of the text, in bytes.
    pub bytes: i64,
    /// When it was made.
    pub created_at: Millis,
}

/// The versions that a perspective is based on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The Source.
    pub source_path: SourcePath,
    /// The persona.
    pub persona: String,
    /// The version of the Source.
    pub source_sha: BlobId,
    /// The version of the persona.
    pub persona_sha: BlobId,
}

const INSERT: &str = "
    INSERT INTO perspectives (job_id, source_path, persona, source_sha, persona_sha, is_ready,
        text_digest, bytes, created_ms, body)
    VALUES (:job, :source, :persona, :source_sha, :persona_sha, 0, :digest, :bytes, :now, :body)";
const OF_JOB: &str = "
    SELECT job_id, source_path, persona, source_sha, persona_sha, bytes, created_ms, text_digest
    FROM perspectives WHERE job_id = :job";
const OF_VERSIONS: &str = "
    SELECT job_id, source_path, persona, source_sha, persona_sha, bytes, created_ms
    FROM perspectives
    WHERE source_path = :source AND persona = :persona AND source_sha = :source_sha
          AND persona_sha = :persona_sha AND is_ready = 1";
const NEWEST: &str = "
    SELECT job_id, source_path, persona, source_sha, persona_sha, bytes, created_ms
    FROM perspectives WHERE source_path = :source AND persona = :persona AND is_ready = 1
    ORDER BY created_ms DESC, job_id DESC LIMIT 1";
const PERSONAS: &str = "
    SELECT DISTINCT persona FROM perspectives WHERE source_path = :source AND is_ready = 1
    ORDER BY persona";
const BODY: &str = "SELECT body FROM perspectives WHERE job_id = :job";
const DROP_SAME: &str = "
    DELETE FROM perspectives
    WHERE source_path = :source AND persona = :persona AND source_sha = :source_sha
          AND persona_sha = :persona_sha AND is_ready = 1 AND job_id <> :job";
const MAKE_READY: &str = "
    UPDATE perspectives SET is_ready = 1, created_ms = :now WHERE job_id = :job AND is_ready = 0";
const DROP_OF_JOB: &str = "DELETE FROM perspectives WHERE job_id = :job AND is_ready = 0";
const DROP_BEYOND: &str = "
    DELETE FROM perspectives WHERE job_id IN (
        SELECT job_id FROM perspectives
        WHERE source_path = :source AND persona = :persona AND is_ready = 1
        ORDER BY created_ms DESC, job_id DESC LIMIT -1 OFFSET :kept)";
const DROP_DOUBLES: &str = "
    DELETE FROM perspectives WHERE job_id IN (
        SELECT old.job_id FROM perspectives AS old
        JOIN perspectives AS there ON there.source_path = :to AND there.persona = old.persona
            AND there.source_sha = old.source_sha AND there.persona_sha = old.persona_sha
            AND there.is_ready = 1
        WHERE old.source_path = :from AND old.is_ready = 1)";
const RENAME: &str = "
    UPDATE perspectives SET source_path = :to WHERE source_path = :from AND is_ready = 1";
const RENAME_ONE: &str = "UPDATE perspectives SET source_path = :to WHERE job_id = :job";
const OLD: &str = "
    SELECT job_id, source_path, persona, source_sha, persona_sha, bytes, created_ms
    FROM perspectives WHERE created_ms < :before AND is_ready = 1 ORDER BY created_ms";
const DROP: &str = "DELETE FROM perspectives WHERE job_id = :job AND is_ready = 1";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[
    ("perspective::insert", INSERT),
    ("perspective::of_job", OF_JOB),
    ("perspective::of_versions", OF_VERSIONS),
    ("perspective::newest", NEWEST),
    ("perspective::personas", PERSONAS),
    ("perspective::body", BODY),
    ("perspective::drop_same", DROP_SAME),
    ("perspective::make_ready", MAKE_READY),
    ("perspective::drop_of_job", DROP_OF_JOB),
    ("perspective::drop_beyond", DROP_BEYOND),
    ("perspective::drop_doubles", DROP_DOUBLES),
    ("perspective::rename", RENAME),
    ("perspective::rename_one", RENAME_ONE),
    ("perspective::old", OLD),
    ("perspective::drop", DROP),
];

/// Stores the perspective of a running job. Repeating the call changes nothing.
///
/// # Errors
/// `conflict` with code `already_stored` if the job has submitted another perspective; `too_large`;
/// `invalid` with code `empty_text` or `not_text`.
pub fn put(tx: &Tx<'_>, job: &JobId, of: &Versions, body: &str) -> Result<()> {
    check_body(body)?;
    let digest = digest_hex(body);
    let stored = tx
        .prepare_cached(OF_JOB)?
        .query_row(named_params! {":job": job}, |row| {
            Ok((from_row(row)?, row.get::<_, String>("text_digest")?))
        })
        .optional()?;
    if let Some((stored, stored_digest)) = stored {
        let is_same = stored.source_path == of.source_path
            && stored.persona == of.persona
            && stored_digest == digest;
        if is_same {
            return Ok(());
        }
        let message = format!("job {job} has stored another view already");
        return Err(Error::conflict("already_stored", message)
            .hint("a job stores one view; start a new job for another"));
    }
    tx.prepare_cached(INSERT)?.execute(named_params! {
        ":job": job, ":source": of.source_path, ":persona": of.persona,
        ":source_sha": of.source_sha, ":persona_sha": of.persona_sha, ":digest": digest,
        ":bytes": i64::try_from(body.len()).unwrap_or(i64::MAX), ":now": tx.now(), ":body": body,
    })?;
    Ok(())
}

fn check_body(body: &str) -> Result<()> {
    if body.len() > SOURCE_BYTES_MAX {
        let message = format!("the view has {} bytes, the limit is {SOURCE_BYTES_MAX}", body.len());
        return Err(Error::new(ErrorKind::TooLarge, message).hint("make it shorter"));
    }
    if body.trim().is_empty() {
        return Err(Error::invalid("the view is empty")
            .code("empty_text")
            .hint("pipe the whole view to put-perspective"));
    }
    if body.contains('\0') {
        return Err(Error::invalid("the view has a NUL byte").code("not_text"));
    }
    Ok(())
}

/// Returns whether a job has submitted a perspective.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn has_job(connection: &Connection, job: &JobId) -> Result<bool> {
    Ok(connection.prepare_cached(OF_JOB)?.exists(named_params! {":job": job})?)
}

/// Settles the perspective of a job that has ended: it counts if the job succeeded, and is deleted
/// otherwise. Only the newest few of one persona on a Source are kept.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn settle_job(tx: &Tx<'_>, job: &JobId, succeeded: bool) -> Result<()> {
    if !succeeded {
        tx.prepare_cached(DROP_OF_JOB)?.execute(named_params! {":job": job})?;
        return Ok(());
    }
    let found =
        tx.prepare_cached(OF_JOB)?.query_row(named_params! {":job": job}, from_row).optional()?;
    let Some(mut view) = found else { return Ok(()) };
    // The Source was renamed after the job submitted it.
    if let Some(name) = rename::name_since(tx.connection(), &view.source_path, view.created_at)? {
        tx.prepare_cached(RENAME_ONE)?.execute(named_params! {":job": job, ":to": name})?;
        view.source_path = name;
    }
    tx.prepare_cached(DROP_SAME)?.execute(named_params! {
        ":source": view.source_path, ":persona": view.persona, ":source_sha": view.source_sha,
        ":persona_sha": view.persona_sha, ":job": job,
    })?;
    let params = named_params! {":job": job, ":now": tx.now()};
    if tx.prepare_cached(MAKE_READY)?.execute(params)? == 0 {
        return Ok(());
    }
    tx.prepare_cached(DROP_BEYOND)?.execute(named_params! {
        ":source": view.source_path, ":persona": view.persona, ":kept": PERSPECTIVES_KEPT,
    })?;
    let data = json!({
        "source_path": view.source_path, "persona": view.persona, "source_sha": view.source_sha,
        "persona_sha": view.persona_sha, "job_id": job,
    });
    let subject = format!("source:{}", view.source_path);
    let actor = Actor::Job(job.clone());
    tx.emit(Event::new(EventKind::PerspectiveCreated, subject, actor, data))
}

/// Moves the perspectives of a renamed Source to its new name; returns how many. If one of the same
/// versions exists there, that one stays.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn rename_source(tx: &Tx<'_>, from: &SourcePath, to: &SourcePath) -> Result<usize> {
    let params = named_params! {":from": from, ":to": to};
    tx.prepare_cached(DROP_DOUBLES)?.execute(params)?;
    Ok(tx.prepare_cached(RENAME)?.execute(params)?)
}

/// Returns the perspective of these versions.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn find(connection: &Connection, of: &Versions) -> Result<Option<Perspective>> {
    let params = named_params! {
        ":source": of.source_path, ":persona": of.persona, ":source_sha": of.source_sha,
        ":persona_sha": of.persona_sha,
    };
    Ok(connection.prepare_cached(OF_VERSIONS)?.query_row(params, from_row).optional()?)
}

/// Returns a persona's newest perspective on a Source, whatever its versions.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn newest(
    connection: &Connection,
    source: &SourcePath,
    persona: &str,
) -> Result<Option<Perspective>> {
    let params = named_params! {":source": source, ":persona": persona};
    Ok(connection.prepare_cached(NEWEST)?.query_row(params, from_row).optional()?)
}

/// Returns the personas with a perspective on a Source.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn personas_of(connection: &Connection, source: &SourcePath) -> Result<Vec<String>> {
    let mut statement = connection.prepare_cached(PERSONAS)?;
    let rows = statement.query_map(named_params! {":source": source}, |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns the text of a job's perspective.
///
/// # Errors
/// `not_found` if it was replaced or deleted meanwhile.
pub fn body(connection: &Connection, job: &JobId) -> Result<String> {
    let mut statement = connection.prepare_cached(BODY)?;
    let found = statement.query_row(named_params! {":job": job}, |row| row.get(0)).optional()?;
    found.ok_or_else(|| Error::not_found(format!("the view of job {job} is gone")))
}

/// Returns the perspectives created before a time, oldest first.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn older_than(connection: &Connection, before: Millis) -> Result<Vec<Perspective>> {
    let mut statement = connection.prepare_cached(OLD)?;
    let rows = statement.query_map(named_params! {":before": before}, from_row)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Deletes a perspective that counts; returns how many there were.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn drop_view(tx: &Tx<'_>, job: &JobId) -> Result<usize> {
    Ok(tx.prepare_cached(DROP)?.execute(named_params! {":job": job})?)
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Perspective> {
    Ok(Perspective {
        job_id: row.get("job_id")?,
        source_path: row.get("source_path")?,
        persona: row.get("persona")?,
        source_sha: row.get("source_sha")?,
        persona_sha: row.get("persona_sha")?,
        bytes: row.get("bytes")?,
        created_at: row.get("created_ms")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::fixture::{Fixture, blob, source};

    fn versions(source_sha: char, persona_sha: char) -> Versions {
        Versions {
            source_path: source("a.md"),
            persona: "critic".to_owned(),
            source_sha: blob(source_sha),
            persona_sha: blob(persona_sha),
        }
    }

    fn job(fixture: &mut Fixture) -> JobId {
        let topic = fixture.topic("a.md", "").id;
        fixture.job(&topic)
    }

    /// Stores a perspective, settles its job, and returns that job.
    fn made(fixture: &mut Fixture, of: &Versions, body: &str, succeeded: bool) -> JobId {
        let id = job(fixture);
        fixture.write(|tx, _| put(tx, &id, of, body)).unwrap();
        fixture.write(|tx, _| settle_job(tx, &id, succeeded)).unwrap();
        id
    }

    #[test]
    fn a_view_counts_when_its_job_has_succeeded() {
        let mut fixture = Fixture::new();
        let of = versions('a', 'b');
        let id = job(&mut fixture);
        fixture.write(|tx, _| put(tx, &id, &of, "# One\n")).unwrap();
        assert!(has_job(&fixture.connection, &id).unwrap());
        assert_eq!(find(&fixture.connection, &of).unwrap(), None);
        assert!(personas_of(&fixture.connection, &of.source_path).unwrap().is_empty());
        fixture.write(|tx, _| settle_job(tx, &id, true)).unwrap();
        let view = find(&fixture.connection, &of).unwrap().unwrap();
        assert_eq!((view.job_id.clone(), view.bytes), (id.clone(), 6));
        assert_eq!(body(&fixture.connection, &id).unwrap(), "# One\n");
        assert_eq!(fixture.kinds(0).last().unwrap(), "perspective_created");
        assert_eq!(find(&fixture.connection, &versions('a', 'c')).unwrap(), None);
        assert_eq!(find(&fixture.connection, &versions('c', 'b')).unwrap(), None);
        // A failed job leaves nothing and replaces nothing.
        let failed = made(&mut fixture, &of, "# Two\n", false);
        assert!(!has_job(&fixture.connection, &failed).unwrap());
        assert_eq!(find(&fixture.connection, &of).unwrap().unwrap().job_id, id);
        let again = made(&mut fixture, &of, "# Three\n", true);
        assert_eq!(find(&fixture.connection, &of).unwrap().unwrap().job_id, again);
        assert!(body(&fixture.connection, &id).is_err());
    }

    #[test]
    fn a_job_stores_one_view_once() {
        let mut fixture = Fixture::new();
        let (of, id) = (versions('a', 'b'), job(&mut fixture));
        let mut store = |of: &Versions, text: &str| {
            let stored = fixture.write(|tx, _| put(tx, &id, of, text));
            stored.map_err(|cause| cause.code_str().to_owned())
        };
        assert_eq!(store(&of, ""), Err("empty_text".to_owned()));
        assert_eq!(store(&of, "a\0b"), Err("not_text".to_owned()));
        assert_eq!(store(&of, &"x".repeat(SOURCE_BYTES_MAX + 1)), Err("too_large".to_owned()));
        assert_eq!(store(&of, "# One\n"), Ok(()));
        assert_eq!(store(&of, "# One\n"), Ok(()));
        assert_eq!(store(&of, "# Two\n"), Err("already_stored".to_owned()));
    }

    #[test]
    fn views_of_a_renamed_source_go_with_it() {
        let mut fixture = Fixture::new();
        let of = versions('a', 'b');
        let there = Versions { source_path: source("b.md"), ..of.clone() };
        let kept = made(&mut fixture, &there, "# There\n", true);
        made(&mut fixture, &of, "# The same\n", true);
        let other = made(&mut fixture, &versions('c', 'b'), "# Another\n", true);
        // Submitted before the rename, and counted after it.
        let (late, of_late) = (job(&mut fixture), versions('d', 'b'));
        fixture.write(|tx, _| put(tx, &late, &of_late, "# Late\n")).unwrap();
        let (from, to) = (source("a.md"), source("b.md"));
        let renamed = fixture.write(|tx, _| {
            rename::put(tx, &from, &to)?;
            rename_source(tx, &from, &to)
        });
        assert_eq!(renamed.unwrap(), 1);
        fixture.write(|tx, _| settle_job(tx, &late, true)).unwrap();
        let found = |digit: char| {
            let of = Versions { source_path: to.clone(), ..versions(digit, 'b') };
            find(&fixture.connection, &of).unwrap().map(|it| it.job_id)
        };
        assert_eq!([found('a'), found('c'), found('d')], [Some(kept), Some(other), Some(late)]);
        assert!(personas_of(&fixture.connection, &from).unwrap().is_empty());
    }

    #[test]
    fn the_newest_few_of_each_persona_are_kept() {
        let mut fixture = Fixture::new();
        let mut jobs = Vec::new();
        for place in 0..=PERSPECTIVES_KEPT {
            let digit = char::from_digit(u32::try_from(place).unwrap(), 16).unwrap();
            jobs.push(made(&mut fixture, &versions(digit, 'b'), "# View\n", true));
        }
        let old = older_than(&fixture.connection, fixture.clock.now()).unwrap();
        let kept: Vec<_> = old.iter().map(|it| it.job_id.clone()).collect();
        assert_eq!(kept, jobs[1..]);
        let newest = newest(&fixture.connection, &source("a.md"), "critic").unwrap().unwrap();
        assert_eq!(Some(&newest.job_id), jobs.last());
        assert_eq!(fixture.write(|tx, _| drop_view(tx, &newest.job_id)).unwrap(), 1);
        assert_eq!(fixture.write(|tx, _| drop_view(tx, &newest.job_id)).unwrap(), 0);
    }
}
