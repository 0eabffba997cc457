//! The history of documents, and the search for documents, Topics and messages.

mod finding;
mod history;
mod index;

use serde_json::Value;

use crate::support::{Bench, until};

/// Returns the address of a search.
fn address(query: &str, more: &[(&str, &str)]) -> String {
    let pairs: Vec<(&str, &str)> = [("query", query)].iter().chain(more).copied().collect();
    format!("/api/search?{}", serde_urlencoded::to_string(pairs).unwrap())
}

/// Searches; what was found.
#[track_caller]
fn found(bench: &Bench, query: &str, more: &[(&str, &str)]) -> Vec<Value> {
    bench.get(&address(query, more)).ok()["items"].as_array().unwrap().clone()
}

/// Searches; what was found in words: `source guide.md`, `topic TITLE`, `message TITLE`.
#[track_caller]
fn names(bench: &Bench, query: &str, more: &[(&str, &str)]) -> Vec<String> {
    let name = |it: &Value| {
        let kind = it["kind"].as_str().unwrap();
        let name = if kind == "source" { &it["source_path"] } else { &it["title"] };
        format!("{kind} {}", name.as_str().unwrap())
    };
    found(bench, query, more).iter().map(name).collect()
}

/// The text of pieces, with the hits in brackets.
fn shown(pieces: &Value) -> String {
    let piece = |it: &Value| {
        let text = it["text"].as_str().unwrap();
        if it["hit"] == true { format!("[{text}]") } else { text.to_owned() }
    };
    pieces.as_array().unwrap().iter().map(piece).collect()
}

/// Waits until all is taken in.
#[track_caller]
fn ready(bench: &Bench) {
    until("the index is up to date", || bench.get("/api/search/index").ok()["state"] == "ready");
}
