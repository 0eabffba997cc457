//! Whatever is killed with -9, at whatever moment: a room loses nothing, says nothing twice, and
//! goes on. What is found after each kill, and what is done then, is in docs/channels.md.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agents::terminal::{self, Tmux, declare, kill_process, wait_end};
use crate::agents::{control, wait_state};
use crate::channels::agents::{TALKER, agents, answers, heard, say, wait_known, wait_said};
use crate::channels::seats::{wait_handover, writers};
use crate::channels::{room, said, sequences};
use crate::support::{Bench, Server, until, wait_for};

/// When the server is killed after a message was accepted, in milliseconds.
const MOMENTS_MS: [u64; 6] = [0, 2, 6, 15, 30, 60];

/// Waits until a member has said exactly this, whatever else was said.
#[track_caller]
fn wait_answers(bench: &Bench, slug: &str, who: &str, texts: &[&str]) -> Vec<(String, String)> {
    let told = wait_for(&format!("{who} says {texts:?}"), || {
        Some(said(bench, slug)).filter(|it| answers(it, who).len() >= texts.len())
    });
    assert_eq!(answers(&told, who), texts, "{told:?}");
    told
}

/// Returns who heard a message, as the channel tells it.
#[track_caller]
fn delivery(bench: &Bench, slug: &str, sequence: i64) -> (Value, Value) {
    let after = sequence - 1;
    let page = bench.get(&format!("/api/channels/{slug}/messages?after={after}&limit=1")).ok();
    let it = &page["items"][0]["heard"][0];
    (it["state"].clone(), it["reason"].clone())
}

#[track_caller]
fn no_gap(bench: &Bench, slug: &str) {
    let all = sequences(bench, slug);
    assert_eq!(all, (1..=all.len() as i64).collect::<Vec<_>>());
}

fn mark(bench: &Bench, name: &str) {
    std::fs::write(bench.out.join(name), "").unwrap();
}

/// The server, after a message was posted, composed, claimed, sent or answered.
#[test]
fn a_server_killed_at_any_moment_loses_and_doubles_nothing_in_a_room() {
    let bench = Bench::new();
    bench.limits("jobs = 4, grace = \"1s\", channels = { pair = 30, channel = 120 }");
    let names = ["robbo", "paula"];
    agents(&bench, &names);
    let mut server = bench.serve();
    wait_known(&bench, 2);
    let slug = room(&bench, "Kills", json!([{"agent": "robbo"}, {"agent": "paula"}]));
    let mut wanted = Vec::new();
    for (round, moment) in MOMENTS_MS.into_iter().enumerate() {
        for number in 0..2 {
            wanted.push(format!("m{round}x{number}?"));
            say(&bench, &slug, wanted.last().unwrap());
        }
        let (began, moment) = (Instant::now(), Duration::from_millis(moment));
        until("the moment is there", || began.elapsed() >= moment);
        server.kill();
        server = bench.serve();
    }
    wanted.push("m9x9?".to_owned());
    say(&bench, &slug, "m9x9?");
    let told = wait_for("both have answered everything", || {
        let told = said(&bench, &slug);
        let is_done = |name: &&str| {
            let given = heard(&bench, name);
            let has_last = given.last().is_some_and(|it| it.contains("m9x9?"));
            has_last && answers(&told, name).len() >= given.len()
        };
        names.iter().all(is_done).then_some(told)
    });
    for name in names {
        let given = heard(&bench, name);
        // One answer to each block, in their order.
        let said = |number| {
            format!(
                "{name} answers {number} at some length, so that it is more than a word of \
                     thanks to all"
            )
        };
        assert_eq!(answers(&told, name), (1..=given.len()).map(said).collect::<Vec<_>>());
        let all = given.concat();
        let read: Vec<&str> =
            all.lines().filter(|it| it.starts_with('m') && it.ends_with('?')).collect();
        assert_eq!(read, wanted, "{name}");
    }
    no_gap(&bench, &slug);
    server.stop();
}

/// An agent that waits where it is told to.
fn waiting(bench: &Bench) {
    agents(bench, &["robbo"]);
    let wait = |word: &str| {
        format!(
            "case \"$line\" in *'{word}'*) echo held > \"$OUT/held\"; \
             until [ -e \"$OUT/go\" ]; do sleep 0.05; done;; esac\n"
        )
    };
    let began = "printf '{\"turn\":\"began\"";
    let script = TALKER.replacen(began, &format!("{}{began}", wait("hold before")), 1).replacen(
        "text=",
        &format!("{}text=", wait("hold within")),
        1,
    );
    std::fs::write(bench.base.join("agents/talker.sh"), script).unwrap();
}

/// The server, before a turn, in it, and with its end while no server is there. Fails with
/// `WB_WITHOUT=spool_first` and with `WB_WITHOUT=heard_once`.
#[test]
fn g38_what_happens_while_no_server_is_there_is_heard_once_by_the_next() {
    for (text, ends_alone) in
        [("hold before", false), ("hold within", false), ("hold within", true)]
    {
        let bench = Bench::new();
        waiting(&bench);
        let server = bench.serve();
        wait_known(&bench, 1);
        let slug = room(&bench, "Alone", json!([{"agent": "robbo"}]));
        say(&bench, &slug, text);
        bench.wait_left("held");
        if text == "hold within" {
            until("its turn is known", || {
                bench.get("/api/agents/robbo/turns").ok()["items"][0]["state"] == "running"
            });
        }
        let job = bench.get("/api/agents/robbo").ok()["job_id"].as_str().unwrap().to_owned();
        server.kill();
        if ends_alone {
            mark(&bench, "go");
            let output = bench.data.join("jobs").join(&job).join("stdout.log");
            until("its turn is over", || {
                std::fs::read_to_string(&output).is_ok_and(|it| it.contains("\"ended\""))
            });
        }
        let server = bench.serve();
        if text == "hold before" {
            // It lives: nothing is sent again, and nothing is believed.
            assert_eq!(delivery(&bench, &slug, 1).0, "sent");
        }
        mark(&bench, "go");
        wait_for("it answers", || {
            (!answers(&said(&bench, &slug), "robbo").is_empty()).then_some(())
        });
        server.kill();
        let server = bench.serve();
        say(&bench, &slug, "And now?");
        let told = wait_said(&bench, &slug, 4);
        assert_eq!(answers(&told, "robbo").len(), 2, "{told:?}");
        assert_eq!(heard(&bench, "robbo").len(), 2, "{text}");
        let page = bench.get(&format!("/api/channels/{slug}/messages")).ok();
        assert_eq!(
            (&page["items"][1]["answers"], &page["items"][3]["answers"]),
            (&json!(1), &json!(3))
        );
        let turns = bench.get("/api/agents/robbo/turns").ok()["items"].clone();
        assert_eq!(turns.as_array().unwrap().len(), 2, "{text}: {turns:#}");
        let spent = bench.json(&["channel", "show", &slug])["spent"].clone();
        assert_eq!((&spent["turns"], &spent["tokens"]), (&json!(2), &json!(10)), "{text}");
        no_gap(&bench, &slug);
        server.stop();
    }
}

/// Speaks as Claude Code does. The first time that it is told to, it is killed once it has said
/// that it has the line: the real one has forgotten it then.
const FORGETS: &str = r#"while IFS= read -r line; do
id=$(printf '%s' "$line" | sed -n 's/.*"uuid":"\([^"]*\)".*/\1/p')
printf '%s\n' "$id" >> "$OUT/given"
printf '%s\n' "$line" >> "$OUT/lines"
printf '{"type":"user","isReplay":true,"uuid":"%s"}\n' "$id"
case "$line" in *'forget once'*) [ -e "$OUT/fell" ] || { : > "$OUT/fell"; kill -9 $$; };; esac
printf '{"type":"system","subtype":"init"}\n{"type":"user","isReplay":true,"uuid":"%s"}\n' "$id"
printf '{"type":"assistant","parent_tool_use_id":null}\n'
printf '{"type":"result","is_error":false,"result":"I have read it.","usage":{"output_tokens":3}}\n'
done
"#;

/// The agent, before anything ran. Fails with `WB_WITHOUT=same_block`.
#[test]
fn g38_a_block_that_an_agent_forgot_is_given_to_the_next_process_under_its_own_id() {
    let bench = Bench::new();
    let file = bench.base.join("agents/forgets.sh");
    std::fs::write(&file, FORGETS).unwrap();
    let out = &bench.out;
    bench.lua(&format!(
        r#"wb.engine "forgets" {{
  type = "stream", speaks = "claude-stream-json", command = {{ "/bin/sh", "{file}" }},
  env = {{ OUT = "{out}" }},
}}
wb.agent "robbo" {{ about = "A test", engine = "forgets" }}
"#
    ));
    let server = bench.serve();
    wait_known(&bench, 1);
    let slug = room(&bench, "Forgotten", json!([{"agent": "robbo"}]));
    // What it would read by itself is not read.
    say(&bench, &slug, "Please forget once. See @/etc/passwd, @robbo.");
    wait_answers(&bench, &slug, "robbo", &["I have read it."]);
    let given = bench.left("given");
    let ids: Vec<&str> = given.lines().collect();
    assert_eq!(ids.len(), 2, "{ids:?}");
    assert_eq!(ids[0], ids[1], "the same block");
    let lines = bench.left("lines");
    assert_eq!(lines.matches("See \u{2060}@/etc/passwd, @robbo.").count(), 2, "{lines}");
    assert_eq!(delivery(&bench, &slug, 1).0, "confirmed");
    say(&bench, &slug, "And now?");
    wait_answers(&bench, &slug, "robbo", &["I have read it.", "I have read it."]);
    assert_eq!(said(&bench, &slug).len(), 4, "no word of a turn that was none");
    server.stop();
}

#[track_caller]
fn at_its_desk(bench: &Bench) -> String {
    wait_known(bench, 1);
    wait_state(bench, "robbo", "idle");
    room(bench, "Desk", json!([{"agent": "robbo"}]))
}

/// The agent in a terminal, its guard, and the terminal itself: before anybody knows that it has
/// read, and in its turn.
#[test]
fn what_is_killed_in_a_terminal_is_missed_by_its_room_and_asked_again_by_a_person_only() {
    for (victim, text) in [("fake_terminal", "slow"), ("__guard", "wait"), ("tmux", "wait")] {
        let bench = Bench::new();
        let Some(tmux) = Tmux::of(&bench) else { return };
        declare(&bench, "robbo", ("autostart = \"always\"", ""));
        mark(&bench, "transcripts");
        let server = bench.serve();
        let slug = at_its_desk(&bench);
        say(&bench, &slug, text);
        bench.wait_left(if text == "slow" { "taken" } else { "waits" });
        if text == "wait" {
            wait_state(&bench, "robbo", "busy");
        }
        kill_process(&tmux, &terminal::job_of(&bench), victim);
        mark(&bench, "go");
        let line = "robbo stopped during its turn.";
        let (again, read) = match text {
            "slow" => {
                let open = (json!("unconfirmed"), json!("agent_ended"));
                until("nobody knows of it", || delivery(&bench, &slug, 1) == open);
                let (_, history, _) = bench.cli(&["msg", "history", &slug]);
                assert!(
                    history.contains("unconfirmed: robbo may not have received 1"),
                    "{history}"
                );
                let (_, shown, _) = bench.cli(&["channel", "show", &slug]);
                assert!(shown.contains("1 unconfirmed: `msg history"), "{shown}");
                say(&bench, &slug, "second");
                ("again second", ["slow", "second"])
            }
            _ => {
                let told = wait_for("the room is told", || {
                    Some(said(&bench, &slug)).filter(|it| it.iter().any(|it| it.1 == line))
                });
                assert_eq!(told.len(), 2, "{victim}: {told:?}");
                bench.json(&["msg", "again", &slug]);
                ("again wait", ["wait", "wait"])
            }
        };
        let told = wait_answers(&bench, &slug, "robbo", &[again]);
        let lost = told.iter().filter(|it| it.1 == line).count();
        assert_eq!(lost, usize::from(text == "wait"), "{victim}: {told:?}");
        assert_eq!(terminal::heard(&bench), read, "{victim}");
        if text == "slow" {
            // What it may not have read stands before what is new.
            let written = bench.left("01998d4e-6c1a-7f00-8000-000000000009.jsonl");
            let given = written.lines().find(|it| it.contains("second")).unwrap();
            let at = |word: &str| given.find(word).unwrap_or_else(|| panic!("{word}: {given}"));
            assert!(at("These may not have reached you:") < at("slow"), "{given}");
            assert!(at("slow") < at("New messages:"), "{given}");
        }
        no_gap(&bench, &slug);
        wait_end(&bench, server);
    }
}

/// The server, with an agent in a terminal: before its text is typed, before that is proven, and
/// with the end of its turn while no server is there.
#[cfg(feature = "faults")]
#[test]
fn a_server_killed_beside_a_terminal_says_nothing_twice_in_its_room() {
    for text in ["held", "slow", "wait"] {
        let bench = Bench::new();
        let Some(_tmux) = Tmux::of(&bench) else { return };
        // Only the text that nobody types is to be given up.
        let wait = if text == "held" { "proof_wait = \"6s\"," } else { "" };
        declare(&bench, "robbo", ("autostart = \"always\"", wait));
        mark(&bench, "transcripts");
        let held = bench.out.join("held");
        let env = [("WB_FAIL_AT", "text_claimed"), ("WB_CRASH_WHEN", held.as_str())];
        let server = bench.serve_with(&env);
        let slug = at_its_desk(&bench);
        if text == "held" {
            mark(&bench, "held");
        }
        say(&bench, &slug, text);
        match text {
            "held" => until("it is about to be typed", || {
                std::fs::read_to_string(&held).is_ok_and(|it| it == "text_claimed")
            }),
            "slow" => drop(bench.wait_left("taken")),
            _ => {
                bench.wait_left("waits");
                wait_state(&bench, "robbo", "busy");
            }
        }
        let job = terminal::job_of(&bench);
        server.kill();
        if text == "held" {
            std::fs::remove_file(&held).unwrap();
        }
        mark(&bench, "go");
        if text == "wait" {
            let output = bench.data.join("jobs").join(&job).join("stdout.log");
            until("its turn is over", || {
                std::fs::read_to_string(&output).is_ok_and(|it| it.contains("\"Stop\""))
            });
        }
        let server = bench.serve();
        if text == "held" {
            // Nobody knows whether it was typed, so a person decides.
            let open = (json!("unconfirmed"), json!("no_proof"));
            until("nobody knows of it", || delivery(&bench, &slug, 1) == open);
            assert!(terminal::heard(&bench).is_empty());
            bench.json(&["msg", "resend", &slug, "1", "--to", "robbo"]);
        }
        wait_answers(&bench, &slug, "robbo", &[&format!("again {text}")]);
        assert_eq!(delivery(&bench, &slug, 1).0, "confirmed", "{text}");
        let settle = format!("/api/channels/{slug}/messages/1/settle");
        let refused = bench.post(&settle, json!({"to": "robbo"}));
        assert_eq!(refused.refusal(), (409, "not_unconfirmed"));
        say(&bench, &slug, "second");
        wait_answers(&bench, &slug, "robbo", &[&format!("again {text}"), "again second"]);
        assert_eq!(terminal::heard(&bench), [text, "second"]);
        assert_eq!(terminal::job_of(&bench), job, "{text}");
        no_gap(&bench, &slug);
        wait_end(&bench, server);
    }
}

/// Serves a channel whose only agent has been asked to hand over, and is held while it writes.
fn held_handover(bench: &Bench) -> (Server, String) {
    let server = bench.serve();
    wait_known(bench, 1);
    let slug = room(bench, "Talk", json!([{"agent": "robbo"}]));
    say(bench, &slug, "First words");
    wait_said(bench, &slug, 2);
    bench.post("/api/agents/robbo/handover", json!({})).ok();
    bench.wait_left("held");
    (server, slug)
}

/// The server, while an agent writes its handoff; the later steps are in `seats`.
#[test]
fn a_server_killed_while_a_handoff_is_written_goes_on_with_it() {
    let bench = Bench::new();
    writers(&bench, &["robbo"]);
    let file = bench.base.join("agents/talker.sh");
    let waits =
        "echo held > \"$OUT/held\"; until [ -e \"$OUT/go\" ]; do sleep 0.05; done; printf '## Cur";
    let script = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, script.replacen("printf '## Cur", waits, 1)).unwrap();
    let (server, slug) = held_handover(&bench);
    let twice = bench.post("/api/agents/robbo/handover", json!({}));
    assert_eq!(twice.refusal(), (409, "handover_running"));
    server.kill();
    let server = bench.serve();
    mark(&bench, "go");
    wait_handover(&bench, "robbo", "seated");
    say(&bench, &slug, "And now?");
    wait_for("the successor answers", || {
        (answers(&said(&bench, &slug), "robbo").len() == 2).then_some(())
    });
    let line = "robbo-2 goes on for robbo, who has handed over.";
    let told = said(&bench, &slug);
    assert_eq!(told.iter().filter(|it| it.1 == line).count(), 1, "{told:?}");
    no_gap(&bench, &slug);
    control(&bench, "robbo-2", "stop").ok();
    server.stop();
}

/// An agent that writes its handoff by the path that it was told, once it may.
const BY_PATH: &str = r#"*'You hand over'*)
echo held > "$OUT/held"; until [ -e "$OUT/go" ]; do sleep 0.05; done
path=$(printf '%s' "$line" | sed 's/.*  \(\/[^ ]*\)_SLUG_\(agent-[0-9]*\.md\).*/\1_by-path_\2/')
printf '## Current work\nMoving.\n' > "$path"; echo "$path" > "$OUT/written";;
*'handoff read'*)"#;

/// The server, and its agent writes while none runs: not by the verb, but by the path it was told.
#[test]
fn a_handoff_that_was_written_by_its_path_is_found_when_the_server_is_back() {
    let bench = Bench::new();
    writers(&bench, &["robbo"]);
    let file = bench.base.join("agents/talker.sh");
    let script = std::fs::read_to_string(&file).unwrap();
    let (head, tail) = script.split_once("*'You hand over'*)").unwrap();
    let (_, tail) = tail.split_once("*'handoff read'*)").unwrap();
    std::fs::write(&file, format!("{head}{BY_PATH}{tail}")).unwrap();
    let (server, _) = held_handover(&bench);
    server.kill();
    mark(&bench, "go");
    let written = bench.wait_left("written");
    assert!(written.trim().ends_with("_by-path_agent-1.md"), "{written}");
    let server = bench.serve();
    let done = wait_handover(&bench, "robbo", "seated");
    let name = std::path::Path::new(written.trim()).file_name().unwrap().to_str().unwrap();
    assert_eq!(done["file"], name);
    wait_for("the successor reads it", || bench.left("read").contains("Moving.").then_some(()));
    // What other programs wrote is listed, too.
    let folder = bench.data.join("personas/robbo/handoffs");
    for old in ["20200301T102332Z_foo-bar_342.md", "20200301T102331-00000001.md"] {
        std::fs::write(folder.join(old), "# Old\n").unwrap();
    }
    let listed = bench.json(&["persona", "handoffs", "robbo"])["items"].clone();
    let of = |at: usize| {
        let it = &listed[at];
        (
            it["summary"].clone(),
            it["agent"].clone(),
            it["at"].as_str().map(|it| it[..10].to_owned()),
        )
    };
    assert_eq!((&listed[0]["file"], of(0).1), (&json!(name), json!("robbo")));
    let day = Some("2020-03-01".to_owned());
    assert_eq!(of(1), (json!("foo-bar"), json!("agent-342"), day.clone()));
    assert_eq!(of(2), (Value::Null, json!("robbo"), day));
    let newest = bench.json(&["persona", "handoffs", "robbo", "--limit", "1"])["items"].clone();
    assert_eq!((newest.as_array().map(Vec::len), &newest[0]), (Some(1), &listed[0]));
    control(&bench, "robbo-2", "stop").ok();
    server.stop();
}
