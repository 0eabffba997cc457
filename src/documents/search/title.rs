//! Finds Sources by their title.

use rusqlite::{Connection, named_params};

use crate::base::Result;

/// Greater than every word.
const PAST_EVERY_WORD: char = '\u{10ffff}';
/// Added to the score of a Source whose title equals the query; smaller is better, and bm25 never
/// is this small.
const SAME: f64 = -1.0e9;
/// The same if the title starts with the query.
const BEGINS: f64 = -1.0e6;
/// Most titles examined.
const TITLES_MAX: u32 = 200;

const TITLED: &str = "
    SELECT s.id AS source, p.id AS part, s.title_words
    FROM search_sources AS s JOIN search_parts AS p ON p.source_id = s.id
    WHERE s.title_words >= :from AND s.title_words < :to AND p.start = 0
        AND s.path >= :path_from AND s.path < :path_to
    ORDER BY s.title_words LIMIT :limit";

pub(super) const STATEMENTS: &[(&str, &str)] = &[("search::called_so", TITLED)];

/// A Source found by its title.
#[derive(Debug, PartialEq)]
pub(super) struct Titled {
    pub(super) source: i64,
    /// Its first part.
    pub(super) part: i64,
    /// The addition to its score.
    pub(super) score: f64,
}

/// Returns the Sources below a path whose title equals or starts with these words; the last word
/// may be a prefix.
///
/// # Errors
/// Fails if the database cannot be read.
pub(super) fn find(
    connection: &Connection,
    (title, is_open): (&str, bool),
    path: &str,
) -> Result<Vec<Titled>> {
    let mut statement = connection.prepare_cached(TITLED)?;
    let params = named_params! {
        ":from": title, ":to": format!("{title}{PAST_EVERY_WORD}"),
        ":path_from": path, ":path_to": format!("{path}{PAST_EVERY_WORD}"), ":limit": TITLES_MAX,
    };
    let rows = statement.query_map(params, |row| {
        let words: String = row.get("title_words")?;
        Ok((row.get("source")?, row.get("part")?, words))
    })?;
    let mut found = Vec::new();
    for row in rows {
        let (source, part, words) = row?;
        let rest = words.get(title.len()..).unwrap_or_default();
        let score = match rest.chars().next() {
            None => SAME,
            Some(' ') => BEGINS,
            Some(_) if is_open => BEGINS,
            // Another word with the same prefix.
            Some(_) => continue,
        };
        found.push(Titled { source, part, score });
    }
    Ok(found)
}
