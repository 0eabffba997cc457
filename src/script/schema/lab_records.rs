//! What the functions of `wb.test` take and return, field by field.

use crate::script::schema::Record;
use crate::script::schema::lab::given;

/// What functions of `wb.test` take and return.
pub(crate) const TEST_RECORDS: [Record; 16] = [
    SITE, TOPIC, OPEN_TOPIC, ASKED, DOES, PROPOSES, RAN, APPROVAL, DECISION, REVISION, COMMITTED,
    COMMIT, RELOAD, RELOADED, EFFECTS, SAID,
];

/// What `t.site` takes.
const SITE: Record = Record {
    name: "wb.test.Site",
    base: None,
    others: None,
    members: &[
        given("now", "string?", "What the fake clock shows first (RFC 3339)."),
        given("sources", "table<string, string>?", "Texts of sources by path."),
        given("env", "table<string, string>?", "What `wb.env` returns; nothing else is set."),
        given(
            "secrets",
            "table<string, string|false>?",
            "Values of secrets by variable or path; false for one that is missing. Others have a \
             made-up value.",
        ),
    ],
    doc: "How a site is where a test begins.",
};

/// What `t.topic` takes.
pub(crate) const TOPIC: Record = Record {
    name: "wb.test.Topic",
    base: None,
    others: None,
    members: &[
        given("source_path", "string", "The source; it is created if missing."),
        given("quote", "string?", "The passage; nil for the whole source."),
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
    doc: "An opened topic; as an input, it is used as its id.",
};

/// What a fake agent does.
pub(crate) const DOES: Record = Record {
    name: "wb.test.Agent",
    base: None,
    others: None,
    members: &[
        given("result", "any", "What it submits with `finish`."),
        given("message", "string?", "What it writes in its topic."),
        given("proposal", "string|wb.test.Proposal|nil", "The full new text that it proposes."),
        given("view", "string?", "The view of its persona that it stores."),
        given("topics", "wb.test.Topic[]|nil", "The topics that it opens."),
        given("summary", "string?", "One sentence about the result."),
        given("exit", "integer?", "Its exit status, 0 by default."),
        given("signal", "integer?", "The signal that ends it."),
        given("stdout", "string?", "What it prints; read as the engine's `reads` says."),
        given("stderr", "string?", "What it prints on standard error."),
        given(
            "takes",
            "wb.Duration?",
            "How long it works in all by the fake clock; 1s by default.",
        ),
        given(
            "timeout",
            "\"wall\"|\"idle\"|\"start\"|nil",
            "Which clock of the kind it runs into.",
        ),
        given("cancelled", "boolean?", "Whether a person cancels it while it works."),
        given("unreachable", "string?", "Why it cannot even be started."),
    ],
    doc: "What a fake agent does, in this order: work, submit, print and end.",
};

/// What a fake agent proposes.
pub(crate) const PROPOSES: Record = Record {
    name: "wb.test.Proposal",
    base: None,
    others: None,
    members: &[
        given("text", "string", "The whole new text."),
        given("summary", "string?", "One sentence about the change."),
        given("title", "string?", "The title of the topic that it opens, if it has none."),
    ],
    doc: "A proposal of a fake agent.",
};

const RAN: Record = Record {
    name: "wb.test.Job",
    base: Some("wb.Job"),
    others: None,
    members: &[
        given("prompt", "string", "The prompt; empty if the job did not get that far."),
        given("attempt", "integer", "Which attempt it was, from 1."),
        given("attempts", "wb.test.Job[]", "All attempts, this one last."),
        given("env", "table<string, string>", "What the engine adds to the agent's environment."),
        given("proposal", "string?", "The text that it proposed."),
        given("proposal_id", "string?", "The proposal, for `t.approve` and its like."),
        given("message", "string?", "What it wrote last in its topic."),
        given("view", "string?", "The view that it stored."),
        given("topics", "wb.OpenedTopic[]", "The topics that it opened, oldest first."),
        given(
            "effects",
            "wb.test.Effects",
            "What handlers and `retry` did from its start to its end.",
        ),
    ],
    doc: "A job that was run. A function that is the agent gets one that has no end yet.",
};

const ASKED: Record = Record {
    name: "wb.test.Asked",
    base: None,
    others: None,
    members: &[
        given("priority", "integer?", "Higher starts earlier; the kind's own without it."),
        given(
            "not_before",
            "string?",
            "It does not start before: a time, or a duration like `10m`.",
        ),
        given("replace_proposals", "boolean?", "Whether it may replace an open proposal."),
    ],
    doc: "How a job is asked for.",
};

const APPROVAL: Record = Record {
    name: "wb.test.Approval",
    base: None,
    others: None,
    members: &[
        given("subject", "string?", "The first line of the commit's message."),
        given("body", "string?", "What follows in the commit's message."),
        given("text", "string?", "The full text as edited by the person first."),
    ],
    doc: "What a person writes who approves.",
};

const DECISION: Record = Record {
    name: "wb.test.Decision",
    base: Some("wb.test.Effects"),
    others: None,
    members: &[
        given("proposal", "wb.test.Revision", "The proposal in its current state."),
        given("commit", "wb.test.Commit?", "The commit of an approval."),
    ],
    doc: "What came of a decision.",
};

const REVISION: Record = Record {
    name: "wb.test.Revision",
    base: None,
    others: None,
    members: &[
        given("id", "string", "Its id."),
        given("topic_id", "string", "The topic that it settles."),
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
            "Whether it cannot be merged with what its source is now.",
        ),
        given("text", "string", "The whole text."),
        given("summary", "string?", "One sentence about the change."),
        given("job_id", "string?", "The job that made it."),
        given("decided_by_name", "string?", "Who decided."),
        given("reason", "string?", "Why it was decided so."),
        given("commit", "string?", "The commit that it became."),
        given("superseded_by", "string?", "The revision that took its place."),
    ],
    doc: "A proposal.",
};

const COMMITTED: Record = Record {
    name: "wb.test.Committed",
    base: Some("wb.test.Effects"),
    others: None,
    members: &[given("commit", "wb.test.Commit", "The commit.")],
    doc: "The effects of someone else's commit.",
};

const COMMIT: Record = Record {
    name: "wb.test.Commit",
    base: None,
    others: None,
    members: &[
        given("id", "string", "Its id."),
        given("author", "string", "Who wrote it: `Name <mail>`."),
        given("committer", "string", "Who committed it: `Name <mail>`."),
        given("message", "string", "Its whole message, with `Approved-by` and `Topic` at its end."),
        given("paths", "string[]", "What it made different."),
    ],
    doc: "A commit.",
};

const RELOAD: Record = Record {
    name: "wb.test.Reload",
    base: None,
    others: None,
    members: &[
        given("script", "string?", "The full text of the script from now on."),
        given("files", "table<string, string>?", "Texts of files that it reads, by path."),
        given("env", "table<string, string>?", "What `wb.env` returns now; nothing else is set."),
        given("secrets", "table<string, string|false>?", "Values of secrets now."),
        given("drop", "boolean?", "Whether waiting jobs that it has no place for are cancelled."),
    ],
    doc: "What is different when the script is read again.",
};

const RELOADED: Record = Record {
    name: "wb.test.Reloaded",
    base: Some("wb.test.Effects"),
    others: None,
    members: &[
        given("generation", "integer", "The number of the active generation, from 1."),
        given("changes", "string[]", "What is different, as `kind \"x\" removed`."),
        given("needs_restart", "string[]", "What takes effect only after a restart."),
        given("removed_kinds", "table[]", "Each with `what`, and `waiting`: how many jobs wait."),
    ],
    doc: "What came of a reload.",
};

const EFFECTS: Record = Record {
    name: "wb.test.Effects",
    base: None,
    others: None,
    members: &[
        given("jobs", "wb.Job[]", "The jobs that were requested and accepted."),
        given("log", "wb.test.Line[]", "What the script has logged."),
        given("failures", "string[]", "What failed or was refused, with file and line."),
        given("events", "wb.Event[]", "What has happened, in order."),
    ],
    doc: "What the script did because something happened.",
};

const SAID: Record = Record {
    name: "wb.test.Line",
    base: None,
    others: None,
    members: &[
        given("level", "string", "`debug`, `info`, `warn` or `error`."),
        given("text", "string", "What was logged."),
        given("at", "string", "File and line."),
    ],
    doc: "A line of the log.",
};
