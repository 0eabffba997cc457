//! Sessions of a program in a terminal: a person begins another one there, or goes on with one.
//!
//! **Invariant:** no turn outlives the session in which it began.

use serde_json::Value;

use crate::jobs::speak::hooks::interrupted;
use crate::jobs::speak::{Fact, Hearing};

/// Hears that the program takes what is typed, in a session that begins or goes on.
pub(super) fn started(hearing: &mut Hearing, line: &Value) -> Vec<Fact> {
    let ended = match has_left(hearing, line) {
        true => interrupted(hearing),
        false => Vec::new(),
    };
    let cleared = (line["source"] == "clear").then_some(Fact::Cleared);
    let other = (line["source"] != "startup").then(|| session_of(line)).flatten();
    ended.into_iter().chain(cleared).chain(other).chain([Fact::Ready]).collect()
}

/// Returns whether a person has left the session in which a turn may run. The first one of the
/// process is none of these, also if it is told late.
fn has_left(hearing: &Hearing, line: &Value) -> bool {
    let is_other =
        hearing.session.is_some() && hearing.session.as_deref() != line["session_id"].as_str();
    line["source"] == "clear" || (line["source"] == "resume" && is_other)
}

/// Returns the session that a person has begun or gone on with in the terminal. Its name will be an
/// argument of the program.
fn session_of(line: &Value) -> Option<Fact> {
    let name = line["session_id"].as_str().filter(|it| uuid::Uuid::try_parse(it).is_ok())?;
    Some(Fact::Session { name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::jobs::speak::Ending;
    use crate::script::Speaks;

    #[test]
    fn a_turn_does_not_outlive_its_session() {
        let turn = |session: &str| {
            let mut hearing = Hearing::new(Speaks::Hooks);
            let line =
                json!({"hook": "UserPromptSubmit", "prompt_id": "p1", "session_id": session});
            hearing.line(&line.to_string());
            hearing
        };
        let ends = |hearing: &mut Hearing, source: &str| {
            let line = json!({"hook": "SessionStart", "source": source, "session_id": "s2"});
            let facts = hearing.line(&line.to_string());
            let is_cut = |it: &Fact| matches!(it, Fact::Ended { how: Ending::Interrupted, .. });
            (facts.first().is_some_and(is_cut), hearing.turn.is_none())
        };
        for source in ["clear", "resume"] {
            assert_eq!(ends(&mut turn("s1"), source), (true, true), "{source}");
            assert_eq!(ends(&mut Hearing::new(Speaks::Hooks), source), (false, true), "{source}");
        }
        // The program makes room for itself, or the start of its process is told late.
        for (session, source) in [("s1", "compact"), ("s1", "startup"), ("s2", "resume")] {
            assert_eq!(ends(&mut turn(session), source), (false, false), "{source}");
        }
    }
}
