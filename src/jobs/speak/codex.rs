//! Codex as a stream: `codex app-server`, requests and notifications as JSON lines without a member
//! `jsonrpc`.
//!
//! What was seen of version 0.169.0: requests may be written behind `initialize` without waiting
//! for its answer, but are not always answered in their order. `turn/start` during a turn is no
//! error and adds to it, and what was added is lost by an interrupt: so it is written to only while
//! no turn runs. The item `userMessage` with our `clientId` comes long before the first token and
//! proves that a block was taken; the bare answer to the request proves nothing. A thread that was
//! ended in a turn lists that turn as `interrupted`, with the ids that it was given, also when no
//! token of it had come. An error in answer to a question refuses the call, and the turn goes on.

use serde_json::{Value, json};

use crate::base::{BlockId, truncate_chars};
use crate::jobs::speak::talk::{Bearings, Greeting, answered, called, said};
use crate::jobs::speak::{Ending, Fact, Hearing, Tokens, block_of};

/// Longest text about a failure, in characters.
const WHY_CHARS_MAX: usize = 2_000;
/// Most agents below it that work at the same time.
const BELOW_MAX: usize = 256;
/// Ids of our requests.
const INIT: &str = "wb-init";
const START: &str = "wb-start";
const RESUME: &str = "wb-resume";
const TURNS: &str = "wb-turns";
/// What is refused: nobody is asked over this line.
const NOT_SUPPORTED: i64 = -32_601;

/// Returns the lines that begin the conversation, or go on with one.
pub(super) fn greeting(greeting: &Greeting) -> Vec<Value> {
    let client = json!({"name": "wiki-browser", "version": env!("CARGO_PKG_VERSION")});
    let mut lines = vec![
        json!({"id": INIT, "method": "initialize", "params": {"clientInfo": client}}),
        json!({"method": "initialized"}),
    ];
    match &greeting.session {
        None => lines.push(start(&greeting.about)),
        Some(thread) => {
            // A whole thread may be longer than a line may be: its last turn is asked for later.
            let params = json!({"threadId": thread, "excludeTurns": true});
            let params = instructed(params, &greeting.about);
            lines.push(json!({"id": RESUME, "method": "thread/resume", "params": params}));
        }
    }
    lines
}

/// Returns the line that begins a new conversation.
pub(super) fn start(about: &str) -> Value {
    json!({"id": START, "method": "thread/start", "params": instructed(json!({}), about)})
}

fn instructed(mut params: Value, about: &str) -> Value {
    if !about.is_empty() {
        params["developerInstructions"] = json!(about);
    }
    params
}

/// Returns the line that gives a block, if it is known to which conversation.
pub(super) fn block(id: &BlockId, text: &str, at: &Bearings) -> Option<Value> {
    let params = json!({
        "threadId": at.thread.as_ref()?, "clientUserMessageId": id,
        "input": [{"type": "text", "text": text}],
    });
    Some(json!({"id": id, "method": "turn/start", "params": params}))
}

/// Returns the line that interrupts the turn that runs, if its name is known.
pub(super) fn interrupt(number: u64, at: &Bearings) -> Option<Value> {
    let params = json!({"threadId": at.thread.as_ref()?, "turnId": at.turn.as_ref()?});
    let id = format!("wb-interrupt-{number}");
    Some(json!({"id": id, "method": "turn/interrupt", "params": params}))
}

/// Reads one line.
pub(super) fn read(hearing: &mut Hearing, line: &Value) -> Vec<Fact> {
    let Some(method) = line["method"].as_str() else { return answer(hearing, line) };
    if !line["id"].is_null() {
        let message = format!("{method} is not answered here");
        let error = json!({"code": NOT_SUPPORTED, "message": message});
        hearing.talk.tell(&json!({"id": line["id"], "error": error}));
        return Vec::new();
    }
    let params = &line["params"];
    // What it does in threads of its own (agents below it) is no turn of ours.
    if params["threadId"].as_str() != hearing.talk.bearings.thread.as_deref() {
        below(hearing, method, params);
        return Vec::new();
    }
    match method {
        "turn/started" => {
            hearing.talk.begin_turn();
            hearing.talk.bearings.turn = params["turn"]["id"].as_str().map(str::to_owned);
            hearing.work()
        }
        "item/started" | "item/completed" => item(hearing, &params["item"]),
        "thread/tokenUsage/updated" if is_of_turn(hearing, &params["turnId"]) => {
            hearing.talk.spend(tokens(&params["tokenUsage"]["last"]), None);
            Vec::new()
        }
        "turn/completed" => completed(hearing, &params["turn"]),
        _ => Vec::new(),
    }
}

/// Hears a line about an agent below it: only what that spends counts, in a turn that was seen to
/// begin. What is told of a thread that is gone on with was spent before.
fn below(hearing: &mut Hearing, method: &str, params: &Value) {
    let Some(thread) = params["threadId"].as_str() else { return };
    let below = &mut hearing.talk.below;
    match (method, params["turn"]["id"].as_str()) {
        ("turn/started", Some(turn)) if below.turns.len() < BELOW_MAX => {
            below.turns.insert(thread.to_owned(), turn.to_owned());
        }
        ("turn/completed", _) => drop(below.turns.remove(thread)),
        ("thread/tokenUsage/updated", _) => {
            let turn = below.turns.get(thread).map(String::as_str);
            if turn.is_some() && turn == params["turnId"].as_str() {
                below.tokens = below.tokens.plus(tokens(&params["tokenUsage"]["last"]));
            }
        }
        _ => {}
    }
}

fn is_of_turn(hearing: &Hearing, name: &Value) -> bool {
    let turn = hearing.talk.bearings.turn.as_deref();
    turn.is_some() && turn == name.as_str()
}

/// It counts what came from the cache among its input.
fn tokens(usage: &Value) -> Tokens {
    let count = |name: &str| usage[name].as_u64().unwrap_or(0);
    let cached = count("cachedInputTokens");
    let read = count("inputTokens").saturating_sub(cached);
    Tokens { read, cached, written: count("outputTokens"), ..Tokens::default() }
}

fn item(hearing: &mut Hearing, item: &Value) -> Vec<Fact> {
    match item["type"].as_str() {
        Some("userMessage") => match block_of(&item["clientId"]) {
            Some(block) => {
                hearing.works = true;
                hearing.begin(Some(block))
            }
            None => Vec::new(),
        },
        Some("agentMessage") => {
            let text = item["text"].as_str().unwrap_or_default();
            if !text.is_empty() {
                text.clone_into(&mut hearing.talk.said);
            }
            hearing.begin(None)
        }
        _ => Vec::new(),
    }
}

fn completed(hearing: &mut Hearing, turn: &Value) -> Vec<Fact> {
    hearing.talk.bearings.turn = None;
    let how = match turn["status"].as_str() {
        Some("completed") => Ending::Answered,
        Some("interrupted") => Ending::Interrupted,
        _ => Ending::Failed(why(&turn["error"])),
    };
    let text = match how {
        Ending::Answered => last_words(turn).unwrap_or_else(|| hearing.talk.said.clone()),
        _ => String::new(),
    };
    let below = std::mem::take(&mut hearing.talk.below.tokens);
    let tokens = hearing.talk.tokens.plus(below);
    hearing.end(&text, how, tokens, None)
}

/// Returns what an agent said last in a turn.
fn last_words(turn: &Value) -> Option<String> {
    let items = turn["items"].as_array()?;
    let said = items.iter().rev().find(|it| it["type"] == "agentMessage")?;
    Some(said["text"].as_str()?.to_owned())
}

fn why(error: &Value) -> String {
    let words = error["message"].as_str().unwrap_or("the engine does not say why");
    truncate_chars(words, WHY_CHARS_MAX)
}

/// Reads an answer to one of our requests.
fn answer(hearing: &mut Hearing, line: &Value) -> Vec<Fact> {
    let result = &line["result"];
    match line["id"].as_str() {
        Some(id @ (START | RESUME)) if result["thread"]["id"].is_string() => {
            let name = result["thread"]["id"].as_str().unwrap_or_default().to_owned();
            hearing.talk.bearings.thread = Some(name.clone());
            if id == START {
                return vec![Fact::Session { name }, Fact::Ready];
            }
            let params = json!({"threadId": name, "limit": 1, "sortDirection": "desc"});
            let line = json!({"id": TURNS, "method": "thread/turns/list", "params": params});
            hearing.talk.tell(&line);
            vec![Fact::Session { name }]
        }
        // It knows the conversation no more: another one is begun.
        Some(RESUME) => vec![Fact::SessionLost],
        Some(START) => {
            hearing.talk.is_lost = true;
            Vec::new()
        }
        Some(TURNS) if hearing.talk.bearings.thread.is_some() => {
            let mut facts = taken(result);
            facts.push(Fact::Ready);
            facts
        }
        Some(id) if !line["error"].is_null() => match id.parse::<BlockId>() {
            Ok(block) if hearing.turn.is_none() => {
                let mut facts = hearing.begin(Some(block));
                let how = Ending::Failed(why(&line["error"]));
                facts.extend(hearing.end("", how, Tokens::default(), None));
                facts
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// Returns what the last turn of a conversation was given. Without an answer nobody knows.
fn taken(result: &Value) -> Vec<Fact> {
    let Some(turns) = result["data"].as_array() else {
        return vec![Fact::Taken { block: None, answer: None }];
    };
    let Some(turn) = turns.first() else { return Vec::new() };
    let items = turn["items"].as_array().into_iter().flatten();
    let blocks = items.filter_map(|it| block_of(&it["clientId"]));
    let answer = match turn["status"].as_str() {
        Some("completed") => last_words(turn),
        _ => None,
    };
    blocks.map(|block| Fact::Taken { block: Some(block), answer: answer.clone() }).collect()
}

/// Returns what a line tells a person who looks at the job.
pub(super) fn steps(line: &Value) -> Vec<Value> {
    let item = &line["params"]["item"];
    let text = |name: &str| item[name].as_str().unwrap_or_default();
    match (line["method"].as_str(), item["type"].as_str()) {
        (Some("item/completed"), Some("agentMessage")) => vec![said(text("text"))],
        (Some("item/started"), Some("commandExecution")) => {
            vec![called(&item["id"], "exec_command", text("command"))]
        }
        (Some("item/completed"), Some("commandExecution")) => {
            let is_ok = item["status"] == "completed" && item["exitCode"] == 0;
            vec![answered(&item["id"], is_ok, text("aggregatedOutput"))]
        }
        (Some("error"), _) => vec![said(&why(&line["params"]["error"]))],
        (None, _) if line["id"] == START && !line["error"].is_null() => {
            vec![said(&why(&line["error"]))]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Speaks;

    const REAL: &str = include_str!("../../../tests/data/codex-app-server.jsonl");

    fn id(number: u32) -> Option<BlockId> {
        format!("01998d4e-6c1a-7f00-8000-00000000000{number}").parse().ok()
    }

    fn ended(number: u32, text: &str, how: Ending, (read, written): (u64, u64)) -> Fact {
        let (block, text) = (id(number), text.to_owned());
        let tokens = Tokens { read, written, ..Tokens::default() };
        let (is_mixed, before_typed) = (false, None);
        Fact::Ended { block, text, how, tokens, cost_usd: None, ms: None, is_mixed, before_typed }
    }

    /// A real run: a turn with a call, one that was interrupted, one whose provider refused, and
    /// one in which it was killed.
    #[test]
    fn the_turns_of_a_real_run_are_heard() {
        let mut hearing = Hearing::new(Speaks::CodexAppServer);
        let facts: Vec<Fact> = REAL.lines().flat_map(|it| hearing.line(it)).collect();
        let name = "01a2135c-4355-77a3-b7c1-ff1443954f8e".to_owned();
        let began = |number| [Fact::Works, Fact::Began { block: id(number) }];
        let why = Ending::Failed(
            r#"{"error":{"message":"injected","type":"invalid_request_error","code":null}}"#.into(),
        );
        let mut wanted = vec![Fact::Session { name: name.clone() }, Fact::Ready];
        wanted.extend(began(1));
        wanted.push(ended(1, "four", Ending::Answered, (19_179, 109)));
        wanted.extend(began(2));
        wanted.push(ended(2, "", Ending::Interrupted, (0, 0)));
        wanted.extend(began(3));
        wanted.push(ended(3, "", why, (0, 0)));
        wanted.extend(began(4));
        assert_eq!(facts, wanted);
        let at = hearing.told().bearings;
        assert_eq!(at.thread, Some(name));
        assert!(interrupt(1, &at).is_some_and(|it| it["params"]["turnId"] == at.turn.unwrap()));
        let steps: Vec<String> = REAL
            .lines()
            .filter_map(|it| hearing.steps(it))
            .flatten()
            .map(|it| it["type"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(steps, ["text", "tool_call", "tool_result", "text", "text"]);
    }

    #[test]
    fn a_question_is_refused_and_another_thread_is_nobodys_turn() {
        let mut hearing = Hearing::new(Speaks::CodexAppServer);
        let asks = r#"{"method":"item/commandExecution/requestApproval","id":7,"params":{}}"#;
        assert_eq!(hearing.line(asks), []);
        let told = hearing.told();
        let [line] = &told.lines[..] else { panic!("{told:?}") };
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&line["id"], &line["error"]["code"]), (&json!(7), &json!(NOT_SUPPORTED)));
        assert!(hearing.told().lines.is_empty(), "once");
        hearing.line(r#"{"id":"wb-start","result":{"thread":{"id":"t-1"}}}"#);
        let other = r#"{"method":"turn/started","params":{"threadId":"t-2","turn":{"id":"x"}}}"#;
        assert_eq!(hearing.line(other), []);
    }

    /// As 0.171 tells it: one that works on after the turn counts with the next.
    #[test]
    fn what_agents_below_it_spend_is_counted_once() {
        let mut hearing = Hearing::new(Speaks::CodexAppServer);
        hearing.line(r#"{"id":"wb-start","result":{"thread":{"id":"t-1"}}}"#);
        let turn = |thread: &str, turn: &str, what: &str| {
            let params = json!({"threadId": thread, "turn": {"id": turn, "status": "completed"}});
            json!({"method": format!("turn/{what}"), "params": params})
        };
        let spends = |thread: &str, turn: &str, read: u64| {
            let last = json!({"inputTokens": read, "outputTokens": 1});
            let usage = json!({"last": last, "total": {"inputTokens": 90_000}});
            let params = json!({"threadId": thread, "turnId": turn, "tokenUsage": usage});
            json!({"method": "thread/tokenUsage/updated", "params": params})
        };
        let lines = [
            // A thread that is gone on with tells what it had spent.
            spends("t-2", "b0", 50_000),
            turn("t-1", "a1", "started"),
            turn("t-2", "b1", "started"),
            spends("t-1", "a1", 100),
            spends("t-2", "b0", 50_000),
            spends("t-2", "b1", 10),
            turn("t-1", "a1", "completed"),
            spends("t-2", "b1", 20),
            turn("t-2", "b1", "completed"),
            spends("t-2", "b1", 50_000),
            turn("t-1", "a2", "started"),
            spends("t-1", "a2", 200),
            turn("t-1", "a2", "completed"),
        ];
        let facts = lines.iter().flat_map(|it| hearing.line(&it.to_string()));
        let spent: Vec<(u64, u64)> = facts
            .filter_map(|fact| match fact {
                Fact::Ended { tokens, .. } => Some((tokens.read, tokens.written)),
                _ => None,
            })
            .collect();
        assert_eq!(spent, [(110, 2), (220, 2)]);
    }

    #[test]
    fn a_thread_that_is_gone_on_with_says_what_it_was_given() {
        let resumed = r#"{"id":"wb-resume","result":{"thread":{"id":"t-1"}}}"#;
        let heard = |second: &str| {
            let mut hearing = Hearing::new(Speaks::CodexAppServer);
            assert_eq!(hearing.line(resumed), [Fact::Session { name: "t-1".into() }]);
            let asked = hearing.told().lines;
            assert!(matches!(&asked[..], [it] if it.contains("thread/turns/list")), "{asked:?}");
            hearing.line(second)
        };
        let turn = |status: &str| {
            let given = json!({"type": "userMessage", "clientId": id(1)});
            let items = json!([given, {"type": "agentMessage", "text": "four"}]);
            let data = json!([{"status": status, "items": items}]);
            json!({"id": "wb-turns", "result": {"data": data}}).to_string()
        };
        let taken =
            |answer: Option<&str>| Fact::Taken { block: id(1), answer: answer.map(str::to_owned) };
        assert_eq!(heard(&turn("interrupted")), [taken(None), Fact::Ready]);
        assert_eq!(heard(&turn("completed")), [taken(Some("four")), Fact::Ready]);
        assert_eq!(heard(r#"{"id":"wb-turns","result":{"data":[]}}"#), [Fact::Ready]);
        let unknown = Fact::Taken { block: None, answer: None };
        assert_eq!(heard(r#"{"id":"wb-turns","error":{"code":1}}"#), [unknown, Fact::Ready]);
        // One that begins none is of no use, and says why.
        let mut hearing = Hearing::new(Speaks::CodexAppServer);
        let refused = r#"{"id":"wb-start","error":{"message":"no such model"}}"#;
        assert_eq!((hearing.line(refused), hearing.is_lost()), (Vec::new(), true));
        assert_eq!(hearing.steps(refused).unwrap()[0]["text"], "no such model");
        // A thread that is gone: another one is begun, and that one is ready.
        let mut hearing = Hearing::new(Speaks::CodexAppServer);
        let gone = r#"{"id":"wb-resume","error":{"message":"no rollout found"}}"#;
        assert_eq!(hearing.line(gone), [Fact::SessionLost]);
        assert_eq!(hearing.line(r#"{"id":"wb-turns","error":{"code":1}}"#), []);
    }
}
