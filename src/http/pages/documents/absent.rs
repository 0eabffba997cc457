//! The page of a missing document: its new name, its history, or documents with a similar name.

use crate::base::{Error, ErrorKind, Result, SourcePath};
use crate::documents::{NOT_A_SOURCE, SOURCE_GONE};
use crate::flows::repository::read_version::ReadVersion;
use crate::flows::topics::TopicQuery;
use crate::flows::{self, Site};
use crate::http::pages::parts::form;
use crate::http::reply::{self, Aside};
use crate::people::Caller;
use warp::reply::Response;

/// Index files of a folder, in this order.
const INDEXES: [&str; 3] = ["README.md", "index.md", "_index.md"];
/// Extensions that the name of a document may lack.
const ENDINGS: [&str; 2] = [".md", ".markdown"];

/// Returns the response for a missing document.
pub(super) async fn answer(
    site: &Site,
    caller: &Caller,
    path: &SourcePath,
    cause: Error,
) -> Result<Response> {
    if cause.kind() != ErrorKind::NotFound {
        return Err(cause);
    }
    let live = Some(form::source_subject(path.as_str()));
    if let Some(now) = flows::repository::renames::where_now(site, path).await? {
        return Ok(reply::failed_form(cause, Aside { live, ..led_to(path, &now) }));
    }
    if let Some(way) = meant(site, path).await? {
        return reply::see_other(&way);
    }
    if flows::repository::renames::deletion(site, path).await?.is_some() {
        let history = form::address(&form::document_at(path.as_str()), &[("history", Some("1"))]);
        let more = topics(site, caller, path).await?.into_iter().collect();
        let aside =
            Aside { back: history, way: "View its history", more, live, ..Aside::default() };
        return Ok(reply::failed_form(cause, aside));
    }
    if cause.code_str() == NOT_A_SOURCE {
        return Err(no_document(site, path).await?);
    }
    Err(cause)
}

/// Returns the response for a document whose name another one has by now.
pub(super) async fn another(
    site: &Site,
    path: &SourcePath,
    read: &ReadVersion,
    cause: Error,
) -> Result<Response> {
    if cause.code_str() != SOURCE_GONE {
        return Err(cause);
    }
    let aside = match read.name_now(site, path).await? {
        Some(now) => led_to(path, &now),
        None => Aside {
            back: form::document_at(path.as_str()),
            way: "Open the document that has its name now",
            ..Aside::default()
        },
    };
    Ok(reply::failed_form(cause, aside))
}

fn led_to(path: &SourcePath, now: &SourcePath) -> Aside {
    Aside {
        back: form::document_at(now.as_str()),
        way: "Open it under its new name",
        moved: Some((path.to_string(), now.to_string())),
        ..Aside::default()
    }
}

/// Returns where to redirect a path that is not a document: the index file of a folder, the folder
/// in the list, or the document with an extension.
async fn meant(site: &Site, path: &SourcePath) -> Result<Option<String>> {
    let known = site.repo.known_sources().await?;
    let has = |wanted: &str| {
        known.binary_search_by(|(it, _)| it.as_str().cmp(wanted)).is_ok().then(|| wanted.to_owned())
    };
    let index = INDEXES.iter().find_map(|name| has(&format!("{path}/{name}")));
    let named = || ENDINGS.iter().find_map(|ending| has(&format!("{path}{ending}")));
    if let Some(found) = index.or_else(named) {
        return Ok(Some(form::document_at(&found)));
    }
    let folder = format!("{path}/");
    let at = known.partition_point(|(it, _)| it.as_str() < folder.as_str());
    let is_folder = known.get(at).is_some_and(|(it, _)| it.as_str().starts_with(&folder));
    Ok(is_folder.then(|| form::address("/d", &[("folder", Some(path.as_str()))])))
}

/// Returns a link to the open Topics of a missing document, if there are any.
async fn topics(
    site: &Site,
    caller: &Caller,
    path: &SourcePath,
) -> Result<Option<(String, &'static str)>> {
    let query = TopicQuery {
        source_path: Some(path.clone()),
        status: Some("open".to_owned()),
        limit: Some(2),
        ..TopicQuery::default()
    };
    let found = flows::topics::list(site, caller, query).await?;
    Ok(match found.items.as_slice() {
        [] => None,
        [one] => Some((format!("/topics/{}", one.id), "View its open Topic")),
        _ => {
            let query = [("status", Some("open")), ("source_path", Some(path.as_str()))];
            Some((form::address("/topics", &query), "View its open Topics"))
        }
    })
}

/// Returns the error for a path that is not a document; the reason in the script is only for its
/// operator.
async fn no_document(site: &Site, path: &SourcePath) -> Result<Error> {
    let error = match site.repo.is_tracked(path).await? {
        true => Error::not_found(format!("{path} is in the repository, but not a document"))
            .hint("read it in the repository; this site shows only files that match `sources`"),
        false => Error::not_found(format!("no document {path}"))
            .hint("browse the documents, or search for its text"),
    };
    Ok(error.code("no_document"))
}
