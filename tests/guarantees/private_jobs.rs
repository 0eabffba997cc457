//! G45: a private job is visible only to its owner, on every route and page, in every list, count
//! and event. Fails with `WB_WITHOUT=own_jobs`.

use std::io::{Read as _, Write as _};

use serde_json::{Value, json};
use wiki_browser::http::{ROUTES, Verb, Who};

use crate::support::{Answer, Bench, Call, Server, ends_a_job};

/// What only the owner may find anywhere.
const SECRETS: [&str; 4] =
    ["PRIVATE-WORDS", "PRIVATE-SUMMARY", "PRIVATE-OUTPUT", "PRIVATE-QUESTION"];
/// Three private jobs: one that runs, one that waits for its time, one that has ended.
const RUNNING: &str = "018bcfe5-6800-7000-8000-00000000aa01";
const WAITING: &str = "018bcfe5-6800-7000-8000-00000000aa02";
const ENDED: &str = "018bcfe5-6800-7000-8000-00000000aa03";
const JOBS: [&str; 3] = [RUNNING, WAITING, ENDED];

/// A site with private jobs, and three who are not their owner.
struct House {
    // It ends before its folder goes.
    server: Server,
    bench: Bench,
    owner: String,
    member: String,
    admin: String,
    /// The token of the agent of a job of the site.
    agent: String,
    /// A question that the owner alone may answer.
    question: String,
    epoch: String,
}

impl House {
    fn new() -> House {
        let bench = Bench::new();
        let wait = "while [ ! -e \"$OUT/go\" ]; do sleep 0.05; done";
        let leak = "echo \"$WB_TOKEN\" > \"$OUT/token.$job\"; echo PRIVATE-OUTPUT >&2";
        let stray = "echo x > \"$BASE/wiki/stray.txt\"";
        bench.word_kind("talk", "timeout = \"10m\"", &format!("{stray}; {leak}; {wait}"));
        bench.word_kind("site", "timeout = \"10m\"", &format!("{leak}; {wait}"));
        let laned = "timeout = \"60s\", lane = \"word\"";
        bench.word_kind("laned", laned, "true");
        let server = bench.serve();
        let token = |name: &str, role: &str| {
            bench.post("/api/persons", json!({"name": name, "role": role})).ok();
            let made = bench.json(&[
                "token", "create", "all", "--person", name, "--scope", "read", "--scope", "write",
                "--scope", "decide",
            ]);
            made["token"].as_str().unwrap().to_owned()
        };
        let owner = token("owner", "member");
        let (member, admin) = (token("member", "member"), token("boss", "admin"));
        let asked = json!({"channel": "call", "title": "PRIVATE-QUESTION"});
        let question = bench.post("/api/approvals", asked).ok()["id"].as_str().unwrap().to_owned();
        server.stop();
        bench.sql(&format!(
            "UPDATE approvals SET private_to = (SELECT id FROM persons WHERE name = 'owner')
             WHERE id = '{question}'"
        ));
        for (id, status, rest) in [
            (RUNNING, "queued", "NULL, NULL, NULL, NULL, 1"),
            (WAITING, "queued", "NULL, NULL, NULL, 4000000000000, -1"),
            (ENDED, "succeeded", "1, 2, 'PRIVATE-SUMMARY', NULL, 0"),
        ] {
            // The lane is one that jobs of the site can name too; the pool has no work of its own.
            bench.sql(&format!(
                "INSERT INTO agent_jobs (id, kind, lane_key, status, inputs_json, grants_json,
                     requested_by, config_digest, created_ms, owner, pool, started_ms,
                     completed_ms, summary, not_before_ms, ready)
                 SELECT '{id}', 'talk', IIF('{status}' = 'queued', 'word=lane', NULL), '{status}',
                     '{{\"word\":\"PRIVATE-WORDS\"}}', '[]', 'person:' || id, '', 1, id, 'monitor',
                     {rest} FROM persons WHERE name = 'owner'"
            ));
        }
        let server = bench.serve();
        bench.wait_left(&format!("token.{RUNNING}"));
        let site = bench.job("site", json!({"word": "site"}));
        let agent = bench.wait_left(&format!("token.{site}"));
        let facts = std::fs::read(bench.data.join("server.json")).unwrap();
        let facts: Value = serde_json::from_slice(&facts).unwrap();
        let epoch = facts["epoch"].as_str().unwrap().to_owned();
        House { server, bench, owner, member, admin, agent, question, epoch }
    }

    fn send(&self, token: &str, call: &Call) -> Answer {
        self.bench.send(&call.clone().token(token))
    }

    /// Lets all agents end.
    fn end(self) {
        std::fs::write(self.bench.out.join("go"), "").unwrap();
        self.server.stop();
    }
}

fn text(answer: &Answer) -> String {
    answer.body.to_string()
}

/// Nothing in it is of a private job.
#[track_caller]
fn is_clean(what: &str, answer: &Answer, asked_for: &[&str]) {
    let text = text(answer);
    for secret in SECRETS.iter().chain(&JOBS) {
        let was_sent = asked_for.contains(secret);
        assert!(was_sent || !text.contains(secret), "{what} shows {secret}: {text}");
    }
}

/// Fills the names of a path: a job wherever one can stand.
fn filled(path: &str, job: &str, question: &str) -> String {
    let id = if path.contains("/approvals/") { question } else { job };
    let mut target = path.replace("{id}", id).replace("{job}", job);
    for (name, value) in
        [("{name}", job), ("{template}", "none"), ("{*path}", "guide.md"), ("{version}", "x")]
    {
        target = target.replace(name, value);
    }
    target
}

/// Every route and page, with the id of a private job wherever an id can stand: for another member,
/// another admin, the operator and the agent of another job it is not there.
#[test]
fn g45_a_private_job_is_on_no_route_of_anybody_else() {
    let house = House::new();
    let operator = house.bench.operator();
    let others = [("member", &house.member), ("admin", &house.admin), ("operator", &operator)];
    let agent = ("agent", &house.agent);
    for (who, token) in others.iter().chain([&agent]) {
        for route in ROUTES {
            // An admin ends it by its id, see below; these two end the one who asks.
            let is_cancel = ends_a_job(route.path) && *who != "member";
            let is_farewell = ["/api/logout", "/api/events"].contains(&route.path);
            if is_cancel || is_farewell || matches!(route.who, Who::Signed) {
                continue;
            }
            for job in JOBS {
                let target = filled(route.path, job, &house.question);
                let call = match route.verb {
                    Verb::Post if !target.starts_with("/api/") => Call::form(&target, "version=1"),
                    Verb::Post if target.contains("/approvals/") => {
                        Call::post(&target, json!({"version": 1}))
                    }
                    Verb::Post => Call::post(&target, json!({})),
                    verb => Call::new(verb.as_str(), &target),
                };
                let answer = house.send(token, &call);
                let what = format!("{:?} {target} for {who}", route.verb);
                // A refusal may name what was asked for.
                is_clean(&what, &answer, &[job]);
                if route.path.contains("/approvals/{id}") {
                    let is_gone = matches!(answer.status, 303 | 404);
                    assert!(is_gone || *who == "agent", "{what}: {answer:?}");
                }
                assert!(answer.status < 500 || answer.status == 503, "{what}: {answer:?}");
                let is_of_jobs = route.path.contains("/jobs/{id}")
                    && !(route.verb == Verb::Post
                        && route.path.contains("/api/agent/jobs/{id}/re"));
                if is_of_jobs && !matches!(route.who, Who::Job) && *who != "agent" {
                    let is_gone = answer.status == 404
                        || (route.verb == Verb::Post && [303, 400].contains(&answer.status));
                    assert!(is_gone, "{what}: {answer:?}");
                }
                if !route.path.contains('{') {
                    break;
                }
            }
        }
    }
    // All of that has changed nothing.
    let shown =
        |job: &str| house.send(&house.owner, &Call::get(&format!("/api/agent/jobs/{job}"))).ok();
    assert_eq!(shown(RUNNING)["status"], "running");
    assert_eq!(shown(WAITING)["status"], "queued");
    house.end();
}

/// Lists under every filter, counts, sums, what a waiting job is told, and what is measured.
#[test]
fn g45_no_list_count_or_message_tells_of_a_private_job() {
    let house = House::new();
    let operator = house.bench.operator();
    let behind = house.bench.job("laned", json!({"word": "lane"}));
    let told = house.bench.show(&behind)["waiting"].clone();
    assert_eq!((&told["code"], &told["job_id"]), (&json!("lane_busy"), &Value::Null), "{told}");
    let kinds = ["kind=talk", "status=running", "status=queued", "status=succeeded"];
    let more = ["status=waiting", "status=scheduled", "kind=talk&status=running"];
    for query in kinds.iter().chain(&more) {
        for (path, token) in [("/api/agent/jobs", &house.member), ("/jobs", &operator)] {
            let target = format!("{path}?{query}");
            is_clean(&target, &house.send(token, &Call::get(&target)), &[]);
        }
    }
    let own = house.send(&house.owner, &Call::get("/api/agent/jobs?kind=talk")).ok();
    assert_eq!(own["items"].as_array().unwrap().len(), 3, "{own:#}");
    // One job of the site runs, and one waits.
    let health = |token: &str| house.send(token, &Call::get("/api/health")).ok()["jobs"].clone();
    assert_eq!(health(&house.member), json!({"queued": 1, "running": 1}));
    assert_eq!(health(&operator), json!({"queued": 1, "running": 1}));
    assert_eq!(health(&house.owner), json!({"queued": 2, "running": 2}));
    // It takes no slot, not even in the eyes of its owner.
    for token in [&house.member, &house.owner] {
        let board = text(&house.send(token, &Call::get("/jobs")));
        assert!(board.contains(">1 of 4 in use<"), "{board}");
    }
    let metrics = text(&house.bench.get("/metrics"));
    assert!(metrics.contains("wb_jobs_running{kind=\\\"site\\\"} 1"), "{metrics}");
    assert!(metrics.contains("wb_jobs_running{kind=\\\"talk\\\"} 0"), "{metrics}");
    assert!(!metrics.contains("wb_jobs_started_total{kind=\\\"talk\\\"}"), "{metrics}");
    // A page before a private job is as little there as the job.
    let after = house.send(&house.member, &Call::get(&format!("/api/agent/jobs?after={RUNNING}")));
    assert_eq!(after.status, 404, "{after:?}");
    house.end();
}

/// Reads the stream of events from its beginning until something is said.
fn heard(house: &House, token: &str, until: &str) -> String {
    let mut stream = std::os::unix::net::UnixStream::connect(house.bench.socket()).unwrap();
    let head = format!(
        "GET /api/events?after={}-0 HTTP/1.1\r\nHost: localhost\r\n\
         Authorization: Bearer {token}\r\n\r\n",
        house.epoch
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let (mut told, mut piece) = (String::new(), [0; 4096]);
    while !told.contains(until) {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "{told}");
        told.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    told
}

#[test]
fn g45_events_and_sums_of_a_private_job_are_its_owners() {
    let house = House::new();
    let operator = house.bench.operator();
    std::fs::write(house.bench.out.join("go"), "").unwrap();
    let shown = |token: &str| {
        let answer = house.send(token, &Call::get(&format!("/api/agent/jobs/{RUNNING}")));
        answer.body["status"].as_str().unwrap_or_default().to_owned()
    };
    crate::support::until("it ends", || shown(&house.owner) == "succeeded");
    // What it left in the repository is no concern of its job: nobody looks.
    let own = house.send(&house.owner, &Call::get(&format!("/api/agent/jobs/{RUNNING}"))).ok();
    assert_eq!((&own["warnings"], &own["changes"]), (&json!([]), &Value::Null));
    let last = house.bench.job("site", json!({"word": "last"}));
    let mark = format!("\"id\":\"{last}\"");
    for token in [&house.member, &house.admin, &operator] {
        let told = heard(&house, token, &mark);
        assert!(!told.contains(RUNNING), "{told}");
    }
    let own = heard(&house, &house.owner, &mark);
    for event in ["job_started", "job_finished"] {
        let is_it =
            |part: &str| part.contains(&format!("event: {event}\n")) && part.contains(RUNNING);
        assert!(own.split("\n\n").any(is_it), "{event}: {own}");
    }
    house.bench.ended(&last);
    let jobs = |token: &str, by: &str, name: Option<&str>| {
        let usage = house.send(token, &Call::get(&format!("/api/usage?by={by}"))).ok();
        let items = usage["items"].as_array().unwrap();
        let item = items.iter().find(|it| it["name"].as_str() == name);
        item.map_or(0, |it| it["jobs"].as_i64().unwrap())
    };
    let total = |token: &str, by: &str| {
        house.send(token, &Call::get(&format!("/api/usage?by={by}"))).ok()["total"]["jobs"].clone()
    };
    assert_eq!(jobs(&house.owner, "kind", Some("talk")), 1);
    assert_eq!(jobs(&house.member, "kind", Some("talk")), 0);
    // An admin who is there sees one sum for each kind, and nobody else's anywhere else.
    assert_eq!(jobs(&operator, "kind", Some("talk")), 1);
    for by in ["day", "person", "engine"] {
        assert_eq!(total(&operator, by), 2, "{by}");
        assert_eq!(total(&house.owner, by), 3, "{by}");
    }
    let usage = house.send(&operator, &Call::get("/api/usage?by=person"));
    assert!(!text(&usage).contains("owner"), "{usage:?}");
    house.end();
}

/// What its owner may do with it, and what nobody may.
#[test]
fn g45_a_private_job_is_not_asked_for_repeated_or_put_back() {
    let house = House::new();
    let get = |target: &str| house.send(&house.owner, &Call::get(target));
    for part in ["", "/log", "/log?rows=true", "/stream", "/prompt"] {
        let target = format!("/api/agent/jobs/{RUNNING}{part}");
        assert_eq!(get(&target).status, 200, "{target}");
    }
    assert!(text(&get(&format!("/api/agent/jobs/{RUNNING}/prompt"))).contains("PRIVATE-WORDS"));
    assert!(text(&get(&format!("/jobs/{ENDED}"))).contains("PRIVATE-SUMMARY"));
    for (verb, body) in [("retry", json!({})), ("restore", json!({})), ("keep", json!({}))] {
        let target = format!("/api/agent/jobs/{ENDED}/{verb}");
        let answer = house.send(&house.owner, &Call::post(&target, body));
        assert_eq!(answer.refusal(), (404, "no_kind"), "{verb}");
    }
    for token in [&house.owner, &house.admin] {
        let asked = Call::post("/api/agent/jobs", json!({"kind": "assistant_x", "word": "a"}));
        assert_eq!(house.send(token, &asked).refusal(), (404, "no_kind"));
        let listed = house.send(token, &Call::get("/api/agent/jobs?kind=assistant_x"));
        assert_eq!(listed.refusal(), (404, "no_kind"));
    }
    // The agent of a private job has no way to the site.
    let token = house.bench.left(&format!("token.{RUNNING}"));
    for target in ["/api/me", "/api/sources", &format!("/api/agent/jobs/{RUNNING}")] {
        let answer = house.send(&token, &Call::get(target));
        assert_eq!(answer.refusal(), (403, "private_job"), "{target}");
    }
    house.end();
}

#[test]
fn g45_an_admin_ends_a_private_job_and_learns_nothing_of_it() {
    let house = House::new();
    let target = |job: &str| format!("/api/agent/jobs/{job}/cancel");
    for token in [&house.member, &house.agent] {
        let answer = house.send(token, &Call::post(&target(WAITING), json!({})));
        assert!(matches!(answer.status, 403 | 404), "{answer:?}");
    }
    // Nor does one who ends all that waits.
    house.bench.post("/api/jobs/cancel", json!({"status": "queued"})).ok();
    for job in [WAITING, RUNNING] {
        let shown = house.send(&house.owner, &Call::get(&format!("/api/agent/jobs/{job}"))).ok();
        assert_eq!(shown["cancelled_by"], Value::Null, "{shown:#}");
        let answer = house.bench.post(&target(job), json!({}));
        assert_eq!(answer.status, 200, "{answer:?}");
        is_clean("the answer", &answer, &[job]);
        assert_eq!((&answer.body["inputs"], &answer.body["lane"]), (&json!({}), &Value::Null));
        let status = || {
            let shown = house.send(&house.owner, &Call::get(&format!("/api/agent/jobs/{job}")));
            shown.ok()["status"].clone()
        };
        crate::support::until("it is cancelled", || status() == "cancelled");
    }
    house.end();
}

/// Whoever is disabled, or may only read from now on, leaves nothing behind that goes on without
/// them. Fails with `WB_WITHOUT=leaving`.
#[test]
fn g45_who_may_not_write_any_more_has_no_private_jobs_and_questions() {
    for (verb, body) in [("disable", json!({})), ("role", json!({"role": "viewer"}))] {
        let house = House::new();
        let row = |sql: &str| -> String {
            let database = rusqlite::Connection::open(house.bench.data.join("wiki.db")).unwrap();
            database.query_row(sql, [], |row| row.get(0)).unwrap()
        };
        // Another role that may write changes nothing.
        house.bench.post("/api/persons/owner/role", json!({"role": "admin"})).ok();
        let of = |id: &str| row(&format!("SELECT status FROM agent_jobs WHERE id = '{id}'"));
        assert_eq!((of(RUNNING), of(WAITING)), ("running".to_owned(), "queued".to_owned()));
        house.bench.post(&format!("/api/persons/owner/{verb}"), body).ok();
        assert_eq!(of(WAITING), "cancelled", "{verb}");
        crate::support::until("it is cancelled", || of(RUNNING) == "cancelled");
        assert_eq!(of(ENDED), "succeeded");
        assert_eq!(row("SELECT state FROM approvals"), "withdrawn", "{verb}");
        let scopes = row("SELECT group_concat(DISTINCT substr(scope, 1, 7)) FROM events
             WHERE kind = 'approval_decided' OR subject IN (SELECT 'job:' || id FROM agent_jobs
                 WHERE owner IS NOT NULL)");
        assert_eq!(scopes, "person:", "{verb}");
        house.end();
    }
}
