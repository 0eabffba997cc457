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

use operation::{Content, Operation};

use crate::http::access::table::ROUTES;

/// The routes whose answers have no type yet. It only gets shorter.
const UNTYPED: &[&str] = &[
    "POST /api/login",
    "GET /api/config",
    "GET /api/schedules",
    "POST /hooks/{name}",
    "GET /api/backups",
    "GET /api/sources",
    "GET /api/source",
    "GET /api/source/history",
    "GET /api/source/rendered",
    "GET /api/source/passage",
    "GET /api/topics",
    "GET /api/agent/topic",
    "GET /api/agent/open-topics",
    "GET /api/proposals",
    "GET /api/agent/proposal",
    "POST /api/proposals/{id}/rework",
    "GET /api/personas",
    "GET /api/perspectives",
    "GET /api/perspective",
    "POST /api/perspectives",
    "GET /api/agent/jobs",
    "POST /api/agent/jobs",
    "GET /api/agent/jobs/{id}/log",
    "GET /api/agent/jobs/{id}/stream",
    "GET /api/agent/jobs/{id}/prompt",
    "POST /api/agent/jobs/{id}/retry",
    "POST /api/agent/jobs/{id}/restore",
    "POST /api/agent/jobs/{id}/keep",
    "GET /api/workspaces",
    "GET /api/usage",
    "GET /api/engines",
    "POST /api/engines/{name}/release",
    "GET /api/decisions",
    "GET /api/approvals",
    "GET /api/approvals/{id}/await",
    "POST /api/agent/permissions",
    "POST /api/agent/permissions/{id}/answer",
    "POST /api/messages/{id}/read",
    "GET /api/channels/{slug}/export",
    "GET /api/agent/tools",
    "DELETE /api/agent/sessions/{id}",
];

/// Returns whether programs use a route: all others are pages and their files.
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
fn answers_without_a_type_only_become_fewer() {
    let untyped = |it: &Operation| it.answers.iter().any(|it| matches!(it.1, Content::Untyped));
    let found: Vec<String> = operations()
        .iter()
        .filter(|it| untyped(it))
        .map(|it| format!("{} {}", it.verb.as_str(), it.path))
        .collect();
    assert_eq!(found, UNTYPED);
}

/// `UPDATE_DOCS=1` writes the file anew.
#[test]
fn the_description_that_is_served_is_that_of_the_types() {
    let path = format!("{}/docs/openapi.json", env!("CARGO_MANIFEST_DIR"));
    let text = write::document(&operations());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let is_same = crate::api::description::OPENAPI == text;
    assert!(is_same, "docs/openapi.json is old: run this test once with UPDATE_DOCS=1");
}
