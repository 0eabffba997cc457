//! Arguments of the script's functions: events with their data, jobs, values of a prompt.

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
    Member { name: "reason", ty: "wb.JobReason?", doc: "Why it ended this way; nil for success." };
const PATH: Member = text("source_path", "The Source.");
const MAYBE_PATH: Member = maybe(
    "source_path",
    "The Source it works on: the one whose blob is an input, else the input `source_path`, else \
     the first by name.",
);
const TOPIC: Member = text("topic_id", "The Topic.");
const MAYBE_TOPIC: Member = maybe("topic_id", "The Topic it works on.");
const PROPOSAL: Member = text("proposal_id", "The proposal.");
const FROM: Member = text("from", "The old value.");
const TO: Member = text("to", "The new value.");
const BRANCH: Member = maybe("branch", "The branch.");
const COMMIT: Member = maybe("commit", "The commit; nil for an uncommitted edit.");

const JOB_BEGUN: &[Member] = &[JOB_ID, KIND, STATUS, MAYBE_PATH, MAYBE_TOPIC];
const JOB_FINISHED: &[Member] = &[
    JOB_ID,
    KIND,
    STATUS,
    REASON,
    MAYBE_PATH,
    MAYBE_TOPIC,
    maybe("retry_at", "When its provider's rate limit ends, if known."),
];
const JOB_PARKED: &[Member] =
    &[JOB_ID, KIND, text("approval_id", "The approval that it waits for.")];
const TOPIC_CREATED: &[Member] = &[
    TOPIC,
    PATH,
    Member { name: "is_global", ty: "boolean", doc: "Whether it is about the whole document." },
];
const TOPIC_CHANGED: &[Member] = &[TOPIC, FROM, TO];
const TOPIC_REATTACHED: &[Member] = &[
    TOPIC,
    PATH,
    FROM,
    TO,
    maybe("from_path", "The Source that it was about before; nil if it is the same."),
];
const MESSAGE_POSTED: &[Member] =
    &[TOPIC, text("message_id", "The message."), number("sequence", "Its position in the Topic.")];
const PROPOSAL_CREATED: &[Member] = &[
    PROPOSAL,
    TOPIC,
    maybe("job_id", "The job that submitted it."),
    number("revision_number", "Its revision number."),
    PATH,
];
const PROPOSAL_DECIDED: &[Member] = &[
    PROPOSAL,
    TOPIC,
    text("status", "Its outcome."),
    PATH,
    maybe("commit", "The commit, if it was approved."),
];
const PROPOSAL_CONFLICTED: &[Member] =
    &[PROPOSAL, TOPIC, PATH, maybe("blob", "The version of the Source that it conflicts with.")];
const PERSPECTIVE_CREATED: &[Member] = &[
    PATH,
    text("persona", "The persona."),
    text("source_sha", "The version of the Source."),
    text("persona_sha", "The version of the persona."),
    text("job_id", "The job that made it."),
];
const CHANGES_DECIDED: &[Member] = &[JOB_ID, text("changes", "`restored`, `kept` or `expired`.")];
const SOURCE_CHANGED: &[Member] = &[
    text("path", "The Source."),
    maybe("blob", "Its version; nil if it was deleted."),
    COMMIT,
    BRANCH,
    maybe("proposal_id", "The proposal that was approved."),
];
const SOURCES_CHANGED: &[Member] =
    &[Member { name: "count", ty: "integer?", doc: "How many, if known." }, COMMIT, BRANCH];
const SOURCE_RENAMED: &[Member] = &[
    text("path", "Its new path."),
    text("from", "Its old path."),
    COMMIT,
    BRANCH,
    number("topics", "Number of Topics that moved with it."),
];
const CONFIG_RELOADED: &[Member] = &[
    number("generation", "The number of the generation now in force."),
    text("digest", "The digest of its files."),
    texts("changes", "What changed: `kind.NAME`, `engine.NAME`, …."),
    texts("needs_restart", "Changes that take effect only after a restart."),
    Member {
        name: "removed_kinds",
        ty: "table[]",
        doc: "The removed kinds, each with `what` and `waiting`, the number of queued jobs.",
    },
];
const SCRIPT_FAILED: &[Member] = &[
    text("function", "`on.EVENT`, `kind.NAME.retry` or `schedule.NAME`."),
    text("at", "Its file and line."),
    text("message", "The error, with file and line."),
    text("cause", "What it was called for."),
];
const SCHEDULE_FIRED: &[Member] = &[
    text("schedule", "The schedule."),
    text("planned", "The scheduled time."),
    number("late_ms", "Delay in milliseconds."),
    texts("jobs", "The jobs that were accepted."),
    maybe("skipped", "Why this run was skipped."),
    maybe("error", "The error, with file and line."),
];
const ENGINE_HELD: &[Member] = &[
    text("engine", "The engine."),
    maybe("until", "Until when, if known."),
    maybe("job_id", "The job that was refused."),
];
const ENGINE_RELEASED: &[Member] = &[text("engine", "The engine.")];
const WORKSPACE_CHANGED: &[Member] = &[
    text("job_id", "The job that it belongs to."),
    text("state", "`making`, `ready`, `cleaning`, `gone` or `failed`."),
];
const MESSAGE_SENT: &[Member] = &[
    text("message_id", "The message."),
    text("to_class", "Type of its recipient: agent, instance, topic, person or channel."),
    maybe("job_id", "The job that it started, if it went to an inbox."),
    text("state", "Its state so far."),
];
const DELIVERY_CHANGED: &[Member] =
    &[text("message_id", "The message."), text("state", "Its outcome.")];
const AGENT_CHANGED: &[Member] = &[
    text("name", "The agent."),
    text("state", "`stopped`, `starting`, `idle`, `busy`, `blocked` or `failed`."),
    maybe("job_id", "The job of its last start."),
];
const PERSON_CHANGED: &[Member] = &[text("id", "The person."), text("change", "What changed.")];
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
    number("sequence", "Its position in the channel."),
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
    text("agent", "The agent that is replaced."),
    text("persona", "Its persona."),
    text("state", "`asked`, `written`, `seated` or `failed`."),
    maybe("successor", "The agent that takes over."),
];

/// States of a job.
pub(crate) const JOB_STATUS: [&str; 7] =
    ["queued", "running", "parked", "succeeded", "failed", "timed_out", "cancelled"];
/// Reasons why a job ended unsuccessfully.
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

/// Enumeration types by name.
pub(crate) const ALIASES: [(&str, &[&str]); 2] =
    [("wb.JobStatus", &JOB_STATUS), ("wb.JobReason", &JOB_REASON)];

/// Returns the members of `data` for an event.
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

/// The argument of every handler; `data` and `job` depend on the event.
const EVENT: Record = Record {
    name: "wb.Event",
    base: None,
    others: None,
    members: &[
        number("id", "Its position in the event log."),
        text("at", "When it happened (RFC 3339)."),
        Member { name: "kind", ty: "wb.EventName", doc: "The name of the event." },
        text("subject", "What it happened to: `job:ID`, `topic:ID`, `source:PATH`, …."),
        text("actor", "Who did it: `person:ID`, `job:ID`, `system`, …."),
        Member {
            name: "data",
            ty: "table",
            doc: "Ids and states; the fields depend on the event.",
        },
        Member { name: "job", ty: "wb.Job?", doc: "The job, for job events." },
    ],
    doc: "An event.",
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
        maybe("summary", "The agent's summary."),
        Member {
            name: "result",
            ty: "any",
            doc: "The result that the agent submitted with `finish`.",
        },
        Member { name: "inputs", ty: "table<string, any>", doc: "The values of its inputs." },
        Member { name: "warnings", ty: "string[]", doc: "Warnings about a success." },
        Member { name: "exit_code", ty: "integer?", doc: "The agent's exit status." },
        Member { name: "signal", ty: "integer?", doc: "The signal that ended the agent." },
        text("created_at", "When it was accepted (RFC 3339)."),
        maybe("started_at", "When it was started."),
        maybe("ending_at", "When it began to end."),
        maybe("completed_at", "When it was completed."),
        maybe("not_before", "It does not start before this time."),
        maybe("retry_at", "When its provider's rate limit ends, if known."),
        maybe("retry_of", "The job that this one repeats."),
        maybe("lane", "`NAME=VALUE`: jobs in one lane run one after another."),
        number("priority", "Higher starts earlier."),
        text("requested_by", "Who asked for it."),
        maybe("cancelled_by", "Who cancelled it."),
        Member { name: "cost_usd", ty: "number?", doc: "Its cost, as its engine reports it." },
        Member {
            name: "usage",
            ty: "table?",
            doc: "Tokens and turns, as its engine reports them.",
        },
        maybe("session_ref", "The engine's name for the session."),
        text("config_digest", "The digest of the script that it ran under."),
    ],
    doc: "A job, in its state at the time of the call.",
};

/// The argument of a `prompt` function.
const PROMPT_VALUES: Record = Record {
    name: "wb.PromptValues",
    base: None,
    others: Some("any"),
    members: &[
        text("job_id", "The job."),
        text("kind", "Its kind."),
        text("skill", "The name of the kind's skill."),
        text("root", "The folder of the repository."),
        text("wb_agent", "The agent's client program."),
        text("folder", "The folder of the script."),
    ],
    doc: "The values available to a prompt, together with the inputs of the kind: a flag is a \
          boolean, a number a number, anything else a text; an optional input without a value is \
          nil.",
};

/// The argument of `verify`.
const PRODUCED_JOB: Record = Record {
    name: "wb.ProducedJob",
    base: Some("wb.Job"),
    others: None,
    members: &[Member { name: "produced", ty: "wb.Produced", doc: "Its output." }],
    doc: "A finished job with its output.",
};

/// The output of a job.
const PRODUCED: Record = Record {
    name: "wb.Produced",
    base: None,
    others: None,
    members: &[
        text("text", "The text of a proposal, a perspective, a message or a reply."),
        Member { name: "value", ty: "any", doc: "The result, or the reply of an inbox." },
        Member { name: "topics", ty: "wb.OpenedTopic[]", doc: "The Topics that it opened." },
    ],
    doc: "The output of a job, as `produces` of its kind says.",
};

/// A Topic that a job opened.
const OPENED: Record = Record {
    name: "wb.OpenedTopic",
    base: None,
    others: None,
    members: &[
        text("id", "The Topic."),
        text("source_path", "The Source."),
        text("title", "Its title."),
        text("status", "Its status."),
    ],
    doc: "A Topic that a job opened.",
};

/// The argument of a webhook's function.
const CALL: Record = Record {
    name: "wb.Call",
    base: None,
    others: None,
    members: &[
        text("name", "The webhook."),
        maybe("event", "The event named by the caller, in `X-GitHub-Event` or a similar header."),
        text("now", "The current time (RFC 3339)."),
        Member { name: "body", ty: "any", doc: "The body, parsed from JSON." },
    ],
    doc: "A call to a webhook.",
};

/// The argument of `retry`.
const FAILED_JOB: Record = Record {
    name: "wb.FailedJob",
    base: Some("wb.Job"),
    others: None,
    members: &[number("attempt", "The number of the attempt, from 1.")],
    doc: "A job that failed or timed out.",
};

/// The argument of a schedule's function.
const DUE: Record = Record {
    name: "wb.Due",
    base: None,
    others: None,
    members: &[
        text("name", "The schedule."),
        text("planned", "The scheduled time (RFC 3339)."),
        text("now", "The current time (RFC 3339)."),
    ],
    doc: "A run of a schedule.",
};

/// The argument of `wb.enqueue` and `schedule.enqueue`.
const REQUEST: Record = Record {
    name: "wb.Request",
    base: None,
    others: Some("any"),
    members: &[
        Member { name: "kind", ty: "string|wb.Kind", doc: "The kind of the job." },
        Member { name: "priority", ty: "integer?", doc: "Higher starts earlier." },
        maybe("not_before", "Earliest start: a time, or a duration like `10m`."),
        Member {
            name: "replace_proposals",
            ty: "boolean?",
            doc: "Whether it may replace the open proposal of its Topic.",
        },
    ],
    doc: "A request for a job, together with the inputs of its kind.",
};

/// The argument of `wb.send`.
const MESSAGE: Record = Record {
    name: "wb.Message",
    base: None,
    others: None,
    members: &[
        text("to", "Its address: `person:NAME`, `agent:NAME`, `topic:TEMPLATE/NAME`."),
        Member { name: "payload", ty: "any", doc: "Its content: plain data." },
        maybe("reply_to", "The address that gets the reply; nobody by default."),
        maybe("in_reply_to", "The id of the message that it answers."),
        maybe("category", "A label of your own; the reply carries it too."),
    ],
    doc: "A message.",
};

/// All arguments of the script's functions, and requests.
pub(crate) const RECORDS: [Record; 11] = [
    EVENT,
    JOB,
    PRODUCED_JOB,
    PRODUCED,
    OPENED,
    FAILED_JOB,
    PROMPT_VALUES,
    DUE,
    CALL,
    REQUEST,
    MESSAGE,
];
