//! What is known of a program that answers requests, beside its turns: what it calls the
//! conversation, what it said in the turn that runs, and what it is to be told at once.
//!
//! **Invariant:** whatever is told at once may be told twice: after a restart of the server the
//! output is read again.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::jobs::speak::{Ending, Stance, Tokens};
use crate::script::Speaks;

/// The name of the input that begins the conversation.
pub(super) const GREETING: &str = "greeting";

/// What must be known of a process before something can be written to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::jobs) struct Bearings {
    /// Its name for the conversation.
    pub(in crate::jobs) thread: Option<String>,
    /// Its name for the turn that runs.
    pub(in crate::jobs) turn: Option<String>,
}

/// What a conversation begins with.
#[derive(Clone, Debug, Default)]
pub(in crate::jobs) struct Greeting {
    /// The conversation that it goes on with.
    pub(in crate::jobs) session: Option<String>,
    /// What the agent is and what it may do; empty if it learns that otherwise.
    pub(in crate::jobs) about: String,
    /// Whether another conversation is begun if the one to go on with is gone.
    pub(in crate::jobs) begins_anew: bool,
}

/// What a process has told beside its turns since it was asked last.
#[derive(Clone, Debug, Default)]
pub(in crate::jobs) struct Told {
    /// What is known of the process.
    pub(in crate::jobs) stance: Stance,
    /// What must be known to write to it.
    pub(in crate::jobs) bearings: Bearings,
    /// Lines that it is to be given at once.
    pub(in crate::jobs) lines: Vec<String>,
}

/// What is known of a conversation.
#[derive(Debug, Default)]
pub(super) struct Talk {
    pub(super) bearings: Bearings,
    /// The last words of the turn that runs.
    pub(super) said: String,
    pub(super) tokens: Tokens,
    pub(super) cost_usd: Option<f64>,
    /// How the turn ends, unless the program tries again by itself.
    pub(super) doubt: Option<Ending>,
    /// Whether it does.
    pub(super) is_again: bool,
    /// Whether a part of its output was not read, so that it is asked where it is.
    pub(super) has_gap: bool,
    /// Whether it cannot be spoken to at all, and must end.
    pub(super) is_lost: bool,
    /// Whether it has refused a block because it was busy.
    pub(super) has_refused: bool,
    /// What is known of agents below it.
    pub(super) below: Below,
    lines: Vec<String>,
}

/// Agents that an agent has work for it.
#[derive(Debug, Default)]
pub(super) struct Below {
    /// The turn that each of them is in.
    pub(super) turns: BTreeMap<String, String>,
    /// What they have spent that was not counted yet.
    pub(super) tokens: Tokens,
}

impl Talk {
    /// Forgets what was said in a turn, before the next one.
    pub(super) fn begin_turn(&mut self) {
        self.said.clear();
        (self.tokens, self.cost_usd) = (Tokens::default(), None);
        (self.doubt, self.is_again) = (None, false);
    }

    /// Adds what a part of the turn has taken.
    pub(super) fn spend(&mut self, tokens: Tokens, cost_usd: Option<f64>) {
        self.tokens = self.tokens.plus(tokens);
        if let Some(cost) = cost_usd.filter(|it| it.is_finite() && *it >= 0.0) {
            self.cost_usd = Some(self.cost_usd.unwrap_or(0.0) + cost);
        }
    }

    /// Notes a line that the program is to be given at once.
    pub(super) fn tell(&mut self, line: &Value) {
        self.lines.push(format!("{line}\n"));
    }

    /// Returns the lines that it is to be given since.
    pub(super) fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }
}

/// Returns whether an engine must be greeted before it can be spoken to, and says itself when it
/// can.
pub(in crate::jobs) fn is_greeted(speaks: Speaks) -> bool {
    matches!(speaks, Speaks::CodexAppServer | Speaks::PiRpc)
}

/// Returns the entry of a stream for what an agent said.
pub(super) fn said(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Returns the entry of a stream for a call of a tool.
pub(super) fn called(id: &Value, name: &str, input: &str) -> Value {
    json!({"type": "tool_call", "id": id, "name": name, "input": input})
}

/// Returns the entry of a stream for what a tool answered.
pub(super) fn answered(id: &Value, is_ok: bool, text: &str) -> Value {
    json!({"type": "tool_result", "id": id, "ok": is_ok, "text": text})
}
