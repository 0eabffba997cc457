//! Owns `search_topics` and `search_messages`: the indexed words of threads.

use rusqlite::{OptionalExtension as _, Row, named_params};

use crate::api::topics::{Message, TopicStatus};
use crate::base::{Actor, INDEX_DAMAGED, MessageId, Result, SourcePath, TopicId};
use crate::documents::search::state::ALL;
use crate::documents::search::{folded, mark, mark_damaged};
use crate::documents::topics::topic::NewTopic;
use crate::store::Tx;

/// Most rows indexed per transaction.
const ROWS_MAX: u32 = 200;
/// Most text indexed per transaction, in bytes, unless it is a single row.
const BYTES_MAX: usize = 64 * 1024;
/// A message with a higher number, or more bytes, is marked with every Topic status, so that it
/// need not be indexed again when the status changes: results are compared with the Topic.
const MOVED_SEQUENCE_MAX: i64 = 100;
const MOVED_BYTES_MAX: i64 = 4 * 1024;

const PUT_TOPIC: &str = "
    INSERT INTO search_topics (topic_id, path, author) VALUES (:topic, :path, :author)
    ON CONFLICT (topic_id) DO NOTHING RETURNING id";
const PUT_TOPIC_WORDS: &str = "
    INSERT OR REPLACE INTO search_topic_words (rowid, title, body, marks)
    VALUES (:id, :title, :body, :marks)";
const PUT_MESSAGE: &str = "
    INSERT INTO search_messages (message_id, topic_id, path, author)
    SELECT :message, :topic, source_path, :author FROM topics WHERE id = :topic
    ON CONFLICT (message_id) DO NOTHING
    RETURNING id, path, (SELECT status FROM topics WHERE id = :topic) AS status";
const PUT_MESSAGE_WORDS: &str = "
    INSERT OR REPLACE INTO search_message_words (rowid, body, marks)
    VALUES (:id, :body, :marks)";
const MOVED_TOPIC: &str = "
    SELECT s.id AS number, t.id, t.source_path, t.created_by, t.title, t.status, m.body,
        a.origin_quote
    FROM search_topics AS s JOIN topics AS t ON t.id = s.topic_id
    LEFT JOIN topic_messages AS m ON m.topic_id = t.id AND m.sequence = 1
    LEFT JOIN anchors AS a ON a.topic_id = t.id
    WHERE s.topic_id = :topic";
const MOVED_MESSAGES: &str = "
    SELECT s.id, s.path, s.author, m.sequence, m.body
    FROM topic_messages AS m JOIN search_messages AS s ON s.message_id = m.id
    WHERE m.topic_id = :topic AND m.sequence BETWEEN 2 AND :last
        AND OCTET_LENGTH(m.body) <= :bytes";
const RENAME_TOPIC: &str = "UPDATE search_topics SET path = :path WHERE topic_id = :topic";
const RENAME_MESSAGES: &str = "
    UPDATE search_messages SET path = :path
    WHERE message_id IN (SELECT id FROM topic_messages WHERE topic_id = :topic)";
const TOPICS_LEFT: &str = "
    SELECT t.id, t.source_path, t.created_by, t.title, t.status, m.body, a.origin_quote
    FROM topics AS t
    LEFT JOIN topic_messages AS m ON m.topic_id = t.id AND m.sequence = 1
    LEFT JOIN anchors AS a ON a.topic_id = t.id
    WHERE t.id > (SELECT topics_after FROM search_state WHERE one = 1)
    ORDER BY t.id LIMIT :rows";
const MESSAGES_LEFT: &str = "
    SELECT id, topic_id, author, sequence, body FROM topic_messages
    WHERE id > (SELECT messages_after FROM search_state WHERE one = 1)
    ORDER BY id LIMIT :rows";
const TOPICS_TAKEN: &str = "UPDATE search_state SET topics_after = :after WHERE one = 1";
const MESSAGES_TAKEN: &str = "UPDATE search_state SET messages_after = :after WHERE one = 1";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("search::put_topic", PUT_TOPIC),
    ("search::put_topic_words", PUT_TOPIC_WORDS),
    ("search::put_message", PUT_MESSAGE),
    ("search::put_message_words", PUT_MESSAGE_WORDS),
    ("search::moved_topic", MOVED_TOPIC),
    ("search::moved_messages", MOVED_MESSAGES),
    ("search::rename_topic", RENAME_TOPIC),
    ("search::rename_messages", RENAME_MESSAGES),
    ("search::topics_left", TOPICS_LEFT),
    ("search::messages_left", MESSAGES_LEFT),
    ("search::topics_taken", TOPICS_TAKEN),
    ("search::messages_taken", MESSAGES_TAKEN),
];

/// A Topic to be indexed.
struct TopicText<'a> {
    id: &'a TopicId,
    path: &'a SourcePath,
    author: &'a Actor,
    status: TopicStatus,
    title: &'a str,
    body: &'a str,
    quote: &'a str,
}

/// A message to be indexed.
struct MessageText<'a> {
    id: &'a MessageId,
    topic: &'a TopicId,
    sequence: i64,
    author: &'a Actor,
    body: &'a str,
}

/// Indexes a Topic, unless it is indexed already. A damaged index does not fail the transaction: it
/// will be rebuilt.
///
/// # Errors
/// Fails if the database cannot be written.
pub(in crate::documents) fn put_topic(
    tx: &Tx<'_>,
    id: &TopicId,
    title: &str,
    new: &NewTopic,
) -> Result<()> {
    let (path, author, body) = (&new.source_path, &new.author, new.body.as_str());
    let quote = new.anchor.as_ref().map_or("", |it| it.quote.as_str());
    let status = TopicStatus::Open;
    spared(tx, insert_topic(tx, &TopicText { id, path, author, status, title, body, quote }))
}

/// Indexes a message other than the first of its Topic; otherwise same as [`put_topic`].
///
/// # Errors
/// Fails if the database cannot be written.
pub(in crate::documents) fn put_message(tx: &Tx<'_>, message: &Message) -> Result<()> {
    let Message { id, topic_id: topic, sequence, author, body, .. } = message;
    let sequence = *sequence;
    spared(tx, insert_message(tx, &MessageText { id, topic, sequence, author, body }))
}

/// Indexes a Topic and its messages again after a change of status, with which they are marked.
/// Rows not indexed yet will get the status of that time.
///
/// # Errors
/// Fails if the database cannot be written.
pub(in crate::documents) fn move_topic(tx: &Tx<'_>, id: &TopicId) -> Result<()> {
    spared(tx, move_words(tx, id, (MOVED_SEQUENCE_MAX, MOVED_BYTES_MAX)))
}

/// Indexes a Topic of a renamed Source again under the new name, with all its messages.
///
/// # Errors
/// Fails if the database cannot be written.
pub(in crate::documents) fn rename_topic(
    tx: &Tx<'_>,
    id: &TopicId,
    path: &SourcePath,
) -> Result<()> {
    let params = named_params! {":topic": id, ":path": path};
    tx.prepare_cached(RENAME_TOPIC)?.execute(params)?;
    tx.prepare_cached(RENAME_MESSAGES)?.execute(params)?;
    spared(tx, move_words(tx, id, (i64::MAX, i64::MAX)))
}

fn move_words(tx: &Tx<'_>, id: &TopicId, (last, bytes): (i64, i64)) -> Result<()> {
    let mut statement = tx.prepare_cached(MOVED_TOPIC)?;
    let mut rows = statement.query(named_params! {":topic": id})?;
    let Some(row) = rows.next()? else { return Ok(()) };
    let (number, status): (i64, TopicStatus) = (row.get("number")?, row.get("status")?);
    with_topic(row, |topic| put_topic_words(tx, number, topic))?;
    drop(rows);
    let mut statement = tx.prepare_cached(MOVED_MESSAGES)?;
    let mut rows = statement.query(named_params! {":topic": id, ":last": last, ":bytes": bytes})?;
    while let Some(row) = rows.next()? {
        let (path, author): (String, Actor) = (row.get("path")?, row.get("author")?);
        let body: String = row.get("body")?;
        let is_moved = is_moved(row.get("sequence")?, &body);
        let marks = mark::of_writing(&path, &author, is_moved.then_some(status));
        put_message_words(tx, row.get("id")?, &body, &marks)?;
    }
    Ok(())
}

fn spared(tx: &Tx<'_>, put: Result<()>) -> Result<()> {
    match put {
        Err(cause) if cause.code_str() == INDEX_DAMAGED => mark_damaged(tx),
        put => put,
    }
}

fn insert_topic(tx: &Tx<'_>, topic: &TopicText<'_>) -> Result<()> {
    let params = named_params! {":topic": topic.id, ":path": topic.path, ":author": topic.author};
    let id: Option<i64> =
        tx.prepare_cached(PUT_TOPIC)?.query_row(params, |row| row.get(0)).optional()?;
    let Some(id) = id else { return Ok(()) };
    put_topic_words(tx, id, topic)
}

fn put_topic_words(tx: &Tx<'_>, id: i64, topic: &TopicText<'_>) -> Result<()> {
    let mut body = folded(topic.body);
    body.push_str(&folded(topic.quote));
    let title = folded(topic.title);
    let mut marks = mark::of_writing(topic.path.as_str(), topic.author, Some(topic.status));
    marks.push_str(&mark::of_title(&title));
    tx.prepare_cached(PUT_TOPIC_WORDS)?.execute(named_params! {
        ":id": id, ":title": title, ":body": body, ":marks": marks,
    })?;
    Ok(())
}

fn insert_message(tx: &Tx<'_>, message: &MessageText<'_>) -> Result<()> {
    let MessageText { id, topic, sequence, author, body } = *message;
    let params = named_params! {":message": id, ":topic": topic, ":author": author};
    let put: Option<(i64, String, TopicStatus)> = tx
        .prepare_cached(PUT_MESSAGE)?
        .query_row(params, |row| Ok((row.get("id")?, row.get("path")?, row.get("status")?)))
        .optional()?;
    let Some((id, path, status)) = put else { return Ok(()) };
    let marks = mark::of_writing(&path, author, is_moved(sequence, body).then_some(status));
    put_message_words(tx, id, body, &marks)
}

/// Returns whether a message is indexed again whenever its Topic's status changes.
fn is_moved(sequence: i64, body: &str) -> bool {
    let is_short = i64::try_from(body.len()).is_ok_and(|it| it <= MOVED_BYTES_MAX);
    is_short && sequence <= MOVED_SEQUENCE_MAX
}

fn put_message_words(tx: &Tx<'_>, id: i64, body: &str, marks: &str) -> Result<()> {
    let params = named_params! {":id": id, ":body": folded(body), ":marks": marks};
    tx.prepare_cached(PUT_MESSAGE_WORDS)?.execute(params)?;
    Ok(())
}

/// Reads a Topic row for indexing; returns the length of its text and the result of `take`.
fn with_topic<T>(
    row: &Row<'_>,
    take: impl FnOnce(&TopicText<'_>) -> Result<T>,
) -> Result<(TopicId, usize, T)> {
    let text = |name: &str| -> rusqlite::Result<String> {
        Ok(row.get::<_, Option<String>>(name)?.unwrap_or_default())
    };
    let (id, path, author) = (row.get("id")?, row.get("source_path")?, row.get("created_by")?);
    let (title, body, quote) = (text("title")?, text("body")?, text("origin_quote")?);
    let topic = TopicText {
        id: &id,
        path: &path,
        author: &author,
        status: row.get("status")?,
        title: &title,
        body: &body,
        quote: &quote,
    };
    let taken = take(&topic)?;
    Ok((id, title.len() + body.len() + quote.len(), taken))
}

/// Indexes some of the older Topics. Returns how many; 0 when there are no more.
///
/// # Errors
/// Fails if the database cannot be written; `index_damaged` if the full-text index is damaged.
pub fn take_in_topics(tx: &Tx<'_>) -> Result<i64> {
    let mut statement = tx.prepare_cached(TOPICS_LEFT)?;
    let mut rows = statement.query(named_params! {":rows": ROWS_MAX})?;
    let (mut count, mut bytes, mut last) = (0, 0, None);
    while let Some(row) = rows.next()? {
        let (id, length, ()) = with_topic(row, |topic| insert_topic(tx, topic))?;
        bytes += length;
        count += 1;
        last = Some(id);
        if bytes >= BYTES_MAX {
            break;
        }
    }
    drop(rows);
    let after = last.as_ref().map_or(ALL, TopicId::as_str);
    tx.prepare_cached(TOPICS_TAKEN)?.execute(named_params! {":after": after})?;
    Ok(count)
}

/// Indexes some of the older messages, like [`take_in_topics`].
///
/// # Errors
/// Same as [`take_in_topics`].
pub fn take_in_messages(tx: &Tx<'_>) -> Result<i64> {
    let mut statement = tx.prepare_cached(MESSAGES_LEFT)?;
    let mut rows = statement.query(named_params! {":rows": ROWS_MAX})?;
    let (mut count, mut bytes, mut last) = (0, 0, None);
    while let Some(row) = rows.next()? {
        let (id, topic): (MessageId, TopicId) = (row.get("id")?, row.get("topic_id")?);
        let (author, sequence): (Actor, i64) = (row.get("author")?, row.get("sequence")?);
        // The first message is indexed with its Topic.
        if sequence > 1 {
            let body: String = row.get("body")?;
            let (id, topic, author, body) = (&id, &topic, &author, body.as_str());
            insert_message(tx, &MessageText { id, topic, sequence, author, body })?;
            bytes += body.len();
        }
        count += 1;
        last = Some(id);
        if bytes >= BYTES_MAX {
            break;
        }
    }
    drop(rows);
    let after = last.as_ref().map_or(ALL, MessageId::as_str);
    tx.prepare_cached(MESSAGES_TAKEN)?.execute(named_params! {":after": after})?;
    Ok(count)
}
