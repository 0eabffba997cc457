//! Owns the tables `repository_told`, `events_told` and `ends_told`: what the script's handlers
//! heard of before a restore. The restored database sees it again, and they hear nothing of it.
//!
//! **Invariant:** changes of Sources count as told in the first look after the restore only: what
//! is changed later is new, whatever it is.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, OptionalExtension as _, named_params};
use serde::{Deserialize, Serialize};

use crate::base::{BlobId, Error, EventKind, JobId, Result, SourcePath};
use crate::documents::seen::{self, Seen, Sighting};
use crate::flows::Works;
use crate::jobs;
use crate::store::{StoredEvent, Tx};

const FIND: &str = "SELECT told_json FROM repository_told WHERE one = 1";
const PUT: &str = "
    INSERT INTO repository_told (one, told_json) VALUES (1, :told)
    ON CONFLICT (one) DO UPDATE SET told_json = :told";
const FORGET: &str = "DELETE FROM repository_told WHERE one = 1";
// What was not told yet when the server of that database stopped.
const UNTOLD: &str = "
    SELECT kind, json_extract(data_json, '$.path') AS path, json_extract(data_json, '$.from') AS was
    FROM events
    WHERE id > (SELECT event_id FROM handlers_told WHERE one = 1)
        AND kind IN ('source_changed', 'sources_changed', 'source_renamed')
    ORDER BY id";
const MARK: &str = "
    INSERT INTO events_told (event_id) SELECT seq FROM sqlite_sequence WHERE name = 'events'";
const IS_MARKED: &str = "SELECT EXISTS (SELECT 1 FROM events_told WHERE event_id = :id)";
const UNMARK: &str = "DELETE FROM events_told WHERE event_id <= :id";
const PUT_END: &str = "INSERT OR IGNORE INTO ends_told (job_id) VALUES (:job)";
const IS_ENDED: &str = "SELECT EXISTS (SELECT 1 FROM ends_told WHERE job_id = :job)";
const DROP_END: &str = "DELETE FROM ends_told WHERE job_id = :job";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[
    ("told::find", FIND),
    ("told::put", PUT),
    ("told::forget", FORGET),
    ("told::untold", UNTOLD),
    ("told::mark", MARK),
    ("told::is_marked", IS_MARKED),
    ("told::unmark", UNMARK),
    ("told::put_end", PUT_END),
    ("told::is_ended", IS_ENDED),
    ("told::drop_end", DROP_END),
];

/// The state of the repository of which the handlers have heard.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(in crate::flows) struct Heard {
    head: Option<BlobId>,
    /// As in [`Seen`].
    dirty: BTreeMap<SourcePath, Option<BlobId>>,
    /// Sources of whose last change they have not heard.
    untold: BTreeSet<SourcePath>,
}

/// What the handlers have heard of a sighting.
#[derive(Clone, Debug, Default)]
pub(in crate::flows) struct Known {
    /// Whether something was to be compared: this is the first look after a restore.
    pub(in crate::flows) is_first: bool,
    /// Whether there is nothing else in it.
    pub(in crate::flows) is_all: bool,
    /// The changed Sources.
    pub(in crate::flows) sources: BTreeSet<SourcePath>,
    /// The renames.
    pub(in crate::flows) renames: BTreeMap<SourcePath, SourcePath>,
}

/// Takes over what a later database of the same site has told its handlers.
///
/// # Errors
/// As any read or write.
pub(in crate::flows) fn take_later(tx: &Tx<'_>, later: &Connection) -> Result<()> {
    if let Some(heard) = last(later)? {
        let text = serde_json::to_string(&heard)
            .map_err(|cause| Error::internal("what was told is not JSON").source(cause))?;
        tx.prepare_cached(PUT)?.execute(named_params! {":told": text})?;
    }
    for job in jobs::ended_since(tx.connection(), later)? {
        tx.prepare_cached(PUT_END)?.execute(named_params! {":job": job})?;
    }
    Ok(())
}

/// Returns what the handlers of a database have heard; `None` if that cannot be told.
///
/// # Errors
/// Fails if the database cannot be read.
pub(in crate::flows) fn last(c: &Connection) -> Result<Option<Heard>> {
    if let Some(heard) = find(c)? {
        return Ok(Some(heard));
    }
    let Some(Seen { head, dirty, .. }) = seen::find(c)? else { return Ok(None) };
    let mut heard = Heard { head, dirty, untold: BTreeSet::new() };
    let mut statement = c.prepare_cached(UNTOLD)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let kind: String = row.get("kind")?;
        if kind == EventKind::SourcesChanged.as_str() {
            return Ok(None);
        }
        let (path, was): (Option<SourcePath>, Option<SourcePath>) =
            (row.get("path")?, row.get("was")?);
        heard.untold.extend(path.into_iter().chain(was));
    }
    Ok(Some(heard))
}

/// Returns what was told before a restore, if nobody has looked since.
///
/// # Errors
/// Fails if the database cannot be read.
pub(in crate::flows) fn find(c: &Connection) -> Result<Option<Heard>> {
    let text: Option<String> =
        c.prepare_cached(FIND)?.query_row([], |row| row.get(0)).optional()?;
    let read = |text: String| {
        serde_json::from_str(&text)
            .map_err(|cause| Error::internal("what was told cannot be read").source(cause))
    };
    text.map(read).transpose()
}

/// From here on every change is new.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn forget(tx: &Tx<'_>) -> Result<()> {
    tx.prepare_cached(FORGET)?.execute([])?;
    Ok(())
}

/// Compares the first sighting after a restore with what was told before it.
///
/// # Errors
/// As git.
pub(in crate::flows) async fn compare(
    works: &Works,
    (before, sighting): (Option<&Seen>, &Sighting),
    renames: &BTreeMap<SourcePath, SourcePath>,
    heard: &Heard,
) -> Result<Known> {
    let Heard { head, dirty, untold } = heard;
    let mut known = Known { is_first: true, ..Known::default() };
    let is_same = *head == sighting.seen.head && *dirty == sighting.seen.dirty;
    known.is_all = is_same && untold.is_empty();
    let told = works.repo.told_of(head.as_ref(), dirty, &sighting.changes).await?;
    known.sources = told.into_iter().filter(|it| !untold.contains(it)).collect();
    let heads = before.and_then(|it| it.head.as_ref()).zip(head.as_ref());
    if let Some((old, new)) = heads.filter(|_| !renames.is_empty()) {
        let names: BTreeSet<SourcePath> = renames.keys().cloned().collect();
        known.renames = works.repo.renames_until(old, new, &names).await?;
        known.renames.retain(|from, to| !untold.contains(from) && !untold.contains(to));
    }
    Ok(known)
}

/// Marks the event that was emitted last: no handler hears of it.
///
/// # Errors
/// As any write.
pub(in crate::flows) fn mark(tx: &Tx<'_>) -> Result<()> {
    tx.prepare_cached(MARK)?.execute([])?;
    Ok(())
}

/// Returns whether the handlers have heard of what an event says.
///
/// # Errors
/// As any read.
pub(super) fn is_told(c: &Connection, event: &StoredEvent) -> Result<bool> {
    let params = named_params! {":id": event.id};
    if c.prepare_cached(IS_MARKED)?.query_row(params, |row| row.get(0))? {
        return Ok(true);
    }
    let Some(job) = ended(event) else { return Ok(false) };
    let params = named_params! {":job": job};
    Ok(c.prepare_cached(IS_ENDED)?.query_row(params, |row| row.get(0))?)
}

/// Forgets that an event was told, which has been passed over.
///
/// # Errors
/// As any write.
pub(super) fn pass_over(tx: &Tx<'_>, event: &StoredEvent) -> Result<()> {
    tx.prepare_cached(UNMARK)?.execute(named_params! {":id": event.id})?;
    if let Some(job) = ended(event) {
        tx.prepare_cached(DROP_END)?.execute(named_params! {":job": job})?;
    }
    Ok(())
}

fn ended(event: &StoredEvent) -> Option<JobId> {
    let is_end = event.kind == EventKind::JobFinished;
    is_end.then(|| event.subject.strip_prefix("job:")?.parse().ok()).flatten()
}
