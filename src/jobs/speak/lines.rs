//! The words for programs of one's own: one JSON object a line, in both directions.
//!
//! We write `{"id": ID, "text": TEXT}` and `{"interrupt": true}`. The program writes
//! `{"turn": "began", "id": ID}` when it takes a message (or `{"ack": ID}`), and
//! `{"turn": "ended", "id": ID, "text": ANSWER}` when it is done; `"failed": WHY` and
//! `"interrupted": true` say that there is no answer. An end without a beginning is both. Other
//! lines are its own affair.

use serde_json::{Value, json};

use crate::base::BlockId;
use crate::jobs::speak::talk::said;
use crate::jobs::speak::{Ending, Fact, Hearing, Tokens, block_of};

/// Returns the line that gives a block.
pub(super) fn block(id: &BlockId, text: &str) -> Value {
    json!({"id": id, "text": text})
}

/// Returns the line that interrupts.
pub(super) fn interrupt() -> Value {
    json!({"interrupt": true})
}

/// Reads one line.
pub(super) fn read(hearing: &mut Hearing, line: &Value) -> Vec<Fact> {
    if let Some(block) = block_of(&line["ack"]) {
        return hearing.begin(Some(block));
    }
    match line["turn"].as_str() {
        Some("began") => hearing.begin(block_of(&line["id"])),
        Some("ended") => {
            let block = block_of(&line["id"]);
            if block.is_some() && hearing.turn.as_ref().is_some_and(|it| *it != block) {
                // The end of another turn than the one that runs: it was told before.
                return Vec::new();
            }
            let mut facts = hearing.begin(block);
            let how = match (line["failed"].as_str(), &line["interrupted"]) {
                (Some(why), _) => Ending::Failed(crate::base::truncate_chars(why, 2_000)),
                (None, Value::Bool(true)) => Ending::Interrupted,
                _ => Ending::Answered,
            };
            let text = line["text"].as_str().unwrap_or_default();
            let tokens = Tokens { read: line["tokens"].as_u64().unwrap_or(0), ..Tokens::default() };
            let cost = line["cost_usd"].as_f64().filter(|it| it.is_finite() && *it >= 0.0);
            facts.extend(hearing.end(text, how, tokens, cost));
            facts
        }
        _ => Vec::new(),
    }
}

/// Returns what a line tells a person who looks at the job; nothing for a line that is the
/// program's own affair, which is shown as it is.
pub(super) fn steps(line: &Value) -> Option<Vec<Value>> {
    let is_ours =
        line["ack"].is_string() || matches!(line["turn"].as_str(), Some("began" | "ended"));
    if !is_ours {
        return None;
    }
    let texts = [&line["text"], &line["failed"]].into_iter().filter_map(Value::as_str);
    Some(texts.filter(|it| !it.is_empty()).map(said).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Speaks;

    #[test]
    fn a_person_reads_what_it_said_and_its_own_lines() {
        let hearing = Hearing::new(Speaks::Lines);
        let told = |line: &str| {
            let steps = hearing.steps(line)?;
            Some(steps.iter().map(|it| it["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(told("{\"turn\":\"began\",\"id\":\"1\"}"), Some(vec![]));
        assert_eq!(told("{\"ack\":\"1\"}"), Some(vec![]));
        assert_eq!(told("{\"turn\":\"ended\",\"text\":\"four\"}"), Some(vec!["four".to_owned()]));
        let failed = told("{\"turn\":\"ended\",\"failed\":\"no such model\"}");
        assert_eq!(failed, Some(vec!["no such model".to_owned()]));
        assert_eq!((told("loading 3 files"), told("{\"loaded\":3}")), (None, None));
    }

    #[test]
    fn an_end_without_a_beginning_is_both() {
        let id = "01998d4e-6c1a-7f00-8000-000000000001";
        let block: Option<BlockId> = id.parse().ok();
        let mut hearing = Hearing::new(Speaks::Lines);
        assert_eq!(hearing.line("nothing of the kind"), []);
        assert_eq!(hearing.line("{\"turn\":\"else\"}"), []);
        let ended = format!("{{\"turn\":\"ended\",\"id\":\"{id}\",\"text\":\"4\"}}");
        let facts = hearing.line(&ended);
        assert_eq!(facts[0], Fact::Began { block: block.clone() });
        let how = Ending::Answered;
        let (tokens, text) = (Tokens::default(), "4".into());
        let end = Fact::Ended {
            block: block.clone(),
            text,
            how,
            tokens,
            cost_usd: None,
            ms: None,
            is_mixed: false,
            before_typed: None,
        };
        assert_eq!(facts[1], end);
        assert_eq!(hearing.line(&format!("{{\"ack\":\"{id}\"}}")), [Fact::Began { block }]);
        let other = ended.replace("0001", "0002");
        assert_eq!(hearing.line(&other), [], "another turn than the one that runs");
        let facts = hearing.line("{\"turn\":\"ended\",\"failed\":\"no\"}");
        assert!(
            matches!(&facts[..], [Fact::Ended { how: Ending::Failed(why), .. }] if why == "no")
        );
    }
}
