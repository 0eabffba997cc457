//! A `Stop` hook whose turn may go on: another hook can block the stop, and then the program
//! continues the same turn and stops again. The transcript shows which was the last.
//!
//! **Invariant:** if the transcript is followed, a turn ends when that shows its end, or when
//! something later proves that it ended.

use camino::Utf8Path;

use crate::base::BlockId;
use crate::jobs::speak::hooks::stopped;
use crate::jobs::speak::transcript::{Told, is_transcript};
use crate::jobs::speak::{Ending, Fact, Hearing};

/// What the last `Stop` of a turn reported.
#[derive(Clone, Debug)]
pub(super) struct Stop {
    prompt: String,
    told: Told,
    text: String,
}

/// Hears a `Stop`. Without a transcript that is followed, it is the end of the turn.
pub(super) fn heard(
    hearing: &mut Hearing,
    (prompt, told): (Option<String>, Option<Told>),
    text: &str,
) -> Vec<Fact> {
    let is_followed = hearing.transcript.as_deref().map(Utf8Path::new).is_some_and(is_transcript);
    let is_running = hearing.turn.is_some() && prompt.is_some() && hearing.prompt == prompt;
    match (prompt, told) {
        (Some(prompt), Some(told)) if is_running && is_followed && is_of_turn(hearing, &told) => {
            hearing.stop = Some(Stop { prompt, told, text: text.to_owned() });
            Vec::new()
        }
        (prompt, told) => stopped(hearing, (prompt, told), text, Ending::Answered),
    }
}

/// Returns whether the transcript's turn is the one that runs.
fn is_of_turn(hearing: &Hearing, told: &Told) -> bool {
    let own: Option<&BlockId> = hearing.turn.as_ref().and_then(Option::as_ref);
    own.is_none_or(|block| told.blocks.contains(block))
}

/// Ends the turn whose `Stop` was the last of it; nothing if none is pending, or if it is one of
/// another turn.
pub(super) fn proven(hearing: &mut Hearing, prompt: Option<&str>) -> Option<Vec<Fact>> {
    let stop = hearing.stop.take()?;
    if prompt.is_some_and(|prompt| prompt != stop.prompt) {
        return None;
    }
    let turn = (Some(stop.prompt), Some(stop.told));
    Some(stopped(hearing, turn, &stop.text, Ending::Answered))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::script::Speaks;

    const FILE: &str = "/x/01998d4e-6c1a-7f00-8000-000000000009.jsonl";
    const BLOCK: &str = "01998d4e-6c1a-7f00-8000-000000000001";

    fn prompt(id: &str) -> Value {
        json!({"hook": "UserPromptSubmit", "transcript": FILE, "prompt_id": id, "blocks": [BLOCK]})
    }

    fn stop(id: &str, text: &str) -> Value {
        json!({"hook": "Stop", "transcript": FILE, "prompt_id": id, "text": text,
            "turn": {"blocks": [BLOCK], "is_typed": false}})
    }

    fn over(text: &str) -> Value {
        json!({"hook": "Transcript", "seen": {"prompt_id": "p1", "blocks": [BLOCK], "text": text,
            "is_typed": false, "is_said": true, "over": "ended"}})
    }

    /// Returns the final messages of the turns that these lines end, and whether they are mixed.
    fn ends(lines: &[Value]) -> Vec<(String, bool)> {
        let mut hearing = Hearing::new(Speaks::Hooks);
        let facts = lines.iter().flat_map(|line| hearing.line(&line.to_string()));
        let end = |fact| match fact {
            Fact::Ended { text, is_mixed, .. } => Some((text, is_mixed)),
            _ => None,
        };
        facts.filter_map(end).collect()
    }

    #[test]
    fn a_stop_that_is_blocked_does_not_end_the_turn() {
        let four = || vec![("four".to_owned(), false)];
        let first = [prompt("p1"), stop("p1", "three")];
        assert_eq!(ends(&first), []);
        let second = [&first[..], &[stop("p1", "four")]].concat();
        assert_eq!(ends(&second), []);
        assert_eq!(ends(&[&second[..], &[over("four")]].concat()), four());
        // If the end was not recorded, whatever comes after the turn proves it.
        let idle = json!({"hook": "Notification", "kind": "idle_prompt"});
        let gone = json!({"hook": "SessionEnd"});
        let cleared = json!({"hook": "SessionStart", "source": "clear"});
        for proof in [idle, gone, cleared, json!({"hook": "UserPromptSubmit", "prompt_id": "p2"})] {
            let lines = [&second[..], std::slice::from_ref(&proof)].concat();
            assert_eq!(ends(&lines), four(), "{proof}");
        }
        // A turn that went on after its first `Stop` and was interrupted has no answer.
        let tool = json!({"hook": "PostToolUse"});
        let cut = json!({"hook": "Notification", "kind": "idle_prompt"});
        let went_on = [&first[..], &[tool, cut]].concat();
        assert_eq!(ends(&went_on), [(String::new(), false)]);
    }

    #[test]
    fn without_a_transcript_the_stop_is_the_end() {
        let mut lines = [prompt("p1"), stop("p1", "four")];
        for line in &mut lines {
            line["transcript"] = json!("/etc/passwd");
        }
        assert_eq!(ends(&lines), [("four".to_owned(), false)]);
    }
}
