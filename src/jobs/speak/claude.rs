//! Claude Code as a stream: `--input-format stream-json --output-format stream-json
//! --replay-user-messages`.
//!
//! What was seen of versions 2.1.197 and 2.1.330: each turn begins with a line `system`/`init`; the
//! line that was written comes back as `isReplay`, with its uuid, at the turn's first token; newer
//! versions say `command_lifecycle` `started` before that. A turn ends with exactly one `result`.
//! A line with a uuid that the session has already is replayed without a turn of its own.
//! `total_cost_usd` and `modelUsage` add up over a process, `usage` does not, and omits sub-agents.
//! What they restore of a session is subtracted before (`telemetry/restored.rs`).

use serde_json::{Value, json};

use crate::base::BlockId;
use crate::jobs::speak::{Ending, Fact, Hearing, Tokens, block_of};

/// What it says of a session that it is to go on with and does not know.
pub(in crate::jobs) const NO_SESSION: &str = "No conversation found";

/// Returns the line that gives a block.
pub(super) fn block(id: &BlockId, text: &str) -> Value {
    json!({
        "type": "user", "uuid": id,
        "message": {"role": "user", "content": [{"type": "text", "text": text}]},
    })
}

/// Returns the line that interrupts.
pub(super) fn interrupt(number: u64) -> Value {
    json!({
        "type": "control_request", "request_id": format!("wb-{number}"),
        "request": {"subtype": "interrupt"},
    })
}

/// Reads one line.
pub(super) fn read(hearing: &mut Hearing, line: &Value) -> Vec<Fact> {
    if line["parent_tool_use_id"].is_null() {
        hearing.parts.hear(line);
    }
    match line["type"].as_str().unwrap_or_default() {
        "system" if line["subtype"] == "init" => hearing.work(),
        "system" if line["subtype"] == "compact_boundary" => vec![Fact::Compacted],
        "command_lifecycle" if line["state"] == "started" => {
            hearing.works = true;
            hearing.begin(block_of(&line["command_uuid"]))
        }
        // Without a turn it only says that the session has this already.
        "user" if line["isReplay"] == true && hearing.works => {
            hearing.begin(block_of(&line["uuid"]))
        }
        // Work of its own, such as the end of something that it had left in the background.
        "assistant" if line["parent_tool_use_id"].is_null() => hearing.begin(None),
        "result" => result(hearing, line),
        _ => Vec::new(),
    }
}

fn result(hearing: &mut Hearing, line: &Value) -> Vec<Fact> {
    let mut errors = line["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if errors.any(|it| it.starts_with(NO_SESSION)) {
        return vec![Fact::SessionLost];
    }
    let is_aborted = |it: &str| it.starts_with("aborted");
    let how = match line["terminal_reason"].as_str() {
        Some(reason) if is_aborted(reason) => Ending::Interrupted,
        _ if line["is_error"] == true => Ending::Failed(why(line)),
        _ => Ending::Answered,
    };
    let text = hearing.parts.end(line["result"].as_str().unwrap_or_default());
    let tokens = tokens(hearing, line);
    let total = line["total_cost_usd"].as_f64().filter(|it| it.is_finite() && *it >= 0.0);
    let cost = total.map(|it| (it - hearing.cost_usd).max(0.0));
    hearing.cost_usd = total.unwrap_or(hearing.cost_usd);
    // The replay that begins a turn comes late: after the first whole message of the model.
    hearing.took_ms = line["duration_ms"].as_u64();
    hearing.end(if how == Ending::Answered { &text } else { "" }, how, tokens, cost)
}

/// Returns the tokens of the turn: what those of all models add to those of earlier turns.
fn tokens(hearing: &mut Hearing, line: &Value) -> Tokens {
    let models = line["modelUsage"].as_object().filter(|it| !it.is_empty());
    let now = match models {
        Some(models) => models.values().fold(Tokens::default(), |sum, it| {
            let count = |name: &str| it[name].as_u64().unwrap_or(0);
            sum.plus(Tokens {
                read: count("inputTokens"),
                cached: count("cacheReadInputTokens"),
                stored: count("cacheCreationInputTokens"),
                written: count("outputTokens"),
            })
        }),
        None => {
            let count = |name: &str| line["usage"][name].as_u64().unwrap_or(0);
            hearing.tokens.plus(Tokens {
                read: count("input_tokens"),
                cached: count("cache_read_input_tokens"),
                stored: count("cache_creation_input_tokens"),
                written: count("output_tokens"),
            })
        }
    };
    let before = std::mem::replace(&mut hearing.tokens, now);
    now.beyond(before)
}

fn why(line: &Value) -> String {
    let errors = line["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let told: Vec<&str> = line["result"].as_str().into_iter().chain(errors).collect();
    let words =
        if told.is_empty() { "the engine does not say why".to_owned() } else { told.join("\n") };
    crate::base::truncate_chars(&words, 2_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Speaks;

    const ID: &str = "01998d4e-6c1a-7f00-8000-000000000001";

    fn heard(lines: &[Value]) -> Vec<Fact> {
        let mut hearing = Hearing::new(Speaks::ClaudeStreamJson);
        lines.iter().flat_map(|it| hearing.line(&it.to_string())).collect()
    }

    fn result(extra: Value) -> Value {
        let mut line = json!({
            "type": "result", "subtype": "success", "is_error": false, "result": "four",
            "total_cost_usd": 0.5, "usage": {"input_tokens": 7, "output_tokens": 3},
        });
        line.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        line
    }

    #[test]
    fn a_turn_begins_with_the_replay_and_ends_with_the_result() {
        let init = json!({"type": "system", "subtype": "init"});
        let replay = json!({"type": "user", "isReplay": true, "uuid": ID});
        let said = json!({"type": "assistant", "parent_tool_use_id": null});
        let block: Option<BlockId> = ID.parse().ok();
        let answered = |cost| Fact::Ended {
            block: block.clone(),
            text: "four".into(),
            how: Ending::Answered,
            tokens: Tokens { read: 7, written: 3, ..Tokens::default() },
            cost_usd: Some(cost),
            ms: None,
            is_mixed: false,
            before_typed: None,
        };
        let began = Fact::Began { block: block.clone() };
        let old = [init.clone(), replay.clone(), said.clone(), result(json!({}))];
        assert_eq!(heard(&old), [Fact::Works, began.clone(), answered(0.5)]);
        let started = json!({"type": "command_lifecycle", "command_uuid": ID, "state": "started"});
        let new = [started, init.clone(), replay.clone(), said.clone(), result(json!({}))];
        assert_eq!(heard(&new), [began, answered(0.5)]);
        // The second turn costs the difference.
        let twice = [old.clone(), old].concat();
        assert_eq!(heard(&twice)[5], answered(0.0));
        // What the session has already is replayed, and is no turn.
        assert_eq!(heard(&[replay]), []);
        // Work of its own has no cause.
        assert_eq!(heard(&[init, said])[1], Fact::Began { block: None });
    }

    /// The numbers of two real turns, the first with a sub-agent.
    #[test]
    fn the_tokens_of_a_turn_are_those_of_all_models_and_its_time_is_that_of_the_engine() {
        let models = |opus: u64, haiku: u64| {
            result(json!({"duration_ms": 18_941, "modelUsage": {
                "claude-opus-4-8": {"inputTokens": opus, "outputTokens": 3,
                    "cacheReadInputTokens": 10, "cacheCreationInputTokens": 1},
                "claude-haiku-4-5": {"inputTokens": haiku, "outputTokens": 0},
            }}))
        };
        let spent = |facts: Vec<Fact>| -> Vec<(Tokens, Option<u64>)> {
            let end = |fact| match fact {
                Fact::Ended { tokens, ms, .. } => Some((tokens, ms)),
                _ => None,
            };
            facts.into_iter().filter_map(end).collect()
        };
        let told = [
            models(42_071, 32_071),
            models(84_744, 64_142),
            result(json!({})),
            models(84_745, 64_151),
        ];
        let of = |read, written| Tokens { read, written, ..Tokens::default() };
        let ms = Some(18_941);
        assert_eq!(
            spent(heard(&told)),
            [
                (Tokens { cached: 10, stored: 1, ..of(74_142, 3) }, ms),
                (of(74_744, 0), ms),
                // Without sums by model, `usage` counts; the next sums include it.
                (of(7, 3), None),
                (of(3, 0), ms),
            ]
        );
    }

    #[test]
    fn an_answer_in_two_messages_is_answered_whole() {
        let says = |id: &str, text: &str| {
            json!({"type": "assistant", "parent_tool_use_id": null,
                "message": {"id": id, "content": [{"type": "text", "text": text}]}})
        };
        let mut other = says("m2", "of a sub-agent");
        other["parent_tool_use_id"] = json!("t1");
        let turn = [says("m1", "three,"), other, says("m3", "four"), result(json!({}))];
        let texts: Vec<String> = heard(&[&turn[..], &[result(json!({}))]].concat())
            .into_iter()
            .filter_map(|fact| match fact {
                Fact::Ended { text, .. } => Some(text),
                _ => None,
            })
            .collect();
        assert_eq!(texts, ["three,\nfour", "four"], "each part once");
    }

    #[test]
    fn an_interrupt_and_an_error_are_no_answers() {
        let of = |extra| match heard(&[result(extra)]).pop() {
            Some(Fact::Ended { how, text, .. }) => (how, text),
            other => panic!("{other:?}"),
        };
        let aborted = json!({"terminal_reason": "aborted_tools", "is_error": true});
        assert_eq!(of(aborted), (Ending::Interrupted, String::new()));
        let failed = json!({"is_error": true, "result": "API Error: 400"});
        assert_eq!(of(failed), (Ending::Failed("API Error: 400".into()), String::new()));
    }
}
