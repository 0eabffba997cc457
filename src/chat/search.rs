//! The search index of conversations: updated with each message, and searched by each person alone.
//!
//! **Invariant:** a search only finds messages of its person, by a mark in the index and by the row
//! of the conversation.
//! **Invariant:** both tables are derived from the messages and can be rebuilt.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};

use crate::base::limit::{SEARCH_COMMON_MAX, SEARCH_RANKED_MAX};
use crate::base::{ChatId, INDEX_DAMAGED, PersonId, Result};
use crate::chat::message::Message;
use crate::documents::search::{self, Ask, folded, of_owner};
use crate::store::Tx;

/// Most messages indexed by one transaction.
const ROWS_MAX: u32 = 200;
/// Most bytes of text indexed by one transaction, if it has several messages.
const BYTES_MAX: usize = 64 * 1024;
/// Words in more messages than this are not ranked, because bm25 visits all of those.
const COMMON_ROWS: u32 = 2_000;
/// Pages of the index that are merged by one transaction.
const MERGED_PAGES: i64 = 64;
/// Everything is indexed.
const ALL: i64 = i64::MAX;

const TEXT: &str = "
    SELECT m.seq, m.body, s.person_id, IIF(m.seq = (
        SELECT MIN(seq) FROM chat_messages WHERE session_id = s.id), s.title, '') AS title
    FROM chat_messages AS m JOIN chat_sessions AS s ON s.id = m.session_id WHERE m.seq = :seq";
const FIRST: &str = "SELECT MIN(seq) FROM chat_messages WHERE session_id = :session";
const PUT: &str = "
    INSERT OR REPLACE INTO search_chat_words (rowid, title, body, marks)
    VALUES (:seq, :title, :body, :marks)";
const FORGET: &str = "
    DELETE FROM search_chat_words
    WHERE rowid IN (SELECT seq FROM chat_messages WHERE session_id = :session)";
const LEFT: &str = "
    SELECT seq FROM chat_messages
    WHERE seq > (SELECT after_seq FROM search_chat_state WHERE one = 1) ORDER BY seq LIMIT :rows";
const TAKEN: &str = "
    INSERT INTO search_chat_state (one, after_seq) VALUES (1, :after)
    ON CONFLICT (one) DO UPDATE SET after_seq = :after";
const CLEAR: &str = "INSERT INTO search_chat_words (search_chat_words) VALUES ('delete-all')";
const NOTE_GONE: &str = "UPDATE search_chat_state SET has_gone = :gone WHERE one = 1";
const HAS_GONE: &str = "SELECT has_gone FROM search_chat_state WHERE one = 1";
// With a negative number, all parts of the index are merged in the end; each call does some pages.
const MERGE: &str =
    "INSERT INTO search_chat_words (search_chat_words, rank) VALUES ('merge', :pages)";
const IS_WHOLE: &str = "SELECT after_seq = :all FROM search_chat_state WHERE one = 1";
// Only the newest are ranked, so the index is walked from its end.
const MATCHES: &str = "
    SELECT m.seq, m.session_id
    FROM search_chat_words CROSS JOIN chat_messages AS m ON m.seq = search_chat_words.rowid
    CROSS JOIN chat_sessions AS s ON s.id = m.session_id
    WHERE search_chat_words MATCH :query AND s.person_id = :person AND s.archived_ms IS NULL
    ORDER BY search_chat_words.rowid DESC LIMIT :limit";
const IS_COMMON: &str = "
    SELECT 1 FROM search_chat_words WHERE search_chat_words MATCH :query LIMIT 1 OFFSET :rows";
const RANK: &str = "
    SELECT rowid, bm25(search_chat_words, 4.0, 1.0, 0.0) FROM search_chat_words
    WHERE search_chat_words MATCH :query AND rowid >= :oldest";
const MESSAGE: &str = "
    SELECT m.* FROM chat_messages AS m JOIN chat_sessions AS s ON s.id = m.session_id
    WHERE m.seq = :seq AND s.person_id = :person";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("chat::search_text", TEXT),
    ("chat::search_first", FIRST),
    ("chat::search_put", PUT),
    ("chat::search_forget", FORGET),
    ("chat::search_left", LEFT),
    ("chat::search_taken", TAKEN),
    ("chat::search_clear", CLEAR),
    ("chat::search_note_gone", NOTE_GONE),
    ("chat::search_has_gone", HAS_GONE),
    ("chat::search_merge", MERGE),
    ("chat::search_is_whole", IS_WHOLE),
    ("chat::search_matches", MATCHES),
    ("chat::search_is_common", IS_COMMON),
    ("chat::search_rank", RANK),
    ("chat::search_message", MESSAGE),
];

/// A conversation found by a search, with its best message.
#[derive(Clone, Debug)]
pub struct FoundChat {
    /// The conversation.
    pub session: ChatId,
    /// The number of the message.
    pub seq: i64,
}

/// Indexes a new message. A damaged index is no error, because it will be rebuilt.
pub(super) fn put(tx: &Tx<'_>, seq: i64) -> Result<()> {
    spared(tx, put_words(tx, seq).map(drop))
}

/// Indexes a conversation's title again.
pub(super) fn rename(tx: &Tx<'_>, session: &ChatId) -> Result<()> {
    let params = named_params! {":session": session};
    let first: Option<i64> = tx.prepare_cached(FIRST)?.query_row(params, |row| row.get(0))?;
    first.map_or(Ok(()), |seq| put(tx, seq))
}

/// Removes a conversation from the index, before its messages are deleted.
pub(super) fn forget(tx: &Tx<'_>, session: &ChatId) -> Result<()> {
    let forgotten = tx.prepare_cached(FORGET)?.execute(named_params! {":session": session});
    spared(tx, forgotten.map(drop).map_err(Into::into))?;
    tx.prepare_cached(NOTE_GONE)?.execute(named_params! {":gone": true})?;
    tx.ring(search::BELL);
    Ok(())
}

/// Returns whether words of deleted messages may still be in the index: the deletion of a row only
/// marks it there.
///
/// # Errors
/// As any read.
pub fn has_gone_words(connection: &Connection) -> Result<bool> {
    let found = connection.prepare_cached(HAS_GONE)?.query_row([], |row| row.get(0));
    Ok(found.optional()?.unwrap_or(false))
}

/// Merges a part of the index, which leaves those words out; the last call notes that it is done.
///
/// # Errors
/// As any write; `index_damaged`.
pub fn merge_words(tx: &Tx<'_>) -> Result<()> {
    let before = tx.connection().total_changes();
    tx.prepare_cached(MERGE)?.execute(named_params! {":pages": -MERGED_PAGES})?;
    // One change is that of the command itself.
    if tx.connection().total_changes() - before > 1 {
        return Ok(());
    }
    tx.prepare_cached(NOTE_GONE)?.execute(named_params! {":gone": false})?;
    Ok(())
}

fn spared(tx: &Tx<'_>, done: Result<()>) -> Result<()> {
    match done {
        Err(cause) if cause.code_str() == INDEX_DAMAGED => search::mark_damaged(tx),
        done => done,
    }
}

/// Indexes a message; returns the length of its text.
fn put_words(tx: &Tx<'_>, seq: i64) -> Result<usize> {
    let read = |row: &Row<'_>| {
        let (title, body): (String, String) = (row.get("title")?, row.get("body")?);
        Ok((title, body, row.get::<_, PersonId>("person_id")?))
    };
    let found = tx.prepare_cached(TEXT)?.query_row(named_params! {":seq": seq}, read).optional()?;
    let Some((title, body, person)) = found else { return Ok(0) };
    tx.prepare_cached(PUT)?.execute(named_params! {
        ":seq": seq, ":title": folded(&title), ":body": folded(&body),
        ":marks": of_owner(&person),
    })?;
    Ok(body.len())
}

/// Indexes some of the messages that are missing in the index. Returns how many; 0 at the end.
///
/// # Errors
/// As any write; `index_damaged`.
pub fn take_in_chats(tx: &Tx<'_>) -> Result<i64> {
    let mut statement = tx.prepare_cached(LEFT)?;
    let rows = statement.query_map(named_params! {":rows": ROWS_MAX}, |row| row.get(0))?;
    let left: Vec<i64> = rows.collect::<rusqlite::Result<_>>()?;
    let (mut count, mut bytes, mut after) = (0, 0, ALL);
    for seq in left {
        bytes += put_words(tx, seq)?;
        (count, after) = (count + 1, seq);
        if bytes >= BYTES_MAX {
            break;
        }
    }
    tx.prepare_cached(TAKEN)?.execute(named_params! {":after": after})?;
    Ok(count)
}

/// Empties the index, so that it is rebuilt.
///
/// # Errors
/// As any write.
pub fn forget_words(tx: &Tx<'_>) -> Result<()> {
    tx.prepare_cached(CLEAR)?.execute([])?;
    tx.prepare_cached(TAKEN)?.execute(named_params! {":after": 0})?;
    Ok(())
}

/// Returns whether the index is complete.
///
/// # Errors
/// As any read.
pub fn has_all_words(connection: &Connection) -> Result<bool> {
    let params = named_params! {":all": ALL};
    let found = connection.prepare_cached(IS_WHOLE)?.query_row(params, |row| row.get(0));
    Ok(found.optional()?.unwrap_or(false))
}

/// Finds a person's conversations, best first, each once; and whether more matched than were
/// ranked. Archived conversations are not found.
///
/// # Errors
/// As any read; `index_damaged`.
pub fn search(
    connection: &Connection,
    person: &PersonId,
    ask: &Ask,
) -> Result<(Vec<FoundChat>, bool)> {
    let telling = telling(connection, ask)?;
    let most = if telling.is_empty() { SEARCH_COMMON_MAX } else { SEARCH_RANKED_MAX };
    let query = format!("({}) AND \"{}\"", ask.expression(), of_owner(person));
    let params = named_params! {":query": query, ":person": person, ":limit": most + 1};
    let mut statement = connection.prepare_cached(MATCHES)?;
    let rows = statement.query_map(params, |row| {
        Ok(FoundChat { seq: row.get("seq")?, session: row.get("session_id")? })
    })?;
    let mut found: Vec<FoundChat> = rows.collect::<rusqlite::Result<_>>()?;
    let is_cut = found.len() > most as usize;
    found.truncate(most as usize);
    if let (Some(oldest), false) = (found.last(), telling.is_empty()) {
        let scores = scores(connection, &telling, oldest.seq)?;
        let of = |it: &FoundChat| scores.get(&it.seq).copied().unwrap_or(0.0);
        // A smaller bm25 is better; of equal matches the newest comes first.
        found.sort_by(|a, b| of(a).total_cmp(&of(b)).then(b.seq.cmp(&a.seq)));
    }
    let mut seen = HashSet::new();
    found.retain(|it| seen.insert(it.session.clone()));
    Ok((found, is_cut))
}

/// Returns the words that are rare enough to be ranked.
fn telling(connection: &Connection, ask: &Ask) -> Result<Vec<String>> {
    let mut telling = Vec::new();
    for word in ask.words() {
        let params = named_params! {":query": word, ":rows": COMMON_ROWS};
        let found: Option<i64> =
            connection.prepare_cached(IS_COMMON)?.query_row(params, |row| row.get(0)).optional()?;
        if found.is_none() {
            telling.push(word);
        }
    }
    Ok(telling)
}

fn scores(connection: &Connection, telling: &[String], oldest: i64) -> Result<HashMap<i64, f64>> {
    let params = named_params! {":query": telling.join(" AND "), ":oldest": oldest};
    let mut statement = connection.prepare_cached(RANK)?;
    let rows = statement.query_map(params, |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns a person's message by its number.
///
/// # Errors
/// As any read.
pub fn message_of(connection: &Connection, person: &PersonId, seq: i64) -> Result<Option<Message>> {
    let params = named_params! {":seq": seq, ":person": person};
    Ok(connection.prepare_cached(MESSAGE)?.query_row(params, Message::from_row).optional()?)
}
