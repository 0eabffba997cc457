//! `wiki-browser job` on a server.

use serde_json::{Value, json};

use super::desk::{ADDS_A_LINE, PROPOSES, operator, refused, said, text};
use crate::support::{Bench, Topic};

/// Works until it is cancelled.
const WAITS: &str = "beat main";

fn topic_of(topic: &Topic) -> String {
    format!("topic_id={}", topic.id)
}

#[test]
fn waiting_for_a_job_ends_as_the_job_does() {
    let bench = Bench::new();
    bench.topic_kind("works", PROPOSES, ADDS_A_LINE);
    let slow = PROPOSES.replace("20s", "8s");
    bench.topic_kind("slow", &slow, &format!("{ADDS_A_LINE}; {WAITS}"));
    bench.topic_kind("fails", PROPOSES, "echo 'the \u{1b}[2Jreason' >&2; exit 3");
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "More.");
    let input = topic_of(&topic);
    let assert = operator(&bench, &["job", "create", "works", &input, "--wait"]).assert().code(0);
    let (out, err) = (text(&assert.get_output().stdout), text(&assert.get_output().stderr));
    let proposals = bench.json(&["proposal", "list"]);
    assert_eq!(out.trim(), proposals["items"][0]["id"], "{out}");
    assert!(err.contains(" succeeded\n"), "{err}");
    // What a job proposed that did not succeed is void: no id for a script to approve.
    let assert = operator(&bench, &["job", "create", "slow", &input, "--wait"]).assert().code(1);
    let (out, err) = (text(&assert.get_output().stdout), text(&assert.get_output().stderr));
    assert_eq!(out, "", "{err}");
    let void = bench.json(&["job", "list", "--status", "timed_out"]);
    assert!(!void["items"][0]["proposal_id"].is_null(), "{void:#}");

    let assert = operator(&bench, &["job", "create", "fails", &input, "--wait"]).assert().code(1);
    let (out, err) = (text(&assert.get_output().stdout), text(&assert.get_output().stderr));
    assert_eq!(out, "");
    assert!(err.contains(" failed\n") && err.contains("\nAgent failed. See log.\n"), "{err}");
    // The end of its standard error follows at once, and harmless.
    assert!(err.ends_with("\n  the \\u{1b}[2Jreason\n"), "{err}");
    let args = ["job", "create", "fails", &input, "--wait", "--log"];
    let assert = operator(&bench, &args).assert().code(1);
    let err = text(&assert.get_output().stderr);
    assert!(err.contains("the \\u{1b}[2Jreason\n"), "{err}");

    let id = bench.json(&["job", "list", "--status", "failed"])["items"][0]["id"].clone();
    let short = &id.as_str().unwrap()[28..];
    let shown = said(&bench, &["job", "show", short]);
    assert!(shown.contains("exit code   3\n"), "{shown}");
    assert!(shown.ends_with("\nthe \\u{1b}[2Jreason\n"), "{shown}");
    // Into a pipe the output is as it was.
    assert_eq!(said(&bench, &["job", "log", short]), "the \u{1b}[2Jreason\n");
    assert_eq!(said(&bench, &["job", "log", short, "--stream", "stdout"]), "");
    let prompt = said(&bench, &["job", "prompt", short]);
    assert!(prompt.contains(&format!("topic={}\n", topic.id)), "{prompt}");
    operator(&bench, &["job", "follow", short]).assert().code(1);
    let again = operator(&bench, &["job", "retry", short, "--wait", "--json"]).assert().code(1);
    let again: Value = serde_json::from_slice(&again.get_output().stdout).unwrap();
    assert_eq!((&again["retry_of"], &again["exit_code"]), (&id, &json!(3)));
    server.stop();
}

#[test]
fn a_busy_lane_refuses_or_makes_wait_as_the_kind_says() {
    let bench = Bench::new();
    bench.topic_kind("works", PROPOSES, WAITS);
    bench.topic_kind("queues", &PROPOSES.replace("reject", "queue"), ADDS_A_LINE);
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "More.");
    let input = topic_of(&topic);
    let first = said(&bench, &["job", "create", "works", &input]);
    let first = first.trim();
    bench.wait_status(first, "running");
    let error = refused(&bench, &["job", "create", "works", &input], 5, "lane_busy");
    assert!(error["message"].as_str().unwrap().contains(first), "{error}");
    let second = bench.json(&["job", "create", "queues", &input, "--priority", "5"]);
    let second = second["job_id"].as_str().unwrap();
    assert_eq!(bench.show(second)["status"], "queued");
    assert_eq!(bench.show(second)["priority"], 5);
    let shown = said(&bench, &["job", "show", second]);
    assert!(shown.contains("\npriority    5\n"), "{shown}");
    refused(&bench, &["job", "prompt", second], 4, "no_prompt");
    assert_eq!(said(&bench, &["job", "log", second]), "");
    refused(&bench, &["job", "retry", first], 5, "job_active");
    let table = said(&bench, &["job", "list"]);
    assert!(table.lines().nth(1).unwrap().contains("queued"), "{table}");
    assert!(table.lines().nth(2).unwrap().contains("running"), "{table}");

    let third = said(&bench, &["job", "create", "queues", &input]);
    let cancelled = said(&bench, &["job", "cancel", third.trim()]);
    assert_eq!(cancelled, format!("job {} is cancelled\n", third.trim()));
    refused(&bench, &["job", "cancel", third.trim()], 5, "job_ended");
    let ending = said(&bench, &["job", "cancel", first]);
    assert_eq!(ending, format!("job {first} is stopping\n"));
    assert_eq!(bench.ended(first)["message"], "Cancelled by ada.");
    // The lane is free again.
    assert_eq!(bench.ended(second)["status"], "succeeded");
    operator(&bench, &["job", "follow", first]).assert().code(1);
    operator(&bench, &["job", "follow", second]).assert().code(0);
    server.stop();
}

#[test]
fn a_job_waits_for_its_time_and_is_asked_for_once() {
    let bench = Bench::new();
    bench.word_kind("echoes", "timeout = \"20s\"", "cat; echo \"$word\"");
    let server = bench.serve();
    let wait = ["job", "create", "echoes", "--not-before", "1h"];
    let id = said(&bench, &wait);
    assert_eq!(bench.json(&["job", "show", id.trim()])["status"], "queued");
    said(&bench, &["job", "cancel", id.trim()]);
    // A wait is another time at each request: it cannot be the same one.
    refused(&bench, &[&wait[..], &["--idempotency-key", "one"]].concat(), 2, "invalid");
    let at = "2999-01-02T03:04:05Z";
    let later = ["job", "create", "echoes", "--not-before", at, "--idempotency-key", "one"];
    let id = said(&bench, &later);
    assert_eq!(said(&bench, &later), id);
    let job = bench.json(&["job", "show", id.trim()]);
    assert_eq!(job["status"], "queued");
    assert!(job["not_before"].as_str().unwrap() > job["created_at"].as_str().unwrap());
    assert_eq!(bench.json(&["job", "list"])["items"].as_array().unwrap().len(), 2);
    let other = ["job", "create", "echoes", "word=x", "--idempotency-key", "one"];
    let error = refused(&bench, &other, 5, "idempotency_conflict");
    assert!(error["message"].as_str().unwrap().contains("`one`"), "{error}");

    bench.write("word.txt", "from a file");
    for (given, word) in
        [("word=plain", "plain"), ("word=@word.txt", "from a file"), ("word:=\"json\"", "json")]
    {
        let job = bench.json(&["job", "create", "echoes", given, "--wait"]);
        assert_eq!(job["inputs"]["word"], word, "{job:#}");
    }
    let mut piped = operator(&bench, &["job", "create", "echoes", "word=@-", "--wait", "--json"]);
    let piped = piped.write_stdin("from a pipe").assert().success();
    let job: Value = serde_json::from_slice(&piped.get_output().stdout).unwrap();
    assert_eq!(job["inputs"]["word"], "from a pipe");
    server.stop();
}

#[test]
fn what_is_wrong_with_a_job_is_said_before_anything_runs() {
    let bench = Bench::new();
    bench.topic_kind("works", PROPOSES, ADDS_A_LINE);
    bench.word_kind("echoes", "timeout = \"20s\"", "exit 0");
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "More.");
    let (input, blob) = (topic_of(&topic), format!("base_source_sha={}", "a".repeat(40)));
    let nobody = "018bcfe5-6800-7000-8000-000000000000";
    let foreign = format!("topic_id={nobody}");
    let create = |kind: &'static str, inputs: &[&str]| -> Vec<String> {
        ["job", "create", kind].iter().chain(inputs).map(|it| (*it).to_owned()).collect()
    };
    for (args, exit, code) in [
        (create("nothing", &[]), 2, "unknown_kind"),
        (create("works", &[]), 2, "missing_input"),
        (create("works", &[&input, "color=red"]), 2, "unknown_input"),
        (create("works", &[&input, &blob]), 2, "computed_input"),
        (create("works", &[&input, "source_path=notes.md"]), 2, "input_mismatch"),
        (create("works", &[&input, &input]), 2, "invalid"),
        (create("works", &["topic_id=zzzz"]), 2, "invalid"),
        (create("works", &["topic_id=ffff0000"]), 4, "not_found"),
        (create("works", &[&foreign]), 4, "not_found"),
        (create("works", &["topic_id:=7"]), 2, "bad_input"),
        (create("works", &["topic_id:=}"]), 2, "invalid"),
        (create("works", &[&input, "--priority", "101"]), 2, "invalid"),
        (create("works", &[&input, "--not-before", "soon"]), 2, "invalid"),
        (create("echoes", &["word=a\nb"]), 2, "bad_input"),
        (create("echoes", &["word=@none.txt"]), 2, "invalid"),
    ] {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        refused(&bench, &args, exit, code);
    }
    for verb in ["show", "follow", "cancel", "retry", "log", "prompt"] {
        refused(&bench, &["job", verb, nobody], 4, "not_found");
        refused(&bench, &["job", verb, "ffff0000"], 4, "not_found");
    }
    refused(&bench, &["job", "list", "--after", "x"], 2, "bad_parameter");
    assert_eq!(bench.json(&["job", "list"]), json!({"items": [], "next": null}));
    operator(&bench, &["job", "list"]).assert().success().stdout("").stderr("no jobs\n");
    // What follows from the Topic may be said if it is true.
    said(&bench, &["job", "create", "works", &input, "source_path=guide.md"]);
    server.stop();
}

#[test]
fn lists_are_cut_by_what_is_asked_and_turned_by_page() {
    let bench = Bench::new();
    bench.word_kind("echoes", "timeout = \"20s\"", "exit 0");
    bench.word_kind("breaks", "timeout = \"20s\"", "exit 1");
    let server = bench.serve();
    let mut ids: Vec<String> = Vec::new();
    for kind in ["echoes", "breaks", "echoes"] {
        ids.insert(0, bench.job(kind, json!({})));
    }
    for id in &ids {
        bench.ended(id);
    }
    let listed = |args: &[&str]| -> Vec<String> {
        let page = bench.json(&[&["job", "list"], args].concat());
        let items = page["items"].as_array().unwrap().iter();
        items.map(|it| it["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(listed(&[]), ids);
    assert_eq!(listed(&["--kind", "breaks"]), [ids[1].clone()]);
    assert_eq!(listed(&["--status", "failed"]), [ids[1].clone()]);
    assert_eq!(listed(&["--source", "guide.md"]), [""; 0]);
    let page = bench.json(&["job", "list", "--limit", "2"]);
    let next = page["next"].as_str().unwrap().to_owned();
    assert_eq!(listed(&["--limit", "2", "--after", &next]), ids[2..]);
    let assert = operator(&bench, &["job", "list", "--limit", "2"]).assert().success();
    assert_eq!(text(&assert.get_output().stderr), format!("more: --after {next}\n"));

    // All ids of one minute begin alike.
    let error = refused(&bench, &["job", "show", &ids[0][..6]], 2, "ambiguous_id");
    for id in &ids {
        assert!(error["hint"].as_str().unwrap().contains(id.as_str()), "{error}");
    }
    server.stop();
}

#[test]
fn a_full_lane_takes_no_more_and_its_jobs_are_found_by_a_piece_of_their_ids() {
    let bench = Bench::new();
    bench.topic_kind("queues", &PROPOSES.replace("reject", "queue"), ADDS_A_LINE);
    let server = bench.serve();
    let input = topic_of(&bench.topic("guide.md", "The first line.", "More."));
    let later = ["job", "create", "queues", &input, "--not-before", "1h"];
    let first = said(&bench, &later);
    let database = rusqlite::Connection::open(bench.data.join("wiki.db")).unwrap();
    let more = "
        WITH RECURSIVE counted (n) AS
            (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 1000)
        INSERT INTO agent_jobs (id, kind, lane_key, status, source_path, topic_id, inputs_json,
            grants_json, requested_by, not_before_ms, ready, created_ms, config_digest)
        SELECT printf('018bcfe5-6800-7000-8000-%012d', n), kind, lane_key, status, source_path,
            topic_id, inputs_json, grants_json, requested_by, not_before_ms, ready, created_ms,
            config_digest
        FROM counted, agent_jobs WHERE id = ?1";
    assert_eq!(database.execute(more, [first.trim()]).unwrap(), 1000);
    let error = refused(&bench, &later, 6, "queue_full");
    assert!(error["message"].as_str().unwrap().contains("source_path=guide.md"), "{error}");
    let status = said(&bench, &["status"]);
    assert!(status.contains("jobs        0 running, 1001 queued\n"), "{status}");
    // The oldest stands on the last of many pages.
    let id = &first.trim()[28..];
    assert_eq!(bench.json(&["job", "show", id])["id"], first.trim());
    let error = refused(&bench, &["job", "show", "018bcfe5"], 2, "ambiguous_id");
    assert_eq!(error["message"], "`018bcfe5` matches 1000 job ids");
    assert!(error["hint"].as_str().unwrap().ends_with(", …"), "{error}");
    server.stop();
}
