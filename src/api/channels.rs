//! Channels: conversations of people and agents.

use serde::{Deserialize, Serialize};

use crate::api::agents::Problem;
use crate::base::{ChannelId, MailId, Millis, TurnId};

/// The budget that the agents of a channel share; omitted limits are unlimited.
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

/// A member to add: exactly one of these.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MemberRequest {
    /// A persona: one of its agents that has no seat yet and has heard nothing in private from
    /// anybody else, or a fresh one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persona: Option<String>,
    /// Whether a fresh agent of the persona takes the seat in any case.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fresh: bool,
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
    /// The name of its type; `workshop` by default.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its name.
    pub name: String,
    /// Its description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Its goal, if not its type's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<String>,
    /// Members besides the creator.
    #[serde(default)]
    pub members: Vec<MemberRequest>,
    /// Its budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// The first message; from people only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether the agent that creates it takes no seat; then a person is its chair.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_me: bool,
    /// That person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chair: Option<String>,
}

/// The body of `POST /api/channels/{slug}/change`; omitted fields stay unchanged.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ChangeRequest {
    /// Its description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Its goal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<String>,
    /// Its budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Whether messages of members from outside can wake agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside_wakes: Option<bool>,
}

/// The body of `POST /api/channels/{slug}/resume`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ResumeRequest {
    /// A new budget, if the old one is used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
}

/// The body of `POST /api/channels/{slug}/chair`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ChairRequest {
    /// The handle of the new chair.
    pub to: String,
}

/// The body of `POST /api/channels/{slug}/messages`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PostRequest {
    /// Its text.
    pub body: String,
    /// `message` (the default), `delegation` or `escalation`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The handle of the member that it is addressed to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The number of the message that it replies to, for readers: it changes nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<i64>,
    /// Uploads of yours to send with it, by number; the text may then be empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<i64>,
}

/// The query of `POST /api/channels/{slug}/attachments`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "ChannelAttachmentQuery"))]
#[serde(deny_unknown_fields)]
pub struct AttachmentQuery {
    /// The file's name.
    pub name: Option<String>,
}

/// A file attached to a message.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "ChannelAttachment"))]
pub struct AttachmentView {
    /// Its number, unique on the site.
    pub number: i64,
    /// Its name.
    pub name: String,
    /// `text`, `binary` or the media type of an image.
    pub kind: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// A posted message.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Posted {
    /// The channel.
    pub channel: String,
    /// Its number in the channel.
    pub sequence: i64,
    /// The message.
    pub message_id: MailId,
    /// Why agents that it wakes do not receive it now: a sentence for each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<String>,
}

/// The body of `POST /api/channels/{slug}/members/{handle}/seat`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SeatRequest {
    /// The agent that takes the seat; by default a fresh one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// The body of `POST /api/channels/{slug}/read`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReadRequest {
    /// The number of the last message that was read.
    pub sequence: i64,
}

/// The unread messages of a member.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Unread {
    /// Unread messages.
    pub unread: i64,
    /// Unread messages that mention the member.
    pub mentions: u32,
}

/// The query of `GET /api/channels`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ChannelQuery {
    /// Only channels in this state; by default the open ones.
    pub status: Option<String>,
    /// Only channels that the caller is a member of.
    pub mine: Option<bool>,
    /// Only channels of this type.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Only those after this one: its number, `next` of the page before.
    pub after: Option<i64>,
}

/// The answer of `GET /api/channels`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChannelList {
    /// Last active first.
    pub items: Vec<ChannelView>,
    /// The last one, if there may be more after it.
    #[serde(default)]
    pub next: Option<i64>,
}

/// A channel.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChannelView {
    /// Its id, as events have it.
    pub id: ChannelId,
    /// Counts channels from 1.
    pub number: i64,
    /// Its slug.
    pub slug: String,
    /// Its name.
    pub name: String,
    /// The name of its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether the script no longer declares its type; it then continues as a workshop.
    #[serde(default)]
    pub is_type_gone: bool,
    /// Its description.
    pub about: String,
    /// Its goal.
    pub intent: String,
    /// `pending active complete archived`.
    pub status: String,
    /// Why it is paused.
    pub paused: Option<PausedView>,
    /// Its budget.
    pub budget: Budget,
    /// What its agents have spent.
    pub spent: Spent,
    /// Whether messages of members from outside can wake agents.
    #[serde(default)]
    pub outside_wakes: bool,
    /// The agent whose conversation with a person became this channel.
    #[serde(default)]
    pub promoted_from: Option<String>,
    /// When it was created.
    pub created_at: Millis,
    /// When it was completed.
    pub completed_at: Option<Millis>,
    /// The number of its last message.
    pub last_sequence: i64,
    /// When the last message was posted.
    pub last_at: Millis,
    /// Its members.
    pub members: Vec<MemberView>,
    /// The handle of the caller, if a member.
    pub me: Option<String>,
    /// The caller's unread messages.
    #[serde(flatten)]
    pub unread: Unread,
    /// Its last message.
    pub last: Option<MessageView>,
}

impl ChannelView {
    /// Returns its members; of one that has ended, those who were there until then.
    pub fn present(&self) -> impl Iterator<Item = &MemberView> {
        let ended_at = self.completed_at;
        self.members.iter().filter(move |it| {
            let was_here = ended_at.is_some_and(|end| it.left_at.is_some_and(|at| at >= end));
            it.standing != "left" || was_here
        })
    }
}

/// Why a channel is paused.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PausedView {
    /// `hops no_person cycle rate budget person`.
    pub reason: String,
    /// Since when.
    pub since: Millis,
    /// For display.
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
    /// Its handle: the word after `@`.
    pub handle: String,
    /// For display.
    pub name: String,
    /// `agent`, `person`, or `outside` for a member from outside.
    pub sort: String,
    /// The agent in its seat; none for a person or an empty seat.
    pub agent: Option<String>,
    /// The state of that agent.
    pub state: Option<String>,
    /// What its engine does not report, so that `spent` lacks it: `tokens`, `cost_usd`.
    #[serde(default)]
    pub untold: Vec<String>,
    /// Since when it has been working on a message of the channel.
    pub works_since: Option<Millis>,
    /// Whether it manages the channel.
    pub is_chair: bool,
    /// `active muted left`.
    pub standing: String,
    /// When it joined.
    pub joined_at: Millis,
    /// When it left, or the channel ended.
    #[serde(default)]
    pub left_at: Option<Millis>,
    /// What keeps its agent from receiving messages, and what to do; not for agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// Messages of the channel that its agent may not have received.
    #[serde(default)]
    pub unconfirmed: u64,
}

/// The query of `GET /api/channels/{slug}/messages`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HistoryQuery {
    /// Only messages after this number, oldest first.
    pub after: Option<i64>,
    /// Only messages before this number.
    pub before: Option<i64>,
    /// Only messages since this moment, oldest first.
    pub since: Option<Millis>,
    /// Maximum number of messages.
    pub limit: Option<u32>,
}

/// Messages of a channel.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "ChannelHistory"))]
pub struct History {
    /// In order.
    pub items: Vec<MessageView>,
    /// The number of the channel's last message.
    pub last_sequence: i64,
}

/// A message of a channel.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "ChannelMessage"))]
pub struct MessageView {
    /// Its number in the channel.
    pub sequence: i64,
    /// The message.
    pub message_id: MailId,
    /// `message system delegation escalation`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its author.
    pub author: AuthorView,
    /// Its text.
    pub text: String,
    /// Its files.
    #[serde(default)]
    pub attachments: Vec<AttachmentView>,
    /// The number of the message that it answers.
    pub answers: Option<i64>,
    /// The turn that it answers, or that it reports.
    pub turn_id: Option<TurnId>,
    /// Whether it reports a failed turn that can be retried.
    #[serde(default)]
    pub may_ask_again: bool,
    /// For a message that reports a held answer: `waiting`, `posted` or `private`.
    #[serde(default)]
    pub held: Option<String>,
    /// When it was posted.
    pub created_at: Millis,
    /// Its deliveries, by agent.
    pub heard: Vec<HeardView>,
}

/// An answer that is or was held, because somebody may have typed in the agent's terminal
/// while it worked.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HeldAnswer {
    /// The number of the message that reports it.
    pub sequence: i64,
    /// The turn that it is the answer of, or was posted in.
    pub turn_id: TurnId,
    /// The agent.
    pub agent: String,
    /// `waiting`, `posted` or `private`.
    pub state: String,
    /// Who decided about it.
    pub decided_by: Option<String>,
    /// The number of the message that it answers.
    pub answers: Option<i64>,
    /// The answer.
    pub text: String,
}

/// The decision about a held answer.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HeldDecision {
    /// Post it.
    Post,
    /// Keep it out of the channel.
    Private,
}

/// The body of `POST /api/channels/{slug}/messages/{sequence}/held`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HeldRequest {
    /// The decision.
    pub decision: HeldDecision,
}

/// The author of a message.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AuthorView {
    /// `agent person script system`.
    pub sort: String,
    /// How agents read it: `agent:NAME`, `operator` for an admin, `person`, `outside`, `script` or
    /// `system`.
    #[serde(default)]
    pub role: String,
    /// For display.
    pub name: String,
    /// Its handle: the word after `@`.
    pub handle: Option<String>,
    /// The agent that posted it.
    pub agent: Option<String>,
}

/// The delivery of a message to one agent.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HeardView {
    /// The agent.
    pub agent: String,
    /// `queued claimed sent confirmed unconfirmed expired dropped`.
    pub state: String,
    /// Whether it wakes the agent; otherwise it arrives with the next message that does.
    pub wakes: bool,
    /// Why it did not arrive.
    pub reason: Option<String>,
    /// What became of the agent's turn on it, if that put nothing into the channel: `silent`, or
    /// `acknowledged` where only the chair writes. Of recent messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub came_to: Option<String>,
}
