//! Agents in a room: programs that are spoken to while they run, through guard and pipes.

use serde_json::{Value, json};

use crate::channels::{room, said, sequences};
use crate::support::{Bench, Call, until, wait_for};

/// A program that speaks `lines`: it keeps what it is told, and answers with its name and how many
/// messages it has had.
pub(crate) const TALKER: &str = r#"while IFS= read -r line; do
printf '%s\n' "$line" >> "$OUT/heard.$WB_AGENT"
id=$(printf '%s' "$line" | sed 's/^{"id":"\([^"]*\)".*/\1/')
printf '{"turn":"began","id":"%s"}\n' "$id"
count=$(wc -l < "$OUT/heard.$WB_AGENT")
text="$WB_AGENT answers $count at some length, so that it is more than a word of thanks to all"
printf '{"turn":"ended","id":"%s","text":"%s","tokens":5}\n' "$id" "$text"
done
"#;

/// Declares agents that are programs.
pub(crate) fn agents(bench: &Bench, names: &[&str]) {
    let file = bench.base.join("agents/talker.sh");
    std::fs::write(&file, TALKER).unwrap();
    let out = &bench.out;
    bench.lua(&format!(
        r#"wb.engine "talker" {{
  type = "stream", speaks = "lines", command = {{ "/bin/sh", "{file}" }},
  env = {{ OUT = "{out}" }},
}}
"#
    ));
    for name in names {
        bench.lua(&format!("wb.agent \"{name}\" {{ about = \"A test\", engine = \"talker\" }}\n"));
    }
}

/// Returns the texts that an agent was given, each a block.
pub(crate) fn heard(bench: &Bench, name: &str) -> Vec<String> {
    let lines = bench.left(&format!("heard.{name}"));
    let text = |it: &str| serde_json::from_str::<Value>(it).unwrap()["text"].clone();
    lines.lines().map(|it| text(it).as_str().unwrap().to_owned()).collect()
}

/// Waits until so many messages stand in a channel, and returns them.
#[track_caller]
pub(crate) fn wait_said(bench: &Bench, slug: &str, count: usize) -> Vec<(String, String)> {
    wait_for(&format!("{count} messages in {slug}"), || {
        Some(said(bench, slug)).filter(|it| it.len() >= count)
    })
}

#[track_caller]
pub(crate) fn say(bench: &Bench, slug: &str, text: &str) {
    bench.post(&format!("/api/channels/{slug}/messages"), json!({"body": text})).ok();
}

pub(crate) fn answers(said: &[(String, String)], who: &str) -> Vec<String> {
    said.iter().filter(|it| it.0 == who).map(|it| it.1.clone()).collect()
}

/// An agent that is declared already answers in a channel.
#[track_caller]
pub(crate) fn talk(bench: &Bench, name: &str) {
    wait_known(bench, 1);
    let slug = room(bench, "Events", json!([{"agent": name}]));
    say(bench, &slug, "Are you there?");
    wait_said(bench, &slug, 2);
}

/// Waits until the server has made the rows of the agents that the script declares.
#[track_caller]
pub(crate) fn wait_known(bench: &Bench, count: usize) {
    wait_for("the agents are known", || {
        let all = bench.get("/api/agents").ok();
        (all["items"].as_array()?.len() >= count).then_some(())
    });
}

/// What is written in a channel is there to be read, and not dropped like what is sent to an agent.
#[test]
fn a_message_in_a_channel_waits_for_an_agent_that_is_no_longer_declared() {
    let bench = Bench::new();
    agents(&bench, &["robbo"]);
    let server = bench.serve();
    wait_known(&bench, 1);
    let slug = room(&bench, "Gone", json!([{"agent": "robbo"}]));
    let good = bench.declared();
    bench.edit(|lua| lua[..lua.find("wb.agent \"robbo\"").unwrap()].to_owned());
    bench.write_script();
    assert_eq!(bench.json(&["reload"])["ok"], true);
    let (code, _, told) = bench.cli(&["msg", "send", &slug, "@robbo are you there?"]);
    let why = "agent:robbo is no longer declared; the message waits until it is declared again";
    assert!(code == 0 && told.contains(why), "{code}: {told}");
    server.stop();
    let server = bench.serve();
    wait_for("its end is noticed", || {
        let robbo = bench.json(&["agent", "show", "robbo"]);
        (robbo["reason"] == "not_declared").then_some(())
    });
    bench.edit(|_| good.clone());
    bench.write_script();
    assert_eq!(bench.json(&["reload"])["ok"], true);
    // It ran when it was taken out of the script, and starts again by itself.
    assert_eq!(answers(&wait_said(&bench, &slug, 2), "robbo").len(), 1);
    server.stop();
}

#[test]
fn a_person_and_two_agents_talk_in_one_room() {
    let bench = Bench::new();
    agents(&bench, &["robbo", "paula"]);
    let server = bench.serve();
    wait_known(&bench, 2);
    let slug = room(&bench, "Talk", json!([{"persona": "robbo"}, {"persona": "paula"}]));
    say(&bench, &slug, "What next?");
    let told = wait_said(&bench, &slug, 3);
    assert_eq!((answers(&told, "robbo").len(), answers(&told, "paula").len()), (1, 1), "{told:?}");
    // Neither is woken by the other's answer; who is mentioned has read it before.
    say(&bench, &slug, "@paula do you agree?");
    let told = wait_said(&bench, &slug, 5);
    assert_eq!((answers(&told, "robbo").len(), answers(&told, "paula").len()), (1, 2), "{told:?}");
    let heard = bench.left("heard.paula");
    let last: Value = serde_json::from_str(heard.lines().last().unwrap()).unwrap();
    let text = last["text"].as_str().unwrap();
    assert!(text.starts_with("[#talk] robbo (agent:robbo):\nrobbo answers 1"), "{text}");
    assert!(text.ends_with("(operator):\n@paula do you agree?\n"), "{text}");
    assert_eq!(sequences(&bench, &slug), [1, 2, 3, 4, 5]);
    let shown = bench.json(&["channel", "show", &slug]);
    assert_eq!((&shown["spent"]["turns"], &shown["spent"]["tokens"]), (&json!(3), &json!(15)));
    // Who heard it stands at the message.
    let page = bench.get(&format!("/api/channels/{slug}/messages")).ok();
    let heard = wait_for("robbo's context waits", || {
        let heard = page["items"][3]["heard"].as_array()?.clone();
        (heard.len() == 2).then_some(heard)
    });
    let of = |name: &str| heard.iter().find(|it| it["agent"] == name).unwrap().clone();
    assert_eq!((&of("paula")["state"], &of("paula")["wakes"]), (&json!("confirmed"), &json!(true)));
    assert_eq!((&of("robbo")["state"], &of("robbo")["wakes"]), (&json!("queued"), &json!(false)));
    // Each turn names its cause and its answer.
    let turns = bench.json(&["agent", "turns", "paula"])["items"].clone();
    let newest = &turns[0];
    assert_eq!(turns.as_array().unwrap().len(), 2, "{turns}");
    assert_eq!((&newest["channel"], &newest["sequence"]), (&json!(slug), &json!(4)));
    assert_eq!((&newest["state"], &newest["answer_sequence"]), (&json!("answered"), &json!(5)));
    let id = newest["id"].as_str().unwrap();
    let (_, answer, _) = bench.cli(&["agent", "turns", "paula", "--turn", id]);
    assert!(answer.starts_with("paula answers 2"), "{answer}");
    bench.json(&["channel", "complete", &slug]);
    // The agents are free for another room.
    let next = room(&bench, "Next", json!([{"agent": "robbo"}]));
    say(&bench, &next, "And now?");
    let told = wait_said(&bench, &next, 2);
    assert_eq!(answers(&told, "robbo").len(), 1, "{told:?}");
    server.stop();
}

/// While an agent works it is given nothing: its answer has one cause. Fails with
/// `WB_WITHOUT=one_block`.
#[test]
fn g38_what_is_said_while_an_agent_works_is_one_block_after_its_turn() {
    let bench = Bench::new();
    agents(&bench, &["robbo"]);
    let waits = "case \"$line\" in *'hold on'*) echo held > \"$OUT/held\"; \
                 until [ -e \"$OUT/go\" ]; do sleep 0.05; done;; esac\ntext=";
    let script = TALKER.replacen("text=", waits, 1);
    std::fs::write(bench.base.join("agents/talker.sh"), script).unwrap();
    let server = bench.serve();
    wait_known(&bench, 1);
    let slug = room(&bench, "Busy", json!([{"agent": "robbo"}]));
    say(&bench, &slug, "hold on");
    until("its turn is known", || {
        bench.get("/api/agents/robbo/turns").ok()["items"][0]["state"] == "running"
    });
    bench.wait_left("held");
    say(&bench, &slug, "the second");
    say(&bench, &slug, "the third");
    std::fs::write(bench.out.join("go"), "").unwrap();
    let told = wait_said(&bench, &slug, 5);
    assert_eq!(answers(&told, "robbo").len(), 2, "{told:?}");
    let given = heard(&bench, "robbo");
    assert_eq!(given.len(), 2, "{given:?}");
    assert!(given[1].contains("the second") && given[1].contains("the third"), "{given:?}");
    let page = bench.get(&format!("/api/channels/{slug}/messages")).ok();
    let causes: Vec<&Value> =
        page["items"].as_array().unwrap().iter().map(|it| &it["answers"]).collect();
    assert_eq!(causes, [&Value::Null, &Value::Null, &Value::Null, &json!(1), &json!(3)]);
    // An answer to a channel that was completed meanwhile is not posted, and not lost.
    for file in ["go", "held"] {
        std::fs::remove_file(bench.out.join(file)).unwrap();
    }
    say(&bench, &slug, "hold on once more");
    bench.wait_left("held");
    bench.json(&["channel", "complete", &slug]);
    std::fs::write(bench.out.join("go"), "").unwrap();
    let line = "robbo answered after the channel was completed; see agent:robbo.";
    until("the channel says so", || {
        let page = bench.get(&format!("/api/channels/{slug}/messages")).ok();
        page["items"].as_array().unwrap().iter().any(|it| it["text"] == line)
    });
    let turn = &bench.get("/api/agents/robbo/turns").ok()["items"][0];
    assert!(turn["answer"].as_str().unwrap().starts_with("robbo answers 3"), "{turn:#}");
    let page = bench.get("/agents/robbo").body.to_string();
    assert!(page.contains("Answer, not posted") && page.contains("robbo answers 3"));
    server.stop();
}

/// Killed at every step between a message and its answer, the answer stands there at most once, and
/// the room goes on.
#[cfg(feature = "faults")]
#[test]
fn a_server_that_is_killed_posts_no_answer_twice() {
    for point in ["block_claimed", "block_said", "turn_ended"] {
        let bench = Bench::new();
        agents(&bench, &["robbo"]);
        let server = bench.serve();
        wait_known(&bench, 1);
        let slug = room(&bench, "Kill", json!([{"agent": "robbo"}]));
        server.stop();
        let mut server = bench.start(&[("WB_CRASH_AT", point)]).ready();
        let words = json!({"body": "Are you there?"});
        let call = Call::post(&format!("/api/channels/{slug}/messages"), words);
        // It may crash before it has answered.
        drop(call.token(&bench.operator()).try_socket(&bench.socket()));
        server.wait();
        let server = bench.serve();
        say(&bench, &slug, "And now?");
        let told = wait_for(&format!("{point}: robbo answers"), || {
            let told = said(&bench, &slug);
            let is_answered = told.iter().rposition(|it| it.0 == "robbo")
                > told.iter().position(|it| it.1 == "And now?");
            is_answered.then_some(told)
        });
        let answers = answers(&told, "robbo");
        let heard = bench.left("heard.robbo").lines().count();
        assert!(answers.len() <= heard, "{point}: {told:?}");
        let distinct: std::collections::BTreeSet<&String> = answers.iter().collect();
        assert_eq!(distinct.len(), answers.len(), "{point}: {told:?}");
        let all = sequences(&bench, &slug);
        assert_eq!(all, (1..=all.len() as i64).collect::<Vec<_>>(), "{point}");
        server.stop();
    }
}

/// A turn that comes to nothing can be asked again, once.
#[test]
fn what_came_to_nothing_is_asked_again_once() {
    let bench = Bench::new();
    agents(&bench, &["robbo"]);
    let file = bench.base.join("agents/talker.sh");
    let fails = "text=; test \"$count\" = 1 && { printf '{\"turn\":\"ended\",\"id\":\"%s\",\
                 \"failed\":\"no model\"}\\n' \"$id\"; continue; }\ntext=";
    std::fs::write(&file, TALKER.replacen("text=", fails, 1)).unwrap();
    let server = bench.serve();
    wait_known(&bench, 1);
    let slug = room(&bench, "Again", json!([{"agent": "robbo"}]));
    say(&bench, &slug, "What next?");
    let told = wait_said(&bench, &slug, 2);
    assert_eq!(told[1].1, "robbo could not answer: no model");
    let route = |number: u32| format!("/api/channels/{slug}/messages/{number}/again");
    let line = |at: usize| {
        let page = bench.get(&format!("/api/channels/{slug}/messages")).ok();
        page["items"][at]["may_ask_again"].clone()
    };
    assert_eq!((line(0), line(1)), (json!(false), json!(true)));
    assert_eq!(bench.post(&route(1), json!({})).refusal(), (409, "turn_answered"));
    assert_eq!(bench.post(&route(9), json!({})).refusal(), (404, "no_message"));
    bench.json(&["msg", "again", &slug]);
    let told = wait_said(&bench, &slug, 4);
    assert_eq!(told[2].1, "ada asked robbo again.");
    assert_eq!(answers(&told, "robbo").len(), 1, "{told:?}");
    assert_eq!(line(1), json!(false));
    assert_eq!(bench.post(&route(2), json!({})).refusal(), (409, "already_asked"));
    let heard: Vec<Value> =
        bench.left("heard.robbo").lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let [first, second] = heard.as_slice() else { panic!("{heard:?}") };
    assert_ne!(first["id"], second["id"]);
    assert!(second["text"].as_str().unwrap().contains("What next?"), "{second}");
    let page = bench.get(&format!("/api/channels/{slug}/messages")).ok();
    assert_eq!(page["items"][0]["heard"].as_array().unwrap().len(), 1, "{page}");
    server.stop();
}

/// Whoever is killed, the agent or its guard: the room is told, and asks it again once.
#[test]
fn an_agent_that_is_killed_in_its_turn_is_missed_and_answers_when_it_is_asked_again() {
    for whom in ["$$", "$PPID"] {
        let bench = Bench::new();
        agents(&bench, &["robbo"]);
        let dies = format!(
            "case \"$line\" in *'fall once'*) [ -e \"$OUT/fell\" ] || \
             {{ : > \"$OUT/fell\"; until [ -e \"$OUT/known\" ]; do sleep 0.05; done; \
             kill -9 {whom}; read -r never; exit 1; }};; esac\ntext="
        );
        let file = bench.base.join("agents/talker.sh");
        std::fs::write(&file, TALKER.replacen("text=", &dies, 1)).unwrap();
        let server = bench.serve();
        wait_known(&bench, 1);
        let slug = room(&bench, "Fall", json!([{"agent": "robbo"}]));
        say(&bench, &slug, "Please fall once, @robbo");
        // A guard that is killed before it has read on says nothing of a turn.
        until(&format!("{whom}: its turn is known"), || {
            bench.get("/api/agents/robbo/turns").ok()["items"][0]["state"] == "running"
        });
        std::fs::write(bench.out.join("known"), "").unwrap();
        let line = "robbo stopped during its turn.";
        let told = wait_for(&format!("{whom}: the room is told"), || {
            Some(said(&bench, &slug)).filter(|it| it.iter().any(|it| it.1 == line))
        });
        assert_eq!(answers(&told, "robbo").len(), 0, "{told:?}");
        let number = told.iter().position(|it| it.1 == line).unwrap() + 1;
        let again = format!("/api/channels/{slug}/messages/{number}/again");
        bench.post(&again, json!({})).ok();
        assert_eq!(bench.post(&again, json!({})).refusal(), (409, "already_asked"));
        let told = wait_for(&format!("{whom}: it answers"), || {
            Some(said(&bench, &slug)).filter(|it| answers(it, "robbo").len() == 1)
        });
        assert_eq!(told.iter().filter(|it| it.1 == line).count(), 1, "{told:?}");
        say(&bench, &slug, "And now?");
        let told = wait_for("it goes on", || {
            Some(said(&bench, &slug)).filter(|it| answers(it, "robbo").len() >= 2)
        });
        assert_eq!(answers(&told, "robbo").len(), 2, "{told:?}");
        let all = sequences(&bench, &slug);
        assert_eq!(all, (1..=all.len() as i64).collect::<Vec<_>>());
        server.stop();
    }
}
