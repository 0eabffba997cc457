//! Agents that live on.

use serde::{Deserialize, Serialize};

use crate::api::handoffs::HandoverView;
use crate::base::{Address, ApprovalId, JobId, MailId, Millis, TurnId};

/// An agent as it is told.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AgentView {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: Address,
    /// What it is for; nothing if it is no longer declared.
    pub about: Option<String>,
    /// The engine of its declaration.
    pub engine: Option<String>,
    /// `stopped starting idle busy blocked failed`, or `unknown` if nothing was heard from it for
    /// `probe_after` and nothing proves that its last state still holds.
    pub state: String,
    /// `running` or `stopped`.
    pub wanted: String,
    /// The reason for its state.
    pub reason: Option<String>,
    /// What it was last seen doing: `queued started works turn_began person_typed
    /// asks_permission permission_answered turn_ended daily_cap ended asked asks went_on refused
    /// free`.
    pub fact: Option<String>,
    /// When the fact was observed.
    pub fact_at: Option<Millis>,
    /// Why its start waits.
    #[serde(default)]
    pub waits: Option<String>,
    /// How its last start ended, in a sentence, where it should be running.
    #[serde(default)]
    pub ended: Option<String>,
    /// What keeps it from working, and what to do.
    #[serde(default)]
    pub problem: Option<Problem>,
    /// The question to a person that it waits for.
    #[serde(default)]
    pub approval_id: Option<ApprovalId>,
    /// It is not started before this time.
    pub not_before: Option<Millis>,
    /// The job of its last start.
    pub job_id: Option<JobId>,
    /// The engine's name for its session.
    pub session: Option<String>,
    /// How much waits to be given to it.
    pub waiting: u64,
    /// How much was given to it and never arrived, as far as anybody knows.
    pub unconfirmed: u64,
    /// Whether the script declares it otherwise than when it was started.
    pub is_older: bool,
    /// Who gets what is sent to it.
    pub heir: Option<String>,
    /// The command that leads to its terminal, on the machine of the site, if it runs in one.
    #[serde(default)]
    pub attach: Option<Vec<String>>,
    /// Its newest handover.
    #[serde(default)]
    pub handover: Option<HandoverView>,
    /// The persona whose handoffs it writes and reads.
    pub persona: String,
    /// Its seat in a channel.
    #[serde(default)]
    pub seat: Option<AgentSeat>,
}

/// The seat of an agent in a channel.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AgentSeat {
    /// The channel's slug.
    pub channel: String,
    /// The channel's name.
    pub name: String,
    /// The goal of the channel: its own or that of its type.
    pub intent: String,
    /// The handle under which the agent answers.
    pub handle: String,
    /// Whether it manages the channel.
    pub is_chair: bool,
    /// Whether it is muted there.
    pub is_muted: bool,
}

/// What keeps an agent from working.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Problem {
    /// What happened, without a full stop.
    pub what: String,
    /// What to do about it, with the command to type.
    pub fix: String,
}

/// The body of `POST /api/agents/{name}/start`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StartRequest {
    /// Whether an agent that has handed over is started all the same: it gets its mail itself then.
    #[serde(default)]
    pub clear_heir: bool,
    /// Whether it begins a new session instead of going on with its last one.
    #[serde(default)]
    pub fresh: bool,
}

/// The query of `GET /api/agents/{name}/turns`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TurnsQuery {
    /// Only turns that began before this moment.
    pub before: Option<Millis>,
    /// Maximum number of turns.
    pub limit: Option<u32>,
}

/// Turns of an agent.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TurnList {
    /// Newest first, without their answers.
    pub items: Vec<TurnView>,
}

/// A turn of an agent: one exchange, from what it received to its final message.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TurnView {
    /// Its id.
    pub id: TurnId,
    /// The agent.
    pub agent: String,
    /// The start of the agent that it belongs to.
    pub job_id: JobId,
    /// `channel`, `message` for a direct message, or `other` if it began in the agent's terminal.
    pub cause: String,
    /// The channel that caused it.
    pub channel: Option<String>,
    /// The message that woke the agent: its number in the channel.
    pub sequence: Option<i64>,
    /// The same message.
    pub message_id: Option<MailId>,
    /// `running answered silent interrupted failed lost`.
    pub state: String,
    /// Why it failed.
    pub reason: Option<String>,
    /// `waiting`, `posted` or `private` if its answer was held.
    pub held: Option<String>,
    /// The number of its answer in the channel.
    pub answer_sequence: Option<i64>,
    /// The beginning of the message that woke the agent; of a direct message, only for its sender.
    pub asked: Option<String>,
    /// When it began.
    pub started_at: Millis,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// Tokens that it used, if the engine reports them.
    pub tokens: Option<i64>,
    /// What it cost in US dollars, if the engine reports it.
    pub cost_usd: Option<f64>,
    /// Its final message, unless somebody may have typed in it. A list has only those that were not
    /// posted in their channel, cut to 4,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

/// The query of `GET /api/agents/{name}/peek`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PeekQuery {
    /// How many lines, 1 to 1000; 50 by default.
    #[serde(default)]
    pub lines: Option<u32>,
}

/// What an agent shows.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Peek {
    /// Whether it is what the agent shows now, and not what it left.
    pub is_live: bool,
    /// The last lines of its terminal, or of what it printed.
    pub output: String,
}

/// The answer of `GET /api/agents`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AgentList {
    /// All agents, by name.
    pub items: Vec<AgentView>,
}
