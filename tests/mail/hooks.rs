//! Instances with hooks and worktrees, and those that a crash ended.

use serde_json::json;

use crate::mail::{answer, send};
use crate::support::Bench;

#[test]
fn many_messages_through_both_hooks_leave_nothing() {
    let bench = Bench::new();
    let out = bench.out.clone();
    // Each name is there; whoever asks in a terminal has an address to answer to.
    let prepare = format!(
        "for name in MESSAGE_ID MESSAGE_PATH REPLY_PATH STATUS_PATH MESSAGE_CONTENT WORKTREE_PATH \
         CWD_BASE REPO_ROOT AGENT_TEMPLATE TOPIC_NAME INSTANCE_ADDR INSTANCE_ID; do \
         [ -n \"$(printenv $name)\" ] || {{ echo $name >&2; exit 1; }}; done; \
         [ \"$PWD\" = \"$WORKTREE_PATH\" ] && echo $MESSAGE_CONTENT >> {out}/prepared"
    );
    let cleanup = format!("[ -z \"$MESSAGE_CONTENT\" ] && cat \"$REPLY_PATH\" >> {out}/cleaned");
    let fields = format!(
        "timeout = \"1m\", concurrency = 4, workspace = \"worktree\", prepare = [[{prepare}]],
        cleanup = [[{cleanup}]]"
    );
    let agent = "[ \"$PWD\" = \"$WORKTREE_PATH\" ] && echo x >> guide.md &&\n\
        wb-agent complete --reply \"$(cat \"$MESSAGE_PATH\")\"";
    bench.inbox("t/echo", &fields, agent);
    let server = bench.serve();
    let sent: Vec<String> = (0..20)
        .map(|nth| send(&bench, "topic:t/echo", json!(nth)).ok())
        .map(|it| it["message_id"].as_str().unwrap().to_owned())
        .collect();
    for (nth, message) in sent.iter().enumerate() {
        assert_eq!(answer(&bench, message)["reply"], nth, "{message}");
    }
    assert_eq!(bench.left("prepared").lines().count(), 20);
    assert!(!bench.left("cleaned").is_empty());
    assert_eq!(bench.git(&["worktree", "list"]).lines().count(), 1);
    let kept = bench.git(&["for-each-ref", "refs/wiki-browser/jobs"]);
    assert_eq!(kept.lines().filter(|it| it.ends_with("/work")).count(), 20, "{kept}");
    assert_eq!(std::fs::read_dir(bench.data.join("worktrees")).unwrap().count(), 0);
    assert_eq!(bench.status(), "");
    bench.quiet();
    server.stop();
}

/// What was lost before its run is repeated: the sender gets one answer, from the repetition.
#[test]
fn a_lost_instance_is_repeated_and_answers_once() {
    for (on_lost, point, is_repeated) in [
        ("requeue", "prepare_spawned", true),
        ("requeue", "after_guard", false),
        ("requeue_always", "after_guard", true),
        ("fail", "prepare_spawned", false),
    ] {
        let bench = Bench::new();
        let fields = format!("timeout = \"1m\", prepare = \"true\", on_lost = \"{on_lost}\"");
        let agent = "echo run >> \"$OUT/ran\"; [ -e \"$OUT/go\" ] || sleep 30\n\
            wb-agent complete --reply 1";
        bench.inbox("t/slow", &fields, agent);
        let mut server = bench.serve_with(&[("WB_CRASH_AT", point)]);
        let sent = send(&bench, "topic:t/slow", json!({})).ok();
        server.wait();
        // The agent of the first server must not be the one that goes on.
        bench.quiet();
        std::fs::write(bench.out.join("go"), "").unwrap();
        let server = bench.serve();
        let told = answer(&bench, sent["message_id"].as_str().unwrap());
        let expected = if is_repeated { "replied" } else { "failed" };
        assert_eq!(told["state"], expected, "{on_lost} {point}: {told:#}");
        let jobs = bench.json(&["job", "list"])["items"].as_array().unwrap().clone();
        assert_eq!(jobs.len(), if is_repeated { 2 } else { 1 }, "{on_lost} {point}");
        assert_eq!(jobs[jobs.len() - 1]["reason"], "server_restarted", "{on_lost} {point}");
        let mail = bench.json(&["mail", "list"])["items"].as_array().unwrap().len();
        assert_eq!(mail, 2, "{on_lost} {point}");
        server.stop();
    }
}
