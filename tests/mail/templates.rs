//! Inboxes whose Markdown template changes or goes while their instances live.

use serde_json::{Value, json};

use crate::mail::{answer, send};
use crate::support::{Bench, until};

/// Works until its own file is there.
const WORKS: &str = "word=$(tr -d '\"' < \"$MESSAGE_PATH\"); echo up > \"$OUT/up.$word\"\n\
    until [ -e \"$OUT/go.$word\" ]; do sleep 0.02; done\n\
    wb-agent complete --reply \"\\\"$word\\\"\"";

/// Writes the template, whose hooks say which version they are of.
fn write(bench: &Bench, version: &str) {
    let out = &bench.out;
    let hook = |name: &str| format!("{name}: echo {version}-{name} >> {out}/hooks");
    let head = format!(
        "id: lead\npersistent: false\nengine: works\n{}\n{}\ntopics:\n  - name: work",
        hook("prepare"),
        hook("cleanup")
    );
    bench.write("agents/lead.md", format!("---\n{head}\n---\nYou lead, {version}.\n"));
}

#[track_caller]
fn reload(bench: &Bench) -> String {
    let (code, out, err) = bench.cli(&["reload"]);
    assert_eq!(code, 0, "{out}{err}");
    out
}

/// Sends a word to the inbox; returns the message and its job.
#[track_caller]
fn begin(bench: &Bench, word: &str) -> (String, String) {
    let sent = send(bench, "topic:lead/work", json!(word)).ok();
    let text = |name: &str| sent[name].as_str().unwrap().to_owned();
    (text("message_id"), text("job_id"))
}

#[test]
fn an_instance_keeps_the_template_that_it_started_with() {
    let bench = Bench::new();
    bench.raw_engine("works", WORKS);
    std::fs::create_dir_all(bench.top.join("agents")).unwrap();
    write(&bench, "one");
    let server = bench.serve();
    let go = |word: &str| std::fs::write(bench.out.join(format!("go.{word}")), "").unwrap();
    let hooks = || bench.left("hooks").lines().map(str::to_owned).collect::<Vec<_>>();

    // Changed while one works and another one waits: each has the one of its start.
    let (first, _) = begin(&bench, "first");
    bench.wait_left("up.first");
    let (second, _) = begin(&bench, "second");
    write(&bench, "two");
    reload(&bench);
    go("first");
    assert_eq!(answer(&bench, &first)["reply"], "first");
    bench.wait_left("up.second");
    assert_eq!(hooks(), ["one-prepare", "one-cleanup", "two-prepare"]);

    // Gone while one works and another one waits, and the server dies.
    let (third, waiting) = begin(&bench, "third");
    std::fs::remove_file(bench.top.join("agents/lead.md")).unwrap();
    let out = reload(&bench);
    let said = "removed  inbox \"lead/work\": 1 job is waiting until it returns";
    assert!(out.contains(said), "{out}");
    let refused = send(&bench, "topic:lead/work", json!("fourth"));
    assert_eq!(refused.refusal(), (404, "no_recipient"));
    server.kill();
    let server = bench.serve();
    go("second");
    assert_eq!(answer(&bench, &second)["reply"], "second", "{}", server.log());
    assert_eq!(hooks().last().unwrap(), "two-cleanup");
    let code = || bench.show(&waiting)["waiting"]["code"].clone();
    assert_eq!(code(), "inbox_gone");
    let inbox = bench.get("/api/inboxes/lead/work").ok();
    assert_eq!((&inbox["is_gone"], &inbox["depth"]), (&json!(true), &json!(1)));
    assert_eq!(bench.left("up.third"), "");

    // Back: what waited starts with what is there now.
    write(&bench, "three");
    reload(&bench);
    bench.wait_left("up.third");
    go("third");
    let told: Value = answer(&bench, &third);
    assert_eq!(told["reply"], "third");
    assert_eq!(hooks()[4..], ["three-prepare", "three-cleanup"]);
    until("no workspace is left", || {
        let items = bench.get("/api/workspaces").ok()["items"].clone();
        items.as_array().unwrap().iter().all(|it| it["state"] == "gone")
    });
    bench.quiet();
    server.stop();
}
