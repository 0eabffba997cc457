---@meta wb.test
-- Written by `wiki-browser types`: what `require "wb.test"` has, for editors. Files of tests are run by
-- `wiki-browser test`; the server does not read them.

---How a site is where a test begins.
---@class wb.test.Site
---@field now? string What the fake clock shows first (RFC 3339).
---@field sources? table<string, string> Texts of sources by path.
---@field env? table<string, string> What `wb.env` returns; nothing else is set.
---@field secrets? table<string, string|false> Values of secrets by variable or path; false for one that is missing. Others have a made-up value.

---A topic to open.
---@class wb.test.Topic
---@field source_path string The source; it is created if missing.
---@field quote? string The passage; nil for the whole source.
---@field body? string The first message.
---@field title? string Its title.

---An opened topic; as an input, it is used as its id.
---@class wb.test.OpenTopic
---@field id string Its id.
---@field source_path string The source.
---@field title? string Its title.
---@field body string The first message.

---How a job is asked for.
---@class wb.test.Asked
---@field priority? integer Higher starts earlier; the kind's own without it.
---@field not_before? string It does not start before: a time, or a duration like `10m`.
---@field replace_proposals? boolean Whether it may replace an open proposal.

---What a fake agent does, in this order: work, submit, print and end.
---@class wb.test.Agent
---@field result any What it submits with `finish`.
---@field message? string What it writes in its topic.
---@field proposal string|wb.test.Proposal|nil The full new text that it proposes.
---@field view? string The view of its persona that it stores.
---@field topics wb.test.Topic[]|nil The topics that it opens.
---@field summary? string One sentence about the result.
---@field exit? integer Its exit status, 0 by default.
---@field signal? integer The signal that ends it.
---@field stdout? string What it prints; read as the engine's `reads` says.
---@field stderr? string What it prints on standard error.
---@field takes? wb.Duration How long it works in all by the fake clock; 1s by default.
---@field timeout "wall"|"idle"|"start"|nil Which clock of the kind it runs into.
---@field cancelled? boolean Whether a person cancels it while it works.
---@field unreachable? string Why it cannot even be started.

---A proposal of a fake agent.
---@class wb.test.Proposal
---@field text string The whole new text.
---@field summary? string One sentence about the change.
---@field title? string The title of the topic that it opens, if it has none.

---A job that was run. A function that is the agent gets one that has no end yet.
---@class wb.test.Job: wb.Job
---@field prompt string The prompt; empty if the job did not get that far.
---@field attempt integer Which attempt it was, from 1.
---@field attempts wb.test.Job[] All attempts, this one last.
---@field env table<string, string> What the engine adds to the agent's environment.
---@field proposal? string The text that it proposed.
---@field proposal_id? string The proposal, for `t.approve` and its like.
---@field message? string What it wrote last in its topic.
---@field view? string The view that it stored.
---@field topics wb.OpenedTopic[] The topics that it opened, oldest first.
---@field effects wb.test.Effects What handlers and `retry` did from its start to its end.

---What a person writes who approves.
---@class wb.test.Approval
---@field subject? string The first line of the commit's message.
---@field body? string What follows in the commit's message.
---@field text? string The full text as edited by the person first.

---What came of a decision.
---@class wb.test.Decision: wb.test.Effects
---@field proposal wb.test.Revision The proposal in its current state.
---@field commit? wb.test.Commit The commit of an approval.

---A proposal.
---@class wb.test.Revision
---@field id string Its id.
---@field topic_id string The topic that it settles.
---@field source_path string The source.
---@field revision_number integer Its number within the topic, from 1.
---@field status string `open`, `superseded`, `approved`, `rejected`, `stale` or `void`.
---@field has_conflict boolean Whether it cannot be merged with what its source is now.
---@field text string The whole text.
---@field summary? string One sentence about the change.
---@field job_id? string The job that made it.
---@field decided_by_name? string Who decided.
---@field reason? string Why it was decided so.
---@field commit? string The commit that it became.
---@field superseded_by? string The revision that took its place.

---The effects of someone else's commit.
---@class wb.test.Committed: wb.test.Effects
---@field commit wb.test.Commit The commit.

---A commit.
---@class wb.test.Commit
---@field id string Its id.
---@field author string Who wrote it: `Name <mail>`.
---@field committer string Who committed it: `Name <mail>`.
---@field message string Its whole message, with `Approved-by` and `Topic` at its end.
---@field paths string[] What it made different.

---What is different when the script is read again.
---@class wb.test.Reload
---@field script? string The full text of the script from now on.
---@field files? table<string, string> Texts of files that it reads, by path.
---@field env? table<string, string> What `wb.env` returns now; nothing else is set.
---@field secrets? table<string, string|false> Values of secrets now.
---@field drop? boolean Whether waiting jobs that it has no place for are cancelled.

---What came of a reload.
---@class wb.test.Reloaded: wb.test.Effects
---@field generation integer The number of the active generation, from 1.
---@field changes string[] What is different, as `kind "x" removed`.
---@field needs_restart string[] What takes effect only after a restart.
---@field removed_kinds table[] Each with `what`, and `waiting`: how many jobs wait.

---What the script did because something happened.
---@class wb.test.Effects
---@field jobs wb.Job[] The jobs that were requested and accepted.
---@field log wb.test.Line[] What the script has logged.
---@field failures string[] What failed or was refused, with file and line.
---@field events wb.Event[] What has happened, in order.

---A line of the log.
---@class wb.test.Line
---@field level string `debug`, `info`, `warn` or `error`.
---@field text string What was logged.
---@field at string File and line.

---@class wb.Test
local t = {}

---Adds a test. Each one has a site of its own.
---@param name string What holds, in words.
---@param body fun() What is run.
function t.test(name, body) end

---Says how the site is where the test begins; comes first in a test.
---@param fields wb.test.Site What is there.
function t.site(fields) end

---Puts a source into the site, or changes its text.
---@param path string Where it is, as the globs of the script name it.
---@param text string The full text, as if it were committed.
function t.source(path, text) end

---Replaces a persona in agents/; the others are those next to the script.
---@param name string Its name.
---@param text string What would be in agents/NAME.md.
function t.persona(name, text) end

---Opens a topic without calling handlers; use `t.fire` for that.
---@param fields wb.test.Topic What it is about.
---@return wb.test.OpenTopic
function t.topic(fields) end

---Adds a person's message to a topic without calling handlers.
---@param topic wb.test.OpenTopic|string What `t.topic` returned, or its id.
---@param body string What a person writes.
function t.message(topic, body) end

---Returns the prompt that a job would get; for an inbox, pass `{ payload = … }`.
---@param kind string The name of a kind.
---@param inputs table<string, any>? Its inputs by name. A source is a path, which is made if it is not there; a topic is what `t.topic` returned.
---@return string
function t.render(kind, inputs) end

---Asks for a job as a person would and runs it with a fake agent to its end, with every repetition that `retry` asks for; returns the last one. Then the handlers are told.
---@param kind string The name of a kind.
---@param inputs table<string, any>? Its inputs by name. A source is a path, which is made if it is not there; a topic is what `t.topic` returned.
---@param agent wb.test.Agent|wb.test.Agent[]|fun(job: wb.test.Job): wb.test.Agent? What the fake agent does: a table, one table for each attempt, or a function that returns one, and what else it does happens while the agent works; nil for one that exits with 0 and leaves nothing.
---@param asked wb.test.Asked? How it is asked for.
---@return wb.test.Job
function t.run(kind, inputs, agent, asked) end

---Asks for a job as a person would and lets it wait, for `t.next`.
---@param kind string The name of a kind.
---@param inputs table<string, any>? Its inputs by name. A source is a path, which is made if it is not there; a topic is what `t.topic` returned.
---@param asked wb.test.Asked? How it is asked for.
---@return wb.Job
function t.enqueue(kind, inputs, asked) end

---Runs the job that waits and comes next as `t.run` does; moves the clock to its time if all wait for theirs. Returns nil if none waits.
---@param agent wb.test.Agent|wb.test.Agent[]|fun(job: wb.test.Job): wb.test.Agent? What the fake agent does: a table, one table for each attempt, or a function that returns one, and what else it does happens while the agent works; nil for one that exits with 0 and leaves nothing.
---@return wb.test.Job?
function t.next(agent) end

---Returns the jobs that wait, the oldest first.
---@return wb.Job[]
function t.jobs() end

---Fires an event, calls its handlers and returns what they did.
---@param event wb.EventName The name of an event.
---@param data table<string, any>? Its data. An id that is left out is made up; `topic_created` takes what `t.topic` takes, and events of jobs take `kind` and `inputs`.
---@return wb.test.Effects
function t.fire(event, data) end

---Calls a webhook as if its proof were right; returns what came of it.
---@param name string The name of a webhook.
---@param body any What was sent; a table is sent as JSON.
---@param event string? What the caller says has happened.
---@return wb.test.Effects
function t.webhook(name, body, event) end

---Moves the fake clock; every schedule that comes due meanwhile is served at its time. Returns what they did.
---@param duration wb.Duration How far: `90s`, `2h`, `1d`.
---@return wb.test.Effects
function t.advance(duration) end

---Approves a proposal as a person would, and tells the handlers; returns the commit and what the handlers did.
---@param of wb.test.Job|wb.test.Revision|string What `t.run` returned, one of `t.proposals()`, or the id of a proposal.
---@param says wb.test.Approval? What the person writes.
---@return wb.test.Decision
function t.approve(of, says) end

---Rejects a proposal as a person would, and calls the handlers.
---@param of wb.test.Job|wb.test.Revision|string What `t.run` returned, one of `t.proposals()`, or the id of a proposal.
---@param reason string Why.
---@return wb.test.Decision
function t.reject(of, reason) end

---Sends a proposal back as a person would, and runs the job that does it again to its end.
---@param of wb.test.Job|wb.test.Revision|string What `t.run` returned, one of `t.proposals()`, or the id of a proposal.
---@param reason string What should be different.
---@param agent wb.test.Agent|wb.test.Agent[]|fun(job: wb.test.Job): wb.test.Agent? What the fake agent does: a table, one table for each attempt, or a function that returns one, and what else it does happens while the agent works; nil for one that exits with 0 and leaves nothing.
---@return wb.test.Job
function t.rework(of, reason, agent) end

---Returns what was proposed, the newest first.
---@return wb.test.Revision[]
function t.proposals() end

---Has somebody else commit pages, with git and without this program; the server notices it, and the handlers are told.
---@param files table<string, string|false> Whole new texts by path; false for a page that is deleted.
---@param message string? What the commit says.
---@return wb.test.Committed
function t.commit(files, message) end

---Has somebody change a page in the working tree and not commit it; the server notices it, and the handlers are told.
---@param path string A page that is there.
---@param text string Its whole new text.
---@return wb.test.Effects
function t.edit(path, text) end

---Reloads the script as the operator would: with another text, or as it is. Fails if it is wrong; then the one before stays in force. Called by the function of a fake agent it happens while the agent works: its job ends under the script that it began with.
---@param fields wb.test.Reload? What is different; nil for nothing.
---@return wb.test.Reloaded
function t.reload(fields) end

---Returns the time of the fake clock. It begins on a Monday and moves only when it is moved.
---@return string
function t.now() end

---Fails unless both are the same, however deep the tables are.
---@param got any What there is.
---@param want any What there must be.
function t.eq(got, want) end

---Fails unless every field of the second table is in the first one, at every depth.
---@param got table What there is.
---@param part table What must be in it; it may have more.
function t.has(got, part) end

---Fails unless the text has that part, or the list such an element.
---@param whole string|table|nil A text, or a list.
---@param part any What it must contain, literally, not as a pattern.
function t.contains(whole, part) end

---Fails unless the pattern is found in the text.
---@param text string|nil A text.
---@param pattern string A pattern, as `string.find` takes it.
function t.matches(text, pattern) end

---Fails if the value is nil or false.
---@param value any Anything but nil and false is fine.
---@param why string? Message on failure.
function t.ok(value, why) end

---Fails unless the function ends in an error; returns its message.
---@param body fun() What must fail.
---@param part string? What its message must contain, literally.
---@return string
function t.fails(body, part) end

return t
