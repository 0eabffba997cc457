//! What a restored database takes over from the one that it replaces, and from those before it.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt as _;

use serde_json::{Value, json};

use super::desk::said;
use crate::engines::limits::read_kind;
use crate::places::{events, ready};
use crate::support::{Bench, Call, until};

fn bench() -> Bench {
    let bench = Bench::new();
    bench.word_kind("next", "timeout = \"20s\"", "exit 0");
    bench
}

fn backup(bench: &Bench) -> String {
    bench.json(&["backup"])["path"].as_str().unwrap().to_owned()
}

#[test]
fn what_nobody_has_decided_about_holds_after_a_restore_to_before_its_job() {
    let bench = bench();
    let write = format!("echo x > '{}/AGENTS.md'", bench.top);
    bench.word_kind("writes", "timeout = \"20s\"", &write);
    let server = bench.serve();
    let backup = backup(&bench);
    let job = bench.job("writes", json!({}));
    assert_eq!(bench.ended(&job)["status"], "succeeded");
    server.stop();
    let report = bench.json(&["restore", &backup]);
    assert_eq!(report["jobs_undecided"], json!([job]), "{report:#}");
    let server = bench.serve();
    let next = bench.job("next", json!({}));
    let waiting = bench.show(&next)["waiting"].clone();
    assert_eq!((&waiting["code"], &waiting["job_id"]), (&json!("engine_held"), &json!(job)));
    assert_eq!(bench.show(&job)["status"], "succeeded");
    let (code, out, err) = bench.cli(&["job", "restore", &job]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(!bench.top.join("AGENTS.md").exists());
    assert_eq!(bench.ended(&next)["status"], "succeeded");
    server.stop();
    // What was decided since stays decided.
    let report = bench.json(&["restore", &backup]);
    assert_eq!(report["jobs_undecided"], json!([]), "{report:#}");
    let server = bench.serve();
    assert_eq!(bench.ended(&bench.job("next", json!({})))["status"], "succeeded");
    server.stop();
}

/// Nobody has looked yet when its database is replaced.
#[test]
fn what_a_job_changed_whose_server_died_is_found_after_a_restore_to_before_it() {
    let bench = bench();
    let write = format!("echo x > '{}/AGENTS.md'; echo ok > \"$OUT/ready\"", bench.top);
    bench.word_kind("left", "timeout = \"1h\"", &format!("{write}; exec sleep 600"));
    let server = bench.serve();
    let backup = backup(&bench);
    let job = bench.job("left", json!({}));
    bench.wait_left("ready");
    server.kill();
    bench.quiet();
    let report = bench.json(&["restore", &backup]);
    assert_eq!(report["jobs_undecided"], json!([job]), "{report:#}");
    let server = bench.serve();
    let ended = bench.ended(&job);
    let how = (&ended["status"], &ended["reason"]);
    assert_eq!(how, (&json!("failed"), &json!("server_restarted")));
    until("somebody has looked", || bench.show(&job)["changes"]["state"] == "open");
    let (code, out, err) = bench.cli(&["job", "restore", &job]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(!bench.top.join("AGENTS.md").exists());
    server.stop();
}

#[test]
fn a_job_that_ran_at_the_time_of_the_backup_and_ended_since_holds_nobody() {
    let bench = bench();
    let wait = "echo ok > \"$OUT/ready\"; while [ ! -e \"$OUT/go\" ]; do sleep 0.05; done";
    bench.word_kind("waits", "timeout = \"1h\"", wait);
    let server = bench.serve();
    let job = bench.job("waits", json!({}));
    bench.wait_left("ready");
    let backup = backup(&bench);
    std::fs::write(bench.out.join("go"), "").unwrap();
    assert_eq!(bench.ended(&job)["status"], "succeeded");
    server.stop();
    let report = bench.json(&["restore", &backup]);
    assert_eq!((&report["jobs_running"], &report["jobs_undecided"]), (&json!(1), &json!([])));
    let server = bench.serve();
    let ended = bench.ended(&job);
    assert_eq!((&ended["status"], &ended["changes"]), (&json!("succeeded"), &Value::Null));
    assert_eq!(bench.ended(&bench.job("next", json!({})))["status"], "succeeded");
    server.stop();
}

/// As after a restore into another folder: nothing there says what there was before.
#[test]
fn what_nobody_can_tell_any_more_is_kept_with_one_decision() {
    let bench = bench();
    let wait = "echo ok >> \"$OUT/ready\"; exec sleep 600";
    bench.word_kind("left", "timeout = \"1h\"", wait);
    bench.limits("jobs = 4");
    let server = bench.serve();
    let jobs = [bench.job("left", json!({})), bench.job("left", json!({}))];
    until("both run", || bench.left("ready").lines().count() == 2);
    let backup = backup(&bench);
    server.kill();
    bench.quiet();
    std::fs::remove_dir_all(bench.data.join("jobs")).unwrap();
    bench.json(&["restore", &backup]);
    let server = bench.serve();
    jobs.iter().for_each(|job| assert_eq!(bench.ended(job)["status"], "failed"));
    let next = bench.job("next", json!({}));
    let says = || bench.show(&next)["waiting"]["message"].as_str().unwrap_or_default().to_owned();
    until("both are named", || says().contains("and 1 more is lost"));
    let (_, doctor, _) = bench.cli(&["doctor"]);
    assert!(doctor.contains("no agent starts: what there was before job"), "{doctor}");
    let (code, out, err) = bench.cli(&["job", "restore", &jobs[1]]);
    assert!(code == 5 && err.contains("is lost") && err.contains("job keep"), "{code} {out}{err}");
    let (code, out, err) = bench.cli(&["job", "keep", &jobs[1]]);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(bench.ended(&next)["status"], "succeeded");
    server.stop();
}

/// The first backup was too old, and knew nothing of what was taken back since.
#[test]
fn what_a_restore_before_replaced_counts_for_the_next_one_too() {
    let bench = bench();
    let server = bench.serve();
    let oldest = backup(&bench);
    let token = bench.json(&["token", "create", "one", "--scope", "read"]);
    said(&bench, &["person", "add", "bo"]);
    let right = backup(&bench);
    said(&bench, &["token", "revoke", "one"]);
    said(&bench, &["person", "disable", "bo"]);
    server.stop();
    bench.json(&["restore", &oldest]);
    let report = bench.json(&["restore", &right]);
    let counts = (&report["tokens_ended"], &report["persons_disabled"]);
    assert_eq!(counts, (&json!(1), &json!(1)), "{report:#}");
    let server = bench.serve();
    let call = Call::get("/api/me").token(token["token"].as_str().unwrap());
    assert_eq!(bench.send(&call).status, 401);
    // What was allowed again since is not taken back by what is older.
    said(&bench, &["person", "enable", "bo"]);
    let newest = backup(&bench);
    server.stop();
    let report = bench.json(&["restore", &newest]);
    assert_eq!(report["persons_disabled"], 0, "{report:#}");
}

/// The content of an older backup, which a restore by mistake has put in force, says nothing of
/// what happened after it.
#[test]
fn a_restore_that_undoes_another_one_takes_nothing_for_newer_than_it_is() {
    let bench = bench();
    bench.word_kind("waits", "timeout = \"20s\"", "exit 0");
    let server = bench.serve();
    // Without a folder of jobs, nothing would show that one was not started.
    bench.ended(&bench.job("waits", json!({})));
    said(&bench, &["person", "add", "bo"]);
    said(&bench, &["person", "disable", "bo"]);
    let oldest = backup(&bench);
    said(&bench, &["person", "enable", "bo"]);
    let waits = bench.job("waits", json!({"not_before": "2100-01-01T00:00:00Z"}));
    let cancelled = bench.job("waits", json!({"not_before": "2100-01-01T00:00:00Z"}));
    let right = backup(&bench);
    bench.post(&format!("/api/agent/jobs/{cancelled}/cancel"), json!({})).ok();
    server.stop();
    bench.json(&["restore", &oldest]);
    let report = bench.json(&["restore", &right]);
    assert_eq!(report["jobs_cancelled"], json!([cancelled]), "{report:#}");
    assert_eq!(report["persons_disabled"], 0, "{report:#}");
    let server = bench.serve();
    assert_eq!(bench.show(&waits)["status"], "queued");
    server.stop();
}

/// The rows of holds are among those that are lost, and what they were made of is not.
#[test]
fn what_nobody_has_decided_about_holds_after_a_recovery_that_lost_the_hold() {
    let bench = bench();
    let write = format!("echo x > '{}/AGENTS.md'", bench.top);
    bench.word_kind("writes", "timeout = \"20s\"", &write);
    let server = bench.serve();
    let job = bench.job("writes", json!({}));
    assert_eq!(bench.ended(&job)["status"], "succeeded");
    server.stop();
    let database = bench.data.join("wiki.db");
    let root: i64 = {
        let connection = rusqlite::Connection::open(&database).unwrap();
        let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'steering_holds'";
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let file = std::fs::OpenOptions::new().write(true).open(&database).unwrap();
    file.write_all_at(&[0xa5; 4096], (root as u64 - 1) * 4096).unwrap();
    let report = bench.json(&["recover"]);
    assert_eq!(report["jobs_undecided"], json!([job]), "{report:#}");
    let server = bench.serve();
    let next = bench.job("next", json!({}));
    let waiting = bench.show(&next)["waiting"].clone();
    assert_eq!((&waiting["code"], &waiting["job_id"]), (&json!("engine_held"), &json!(job)));
    said(&bench, &["job", "restore", &job]);
    assert_eq!(bench.ended(&next)["status"], "succeeded");
    server.stop();
}

fn commit(bench: &Bench, path: &str, text: &str) {
    bench.write(path, text);
    bench.git(&["add", path]);
    bench.git(&["commit", "-qm", "by hand"]);
}

#[test]
fn a_commit_that_handlers_heard_of_is_not_told_again_after_a_restore_to_before_it() {
    let bench = bench();
    bench.word_kind("heard", "timeout = \"20s\"", "exit 0");
    bench.lua(
        "wb.on(\"source_changed\", function(event)
           if not event.data.commit then return end
           wb.enqueue { kind = \"heard\", word = event.data.path }
         end)\n",
    );
    let jobs = |bench: &Bench| bench.get("/api/agent/jobs?kind=heard").ok()["items"].clone();
    let count = |bench: &Bench| jobs(bench).as_array().unwrap().len();
    let server = bench.serve();
    ready(&bench);
    let backup = backup(&bench);
    commit(&bench, "guide.md", "# Guide\n\nAnother text.\n");
    until("it is heard", || count(&bench) == 1);
    bench.ended(jobs(&bench)[0]["id"].as_str().unwrap());
    server.stop();
    bench.json(&["restore", &backup]);
    let server = bench.serve();
    // A later one is told, and the one before it was passed over by then.
    commit(&bench, "other.md", "# Other\n");
    until("it is heard", || count(&bench) > 0);
    assert_eq!(jobs(&bench)[0]["inputs"]["word"], "other.md");
    commit(&bench, "guide.md", "# Guide\n\nA third text.\n");
    let is_guide = |it: &Value| it["inputs"]["word"] == "guide.md";
    until("it is heard", || jobs(&bench).as_array().unwrap().iter().any(is_guide));
    server.stop();
}

/// Declares handlers of all changes of documents and of ends of jobs, whose words tell what they
/// heard.
fn hears(bench: &Bench) {
    bench.word_kind("heard", "timeout = \"20s\"", "exit 0");
    bench.lua(
        "local function hear(word) wb.enqueue { kind = \"heard\", word = word } end
         wb.on(\"source_changed\", function(event)
           local data = event.data
           hear(data.path .. (data.commit and \" committed\" or \" edited\"))
         end)
         wb.on(\"source_renamed\", function(event) hear(\"from \" .. event.data.from) end)
         wb.on(\"sources_changed\", function(event) hear(\"many \" .. event.data.count) end)
         wb.on(\"job_finished\", function(event)
           if event.data.kind == \"next\" then hear(\"next ended\") end
         end)\n",
    );
}

/// Returns what was heard, by the jobs that say it.
fn heard(bench: &Bench) -> BTreeMap<String, String> {
    let jobs = bench.get("/api/agent/jobs?kind=heard&limit=100").ok();
    let text = |it: &Value| it.as_str().unwrap().to_owned();
    let items = jobs["items"].as_array().unwrap().iter();
    items.map(|it| (text(&it["id"]), text(&it["inputs"]["word"]))).collect()
}

fn hears_of(bench: &Bench, word: &str) {
    until("it is heard", || heard(bench).values().any(|it| it == word));
}

/// Returns what is heard after a restore, but for a last change, which comes after all that the
/// first look has seen. Jobs that were carried over had heard it before.
fn heard_since(bench: &Bench, before: &BTreeMap<String, String>) -> Vec<String> {
    commit(bench, "last.md", "# Last\n");
    hears_of(bench, "last.md committed");
    let new = heard(bench).into_iter().filter(|it| !before.contains_key(&it.0)).map(|it| it.1);
    new.filter(|it| !it.starts_with("last.md")).collect()
}

#[test]
fn renames_and_many_changes_that_handlers_heard_of_are_not_told_again() {
    let bench = bench();
    hears(&bench);
    // Their folder takes the place of the one before: no look sees only some of them.
    let many = |text: &str| {
        let (folder, next) = (bench.top.join("many"), bench.base.join("next"));
        std::fs::create_dir(&next).unwrap();
        (0..201).for_each(|n| std::fs::write(next.join(format!("{n}.md")), text).unwrap());
        if folder.exists() {
            std::fs::rename(&folder, bench.base.join("before")).unwrap();
        }
        std::fs::rename(&next, &folder).unwrap();
        bench.git(&["add", "many"]);
        bench.git(&["commit", "-qm", "many"]);
    };
    many("# One\n");
    let server = bench.serve();
    ready(&bench);
    let backup = backup(&bench);
    bench.git(&["mv", "notes.md", "words.md"]);
    bench.git(&["commit", "-qm", "a better name"]);
    hears_of(&bench, "from notes.md");
    many("# Two\n");
    // They may have been seen before their commit, too.
    let head = bench.git(&["rev-parse", "HEAD"]);
    until("they are heard", || {
        let told = events(&bench, "sources_changed");
        let words = heard(&bench).into_values().filter(|it| it.starts_with("many ")).count();
        told.iter().any(|it| it["commit"] == *head) && words == told.len()
    });
    let before = heard(&bench);
    server.stop();
    // One more, of which nobody has heard.
    commit(&bench, "guide.md", "# Guide\n\nAnother text.\n");
    bench.json(&["restore", &backup]);
    let server = bench.serve();
    assert_eq!(heard_since(&bench, &before), ["guide.md committed"]);
    server.stop();
}

#[test]
fn a_commit_of_what_was_heard_uncommitted_is_told_after_a_restore() {
    let bench = bench();
    hears(&bench);
    let server = bench.serve();
    ready(&bench);
    let backup = backup(&bench);
    bench.write("guide.md", "# Guide\n\nAnother text.\n");
    hears_of(&bench, "guide.md edited");
    let before = heard(&bench);
    server.stop();
    bench.git(&["commit", "-qam", "by hand"]);
    bench.json(&["restore", &backup]);
    let server = bench.serve();
    assert_eq!(heard_since(&bench, &before), ["guide.md committed"]);
    server.stop();
}

#[test]
fn a_change_that_is_made_again_after_the_first_look_is_new() {
    let bench = bench();
    hears(&bench);
    let server = bench.serve();
    ready(&bench);
    let backup = backup(&bench);
    commit(&bench, "guide.md", "# Guide\n\nAnother text.\n");
    hears_of(&bench, "guide.md committed");
    let before = heard(&bench);
    server.stop();
    bench.git(&["reset", "-q", "--hard", "HEAD~1"]);
    bench.json(&["restore", &backup]);
    let server = bench.serve();
    assert!(heard_since(&bench, &before).is_empty());
    commit(&bench, "guide.md", "# Guide\n\nAnother text.\n");
    let is_new =
        |(id, word): (&String, &String)| word == "guide.md committed" && !before.contains_key(id);
    until("it is heard again", || heard(&bench).iter().any(is_new));
    server.stop();
}

#[test]
fn the_end_of_a_job_that_ran_at_the_time_of_the_backup_is_told_once() {
    let bench = Bench::new();
    bench.word_kind("next", "timeout = \"20s\"", "until [ -e \"$OUT/go\" ]; do sleep 0.05; done");
    hears(&bench);
    let server = bench.serve();
    let job = bench.job("next", json!({"word": "one"}));
    bench.wait_status(&job, "running");
    ready(&bench);
    let backup = backup(&bench);
    std::fs::write(bench.out.join("go"), "").unwrap();
    hears_of(&bench, "next ended");
    let before = heard(&bench);
    server.stop();
    bench.json(&["restore", &backup]);
    let server = bench.serve();
    bench.ended(&job);
    assert!(heard_since(&bench, &before).is_empty());
    server.stop();
}

#[test]
fn what_was_spent_since_the_backup_counts_after_a_restore() {
    let bench = Bench::new();
    bench.limits("jobs = 2, grace = \"1s\", daily_person = { tokens = 20000 }");
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/claude-stream.jsonl");
    read_kind(&bench, "asks", "claude-stream-json", "", &format!("cat '{recorded}'"));
    let server = bench.serve();
    let oldest = backup(&bench);
    let right = backup(&bench);
    bench.ended(&bench.job("asks", json!({})));
    assert_eq!(bench.post("/api/agent/jobs", json!({"kind": "asks"})).status, 429);
    let before = bench.json(&["usage", "--by", "person"]);
    server.stop();
    bench.json(&["restore", &oldest]);
    let report = bench.json(&["restore", &right]);
    assert_eq!(report["rows_lost"]["usage_days"], Value::Null, "{report:#}");
    let server = bench.serve();
    let refused = bench.post("/api/agent/jobs", json!({"kind": "asks"}));
    assert_eq!((refused.status, &refused.body["error"]["code"]), (429, &json!("daily_cap")));
    assert_eq!(bench.json(&["usage", "--by", "person"])["items"], before["items"]);
    server.stop();
}

#[test]
fn what_was_spent_under_an_earlier_name_of_a_kind_counts_after_a_restore() {
    let bench = Bench::new();
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/claude-stream.jsonl");
    let fields = ", daily = { tokens = 20000 }";
    read_kind(&bench, "first", "claude-stream-json", fields, &format!("cat '{recorded}'"));
    let server = bench.serve();
    let backup = backup(&bench);
    bench.ended(&bench.job("first", json!({})));
    for (old, new) in [
        ("wb.kind \"first\" {", "wb.kind \"second\" { was = \"first\","),
        ("wb.kind \"second\" { was = \"first\",", "wb.kind \"third\" { was = \"second\","),
    ] {
        bench.edit(|lua| lua.replace(old, new));
        bench.write_script();
        assert_eq!(bench.json(&["reload"])["ok"], true);
    }
    let refused = || {
        let refused = bench.post("/api/agent/jobs", json!({"kind": "third"}));
        assert_eq!((refused.status, &refused.body["error"]["code"]), (429, &json!("daily_cap")));
    };
    refused();
    server.stop();
    bench.json(&["restore", &backup]);
    let server = bench.serve();
    refused();
    server.stop();
}

#[test]
fn what_a_job_spent_that_ran_at_the_time_of_the_backup_counts_once() {
    let bench = Bench::new();
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/claude-stream.jsonl");
    let waits = "echo ok > \"$OUT/ready\"; until [ -e \"$OUT/go\" ]; do sleep 0.05; done";
    let agent = format!("{waits}; cat '{recorded}'");
    read_kind(&bench, "asks", "claude-stream-json", "", &agent);
    let server = bench.serve();
    let job = bench.job("asks", json!({}));
    bench.wait_left("ready");
    let backup = backup(&bench);
    std::fs::write(bench.out.join("go"), "").unwrap();
    bench.ended(&job);
    let spent = bench.json(&["usage", "--by", "kind"])["items"].clone();
    assert_eq!(spent[0]["jobs"], 1, "{spent:#}");
    server.stop();
    for _ in 0..2 {
        bench.json(&["restore", &backup]);
        let server = bench.serve();
        bench.ended(&job);
        assert_eq!(bench.json(&["usage", "--by", "kind"])["items"], spent);
        server.stop();
    }
}
