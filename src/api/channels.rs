//! Channels: conversations of people and agents.

use serde::{Deserialize, Serialize};

use crate::base::{ChannelId, MailId, Millis, TurnId};

/// What the agents of a channel may spend together; what is not given is not bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Turns of agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<i64>,
    /// Tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<i64>,
    /// US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// Who is to be a member: one of the three.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MemberRequest {
    /// A persona: one of its agents that has no seat elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persona: Option<String>,
    /// An agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// A person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
}

/// The body of `POST /api/channels`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateRequest {
    /// The name of its type; `workshop` if it is not given.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its name.
    pub name: String,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// What it is to come to, if that is not the type's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<String>,
    /// Who takes part beside whoever makes it.
    #[serde(default)]
    pub members: Vec<MemberRequest>,
    /// What its agents may spend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// The first message; from people only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether an agent that makes it takes no seat in it; then a person is its chair.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_me: bool,
    /// That person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chair: Option<String>,
}

/// The body of `POST /api/channels/{slug}/change`: what is not given stays.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ChangeRequest {
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// What it is to come to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<String>,
    /// What its agents may spend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Whether what members from outside say wakes agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside_wakes: Option<bool>,
}

/// The body of `POST /api/channels/{slug}/resume`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ResumeRequest {
    /// What its agents may spend from now on, where that was used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
}

/// The body of `POST /api/channels/{slug}/chair`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ChairRequest {
    /// The handle of the member who is the chair from now on.
    pub to: String,
}

/// The body of `POST /api/channels/{slug}/messages`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PostRequest {
    /// What it says.
    pub body: String,
    /// `message` (the default), `delegation` or `escalation`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The handle of the member that it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// The answer to a message that was posted.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Posted {
    /// The channel.
    pub channel: String,
    /// Its place in the channel.
    pub sequence: i64,
    /// The message.
    pub message_id: MailId,
}

/// The body of `POST /api/channels/{slug}/members/{handle}/seat`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SeatRequest {
    /// The agent that is to sit there; a fresh one if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// The body of `POST /api/channels/{slug}/read`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReadRequest {
    /// The last message that was read.
    pub sequence: i64,
}

/// What a member has not read.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Unread {
    /// Messages that it has not read.
    pub unread: i64,
    /// Those of them that mention it.
    pub mentions: u32,
}

/// The query of `GET /api/channels`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ChannelQuery {
    /// Only those in this state; the open ones if it is not given.
    pub status: Option<String>,
    /// Only those that whoever asks is a member of.
    pub mine: Option<bool>,
}

/// The answer of `GET /api/channels`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChannelList {
    /// Last active first.
    pub items: Vec<ChannelView>,
}

/// A channel as it is told.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChannelView {
    /// Its id, as events have it.
    pub id: ChannelId,
    /// Counts channels from 1.
    pub number: i64,
    /// Its name in addresses.
    pub slug: String,
    /// Its name.
    pub name: String,
    /// The name of its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether the script has no such type any more: then it goes on as a workshop.
    #[serde(default)]
    pub is_type_gone: bool,
    /// What it is about.
    pub about: String,
    /// What it is to come to.
    pub intent: String,
    /// `pending active complete archived`.
    pub status: String,
    /// Why it waits for a person.
    pub paused: Option<PausedView>,
    /// What its agents may spend.
    pub budget: Budget,
    /// What they have spent.
    pub spent: Spent,
    /// Whether what members from outside say wakes agents.
    #[serde(default)]
    pub outside_wakes: bool,
    /// The agent whose conversation with a person it was made of.
    #[serde(default)]
    pub promoted_from: Option<String>,
    /// When it was made.
    pub created_at: Millis,
    /// When it ended.
    pub completed_at: Option<Millis>,
    /// The number of its last message.
    pub last_sequence: i64,
    /// When something was said last.
    pub last_at: Millis,
    /// Who takes part.
    pub members: Vec<MemberView>,
    /// The handle of whoever asks, if a member.
    pub me: Option<String>,
    /// What whoever asks has not read.
    #[serde(flatten)]
    pub unread: Unread,
    /// What was said last.
    pub last: Option<MessageView>,
}

/// Why a channel waits for a person.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PausedView {
    /// `hops no_person cycle rate budget person`.
    pub reason: String,
    /// Since when.
    pub since: Millis,
    /// For people to read.
    pub sentence: String,
}

/// What the agents of a channel have spent.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Spent {
    /// Turns.
    pub turns: i64,
    /// Tokens.
    pub tokens: i64,
    /// US dollars.
    pub cost_usd: f64,
}

/// A member of a channel.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MemberView {
    /// What is written behind an `@`.
    pub handle: String,
    /// For people to read.
    pub name: String,
    /// `agent`, `person`, or `outside` for somebody who is not of this site.
    pub sort: String,
    /// The agent that hears and speaks for it; none of a person, and of a seat that is empty.
    pub agent: Option<String>,
    /// What that agent was last seen doing.
    pub state: Option<String>,
    /// What its engine does not report, so that `spent` lacks it: `tokens`, `cost_usd`.
    #[serde(default)]
    pub untold: Vec<String>,
    /// Since when it works on what was said here.
    pub works_since: Option<Millis>,
    /// Whether it manages the channel.
    pub is_chair: bool,
    /// `active muted left`.
    pub standing: String,
    /// When it joined.
    pub joined_at: Millis,
}

/// The query of `GET /api/channels/{slug}/messages`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HistoryQuery {
    /// Only those behind this one, the oldest first.
    pub after: Option<i64>,
    /// Only those before this one.
    pub before: Option<i64>,
    /// At most so many.
    pub limit: Option<u32>,
}

/// Messages of a channel.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "ChannelHistory"))]
pub struct History {
    /// In their order.
    pub items: Vec<MessageView>,
    /// The number of the channel's last message.
    pub last_sequence: i64,
}

/// A message of a channel.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "ChannelMessage"))]
pub struct MessageView {
    /// Its place in the channel.
    pub sequence: i64,
    /// The message.
    pub message_id: MailId,
    /// `message system delegation escalation`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Who said it.
    pub author: AuthorView,
    /// What it says.
    pub text: String,
    /// The message that it answers.
    pub answers: Option<i64>,
    /// The turn that came to it, or of which it tells.
    pub turn_id: Option<TurnId>,
    /// Whether it tells of a turn that came to nothing, and whose question can be asked again.
    #[serde(default)]
    pub may_ask_again: bool,
    /// At a line that tells of an answer that was held: `waiting`, `posted` or `private`.
    #[serde(default)]
    pub held: Option<String>,
    /// When it was said.
    pub created_at: Millis,
    /// What became of it, by agent.
    pub heard: Vec<HeardView>,
}

/// An answer that is held, or was: its agent lives in a terminal, where someone may have typed
/// while it worked.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HeldAnswer {
    /// The place of the line that tells of it.
    pub sequence: i64,
    /// The turn that came to it.
    pub turn_id: TurnId,
    /// The agent.
    pub agent: String,
    /// `waiting`, `posted` or `private`.
    pub state: String,
    /// Who decided that.
    pub decided_by: Option<String>,
    /// The message that it answers.
    pub answers: Option<i64>,
    /// What the agent said.
    pub text: String,
}

/// What becomes of an answer that is held.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HeldDecision {
    /// It is posted.
    Post,
    /// It stays out of the channel.
    Private,
}

/// The body of `POST /api/channels/{slug}/messages/{sequence}/held`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HeldRequest {
    /// What becomes of it.
    pub decision: HeldDecision,
}

/// Who said something in a channel.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AuthorView {
    /// `agent person script system`.
    pub sort: String,
    /// For people to read.
    pub name: String,
    /// What is written behind an `@`.
    pub handle: Option<String>,
    /// The agent that said it.
    pub agent: Option<String>,
}

/// What became of a message for one agent.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HeardView {
    /// The agent.
    pub agent: String,
    /// `queued claimed sent confirmed unconfirmed expired dropped`.
    pub state: String,
    /// Whether it was to wake the agent; otherwise it comes with the next that does.
    pub wakes: bool,
    /// Why it did not arrive.
    pub reason: Option<String>,
}

/// A channel as a text.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChannelExport {
    /// What was said, as Markdown.
    pub markdown: String,
}
