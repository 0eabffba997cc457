//! Owns the table `topics`: open questions about a Source, each with its messages and its anchor.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde::Serialize;
use serde_json::json;

use crate::base::limit::MESSAGE_BYTES_MAX;
use crate::base::{
    Actor, BlobId, Error, Event, EventKind, Ids, Millis, Page, Result, SourcePath, TopicId,
    truncate_chars,
};
use crate::documents::anchor::{self, Anchor, NewAnchor, Placed};
use crate::documents::git::Deletion;
use crate::documents::proposals::attempt;
use crate::documents::search;
use crate::documents::sources::plain::Plain;
use crate::documents::sources::text;
use crate::documents::topics::placement::{self, Placement};
use crate::documents::topics::{message, suggestion};
use crate::documents::word::{check_line, check_text, word_enum};
use crate::store::Tx;

/// Longest title, in bytes.
pub const TITLE_BYTES_MAX: usize = crate::base::limit::TITLE_BYTES_MAX;
/// Longest title taken from the first message, in characters.
const TITLE_CHARS_MAX: usize = 120;
/// Most open Topics per Source.
pub const OPEN_TOPICS_MAX: i64 = crate::base::limit::OPEN_TOPICS_MAX;
/// Greater than every id.
const PAST_EVERY_ID: &str = "~";

word_enum! {
    /// The status of a Topic.
    TopicStatus {
        /// Under discussion.
        Open = "open",
        /// Resolved by an approved proposal.
        Incorporated = "incorporated",
        /// Closed without a change.
        Discarded = "discarded",
    }
}

/// A Topic with its anchor and its placement in the requested version.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Topic {
    /// Its id.
    pub id: TopicId,
    /// The Source.
    pub source_path: SourcePath,
    /// Whether it is about the whole Source.
    pub is_global: bool,
    /// Its title.
    pub title: String,
    /// Its status.
    pub status: TopicStatus,
    /// Who opened it.
    pub created_by: Actor,
    /// Their name as it is shown; filled by a flow.
    pub created_by_name: Option<String>,
    /// When it was opened.
    pub created_at: Millis,
    /// When it was closed.
    pub closed_at: Option<Millis>,
    /// How many messages it has.
    pub message_count: i64,
    /// Its anchor; absent for a global Topic.
    pub anchor: Option<Anchor>,
    /// Its placement in the requested version, if known.
    pub placement: Option<Placement>,
    /// How its Source was deleted, if it is open and the Source is gone; filled by a flow.
    pub source_deleted: Option<Deletion>,
}

/// A Topic to be opened.
#[derive(Clone, Debug)]
pub struct NewTopic {
    /// The Source.
    pub source_path: SourcePath,
    /// Whether it is about the whole Source; it has no anchor then.
    pub is_global: bool,
    /// Its title, if not taken from the first line of its first message.
    pub title: Option<String>,
    /// The first message.
    pub body: String,
    /// Who opens it.
    pub author: Actor,
    /// Its anchor.
    pub anchor: Option<NewAnchor>,
}

/// Which Topics to list.
#[derive(Clone, Debug, Default)]
pub struct TopicFilter {
    /// Only of this Source.
    pub source_path: Option<SourcePath>,
    /// Only with this status.
    pub status: Option<TopicStatus>,
    /// Only older than this one.
    pub after: Option<TopicId>,
    /// At most this many; 0 counts as 1.
    pub limit: u32,
    /// The version whose placements are returned.
    pub blob: Option<BlobId>,
}

const INSERT: &str = "
    INSERT INTO topics (id, source_path, is_global, title, status, created_by, created_ms)
    VALUES (:id, :source, :global, :title, 'open', :by, :now)";
const COUNT_OPEN: &str = "
    SELECT COUNT(*) FROM topics WHERE source_path = :source AND status = 'open'";
const FIND: &str = "
    SELECT id, source_path, is_global, title, status, created_by, created_ms, closed_ms,
           (SELECT COALESCE(MAX(sequence), 0) FROM topic_messages WHERE topic_id = topics.id)
               AS message_count
    FROM topics WHERE id = :id";
const STATUS: &str = "SELECT status FROM topics WHERE id = :id";
const IDS: &str = "SELECT id FROM topics WHERE id < :after ORDER BY id DESC LIMIT :limit";
const IDS_BY_STATUS: &str = "
    SELECT id FROM topics WHERE status = :status AND id < :after ORDER BY id DESC LIMIT :limit";
const IDS_BY_SOURCE: &str = "
    SELECT id FROM topics WHERE source_path = :source AND id < :after
    ORDER BY id DESC LIMIT :limit";
const IDS_BY_BOTH: &str = "
    SELECT id FROM topics WHERE source_path = :source AND status = :status AND id < :after
    ORDER BY id DESC LIMIT :limit";
const IDS_OPEN: &str = "
    SELECT id FROM topics WHERE source_path = :source AND status = 'open' ORDER BY id";
const CHANGE_STATUS: &str = "
    UPDATE topics SET status = :to, closed_ms = CASE :to WHEN 'open' THEN NULL ELSE :now END
    WHERE id = :id AND status = :from";
const HAS_ANY: &str = "SELECT EXISTS (SELECT 1 FROM topics WHERE source_path = :source)";
const OF_SOURCE: &str = "SELECT id FROM topics WHERE source_path = :source ORDER BY id";
const MOVE: &str = "
    UPDATE topics SET source_path = :to WHERE id = :id AND status = 'open' AND source_path = :from";
const RENAME: &str = "UPDATE topics SET source_path = :to WHERE source_path = :from";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[
    ("topic::insert", INSERT),
    ("topic::count_open", COUNT_OPEN),
    ("topic::find", FIND),
    ("topic::status", STATUS),
    ("topic::ids", IDS),
    ("topic::ids_by_status", IDS_BY_STATUS),
    ("topic::ids_by_source", IDS_BY_SOURCE),
    ("topic::ids_by_both", IDS_BY_BOTH),
    ("topic::ids_open", IDS_OPEN),
    ("topic::change_status", CHANGE_STATUS),
    ("topic::has_any", HAS_ANY),
    ("topic::of_source", OF_SOURCE),
    ("topic::move", MOVE),
    ("topic::rename", RENAME),
];

/// Opens a Topic: its row, first message, anchor, and placement in the anchor's version.
///
/// # Errors
/// `invalid` or `too_large` for title or text; `invalid` for a global Topic with an anchor, or
/// another without; `too_many_topics`.
pub fn create(tx: &Tx<'_>, ids: &Ids, new: NewTopic) -> Result<Topic> {
    check_text("message", &new.body, MESSAGE_BYTES_MAX)?;
    let title = match &new.title {
        Some(title) => {
            check_line("title", title, TITLE_BYTES_MAX)?;
            title.trim().to_owned()
        }
        None => changed(&new).unwrap_or_else(|| first_line(&new.body)),
    };
    if new.is_global == new.anchor.is_some() {
        return Err(Error::invalid("a topic is either global or has a selection"));
    }
    refuse_full(tx, &new.source_path)?;
    let id: TopicId = ids.mint();
    tx.prepare_cached(INSERT)?.execute(named_params! {
        ":id": id, ":source": new.source_path, ":global": new.is_global, ":title": title,
        ":by": new.author, ":now": tx.now(),
    })?;
    message::insert(tx, ids, &id, &new.author, &new.body, None)?;
    search::put_topic(tx, &id, &title, &new)?;
    if let Some(anchor) = &new.anchor {
        anchor::row::insert(tx, &id, anchor)?;
        let placed = Placed::exact(anchor.start..anchor.end, "origin");
        placement::put(tx, &id, &anchor.blob, &placed, &new.author)?;
    }
    tx.emit(Event::new(
        EventKind::TopicCreated,
        format!("topic:{id}"),
        new.author,
        json!({"topic_id": id, "source_path": new.source_path, "is_global": new.is_global}),
    ))?;
    find(tx.connection(), &id, new.anchor.as_ref().map(|it| &it.blob))
}

fn refuse_full(tx: &Tx<'_>, source: &SourcePath) -> Result<()> {
    if count_open_of(tx.connection(), source)? >= OPEN_TOPICS_MAX {
        let message = format!("{source} has {OPEN_TOPICS_MAX} open topics");
        return Err(Error::conflict("too_many_topics", message).hint("close some of them"));
    }
    Ok(())
}

/// Returns a Topic, with its placement in `blob`, if given.
///
/// # Errors
/// `not_found` if it does not exist.
pub fn find(connection: &Connection, id: &TopicId, blob: Option<&BlobId>) -> Result<Topic> {
    let mut statement = connection.prepare_cached(FIND)?;
    let found = statement.query_row(named_params! {":id": id}, from_row).optional()?;
    let mut topic = found.ok_or_else(|| missing(id))?;
    if !topic.is_global {
        topic.anchor = anchor::row::find(connection, id)?;
        if let Some(blob) = blob {
            topic.placement = placement::find(connection, id, blob)?;
        }
    }
    Ok(topic)
}

/// Returns one page of Topics, newest first.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn list(connection: &Connection, filter: &TopicFilter) -> Result<Page<Topic>> {
    let after = filter.after.as_ref().map_or(PAST_EVERY_ID, TopicId::as_str);
    let limit = Page::<Topic>::rows_to_read(filter.limit);
    let ids = match (&filter.source_path, filter.status) {
        (None, None) => {
            let params = named_params! {":after": after, ":limit": limit};
            ids_of(connection, IDS, params)
        }
        (None, Some(status)) => {
            let params = named_params! {":status": status, ":after": after, ":limit": limit};
            ids_of(connection, IDS_BY_STATUS, params)
        }
        (Some(source), None) => {
            let params = named_params! {":source": source, ":after": after, ":limit": limit};
            ids_of(connection, IDS_BY_SOURCE, params)
        }
        (Some(source), Some(status)) => {
            let params = named_params! {
                ":source": source, ":status": status, ":after": after, ":limit": limit,
            };
            ids_of(connection, IDS_BY_BOTH, params)
        }
    }?;
    let page = Page::of(ids, filter.limit, |id| id.to_string());
    let topics = page.items.iter().map(|id| find(connection, id, filter.blob.as_ref()));
    Ok(Page { items: topics.collect::<Result<_>>()?, next: page.next })
}

/// Returns all open Topics of a Source, oldest first, with their placements in `blob`, if given.
/// There are at most [`OPEN_TOPICS_MAX`], plus a few that were reopened beyond it.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn list_open_of(
    connection: &Connection,
    source: &SourcePath,
    blob: Option<&BlobId>,
) -> Result<Vec<Topic>> {
    let ids = ids_of(connection, IDS_OPEN, named_params! {":source": source})?;
    ids.iter().map(|id| find(connection, id, blob)).collect()
}

/// Returns how many open Topics a Source has.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn count_open_of(connection: &Connection, source: &SourcePath) -> Result<i64> {
    let mut statement = connection.prepare_cached(COUNT_OPEN)?;
    Ok(statement.query_row(named_params! {":source": source}, |row| row.get(0))?)
}

/// Returns the status of a Topic.
///
/// # Errors
/// `not_found` if it does not exist.
pub fn status_of(connection: &Connection, id: &TopicId) -> Result<TopicStatus> {
    let mut statement = connection.prepare_cached(STATUS)?;
    let found = statement.query_row(named_params! {":id": id}, |row| row.get(0)).optional()?;
    found.ok_or_else(|| missing(id))
}

/// Closes or reopens a Topic, if its status still is `from`.
///
/// # Errors
/// `not_found`; `topic_closed` or `topic_not_closed` if it has another status.
pub fn set_status(
    tx: &Tx<'_>,
    id: &TopicId,
    from: TopicStatus,
    to: TopicStatus,
    actor: &Actor,
) -> Result<()> {
    if to == TopicStatus::Discarded && attempt::is_topic_prepared(tx.connection(), id)? {
        let message = format!("a proposal of topic {id} is being approved");
        return Err(Error::conflict("branch_busy", message).hint("look at it again in a moment"));
    }
    let params = named_params! {":id": id, ":from": from, ":to": to, ":now": tx.now()};
    // The same status again is not a change to be reported.
    if from == to || tx.prepare_cached(CHANGE_STATUS)?.execute(params)? == 0 {
        let is = status_of(tx.connection(), id)?;
        let (code, hint) = match is {
            TopicStatus::Open => ("topic_not_closed", "the topic is open already"),
            _ => ("topic_closed", "look at the topic again: somebody decided meanwhile"),
        };
        return Err(Error::conflict(code, format!("topic {id} is {is}")).hint(hint));
    }
    search::move_topic(tx, id)?;
    let data = json!({"topic_id": id, "from": from, "to": to});
    let event = Event::new(EventKind::TopicChanged, format!("topic:{id}"), actor.clone(), data);
    tx.emit(event.audited())
}

/// Returns whether there ever was a Topic about a Source.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn has_any(connection: &Connection, source: &SourcePath) -> Result<bool> {
    let mut statement = connection.prepare_cached(HAS_ANY)?;
    Ok(statement.query_row(named_params! {":source": source}, |row| row.get(0))?)
}

/// Moves all Topics of a renamed Source to its new name, with the texts stored for them; returns
/// how many. Proposals keep the name for which they were made.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn rename_source(tx: &Tx<'_>, from: &SourcePath, to: &SourcePath) -> Result<usize> {
    let topics = ids_of(tx.connection(), OF_SOURCE, named_params! {":source": from})?;
    tx.prepare_cached(RENAME)?.execute(named_params! {":from": from, ":to": to})?;
    text::rename_source(tx, from, to)?;
    for topic in &topics {
        search::rename_topic(tx, topic, to)?;
    }
    Ok(topics.len())
}

/// Moves an open Topic to another Source, at a person's request.
///
/// # Errors
/// `conflict` with code `too_many_topics`, or `topic_moved` if it is no longer an open Topic of
/// `from`.
pub fn move_to(tx: &Tx<'_>, id: &TopicId, from: &SourcePath, to: &SourcePath) -> Result<()> {
    refuse_full(tx, to)?;
    let params = named_params! {":id": id, ":from": from, ":to": to};
    if tx.prepare_cached(MOVE)?.execute(params)? == 0 {
        let message = format!("topic {id} is not an open one of {from} any more");
        return Err(Error::conflict("topic_moved", message).hint("look at it again"));
    }
    search::rename_topic(tx, id, to)?;
    text::prune(tx, from)?;
    Ok(())
}

fn ids_of(
    connection: &Connection,
    sql: &'static str,
    params: &[(&str, &dyn rusqlite::ToSql)],
) -> Result<Vec<TopicId>> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params, |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn missing(id: &TopicId) -> Error {
    Error::not_found(format!("no topic {id}")).hint("wiki-browser topic list names them")
}

/// Returns a title for a Topic that begins with a suggestion.
fn changed(new: &NewTopic) -> Option<String> {
    let (blocks, _) = suggestion::blocks(&new.body);
    let first = blocks.first().filter(|it| new.body[..it.range.start].trim().is_empty())?;
    Some(suggestion::title(&new.anchor.as_ref()?.quote, &first.words))
}

/// Returns the first line that is neither blank nor a code fence, cut. Otherwise a message with
/// only a suggestion would be titled "```suggestion".
fn first_line(body: &str) -> String {
    let is_fence = |it: &&str| it.starts_with("```") || it.starts_with("~~~");
    let mut lines = body.lines().map(str::trim).filter(|it| !it.is_empty());
    let line = lines.find(|it| !is_fence(it)).unwrap_or("Suggestion").replace('\t', " ");
    let words = Plain::of(&line).text;
    // A title of nothing but markup is better than none.
    let title = if words.trim().is_empty() { line.trim() } else { words.trim() };
    truncate_chars(title, TITLE_CHARS_MAX)
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Topic> {
    Ok(Topic {
        id: row.get("id")?,
        source_path: row.get("source_path")?,
        is_global: row.get("is_global")?,
        title: row.get::<_, Option<String>>("title")?.unwrap_or_default(),
        status: row.get("status")?,
        created_by: row.get("created_by")?,
        created_by_name: None,
        created_at: row.get("created_ms")?,
        closed_at: row.get("closed_ms")?,
        message_count: row.get("message_count")?,
        anchor: None,
        placement: None,
        source_deleted: None,
    })
}

#[cfg(test)]
mod tests;
