//! Owns `search_sources` and `search_parts`: the indexed words of Sources, by version.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};

use crate::base::{BlobId, Result, SourcePath};
use crate::documents::search::fold::{folded, word_border};
use crate::documents::search::mark;
use crate::documents::sources::title::file_name;
use crate::store::Tx;

/// Largest part of a Source indexed in one transaction, in bytes.
const PART_BYTES_MAX: usize = 256 * 1024;
/// How far a part extends into the next one, in bytes, to find phrases across the boundary.
const OVERLAP_BYTES: usize = 1024;

const KNOWN: &str = "SELECT path, blob FROM search_sources";
const TITLES: &str = "SELECT path, blob, title FROM search_sources";
const TITLE: &str = "SELECT path, blob, title FROM search_sources WHERE path = :path";
const SOURCE_ID: &str = "SELECT id FROM search_sources WHERE path = :path";
const BEGIN: &str = "
    INSERT INTO search_sources (path, blob, title, title_words)
    VALUES (:path, '', :title, :title_words)
    ON CONFLICT (path) DO UPDATE SET blob = '', title = excluded.title,
        title_words = excluded.title_words
    RETURNING id";
const PARTS: &str = "SELECT id FROM search_parts WHERE source_id = :source";
const DROP_WORDS: &str = "DELETE FROM search_source_words WHERE rowid = :id";
const DROP_PARTS: &str = "DELETE FROM search_parts WHERE source_id = :source";
const DROP_SOURCE: &str = "DELETE FROM search_sources WHERE id = :source";
const PUT_PART: &str = "
    INSERT INTO search_parts (source_id, path, start, bytes, line)
    VALUES (:source, :path, :start, :bytes, :line) RETURNING id";
const PUT_WORDS: &str = "
    INSERT INTO search_source_words (rowid, path, body, marks)
    VALUES (:id, :path, :body, :marks)";
const SEAL: &str = "UPDATE search_sources SET blob = :blob WHERE path = :path";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("search::known_sources", KNOWN),
    ("search::titles", TITLES),
    ("search::title", TITLE),
    ("search::source_id", SOURCE_ID),
    ("search::begin_source", BEGIN),
    ("search::parts", PARTS),
    ("search::drop_words", DROP_WORDS),
    ("search::drop_parts", DROP_PARTS),
    ("search::drop_source", DROP_SOURCE),
    ("search::put_part", PUT_PART),
    ("search::put_source_words", PUT_WORDS),
    ("search::seal_source", SEAL),
];

/// A part of a Source, ready to be indexed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Byte offset in the text.
    pub start: usize,
    /// Its length in bytes.
    pub bytes: usize,
    /// Number of its first line.
    pub line: usize,
    /// Its folded words.
    pub words: String,
    /// Whether its text has several parts.
    pub is_long: bool,
}

/// Splits a text into parts for indexing and folds them; at least one.
pub fn parts_of(text: &str) -> Vec<Part> {
    let (mut parts, mut start, mut line) = (Vec::new(), 0, 1);
    let is_long = text.len() > PART_BYTES_MAX;
    loop {
        let end = part_end(text, start);
        let part = &text[start..reach_of(text, end)];
        let words = folded(part);
        parts.push(Part { start, bytes: part.len(), line, words, is_long });
        line += text[start..end].bytes().filter(|it| *it == b'\n').count();
        start = end;
        if start >= text.len() {
            return parts;
        }
    }
}

/// Returns the end of a part that begins at `start`: after a line, or else between two words.
fn part_end(text: &str, start: usize) -> usize {
    let far = floor_of(text, start + PART_BYTES_MAX);
    match text[start..far].rfind('\n') {
        _ if far == text.len() => far,
        Some(feed) => start + feed + 1,
        None => word_border(text, start, far),
    }
}

/// Returns how far a part that ends at `end` extends into the next one, without splitting a word.
fn reach_of(text: &str, end: usize) -> usize {
    let far = floor_of(text, end + OVERLAP_BYTES);
    if far == text.len() { far } else { word_border(text, end, far) }
}

/// Returns the last character boundary up to a byte.
fn floor_of(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Returns the indexed Sources with their versions; `None` for one that is only partly indexed.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn known_sources(connection: &Connection) -> Result<Vec<(SourcePath, Option<BlobId>)>> {
    let mut statement = connection.prepare_cached(KNOWN)?;
    let rows = statement.query_map([], |row| {
        let blob: String = row.get("blob")?;
        Ok((row.get("path")?, blob.parse().ok()))
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The title of an indexed Source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownTitle {
    /// The Source.
    pub path: SourcePath,
    /// The indexed version; `None` while it is being indexed.
    pub blob: Option<BlobId>,
    /// Its own title, if it has one.
    pub title: Option<String>,
}

impl KnownTitle {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<KnownTitle> {
        let (blob, title): (String, String) = (row.get("blob")?, row.get("title")?);
        let title = Some(title).filter(|it| !it.is_empty());
        Ok(KnownTitle { path: row.get("path")?, blob: blob.parse().ok(), title })
    }
}

/// Returns the titles of all indexed Sources.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn titles(connection: &Connection) -> Result<Vec<KnownTitle>> {
    let mut statement = connection.prepare_cached(TITLES)?;
    let rows = statement.query_map([], KnownTitle::from_row)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns the title of a Source, if it is indexed.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn title(connection: &Connection, path: &SourcePath) -> Result<Option<KnownTitle>> {
    let mut statement = connection.prepare_cached(TITLE)?;
    let found = statement.query_row(named_params! {":path": path}, KnownTitle::from_row);
    Ok(found.optional()?)
}

/// Indexes one part of a Source, with its title, if any; the first part replaces earlier ones. The
/// Source counts as complete only after [`seal_source`].
///
/// # Errors
/// Fails if the database cannot be written; `index_damaged` if the full-text index is damaged.
pub fn put_part(tx: &Tx<'_>, path: &SourcePath, title: Option<&str>, part: &Part) -> Result<()> {
    let title_words = folded(title.unwrap_or_else(|| file_name(path.as_str())));
    let source: i64 = match part.start {
        0 => {
            let params = named_params! {
                ":path": path, ":title": title.unwrap_or_default(),
                ":title_words": title_words.trim_end(),
            };
            let source = tx.prepare_cached(BEGIN)?.query_row(params, |row| row.get(0))?;
            drop_parts(tx, source)?;
            source
        }
        _ => match source_id(tx, path)? {
            Some(source) => source,
            // It was removed meanwhile.
            None => return Ok(()),
        },
    };
    let number = |it: usize| i64::try_from(it).unwrap_or(i64::MAX);
    let id: i64 = tx.prepare_cached(PUT_PART)?.query_row(
        named_params! {
            ":source": source, ":path": path, ":start": number(part.start),
            ":bytes": number(part.bytes), ":line": number(part.line),
        },
        |row| row.get(0),
    )?;
    let mut named = folded(title.unwrap_or_default());
    named.push_str(&folded(path.as_str()));
    tx.prepare_cached(PUT_WORDS)?.execute(named_params! {
        ":id": id, ":path": named, ":body": part.words,
        ":marks": mark::of_part(path.as_str(), &named, part.is_long),
    })?;
    Ok(())
}

/// Records that all parts of a Source's version are indexed.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn seal_source(tx: &Tx<'_>, path: &SourcePath, blob: &BlobId) -> Result<()> {
    tx.prepare_cached(SEAL)?.execute(named_params! {":path": path, ":blob": blob})?;
    Ok(())
}

/// Removes a Source from the index.
///
/// # Errors
/// Fails if the database cannot be written; `index_damaged` if the full-text index is damaged.
pub fn remove_source(tx: &Tx<'_>, path: &SourcePath) -> Result<()> {
    let Some(source) = source_id(tx, path)? else { return Ok(()) };
    drop_parts(tx, source)?;
    tx.prepare_cached(DROP_SOURCE)?.execute(named_params! {":source": source})?;
    Ok(())
}

fn source_id(tx: &Tx<'_>, path: &SourcePath) -> Result<Option<i64>> {
    let params = named_params! {":path": path};
    Ok(tx.prepare_cached(SOURCE_ID)?.query_row(params, |row| row.get(0)).optional()?)
}

fn drop_parts(tx: &Tx<'_>, source: i64) -> Result<()> {
    let mut statement = tx.prepare_cached(PARTS)?;
    let rows = statement.query_map(named_params! {":source": source}, |row| row.get(0))?;
    let parts: Vec<i64> = rows.collect::<rusqlite::Result<_>>()?;
    for id in parts {
        tx.prepare_cached(DROP_WORDS)?.execute(named_params! {":id": id})?;
    }
    tx.prepare_cached(DROP_PARTS)?.execute(named_params! {":source": source})?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_tile_a_text_and_know_their_lines() {
        let text = "a line of some words, é 日\n".repeat(30_000);
        let parts = parts_of(&text);
        assert!(parts.len() > 3);
        let mut at = 0;
        for part in &parts {
            assert!(part.start <= at, "nothing is left out");
            assert!(part.bytes <= PART_BYTES_MAX + OVERLAP_BYTES && part.is_long);
            assert_eq!(part.line, 1 + text[..part.start].matches('\n').count());
            at = part.start + part.bytes;
        }
        assert_eq!(at, text.len());
        let short = parts_of("");
        assert!(short.len() == 1 && !short[0].is_long);
    }

    #[test]
    fn a_phrase_across_two_parts_is_within_one_of_them() {
        let text = format!("{}\nalpha\nbravo charlie\n", "x ".repeat(PART_BYTES_MAX / 2 - 5));
        let parts = parts_of(&text);
        assert_eq!(parts.len(), 2);
        assert!(parts[0].words.contains("alpha bravo charlie"), "{}", parts[0].bytes);
        // Neither line breaks nor spaces to cut at.
        let text = "日".repeat(PART_BYTES_MAX / 3 - 1) + "検索" + &"本".repeat(1_000);
        let parts = parts_of(&text);
        assert_eq!(parts.len(), 2);
        assert!(parts[0].words.contains("検 索 本 本"), "{}", parts[0].bytes);
        let text = "x ".repeat(PART_BYTES_MAX / 2 - 2) + "unbroken words";
        let parts = parts_of(&text);
        assert_eq!(parts[1].words, "unbroken words ");
    }
}
