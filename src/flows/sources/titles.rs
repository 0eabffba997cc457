//! Titles of documents in lists: stored with the search index, and read from the document if the
//! index is behind.

use std::collections::{BTreeSet, HashMap};

use rusqlite::Connection;

use crate::base::{BlobId, Result, SourcePath};
use crate::documents::search::{self, KnownTitle};
use crate::documents::seen;
use crate::documents::sources::title::file_name;
use crate::flows::Works;

/// Up to this many documents are looked up one by one.
const EACH_MAX: usize = 200;
/// Most documents read at once because the index is behind; the others are temporarily shown by
/// file name.
const READ_MAX: usize = 200;

/// Titles of documents, by path.
#[derive(Clone, Debug, Default)]
pub struct Titles(HashMap<SourcePath, String>);

impl Titles {
    /// Returns a document's own title, or its file name.
    pub fn of<'t>(&'t self, path: &'t str) -> &'t str {
        let own = path.parse::<SourcePath>().ok().and_then(|it| self.0.get(&it));
        own.map_or_else(|| file_name(path), String::as_str)
    }
}

/// Returns the titles of all documents.
///
/// # Errors
/// As [`of`].
pub async fn all(works: &Works) -> Result<Titles> {
    of(works, works.repo.known_sources().await?.iter().map(|it| it.0.clone()).collect()).await
}

/// Returns the titles of these documents.
///
/// # Errors
/// `unavailable` if git or the database does not answer.
pub async fn of(works: &Works, paths: Vec<SourcePath>) -> Result<Titles> {
    let wanted: BTreeSet<SourcePath> = paths.into_iter().collect();
    if wanted.is_empty() {
        return Ok(Titles::default());
    }
    let sources = works.repo.known_sources().await?;
    let asked: Vec<SourcePath> = wanted.iter().cloned().collect();
    let (known, mut now) = works
        .store
        .read(move |c| {
            let known = if asked.len() > EACH_MAX { search::titles(c)? } else { each(c, &asked)? };
            let dirty = seen::find(c)?.map(|it| it.dirty).unwrap_or_default();
            Ok((known, dirty))
        })
        .await?;
    for (path, blob) in sources.iter().filter(|it| wanted.contains(&it.0)) {
        now.entry(path.clone()).or_insert_with(|| Some(blob.clone()));
    }
    let mut titles = HashMap::new();
    let mut behind = wanted;
    for KnownTitle { path, blob, title } in known {
        let present: Option<&BlobId> = now.get(&path).and_then(Option::as_ref);
        if blob.is_some() && blob.as_ref() == present {
            behind.remove(&path);
        }
        if let Some(title) = title {
            titles.insert(path, title);
        }
    }
    // Only documents: a Topic may mention one that is gone.
    let is_source = |it: &SourcePath| now.get(it).is_some_and(Option::is_some);
    let read: Vec<SourcePath> = behind.into_iter().filter(is_source).take(READ_MAX).collect();
    if !read.is_empty() {
        read.iter().for_each(|path| drop(titles.remove(path)));
        titles.extend(works.repo.titles(read).await?);
    }
    Ok(Titles(titles))
}

fn each(c: &Connection, paths: &[SourcePath]) -> Result<Vec<KnownTitle>> {
    let found = paths.iter().map(|path| search::title(c, path));
    Ok(found.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}
