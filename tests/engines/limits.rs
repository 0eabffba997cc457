//! Rate limits, daily caps, usage totals, and delayed jobs, on the real server.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Bench, Call, until, wait_for};

/// Declares a kind whose engine prints what Codex prints of a turn that failed.
pub(crate) fn limited_kind(bench: &Bench, name: &str, message: &str) {
    let line = json!({"type": "turn.failed", "error": {"message": message}});
    std::fs::write(bench.out.join(format!("{name}.jsonl")), format!("{line}\n")).unwrap();
    let agent = format!(
        "echo x >> \"$OUT/{name}.starts\"; [ -e \"$OUT/{name}.well\" ] && exit 0\n\
         cat \"$OUT/{name}.jsonl\"; exit 1"
    );
    read_kind(bench, name, "codex-jsonl", "", &agent);
}

/// Declares a kind whose engine is a shell script that is read in a form.
pub(crate) fn read_kind(bench: &Bench, name: &str, reads: &str, fields: &str, agent: &str) {
    bench.word_kind(name, &format!("timeout = \"20s\"{fields}"), agent);
    super::reads(bench, name, reads);
}

fn starts(bench: &Bench, name: &str) -> usize {
    bench.left(&format!("{name}.starts")).lines().count()
}

#[test]
fn what_codex_prints_is_read() {
    let bench = Bench::new();
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/codex-exec.jsonl");
    read_kind(&bench, "codex", "codex-jsonl", "", &format!("cat '{recorded}'"));
    let text = "echo first; for i in 2 3 4 5 6; do echo \"line $i\"; done; printf 'the end'";
    read_kind(&bench, "plain", "plain", "", text);
    let server = bench.serve();
    let job = bench.ended(&bench.job("codex", json!({})));
    assert_eq!(job["status"], "succeeded", "{job:#}");
    assert_eq!(job["usage"]["input_tokens"], 19312);
    assert_eq!((&job["cost_usd"], &job["summary"]), (&Value::Null, &json!("final from fake")));
    assert_eq!(job["session_ref"], "01a1ffb7-7be2-7b23-8e5a-df0f1a1c0fe9");
    let stream = bench.get(&format!("/api/agent/jobs/{}/stream", job["id"].as_str().unwrap())).ok();
    let types: Vec<&str> =
        stream["items"].as_array().unwrap().iter().map(|it| it["type"].as_str().unwrap()).collect();
    let expected = ["start", "text", "text", "tool_call", "tool_result", "text", "usage", "done"];
    assert_eq!(types, expected);
    let job = bench.ended(&bench.job("plain", json!({})));
    assert_eq!(job["summary"], "line 3\nline 4\nline 5\nline 6\nthe end", "{job:#}");
    assert_eq!((&job["usage"], &job["cost_usd"]), (&Value::Null, &Value::Null));
    server.stop();
}

#[test]
fn an_engine_whose_provider_takes_no_more_is_held_until_a_person_lifts_it() {
    let bench = Bench::new();
    bench.limits("jobs = 1, grace = \"1s\"");
    limited_kind(&bench, "codex", "You've hit your usage limit. Try again in 2h.");
    bench.word_kind("other", "timeout = \"20s\"", "exit 0");
    let server = bench.serve();
    let jobs: Vec<String> = (0..4).map(|_| bench.job("codex", json!({}))).collect();
    let failed = bench.ended(&jobs[0]);
    assert_eq!((&failed["status"], &failed["reason"]), (&json!("failed"), &json!("rate_limited")));
    let message = failed["message"].as_str().unwrap();
    assert!(message.starts_with("The provider's rate limit is reached until "), "{message}");
    let retry_at = failed["retry_at"].as_str().unwrap().to_owned();
    // Another engine is not touched; those of this one wait, and say why.
    assert_eq!(bench.ended(&bench.job("other", json!({})))["status"], "succeeded");
    let waiting = bench.show(&jobs[1]);
    assert_eq!(waiting["status"], "queued");
    assert_eq!(waiting["waiting"]["code"], "engine_held", "{waiting:#}");
    assert_eq!(waiting["waiting"]["until"], retry_at.as_str());
    assert_eq!(waiting["waiting"]["job_id"], jobs[0].as_str());
    assert_eq!(starts(&bench, "codex"), 1);
    let (code, out, err) = bench.cli(&["job", "show", &jobs[1]]);
    assert!(code == 0 && out.contains("engine \"codex\" is on hold until"), "{out}{err}");
    let page = bench.get(&format!("/jobs/{}", jobs[1]));
    assert!(page.body.as_str().unwrap().contains("is on hold until"), "{page:?}");
    let (_, out, _) = bench.cli(&["engine", "list"]);
    assert!(out.contains(&retry_at), "{out}");
    // It holds across a restart.
    server.stop();
    let server = bench.serve();
    assert_eq!(bench.ended(&bench.job("other", json!({})))["status"], "succeeded");
    assert_eq!(starts(&bench, "codex"), 1);
    // A repetition when it is allowed waits for the same time.
    let again = bench.json(&["job", "retry", &jobs[0], "--when-allowed"]);
    let again = bench.show(again["job_id"].as_str().unwrap());
    assert_eq!((&again["not_before"], &again["retry_of"]), (&json!(retry_at), &json!(jobs[0])));
    assert_eq!(again["waiting"]["code"], "not_before");
    // A person knows better.
    std::fs::write(bench.out.join("codex.well"), "").unwrap();
    let (code, out, err) = bench.cli(&["engine", "release", "codex"]);
    assert_eq!((code, out.as_str()), (0, "engine codex is released\n"), "{err}");
    // What is repeated from now on waits no longer for the time that the provider told.
    let again = bench.json(&["job", "retry", &jobs[0], "--when-allowed"]);
    let again = bench.ended(again["id"].as_str().unwrap());
    assert_eq!((&again["not_before"], &again["status"]), (&Value::Null, &json!("succeeded")));
    for id in &jobs[1..] {
        assert_eq!(bench.ended(id)["status"], "succeeded");
    }
    let refused = bench.post("/api/engines/codex/release", json!({}));
    assert_eq!(refused.status, 409);
    assert_eq!(bench.post("/api/engines/nothing/release", json!({})).status, 404);
    server.stop();
}

#[test]
fn a_limit_after_the_work_was_handed_in_takes_nothing_back_and_holds_the_engine() {
    let bench = Bench::new();
    let line = json!({"type": "turn.failed", "error": {"message": "429 Too Many Requests"}});
    let finish = "echo '{\"ok\":true}' | \"$wb_agent\" finish --result -";
    let agent = format!("[ \"$word\" = no ] || {finish}\necho '{line}'; exit 1");
    let fields = ", produces = \"result\"";
    read_kind(&bench, "done", "codex-jsonl", fields, &agent);
    read_kind(&bench, "none", "codex-jsonl", fields, &agent);
    let verify = ", produces = \"result\", verify = function() return \"it is wrong\" end";
    read_kind(&bench, "wrong", "codex-jsonl", verify, &agent);
    let server = bench.serve();
    let done = bench.ended(&bench.job("done", json!({})));
    assert_eq!((&done["status"], &done["reason"]), (&json!("succeeded"), &Value::Null), "{done:#}");
    assert_eq!((&done["result"], &done["retry_at"]), (&json!({"ok": true}), &Value::Null));
    let warnings = done["warnings"].to_string();
    for part in ["rate_limited: ", "exited with status 1: 429 Too Many Requests"] {
        assert!(warnings.contains(part), "{warnings}");
    }
    // The provider takes no more all the same.
    let waiting = bench.show(&bench.job("done", json!({})));
    assert_eq!(waiting["waiting"]["code"], "engine_held", "{waiting:#}");
    // Without the result, and with one that the script refuses, it has failed as before.
    let none = bench.ended(&bench.job("none", json!({"word": "no"})));
    assert_eq!((&none["status"], &none["reason"]), (&json!("failed"), &json!("rate_limited")));
    let wrong = bench.ended(&bench.job("wrong", json!({})));
    assert_eq!((&wrong["status"], &wrong["reason"]), (&json!("failed"), &json!("verify_failed")));
    server.stop();
}

#[test]
fn a_cap_refuses_says_so_and_sums_are_shown() {
    let bench = Bench::new();
    bench.limits("jobs = 2, grace = \"1s\", daily_person = { tokens = 20000 }");
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/claude-stream.jsonl");
    read_kind(
        &bench,
        "asks",
        "claude-stream-json",
        ", daily = { cost_usd = 100 }",
        &format!("cat '{recorded}'"),
    );
    let server = bench.serve();
    bench.ended(&bench.job("asks", json!({})));
    let refused = bench.post("/api/agent/jobs", json!({"kind": "asks"}));
    assert_eq!(refused.status, 429);
    let error = refused.body["error"].clone();
    assert_eq!(error["code"], "daily_cap", "{error:#}");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.starts_with("the daily cap of the requester is used up (107543 tokens"),
        "{message}"
    );
    let tomorrow = error["hint"].as_str().unwrap().split([' ', ',']).nth(2).unwrap();
    let later = json!({"kind": "asks", "not_before": tomorrow});
    let later = bench.post("/api/agent/jobs", later).ok()["job_id"].as_str().unwrap().to_owned();
    assert_eq!(bench.show(&later)["waiting"]["code"], "not_before");
    let ids = |status: &str| -> Vec<String> {
        let list = bench.json(&["job", "list", "--status", status]);
        let items = list["items"].as_array().unwrap().iter();
        items.map(|it| it["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((ids("scheduled"), ids("waiting")), (vec![later.clone()], vec![]));
    assert_eq!(ids("queued"), [later]);

    let usage = bench.json(&["usage", "--by", "person"]);
    let ada = &usage["items"][0];
    assert_eq!((&ada["display_name"], &ada["jobs"]), (&json!("ada"), &json!(1)), "{usage:#}");
    assert_eq!(usage["total"]["output_tokens"], 372);
    let caps = usage["caps"].as_array().unwrap();
    let of = |cap: &str| caps.iter().find(|it| it["cap"] == cap).unwrap().clone();
    assert_eq!(of("limits.daily_person")["is_spent"], true);
    assert_eq!(of("kind.daily")["is_spent"], false);
    assert!(of("kind.daily")["used"].as_f64().unwrap() > 0.2);
    for by in ["day", "kind", "engine"] {
        let (code, out, err) = bench.cli(&["usage", "--by", by]);
        assert!(code == 0 && out.contains("372"), "{out}{err}");
    }
    let by_engine = bench.json(&["usage", "--by", "engine"]);
    assert_eq!(by_engine["items"][0]["name"], "asks");
    assert_eq!(bench.get("/api/usage?by=moon").status, 400);
    assert_eq!(bench.get("/api/usage?since=tomorrow").status, 400);
    assert_eq!(bench.get("/api/usage?since=2999-01-01").ok()["total"]["jobs"], 0);
    server.stop();
}

#[test]
fn a_handler_is_no_person_to_a_cap() {
    let bench = Bench::new();
    bench.limits("jobs = 2, grace = \"1s\", daily_person = { tokens = 20000 }");
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/claude-stream.jsonl");
    let agent = format!("cat '{recorded}'");
    read_kind(&bench, "asks", "claude-stream-json", "", &agent);
    bench.lua("wb.on(\"topic_created\", function() wb.enqueue { kind = \"asks\" } end)\n");
    let server = bench.serve();
    for nth in 1..=2 {
        bench.topic("guide.md", "second", "Look.");
        until("the handler's job has ended", || {
            let jobs = bench.json(&["job", "list", "--status", "succeeded"]);
            jobs["items"].as_array().unwrap().len() == nth
        });
    }
    let usage = bench.json(&["usage", "--by", "person"]);
    assert_eq!(usage["items"][0]["name"], "script", "{usage:#}");
    assert_eq!(usage["caps"], json!([]), "{usage:#}");
    server.stop();
}

#[test]
fn a_job_starts_when_its_time_comes_also_after_a_restart() {
    let bench = Bench::new();
    bench.word_kind("echoes", "timeout = \"20s\"", "date +%s%3N > \"$OUT/at\"");
    let server = bench.serve();
    let made = bench.json(&["job", "create", "echoes", "--not-before", "+4s"]);
    let id = made["job_id"].as_str().unwrap().to_owned();
    let job = bench.show(&id);
    assert_eq!(job["waiting"]["code"], "not_before", "{job:#}");
    let due: jiff::Timestamp = job["not_before"].as_str().unwrap().parse().unwrap();
    server.stop();
    let server = bench.serve();
    let at: i64 = bench.wait_left("at").parse().unwrap();
    let late = at - due.as_millisecond();
    // A queue that only looked every 30 seconds would be later.
    assert!((0..20_000).contains(&late), "{late} ms");
    assert_eq!(bench.ended(&id)["status"], "succeeded");
    server.stop();
}

#[test]
fn a_kind_has_a_priority_and_a_job_may_have_another() {
    let bench = Bench::new();
    bench.limits("jobs = 1, grace = \"1s\"");
    let agent = "echo \"$word\" >> \"$OUT/order\"; while [ ! -e \"$OUT/go\" ]; do sleep 0.02; done";
    bench.word_kind("usual", "timeout = \"20s\"", agent);
    bench.word_kind("urgent", "timeout = \"20s\", priority = 10", agent);
    let server = bench.serve();
    let first = bench.job("usual", json!({"word": "first"}));
    bench.wait_status(&first, "running");
    let jobs = [
        bench.job("usual", json!({"word": "third"})),
        bench.job("urgent", json!({"word": "second"})),
        bench.job("urgent", json!({"word": "last", "priority": -5})),
    ];
    assert_eq!(bench.show(&jobs[1])["priority"], 10);
    let wrong = bench.post("/api/agent/jobs", json!({"kind": "usual", "priority": 101}));
    assert_eq!(wrong.status, 400);
    std::fs::write(bench.out.join("go"), "").unwrap();
    for id in &jobs {
        bench.ended(id);
    }
    assert_eq!(bench.left("order"), "first\nsecond\nthird\nlast");
    server.stop();
}

#[test]
fn a_queue_with_a_held_engine_does_not_spin() {
    let bench = Bench::new();
    limited_kind(&bench, "codex", "You've hit your usage limit. Try again later.");
    let server = bench.serve();
    bench.ended(&bench.job("codex", json!({})));
    let id = bench.job("codex", json!({}));
    wait_for("it is held", || (bench.show(&id)["waiting"]["code"] == "engine_held").then_some(()));
    let ticks = || -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let (before, began) = (ticks(), Instant::now());
    // Requests keep the time; each is cheap beside a loop that would use a whole processor.
    while began.elapsed() < Duration::from_millis(1_000) {
        bench.send(&Call::get("/healthz"));
        std::thread::park_timeout(Duration::from_millis(100));
    }
    let used = ticks() - before;
    assert!(used < 50, "{used} ticks of 100 in a second");
    assert_eq!(starts(&bench, "codex"), 1);
    server.stop();
}
