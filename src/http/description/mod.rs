//! The description of the HTTP interface, made of its types and of the table of routes.
//!
//! **Invariant:** only tests make it. The program carries what they wrote: `docs/openapi.json`.

mod assistant;
mod documents;
mod jobs;
mod operation;
mod site;
mod talk;
mod words;
mod write;

use std::collections::BTreeSet;

use operation::Operation;

use crate::http::access::table::ROUTES;

/// Returns whether programs use a route; the others are pages and their files.
fn is_described(path: &str) -> bool {
    path.starts_with("/api/")
        || path.starts_with("/hooks/")
        || ["/healthz", "/readyz", "/metrics"].contains(&path)
}

fn operations() -> Vec<Operation> {
    [site::all(), documents::all(), jobs::all(), talk::all(), assistant::all()]
        .into_iter()
        .flatten()
        .collect()
}

#[test]
fn every_route_is_described_and_nothing_else() {
    let name = |verb: &str, path: &str| format!("{verb} {path}");
    let routes = ROUTES.iter().filter(|it| is_described(it.path));
    let routes: Vec<String> = routes.map(|it| name(it.verb.as_str(), it.path)).collect();
    let told: Vec<String> = operations().iter().map(|it| name(it.verb.as_str(), it.path)).collect();
    let (one, other): (BTreeSet<_>, BTreeSet<_>) = (routes.iter().collect(), told.iter().collect());
    assert_eq!(told.len(), other.len(), "a route is described twice");
    assert_eq!(one.difference(&other).collect::<Vec<_>>(), Vec::<&&String>::new(), "not described");
    assert_eq!(other.difference(&one).collect::<Vec<_>>(), Vec::<&&String>::new(), "no route");
}

#[test]
fn every_operation_tells_what_it_answers() {
    let silent: Vec<String> = operations()
        .iter()
        .filter(|it| it.answers.is_empty())
        .map(|it| format!("{} {}", it.verb.as_str(), it.path))
        .collect();
    assert_eq!(silent, Vec::<String>::new());
}

/// `UPDATE_DOCS=1` writes the file.
#[test]
fn the_description_that_is_served_is_that_of_the_types() {
    let path = format!("{}/docs/openapi.json", env!("CARGO_MANIFEST_DIR"));
    let text = write::document(&operations());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let is_same = crate::api::description::openapi().unwrap() == text;
    assert!(is_same, "docs/openapi.json is old: run this test once with UPDATE_DOCS=1");
}
