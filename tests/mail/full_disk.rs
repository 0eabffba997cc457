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
