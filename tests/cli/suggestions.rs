//! The built-in engine: its reasons for giving up, as the operator sees them.

use serde_json::{Value, json};

use super::desk::said;
use crate::support::Bench;

const KIND: &str = r#"
wb.engine "suggestions" { type = "builtin" }
wb.kind "apply" {
  about = "Apply", engine = "suggestions", timeout = "20s", produces = "proposal",
  inputs = {
    topic_id        = wb.input.topic(),
    source_path     = wb.input.source { from = "topic_id" },
    base_source_sha = wb.input.blob { from = "source_path" },
  },
}
wb.kind "blind" {
  about = "Apply without a topic", engine = "suggestions", timeout = "20s",
  inputs = { word = wb.input.line { default = "none" } },
}
"#;

fn apply(bench: &Bench, topic: &str) -> Value {
    bench.ended(&bench.job("apply", json!({"topic_id": topic})))
}

#[test]
fn a_suggestion_that_cannot_be_applied_fails_with_its_reason() {
    let bench = Bench::new();
    bench.lua(KIND);
    let server = bench.serve();
    let on = |quote: &str, body: &str| bench.topic("guide.md", quote, body).id;
    let first = "The first line.";
    let block = |words: &str| format!("Please:\n```suggestion\n{words}\n```\n");
    let global = said(
        &bench,
        &["topic", "create", "--source", "guide.md", "--global", "--body", &block("x")],
    );
    let edited = bench.topic("notes.md", "Keep this.", &block("Keep that.")).id;
    bench.write("notes.md", "# Notes\n\nKeep these.\n");
    bench.git(&["commit", "-qam", "edited"]);
    for (topic, why) in [
        (on(first, "Better, please."), "no message of the topic has a suggestion block"),
        (global.trim().to_owned(), "the topic is about the whole source, not a passage"),
        (edited, "the passage of the topic is not exactly where it was"),
        (on(first, &block(first)), "the suggestion changes nothing"),
        (on(first, "```suggestion\nThe fir"), "the last suggestion block is not closed"),
    ] {
        let job = apply(&bench, &topic);
        let state = (&job["status"], &job["reason"], &job["exit_code"]);
        assert_eq!(state, (&json!("failed"), &json!("exit_status"), &json!(1)), "{job:#}");
        let tail = job["error_tail"].as_str().unwrap();
        assert!(tail.starts_with(&format!("error: {why}\nhint: ")), "{tail}");
        assert_eq!(job["message"], "Agent failed. See log.");
        let shown = said(&bench, &["job", "show", job["id"].as_str().unwrap()]);
        assert!(shown.contains(why), "{shown}");
    }
    let job = bench.ended(&bench.job("blind", json!({})));
    assert!(job["error_tail"].as_str().unwrap().contains("this job has no topic"), "{job:#}");
    assert_eq!(bench.json(&["proposal", "list"])["items"], json!([]));
    server.stop();
}

#[test]
fn the_last_suggestion_of_the_thread_is_proposed() {
    let bench = Bench::new();
    bench.lua(KIND);
    let server = bench.serve();
    let topic = bench.topic("guide.md", "first line", "```suggestion\nline number one\n```").id;
    let better = "Or rather:\n```suggestion\n1st *line*\n```";
    said(&bench, &["topic", "message", &topic, "--body", better]);
    let args = ["job", "create", "apply", &format!("topic_id={topic}"), "--wait"];
    let proposal = said(&bench, &args);
    let text = said(&bench, &["proposal", "show", proposal.trim(), "--text"]);
    assert_eq!(text, "# Guide\n\nThe 1st *line*.\n\nThe second line.\n");
    let shown = bench.json(&["proposal", "show", proposal.trim()]);
    assert_eq!(
        shown["proposal"]["summary"],
        "Change “first line” to “1st *line*”\n\nSuggested by ada."
    );
    server.stop();
}
