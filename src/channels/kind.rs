//! Types of channels: who may write, who is woken, and how far agents may go without a person.

use serde::Serialize;

use crate::api::channels::Budget;

/// Who may write in a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Speaks {
    /// Every member.
    All,
    /// The chair, and the script.
    Chair,
}

/// Which messages wake agents that nobody mentions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Wakes {
    /// Those addressed to them.
    Addressed,
    /// All except system messages and acknowledgements.
    Everything,
    /// None.
    Nothing,
}

/// How far agents may go without a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Limits {
    /// Longest chain of replies to replies.
    pub hops: u32,
    /// Messages of agents since a person last wrote.
    pub without_person: u32,
    /// Messages of one author in one chain of replies; every cycle reaches this.
    pub per_root: u32,
    /// Messages of one agent per minute.
    pub pair: u32,
    /// Messages of all agents per minute.
    pub channel: u32,
    /// Members that have not left.
    pub members: u32,
    /// Agents that its agents may start until a person writes again.
    pub starts: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            hops: 8,
            without_person: 20,
            per_root: 6,
            pair: 10,
            channel: 30,
            members: 20,
            starts: 2,
        }
    }
}

/// A type of channel.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChannelType {
    /// Its name, a prefix of slugs.
    pub name: String,
    /// Its purpose, for people.
    pub about: String,
    /// The goal of its channels, for agents.
    pub intent: String,
    /// Who may write.
    pub speaks: Speaks,
    /// Who is woken.
    pub wakes: Wakes,
    /// The default budget of its channels.
    pub budget: Budget,
    /// How far agents may go without a person.
    pub limits: Limits,
}

const BUILT_IN: [(&str, &str, &str, Speaks); 5] = [
    (
        "workshop",
        "Decide something together",
        "Resolve decisions with documented rationale. Challenge assumptions, propose alternatives, \
         converge on decisions. Output is decisions, not discussion.",
        Speaks::All,
    ),
    (
        "delegation",
        "Have a task done to its specification",
        "Task completion to spec. The chair defines the task; members execute and report. \
         Conversation is scoped to the task. Tangents are flagged, not followed.",
        Speaks::All,
    ),
    (
        "review",
        "Find problems before they ship",
        "Finding problems before they ship. Adversarial by design. Silence is not agreement: if \
         you have not found an issue, say why it is sound.",
        Speaks::All,
    ),
    (
        "standup",
        "Say what is done, what is next and what is blocked",
        "Status visibility and blocker surfacing. Brief updates: what is done, what is next, what \
         is blocked. No problem-solving here: that is for a delegation channel.",
        Speaks::All,
    ),
    (
        "broadcast",
        "Tell everybody something",
        "Information dissemination, one way, from the chair. Members acknowledge receipt. \
         Questions go to another channel.",
        Speaks::Chair,
    ),
];

impl ChannelType {
    /// Returns the default type.
    pub fn workshop() -> ChannelType {
        ChannelType::of(BUILT_IN[0])
    }

    /// Returns the types that every site has.
    pub fn built_in() -> Vec<ChannelType> {
        BUILT_IN.into_iter().map(ChannelType::of).collect()
    }

    fn of((name, about, intent, speaks): (&str, &str, &str, Speaks)) -> ChannelType {
        ChannelType {
            name: name.to_owned(),
            about: about.to_owned(),
            intent: intent.to_owned(),
            speaks,
            wakes: Wakes::Addressed,
            budget: Budget::default(),
            limits: Limits::default(),
        }
    }
}
