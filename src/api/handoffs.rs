//! Handovers: an agent leaves, and writes down what its successor has to know.

use serde::{Deserialize, Serialize};

use crate::base::{HandoffId, MailId, Millis};

/// The body of `POST /api/agents/{name}/handover`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HandoverRequest {
    /// What the agent is to mind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Whether the agent goes on once its seats are given away.
    #[serde(default)]
    pub keep: bool,
}

/// A handover as it is told.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HandoverView {
    /// Its id.
    pub handoff_id: HandoffId,
    /// The agent that leaves.
    pub agent: String,
    /// `asked written seated failed`.
    pub state: String,
    /// Why it came to nothing.
    pub reason: Option<String>,
    /// The file that was written.
    pub file: Option<String>,
    /// The agent that follows.
    pub successor: Option<String>,
    /// When it was asked for.
    pub asked_at: Millis,
}

/// The body of `POST /api/agents/{name}/rehydrate`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RehydrateRequest {
    /// The names of handoffs of its persona; the newest one if none is given.
    #[serde(default)]
    pub files: Vec<String>,
    /// What the agent is to mind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The answer of `POST /api/agents/{name}/rehydrate`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Rehydrated {
    /// The message that tells the agent to read.
    pub message_id: MailId,
    /// What it is to read.
    pub files: Vec<String>,
}

/// The body of `POST /api/handoffs`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WriteHandoff {
    /// What it is about, as a part of its name.
    pub summary: String,
    /// The handoff, as Markdown.
    pub text: String,
}

/// The answer of `POST /api/handoffs`, and of `GET /api/handoffs/{file}` with the text.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HandoffText {
    /// The name of the file.
    pub file: String,
    /// What is in it; only where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// The query of `GET /api/personas/{name}/handoffs`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HandoffQuery {
    /// Maximum number of messages.
    pub limit: Option<u32>,
    /// Whether the first lines of its sections are told.
    pub detail: Option<bool>,
}

/// The handoffs of a persona.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HandoffList {
    /// Newest first.
    pub items: Vec<HandoffView>,
}

/// A handoff as it is told.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HandoffView {
    /// The name of its file.
    pub file: String,
    /// Where the file is.
    pub path: String,
    /// When it was asked for; of a file that nobody asked for, the time in its name.
    pub at: Option<Millis>,
    /// What it is about, as its name says.
    pub summary: Option<String>,
    /// The agent that wrote it; `agent-N` if only its number is known.
    pub agent: Option<String>,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether its file is gone: then nobody can read it.
    #[serde(default)]
    pub is_gone: bool,
    /// `written seated failed`; nothing of a file that nobody asked for.
    pub state: Option<String>,
    /// The agents that were told to read it.
    pub read_by: Vec<String>,
    /// The first lines of its sections, if they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sections: Vec<SectionView>,
}

/// A section of a handoff.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SectionView {
    /// Its heading.
    pub name: String,
    /// Its first line.
    pub line: String,
}
