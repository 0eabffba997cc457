//! The job that holds a Source: named by the API, and by the buttons that it stands in the way of.

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
    let ask = "type=\"submit\">Have it made";
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
            "<a href=\"/jobs/{job}\">A job “rewrite”</a> works on <bdi>guide.md</bdi>, started "
        ),
        "1 more job waits behind it".to_owned(),
        "disabled aria-describedby=\"holder\">Have it made".to_owned(),
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
    assert!(html.contains("waits to work on <bdi>guide.md</bdi>"), "{html}");
    assert!(html.contains("1 of at most 1 jobs run"), "{html}");
    bench.post(&format!("/api/agent/jobs/{busy}/cancel"), json!({})).ok();
    bench.ended(&busy);
    bench.ended(&job);
}
