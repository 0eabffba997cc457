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
    // Somebody had started it, so it starts again by itself.
    write(&bench, "You are the fourth.");
    reload(&bench);
    assert_eq!(ask(&bench, "robbo", json!("four"))["reply"], "again four");
    control(&bench, "robbo", "stop").ok();
    wait_state(&bench, "robbo", "stopped");
    server.stop();
}

/// A reload refuses such a file. A start has nobody to ask: what the file declared goes on.
#[test]
fn a_template_that_breaks_while_no_server_runs_keeps_its_agent_and_its_mail() {
    let good = "---\nname: robbo\npersistent: true\nengine: robbo\n---\nYou are robbo.\n";
    let broken = [
        good.replace("engine:", "engin:"),
        good.replace("engine:", "Engine:"),
        format!("\n{good}"),
        good.replacen("---\nYou", "You", 1),
        String::new(),
    ];
    for bad in broken {
        let bench = Bench::new();
        declare(&bench, "robbo", "", ECHO);
        bench.edit(|lua| lua[..lua.find("wb.agent").unwrap()].to_owned());
        std::fs::create_dir_all(bench.top.join("agents")).unwrap();
        bench.write("agents/robbo.md", good);
        let server = bench.serve();
        control(&bench, "robbo", "start").ok();
        let in_turn = send(&bench, "robbo", json!("wait"));
        bench.wait_left("waits");
        let waiting = send(&bench, "robbo", json!("later"));
        server.kill();
        bench.write("agents/robbo.md", &bad);
        let held = "agents/robbo.md is no template any more";
        let doctor = bench.cli(&["doctor"]).1;
        assert!(doctor.contains(held), "{bad}: {doctor}");
        let server = bench.serve();
        assert!(server.log().contains(held), "{bad}: {}", server.log());
        assert!(bench.cli(&["status"]).1.contains(held), "{bad}");
        std::fs::write(bench.out.join("go"), "").unwrap();
        assert_eq!(answer(&bench, &in_turn)["reply"], "waited", "{bad}: {}", server.log());
        assert_eq!(answer(&bench, &waiting)["reply"], "again later", "{bad}");
        assert_eq!(bench.cli(&["reload"]).0, 1, "{bad}");
        // The next start has the same texts to go on with.
        server.kill();
        let server = bench.serve();
        assert_eq!(ask(&bench, "robbo", json!("three"))["reply"], "again three", "{bad}");
        bench.write("agents/robbo.md", good);
        reload(&bench);
        assert_eq!(ask(&bench, "robbo", json!("four"))["reply"], "again four", "{bad}");
        control(&bench, "robbo", "stop").ok();
        wait_state(&bench, "robbo", "stopped");
        server.stop();
    }
}

/// A persona without a fault declares nothing, and nobody means a file that is gone.
#[test]
fn a_template_that_somebody_takes_away_while_no_server_runs_ends_its_agent() {
    let bench = Bench::new();
    declare(&bench, "robbo", "", ECHO);
    bench.edit(|lua| lua[..lua.find("wb.agent").unwrap()].to_owned());
    std::fs::create_dir_all(bench.top.join("agents")).unwrap();
    for is_gone in [false, true] {
        write(&bench, "You are robbo.");
        let server = bench.serve();
        if !is_gone {
            control(&bench, "robbo", "start").ok();
        }
        assert_eq!(ask(&bench, "robbo", json!("one"))["reply"], "again one");
        server.kill();
        match is_gone {
            true => std::fs::remove_file(bench.top.join("agents/robbo.md")).unwrap(),
            false => bench.write("agents/robbo.md", "---\nname: robbo\n---\nBe strict.\n"),
        }
        let server = bench.serve();
        let shown = wait_state(&bench, "robbo", "stopped");
        assert_eq!(shown["reason"], "not_declared", "{is_gone}");
        server.stop();
    }
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
