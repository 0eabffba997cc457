---@meta wb.test
-- Written by `wiki-browser types`: what `require "wb.test"` has, for editors. Files of tests are run by
-- `wiki-browser test`; the server does not read them.

---The initial state of a site.
---@class wb.test.Site
---@field now? string Initial time of the fake clock (RFC 3339).
---@field sources? table<string, string> Texts of sources by path.
---@field env? table<string, string> The variables that `wb.env` returns; no others are set.
---@field secrets? table<string, string|false> Values of secrets by variable or path; false for a missing one. Others have a made-up value.

---A topic to open.
---@class wb.test.Topic
---@field source_path string The source, created if it does not exist.
---@field quote? string The passage that it is about; nil for the whole source.
---@field body? string The first message.
---@field title? string Its title.

---An open topic; it can be used as an input in place of its id.
---@class wb.test.OpenTopic
---@field id string Its id.
---@field source_path string The source.
---@field title? string Its title.
---@field body string The first message.

---How a job is asked for.
---@class wb.test.Asked
---@field priority? integer Higher starts earlier; that of the kind by default.
---@field not_before? string Earliest start: a time, or a duration like `10m`.
---@field replace_proposals? boolean Whether it may replace an open proposal.

---What a fake agent does, in this order: work, submit, print, exit.
---@class wb.test.Agent
---@field result any The result it submits with `finish`.
---@field message? string The message it writes in its topic.
---@field proposal string|wb.test.Proposal|nil The new text that it proposes.
---@field view? string The persona view that it stores.
---@field topics wb.test.Topic[]|nil The topics that it opens.
---@field summary? string One sentence about the result.
---@field complete any An instance of an inbox: the reply with which it completes (`wb-agent complete`).
---@field fail? string An instance: why it has failed (`wb-agent fail`).
---@field ask? wb.test.Request What it asks a person before it exits (`approval create --and-exit`): its job is then parked.
---@field exit? integer Its exit status, 0 by default.
---@field signal? integer The signal that ends it.
---@field stdout? string Its standard output, parsed as the engine's `reads` says.
---@field stderr? string Its standard error.
---@field takes? wb.Duration How long it works by the fake clock; 1s by default.
---@field timeout "wall"|"idle"|"start"|nil Which timeout of the kind it hits.
---@field cancelled? boolean Whether a person cancels it while it works.
---@field unreachable? string Why it cannot be started.

---A proposal of a fake agent.
---@class wb.test.Proposal
---@field text string The new text.
---@field summary? string One sentence about the change.
---@field title? string The title of the topic to open, if it has none.

---A request for a decision.
---@class wb.test.Request
---@field channel string The word under which it is filed.
---@field title string What is to be decided.
---@field payload any What is to be approved.
---@field schema? table A JSON schema for the payload.

---A job that was run. A function given as the agent gets one that has not ended yet.
---@class wb.test.Job: wb.Job
---@field prompt string The prompt; empty if the agent was not started.
---@field attempt integer The number of the attempt, from 1.
---@field attempts wb.test.Job[] All attempts, ending with this one.
---@field env table<string, string> Variables that the engine adds to the agent's environment.
---@field proposal? string The text that it proposed.
---@field proposal_id? string The id of the proposal, for `t.approve` and similar functions.
---@field message? string The last message that it wrote in its topic.
---@field view? string The view that it stored.
---@field topics wb.OpenedTopic[] The topics that it opened, oldest first.
---@field reply any The reply that the sender of its message got.
---@field failure? string Why the sender of its message got none.
---@field approval_id? string What it is parked for; `t.approve` and `t.reject` decide it, and `t.next` runs what follows.
---@field effects wb.test.Effects Effects of handlers and `retry` from its start to its end.

---The text of an approval.
---@class wb.test.Approval
---@field subject? string The first line of the commit message.
---@field body? string The body of the commit message.
---@field text? string The text as edited by the person before approval.
---@field payload any What an instance asked, as changed by the person.
---@field note? string A word to the instance that asked.

---The outcome of a decision.
---@class wb.test.Decision: wb.test.Effects
---@field proposal? wb.test.Revision The proposal after the decision.
---@field approval? table What an instance asked, after the decision: `state`, `note` and what else it has.
---@field commit? wb.test.Commit The commit, for an approval.

---A proposal.
---@class wb.test.Revision
---@field id string Its id.
---@field topic_id string The topic that it belongs to.
---@field source_path string The source.
---@field revision_number integer Its number within the topic, from 1.
---@field status string `open`, `superseded`, `approved`, `rejected`, `stale` or `void`.
---@field has_conflict boolean Whether it conflicts with the current version of its source.
---@field text string The full text.
---@field summary? string One sentence about the change.
---@field job_id? string The job that made it.
---@field decided_by_name? string Who decided.
---@field reason? string The reason for the decision.
---@field commit? string The commit that it became.
---@field superseded_by? string The revision that replaced it.

---The outcome of `t.commit`.
---@class wb.test.Committed: wb.test.Effects
---@field commit wb.test.Commit The commit.

---A commit.
---@class wb.test.Commit
---@field id string Its id.
---@field author string Who wrote it: `Name <mail>`.
---@field committer string Who committed it: `Name <mail>`.
---@field message string The full message, with the trailers `Approved-by` and `Topic`.
---@field paths string[] The changed paths.

---Changes to apply before a reload.
---@class wb.test.Reload
---@field script? string The new text of the script.
---@field files? table<string, string> New texts of files that it reads, by path.
---@field env? table<string, string> The variables that `wb.env` now returns; no others are set.
---@field secrets? table<string, string|false> New values of secrets.
---@field drop? boolean Whether to cancel queued jobs that it no longer supports.

---The outcome of a reload.
---@class wb.test.Reloaded: wb.test.Effects
---@field generation integer The number of the script now in force, from 1.
---@field changes string[] What changed, such as `kind "x" removed`.
---@field needs_restart string[] Changes that take effect only after a restart.
---@field removed_kinds table[] The removed kinds, each with `what` and `waiting`, the number of queued jobs.

---The effects of the script.
---@class wb.test.Effects
---@field jobs wb.Job[] The jobs that were requested and queued.
---@field messages table[] The messages that were sent, each with `to`, `payload` and what else was given.
---@field log wb.test.Line[] What the script logged.
---@field failures string[] Errors and refusals, with file and line.
---@field events wb.Event[] The events, in order.

---A line of the log.
---@class wb.test.Line
---@field level string `debug`, `info`, `warn` or `error`.
---@field text string The text.
---@field at string File and line.

---A channel to make.
---@class wb.test.Room
---@field agents string[]|nil The personas of the agents in it.
---@field type? string Its type; `workshop` by default.
---@field about? string What it is about.
---@field intent? string Its goal, if not its type's.
---@field budget? table Its budget: `turns`, `tokens`, `cost_usd`.

---A channel.
---@class wb.test.Channel
---@field slug string Its slug.
---@field number integer Its number.
---@field name string Its name.
---@field type string Its type.

---More about a message.
---@class wb.test.Post
---@field to? string The handle of the member whom it is for.
---@field type? string `message`, `delegation` or `escalation`.

---The outcome of `t.say`.
---@class wb.test.Posted: wb.test.Effects
---@field sequence integer The number of the message.
---@field woken string[] The agents for whom something waits that wakes them, by handle, as they joined.
---@field paused? string Why the channel is paused, such as `hops` or `budget`.

---What an agent says.
---@class wb.test.Answer
---@field text? string Its final message.
---@field post? string What it posts before (`wb-agent channel post`).
---@field fail? string Why its engine failed.
---@field interrupted? boolean Whether a person interrupts it.
---@field tokens? integer How many tokens it used.
---@field cost_usd? number What it cost.
---@field takes? wb.Duration How long it works by the fake clock; 1s by default.

---A turn. A function given as the answer gets `agent`, `channel` and `prompt`.
---@class wb.test.Turn
---@field agent string The agent.
---@field channel string The slug of the channel.
---@field prompt string What it was given.
---@field state string `answered`, `silent`, `interrupted` or `failed`.
---@field reason? string Why it failed.
---@field text? string The answer as it stands in the channel.
---@field sequence? integer The number of the answer.
---@field woken string[] The agents for whom something waits that wakes them, by handle, as they joined.
---@field paused? string Why the channel is paused, such as `hops` or `budget`.
---@field effects wb.test.Effects Effects of handlers during the turn.

---A message of a channel.
---@class wb.test.Spoken
---@field sequence integer Its number.
---@field type string `message`, `system`, `delegation` or `escalation`.
---@field from? string The handle of its author; nil for the program and the script.
---@field text string Its text.
---@field answers? integer The number of the message that it answers.

---@class wb.Test
local t = {}

---Adds a test. Each test has its own site.
---@param name string What the test checks, in words.
---@param body fun() The body of the test.
function t.test(name, body) end

---Sets the initial state of the site; must come first in a test.
---@param fields wb.test.Site The initial state.
function t.site(fields) end

---Adds a source to the site, or changes its text.
---@param path string Its path, matching the globs of the script.
---@param text string Its text, as if committed.
function t.source(path, text) end

---Adds or replaces a persona; the others are those in agents/ next to the script.
---@param name string Its name.
---@param text string The content of agents/NAME.md.
function t.persona(name, text) end

---Opens a topic without calling handlers; use `t.fire` for that.
---@param fields wb.test.Topic The topic.
---@return wb.test.OpenTopic
function t.topic(fields) end

---Adds a person's message to a topic without calling handlers.
---@param topic wb.test.OpenTopic|string What `t.topic` returned, or its id.
---@param body string The text of the message.
function t.message(topic, body) end

---Returns the prompt of a job; for an inbox, pass the message: `{ payload = … }`.
---@param kind string The name of a kind.
---@param inputs table<string, any>? Its inputs by name. A source is a path, created if it does not exist; a topic is what `t.topic` returned.
---@return string
function t.render(kind, inputs) end

---Requests a job as a person would and runs it to completion with a fake agent, including every retry that `retry` asks for; returns the last attempt. Then calls the handlers. For an inbox, sends the message that is given as `inputs` (`payload`, `reply_to`, `category`) and runs the instance.
---@param kind string The name of a kind.
---@param inputs table<string, any>? Its inputs by name. A source is a path, created if it does not exist; a topic is what `t.topic` returned.
---@param agent wb.test.Agent|wb.test.Agent[]|fun(job: wb.test.Job): wb.test.Agent? What the fake agent does: a table, a list with one table for each attempt, or a function that returns a table and whose other calls happen while the agent works; nil for an agent that exits with 0 and produces nothing.
---@param asked wb.test.Asked? Options of the request.
---@return wb.test.Job
function t.run(kind, inputs, agent, asked) end

---Requests a job as a person would and leaves it queued, for `t.next`.
---@param kind string The name of a kind.
---@param inputs table<string, any>? Its inputs by name. A source is a path, created if it does not exist; a topic is what `t.topic` returned.
---@param asked wb.test.Asked? Options of the request.
---@return wb.Job
function t.enqueue(kind, inputs, asked) end

---Runs the next queued job as `t.run` does, moving the clock forward if all are scheduled for later. Returns nil if none is queued.
---@param agent wb.test.Agent|wb.test.Agent[]|fun(job: wb.test.Job): wb.test.Agent? What the fake agent does: a table, a list with one table for each attempt, or a function that returns a table and whose other calls happen while the agent works; nil for an agent that exits with 0 and produces nothing.
---@return wb.test.Job?
function t.next(agent) end

---Returns the queued jobs, oldest first.
---@return wb.Job[]
function t.jobs() end

---Fires an event and calls its handlers; returns their effects.
---@param event wb.EventName The name of an event.
---@param data table<string, any>? Its data. Missing ids are made up; `topic_created` takes the fields of `t.topic`, and job events take `kind` and `inputs`.
---@return wb.test.Effects
function t.fire(event, data) end

---Calls a webhook with a valid signature; returns its effects.
---@param name string The name of a webhook.
---@param body any The body of the call; a table is sent as JSON.
---@param event string? The event that the caller names.
---@return wb.test.Effects
function t.webhook(name, body, event) end

---Moves the fake clock, running each schedule when it comes due; returns their effects.
---@param duration wb.Duration How far: `90s`, `2h`, `1d`.
---@return wb.test.Effects
function t.advance(duration) end

---Approves a proposal as a person would and calls the handlers; returns the commit and the handlers' effects. Of a job that is parked, approves what it asks; `t.next` then runs what follows.
---@param of wb.test.Job|wb.test.Revision|string What `t.run` returned, one of `t.proposals()`, or the id of a proposal.
---@param says wb.test.Approval? The text of the approval.
---@return wb.test.Decision
function t.approve(of, says) end

---Rejects a proposal as a person would, or what a parked job asks, and calls the handlers.
---@param of wb.test.Job|wb.test.Revision|string What `t.run` returned, one of `t.proposals()`, or the id of a proposal.
---@param reason string Why.
---@return wb.test.Decision
function t.reject(of, reason) end

---Requests changes to a proposal as a person would, and runs the job that revises it to completion.
---@param of wb.test.Job|wb.test.Revision|string What `t.run` returned, one of `t.proposals()`, or the id of a proposal.
---@param reason string The requested changes.
---@param agent wb.test.Agent|wb.test.Agent[]|fun(job: wb.test.Job): wb.test.Agent? What the fake agent does: a table, a list with one table for each attempt, or a function that returns a table and whose other calls happen while the agent works; nil for an agent that exits with 0 and produces nothing.
---@return wb.test.Job
function t.rework(of, reason, agent) end

---Returns the proposals, newest first.
---@return wb.test.Revision[]
function t.proposals() end

---Commits files with git, bypassing the server; the server notices the commit and calls the handlers.
---@param files table<string, string|false> New texts by path; false deletes the file.
---@param message string? The commit message.
---@return wb.test.Committed
function t.commit(files, message) end

---Changes a source in the working tree without committing it; the server notices the edit and calls the handlers.
---@param path string An existing source.
---@param text string Its new text.
---@return wb.test.Effects
function t.edit(path, text) end

---Reloads the script as the operator would, with changes or as it is. Fails if the script has errors; the previous one then stays in force. Called from the function of a fake agent, it happens while the agent works: the job ends under the script that it started with.
---@param fields wb.test.Reload? The changes; nil for none.
---@return wb.test.Reloaded
function t.reload(fields) end

---Makes a channel of the tester with some agents of the script, who start when they are given something.
---@param name string Its name.
---@param fields wb.test.Room? Its agents, type and goal.
---@return wb.test.Channel
function t.channel(name, fields) end

---Posts a message of the tester and calls the handlers; returns their effects and who is woken.
---@param channel wb.test.Channel|string What `t.channel` returned, or a slug, a number or `#name`.
---@param text string The text.
---@param fields wb.test.Post? Whom it is for.
---@return wb.test.Posted
function t.say(channel, text, fields) end

---Gives an agent what waits for it and lets it answer; returns its turn, or nil if nothing wakes it.
---@param channel wb.test.Channel|string What `t.channel` returned, or a slug, a number or `#name`.
---@param who string The handle of a member, or the agent in its seat.
---@param answer string|wb.test.Answer|fun(turn: wb.test.Turn): wb.test.Answer|nil Its final message, a table, or a function that gets the turn with its `prompt` and returns one of both; nil for an agent that says nothing.
---@return wb.test.Turn?
function t.answer(channel, who, answer) end

---Returns the messages of a channel in their order, the last 200.
---@param channel wb.test.Channel|string What `t.channel` returned, or a slug, a number or `#name`.
---@return wb.test.Spoken[]
function t.said(channel) end

---Returns the time of the fake clock. It starts on a Monday and moves only when told to.
---@return string
function t.now() end

---Fails unless both are equal, comparing tables deeply.
---@param got any The actual value.
---@param want any The expected value.
function t.eq(got, want) end

---Fails unless the first table has every field of the second, at every depth.
---@param got table The actual value.
---@param part table The expected fields; others are ignored.
function t.has(got, part) end

---Fails unless the text contains the part, or the list has such an element.
---@param whole string|table|nil A text, or a list.
---@param part any What it must contain, literally (not a pattern).
function t.contains(whole, part) end

---Fails unless the text matches the pattern.
---@param text string|nil A text.
---@param pattern string A pattern, as for `string.find`.
function t.matches(text, pattern) end

---Fails if the value is nil or false.
---@param value any The value.
---@param why string? The message on failure.
function t.ok(value, why) end

---Fails unless the function raises an error; returns its message.
---@param body fun() The function.
---@param part string? What its message must contain, literally.
---@return string
function t.fails(body, part) end

return t
