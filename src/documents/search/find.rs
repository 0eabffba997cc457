//! Executes searches: ranked candidates, and the details of those on a page.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::api::topics::TopicStatus;
use crate::base::limit::{SEARCH_COMMON_MAX, SEARCH_RANKED_MAX};
use crate::base::word_enum;
use crate::base::{Actor, MessageId, Millis, Result, SourcePath, TopicId};
use crate::documents::search::across_parts::{self, Place};
use crate::documents::search::ask::Ask;
use crate::documents::search::{mark, rank, title};

/// Greater than every path.
const PAST_EVERY_PATH: char = '\u{10ffff}';
/// The weight of documents in the ranking: people mostly search for them.
const SOURCE_WEIGHT: f64 = 1.5;

word_enum! {
    /// The kinds of results.
    Sort {
        /// A Source.
        Source = "source",
        /// A Topic: its title, its first message, or what it points at.
        Topic = "topic",
        /// A message after the first one.
        Message = "message",
    }
}

/// Restrictions of a search.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only this kind.
    pub sort: Option<Sort>,
    /// Only paths with this prefix.
    pub path: Option<String>,
    /// Only Topics with this status, and their messages; no Sources.
    pub status: Option<TopicStatus>,
    /// Only what this actor wrote; no Sources.
    pub author: Option<Actor>,
}

/// A result, by its id in the index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Its kind.
    pub sort: Sort,
    /// Its id within its kind; for a Source the id of a part.
    pub id: i64,
    score: f64,
}

/// A matching row, before parts are reduced to Sources.
struct Row {
    thing: i64,
    candidate: Candidate,
}

/// All results, best first.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// At most [`SEARCH_RANKED_MAX`] of each kind, and each Source once.
    pub items: Vec<Candidate>,
    /// Whether there are more than were ranked.
    pub is_cut: bool,
}

/// A matching part of a Source.
#[derive(Clone, Debug)]
pub struct FoundPart {
    /// The Source.
    pub path: SourcePath,
    /// The indexed version; empty while it changes.
    pub blob: String,
    /// Byte offset of the part in the Source.
    pub start: usize,
    /// Length of the part.
    pub bytes: usize,
    /// Number of its first line.
    pub line: usize,
}

/// A matching Topic.
#[derive(Clone, Debug)]
pub struct FoundTopic {
    /// Its id.
    pub id: TopicId,
    /// The Source.
    pub path: SourcePath,
    /// Its title.
    pub title: String,
    /// Its status.
    pub status: TopicStatus,
    /// Who opened it.
    pub author: Actor,
    /// When it was opened.
    pub at: Millis,
    /// Its first message.
    pub body: String,
    /// The quoted passage; empty for a global Topic.
    pub quote: String,
}

/// A matching message.
#[derive(Clone, Debug)]
pub struct FoundMessage {
    /// Its id.
    pub id: MessageId,
    /// Its position in the Topic.
    pub sequence: i64,
    /// Who wrote it.
    pub author: Actor,
    /// When it was written.
    pub at: Millis,
    /// Its text.
    pub body: String,
    /// Its Topic.
    pub topic_id: TopicId,
    /// The Topic's title.
    pub title: String,
    /// The Topic's status.
    pub status: TopicStatus,
    /// The Topic's Source.
    pub path: SourcePath,
}

// The newest are ranked: the index is walked from its end. The marks in the query exclude most of
// what a filter excludes; the rest is checked here.
const SOURCES: &str = "
    SELECT p.id, p.source_id AS thing
    FROM search_source_words CROSS JOIN search_parts AS p ON p.id = search_source_words.rowid
    WHERE search_source_words MATCH :query AND p.path >= :from AND p.path < :to
    ORDER BY search_source_words.rowid DESC LIMIT :limit";
const TOPICS: &str = "
    SELECT s.id, s.id AS thing
    FROM search_topic_words CROSS JOIN search_topics AS s ON s.id = search_topic_words.rowid
    WHERE search_topic_words MATCH :query AND s.path >= :from AND s.path < :to
        AND (:author IS NULL OR s.author = :author)
        AND (:status IS NULL
             OR EXISTS (SELECT 1 FROM topics WHERE id = s.topic_id AND status = :status))
    ORDER BY search_topic_words.rowid DESC LIMIT :limit";
const MESSAGES: &str = "
    SELECT s.id, s.id AS thing
    FROM search_message_words CROSS JOIN search_messages AS s ON s.id = search_message_words.rowid
    WHERE search_message_words MATCH :query AND s.path >= :from AND s.path < :to
        AND (:author IS NULL OR s.author = :author)
        AND (:status IS NULL
             OR EXISTS (SELECT 1 FROM topics WHERE id = s.topic_id AND status = :status))
    ORDER BY search_message_words.rowid DESC LIMIT :limit";
const PART: &str = "
    SELECT p.path, p.start, p.bytes, p.line, s.blob
    FROM search_parts AS p JOIN search_sources AS s ON s.id = p.source_id WHERE p.id = :id";
const TOPIC: &str = "
    SELECT t.id, t.source_path, t.title, t.status, t.created_by, t.created_ms, m.body,
        a.origin_quote
    FROM search_topics AS s JOIN topics AS t ON t.id = s.topic_id
    LEFT JOIN topic_messages AS m ON m.topic_id = t.id AND m.sequence = 1
    LEFT JOIN anchors AS a ON a.topic_id = t.id WHERE s.id = :id";
const MESSAGE: &str = "
    SELECT m.id, m.sequence, m.author, m.created_ms, m.body, t.id AS topic, t.title, t.status,
        t.source_path
    FROM search_messages AS s JOIN topic_messages AS m ON m.id = s.message_id
    JOIN topics AS t ON t.id = m.topic_id WHERE s.id = :id";

pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("search::sources", SOURCES),
    ("search::topics", TOPICS),
    ("search::messages", MESSAGES),
    ("search::part", PART),
    ("search::topic", TOPIC),
    ("search::message", MESSAGE),
];

/// Returns the results of a query, best first. If there are very many, only the newest of each kind
/// are ranked, and even fewer if the query only contains common words.
///
/// # Errors
/// Fails if the database cannot be read; `index_damaged` if the full-text index is damaged.
pub fn find(connection: &Connection, ask: &Ask, filter: &Filter) -> Result<Found> {
    let mut found = Found::default();
    let of_threads = filter.status.is_some() || filter.author.is_some();
    for sort in Sort::ALL {
        let is_wanted =
            filter.sort.is_none_or(|it| it == *sort) && !(of_threads && *sort == Sort::Source);
        if is_wanted {
            find_sort(connection, ask, filter, *sort, &mut found)?;
        }
    }
    // A smaller bm25 score is better. Newer results have greater ids.
    found.items.sort_by(|a, b| a.score.total_cmp(&b.score).then(b.id.cmp(&a.id)));
    Ok(found)
}

fn find_sort(
    connection: &Connection,
    ask: &Ask,
    filter: &Filter,
    sort: Sort,
    found: &mut Found,
) -> Result<()> {
    let marks = mark::expression(filter);
    let query = format!("({}){marks}", ask.expression());
    let from = filter.path.as_deref().unwrap_or_default();
    let to = format!("{from}{PAST_EVERY_PATH}");
    let telling = rank::telling(connection, ask, sort)?;
    let most = if telling.is_empty() { SEARCH_COMMON_MAX } else { SEARCH_RANKED_MAX };
    let limit = most + 1;
    let (sql, weight) = match sort {
        Sort::Source => (SOURCES, SOURCE_WEIGHT),
        Sort::Topic => (TOPICS, 1.0),
        Sort::Message => (MESSAGES, 1.0),
    };
    let mut statement = connection.prepare_cached(sql)?;
    let all = named_params! {":query": query, ":from": from, ":to": to, ":limit": limit};
    let threads = named_params! {
        ":query": query, ":from": from, ":to": to, ":limit": limit, ":author": filter.author,
        ":status": filter.status,
    };
    let params = if sort == Sort::Source { all } else { threads };
    let rows = statement.query_map(params, |row| {
        let candidate = Candidate { sort, id: row.get("id")?, score: 0.0 };
        Ok(Row { thing: row.get("thing")?, candidate })
    })?;
    let mut rows: Vec<Row> = rows.collect::<rusqlite::Result<_>>()?;
    found.is_cut |= rows.len() >= limit as usize;
    rows.truncate(most as usize);
    // Ordered by id, newest first.
    if let Some(oldest) = rows.last() {
        let scores =
            rank::scores(connection, (ask, &telling), &marks, (sort, oldest.candidate.id))?;
        for row in &mut rows {
            row.candidate.score = weight * scores.of(row.candidate.id);
        }
    }
    if sort == Sort::Source {
        join_parts(connection, ask, filter, &mut rows, found)?;
        put_titled_first(connection, ask, filter, &mut rows)?;
    }
    // The best part represents its Source.
    rows.sort_by(|a, b| a.candidate.score.total_cmp(&b.candidate.score));
    let mut seen = HashSet::new();
    found.items.extend(rows.into_iter().filter(|it| seen.insert(it.thing)).map(|it| it.candidate));
    Ok(())
}

/// Merges results found part by part into long Sources: a match across several parts ranks below a
/// match within one.
fn join_parts(
    connection: &Connection,
    ask: &Ask,
    filter: &Filter,
    rows: &mut Vec<Row>,
    found: &mut Found,
) -> Result<()> {
    let marks = mark::expression(filter);
    let from = filter.path.as_deref().unwrap_or_default();
    let to = format!("{from}{PAST_EVERY_PATH}");
    let mut statement = connection.prepare_cached(SOURCES)?;
    let look = |expression: &str| {
        let query = format!("{expression}{marks}");
        let limit = across_parts::PARTS_MAX;
        let all = named_params! {":query": query, ":from": from, ":to": to, ":limit": limit};
        let places = statement
            .query_map(all, |row| Ok(Place { part: row.get("id")?, source: row.get("thing")? }))?;
        Ok(places.collect::<rusqlite::Result<Vec<_>>>()?)
    };
    let spread = across_parts::look_for(ask, look)?;
    rows.retain(|it| !spread.barred.contains(&it.thing));
    let known: HashSet<i64> = rows.iter().map(|it| it.thing).collect();
    let further = spread.found.into_iter().filter(|it| !known.contains(&it.source));
    let score = SOURCE_WEIGHT * rank::COMMON;
    rows.extend(further.map(|it| Row {
        thing: it.source,
        candidate: Candidate { sort: Sort::Source, id: it.part, score },
    }));
    if rows.len() > SEARCH_RANKED_MAX as usize {
        rows.truncate(SEARCH_RANKED_MAX as usize);
        found.is_cut = true;
    }
    Ok(())
}

/// Ranks Sources whose title equals or starts with the query first: somebody who types a title
/// wants that document.
fn put_titled_first(
    connection: &Connection,
    ask: &Ask,
    filter: &Filter,
    rows: &mut Vec<Row>,
) -> Result<()> {
    let Some((words, is_open)) = ask.as_title() else { return Ok(()) };
    let path = filter.path.as_deref().unwrap_or_default();
    for meant in title::find(connection, (&words, is_open), path)? {
        let mut is_known = false;
        for row in rows.iter_mut().filter(|it| it.thing == meant.source) {
            row.candidate.score += meant.score;
            is_known = true;
        }
        if !is_known {
            let candidate = Candidate { sort: Sort::Source, id: meant.part, score: meant.score };
            rows.push(Row { thing: meant.source, candidate });
        }
    }
    Ok(())
}

/// Returns a matching part of a Source.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn part(connection: &Connection, id: i64) -> Result<Option<FoundPart>> {
    let size = |it: i64| usize::try_from(it).unwrap_or(0);
    let found = connection.prepare_cached(PART)?.query_row(named_params! {":id": id}, |row| {
        Ok(FoundPart {
            path: row.get("path")?,
            blob: row.get("blob")?,
            start: size(row.get("start")?),
            bytes: size(row.get("bytes")?),
            line: size(row.get("line")?),
        })
    });
    Ok(found.optional()?)
}

/// Returns a matching Topic.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn topic(connection: &Connection, id: i64) -> Result<Option<FoundTopic>> {
    let found = connection.prepare_cached(TOPIC)?.query_row(named_params! {":id": id}, |row| {
        Ok(FoundTopic {
            id: row.get("id")?,
            path: row.get("source_path")?,
            title: row.get::<_, Option<String>>("title")?.unwrap_or_default(),
            status: row.get("status")?,
            author: row.get("created_by")?,
            at: row.get("created_ms")?,
            body: row.get::<_, Option<String>>("body")?.unwrap_or_default(),
            quote: row.get::<_, Option<String>>("origin_quote")?.unwrap_or_default(),
        })
    });
    Ok(found.optional()?)
}

/// Returns a matching message.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn message(connection: &Connection, id: i64) -> Result<Option<FoundMessage>> {
    let found = connection.prepare_cached(MESSAGE)?.query_row(named_params! {":id": id}, |row| {
        Ok(FoundMessage {
            id: row.get("id")?,
            sequence: row.get("sequence")?,
            author: row.get("author")?,
            at: row.get("created_ms")?,
            body: row.get("body")?,
            topic_id: row.get("topic")?,
            title: row.get::<_, Option<String>>("title")?.unwrap_or_default(),
            status: row.get("status")?,
            path: row.get("source_path")?,
        })
    });
    Ok(found.optional()?)
}
