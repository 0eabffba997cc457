//! Instances on a disk that is full at one of their steps: each ends with a reply or a named
//! failure, and leaves nothing.

use serde_json::{Value, json};

use crate::mail::{answer, send};
use crate::support::{Bench, Server, SmallDisk, until};

/// What a step prints while the disk is full, in bytes.
const PRINTED: u32 = 300_000;

/// A site on a small disk whose inbox waits at one step of its first instance.
fn site(step: &str) -> (Bench, SmallDisk, Server) {
    let bench = Bench::new();
    let disk = SmallDisk::mount(&bench.data, 24);
    let out = bench.out.clone();
    let at = |name: &str| {
        format!(
            "if [ {step} = {name} ] && [ ! -e {out}/at ]; then echo x > {out}/at; \
             until [ -e {out}/go ]; do sleep 0.02; done; \
             head -c {PRINTED} /dev/zero | tr '\\0' x; fi\n"
        )
    };
    let fields = format!(
        "timeout = \"1m\", concurrency = 1, workspace = \"worktree\", prepare = [[{}]],
        cleanup = [[{}]]",
        at("prepare"),
        at("cleanup")
    );
    // Like an agent that is refused, and tries again.
    let agent = format!(
        "{}echo x >> guide.md\nuntil wb-agent complete --reply 1 2>> {out}/refused; do \
         sleep 0.05; done",
        at("run")
    );
    bench.inbox("t/work", &fields, &agent);
    let server = bench.serve_with(&disk.env());
    (bench, disk, server)
}

/// Fails unless nothing of the first instance is left, and the next one works.
fn check(bench: &Bench, step: &str, first: &str) -> Value {
    let told = answer(bench, first);
    let next = send(bench, "topic:t/work", json!({})).ok();
    let next = answer(bench, next["message_id"].as_str().unwrap());
    assert_eq!(next["reply"], 1, "{step}: {next:#}");
    let left = || std::fs::read_dir(bench.data.join("worktrees")).unwrap().count();
    until("no worktree is left", || left() == 0);
    assert_eq!(bench.git(&["worktree", "list"]).lines().count(), 1, "{step}");
    let open = bench.get("/api/workspaces").ok()["items"].clone();
    let open: Vec<&Value> =
        open.as_array().unwrap().iter().filter(|it| it["state"] != "gone").collect();
    assert!(open.is_empty(), "{step}: {open:#?}");
    bench.quiet();
    told
}

#[test]
fn an_instance_survives_a_full_disk_in_its_hooks_and_its_run() {
    for step in ["prepare", "run", "cleanup"] {
        let (bench, disk, server) = site(step);
        let sent = send(&bench, "topic:t/work", json!({"team": "billing"})).ok();
        bench.wait_left("at");
        disk.fill();
        std::fs::write(bench.out.join("go"), "").unwrap();
        if step == "run" {
            until("its verdict is refused", || !bench.left("refused").is_empty());
        } else {
            until("the hook is over", || {
                bench.alive().iter().all(|(_, line)| !line.contains("head -c"))
            });
            until("the lack of room is met", || bench.get("/api/health").ok()["status"] != "ok");
        }
        disk.free();
        let told = check(&bench, step, sent["message_id"].as_str().unwrap());
        assert_eq!(told["reply"], 1, "{step}: {told:#}\n{}", server.log());
        server.stop();
    }
}

/// The disk is full when the files of an instance are written: it waits for room.
#[cfg(feature = "faults")]
#[test]
fn an_instance_waits_for_room_for_its_payload() {
    let bench = Bench::new();
    let disk = SmallDisk::mount(&bench.data, 16);
    let agent = "cat \"$MESSAGE_PATH\" > \"$OUT/read\"; wb-agent complete --reply 1";
    bench.inbox("t/work", "timeout = \"1m\"", agent);
    let armed = bench.base.join("armed");
    let mut env = vec![("WB_FAIL_AT", "before_files"), ("WB_CRASH_WHEN", armed.as_str())];
    env.extend(disk.env());
    let server = bench.serve_with(&env);
    std::fs::write(&armed, "").unwrap();
    let payload = json!("x".repeat(200_000));
    let sent = send(&bench, "topic:t/work", payload.clone()).ok();
    let is_held = || std::fs::read_to_string(&armed).is_ok_and(|it| it == "before_files");
    until("its files are about to be written", is_held);
    disk.fill();
    std::fs::remove_file(&armed).unwrap();
    until("it waits for room", || server.log().contains("its next phase waits"));
    let job = sent["job_id"].as_str().unwrap();
    assert_eq!(bench.show(job)["status"], "running");
    disk.free();
    let told = answer(&bench, sent["message_id"].as_str().unwrap());
    assert_eq!(told["reply"], 1, "{told:#}\n{}", server.log());
    assert!(bench.left("read") == payload.as_str().unwrap(), "it has read something else");
    let folder = bench.data.join("jobs").join(job);
    let halves: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|it| it.unwrap().file_name().into_string().unwrap())
        .filter(|it| it.ends_with(".new"))
        .collect();
    assert!(halves.is_empty(), "{halves:?}");
    server.stop();
}

/// The disk is full when the files of a guard are written: its job waits for room.
#[cfg(feature = "faults")]
#[test]
fn a_job_waits_for_room_for_the_files_of_its_guard() {
    let bench = Bench::new();
    let disk = SmallDisk::mount(&bench.data, 16);
    bench.word_kind("prints", "timeout = \"1m\"", "echo started >> \"$OUT/started\"");
    let armed = bench.base.join("armed");
    let mut env = vec![("WB_FAIL_AT", "before_launch"), ("WB_CRASH_WHEN", armed.as_str())];
    env.extend(disk.env());
    let server = bench.serve_with(&env);
    let is_held = || std::fs::read_to_string(&armed).is_ok_and(|it| it == "before_launch");
    std::fs::write(&armed, "").unwrap();
    let job = bench.job("prints", json!({}));
    until("its guard is about to be started", is_held);
    disk.fill();
    std::fs::remove_file(&armed).unwrap();
    until("it waits for room", || server.log().contains("its guard waits"));
    assert_eq!(bench.show(&job)["status"], "running");
    disk.free();
    let ended = bench.ended(&job);
    assert_eq!(ended["status"], "succeeded", "{ended:#}\n{}", server.log());
    assert_eq!(bench.left("started"), "started");
    server.stop();
}

/// A worktree for which there is no room: its instance fails by name, and what was made of it is
/// removed. With room, the next one works.
#[test]
fn a_worktree_that_fills_the_disk_is_removed() {
    let bench = Bench::new();
    let disk = SmallDisk::mount(&bench.data, 32);
    if !disk.is_real() {
        // Git runs without the library that plays a full disk.
        eprintln!("skipped: no disk can be mounted here");
        return;
    }
    let words = "head -c 9000000 /dev/urandom > big.bin";
    crate::support::shell(&format!("cd '{}' && {words}", bench.top));
    bench.git(&["add", "big.bin"]);
    bench.git(&["commit", "--quiet", "-m", "big"]);
    let agent = "wb-agent complete --reply $(wc -c < big.bin)";
    bench.inbox("t/work", "timeout = \"1m\", workspace = \"worktree\"", agent);
    let server = bench.serve();
    let left = || {
        let entries = std::fs::read_dir(bench.data.join("worktrees")).into_iter().flatten();
        entries.count()
    };
    disk.fill_but(6 << 20);
    let sent = send(&bench, "topic:t/work", json!({})).ok();
    let told = answer(&bench, sent["message_id"].as_str().unwrap());
    let failure = told["failure"].as_str().unwrap_or_default();
    assert!(failure.contains("worktree"), "{told:#}");
    let job = bench.show(sent["job_id"].as_str().unwrap());
    assert_eq!(job["reason"], "prepare_failed", "{job:#}");
    until("nothing of it is left", || left() == 0);
    assert_eq!(bench.git(&["worktree", "list"]).lines().count(), 1);
    let state = || bench.get("/api/workspaces").ok()["items"][0]["state"].clone();
    until("its workspace is gone", || state().is_null() || state() == "gone");
    disk.free();
    let next = send(&bench, "topic:t/work", json!({})).ok();
    let next = answer(&bench, next["message_id"].as_str().unwrap());
    assert_eq!(next["reply"], 9_000_000, "{next:#}\n{}", server.log());
    until("nothing of it is left", || left() == 0);
    bench.quiet();
    server.stop();
}
