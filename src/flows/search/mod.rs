//! The search: queries, ranking, and snippets.

mod index;

use std::borrow::Cow;
use std::time::Duration;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::api::topics::TopicStatus;
use crate::base::limit::{SEARCH_MS_MAX, SOURCE_PATH_BYTES_MAX};
use crate::base::{Actor, Context, Error, ErrorKind, Millis, Result, SourcePath};
use crate::documents::search::{
    self, Ask, Candidate, Filter, FoundMessage, FoundPart, FoundTopic, Piece, Sort, marked, snippet,
};
use crate::documents::sources::plain::is_markdown;
use crate::flows::sources::titles;
use crate::flows::{Site, page_limit};
use crate::people::{self, Caller};

pub use index::{Index, Progress, serve};

/// How long a search may wait for others.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Bytes of Sources read for the snippets of a page.
const READ_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The query of `GET /api/search`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SearchQuery {
    /// The query.
    pub query: String,
    /// Only `source`, `topic` or `message`.
    pub kind: Option<String>,
    /// Only paths with this prefix.
    pub path: Option<String>,
    /// Only Topics in this state, and their messages.
    pub status: Option<String>,
    /// Only texts by this person (a name) or actor (`job:ID`).
    pub author: Option<String>,
    /// The `next` of the previous page.
    pub after: Option<String>,
    /// Rows per page.
    pub limit: Option<u32>,
}

/// A result.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Hit {
    /// `source`, `topic` or `message`.
    pub kind: Cow<'static, str>,
    /// The Source.
    pub source_path: SourcePath,
    /// The Topic that it settles.
    pub topic_id: Option<String>,
    /// The message.
    pub message_id: Option<String>,
    /// Its number in the Topic.
    pub sequence: Option<i64>,
    /// Its title.
    pub title: Option<String>,
    /// The title, with the matches marked.
    pub title_pieces: Vec<Piece>,
    /// The path, with the matches marked.
    pub path_pieces: Vec<Piece>,
    /// Whether it can be decided.
    pub status: Option<TopicStatus>,
    /// Its author.
    pub author: Option<Actor>,
    /// The author's display name.
    pub author_name: Option<String>,
    /// When it was written.
    pub at: Option<Millis>,
    /// The line of the first match.
    pub line: Option<usize>,
    /// The text around the matches.
    pub snippet: Vec<Piece>,
}

/// One page of results.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Hits {
    /// The rows.
    pub items: Vec<Hit>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
    /// Whether only the newest results were ranked.
    pub is_cut: bool,
    /// How far the index is.
    pub index: Progress,
}

/// A result before its text is read.
enum Row {
    Part(FoundPart),
    Hit(Box<Hit>),
}

/// Finds Sources, Topics and messages, best first.
///
/// # Errors
/// `invalid` with code `empty_query`, `too_many_words`, `short_prefix`, `bad_parameter`;
/// `too_large`; `busy` with code `search_busy`; `unavailable` with code `search_timeout` or
/// `index_damaged`, which mends itself.
pub async fn find(site: &Site, caller: &Caller, query: SearchQuery) -> Result<Hits> {
    caller.person()?;
    let ask = Ask::parse(&query.query)?;
    let limit = page_limit(query.limit)? as usize;
    let skip = place(query.after.as_deref())?;
    let filter = filter(site, &query).await?;
    site.search.look(&site.works);
    let (rows, is_more, is_cut) = look_up(site, ask.clone(), filter, (skip, limit)).await?;
    let items = fill_in(site, ask, rows).await?;
    let next = is_more.then(|| (skip + limit).to_string());
    Ok(Hits { items, next, is_cut, index: site.search.progress() })
}

/// Returns the state of the index.
///
/// # Errors
/// `forbidden` for a job.
pub fn progress(site: &Site, caller: &Caller) -> Result<Progress> {
    caller.person()?;
    Ok(site.search.progress())
}

/// Returns the number of results before a page.
///
/// # Errors
/// `invalid` with code `bad_parameter`.
pub(in crate::flows) fn place(after: Option<&str>) -> Result<usize> {
    let Some(after) = after else { return Ok(0) };
    let is_number = (1..=6).contains(&after.len()) && after.bytes().all(|it| it.is_ascii_digit());
    after.parse().ok().filter(|_| is_number).ok_or_else(|| {
        Error::invalid("`after` is not a valid search position")
            .code("bad_parameter")
            .hint("pass `next` from the previous page")
    })
}

async fn filter(site: &Site, query: &SearchQuery) -> Result<Filter> {
    let given = |it: &Option<String>| it.clone().filter(|it| !it.is_empty());
    let bad = |cause: Error| cause.code("bad_parameter");
    let path = given(&query.path);
    if path.as_ref().is_some_and(|it| it.len() > SOURCE_PATH_BYTES_MAX) {
        let message = format!("the path has more than {SOURCE_PATH_BYTES_MAX} bytes");
        return Err(bad(Error::invalid(message)));
    }
    let author = match given(&query.author) {
        None => None,
        Some(word) if word.contains(':') || word == "system" => {
            Some(word.parse::<Actor>().map_err(bad)?)
        }
        Some(name) => {
            let person = site.store.read(move |c| people::find_by_name(c, &name)).await?;
            let person = person.ok_or_else(|| {
                bad(Error::invalid("no person has this name"))
                    .hint("use a name from `wiki-browser person list`, or an actor such as job:ID")
            })?;
            Some(Actor::Person(person.id))
        }
    };
    let sort = given(&query.kind).map(|it| it.parse::<Sort>()).transpose().map_err(bad)?;
    let status = given(&query.status).map(|it| it.parse()).transpose().map_err(bad)?;
    Ok(Filter { sort, path, status, author })
}

async fn look_up(
    site: &Site,
    ask: Ask,
    filter: Filter,
    (skip, limit): (usize, usize),
) -> Result<(Vec<Row>, bool, bool)> {
    within(site, move |c| {
        let found = search::find(c, &ask, &filter)?;
        let rest = found.items.get(skip..).unwrap_or_default();
        let page = &rest[..rest.len().min(limit)];
        let rows = page.iter().map(|it| row(c, &ask, *it)).collect::<Result<Vec<_>>>()?;
        let rows = rows.into_iter().flatten().collect();
        Ok((rows, rest.len() > limit, found.is_cut))
    })
    .await
}

/// Runs a query on the index, with limits on number and time. A damaged index is rebuilt.
///
/// # Errors
/// `busy` with code `search_busy`; `unavailable` with code `search_timeout` or `index_damaged`; as
/// `look`.
pub(in crate::flows) async fn within<T: Send + 'static>(
    site: &Site,
    look: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
) -> Result<T> {
    let slot = tokio::time::timeout(WAIT_MAX, site.search.slots().acquire()).await;
    let Ok(Ok(_slot)) = slot else {
        return Err(Error::new(ErrorKind::Busy, "too many searches are running")
            .code("search_busy")
            .hint("try again in a moment"));
    };
    let found = site.store.read_within(Duration::from_millis(SEARCH_MS_MAX), look).await;
    found.inspect_err(|cause| site.search.failed(cause))
}

/// Returns the data of a candidate; `None` if it was deleted in the meantime.
fn row(c: &Connection, ask: &Ask, candidate: Candidate) -> Result<Option<Row>> {
    let name = |actor: &Actor| people::display_name(c, actor);
    Ok(match candidate.sort {
        Sort::Source => search::part(c, candidate.id)?.map(Row::Part),
        Sort::Topic => match search::topic(c, candidate.id)? {
            Some(topic) => Some(Row::Hit(Box::new(of_topic(ask, name(&topic.author)?, topic)))),
            None => None,
        },
        Sort::Message => match search::message(c, candidate.id)? {
            Some(it) => Some(Row::Hit(Box::new(of_message(ask, name(&it.author)?, it)))),
            None => None,
        },
    })
}

fn of_topic(ask: &Ask, name: String, topic: FoundTopic) -> Hit {
    let body = snippet(&topic.body, true, ask);
    let quote = snippet(&topic.quote, is_markdown(topic.path.as_str()), ask);
    let shown = if body.at.is_none() && quote.at.is_some() { quote } else { body };
    Hit {
        kind: Sort::Topic.as_str().into(),
        source_path: topic.path,
        topic_id: Some(topic.id.to_string()),
        message_id: None,
        sequence: None,
        title_pieces: marked(&topic.title, ask),
        path_pieces: Vec::new(),
        title: Some(topic.title),
        status: Some(topic.status),
        author: Some(topic.author),
        author_name: Some(name),
        at: Some(topic.at),
        line: None,
        snippet: shown.pieces,
    }
}

fn of_message(ask: &Ask, name: String, message: FoundMessage) -> Hit {
    Hit {
        kind: Sort::Message.as_str().into(),
        source_path: message.path,
        topic_id: Some(message.topic_id.to_string()),
        message_id: Some(message.id.to_string()),
        sequence: Some(message.sequence),
        title_pieces: marked(&message.title, ask),
        path_pieces: Vec::new(),
        title: Some(message.title),
        status: Some(message.status),
        author: Some(message.author),
        author_name: Some(name),
        at: Some(message.at),
        line: None,
        snippet: snippet(&message.body, true, ask).pieces,
    }
}

/// Makes the snippets of Sources from their current texts. Missing ones are left out, and changed
/// ones are indexed again.
async fn fill_in(site: &Site, ask: Ask, rows: Vec<Row>) -> Result<Vec<Hit>> {
    let (mut found, mut read) = (Vec::with_capacity(rows.len()), 0);
    let paths = rows.iter().filter_map(|row| match row {
        Row::Part(part) => Some(part.path.clone()),
        Row::Hit(_) => None,
    });
    let titles = titles::of(site, paths.collect()).await?;
    for row in rows {
        let part = match row {
            Row::Part(part) => part,
            Row::Hit(hit) => {
                found.push((*hit, None));
                continue;
            }
        };
        let hit = of_source(&ask, part.path.clone(), titles.of(part.path.as_str()));
        if read >= READ_BYTES_MAX {
            found.push((hit, None));
            continue;
        }
        match site.repo.text(&part.path).await {
            Ok((blob, text)) => {
                read += text.len();
                if blob.as_str() != part.blob {
                    site.search.sources_changed([part.path.clone()]);
                }
                found.push((hit, Some((part, text))));
            }
            Err(cause) if cause.kind() == ErrorKind::NotFound => {
                site.search.sources_changed([part.path]);
            }
            // It was found by its path: it has no text.
            Err(_) => found.push((hit, None)),
        }
    }
    let showing = tokio::task::spawn_blocking(move || {
        let shown = found.into_iter().map(|(mut hit, text)| {
            if let Some((part, text)) = text {
                show(&mut hit, &ask, &part, &text);
            }
            hit
        });
        shown.collect()
    });
    showing.await.context(ErrorKind::Internal, || "making snippets panicked".to_owned())
}

fn of_source(ask: &Ask, path: SourcePath, title: &str) -> Hit {
    Hit {
        kind: Sort::Source.as_str().into(),
        title_pieces: marked(title, ask),
        path_pieces: marked(path.as_str(), ask),
        title: Some(title.to_owned()),
        source_path: path,
        topic_id: None,
        message_id: None,
        sequence: None,
        status: None,
        author: None,
        author_name: None,
        at: None,
        line: None,
        snippet: Vec::new(),
    }
}

fn show(hit: &mut Hit, ask: &Ask, part: &FoundPart, text: &str) {
    let range = part.start..part.start.saturating_add(part.bytes);
    // In a text that has changed in the meantime the part may be anywhere, so its beginning is
    // shown.
    let (text, line) = match text.get(range) {
        Some(text) => (text, part.line),
        None => (text.get(..part.bytes).unwrap_or_default(), 1),
    };
    let found = snippet(text, is_markdown(part.path.as_str()), ask);
    hit.line = found.at.map(|at| line + text[..at].bytes().filter(|it| *it == b'\n').count());
    hit.snippet = found.pieces;
}
