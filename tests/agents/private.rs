//! Who sees what was said to an agent in private: a turn is for everybody only if a channel caused
//! it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use wiki_browser::http::{ROUTES, Verb, Who};

use super::{control, declare, wait_state};
use crate::channels::room;
use crate::support::{Bench, Call, wait_for};

/// An agent whose answers have words that no message has.
const SECRETIVE: &str = "while :; do hear; began; say \"SECRET of $text of $id\"; done";

/// A person of the test.
struct Reader {
    name: &'static str,
    token: String,
}

impl Reader {
    fn new(bench: &Bench, name: &'static str, role: &str) -> Reader {
        if name != "ada" {
            bench.post("/api/persons", json!({"name": name, "role": role})).ok();
        }
        let scopes = if role == "viewer" { json!(["read"]) } else { json!(["read", "write"]) };
        let body = json!({"person": name, "name": format!("of {name}"), "scopes": scopes});
        let token = bench.post("/api/tokens", body).ok()["token"].as_str().unwrap().to_owned();
        Reader { name, token }
    }

    fn send(&self, bench: &Bench, call: Call) -> crate::support::Answer {
        bench.send(&call.token(&self.token))
    }

    /// Writes to the agent; returns the id of the message, once it is answered.
    fn tells(&self, bench: &Bench, text: &str, more: &Value) -> String {
        let mut body = json!({"to": "agent:robbo", "payload": text});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let sent = self.send(bench, Call::post("/api/messages", body)).ok();
        let id = sent["message_id"].as_str().unwrap().to_owned();
        let path = format!("/api/messages/{id}/await?timeout=20");
        let state = || bench.get(&path).ok()["state"].clone();
        wait_for("robbo answers", || (state() == "replied").then_some(()));
        id
    }

    /// Returns the turns that this person sees, with their messages.
    fn turns(&self, bench: &Bench, query: &str) -> Vec<(String, String)> {
        let path = format!("/api/agents/robbo/turns{query}");
        let page = self.send(bench, Call::get(&path)).ok();
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let items = page["items"].as_array().unwrap().iter();
        items.map(|it| (text(&it["id"]), text(&it["message_id"]))).collect()
    }
}

/// Visits every route and page as a person, with each of these words wherever one can stand;
/// returns which of them told a secret.
fn leaks(bench: &Bench, reader: &Reader, words: &[&str], secret: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (route, word) in ROUTES.iter().flat_map(|it| words.iter().map(move |word| (it, *word))) {
        // A stream of events does not end; they have ids only, which the rows of the log show.
        if route.verb != Verb::Get || route.who == Who::Signed || route.path == "/api/events" {
            continue;
        }
        let (mut target, mut left) = (String::new(), route.path);
        while let Some((before, rest)) = left.split_once('{') {
            target = target + before + word;
            left = rest.split_once('}').unwrap().1;
        }
        target += left;
        let answer = reader.send(bench, Call::get(&target));
        if answer.body.to_string().contains(secret) {
            found.insert(route.path.to_owned());
        }
    }
    found
}

/// What was said: each message with the people who may see its turn, and a private one of kim's.
struct Talk {
    seen_by: BTreeMap<String, BTreeSet<&'static str>>,
    own: (String, String),
}

/// Has people write to the agent, in private and in a channel, in an order that looks random.
fn talk(bench: &Bench, readers: &[Reader; 4], slug: &str) -> Talk {
    let [ada, kim, ..] = readers;
    let everybody: BTreeSet<&str> = readers.iter().map(|it| it.name).collect();
    let (mut seen_by, mut own, mut dice) = (BTreeMap::new(), None, 0x9e37_79b9_u32);
    for number in 0..12 {
        dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let text = format!("n{number}");
        let (id, people) = match (dice >> 28) % 4 {
            0 => {
                let path = format!("/api/channels/{slug}/messages");
                let said = bench.post(&path, json!({"body": text})).ok();
                wait_for("the channel has the answer", || {
                    let page = bench.get(&path).ok();
                    let last = page["items"].as_array()?.last()?;
                    (last["answers"] == said["sequence"]).then_some(())
                });
                (said["message_id"].as_str().unwrap().to_owned(), everybody.clone())
            }
            1 => (ada.tells(bench, &text, &json!({})), BTreeSet::from(["ada"])),
            2 => {
                let id = kim.tells(bench, &text, &json!({}));
                own = Some((id.clone(), text));
                (id, BTreeSet::from(["kim"]))
            }
            // The answer goes to somebody else.
            _ => {
                let to_lou = json!({"reply_to": "person:lou"});
                (kim.tells(bench, &text, &to_lou), BTreeSet::from(["kim", "lou"]))
            }
        };
        seen_by.insert(id, people);
    }
    wait_state(bench, "robbo", "idle");
    Talk { seen_by, own: own.expect("kim wrote to the agent") }
}

/// Checks the lists of turns; returns the turn of each message.
#[track_caller]
fn check_lists(bench: &Bench, readers: &[Reader; 4], talk: &Talk) -> BTreeMap<String, String> {
    let mut turns = BTreeMap::new();
    for reader in readers {
        let listed = reader.turns(bench, "");
        let messages: BTreeSet<&str> = listed.iter().map(|it| it.1.as_str()).collect();
        let expected = talk.seen_by.iter().filter(|it| it.1.contains(reader.name));
        let expected: BTreeSet<&str> = expected.map(|it| it.0.as_str()).collect();
        assert_eq!(messages, expected, "{}", reader.name);
        // A page is filled although others' turns are in between.
        assert_eq!(reader.turns(bench, "?limit=2"), listed[..listed.len().min(2)]);
        turns.extend(listed.into_iter().map(|(turn, message)| (message, turn)));
    }
    assert_eq!(turns.len(), talk.seen_by.len(), "each message has one turn that somebody sees");
    turns
}

/// Two members, an admin and a viewer share one agent: each sees the turns of the channel and their
/// own, and nobody anything else, wherever they look.
#[test]
fn a_turn_on_a_direct_message_is_seen_by_whoever_wrote_it() {
    let bench = Bench::new();
    declare(&bench, "robbo", "autostart = \"on_message\"", SECRETIVE);
    let server = bench.serve();
    wait_state(&bench, "robbo", "stopped");
    let readers = [("ada", "admin"), ("kim", "member"), ("lou", "member"), ("vic", "viewer")]
        .map(|(name, role)| Reader::new(&bench, name, role));
    let slug = room(&bench, "Open", json!([{"agent": "robbo"}]));
    let talk = talk(&bench, &readers, &slug);
    let turns = check_lists(&bench, &readers, &talk);
    for (message, turn) in &turns {
        for reader in &readers {
            let answer = reader.send(&bench, Call::get(&format!("/api/turns/{turn}")));
            match talk.seen_by[message].contains(reader.name) {
                true => {
                    let shown = answer.ok();
                    assert!(shown["answer"].as_str().unwrap().contains("SECRET"), "{shown}");
                }
                false => assert_eq!(answer.refusal(), (404, "no_turn"), "{}", reader.name),
            }
        }
    }
    let [ada, kim, lou, vic] = &readers;
    let (id, text) = &talk.own;
    let job = bench.get("/api/agents/robbo").ok()["job_id"].as_str().unwrap().to_owned();
    let words = [turns[id].as_str(), id, &job, &slug, "robbo", "kim"];
    let secret = format!("SECRET of {text} of");
    let output: BTreeSet<String> =
        ["/agents/{name}", "/api/agents/{name}/peek", "/api/agent/jobs/{id}/stream", "/jobs/{id}"]
            .map(str::to_owned)
            .into();
    for is_stopped in [false, true] {
        if is_stopped {
            control(&bench, "robbo", "stop").ok();
            bench.ended(&job);
        }
        for reader in [lou, vic] {
            assert_eq!(leaks(&bench, reader, &words, &secret), BTreeSet::new(), "{}", reader.name);
        }
        // What an agent prints is for admins; that it was said to kim is not shown to them either.
        let found = leaks(&bench, ada, &words, &secret);
        assert!(found.is_subset(&output), "{found:?}");
    }
    let peek = lou.send(&bench, Call::get("/api/agents/robbo/peek"));
    assert_eq!(peek.refusal(), (404, "private_output"));
    let log = vic.send(&bench, Call::get(&format!("/api/agent/jobs/{job}/log?stream=stdout")));
    assert_eq!(log.refusal(), (404, "private_output"));
    let found = leaks(&bench, kim, &words, &secret);
    assert!(found.contains("/api/turns/{id}") && !found.contains("/jobs/{id}"), "{found:?}");
    server.stop();
}
