//! A server that is killed between the message and its reply.

use serde_json::json;

use crate::mail::{answer, send};
use crate::support::{Bench, cli};

/// The sender waits in a terminal while the server is killed and started again.
#[test]
fn g33_a_waiting_sender_gets_the_reply_after_a_kill() {
    let bench = Bench::new();
    bench.limits("jobs = 1, grace = \"5s\"");
    // The lifeline ends it; its last word is its verdict, and no server hears it.
    let agent = "trap 'trap \"\" INT TERM; wb-agent complete --reply 42; exit 0' INT TERM\n\
        echo up > \"$OUT/up\"; while :; do sleep 0.1; done";
    bench.inbox("t/slow", "timeout = \"1m\", on_server_loss = \"kill\"", agent);
    let server = bench.serve();
    let sender = std::thread::scope(|scope| {
        let args = ["send", "topic:t/slow", "--payload", "{}", "--wait", "--timeout", "100s"];
        let top = bench.top.clone();
        let sender = scope.spawn(move || cli(&top, &args));
        bench.wait_left("up");
        server.kill();
        let server = bench.serve();
        let told = sender.join().unwrap();
        server.stop();
        told
    });
    let (code, out, err) = sender;
    assert_eq!((code, out.trim()), (0, "42"), "{err}");
    assert!(err.contains("the server is unreachable"), "{err}");
}

/// An agent goes on without the server, whether that is killed or stopped, and the next one takes
/// it over: it is not started again, its worktree is cleaned up, and its sender gets the reply.
#[test]
fn an_instance_goes_on_without_the_server() {
    let bench = Bench::new();
    bench.limits("jobs = 2, grace = \"5s\"");
    let agent = "echo up >> \"$OUT/up\"; pwd > \"$OUT/pwd\"; echo heard\n\
        while [ ! -e \"$OUT/go\" ]; do sleep 0.1; done\n\
        wb-agent complete --reply \"$(cat \"$MESSAGE_PATH\")\"";
    let fields = "timeout = \"1m\", workspace = \"worktree\", \
                  prepare = [[echo a >> $OUT/prepared]], \
                  cleanup = [[echo b >> $OUT/cleaned]]";
    bench.inbox("t/slow", &fields.replace("$OUT", bench.out.as_str()), agent);
    let left = |name: &str| std::fs::read_to_string(bench.out.join(name)).unwrap_or_default();
    for is_killed in [true, false] {
        let mut server = bench.serve();
        let (top, out) = (bench.top.clone(), bench.out.clone());
        let (code, reply, err) = std::thread::scope(|scope| {
            let args = ["send", "topic:t/slow", "--payload", "7", "--wait", "--timeout", "100s"];
            let sender = scope.spawn(move || cli(&top, &args));
            bench.wait_left("up");
            match is_killed {
                true => server.kill(),
                false => server.stop(),
            }
            server = bench.serve();
            let job = bench.json(&["job", "list"])["items"][0]["id"].clone();
            let shown = bench.show(job.as_str().unwrap());
            assert_eq!((&shown["status"], &shown["phase"]), (&json!("running"), &json!("run")));
            std::fs::write(out.join("go"), "").unwrap();
            let told = sender.join().unwrap();
            server.stop();
            told
        });
        assert_eq!((code, reply.trim()), (0, "7"), "{is_killed}: {err}");
        let once = (left("up"), left("prepared"), left("cleaned"));
        assert_eq!(once, ("up\n".to_owned(), "a\n".to_owned(), "b\n".to_owned()), "{is_killed}");
        assert!(!std::path::Path::new(left("pwd").trim()).exists(), "{is_killed}");
        for name in ["up", "prepared", "cleaned", "go"] {
            std::fs::remove_file(bench.out.join(name)).unwrap();
        }
    }
}

/// What it comes to while no server is there is read by the next one.
#[test]
fn a_verdict_without_a_server_reaches_the_sender() {
    let bench = Bench::new();
    let agent = "echo up > \"$OUT/up\"\n\
        while [ ! -e \"$OUT/go\" ]; do sleep 0.1; done\n\
        wb-agent complete --reply 5; echo done > \"$OUT/done\"";
    bench.inbox("t/slow", "timeout = \"1m\"", agent);
    let server = bench.serve();
    let message = send(&bench, "topic:t/slow", json!(1)).ok();
    bench.wait_left("up");
    server.kill();
    std::fs::write(bench.out.join("go"), "").unwrap();
    bench.wait_left("done");
    let server = bench.serve();
    assert_eq!(answer(&bench, message["message_id"].as_str().unwrap())["reply"], 5);
    server.stop();
}

/// A message that was acknowledged is there with its job, or neither is. Fails with
/// `WB_WITHOUT=send_tx`.
#[test]
fn g33_a_message_and_its_job_are_one() {
    for point in [
        "message_written",
        "before_answer",
        "after_claim",
        "after_prepare",
        "after_spawn",
        "before_settle",
    ] {
        let bench = Bench::new();
        bench.inbox(
            "t/echo",
            "timeout = \"1m\"",
            "wb-agent complete --reply \"$(cat \"$MESSAGE_PATH\")\"",
        );
        let mut server = bench.start(&[("WB_CRASH_AT", point)]).ready();
        let args = ["send", "topic:t/echo", "--payload", "7", "--key", "once"];
        let _lost = bench.cli(&args);
        server.wait();
        let server = bench.serve();
        let (code, message, err) = bench.cli(&args);
        assert_eq!(code, 0, "{point}: {err}");
        let told = answer(&bench, message.trim());
        let jobs = bench.json(&["job", "list"])["items"].as_array().unwrap().len();
        assert_eq!(jobs, 1, "{point}");
        match point {
            // Nothing of it was there; or it had said what it came to.
            "message_written" | "before_settle" => assert_eq!(told["reply"], 7, "{point}"),
            // It had not begun, if the queue was slower than the answer; or its last word is in its
            // files without a server, if it was quicker than its end.
            "before_answer" | "after_spawn" if told["state"] == "replied" => {
                assert_eq!(told["reply"], 7, "{point}");
            }
            _ => assert_eq!(told["state"], "failed", "{point}"),
        }
        let mail = bench.json(&["mail", "list"])["items"].as_array().unwrap().len();
        assert_eq!(mail, 2, "{point}");
        let gone = send(&bench, "topic:t/echo", json!(8)).ok();
        assert_eq!(answer(&bench, gone["message_id"].as_str().unwrap())["reply"], 8);
        server.stop();
    }
}

/// The first verdict stands, also before a server has read it.
#[test]
fn a_second_verdict_without_a_server_is_refused() {
    let bench = Bench::new();
    let agent = "echo up > \"$OUT/up\"\n\
        while [ ! -e \"$OUT/go\" ]; do sleep 0.1; done\n\
        wb-agent complete --reply 5; wb-agent complete --reply 5; echo $? > \"$OUT/same\"\n\
        wb-agent complete --reply 6; echo $? > \"$OUT/other\"\n\
        wb-agent fail --reason no; echo $? > \"$OUT/f\"; mv \"$OUT/f\" \"$OUT/failed\"";
    bench.inbox("t/slow", "timeout = \"1m\"", agent);
    let server = bench.serve();
    let message = send(&bench, "topic:t/slow", json!(1)).ok();
    bench.wait_left("up");
    server.kill();
    std::fs::write(bench.out.join("go"), "").unwrap();
    bench.wait_left("failed");
    assert_eq!([bench.left("same"), bench.left("other"), bench.left("failed")], ["0", "5", "5"]);
    let server = bench.serve();
    assert_eq!(answer(&bench, message["message_id"].as_str().unwrap())["reply"], 5);
    server.stop();
}
