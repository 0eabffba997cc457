//! A clock that jumps, back or ahead, does no harm.

use serde_json::{Value, json};

use crate::support::{Bench, Call, until};

const HOUR_MS: i64 = 3_600_000;
const YEAR_MS: i64 = 365 * 24 * HOUR_MS;

fn times(row: &Value) -> [String; 3] {
    ["created_at", "started_at", "completed_at"].map(|it| row[it].as_str().unwrap().to_owned())
}

#[test]
fn a_job_outlives_any_jump_of_the_clock() {
    let bench = Bench::new();
    bench.clock(0);
    let agent =
        "echo ready > \"$OUT/ready.$word\"; while [ ! -e \"$OUT/go\" ]; do sleep 0.05; done";
    bench.word_kind("waits", "timeout = \"40s\", idle = \"30s\", start = \"30s\"", agent);
    let clock = bench.base.join("clock");
    let server = bench.serve_with(&[("WB_CLOCK", clock.as_str())]);
    let mut jobs = Vec::new();
    for (number, shift) in [-HOUR_MS, YEAR_MS, -YEAR_MS].into_iter().enumerate() {
        let word = number.to_string();
        jobs.push(bench.job("waits", json!({"word": word})));
        bench.wait_left(&format!("ready.{word}"));
        bench.clock(shift);
    }
    std::fs::write(bench.out.join("go"), "").unwrap();
    let mut ids = jobs.clone();
    for job in &jobs {
        let row = bench.ended(job);
        assert_eq!(row["status"], "succeeded", "a clock ended it: {row:#}");
        let [created, started, completed] = times(&row);
        // RFC 3339 in one form sorts like time.
        assert!(created <= started && started <= completed, "{row:#}");
    }
    assert!(!server.log().contains("duration_ms=-"), "{}", server.log());
    // Ids rise with acceptance although the clock did not, and lists follow acceptance.
    ids.sort();
    assert_eq!(ids, jobs);
    let listed = bench.get("/api/agent/jobs").ok()["items"].as_array().unwrap().clone();
    let listed: Vec<&str> = listed.iter().rev().map(|it| it["id"].as_str().unwrap()).collect();
    assert_eq!(listed, jobs);
    server.stop();
}

#[test]
fn what_waits_for_its_time_starts_when_the_clock_says_so() {
    let bench = Bench::new();
    bench.clock(0);
    bench.word_kind("quick", "timeout = \"20s\"", "echo \"$word\" >> \"$OUT/ran\"");
    let clock = bench.base.join("clock");
    let server = bench.serve_with(&[("WB_CLOCK", clock.as_str())]);
    let at = wiki_browser::base::Clock::system().now().plus(HOUR_MS).rfc3339();
    let later = bench.job("quick", json!({"word": "later", "not_before": at}));
    bench.clock(-2 * HOUR_MS);
    bench.ended(&bench.job("quick", json!({"word": "now"})));
    assert_eq!(bench.show(&later)["status"], "queued");
    bench.clock(2 * HOUR_MS);
    // Whatever rings the bell lets the queue see it; otherwise the look of every half minute does.
    bench.ended(&bench.job("quick", json!({"word": "bell"})));
    assert_eq!(bench.ended(&later)["status"], "succeeded");
    // The last two may be under way at once.
    let ran = bench.left("ran");
    assert!(ran.starts_with("now\n") && ran.lines().count() == 3, "{ran}");
    server.stop();
}

/// Fails with `WB_WITHOUT=due_meanwhile`: it waits for the look of every half minute then.
#[test]
fn g15_what_comes_due_while_the_queue_looks_is_started_at_once() {
    let bench = Bench::new();
    bench.word_kind("quick", "timeout = \"20s\"", "true");
    let server = bench.serve_with(&[("WB_ABSENT", "haste")]);
    bench.wait_indexed();
    let at = wiki_browser::base::Clock::system().now().plus(600).rfc3339();
    let begin = std::time::Instant::now();
    let job = bench.job("quick", json!({"word": "soon", "not_before": at}));
    bench.ended(&job);
    assert!(begin.elapsed() < std::time::Duration::from_secs(20), "{:?}", begin.elapsed());
    server.stop();
}

#[test]
fn events_stay_in_order_and_sessions_end() {
    let bench = Bench::new();
    bench.clock(0);
    let clock = bench.base.join("clock");
    let server = bench.serve_with(&[("WB_CLOCK", clock.as_str())]);
    let link = bench.post("/api/login-links", json!({})).ok();
    let code = link["url"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let old = bench.post("/api/login-links", json!({})).ok();
    let old = old["url"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let host = format!("http://127.0.0.1:{}", server.address().port());
    let login = |code: &str| {
        let call = Call::post("/api/login", json!({"code": code})).header("Origin", &host);
        call.tcp(server.address())
    };
    let answer = login(&code);
    assert_eq!(answer.status, 200, "{answer:?}");
    let cookie = answer.head.lines().find(|it| it.to_lowercase().starts_with("set-cookie"));
    let cookie = cookie.unwrap().split_once(": ").unwrap().1.split(';').next().unwrap().to_owned();
    let me = || Call::get("/api/me").header("Cookie", &cookie).tcp(server.address()).status;
    assert_eq!(me(), 200);
    // Back: the session stays, and a code does not live longer for it.
    bench.clock(-HOUR_MS);
    assert_eq!((me(), login(&old).status), (200, 401));
    for shift in [-HOUR_MS, HOUR_MS, 0, YEAR_MS] {
        bench.clock(shift);
        bench.topic("guide.md", "The first line.", "Say it better.");
    }
    assert_eq!(me(), 401, "a session outlived a year");
    let topics = bench.get("/api/topics").ok()["items"].as_array().unwrap().clone();
    let ids: Vec<&str> = topics.iter().map(|it| it["id"].as_str().unwrap()).collect();
    let mut sorted = ids.clone();
    sorted.sort_by(|one, other| other.cmp(one));
    assert_eq!(ids, sorted, "newest first");
    until("the server is ready", || bench.get("/readyz").status == 200);
    server.stop();
}
