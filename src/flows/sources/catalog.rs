//! The list of documents: titles, open work, last changes, and the author's order.

use std::collections::HashMap;

use crate::base::{Millis, Result, SourcePath};
use crate::documents::sources::order::Order;
use crate::documents::sources::pending;
use crate::flows::sources::titles::{self, Titles};
use crate::flows::{Site, Works};
use crate::people::Caller;

/// Names of the first document to read, in this order.
const START_NAMES: [&str; 2] = ["README.md", "index.md"];

/// A document in a list.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its path.
    pub path: SourcePath,
    /// Its title.
    pub title: String,
    /// Its position in the author's order, if it has one.
    pub place: Option<usize>,
    /// Its open Topics.
    pub open_topics: i64,
    /// Proposals for it that await review.
    pub open_proposals: i64,
    /// The time of the last commit that changed it, if known.
    pub changed_at: Option<Millis>,
}

/// Returns all tracked documents, in byte order of their paths.
///
/// # Errors
/// `forbidden` for a job; `unavailable` if git or the database does not answer.
pub async fn list(site: &Site, caller: &Caller) -> Result<Vec<Entry>> {
    let (paths, order, titles) = named(site, caller).await?;
    let pending = site.store.read(pending::of_all).await?;
    let changes = site.repo.last_changes().await;
    let entry = |path: SourcePath| Entry {
        title: titles.of(path.as_str()).to_owned(),
        place: order.place(&path),
        open_topics: pending.topics.get(&path).copied().unwrap_or(0),
        open_proposals: pending.proposals.get(&path).copied().unwrap_or(0),
        changed_at: changes.get(&path).copied(),
        path,
    };
    Ok(paths.into_iter().map(entry).collect())
}

/// Like [`list`], but only with titles and positions.
///
/// # Errors
/// As [`list`].
pub async fn names(site: &Site, caller: &Caller) -> Result<Vec<Entry>> {
    let (paths, order, titles) = named(site, caller).await?;
    let entry = |path: SourcePath| Entry {
        title: titles.of(path.as_str()).to_owned(),
        place: order.place(&path),
        open_topics: 0,
        open_proposals: 0,
        changed_at: None,
        path,
    };
    Ok(paths.into_iter().map(entry).collect())
}

async fn named(site: &Site, caller: &Caller) -> Result<(Vec<SourcePath>, Order, Titles)> {
    caller.person()?;
    let paths = paths(site).await?;
    let order = site.repo.order(&paths).await;
    let titles = titles::of(site, paths.clone()).await?;
    Ok((paths, order, titles))
}

/// Returns the recently changed documents, newest first: changed by a commit, or among `touched`.
///
/// # Errors
/// As [`list`].
pub async fn recent(
    site: &Site,
    caller: &Caller,
    touched: &HashMap<SourcePath, Millis>,
    most: usize,
) -> Result<Vec<SourcePath>> {
    caller.person()?;
    let mut paths = paths(site).await?;
    let changes = site.repo.last_changes().await;
    let at = |path: &SourcePath| changes.get(path).max(touched.get(path)).map_or(0, |it| it.0);
    // Documents of the same commit keep the order of their paths.
    paths.sort_by_key(|it| std::cmp::Reverse(at(it)));
    let mut found = Vec::new();
    for path in paths {
        if found.len() == most {
            break;
        }
        // A tracked file may have been deleted.
        if site.repo.is_there(&path).await? {
            found.push(path);
        }
    }
    Ok(found)
}

/// Returns the document to read first: the README or index nearest to the top, otherwise the first
/// in the author's order.
///
/// # Errors
/// As [`list`].
pub async fn start(site: &Site, caller: &Caller) -> Result<Option<SourcePath>> {
    caller.person()?;
    let paths = paths(site).await?;
    let rank = |path: &&SourcePath| {
        let (folder, name) = path.as_str().rsplit_once('/').unwrap_or(("", path.as_str()));
        let name = START_NAMES.iter().position(|it| it.eq_ignore_ascii_case(name))?;
        // `docs/README.md` counts; that of a part of the site does not.
        let depth = folder.split('/').filter(|it| !it.is_empty()).count();
        (depth <= 1).then_some((depth, name))
    };
    let found = paths.iter().filter_map(|it| Some((rank(&it)?, it)));
    if let Some((_, path)) = found.min_by_key(|it| it.0) {
        return Ok(Some(path.clone()));
    }
    let order = site.repo.order(&paths).await;
    let placed = paths.iter().filter_map(|it| Some((order.place(it)?, it)));
    Ok(placed.min_by_key(|it| it.0).map(|it| it.1.clone()))
}

async fn paths(works: &Works) -> Result<Vec<SourcePath>> {
    Ok(works.repo.known_sources().await?.iter().map(|it| it.0.clone()).collect())
}
