//! Inboxes and reloads of the script: what is reported, and what is refused.

use serde_json::json;

use crate::support::{Bench, until};

/// A site whose server runs without an inbox yet; then one is declared, with hooks.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.limits("jobs = 2");
    bench.word_kind("plain", "timeout = \"20s\"", "exit 0");
    bench
}

fn declare(bench: &Bench) {
    std::fs::create_dir_all(bench.top.join("hooks")).unwrap();
    bench.write("hooks/prepare.sh", "mkdir scratch\n\u{1b}[2J echo done\n");
    bench.lua(
        r#"wb.inbox "accounts/teardown" {
  about = "Tear down", engine = "plain", prepare = "./hooks/prepare.sh",
  cleanup = { "rm", "-rf", "scratch" },
}
"#,
    );
    bench.write_script();
}

#[test]
fn a_reload_prints_new_inboxes_and_what_they_execute() {
    let bench = bench();
    let server = bench.serve();
    declare(&bench);
    let (code, out, err) = bench.cli(&["reload", "--dry-run"]);
    assert_eq!(code, 0, "{out}{err}");
    for said in [
        "added    inbox \"accounts/teardown\"",
        "prepare  ",
        "/hooks/prepare.sh\n",
        "mkdir scratch\n",
        "cleanup  rm -rf scratch\n",
    ] {
        assert!(out.contains(said), "{said}: {out}");
    }
    assert!(!out.contains('\u{1b}'), "a terminal sees text only: {out:?}");
    let (code, out, _) = bench.cli(&["reload"]);
    assert_eq!((code, out.contains("mkdir scratch")), (0, true), "{out}");
    // A file that is saved is another text, which a reload prints before it is in force.
    bench.write("hooks/prepare.sh", "mkdir other\n");
    let (_, out, _) = bench.cli(&["reload", "--dry-run"]);
    assert!(out.contains("changed  inbox \"accounts/teardown\""), "{out}");
    assert!(out.contains("mkdir other\n"), "{out}");
    bench.edit(|lua| lua[..lua.find("wb.inbox").unwrap()].to_owned());
    bench.write_script();
    let (_, out, _) = bench.cli(&["reload", "--dry-run"]);
    assert!(out.contains("removed  inbox \"accounts/teardown\"\n"), "{out}");
    server.stop();
}

#[test]
fn only_a_message_starts_a_job_of_an_inbox() {
    let bench = bench();
    declare(&bench);
    let server = bench.serve();
    let refused = bench.post("/api/agent/jobs", json!({"kind": "accounts/teardown"}));
    assert_eq!((refused.status, refused.code()), (400, "takes_messages"), "{refused:?}");
    let (code, out, err) = bench.cli(&["job", "create", "accounts/teardown"]);
    assert_eq!(code, 2, "{out}{err}");
    assert!(err.contains("send to topic:accounts/teardown"), "{err}");
    server.stop();
}

#[test]
fn a_template_is_no_persona_and_counts_from_a_reload_on() {
    let bench = bench();
    std::fs::create_dir_all(bench.top.join("agents")).unwrap();
    bench.write("agents/critic.md", "---\nname: critic\n---\nYou doubt.\n");
    let server = bench.serve();
    let lead = "---\nid: lead\npersistent: false\nengine: plain\ntopics:\n  - name: provision\n\
        ---\nYou lead.\n";
    bench.write("agents/lead.md", lead);
    let (code, out, err) = bench.cli(&["persona", "list"]);
    assert_eq!(
        (code, out.contains("critic"), out.contains("lead")),
        (0, true, false),
        "{out}{err}"
    );
    let kinds = |bench: &Bench| bench.get("/api/config").ok()["kinds"].to_string();
    assert!(!kinds(&bench).contains("lead/provision"), "saving a file changes nothing");
    let (code, out, err) = bench.cli(&["check"]);
    assert_eq!(code, 0, "{out}{err}");
    let (code, out, err) = bench.cli(&["reload"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("added    inbox \"lead/provision\""), "{out}");
    assert!(kinds(&bench).contains("lead/provision"));
    bench.write("agents/lead.md", lead.replace("- name", "- nam"));
    let (code, out, _) = bench.cli(&["reload"]);
    assert_eq!((code, out.contains("agents/lead.md:6")), (1, true), "{out}");
    server.stop();
}

#[test]
fn the_jobs_of_an_inbox_that_is_removed_wait_until_it_is_back() {
    let bench = bench();
    let fields = "about = \"A test\", engine = \"plain\", timeout = \"20s\", prompt = \"x\"";
    bench.lua(&format!("wb.kind \"bare\" {{ {fields} }}\n"));
    declare(&bench);
    let server = bench.serve();
    let later = json!({"kind": "bare", "not_before": "2100-01-01T00:00:00Z"});
    let job = bench.post("/api/agent/jobs", later).ok()["job_id"].as_str().unwrap().to_owned();
    server.stop();
    bench.sql("UPDATE agent_jobs SET kind = 'accounts/teardown' WHERE status = 'queued'");
    let server = bench.serve();
    let good = bench.read("wiki-browser.lua");
    let (rest, _) = good.split_once("wb.inbox").unwrap();
    let code = |bench: &Bench| bench.show(&job)["waiting"]["code"].clone();
    assert_eq!(code(&bench), "not_before");
    bench.write("wiki-browser.lua", rest);
    let (exit, out, err) = bench.cli(&["reload"]);
    assert_eq!(exit, 0, "{out}{err}");
    let said = "removed  inbox \"accounts/teardown\": 1 job is waiting until it returns";
    assert!(out.contains(said), "{out}");
    assert_eq!(code(&bench), "inbox_gone");
    let said = bench.show(&job)["waiting"]["message"].as_str().unwrap().to_owned();
    assert!(said.contains("job cancel --kind accounts/teardown"), "{said}");
    server.stop();
    bench.edit(|lua| lua[..lua.find("wb.inbox").unwrap()].to_owned());
    let server = bench.serve();
    let said = "1 job waits until the script has inbox \"accounts/teardown\"";
    until("the log names the inbox", || server.log().contains(said));
    bench.write("wiki-browser.lua", &good);
    assert_eq!(bench.cli(&["reload"]).0, 0);
    assert_eq!(code(&bench), "not_before");
    bench.write("wiki-browser.lua", rest);
    assert_eq!(bench.cli(&["reload"]).0, 0);
    let (exit, out, err) = bench.cli(&["job", "cancel", "--kind", "accounts/teardown", "--yes"]);
    assert_eq!(exit, 0, "{out}{err}");
    assert_eq!(bench.ended(&job)["status"], "cancelled");
    server.stop();
}

#[test]
fn a_message_waits_that_the_edited_schema_of_its_inbox_refuses_at_a_start() {
    let bench = Bench::new();
    bench.limits("jobs = 1");
    bench.word_kind("plain", "timeout = \"20s\"", "exit 0");
    bench.word_kind("waits", "timeout = \"20s\"", "while true; do sleep 0.05; done");
    let needs = |field: &str| json!({"type": "object", "required": [field]}).to_string();
    bench.write("open.json", needs("team"));
    let fields = "about = \"Open\", engine = \"plain\", schema = \"open.json\"";
    bench.lua(&format!("wb.inbox \"accounts/open\" {{ {fields} }}\n"));
    let server = bench.serve();
    bench.post("/api/agent/jobs", json!({"kind": "waits"})).ok();
    let sent = ["send", "topic:accounts/open", "--payload", "{\"team\": \"a\"}"];
    let (code, out, err) = bench.cli(&sent);
    assert_eq!(code, 0, "{out}{err}");
    let jobs = bench.get("/api/agent/jobs?kind=accounts/open").ok();
    let job = jobs["items"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(bench.show(&job)["waiting"]["code"], "jobs_cap");
    server.stop();
    bench.write("open.json", needs("name"));
    let server = bench.serve();
    let waiting = bench.show(&job)["waiting"].clone();
    assert_eq!(waiting["code"], "kind_changed", "{waiting:#}");
    let said = waiting["message"].as_str().unwrap();
    assert!(said.contains("inbox \"accounts/open\" no longer accepts its message"), "{said}");
    bench.write("open.json", needs("team"));
    assert_eq!(bench.cli(&["reload"]).0, 0);
    assert_ne!(bench.ended(&job)["status"], "cancelled");
    server.stop();
}
