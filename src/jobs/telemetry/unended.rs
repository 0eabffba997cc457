//! What an agent spent in the turn in which its process ended: of engines that report it with each
//! request of the model, and a turn's sum only with its end, which no line tells then.

use serde_json::{Value, json};

use crate::jobs::rows::usage::TurnSpent;
use crate::jobs::speak::{Fact, Hearing, Tokens};
use crate::jobs::telemetry::{Report, Telemetry};
use crate::script::Reads;

/// What was spent in a turn without an end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::jobs) struct Unended {
    /// Where it counts as heard, in bytes of the output: behind all of it.
    pub(in crate::jobs) at: u64,
    /// What it took; its time is that of others.
    pub(in crate::jobs) spent: TurnSpent,
}

impl Telemetry {
    /// Takes what was spent in the turn that had not ended when all was read, unless an earlier
    /// server has.
    pub(in crate::jobs) fn take_unended(&mut self) -> Option<Unended> {
        self.unended.take()
    }

    /// Notes what the turn that runs has spent, as its process has ended.
    pub(super) fn end_turn(&mut self) {
        // One more than there is: the last line may have been heard without this.
        let at = self.at + 1;
        let spent = match (&mut self.hearing, self.reads) {
            (Some(_), Some(Reads::ClaudeStreamJson)) => Some(since_result(&self.report)),
            (Some(hearing), reads) => spent(hearing, reads),
            (None, _) => None,
        };
        let is_any = |it: &TurnSpent| it.tokens.sum() > 0 || it.cost_usd.is_some_and(|it| it > 0.0);
        let spent = spent.filter(is_any);
        self.unended = spent.filter(|_| at > self.heard).map(|spent| Unended { at, spent });
    }
}

/// Returns what the turn that runs has spent: what its end would tell, if the process told it.
fn spent(hearing: &mut Hearing, reads: Option<Reads>) -> Option<TurnSpent> {
    let ends: Vec<Value> = match reads {
        Some(Reads::CodexJsonl) => {
            let at = hearing.told().bearings;
            // The sums of the last one stay until the next one begins.
            let (thread, _) = at.thread.zip(at.turn)?;
            let params = json!({"threadId": thread, "turn": {"status": "interrupted"}});
            vec![json!({"method": "turn/completed", "params": params})]
        }
        // Nor does it try again what has failed.
        Some(Reads::PiRpc) => {
            vec![json!({"type": "agent_end"}), json!({"type": "auto_retry_end", "success": false})]
        }
        _ => return None,
    };
    let mut facts = ends.iter().flat_map(|it| hearing.line(&it.to_string()));
    facts.find_map(|fact| match fact {
        Fact::Ended { tokens, cost_usd, .. } => Some(TurnSpent { tokens, cost_usd, ms: 0 }),
        _ => None,
    })
}

/// Returns what the messages of Claude Code tell since its last result. Their output is told as
/// they begin, and their cost not at all.
fn since_result(report: &Report) -> TurnSpent {
    let sum = report.tally.sum();
    let tokens = Tokens {
        read: sum.input,
        cached: sum.cache_read,
        stored: sum.cache_creation,
        written: sum.output,
    };
    TurnSpent { tokens, cost_usd: None, ms: 0 }
}

#[cfg(test)]
mod tests {
    use camino::Utf8Path;

    use super::*;
    use crate::base::Clock;
    use crate::script::Speaks;

    const CODEX: &str = include_str!("../../../tests/data/codex-app-server.jsonl");
    const PI: &str = include_str!("../../../tests/data/pi-rpc.jsonl");

    /// Returns what is left when an agent has printed this and its process has ended, and how much
    /// its turns that ended took.
    fn left(printed: &str, (reads, speaks): (Reads, Speaks), heard: u64) -> (Option<Unended>, u64) {
        let folder = tempfile::tempdir().unwrap();
        let dir = Utf8Path::from_path(folder.path()).unwrap();
        let telemetry = Telemetry::new(dir, Some(reads), Clock::system()).hearing(Some(speaks));
        let mut telemetry = telemetry.heard_until(heard);
        telemetry.take(printed.as_bytes()).unwrap();
        telemetry.finish().unwrap();
        let facts = telemetry.take_facts();
        let ended = facts.iter().flat_map(|it| &it.facts).map(|fact| match fact {
            Fact::Ended { tokens, .. } => tokens.sum(),
            _ => 0,
        });
        (telemetry.take_unended(), ended.sum())
    }

    /// Returns the first lines of a recorded run, until one has this in it.
    fn until<'a>(recorded: &'a str, last: &str) -> &'a str {
        let at = recorded.find(last).unwrap();
        &recorded[..=at + recorded[at..].find('\n').unwrap()]
    }

    #[test]
    fn the_turn_in_which_a_process_ended_is_counted_once() {
        for (recorded, last, form, sum) in [
            (
                CODEX,
                "\"totalTokens\":9598,\"inputTokens\":9525",
                (Reads::CodexJsonl, Speaks::CodexAppServer),
                9_598,
            ),
            (PI, "\"stopReason\":\"toolUse\"", (Reads::PiRpc, Speaks::PiRpc), 1_432),
        ] {
            let printed = until(recorded, last);
            let (unended, ended) = left(printed, form, 0);
            let Unended { at, spent } = unended.expect("a turn runs");
            assert_eq!((at, ended), (printed.len() as u64 + 1, 0));
            assert_eq!((spent.tokens.sum(), spent.ms), (sum, 0));
            // All was heard, but not this; and then this, too.
            assert_eq!(left(printed, form, at - 1).0, unended);
            assert_eq!(left(printed, form, at).0, None);
        }
    }

    #[test]
    fn messages_of_claude_after_its_last_result_are_counted_once() {
        let form = (Reads::ClaudeStreamJson, Speaks::ClaudeStreamJson);
        let said = |id: &str| {
            let usage = json!({"input_tokens": 100, "output_tokens": 1});
            let message = json!({"id": id, "model": "large", "content": [], "usage": usage});
            format!("{}\n", json!({"type": "assistant", "message": message}))
        };
        let models = json!({"large": {"inputTokens": 100, "outputTokens": 40}});
        let result = json!({"type": "result", "is_error": false, "modelUsage": models});
        let ended = format!("{}{result}\n", said("m1"));
        assert_eq!(left(&ended, form, 0), (None, 140));
        let cut = format!("{ended}{}", said("m2"));
        let (unended, sum) = left(&cut, form, 0);
        let Unended { at, spent } = unended.expect("a turn runs");
        assert_eq!((at, spent.tokens.sum(), sum), (cut.len() as u64 + 1, 101, 140));
        assert_eq!(left(&cut, form, at).0, None);
    }

    #[test]
    fn a_turn_that_has_ended_is_not_counted_again() {
        let end = until(CODEX, "\"turn/completed\"");
        let form = (Reads::CodexJsonl, Speaks::CodexAppServer);
        assert_eq!(left(end, form, 0), (None, 19_288));
        // The last one had spent nothing.
        assert_eq!(left(CODEX, form, 0), (None, 19_288));
        let form = (Reads::PiRpc, Speaks::PiRpc);
        assert_eq!(left(until(PI, "\"agent_end\""), form, 0), (None, 2_908));
        assert_eq!(left(PI, form, 0).0, None);
    }
}
