//! Owns `search_topics` and `search_messages`: the words of threads, taken in with their rows.

use rusqlite::{OptionalExtension as _, Row, named_params};

use crate::base::{Actor, MessageId, Result, SourcePath, TopicId};
use crate::documents::search::state::ALL;
use crate::documents::search::{DAMAGED, folded, mark_damaged};
use crate::documents::topic::NewTopic;
use crate::store::Tx;

/// Most rows that are taken in by one transaction.
const ROWS_MAX: u32 = 200;
/// Most text that is taken in by one transaction, in bytes, if it is more than one row.
const BYTES_MAX: usize = 64 * 1024;

const PUT_TOPIC: &str = "
    INSERT INTO search_topics (topic_id, path, author) VALUES (:topic, :path, :author)
    ON CONFLICT (topic_id) DO NOTHING RETURNING id";
const PUT_TOPIC_WORDS: &str = "
    INSERT INTO search_topic_words (rowid, title, body) VALUES (:id, :title, :body)";
const PUT_MESSAGE: &str = "
    INSERT INTO search_messages (message_id, topic_id, path, author)
    SELECT :message, :topic, source_path, :author FROM topics WHERE id = :topic
    ON CONFLICT (message_id) DO NOTHING RETURNING id";
const PUT_MESSAGE_WORDS: &str = "
    INSERT INTO search_message_words (rowid, body) VALUES (:id, :body)";
const TOPICS_LEFT: &str = "
    SELECT t.id, t.source_path, t.created_by, t.title, m.body, a.origin_quote
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
    ("search::topics_left", TOPICS_LEFT),
    ("search::messages_left", MESSAGES_LEFT),
    ("search::topics_taken", TOPICS_TAKEN),
    ("search::messages_taken", MESSAGES_TAKEN),
];

/// A Topic as it is taken in.
struct TopicText<'a> {
    id: &'a TopicId,
    path: &'a SourcePath,
    author: &'a Actor,
    title: &'a str,
    body: &'a str,
    quote: &'a str,
}

/// Takes a Topic in; one that is in already stays as it is. A damaged index does not stand in the
/// way: it will be made anew.
///
/// # Errors
/// As any write.
pub(in crate::documents) fn put_topic(
    tx: &Tx<'_>,
    id: &TopicId,
    title: &str,
    new: &NewTopic,
) -> Result<()> {
    let (path, author, body) = (&new.source_path, &new.author, new.body.as_str());
    let quote = new.anchor.as_ref().map_or("", |it| it.quote.as_str());
    spared(tx, insert_topic(tx, &TopicText { id, path, author, title, body, quote }))
}

/// Takes a message that is not the first of its Topic in; as [`put_topic`].
///
/// # Errors
/// As any write.
pub(in crate::documents) fn put_message(
    tx: &Tx<'_>,
    (id, topic): (&MessageId, &TopicId),
    author: &Actor,
    body: &str,
) -> Result<()> {
    spared(tx, insert_message(tx, (id, topic), author, body))
}

fn spared(tx: &Tx<'_>, put: Result<()>) -> Result<()> {
    match put {
        Err(cause) if cause.code_str() == DAMAGED => mark_damaged(tx),
        put => put,
    }
}

fn insert_topic(tx: &Tx<'_>, topic: &TopicText<'_>) -> Result<()> {
    let params = named_params! {":topic": topic.id, ":path": topic.path, ":author": topic.author};
    let id: Option<i64> =
        tx.prepare_cached(PUT_TOPIC)?.query_row(params, |row| row.get(0)).optional()?;
    let Some(id) = id else { return Ok(()) };
    let mut body = folded(topic.body);
    body.push_str(&folded(topic.quote));
    let params = named_params! {":id": id, ":title": folded(topic.title), ":body": body};
    tx.prepare_cached(PUT_TOPIC_WORDS)?.execute(params)?;
    Ok(())
}

fn insert_message(
    tx: &Tx<'_>,
    (id, topic): (&MessageId, &TopicId),
    author: &Actor,
    body: &str,
) -> Result<()> {
    let params = named_params! {":message": id, ":topic": topic, ":author": author};
    let id: Option<i64> =
        tx.prepare_cached(PUT_MESSAGE)?.query_row(params, |row| row.get(0)).optional()?;
    let Some(id) = id else { return Ok(()) };
    let params = named_params! {":id": id, ":body": folded(body)};
    tx.prepare_cached(PUT_MESSAGE_WORDS)?.execute(params)?;
    Ok(())
}

/// Takes in some of the Topics of before that are not in yet. Returns how many they were; 0 at the
/// end.
///
/// # Errors
/// As any write; `index_damaged`.
pub fn take_in_topics(tx: &Tx<'_>) -> Result<i64> {
    let mut statement = tx.prepare_cached(TOPICS_LEFT)?;
    let mut rows = statement.query(named_params! {":rows": ROWS_MAX})?;
    let (mut count, mut bytes, mut last) = (0, 0, None);
    while let Some(row) = rows.next()? {
        let text = |row: &Row<'_>, name| row.get::<_, Option<String>>(name);
        let (id, path, author) = (row.get("id")?, row.get("source_path")?, row.get("created_by")?);
        let title = text(row, "title")?.unwrap_or_default();
        let body = text(row, "body")?.unwrap_or_default();
        let quote = text(row, "origin_quote")?.unwrap_or_default();
        let topic = TopicText {
            id: &id,
            path: &path,
            author: &author,
            title: &title,
            body: &body,
            quote: &quote,
        };
        insert_topic(tx, &topic)?;
        bytes += title.len() + body.len() + quote.len();
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

/// Takes in some of the messages of before, as [`take_in_topics`].
///
/// # Errors
/// As [`take_in_topics`].
pub fn take_in_messages(tx: &Tx<'_>) -> Result<i64> {
    let mut statement = tx.prepare_cached(MESSAGES_LEFT)?;
    let mut rows = statement.query(named_params! {":rows": ROWS_MAX})?;
    let (mut count, mut bytes, mut last) = (0, 0, None);
    while let Some(row) = rows.next()? {
        let (id, topic): (MessageId, TopicId) = (row.get("id")?, row.get("topic_id")?);
        let (author, sequence): (Actor, i64) = (row.get("author")?, row.get("sequence")?);
        // The first one is in its Topic.
        if sequence > 1 {
            let body: String = row.get("body")?;
            insert_message(tx, (&id, &topic), &author, &body)?;
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
