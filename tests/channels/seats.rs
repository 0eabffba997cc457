//! Seats that change: another agent hears and speaks for a member, and nothing is lost or said
//! twice.

use serde_json::{Value, json};

use crate::channels::agents::{TALKER, agents, answers, heard, say, wait_known, wait_said};
use crate::channels::{room, said, sequences};
use crate::support::{Bench, wait_for};

/// What an agent does that is asked to hand over: it hands in what it is told to.
const WRITES: &str = "case \"$line\" in *'You hand over'*) \
    printf '## Current work\\nMoving skills.\\n' | wb-agent handoff write --summary leaving \
    > \"$OUT/written\" 2>&1;; *'handoff read'*) \
    file=$(printf '%s' \"$line\" | sed 's/.*handoff read \\([A-Za-z0-9_.-]*md\\).*/\\1/'); \
    wb-agent handoff read \"$file\" > \"$OUT/read\" 2>&1; \
    wb-agent handoff read other.md > \"$OUT/refused\" 2>&1;; esac\ncount=";

/// Declares agents that write what they are asked for.
pub(crate) fn writers(bench: &Bench, names: &[&str]) {
    agents(bench, names);
    let file = bench.base.join("agents/talker.sh");
    std::fs::write(&file, TALKER.replacen("count=", WRITES, 1)).unwrap();
}

#[track_caller]
fn seat_of(bench: &Bench, slug: &str, handle: &str) -> String {
    let shown = bench.get(&format!("/api/channels/{slug}")).ok();
    let members = shown["members"].as_array().unwrap();
    let found = members.iter().find(|it| it["handle"] == handle).unwrap();
    found["agent"].as_str().unwrap().to_owned()
}

#[track_caller]
fn agent(bench: &Bench, name: &str) -> Value {
    bench.get(&format!("/api/agents/{name}")).ok()
}

#[track_caller]
pub(crate) fn wait_handover(bench: &Bench, name: &str, state: &str) -> Value {
    wait_for(&format!("the handover of {name} is {state}"), || {
        let shown = agent(bench, name)["handover"].clone();
        (shown["state"] == state).then_some(shown)
    })
}

#[test]
fn a_fresh_agent_gets_a_seat_with_what_waits_there() {
    let bench = Bench::new();
    agents(&bench, &["robbo", "paula"]);
    let server = bench.serve();
    wait_known(&bench, 2);
    let slug = room(&bench, "Seats", json!([{"agent": "robbo"}, {"agent": "paula"}]));
    say(&bench, &slug, "First words");
    wait_said(&bench, &slug, 3);
    bench.json(&["agent", "stop", "robbo"]);
    wait_for("robbo is stopped", || (agent(&bench, "robbo")["state"] == "stopped").then_some(()));
    say(&bench, &slug, "@robbo are you there?");
    let path = format!("/api/channels/{slug}/members");
    for (handle, body, refusal) in [
        ("ada", json!({}), (400, "bad_member")),
        ("nobody", json!({}), (404, "no_member")),
        ("robbo", json!({"agent": "paula"}), (400, "bad_member")),
        ("robbo", json!({"agent": "nobody"}), (404, "no_agent")),
        ("robbo", json!({"agent": "robbo"}), (409, "not_changed")),
    ] {
        let answer = bench.post(&format!("{path}/{handle}/seat"), body.clone());
        assert_eq!(answer.refusal(), refusal, "{handle} {body}");
    }
    bench.json(&["channel", "seat", &slug, "@robbo"]);
    assert_eq!(seat_of(&bench, &slug, "robbo"), "robbo-2");
    let told = wait_for("robbo-2 answers", || {
        Some(said(&bench, &slug)).filter(|it| answers(it, "robbo").len() == 2)
    });
    assert!(told.iter().any(|it| it.1 == "robbo-2 has the seat of robbo now."), "{told:?}");
    let own = heard(&bench, "robbo-2");
    let [block] = own.as_slice() else { panic!("{own:?}") };
    assert!(block.starts_with("[CHANNEL CONTEXT]"), "{block}");
    assert_eq!(block.matches("@robbo are you there?").count(), 1, "{block}");
    assert!(block.contains("Last messages:") && block.contains("First words"), "{block}");
    assert_eq!(heard(&bench, "robbo").len(), 1, "it hears nothing more");
    let all = sequences(&bench, &slug);
    assert_eq!(all, (1..=all.len() as i64).collect::<Vec<_>>());
    server.stop();
}

/// Messages for one agent are not read by another of its name.
#[test]
fn no_agent_is_declared_under_the_name_of_a_successor() {
    let bench = Bench::new();
    agents(&bench, &["robbo"]);
    let server = bench.serve();
    wait_known(&bench, 1);
    let slug = room(&bench, "Seats", json!([{"agent": "robbo"}]));
    bench.json(&["channel", "seat", &slug, "@robbo"]);
    assert_eq!(seat_of(&bench, &slug, "robbo"), "robbo-2");
    bench.lua("wb.agent \"robbo-2\" { about = \"Another\", engine = \"talker\" }\n");
    bench.write_script();
    let why = "agent \"robbo-2\" never runs: agent:robbo-2 is a successor of robbo";
    for args in [&["reload", "--dry-run"][..], &["reload"], &["reload", "--drop"]] {
        let (code, out, err) = bench.cli(args);
        let said = format!("{out}{err}");
        assert_eq!((code, said.contains(why)), (1, true), "{said}");
        assert!(said.contains("declare it under another name"), "{said}");
    }
    server.stop();
    // A start refuses no script.
    let server = bench.serve();
    assert!(server.log().contains(why) && bench.cli(&["status"]).1.contains(why));
    assert!(bench.cli(&["doctor"]).1.contains(why));
    let (code, out, err) = bench.cli(&["reload"]);
    assert_eq!((code, format!("{out}{err}").contains(why)), (0, true), "{out}{err}");
    server.stop();
}

#[test]
fn an_agent_hands_over_and_its_successor_has_read_before_it_sits_there() {
    let bench = Bench::new();
    writers(&bench, &["robbo"]);
    let server = bench.serve();
    wait_known(&bench, 1);
    let slug = room(&bench, "Talk", json!([{"agent": "robbo"}]));
    say(&bench, &slug, "First words");
    wait_said(&bench, &slug, 2);
    bench.json(&["agent", "handover", "robbo", "--note", "Mind the tests"]);
    let done = wait_handover(&bench, "robbo", "seated");
    assert_eq!(done["successor"], "robbo-2");
    let file = done["file"].as_str().unwrap();
    assert!(file.contains("_leaving_agent-") && file.ends_with(".md"), "{file}");
    assert_eq!(bench.left("written").trim(), file);
    assert!(bench.left("read").contains("Moving skills."));
    assert!(bench.left("refused").contains("no message has told you"));
    assert_eq!(seat_of(&bench, &slug, "robbo"), "robbo-2");
    wait_for("robbo is ended", || (agent(&bench, "robbo")["state"] == "stopped").then_some(()));
    assert_eq!(agent(&bench, "robbo")["heir"], "robbo-2");
    let start = bench.post("/api/agents/robbo/start", json!({}));
    assert_eq!(start.refusal(), (409, "handed_over"));
    // The conversation goes on under the same name.
    say(&bench, &slug, "@robbo and now?");
    let told = wait_for("robbo-2 answers", || {
        Some(said(&bench, &slug)).filter(|it| answers(it, "robbo").len() == 2)
    });
    let line = "robbo-2 goes on for robbo, who has handed over.";
    assert!(told.iter().any(|it| it.1 == line), "{told:?}");
    let own = heard(&bench, "robbo-2");
    assert!(own[0].contains("handoff read") && own[0].contains("Mind the tests"), "{own:?}");
    assert!(own[1].starts_with("[CHANNEL CONTEXT]") && own[1].contains("First words"), "{own:?}");
    let listed = bench.json(&["persona", "handoffs", "robbo", "--detail"]);
    let one = &listed["items"][0];
    assert_eq!((&one["file"], &one["read_by"]), (&json!(file), &json!(["robbo-2"])));
    assert_eq!((&one["state"], &one["summary"]), (&json!("seated"), &json!("leaving")));
    assert_eq!(one["sections"], json!([{"name": "Current work", "line": "Moving skills."}]));
    let told = bench.json(&["agent", "rehydrate", "robbo-2"]);
    assert_eq!(told["files"], json!([file]));
    let again = bench.post("/api/agents/robbo/handover", json!({}));
    assert_eq!(again.refusal(), (409, "handed_over"));
    // Whoever takes the file away does not take away that it was written.
    std::fs::remove_file(one["path"].as_str().unwrap()).unwrap();
    let listed = bench.json(&["persona", "handoffs", "robbo"]);
    assert_eq!(
        (&listed["items"][0]["file"], &listed["items"][0]["is_gone"]),
        (&json!(file), &json!(true))
    );
    let (_, table, _) = bench.cli(&["persona", "handoffs", "robbo"]);
    assert!(table.contains("gone"), "{table}");
    assert_eq!(bench.get("/handoffs/robbo").status, 200);
    server.stop();
}

/// The process that was asked to write ends before it has: its next start is asked again.
#[test]
fn an_agent_that_restarts_while_it_writes_is_asked_again() {
    let bench = Bench::new();
    writers(&bench, &["robbo"]);
    let file = bench.base.join("agents/talker.sh");
    let falls = "*'You hand over'*) [ -e \"$OUT/fell\" ] || { : > \"$OUT/fell\"; exit 3; }; printf";
    let script = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, script.replacen("*'You hand over'*) printf", falls, 1)).unwrap();
    let server = bench.serve();
    wait_known(&bench, 1);
    let slug = room(&bench, "Talk", json!([{"agent": "robbo"}]));
    bench.json(&["agent", "handover", "robbo"]);
    let done = wait_handover(&bench, "robbo", "seated");
    assert_eq!((&done["successor"], bench.left("fell")), (&json!("robbo-2"), String::new()));
    assert!(bench.left("written").ends_with(".md"), "{}", bench.left("written"));
    assert_eq!(seat_of(&bench, &slug, "robbo"), "robbo-2");
    server.stop();
}

#[test]
fn an_agent_that_writes_nothing_keeps_its_seat() {
    let bench = Bench::new();
    agents(&bench, &["robbo"]);
    let server = bench.serve();
    wait_known(&bench, 1);
    let slug = room(&bench, "Talk", json!([{"agent": "robbo"}]));
    bench.json(&["agent", "handover", "robbo"]);
    let failed = wait_handover(&bench, "robbo", "failed");
    assert_eq!(failed["reason"], "not_written");
    assert_eq!(seat_of(&bench, &slug, "robbo"), "robbo");
    let told = said(&bench, &slug);
    assert!(told[0].1.starts_with("robbo was not handed over: it wrote nothing."), "{told:?}");
    say(&bench, &slug, "Are you there?");
    wait_said(&bench, &slug, 3);
    server.stop();
}

/// Whoever is to take a seat may be given another one meanwhile: the agent keeps its own.
#[cfg(feature = "faults")]
#[test]
fn a_handover_to_an_agent_that_is_seated_elsewhere_meanwhile_fails() {
    let bench = Bench::new();
    writers(&bench, &["robbo", "paula"]);
    let server = bench.serve();
    wait_known(&bench, 2);
    let slug = room(&bench, "Talk", json!([{"agent": "robbo"}]));
    room(&bench, "Other", json!([{"agent": "paula"}]));
    say(&bench, &slug, "First words");
    wait_said(&bench, &slug, 2);
    server.stop();
    let mut server = bench.start(&[("WB_CRASH_AT", "handover_followed")]).ready();
    bench.post("/api/agents/robbo/handover", json!({})).ok();
    server.wait();
    bench.sql("UPDATE channel_members SET agent = 'robbo-2' WHERE agent = 'paula'");
    let server = bench.serve();
    let failed = wait_handover(&bench, "robbo", "failed");
    assert_eq!(failed["reason"], "successor_seated", "{failed:#}");
    assert_eq!(seat_of(&bench, &slug, "robbo"), "robbo");
    say(&bench, &slug, "And now?");
    wait_for("robbo answers", || (answers(&said(&bench, &slug), "robbo").len() == 2).then_some(()));
    let page = bench.get("/agents/robbo");
    let told = "Handover failed: robbo-2 was given another seat";
    assert!(page.body.as_str().unwrap().contains(told), "{page:?}");
    server.stop();
}

/// Killed at every step, a handover comes to one end, and the room goes on with one answer each.
#[cfg(feature = "faults")]
#[test]
fn a_server_that_is_killed_in_a_handover_goes_on_with_it() {
    for point in ["handoff_filed", "handover_followed", "handover_seated"] {
        let bench = Bench::new();
        writers(&bench, &["robbo"]);
        let server = bench.serve();
        wait_known(&bench, 1);
        let slug = room(&bench, "Talk", json!([{"agent": "robbo"}]));
        say(&bench, &slug, "First words");
        wait_said(&bench, &slug, 2);
        server.stop();
        let mut server = bench.start(&[("WB_CRASH_AT", point)]).ready();
        bench.post("/api/agents/robbo/handover", json!({})).ok();
        server.wait();
        let server = bench.serve();
        let done = wait_handover(&bench, "robbo", "seated");
        assert_eq!(done["successor"], "robbo-2", "{point}");
        say(&bench, &slug, "And now?");
        let told = wait_for("the successor answers", || {
            Some(said(&bench, &slug)).filter(|it| answers(it, "robbo").len() == 2)
        });
        let line = "robbo-2 goes on for robbo, who has handed over.";
        assert_eq!(told.iter().filter(|it| it.1 == line).count(), 1, "{told:?}");
        let names = bench.json(&["agent", "list"]);
        assert_eq!(names["items"].as_array().unwrap().len(), 2, "{point}: one successor");
        let all = sequences(&bench, &slug);
        assert_eq!(all, (1..=all.len() as i64).collect::<Vec<_>>(), "{point}");
        server.stop();
    }
}
