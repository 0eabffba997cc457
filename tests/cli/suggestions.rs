//! The built-in engine: its reasons for giving up, as the operator sees them.

use serde_json::{Value, json};

use super::desk::said;
use crate::pages::Browser;
use crate::support::{Bench, Call};

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
    let lost = bench.topic("notes.md", "Keep this.", &block("Keep that.")).id;
    bench.write("notes.md", "# Notes\n");
    bench.git(&["commit", "-qam", "edited"]);
    for (topic, why) in [
        (on(first, "Better, please."), "no message of the topic has a suggestion block"),
        (global.trim().to_owned(), "the topic is about the whole source, not a passage"),
        (lost, "the passage has changed and can't be found"),
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

#[test]
fn a_suggestion_in_conflict_is_suggested_again_over_the_words_of_now() {
    let bench = Bench::new();
    bench.lua(KIND);
    let server = bench.serve();
    let suggested = |words: &str| format!("```suggestion\n{words}\n```");
    let topic = bench.topic("guide.md", "The first line.", &suggested("The 1st line."));
    let first = bench.proposal("apply", &topic);
    bench.write("guide.md", "# Guide\n\nThe very first line.\n\nThe second line.\n");
    bench.git(&["commit", "-qam", "by hand"]);
    let shown = |id: &str| bench.get(&format!("/api/proposals/{id}")).ok();
    let id = first["proposal"]["id"].as_str().unwrap();
    let now = shown(id);
    let approvable = &now["approvable"];
    assert_eq!(approvable["message"], "guide.md has changed since; 1 conflict");
    let hint = "request changes with the text that the passage should have now";
    assert_eq!(approvable["hint"], hint, "{approvable:#}");
    bench.json(&["person", "add", "bo", "--role", "member", "--email", "bo@example.org"]);
    let scopes = json!({"name": "t", "scopes": ["read", "write", "decide"], "person": "bo"});
    let bo = bench.post("/api/tokens", scopes).ok()["token"].as_str().unwrap().to_owned();
    let body = json!({"reason": suggested("The very 1st line.")});
    let call = Call::post(&format!("/api/proposals/{id}/rework"), body).token(&bo);
    let asked = bench.send(&call).ok();
    let job = bench.ended(asked["job_id"].as_str().unwrap());
    assert_eq!(job["status"], "succeeded", "{job:#}");
    let next = shown(job["proposal_id"].as_str().unwrap());
    assert_eq!(next["text"], "# Guide\n\nThe very 1st line.\n\nThe second line.\n");
    // It is called by what it proposes, not by the words of the first revision.
    assert_eq!(now["title"], "Change “first” to “1st”");
    assert_eq!(next["title"], "Change “first” to “1st”");
    // Whose idea it was is named, too.
    let both = ["ada <ada@users.invalid>", "bo <bo@example.org>"];
    assert_eq!(next["suggesters"], json!(both));
    let listed = said(&bench, &["topic", "show", &topic.id]);
    assert!(listed.contains("Change “first” to “1st”") && !listed.contains("\\n"), "{listed}");
    bench.send(&bench.approval(&next)).ok();
    let log = bench.git(&["log", "-1", "--format=%B"]);
    let trailers = "Suggested-by: ada <ada@users.invalid>\nSuggested-by: bo <bo@example.org>\n\
                    Approved-by: ada <ada@users.invalid>\n";
    assert!(log.contains(trailers), "{log}");
    server.stop();
}

#[test]
fn a_revision_is_called_by_the_words_that_it_proposes() {
    let bench = Bench::new();
    bench.lua(KIND);
    let server = bench.serve();
    let suggested = |words: &str| format!("```suggestion\n{words}\n```");
    let topic = bench.topic("guide.md", "Guide", &suggested("Manual"));
    let first = bench.proposal("apply", &topic);
    assert_eq!(first["title"], "Change “Guide” to “Manual”");
    let id = first["proposal"]["id"].as_str().unwrap();
    let body = json!({"reason": suggested("Handbook")});
    let asked = bench.post(&format!("/api/proposals/{id}/rework"), body).ok();
    let job = bench.ended(asked["job_id"].as_str().unwrap());
    let next = job["proposal_id"].as_str().unwrap();
    let shown = said(&bench, &["proposal", "show", next]);
    assert!(shown.starts_with("Change “Guide” to “Handbook”\n"), "{shown}");
    // Each line of the summary is one here, too.
    assert!(shown.contains("to “Handbook”\n            Suggested by ada."), "{shown}");
    server.stop();
}

#[test]
fn changes_of_an_edited_suggestion_keep_the_edits() {
    let bench = Bench::new();
    bench.lua(KIND);
    let server = bench.serve();
    let suggested = |words: &str| format!("```suggestion\n{words}\n```");
    let topic = bench.topic("guide.md", "first line", &suggested("1st line"));
    let first = bench.proposal("apply", &topic);
    let shown = |id: &str| bench.get(&format!("/api/proposals/{id}")).ok();
    let id = |of: &Value| of["proposal"]["id"].as_str().unwrap().to_owned();
    bench.json(&["person", "add", "bo", "--role", "member", "--email", "bo@example.org"]);
    let scopes = json!({"name": "t", "scopes": ["read", "write", "decide"], "person": "bo"});
    let bo = bench.post("/api/tokens", scopes).ok()["token"].as_str().unwrap().to_owned();
    let edit = |of: &Value, text: &str| {
        let body = json!({"text": text, "text_digest": of["proposal"]["text_digest"]});
        let call = Call::post(&format!("/api/proposals/{}/edit", id(of)), body).token(&bo);
        shown(bench.send(&call).ok()["id"].as_str().unwrap())
    };
    let asked = |of: &Value, words: &str| {
        let body = json!({"reason": suggested(words)});
        bench.post(&format!("/api/proposals/{}/rework", id(of)), body)
    };
    let reworked = |of: &Value, words: &str| {
        let job = bench.ended(asked(of, words).ok()["job_id"].as_str().unwrap());
        assert_eq!(job["status"], "succeeded", "{job:#}");
        shown(job["proposal_id"].as_str().unwrap())
    };
    let edited = edit(&first, "# Guide\n\nThe 1st line of all.\n\nThe second line.\nA third.\n");
    // The dialog offers what is there now, and says what stays.
    let page = Browser::signed_in(&bench, &server).page(&format!("/proposals/{}", id(&edited)));
    assert!(page.contains(">\n1st line</textarea>"), "{page}");
    assert!(page.contains("keeps the other edits"), "{page}");
    let same = asked(&edited, "1st line");
    assert_eq!(same.refusal(), (409, "same_text"));
    let second = reworked(&edited, "very first line");
    let want = "# Guide\n\nThe very first line of all.\n\nThe second line.\nA third.\n";
    assert_eq!(second["text"], want);
    let summary = "Add “very”, and other edits\n\nSuggested by ada, with the edits of revision 2.";
    assert_eq!(second["proposal"]["summary"], summary);
    // Again: they are still an edit, and the document has gone on elsewhere and in one line.
    let third = reworked(&second, "first, very first line");
    assert!(
        third["text"].as_str().unwrap().contains("first, very first line of all."),
        "{third:#}"
    );
    bench.write("guide.md", "# Guide\n\nThe first line.\n\nThe 2nd line.\n");
    bench.git(&["commit", "-qam", "by hand"]);
    let conflict = shown(&id(&third));
    assert!(conflict["conflict"].is_object(), "{conflict:#}");
    let last = reworked(&conflict, "zeroth line");
    assert_eq!(last["text"], "# Guide\n\nThe zeroth line of all.\n\nThe 2nd line.\n");
    let summary = last["proposal"]["summary"].as_str().unwrap();
    assert!(
        summary.ends_with("Edits on lines that have changed otherwise are not in it."),
        "{summary}"
    );
    // Who edited it is named with the commit.
    assert_eq!(last["editors"], json!(["bo <bo@example.org>"]));
    server.stop();
}
