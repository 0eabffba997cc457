//! Owns the table `placements`: where each Topic's passage is in each version of its Source.

use std::collections::BTreeSet;
use std::ops::Range;

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};

use crate::api::topics::Placement;
use crate::base::{Actor, BlobId, Millis, Result, SourcePath, TopicId};
use crate::documents::anchor::row::Offset;
use crate::documents::anchor::{self, PairMap, Placed};
use crate::store::Tx;

impl Placement {
    /// Returns a placement that was just decided for a version.
    pub fn new(blob: &BlobId, placed: &Placed, decided_by: &Actor) -> Placement {
        Placement {
            blob: blob.clone(),
            state: placed.state,
            start: placed.range.as_ref().map(|it| it.start),
            end: placed.range.as_ref().map(|it| it.end),
            confidence: placed.confidence,
            method: placed.method.to_owned(),
            decided_by: decided_by.clone(),
            is_working: false,
        }
    }

    /// Returns the byte range, if the passage certainly has a place.
    pub fn range(&self) -> Option<Range<usize>> {
        match (self.state.is_placed(), self.start, self.end) {
            (true, Some(start), Some(end)) => Some(start..end),
            _ => None,
        }
    }
}

/// The span from which a Topic is placed in a new version: its latest place, else its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baseline {
    /// The Topic.
    pub topic_id: TopicId,
    /// The version that contains the span.
    pub blob: BlobId,
    /// First byte.
    pub start: usize,
    /// Byte after the last.
    pub end: usize,
    /// The quoted words of the baseline, for when its text is gone.
    pub quote: String,
    /// The text before them.
    pub prefix: String,
    /// The text after them.
    pub suffix: String,
    /// Whether a person must check that place.
    pub is_doubted: bool,
}

/// A span of an old text that is to be placed in a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicOrigin {
    /// The Topic.
    pub id: TopicId,
    /// Its span in the old text.
    pub span: Range<usize>,
}

/// Matches placements written together with a proposal: a transaction has one time, so equal times
/// mean the same transaction.
macro_rules! merely {
    () => {
        "EXISTS (SELECT 1 FROM incorporation_proposals AS merely
                 WHERE merely.proposed_sha = placements.blob
                       AND merely.created_ms = placements.decided_ms)"
    };
}

/// Builds a statement about placements that count: one in a merely proposed text counts for nothing
/// else until that is approved.
macro_rules! counting {
    ($head:literal, $tail:literal) => {
        concat!(
            $head,
            " AND (NOT ",
            merely!(),
            " OR EXISTS (SELECT 1 FROM incorporation_proposals AS kept
                         WHERE kept.proposed_sha = placements.blob AND kept.status = 'approved')) ",
            $tail
        )
    };
}

const PUT: &str = "
    INSERT INTO placements (topic_id, blob, state, start, end, confidence, method, decided_by,
                            decided_ms)
    VALUES (:topic, :blob, :state, :start, :end, :confidence, :method, :by, :now)
    ON CONFLICT (topic_id, blob) DO UPDATE SET
        state = excluded.state, start = excluded.start, end = excluded.end,
        confidence = excluded.confidence, method = excluded.method,
        decided_by = excluded.decided_by, decided_ms = excluded.decided_ms, is_working = 0";
// Decisions of people stand, and those of agents about an approved text. A version that was only in
// the working tree or only proposed, and is now committed, becomes a baseline; nothing is undone in
// the other direction.
const PUT_SEEN: &str = concat!(
    "
    INSERT INTO placements (topic_id, blob, state, start, end, confidence, method, decided_by,
                            decided_ms, is_working)
    VALUES (:topic, :blob, :state, :start, :end, :confidence, :method, :by, :now, :working)
    ON CONFLICT (topic_id, blob) DO UPDATE SET
        state = excluded.state, start = excluded.start, end = excluded.end,
        confidence = excluded.confidence, method = excluded.method,
        decided_by = excluded.decided_by, decided_ms = excluded.decided_ms,
        is_working = CASE
            WHEN ",
    merely!(),
    "
            THEN excluded.is_working
            ELSE MIN(placements.is_working, excluded.is_working) END
    WHERE placements.decided_by = 'system' OR placements.method = 'agent'"
);
// An earlier placement in the same text stands: it may belong to an approved proposal.
const PUT_PROPOSED: &str = "
    INSERT INTO placements (topic_id, blob, state, start, end, confidence, method, decided_by,
                            decided_ms)
    VALUES (:topic, :blob, :state, :start, :end, :confidence, :method, :by, :now)
    ON CONFLICT (topic_id, blob) DO NOTHING";
const PUT_COMMITTED: &str = "
    UPDATE placements SET is_working = 0, decided_ms = :now
    WHERE topic_id = :topic AND blob = :blob";
const FIND_KEPT: &str = counting!(
    "
    SELECT blob, state, start, end, confidence, method, decided_by, is_working
    FROM placements WHERE topic_id = :topic AND blob = :blob
        AND (decided_by <> 'system' OR NOT EXISTS (
            SELECT 1 FROM placements AS said WHERE said.topic_id = placements.topic_id
                AND said.method = 'reattached' AND said.decided_ms > placements.decided_ms))",
    ""
);
const FIND: &str = "
    SELECT blob, state, start, end, confidence, method, decided_by, is_working
    FROM placements WHERE topic_id = :topic AND blob = :blob";
const LATEST: &str = counting!(
    "
    SELECT blob, state, start, end, confidence, method, decided_by, is_working
    FROM placements WHERE topic_id = :topic",
    "
    ORDER BY decided_ms DESC, blob LIMIT 1"
);
const HISTORY: &str = "
    SELECT blob, state, start, end, confidence, method, decided_by, is_working
    FROM placements WHERE topic_id = :topic ORDER BY decided_ms DESC, blob LIMIT 200";
const AT: &str = "
    SELECT blob, state, start, end, confidence, method, decided_by, is_working
    FROM placements WHERE topic_id = :topic AND decided_ms <= :at
    ORDER BY decided_ms DESC, blob LIMIT 1";
const BASELINES: &str = counting!(
    "
    SELECT topics.id AS topic_id, anchors.quote, anchors.prefix, anchors.suffix,
           COALESCE(latest.blob, anchors.origin_blob) AS blob,
           COALESCE(latest.start, anchors.origin_start) AS start,
           COALESCE(latest.end, anchors.origin_end) AS end,
           COALESCE(latest.state = 'rewritten', 0) AS is_doubted
    FROM topics
    JOIN anchors ON anchors.topic_id = topics.id
    LEFT JOIN placements AS latest ON latest.topic_id = topics.id AND latest.blob = (
        SELECT blob FROM placements
        WHERE placements.topic_id = topics.id AND start IS NOT NULL AND is_working = 0
              AND state IN ('exact', 'shifted', 'edited', 'moved', 'rewritten')",
    "
        ORDER BY decided_ms DESC, blob LIMIT 1)
    WHERE topics.source_path = :source AND topics.status = 'open'
    ORDER BY topics.id"
);
const CERTAIN: &str = counting!(
    "
    SELECT blob, state, start, end, confidence, method, decided_by, is_working
    FROM placements WHERE topic_id = :topic AND start IS NOT NULL AND is_working = 0
        AND state IN ('exact', 'shifted', 'edited', 'moved')",
    "
    ORDER BY decided_ms DESC, blob LIMIT 1"
);
const SOURCES: &str = "
    SELECT DISTINCT topics.source_path FROM topics
    JOIN anchors ON anchors.topic_id = topics.id
    WHERE topics.status = 'open'";
// A Topic also has a placement in the version on which it was opened.
const TOUCHED: &str = "
    SELECT EXISTS (
        SELECT 1 FROM placements AS one
        JOIN placements AS other ON other.topic_id = :other AND other.blob = one.blob
        WHERE one.topic_id = :one AND one.start < other.end AND other.start < one.end)";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[
    ("placement::put", PUT),
    ("placement::put_proposed", PUT_PROPOSED),
    ("placement::put_seen", PUT_SEEN),
    ("placement::put_committed", PUT_COMMITTED),
    ("placement::find_kept", FIND_KEPT),
    ("placement::find", FIND),
    ("placement::latest", LATEST),
    ("placement::history", HISTORY),
    ("placement::at", AT),
    ("placement::baselines", BASELINES),
    ("placement::certain", CERTAIN),
    ("placement::sources", SOURCES),
    ("placement::touched", TOUCHED),
];

/// Stores the placement of a Topic in a committed version, replacing an earlier decision.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn put(
    tx: &Tx<'_>,
    topic: &TopicId,
    blob: &BlobId,
    placed: &Placed,
    decided_by: &Actor,
) -> Result<()> {
    write(tx, PUT, topic, blob, placed, decided_by)
}

/// Stores the placement of a Topic in a merely proposed text. It counts only for the proposal until
/// that is approved.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn put_proposed(
    tx: &Tx<'_>,
    topic: &TopicId,
    blob: &BlobId,
    placed: &Placed,
    decided_by: &Actor,
) -> Result<()> {
    write(tx, PUT_PROPOSED, topic, blob, placed, decided_by)
}

/// Stores the placement of a Topic in a text scanned in the repository. An uncommitted one
/// (`is_working`) is no baseline for later versions. Decisions of people and agents for this
/// version stand.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn put_seen(
    tx: &Tx<'_>,
    topic: &TopicId,
    blob: &BlobId,
    placed: &Placed,
    is_working: bool,
) -> Result<()> {
    let start = placed.range.as_ref().map(|it| Offset(it.start));
    let end = placed.range.as_ref().map(|it| Offset(it.end));
    tx.prepare_cached(PUT_SEEN)?.execute(named_params! {
        ":topic": topic, ":blob": blob, ":state": placed.state, ":start": start, ":end": end,
        ":confidence": placed.confidence, ":method": placed.method, ":by": Actor::System,
        ":now": tx.now(), ":working": is_working,
    })?;
    Ok(())
}

/// Makes a stored placement the baseline, because its text is committed now, for the first time or
/// again after a branch was switched or reset.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn put_committed(tx: &Tx<'_>, topic: &TopicId, blob: &BlobId) -> Result<()> {
    let params = named_params! {":topic": topic, ":blob": blob, ":now": tx.now()};
    tx.prepare_cached(PUT_COMMITTED)?.execute(params)?;
    Ok(())
}

fn write(
    tx: &Tx<'_>,
    sql: &'static str,
    topic: &TopicId,
    blob: &BlobId,
    placed: &Placed,
    decided_by: &Actor,
) -> Result<()> {
    let start = placed.range.as_ref().map(|it| Offset(it.start));
    let end = placed.range.as_ref().map(|it| Offset(it.end));
    tx.prepare_cached(sql)?.execute(named_params! {
        ":topic": topic, ":blob": blob, ":state": placed.state, ":start": start, ":end": end,
        ":confidence": placed.confidence, ":method": placed.method, ":by": decided_by,
        ":now": tx.now(),
    })?;
    Ok(())
}

/// Returns the stored placement in a version that is not merely proposed, if any.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn find_kept(
    connection: &Connection,
    topic: &TopicId,
    blob: &BlobId,
) -> Result<Option<Placement>> {
    let mut statement = connection.prepare_cached(FIND_KEPT)?;
    let found = statement.query_row(named_params! {":topic": topic, ":blob": blob}, from_row);
    Ok(found.optional()?)
}

/// Returns the placement of a Topic in a version, if decided.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn find(connection: &Connection, topic: &TopicId, blob: &BlobId) -> Result<Option<Placement>> {
    let mut statement = connection.prepare_cached(FIND)?;
    let found = statement.query_row(named_params! {":topic": topic, ":blob": blob}, from_row);
    Ok(found.optional()?)
}

/// Returns the last placement of a Topic in a text that is not merely proposed.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn latest(connection: &Connection, topic: &TopicId) -> Result<Option<Placement>> {
    let mut statement = connection.prepare_cached(LATEST)?;
    Ok(statement.query_row(named_params! {":topic": topic}, from_row).optional()?)
}

/// Returns the placements of a Topic, latest decision first; at most 200.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn history(connection: &Connection, topic: &TopicId) -> Result<Vec<Placement>> {
    let mut statement = connection.prepare_cached(HISTORY)?;
    let rows = statement.query_map(named_params! {":topic": topic}, from_row)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns the last placement of a Topic decided up to a time.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn at(connection: &Connection, topic: &TopicId, at: Millis) -> Result<Option<Placement>> {
    let mut statement = connection.prepare_cached(AT)?;
    let params = named_params! {":topic": topic, ":at": at};
    Ok(statement.query_row(params, from_row).optional()?)
}

/// Returns the baseline of every open anchored Topic of a Source, so that a flow can read the text
/// of each blob once.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn baselines(connection: &Connection, source: &SourcePath) -> Result<Vec<Baseline>> {
    let mut statement = connection.prepare_cached(BASELINES)?;
    let rows = statement.query_map(named_params! {":source": source}, |row| {
        Ok(Baseline {
            topic_id: row.get("topic_id")?,
            blob: row.get("blob")?,
            start: row.get::<_, Offset>("start")?.0,
            end: row.get::<_, Offset>("end")?.0,
            quote: row.get("quote")?,
            prefix: row.get("prefix")?,
            suffix: row.get("suffix")?,
            is_doubted: row.get("is_doubted")?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns the last place of a Topic, in a committed text, that needs no check.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn certain(connection: &Connection, topic: &TopicId) -> Result<Option<Placement>> {
    let mut statement = connection.prepare_cached(CERTAIN)?;
    Ok(statement.query_row(named_params! {":topic": topic}, from_row).optional()?)
}

/// Returns whether two Topics overlapped in any version in which both had a place.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn have_touched(connection: &Connection, one: &TopicId, other: &TopicId) -> Result<bool> {
    let mut statement = connection.prepare_cached(TOUCHED)?;
    Ok(statement.query_row(named_params! {":one": one, ":other": other}, |row| row.get(0))?)
}

/// Returns the Sources with open anchored Topics.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn sources(connection: &Connection) -> Result<BTreeSet<SourcePath>> {
    let mut statement = connection.prepare_cached(SOURCES)?;
    let rows = statement.query_map([], |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns whether an open Topic of a Source still has to be placed in a version or, if that is
/// committed, has no baseline there.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn is_due(
    connection: &Connection,
    source: &SourcePath,
    blob: &BlobId,
    is_committed: bool,
) -> Result<bool> {
    for from in baselines(connection, source)?.iter().filter(|it| it.blob != *blob) {
        match find_kept(connection, &from.topic_id, blob)? {
            None => return Ok(true),
            Some(it) if is_committed && it.range().is_some() => return Ok(true),
            Some(_) => {}
        }
    }
    Ok(false)
}

/// Places spans of one text in another; the texts are compared once.
pub fn place_all(topics: &[TopicOrigin], old: &str, new: &str) -> Vec<(TopicId, Placed)> {
    if topics.is_empty() {
        return Vec::new();
    }
    let map = PairMap::new(old, new);
    let spans: Vec<Range<usize>> = topics.iter().map(|it| it.span.clone()).collect();
    let placed = anchor::place_together(&map, old, new, &spans);
    topics.iter().map(|it| it.id.clone()).zip(placed).collect()
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Placement> {
    Ok(Placement {
        blob: row.get("blob")?,
        state: row.get("state")?,
        start: row.get::<_, Option<Offset>>("start")?.map(|it| it.0),
        end: row.get::<_, Option<Offset>>("end")?.map(|it| it.0),
        confidence: row.get("confidence")?,
        method: row.get("method")?,
        decided_by: row.get("decided_by")?,
        is_working: row.get("is_working")?,
    })
}

#[cfg(test)]
mod tests;
