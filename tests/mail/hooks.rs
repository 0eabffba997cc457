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

/// The guard of each hook can be killed: what it started is ended, nothing is lost, and whoever
/// waits gets an answer.
#[test]
fn a_killed_guard_of_a_hook_ends_what_it_started_and_loses_nothing() {
    let bench = Bench::new();
    let hangs = |name: &str| {
        format!(
            "[ -e {out}/{name} ] || {{ echo $PPID > {out}/{name}; exec sleep 60; }}",
            out = bench.out
        )
    };
    let fields = |hook: &str, name: &str| {
        format!("timeout = \"1m\", workspace = \"worktree\", {hook} = [[{}]]", hangs(name))
    };
    let agent = "echo kept >> guide.md; wb-agent complete --reply 1";
    bench.inbox("t/before", &fields("prepare", "guard-before"), agent);
    bench.inbox("t/after", &fields("cleanup", "guard-after"), agent);
    let server = bench.serve();
    for (to, file, reason, state) in [
        ("topic:t/before", "guard-before", json!("prepare_failed"), "failed"),
        ("topic:t/after", "guard-after", json!(null), "replied"),
    ] {
        let sent = send(&bench, to, json!("x")).ok();
        let guard: i32 = bench.wait_left(file).parse().unwrap();
        let guard = nix::unistd::Pid::from_raw(guard);
        nix::sys::signal::kill(guard, nix::sys::signal::Signal::SIGKILL).unwrap();
        let told = answer(&bench, sent["message_id"].as_str().unwrap());
        assert_eq!(told["state"], state, "{to}: {told:#}");
        let job = bench.ended(sent["job_id"].as_str().unwrap());
        assert_eq!(job["reason"], reason, "{to}: {job:#}");
        let is_left = state == "replied";
        let is_failed = job["warnings"].to_string().contains("cleanup_failed");
        assert_eq!(is_failed, is_left, "{to}: {job:#}");
        let workspace = if is_left { "failed" } else { "gone" };
        assert_eq!(job["workspace"]["state"], workspace, "{to}: {job:#}");
    }
    // The worktree whose cleanup was cut short stays for the next try.
    assert_eq!(bench.git(&["worktree", "list"]).lines().count(), 2);
    bench.quiet();
    server.stop();
}

/// Whoever waits for an instance is told that a person must decide, and what to raise if it ends by
/// its clock for the first output.
#[test]
fn who_waits_is_told_what_a_person_must_do() {
    let bench = Bench::new();
    let agent = "wb-agent approval create --channel aws --title 'Create it?' > \"$OUT/id\"
        until [ -e \"$OUT/go\" ]; do sleep 0.02; done; wb-agent complete --reply '\"done\"'";
    bench.inbox("t/asks", "timeout = \"1m\", asks = true", agent);
    bench.inbox("t/mute", "first_output = \"300ms\", timeout = \"1m\"", "exec sleep 60");
    let server = bench.serve();
    let sent = send(&bench, "topic:t/asks", json!("x")).ok();
    let message = sent["message_id"].as_str().unwrap();
    let id = bench.wait_left("id");
    let awaited = bench.get(&format!("/api/messages/{message}/await?timeout=0")).ok();
    let why = awaited["waiting"].as_str().unwrap_or_default();
    let command = format!("`wiki-browser approval approve {id}`");
    assert!(why.contains("Create it?") && why.contains(&command), "{awaited:#}");
    let shown = bench.show(sent["job_id"].as_str().unwrap());
    assert_eq!(shown["waiting"]["code"], "decision", "{shown:#}");
    assert!(shown["waiting"]["message"].as_str().unwrap().contains(&command), "{shown:#}");
    std::fs::write(bench.out.join("go"), "").unwrap();
    assert_eq!(answer(&bench, message)["reply"], "done");
    let sent = send(&bench, "topic:t/mute", json!("x")).ok();
    let job = sent["job_id"].as_str().unwrap();
    assert_eq!(bench.ended(job)["reason"], "start_timeout");
    let (_, shown, _) = bench.cli(&["job", "show", job]);
    assert!(shown.contains("raise `first_output` of inbox \"t/mute\""), "{shown}");
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
        let fields = format!(
            "timeout = \"1m\", prepare = \"true\", on_lost = \"{on_lost}\", \
             on_server_loss = \"kill\""
        );
        let agent = "echo run >> \"$OUT/ran\"; [ -e \"$OUT/go\" ] || sleep 30\n\
            wb-agent complete --reply 1";
        bench.inbox("t/slow", &fields, agent);
        let mut server = bench.serve_with(&[("WB_CRASH_AT", point)]);
        bench.send_into_crash("topic:t/slow", json!({}));
        server.wait();
        // The agent of the first server must not be the one that goes on.
        bench.quiet();
        std::fs::write(bench.out.join("go"), "").unwrap();
        let server = bench.serve();
        let told = answer(&bench, &bench.newest_message("topic:t/slow"));
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

/// What a hook names in its folder may stand under the same name among the user's own files.
#[test]
fn hooks_and_agent_run_in_their_folder_or_not_at_all() {
    let bench = Bench::new();
    let base = bench.out.join("work");
    let hooks = format!(
        "timeout = \"1m\", cwd_base = \"{base}\",
        prepare = \"mkdir -p scratch; pwd >> {out}/log\",
        cleanup = {{ \"rm\", \"-rf\", \"scratch\" }}",
        out = bench.out
    );
    let agent = "pwd >> \"$OUT/ran\"; wb-agent complete --reply 1\n\
        [ \"$(cat \"$MESSAGE_PATH\")\" != gone ] || rm -r \"$CWD_BASE\"";
    bench.inbox("t/hooks", &hooks, agent);
    bench.inbox("t/plain", &format!("timeout = \"1m\", cwd_base = \"{base}\""), agent);
    std::fs::create_dir(bench.top.join("scratch")).unwrap();
    bench.write("scratch/mine.md", "mine\n");
    let server = bench.serve();
    let ends = |to: &str, payload: &str| {
        let sent = send(&bench, to, json!(payload)).ok();
        answer(&bench, sent["message_id"].as_str().unwrap());
        let id = bench.json(&["job", "list"])["items"][0]["id"].as_str().unwrap().to_owned();
        bench.ended(&id)
    };
    let missing = format!("the folder {base} is not there");
    let cleanup = json!([format!("cleanup_failed: it was not run: {base} is not there")]);
    for (to, warnings) in [("topic:t/hooks", cleanup.clone()), ("topic:t/plain", json!([]))] {
        let row = ends(to, "x");
        assert_eq!(row["reason"], "prepare_failed", "{to}: {row:#}");
        assert_eq!((&row["error_tail"], &row["warnings"]), (&json!(missing), &warnings), "{to}");
    }
    assert_eq!((bench.left("log"), bench.left("ran")), (String::new(), String::new()));
    for to in ["topic:t/plain", "topic:t/hooks"] {
        std::fs::create_dir_all(&base).unwrap();
        let row = ends(to, "x");
        assert_eq!((&row["status"], &row["warnings"]), (&json!("succeeded"), &json!([])), "{to}");
    }
    assert_eq!(bench.left("log"), base.as_str());
    assert_eq!(bench.left("ran"), format!("{base}\n{base}"));
    let row = ends("topic:t/hooks", "gone");
    assert_eq!((&row["status"], &row["warnings"]), (&json!("succeeded"), &cleanup), "{row:#}");
    assert_eq!(bench.read("scratch/mine.md"), "mine\n");
    bench.quiet();
    server.stop();
}

/// A person may keep a folder that a message runs into again: hooks and agent stay away from it.
#[test]
fn a_folder_that_a_person_has_kept_is_not_used_again() {
    let bench = Bench::new();
    let base = bench.out.join("work");
    std::fs::create_dir(&base).unwrap();
    let fields = format!(
        "timeout = \"1m\", cwd_base = \"{base}\", cwd_template = \"{base}/wt-{{{{message_id}}}}\",
        prepare = [[mkdir -p \"$WORKTREE_PATH\"]],
        cleanup = [[test -e {out}/works && rm -r \"$WORKTREE_PATH\"]]",
        out = bench.out
    );
    let agent = "echo mine > mine; [ -e \"$OUT/works\" ] || exec wb-agent fail --reason x\n\
        wb-agent complete --reply 1";
    bench.inbox("t/folder", &fields, agent);
    let server = bench.serve();
    let sent = send(&bench, "topic:t/folder", json!({})).ok();
    let message = sent["message_id"].as_str().unwrap();
    answer(&bench, message);
    let job = bench.json(&["job", "list"])["items"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(bench.show(&job)["workspace"]["state"], "failed");
    bench.json(&["workspace", "keep", &job]);
    std::fs::write(bench.out.join("works"), "").unwrap();

    let again = bench.post(&format!("/api/agent/jobs/{job}/retry"), json!({})).ok();
    let again = again["job_id"].as_str().unwrap().to_owned();
    let refused = bench.ended(&again);
    assert_eq!(refused["reason"], "prepare_failed", "{refused:#}");
    let tail = refused["error_tail"].as_str().unwrap();
    let typed = format!("type: wiki-browser job retry {again}");
    assert!(tail.contains(&job) && tail.contains(&typed), "{tail}");
    let folder = base.join(format!("wt-{message}"));
    assert_eq!(std::fs::read_to_string(folder.join("mine")).unwrap(), "mine\n");

    std::fs::rename(&folder, base.join("kept")).unwrap();
    let third = bench.post(&format!("/api/agent/jobs/{again}/retry"), json!({})).ok();
    let done = bench.ended(third["job_id"].as_str().unwrap());
    assert_eq!((&done["status"], &done["warnings"]), (&json!("succeeded"), &json!([])), "{done:#}");
    assert!(!folder.exists() && base.join("kept/mine").is_file());
    server.stop();
}
