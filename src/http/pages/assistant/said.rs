//! Messages and calls, as shown on the assistant's page.

use crate::api::chat::{CallView, ChatMessageView};
use crate::base::{ChatMessageId, Millis};
use crate::http::markdown::{Html, blocks_of};
use crate::http::pages::parts::labels::grouped;

/// A message, as shown on the page.
pub(super) struct Said {
    pub(super) view: ChatMessageView,
    pub(super) blocks: Vec<Html>,
    pub(super) at: Millis,
    pub(super) calls: Vec<CallView>,
    /// The ids of all messages in it.
    pub(super) ids: Vec<ChatMessageId>,
}

impl Said {
    pub(super) fn of(view: ChatMessageView) -> Said {
        let blocks = if view.role == "user" { Vec::new() } else { blocks_of(&view.body) };
        let ids = vec![view.id.clone()];
        Said { at: view.created_at, blocks, view, calls: Vec::new(), ids }
    }

    /// Adds the next step of the same answer, which is shown as one message.
    pub(super) fn go_on(&mut self, next: Said) {
        self.blocks.extend(next.blocks);
        self.view.state = next.view.state;
        self.view.artefact = next.view.artefact;
        self.view.spent = next.view.spent;
        self.ids.extend(next.ids);
    }

    pub(super) fn is_question(&self) -> bool {
        self.view.role == "user"
    }

    /// Its element id; an answer keeps the one from while it was streaming.
    pub(super) fn key(&self) -> String {
        match &self.view.run_id {
            Some(run) => format!("run-{run}"),
            None => format!("said-{}", self.view.id),
        }
    }

    pub(super) fn place(&self) -> usize {
        let place = self.view.siblings.iter().position(|it| *it == self.view.id);
        place.map_or(1, |it| it + 1)
    }

    pub(super) fn before(&self) -> Option<&ChatMessageId> {
        self.view.siblings.get(self.place().checked_sub(2)?)
    }

    pub(super) fn after(&self) -> Option<&ChatMessageId> {
        self.view.siblings.get(self.place())
    }

    /// Returns why an answer is incomplete.
    pub(super) fn state(&self) -> Option<&'static str> {
        match self.view.state.as_str() {
            "stopped" => Some("Stopped"),
            "interrupted" => Some("Interrupted"),
            "failed" => Some("Incomplete"),
            _ => None,
        }
    }

    /// Returns what an answer took, in a few words.
    pub(super) fn spent(&self) -> Option<String> {
        let it = self.view.spent?;
        Some(spent_words(it.tokens_in + it.tokens_out, it.cost_usd))
    }

    /// The parent for another version of a question.
    pub(super) fn parent(&self) -> &str {
        self.view.parent_id.as_ref().map_or("", ChatMessageId::as_str)
    }
}

/// Returns tokens and cost in a few words.
pub(super) fn spent_words(tokens: i64, cost_usd: f64) -> String {
    let cost = match cost_usd {
        it if it <= 0.0 => String::new(),
        it if it < 0.01 => " · less than $0.01".to_owned(),
        it => format!(" · ${it:.2}"),
    };
    let unit = if tokens == 1 { "token" } else { "tokens" };
    format!("{} {unit}{cost}", grouped(tokens))
}

/// Returns a call's state as a word for people.
pub(in crate::http) fn call_state(call: &CallView) -> &'static str {
    match (call.state.as_str(), call.ok, call.undone_at) {
        (_, _, Some(_)) => "undone",
        ("ready" | "running", ..) => "working",
        ("waiting", ..) => "waits for you",
        ("done", Some(true), _) => "done",
        ("declined", ..) => "declined",
        ("expired", ..) => "expired",
        ("void", ..) => "not made",
        ("cancelled", ..) => "not made",
        ("unknown", ..) => "perhaps made",
        _ => "failed",
    }
}
