//! `wiki-browser job follow` and `events`: live output, also across a restart.

use std::time::Instant;

use serde_json::{Value, json};
use wiki_browser::client::RESTART_WAIT_MAX;

use super::desk::{Running, refused};
use crate::support::{Bench, wait_for};

#[test]
fn a_job_is_followed_across_a_kill_of_the_server() {
    let bench = Bench::new();
    bench.word_kind("beats", "timeout = \"1m\"", "echo began; beat main");
    let server = bench.serve();
    let id = bench.job("beats", json!({}));
    bench.wait_status(&id, "running");
    let mut follow = Running::new(&bench, &["job", "follow", &id]);
    let mut json_follow = Running::new(&bench, &["job", "follow", &id, "--json", "--log"]);
    follow.wait_err(&format!("job {id} running"));
    json_follow.wait_err("began\n");
    server.kill();
    follow.wait_err("the server is unreachable; waiting for it");
    let server = bench.serve();
    assert_eq!(follow.wait(), Some(1), "{}", follow.err());
    assert_eq!(follow.out(), "");
    let said = follow.err();
    for words in [
        "the server is back\n",
        "the job was settled when the server restarted\n",
        " failed\n",
        "Agent failed: server restarted.\n",
    ] {
        assert_eq!(said.matches(words).count(), 1, "{words}: {said}");
    }
    let place = |words: &str| said.find(words).unwrap();
    assert!(place("the server is back\n") < place(" failed\n"), "{said}");
    // What was printed before is not printed again.
    assert_eq!(json_follow.err().matches("began\n").count(), 1, "{}", json_follow.err());
    assert_eq!(json_follow.wait(), Some(1), "{}", json_follow.err());
    let job: Value = serde_json::from_str(&json_follow.out()).unwrap();
    assert_eq!(job["error_tail"], "server restarted while job in flight");
    // What to type next is told with the job.
    let (_, shown, _) = bench.cli(&["job", "show", &id]);
    assert!(shown.contains("\nnext        nothing is wrong with the job itself"), "{shown}");
    assert!(shown.contains(&format!("\nagain       wiki-browser job retry {id}\n")), "{shown}");
    server.stop();
}

/// A job that waited while the server was killed is followed to its own end, and each line of its
/// agent is printed once.
#[test]
fn a_job_that_outlives_a_kill_of_the_server_is_followed_to_its_own_end() {
    let bench = Bench::new();
    bench.limits("jobs = 1, grace = \"1s\"");
    bench.word_kind("beats", "timeout = \"1m\"", "echo began; beat main");
    let agent = "i=0; while [ $i -lt 200 ]; do i=$((i+1)); echo \"line $i.\"; done; exit 3";
    bench.word_kind("prints", "timeout = \"20s\"", agent);
    let server = bench.serve();
    let first = bench.job("beats", json!({}));
    bench.wait_status(&first, "running");
    let id = bench.job("prints", json!({}));
    let mut follow = Running::new(&bench, &["job", "follow", &id, "--log"]);
    let mut left = Running::new(&bench, &["job", "follow", &id]);
    follow.wait_err(&format!("job {id} queued: 1 of at most 1 jobs run\n"));
    left.wait_err(&format!("job {id} queued"));
    // Whoever stops watching stops nothing else.
    left.signal("INT");
    assert_ne!(left.wait(), Some(0));
    server.kill();
    let since = Instant::now();
    follow.wait_err("the server is unreachable; waiting for it");
    // At once, and not when a request would have given up.
    assert!(since.elapsed() < RESTART_WAIT_MAX, "{:?}", since.elapsed());
    let server = bench.serve();
    assert_eq!(follow.wait(), Some(1), "{}", follow.err());
    let said = follow.err();
    for number in 1..=200 {
        assert_eq!(said.matches(&format!("line {number}.\n")).count(), 1, "{number}: {said}");
    }
    for words in ["the server is back\n", " running\n", " failed\n", "Agent failed. See log.\n"] {
        assert_eq!(said.matches(words).count(), 1, "{words}: {said}");
    }
    assert_eq!(bench.show(&id)["exit_code"], 3);
    server.stop();
}

#[test]
fn a_waiting_job_says_what_it_waits_for() {
    let bench = Bench::new();
    let fields = "timeout = \"20s\", lane = \"source_path\", on_busy = \"queue\"";
    bench.topic_kind("waits", fields, "while [ ! -e \"$OUT/go\" ]; do sleep 0.02; done");
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "More.");
    let first = bench.job_on("waits", &topic);
    bench.wait_status(&first, "running");
    let second = bench.job_on("waits", &topic);
    let mut follow = Running::new(&bench, &["job", "follow", &second]);
    let why = format!("lane source_path=guide.md is held by job {first}");
    follow.wait_err(&format!("job {second} queued: {why}\n"));
    std::fs::write(bench.out.join("go"), "").unwrap();
    assert_eq!(follow.wait(), Some(0), "{}", follow.err());
    assert!(follow.err().contains(&format!("job {second} succeeded\n")), "{}", follow.err());
    server.stop();
}

#[test]
fn events_are_printed_line_by_line_in_order() {
    let bench = Bench::new();
    bench.word_kind("echoes", "timeout = \"20s\"", "exit 0");
    let server = bench.serve();
    let before = bench.ended(&bench.job("echoes", json!({})));
    let mut events = Running::new(&bench, &["events", "--json"]);
    let mut words = Running::new(&bench, &["events"]);
    let mut kinds = Running::new(&bench, &["events", "--field", "kind"]);
    let seen_of = |id: &str, all: &str| -> Vec<Value> {
        let lines = all.lines().filter(|_| all.ends_with('\n'));
        let lines = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|it| it["subject"] == format!("job:{id}")).collect()
    };
    // The streams open in their own time: jobs are made until each has seen a whole one.
    let seen = wait_for("a job is seen from its beginning to its end", || {
        let id = bench.job("echoes", json!({}));
        bench.ended(&id);
        let is_seen = |out: String| out.matches("job_finished").count() > 0;
        if !is_seen(words.out()) || !is_seen(kinds.out()) {
            return None;
        }
        let seen = seen_of(
            &id,
            &wait_for("the end is seen", || {
                let all = events.out();
                let is_over = all.ends_with('\n') && is_seen(all.clone());
                is_over.then_some(all)
            }),
        );
        let is_whole =
            seen.first()?["kind"] == "job_queued" && seen.last()?["kind"] == "job_finished";
        is_whole.then_some(seen)
    });
    let told: Vec<&str> = seen.iter().map(|it| it["kind"].as_str().unwrap()).collect();
    assert_eq!(told, ["job_queued", "job_started", "job_finished"]);
    assert!(!kinds.out().contains('"') && !words.out().contains('{'), "{}", words.out());
    assert!(seen_of(before["id"].as_str().unwrap(), &events.out()).is_empty());

    // After an event come all that are later.
    let first = seen[0]["id"].as_str().unwrap();
    let mut again = Running::new(&bench, &["events", "--json", "--after", first]);
    let id = seen[0]["subject"].as_str().unwrap().strip_prefix("job:").unwrap();
    let later = wait_for("the same is told again", || {
        let later = seen_of(id, &again.out());
        (later.len() == seen.len() - 1).then_some(later)
    });
    assert_eq!(later, seen[1..]);
    for running in [&mut events, &mut words, &mut kinds, &mut again] {
        assert_eq!(running.err(), "");
    }
    refused(&bench, &["events", "--after", "nonsense"], 2, "bad_event_id");
    server.stop();
}
