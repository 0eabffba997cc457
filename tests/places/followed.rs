//! A renamed Source: waiting and running jobs, personas' views, and requests by the old name.

use serde_json::{Value, json};

use super::{events, ready};
use crate::pages::Browser;
use crate::perspectives::{MAKES, made, perspective_kind};
use crate::support::{Bench, until};

/// Reads the Source, waits for a word, and proposes.
const SLOW: &str = "sed \"s/first/$job/\" \"$root/$path\" > \"$OUT/$job.md\" || exit 3
until [ -e \"$OUT/go\" ]; do sleep 0.05; done; propose < \"$OUT/$job.md\"";

fn rename(bench: &Bench, from: &str, to: &str) {
    bench.git(&["mv", from, to]);
    bench.git(&["commit", "-q", "-m", "a better name"]);
    let is_told = |it: &Value| it["from"] == from && it["path"] == to;
    until(&format!("{from} is {to}"), || events(bench, "source_renamed").iter().any(is_told));
}

#[test]
fn jobs_of_a_renamed_source_go_on_under_its_new_name() {
    let bench = Bench::new();
    let fields = "produces = \"proposal\", timeout = \"20s\", lane = \"source_path\"";
    bench.topic_kind("slow", fields, SLOW);
    let server = bench.serve();
    ready(&bench);
    let topics = ["The first line.", "The second line."].map(|it| bench.topic("guide.md", it, "x"));
    let runs = bench.job_on("slow", &topics[0]);
    bench.wait_left(&format!("{runs}.md"));
    let waits = bench.job_on("slow", &topics[1]);
    assert_eq!(bench.show(&waits)["status"], "queued");
    rename(&bench, "guide.md", "handbook.md");
    let shown = bench.show(&waits);
    assert_eq!(shown["source_path"], "handbook.md");
    assert_eq!(shown["inputs"]["source_path"], "handbook.md");
    assert_eq!(shown["lane"], "source_path=handbook.md");
    assert_eq!(shown["status"], "queued", "who runs holds the lane under its new name, too");
    assert_eq!(bench.show(&runs)["inputs"]["source_path"], "guide.md", "as it was told");
    std::fs::write(bench.out.join("go"), "").unwrap();
    for job in [runs.as_str(), &waits] {
        let ended = bench.ended(job);
        assert_eq!(ended["status"], "succeeded", "{ended:#}");
        let id = ended["proposal_id"].as_str().unwrap();
        let made = bench.get(&format!("/api/proposals/{id}")).ok();
        assert_eq!(made["proposal"]["source_path"], "handbook.md");
    }
    // A job of before the rename that is repeated takes the new name.
    let again = bench.post(&format!("/api/agent/jobs/{runs}/retry"), json!({})).ok();
    let again = again["job_id"].as_str().unwrap().to_owned();
    let again = bench.ended(&again);
    assert_eq!(
        (&again["status"], &again["source_path"]),
        (&json!("succeeded"), &json!("handbook.md"))
    );
    server.stop();
}

#[test]
fn views_go_with_a_renamed_source_and_stay_fresh() {
    let bench = Bench::new();
    perspective_kind(&bench, MAKES);
    let server = bench.serve();
    ready(&bench);
    let job = made(&bench, "guide.md", "critic");
    rename(&bench, "guide.md", "handbook.md");
    let view = bench.get("/api/perspective?source_path=handbook.md&persona=critic").ok();
    assert_eq!((&view["state"], &view["job_id"]), (&json!("fresh"), &job["id"]));
    let gone = bench.get("/api/perspective?source_path=guide.md&persona=critic");
    assert_eq!(gone.status, 404);
    let hint = gone.body["error"]["hint"].as_str().unwrap().to_owned();
    assert!(hint.contains("handbook.md"), "{hint}");
    server.stop();
}

#[test]
fn who_asks_by_an_old_name_is_told_the_new_one() {
    let bench = Bench::new();
    let server = bench.serve();
    ready(&bench);
    // Nothing hangs on it, and still it is known.
    rename(&bench, "guide.md", "one.md");
    rename(&bench, "one.md", "docs/two words.md");
    let global = json!({"source_path": "guide.md", "global": true, "body": "x"});
    let answers = [
        bench.get("/api/source?path=guide.md"),
        bench.get("/api/source?path=one.md"),
        bench.post("/api/topics", global),
    ];
    for answer in answers {
        assert_eq!(answer.status, 404);
        let error = answer.body["error"].clone();
        assert_eq!(error["hint"], "ask for docs/two words.md", "{error}");
    }
    let (code, _, said) = bench.cli(&["source", "show", "guide.md"]);
    assert_eq!((code, said.contains("docs/two words.md")), (4, true), "{said}");
    let browser = Browser::signed_in(&bench, &server);
    let page = browser.get("/d/guide.md");
    assert_eq!(page.status, 404);
    assert!(page.html.contains("docs/two words.md"), "{}", page.html);
    let way = "href=\"/d/docs/two%20words.md\">Open it under its new name";
    assert!(page.html.contains(way), "{}", page.html);
    // History goes on across the names, and is there for the old one.
    let history = bench.get("/api/source/history?path=docs/two%20words.md").ok();
    assert_eq!(history["items"].as_array().unwrap().len(), 3, "{history:#}");
    // A name that is there again is not explained away.
    bench.write("guide.md", "# Another\n");
    bench.git(&["add", "guide.md"]);
    bench.git(&["commit", "-q", "-m", "another one"]);
    assert_eq!(bench.get("/api/source?path=guide.md").status, 200);
    // And what is gone at last has no new name.
    bench.git(&["rm", "-q", "docs/two words.md", "guide.md"]);
    bench.git(&["commit", "-q", "-m", "no more"]);
    let gone = bench.get("/api/source?path=one.md");
    assert_eq!(gone.status, 404);
    assert!(!gone.body["error"]["hint"].as_str().unwrap_or("").contains("renamed"));
    server.stop();
}
