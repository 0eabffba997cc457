//! The job that holds a Source: named by the API, and by the buttons that it disables.

use serde_json::json;

use crate::pages::Browser;
use crate::perspectives::perspective_kind;
use crate::support::Bench;

#[test]
fn a_held_source_says_which_job_holds_it() {
    let bench = Bench::new();
    bench.limits("jobs = 1");
    bench.topic_kind("rewrite", "timeout = \"60s\", lane = \"source_path\"", "beat a");
    bench.topic_kind("free", "timeout = \"60s\"", "true");
    perspective_kind(&bench, "true");
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let view = "/d/guide.md?view=critic";
    let holder = || bench.get("/api/source?path=guide.md").ok()["holder"].clone();
    assert_eq!(holder(), json!(null));
    let ask = "type=\"submit\">Generate view";
    let html = browser.page(view);
    assert!(html.contains(ask) && !html.contains("class=\"holder\""), "{html}");

    let topic = bench.topic("guide.md", "The first line", "Better");
    let job = bench.job_on("rewrite", &topic);
    bench.wait_status(&job, "running");
    let second = bench.job_on("rewrite", &topic);
    // What has no lane is in nobody's way, and is not counted.
    let free = bench.job_on("free", &topic);
    let found = holder();
    assert_eq!(
        (&found["job_id"], &found["status"], &found["others"], &found["waiting"]),
        (&json!(job), &json!("running"), &json!(1), &json!(null)),
        "{found}"
    );
    let html = browser.page(view);
    for part in [
        format!(
            "<a href=\"/jobs/{job}\">Job “rewrite”</a> is working on <bdi>guide.md</bdi>, started "
        ),
        "1 more job is queued behind it".to_owned(),
        "disabled aria-describedby=\"holder\">Generate view".to_owned(),
        "data-live=\"source:guide.md\"".to_owned(),
    ] {
        assert!(html.contains(&part), "{part}: {html}");
    }
    // Another Source is free.
    assert_eq!(bench.get("/api/source?path=docs/deep.md").ok()["holder"], json!(null));

    for id in [&job, &second] {
        bench.post(&format!("/api/agent/jobs/{id}/cancel"), json!({})).ok();
        bench.ended(id);
    }
    bench.ended(&free);
    assert_eq!(holder(), json!(null));
    assert!(browser.page(view).contains(ask));
}

#[test]
fn a_job_that_waits_holds_its_source_too_and_says_why_it_waits() {
    let bench = Bench::new();
    bench.limits("jobs = 1");
    bench.topic_kind("rewrite", "timeout = \"60s\", lane = \"source_path\"", "true");
    bench.word_kind("busy", "timeout = \"60s\"", "beat a");
    perspective_kind(&bench, "true");
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let busy = bench.job("busy", json!({}));
    bench.wait_status(&busy, "running");
    let topic = bench.topic("guide.md", "The first line", "Better");
    let job = bench.job_on("rewrite", &topic);
    let found = bench.get("/api/source?path=guide.md").ok()["holder"].clone();
    assert_eq!((&found["job_id"], &found["status"]), (&json!(job), &json!("queued")), "{found}");
    assert_eq!(found["waiting"]["code"], json!("jobs_cap"), "{found}");
    let html = browser.page("/d/guide.md?view=critic");
    assert!(html.contains("is waiting for <bdi>guide.md</bdi>"), "{html}");
    assert!(html.contains("1 of at most 1 jobs run"), "{html}");
    bench.post(&format!("/api/agent/jobs/{busy}/cancel"), json!({})).ok();
    bench.ended(&busy);
    bench.ended(&job);
}

/// A site where suggestions are applied by a kind that does this when the Source is held.
fn applying(bench: &Bench, on_busy: &str) {
    bench.topic_kind("rewrite", "timeout = \"60s\", lane = \"source_path\"", "beat a");
    bench.lua(&format!(
        r#"
wb.engine "suggestions" {{ type = "builtin" }}
wb.kind "apply" {{
  about = "Apply", engine = "suggestions", timeout = "20s", produces = "proposal",
  lane = "source_path", on_busy = "{on_busy}",
  inputs = {{
    topic_id        = wb.input.topic(),
    source_path     = wb.input.source {{ from = "topic_id" }},
    base_source_sha = wb.input.blob {{ from = "source_path" }},
  }},
}}
"#
    ));
}

/// Holds the guide, suggests other words in it meanwhile, and returns the job and what was made.
fn suggest_while_held(bench: &Bench) -> (String, serde_json::Value) {
    let other = bench.topic("guide.md", "The second line", "Better");
    let job = bench.job_on("rewrite", &other);
    bench.wait_status(&job, "running");
    let source = bench.get("/api/source?path=guide.md").ok();
    let body = json!({
        "source_path": "guide.md", "body": "", "suggestion": "The 1st line", "propose": true,
        "selection": {"blob": source["blob"], "start": 9, "end": 23},
    });
    (job, bench.post("/api/topics", body).ok())
}

#[test]
fn a_suggestion_that_is_refused_for_another_job_says_so_until_it_is_proposed() {
    let bench = Bench::new();
    bench.limits("jobs = 2");
    applying(&bench, "reject");
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let (job, made) = suggest_while_held(&bench);
    assert_eq!(made["not_started"]["code"], json!("lane_busy"), "{made}");
    let topic = format!("/topics/{}", made["id"].as_str().unwrap());
    let blames =
        |words: &str| format!("href=\"/jobs/{job}\">Job “rewrite”</a> {words} this document");
    let html = browser.page(&topic);
    assert!(html.contains(&blames("is working on")), "{html}");
    let html = browser.page("/d/guide.md");
    assert_eq!(html.matches("Suggested, not proposed yet").count(), 1, "{html}");
    bench.post(&format!("/api/agent/jobs/{job}/cancel"), json!({})).ok();
    bench.ended(&job);
    let html = browser.page(&topic);
    assert!(html.contains(&blames("was working on")), "{html}");
    assert!(html.contains("Propose this change"), "{html}");
    let asked = browser.fill(&topic, &format!("{topic}/jobs"), &[("kind", "apply")]);
    bench.ended(asked.split_once("#job-").unwrap().1);
    for page in [&*topic, "/d/guide.md"] {
        assert!(!browser.page(page).contains("Suggested, not proposed yet"), "{page}");
    }
}

#[test]
fn a_suggestion_waits_for_another_job_and_is_proposed_beside_its_proposal() {
    let bench = Bench::new();
    bench.limits("jobs = 2");
    applying(&bench, "queue");
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let (job, made) = suggest_while_held(&bench);
    assert_eq!(made["not_started"], json!(null), "{made}");
    let waits = made["job_id"].as_str().unwrap();
    bench.post(&format!("/api/agent/jobs/{job}/cancel"), json!({})).ok();
    assert_eq!(bench.ended(waits)["status"], "succeeded");
    let html = browser.page("/d/guide.md");
    assert!(html.contains("Awaiting review") && !html.contains("not proposed yet"), "{html}");
}
