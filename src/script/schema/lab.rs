//! What a file of tests can say: the functions of `wb.test`, what they take and what they return.

use crate::script::schema::{Function, Member, When};

const fn any(name: &'static str, doc: &'static str) -> Member {
    Member { name, ty: "any", doc }
}

pub(super) const fn given(name: &'static str, ty: &'static str, doc: &'static str) -> Member {
    Member { name, ty, doc }
}

const KIND: Member = given("kind", "string", "The name of a kind.");
const INPUTS: Member = given(
    "inputs",
    "table<string, any>?",
    "Its inputs by name. A source is a path, which is made if it is not there; a topic is what \
     `t.topic` returned.",
);
const AGENT: Member = given(
    "agent",
    "wb.test.Agent|wb.test.Agent[]|fun(job: wb.test.Job): wb.test.Agent?",
    "What the fake agent does: a table, one table for each attempt, or a function that returns \
     one, and what else it does happens while the agent works; nil for one that exits with 0 and \
     leaves nothing.",
);

const ASKED_FOR: Member = given("asked", "wb.test.Asked?", "How it is asked for.");
const OF: Member = given(
    "of",
    "wb.test.Job|wb.test.Revision|string",
    "What `t.run` returned, one of `t.proposals()`, or the id of a proposal.",
);

/// The functions of `wb.test`.
pub const TEST_FUNCTIONS: [Function; 28] = [
    Function {
        name: "test",
        params: &[
            given("name", "string", "What holds, in words."),
            given("body", "fun()", "What is run."),
        ],
        returns: None,
        when: When::File,
        example: "t.test(\"a page is named in the prompt\", function()\n  \
            t.contains(t.render(\"links\", { source_path = \"guide.md\" }), \"guide.md\")\nend)",
        doc: "Adds a test. Each one has a site of its own.",
    },
    Function {
        name: "site",
        params: &[given("fields", "wb.test.Site", "What is there.")],
        returns: None,
        when: When::Testing,
        example: "t.site { now = \"2026-03-01T08:00:00Z\", sources = { [\"guide.md\"] = \"# \
            Guide\\n\" } }\n\
            t.eq(t.now(), \"2026-03-01T08:00:00.000Z\")",
        doc: "Says how the site is where the test begins; comes first in a test.",
    },
    Function {
        name: "source",
        params: &[
            given("path", "string", "Where it is, as the globs of the script name it."),
            given("text", "string", "The full text, as if it were committed."),
        ],
        returns: None,
        when: When::Testing,
        example: "t.source(\"guide.md\", \"# Guide\\n\\nThe old words.\\n\")",
        doc: "Puts a source into the site, or changes its text.",
    },
    Function {
        name: "persona",
        params: &[
            given("name", "string", "Its name."),
            given("text", "string", "What would be in agents/NAME.md."),
        ],
        returns: None,
        when: When::Testing,
        example: "t.persona(\"nurse\", \"---\\nname: nurse\\nabout: A nurse\\n---\\nYou are a \
            nurse.\\n\")",
        doc: "Replaces a persona in agents/; the others are those next to the script.",
    },
    Function {
        name: "topic",
        params: &[given("fields", "wb.test.Topic", "What it is about.")],
        returns: Some("wb.test.OpenTopic"),
        when: When::Testing,
        example: "t.source(\"guide.md\", \"# Guide\\n\\nThe old words.\\n\")\n\
            local topic = t.topic { source_path = \"guide.md\", quote = \"old words\", body = \
            \"Why old?\" }\n\
            t.contains(t.render(\"answer\", { topic_id = topic }), topic.id)",
        doc: "Opens a topic without calling handlers; use `t.fire` for that.",
    },
    Function {
        name: "message",
        params: &[
            given("topic", "wb.test.OpenTopic|string", "What `t.topic` returned, or its id."),
            given("body", "string", "What a person writes."),
        ],
        returns: None,
        when: When::Testing,
        example: "local topic = t.topic { source_path = \"guide.md\" }\n\
            t.message(topic, \"And please keep it short.\")",
        doc: "Adds a person's message to a topic without calling handlers.",
    },
    Function {
        name: "render",
        params: &[KIND, INPUTS],
        returns: Some("string"),
        when: When::Testing,
        example: "t.eq(t.render(\"links\", { source_path = \"guide.md\" }), \"Check the links \
            in guide.md.\")",
        doc: "Returns the prompt that a job would get; for an inbox, pass `{ payload = … }`.",
    },
    Function {
        name: "run",
        params: &[KIND, INPUTS, AGENT, ASKED_FOR],
        returns: Some("wb.test.Job"),
        when: When::Testing,
        example: "local job = t.run(\"links\", { source_path = \"guide.md\" }, { result = { \
            checked = 4 } })\n\
            t.eq(job.status, \"succeeded\")",
        doc: "Asks for a job as a person would and runs it with a fake agent to its end, with \
            every \
              repetition that `retry` asks for; returns the last one. Then the handlers are told.",
    },
    Function {
        name: "enqueue",
        params: &[KIND, INPUTS, ASKED_FOR],
        returns: Some("wb.Job"),
        when: When::Testing,
        example: "t.enqueue(\"links\", { source_path = \"a.md\" })\n\
            t.enqueue(\"links\", { source_path = \"b.md\" }, { priority = 10 })\n\
            t.has(t.next { result = { checked = 1 } }, { source_path = \"b.md\", priority = 10 })",
        doc: "Asks for a job as a person would and lets it wait, for `t.next`.",
    },
    Function {
        name: "next",
        params: &[AGENT],
        returns: Some("wb.test.Job?"),
        when: When::Testing,
        example: "t.fire(\"topic_created\", { source_path = \"guide.md\" })\n\
            local job = t.next { message = \"Because nobody changed them.\" }\n\
            t.has(job, { kind = \"answer\", status = \"succeeded\" })",
        doc: "Runs the job that waits and comes next as `t.run` does; moves the clock to its time \
              if all wait for theirs. Returns nil if none waits.",
    },
    Function {
        name: "jobs",
        params: &[],
        returns: Some("wb.Job[]"),
        when: When::Testing,
        example: "t.fire(\"topic_created\", { source_path = \"guide.md\" })\nt.eq(#t.jobs(), 1)",
        doc: "Returns the jobs that wait, the oldest first.",
    },
    Function {
        name: "fire",
        params: &[
            given("event", "wb.EventName", "The name of an event."),
            given(
                "data",
                "table<string, any>?",
                "Its data. An id that is left out is made up; `topic_created` takes what `t.topic` \
                 takes, and events of jobs take `kind` and `inputs`.",
            ),
        ],
        returns: Some("wb.test.Effects"),
        when: When::Testing,
        example: "local effects = t.fire(\"topic_created\", { source_path = \"guide.md\", body \
            = \"Why?\" })\n\
            t.eq(effects.jobs[1].kind, \"answer\")",
        doc: "Fires an event, calls its handlers and returns what they did.",
    },
    Function {
        name: "webhook",
        params: &[
            given("name", "string", "The name of a webhook."),
            any("body", "What was sent; a table is sent as JSON."),
            given("event", "string?", "What the caller says has happened."),
        ],
        returns: Some("wb.test.Effects"),
        when: When::Testing,
        example: "local effects = t.webhook(\"tracker\", { path = \"guide.md\" }, \"opened\")\n\
            t.has(effects.jobs[1], { kind = \"links\", source_path = \"guide.md\" })",
        doc: "Calls a webhook as if its proof were right; returns what came of it.",
    },
    Function {
        name: "advance",
        params: &[given("duration", "wb.Duration", "How far: `90s`, `2h`, `1d`.")],
        returns: Some("wb.test.Effects"),
        when: When::Testing,
        example: "local effects = t.advance \"1d\"\nt.has(effects.jobs[1], { kind = \"links\" })",
        doc: "Moves the fake clock; every schedule that comes due meanwhile is served at its time. \
              Returns what they did.",
    },
    Function {
        name: "approve",
        params: &[OF, given("says", "wb.test.Approval?", "What the person writes.")],
        returns: Some("wb.test.Decision"),
        when: When::Testing,
        example: "local topic = t.topic { source_path = \"guide.md\" }\n\
            local job = t.run(\"shorten\", { topic_id = topic }, { proposal = \"# Guide\\n\" })\n\
            local decision = t.approve(job)\n\
            t.eq(decision.proposal.status, \"approved\")\n\
            t.contains(decision.commit.message, \"Approved-by: tester\")",
        doc: "Approves a proposal as a person would, and tells the handlers; returns the commit \
              and what the handlers did.",
    },
    Function {
        name: "reject",
        params: &[OF, given("reason", "string", "Why.")],
        returns: Some("wb.test.Decision"),
        when: When::Testing,
        example: "local topic = t.topic { source_path = \"guide.md\" }\n\
            local job = t.run(\"shorten\", { topic_id = topic }, { proposal = \"# Guide\\n\" })\n\
            t.eq(t.reject(job, \"Too short.\").proposal.reason, \"Too short.\")",
        doc: "Rejects a proposal as a person would, and calls the handlers.",
    },
    Function {
        name: "rework",
        params: &[OF, given("reason", "string", "What should be different."), AGENT],
        returns: Some("wb.test.Job"),
        when: When::Testing,
        example: "local topic = t.topic { source_path = \"guide.md\" }\n\
            local job = t.run(\"shorten\", { topic_id = topic }, { proposal = \"# Guide\\n\" })\n\
            local again = t.rework(job, \"Keep the heading.\", { proposal = \"# The guide\\n\" })\n\
            t.contains(again.prompt, \"Keep the heading.\")\n\
            t.approve(again)",
        doc: "Sends a proposal back as a person would, and runs the job that does it again to its \
              end.",
    },
    Function {
        name: "proposals",
        params: &[],
        returns: Some("wb.test.Revision[]"),
        when: When::Testing,
        example: "local topic = t.topic { source_path = \"guide.md\" }\n\
            local job = t.run(\"shorten\", { topic_id = topic }, { proposal = \"# Guide\\n\" })\n\
            t.has(t.proposals()[1], { id = job.proposal_id, status = \"open\" })",
        doc: "Returns what was proposed, the newest first.",
    },
    Function {
        name: "commit",
        params: &[
            given(
                "files",
                "table<string, string|false>",
                "Whole new texts by path; false for a page that is deleted.",
            ),
            given("message", "string?", "What the commit says."),
        ],
        returns: Some("wb.test.Committed"),
        when: When::Testing,
        example: "local effects = t.commit { [\"guide.md\"] = \"# Another guide\\n\" }\n\
            t.has(effects.events[1], { kind = \"source_changed\", data = { path = \"guide.md\" \
            } })",
        doc: "Has somebody else commit pages, with git and without this program; the server \
              notices it, and the handlers are told.",
    },
    Function {
        name: "edit",
        params: &[
            given("path", "string", "A page that is there."),
            given("text", "string", "Its whole new text."),
        ],
        returns: Some("wb.test.Effects"),
        when: When::Testing,
        example: "local effects = t.edit(\"guide.md\", \"# Not committed yet\\n\")\n\
            t.eq(effects.events[1].data.commit, nil)",
        doc: "Has somebody change a page in the working tree and not commit it; the server notices \
              it, and the handlers are told.",
    },
    Function {
        name: "reload",
        params: &[given("fields", "wb.test.Reload?", "What is different; nil for nothing.")],
        returns: Some("wb.test.Reloaded"),
        when: When::Testing,
        example: "t.has(t.reload(), { generation = 2, changes = {} })",
        doc: "Reloads the script as the operator would: with another text, or as it is. Fails if \
              it is wrong; then the one before stays in force. Called by the function of a fake \
              agent it happens while the agent works: its job ends under the script that it began \
              with.",
    },
    Function {
        name: "now",
        params: &[],
        returns: Some("string"),
        when: When::Testing,
        example: "t.eq(t.now(), \"2026-01-05T09:00:00.000Z\")",
        doc: "Returns the time of the fake clock. It begins on a Monday and moves only when it is \
              moved.",
    },
    Function {
        name: "eq",
        params: &[any("got", "What there is."), any("want", "What there must be.")],
        returns: None,
        when: When::Testing,
        example: "t.eq({ 1, { a = \"x\" } }, { 1, { a = \"x\" } })",
        doc: "Fails unless both are the same, however deep the tables are.",
    },
    Function {
        name: "has",
        params: &[
            given("got", "table", "What there is."),
            given("part", "table", "What must be in it; it may have more."),
        ],
        returns: None,
        when: When::Testing,
        example: "t.has({ status = \"failed\", exit_code = 3, id = \"x\" }, { status = \
            \"failed\" })",
        doc: "Fails unless every field of the second table is in the first one, at every depth.",
    },
    Function {
        name: "contains",
        params: &[
            given("whole", "string|table", "A text, or a list."),
            any("part", "What it must contain, literally, not as a pattern."),
        ],
        returns: None,
        when: When::Testing,
        example: "t.contains(\"Check guide.md.\", \"guide.md\")\nt.contains({ \"a\", \"b\" }, \
            \"b\")",
        doc: "Fails unless the text has that part, or the list such an element.",
    },
    Function {
        name: "matches",
        params: &[
            given("text", "string", "A text."),
            given("pattern", "string", "A pattern, as `string.find` takes it."),
        ],
        returns: None,
        when: When::Testing,
        example: "t.matches(t.now(), \"^%d+%-%d+%-%d+T\")",
        doc: "Fails unless the pattern is found in the text.",
    },
    Function {
        name: "ok",
        params: &[
            any("value", "Anything but nil and false is fine."),
            given("why", "string?", "Message on failure."),
        ],
        returns: None,
        when: When::Testing,
        example: "t.ok(#t.jobs() == 0, \"nothing waits yet\")",
        doc: "Fails if the value is nil or false.",
    },
    Function {
        name: "fails",
        params: &[
            given("body", "fun()", "What must fail."),
            given("part", "string?", "What its message must contain, literally."),
        ],
        returns: Some("string"),
        when: When::Testing,
        example: "t.fails(function() t.run(\"links\", {}) end, \"needs the input\")",
        doc: "Fails unless the function ends in an error; returns its message.",
    },
];
