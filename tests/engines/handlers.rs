//! The script's handlers: each gets every event once, also across restarts; and the data of events.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use wiki_browser::base::EventKind;
use wiki_browser::base::limit::CHANGES_TOLD_MAX;

use crate::cli::desk::{ADDS_A_LINE, PROPOSES};
use crate::support::{Bench, Call, Server, until, wait_for};

/// A script that writes a line for each event of a kind.
fn tells(bench: &Bench, kind: EventKind) {
    let word = kind.as_str();
    bench.lua(&format!(
        "wb.on(\"{word}\", function(event) wb.log.info(\"told %s %s\", event.kind, event.id) end)\n"
    ));
}

/// Returns the numbers of the events of a kind that a server's handlers were told of.
fn told(server: &Server, kind: EventKind) -> Vec<i64> {
    let mark = format!("script: told {} ", kind.as_str());
    let log = server.log();
    let lines = log.lines().filter_map(|line| Some(line.split_once(&mark)?.1));
    let number = |rest: &str| rest.split(' ').next().unwrap_or_default().parse::<i64>().unwrap();
    lines.map(number).collect()
}

fn numbers(bench: &Bench, kind: EventKind) -> Vec<i64> {
    let rows = rows(bench);
    let of_kind = rows.iter().filter(|it| it.1 == kind.as_str());
    of_kind.map(|it| it.0).collect()
}

/// Returns number, kind and data of all events in the database of a server that has stopped.
fn rows(bench: &Bench) -> Vec<(i64, String, Value)> {
    let connection = rusqlite::Connection::open(bench.data.join("wiki.db")).unwrap();
    let mut statement =
        connection.prepare("SELECT id, kind, data_json FROM events ORDER BY id").unwrap();
    let rows = statement.query_map([], |row| {
        let data: String = row.get(2)?;
        Ok((row.get(0)?, row.get(1)?, serde_json::from_str(&data).unwrap()))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

#[test]
fn g25_handlers_are_told_of_every_event_once_across_restarts() {
    let bench = Bench::new();
    bench.word_kind("echoes", "timeout = \"20s\"", "exit 0");
    let kind = EventKind::JobFinished;
    tells(&bench, kind);
    let server = bench.serve();
    for _ in 0..3 {
        bench.ended(&bench.job("echoes", json!({})));
    }
    wait_for("three are told", || (told(&server, kind).len() == 3).then_some(()));
    let first = told(&server, kind);
    server.signal("TERM");
    let mut server = server;
    assert!(server.wait().0.success());
    drop(server);

    let server = bench.serve();
    bench.ended(&bench.job("echoes", json!({})));
    let mut all = first;
    wait_for("one more is told", || (told(&server, kind).len() == 1).then_some(()));
    all.extend(told(&server, kind));
    server.stop();
    assert_eq!(all, numbers(&bench, kind));
}

#[test]
fn an_event_whose_handler_was_cut_off_by_a_crash_is_told_again_and_none_is_left_out() {
    let bench = Bench::new();
    bench.word_kind("echoes", "timeout = \"20s\"", "exit 0");
    let kind = EventKind::JobQueued;
    tells(&bench, kind);
    let mut server = bench.serve_with(&[("WB_CRASH_AT", "after_handler")]);
    // The handler may be told, and the server gone, before this is answered.
    let call = Call::post("/api/agent/jobs", json!({"kind": "echoes"})).token(&bench.operator());
    drop(call.try_socket(&bench.socket()));
    assert!(!server.wait().0.success());
    let once = told(&server, kind);
    assert_eq!(once.len(), 1);
    drop(server);
    let server = bench.serve();
    bench.ended(&bench.job("echoes", json!({})));
    wait_for("both are told", || (told(&server, kind).len() == 2).then_some(()));
    let again = told(&server, kind);
    server.stop();
    assert_eq!(again, numbers(&bench, kind));
    assert_eq!(again[0], once[0]);
}

#[test]
fn a_handler_that_fails_is_named_and_the_others_are_told() {
    let bench = Bench::new();
    bench.word_kind("echoes", "timeout = \"20s\"", "exit 0");
    let kind = EventKind::JobFinished;
    bench.lua("wb.on(\"job_finished\", function(event) error(\"broken on purpose\") end)\n");
    bench.lua("wb.on(\"job_finished\", function(event) while true do end end)\n");
    tells(&bench, kind);
    let server = bench.serve();
    bench.ended(&bench.job("echoes", json!({})));
    wait_for("the third is told", || (told(&server, kind).len() == 1).then_some(()));
    let log = server.log();
    assert!(log.contains("a handler of job_finished at wiki-browser.lua:"), "{log}");
    assert!(log.contains("broken on purpose"), "{log}");
    server.stop();
    // Neither is tried again.
    let server = bench.serve();
    bench.ended(&bench.job("echoes", json!({})));
    wait_for("the next is told", || (told(&server, kind).len() == 1).then_some(()));
    assert_eq!(server.log().matches("broken on purpose").count(), 1);
    server.stop();
}

fn rename(bench: &Bench) {
    bench.git(&["mv", "notes.md", "docs/notes.md"]);
    bench.git(&["commit", "-q", "-m", "a better place"]);
    let is_told = || rows(bench).iter().any(|(_, word, _)| word == "source_renamed");
    until("a source is renamed", is_told);
}

/// Declares a schedule that fails, a kind whose jobs have a worktree, and one whose jobs park.
fn declare_further(bench: &Bench) {
    bench.word_kind("apart", "timeout = \"20s\", workspace = \"worktree\"", "true");
    bench.lua("wb.schedule \"fails\" { every = \"1s\", enqueue = function() error(1) end }\n");
    bench.lua(
        "wb.engine \"live\" { type = \"stream\", command = { \"cat\" }, speaks = \"lines\" }\n",
    );
    bench.lua("wb.agent \"live\" { about = \"A test\", engine = \"live\" }\n");
    crate::approvals::parking::declare(bench);
    crate::assistant::assistant(bench, "");
    crate::channels::agents::agents(bench, &["robbo"]);
}

/// A job in a worktree, a message that is read, a question that is taken back, and a channel.
fn ask_and_withdraw(bench: &Bench) {
    crate::approvals::parking::park(bench);
    bench.post("/api/agent/chat", json!({"message": "hello"})).ok();
    bench.ended(&bench.job("apart", json!({})));
    let sent = bench.post("/api/messages", json!({"to": "person:ada", "payload": 1})).ok();
    let read = format!("/api/messages/{}/read", sent["message_id"].as_str().unwrap());
    bench.post(&read, json!({})).ok();
    let question = json!({"channel": "aws", "title": "Go on?"});
    let asked = bench.post("/api/approvals", question).ok();
    let withdraw = format!("/api/approvals/{}/withdraw", asked["id"].as_str().unwrap());
    bench.post(&withdraw, json!({})).ok();
    crate::channels::agents::talk(bench, "robbo");
    bench.post("/api/agents/robbo/handover", json!({})).ok();
}

/// Returns the names in the data of each event, as the document says them.
fn rows_of_document() -> BTreeMap<&'static str, Vec<&'static str>> {
    let document = include_str!("../../docs/events.md");
    let mut rows = BTreeMap::new();
    for line in document.lines().filter(|it| it.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let names: Vec<&str> = cells[2].split(' ').map(|it| it.trim_matches('`')).collect();
        let names: Vec<&str> = names.into_iter().filter(|it| !it.is_empty()).collect();
        rows.insert(cells[0].trim_matches('`'), names);
    }
    rows
}

/// Everything that leaves an event is done once; what stands in the log is what the code declares,
/// and what the code declares is what the document says.
#[test]
fn events_say_what_their_document_says() {
    let declared: BTreeMap<&str, Vec<&str>> =
        EventKind::ALL.iter().map(|it| (it.as_str(), it.fields().to_vec())).collect();
    assert_eq!(rows_of_document(), declared);

    let bench = Bench::new();
    bench.topic_kind("adds", PROPOSES, ADDS_A_LINE);
    super::limits::limited_kind(&bench, "codex", "You've hit your usage limit. Try again in 2h.");
    crate::perspectives::perspective_kind(&bench, crate::perspectives::MAKES);
    let touch = format!("touch '{}/made'", bench.top);
    bench.word_kind("touches", "timeout = \"20s\"", &touch);
    declare_further(&bench);
    let terminal = crate::channels::terminals::declare_held(&bench);
    let server = bench.serve();
    if terminal.is_some() {
        crate::channels::terminals::hold(&bench);
    }
    let topic = bench.topic("guide.md", "The first line.", "Say more.");
    bench.post(&format!("/api/topics/{}/messages", topic.id), json!({"body": "Please."})).ok();
    let shown = bench.proposal("adds", &topic);
    bench.send(&bench.approval(&shown)).ok();
    let other = bench.topic("notes.md", "Keep this.", "Drop it.");
    let words = json!({"selection": {"quote": "Notes"}});
    bench.post(&format!("/api/topics/{}/anchor", other.id), words).ok();
    bench.post(&format!("/api/topics/{}/discard", other.id), json!({})).ok();
    crate::perspectives::made(&bench, "notes.md", "critic");
    bench.ended(&bench.job("codex", json!({})));
    bench.post("/api/engines/codex/release", json!({})).ok();
    let touches = bench.ended(&bench.job("touches", json!({})));
    let keep = format!("/api/agent/jobs/{}/keep", touches["id"].as_str().unwrap());
    bench.post(&keep, json!({})).ok();
    bench.post("/api/persons", json!({"name": "kim", "role": "viewer"})).ok();
    ask_and_withdraw(&bench);
    let topic = bench.topic("guide.md", "The first line.", "Say more.");
    let shown = bench.proposal("adds", &topic);
    bench.write("guide.md", "# Guide\n\nBy hand.\n");
    bench.git(&["commit", "-qam", "by hand"]);
    bench.get(&format!("/api/proposals/{}", shown["proposal"]["id"].as_str().unwrap())).ok();
    (0..=CHANGES_TOLD_MAX).for_each(|it| bench.write(&format!("docs/{it}.md"), "x\n"));
    bench.git(&["add", "docs"]);
    let is_told = || rows(&bench).iter().any(|(_, word, _)| word == "sources_changed");
    until("many changes are told", is_told);
    rename(&bench);
    bench.post("/api/config/reload", json!({})).ok();
    let is_fired = || rows(&bench).iter().any(|(_, word, _)| word == "script_failed");
    until("a schedule has fired and failed", is_fired);
    server.stop();
    let mut seen: Vec<String> = Vec::new();
    for (_, word, data) in rows(&bench) {
        let kind = EventKind::parse(&word).unwrap();
        let names: Vec<&str> = data.as_object().unwrap().keys().map(String::as_str).collect();
        let fields = kind.fields();
        for name in &names {
            let optional = format!("{name}?");
            let is_declared = fields.iter().any(|it| it == name || **it == optional);
            assert!(is_declared, "{word}: {name}");
        }
        for field in fields.iter().filter(|it| !it.ends_with('?')) {
            assert!(names.contains(field), "{word} has no {field}");
        }
        seen.push(word);
    }
    for kind in EventKind::ALL {
        if kind == EventKind::TurnHeld && terminal.is_none() {
            continue;
        }
        assert!(seen.iter().any(|it| it == kind.as_str()), "no {}", kind.as_str());
    }
}
