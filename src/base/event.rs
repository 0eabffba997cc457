//! "Something changed": the entries of the one event log.

use serde::Serialize;
use serde_json::Value;

use crate::base::{Actor, PersonId};

/// What happened. The words are the same in the log, over HTTP and in `wb.on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A job was accepted.
    JobQueued,
    /// A job's agent is being started.
    JobStarted,
    /// A job has ended; its row is settled.
    JobFinished,
    /// The process of a job has ended, and the job waits for an approval.
    JobParked,
    /// A Topic was opened.
    TopicCreated,
    /// A Topic was closed or reopened.
    TopicChanged,
    /// A person said where the words of a Topic are.
    TopicReattached,
    /// A message was added to a Topic.
    MessagePosted,
    /// A proposal was handed in.
    ProposalCreated,
    /// A proposal was approved, rejected, superseded or voided.
    ProposalDecided,
    /// The Source of a proposal has changed in the same lines.
    ProposalConflicted,
    /// A Source has a view of a persona that it had not.
    PerspectiveCreated,
    /// A person decided about what changed in the repository while a job ran.
    ChangesDecided,
    /// A Source has another version.
    SourceChanged,
    /// So many Sources have other versions that they are not told one by one.
    SourcesChanged,
    /// A Source was renamed, and its Topics with it.
    SourceRenamed,
    /// Another generation of the script is in force.
    ConfigReloaded,
    /// A function of the script failed, or what it asked for was refused.
    ScriptFailed,
    /// A schedule came due.
    ScheduleFired,
    /// The provider of an engine takes no more: its other jobs wait.
    EngineHeld,
    /// A person let an engine go on before its time.
    EngineReleased,
    /// The workspace of an instance was made, is cleaned up, is gone or needs a person.
    WorkspaceChanged,
    /// A message between addresses was accepted.
    MessageSent,
    /// Something became of a message for its recipient.
    DeliveryChanged,
    /// An agent that lives on is in another state.
    AgentChanged,
    /// A person was added, disabled or enabled, has another role, or has a token more or less.
    PersonChanged,
    /// Somebody asks for an approval.
    ApprovalCreated,
    /// An approval was decided, withdrawn, or has expired.
    ApprovalDecided,
    /// A conversation with the assistant is new, has another message or title, or is gone.
    ChatChanged,
    /// A channel was made, changed, paused, resumed, or has ended.
    ChannelChanged,
    /// Somebody joined a channel or left it, is muted, or is its chair.
    MemberChanged,
    /// A message was posted in a channel.
    ChannelMessage,
    /// An agent works on what it was given.
    TurnStarted,
    /// An agent has done with it.
    TurnEnded,
    /// The last words of an agent wait for a person, or were posted or kept private by one.
    TurnHeld,
    /// A handover was asked for, is written, gave the seats away, or came to nothing.
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

    /// Returns the word of this kind.
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

    /// Returns the names in `data`; one that ends in `?` is there only sometimes.
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

    /// Returns the kind with this word.
    pub fn parse(word: &str) -> Option<EventKind> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// Who may see an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everybody who may read the site.
    Site,
    /// One person.
    Person(PersonId),
}

impl Scope {
    /// Returns the text in the events table.
    pub fn to_text(&self) -> String {
        match self {
            Scope::Site => "site".to_owned(),
            Scope::Person(id) => format!("person:{id}"),
        }
    }
}

/// An event to be written in the transaction of the change that it reports.
///
/// `data` holds ids and states, never text of a document, a prompt or a secret.
#[derive(Clone, Debug)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// What it happened to: `job:ID`, `topic:ID`, `proposal:ID`, `source:PATH`, `engine:NAME`,
    /// `message:ID`, `person:ID`, `approval:ID`, `chat:ID`, `sources`, `config`, `script`,
    /// `schedule:NAME`.
    /// `message:ID`, `person:ID`, `approval:ID`, `channel:ID`, `agent:NAME`, `sources`, `config`,
    /// `script`, `schedule:NAME`.
    pub subject: String,
    /// Who did it.
    pub actor: Actor,
    /// Who may see it.
    pub scope: Scope,
    /// Whether the row is kept for ever: decisions are, progress is not.
    pub audit: bool,
    /// Ids and states.
    pub data: Value,
}

impl Event {
    /// Returns an event for everybody, without audit.
    pub fn new(kind: EventKind, subject: String, actor: Actor, data: Value) -> Event {
        Event { kind, subject, actor, scope: Scope::Site, audit: false, data }
    }

    /// Says who may see it.
    #[must_use]
    pub fn scoped(mut self, scope: Scope) -> Event {
        self.scope = scope;
        self
    }

    /// Marks the row as one that is kept for ever.
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
