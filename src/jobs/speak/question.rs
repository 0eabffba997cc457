//! Questions of a program in a terminal: who in it asks, and whose next use of a tool shows that a
//! person has answered.
//!
//! **Invariant:** a question is over when the one who asked goes on, or the turn ends: its
//! sub-agents work beside each other.

use serde_json::Value;

use crate::jobs::speak::{Fact, Hearing};

/// Most sub-agents that ask at the same time.
const ASKERS_MAX: usize = 256;

/// Hears that the agent or a sub-agent asks.
pub(super) fn asked(hearing: &mut Hearing, line: &Value) -> Vec<Fact> {
    let agent = agent_of(line);
    if !hearing.askers.contains(&agent) && hearing.askers.len() < ASKERS_MAX {
        hearing.askers.push(agent);
    }
    seen()
}

/// Hears that a question is on the screen, whoever asks.
pub(super) fn seen() -> Vec<Fact> {
    vec![Fact::Waits { why: "permission".to_owned() }]
}

/// Hears that a tool was used: its question is answered, but not that of another one.
pub(super) fn went_on(hearing: &mut Hearing, line: &Value) -> Vec<Fact> {
    let agent = agent_of(line);
    hearing.askers.retain(|it| *it != agent);
    match hearing.askers.is_empty() {
        true => vec![Fact::GoesOn],
        false => Vec::new(),
    }
}

/// Returns the sub-agent that a line is about; none if it is about the agent itself.
fn agent_of(line: &Value) -> Option<String> {
    line["agent"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::jobs::speak::hook_line::hook_line;
    use crate::script::Speaks;

    /// Returns how often it was told that something asks, and that it goes on.
    fn told(lines: &[(&str, Option<&str>)]) -> Vec<bool> {
        let mut hearing = Hearing::new(Speaks::Hooks);
        let line = |(event, agent): &(&str, Option<&str>)| {
            let given = json!({"tool_name": "Bash", "agent_id": agent,
                "notification_type": "permission_prompt"});
            hook_line(event, &given, (None, None))
        };
        let facts = lines.iter().flat_map(|it| hearing.line(&line(it)));
        let of = |fact| match fact {
            Fact::Waits { .. } => Some(true),
            Fact::GoesOn => Some(false),
            _ => None,
        };
        facts.filter_map(of).collect()
    }

    #[test]
    fn a_question_is_answered_only_by_the_one_who_asked() {
        let (asks, used, failed) = ("PermissionRequest", "PostToolUse", "PostToolUseFailure");
        let (one, two) = (Some("a1"), Some("a2"));
        assert_eq!(told(&[(asks, one), (used, two), (used, None)]), [true]);
        assert_eq!(told(&[(asks, one), (used, two), (used, one)]), [true, false]);
        assert_eq!(told(&[(asks, None), (used, one), (failed, None)]), [true, false]);
        // Two ask.
        assert_eq!(told(&[(asks, one), (asks, two), (used, one)]), [true, true]);
        let all = [(asks, one), (asks, two), (used, two), (used, one)];
        assert_eq!(told(&all), [true, true, false]);
        // Nobody says who asks, or somebody has asked in a turn that is over.
        assert_eq!(told(&[("Notification", None), (used, one)]), [true, false]);
        assert_eq!(told(&[(asks, one), ("Stop", None), (used, None)]), [true, false]);
    }
}
