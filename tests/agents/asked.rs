//! Agents that answer requests: `codex app-server` and `pi --mode rpc`, played by shells that say
//! what the real ones were seen to say (tests/data/codex-app-server.jsonl, pi-rpc.jsonl).

use serde_json::{Value, json};

use crate::agents::{answer, ask, control, delivery, send, show, wait_state};
use crate::support::{Bench, until};

const CODEX: &str = include_str!("../data/codex-app-server.sh");

const PI: &str = include_str!("../data/pi-rpc.sh");

fn declare(bench: &Bench, speaks: &str, script: &str) {
    let file = bench.base.join("agents").join("robbo.sh");
    std::fs::write(&file, script).unwrap();
    let out = &bench.out;
    let resume = match speaks {
        "pi-rpc" => "resume = { \"--session\", \"{{session}}\" },",
        _ => "",
    };
    bench.lua(&format!(
        r#"wb.engine "robbo" {{
  type = "stream", command = {{ "/bin/sh", "{file}" }}, speaks = "{speaks}",
  env = {{ OUT = "{out}" }}, {resume}
}}
wb.agent "robbo" {{ about = "A test", engine = "robbo", autostart = "on_message" }}
"#
    ));
}

/// The processes of an agent are ended as if somebody else had done it.
fn kill(bench: &Bench) {
    let job = show(bench, "robbo")["job_id"].as_str().unwrap().to_owned();
    for pid in crate::support::arguments_with("robbo.sh") {
        let env = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        if String::from_utf8_lossy(&env).contains(&job) {
            crate::support::shell(&format!("kill -9 {pid} 2>&1 || true"));
        }
    }
    // What is said to a process that is gone already is not said again.
    until("its end is noticed", || bench.show(&job)["status"] != "running");
}

#[test]
fn codex_is_greeted_and_its_turns_are_heard() {
    let bench = Bench::new();
    declare(&bench, "codex-app-server", CODEX);
    let server = bench.serve();
    let message = send(&bench, "robbo", json!("hello"));
    assert_eq!(answer(&bench, &message)["reply"], "again hello");
    assert_eq!(delivery(&bench, &message), (json!("confirmed"), json!("turn")));
    assert!(bench.left("greeted").contains("You are agent:robbo"), "{}", bench.left("greeted"));
    let agent = wait_state(&bench, "robbo", "idle");
    assert_eq!(agent["session"], "t-1", "{agent:#}");
    let row = bench.show(agent["job_id"].as_str().unwrap());
    assert_eq!(row["usage"]["input_tokens"], 5, "{row:#}");
    assert_eq!(row["usage"]["cache_read_input_tokens"], 2, "{row:#}");
    // Whatever ends a turn is told.
    let told = ask(&bench, "robbo", json!("fail"));
    assert_eq!(told["failure"], "agent:robbo: the provider refuses", "{told:#}");
    let told = ask(&bench, "robbo", json!("refuse"));
    assert_eq!(told["failure"], "agent:robbo: no such model", "{told:#}");
    let long = send(&bench, "robbo", json!("wait"));
    wait_state(&bench, "robbo", "busy");
    until("it is interrupted", || control(&bench, "robbo", "interrupt").status == 200);
    assert_eq!(answer(&bench, &long)["failure"], "agent:robbo was interrupted");
    assert!(bench.left("interrupted").starts_with("u-"), "by the name of its turn");
    // Nobody is asked on this line: a question is refused, and the turn goes on.
    assert_eq!(ask(&bench, "robbo", json!("ask"))["reply"], "declined");
    assert!(bench.left("refused").contains("-32601"), "{}", bench.left("refused"));
    // Its log is for people.
    let job = agent["job_id"].as_str().unwrap();
    let stream = std::fs::read_to_string(bench.data.join("jobs").join(job).join("stream.ndjson"));
    let stream = stream.unwrap();
    assert!(stream.contains("again hello") && !stream.contains("turn/started"), "{stream}");
    server.stop();
}

/// A thread can be asked what it was given, so nothing is lost and nothing is read twice.
#[test]
fn codex_that_ends_before_its_turn_is_asked_what_it_had_taken() {
    let bench = Bench::new();
    declare(&bench, "codex-app-server", CODEX);
    let server = bench.serve();
    assert_eq!(ask(&bench, "robbo", json!("hello"))["reply"], "again hello");
    // It had not taken it: the next process is given it.
    assert_eq!(ask(&bench, "robbo", json!("lost"))["reply"], "again lost");
    assert_eq!(bench.left("resumed").lines().collect::<Vec<_>>(), ["t-1"]);
    // It had, and nobody heard of it: it is not given again, and whoever waits is told.
    let told = ask(&bench, "robbo", json!("taken"));
    assert_eq!(told["state"], "failed", "{told:#}");
    wait_state(&bench, "robbo", "idle");
    let given = bench.left("given");
    assert_eq!(given.matches("taken").count(), 1, "{given}");
    assert_eq!(given.matches("lost").count(), 2, "{given}");
    // The thread is gone: another one is begun, in the same process.
    std::fs::remove_file(bench.out.join("last")).unwrap();
    std::fs::write(bench.out.join("forgotten"), "").unwrap();
    control(&bench, "robbo", "restart").ok();
    until("it is greeted again", || bench.left("greeted").lines().count() == 2);
    wait_state(&bench, "robbo", "idle");
    assert_eq!(ask(&bench, "robbo", json!("more"))["reply"], "again more");
    server.stop();
}

#[test]
fn pi_is_prompted_when_it_is_idle_and_its_own_tries_are_waited_for() {
    let bench = Bench::new();
    declare(&bench, "pi-rpc", PI);
    let server = bench.serve();
    let message = send(&bench, "robbo", json!("hello"));
    assert_eq!(answer(&bench, &message)["reply"], "again hello");
    assert_eq!(delivery(&bench, &message), (json!("confirmed"), json!("turn")));
    let agent = wait_state(&bench, "robbo", "idle");
    let session = bench.out.join("session");
    assert_eq!(agent["session"], session.as_str(), "{agent:#}");
    let row = bench.show(agent["job_id"].as_str().unwrap());
    assert_eq!((&row["cost_usd"], &row["usage"]["input_tokens"]), (&json!(0.5), &json!(7)));
    assert_eq!(row["usage"]["cache_creation_input_tokens"], 4, "{row:#}");
    assert_eq!(ask(&bench, "robbo", json!("again"))["reply"], "again again");
    assert_eq!(ask(&bench, "robbo", json!("fail"))["failure"], "agent:robbo: overloaded");
    // It was busy with work of its own: what it did not take is given again.
    assert_eq!(ask(&bench, "robbo", json!("busy"))["reply"], "again busy");
    assert_eq!(bench.left("given").matches("busy").count(), 2);
    let long = send(&bench, "robbo", json!("wait"));
    wait_state(&bench, "robbo", "busy");
    control(&bench, "robbo", "interrupt").ok();
    assert_eq!(answer(&bench, &long)["failure"], "agent:robbo was interrupted");
    // The next process goes on with the session.
    assert_eq!(ask(&bench, "robbo", json!("lost"))["state"], "failed");
    assert_eq!(ask(&bench, "robbo", json!("more"))["reply"], "again more");
    let started = bench.left("started");
    assert_eq!(started.lines().last(), Some(format!("run --session {session}").as_str()));
    server.stop();
}

/// The next server takes them over in the middle of a turn, and speaks to the same process.
#[test]
fn they_go_on_when_their_server_is_killed() {
    for (speaks, script) in [("codex-app-server", CODEX), ("pi-rpc", PI)] {
        let bench = Bench::new();
        declare(&bench, speaks, script);
        let server = bench.serve();
        assert_eq!(ask(&bench, "robbo", json!("hello"))["reply"], "again hello", "{speaks}");
        let long = send(&bench, "robbo", json!("wait"));
        wait_state(&bench, "robbo", "busy");
        server.kill();
        let server = bench.serve();
        let job = wait_state(&bench, "robbo", "busy")["job_id"].clone();
        until("it is interrupted", || control(&bench, "robbo", "interrupt").status == 200);
        assert_eq!(answer(&bench, &long)["failure"], "agent:robbo was interrupted", "{speaks}");
        assert_eq!(ask(&bench, "robbo", json!("more"))["reply"], "again more", "{speaks}");
        assert_eq!(show(&bench, "robbo")["job_id"], job, "{speaks}");
        // The end of its process is no end of its session.
        kill(&bench);
        assert_eq!(ask(&bench, "robbo", json!("last"))["reply"], "again last", "{speaks}");
        assert_ne!(show(&bench, "robbo")["job_id"], job, "{speaks}");
        assert_ne!(show(&bench, "robbo")["session"], Value::Null, "{speaks}");
        assert_eq!(bench.left("started").lines().count(), 2, "{speaks}");
        control(&bench, "robbo", "stop").ok();
        wait_state(&bench, "robbo", "stopped");
        server.stop();
    }
}
