//! The stream of an answer, as its readers parse it: one line of JSON for each item.

use serde::Deserialize;
use serde_json::Value;

use crate::api::chat::RunError;
use crate::base::{ApprovalId, ChatId, ChatMessageId, JobId};

/// A line; a `ping` has no number.
#[derive(Clone, Debug, Deserialize)]
pub struct StreamLine {
    /// Its number, from 1.
    pub seq: Option<u64>,
    /// The run.
    pub run_id: Option<JobId>,
    /// What it says.
    #[serde(flatten)]
    pub item: StreamItem,
}

/// What a line says, as far as a reader needs it. Readers skip types that they do not know.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StreamItem {
    /// The beginning.
    Start {
        /// The conversation.
        session_id: ChatId,
    },
    /// More text of a step.
    Text {
        /// The step, from 1.
        step: u32,
        /// The added text.
        delta: String,
    },
    /// A notice.
    Status {
        /// A stable word.
        code: String,
        /// A message for people.
        message: String,
    },
    /// A tool call begins.
    ToolCall {
        /// The tool.
        tool: String,
        /// The arguments, perhaps cut.
        args: Value,
    },
    /// A call awaits confirmation.
    ConfirmRequired {
        /// The tool.
        tool: String,
        /// The approval.
        approval_id: ApprovalId,
        /// The reason.
        reason: String,
    },
    /// A call has finished.
    ToolResult {
        /// The tool.
        tool: String,
        /// Whether it succeeded.
        ok: bool,
        /// The result, in one line.
        summary: String,
    },
    /// The text of a step is withdrawn.
    Reset {
        /// The step.
        step: u32,
    },
    /// The run failed.
    Error(RunError),
    /// The end.
    Done {
        /// The answer as a message, if there is one.
        message_id: Option<ChatMessageId>,
        /// How the run ended.
        reason: String,
        /// The path of its record, if any.
        #[serde(default)]
        artefact: Option<String>,
    },
    /// Anything else.
    #[serde(other)]
    Other,
}

/// The payload of an approval that asks about a call.
#[derive(Clone, Debug, Deserialize)]
pub struct CallPayload {
    /// What would change.
    pub preview: String,
}
