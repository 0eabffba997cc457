//! Hooks around an agent, and worktrees: in their order, once each, whatever dies in between.

use std::os::unix::process::ExitStatusExt;

use serde_json::{Value, json};

use crate::support::{Bench, until, wait_for};

/// Crash points of a job with hooks: before its agent ran, and after.
pub(crate) const BEFORE: [&str; 4] =
    ["before_workspace", "after_workspace", "prepare_spawned", "after_prepare_hook"];
pub(crate) const AFTER: [&str; 5] =
    ["after_exit", "before_cleanup", "cleanup_spawned", "after_cleanup_hook", "after_cleanup"];

/// The environment that hooks have and others have not.
const NAMES: [&str; 13] = [
    "AGENT_TEMPLATE",
    "CWD_BASE",
    "INSTANCE_ADDR",
    "INSTANCE_ID",
    "MESSAGE_CONTENT",
    "MESSAGE_ID",
    "MESSAGE_PATH",
    "REPLY_PATH",
    "REPLY_TO_ADDR",
    "REPO_ROOT",
    "STATUS_PATH",
    "TOPIC_NAME",
    "WORKTREE_PATH",
];

/// Declares the kind `work` with hooks; `log` and `out` in them are the files of the test.
fn declare(bench: &Bench, fields: &str, (prepare, cleanup): (&str, &str), agent: &str) {
    let fill = |text: &str| text.replace("@", bench.out.as_str());
    let hook = |name: &str, text: &str| match text.is_empty() {
        true => String::new(),
        false => format!("{name} = [[{}]], ", fill(text)),
    };
    let hooks = hook("prepare", prepare) + &hook("cleanup", cleanup);
    bench.word_kind("work", &format!("{hooks}timeout = \"30s\", {fields}"), &fill(agent));
}

fn names(bench: &Bench, file: &str) -> Vec<String> {
    let text = bench.left(file);
    text.lines().filter_map(|it| Some(it.split_once('=')?.0.to_owned())).collect()
}

/// Fails with `WB_WITHOUT=phase_order`.
#[test]
fn a_hook_prepares_the_folder_in_which_the_agent_works() {
    let bench = Bench::new();
    let prepare = "echo prepare >> @/log; mkdir -p \"$WORKTREE_PATH\"; env > @/prepare.env
        cat > @/stdin; pwd > @/prepare.pwd";
    let cleanup = "echo cleanup >> @/log; env > @/cleanup.env; rm -r \"$WORKTREE_PATH\"";
    declare(
        &bench,
        "lane = \"word\"",
        (prepare, cleanup),
        "echo run >> @/log; pwd > @/pwd
        env > @/run.env",
    );
    let server = bench.serve();
    let job = bench.job("work", json!({"word": "a"}));
    let row = bench.ended(&job);
    assert_eq!((&row["status"], &row["warnings"]), (&json!("succeeded"), &json!([])), "{row:#}");
    assert_eq!(bench.left("log"), "prepare\nrun\ncleanup");
    let place = format!("{}/worktrees/wt-{job}", bench.data);
    assert_eq!(
        (bench.left("pwd"), bench.left("prepare.pwd")),
        (place.clone(), bench.top.to_string())
    );
    assert!(!std::path::Path::new(&place).exists());
    assert_eq!(bench.left("stdin"), "");
    for file in ["prepare.env", "cleanup.env"] {
        let names = names(&bench, file);
        for name in NAMES {
            assert_eq!(names.iter().filter(|it| *it == name).count(), 1, "{file}: {name}");
        }
        assert!(!names.iter().any(|it| it == "WB_TOKEN" || it == "WB_SOCKET"), "{file}");
    }
    let ran = names(&bench, "run.env");
    assert!(ran.iter().any(|it| it == "WORKTREE_PATH") && ran.iter().any(|it| it == "WB_TOKEN"));
    assert!(!ran.iter().any(|it| it == "MESSAGE_CONTENT"));
    let env = bench.left("prepare.env");
    assert!(env.lines().any(|line| line == format!("INSTANCE_ID={job}")), "{env}");
    assert!(env.lines().any(|line| line == format!("WORKTREE_PATH={place}")), "{env}");
    server.stop();
}

#[test]
fn a_hook_that_fails_hangs_floods_or_forks_ends_and_is_named() {
    let cleanup = "echo cleanup >> @/log";
    let forks = "sleep 300 & setsid sleep 300 & exit 0";
    let cases = [
        ("echo why >&2; exit 3", "prepare exited 3\nwhy\n", false),
        ("sleep 300", "prepare did not end within 5s", false),
        ("kill -9 $$", "prepare was ended by signal 9", false),
        ("head -c 30000000 /dev/zero; exit 0", "", true),
        (forks, "", true),
    ];
    for (prepare, tail, is_run) in cases {
        let bench = Bench::new();
        let limit = if prepare == "sleep 300" { "5s" } else { "30s" };
        let fields = format!("hook_timeout = \"{limit}\"");
        declare(&bench, &fields, (prepare, cleanup), "echo run >> @/log");
        let server = bench.serve();
        let job = bench.job("work", json!({}));
        let row = bench.ended(&job);
        if is_run {
            assert_eq!(row["status"], "succeeded", "{prepare}: {row:#}");
            assert_eq!(bench.left("log"), "run\ncleanup", "{prepare}");
        } else {
            assert_eq!(row["reason"], "prepare_failed", "{prepare}: {row:#}");
            assert_eq!(row["error_tail"], tail, "{prepare}");
            assert_eq!(bench.left("log"), "cleanup", "{prepare}");
        }
        bench.quiet();
        let kept = std::fs::read_dir(bench.data.join(format!("jobs/{job}/prepare"))).unwrap();
        let bytes: u64 = kept.flatten().map(|it| it.metadata().unwrap().len()).sum();
        assert!(bytes < 10 * 1024 * 1024, "{prepare}: {bytes}");
        server.stop();
    }
}

#[test]
fn a_cleanup_that_fails_is_a_warning() {
    let bench = Bench::new();
    declare(&bench, "lane = \"word\"", ("true", "echo no >&2; exit 4"), "true");
    let server = bench.serve();
    let row = bench.ended(&bench.job("work", json!({"word": "a"})));
    assert_eq!(row["status"], "succeeded", "{row:#}");
    assert_eq!(row["warnings"], json!(["cleanup_failed: cleanup exited 4\nno\n"]));
    // The lane is free all the same.
    let row = bench.ended(&bench.job("work", json!({"word": "a"})));
    assert_eq!(row["status"], "succeeded", "{row:#}");
    server.stop();
}

#[test]
fn a_cancel_skips_to_the_cleanup_and_ends_none() {
    let bench = Bench::new();
    let prepare = "echo prepare >> @/log; sleep 300";
    let cleanup = "echo cleanup >> @/log; until [ -e @/go ]; do sleep 0.02; done";
    declare(&bench, "lane = \"word\"", (prepare, cleanup), "echo run >> @/log");
    let server = bench.serve();
    let job = bench.job("work", json!({"word": "a"}));
    wait_for("it prepares", || (bench.left("log") == "prepare").then_some(()));
    let cancel = || bench.post(&format!("/api/agent/jobs/{job}/cancel"), json!({}));
    cancel().ok();
    wait_for("it is cleaned up", || (bench.left("log") == "prepare\ncleanup").then_some(()));
    assert_eq!(cancel().refusal(), (409, "job_ended"));
    assert_eq!(bench.show(&job)["status"], "running");
    std::fs::write(bench.out.join("go"), "").unwrap();
    assert_eq!(bench.ended(&job)["status"], "cancelled");
    assert_eq!(bench.left("log"), "prepare\ncleanup");
    server.stop();
}

/// Fails with `WB_WITHOUT=settle_last`.
#[test]
fn the_next_job_of_a_lane_begins_after_the_cleanup() {
    let bench = Bench::new();
    let cleanup = "echo begin >> @/log; sleep 0.5; echo end >> @/log";
    declare(&bench, "lane = \"word\"", ("echo prepare >> @/log", cleanup), "echo run >> @/log");
    let server = bench.serve();
    let jobs = [1, 2].map(|_| bench.job("work", json!({"word": "a"})));
    jobs.iter().for_each(|job| assert_eq!(bench.ended(job)["status"], "succeeded"));
    until("both are cleaned up", || bench.left("log").lines().count() == 8);
    let once = "prepare\nrun\nbegin\nend";
    assert_eq!(bench.left("log"), format!("{once}\n{once}"));
    server.stop();
}

/// Fails with `WB_WITHOUT=end_first`.
#[test]
fn a_cleanup_after_a_crash_meets_nothing_that_lives() {
    let bench = Bench::new();
    bench.limits("jobs = 4, grace = \"3s\"");
    let cleanup = "kill -0 $(cat @/pid) 2> /dev/null && echo alive > @/met || echo dead > @/met";
    let agent = "trap '' INT TERM; echo $$ > @/pid; while :; do sleep 0.02; done";
    declare(&bench, "lane = \"word\"", ("true", cleanup), agent);
    let server = bench.serve();
    let job = bench.job("work", json!({"word": "a"}));
    bench.wait_left("pid");
    server.kill();
    let server = bench.serve();
    assert_eq!(bench.ended(&job)["reason"], "server_restarted");
    assert_eq!(bench.left("met"), "dead");
    server.stop();
}

/// Crashes at a point of a job in a worktree, starts again, and looks at what is left.
fn check(point: &str) {
    let bench = Bench::new();
    let hooks = ("echo prepare >> @/log", "echo cleanup >> @/log");
    let agent = "echo run >> @/log; pwd >> @/pwd; echo two > guide.md; echo new > new.md";
    declare(&bench, "workspace = \"worktree\", lane = \"word\"", hooks, agent);
    let mut server = bench.serve_with(&[("WB_CRASH_AT", point)]);
    let job = bench.job("work", json!({"word": "a"}));
    let (status, _) = server.wait();
    assert_eq!(status.signal(), Some(6), "{point}: {}", server.log());
    let server = bench.serve();
    let row = bench.ended(&job);
    let log = bench.left("log");
    let cleanups = log.lines().filter(|it| *it == "cleanup").count();
    let has_run = AFTER.contains(&point);
    let seen: (&Value, &Value) = (&row["status"], &row["reason"]);
    match has_run {
        true => assert_eq!(seen, (&json!("succeeded"), &json!(null)), "{point}: {row:#}"),
        false => {
            assert_eq!(seen, (&json!("failed"), &json!("server_restarted")), "{point}: {row:#}");
        }
    }
    assert_eq!(log.lines().filter(|it| *it == "run").count(), usize::from(has_run), "{point}");
    assert!(cleanups >= usize::from(point != "before_workspace"), "{point}: {log}");
    assert_eq!(row["warnings"], json!([]), "{point}");
    let kept = format!("refs/wiki-browser/jobs/{job}/work");
    let refs = bench.git(&["for-each-ref", "--format=%(refname)", "refs/wiki-browser/jobs"]);
    assert_eq!(refs, if has_run { kept.as_str() } else { "" }, "{point}");
    if has_run {
        assert_eq!(bench.git(&["show", &format!("{kept}:guide.md")]), "two");
        assert_eq!(bench.git(&["show", &format!("{kept}:new.md")]), "new");
        assert_eq!(bench.left("pwd"), format!("{}/worktrees/wt-{job}", bench.data));
    }
    // The lane is free, nothing is left over, and the user's own tree is as it was.
    assert_eq!(bench.ended(&bench.job("work", json!({"word": "a"})))["status"], "succeeded");
    assert_eq!(bench.git(&["worktree", "list"]).lines().count(), 1, "{point}");
    let left = std::fs::read_dir(bench.data.join("worktrees")).map(|it| it.count());
    assert_eq!(left.unwrap_or(0), 0, "{point}");
    assert_eq!(bench.status(), "");
    assert!(bench.read("guide.md").starts_with("# Guide"));
    server.stop();
}

#[cfg(feature = "faults")]
#[test]
fn wherever_a_server_crashes_the_cleanup_runs_and_the_work_is_kept() {
    for some in [BEFORE.as_slice(), AFTER.as_slice()].concat().chunks(3) {
        std::thread::scope(|scope| {
            some.iter().for_each(|point| {
                scope.spawn(|| check(point));
            });
        });
    }
}

/// A server that is told to stop ends the agent, and the next one cleans up.
#[test]
fn a_stop_leaves_the_cleanup_to_the_next_start() {
    let bench = Bench::new();
    let hooks = ("echo prepare >> @/log", "echo cleanup >> @/log");
    let agent = "echo run >> @/log; echo two > guide.md; while :; do sleep 0.02; done";
    declare(&bench, "workspace = \"worktree\"", hooks, agent);
    let server = bench.serve();
    let job = bench.job("work", json!({}));
    until("it runs", || bench.left("log") == "prepare\nrun");
    server.stop();
    assert_eq!(bench.left("log"), "prepare\nrun");
    let server = bench.serve();
    assert_eq!(bench.ended(&job)["reason"], "server_restarted");
    assert_eq!(bench.left("log"), "prepare\nrun\ncleanup");
    let kept = format!("refs/wiki-browser/jobs/{job}/work:guide.md");
    assert_eq!(bench.git(&["show", &kept]), "two");
    server.stop();
}

/// What a hook names in its worktree stands under the same names among the user's own files.
#[test]
fn a_hook_runs_in_its_worktree_or_not_at_all() {
    let bench = Bench::new();
    let top = &bench.top;
    let agent = format!(
        "case $word in
          removes) rm -rf \"$WORKTREE_PATH\" ;;
          forgets) git -C '{top}' worktree remove --force --force \"$WORKTREE_PATH\" ;;
          links) rm -rf \"$WORKTREE_PATH\"; ln -s '{top}' \"$WORKTREE_PATH\" ;;
        esac"
    );
    let cleanup = "pwd >> @/log; /bin/rm -rf scratch";
    declare(&bench, "workspace = \"worktree\"", ("", cleanup), &agent);
    std::fs::create_dir(bench.top.join("scratch")).unwrap();
    bench.write("scratch/mine.md", "mine\n");
    let server = bench.serve();
    let row = bench.ended(&bench.job("work", json!({"word": "stays"})));
    assert_eq!(row["warnings"], json!([]), "{row:#}");
    assert_eq!(bench.left("log").lines().count(), 1);
    for word in ["removes", "forgets", "links"] {
        let row = bench.ended(&bench.job("work", json!({"word": word})));
        assert_eq!(row["status"], "succeeded", "{word}: {row:#}");
        let told = row["warnings"].to_string();
        assert!(told.contains("cleanup_failed: "), "{word}: {told}");
        let state = if word == "links" { "failed" } else { "gone" };
        assert_eq!(row["workspace"]["state"], state, "{word}: {row:#}");
        assert_eq!(bench.read("scratch/mine.md"), "mine\n", "{word}");
        assert_eq!(bench.left("log").lines().count(), 1, "{word}");
    }
    // The worktree cannot be made: `data/worktrees` is a file.
    std::fs::remove_dir_all(bench.data.join("worktrees")).unwrap();
    std::fs::write(bench.data.join("worktrees"), "").unwrap();
    let row = bench.ended(&bench.job("work", json!({"word": "stays"})));
    assert_eq!(row["reason"], "prepare_failed", "{row:#}");
    assert_eq!(bench.read("scratch/mine.md"), "mine\n");
    server.stop();
}

#[test]
fn no_agent_runs_elsewhere_when_its_worktree_went_before_it() {
    let bench = Bench::new();
    let hooks = ("/bin/rm -rf \"$WORKTREE_PATH\"", "pwd >> @/log");
    declare(&bench, "workspace = \"worktree\"", hooks, "echo run >> @/log");
    let server = bench.serve();
    let row = bench.ended(&bench.job("work", json!({})));
    assert_eq!(row["reason"], "prepare_failed", "{row:#}");
    assert!(row["error_tail"].as_str().unwrap().contains("is not there any more"), "{row:#}");
    assert!(row["warnings"].to_string().contains("cleanup_failed: it was not run"), "{row:#}");
    assert_eq!(bench.left("log"), "");
    server.stop();
}
