//! The entries of the event log.

use serde::Serialize;
use serde_json::Value;

use crate::base::{Actor, PersonId};

/// What happened. The names are the same in the log, over HTTP and in `wb.on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A job was accepted.
    JobQueued,
    /// A job's agent is starting.
    JobStarted,
    /// A job has ended and its row is final.
    JobFinished,
    /// A job's process has ended; the job waits for an approval.
    JobParked,
    /// A Topic was opened.
    TopicCreated,
    /// A Topic was closed or reopened.
    TopicChanged,
    /// A person corrected the passage of a Topic.
    TopicReattached,
    /// A message was added to a Topic.
    MessagePosted,
    /// A proposal was submitted.
    ProposalCreated,
    /// A proposal was approved, rejected, superseded or voided.
    ProposalDecided,
    /// The Source changed in the lines that a proposal changes.
    ProposalConflicted,
    /// A persona wrote its first perspective on a Source.
    PerspectiveCreated,
    /// A person kept or reverted changes made in the repository while a job ran.
    ChangesDecided,
    /// A Source has a new version.
    SourceChanged,
    /// Too many Sources changed to report them one by one.
    SourcesChanged,
    /// A Source was renamed, together with its Topics.
    SourceRenamed,
    /// A new generation of the script is active.
    ConfigReloaded,
    /// A function of the script failed, or its request was refused.
    ScriptFailed,
    /// A schedule came due.
    ScheduleFired,
    /// The provider of an engine is rate limiting; its queued jobs wait.
    EngineHeld,
    /// A person released an engine before its hold expired.
    EngineReleased,
    /// An instance's workspace was created, is being cleaned up, was removed, or needs a person.
    WorkspaceChanged,
    /// A message between addresses was accepted.
    MessageSent,
    /// The delivery of a message to one recipient changed state.
    DeliveryChanged,
    /// A long-lived agent changed state.
    AgentChanged,
    /// A person was added, disabled, enabled or given another role, their tokens changed, or they
    /// dismissed a failed job.
    PersonChanged,
    /// An approval was requested.
    ApprovalCreated,
    /// An approval was decided or withdrawn, or expired.
    ApprovalDecided,
    /// A conversation with the assistant was created, got a message or a title, or was deleted.
    ChatChanged,
    /// A channel was created, changed, paused or resumed, or has ended.
    ChannelChanged,
    /// Somebody joined or left a channel, was muted, or became its chair.
    MemberChanged,
    /// A message was posted in a channel.
    ChannelMessage,
    /// An agent started a turn.
    TurnStarted,
    /// An agent ended a turn.
    TurnEnded,
    /// An agent's last words are held for review, or a person posted them or kept them private.
    TurnHeld,
    /// A handover was requested, written, completed, or failed.
    HandoffChanged,
}

impl EventKind {
    /// All kinds, for the script's list of names.
    pub const ALL: [EventKind; 36] = [
        EventKind::JobQueued,
        EventKind::JobStarted,
        EventKind::JobFinished,
        EventKind::JobParked,
        EventKind::TopicCreated,
        EventKind::TopicChanged,
        EventKind::TopicReattached,
        EventKind::MessagePosted,
        EventKind::ProposalCreated,
        EventKind::ProposalDecided,
        EventKind::ProposalConflicted,
        EventKind::PerspectiveCreated,
        EventKind::ChangesDecided,
        EventKind::SourceChanged,
        EventKind::SourcesChanged,
        EventKind::SourceRenamed,
        EventKind::ConfigReloaded,
        EventKind::ScriptFailed,
        EventKind::ScheduleFired,
        EventKind::EngineHeld,
        EventKind::EngineReleased,
        EventKind::WorkspaceChanged,
        EventKind::MessageSent,
        EventKind::DeliveryChanged,
        EventKind::AgentChanged,
        EventKind::PersonChanged,
        EventKind::ApprovalCreated,
        EventKind::ApprovalDecided,
        EventKind::ChatChanged,
        EventKind::ChannelChanged,
        EventKind::MemberChanged,
        EventKind::ChannelMessage,
        EventKind::TurnStarted,
        EventKind::TurnEnded,
        EventKind::TurnHeld,
        EventKind::HandoffChanged,
    ];

    /// Returns the name of this kind.
    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::JobQueued => "job_queued",
            EventKind::JobStarted => "job_started",
            EventKind::JobFinished => "job_finished",
            EventKind::JobParked => "job_parked",
            EventKind::TopicCreated => "topic_created",
            EventKind::TopicChanged => "topic_changed",
            EventKind::TopicReattached => "topic_reattached",
            EventKind::MessagePosted => "message_posted",
            EventKind::ProposalCreated => "proposal_created",
            EventKind::ProposalDecided => "proposal_decided",
            EventKind::ProposalConflicted => "proposal_conflicted",
            EventKind::PerspectiveCreated => "perspective_created",
            EventKind::ChangesDecided => "changes_decided",
            EventKind::SourceChanged => "source_changed",
            EventKind::SourcesChanged => "sources_changed",
            EventKind::SourceRenamed => "source_renamed",
            EventKind::ConfigReloaded => "config_reloaded",
            EventKind::ScriptFailed => "script_failed",
            EventKind::ScheduleFired => "schedule_fired",
            EventKind::EngineHeld => "engine_held",
            EventKind::EngineReleased => "engine_released",
            EventKind::WorkspaceChanged => "workspace_changed",
            EventKind::MessageSent => "message_sent",
            EventKind::DeliveryChanged => "delivery_changed",
            EventKind::AgentChanged => "agent_changed",
            EventKind::PersonChanged => "person_changed",
            EventKind::ApprovalCreated => "approval_created",
            EventKind::ApprovalDecided => "approval_decided",
            EventKind::ChatChanged => "chat_changed",
            EventKind::ChannelChanged => "channel_changed",
            EventKind::MemberChanged => "member_changed",
            EventKind::ChannelMessage => "channel_message",
            EventKind::TurnStarted => "turn_started",
            EventKind::TurnEnded => "turn_ended",
            EventKind::TurnHeld => "turn_held",
            EventKind::HandoffChanged => "handoff_changed",
        }
    }

    /// Returns the names in `data`; a name ending in `?` is optional.
    pub fn fields(self) -> &'static [&'static str] {
        match self {
            EventKind::JobQueued | EventKind::JobStarted => {
                &["id", "kind", "status", "source_path", "topic_id"]
            }
            EventKind::JobFinished => {
                &["id", "kind", "status", "reason", "source_path", "topic_id", "retry_at"]
            }
            EventKind::JobParked => &["id", "kind", "approval_id"],
            EventKind::TopicCreated => &["topic_id", "source_path", "is_global"],
            EventKind::TopicChanged => &["topic_id", "from", "to"],
            EventKind::TopicReattached => &["topic_id", "source_path", "from", "to", "from_path?"],
            EventKind::MessagePosted => &["topic_id", "message_id", "sequence"],
            EventKind::ProposalCreated => {
                &["proposal_id", "topic_id", "job_id", "revision_number", "source_path"]
            }
            EventKind::ProposalDecided => {
                &["proposal_id", "topic_id", "status", "source_path", "commit?"]
            }
            EventKind::ProposalConflicted => &["proposal_id", "topic_id", "source_path", "blob"],
            EventKind::PerspectiveCreated => {
                &["source_path", "persona", "source_sha", "persona_sha", "job_id"]
            }
            EventKind::ChangesDecided => &["id", "changes"],
            EventKind::SourceChanged => &["path", "blob", "commit", "branch", "proposal_id"],
            EventKind::SourcesChanged => &["count", "commit", "branch"],
            EventKind::SourceRenamed => &["path", "from", "commit", "branch", "topics"],
            EventKind::ConfigReloaded => {
                &["generation", "digest", "changes", "needs_restart", "removed_kinds"]
            }
            EventKind::ScriptFailed => &["function", "at", "message", "cause"],
            EventKind::ScheduleFired => {
                &["schedule", "planned", "late_ms", "jobs", "skipped?", "error?"]
            }
            EventKind::EngineHeld => &["engine", "until", "job_id"],
            EventKind::EngineReleased => &["engine"],
            EventKind::WorkspaceChanged => &["job_id", "state"],
            EventKind::MessageSent => &["message_id", "to_class", "job_id", "state"],
            EventKind::DeliveryChanged => &["message_id", "state"],
            EventKind::AgentChanged => &["name", "state", "job_id"],
            EventKind::PersonChanged => &["id", "change"],
            EventKind::ApprovalCreated => &["id", "channel", "sort", "job_id"],
            EventKind::ApprovalDecided => &["id", "channel", "sort", "job_id", "state"],
            EventKind::ChatChanged => &["session_id", "change"],
            EventKind::ChannelChanged => &["channel", "number", "what"],
            EventKind::MemberChanged => &["channel", "number", "member", "state"],
            EventKind::ChannelMessage => &["channel", "number", "sequence", "message_id", "type"],
            EventKind::TurnStarted | EventKind::TurnEnded | EventKind::TurnHeld => {
                &["turn_id", "agent", "channel", "state"]
            }
            EventKind::HandoffChanged => &["id", "agent", "persona", "state", "successor"],
        }
    }

    /// Returns the kind with this name.
    pub fn parse(word: &str) -> Option<EventKind> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// Who may see an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everybody who can read the site.
    Site,
    /// One person.
    Person(PersonId),
}

impl Scope {
    /// Returns the text stored in the events table.
    pub fn to_text(&self) -> String {
        match self {
            Scope::Site => "site".to_owned(),
            Scope::Person(id) => format!("person:{id}"),
        }
    }
}

/// An event, written in the transaction of the change that it reports.
///
/// `data` holds ids and states, never document text, prompts or secrets.
#[derive(Clone, Debug)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// What it happened to: `job:ID`, `topic:ID`, `proposal:ID`, `source:PATH`, `engine:NAME`,
    /// `message:ID`, `person:ID`, `approval:ID`, `chat:ID`, `channel:ID`, `agent:NAME`, `sources`,
    /// `config`, `script`, `schedule:NAME`.
    pub subject: String,
    /// Who did it.
    pub actor: Actor,
    /// Who may see it.
    pub scope: Scope,
    /// Whether the row is kept forever, as for decisions; progress is pruned.
    pub audit: bool,
    /// Ids and states.
    pub data: Value,
}

impl Event {
    /// Returns an event visible to everybody, not kept for audit.
    pub fn new(kind: EventKind, subject: String, actor: Actor, data: Value) -> Event {
        Event { kind, subject, actor, scope: Scope::Site, audit: false, data }
    }

    /// Sets who may see it.
    #[must_use]
    pub fn scoped(mut self, scope: Scope) -> Event {
        self.scope = scope;
        self
    }

    /// Marks the row to be kept forever.
    #[must_use]
    pub fn audited(mut self) -> Event {
        self.audit = true;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_leads_back_to_its_kind() {
        for kind in EventKind::ALL {
            assert_eq!(EventKind::parse(kind.as_str()), Some(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        assert_eq!(EventKind::parse("job_finishd"), None);
    }
}
