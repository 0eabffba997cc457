//! `wiki-browser topic` and `source` on a server.

use serde_json::json;

use super::desk::{ADDS_A_LINE, PROPOSES, operator, refused, said, text};
use crate::support::Bench;

const GUIDE: [&str; 4] = ["topic", "create", "--source", "guide.md"];
const NOBODY: &str = "018bcfe5-6800-7000-8000-000000000000";

fn create<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&GUIDE[..], more].concat()
}

#[test]
fn a_topic_is_opened_on_words_or_on_the_whole() {
    let bench = Bench::new();
    let server = bench.serve();
    let quote = ["--quote", "The first line.", "--body", "Say it.\nBetter."];
    let id = said(&bench, &create(&quote));
    let shown = bench.json(&["topic", "show", id.trim()]);
    assert_eq!(shown["topic"]["title"], "Say it.");
    assert_eq!(shown["topic"]["anchor"]["quote"], "The first line.");
    assert_eq!(shown["messages"][0]["body"], "Say it.\nBetter.");
    let words = said(&bench, &["topic", "show", &id[28..36]]);
    assert!(words.starts_with("Say it.\ntopic       "), "{words}");
    assert!(words.contains("\nplace       exact\nquote       The first line.\n"), "{words}");
    assert!(words.contains("\n#1 ada just now\nSay it.\nBetter.\n"), "{words}");

    let whole = operator(&bench, &create(&["--global", "--title", "All of it"]))
        .write_stdin("From a pipe\r\nof another system.\r\n")
        .assert()
        .success();
    let whole = text(&whole.get_output().stdout);
    let shown = bench.json(&["topic", "show", whole.trim()]);
    assert_eq!(shown["topic"]["is_global"], true);
    assert_eq!(
        (&shown["topic"]["title"], &shown["topic"]["anchor"]),
        (&json!("All of it"), &json!(null))
    );
    assert_eq!(shown["messages"][0]["body"], "From a pipe\nof another system.\n");
    let table = said(&bench, &["topic", "list", "--source", "guide.md"]);
    assert!(table.contains("global") && table.contains("exact"), "{table}");
    let twice = create(&["--global", "--body", "Once", "--idempotency-key", "k"]);
    assert_eq!(said(&bench, &twice), said(&bench, &twice));
    server.stop();
}

#[test]
fn a_topic_that_cannot_be_is_refused_with_the_reason() {
    let bench = Bench::new();
    let server = bench.serve();
    let line = ["--quote", "line.", "--body", "x"];
    let error = refused(&bench, &create(&line), 2, "ambiguous_quote");
    assert!(error["hint"].as_str().unwrap().contains("prefix"), "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.ends_with("occurs twice, on lines 3, 5"), "{error}");
    let elsewhere = ["topic", "create", "--source", "deep.md", "--global", "--body", "x"];
    let error = refused(&bench, &elsewhere, 4, "source_gone");
    assert_eq!(error["hint"], "did you mean `docs/deep.md`?");
    said(&bench, &create(&[&line[..], &["--prefix", "second "]].concat()));
    said(&bench, &create(&["--quote", "The", "--suffix", " first", "--body", "x"]));
    let none = ["--quote", "never there", "--body", "x"];
    refused(&bench, &create(&none), 2, "quote_not_found");
    refused(&bench, &create(&["--quote", "", "--body", "x"]), 2, "bad_selection");
    refused(&bench, &create(&["--global", "--body", ""]), 2, "invalid");
    refused(&bench, &create(&["--global", "--body", " \n"]), 2, "invalid");
    for stdin in [&b""[..], b"\xff"] {
        operator(&bench, &create(&["--global"])).write_stdin(stdin).assert().code(2);
    }
    let long = vec![b'x'; 70_000];
    let assert = operator(&bench, &create(&["--global"])).write_stdin(long).assert().code(2);
    let said = text(&assert.get_output().stderr);
    assert!(said.contains("longer than 65536 bytes"), "{said}");
    for (path, exit) in [("none.md", 4), (".gitignore", 2), ("wiki-browser.lua", 4)] {
        let args = ["topic", "create", "--source", path, "--global", "--body", "x"];
        operator(&bench, &args).assert().code(exit);
    }
    let open = bench.json(&["topic", "list", "--status", "open"]);
    assert_eq!(open["items"].as_array().unwrap().len(), 2, "{open:#}");
    server.stop();
}

#[test]
fn a_topic_is_talked_in_closed_and_opened_again() {
    let bench = Bench::new();
    let server = bench.serve();
    let id = bench.topic("guide.md", "The first line.", "Better?").id;
    let message = said(&bench, &["topic", "message", &id, "--body", "Yes."]);
    assert_eq!(message, format!("message 2 of topic {id}\n"));
    let piped = operator(&bench, &["topic", "message", &id]).write_stdin("No.").assert();
    assert_eq!(text(&piped.success().get_output().stdout), format!("message 3 of topic {id}\n"));
    operator(&bench, &["topic", "message", &id]).write_stdin("").assert().code(2);
    refused(&bench, &["topic", "reopen", &id], 5, "topic_not_closed");
    let discarded = said(&bench, &["topic", "discard", &id, "--reason", "Enough."]);
    assert_eq!(discarded, format!("topic {id} is discarded\n"));
    refused(&bench, &["topic", "discard", &id], 5, "topic_closed");
    refused(&bench, &["topic", "message", &id, "--body", "Late."], 5, "topic_closed");
    assert_eq!(bench.json(&["topic", "list", "--status", "open"])["items"], json!([]));
    assert_eq!(said(&bench, &["topic", "reopen", &id]), format!("topic {id} is open\n"));
    let shown = bench.json(&["topic", "show", &id]);
    let bodies: Vec<&str> = shown["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["body"].as_str().unwrap())
        .collect();
    assert_eq!(bodies, ["Better?", "Yes.", "No.", "Enough."]);
    for args in [
        &["topic", "show", NOBODY][..],
        &["topic", "message", NOBODY, "--body", "x"],
        &["topic", "discard", NOBODY],
        &["topic", "reopen", "ffff0000"],
    ] {
        refused(&bench, args, 4, "not_found");
    }
    server.stop();
}

#[test]
fn sources_are_listed_printed_and_have_a_history() {
    let bench = Bench::new();
    bench.topic_kind("works", PROPOSES, ADDS_A_LINE);
    let server = bench.serve();
    let table = said(&bench, &["source", "list"]);
    for path in ["docs/deep.md", "guide.md", "notes.md"] {
        assert!(table.contains(path), "{table}");
    }
    assert!(!table.contains(".gitignore"), "{table}");
    let deep = bench.json(&["source", "list", "deep"]);
    assert_eq!(deep["items"].as_array().unwrap().len(), 1);
    operator(&bench, &["source", "list", "nothing"]).assert().success().stdout("");
    assert_eq!(said(&bench, &["source", "show", "guide.md"]), bench.read("guide.md"));
    let source = bench.json(&["source", "show", "guide.md"]);
    assert_eq!(
        (&source["state"], &source["headings"][0]["text"]),
        (&json!("clean"), &json!("Guide"))
    );
    bench.write("notes.md", "# Notes\n\nChanged.\n");
    assert_eq!(said(&bench, &["source", "show", "notes.md"]), "# Notes\n\nChanged.\n");
    let state = said(&bench, &["source", "list", "notes", "--field", "items.0.state"]);
    assert_eq!(state, "modified\n");

    let topic = bench.topic("guide.md", "The first line.", "More.");
    let proposal = bench.proposal("works", &topic);
    let id = proposal["proposal"]["id"].as_str().unwrap();
    let commit = bench.json(&["proposal", "approve", id, "--yes"])["commit"].clone();
    let history = bench.json(&["source", "history", "guide.md"]);
    let newest = &history["items"][0];
    assert_eq!((&newest["commit"], &newest["topic_id"]), (&commit, &json!(topic.id)));
    assert!(newest["approved_by"].as_str().unwrap().starts_with("ada"), "{newest}");
    let table = said(&bench, &["source", "history", "guide.md", "--limit", "1"]);
    assert_eq!(table.lines().count(), 2, "{table}");
    assert!(table.contains("Update Guide"), "{table}");
    for verb in ["show", "history"] {
        refused(&bench, &["source", verb, "none.md"], 4, "source_gone");
        refused(&bench, &["source", verb, ".gitignore"], 2, "bad_path");
        refused(&bench, &["source", verb, "data/wiki.db"], 4, "not_a_source");
    }
    // What was removed has a history still.
    bench.git(&["rm", "-q", "docs/deep.md"]);
    bench.git(&["commit", "-qm", "gone"]);
    refused(&bench, &["source", "show", "docs/deep.md"], 4, "source_gone");
    let table = said(&bench, &["source", "history", "docs/deep.md"]);
    assert_eq!(table.lines().count(), 3, "{table}");
    operator(&bench, &["source", "show", "../wiki/guide.md"]).assert().code(2);
    operator(&bench, &["source", "history", "guide.md", "--limit", "0"]).assert().code(2);
    server.stop();
}
