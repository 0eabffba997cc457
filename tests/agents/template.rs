//! An agent whose Markdown template changes or goes while it runs.

use serde_json::{Value, json};

use crate::agents::{ECHO, answer, ask, control, declare, send, show, wait_state};
use crate::support::{Bench, until};

fn write(bench: &Bench, body: &str) {
    let head = "name: robbo\npersistent: true\nengine: robbo";
    bench.write("agents/robbo.md", format!("---\n{head}\n---\n{body}\n"));
}

#[track_caller]
fn reload(bench: &Bench) -> String {
    let (code, out, err) = bench.cli(&["reload"]);
    assert_eq!(code, 0, "{out}{err}");
    out
}

#[test]
fn an_agent_outlives_its_template_and_its_next_start_has_the_new_one() {
    let bench = Bench::new();
    declare(&bench, "robbo", "", ECHO);
    bench.edit(|lua| lua[..lua.find("wb.agent").unwrap()].to_owned());
    std::fs::create_dir_all(bench.top.join("agents")).unwrap();
    write(&bench, "You are the first.");
    let server = bench.serve();
    control(&bench, "robbo", "start").ok();
    assert_eq!(ask(&bench, "robbo", json!("one"))["reply"], "again one");
    let job = show(&bench, "robbo")["job_id"].clone();

    // Changed: it goes on as it is, and starts with the new one.
    write(&bench, "You are the second.");
    reload(&bench);
    let shown = show(&bench, "robbo");
    assert_eq!((&shown["is_older"], &shown["job_id"]), (&json!(true), &job));
    assert_eq!(ask(&bench, "robbo", json!("two"))["reply"], "again two");
    control(&bench, "robbo", "restart").ok();
    until("another start runs", || {
        let shown = show(&bench, "robbo");
        shown["job_id"] != job && shown["state"] == "idle"
    });
    let shown = show(&bench, "robbo");
    assert_eq!(shown["is_older"], false);
    let job = shown["job_id"].clone();

    // Gone in the middle of a turn: the turn is answered, and nothing new is given.
    let message = send(&bench, "robbo", json!("wait"));
    bench.wait_left("waits");
    std::fs::remove_file(bench.top.join("agents/robbo.md")).unwrap();
    let out = reload(&bench);
    assert!(out.contains("removed  agent \"robbo\""), "{out}");
    std::fs::write(bench.out.join("go"), "").unwrap();
    assert_eq!(answer(&bench, &message)["reply"], "waited", "{}", server.log());
    let shown = wait_state(&bench, "robbo", "idle");
    assert_eq!((&shown["about"], &shown["job_id"]), (&Value::Null, &job));
    let refused = bench.post("/api/messages", json!({"to": "agent:robbo", "payload": "x"}));
    assert_eq!(refused.refusal(), (409, "recipient_ended"));
    // It could not start again, so it is not ended for that.
    assert_eq!(control(&bench, "robbo", "restart").refusal(), (409, "agent_state"));
    let shown = show(&bench, "robbo");
    assert_eq!((&shown["state"], &shown["job_id"]), (&json!("idle"), &job));

    // Back: the same process takes messages again.
    write(&bench, "You are the third.");
    reload(&bench);
    assert_eq!(ask(&bench, "robbo", json!("three"))["reply"], "again three");
    assert_eq!(show(&bench, "robbo")["job_id"], job);

    // Gone when the server dies: nobody knows how to speak to it, so it ends.
    std::fs::remove_file(bench.top.join("agents/robbo.md")).unwrap();
    reload(&bench);
    server.kill();
    let server = bench.serve();
    let shown = wait_state(&bench, "robbo", "stopped");
    assert_eq!(shown["reason"], "not_declared");
    bench.quiet();
    assert_eq!(control(&bench, "robbo", "start").refusal(), (409, "agent_state"));
    write(&bench, "You are the fourth.");
    reload(&bench);
    control(&bench, "robbo", "start").ok();
    assert_eq!(ask(&bench, "robbo", json!("four"))["reply"], "again four");
    control(&bench, "robbo", "stop").ok();
    wait_state(&bench, "robbo", "stopped");
    server.stop();
}

/// An agent that is about to start when its declaration goes starts once that is back.
#[test]
fn an_agent_without_a_declaration_is_not_about_to_start() {
    let bench = Bench::new();
    declare(&bench, "robbo", "autostart = \"always\"", "echo x >> \"$OUT/starts\"; exit 3");
    let server = bench.serve();
    // It ends at once, and the pauses between its starts grow.
    until("it has ended twice", || bench.left("starts").lines().count() >= 2);
    let before = bench.declared();
    bench.edit(|lua| lua[..lua.find("wb.agent").unwrap()].to_owned());
    bench.write_script();
    reload(&bench);
    let shown = wait_state(&bench, "robbo", "stopped");
    assert_eq!(shown["reason"], "not_declared");
    let refused = control(&bench, "robbo", "restart");
    assert_eq!(refused.refusal(), (409, "agent_state"));
    let starts = bench.left("starts").lines().count();
    bench.edit(|_| before);
    bench.write_script();
    reload(&bench);
    until("it starts again", || bench.left("starts").lines().count() > starts);
    server.stop();
}
