//! Sources that are called as somebody asks.

use rusqlite::{Connection, named_params};

use crate::base::Result;

/// Greater than every word.
const PAST_EVERY_WORD: char = '\u{10ffff}';
/// What a Source gets beside its score if its title is what is asked; bm25 is better the smaller it
/// is, and never so small.
const SAME: f64 = -1.0e9;
/// The same if its title begins so.
const BEGINS: f64 = -1.0e6;
/// Most titles that are looked at.
const TITLES_MAX: u32 = 200;

const TITLED: &str = "
    SELECT s.id AS source, p.id AS part, s.title_words
    FROM search_sources AS s JOIN search_parts AS p ON p.source_id = s.id
    WHERE s.title_words >= :from AND s.title_words < :to AND p.start = 0
        AND s.path >= :path_from AND s.path < :path_to
    ORDER BY s.title_words LIMIT :limit";

pub(super) const STATEMENTS: &[(&str, &str)] = &[("search::called_so", TITLED)];

/// A Source that is meant by its title.
#[derive(Debug, PartialEq)]
pub(super) struct Titled {
    pub(super) source: i64,
    /// Its first part.
    pub(super) part: i64,
    /// What it gets beside its score.
    pub(super) score: f64,
}

/// Returns the Sources below a path whose title is these words, or begins with them; the last word
/// may be the beginning of one.
///
/// # Errors
/// As any read.
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
            // Another word that begins alike.
            Some(_) => continue,
        };
        found.push(Titled { source, part, score });
    }
    Ok(found)
}
