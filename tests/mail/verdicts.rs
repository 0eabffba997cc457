//! The verdict of an instance: it counts, once.

use serde_json::{Value, json};

use crate::mail::{answer, send};
use crate::support::Bench;

/// Runs one instance to its end; returns its job and the answer of its message.
fn outcome(bench: &Bench, inbox: &str) -> (Value, Value) {
    let sent = send(bench, &format!("topic:{inbox}"), json!({})).ok();
    let job = bench.ended(sent["job_id"].as_str().unwrap());
    (job, answer(bench, sent["message_id"].as_str().unwrap()))
}

#[test]
fn a_verdict_counts_whatever_the_exit_status() {
    let bench = Bench::new();
    bench.inbox("t/well", "timeout = \"20s\"", "wb-agent complete --reply '\"done\"'; exit 7");
    bench.inbox("t/badly", "timeout = \"20s\"", "wb-agent fail --reason 'no such team'; exit 0");
    bench.inbox("t/silent", "timeout = \"20s\"", "exit 0");
    bench.inbox("t/broken", "timeout = \"20s\"", "echo oops >&2; exit 3");
    let server = bench.serve();
    let (job, told) = outcome(&bench, "t/well");
    assert_eq!((&job["status"], &told["reply"]), (&json!("succeeded"), &json!("done")));
    let (job, told) = outcome(&bench, "t/badly");
    assert_eq!((&job["status"], &job["reason"]), (&json!("failed"), &json!("reported")));
    assert_eq!(told["state"], "failed");
    assert_eq!(told["failure"], "The agent gave up: no such team");
    let (job, told) = outcome(&bench, "t/silent");
    assert_eq!((&job["reason"], &told["state"]), (&json!("no_result"), &json!("failed")));
    assert!(told["failure"].as_str().unwrap().contains("wb-agent complete"), "{told}");
    let (job, told) = outcome(&bench, "t/broken");
    assert_eq!((&job["reason"], &told["state"]), (&json!("exit_status"), &json!("failed")));
    let (code, _, err) =
        bench.cli(&["send", "topic:t/badly", "--payload", "1", "--wait", "--timeout", "60s"]);
    assert_eq!(code, 1);
    assert!(err.contains("no such team"), "{err}");
    server.stop();
}

/// An agent that goes on after its verdict is ended, with the time to say its last words.
#[test]
fn an_instance_ends_with_its_verdict() {
    let bench = Bench::new();
    let agent = "wb-agent complete --reply 1; echo said > \"$OUT/said\"\n\
        while :; do sleep 0.1; done";
    bench.inbox("t/lingers", "timeout = \"2m\", linger = \"4s\"", agent);
    let server = bench.serve();
    let (job, told) = outcome(&bench, "t/lingers");
    assert_eq!((&job["status"], &told["reply"]), (&json!("succeeded"), &json!(1)));
    assert_eq!(bench.left("said"), "said");
    server.stop();
    bench.quiet();
}

/// What an engine prints at the end of a turn is no verdict: its agent may wait for a command.
#[test]
fn a_result_without_a_verdict_does_not_end_an_instance() {
    let bench = Bench::new();
    let result = "echo '{\"type\":\"result\",\"is_error\":false}'";
    let waits = format!("{result}; sleep 2.5; wb-agent complete --reply '\"late\"'");
    bench.inbox("t/waits", "timeout = \"60s\", linger = \"1s\"", &waits);
    let hangs = format!("{result}; while :; do sleep 0.1; done");
    bench.inbox("t/hangs", "timeout = \"60s\", linger = \"1s\", idle = \"2s\"", &hangs);
    bench.edit(|it| {
        it.replace("prompt = \"stdin\",", "prompt = \"stdin\", reads = \"claude-stream-json\",")
    });
    let server = bench.serve();
    let (job, told) = outcome(&bench, "t/waits");
    assert_eq!((&job["status"], &told["reply"]), (&json!("succeeded"), &json!("late")), "{job:#}");
    let (job, _) = outcome(&bench, "t/hangs");
    assert_eq!(job["reason"], "idle_timeout", "{job:#}");
    server.stop();
}

#[test]
fn a_reply_that_does_not_fit_can_be_corrected() {
    let bench = Bench::new();
    bench.write("reply.json", r#"{"type": "object", "required": ["account"]}"#);
    let agent = "wb-agent complete --reply '{\"acount\": 1}' 2> \"$OUT/refused\"\n\
        echo \"$?\" > \"$OUT/code\"; wb-agent complete --reply '{\"account\": 2}'";
    bench.inbox("t/corrects", "reply_schema = \"reply.json\"", agent);
    bench.inbox(
        "t/file",
        "reply_schema = \"reply.json\"",
        "echo '{\"acount\": 1}' > \"$REPLY_PATH\"; echo ok > \"$STATUS_PATH\"; exit 0",
    );
    // Nobody could be sent it: no prompt and no variable takes a zero byte.
    bench.inbox(
        "t/zero",
        "",
        "printf '[\"a\\\\u0000b\"]' > \"$REPLY_PATH\"; echo ok > \"$STATUS_PATH\"; exit 0",
    );
    let server = bench.serve();
    let (job, told) = outcome(&bench, "t/corrects");
    assert_eq!((&job["status"], &told["reply"]), (&json!("succeeded"), &json!({"account": 2})));
    assert_eq!(bench.left("code"), "2");
    assert!(bench.left("refused").contains("account"), "{}", bench.left("refused"));
    let (job, told) = outcome(&bench, "t/file");
    assert_eq!((&job["reason"], &told["state"]), (&json!("bad_reply"), &json!("failed")));
    let (job, told) = outcome(&bench, "t/zero");
    assert_eq!((&job["reason"], &told["state"]), (&json!("bad_reply"), &json!("failed")));
    assert!(job["error_tail"].to_string().contains("zero byte"), "{job:#}");
    server.stop();
}

/// Fails with `WB_WITHOUT=verdict_once`.
#[test]
fn g34_the_first_verdict_stands() {
    let bench = Bench::new();
    let agent = "wb-agent complete --reply 1\n\
        wb-agent complete --reply 1; echo $? > \"$OUT/same\"\n\
        wb-agent complete --reply 2 2> \"$OUT/other\"; echo $? >> \"$OUT/same\"\n\
        wb-agent fail --reason late; echo $? >> \"$OUT/same\"";
    bench.inbox("t/twice", "timeout = \"20s\"", agent);
    let server = bench.serve();
    let (job, told) = outcome(&bench, "t/twice");
    assert_eq!((&job["status"], &told["reply"]), (&json!("succeeded"), &json!(1)));
    assert_eq!(bench.left("same"), "0\n5\n5");
    assert!(bench.left("other").contains("has said `ok` already"), "{}", bench.left("other"));
    let replies = bench.json(&["mail", "list", "--to", "me"])["items"].clone();
    assert_eq!(replies.as_array().unwrap().len(), 1, "{replies}");
    server.stop();
}

/// What a program without `wb-agent` does: it writes the files.
#[test]
fn a_status_file_is_a_verdict() {
    let bench = Bench::new();
    let wait = "while :; do sleep 0.1; done";
    bench.inbox(
        "t/ok",
        "linger = \"1s\"",
        &format!("echo '[1]' > \"$REPLY_PATH\"; echo ok > \"$STATUS_PATH\"; {wait}"),
    );
    bench.inbox(
        "t/no",
        "linger = \"1s\"",
        &format!("printf 'error\\nthe quota is used up\\n' > \"$STATUS_PATH\"; {wait}"),
    );
    let server = bench.serve();
    let (job, told) = outcome(&bench, "t/ok");
    assert_eq!((&job["status"], &told["reply"]), (&json!("succeeded"), &json!([1])));
    let (job, told) = outcome(&bench, "t/no");
    assert_eq!((&job["status"], &job["reason"]), (&json!("failed"), &json!("reported")));
    assert_eq!(told["failure"], "The agent gave up: the quota is used up");
    server.stop();
}

/// What an agent says is read before its end is begun: it may clean up after itself then. Fails
/// with `WB_WITHOUT=read_first`.
#[test]
fn g34_a_reply_that_its_agent_removes_at_its_end_is_kept() {
    let bench = Bench::new();
    bench.limits("jobs = 4, grace = \"10s\"");
    let agent = "tidy() { rm \"$REPLY_PATH\" \"$STATUS_PATH\"; echo x > \"$OUT/removed\"\n\
        exit 0; }\n\
        trap tidy INT TERM\n\
        echo 5 > \"$REPLY_PATH\"; echo ok > \"$STATUS_PATH\"; while :; do sleep 0.1; done";
    bench.inbox("t/tidy", "linger = \"1s\"", agent);
    let server = bench.serve();
    let (job, told) = outcome(&bench, "t/tidy");
    assert_eq!((&job["status"], &told["reply"]), (&json!("succeeded"), &json!(5)), "{told:#}");
    assert_eq!(bench.left("removed"), "x");
    server.stop();
}

/// A status that is a fifo, a link, a folder or very long stops nothing and is no verdict.
#[test]
fn a_hostile_status_file_is_no_verdict() {
    let bench = Bench::new();
    for (name, make) in [
        ("fifo", "mkfifo \"$STATUS_PATH\""),
        ("link", "echo ok > \"$OUT/ok\"; ln -s \"$OUT/ok\" \"$STATUS_PATH\""),
        ("folder", "mkdir \"$STATUS_PATH\""),
    ] {
        let agent = format!("rm -f \"$STATUS_PATH\"; {make}; sleep 1.2; exit 0");
        bench.inbox(&format!("t/{name}"), "timeout = \"20s\"", &agent);
    }
    bench.inbox(
        "t/long",
        "timeout = \"20s\"",
        "head -c 3000000 /dev/zero | tr '\\0' x > \"$STATUS_PATH\"",
    );
    // Of a gigabyte as little is read as of anything else.
    let huge =
        "printf 'broken\nwhy\n' > \"$STATUS_PATH\"; truncate -s 1G \"$STATUS_PATH\"; sleep 2.2";
    bench.inbox("t/huge", "timeout = \"20s\"", huge);
    let server = bench.serve();
    for name in ["fifo", "link", "folder"] {
        let (job, told) = outcome(&bench, &format!("t/{name}"));
        assert_eq!(
            (&job["reason"], &told["state"]),
            (&json!("no_result"), &json!("failed")),
            "{name}"
        );
    }
    for name in ["long", "huge"] {
        let (job, told) = outcome(&bench, &format!("t/{name}"));
        assert_eq!(job["reason"], "reported", "{name}");
        assert_eq!(told["failure"], "The agent gave up: (too long)", "{name}");
    }
    let peak = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let peak = peak.lines().find_map(|it| it.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 512 * 1024, "{kib} KiB");
    server.stop();
}

#[test]
fn a_cancel_before_the_verdict_wins_and_one_after_it_is_refused() {
    let bench = Bench::new();
    let agent = "wb-agent complete --reply 1; echo x > \"$OUT/said\"; while :; do sleep 0.1; done";
    bench.inbox("t/said", "linger = \"3s\"", agent);
    bench.inbox("t/open", "timeout = \"1m\"", "echo x > \"$OUT/up\"; while :; do sleep 0.1; done");
    bench.inbox("t/waits", "concurrency = 1", "while :; do sleep 0.1; done");
    let server = bench.serve();
    let sent = send(&bench, "topic:t/said", json!({})).ok();
    bench.wait_left("said");
    let job = sent["job_id"].as_str().unwrap();
    let refused = bench.post(&format!("/api/agent/jobs/{job}/cancel"), json!({}));
    assert_eq!(refused.refusal(), (409, "already_completed"));
    assert_eq!(bench.ended(job)["status"], "succeeded");

    let sent = send(&bench, "topic:t/open", json!({})).ok();
    bench.wait_left("up");
    let job = sent["job_id"].as_str().unwrap();
    bench.post(&format!("/api/agent/jobs/{job}/cancel"), json!({})).ok();
    assert_eq!(bench.ended(job)["status"], "cancelled");
    let told = answer(&bench, sent["message_id"].as_str().unwrap());
    assert!(told["failure"].as_str().unwrap().contains("Cancelled"), "{told}");

    // Also one that had not begun is answered.
    send(&bench, "topic:t/waits", json!({})).ok();
    let sent = send(&bench, "topic:t/waits", json!({})).ok();
    let job = sent["job_id"].as_str().unwrap();
    bench.post(&format!("/api/agent/jobs/{job}/cancel"), json!({})).ok();
    assert_eq!(answer(&bench, sent["message_id"].as_str().unwrap())["state"], "failed");
    let failures = bench.json(&["mail", "list", "--to", "me"])["items"].clone();
    let of_this = |it: &&Value| it["in_reply_to"] == sent["message_id"] && it["sort"] == "failure";
    assert_eq!(failures.as_array().unwrap().iter().filter(of_this).count(), 1);
    server.stop();
}

/// A repetition is given the same message, and its reply goes to whoever sent that; afterwards
/// nothing is left to repeat.
#[test]
fn an_instance_that_failed_is_repeated_with_its_message() {
    let bench = Bench::new();
    let agent = "[ -e \"$OUT/again\" ] || { touch \"$OUT/again\"; exit 3; }\n\
        wb-agent complete --reply \"$(cat \"$MESSAGE_PATH\")\"";
    bench.inbox("t/flaky", "timeout = \"1m\"", agent);
    let server = bench.serve();
    let sent = send(&bench, "topic:t/flaky", json!(5)).ok();
    let message = sent["message_id"].as_str().unwrap();
    assert_eq!(answer(&bench, message)["state"], "failed");
    let retry = |job: &str| bench.post(&format!("/api/agent/jobs/{job}/retry"), json!({}));
    let again = retry(sent["job_id"].as_str().unwrap()).ok();
    let job = again["job_id"].as_str().unwrap();
    assert_eq!(bench.ended(job)["status"], "succeeded");
    assert_eq!(answer(&bench, message)["reply"], 5);
    assert_eq!(retry(job).refusal(), (409, "already_answered"));
    server.stop();
}

/// A reply that does not fit the inbox that it goes to starts nothing, and fails no settlement.
#[test]
fn a_reply_to_an_inbox_is_checked_like_any_message() {
    let bench = Bench::new();
    bench.write("team.json", r#"{"type": "object", "required": ["team"]}"#);
    bench.inbox("t/first", "timeout = \"1m\"", "wb-agent complete --reply 1");
    bench.inbox("t/strict", "schema = \"team.json\"", "wb-agent complete");
    let server = bench.serve();
    let body = json!({"to": "topic:t/first", "payload": 0, "reply_to": "topic:t/strict"});
    let sent = bench.post("/api/messages", body).ok();
    assert_eq!(bench.ended(sent["job_id"].as_str().unwrap())["status"], "succeeded");
    let all = bench.get("/api/messages?to=topic:t/strict").ok();
    let delivery = &all["items"][0]["deliveries"][0];
    assert_eq!(
        (&delivery["state"], &delivery["reason"]),
        (&json!("dropped"), &json!("bad_payload"))
    );
    assert_eq!(bench.json(&["job", "list"])["items"].as_array().unwrap().len(), 1);
    server.stop();
}

#[test]
fn the_check_of_an_inbox_is_shown_the_reply_as_a_text_and_as_it_is() {
    let bench = Bench::new();
    let verify = "timeout = \"20s\", verify = function(job)
        if job.inputs == nil then return \"no inputs\" end
        return #job.produced.text > 9 and job.produced.value.team ~= nil or \"too short\"
    end";
    let reply = "case $(cat \"$MESSAGE_PATH\") in
        *long*) wb-agent complete --reply '{\"team\": \"billing\"}' ;;
        *) wb-agent complete --reply '\"no\"' ;;
    esac";
    bench.inbox("lead/provision", verify, reply);
    let server = bench.serve();
    for (payload, is_good) in [("long", true), ("short", false)] {
        let sent = send(&bench, "topic:lead/provision", json!(payload)).ok();
        let job = bench.ended(sent["job_id"].as_str().unwrap());
        let status = if is_good { "succeeded" } else { "failed" };
        assert_eq!(job["status"], status, "{job:#}");
        if !is_good {
            assert!(job["error_tail"].as_str().unwrap().contains("too short"), "{job:#}");
        }
    }
    server.stop();
}
