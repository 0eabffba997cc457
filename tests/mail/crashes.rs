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
    bench.inbox("t/slow", "timeout = \"1m\"", agent);
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
