//! In which order is shown what was found.
//!
//! bm25 walks through all rows of each word that it weighs, however few were found. So a word that
//! very many rows hold weighs nothing: it tells nothing apart. Where only such words are asked for,
//! what has them in its title or path comes first, then what is newer; and fewer rows are looked
//! for, because a phrase of such words is found only by reading where they stand in every row.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::base::Result;
use crate::base::limit::SEARCH_COMMON_MAX;
use crate::documents::search::ask::Ask;
use crate::documents::search::find::Sort;

/// Words that stand in more rows of a table than this weigh nothing.
const COMMON_ROWS: u32 = 2_000;
/// What a row scores that has only common words; bm25 is better the smaller it is, and below this.
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

/// What the rows of one sort score.
pub(super) enum Scores {
    Weighed(HashMap<i64, f64>),
    Common(HashSet<i64>),
}

impl Scores {
    /// Returns what a row scores: the smaller, the better.
    pub(super) fn of(&self, id: i64) -> f64 {
        match self {
            Scores::Weighed(scores) => scores.get(&id).copied().unwrap_or(COMMON),
            Scores::Common(titled) if titled.contains(&id) => COMMON_IN_TITLE,
            Scores::Common(_) => COMMON,
        }
    }
}

/// Returns those of the words that are wanted which tell rows of a sort apart.
///
/// # Errors
/// As any read; `index_damaged`.
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

/// Weighs the rows that hold what is wanted, from some number on, by the words that tell them
/// apart; `marks` are those of the filter.
///
/// # Errors
/// As any read; `index_damaged`.
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
    // By marks: a common word stands in nearly every text, and in few titles.
    let query = format!("({}){marks}", ask.in_title());
    let params = named_params! {":query": query, ":oldest": oldest, ":limit": SEARCH_COMMON_MAX};
    let mut statement = connection.prepare_cached(by_title)?;
    let rows = statement.query_map(params, |row| row.get(0))?;
    Ok(Scores::Common(rows.collect::<rusqlite::Result<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Clock;
    use crate::documents::search::find::{Filter, find};
    use crate::documents::search::mark;
    use crate::store::{MIGRATIONS, migrate};

    #[test]
    fn a_word_that_very_many_hold_tells_nothing_apart() {
        let connection = Connection::open_in_memory().unwrap();
        migrate(&connection, MIGRATIONS, &Clock::system()).unwrap();
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
        // With a word that tells something apart it is bm25, where the smaller one is better.
        let [in_title, in_body] = of("common seldom", [11, 9]);
        assert!(in_title < in_body && in_body < COMMON_IN_TITLE, "{in_title} {in_body}");
        assert_eq!(of("common seldom", [9, 9]), of("seldom", [9, 9]));
        let found = |asked: &str| {
            let filter = Filter { sort: Some(Sort::Topic), ..Filter::default() };
            let found = find(&connection, &Ask::parse(asked).unwrap(), &filter).unwrap();
            (found.items.len(), found.is_cut)
        };
        // Of what tells nothing apart the newest are enough, and it is said that there are more.
        assert_eq!(found("\"common words\""), (SEARCH_COMMON_MAX as usize, true));
        assert_eq!(found("common seldom"), (2, false));
        // What does not have it is not found by the question, and comes last if it were.
        assert_eq!(of("common seldom", [8, 12]), [COMMON, COMMON]);
    }
}
