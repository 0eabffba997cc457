//! Topics opened by jobs, and jobs that see the whole site: what is allowed and what is not.

use serde_json::{Value, json};

use crate::support::{Bench, Call};

/// A job that has left its token and waits.
const LENDS: &str = "printf '%s\\n' \"$WB_TOKEN\" > \"$OUT/token.$job\"\n\
    until [ -e \"$OUT/go.$job\" ]; do sleep 0.02; done\nexec \"$OUT/end.sh\"\n";

/// Declares a kind whose agent lends its token and ends as the test says.
fn lends(bench: &Bench, name: &str, fields: &str, inputs: &str) {
    bench.engine(name, LENDS);
    let prompt = "\"job={{job_id}}\\nwb_agent={{wb_agent}}\\n\"";
    bench.lua(&format!(
        "wb.kind \"{name}\" {{ about = \"A test\", engine = \"{name}\", timeout = \"10m\",
           {fields}, inputs = {{ {inputs} }}, prompt = {prompt} }}\n"
    ));
}

/// A job that runs, with its token.
struct Lent<'a> {
    bench: &'a Bench,
    id: String,
    token: String,
}

impl<'a> Lent<'a> {
    fn start(bench: &'a Bench, kind: &str, inputs: Value) -> Lent<'a> {
        let id = bench.job(kind, inputs);
        let token = bench.wait_left(&format!("token.{id}"));
        Lent { bench, id, token }
    }

    fn send(&self, call: Call) -> crate::support::Answer {
        self.bench.send(&call.token(&self.token))
    }

    fn get(&self, target: &str) -> crate::support::Answer {
        self.send(Call::get(target))
    }

    fn open(&self, path: &str, quote: Option<&str>) -> crate::support::Answer {
        let mut body = json!({"source_path": path, "body": "Look at this"});
        match quote {
            Some(quote) => body["selection"] = json!({"quote": quote}),
            None => body["global"] = json!(true),
        }
        self.send(Call::post("/api/topics", body))
    }

    fn ended(&self, how: &str) -> Value {
        let script = self.bench.out.join("end.sh");
        std::fs::write(&script, format!("#!/bin/sh\n{how}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, mode).unwrap();
        std::fs::write(self.bench.out.join(format!("go.{}", self.id)), "").unwrap();
        self.bench.ended(&self.id)
    }
}

fn bench() -> Bench {
    let bench = Bench::new();
    let topic = "produces = \"topic\"";
    lends(&bench, "reviews", topic, "source_path = wb.input.source()");
    lends(&bench, "roams", &format!("{topic}, sees = \"site\""), "");
    lends(&bench, "counts", "produces = \"result\"", "source_path = wb.input.source()");
    bench
}

#[test]
fn a_job_opens_topics_where_its_kind_lets_it() {
    let bench = bench();
    let server = bench.serve();
    let reviews = Lent::start(&bench, "reviews", json!({"source_path": "guide.md"}));
    let counts = Lent::start(&bench, "counts", json!({"source_path": "guide.md"}));
    assert_eq!(counts.open("guide.md", None).refusal(), (403, "not_granted"));
    assert_eq!(reviews.open("notes.md", None).refusal(), (403, "not_granted"));
    assert_eq!(reviews.open("guide.md", Some("nowhere")).refusal(), (400, "quote_not_found"));
    assert_eq!(reviews.open("guide.md", Some("line")).refusal(), (400, "ambiguous_quote"));
    let made = reviews.open("guide.md", Some("The first line.")).ok();
    assert_eq!(made["created_by"], format!("job:{}", reviews.id));
    // It reads its Source, and neither another one nor the list.
    assert_eq!(reviews.get("/api/source?path=guide.md").status, 200);
    for other in ["/api/source?path=notes.md", "/api/sources", "/api/topics"] {
        assert_eq!(reviews.get(other).refusal(), (403, "not_granted"), "{other}");
    }
    // The same request again is the same Topic; and there is an end.
    let body = json!({"source_path": "guide.md", "body": "Again", "global": true});
    let twice = Call::post("/api/topics", body).header("Idempotency-Key", "k");
    let first = reviews.send(twice.clone()).ok();
    assert_eq!(reviews.send(twice.clone()).ok()["id"], first["id"]);
    for _ in 2..20 {
        assert_eq!(reviews.open("guide.md", None).status, 201);
    }
    assert_eq!(reviews.open("guide.md", None).refusal(), (409, "too_many_topics"));
    assert_eq!(reviews.send(twice).ok()["id"], first["id"]);
    let job = reviews.ended("exit 0");
    assert_eq!(job["status"], "succeeded", "{job:#}");
    assert_eq!(job["opened_topics"].as_array().unwrap().len(), 20);
    assert_eq!(reviews.open("guide.md", None).refusal(), (409, "job_ended"));
    assert_eq!(counts.ended("exit 1")["status"], "failed");
    server.stop();
}

#[test]
fn a_job_that_fails_leaves_no_topic_that_nobody_took_up() {
    let bench = bench();
    let server = bench.serve();
    let job = Lent::start(&bench, "roams", json!({}));
    let id = |answer: Value| answer["id"].as_str().unwrap().to_owned();
    let bare = id(job.open("guide.md", None).ok());
    let taken_up = id(job.open("docs/deep.md", Some("Far below.")).ok());
    let said = bench.post(&format!("/api/topics/{taken_up}/messages"), json!({"body": "Yes"}));
    assert_eq!(said.status, 201);
    assert_eq!(job.ended("kill -9 $$")["status"], "failed");
    let status = |id: &str| bench.get(&format!("/api/topics/{id}")).ok()["topic"]["status"].clone();
    assert_eq!((status(&bare), status(&taken_up)), (json!("discarded"), json!("open")));
    // Without a Topic and without a reason it has not done what it promised.
    let job = Lent::start(&bench, "roams", json!({})).ended("exit 0");
    assert_eq!((&job["status"], &job["reason"]), (&json!("failed"), &json!("no_result")));
    assert_eq!(job["message"], "Agent finished without opening a topic — retry.");
    server.stop();
}

#[test]
fn a_job_that_sees_the_site_reads_it_and_writes_no_more_than_others() {
    let bench = bench();
    let server = bench.serve();
    let topic = bench.topic("guide.md", "second", "Why?");
    let job = Lent::start(&bench, "roams", json!({}));
    let paths: Vec<Value> = job.get("/api/sources").ok()["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["path"].clone())
        .collect();
    assert_eq!(paths, ["docs/deep.md", "guide.md", "notes.md"]);
    assert_eq!(job.get("/api/topics").ok()["items"][0]["id"], topic.id);
    assert_eq!(job.get("/api/topics?status=discarded").ok()["items"], json!([]));
    assert_eq!(job.get("/api/source?path=notes.md").status, 200);
    assert_eq!(job.get(&format!("/api/agent/topic?id={}", topic.id)).status, 200);
    let messages = format!("/api/topics/{}/messages", topic.id);
    let said = job.send(Call::post(&messages, json!({"body": "I was here"})));
    assert_eq!(said.refusal(), (403, "not_granted"));
    let proposed = json!({"base_source_sha": "a".repeat(40), "text": "x"});
    let proposed = job.send(Call::post(&format!("/api/topics/{}/proposals", topic.id), proposed));
    assert_eq!(proposed.refusal(), (403, "not_granted"));
    for path in ["/api/agent/jobs", "/api/proposals", "/api/search?query=line", "/api/usage"] {
        assert_eq!(job.get(path).status, 403, "{path}");
    }
    assert_eq!(job.ended("exit 1")["status"], "failed");
    server.stop();
}
