//! Programs in a terminal: what they are typed is seen in their hooks, which run `wb-agent hook
//! EVENT`. That writes one line to the agent's guard, and the guard keeps it as the agent's output.
//!
//! What was seen of Claude Code 2.1.197 and 2.1.330: `SessionStart` means that it takes what is
//! typed. `UserPromptSubmit` has the whole text, also where the screen shows a placeholder for it,
//! and the `prompt_id` of the running turn if it was typed into that. `Stop` has the last words.
//! A question about a tool is told by `PermissionRequest` at once; nothing tells of its answer but
//! the next `PostToolUse` of that agent. Escape is told by nothing. That words were typed into a
//! turn is not told for sure: `Stop` looks for it in the transcript (`transcript.rs`), before its
//! program goes on. Another hook may block a `Stop`: `stop.rs` decides whether it was the last.

use serde_json::{Value, json};

use crate::base::{BlockId, fault, from_json, read_loose_json, truncate_chars};
use crate::jobs::speak::transcript::{Over, Told, Turn};
use crate::jobs::speak::{Ending, Fact, Hearing, Tokens, block_of, question, session, stop};

/// The name of a line that tells what stands in a transcript.
const WRITTEN: &str = "Transcript";
/// Most of the words with which a turn failed, in characters.
const FAILURE_CHARS_MAX: usize = 2_000;

/// Returns the line that tells what stands in a transcript of a turn.
pub(super) fn written_line(turn: &Turn) -> String {
    json!({"hook": WRITTEN, "seen": turn}).to_string()
}

/// Reads one line.
pub(super) fn read(hearing: &mut Hearing, line: &Value) -> Vec<Fact> {
    hearing.is_up = true;
    if let Some(path) = line["transcript"].as_str() {
        hearing.transcript = Some(path.to_owned());
    }
    let mut facts = match turn_of(&line["before"]) {
        Some(before) => ended_before(hearing, before),
        None => Vec::new(),
    };
    facts.extend(read_event(hearing, line));
    facts
}

fn read_event(hearing: &mut Hearing, line: &Value) -> Vec<Fact> {
    match line["hook"].as_str().unwrap_or_default() {
        // In the middle of a turn the program makes room for itself.
        "SessionStart" if line["source"] == "compact" => vec![Fact::Compacted],
        "SessionStart" => session::started(hearing, line),
        "UserPromptSubmit" => prompted(hearing, line),
        "PermissionRequest" => question::asked(hearing, line),
        "Notification" if line["kind"] == "permission_prompt" => question::seen(),
        // It has waited for a minute: whatever ended its turn was told by nothing.
        "Notification" if line["kind"] == "idle_prompt" => interrupted(hearing),
        "PostToolUse" | "PostToolUseFailure" => {
            // It went on after its last `Stop`.
            hearing.stop = None;
            question::went_on(hearing, line)
        }
        "SessionEnd" => stop::proven(hearing, None).unwrap_or_default(),
        "Stop" => {
            let text = line["text"].as_str().unwrap_or_default();
            stop::heard(hearing, (prompt_of(line), told_of(line)), text)
        }
        "StopFailure" => {
            let why = failure(line, !hearing.is_typed_into);
            stopped(hearing, (prompt_of(line), told_of(line)), "", Ending::Failed(why))
        }
        WRITTEN => turn_of(&line["seen"]).map(|it| seen(hearing, it)).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// Returns why a turn failed: in the provider's words, or else by the engine's name for it.
fn failure(line: &Value, may_quote: bool) -> String {
    let quoted = line["text"].as_str().map(str::trim).filter(|it| may_quote && !it.is_empty());
    let why = quoted.or(line["error"].as_str()).unwrap_or("the engine does not say why");
    truncate_chars(why, FAILURE_CHARS_MAX)
}

/// A text was handed in: a turn begins, unless it was typed into the one that runs.
fn prompted(hearing: &mut Hearing, line: &Value) -> Vec<Fact> {
    let names = line["blocks"].as_array().into_iter().flatten();
    // What was typed before stands before it.
    let block: Option<BlockId> = names.rev().find_map(block_of);
    hearing.session = line["session_id"].as_str().map(str::to_owned);
    begun(hearing, block, prompt_of(line))
}

fn prompt_of(line: &Value) -> Option<String> {
    line["prompt_id"].as_str().map(str::to_owned)
}

fn begun(hearing: &mut Hearing, block: Option<BlockId>, prompt: Option<String>) -> Vec<Fact> {
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
    } else {
        hearing.is_typed_into |= block.is_none() || hearing.turn == Some(None);
    }
    facts.extend(hearing.begin(block));
    facts
}

/// A turn ended: the one that runs, unless it was another one, which was told late, or whose
/// beginning was told by nothing.
pub(super) fn stopped(
    hearing: &mut Hearing,
    (prompt, told): (Option<String>, Option<Told>),
    text: &str,
    how: Ending,
) -> Vec<Fact> {
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
    (hearing.is_mixed, hearing.before_typed) = match told {
        Some(told) => (told.is_typed || told.blocks.len() != 1, told.before_typed),
        None => {
            let is_typed = std::mem::take(&mut hearing.is_typed_into);
            (!fault::is_off("look_first"), is_typed.then(String::new))
        }
    };
    facts.extend(hearing.end(text, how, Tokens::default(), None));
    facts
}

/// Returns what a line tells of the turn that has ended.
fn told_of(line: &Value) -> Option<Told> {
    let turn = line["turn"].as_object()?;
    let blocks = turn.get("blocks")?.as_array()?.iter().filter_map(block_of).collect();
    let text = |name: &str| turn.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(Told {
        blocks,
        is_typed: turn.get("is_typed")?.as_bool()?,
        before_typed: text("before_typed"),
        text: None,
    })
}

/// Hears what stands in the transcript of a turn that runs, or was given a text of ours.
fn seen(hearing: &mut Hearing, turn: Turn) -> Vec<Fact> {
    let prompt = Some(turn.prompt_id.clone());
    if turn.over.is_some() {
        return written(hearing, turn);
    }
    match turn.blocks.last() {
        // Of a turn that failed, the end may never be written down.
        Some(block) if hearing.ended_block.as_ref() == Some(block) => Vec::new(),
        Some(block) => begun(hearing, Some(block.clone()), prompt),
        None => Vec::new(),
    }
}

/// Hears what became of the turn before another one, if that is the one that still runs.
fn ended_before(hearing: &mut Hearing, turn: Turn) -> Vec<Fact> {
    let is_own = |block: &BlockId| turn.blocks.contains(block);
    let is_it = match &hearing.turn {
        Some(block) => {
            hearing.prompt.as_deref() == Some(&*turn.prompt_id)
                || block.as_ref().is_some_and(is_own)
        }
        None => false,
    };
    if is_it
        && turn.over.is_none()
        && let Some(facts) = stop::proven(hearing, Some(&turn.prompt_id))
    {
        return facts;
    }
    match is_it && (turn.over.is_some() || turn.is_said) {
        true => written(hearing, turn),
        false => Vec::new(),
    }
}

/// Ends a turn as its transcript tells it. Where that has its last words and not its end, a person
/// has to look at them.
fn written(hearing: &mut Hearing, turn: Turn) -> Vec<Fact> {
    let mut told = turn.told();
    told.is_typed |= turn.over.is_none();
    let how = match turn.over {
        Some(Over::Interrupted) => Ending::Interrupted,
        Some(Over::Failed) => Ending::Failed(turn.text.clone()),
        Some(Over::Ended) | None => Ending::Answered,
    };
    let text = if how == Ending::Answered { turn.text.as_str() } else { "" };
    stopped(hearing, (Some(turn.prompt_id.clone()), Some(told)), text, how)
}

/// Returns the turn that a line tells of.
fn turn_of(value: &Value) -> Option<Turn> {
    value.is_object().then(|| from_json(value).ok())?
}

/// Ends a turn whose end was told by nothing.
pub(super) fn interrupted(hearing: &mut Hearing) -> Vec<Fact> {
    if let Some(facts) = stop::proven(hearing, None) {
        return facts;
    }
    if let Some(prompt) = hearing.prompt.take() {
        hearing.ended_prompt = Some(prompt);
    }
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
        // What a late `Stop` says, too.
        WRITTEN => line["seen"]["over"].as_str().map(|how| format!("[its turn is over: {how}]")),
        "StopFailure" => Some(format!("[it failed: {}]", failure(&line, true))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::speak::hook_line::hook_line;
    use crate::script::Speaks;

    const ID: &str = "01998d4e-6c1a-7f00-8000-000000000001";

    fn facts(lines: &[(&str, Value)]) -> Vec<Fact> {
        let mut hearing = Hearing::new(Speaks::Hooks);
        let line = |(event, given): &(&str, Value)| {
            let turn = told_of(given);
            let before = turn_of(&given["turn_before"]);
            match event {
                &WRITTEN => json!({"hook": WRITTEN, "seen": given}).to_string(),
                _ => hook_line(event, given, (turn.as_ref(), before.as_ref())),
            }
        };
        lines.iter().flat_map(|it| hearing.line(&line(it))).collect()
    }

    fn ended(block: Option<BlockId>, how: Ending, text: &str) -> Fact {
        let (tokens, text) = (Tokens::default(), text.to_owned());
        let is_mixed = !matches!(how, Ending::Interrupted);
        let before_typed = None;
        Fact::Ended { block, text, how, tokens, cost_usd: None, ms: None, is_mixed, before_typed }
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
    fn g39_words_of_another_turn_are_never_those_of_ours() {
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

    /// What a transcript tells of a turn: what it was given, and how it ended, if it has.
    fn in_file(prompt: &str, text: &str, (blocks, is_typed): (&[u32], bool), over: Value) -> Value {
        let blocks: Vec<String> = blocks.iter().map(|it| name(*it)).collect();
        json!({"prompt_id": prompt, "text": text, "blocks": blocks, "is_typed": is_typed,
            "is_said": true, "over": over})
    }

    /// A turn without its `Stop`, or with a late one, ends as its transcript tells, once.
    #[test]
    fn a_missing_end_is_read_in_the_transcript() {
        let over = || json!("ended");
        let file = |told, how| (WRITTEN, in_file("p1", "four", told, how));
        let ours = || stop("p1", "four", Some((&[1], false)));
        let (four, held) =
            ([(Some(1), "four".to_owned(), false)], [(Some(1), "four".to_owned(), true)]);
        assert_eq!(ends(&[given("p1", Some(1)), file((&[1], false), over())]), four);
        // Told by nothing else, late, twice.
        assert_eq!(ends(&[file((&[1], false), over())]), four);
        for late in [vec![ours()], vec![file((&[1], false), over()), ours(), ours()]] {
            let begun = [given("p1", Some(1)), file((&[1], false), over())];
            assert_eq!(ends(&[&begun[..], &late[..]].concat()), four);
            let ended = [given("p1", Some(1)), ours(), file((&[1], false), over())];
            assert_eq!(ends(&[&ended[..], &late[..]].concat()), four);
        }
        // Somebody typed into it; it failed; somebody interrupted it.
        assert_eq!(ends(&[given("p1", Some(1)), file((&[1], true), over())]), held);
        for how in ["failed", "interrupted"] {
            let end = ends(&[given("p1", Some(1)), file((&[1], false), json!(how))]);
            assert_eq!((end[0].0, &*end[0].1), (Some(1), ""));
        }
        // It begins without a hook, in the middle of a private one.
        let begun = (WRITTEN, in_file("p1", "", (&[1], false), Value::Null));
        let mine = [given("p0", None), begun, ours()];
        assert_eq!(ends(&mine), [(None, String::new(), false), four[0].clone()]);
        // The end of a private one is none of ours.
        let private = || (WRITTEN, in_file("p0", "a canary", (&[], true), over()));
        assert_eq!(ends(&[given("p1", Some(1)), private(), ours()]), four);
        // The next prompt, or the quiet after it, tells of it.
        for event in ["UserPromptSubmit", "Notification"] {
            for (how, end) in [(over(), &four), (Value::Null, &held)] {
                let mut next = json!({"prompt": "a canary", "prompt_id": "p2"});
                next["notification_type"] = json!("idle_prompt");
                next["turn_before"] = in_file("p1", "four", (&[1], false), how);
                let told = ends(&[given("p1", Some(1)), (event, next.clone()), ours()]);
                assert_eq!(told, *end, "{event}");
                // Without the beginning of ours nothing is said of what was before.
                assert_eq!(ends(&[(event, next)]), []);
            }
        }
    }

    /// Claude Code 2.1.332 never writes down the end of a turn that its provider failed.
    #[test]
    fn a_turn_that_has_failed_does_not_begin_again_in_a_later_one() {
        let failed = ("StopFailure", json!({"error": "server_error", "prompt_id": "p1"}));
        let open = || (WRITTEN, in_file("p1", "API Error", (&[1], false), Value::Null));
        let mine = |id: &str| stop(id, "a canary", Some((&[], true)));
        let first = [given("p1", Some(1)), failed, open(), given("p2", None), mine("p2")];
        let second = [given("p3", None), open(), mine("p3"), given("p4", Some(2))];
        let fourth = stop("p4", "four", Some((&[2], false)));
        let canary = || (None, "a canary".to_owned(), true);
        let told = ends(&[&first[..], &second, &[fourth]].concat());
        let four = (Some(2), "four".to_owned(), false);
        assert_eq!(told, [(Some(1), String::new(), true), canary(), canary(), four]);
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
        let mut found = facts(&all);
        let Some(Fact::Ended { before_typed, .. }) = found.last_mut() else { panic!("{found:?}") };
        assert_eq!(before_typed.take().as_deref(), Some(""), "a hook told that somebody typed");
        assert_eq!(found, [began.clone(), answered]);
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
        assert_eq!(facts(&[("SessionStart", json!({"source": "compact"}))]), [Fact::Compacted]);
        let started = |source: &str, id: &str| {
            facts(&[("SessionStart", json!({"source": source, "session_id": id}))])
        };
        let session = Fact::Session { name: ID.to_owned() };
        assert_eq!(started("clear", ID), [Fact::Cleared, session.clone(), Fact::Ready]);
        assert_eq!(started("resume", ID), [session, Fact::Ready]);
        assert_eq!(started("startup", ID), [Fact::Ready]);
        // It could be an option of the program.
        for id in ["", "s-1", "--dangerously-skip-permissions-00000", &ID.replacen('0', "-", 1)] {
            assert_eq!(started("clear", id), [Fact::Cleared, Fact::Ready], "{id}");
        }
        assert_eq!(facts(&[("SessionStart", json!({"source": "startup"}))]), [Fact::Ready]);
        let failed = facts(&[("StopFailure", json!({"error": "overloaded"}))]);
        assert_eq!(failed[1], ended(None, Ending::Failed("overloaded".to_owned()), ""));
        assert_eq!(facts(&[("Nothing", json!({}))]), []);
    }

    /// The name that Claude Code has for a failure may be `unknown`.
    #[test]
    fn a_failure_is_told_in_the_words_of_the_provider() {
        let given = ("UserPromptSubmit", json!({"prompt": format!("‹wb:{ID}› hi")}));
        let typed = ("UserPromptSubmit", json!({"prompt": "and mine"}));
        let why = |turn: &[(&str, Value)], name: &str, words: &str| {
            let failed = json!({"error": name, "last_assistant_message": words});
            match facts(&[turn, &[("StopFailure", failed)]].concat()).pop() {
                Some(Fact::Ended { how: Ending::Failed(why), .. }) => why,
                other => panic!("{other:?}"),
            }
        };
        let (alone, credit) = ([given.clone()], "Credit balance is too low");
        assert_eq!(why(&alone, "unknown", "API Error: 400 injected"), "API Error: 400 injected");
        assert_eq!(why(&alone, "billing_error", credit), credit);
        assert_eq!(why(&alone, "server_error", " "), "server_error");
        // Nobody knows whose words those of a turn are that somebody typed into.
        assert_eq!(why(&[given, typed], "unknown", "a canary"), "unknown");
        let line = r#"{"hook":"StopFailure","error":"unknown","text":"API Error: 400"}"#;
        assert_eq!(words(line).as_deref(), Some("[it failed: API Error: 400]"));
    }
}
