//! G4: a write of an ended job is refused and changes nothing.

use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use wiki_browser::http::{ROUTES, Verb, Who};

use crate::support::{Answer, Bench, Call, Topic};

const FIELDS: &str = "timeout = \"20s\", lane = \"source_path\"";

/// Returns a well-formed body for each route on which a job may write.
fn body(path: &str, base: &str) -> Value {
    match path {
        "/api/topics" => json!({"source_path": "guide.md", "body": "late", "global": true}),
        "/api/topics/{id}/messages" => json!({"body": "late"}),
        "/api/topics/{id}/proposals" => json!({"base_source_sha": base, "text": "late\n"}),
        "/api/agent/jobs/{id}/result" => json!({"result": {"late": true}}),
        "/api/agent/jobs/{id}/verdict" => json!({"verdict": "ok", "reply": "late"}),
        "/api/agent/tools/execute" => json!({"id": "late", "name": "list_directory"}),
        "/api/agent/inbox" => json!({}),
        "/api/agent/permissions" => json!({"tool_name": "Bash", "input": {"command": "late"}}),
        "/api/agent/permissions/{id}/answer" => json!({}),
        "/api/approvals" => json!({"channel": "late", "title": "Late?"}),
        "/api/approvals/{id}/withdraw" => json!({"version": 1}),
        "/api/channels/{slug}/messages" => json!({"body": "late"}),
        "/api/channels" => json!({"name": "Late"}),
        "/api/channels/{slug}/change" => json!({"intent": "late"}),
        "/api/channels/{slug}/members" => json!({"person": "ada"}),
        "/api/channels/{slug}/complete"
        | "/api/channels/{slug}/leave"
        | "/api/channels/{slug}/members/{handle}/remove"
        | "/api/channels/{slug}/members/{handle}/mute"
        | "/api/channels/{slug}/members/{handle}/unmute" => json!({}),
        "/api/handoffs" => json!({"summary": "late", "text": "late"}),
        "/api/messages" => json!({"to": "person:ada", "payload": "late"}),
        "/api/proposals" => json!({
            "source_path": "guide.md", "base_source_sha": base, "text": "late\n",
        }),
        "/api/perspectives" => json!({
            "source_path": "guide.md", "persona": "critic", "source_sha": base,
            "persona_sha": base, "text": "late\n",
        }),
        other => panic!("{other} takes the token of a job and is not tested"),
    }
}

/// Returns a well-formed write of a job.
fn write(path: &str, target: &str, base: &str) -> Call {
    match path {
        "/api/channels/{slug}/attachments" => {
            Call::file(&format!("{target}?name=late.md"), b"late")
        }
        _ => Call::post(target, body(path, base)),
    }
}

/// Sends every write that a job can make with its token; returns what was answered.
fn write_all(bench: &Bench, topic: &Topic, job: &str, token: &str) -> Vec<(String, u16, String)> {
    let base = bench.git(&["rev-parse", &format!("HEAD:{}", topic.path)]);
    let writes = ROUTES
        .iter()
        .filter(|it| it.verb == Verb::Post && matches!(it.who, Who::Job | Who::WriteOrJob));
    let sent = writes.map(|route| {
        let id = if route.path.contains("/agent/jobs/") { job } else { &topic.id };
        let target =
            route.path.replace("{id}", id).replace("{slug}", "own").replace("{handle}", "ada");
        let answer = bench.send(&write(route.path, &target, &base).token(token));
        (route.path.to_owned(), answer.status, answer.code().to_owned())
    });
    sent.collect()
}

/// Returns what a late write could change.
fn state(bench: &Bench, topic: &Topic) -> Value {
    bench.get(&format!("/api/topics/{}", topic.id)).ok()
}

/// The edge refuses the token by the row; `WB_WITHOUT=fence` leaves that, see the test below.
#[test]
fn g04_every_write_with_a_stale_token_is_refused_and_changes_nothing() {
    let bench = Bench::new();
    let leak = "echo \"$WB_TOKEN\" > \"$OUT/token.$job\"; exit ";
    for (name, code) in [("well", "0"), ("badly", "3")] {
        let fields = format!("{FIELDS}, produces = \"proposal\"");
        bench.topic_kind(name, &fields, &format!("{leak}{code}"));
    }
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    for kind in ["well", "badly"] {
        let job = bench.job_on(kind, &topic);
        bench.ended(&job);
        let token = bench.left(&format!("token.{job}"));
        let before = state(&bench, &topic);
        let sent = write_all(&bench, &topic, &job, &token);
        assert_eq!(sent.len(), 25, "{sent:?}");
        for (path, status, code) in sent {
            assert_eq!((status, code.as_str()), (409, "job_ended"), "{path}");
        }
        for target in ["/api/me", "/api/agent/topic?id=x", "/api/sources"] {
            let answer = bench.send(&Call::get(target).token(&token));
            assert_eq!(answer.refusal(), (409, "job_ended"), "{target}");
        }
        assert_eq!(before, state(&bench, &topic));
    }
    server.stop();
}

/// From the decision to cancel on, the agent still lives and its token does not count any more.
#[test]
fn g04_a_job_that_is_being_cancelled_writes_nothing_more() {
    let bench = Bench::new();
    bench.limits("jobs = 1, grace = \"5m\"");
    let agent = "trap '' INT TERM; echo \"$WB_TOKEN\" > \"$OUT/token\"\n\
        until [ -e \"$OUT/go\" ]; do sleep 0.1; done";
    bench.topic_kind("deaf", &format!("{FIELDS}, produces = \"proposal\""), agent);
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    let job = bench.job_on("deaf", &topic);
    let token = bench.wait_left("token");
    bench.post(&format!("/api/agent/jobs/{job}/cancel"), json!({})).ok();
    let before = state(&bench, &topic);
    for (path, status, code) in write_all(&bench, &topic, &job, &token) {
        assert_eq!((status, code.as_str()), (409, "job_ended"), "{path}");
    }
    let after = state(&bench, &topic);
    assert_eq!(after["jobs"][0]["status"], "running", "the agent was to live through this");
    assert_eq!(
        (&before["messages"], &before["proposals"]),
        (&after["messages"], &after["proposals"])
    );
    std::fs::write(bench.out.join("go"), "").unwrap();
    assert_eq!(bench.ended(&job)["status"], "cancelled");
    server.stop();
}

/// Returns all rows of all tables, as text.
fn rows(bench: &Bench) -> String {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let file = bench.data.join("wiki.db");
    let connection = Connection::open_with_flags(file, flags).unwrap();
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    let mut tables = connection.prepare(sql).unwrap();
    let names: Vec<String> =
        tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut all = String::new();
    for name in names {
        let mut statement = connection.prepare(&format!("SELECT * FROM {name}")).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let values: Vec<SqlValue> = (0..columns).map(|it| row.get(it).unwrap()).collect();
            all.push_str(&format!("{name} {values:?}\n"));
        }
    }
    all
}

/// Sends a token to every route that takes one of a job, reading and writing; returns the answers.
fn try_all(bench: &Bench, topic: &Topic, job: &str, token: Option<&str>) -> Vec<(String, Answer)> {
    let base = bench.git(&["rev-parse", &format!("HEAD:{}", topic.path)]);
    let routes = ROUTES.iter().filter(|it| {
        let is_page = !it.path.starts_with("/api/");
        matches!(it.who, Who::Job | Who::WriteOrJob | Who::Read) && !is_page
    });
    let sent = routes.filter(|it| it.path != "/api/events").map(|route| {
        let id = if route.path.contains("/agent/jobs/") { job } else { &topic.id };
        let target = route.path.replace("{id}", id).replace("{slug}", "own");
        let call = match (route.verb, route.who) {
            (Verb::Post, Who::Read) => Call::post(&target, json!({})),
            (Verb::Post, _) => write(route.path, &target, &base),
            (verb, _) => Call::new(verb.as_str(), &target),
        };
        let call = token.map_or_else(|| call.clone(), |it| call.clone().token(it));
        (format!("{:?} {}", route.verb, route.path), bench.send(&call))
    });
    sent.collect()
}

/// Every state that a job can be in, every token that does not count there, every verb.
#[test]
fn g04_in_every_state_only_the_running_jobs_own_token_counts() {
    let bench = Bench::new();
    bench.limits("jobs = 8, grace = \"5m\"");
    let leak = "echo \"$WB_TOKEN\" > \"$OUT/token.$job\"; ";
    let fields = "timeout = \"60s\", produces = \"proposal\"";
    let wait = "trap '' INT TERM; while [ ! -e \"$OUT/go\" ]; do sleep 0.05; done; exit 0";
    bench.topic_kind("ends", "timeout = \"60s\"", &format!("{leak} exit 0"));
    bench.topic_kind("fails", fields, &format!("{leak} exit 3"));
    bench.topic_kind("slow", "timeout = \"5s\"", &format!("{leak} exec sleep 30"));
    bench.topic_kind("waits", "timeout = \"10m\"", &format!("{leak} {wait}"));
    bench.word_kind("other", "timeout = \"10m\"", &format!("{leak} {wait}"));
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    let mut stale = Vec::new();
    for (kind, status) in [("ends", "succeeded"), ("fails", "failed"), ("slow", "timed_out")] {
        let job = bench.job_on(kind, &topic);
        assert_eq!(bench.ended(&job)["status"], status);
        stale.push((job.clone(), bench.left(&format!("token.{job}"))));
    }
    // One that is told to stop and does not, one that runs, and one of something else.
    let ending = bench.job_on("waits", &topic);
    let ending_token = bench.wait_left(&format!("token.{ending}"));
    bench.post(&format!("/api/agent/jobs/{ending}/cancel"), json!({})).ok();
    stale.push((ending.clone(), ending_token));
    let running = bench.job_on("waits", &topic);
    let token = bench.wait_left(&format!("token.{running}"));
    let other = bench.job("other", json!({}));
    let foreign = bench.wait_left(&format!("token.{other}"));
    let queued = bench.job("other", json!({"not_before": "2100-01-01T00:00:00Z"}));

    let before = rows(&bench);
    for (job, token) in &stale {
        for (route, answer) in try_all(&bench, &topic, job, Some(token)) {
            assert_eq!(answer.refusal(), (409, "job_ended"), "{route}");
        }
    }
    for token in [None, Some("wbj_0000"), Some("wbj_"), Some("nothing")] {
        for job in [&running, &queued, &ending, &stale[0].0] {
            for (route, answer) in try_all(&bench, &topic, job, token) {
                // One without any credential may also be taken for a browser's from elsewhere.
                assert!(matches!(answer.status, 401 | 403), "{route} {token:?} {answer:?}");
            }
        }
    }
    // A job that works on something else may look, and writes nothing here.
    for job in [&running, &queued, &stale[0].0] {
        for (route, answer) in try_all(&bench, &topic, job, Some(&foreign)) {
            let is_write = route.starts_with("Post") && !route.ends_with("/logout");
            assert!(
                !is_write || matches!(answer.status, 400 | 403 | 404 | 409 | 503),
                "{route} {answer:?}"
            );
        }
    }
    assert_eq!(before, rows(&bench));
    // The one that counts does.
    let answers = try_all(&bench, &topic, &running, Some(&token));
    let said = answers.iter().find(|(route, _)| route.ends_with("/messages")).unwrap();
    assert_eq!(said.1.status, 201, "{said:?}");
    assert_ne!(before, rows(&bench));
    std::fs::write(bench.out.join("go"), "").unwrap();
    for job in [&running, &other, &ending] {
        bench.ended(job);
    }
    server.stop();
}

/// The agent lives on for its grace, its token does not. Fails with `WB_WITHOUT=recovery_fence`.
#[test]
fn g04_a_token_ends_with_its_server() {
    let bench = Bench::new();
    bench.limits("grace = \"5m\"");
    let agent = "trap '' INT TERM; echo \"$WB_TOKEN\" > \"$OUT/token\"\n\
        until [ -e \"$OUT/go\" ]; do sleep 0.1; done";
    bench.topic_kind("deaf", FIELDS, agent);
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    let job = bench.job_on("deaf", &topic);
    let token = bench.wait_left("token");
    server.kill();
    let server = bench.serve();
    let before = state(&bench, &topic);
    assert_eq!(bench.show(&job)["status"], "running", "its guard has not ended it yet");
    for (path, status, code) in write_all(&bench, &topic, &job, &token) {
        assert_eq!((status, code.as_str()), (409, "job_ended"), "{path}");
    }
    assert_eq!(before, state(&bench, &topic));
    std::fs::write(bench.out.join("go"), "").unwrap();
    assert_eq!(bench.ended(&job)["reason"], "server_restarted");
    server.stop();
}

/// Reads the stream of events with a token, from an id until something is said.
fn heard(bench: &Bench, token: &str, after: &str, until: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = std::os::unix::net::UnixStream::connect(bench.socket()).unwrap();
    let head = format!(
        "GET /api/events?after={after} HTTP/1.1\r\nHost: localhost\r\n\
         Authorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let (mut told, mut piece) = (String::new(), [0; 4096]);
    while !told.split_once(until).is_some_and(|(_, rest)| rest.contains("\n\n")) {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "{told}");
        told.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    told
}

/// What the agent of a job hears of is what its job is about. Fails with `WB_WITHOUT=job_events`.
#[test]
fn g32_a_job_hears_of_its_own_topic_only() {
    let bench = Bench::new();
    bench.topic_kind("waits", FIELDS, "echo \"$WB_TOKEN\" > \"$OUT/token\"; sleep 20");
    let server = bench.serve();
    let facts = std::fs::read(bench.data.join("server.json")).unwrap();
    let facts: Value = serde_json::from_slice(&facts).unwrap();
    let epoch = facts["epoch"].as_str().unwrap();
    let own = bench.topic("guide.md", "The first line.", "Say it better.");
    let other = bench.topic("notes.md", "Keep this.", "Something private.");
    bench.job_on("waits", &own);
    let token = bench.wait_left("token");
    bench.post(&format!("/api/topics/{}/messages", other.id), json!({"body": "not for it"})).ok();
    bench.post(&format!("/api/topics/{}/messages", own.id), json!({"body": "for it"})).ok();
    let seen = heard(&bench, &token, &format!("{epoch}-0"), "event: message_posted");
    assert!(seen.contains(&own.id) && !seen.contains(&other.id), "{seen}");
    server.stop();
}
