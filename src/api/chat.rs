//! The assistant: conversations, runs and what belongs to them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::{ApprovalId, CallId, ChatId, ChatMessageId, JobId, Millis};

/// The body of `POST /api/agent/chat-stream` and `POST /api/agent/chat`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "ChatRequest"))]
#[serde(deny_unknown_fields)]
pub struct AskRequest {
    /// The conversation; a new one if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<ChatId>,
    /// The question. Without one, `parent_id` names a question that is answered again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The message that the question follows; the end of the branch that is shown if it is not
    /// given. An empty text begins the conversation anew, beside its first question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    /// The mode that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// An action whose prompt is the question; `message` is added to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_id: Option<String>,
    /// The digest of the action that the person has looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<String>,
    /// Whether the answer changes nothing, and says what it would have changed.
    #[serde(default)]
    pub dry_run: bool,
    /// Whether another program wrote the question, such as one whose output was piped: what it
    /// names is not what the person asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub piped: bool,
    /// Paths of files that were uploaded to go with the question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<String>,
}

/// The query of `POST /api/agent/attachments`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AttachmentQuery {
    /// What the file is called.
    pub name: Option<String>,
}

/// A file that goes with a message.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AttachmentView {
    /// Its path in the vault.
    pub path: String,
    /// What its person calls it.
    pub name: String,
    /// `text`, `image/png`, `image/jpeg` or `image/webp`.
    pub kind: String,
    /// Its size.
    pub bytes: u64,
}

/// What a question became.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Asked {
    /// The conversation.
    pub session_id: ChatId,
    /// The run that answers.
    pub run_id: JobId,
    /// The question as a message.
    pub message_id: ChatMessageId,
    /// The mode that answers.
    pub mode: String,
}

/// The answer of `POST /api/agent/chat`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Answered {
    /// The conversation.
    pub session_id: ChatId,
    /// The run.
    pub run_id: JobId,
    /// The answer as a message; null while there is none.
    pub message_id: Option<ChatMessageId>,
    /// What was said so far.
    pub text: String,
    /// How the run ended; null while it goes on.
    pub ended: Option<String>,
    /// Why it did not end well.
    pub error: Option<RunError>,
}

/// Why a run did not end well.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RunError {
    /// A stable word.
    pub code: String,
    /// The message.
    pub message: String,
    /// What to do.
    pub hint: String,
}

/// A run as it is told.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RunView {
    /// Its id, which is that of its job.
    pub run_id: JobId,
    /// The conversation.
    pub session_id: ChatId,
    /// The question.
    pub question_id: ChatMessageId,
    /// The mode that answers.
    pub mode: String,
    /// Whether that is not the mode it was started with, which could not be used.
    pub fell_back: bool,
    /// The action that was run.
    pub action: Option<String>,
    /// Whether it changes nothing.
    pub dry_run: bool,
    /// `waiting`, `running` or `ended`.
    pub state: String,
    /// How it ended: `ok stopped timeout limit error interrupted`.
    pub ended: Option<String>,
    /// Why it did not end well.
    pub error: Option<RunError>,
    /// The number of its last item so far.
    pub last_seq: u64,
    /// What it says so far, in Markdown.
    pub text: String,
    /// The file of the vault in which it is recorded, once it is written.
    pub artefact: Option<String>,
    /// When it was asked for.
    pub created_at: Millis,
    /// When it ended.
    pub ended_at: Option<Millis>,
}

/// The body of `POST /api/agent/tools/execute`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExecuteRequest {
    /// The name that the runtime gave the call: the same name is the same call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments.
    #[serde(default)]
    pub arguments: Value,
}

/// The answer of `POST /api/agent/tools/execute`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Executed {
    /// The name that the runtime gave the call.
    pub id: String,
    /// `done`, `declined`, `expired`, `void`, or `waiting` and `running`: then ask again.
    pub state: String,
    /// Whether it went well; null while it is not over.
    pub ok: Option<bool>,
    /// What came of it.
    pub content: Option<String>,
    /// Why it was not done.
    pub error: Option<String>,
}

/// A tool call as its person sees it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CallView {
    /// Its id.
    pub id: CallId,
    /// The run that asked for it.
    pub run_id: JobId,
    /// The step of that run.
    pub step: u32,
    /// The tool.
    pub tool: String,
    /// What it is about: a path, or words.
    pub subject: String,
    /// `ready waiting running done declined expired void cancelled unknown`.
    pub state: String,
    /// Whether it went well; null while it is not over.
    pub ok: Option<bool>,
    /// What came of it, in one line.
    pub summary: Option<String>,
    /// Why its person is asked.
    pub asks: Option<String>,
    /// The question.
    pub approval_id: Option<ApprovalId>,
    /// The version of the question while it waits.
    pub version: Option<i64>,
    /// What would change, while it waits.
    pub preview: Option<String>,
    /// When the question expires, while it waits.
    pub expires_at: Option<Millis>,
    /// Whether it can be taken back.
    pub can_undo: bool,
    /// Whether it can be made now, because its question expired.
    pub can_do: bool,
    /// When it was taken back.
    pub undone_at: Option<Millis>,
    /// How long it took, in milliseconds.
    pub ms: i64,
    /// When it was asked for.
    pub created_at: Millis,
    /// Its arguments; in the answer about one call only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
    /// What the model was told; in the answer about one call only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

/// The body of `POST /api/agent/stop`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StopRequest {
    /// The run.
    pub run_id: JobId,
}

/// The answer of `POST /api/agent/stop`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Stopped {
    /// The run.
    pub run_id: JobId,
    /// `stopping`, or `stopped` if it had not begun.
    pub state: String,
}

/// The body of `POST /api/agent/session/clear`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ClearRequest {
    /// The conversation.
    pub session_id: ChatId,
}

/// The query of `POST /api/agent/chat-stream`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AskQuery {
    /// Whether the blocks of the answer come as HTML, too: `1`.
    pub html: Option<u8>,
}

/// The query of `GET /api/agent/runs/{id}/events`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// Only items after this number.
    pub after: Option<u64>,
    /// Whether the answer stays open until the run has ended.
    pub follow: Option<bool>,
    /// Whether the blocks of the answer come as HTML, too: `1`.
    pub html: Option<u8>,
}

/// The query of `GET /api/agent/session/history`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HistoryQuery {
    /// The conversation.
    pub session_id: ChatId,
    /// Only messages before this one of the branch.
    pub before: Option<ChatMessageId>,
    /// The messages around this one, whichever branch it stands in.
    pub at: Option<ChatMessageId>,
    /// Messages of a page.
    pub limit: Option<u32>,
}

/// A message as it is told.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChatMessageView {
    /// Its id.
    pub id: ChatMessageId,
    /// The message that it follows.
    pub parent_id: Option<ChatMessageId>,
    /// `user` or `assistant`.
    pub role: String,
    /// `whole`, `stopped`, `interrupted` or `failed`.
    pub state: String,
    /// Markdown.
    pub body: String,
    /// The run that made it.
    pub run_id: Option<JobId>,
    /// The files that go with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<AttachmentView>,
    /// The file of the vault in which its run is recorded, once it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artefact: Option<String>,
    /// Whether the site's key answered because the person's subscription could not be used.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fell_back: bool,
    /// What the whole answer took, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<SpentView>,
    /// All messages that follow the same one, oldest first, this one among them.
    pub siblings: Vec<ChatMessageId>,
    /// When it was written down.
    pub created_at: Millis,
}

/// Tokens and cost of an answer.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SpentView {
    /// Tokens read.
    pub tokens_in: i64,
    /// Tokens written.
    pub tokens_out: i64,
    /// What it cost, in US dollars.
    pub cost_usd: f64,
}

/// The answer of `GET /api/agent/session/history`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "ChatHistory"))]
pub struct History {
    /// The branch that is shown, oldest first.
    pub messages: Vec<ChatMessageView>,
    /// The end of that branch.
    pub head_id: Option<ChatMessageId>,
    /// What to send as `before` for the messages before these.
    pub next: Option<ChatMessageId>,
    /// What the runs of these messages did, and the run that answers or failed last.
    pub calls: Vec<CallView>,
    /// The run that answers at present.
    pub active_run: Option<RunView>,
    /// How the last answer failed, if nothing came after it.
    pub error: Option<RunError>,
    /// The mode of that answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_mode: Option<String>,
    /// Whether the message that was asked for with `at` stands in the branch that is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_in_branch: Option<bool>,
}

/// A conversation as it is told.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SessionView {
    /// Its id.
    pub session_id: ChatId,
    /// What it is called.
    pub title: String,
    /// Whether it stands first.
    pub is_pinned: bool,
    /// Whether it was put away.
    pub is_archived: bool,
    /// How many messages it has.
    pub messages: i64,
    /// Tokens read.
    pub tokens_in: i64,
    /// Tokens written.
    pub tokens_out: i64,
    /// What it cost, in US dollars.
    pub cost_usd: f64,
    /// The run that answers at present.
    pub active_run: Option<JobId>,
    /// How many questions of that run wait for the person.
    #[serde(default)]
    pub questions: u32,
    /// The end of the branch that is shown.
    pub head_id: Option<ChatMessageId>,
    /// When it began.
    pub created_at: Millis,
    /// When something was last said.
    pub touched_at: Millis,
    /// The message in which words were found; only in a search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<FoundMessage>,
}

/// The message of a conversation that fits a search best.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "FoundChatMessage"))]
pub struct FoundMessage {
    /// Its id.
    pub message_id: ChatMessageId,
    /// The run that made it; none of a question.
    pub run_id: Option<JobId>,
    /// When it was written down.
    pub at: Millis,
    /// The title of the conversation, with what was found in it.
    pub title: Vec<FoundPiece>,
    /// Some words of the message, as a reader sees them.
    pub snippet: Vec<FoundPiece>,
}

/// A piece of a text in which something was found.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FoundPiece {
    /// Its text: one line.
    pub text: String,
    /// Whether this is what was looked for.
    pub hit: bool,
}

/// The query of `GET /api/agent/sessions`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SessionsQuery {
    /// Words: only conversations with a message that has them, best first.
    pub query: Option<String>,
    /// The `next` of the page before.
    pub after: Option<String>,
    /// Rows of a page.
    pub limit: Option<u32>,
    /// Whether to list those that were put away, instead of the others; not with words.
    pub archived: Option<bool>,
}

/// The answer of `GET /api/agent/sessions`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SessionPage {
    /// Pinned ones first, then the newest; with words, best first.
    pub items: Vec<SessionView>,
    /// What to ask for the next page with.
    pub next: Option<String>,
    /// Whether more was found than is ranked.
    pub is_cut: bool,
    /// Whether messages of before are still being taken into the index.
    pub is_building: bool,
}

/// The body of `POST /api/agent/sessions/{id}`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SessionRequest {
    /// Another title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether it stands first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_pinned: Option<bool>,
    /// Whether it is put away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_archived: Option<bool>,
    /// A message: the newest branch with it is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_id: Option<ChatMessageId>,
}

/// A tool, as MCP and model providers name its parts.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ToolView {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON schema of its arguments.
    #[serde(rename = "inputSchema")]
    pub input_schema: serde_json::Value,
}

/// The tools of a run.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ToolList {
    /// Those that the script allows.
    pub items: Vec<ToolView>,
}

/// The answer of `DELETE /api/agent/sessions/{id}`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SessionRemoved {
    /// The conversation.
    pub session_id: ChatId,
}
