//! What a restored or recovered database must keep, and what is refused before anything is changed.

use std::os::unix::fs::{MetadataExt as _, chown};

use serde_json::{Value, json};

use super::desk::{ADDS_A_LINE, PROPOSES, refused, said};
use crate::support::{Bench, Topic, shell};

fn bench() -> Bench {
    let bench = Bench::new();
    bench.topic_kind("incorporate", PROPOSES, ADDS_A_LINE);
    bench.word_kind("note", "timeout = \"20s\", lane = \"word\"", "echo done");
    bench.word_kind("long", "timeout = \"1h\", lane = \"word\"", "exec sleep 600");
    bench
}

fn backup(bench: &Bench) -> String {
    bench.json(&["backup"])["path"].as_str().unwrap().to_owned()
}

#[test]
fn what_ran_or_was_cancelled_after_the_backup_is_not_started_again() {
    let bench = bench();
    let server = bench.serve();
    let running = bench.job("long", json!({"word": "busy"}));
    bench.wait_status(&running, "running");
    let [ran, unwanted] = ["a", "b"].map(|_| bench.job("note", json!({"word": "busy"})));
    let later = bench.job("note", json!({"word": "l", "not_before": "2100-01-01T00:00:00Z"}));
    let backup = backup(&bench);
    let cancel = |job: &str| bench.post(&format!("/api/agent/jobs/{job}/cancel"), json!({})).ok();
    cancel(&unwanted);
    cancel(&running);
    assert_eq!(bench.ended(&ran)["status"], "succeeded");
    server.stop();
    // Folders are kept for a while only, and what was cancelled while it waited never had one.
    std::fs::remove_dir_all(bench.data.join("jobs").join(&ran)).unwrap();
    assert!(!bench.data.join("jobs").join(&unwanted).exists());
    let report = bench.json(&["restore", &backup]);
    assert_eq!(report["jobs_cancelled"], json!([ran, unwanted]), "{report:#}");
    let server = bench.serve();
    for job in [&ran, &unwanted] {
        assert_eq!(bench.show(job)["status"], "cancelled");
    }
    assert_eq!(bench.show(&later)["status"], "queued");
    server.stop();
    // A database that cannot say what became of them lets none of them start.
    std::fs::write(bench.data.join("wiki.db"), "damaged").unwrap();
    let report = bench.json(&["restore", &backup]);
    assert_eq!(report["jobs_cancelled"], json!([ran, unwanted, later]), "{report:#}");
}

/// A copy of a site has jobs with the ids of its original, and ends none of its processes.
#[test]
fn a_backup_that_is_tried_elsewhere_leaves_its_original_alone() {
    let original = bench();
    let server = original.serve();
    let job = original.job("long", json!({"word": "busy"}));
    original.wait_status(&job, "running");
    let backup = backup(&original);
    let copy = bench();
    copy.serve().stop();
    copy.json(&["restore", &backup]);
    let other = copy.serve();
    let ended = copy.ended(&job);
    assert_eq!(
        (&ended["status"], &ended["reason"]),
        (&json!("failed"), &json!("server_restarted"))
    );
    other.stop();
    assert_eq!(original.show(&job)["status"], "running");
    original.post(&format!("/api/agent/jobs/{job}/cancel"), json!({})).ok();
    assert_eq!(original.ended(&job)["status"], "cancelled");
    server.stop();
}

/// No row of the restored database leads to them, so no server would ever look at them.
#[test]
fn work_in_worktrees_made_since_the_backup_is_saved() {
    let bench = bench();
    let work = "echo draft > draft; echo ok > \"$OUT/$word.part\"; mv \"$OUT/$word.part\" \
                \"$OUT/$word\"; exec sleep 600";
    bench.word_kind("work", "timeout = \"1h\", workspace = \"worktree\"", work);
    let tidy = "timeout = \"1h\", workspace = \"worktree\", cleanup = \"exit 3\"";
    bench.word_kind("tidy", tidy, work);
    let server = bench.serve();
    let backup = backup(&bench);
    let [saved, stays] = ["work", "tidy"].map(|kind| {
        let job = bench.job(kind, json!({"word": kind}));
        bench.wait_left(kind);
        job
    });
    server.kill();
    bench.quiet();
    let report = bench.json(&["restore", &backup]);
    let of = |job: &str| {
        let all = report["worktrees"].as_array().unwrap();
        all.iter().find(|it| it["job_id"] == job).unwrap_or_else(|| panic!("{report:#}")).clone()
    };
    let (saved, stays) = (of(&saved), of(&stays));
    let name = saved["kept_ref"].as_str().unwrap_or_else(|| panic!("{saved}"));
    assert_eq!(bench.git(&["show", &format!("{name}:draft")]).trim(), "draft");
    let path = |it: &Value| camino::Utf8PathBuf::from(it["path"].as_str().unwrap());
    assert!(!path(&saved).exists() && path(&stays).join("draft").is_file());
    assert!(stays["problem"].as_str().unwrap().contains("cleanup"), "{stays}");
}

#[test]
fn another_data_folder_than_the_scripts_is_refused() {
    let bench = bench();
    let server = bench.serve();
    let backup = backup(&bench);
    server.stop();
    let other = bench.base.join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::copy(&backup, other.join("wiki.db")).unwrap();
    let folders = [&other, &bench.data].map(|it| it.join("wiki.db"));
    let before = folders.clone().map(|it| std::fs::read(it).unwrap());
    for command in [
        &["restore", &backup][..],
        &["recover"],
        &["recover", "--dry-run"],
        &["cleanup"],
        &["backup"],
        &["backup", "--list"],
    ] {
        for named in [other.as_str(), "no-such-folder"] {
            let error = refused(&bench, &[command, &["--data", named]].concat(), 2, "other_data");
            assert!(error["message"].as_str().unwrap().contains(bench.data.as_str()), "{error}");
        }
    }
    assert_eq!(folders.map(|it| std::fs::read(it).unwrap()), before);
    // By another name it is the same folder.
    std::os::unix::fs::symlink(&bench.data, bench.base.join("link")).unwrap();
    for named in ["data", "./docs/../data", "../link"] {
        said(&bench, &["cleanup", "--data", named]);
    }
    assert!(said(&bench, &["restore", &backup, "--data", "data"]).contains("restored "));
}

#[test]
fn another_user_than_the_owner_is_refused_before_anything_is_written() {
    let bench = bench();
    let server = bench.serve();
    let backup = backup(&bench);
    server.stop();
    let folder = |path: &str| bench.top.join(path).metadata().unwrap();
    let is_root = shell("id -u") == "0";
    if is_root {
        chown(&bench.data, Some(65_534), None).unwrap();
    } else {
        // Who may not give a folder away takes one that is another's.
        let script = bench.read("wiki-browser.lua").replace("\"./data\"", "\"/usr/share\"");
        bench.write("wiki-browser.lua", script);
    }
    let before = folder("data");
    for command in [&["restore", &backup][..], &["recover"], &["cleanup"], &["backup", "new.db"]] {
        let error = refused(&bench, command, 3, "wrong_user");
        let hint = error["hint"].as_str().unwrap();
        assert!(hint.contains("sudo -u '"), "{error}");
        assert!(!is_root || hint.contains("'nobody'") || hint.contains("'#65534'"), "{error}");
    }
    let after = folder("data");
    assert_eq!(
        (before.mtime_nsec(), before.ctime_nsec()),
        (after.mtime_nsec(), after.ctime_nsec())
    );
    assert!(!bench.top.join("new.db").exists());
    // Of a data folder that is not there yet the script's owner is the one.
    if is_root {
        std::fs::rename(&bench.data, bench.base.join("aside")).unwrap();
        let copy = backup.replace(bench.data.as_str(), bench.base.join("aside").as_str());
        chown(&bench.top, Some(65_534), None).unwrap();
        // Whose script it is does not stop who names it.
        let trusted = ["restore", &copy, "--config", "wiki-browser.lua"];
        refused(&bench, &trusted, 3, "wrong_user");
        assert!(!bench.data.exists());
        chown(&bench.top, Some(0), None).unwrap();
        assert!(said(&bench, &["restore", &copy]).contains("restored "));
    }
}

/// SQLite takes a file of no bytes for a new database, and removes its log.
#[test]
fn the_log_of_a_database_that_was_emptied_is_never_lost() {
    let bench = bench();
    let server = bench.serve();
    let copy = backup(&bench);
    bench.topic("guide.md", "The first line", "KEEPME");
    server.kill();
    let (database, log) = (bench.data.join("wiki.db"), bench.data.join("wiki.db-wal"));
    let first = std::fs::read(&database).unwrap();
    let logged = std::fs::read(&log).unwrap();
    assert!(String::from_utf8_lossy(&logged).contains("KEEPME"));
    std::fs::write(&database, "").unwrap();
    let commands: [&[&str]; 4] =
        [&["doctor"], &["recover", "--dry-run"], &["recover"], &["backup", "new.db"]];
    for command in commands {
        let output = super::wiki_browser(bench.top.as_std_path()).args(command).output().unwrap();
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        // A backup names what it cannot copy in its own words.
        let is_named = said.contains("is empty, though its log holds");
        assert!(is_named || command[0] == "backup", "{command:?}: {said}");
        assert!(!output.status.success() || command.contains(&"--dry-run"), "{command:?}: {said}");
        assert_eq!(std::fs::read(&log).unwrap(), logged, "{command:?}");
        assert_eq!(database.metadata().unwrap().len(), 0, "{command:?}");
    }
    // A backup in its place keeps the log aside.
    assert!(said(&bench, &["restore", &copy]).contains("restored "));
    let kept = std::fs::read_dir(bench.data.join("backups")).unwrap();
    let kept = kept.map(|it| std::fs::read(it.unwrap().path()).unwrap());
    assert!(kept.into_iter().any(|it| it == logged));
    // With its first page it would have been whole.
    std::fs::write(&database, first).unwrap();
    std::fs::write(&log, logged).unwrap();
    assert!(!said(&bench, &["recover"]).is_empty());
    let _server = bench.serve();
    assert!(bench.get("/api/topics").body.to_string().contains("KEEPME"));
}

#[test]
fn an_emptied_database_without_a_log_is_not_called_saved() {
    let bench = bench();
    bench.serve().stop();
    bench.sql("UPDATE site SET epoch = epoch");
    std::fs::write(bench.data.join("wiki.db"), "").unwrap();
    for ending in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(bench.data.join(format!("wiki.db{ending}")));
    }
    let error = refused(&bench, &["recover"], 6, "database_corrupt");
    assert!(error["hint"].as_str().unwrap().contains("restore"), "{error}");
    assert_eq!(bench.data.join("wiki.db").metadata().unwrap().len(), 0);
}

#[test]
fn who_had_a_lower_role_since_the_backup_has_it_again() {
    let bench = bench();
    let server = bench.serve();
    said(&bench, &["person", "add", "bo", "--role", "admin"]);
    said(&bench, &["person", "add", "cy", "--role", "viewer"]);
    let token = bench.json(&["token", "create", "ci", "--person", "bo"]);
    let both = backup(&bench);
    said(&bench, &["person", "role", "bo", "viewer"]);
    said(&bench, &["person", "role", "cy", "member"]);
    server.stop();
    let report = bench.json(&["restore", &both]);
    assert_eq!((&report["persons_lowered"], &report["tokens_ended"]), (&json!(1), &json!(0)));
    assert_eq!(report["admin_kept"], Value::Null);
    let server = bench.serve();
    let roles = || {
        let all = bench.json(&["person", "list"]);
        let all = all["items"].as_array().unwrap().clone();
        all.into_iter().map(|it| (it["name"].clone(), it["role"].clone())).collect::<Vec<_>>()
    };
    let expected = [("ada", "admin"), ("bo", "viewer"), ("cy", "viewer")];
    assert_eq!(roles(), expected.map(|(name, role)| (json!(name), json!(role))));
    // The backup has no admin but who is one no more, and who is gone: the milder case stays.
    said(&bench, &["person", "role", "bo", "admin"]);
    let two = backup(&bench);
    said(&bench, &["person", "add", "di", "--role", "admin"]);
    said(&bench, &["person", "disable", "ada", "--yes"]);
    server.stop();
    let server = bench.serve();
    said(&bench, &["person", "role", "bo", "member", "--yes"]);
    server.stop();
    let report = bench.json(&["restore", &two]);
    assert_eq!(report["admin_kept"], "bo", "{report:#}");
    assert_eq!((&report["persons_disabled"], &report["tokens_ended"]), (&json!(1), &json!(1)));
    let server = bench.serve();
    let me = bench.json(&["person", "list"]);
    let active = |it: &&Value| it["role"] == "admin" && it["disabled_at"].is_null();
    let admins: Vec<_> = me["items"].as_array().unwrap().iter().filter(active).collect();
    assert_eq!((admins.len(), &admins[0]["name"]), (1, &json!("bo")));
    let call = crate::support::Call::get("/api/me").token(token["token"].as_str().unwrap());
    assert_eq!(bench.send(&call).status, 401);
    server.stop();
}

/// Commits what is proposed as whoever may commit could, with the trailers of an approval.
fn forge(bench: &Bench, topic: &Topic, shown: &Value) {
    bench.write(&topic.path, shown["text"].as_str().unwrap());
    let message = format!("Incorporate: x\n\nApproved-by: ada\nTopic: {}\n", topic.id);
    bench.git(&["commit", "-qam", &message]);
}

#[test]
fn nobody_approves_by_what_a_commit_says() {
    let bench = bench();
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The second line.", "One more, please.");
    let shown = bench.proposal("incorporate", &topic);
    let backup = backup(&bench);
    server.stop();
    forge(&bench, &topic, &shown);
    let check = |report: &Value, settled: bool| {
        let found = &report["approvals"][0];
        assert_eq!(found["settled"], settled, "{report:#}");
        assert_eq!(found["claimed_by"], "ada");
    };
    let status = |status: &str| {
        let server = bench.serve();
        let id = shown["proposal"]["id"].as_str().unwrap();
        let now = bench.get(&format!("/api/proposals/{id}")).ok();
        server.stop();
        assert_eq!(now["proposal"]["status"], status);
        now["proposal"]["decided_by_name"].clone()
    };
    check(&bench.json(&["recover", "--dry-run"]), false);
    check(&bench.json(&["recover"]), false);
    assert_eq!(status("open"), Value::Null);
    let told = said(&bench, &["recover"]);
    assert!(told.contains("is still open") && told.contains("claims approval by ada"), "{told}");
    // The replaced database knows that nobody approved it.
    check(&bench.json(&["restore", &backup]), false);
    assert_eq!(status("open"), Value::Null);
    check(&bench.json(&["recover", "--adopt"]), true);
    assert_eq!(status("approved"), "system");
    let note: String = rusqlite::Connection::open(bench.data.join("wiki.db"))
        .unwrap()
        .query_row("SELECT note FROM incorporation_attempts", [], |row| row.get(0))
        .unwrap();
    assert_eq!(note, "found in git; the commit says: approved by ada");
    // Where nothing can say who it was, it was nobody.
    std::fs::write(bench.data.join("wiki.db"), "damaged").unwrap();
    check(&bench.json(&["restore", &backup]), true);
    assert_eq!(status("approved"), "system");
}
