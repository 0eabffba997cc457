//! Names that another document has by now: whoever worked on the first one, or waits for it, never
//! works on the other unasked.

use serde_json::{Value, json};

use super::{events, ready};
use crate::support::{Bench, Call, until};

/// Declares a kind on a document, perhaps a new one, whose job fails until it is let go.
fn declare(bench: &Bench, new: &str) {
    bench.engine("edit", "[ -e \"$OUT/go\" ] || exit 3\necho \"$path $base\" > \"$OUT/$job\"");
    bench.lua(&format!(
        "wb.kind \"edit\" {{ about = \"A test\", engine = \"edit\", timeout = \"20s\",\n\
         produces = \"proposal\", lane = \"path\",\n\
         prompt = \"job={{{{job_id}}}}\\npath={{{{path}}}}\\nbase={{{{base}}}}\\n\",\n\
         inputs = {{ path = wb.input.source {{ {new} }},\n\
         base = wb.input.blob {{ from = \"path\" }} }} }}\n"
    ));
}

/// Moves documents in commits of their own, and waits until that was seen.
fn moved(bench: &Bench, moves: &[(&str, &str)]) {
    for (from, to) in moves {
        bench.git(&["mv", from, to]);
        bench.git(&["commit", "-q", "-m", "a better name"]);
    }
    let head = bench.git(&["rev-parse", "HEAD"]);
    let is_told = |it: &Value| it["commit"] == *head;
    until("it is seen", || events(bench, "source_renamed").iter().any(is_told));
}

fn failed(bench: &Bench, path: &str) -> String {
    let job = bench.job("edit", json!({"path": path}));
    assert_eq!(bench.ended(&job)["reason"], "exit_status");
    job
}

/// Repeats a job; returns the new one, which has ended.
fn again_of(bench: &Bench, job: &str) -> String {
    let again = bench.post(&format!("/api/agent/jobs/{job}/retry"), json!({})).ok();
    let again = again["job_id"].as_str().unwrap().to_owned();
    bench.ended(&again);
    again
}

/// Repeats a job, and returns what it is told.
fn again(bench: &Bench, job: &str) -> String {
    bench.left(&again_of(bench, job)).trim().to_owned()
}

#[test]
fn a_job_that_is_repeated_works_on_its_document_under_whatever_name() {
    for new in ["", "new = true"] {
        let bench = Bench::new();
        declare(&bench, new);
        let server = bench.serve();
        ready(&bench);
        let blob = |path: &str| bench.git(&["hash-object", path]);
        let (guide, notes) = (blob("guide.md"), blob("notes.md"));
        let [first, other] = ["guide.md", "notes.md"].map(|it| failed(&bench, it));
        // One that waits goes along, and is not taken for the one that had the name before.
        let later = json!({"path": "notes.md", "not_before": "2099-01-01T00:00:00Z"});
        let waits = bench.job("edit", later);
        moved(&bench, &[("guide.md", "old.md"), ("notes.md", "guide.md")]);
        bench.post(&format!("/api/agent/jobs/{waits}/cancel"), json!({})).ok();
        let third = failed(&bench, "guide.md");
        std::fs::write(bench.out.join("go"), "").unwrap();
        assert_eq!(again(&bench, &first), format!("old.md {guide}"));
        for job in [&other, &waits, &third] {
            assert_eq!(again(&bench, job), format!("guide.md {notes}"));
        }
        // Handed on once more.
        moved(&bench, &[("guide.md", "older.md"), ("old.md", "guide.md")]);
        assert_eq!(again(&bench, &first), format!("guide.md {guide}"));
        for job in [&other, &waits, &third] {
            assert_eq!(again(&bench, job), format!("older.md {notes}"));
        }
        server.stop();
    }
}

#[test]
fn a_job_is_not_repeated_on_another_document_that_has_the_name() {
    for is_one in [true, false] {
        let bench = Bench::new();
        declare(&bench, "");
        let server = bench.serve();
        ready(&bench);
        let job = failed(&bench, "guide.md");
        let other = failed(&bench, "notes.md");
        std::fs::write(bench.out.join("go"), "").unwrap();
        bench.git(&["rm", "-q", "guide.md"]);
        if !is_one {
            bench.git(&["commit", "-q", "-m", "no more"]);
        }
        moved(&bench, &[("notes.md", "guide.md")]);
        let again = bench.post(&format!("/api/agent/jobs/{job}/retry"), json!({}));
        assert_eq!(again.refusal(), (409, "source_gone"));
        let message = again.body["error"]["message"].as_str().unwrap();
        assert_eq!(message, "guide.md was notes.md, and has taken the name of its document");
        let job = again_of(&bench, &other);
        assert_eq!(bench.show(&job)["inputs"]["path"], "guide.md");
        server.stop();
    }
}

/// With or without a look in between, and whatever the script says later.
#[test]
fn a_job_does_not_wait_for_another_document_of_the_same_name() {
    for is_seen in [true, false] {
        let bench = Bench::new();
        declare(&bench, "");
        let server = bench.serve();
        ready(&bench);
        std::fs::write(bench.out.join("go"), "").unwrap();
        let wait = |path: &str| {
            bench.job("edit", json!({"path": path, "not_before": "2099-01-01T00:00:00Z"}))
        };
        let [gone, goes] = ["guide.md", "notes.md"].map(wait);
        bench.git(&["rm", "-q", "guide.md"]);
        bench.git(&["commit", "-q", "-m", "no more"]);
        if is_seen {
            let is_gone = |it: &Value| it["path"] == "guide.md" && it["blob"].is_null();
            until("it is gone", || events(&bench, "source_changed").iter().any(is_gone));
        }
        moved(&bench, &[("notes.md", "guide.md")]);
        // It is asked for by that name now.
        let after = wait("guide.md");
        let waiting = |job: &str| bench.show(job)["waiting"].clone();
        let is_held = || {
            for job in [&goes, &after] {
                assert_eq!(waiting(job)["code"], "not_before");
                assert_eq!(bench.show(job)["inputs"]["path"], "guide.md");
            }
            let held = waiting(&gone);
            let why = "guide.md was notes.md, and has taken the name of its document";
            assert_eq!(held["code"], "kind_changed");
            assert!(held.to_string().contains(why), "{held}");
        };
        is_held();
        let reload = || bench.json(&["reload"])["warnings"].to_string();
        let told = reload();
        assert!(told.contains("ask again for the document that is meant"), "{told}");
        let more = "more = wb.input.line { default = \"x\" },\nbase = wb";
        bench.edit(|lua| lua.replace("base = wb", more));
        bench.write_script();
        reload();
        is_held();
        server.stop();
        let server = bench.serve();
        is_held();
        bench.json(&["reload", "--drop"]);
        assert_eq!(bench.show(&gone)["status"], "cancelled");
        let again = bench.post(&format!("/api/agent/jobs/{gone}/retry"), json!({}));
        assert_eq!(again.refusal(), (409, "source_gone"));
        assert_eq!(waiting(&goes)["code"], "not_before");
        server.stop();
    }
}

/// Whoever moves two documents commits the first move before the second one.
#[test]
fn a_name_that_is_taken_but_not_committed_yet_is_followed_all_the_same() {
    let bench = Bench::new();
    let server = bench.serve();
    ready(&bench);
    let topic = bench.topic("guide.md", "The second line.", "x");
    server.stop();
    bench.git(&["mv", "guide.md", "old.md"]);
    bench.git(&["commit", "-q", "-m", "a better name"]);
    bench.git(&["mv", "notes.md", "guide.md"]);
    let server = bench.serve();
    let path =
        || bench.get(&format!("/api/topics/{}", topic.id)).ok()["topic"]["source_path"].clone();
    until("it has moved", || path() == "old.md");
    bench.git(&["commit", "-q", "-m", "taken"]);
    let head = bench.git(&["rev-parse", "HEAD"]);
    until("it is seen", || events(&bench, "source_renamed").iter().any(|it| it["commit"] == *head));
    assert_eq!(path(), "old.md");
    server.stop();
}

/// What was written on a page of one document goes to no other one; nothing refers to either.
#[test]
fn a_topic_is_for_the_document_that_was_read() {
    let bench = Bench::new();
    let server = bench.serve();
    ready(&bench);
    let guide = bench.git(&["hash-object", "guide.md"]);
    let token = bench.operator();
    let sent =
        |call: Call, seen: &str| bench.send(&call.token(&token).header("wb-read-version", seen));
    let topic = |path: &str, seen: &str| {
        let body = json!({"source_path": path, "global": true, "body": "x"});
        sent(Call::post("/api/topics", body), seen)
    };
    let seen = format!("0 {guide}");
    for (from, to) in [("guide.md", "x.md"), ("notes.md", "guide.md"), ("x.md", "notes.md")] {
        bench.git(&["mv", from, to]);
    }
    bench.git(&["commit", "-q", "-m", "exchanged"]);
    moved(&bench, &[]);
    let refused = topic("guide.md", &seen);
    assert_eq!(refused.refusal(), (404, "source_gone"));
    assert!(refused.body.to_string().contains("yours was renamed to notes.md"), "{refused:?}");
    let passage = format!("/api/source/passage?path=guide.md&blob={guide}&from=0:0&to=0:1");
    let refused = sent(Call::get(&passage), &seen);
    assert_eq!(refused.refusal(), (404, "source_gone"));
    // The text that was read, whatever it is called.
    topic("notes.md", &seen).ok();
    assert_eq!(topic("notes.md", "now").refusal(), (400, "invalid"));
    server.stop();
}

/// Commits that one document has the name of another one, without waiting until that is seen.
fn hand_on(bench: &Bench) {
    bench.git(&["mv", "guide.md", "old.md"]);
    bench.git(&["mv", "notes.md", "guide.md"]);
    bench.git(&["commit", "-q", "-m", "handed on"]);
}

/// Fails with `WB_WITHOUT=fresh_look`.
#[test]
fn whoever_names_a_document_right_after_a_commit_means_the_one_that_has_the_name() {
    let bench = Bench::new();
    declare(&bench, "");
    let server = bench.serve();
    ready(&bench);
    let notes = bench.git(&["hash-object", "notes.md"]);
    hand_on(&bench);
    let job = bench.job("edit", json!({"path": "guide.md"}));
    let body = json!({"source_path": "guide.md", "global": true, "body": "x"});
    let topic = bench.post("/api/topics", body).ok();
    assert_eq!(bench.ended(&job)["reason"], "exit_status");
    moved(&bench, &[]);
    std::fs::write(bench.out.join("go"), "").unwrap();
    assert_eq!(again(&bench, &job), format!("guide.md {notes}"));
    let topic = bench.get(&format!("/api/topics/{}", topic["id"].as_str().unwrap()));
    assert_eq!(topic.body["topic"]["source_path"], "guide.md", "{topic:?}");
    server.stop();
}

/// Fails with `WB_WITHOUT=fresh_look`.
#[test]
fn a_job_that_is_due_at_a_start_waits_for_what_was_renamed_before() {
    let bench = Bench::new();
    declare(&bench, "");
    // For a server of an hour ago the job waits; for the next one it is due.
    let clock = bench.clock(-60 * 60 * 1_000);
    let server = bench.serve_with(&[("WB_CLOCK", clock.as_str())]);
    ready(&bench);
    std::fs::write(bench.out.join("go"), "").unwrap();
    let guide = bench.git(&["hash-object", "guide.md"]);
    let due = jiff::Timestamp::now().to_string();
    let job = bench.job("edit", json!({"path": "guide.md", "not_before": due}));
    server.kill();
    hand_on(&bench);
    let server = bench.serve();
    bench.ended(&job);
    assert_eq!(bench.left(&job).trim(), format!("old.md {guide}"));
    server.stop();
}
