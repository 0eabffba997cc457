//! Parameters and results of the functions of `wb.test`, field by field.

use crate::script::schema::Record;
use crate::script::schema::lab::given;

/// Parameters and results of the functions of `wb.test`.
pub(crate) const TEST_RECORDS: [Record; 24] = [
    SITE, TOPIC, OPEN_TOPIC, ASKED, DOES, PROPOSES, ASKS, RAN, APPROVAL, DECISION, REVISION,
    COMMITTED, COMMIT, RELOAD, RELOADED, EFFECTS, SAID, ROOM, OPEN_ROOM, POST, POSTED, ANSWERS,
    TURN, SPOKEN,
];

/// The argument of `t.site`.
const SITE: Record = Record {
    name: "wb.test.Site",
    base: None,
    others: None,
    members: &[
        given("now", "string?", "Initial time of the fake clock (RFC 3339)."),
        given("sources", "table<string, string>?", "Texts of sources by path."),
        given(
            "env",
            "table<string, string>?",
            "The variables that `wb.env` returns; no others are set.",
        ),
        given(
            "secrets",
            "table<string, string|false>?",
            "Values of secrets by variable or path; false for a missing one. Others have a \
             made-up value.",
        ),
    ],
    doc: "The initial state of a site.",
};

/// The argument of `t.topic`.
pub(crate) const TOPIC: Record = Record {
    name: "wb.test.Topic",
    base: None,
    others: None,
    members: &[
        given("source_path", "string", "The source, created if it does not exist."),
        given("quote", "string?", "The passage that it is about; nil for the whole source."),
        given("body", "string?", "The first message."),
        given("title", "string?", "Its title."),
    ],
    doc: "A topic to open.",
};

const OPEN_TOPIC: Record = Record {
    name: "wb.test.OpenTopic",
    base: None,
    others: None,
    members: &[
        given("id", "string", "Its id."),
        given("source_path", "string", "The source."),
        given("title", "string?", "Its title."),
        given("body", "string", "The first message."),
    ],
    doc: "An open topic; it can be used as an input in place of its id.",
};

/// The behavior of a fake agent.
pub(crate) const DOES: Record = Record {
    name: "wb.test.Agent",
    base: None,
    others: None,
    members: &[
        given("result", "any", "The result it submits with `finish`."),
        given("message", "string?", "The message it writes in its topic."),
        given("proposal", "string|wb.test.Proposal|nil", "The new text that it proposes."),
        given("view", "string?", "The persona view that it stores."),
        given("topics", "wb.test.Topic[]|nil", "The topics that it opens."),
        given("summary", "string?", "One sentence about the result."),
        given(
            "complete",
            "any",
            "An instance of an inbox: the reply with which it completes (`wb-agent complete`).",
        ),
        given("fail", "string?", "An instance: why it has failed (`wb-agent fail`)."),
        given(
            "ask",
            "wb.test.Request?",
            "What it asks a person before it exits (`approval create --and-exit`): its job is \
             then parked.",
        ),
        given("exit", "integer?", "Its exit status, 0 by default."),
        given("signal", "integer?", "The signal that ends it."),
        given("stdout", "string?", "Its standard output, parsed as the engine's `reads` says."),
        given("stderr", "string?", "Its standard error."),
        given("takes", "wb.Duration?", "How long it works by the fake clock; 1s by default."),
        given("timeout", "\"wall\"|\"idle\"|\"start\"|nil", "Which timeout of the kind it hits."),
        given("cancelled", "boolean?", "Whether a person cancels it while it works."),
        given("unreachable", "string?", "Why it cannot be started."),
    ],
    doc: "What a fake agent does, in this order: work, submit, print, exit.",
};

/// A proposal of a fake agent.
pub(crate) const PROPOSES: Record = Record {
    name: "wb.test.Proposal",
    base: None,
    others: None,
    members: &[
        given("text", "string", "The new text."),
        given("summary", "string?", "One sentence about the change."),
        given("title", "string?", "The title of the topic to open, if it has none."),
    ],
    doc: "A proposal of a fake agent.",
};

/// What a fake agent asks a person.
pub(crate) const ASKS: Record = Record {
    name: "wb.test.Request",
    base: None,
    others: None,
    members: &[
        given("channel", "string", "The word under which it is filed."),
        given("title", "string", "What is to be decided."),
        given("payload", "any", "What is to be approved."),
        given("schema", "table?", "A JSON schema for the payload."),
    ],
    doc: "A request for a decision.",
};

const RAN: Record = Record {
    name: "wb.test.Job",
    base: Some("wb.Job"),
    others: None,
    members: &[
        given("prompt", "string", "The prompt; empty if the agent was not started."),
        given("attempt", "integer", "The number of the attempt, from 1."),
        given("attempts", "wb.test.Job[]", "All attempts, ending with this one."),
        given(
            "env",
            "table<string, string>",
            "Variables that the engine adds to the agent's environment.",
        ),
        given("proposal", "string?", "The text that it proposed."),
        given(
            "proposal_id",
            "string?",
            "The id of the proposal, for `t.approve` and similar functions.",
        ),
        given("message", "string?", "The last message that it wrote in its topic."),
        given("view", "string?", "The view that it stored."),
        given("topics", "wb.OpenedTopic[]", "The topics that it opened, oldest first."),
        given("reply", "any", "The reply that the sender of its message got."),
        given("failure", "string?", "Why the sender of its message got none."),
        given(
            "approval_id",
            "string?",
            "What it is parked for; `t.approve` and `t.reject` decide it, and `t.next` runs what \
             follows.",
        ),
        given(
            "effects",
            "wb.test.Effects",
            "Effects of handlers and `retry` from its start to its end.",
        ),
    ],
    doc: "A job that was run. A function given as the agent gets one that has not ended yet.",
};

const ASKED: Record = Record {
    name: "wb.test.Asked",
    base: None,
    others: None,
    members: &[
        given("priority", "integer?", "Higher starts earlier; that of the kind by default."),
        given("not_before", "string?", "Earliest start: a time, or a duration like `10m`."),
        given("replace_proposals", "boolean?", "Whether it may replace an open proposal."),
    ],
    doc: "How a job is asked for.",
};

const APPROVAL: Record = Record {
    name: "wb.test.Approval",
    base: None,
    others: None,
    members: &[
        given("subject", "string?", "The first line of the commit message."),
        given("body", "string?", "The body of the commit message."),
        given("text", "string?", "The text as edited by the person before approval."),
        given("payload", "any", "What an instance asked, as changed by the person."),
        given("note", "string?", "A word to the instance that asked."),
    ],
    doc: "The text of an approval.",
};

const DECISION: Record = Record {
    name: "wb.test.Decision",
    base: Some("wb.test.Effects"),
    others: None,
    members: &[
        given("proposal", "wb.test.Revision?", "The proposal after the decision."),
        given(
            "approval",
            "table?",
            "What an instance asked, after the decision: `state`, `note` and what else it has.",
        ),
        given("commit", "wb.test.Commit?", "The commit, for an approval."),
    ],
    doc: "The outcome of a decision.",
};

const REVISION: Record = Record {
    name: "wb.test.Revision",
    base: None,
    others: None,
    members: &[
        given("id", "string", "Its id."),
        given("topic_id", "string", "The topic that it belongs to."),
        given("source_path", "string", "The source."),
        given("revision_number", "integer", "Its number within the topic, from 1."),
        given(
            "status",
            "string",
            "`open`, `superseded`, `approved`, `rejected`, `stale` or `void`.",
        ),
        given(
            "has_conflict",
            "boolean",
            "Whether it conflicts with the current version of its source.",
        ),
        given("text", "string", "The full text."),
        given("summary", "string?", "One sentence about the change."),
        given("job_id", "string?", "The job that made it."),
        given("decided_by_name", "string?", "Who decided."),
        given("reason", "string?", "The reason for the decision."),
        given("commit", "string?", "The commit that it became."),
        given("superseded_by", "string?", "The revision that replaced it."),
    ],
    doc: "A proposal.",
};

const COMMITTED: Record = Record {
    name: "wb.test.Committed",
    base: Some("wb.test.Effects"),
    others: None,
    members: &[given("commit", "wb.test.Commit", "The commit.")],
    doc: "The outcome of `t.commit`.",
};

const COMMIT: Record = Record {
    name: "wb.test.Commit",
    base: None,
    others: None,
    members: &[
        given("id", "string", "Its id."),
        given("author", "string", "Who wrote it: `Name <mail>`."),
        given("committer", "string", "Who committed it: `Name <mail>`."),
        given(
            "message",
            "string",
            "The full message, with the trailers `Approved-by` and `Topic`.",
        ),
        given("paths", "string[]", "The changed paths."),
    ],
    doc: "A commit.",
};

const RELOAD: Record = Record {
    name: "wb.test.Reload",
    base: None,
    others: None,
    members: &[
        given("script", "string?", "The new text of the script."),
        given("files", "table<string, string>?", "New texts of files that it reads, by path."),
        given(
            "env",
            "table<string, string>?",
            "The variables that `wb.env` now returns; no others are set.",
        ),
        given("secrets", "table<string, string|false>?", "New values of secrets."),
        given("drop", "boolean?", "Whether to cancel queued jobs that it no longer supports."),
    ],
    doc: "Changes to apply before a reload.",
};

const RELOADED: Record = Record {
    name: "wb.test.Reloaded",
    base: Some("wb.test.Effects"),
    others: None,
    members: &[
        given("generation", "integer", "The number of the script now in force, from 1."),
        given("changes", "string[]", "What changed, such as `kind \"x\" removed`."),
        given("needs_restart", "string[]", "Changes that take effect only after a restart."),
        given(
            "removed_kinds",
            "table[]",
            "The removed kinds, each with `what` and `waiting`, the number of queued jobs.",
        ),
    ],
    doc: "The outcome of a reload.",
};

const EFFECTS: Record = Record {
    name: "wb.test.Effects",
    base: None,
    others: None,
    members: &[
        given("jobs", "wb.Job[]", "The jobs that were requested and queued."),
        given(
            "messages",
            "table[]",
            "The messages that were sent, each with `to`, `payload` and what else was given.",
        ),
        given("log", "wb.test.Line[]", "What the script logged."),
        given("failures", "string[]", "Errors and refusals, with file and line."),
        given("events", "wb.Event[]", "The events, in order."),
    ],
    doc: "The effects of the script.",
};

const SAID: Record = Record {
    name: "wb.test.Line",
    base: None,
    others: None,
    members: &[
        given("level", "string", "`debug`, `info`, `warn` or `error`."),
        given("text", "string", "The text."),
        given("at", "string", "File and line."),
    ],
    doc: "A line of the log.",
};

/// The fields of `t.channel`.
const ROOM: Record = Record {
    name: "wb.test.Room",
    base: None,
    others: None,
    members: &[
        given("agents", "string[]|nil", "The personas of the agents in it."),
        given("type", "string?", "Its type; `workshop` by default."),
        given("about", "string?", "What it is about."),
        given("intent", "string?", "Its goal, if not its type's."),
        given("budget", "table?", "Its budget: `turns`, `tokens`, `cost_usd`."),
    ],
    doc: "A channel to make.",
};

const OPEN_ROOM: Record = Record {
    name: "wb.test.Channel",
    base: None,
    others: None,
    members: &[
        given("slug", "string", "Its slug."),
        given("number", "integer", "Its number."),
        given("name", "string", "Its name."),
        given("type", "string", "Its type."),
    ],
    doc: "A channel.",
};

const POST: Record = Record {
    name: "wb.test.Post",
    base: None,
    others: None,
    members: &[
        given("to", "string?", "The handle of the member whom it is for."),
        given("type", "string?", "`message`, `delegation` or `escalation`."),
    ],
    doc: "More about a message.",
};

const WOKEN: &str =
    "The agents for whom something waits that wakes them, by handle, as they joined.";
const PAUSED: &str = "Why the channel is paused, such as `hops` or `budget`.";

const POSTED: Record = Record {
    name: "wb.test.Posted",
    base: Some("wb.test.Effects"),
    others: None,
    members: &[
        given("sequence", "integer", "The number of the message."),
        given("woken", "string[]", WOKEN),
        given("paused", "string?", PAUSED),
    ],
    doc: "The outcome of `t.say`.",
};

/// What an agent says at the end of a turn in a channel.
pub(crate) const ANSWERS: Record = Record {
    name: "wb.test.Answer",
    base: None,
    others: None,
    members: &[
        given("text", "string?", "Its final message."),
        given("post", "string?", "What it posts before (`wb-agent channel post`)."),
        given("fail", "string?", "Why its engine failed."),
        given("interrupted", "boolean?", "Whether a person interrupts it."),
        given("tokens", "integer?", "How many tokens it used."),
        given("cost_usd", "number?", "What it cost."),
        given("takes", "wb.Duration?", "How long it works by the fake clock; 1s by default."),
    ],
    doc: "What an agent says.",
};

const TURN: Record = Record {
    name: "wb.test.Turn",
    base: None,
    others: None,
    members: &[
        given("agent", "string", "The agent."),
        given("channel", "string", "The slug of the channel."),
        given("prompt", "string", "What it was given."),
        given("state", "string", "`answered`, `silent`, `interrupted` or `failed`."),
        given("reason", "string?", "Why it failed."),
        given("text", "string?", "The answer as it stands in the channel."),
        given("sequence", "integer?", "The number of the answer."),
        given("woken", "string[]", WOKEN),
        given("paused", "string?", PAUSED),
        given("effects", "wb.test.Effects", "Effects of handlers during the turn."),
    ],
    doc: "A turn. A function given as the answer gets `agent`, `channel` and `prompt`.",
};

const SPOKEN: Record = Record {
    name: "wb.test.Spoken",
    base: None,
    others: None,
    members: &[
        given("sequence", "integer", "Its number."),
        given("type", "string", "`message`, `system`, `delegation` or `escalation`."),
        given("from", "string?", "The handle of its author; nil for the program and the script."),
        given("text", "string", "Its text."),
        given("answers", "integer?", "The number of the message that it answers."),
    ],
    doc: "A message of a channel.",
};
