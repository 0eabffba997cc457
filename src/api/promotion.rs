//! Making a channel of a person's conversation with one agent.

use serde::{Deserialize, Serialize};

use crate::api::channels::MemberRequest;
use crate::base::{Millis, TurnId};

/// What newcomers to such a channel would be told.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Promotion {
    /// The agent.
    pub agent: String,
    /// The last turns of the conversation, the oldest first.
    pub turns: Vec<PromotedTurn>,
}

/// A turn of a conversation, cut to what newcomers are told of it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PromotedTurn {
    /// The turn.
    pub turn_id: TurnId,
    /// When it began.
    pub at: Millis,
    /// What the person said.
    pub asked: String,
    /// What the agent answered.
    pub answered: String,
}

/// The body of `POST /api/agents/{name}/promote`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PromoteRequest {
    /// The name of the channel's type; `workshop` if it is not given.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The channel's name; the agent's if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Who takes part beside the person and the agent.
    #[serde(default)]
    pub members: Vec<MemberRequest>,
    /// The turns that newcomers are told; all that would be shown if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<Vec<TurnId>>,
}
