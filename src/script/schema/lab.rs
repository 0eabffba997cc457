//! What a file of tests can say: the functions of `wb.test`, what they take and what they return.

use crate::script::schema::{Function, Member, Record, When};

const fn any(name: &'static str, doc: &'static str) -> Member {
    Member { name, ty: "any", doc }
}

const fn given(name: &'static str, ty: &'static str, doc: &'static str) -> Member {
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
     one; nil for one that exits with 0 and leaves nothing.",
);

/// The functions of `wb.test`.
pub const TEST_FUNCTIONS: [Function; 20] = [
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
            given("text", "string", "The whole text, as if it were committed."),
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
        doc: "Puts a persona in place of a file in agents/; others are those beside the script.",
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
        doc: "Opens a topic. No handler hears of it: `t.fire` is for that.",
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
        doc: "Adds a person's message to a topic. No handler hears of it.",
    },
    Function {
        name: "render",
        params: &[KIND, INPUTS],
        returns: Some("string"),
        when: When::Testing,
        example: "t.eq(t.render(\"links\", { source_path = \"guide.md\" }), \"Check the links \
            in guide.md.\")",
        doc: "Returns the prompt that a job would be given.",
    },
    Function {
        name: "run",
        params: &[KIND, INPUTS, AGENT],
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
        doc: "Lets something happen and tells the handlers of it; returns what they did.",
    },
    Function {
        name: "webhook",
        params: &[
            given("name", "string", "The name of a webhook."),
            any("body", "What was sent; a table stands for its JSON."),
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
            any("part", "What must be in it, as it stands: no pattern."),
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
            given("why", "string?", "What is said if it is not."),
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
            given("part", "string?", "What its message must contain, as it stands."),
        ],
        returns: Some("string"),
        when: When::Testing,
        example: "t.fails(function() t.run(\"links\", {}) end, \"needs the input\")",
        doc: "Fails unless the function ends in an error; returns its message.",
    },
];

/// What functions of `wb.test` take and return.
pub(crate) const TEST_RECORDS: [Record; 8] =
    [SITE, TOPIC, OPEN_TOPIC, DOES, PROPOSES, RAN, EFFECTS, SAID];

/// What `t.site` takes.
pub(crate) const SITE: Record = Record {
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
        given("source_path", "string", "The source; it is made if it is not there."),
        given("quote", "string?", "The words that it is about; nil for the whole source."),
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
    doc: "A topic that was opened; it stands for its id among inputs.",
};

/// What a fake agent does.
pub(crate) const DOES: Record = Record {
    name: "wb.test.Agent",
    base: None,
    others: None,
    members: &[
        given("result", "any", "What it hands in by `finish`."),
        given("message", "string?", "What it writes in its topic."),
        given("proposal", "string|wb.test.Proposal|nil", "The whole new text that it proposes."),
        given("view", "string?", "The view of its persona that it stores."),
        given("topics", "wb.test.Topic[]|nil", "The topics that it opens."),
        given("summary", "string?", "One sentence about the result."),
        given("exit", "integer?", "Its exit status, 0 by default."),
        given("signal", "integer?", "The signal that ends it."),
        given("stdout", "string?", "What it prints; read as the engine's `reads` says."),
        given("stderr", "string?", "What it prints on standard error."),
        given("takes", "wb.Duration?", "How long it works by the fake clock; 1s by default."),
        given(
            "timeout",
            "\"wall\"|\"idle\"|\"start\"|nil",
            "Which clock of the kind it runs into.",
        ),
        given("cancelled", "boolean?", "Whether a person cancels it while it works."),
        given("unreachable", "string?", "Why it cannot even be started."),
    ],
    doc: "What a fake agent does, in this order: it works, hands in, prints and ends.",
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
        given("prompt", "string", "What the agent was told; empty if it did not come to that."),
        given("attempt", "integer", "Which attempt it was, from 1."),
        given("attempts", "wb.test.Job[]", "All attempts, this one last."),
        given("env", "table<string, string>", "What the engine adds to the agent's environment."),
        given("proposal", "string?", "The text that it proposed."),
        given("message", "string?", "What it wrote last in its topic."),
        given("view", "string?", "The view that it stored."),
        given("topics", "wb.OpenedTopic[]", "The topics that it opened, oldest first."),
        given("effects", "wb.test.Effects", "What handlers and `retry` did because of it."),
    ],
    doc: "A job that was run. A function that is the agent gets one that has no end yet.",
};

const EFFECTS: Record = Record {
    name: "wb.test.Effects",
    base: None,
    others: None,
    members: &[
        given("jobs", "wb.Job[]", "The jobs that were asked for and accepted."),
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
