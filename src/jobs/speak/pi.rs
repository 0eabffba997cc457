//! Pi as a stream: `pi --mode rpc`, commands and events as JSON lines.
//!
//! What was seen of version 0.73.1: a `prompt` during a turn is refused, and a `follow_up` stays
//! queued after an `abort` and runs behind the next prompt: so it is written to only while no turn
//! runs. The user's `message_start` comes before the first token, and has no id: the mark in the
//! text names the block. A turn ends with one `agent_end`; after an error of its provider Pi may
//! try again by itself, which it says right behind that, so it is asked where it is before the turn
//! counts as failed. Each piece of an answer comes with all that was said before: of a long answer
//! a part of the output may be lost, and then it is asked as well. A session has no file before its
//! first answer, and what it was given until then is forgotten: it knows no block again.

use serde_json::{Value, json};

use crate::base::{BlockId, truncate_chars};
use crate::jobs::speak::talk::{Greeting, answered, called, said};
use crate::jobs::speak::{Ending, Fact, Hearing, Tokens};
use crate::process::{token_names, with_token};

/// Longest text about a failure, in characters.
const WHY_CHARS_MAX: usize = 2_000;
/// What it says of tries that were interrupted.
const CANCELLED: &str = "Retry cancelled";
/// Why a block is given again later.
const BUSY: &str = "busy";
/// Ids of our questions where it is: the first one to a process that goes on with a session, and
/// any other.
const RESUMED: &str = "wb-resumed";
const STATE: &str = "wb-state";

/// Returns the line that begins the conversation: it tells where its session is kept.
pub(super) fn greeting(greeting: &Greeting) -> Value {
    where_is_it(if greeting.session.is_some() { RESUMED } else { STATE })
}

fn where_is_it(id: &str) -> Value {
    json!({"id": id, "type": "get_state"})
}

/// Returns the line that gives a block.
pub(super) fn block(id: &BlockId, text: &str) -> Value {
    json!({"id": id, "type": "prompt", "message": with_token(id.as_str(), text)})
}

/// Returns the line that interrupts.
pub(super) fn interrupt(number: u64) -> Value {
    json!({"id": format!("wb-abort-{number}"), "type": "abort"})
}

/// Reads one line.
pub(super) fn read(hearing: &mut Hearing, line: &Value) -> Vec<Fact> {
    let message = &line["message"];
    match line["type"].as_str() {
        Some("agent_start") => {
            if hearing.talk.doubt.take().is_none() {
                hearing.talk.begin_turn();
            }
            hearing.talk.is_again = false;
            hearing.work()
        }
        Some("message_start") if message["role"] == "user" => {
            let text = text_of(message);
            let block = token_names(&text, 1).first().and_then(|it| it.parse().ok());
            hearing.works = true;
            hearing.begin(block)
        }
        Some("message_end") if message["role"] == "assistant" => spoken(hearing, message),
        Some("agent_end") => over(hearing),
        Some("auto_retry_start" | "compaction_start") => {
            hearing.talk.is_again = true;
            Vec::new()
        }
        Some("auto_retry_end") if line["success"] == false => {
            if line["finalError"] == CANCELLED && hearing.talk.doubt.is_some() {
                hearing.talk.doubt = Some(Ending::Interrupted);
            }
            give_up(hearing)
        }
        Some("compaction_end") if line["willRetry"] != true => {
            let mut facts = give_up(hearing);
            facts.extend(free(hearing));
            facts
        }
        Some("response") => answer(hearing, line),
        _ => Vec::new(),
    }
}

/// Asks where it is, since a part of its output was not read.
pub(super) fn ask(hearing: &mut Hearing) {
    hearing.talk.has_gap = true;
    hearing.talk.tell(&where_is_it(STATE));
}

fn spoken(hearing: &mut Hearing, message: &Value) -> Vec<Fact> {
    let usage = &message["usage"];
    let count = |name: &str| usage[name].as_u64().unwrap_or(0);
    let tokens = Tokens {
        read: count("input"),
        cached: count("cacheRead"),
        stored: count("cacheWrite"),
        written: count("output"),
    };
    hearing.talk.spend(tokens, usage["cost"]["total"].as_f64());
    let text = text_of(message);
    hearing.talk.doubt = match message["stopReason"].as_str() {
        Some("aborted") => Some(Ending::Interrupted),
        Some("error") => Some(Ending::Failed(why(&message["errorMessage"]))),
        _ => {
            hearing.talk.said = text;
            None
        }
    };
    hearing.begin(None)
}

/// Hears that it is over, unless it failed: then it may try again.
fn over(hearing: &mut Hearing) -> Vec<Fact> {
    hearing.talk.has_gap = false;
    match &hearing.talk.doubt {
        // Its end was told before.
        _ if hearing.turn.is_none() && !hearing.works => Vec::new(),
        Some(Ending::Failed(_)) => {
            hearing.talk.tell(&where_is_it(STATE));
            Vec::new()
        }
        _ => end(hearing),
    }
}

fn end(hearing: &mut Hearing) -> Vec<Fact> {
    let how = hearing.talk.doubt.take().unwrap_or(Ending::Answered);
    let text = match how {
        Ending::Answered => std::mem::take(&mut hearing.talk.said),
        _ => String::new(),
    };
    let (tokens, cost) = (hearing.talk.tokens, hearing.talk.cost_usd);
    let mut facts = hearing.end(&text, how, tokens, cost);
    facts.extend(free(hearing));
    hearing.talk.begin_turn();
    facts
}

/// Ends a turn that failed and is not tried again.
fn give_up(hearing: &mut Hearing) -> Vec<Fact> {
    hearing.talk.is_again = false;
    match hearing.talk.doubt {
        Some(_) if hearing.turn.is_some() => end(hearing),
        _ => Vec::new(),
    }
}

fn free(hearing: &mut Hearing) -> Option<Fact> {
    std::mem::take(&mut hearing.talk.has_refused).then_some(Fact::Free)
}

/// Reads an answer to one of our commands.
fn answer(hearing: &mut Hearing, line: &Value) -> Vec<Fact> {
    let (data, is_done) = (&line["data"], line["success"] == true);
    match line["command"].as_str() {
        Some("get_state") if is_done => {
            // It begins an empty session in the place of one whose file is gone.
            let is_lost = line["id"] == RESUMED && data["messageCount"] == 0;
            let mut facts = Vec::from_iter(is_lost.then_some(Fact::SessionLost));
            facts.extend(state(hearing, data));
            facts
        }
        Some("get_last_assistant_text") if is_done && hearing.talk.has_gap => {
            hearing.talk.has_gap = false;
            data["text"].as_str().unwrap_or_default().clone_into(&mut hearing.talk.said);
            if hearing.turn.is_some() { end(hearing) } else { Vec::new() }
        }
        Some("prompt") if !is_done => refused(hearing, line),
        _ => Vec::new(),
    }
}

fn state(hearing: &mut Hearing, data: &Value) -> Vec<Fact> {
    let mut facts = Vec::new();
    let is_first = hearing.talk.bearings.thread.is_none();
    if is_first {
        let file = data["sessionFile"].as_str();
        // One that keeps no session has none to go on with.
        hearing.talk.bearings.thread = Some(file.unwrap_or_default().to_owned());
        facts.extend(file.map(|it| Fact::Session { name: it.to_owned() }));
        facts.push(Fact::Ready);
    }
    if hearing.talk.doubt.is_some() && !hearing.talk.is_again {
        facts.extend(give_up(hearing));
    } else if hearing.talk.has_gap && data["isStreaming"] == false && hearing.turn.is_some() {
        hearing.talk.tell(&json!({"id": "wb-last", "type": "get_last_assistant_text"}));
    }
    facts
}

/// Hears that a block was not taken: while a turn runs it waits, otherwise it never will be.
fn refused(hearing: &mut Hearing, line: &Value) -> Vec<Fact> {
    let Some(block) = line["id"].as_str().and_then(|it| it.parse::<BlockId>().ok()) else {
        return Vec::new();
    };
    if hearing.turn.is_some() || hearing.talk.is_again {
        hearing.talk.has_refused = true;
        return vec![Fact::Refused { block, why: BUSY.to_owned() }];
    }
    let mut facts = hearing.begin(Some(block));
    let how = Ending::Failed(why(&line["error"]));
    facts.extend(hearing.end("", how, Tokens::default(), None));
    facts
}

fn why(words: &Value) -> String {
    truncate_chars(words.as_str().unwrap_or("the engine does not say why"), WHY_CHARS_MAX)
}

fn text_of(message: &Value) -> String {
    if let Some(text) = message["content"].as_str() {
        return text.to_owned();
    }
    let parts = message["content"].as_array().into_iter().flatten();
    let texts: Vec<&str> = parts.filter_map(|it| it["text"].as_str()).collect();
    texts.join("\n")
}

/// Returns what a line tells a person who looks at the job.
pub(super) fn steps(line: &Value) -> Vec<Value> {
    let message = &line["message"];
    if line["type"] != "message_end" {
        return Vec::new();
    }
    let text = text_of(message);
    match message["role"].as_str() {
        Some("assistant") => {
            let mut steps = Vec::new();
            if !text.is_empty() {
                steps.push(said(&text));
            }
            let calls = message["content"].as_array().into_iter().flatten();
            for call in calls.filter(|it| it["type"] == "toolCall") {
                let input = call["arguments"].to_string();
                let name = call["name"].as_str().unwrap_or_default();
                steps.push(called(&call["id"], name, &input));
            }
            if let Some(error) = message["errorMessage"].as_str() {
                steps.push(said(error));
            }
            steps
        }
        Some("toolResult") => {
            vec![answered(&message["toolCallId"], message["isError"] != true, &text)]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Speaks;

    const REAL: &str = include_str!("../../../tests/data/pi-rpc.jsonl");

    fn id(number: u32) -> Option<BlockId> {
        format!("01998d4e-6c1a-7f00-8000-00000000000{number}").parse().ok()
    }

    /// A real run: a turn with a call, one that was interrupted while another was refused, one
    /// whose provider refused, one that was tried again, one that was given up, and one whose next
    /// try was interrupted.
    #[test]
    fn the_turns_of_a_real_run_are_heard() {
        let mut hearing = Hearing::new(Speaks::PiRpc);
        let mut facts: Vec<Fact> = REAL.lines().flat_map(|it| hearing.line(it)).collect();
        let Fact::Session { name } = facts.remove(0) else { panic!("{facts:?}") };
        assert!(name.starts_with("/srv/home/.pi/agent/sessions/"), "{name}");
        assert_eq!(facts.remove(0), Fact::Ready);
        let told: Vec<String> = facts
            .iter()
            .filter_map(|fact| match fact {
                Fact::Began { block } => Some(format!("began {}", name_of(block.as_ref()))),
                Fact::Refused { block, why } => Some(format!("{why} {}", name_of(Some(block)))),
                Fact::Free => Some("free".to_owned()),
                Fact::Ended { block, text, how, tokens, cost_usd, .. } => {
                    assert_eq!(*cost_usd, Some(0.0));
                    let how = match how {
                        Ending::Answered => format!("said {text} ({})", tokens.sum()),
                        Ending::Interrupted => "interrupted".to_owned(),
                        Ending::Failed(why) => why.split('"').next().unwrap_or_default().to_owned(),
                    };
                    Some(format!("{how} {}", name_of(block.as_ref())))
                }
                _ => None,
            })
            .collect();
        let wanted = [
            "began 1",
            "said four (2908) 1",
            "began 2",
            "busy 3",
            "interrupted 2",
            "free",
            "began 4",
            "400 { 4",
            "began 5",
            "said five (3291) 5",
            "began 6",
            "{ 6",
            "began 7",
            "interrupted 7",
        ];
        assert_eq!(told, wanted);
    }

    fn name_of(block: Option<&BlockId>) -> String {
        block.map_or("none".to_owned(), |it| it.as_str()[35..].to_owned())
    }

    #[test]
    fn after_a_gap_it_is_asked_how_the_turn_ended() {
        let mut hearing = Hearing::new(Speaks::PiRpc);
        let until = REAL.lines().take_while(|it| !it.contains("\"four\""));
        until.for_each(|it| drop(hearing.line(it)));
        hearing.told();
        assert_eq!(hearing.lose(), []);
        let asked = hearing.told().lines;
        assert!(matches!(&asked[..], [it] if it.contains("get_state")), "{asked:?}");
        let state = |is_streaming: bool| {
            let data = json!({"isStreaming": is_streaming});
            json!({"type": "response", "command": "get_state", "success": true, "data": data})
                .to_string()
        };
        // It still works: its end will be told.
        assert_eq!(hearing.line(&state(true)), []);
        assert!(hearing.told().lines.is_empty());
        assert_eq!(hearing.line(&state(false)), []);
        let asked = hearing.told().lines;
        assert!(matches!(&asked[..], [it] if it.contains("get_last_assistant_text")), "{asked:?}");
        let last = r#"{"type":"response","command":"get_last_assistant_text","success":true,
            "data":{"text":"a long answer"}}"#
            .replace('\n', "");
        let facts = hearing.line(&last);
        assert!(
            matches!(&facts[..], [Fact::Ended { block, text, how: Ending::Answered, .. }]
            if *block == id(1) && text == "a long answer"),
            "{facts:?}"
        );
        assert_eq!(hearing.lose(), [], "no turn runs");
    }

    /// As 0.73.1 answers to `--session` with a file that is not there.
    #[test]
    fn a_session_without_its_file_is_lost() {
        let heard = |id: &str, count: u32| {
            let data = json!({"sessionFile": "s.jsonl", "messageCount": count});
            let line = json!({
                "id": id, "type": "response", "command": "get_state", "success": true,
                "data": data,
            });
            Hearing::new(Speaks::PiRpc).line(&line.to_string())
        };
        let known = [Fact::Session { name: "s.jsonl".into() }, Fact::Ready];
        assert_eq!(heard(STATE, 0), known);
        assert_eq!(heard(RESUMED, 2), known);
        assert_eq!(heard(RESUMED, 0)[0], Fact::SessionLost);
        let resumed = Greeting { session: Some("s.jsonl".into()), ..Greeting::default() };
        assert_eq!(greeting(&resumed)["id"], RESUMED);
        assert_eq!(greeting(&Greeting::default())["id"], STATE);
    }

    #[test]
    fn what_it_can_never_take_is_a_failure() {
        let mut hearing = Hearing::new(Speaks::PiRpc);
        let refused = json!({
            "id": id(1), "type": "response", "command": "prompt", "success": false,
            "error": "No API key found",
        });
        let facts = hearing.line(&refused.to_string());
        assert!(
            matches!(&facts[..], [Fact::Began { .. }, Fact::Ended { how: Ending::Failed(why), .. }]
            if why == "No API key found"),
            "{facts:?}"
        );
    }
}
