//! Ranks results.
//!
//! bm25 reads all rows of each word that it weighs, however few results there are. Words contained
//! in very many rows therefore get no weight: they do not discriminate. If a query only contains
//! such words, matches in title or path come first, then newer results; and fewer rows are
//! searched, because a phrase of common words can only be found by reading its positions in every
//! row.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::base::Result;
use crate::base::limit::SEARCH_COMMON_MAX;
use crate::documents::search::ask::Ask;
use crate::documents::search::find::Sort;

/// Words contained in more rows of a table than this get no weight.
const COMMON_ROWS: u32 = 2_000;
/// The score of a row with only common words; bm25 scores are smaller, and smaller is better.
pub(super) const COMMON: f64 = -1.0e-6;
/// The same with those words in its title.
const COMMON_IN_TITLE: f64 = -2.0e-6;

const IS_COMMON_IN_SOURCES: &str = "
    SELECT 1 FROM search_source_words WHERE search_source_words MATCH :query
    LIMIT 1 OFFSET :rows";
const IS_COMMON_IN_TOPICS: &str = "
    SELECT 1 FROM search_topic_words WHERE search_topic_words MATCH :query LIMIT 1 OFFSET :rows";
const IS_COMMON_IN_MESSAGES: &str = "
    SELECT 1 FROM search_message_words WHERE search_message_words MATCH :query
    LIMIT 1 OFFSET :rows";
const RANK_SOURCES: &str = "
    SELECT rowid, bm25(search_source_words, 8.0, 1.0, 0.0) FROM search_source_words
    WHERE search_source_words MATCH :query AND rowid >= :oldest";
const RANK_TOPICS: &str = "
    SELECT rowid, bm25(search_topic_words, 4.0, 1.0, 0.0) FROM search_topic_words
    WHERE search_topic_words MATCH :query AND rowid >= :oldest";
const RANK_MESSAGES: &str = "
    SELECT rowid, bm25(search_message_words, 1.0, 0.0) FROM search_message_words
    WHERE search_message_words MATCH :query AND rowid >= :oldest";
const SOURCES_BY_PATH: &str = "
    SELECT rowid FROM search_source_words
    WHERE search_source_words MATCH :query AND rowid >= :oldest
    ORDER BY rowid DESC LIMIT :limit";
const TOPICS_BY_TITLE: &str = "
    SELECT rowid FROM search_topic_words
    WHERE search_topic_words MATCH :query AND rowid >= :oldest
    ORDER BY rowid DESC LIMIT :limit";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("search::is_common_in_sources", IS_COMMON_IN_SOURCES),
    ("search::is_common_in_topics", IS_COMMON_IN_TOPICS),
    ("search::is_common_in_messages", IS_COMMON_IN_MESSAGES),
    ("search::rank_sources", RANK_SOURCES),
    ("search::rank_topics", RANK_TOPICS),
    ("search::rank_messages", RANK_MESSAGES),
    ("search::sources_by_path", SOURCES_BY_PATH),
    ("search::topics_by_title", TOPICS_BY_TITLE),
];

/// The scores of the rows of one kind.
pub(super) enum Scores {
    Weighed(HashMap<i64, f64>),
    Common(HashSet<i64>),
}

impl Scores {
    /// Returns the score of a row: smaller is better.
    pub(super) fn of(&self, id: i64) -> f64 {
        match self {
            Scores::Weighed(scores) => scores.get(&id).copied().unwrap_or(COMMON),
            Scores::Common(titled) if titled.contains(&id) => COMMON_IN_TITLE,
            Scores::Common(_) => COMMON,
        }
    }
}

/// Returns those required words that discriminate between rows of a kind.
///
/// # Errors
/// Fails if the database cannot be read; `index_damaged` if the full-text index is damaged.
pub(super) fn telling(connection: &Connection, ask: &Ask, sort: Sort) -> Result<Vec<String>> {
    let is_common = match sort {
        Sort::Source => IS_COMMON_IN_SOURCES,
        Sort::Topic => IS_COMMON_IN_TOPICS,
        Sort::Message => IS_COMMON_IN_MESSAGES,
    };
    let mut telling = Vec::new();
    for word in ask.words() {
        let params = named_params! {":query": word, ":rows": COMMON_ROWS};
        let found: Option<i64> =
            connection.prepare_cached(is_common)?.query_row(params, |row| row.get(0)).optional()?;
        if found.is_none() {
            telling.push(word);
        }
    }
    Ok(telling)
}

/// Scores the matching rows from an id on, by their discriminating words; `marks` are those of the
/// filter.
///
/// # Errors
/// Fails if the database cannot be read; `index_damaged` if the full-text index is damaged.
pub(super) fn scores(
    connection: &Connection,
    (ask, telling): (&Ask, &[String]),
    marks: &str,
    (sort, oldest): (Sort, i64),
) -> Result<Scores> {
    let (rank, by_title) = match sort {
        Sort::Source => (RANK_SOURCES, Some(SOURCES_BY_PATH)),
        Sort::Topic => (RANK_TOPICS, Some(TOPICS_BY_TITLE)),
        Sort::Message => (RANK_MESSAGES, None),
    };
    if !telling.is_empty() {
        let params = named_params! {":query": telling.join(" AND "), ":oldest": oldest};
        let mut statement = connection.prepare_cached(rank)?;
        let rows = statement.query_map(params, |row| Ok((row.get(0)?, row.get(1)?)))?;
        return Ok(Scores::Weighed(rows.collect::<rusqlite::Result<_>>()?));
    }
    let Some(by_title) = by_title else { return Ok(Scores::Common(HashSet::new())) };
    // By marks: a common word is in nearly every text, but in few titles.
    let query = format!("({}){marks}", ask.in_title());
    let params = named_params! {":query": query, ":oldest": oldest, ":limit": SEARCH_COMMON_MAX};
    let mut statement = connection.prepare_cached(by_title)?;
    let rows = statement.query_map(params, |row| row.get(0))?;
    Ok(Scores::Common(rows.collect::<rusqlite::Result<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::search::find::{Filter, find};
    use crate::documents::search::mark;
    use crate::store::in_memory;

    #[test]
    fn a_word_that_very_many_hold_tells_nothing_apart() {
        let connection = in_memory();
        let put = "INSERT INTO search_topic_words (rowid, title, body, marks) VALUES (?, ?, ?, ?)";
        let mut put = connection.prepare(put).unwrap();
        let row =
            "INSERT INTO search_topics (id, topic_id, path, author) VALUES (?1, ?1, 'a', 'b')";
        let mut put_row = connection.prepare(row).unwrap();
        for id in 1..=i64::from(COMMON_ROWS) + 9 {
            let (title, body) = match id {
                7 => ("common", "common words"),
                9 => ("a title", "common seldom seldom"),
                11 => ("seldom", "common words"),
                _ => ("a title", "common words"),
            };
            put.execute((id, title, body, mark::of_title(title))).unwrap();
            put_row.execute([id]).unwrap();
        }
        let of = |asked: &str, ids: [i64; 2]| {
            let ask = Ask::parse(asked).unwrap();
            let telling = telling(&connection, &ask, Sort::Topic).unwrap();
            let scores = scores(&connection, (&ask, &telling), "", (Sort::Topic, 1)).unwrap();
            ids.map(|id| scores.of(id))
        };
        let [titled, plain] = of("common", [7, 8]);
        assert!(titled < plain);
        assert_eq!(of("comm* \"common words\"", [8, 12]), [COMMON, COMMON]);
        // With a discriminating word the score is bm25's, where smaller is better.
        let [in_title, in_body] = of("common seldom", [11, 9]);
        assert!(in_title < in_body && in_body < COMMON_IN_TITLE, "{in_title} {in_body}");
        assert_eq!(of("common seldom", [9, 9]), of("seldom", [9, 9]));
        let found = |asked: &str| {
            let filter = Filter { sort: Some(Sort::Topic), ..Filter::default() };
            let found = find(&connection, &Ask::parse(asked).unwrap(), &filter).unwrap();
            (found.items.len(), found.is_cut)
        };
        // Of common words the newest results are enough, and more are reported to exist.
        assert_eq!(found("\"common words\""), (SEARCH_COMMON_MAX as usize, true));
        assert_eq!(found("common seldom"), (2, false));
        // Rows without the word are not found, and would come last if they were.
        assert_eq!(of("common seldom", [8, 12]), [COMMON, COMMON]);
    }
}
