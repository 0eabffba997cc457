//! What functions of the script are given: events with their data, jobs, values of a prompt.

use crate::base::EventKind;
use crate::script::schema::{Member, Record};

const fn text(name: &'static str, doc: &'static str) -> Member {
    Member { name, ty: "string", doc }
}

const fn maybe(name: &'static str, doc: &'static str) -> Member {
    Member { name, ty: "string?", doc }
}

const fn number(name: &'static str, doc: &'static str) -> Member {
    Member { name, ty: "integer", doc }
}

const fn texts(name: &'static str, doc: &'static str) -> Member {
    Member { name, ty: "string[]", doc }
}

const JOB_ID: Member = text("id", "The job.");
const KIND: Member = text("kind", "Its kind.");
const STATUS: Member = Member { name: "status", ty: "wb.JobStatus", doc: "Its status." };
const REASON: Member =
    Member { name: "reason", ty: "wb.JobReason?", doc: "Why it ended so; nil for success." };
const PATH: Member = text("source_path", "The Source.");
const MAYBE_PATH: Member = maybe("source_path", "The Source it works on.");
const TOPIC: Member = text("topic_id", "The Topic.");
const MAYBE_TOPIC: Member = maybe("topic_id", "The Topic it works on.");
const PROPOSAL: Member = text("proposal_id", "The proposal.");
const FROM: Member = text("from", "What it was.");
const TO: Member = text("to", "What it is.");
const BRANCH: Member = maybe("branch", "The branch.");
const COMMIT: Member = maybe("commit", "The commit; nil for an edit that is not committed.");

const JOB_BEGUN: &[Member] = &[JOB_ID, KIND, STATUS, MAYBE_PATH, MAYBE_TOPIC];
const JOB_FINISHED: &[Member] = &[
    JOB_ID,
    KIND,
    STATUS,
    REASON,
    MAYBE_PATH,
    MAYBE_TOPIC,
    maybe("retry_at", "When the provider's limit resets, if reported."),
];
const JOB_PARKED: &[Member] = &[JOB_ID, KIND, text("approval_id", "What it waits for.")];
const TOPIC_CREATED: &[Member] = &[
    TOPIC,
    PATH,
    Member { name: "is_global", ty: "boolean", doc: "Whether it is about the whole source." },
];
const TOPIC_CHANGED: &[Member] = &[TOPIC, FROM, TO];
const TOPIC_REATTACHED: &[Member] =
    &[TOPIC, PATH, FROM, TO, maybe("from_path", "The Source that it was about; nil for this one.")];
const MESSAGE_POSTED: &[Member] =
    &[TOPIC, text("message_id", "The message."), number("sequence", "Its place in the Topic.")];
const PROPOSAL_CREATED: &[Member] = &[
    PROPOSAL,
    TOPIC,
    maybe("job_id", "The job that submitted it."),
    number("revision_number", "Its place among the revisions."),
    PATH,
];
const PROPOSAL_DECIDED: &[Member] = &[
    PROPOSAL,
    TOPIC,
    text("status", "What became of it."),
    PATH,
    maybe("commit", "The commit, if it was approved."),
];
const PROPOSAL_CONFLICTED: &[Member] =
    &[PROPOSAL, TOPIC, PATH, maybe("blob", "The Source's version that it conflicts with.")];
const PERSPECTIVE_CREATED: &[Member] = &[
    PATH,
    text("persona", "The persona."),
    text("source_sha", "The Source's version."),
    text("persona_sha", "The persona's version."),
    text("job_id", "The job that made it."),
];
const CHANGES_DECIDED: &[Member] = &[JOB_ID, text("changes", "`restored`, `kept` or `expired`.")];
const SOURCE_CHANGED: &[Member] = &[
    text("path", "The Source."),
    maybe("blob", "Its version; nil if it is gone."),
    COMMIT,
    BRANCH,
    maybe("proposal_id", "The proposal that was approved."),
];
const SOURCES_CHANGED: &[Member] = &[
    Member { name: "count", ty: "integer?", doc: "How many, if that can be said." },
    COMMIT,
    BRANCH,
];
const SOURCE_RENAMED: &[Member] = &[
    text("path", "What it is called now."),
    text("from", "What it was called."),
    COMMIT,
    BRANCH,
    number("topics", "How many Topics went with it."),
];
const CONFIG_RELOADED: &[Member] = &[
    number("generation", "The number of the active generation."),
    text("digest", "The digest of its files."),
    texts("changes", "What is different: `kind.NAME`, `engine.NAME`, …."),
    texts("needs_restart", "Settings that take effect only after a restart."),
    texts("removed_kinds", "The kinds that are gone."),
];
const SCRIPT_FAILED: &[Member] = &[
    text("function", "`on.EVENT`, `kind.NAME.retry` or `schedule.NAME`."),
    text("at", "Its file and line."),
    text("message", "What is wrong, with file and line."),
    text("cause", "For what it was called."),
];
const SCHEDULE_FIRED: &[Member] = &[
    text("schedule", "The schedule."),
    text("planned", "The time that was planned."),
    number("late_ms", "How much later it was served, in milliseconds."),
    texts("jobs", "The jobs that were accepted."),
    maybe("skipped", "Why the time was left out."),
    maybe("error", "What is wrong, with file and line."),
];
const ENGINE_HELD: &[Member] = &[
    text("engine", "The engine."),
    maybe("until", "Until when, if that is known."),
    maybe("job_id", "The job that was refused."),
];
const ENGINE_RELEASED: &[Member] = &[text("engine", "The engine.")];
const WORKSPACE_CHANGED: &[Member] = &[
    text("job_id", "The job that it was made for."),
    text("state", "`making`, `ready`, `cleaning`, `gone` or `failed`."),
];
const MESSAGE_SENT: &[Member] = &[
    text("message_id", "The message."),
    text("to_class", "Its recipient: agent, instance, topic, person or channel."),
    maybe("job_id", "The job that it started, if it went to an inbox."),
    text("state", "What became of it so far."),
];
const DELIVERY_CHANGED: &[Member] =
    &[text("message_id", "The message."), text("state", "What became of it.")];
const AGENT_CHANGED: &[Member] = &[
    text("name", "The agent."),
    text("state", "`stopped`, `starting`, `idle`, `busy`, `blocked` or `failed`."),
    maybe("job_id", "Its last start."),
];
const PERSON_CHANGED: &[Member] =
    &[text("id", "The person."), text("change", "What is different.")];
const APPROVAL_CREATED: &[Member] = &[
    text("id", "The approval."),
    text("channel", "Its channel."),
    text("sort", "`request` or `permission`."),
    maybe("job_id", "The job that asks."),
];
const CHAT_CHANGED: &[Member] = &[
    text("session_id", "The conversation."),
    text("change", "`added`, `message`, `run`, `changed`, `cleared` or `removed`."),
];
const APPROVAL_DECIDED: &[Member] = &[
    text("id", "The approval."),
    text("channel", "Its channel."),
    text("sort", "`request` or `permission`."),
    maybe("job_id", "The job that asked."),
    text("state", "`approved`, `amended`, `rejected`, `withdrawn` or `expired`."),
];

const CHANNEL: Member = text("channel", "The id of the channel.");
const CHANNEL_NUMBER: Member = number("number", "The number of the channel.");
const CHANNEL_CHANGED: &[Member] = &[
    CHANNEL,
    CHANNEL_NUMBER,
    text("what", "`created`, `changed`, `paused`, `resumed`, `complete` or `archived`."),
];
const MEMBER_CHANGED: &[Member] = &[
    CHANNEL,
    CHANNEL_NUMBER,
    text("member", "`persona:NAME` or `person:ID`."),
    text("state", "`active`, `muted`, `left` or `chair`."),
];
const CHANNEL_MESSAGE: &[Member] = &[
    CHANNEL,
    CHANNEL_NUMBER,
    number("sequence", "Its place in the channel."),
    text("message_id", "The message."),
    text("type", "`message`, `system`, `delegation` or `escalation`."),
];
const TURN: &[Member] = &[
    text("turn_id", "The turn."),
    text("agent", "The agent."),
    maybe("channel", "The id of the channel that caused it."),
    text("state", "`running`, `answered`, `silent`, `interrupted`, `failed` or `lost`."),
];

const HANDOFF: &[Member] = &[
    text("id", "The handover."),
    text("agent", "The agent that leaves."),
    text("persona", "Its persona."),
    text("state", "`asked`, `written`, `seated` or `failed`."),
    maybe("successor", "The agent that follows."),
];

/// States of a job.
pub(crate) const JOB_STATUS: [&str; 7] =
    ["queued", "running", "parked", "succeeded", "failed", "timed_out", "cancelled"];
/// Why a job ended otherwise than well.
pub(crate) const JOB_REASON: [&str; 23] = [
    "spawn_failed",
    "exit_status",
    "signal",
    "no_result",
    "idle_timeout",
    "start_timeout",
    "wall_timeout",
    "prompt_failed",
    "kind_changed",
    "inputs_changed",
    "guard_lost",
    "server_restarted",
    "rate_limited",
    "cancelled",
    "verify_failed",
    "verify_unasked",
    "reported",
    "bad_reply",
    "prepare_failed",
    "terminal_lost",
    "session_lost",
    "resumed",
    "internal",
];

/// Types that are one of some words, by name.
pub(crate) const ALIASES: [(&str, &[&str]); 2] =
    [("wb.JobStatus", &JOB_STATUS), ("wb.JobReason", &JOB_REASON)];

/// Returns what is in `data` of an event.
pub(crate) fn event_data(kind: EventKind) -> &'static [Member] {
    match kind {
        EventKind::JobQueued | EventKind::JobStarted => JOB_BEGUN,
        EventKind::JobFinished => JOB_FINISHED,
        EventKind::JobParked => JOB_PARKED,
        EventKind::TopicCreated => TOPIC_CREATED,
        EventKind::TopicChanged => TOPIC_CHANGED,
        EventKind::TopicReattached => TOPIC_REATTACHED,
        EventKind::MessagePosted => MESSAGE_POSTED,
        EventKind::ProposalCreated => PROPOSAL_CREATED,
        EventKind::ProposalDecided => PROPOSAL_DECIDED,
        EventKind::ProposalConflicted => PROPOSAL_CONFLICTED,
        EventKind::PerspectiveCreated => PERSPECTIVE_CREATED,
        EventKind::ChangesDecided => CHANGES_DECIDED,
        EventKind::SourceChanged => SOURCE_CHANGED,
        EventKind::SourcesChanged => SOURCES_CHANGED,
        EventKind::SourceRenamed => SOURCE_RENAMED,
        EventKind::ConfigReloaded => CONFIG_RELOADED,
        EventKind::ScriptFailed => SCRIPT_FAILED,
        EventKind::ScheduleFired => SCHEDULE_FIRED,
        EventKind::EngineHeld => ENGINE_HELD,
        EventKind::EngineReleased => ENGINE_RELEASED,
        EventKind::WorkspaceChanged => WORKSPACE_CHANGED,
        EventKind::MessageSent => MESSAGE_SENT,
        EventKind::DeliveryChanged => DELIVERY_CHANGED,
        EventKind::AgentChanged => AGENT_CHANGED,
        EventKind::PersonChanged => PERSON_CHANGED,
        EventKind::ApprovalCreated => APPROVAL_CREATED,
        EventKind::ApprovalDecided => APPROVAL_DECIDED,
        EventKind::ChatChanged => CHAT_CHANGED,
        EventKind::ChannelChanged => CHANNEL_CHANGED,
        EventKind::MemberChanged => MEMBER_CHANGED,
        EventKind::ChannelMessage => CHANNEL_MESSAGE,
        EventKind::TurnStarted | EventKind::TurnEnded | EventKind::TurnHeld => TURN,
        EventKind::HandoffChanged => HANDOFF,
    }
}

/// What every handler is given; `data` and `job` differ from event to event.
const EVENT: Record = Record {
    name: "wb.Event",
    base: None,
    others: None,
    members: &[
        number("id", "The place in the log of events."),
        text("at", "When it happened (RFC 3339)."),
        Member { name: "kind", ty: "wb.EventName", doc: "The name of the event." },
        text("subject", "What it happened to: `job:ID`, `topic:ID`, `source:PATH`, …."),
        text("actor", "Who did it: `person:ID`, `job:ID`, `system`, …."),
        Member { name: "data", ty: "table", doc: "Ids and states, by the event's name." },
        Member { name: "job", ty: "wb.Job?", doc: "The job, for the events of jobs." },
    ],
    doc: "Something that has happened.",
};

/// A job as handlers see it.
const JOB: Record = Record {
    name: "wb.Job",
    base: None,
    others: None,
    members: &[
        JOB_ID,
        KIND,
        STATUS,
        MAYBE_PATH,
        MAYBE_TOPIC,
        maybe("persona_name", "The persona it speaks for."),
        REASON,
        maybe("error_tail", "The end of its standard error; nil for success."),
        maybe("summary", "The agent's last words."),
        Member { name: "result", ty: "any", doc: "What the agent submitted with `finish`." },
        Member { name: "inputs", ty: "table<string, any>", doc: "The values of its inputs." },
        Member { name: "warnings", ty: "string[]", doc: "What should be known of a success." },
        Member { name: "exit_code", ty: "integer?", doc: "The agent's exit status." },
        Member { name: "signal", ty: "integer?", doc: "The signal that ended the agent." },
        text("created_at", "When it was accepted (RFC 3339)."),
        maybe("started_at", "When it was started."),
        maybe("ending_at", "When its ending began."),
        maybe("completed_at", "When it was settled."),
        maybe("not_before", "Before this time it does not start."),
        maybe("retry_at", "When the provider's limit resets, if reported."),
        maybe("retry_of", "The job that this one repeats."),
        maybe("lane", "`NAME=VALUE`: jobs of one lane do not run at once."),
        number("priority", "Higher starts earlier."),
        text("requested_by", "Who asked for it."),
        maybe("cancelled_by", "Who cancelled it."),
        Member { name: "cost_usd", ty: "number?", doc: "What its engine says it cost." },
        Member { name: "usage", ty: "table?", doc: "Tokens and turns, as its engine tells." },
        maybe("session_ref", "The engine's name for the session."),
        text("config_digest", "The script that it ran under."),
    ],
    doc: "A job, in its state when the handler is called.",
};

/// What a `prompt` function is given.
const PROMPT_VALUES: Record = Record {
    name: "wb.PromptValues",
    base: None,
    others: Some("string"),
    members: &[
        text("job_id", "The job."),
        text("kind", "Its kind."),
        text("skill", "The name of the kind's skill."),
        text("root", "The folder of the repository."),
        text("wb_agent", "The program with which an agent answers."),
        text("folder", "The folder of the script."),
    ],
    doc: "What a prompt can say; the inputs of the kind are there as well, each a text.",
};

/// What `verify` is given.
const PRODUCED_JOB: Record = Record {
    name: "wb.ProducedJob",
    base: Some("wb.Job"),
    others: None,
    members: &[Member { name: "produced", ty: "wb.Produced", doc: "What it left." }],
    doc: "A job that has ended, with what it left.",
};

/// What a job left.
const PRODUCED: Record = Record {
    name: "wb.Produced",
    base: None,
    others: None,
    members: &[
        text("text", "The text of a proposal, a perspective, a message or a reply."),
        Member { name: "value", ty: "any", doc: "The result, or the reply of an inbox." },
        Member { name: "topics", ty: "wb.OpenedTopic[]", doc: "The Topics that it opened." },
    ],
    doc: "What a job left, by `produces` of its kind.",
};

/// A Topic that a job opened.
const OPENED: Record = Record {
    name: "wb.OpenedTopic",
    base: None,
    others: None,
    members: &[
        text("id", "The Topic."),
        text("source_path", "The Source."),
        text("title", "What it is called."),
        text("status", "Whether it is open."),
    ],
    doc: "A Topic that a job opened.",
};

/// What the function of a webhook is given.
const CALL: Record = Record {
    name: "wb.Call",
    base: None,
    others: None,
    members: &[
        text("name", "The webhook."),
        maybe("event", "What the caller says has happened: `X-GitHub-Event` and its like."),
        text("now", "The current time (RFC 3339)."),
        Member { name: "body", ty: "any", doc: "The body, which is JSON." },
    ],
    doc: "A call of a webhook.",
};

/// What `retry` is given.
const FAILED_JOB: Record = Record {
    name: "wb.FailedJob",
    base: Some("wb.Job"),
    others: None,
    members: &[number("attempt", "Which attempt it was, from 1.")],
    doc: "A job that failed or took too long.",
};

/// What the function of a schedule is given.
const DUE: Record = Record {
    name: "wb.Due",
    base: None,
    others: None,
    members: &[
        text("name", "The schedule."),
        text("planned", "The time that was planned (RFC 3339)."),
        text("now", "The current time (RFC 3339)."),
    ],
    doc: "A time of a schedule.",
};

/// What `wb.enqueue` and `schedule.enqueue` take.
const REQUEST: Record = Record {
    name: "wb.Request",
    base: None,
    others: Some("any"),
    members: &[
        Member { name: "kind", ty: "string|wb.Kind", doc: "The kind of the job." },
        Member { name: "priority", ty: "integer?", doc: "Higher starts earlier." },
        maybe("not_before", "It does not start before: a time, or a duration like `10m`."),
        Member {
            name: "replace_proposals",
            ty: "boolean?",
            doc: "Whether it may replace the open proposal of its Topic.",
        },
    ],
    doc: "A requested job; it also has the inputs of its kind.",
};

/// Everything that functions of the script are given, and what they ask for.
pub(crate) const RECORDS: [Record; 10] =
    [EVENT, JOB, PRODUCED_JOB, PRODUCED, OPENED, FAILED_JOB, PROMPT_VALUES, DUE, CALL, REQUEST];
