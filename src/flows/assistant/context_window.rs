//! A branch of a conversation as a request to a model, with calls and results.
//!
//! **Invariant:** each call has a result; otherwise providers refuse the request.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::base::JobId;
use crate::chat::model::{Block, Turn};
use crate::chat::{Message, Role, ToolCall};

/// The result for a call that has none.
const UNMADE: &str = "The call was not made: the answer ended before.";
/// Bytes that are kept of an old result when the context is full.
const OLD_RESULT_BYTES: usize = 2 * 1024;
/// The last turns whose results are cut only if nothing else helps.
const FRESH_TURNS: usize = 6;

/// The weight of an image in bytes of text; it depends on its pixels, not on its file.
const IMAGE_SIZE: usize = 5_000;

/// The contents of a branch.
pub(super) struct Branch<'a> {
    /// The messages before the question, oldest first.
    pub(super) before: &'a [Message],
    /// The question.
    pub(super) question: &'a Message,
    /// The images to show, by path.
    pub(super) images: &'a BTreeMap<String, Block>,
    /// The calls of their runs.
    pub(super) calls: &'a BTreeMap<JobId, Vec<ToolCall>>,
    /// The contents of `agent/memory.md`.
    pub(super) memory: Option<&'a str>,
}

/// Returns a branch as turns. Steps of the same model are in their native form, if it still has
/// tools.
pub(super) fn turns(
    branch: &Branch<'_>,
    (provider, model, has_tools): (&str, &str, bool),
) -> Vec<Turn> {
    let mut turns = Vec::new();
    for message in branch.before {
        let is_own = message.provider.as_deref() == Some(provider)
            && message.model.as_deref() == Some(model)
            && has_tools;
        let native = message.native.as_ref().filter(|_| is_own);
        let native: Option<Vec<Value>> = native.and_then(|it| serde_json::from_str(it).ok());
        match (native, &message.run_id) {
            (Some(native), Some(run)) => {
                let calls = branch.calls.get(run).map(Vec::as_slice).unwrap_or_default();
                let results = results(&native, calls);
                add(&mut turns, true, native.into_iter().map(Block::Native).collect());
                add(&mut turns, false, results);
            }
            _ => {
                let blocks = said(message, branch.images);
                add(&mut turns, message.role == Role::Assistant, blocks);
            }
        }
    }
    add(&mut turns, false, said(branch.question, branch.images));
    if let (Some(memory), Some(first)) = (branch.memory, turns.iter_mut().find(|it| !it.is_model)) {
        let head = "What you noted earlier (agent/memory.md in the vault), for you to know:";
        let text = format!("{head}\n<memory>\n{memory}\n</memory>");
        first.blocks.insert(0, Block::Text(text));
    }
    turns
}

/// Returns a message's text and images.
fn said(message: &Message, images: &BTreeMap<String, Block>) -> Vec<Block> {
    let text = message.told();
    let words = (!text.is_empty()).then_some(Block::Text(text));
    let files = message.attachments.iter();
    words.into_iter().chain(files.filter_map(|it| images.get(&it.path).cloned())).collect()
}

/// Returns the results of a step's calls.
fn results(native: &[Value], calls: &[ToolCall]) -> Vec<Block> {
    let asked = native.iter().filter(|it| it["type"] == "tool_use" || it["type"] == "toolCall");
    let ids = asked.filter_map(|it| it["id"].as_str());
    let of = |id: &str| {
        let call = calls.iter().find(|it| it.call_ref == id);
        let told = call.and_then(|it| it.result.clone());
        Block::Result {
            id: id.to_owned(),
            is_ok: call.is_some_and(|it| it.ok == Some(true) && it.again_id.is_none()),
            text: told.unwrap_or_else(|| UNMADE.to_owned()),
        }
    };
    ids.map(of).collect()
}

/// Adds to the last turn if it is of the same side, or else as a new turn.
pub(super) fn add(turns: &mut Vec<Turn>, is_model: bool, mut blocks: Vec<Block>) {
    if blocks.is_empty() {
        return;
    }
    match turns.last_mut() {
        Some(last) if last.is_model == is_model => last.blocks.append(&mut blocks),
        _ => turns.push(Turn { is_model, blocks }),
    }
}

/// Cuts old results, and then drops the oldest turns, until a branch fits. Returns whether anything
/// was dropped.
pub(super) fn fit(turns: &mut Vec<Turn>, bytes_max: usize) -> bool {
    let mut bytes: usize = turns.iter().map(size).sum();
    if bytes <= bytes_max {
        return false;
    }
    let fresh = turns.len().saturating_sub(FRESH_TURNS);
    for turn in &mut turns[..fresh] {
        let before = size(turn);
        turn.blocks.iter_mut().for_each(shorten);
        bytes = bytes + size(turn) - before;
    }
    // The first remaining turn must be a question: a result without its call would be refused.
    while bytes > bytes_max {
        let begins = |it: &Turn| {
            !it.is_model && it.blocks.iter().all(|it| !matches!(it, Block::Result { .. }))
        };
        let Some(next) = turns.iter().skip(1).position(begins) else { break };
        bytes -= turns.drain(..=next).map(|it| size(&it)).sum::<usize>();
    }
    true
}

fn shorten(block: &mut Block) {
    let Block::Result { text, .. } = block else { return };
    if text.len() > OLD_RESULT_BYTES {
        text.truncate(text.floor_char_boundary(OLD_RESULT_BYTES));
        text.push_str("\n… cut: ask again if you need it");
    }
}

fn size(turn: &Turn) -> usize {
    let of = |block: &Block| match block {
        Block::Text(text) | Block::Result { text, .. } => text.len(),
        Block::Native(native) => native.to_string().len(),
        Block::Image { .. } => IMAGE_SIZE,
    };
    turn.blocks.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::base::Millis;
    use crate::chat::State;

    fn message(role: Role, body: &str, native: Option<&Value>) -> Message {
        let run: JobId = "018bcfe5-6800-7000-8000-000000000009".parse().unwrap();
        Message {
            seq: 1,
            id: "018bcfe5-6800-7000-8000-000000000001".parse().unwrap(),
            parent_id: None,
            role,
            run_id: (role == Role::Assistant).then_some(run),
            state: State::Whole,
            body: body.to_owned(),
            native: native.map(Value::to_string),
            provider: Some("anthropic".to_owned()),
            model: Some("m".to_owned()),
            attachments: Vec::new(),
            created_at: Millis(0),
        }
    }

    #[test]
    fn every_call_has_a_result_whatever_became_of_it() {
        let native = json!([{"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "tool_use", "id": "t1", "name": "read_file", "input": {}}]);
        let before = [
            message(Role::User, "one", None),
            message(Role::Assistant, "", Some(&native)),
            message(Role::Assistant, "two", None),
            message(Role::Assistant, " ", None),
        ];
        let calls = BTreeMap::new();
        let (question, images) = (message(Role::User, "three", None), BTreeMap::new());
        let branch = Branch {
            before: &before,
            question: &question,
            images: &images,
            calls: &calls,
            memory: Some("I know"),
        };
        let told = turns(&branch, ("anthropic", "m", true));
        let sides: Vec<bool> = told.iter().map(|it| it.is_model).collect();
        assert_eq!(sides, [false, true, false, true, false]);
        let unmade = Block::Result { id: "t1".to_owned(), text: UNMADE.to_owned(), is_ok: false };
        assert_eq!(told[2].blocks, [unmade]);
        assert!(matches!(&told[0].blocks[0], Block::Text(it) if it.contains("I know")));
        assert_eq!(told[4].blocks, [Block::Text("three".to_owned())]);
        // Another model, or one without tools, gets only the text.
        for other in [("anthropic", "n", true), ("gateway", "m", true), ("anthropic", "m", false)] {
            let told = turns(&branch, other);
            assert_eq!(told.len(), 3, "{told:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_cut_from_its_beginning() {
        let say = |is_model, text: String| Turn { is_model, blocks: vec![Block::Text(text)] };
        let result = |text: String| {
            let id = "t".to_owned();
            Turn { is_model: false, blocks: vec![Block::Result { id, text, is_ok: true }] }
        };
        let mut turns = vec![
            say(false, "a".repeat(100)),
            say(true, "call".to_owned()),
            result("r".repeat(9_000)),
            say(true, "b".repeat(100)),
            say(false, "second".to_owned()),
            say(true, "x".to_owned()),
            say(false, "third".to_owned()),
            say(true, "y".to_owned()),
            say(false, "last".to_owned()),
        ];
        let whole = turns.clone();
        assert!(!fit(&mut turns, 20_000));
        assert_eq!(turns, whole);
        assert!(fit(&mut turns, 4_000));
        assert_eq!(turns.len(), whole.len(), "a shorter result was enough");
        assert!(fit(&mut turns, 30));
        assert_eq!(turns[0], whole[4], "a turn of the person comes first");
        assert!(fit(&mut turns, 1));
        assert_eq!(turns, [whole[8].clone()], "the question stays");
    }
}
