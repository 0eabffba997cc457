//! `wiki-browser proposal`: showing and deciding.

use serde_json::json;

use super::desk::{ADDS_A_LINE, PROPOSES, in_terminal, operator, refused, said, text};
use crate::support::{Bench, Topic};

const NOBODY: &str = "018bcfe5-6800-7000-8000-000000000000";

/// Returns a site with an agent that adds a line.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.topic_kind(
        "works",
        PROPOSES,
        &ADDS_A_LINE.replace("propose", "propose --summary 'A \u{202e}line'"),
    );
    bench
}

/// Runs a job on a new Topic; returns the Topic and the id of the proposal.
fn propose(bench: &Bench, path: &str) -> (Topic, String) {
    let quote = if path == "notes.md" { "Keep this." } else { "The second line." };
    let topic = bench.topic(path, quote, "More.");
    let id = bench.proposal("works", &topic)["proposal"]["id"].as_str().unwrap().to_owned();
    (topic, id)
}

#[test]
fn a_proposal_shows_what_it_changes_and_whom_it_touches() {
    let bench = bench();
    let server = bench.serve();
    let other = bench.topic("guide.md", "The first line.", "Why?");
    let (topic, id) = propose(&bench, "guide.md");
    let shown = said(&bench, &["proposal", "show", &id[28..]]);
    for words in [
        "More.\nproposal    ".to_owned(),
        "\nbase        is current, source clean\n".to_owned(),
        "\nsummary     A \\u{202e}line\n".to_owned(),
        format!("\nOther open topics of this source\n  topic {}: exact: ", other.id),
        "\n+One more.\n".to_owned(),
    ] {
        assert!(shown.contains(&words), "{words:?} is not in {shown}");
    }
    assert!(!shown.contains('\u{202e}'), "{shown}");
    let whole = format!("{}One more.\n", bench.read("guide.md"));
    assert_eq!(said(&bench, &["proposal", "show", &id, "--text"]), whole);
    let diff = said(&bench, &["proposal", "diff", &id]);
    assert!(diff.starts_with("--- a/guide.md\n+++ b/guide.md\n@@ "), "{diff}");
    bench.write("change.diff", &diff);
    bench.git(&["apply", "--check", "change.diff"]);
    let shown = bench.json(&["proposal", "show", &id]);
    assert_eq!(shown["text"], json!(whole));
    assert_eq!(shown, bench.get(&format!("/api/proposals/{id}")).ok());
    assert_eq!(
        said(&bench, &["proposal", "show", &id, "--field", "proposal.topic_id"]).trim(),
        topic.id
    );
    let table = said(&bench, &["proposal", "list", "--status", "open", "--topic", &topic.id]);
    assert!(table.contains("A \\u{202e}line") && table.contains(&id[28..]), "{table}");
    operator(&bench, &["proposal", "list", "--source", "notes.md"]).assert().success().stdout("");
    for verb in ["show", "diff"] {
        refused(&bench, &["proposal", verb, NOBODY], 4, "not_found");
        refused(&bench, &["proposal", verb, "ffff0000"], 4, "not_found");
    }
    server.stop();
}

#[test]
fn an_approval_is_asked_for_and_is_of_the_text_that_was_shown() {
    let bench = bench();
    let server = bench.serve();
    let (topic, id) = propose(&bench, "guide.md");
    let before = bench.commits();
    refused(&bench, &["proposal", "approve", &id], 2, "no_terminal");
    let wrong = ["proposal", "approve", &id, "--yes", "--digest", "0000"];
    refused(&bench, &wrong, 5, "text_changed");
    let bad = ["proposal", "approve", &id, "--yes", "--subject", "two\nlines"];
    refused(&bench, &bad, 2, "bad_message");
    refused(&bench, &["proposal", "approve", NOBODY, "--yes"], 4, "not_found");
    let (code, screen) = in_terminal(&bench, 80, &format!("proposal approve {id}"), &[], "n\n");
    assert_eq!(code, 5, "{screen}");
    assert!(screen.contains("Commit revision 1 of guide.md?"), "{screen}");
    assert!(screen.contains("nothing changed"), "{screen}");
    assert_eq!(bench.commits(), before);

    let digest = said(&bench, &["proposal", "show", &id, "--field", "proposal.text_digest"]);
    let approve =
        ["proposal", "approve", &id, "--yes", "--digest", digest.trim(), "--subject", "Add a line"];
    let done = said(&bench, &[&approve[..], &["--body", "As asked."]].concat());
    let commit = bench.git(&["rev-parse", "HEAD"]);
    assert_eq!(done, format!("approved: commit {commit} on main\n"));
    let message = bench.git(&["log", "-1", "--format=%an: %B"]);
    assert!(message.starts_with("Test Agent: Add a line\n\nAs asked.\n\n"), "{message}");
    assert!(message.contains(&format!("Topic: {}", topic.id)), "{message}");
    refused(&bench, &approve, 5, "already_decided");
    let reject = ["proposal", "reject", &id, "--reason", "Late."];
    refused(&bench, &reject, 5, "already_decided");
    assert_eq!(bench.json(&["topic", "show", &topic.id])["topic"]["status"], "incorporated");
    assert_eq!(bench.status(), "");

    // At a terminal a yes is enough.
    let (_, id) = propose(&bench, "notes.md");
    let (code, screen) = in_terminal(&bench, 80, &format!("proposal approve {id}"), &[], "y\n");
    assert_eq!(code, 0, "{screen}");
    assert!(!screen.contains('\u{202e}'), "{screen}");
    assert_eq!(bench.read("notes.md"), "# Notes\n\nKeep this.\nOne more.\n");
    server.stop();
}

#[test]
fn what_cannot_be_approved_says_why() {
    let bench = bench();
    let server = bench.serve();
    let (topic, first) = propose(&bench, "guide.md");
    let second = bench.proposal("works", &topic);
    let second = second["proposal"]["id"].as_str().unwrap();
    refused(&bench, &["proposal", "approve", &first, "--yes"], 5, "superseded");
    let (_, other) = propose(&bench, "notes.md");
    bench.write("notes.md", "# Notes\n\nMine now.\n");
    refused(&bench, &["proposal", "approve", &other, "--yes"], 5, "source_dirty");
    bench.git(&["commit", "-qam", "mine"]);
    let error = refused(&bench, &["proposal", "approve", &other, "--yes"], 5, "stale_base");
    assert!(!error["hint"].is_null(), "{error}");
    let shown = said(&bench, &["proposal", "show", &other]);
    assert!(shown.contains("\napprovable  no: "), "{shown}");
    assert_eq!(said(&bench, &["proposal", "approve", second, "--yes"]).lines().count(), 1);
    server.stop();
}

#[test]
fn a_rejection_has_a_reason_that_is_shown() {
    let bench = bench();
    let server = bench.serve();
    let (topic, id) = propose(&bench, "guide.md");
    let assert = operator(&bench, &["proposal", "reject", &id]).assert().code(2);
    assert!(text(&assert.get_output().stderr).contains("--reason <TEXT>"));
    refused(&bench, &["proposal", "reject", &id, "--reason", " "], 2, "invalid");
    refused(&bench, &["proposal", "reject", NOBODY, "--reason", "x"], 4, "not_found");
    let rejected = said(&bench, &["proposal", "reject", &id, "--reason", "Too much."]);
    assert_eq!(rejected, format!("proposal {id} is rejected\n"));
    let again = ["proposal", "reject", &id, "--reason", "Again."];
    refused(&bench, &again, 5, "already_decided");
    refused(&bench, &["proposal", "approve", &id, "--yes"], 5, "already_decided");
    let shown = bench.json(&["proposal", "show", &id]);
    assert_eq!(shown["proposal"]["reason"], "Too much.");
    let shown = said(&bench, &["proposal", "show", &id]);
    assert!(shown.contains("\nstatus      rejected\ndecided by  ada\n"), "{shown}");
    assert!(shown.contains("\nreason      Too much.\n"), "{shown}");
    // Its Topic stays open for another try.
    assert_eq!(bench.json(&["topic", "show", &topic.id])["topic"]["status"], "open");
    server.stop();
}

#[test]
fn requested_changes_are_waited_for_and_the_new_revision_is_printed() {
    let bench = bench();
    let server = bench.serve();
    let (_, id) = propose(&bench, "guide.md");
    let line = ["proposal", "rework", &id, "--reason", "Shorter.", "--wait"];
    let assert = operator(&bench, &line).assert().success();
    let printed = text(&assert.get_output().stdout);
    let revision = bench.json(&["proposal", "show", printed.trim()]);
    assert_eq!(revision["proposal"]["revision_number"], 2, "{revision:#}");
    assert_eq!(bench.json(&["proposal", "show", &id])["proposal"]["status"], "superseded");
    server.stop();
}
