//! Programs in a terminal: what they are typed is seen in their hooks, which run `wb-agent hook
//! EVENT`. That writes one line to the agent's guard, and the guard keeps it as the agent's output.
//!
//! What was seen of Claude Code 2.1.197 and 2.1.330: `SessionStart` means that it takes what is
//! typed. `UserPromptSubmit` has the whole text, also where the screen shows a placeholder for it,
//! and the `prompt_id` of the running turn if it was typed into that. `Stop` has the last words.
//! A question about a tool is told by `PermissionRequest` at once; nothing tells of its answer but
//! the next `PostToolUse`. Escape is told by nothing. That words were typed into a turn is not told
//! for sure: `Stop` looks for it in the transcript (`transcript.rs`), before its program goes on.

use camino::Utf8Path;
use serde_json::{Value, json};

use crate::base::{BlockId, Result, fault, read_loose_json, truncate_chars};
use crate::jobs::speak::transcript::{self, Told};
use crate::jobs::speak::{ANSWER_CHARS_MAX, Ending, Fact, Hearing, Tokens, block_of};
use crate::process::{tell_hooks, token_names};

/// The events that are told, as the program names them.
const EVENTS: [&str; 9] = [
    "SessionStart",
    "UserPromptSubmit",
    "PermissionRequest",
    "Notification",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "StopFailure",
    "SessionEnd",
];
/// How long the program waits for a hook, in seconds.
const HOOK_SECONDS: u32 = 10;
/// Most marks of one text that are told.
const NAMES_MAX: usize = 8;
/// Longest of a hook's words that are told whole, in characters.
const WORD_CHARS_MAX: usize = 1_000;

/// Returns the settings that make a program call our hooks. A person's own settings could switch
/// all hooks off, those of this file, too, unless it says otherwise.
pub(in crate::jobs) fn settings(wb_agent: &str) -> Vec<u8> {
    let quoted = format!("'{}'", wb_agent.replace('\'', "'\\''"));
    let hook = |event: &str| {
        json!([{"hooks": [
            {"type": "command", "command": format!("{quoted} hook {event}"),
             "timeout": HOOK_SECONDS},
        ]}])
    };
    let hooks: serde_json::Map<String, Value> =
        EVENTS.iter().map(|it| ((*it).to_owned(), hook(it))).collect();
    json!({"disableAllHooks": false, "hooks": hooks}).to_string().into_bytes()
}

/// Tells the guard of an agent what one of its hooks was given.
///
/// # Errors
/// `unavailable` if there is no guard that reads.
pub fn tell_hook(way: &Utf8Path, event: &str, given: &[u8]) -> Result<()> {
    let given = read_loose_json(&String::from_utf8_lossy(given)).unwrap_or_default();
    tell_hooks(way, &hook_line(event, &given, told(event, &given).as_ref()))
}

/// Returns what the transcript tells of a turn that has ended.
fn told(event: &str, given: &Value) -> Option<Told> {
    let path = given["transcript_path"].as_str().filter(|_| event == "Stop")?;
    let last_words = given["last_assistant_message"].as_str().unwrap_or_default();
    transcript::look(Utf8Path::new(path), given["prompt_id"].as_str()?, last_words)
}

/// Returns the line that tells of a hook; of what it was given only what is needed.
fn hook_line(event: &str, given: &Value, turn: Option<&Told>) -> String {
    let word = |name: &str| given[name].as_str().map(|it| truncate_chars(it, WORD_CHARS_MAX));
    let prompt = given["prompt"].as_str().unwrap_or_default();
    let text = given["last_assistant_message"].as_str();
    let mut line = json!({"hook": truncate_chars(event, 64)});
    let told = [
        ("blocks", Some(json!(token_names(prompt, NAMES_MAX))).filter(|_| !prompt.is_empty())),
        ("prompt_id", word("prompt_id").map(Value::from)),
        ("session_id", word("session_id").map(Value::from)),
        ("source", word("source").map(Value::from)),
        ("tool", word("tool_name").map(Value::from)),
        ("kind", word("notification_type").map(Value::from)),
        ("error", word("error").map(Value::from)),
        ("text", text.map(|it| json!(truncate_chars(it, ANSWER_CHARS_MAX)))),
        ("turn", turn.map(|it| json!({"blocks": it.blocks, "is_typed": it.is_typed}))),
    ];
    for (name, value) in told {
        if let Some(value) = value {
            line[name] = value;
        }
    }
    line.to_string()
}

/// Reads one line.
pub(super) fn read(hearing: &mut Hearing, line: &Value) -> Vec<Fact> {
    hearing.is_up = true;
    match line["hook"].as_str().unwrap_or_default() {
        // In the middle of a turn the program makes room for itself.
        "SessionStart" if line["source"] == "compact" => Vec::new(),
        "SessionStart" => vec![Fact::Ready],
        "UserPromptSubmit" => prompted(hearing, line),
        "PermissionRequest" => vec![Fact::Waits { why: "permission".to_owned() }],
        "Notification" if line["kind"] == "permission_prompt" => {
            vec![Fact::Waits { why: "permission".to_owned() }]
        }
        // It has waited for a minute: whatever ended its turn was told by nothing.
        "Notification" if line["kind"] == "idle_prompt" => interrupted(hearing),
        "PostToolUse" | "PostToolUseFailure" => vec![Fact::GoesOn],
        "Stop" => {
            let text = line["text"].as_str().unwrap_or_default();
            stopped(hearing, line, text, Ending::Answered)
        }
        "StopFailure" => {
            let why = line["error"].as_str().unwrap_or("the engine does not say why").to_owned();
            stopped(hearing, line, "", Ending::Failed(why))
        }
        _ => Vec::new(),
    }
}

/// A text was handed in: a turn begins, unless it was typed into the one that runs.
fn prompted(hearing: &mut Hearing, line: &Value) -> Vec<Fact> {
    let names = line["blocks"].as_array().into_iter().flatten();
    // What was typed before stands before it.
    let block: Option<BlockId> = names.rev().find_map(block_of);
    let prompt = line["prompt_id"].as_str().map(str::to_owned);
    if hearing.turn.is_none() && prompt.is_some() && prompt == hearing.ended_prompt {
        // It is told late: that turn has ended.
        return Vec::new();
    }
    let is_other = match (&hearing.prompt, &prompt) {
        (Some(running), Some(new)) => running != new,
        // What is ours is given to an agent that waits: its turn had ended.
        _ => block.is_some() && hearing.turn.as_ref().is_some_and(|it| *it != block),
    };
    let mut facts = if is_other { interrupted(hearing) } else { Vec::new() };
    if hearing.turn.is_none() {
        hearing.prompt = prompt;
    }
    facts.extend(hearing.begin(block));
    facts
}

/// A turn ended: the one that runs, unless it was another one, which was told late, or whose
/// beginning was told by nothing.
fn stopped(hearing: &mut Hearing, line: &Value, text: &str, how: Ending) -> Vec<Fact> {
    let prompt = line["prompt_id"].as_str().map(str::to_owned);
    let told = told_of(line);
    let is_other = hearing.prompt.is_some() && prompt.is_some() && hearing.prompt != prompt;
    match (&hearing.turn, &told) {
        (None, _) if prompt.is_some() && prompt == hearing.ended_prompt => return Vec::new(),
        (Some(Some(own)), Some(told)) if told.blocks.contains(own) => {}
        (Some(_), _) if is_other => return Vec::new(),
        // Ours was handed in while it ran: its own turn comes next, and no hook will say so.
        (Some(Some(_)), Some(_)) => {
            hearing.prompt = None;
            return Vec::new();
        }
        _ => {}
    }
    let mut facts = Vec::new();
    if let Some(block) = told.as_ref().and_then(|it| it.blocks.last())
        && !matches!(hearing.turn, Some(Some(_)))
    {
        facts = hearing.begin(Some(block.clone()));
    }
    hearing.ended_prompt = prompt.or(hearing.prompt.take());
    hearing.prompt = None;
    hearing.is_mixed = match &told {
        Some(told) => told.is_typed || told.blocks.len() != 1,
        None => !fault::is_off("look_first"),
    };
    facts.extend(hearing.end(text, how, Tokens::default(), None));
    facts
}

/// Returns what a line tells of the turn that has ended.
fn told_of(line: &Value) -> Option<Told> {
    let turn = line["turn"].as_object()?;
    let blocks = turn.get("blocks")?.as_array()?.iter().filter_map(block_of).collect();
    Some(Told { blocks, is_typed: turn.get("is_typed")?.as_bool()? })
}

/// Ends a turn whose end was told by nothing.
pub(super) fn interrupted(hearing: &mut Hearing) -> Vec<Fact> {
    hearing.ended_prompt = hearing.prompt.take();
    match hearing.turn.is_some() {
        true => hearing.end("", Ending::Interrupted, Tokens::default(), None),
        false => Vec::new(),
    }
}

/// Returns what a line tells a person who looks at the job.
pub(in crate::jobs) fn words(line: &str) -> Option<String> {
    let line = read_loose_json(line)?;
    let tool = line["tool"].as_str().unwrap_or("a tool");
    match line["hook"].as_str()? {
        "SessionStart" => Some("[it waits to be spoken to]".to_owned()),
        "UserPromptSubmit" => match line["blocks"][0].as_str() {
            Some(block) => Some(format!("[it was given {block}]")),
            None => Some("[somebody wrote in its terminal]".to_owned()),
        },
        "PermissionRequest" => Some(format!("[it asks whether it may use {tool}]")),
        "PostToolUse" => Some(format!("[it used {tool}]")),
        "PostToolUseFailure" => Some(format!("[it tried to use {tool}]")),
        "Stop" => line["text"].as_str().map(str::to_owned),
        "StopFailure" => Some(format!("[it failed: {}]", line["error"].as_str().unwrap_or("?"))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Speaks;

    const ID: &str = "01998d4e-6c1a-7f00-8000-000000000001";

    fn facts(lines: &[(&str, Value)]) -> Vec<Fact> {
        let mut hearing = Hearing::new(Speaks::Hooks);
        let line = |(event, given): &(&str, Value)| {
            let turn = told_of(given);
            hook_line(event, given, turn.as_ref())
        };
        lines.iter().flat_map(|it| hearing.line(&line(it))).collect()
    }

    fn ended(block: Option<BlockId>, how: Ending, text: &str) -> Fact {
        let (tokens, text) = (Tokens::default(), text.to_owned());
        let is_mixed = !matches!(how, Ending::Interrupted);
        Fact::Ended { block, text, how, tokens, cost_usd: None, is_mixed }
    }

    /// Returns what is told of turns: the number of each block, the words, and whether they hold
    /// what somebody typed.
    fn ends(lines: &[(&str, Value)]) -> Vec<(Option<u32>, String, bool)> {
        let end = |fact: Fact| match fact {
            Fact::Ended { block, text, is_mixed, .. } => {
                let number = block.map(|it| it.as_str()[35..].parse().unwrap());
                Some((number, text, is_mixed))
            }
            _ => None,
        };
        facts(lines).into_iter().filter_map(end).collect()
    }

    fn name(number: u32) -> String {
        format!("01998d4e-6c1a-7f00-8000-00000000000{number}")
    }

    fn given(prompt: &str, block: Option<u32>) -> (&'static str, Value) {
        let text = block.map_or("mine".to_owned(), |it| format!("‹wb:{}› hi", name(it)));
        ("UserPromptSubmit", json!({"prompt": text, "prompt_id": prompt}))
    }

    /// The end of a turn; with what its transcript tells, if that was found.
    fn stop(prompt: &str, text: &str, told: Option<(&[u32], bool)>) -> (&'static str, Value) {
        let mut stop = json!({"last_assistant_message": text, "prompt_id": prompt});
        if let Some((blocks, is_typed)) = told {
            let blocks: Vec<String> = blocks.iter().map(|it| name(*it)).collect();
            stop["turn"] = json!({"blocks": blocks, "is_typed": is_typed});
        }
        ("Stop", stop)
    }

    /// Whatever hooks are missing, late or told twice, no words of a private turn are those of a
    /// text of ours, but where somebody has to look first.
    #[test]
    fn words_of_another_turn_are_never_those_of_ours() {
        let ours = || stop("p1", "four", Some((&[1], false)));
        let four = || (Some(1), "four".to_owned(), false);
        let canary = |is_mixed| (None, "a canary".to_owned(), is_mixed);
        let mine = || stop("p0", "a canary", Some((&[], true)));
        assert_eq!(ends(&[given("p1", Some(1)), ours()]), [four()]);
        // Told twice, and the beginning late or not at all.
        assert_eq!(ends(&[given("p1", Some(1)), ours(), ours()]), [four()]);
        assert_eq!(ends(&[given("p1", Some(1)), given("p1", Some(1)), ours()]), [four()]);
        assert_eq!(ends(&[ours()]), [four()]);
        assert_eq!(ends(&[ours(), given("p1", Some(1))]), [four()]);
        // Somebody typed before it, and the end of that is late, or told twice.
        let late = [given("p0", None), given("p1", Some(1)), mine(), ours()];
        assert_eq!(ends(&late), [(None, String::new(), false), four()]);
        let twice = [given("p0", None), mine(), given("p1", Some(1)), mine(), ours()];
        assert_eq!(ends(&twice), [canary(true), four()]);
        let unseen = || stop("p0", "a canary", None);
        let twice = [given("p0", None), unseen(), given("p1", Some(1)), unseen(), ours()];
        assert_eq!(ends(&twice), [canary(true), four()]);
        // Ours was handed in while a turn ran of whose beginning no hook told.
        let within = [given("p0", Some(1)), mine(), ours()];
        assert_eq!(ends(&within), [four()]);
        // Typed into it, or nobody knows.
        for told in [Some((&[1][..], true)), Some((&[1, 2], false)), None] {
            let mixed = (Some(1), "a canary".to_owned(), true);
            assert_eq!(ends(&[given("p1", Some(1)), stop("p1", "a canary", told)]), [mixed]);
        }
        // Typed after it.
        let after = [given("p1", Some(1)), ours(), given("p2", None)];
        let own = stop("p2", "a canary", Some((&[], true)));
        assert_eq!(ends(&[&after[..], &[own]].concat()), [four(), canary(true)]);
        // Its own end is missing.
        let lost = [given("p1", Some(1)), given("p2", None), stop("p2", "a canary", None), ours()];
        // It comes late, for a text that is done with.
        assert_eq!(ends(&lost), [(Some(1), String::new(), false), canary(true), four()]);
    }

    #[test]
    fn a_turn_begins_with_our_mark_and_ends_with_the_last_words() {
        let block: Option<BlockId> = ID.parse().ok();
        let prompt = format!("\n<pasted_content id=\"1\">\n‹wb:{ID}› hi\n</pasted_content>");
        let given = json!({"prompt": prompt, "prompt_id": "p1", "session_id": "s"});
        let begun = ("UserPromptSubmit", given);
        let stop = ("Stop", json!({"last_assistant_message": "four", "prompt_id": "p1"}));
        let began = Fact::Began { block: block.clone() };
        let answered = ended(block.clone(), Ending::Answered, "four");
        assert_eq!(facts(&[begun.clone(), stop.clone()]), [began.clone(), answered.clone()]);
        // Words that are typed into a turn belong to it.
        let typed = ("UserPromptSubmit", json!({"prompt": "and five", "prompt_id": "p1"}));
        let all = [begun.clone(), typed, stop.clone()];
        assert_eq!(facts(&all), [began.clone(), answered]);
        // After an Escape, which nothing tells, a person writes something of their own.
        let own = ("UserPromptSubmit", json!({"prompt": "leave it", "prompt_id": "p2"}));
        let cut = ended(block, Ending::Interrupted, "");
        let mine = [Fact::Began { block: None }, ended(None, Ending::Answered, "four")];
        let stop = ("Stop", json!({"last_assistant_message": "four", "prompt_id": "p2"}));
        assert_eq!(facts(&[begun, own, stop])[1..], [&[cut][..], &mine[..]].concat());
    }

    #[test]
    fn a_question_is_told_at_once_and_an_error_is_no_answer() {
        let asks = Fact::Waits { why: "permission".to_owned() };
        assert_eq!(facts(&[("PermissionRequest", json!({"tool_name": "Bash"}))]), [asks]);
        assert_eq!(facts(&[("PostToolUse", json!({}))]), [Fact::GoesOn]);
        assert_eq!(facts(&[("SessionStart", json!({"source": "compact"}))]), []);
        assert_eq!(facts(&[("SessionStart", json!({"source": "startup"}))]), [Fact::Ready]);
        let failed = facts(&[("StopFailure", json!({"error": "overloaded"}))]);
        assert_eq!(failed[1], ended(None, Ending::Failed("overloaded".to_owned()), ""));
        assert_eq!(facts(&[("Nothing", json!({}))]), []);
        let settings: Value = serde_json::from_slice(&settings("/a b/wb-agent")).unwrap();
        assert_eq!(settings["disableAllHooks"], false);
        let command = &settings["hooks"]["Stop"][0]["hooks"][0]["command"];
        assert_eq!(command, "'/a b/wb-agent' hook Stop");
    }
}
