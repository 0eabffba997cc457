//! Workspaces that need a person, and the sweep.

use serde_json::json;

use crate::pages::Browser;
use crate::support::{Bench, until, wait_for};

/// Leaves a repository of its own in its worktree if its word says so.
const AGENT: &str = "pwd > \"$OUT/pwd\"
case $word in
  nested) mkdir inner && cd inner && git init -q && echo x > x && git add x &&
    git -c user.name=a -c user.email=a@b commit -q -m x ;;
  empty) mkdir inner && cd inner && git init -q && echo x > x ;;
  wait) until [ -e \"$OUT/go\" ]; do sleep 0.02; done ;;
esac";

/// Leaves a file, or a commit if its word says so, and is ended with its server.
const LEAVES_WORK: &str = "echo mine > result.txt
[ $word = kept ] || { git add . && git -c user.name=a -c user.email=a@b commit -q -m x; }
pwd > \"$OUT/$word\"
until [ -e \"$OUT/go\" ]; do sleep 0.02; done";

fn declare(bench: &Bench) {
    bench.word_kind("work", "timeout = \"30s\", workspace = \"worktree\"", AGENT);
}

#[test]
fn what_cannot_be_kept_waits_for_a_person() {
    let bench = Bench::new();
    declare(&bench);
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    // Also one without a commit, which git cannot add.
    let [removed, kept] = ["nested", "empty"].map(|word| {
        let job = bench.job("work", json!({"word": word}));
        let row = bench.ended(&job);
        assert_eq!(row["status"], "succeeded", "{row:#}");
        let warning = row["warnings"][0].as_str().unwrap().to_owned();
        let why = "cleanup_failed: the work is not kept: inner is a repository of its own";
        assert!(warning.starts_with(why), "{warning}");
        assert_eq!(row["workspace"]["state"], "failed", "{row:#}");
        (job, bench.left("pwd"))
    });
    let listed = bench.json(&["workspace", "list"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    assert_eq!(listed["items"][0]["job_id"], json!(kept.0));
    let page = browser.page(&format!("/jobs/{}", removed.0));
    assert!(page.contains("Needs a person") && page.contains(&removed.1), "{page}");
    // A link in its place is not followed, and the refusal is no success.
    let aside = bench.base.join("aside");
    std::fs::rename(&removed.1, &aside).unwrap();
    std::os::unix::fs::symlink(&aside, &removed.1).unwrap();
    let (exit, out, _) = bench.cli(&["workspace", "remove", &removed.0]);
    assert!(exit == 1 && out.contains("was not removed"), "{exit}: {out}");
    std::fs::remove_file(&removed.1).unwrap();
    std::fs::rename(&aside, &removed.1).unwrap();
    let done = bench.json(&["workspace", "remove", &removed.0]);
    assert_eq!((&done["state"], &done["note"]), (&json!("gone"), &json!(null)));
    assert!(!std::path::Path::new(&removed.1).exists());
    let done = bench.json(&["workspace", "keep", &kept.0]);
    assert_eq!(done["state"], "gone");
    assert!(std::path::Path::new(&kept.1).join("inner/x").is_file());
    for verb in ["keep", "remove"] {
        let again = bench.post(&format!("/api/workspaces/{}/{verb}", kept.0), json!({}));
        assert_eq!(again.refusal(), (409, "workspace_state"), "{verb}");
    }
    let none = bench.post("/api/workspaces/01a20778-3ba4-73b0-9f38-8ba7174fe0b3/keep", json!({}));
    assert_eq!(none.refusal().0, 404);
    server.stop();
}

/// An agent that proposes can work in a worktree. Its prompt names that folder, so an agent that
/// writes where it is told to never writes to the user's files.
#[test]
fn a_proposal_can_come_from_a_worktree() {
    let bench = Bench::new();
    let agent = "pwd > \"$OUT/pwd\"; sed -i 's/first/best/' \"$root/guide.md\"
        propose --summary better < \"$root/guide.md\"";
    bench.topic_kind(
        "incorporate",
        "produces = \"proposal\", timeout = \"30s\", workspace = \"worktree\"",
        agent,
    );
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Better.");
    let shown = bench.proposal("incorporate", &topic);
    assert!(shown["text"].as_str().unwrap().contains("The best line."), "{shown:#}");
    assert!(bench.left("pwd").contains("/data/worktrees/wt-"), "{}", bench.left("pwd"));
    assert!(bench.read("guide.md").contains("The first line."));
    assert_eq!(bench.status(), "");
    server.stop();
}

/// A worktree has what is committed: a skill that is not would be missed in the middle of the work.
#[test]
fn an_agent_is_not_started_in_a_worktree_without_its_skill() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.top.join("skills/wb-word")).unwrap();
    let skill = "---\nname: wb-word\ndescription: Words.\n---\nSay the word.\n";
    bench.write("skills/wb-word/SKILL.md", skill);
    let fields = "timeout = \"30s\", workspace = \"worktree\", skill = \"skills/wb-word\"";
    bench.word_kind("work", fields, "cat skills/wb-word/SKILL.md > \"$OUT/skill\"");
    let server = bench.serve();
    let refused = bench.ended(&bench.job("work", json!({})));
    assert_eq!(
        (&refused["status"], &refused["reason"]),
        (&json!("failed"), &json!("prepare_failed"))
    );
    let tail = refused["error_tail"].as_str().unwrap();
    assert!(tail.contains("skills/wb-word is not committed"), "{tail}");
    assert_eq!(refused["workspace"]["state"], "gone");
    bench.git(&["add", "skills"]);
    bench.git(&["commit", "-q", "-m", "a skill"]);
    let done = bench.ended(&bench.job("work", json!({})));
    assert_eq!(done["status"], "succeeded", "{done:#}");
    assert_eq!(bench.left("skill"), skill.trim_end());
    server.stop();
}

/// The paths in the database, and those of git, name the folder that the site was in.
#[test]
fn a_moved_site_keeps_the_work_of_its_worktrees() {
    let mut bench = Bench::new();
    bench.word_kind("work", "timeout = \"30s\", workspace = \"worktree\"", LEAVES_WORK);
    let server = bench.serve();
    let jobs = ["kept", "lost"].map(|word| bench.job("work", json!({"word": word})));
    let places = ["kept", "lost"].map(|word| bench.wait_left(word));
    server.stop();
    std::fs::remove_dir_all(&places[1]).unwrap();
    let (old, new) = (bench.top.clone(), bench.base.join("moved site"));
    std::fs::rename(&old, &new).unwrap();
    (bench.data, bench.top) = (new.join("data"), new);
    let server = bench.serve();
    let rows = jobs.each_ref().map(|job| {
        bench.ended(job);
        until("its workspace is done", || {
            let state = bench.show(job)["workspace"]["state"].clone();
            state == "gone" || state == "failed"
        });
        bench.show(job)["workspace"].clone()
    });
    // What an agent left is kept, and its folder is removed.
    assert_eq!((&rows[0]["state"], &rows[0]["note"]), (&json!("gone"), &json!(null)));
    let kept = rows[0]["kept_ref"].as_str().unwrap();
    assert_eq!(bench.git(&["show", &format!("{kept}:result.txt")]).trim(), "mine");
    let now = places[0].replace(old.as_str(), bench.top.as_str());
    assert_eq!(rows[0]["path"], json!(now));
    assert!(!std::path::Path::new(&now).exists() && !old.exists());
    // What is nowhere needs a person; its commits are in the repository.
    assert_eq!(rows[1]["state"], "failed", "{rows:#?}");
    assert!(rows[1]["note"].as_str().unwrap().contains(" is missing, "), "{rows:#?}");
    let done = bench.json(&["workspace", "remove", &jobs[1]]);
    assert_eq!(done["state"], "gone");
    let kept = done["kept_ref"].as_str().unwrap();
    assert_eq!(bench.git(&["show", &format!("{kept}:result.txt")]).trim(), "mine");
    assert_eq!(bench.json(&["workspace", "sweep"])["items"], json!([]));
    server.stop();
}

/// Which is what people do whose disk is full.
#[test]
fn a_site_that_left_a_link_at_its_old_place_keeps_the_work_of_its_worktrees() {
    let mut bench = Bench::new();
    bench.word_kind("work", "timeout = \"30s\", workspace = \"worktree\"", LEAVES_WORK);
    let server = bench.serve();
    let job = bench.job("work", json!({"word": "kept"}));
    let place = bench.wait_left("kept");
    server.stop();
    let (old, new) = (bench.top.clone(), bench.base.join("moved site"));
    std::fs::rename(&old, &new).unwrap();
    std::os::unix::fs::symlink(&new, &old).unwrap();
    (bench.data, bench.top) = (new.join("data"), new);
    let server = bench.serve();
    let row = wait_for("its workspace is done", || {
        let row = bench.show(&job)["workspace"].clone();
        Some(row).filter(|it| it["state"] == "gone" || it["state"] == "failed")
    });
    assert_eq!((&row["state"], &row["note"]), (&json!("gone"), &json!(null)));
    assert_eq!(row["path"], json!(place.replace(old.as_str(), bench.top.as_str())));
    let kept = row["kept_ref"].as_str().unwrap();
    assert_eq!(bench.git(&["show", &format!("{kept}:result.txt")]).trim(), "mine");
    server.stop();
}

#[test]
fn a_workspace_that_is_used_is_nobodys_to_remove() {
    let bench = Bench::new();
    declare(&bench);
    let server = bench.serve();
    let job = bench.job("work", json!({"word": "wait"}));
    bench.wait_left("pwd");
    assert_eq!(bench.show(&job)["workspace"]["state"], "ready");
    for verb in ["keep", "remove"] {
        let refused = bench.post(&format!("/api/workspaces/{job}/{verb}"), json!({}));
        assert_eq!(refused.refusal(), (409, "still_running"), "{verb}");
    }
    assert_eq!(bench.json(&["workspace", "sweep"])["items"], json!([]));
    std::fs::write(bench.out.join("go"), "").unwrap();
    let row = bench.ended(&job);
    assert_eq!((&row["status"], &row["workspace"]["state"]), (&json!("succeeded"), &json!("gone")));
    server.stop();
}

#[cfg(feature = "faults")]
#[test]
fn the_sweep_tries_a_failed_cleanup_again() {
    let bench = Bench::new();
    let cleanup = format!("cleanup = [[test ! -e {}/broken]]", bench.out);
    bench.word_kind("work", &format!("timeout = \"30s\", {cleanup}"), "true");
    let clock = bench.base.join("clock");
    std::fs::write(&clock, "0").unwrap();
    std::fs::write(bench.out.join("broken"), "").unwrap();
    let server = bench.serve_with(&[("WB_CLOCK", clock.as_str())]);
    let job = bench.job("work", json!({}));
    assert_eq!(bench.ended(&job)["workspace"]["state"], "failed");
    // It is not tried at once.
    assert_eq!(bench.json(&["workspace", "sweep"])["items"], json!([]));
    std::fs::write(&clock, "120000").unwrap();
    std::fs::remove_file(bench.out.join("broken")).unwrap();
    let sweep = |more: &[&str]| bench.json(&[&["workspace", "sweep"], more].concat());
    let told = sweep(&["--dry-run"]);
    assert_eq!((&told["items"][0]["job_id"], &told["dry_run"]), (&json!(job), &json!(true)));
    assert_eq!(bench.show(&job)["workspace"]["state"], "failed");
    assert_eq!(sweep(&[])["items"][0]["problem"], json!(null));
    until("it is gone", || bench.show(&job)["workspace"]["state"] == "gone");
    assert_eq!(sweep(&[])["items"], json!([]));
    server.stop();
}

/// Nobody asks for the sweep.
#[cfg(feature = "faults")]
#[test]
fn a_failed_cleanup_is_repeated_by_itself() {
    let bench = Bench::new();
    let cleanup = format!("cleanup = [[test ! -e {}/broken]]", bench.out);
    bench.word_kind("work", &format!("timeout = \"30s\", {cleanup}"), "true");
    let clock = bench.base.join("clock");
    std::fs::write(&clock, "0").unwrap();
    std::fs::write(bench.out.join("broken"), "").unwrap();
    let server = bench.serve_with(&[("WB_CLOCK", clock.as_str())]);
    let first = bench.job("work", json!({}));
    assert_eq!(bench.ended(&first)["workspace"]["state"], "failed");
    std::fs::write(&clock, "61000").unwrap();
    std::fs::remove_file(bench.out.join("broken")).unwrap();
    // The end of another one rings; without it, the clock is looked at within 20 s.
    let second = bench.job("work", json!({}));
    assert_eq!(bench.ended(&second)["workspace"]["state"], "gone");
    until("it is gone", || bench.show(&first)["workspace"]["state"] == "gone");
    server.stop();
}
