//! Owns the table `search_state`: the progress of the index, and rebuilding it.

use rusqlite::{Connection, named_params};
use serde::{Deserialize, Serialize};

use crate::base::Result;
use crate::documents::search::fold::FOLD_VERSION;
use crate::store::Tx;

/// Greater than every id: all rows are indexed.
pub(super) const ALL: &str = "~";

/// The indexing progress of Topics and messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Whether the index must be rebuilt: it is new, damaged, or uses an older folding of words.
    pub is_stale: bool,
    /// Whether all older Topics and messages are indexed.
    pub has_threads: bool,
}

/// How much remains to be indexed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Left {
    /// Sources.
    pub sources: i64,
    /// Topics.
    pub topics: i64,
    /// Messages, including first ones, which are indexed with their Topics.
    pub messages: i64,
}

const STATE: &str = "
    SELECT fold_version, is_damaged, topics_after, messages_after FROM search_state WHERE one = 1";
const LEFT: &str = "
    SELECT (SELECT COUNT(*) FROM topics WHERE id > s.topics_after),
           (SELECT COUNT(*) FROM topic_messages WHERE id > s.messages_after)
    FROM search_state AS s WHERE one = 1";
const MARK_DAMAGED: &str = "UPDATE search_state SET is_damaged = 1 WHERE one = 1";
const CLEAR_SOURCE_WORDS: &str = "
    INSERT INTO search_source_words (search_source_words) VALUES ('delete-all')";
const CLEAR_TOPIC_WORDS: &str = "
    INSERT INTO search_topic_words (search_topic_words) VALUES ('delete-all')";
const CLEAR_MESSAGE_WORDS: &str = "
    INSERT INTO search_message_words (search_message_words) VALUES ('delete-all')";
const CLEAR_PARTS: &str = "DELETE FROM search_parts";
const CLEAR_SOURCES: &str = "DELETE FROM search_sources";
const CLEAR_TOPICS: &str = "DELETE FROM search_topics";
const CLEAR_MESSAGES: &str = "DELETE FROM search_messages";
const BEGIN_ANEW: &str = "
    INSERT INTO search_state (one, fold_version, is_damaged, topics_after, messages_after)
    VALUES (1, :version, 0, '', '')
    ON CONFLICT (one) DO UPDATE SET fold_version = :version, is_damaged = 0, topics_after = '',
        messages_after = ''";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("search::state", STATE),
    ("search::left", LEFT),
    ("search::mark_damaged", MARK_DAMAGED),
    ("search::clear_source_words", CLEAR_SOURCE_WORDS),
    ("search::clear_topic_words", CLEAR_TOPIC_WORDS),
    ("search::clear_message_words", CLEAR_MESSAGE_WORDS),
    ("search::clear_parts", CLEAR_PARTS),
    ("search::clear_sources", CLEAR_SOURCES),
    ("search::clear_topics", CLEAR_TOPICS),
    ("search::clear_messages", CLEAR_MESSAGES),
    ("search::begin_anew", BEGIN_ANEW),
];

/// Returns the progress of the index.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn state(connection: &Connection) -> Result<State> {
    Ok(connection.prepare_cached(STATE)?.query_row([], |row| {
        let (version, is_damaged): (i64, bool) = (row.get(0)?, row.get(1)?);
        let (topics, messages): (String, String) = (row.get(2)?, row.get(3)?);
        Ok(State {
            is_stale: is_damaged || version != FOLD_VERSION,
            has_threads: topics == ALL && messages == ALL,
        })
    })?)
}

/// Returns how many Topics and messages remain to be indexed; for Sources only the repository
/// knows.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn left(connection: &Connection) -> Result<Left> {
    Ok(connection
        .prepare_cached(LEFT)?
        .query_row([], |row| Ok(Left { sources: 0, topics: row.get(0)?, messages: row.get(1)? }))?)
}

/// Records that the index is damaged or must be rebuilt for another reason.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn mark_damaged(tx: &Tx<'_>) -> Result<()> {
    tx.prepare_cached(MARK_DAMAGED)?.execute([])?;
    tx.ring(super::BELL);
    Ok(())
}

/// Empties the index, so that everything is indexed again.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn begin_anew(tx: &Tx<'_>) -> Result<()> {
    let all = [
        CLEAR_SOURCE_WORDS,
        CLEAR_TOPIC_WORDS,
        CLEAR_MESSAGE_WORDS,
        CLEAR_PARTS,
        CLEAR_SOURCES,
        CLEAR_TOPICS,
        CLEAR_MESSAGES,
    ];
    for statement in all {
        tx.prepare_cached(statement)?.execute([])?;
    }
    tx.prepare_cached(BEGIN_ANEW)?.execute(named_params! {":version": FOLD_VERSION})?;
    Ok(())
}
