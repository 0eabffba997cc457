//! The vocabulary of test files: the functions of `wb.test`, their parameters and results.

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
    "Its inputs by name. A source is a path, created if it does not exist; a topic is what \
     `t.topic` returned.",
);
const AGENT: Member = given(
    "agent",
    "wb.test.Agent|wb.test.Agent[]|fun(job: wb.test.Job): wb.test.Agent?",
    "What the fake agent does: a table, a list with one table for each attempt, or a function \
     that returns a table and whose other calls happen while the agent works; nil for an agent \
     that exits with 0 and produces nothing.",
);

const ASKED_FOR: Member = given("asked", "wb.test.Asked?", "Options of the request.");
const OF: Member = given(
    "of",
    "wb.test.Job|wb.test.Revision|string",
    "What `t.run` returned, one of `t.proposals()`, or the id of a proposal.",
);

const CHANNEL: Member = given(
    "channel",
    "wb.test.Channel|string",
    "What `t.channel` returned, or a slug, a number or `#name`.",
);

/// The functions of `wb.test`.
pub const TEST_FUNCTIONS: [Function; 32] = [
    Function {
        name: "test",
        params: &[
            given("name", "string", "What the test checks, in words."),
            given("body", "fun()", "The body of the test."),
        ],
        returns: None,
        when: When::File,
        example: "t.test(\"a page is named in the prompt\", function()\n  \
            t.contains(t.render(\"links\", { source_path = \"guide.md\" }), \"guide.md\")\nend)",
        doc: "Adds a test. Each test has its own site.",
    },
    Function {
        name: "site",
        params: &[given("fields", "wb.test.Site", "The initial state.")],
        returns: None,
        when: When::Testing,
        example: "t.site { now = \"2026-03-01T08:00:00Z\", sources = { [\"guide.md\"] = \"# \
            Guide\\n\" } }\n\
            t.eq(t.now(), \"2026-03-01T08:00:00.000Z\")",
        doc: "Sets the initial state of the site; must come first in a test.",
    },
    Function {
        name: "source",
        params: &[
            given("path", "string", "Its path, matching the globs of the script."),
            given("text", "string", "Its text, as if committed."),
        ],
        returns: None,
        when: When::Testing,
        example: "t.source(\"guide.md\", \"# Guide\\n\\nThe old words.\\n\")",
        doc: "Adds a source to the site, or changes its text.",
    },
    Function {
        name: "persona",
        params: &[
            given("name", "string", "Its name."),
            given("text", "string", "The content of agents/NAME.md."),
        ],
        returns: None,
        when: When::Testing,
        example: "t.persona(\"nurse\", \"---\\nname: nurse\\nabout: A nurse\\n---\\nYou are a \
            nurse.\\n\")",
        doc: "Adds or replaces a persona; the others are those in agents/ next to the script.",
    },
    Function {
        name: "topic",
        params: &[given("fields", "wb.test.Topic", "The topic.")],
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
            given("body", "string", "The text of the message."),
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
        doc: "Returns the prompt of a job; for an inbox, pass the message: `{ payload = … }`.",
    },
    Function {
        name: "run",
        params: &[KIND, INPUTS, AGENT, ASKED_FOR],
        returns: Some("wb.test.Job"),
        when: When::Testing,
        example: "local job = t.run(\"links\", { source_path = \"guide.md\" }, { result = { \
            checked = 4 } })\n\
            t.eq(job.status, \"succeeded\")",
        doc: "Requests a job as a person would and runs it to completion with a fake agent, \
            including every retry that `retry` asks for; returns the last attempt. Then calls \
            the handlers. For an inbox, sends the message that is given as `inputs` (`payload`, \
            `reply_to`, `category`) and runs the instance.",
    },
    Function {
        name: "enqueue",
        params: &[KIND, INPUTS, ASKED_FOR],
        returns: Some("wb.Job"),
        when: When::Testing,
        example: "t.enqueue(\"links\", { source_path = \"a.md\" })\n\
            t.enqueue(\"links\", { source_path = \"b.md\" }, { priority = 10 })\n\
            t.has(t.next { result = { checked = 1 } }, { source_path = \"b.md\", priority = 10 })",
        doc: "Requests a job as a person would and leaves it queued, for `t.next`.",
    },
    Function {
        name: "next",
        params: &[AGENT],
        returns: Some("wb.test.Job?"),
        when: When::Testing,
        example: "t.fire(\"topic_created\", { source_path = \"guide.md\" })\n\
            local job = t.next { message = \"Because nobody changed them.\" }\n\
            t.has(job, { kind = \"answer\", status = \"succeeded\" })",
        doc: "Runs the next queued job as `t.run` does, moving the clock forward if all are \
            scheduled for later. Returns nil if none is queued.",
    },
    Function {
        name: "jobs",
        params: &[],
        returns: Some("wb.Job[]"),
        when: When::Testing,
        example: "t.fire(\"topic_created\", { source_path = \"guide.md\" })\nt.eq(#t.jobs(), 1)",
        doc: "Returns the queued jobs, oldest first.",
    },
    Function {
        name: "fire",
        params: &[
            given("event", "wb.EventName", "The name of an event."),
            given(
                "data",
                "table<string, any>?",
                "Its data. Missing ids are made up; `topic_created` takes the fields of \
                 `t.topic`, and job events take `kind` and `inputs`.",
            ),
        ],
        returns: Some("wb.test.Effects"),
        when: When::Testing,
        example: "local effects = t.fire(\"topic_created\", { source_path = \"guide.md\", body \
            = \"Why?\" })\n\
            t.eq(effects.jobs[1].kind, \"answer\")",
        doc: "Fires an event and calls its handlers; returns their effects.",
    },
    Function {
        name: "webhook",
        params: &[
            given("name", "string", "The name of a webhook."),
            any("body", "The body of the call; a table is sent as JSON."),
            given("event", "string?", "The event that the caller names."),
        ],
        returns: Some("wb.test.Effects"),
        when: When::Testing,
        example: "local effects = t.webhook(\"tracker\", { path = \"guide.md\" }, \"opened\")\n\
            t.has(effects.jobs[1], { kind = \"links\", source_path = \"guide.md\" })",
        doc: "Calls a webhook with a valid signature; returns its effects.",
    },
    Function {
        name: "advance",
        params: &[given("duration", "wb.Duration", "How far: `90s`, `2h`, `1d`.")],
        returns: Some("wb.test.Effects"),
        when: When::Testing,
        example: "local effects = t.advance \"1d\"\nt.has(effects.jobs[1], { kind = \"links\" })",
        doc: "Moves the fake clock, running each schedule when it comes due; returns their \
            effects.",
    },
    Function {
        name: "approve",
        params: &[OF, given("says", "wb.test.Approval?", "The text of the approval.")],
        returns: Some("wb.test.Decision"),
        when: When::Testing,
        example: "local topic = t.topic { source_path = \"guide.md\" }\n\
            local job = t.run(\"shorten\", { topic_id = topic }, { proposal = \"# Guide\\n\" })\n\
            local decision = t.approve(job)\n\
            t.eq(decision.proposal.status, \"approved\")\n\
            t.contains(decision.commit.message, \"Approved-by: tester\")",
        doc: "Approves a proposal as a person would and calls the handlers; returns the commit and \
            the handlers' effects. Of a job that is parked, approves what it asks; `t.next` then \
            runs what follows.",
    },
    Function {
        name: "reject",
        params: &[OF, given("reason", "string", "Why.")],
        returns: Some("wb.test.Decision"),
        when: When::Testing,
        example: "local topic = t.topic { source_path = \"guide.md\" }\n\
            local job = t.run(\"shorten\", { topic_id = topic }, { proposal = \"# Guide\\n\" })\n\
            t.eq(t.reject(job, \"Too short.\").proposal.reason, \"Too short.\")",
        doc: "Rejects a proposal as a person would, or what a parked job asks, and calls the \
            handlers.",
    },
    Function {
        name: "rework",
        params: &[OF, given("reason", "string", "The requested changes."), AGENT],
        returns: Some("wb.test.Job"),
        when: When::Testing,
        example: "local topic = t.topic { source_path = \"guide.md\" }\n\
            local job = t.run(\"shorten\", { topic_id = topic }, { proposal = \"# Guide\\n\" })\n\
            local again = t.rework(job, \"Keep the heading.\", { proposal = \"# The guide\\n\" })\n\
            t.contains(again.prompt, \"Keep the heading.\")\n\
            t.approve(again)",
        doc: "Requests changes to a proposal as a person would, and runs the job that revises it \
            to completion.",
    },
    Function {
        name: "proposals",
        params: &[],
        returns: Some("wb.test.Revision[]"),
        when: When::Testing,
        example: "local topic = t.topic { source_path = \"guide.md\" }\n\
            local job = t.run(\"shorten\", { topic_id = topic }, { proposal = \"# Guide\\n\" })\n\
            t.has(t.proposals()[1], { id = job.proposal_id, status = \"open\" })",
        doc: "Returns the proposals, newest first.",
    },
    Function {
        name: "commit",
        params: &[
            given(
                "files",
                "table<string, string|false>",
                "New texts by path; false deletes the file.",
            ),
            given("message", "string?", "The commit message."),
        ],
        returns: Some("wb.test.Committed"),
        when: When::Testing,
        example: "local effects = t.commit { [\"guide.md\"] = \"# Another guide\\n\" }\n\
            t.has(effects.events[1], { kind = \"source_changed\", data = { path = \"guide.md\" \
            } })",
        doc: "Commits files with git, bypassing the server; the server notices the commit and \
            calls the handlers.",
    },
    Function {
        name: "edit",
        params: &[
            given("path", "string", "An existing source."),
            given("text", "string", "Its new text."),
        ],
        returns: Some("wb.test.Effects"),
        when: When::Testing,
        example: "local effects = t.edit(\"guide.md\", \"# Not committed yet\\n\")\n\
            t.eq(effects.events[1].data.commit, nil)",
        doc: "Changes a source in the working tree without committing it; the server notices the \
            edit and calls the handlers.",
    },
    Function {
        name: "reload",
        params: &[given("fields", "wb.test.Reload?", "The changes; nil for none.")],
        returns: Some("wb.test.Reloaded"),
        when: When::Testing,
        example: "t.has(t.reload(), { generation = 2, changes = {} })",
        doc: "Reloads the script as the operator would, with changes or as it is. Fails if the \
            script has errors; the previous one then stays in force. Called from the function of \
            a fake agent, it happens while the agent works: the job ends under the script that \
            it started with.",
    },
    Function {
        name: "channel",
        params: &[
            given("name", "string", "Its name."),
            given("fields", "wb.test.Room?", "Its agents, type and goal."),
        ],
        returns: Some("wb.test.Channel"),
        when: When::Testing,
        example: "local team = t.channel(\"team\", { agents = { \"robbo\", \"paula\" } })\n\
            t.eq(team.slug, \"workshop-team-1\")",
        doc: "Makes a channel of the tester with some agents of the script, who start when they \
            are given something.",
    },
    Function {
        name: "say",
        params: &[
            CHANNEL,
            given("text", "string", "The text."),
            given("fields", "wb.test.Post?", "Whom it is for."),
        ],
        returns: Some("wb.test.Posted"),
        when: When::Testing,
        example: "local team = t.channel(\"team\", { agents = { \"robbo\", \"paula\" } })\n\
            t.eq(t.say(team, \"@paula is it deep?\").woken, { \"paula\" })",
        doc: "Posts a message of the tester and calls the handlers; returns their effects and \
            who is woken.",
    },
    Function {
        name: "answer",
        params: &[
            CHANNEL,
            given("who", "string", "The handle of a member, or the agent in its seat."),
            given(
                "answer",
                "string|wb.test.Answer|fun(turn: wb.test.Turn): wb.test.Answer|nil",
                "Its final message, a table, or a function that gets the turn with its `prompt` \
                 and returns one of both; nil for an agent that says nothing.",
            ),
        ],
        returns: Some("wb.test.Turn?"),
        when: When::Testing,
        example: "local team = t.channel(\"team\", { agents = { \"robbo\", \"paula\" } })\n\
            t.say(team, \"@paula is it deep?\")\n\
            t.eq(t.answer(team, \"robbo\", \"Eleven metres.\"), nil)\n\
            local turn = t.answer(team, \"paula\", \"Ten metres.\")\n\
            t.has(turn, { state = \"answered\", sequence = 2 })",
        doc: "Gives an agent what waits for it and lets it answer; returns its turn, or nil if \
            nothing wakes it.",
    },
    Function {
        name: "said",
        params: &[CHANNEL],
        returns: Some("wb.test.Spoken[]"),
        when: When::Testing,
        example: "local team = t.channel(\"team\", { agents = { \"robbo\" } })\n\
            t.say(team, \"Is it deep?\")\n\
            t.answer(team, \"robbo\", \"Eleven metres.\")\n\
            t.has(t.said(team)[2], { from = \"robbo\", text = \"Eleven metres.\", answers = 1 })",
        doc: "Returns the messages of a channel in their order, the last 200.",
    },
    Function {
        name: "now",
        params: &[],
        returns: Some("string"),
        when: When::Testing,
        example: "t.eq(t.now(), \"2026-01-05T09:00:00.000Z\")",
        doc: "Returns the time of the fake clock. It starts on a Monday and moves only when told \
            to.",
    },
    Function {
        name: "eq",
        params: &[any("got", "The actual value."), any("want", "The expected value.")],
        returns: None,
        when: When::Testing,
        example: "t.eq({ 1, { a = \"x\" } }, { 1, { a = \"x\" } })",
        doc: "Fails unless both are equal, comparing tables deeply.",
    },
    Function {
        name: "has",
        params: &[
            given("got", "table", "The actual value."),
            given("part", "table", "The expected fields; others are ignored."),
        ],
        returns: None,
        when: When::Testing,
        example: "t.has({ status = \"failed\", exit_code = 3, id = \"x\" }, { status = \
            \"failed\" })",
        doc: "Fails unless the first table has every field of the second, at every depth.",
    },
    Function {
        name: "contains",
        params: &[
            given("whole", "string|table", "A text, or a list."),
            any("part", "What it must contain, literally (not a pattern)."),
        ],
        returns: None,
        when: When::Testing,
        example: "t.contains(\"Check guide.md.\", \"guide.md\")\nt.contains({ \"a\", \"b\" }, \
            \"b\")",
        doc: "Fails unless the text contains the part, or the list has such an element.",
    },
    Function {
        name: "matches",
        params: &[
            given("text", "string", "A text."),
            given("pattern", "string", "A pattern, as for `string.find`."),
        ],
        returns: None,
        when: When::Testing,
        example: "t.matches(t.now(), \"^%d+%-%d+%-%d+T\")",
        doc: "Fails unless the text matches the pattern.",
    },
    Function {
        name: "ok",
        params: &[any("value", "The value."), given("why", "string?", "The message on failure.")],
        returns: None,
        when: When::Testing,
        example: "t.ok(#t.jobs() == 0, \"nothing waits yet\")",
        doc: "Fails if the value is nil or false.",
    },
    Function {
        name: "fails",
        params: &[
            given("body", "fun()", "The function."),
            given("part", "string?", "What its message must contain, literally."),
        ],
        returns: Some("string"),
        when: When::Testing,
        example: "t.fails(function() t.run(\"links\", {}) end, \"needs the input\")",
        doc: "Fails unless the function raises an error; returns its message.",
    },
];
