//! Sources for pages and agents.

pub mod catalog;
pub mod holder;
pub mod titles;

use std::collections::{BTreeMap, HashMap};

use rusqlite::Connection;
use serde::Deserialize;

use crate::api::sources::{
    Cause, History, HistoryEntry, HistoryRow, SourceRow, SourceState, SourceView,
};
use crate::base::{BlobId, Error, Page, Result, SourcePath};
use crate::documents::git::{HistoryPlace, KnownSources};
use crate::documents::proposals::attempt;
use crate::documents::sources::headings;
use crate::documents::sources::source::SourceEntry;
use crate::documents::topics::topic;
use crate::flows::people::shown_names;
use crate::flows::repository::renames;
use crate::flows::sources::titles::Titles;
use crate::flows::topics::places;
use crate::flows::{Site, page_limit};
use crate::jobs::{self, Verb};
use crate::people::{self, Caller};

/// The query of `GET /api/sources`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SourceQuery {
    /// Only those with this text in their path or title, ignoring case.
    pub query: Option<String>,
    /// `path`, or `recent`: most recently committed first, without a next page.
    pub order: Option<String>,
    /// The `next` of the previous page: a path.
    pub after: Option<String>,
    /// Rows per page.
    pub limit: Option<u32>,
}

/// Returns Sources, by path unless another order is requested.
///
/// # Errors
/// `unavailable` if git does not answer; `forbidden` with code `not_granted`; `bad_parameter`.
pub async fn list(site: &Site, caller: &Caller, query: SourceQuery) -> Result<Page<SourceRow>> {
    require_site(site, caller).await?;
    let limit = page_limit(query.limit)? as usize;
    let wanted = query.query.as_deref().unwrap_or_default().to_lowercase();
    let recent = match query.order.as_deref() {
        None | Some("path") => None,
        Some("recent") => Some(catalog::recent(site, caller, &HashMap::new(), limit).await?),
        Some(_) => {
            return Err(Error::invalid("`order` must be `path` or `recent`").code("bad_parameter"));
        }
    };
    let called = match wanted.is_empty() {
        true => Titles::default(),
        false => titles::all(site).await?,
    };
    let is_wanted = |path: &SourcePath| {
        let has_text = |text: &str| text.to_lowercase().contains(&wanted);
        recent.as_ref().is_none_or(|it| it.contains(path))
            && query.after.as_deref().is_none_or(|after| path.as_str() > after)
            && (wanted.is_empty() || has_text(path.as_str()) || has_text(called.of(path.as_str())))
    };
    let (mut entries, is_more) = site.repo.page_of_sources(is_wanted, limit).await?;
    let next = entries.last().filter(|_| is_more && recent.is_none()).map(|it| it.path.to_string());
    if let Some(recent) = &recent {
        entries.sort_by_key(|it| recent.iter().position(|path| *path == it.path));
    }
    let paths: Vec<SourcePath> = entries.iter().map(|it| it.path.clone()).collect();
    let titles = titles::of(site, paths.clone()).await?;
    let counts: BTreeMap<SourcePath, i64> = site
        .store
        .read(move |c| {
            let count = |path: SourcePath| Ok((path.clone(), topic::count_open_of(c, &path)?));
            paths.into_iter().map(count).collect()
        })
        .await?;
    let row = |it: SourceEntry| SourceRow {
        title: titles.of(it.path.as_str()).to_owned(),
        blob: it.blob,
        state: it.state,
        tracked: it.state != SourceState::Untracked,
        open_topics: counts.get(&it.path).copied().unwrap_or(0),
        path: it.path,
    };
    Ok(Page { items: entries.into_iter().map(row).collect(), next })
}

/// Returns all tracked Sources, in byte order of their paths; cached while git's index is
/// unchanged.
///
/// # Errors
/// `forbidden` for a job; `unavailable` if git does not answer.
pub async fn paths(site: &Site, caller: &Caller) -> Result<KnownSources> {
    caller.person()?;
    site.repo.known_sources().await
}

/// Returns the first untracked files that match the globs of the site.
///
/// # Errors
/// `forbidden` for a job; `unavailable` if git does not answer.
pub async fn untracked(site: &Site, caller: &Caller, most: usize) -> Result<Vec<SourcePath>> {
    caller.person()?;
    let mut paths = site.repo.untracked().await?;
    paths.truncate(most);
    Ok(paths)
}

/// Returns a Source: its text, headings and open Topics.
///
/// # Errors
/// `not_found` with codes `source_gone` and `not_a_source`; a job sees the Source it was granted.
pub async fn show(site: &Site, caller: &Caller, path: &SourcePath) -> Result<SourceView> {
    require_read(site, caller, path).await?;
    let source = renames::source(site, path).await?;
    let asked = path.clone();
    let mut open = site
        .store
        .read(move |c| {
            let open = topic::list_open_of(c, &asked, None)?;
            open.into_iter().map(|it| shown_names::fill_topic(c, it)).collect::<Result<Vec<_>>>()
        })
        .await?;
    places::place_in_present(site, path, &mut open).await?;
    let holder = match caller {
        Caller::Person { .. } => holder::holder(site, caller, path).await?,
        Caller::Job { .. } => None,
    };
    Ok(SourceView {
        holder,
        path: source.path,
        blob: source.blob,
        head_blob: source.head_blob,
        state: source.state,
        bytes: source.bytes,
        headings: headings::headings(&source.text),
        topics: open,
        text: source.text,
    })
}

/// Returns the current text of a Source with its version.
///
/// # Errors
/// As [`show`].
pub async fn text(site: &Site, caller: &Caller, path: &SourcePath) -> Result<(BlobId, String)> {
    require_read(site, caller, path).await?;
    renames::present(site, path).await
}

/// Returns the bytes of a tracked file, for images in documents.
///
/// # Errors
/// `forbidden` for a job; `not_found` for a file that git does not track; `too_large`;
/// `invalid` with code `path_is_link` or `not_a_file`.
pub async fn image(site: &Site, caller: &Caller, path: &SourcePath) -> Result<Vec<u8>> {
    caller.person()?;
    site.repo.image(path).await
}

/// Returns the first bytes of an image, at most `bytes_max`.
///
/// # Errors
/// As [`image`], but none is too large.
pub async fn image_head(
    site: &Site,
    caller: &Caller,
    path: &SourcePath,
    bytes_max: usize,
) -> Result<Vec<u8>> {
    caller.person()?;
    site.repo.image_head(path, bytes_max).await
}

/// Refuses a job whose kind may not see the whole site.
///
/// # Errors
/// `forbidden` with code `not_granted`.
pub(super) async fn require_site(site: &Site, caller: &Caller) -> Result<()> {
    let Caller::Job { id, .. } = caller else { return Ok(()) };
    let id = id.clone();
    site.store.read(move |c| jobs::find(c, &jobs::Viewer::Program, &id)).await?.require_site()
}

pub(super) async fn require_read(site: &Site, caller: &Caller, path: &SourcePath) -> Result<()> {
    let Caller::Job { id, .. } = caller else { return Ok(()) };
    let id = id.clone();
    let job = site.store.read(move |c| jobs::find(c, &jobs::Viewer::Program, &id)).await?;
    job.require_source(path, Verb::Read)
}

/// The query of `GET /api/source/history`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HistoryQuery {
    /// The Source.
    pub path: SourcePath,
    /// The `next` of the previous page.
    pub after: Option<String>,
    /// Commits per page.
    pub limit: Option<u32>,
}

/// Returns the commits that changed a Source, newest first, including those of a deleted Source and
/// those under earlier names. The causes of a commit are those recorded by this site, next to the
/// claims of the commit's trailers.
///
/// # Errors
/// As [`show`], if no commit has changed it; `conflict` with code `history_changed`.
pub async fn history(site: &Site, caller: &Caller, query: HistoryQuery) -> Result<History> {
    let path = query.path;
    require_read(site, caller, &path).await?;
    let limit = page_limit(query.limit)? as usize;
    let after: Option<HistoryPlace> = query.after.map(|it| it.parse()).transpose()?;
    site.repo.require_match(&path)?;
    let page = site.repo.history_page(&path, after.as_ref(), limit).await?;
    if page.items.is_empty() {
        // Either it is new, or it never existed.
        renames::source(site, &path).await?;
    }
    let next = page.next.map(|it| it.to_string());
    let found = page.items;
    let items: Vec<HistoryRow> = site
        .store
        .read(move |c| {
            let row = |entry: HistoryEntry| {
                let named = entry.path.as_ref().unwrap_or(&path);
                Ok(HistoryRow { causes: causes(c, &entry.commit, named)?, entry })
            };
            found.into_iter().map(row).collect()
        })
        .await?;
    Ok(History { items, next, is_shallow: page.is_shallow })
}

fn causes(c: &Connection, commit: &BlobId, path: &SourcePath) -> Result<Vec<Cause>> {
    // Another person's commit may contain approved texts of several Sources.
    let mut causes = attempt::causes_of(c, commit, path)?;
    for cause in &mut causes {
        cause.approver_name = Some(people::display_name(c, &cause.approver)?);
    }
    Ok(causes)
}
