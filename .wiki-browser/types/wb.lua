---@meta wb
-- Written by `wiki-browser types`: what `require "wb"` has, for editors. The server does not read it.

---A number with ms, s, m, h or d: "90s".
---@alias wb.Duration string

---What `wb.input.TYPE` returns.
---@class wb.Input
---@field package is_input true

---The name of a secret, for `env` of an engine.
---@class wb.Secret
---@field package is_secret true

---@alias wb.EventName "job_queued"|"job_started"|"job_finished"|"job_parked"|"topic_created"|"topic_changed"|"topic_reattached"|"message_posted"|"proposal_created"|"proposal_decided"|"proposal_conflicted"|"perspective_created"|"changes_decided"|"source_changed"|"sources_changed"|"source_renamed"|"config_reloaded"|"script_failed"|"schedule_fired"|"engine_held"|"engine_released"|"workspace_changed"|"message_sent"|"delivery_changed"|"agent_changed"|"person_changed"|"approval_created"|"approval_decided"|"chat_changed"|"channel_changed"|"member_changed"|"channel_message"|"turn_started"|"turn_ended"|"turn_held"|"handoff_changed"
---@alias wb.JobStatus "queued"|"running"|"parked"|"succeeded"|"failed"|"timed_out"|"cancelled"
---@alias wb.JobReason "spawn_failed"|"exit_status"|"signal"|"no_result"|"idle_timeout"|"start_timeout"|"wall_timeout"|"prompt_failed"|"kind_changed"|"inputs_changed"|"guard_lost"|"server_restarted"|"rate_limited"|"cancelled"|"verify_failed"|"verify_unasked"|"reported"|"bad_reply"|"prepare_failed"|"terminal_lost"|"session_lost"|"resumed"|"internal"

---What `wb.engine` returns; usable in place of the name.
---@class wb.Engine
---@field package is_engine true

---What `wb.kind` returns; usable in place of the name.
---@class wb.Kind
---@field package is_kind true

---What `wb.inbox` returns; usable in place of the name.
---@class wb.Inbox
---@field package is_inbox true

---What `wb.agent` returns; usable in place of the name.
---@class wb.Agent
---@field package is_agent true

---What `wb.schedule` returns; usable in place of the name.
---@class wb.Schedule
---@field package is_schedule true

---What `wb.webhook` returns; usable in place of the name.
---@class wb.Webhook
---@field package is_webhook true

---What `wb.channel_type` returns; usable in place of the name.
---@class wb.ChannelType
---@field package is_channel_type true

---An event.
---@class wb.Event
---@field id integer Its position in the event log.
---@field at string When it happened (RFC 3339).
---@field kind wb.EventName The name of the event.
---@field subject string What it happened to: `job:ID`, `topic:ID`, `source:PATH`, ….
---@field actor string Who did it: `person:ID`, `job:ID`, `system`, ….
---@field data table Ids and states; the fields depend on the event.
---@field job? wb.Job The job, for job events.

---A job, in its state at the time of the call.
---@class wb.Job
---@field id string The job.
---@field kind string Its kind.
---@field status wb.JobStatus Its status.
---@field source_path? string The Source it works on: the one whose blob is an input, else the input `source_path`, else the first by name.
---@field topic_id? string The Topic it works on.
---@field persona_name? string The persona it speaks for.
---@field reason? wb.JobReason Why it ended this way; nil for success.
---@field error_tail? string The end of its standard error; nil for success.
---@field summary? string The agent's summary.
---@field result any The result that the agent submitted with `finish`.
---@field inputs table<string, any> The values of its inputs.
---@field warnings string[] Warnings about a success.
---@field exit_code? integer The agent's exit status.
---@field signal? integer The signal that ended the agent.
---@field created_at string When it was accepted (RFC 3339).
---@field started_at? string When it was started.
---@field ending_at? string When it began to end.
---@field completed_at? string When it was completed.
---@field not_before? string It does not start before this time.
---@field retry_at? string When its provider's rate limit ends, if known.
---@field retry_of? string The job that this one repeats.
---@field lane? string `NAME=VALUE`: jobs in one lane run one after another.
---@field priority integer Higher starts earlier.
---@field requested_by string Who asked for it.
---@field cancelled_by? string Who cancelled it.
---@field cost_usd? number Its cost, as its engine reports it.
---@field usage? table Tokens and turns, as its engine reports them.
---@field session_ref? string The engine's name for the session.
---@field config_digest string The digest of the script that it ran under.

---A finished job with its output.
---@class wb.ProducedJob: wb.Job
---@field produced wb.Produced Its output.

---The output of a job, as `produces` of its kind says.
---@class wb.Produced
---@field text string The text of a proposal, a perspective, a message or a reply.
---@field value any The result, or the reply of an inbox.
---@field topics wb.OpenedTopic[] The Topics that it opened.

---A Topic that a job opened.
---@class wb.OpenedTopic
---@field id string The Topic.
---@field source_path string The Source.
---@field title string Its title.
---@field status string Its status.

---A job that failed or timed out.
---@class wb.FailedJob: wb.Job
---@field attempt integer The number of the attempt, from 1.

---The values available to a prompt, together with the inputs of the kind: a flag is a boolean, a number a number, anything else a text; an optional input without a value is nil.
---@class wb.PromptValues
---@field job_id string The job.
---@field kind string Its kind.
---@field skill string The name of the kind's skill.
---@field root string The folder of the repository.
---@field wb_agent string The agent's client program.
---@field folder string The folder of the script.
---@field [string] any

---A run of a schedule.
---@class wb.Due
---@field name string The schedule.
---@field planned string The scheduled time (RFC 3339).
---@field now string The current time (RFC 3339).

---A call to a webhook.
---@class wb.Call
---@field name string The webhook.
---@field event? string The event named by the caller, in `X-GitHub-Event` or a similar header.
---@field now string The current time (RFC 3339).
---@field body any The body, parsed from JSON.

---A request for a job, together with the inputs of its kind.
---@class wb.Request
---@field kind string|wb.Kind The kind of the job.
---@field priority? integer Higher starts earlier.
---@field not_before? string Earliest start: a time, or a duration like `10m`.
---@field replace_proposals? boolean Whether it may replace the open proposal of its Topic.
---@field [string] any

---A message.
---@class wb.Message
---@field to string Its address: `person:NAME`, `agent:NAME`, `topic:TEMPLATE/NAME`.
---@field payload any Its content: plain data.
---@field reply_to? string The address that gets the reply; nobody by default.
---@field in_reply_to? string The id of the message that it answers.
---@field category? string A label of your own; the reply carries it too.

---Ids and states.
---@class wb.JobQueuedData
---@field id string The job.
---@field kind string Its kind.
---@field status wb.JobStatus Its status.
---@field source_path? string The Source it works on: the one whose blob is an input, else the input `source_path`, else the first by name.
---@field topic_id? string The Topic it works on.

---The event given to handlers of `job_queued`.
---@class wb.JobQueuedEvent: wb.Event
---@field kind "job_queued" Its name.
---@field data wb.JobQueuedData Ids and states.
---@field job wb.Job The job in its current state.

---Ids and states.
---@class wb.JobStartedData
---@field id string The job.
---@field kind string Its kind.
---@field status wb.JobStatus Its status.
---@field source_path? string The Source it works on: the one whose blob is an input, else the input `source_path`, else the first by name.
---@field topic_id? string The Topic it works on.

---The event given to handlers of `job_started`.
---@class wb.JobStartedEvent: wb.Event
---@field kind "job_started" Its name.
---@field data wb.JobStartedData Ids and states.
---@field job wb.Job The job in its current state.

---Ids and states.
---@class wb.JobFinishedData
---@field id string The job.
---@field kind string Its kind.
---@field status wb.JobStatus Its status.
---@field reason? wb.JobReason Why it ended this way; nil for success.
---@field source_path? string The Source it works on: the one whose blob is an input, else the input `source_path`, else the first by name.
---@field topic_id? string The Topic it works on.
---@field retry_at? string When its provider's rate limit ends, if known.

---The event given to handlers of `job_finished`.
---@class wb.JobFinishedEvent: wb.Event
---@field kind "job_finished" Its name.
---@field data wb.JobFinishedData Ids and states.
---@field job wb.Job The job in its current state.

---Ids and states.
---@class wb.JobParkedData
---@field id string The job.
---@field kind string Its kind.
---@field approval_id string The approval that it waits for.

---The event given to handlers of `job_parked`.
---@class wb.JobParkedEvent: wb.Event
---@field kind "job_parked" Its name.
---@field data wb.JobParkedData Ids and states.
---@field job wb.Job The job in its current state.

---Ids and states.
---@class wb.TopicCreatedData
---@field topic_id string The Topic.
---@field source_path string The Source.
---@field is_global boolean Whether it is about the whole document.

---The event given to handlers of `topic_created`.
---@class wb.TopicCreatedEvent: wb.Event
---@field kind "topic_created" Its name.
---@field data wb.TopicCreatedData Ids and states.

---Ids and states.
---@class wb.TopicChangedData
---@field topic_id string The Topic.
---@field from string The old value.
---@field to string The new value.

---The event given to handlers of `topic_changed`.
---@class wb.TopicChangedEvent: wb.Event
---@field kind "topic_changed" Its name.
---@field data wb.TopicChangedData Ids and states.

---Ids and states.
---@class wb.TopicReattachedData
---@field topic_id string The Topic.
---@field source_path string The Source.
---@field from string The old value.
---@field to string The new value.
---@field from_path? string The Source that it was about before; nil if it is the same.

---The event given to handlers of `topic_reattached`.
---@class wb.TopicReattachedEvent: wb.Event
---@field kind "topic_reattached" Its name.
---@field data wb.TopicReattachedData Ids and states.

---Ids and states.
---@class wb.MessagePostedData
---@field topic_id string The Topic.
---@field message_id string The message.
---@field sequence integer Its position in the Topic.

---The event given to handlers of `message_posted`.
---@class wb.MessagePostedEvent: wb.Event
---@field kind "message_posted" Its name.
---@field data wb.MessagePostedData Ids and states.

---Ids and states.
---@class wb.ProposalCreatedData
---@field proposal_id string The proposal.
---@field topic_id string The Topic.
---@field job_id? string The job that submitted it.
---@field revision_number integer Its revision number.
---@field source_path string The Source.

---The event given to handlers of `proposal_created`.
---@class wb.ProposalCreatedEvent: wb.Event
---@field kind "proposal_created" Its name.
---@field data wb.ProposalCreatedData Ids and states.

---Ids and states.
---@class wb.ProposalDecidedData
---@field proposal_id string The proposal.
---@field topic_id string The Topic.
---@field status string Its outcome.
---@field source_path string The Source.
---@field commit? string The commit, if it was approved.

---The event given to handlers of `proposal_decided`.
---@class wb.ProposalDecidedEvent: wb.Event
---@field kind "proposal_decided" Its name.
---@field data wb.ProposalDecidedData Ids and states.

---Ids and states.
---@class wb.ProposalConflictedData
---@field proposal_id string The proposal.
---@field topic_id string The Topic.
---@field source_path string The Source.
---@field blob? string The version of the Source that it conflicts with.

---The event given to handlers of `proposal_conflicted`.
---@class wb.ProposalConflictedEvent: wb.Event
---@field kind "proposal_conflicted" Its name.
---@field data wb.ProposalConflictedData Ids and states.

---Ids and states.
---@class wb.PerspectiveCreatedData
---@field source_path string The Source.
---@field persona string The persona.
---@field source_sha string The version of the Source.
---@field persona_sha string The version of the persona.
---@field job_id string The job that made it.

---The event given to handlers of `perspective_created`.
---@class wb.PerspectiveCreatedEvent: wb.Event
---@field kind "perspective_created" Its name.
---@field data wb.PerspectiveCreatedData Ids and states.

---Ids and states.
---@class wb.ChangesDecidedData
---@field id string The job.
---@field changes string `restored`, `kept` or `expired`.

---The event given to handlers of `changes_decided`.
---@class wb.ChangesDecidedEvent: wb.Event
---@field kind "changes_decided" Its name.
---@field data wb.ChangesDecidedData Ids and states.

---Ids and states.
---@class wb.SourceChangedData
---@field path string The Source.
---@field blob? string Its version; nil if it was deleted.
---@field commit? string The commit; nil for an uncommitted edit.
---@field branch? string The branch.
---@field proposal_id? string The proposal that was approved.

---The event given to handlers of `source_changed`.
---@class wb.SourceChangedEvent: wb.Event
---@field kind "source_changed" Its name.
---@field data wb.SourceChangedData Ids and states.

---Ids and states.
---@class wb.SourcesChangedData
---@field count? integer How many, if known.
---@field commit? string The commit; nil for an uncommitted edit.
---@field branch? string The branch.

---The event given to handlers of `sources_changed`.
---@class wb.SourcesChangedEvent: wb.Event
---@field kind "sources_changed" Its name.
---@field data wb.SourcesChangedData Ids and states.

---Ids and states.
---@class wb.SourceRenamedData
---@field path string Its new path.
---@field from string Its old path.
---@field commit? string The commit; nil for an uncommitted edit.
---@field branch? string The branch.
---@field topics integer Number of Topics that moved with it.

---The event given to handlers of `source_renamed`.
---@class wb.SourceRenamedEvent: wb.Event
---@field kind "source_renamed" Its name.
---@field data wb.SourceRenamedData Ids and states.

---Ids and states.
---@class wb.ConfigReloadedData
---@field generation integer The number of the generation now in force.
---@field digest string The digest of its files.
---@field changes string[] What changed: `kind.NAME`, `engine.NAME`, ….
---@field needs_restart string[] Changes that take effect only after a restart.
---@field removed_kinds table[] The removed kinds, each with `what` and `waiting`, the number of queued jobs.

---The event given to handlers of `config_reloaded`.
---@class wb.ConfigReloadedEvent: wb.Event
---@field kind "config_reloaded" Its name.
---@field data wb.ConfigReloadedData Ids and states.

---Ids and states.
---@class wb.ScriptFailedData
---@field function string `on.EVENT`, `kind.NAME.retry` or `schedule.NAME`.
---@field at string Its file and line.
---@field message string The error, with file and line.
---@field cause string What it was called for.

---The event given to handlers of `script_failed`.
---@class wb.ScriptFailedEvent: wb.Event
---@field kind "script_failed" Its name.
---@field data wb.ScriptFailedData Ids and states.

---Ids and states.
---@class wb.ScheduleFiredData
---@field schedule string The schedule.
---@field planned string The scheduled time.
---@field late_ms integer Delay in milliseconds.
---@field jobs string[] The jobs that were accepted.
---@field skipped? string Why this run was skipped.
---@field error? string The error, with file and line.

---The event given to handlers of `schedule_fired`.
---@class wb.ScheduleFiredEvent: wb.Event
---@field kind "schedule_fired" Its name.
---@field data wb.ScheduleFiredData Ids and states.

---Ids and states.
---@class wb.EngineHeldData
---@field engine string The engine.
---@field until? string Until when, if known.
---@field job_id? string The job that was refused.

---The event given to handlers of `engine_held`.
---@class wb.EngineHeldEvent: wb.Event
---@field kind "engine_held" Its name.
---@field data wb.EngineHeldData Ids and states.

---Ids and states.
---@class wb.EngineReleasedData
---@field engine string The engine.

---The event given to handlers of `engine_released`.
---@class wb.EngineReleasedEvent: wb.Event
---@field kind "engine_released" Its name.
---@field data wb.EngineReleasedData Ids and states.

---Ids and states.
---@class wb.WorkspaceChangedData
---@field job_id string The job that it belongs to.
---@field state string `making`, `ready`, `cleaning`, `gone` or `failed`.

---The event given to handlers of `workspace_changed`.
---@class wb.WorkspaceChangedEvent: wb.Event
---@field kind "workspace_changed" Its name.
---@field data wb.WorkspaceChangedData Ids and states.

---Ids and states.
---@class wb.MessageSentData
---@field message_id string The message.
---@field to_class string Type of its recipient: agent, instance, topic, person or channel.
---@field job_id? string The job that it started, if it went to an inbox.
---@field state string Its state so far.

---The event given to handlers of `message_sent`.
---@class wb.MessageSentEvent: wb.Event
---@field kind "message_sent" Its name.
---@field data wb.MessageSentData Ids and states.

---Ids and states.
---@class wb.DeliveryChangedData
---@field message_id string The message.
---@field state string Its outcome.

---The event given to handlers of `delivery_changed`.
---@class wb.DeliveryChangedEvent: wb.Event
---@field kind "delivery_changed" Its name.
---@field data wb.DeliveryChangedData Ids and states.

---Ids and states.
---@class wb.AgentChangedData
---@field name string The agent.
---@field state string `stopped`, `starting`, `idle`, `busy`, `blocked` or `failed`.
---@field job_id? string The job of its last start.

---The event given to handlers of `agent_changed`.
---@class wb.AgentChangedEvent: wb.Event
---@field kind "agent_changed" Its name.
---@field data wb.AgentChangedData Ids and states.

---Ids and states.
---@class wb.PersonChangedData
---@field id string The person.
---@field change string What changed.

---The event given to handlers of `person_changed`.
---@class wb.PersonChangedEvent: wb.Event
---@field kind "person_changed" Its name.
---@field data wb.PersonChangedData Ids and states.

---Ids and states.
---@class wb.ApprovalCreatedData
---@field id string The approval.
---@field channel string Its channel.
---@field sort string `request` or `permission`.
---@field job_id? string The job that asks.

---The event given to handlers of `approval_created`.
---@class wb.ApprovalCreatedEvent: wb.Event
---@field kind "approval_created" Its name.
---@field data wb.ApprovalCreatedData Ids and states.

---Ids and states.
---@class wb.ApprovalDecidedData
---@field id string The approval.
---@field channel string Its channel.
---@field sort string `request` or `permission`.
---@field job_id? string The job that asked.
---@field state string `approved`, `amended`, `rejected`, `withdrawn` or `expired`.

---The event given to handlers of `approval_decided`.
---@class wb.ApprovalDecidedEvent: wb.Event
---@field kind "approval_decided" Its name.
---@field data wb.ApprovalDecidedData Ids and states.

---Ids and states.
---@class wb.ChatChangedData
---@field session_id string The conversation.
---@field change string `added`, `message`, `run`, `changed`, `cleared` or `removed`.

---The event given to handlers of `chat_changed`.
---@class wb.ChatChangedEvent: wb.Event
---@field kind "chat_changed" Its name.
---@field data wb.ChatChangedData Ids and states.

---Ids and states.
---@class wb.ChannelChangedData
---@field channel string The id of the channel.
---@field number integer The number of the channel.
---@field what string `created`, `changed`, `paused`, `resumed`, `complete` or `archived`.

---The event given to handlers of `channel_changed`.
---@class wb.ChannelChangedEvent: wb.Event
---@field kind "channel_changed" Its name.
---@field data wb.ChannelChangedData Ids and states.

---Ids and states.
---@class wb.MemberChangedData
---@field channel string The id of the channel.
---@field number integer The number of the channel.
---@field member string `persona:NAME` or `person:ID`.
---@field state string `active`, `muted`, `left` or `chair`.

---The event given to handlers of `member_changed`.
---@class wb.MemberChangedEvent: wb.Event
---@field kind "member_changed" Its name.
---@field data wb.MemberChangedData Ids and states.

---Ids and states.
---@class wb.ChannelMessageData
---@field channel string The id of the channel.
---@field number integer The number of the channel.
---@field sequence integer Its position in the channel.
---@field message_id string The message.
---@field type string `message`, `system`, `delegation` or `escalation`.

---The event given to handlers of `channel_message`.
---@class wb.ChannelMessageEvent: wb.Event
---@field kind "channel_message" Its name.
---@field data wb.ChannelMessageData Ids and states.

---Ids and states.
---@class wb.TurnStartedData
---@field turn_id string The turn.
---@field agent string The agent.
---@field channel? string The id of the channel that caused it.
---@field state string `running`, `answered`, `silent`, `interrupted`, `failed` or `lost`.

---The event given to handlers of `turn_started`.
---@class wb.TurnStartedEvent: wb.Event
---@field kind "turn_started" Its name.
---@field data wb.TurnStartedData Ids and states.

---Ids and states.
---@class wb.TurnEndedData
---@field turn_id string The turn.
---@field agent string The agent.
---@field channel? string The id of the channel that caused it.
---@field state string `running`, `answered`, `silent`, `interrupted`, `failed` or `lost`.

---The event given to handlers of `turn_ended`.
---@class wb.TurnEndedEvent: wb.Event
---@field kind "turn_ended" Its name.
---@field data wb.TurnEndedData Ids and states.

---Ids and states.
---@class wb.TurnHeldData
---@field turn_id string The turn.
---@field agent string The agent.
---@field channel? string The id of the channel that caused it.
---@field state string `running`, `answered`, `silent`, `interrupted`, `failed` or `lost`.

---The event given to handlers of `turn_held`.
---@class wb.TurnHeldEvent: wb.Event
---@field kind "turn_held" Its name.
---@field data wb.TurnHeldData Ids and states.

---Ids and states.
---@class wb.HandoffChangedData
---@field id string The handover.
---@field agent string The agent that is replaced.
---@field persona string Its persona.
---@field state string `asked`, `written`, `seated` or `failed`.
---@field successor? string The agent that takes over.

---The event given to handlers of `handoff_changed`.
---@class wb.HandoffChangedEvent: wb.Event
---@field kind "handoff_changed" Its name.
---@field data wb.HandoffChangedData Ids and states.

---Where the site's files are.
---@class wb.SiteFields
---@field root? string Folder of the git repository that holds the Sources. Default: `.`.
---@field data? string Folder of the database, the socket and the jobs. Commands find it through the script. Default: `./data`.
---@field listen? string Loopback address and port; 0 picks a port. Default: `127.0.0.1:7180`.
---@field sources? string[] Globs of the tracked files that are Sources; a leading `!` excludes files. Default: `**/*.md`.
---@field wb_agent? string The agent's client, if it is not next to the running program.
---@field public_hosts? string[] Host names under which a proxy publishes the site.
---@field name? string Name of the site on its pages; the name of its folder by default.

---Author and committer of the site's commits.
---@class wb.IdentityFields
---@field author_name string Author's name.
---@field author_email string Author's mail address.
---@field committer_name? string Committer's name; the author's by default.
---@field committer_email? string Committer's mail address; the author's by default.

---What all jobs may spend per day (UTC).
---@class wb.LimitsFields.Daily
---@field cost_usd? number US dollars, as the agents report them.
---@field tokens? number Tokens read and written, including cached ones.
---@field time? wb.Duration Total time of jobs from start to end.

---What the jobs that each person requests may spend per day (UTC). Handlers, schedules and webhooks are not people.
---@class wb.LimitsFields.DailyPerson
---@field cost_usd? number US dollars, as the agents report them.
---@field tokens? number Tokens read and written, including cached ones.
---@field time? wb.Duration Total time of jobs from start to end.

---Bounds on agents in channels talking without a person.
---@class wb.LimitsFields.Channels
---@field hops? integer Longest chain of replies to replies; 8 by default.
---@field without_person? integer Messages of agents since a person last wrote; 20 by default.
---@field per_root? integer Messages of one agent in one chain of replies; 6 by default.
---@field pair? integer Messages of one agent per minute; 10 by default.
---@field channel? integer Messages of all agents per minute; 30 by default.
---@field members? integer Members of a channel; 20 by default.
---@field starts? integer Agents that agents may start until a person writes again; 2 by default.

---Bounds on what runs and what it may spend.
---@class wb.LimitsFields
---@field jobs? integer Most jobs that run at once. Default: `1`.
---@field agents? integer Most long-running agents at once, in addition to `jobs`; 1 to 200. Default: `8`.
---@field grace? wb.Duration Time from the first signal to KILL. Default: `5s`.
---@field lanes? table<string, integer> Jobs that may run at once in a lane, by the name of its input.
---@field daily? wb.LimitsFields.Daily What all jobs may spend per day (UTC).
---@field daily_person? wb.LimitsFields.DailyPerson What the jobs that each person requests may spend per day (UTC). Handlers, schedules and webhooks are not people.
---@field script_jobs? integer Jobs, and messages, per handler and hour. Default: `200`.
---@field channels? wb.LimitsFields.Channels Bounds on agents in channels talking without a person.

---US dollars per million tokens; needed for limits in dollars.
---@class wb.EngineFields.Price
---@field input number Input tokens.
---@field output number Output tokens.
---@field cache_read? number Tokens read from a cache; as `input` by default.
---@field cache_write? number Tokens written to a cache; as `input` by default.

---How an agent is run.
---@class wb.EngineFields
---@field type "process"|"builtin"|"stream"|"terminal"|"anthropic"|"gateway" A program, a built-in engine, a long-running program on a pipe or in a terminal, or a model that this one asks for the assistant, with a key or with subscriptions.
---@field command? string[] Program and arguments of a process; `{{wb_agent}}` is the path of `wb-agent`.
---@field prompt? "stdin"|"argument" How a process receives its prompt.
---@field reads? "claude-stream-json"|"codex-jsonl"|"opencode-json"|"gemini-stream-json"|"plain" Form of the output, for telemetry.
---@field env? table<string, string|wb.Secret> Environment variables to set: texts or secrets.
---@field on_rate_limit? "hold"|"go_on" Whether its other jobs wait while its provider limits the rate. Default: `hold`.
---@field session? string[] Arguments that name a new session.
---@field resume? string[] Arguments that resume a session, so that a job can wait for an approval without a process.
---@field asks? string[] Arguments that make it ask for permission before it uses a tool, for kinds that may ask.
---@field speaks? "claude-stream-json"|"codex-app-server"|"pi-rpc"|"lines" Protocol of a stream, in both directions.
---@field proof_wait? wb.Duration Longest wait until a long-running agent shows that it received its input; 60s by default.
---@field system? string[] Arguments that pass a long-running agent its system prompt.
---@field hooks? string[] Arguments that install our hooks in a program in a terminal; they report its turns.
---@field submit? string[] Keys that submit the input in a terminal, in order of preference; these two by default.
---@field input? string Prefix of a terminal's input line: nothing is pasted into an unfinished draft.
---@field ready? string Text on the screen of a terminal while it accepts input; without it, its first hook counts.
---@field proof? "hooks"|"screen" What confirms that a program in a terminal received its input: its hooks, or its screen if it has none (needs `input`).
---@field trusts? string[] Configuration files in the repository that its agent may obey, although its command does not exclude them; any other such file keeps its jobs from starting.
---@field provider? string Whose subscription a gateway uses: `openai-codex` or `github-copilot`.
---@field model? string The provider's name for the model; it has no default.
---@field key? wb.Secret The API key, which is billed for every answer.
---@field base_url? string Base URL of the model's API; http only on this machine.
---@field max_output? number Most tokens in one step of an answer, including thinking; 8192 by default.
---@field context? number Context window of the model in tokens; 200000 by default.
---@field thinking? string How much a model thinks before it answers: `off`, `low`, `medium` or `high`, or a number of tokens for older models; `off` by default.
---@field price? wb.EngineFields.Price US dollars per million tokens; needed for limits in dollars.

---What jobs of this kind may spend per day (UTC).
---@class wb.KindFields.Daily
---@field cost_usd? number US dollars, as the agents report them.
---@field tokens? number Tokens read and written, including cached ones.
---@field time? wb.Duration Total time of jobs from start to end.

---A kind of job.
---@class wb.KindFields
---@field about string What it does, for people.
---@field engine string|wb.Engine The engine that runs its agent.
---@field skill? string Folder of the skill, with a SKILL.md.
---@field prompt? string|fun(job: wb.PromptValues): string The prompt, with `{{{{` for a literal `{{`; required unless the engine is built in.
---@field inputs? table<string, wb.Input> The inputs of a job.
---@field lane? string|fun(inputs: table<string, any>): string? Input whose value only one job at a time may work on.
---@field on_busy? "reject"|"queue" What happens if the lane is occupied. Default: `queue`.
---@field max_running? integer Most jobs of this kind that run at once.
---@field priority? number Priority among queued jobs, -100 to 100: higher starts earlier.
---@field daily? wb.KindFields.Daily What jobs of this kind may spend per day (UTC).
---@field produces? "proposal"|"perspective"|"message"|"result"|"topic" What a job must produce to succeed.
---@field sees? "inputs"|"site" What its agents may read: only their inputs, or every source and topic. Default: `inputs`.
---@field asks? boolean Whether its agents may ask people for approvals (`wb-agent approval create`). Default: `false`.
---@field permission_wait? wb.Duration How long an engine with `asks` waits for a decision on a tool call before its job is parked. Default: `10m`.
---@field verify? fun(job: wb.ProducedJob): string|boolean|nil An additional check of the result, after that of `produces`.
---@field retry? fun(job: wb.FailedJob): string|boolean|nil Whether and when a failed job is retried.
---@field timeout wb.Duration Longest run.
---@field start? wb.Duration Longest wait for the first output; 30s by default if the engine reads JSON, 4m for opencode.
---@field idle? wb.Duration Longest silence outside tool calls; 3m by default if the engine reads JSON.
---@field linger? wb.Duration Longest wait for the exit after the final result. Default: `10s`.
---@field on_server_loss? "kill"|"keep" Whether its jobs end with the server, or go on for up to a day until the next one takes them over. Default: `kill`.
---@field was? string Previous name of the kind: jobs queued under it are kept, and its caps count what ran under it.
---@field prepare? string|string[] Command to run before the agent, without a token; if it fails, so does the job.
---@field cleanup? string|string[] Command to run after the agent, however it ended, even after a crash; it may run twice.
---@field hook_timeout? wb.Duration Longest run of `prepare` or `cleanup`, up to 10m. Default: `60s`.
---@field workspace? "shared"|"worktree" Where the agent works: in the site's folder, or in a git worktree of its own. Default: `shared`.
---@field repo? string Repository of the worktrees; the site's by default.

---What jobs of this kind may spend per day (UTC).
---@class wb.InboxFields.Daily
---@field cost_usd? number US dollars, as the agents report them.
---@field tokens? number Tokens read and written, including cached ones.
---@field time? wb.Duration Total time of jobs from start to end.

---Jobs started by messages: each message to `topic:TEMPLATE/NAME` starts an agent.
---@class wb.InboxFields
---@field about string What it does, for people.
---@field engine string|wb.Engine The engine that runs its agent.
---@field skill? string Folder of the skill, with a SKILL.md.
---@field prompt? string|fun(job: wb.PromptValues): string The prompt; the skill, `{{banner}}` and `{{payload}}` by default.
---@field schema? string JSON schema of the payload: a file below the script.
---@field reply_schema? string JSON schema of the reply: a file below the script.
---@field concurrency? integer Most instances at once, 1 to 64. Default: `1`.
---@field priority? number Priority among queued jobs, -100 to 100: higher starts earlier.
---@field daily? wb.InboxFields.Daily What jobs of this kind may spend per day (UTC).
---@field asks? boolean Whether its agents may ask people for approvals (`wb-agent approval create`). Default: `false`.
---@field permission_wait? wb.Duration How long an engine with `asks` waits for a decision on a tool call before its job is parked. Default: `10m`.
---@field verify? fun(job: wb.ProducedJob): string|boolean|nil An additional check of the result, after that of `produces`.
---@field retry? fun(job: wb.FailedJob): string|boolean|nil Whether and when a failed job is retried.
---@field timeout? wb.Duration Longest run. Default: `45m`.
---@field first_output? wb.Duration Longest wait for the first output; 30s by default if the engine reads JSON, 4m for opencode.
---@field idle? wb.Duration Longest silence outside tool calls; 3m by default if the engine reads JSON.
---@field linger? wb.Duration Longest wait for the exit after the final result. Default: `10s`.
---@field on_server_loss? "kill"|"keep" Whether its instances go on for up to a day after the server ends, until the next one takes them over; always "kill" for an engine of type "stream". Default: `keep`.
---@field on_lost? "fail"|"requeue"|"requeue_always" What happens after a crash: fail, retry if the run had not started, or always retry. Default: `fail`.
---@field prepare? string|string[] Command to run before the agent, without a token; if it fails, so does the job.
---@field cleanup? string|string[] Command to run after the agent, however it ended, even after a crash; it may run twice.
---@field hook_timeout? wb.Duration Longest run of `prepare` or `cleanup`, up to 10m. Default: `60s`.
---@field start? string|string[] Command to run instead of the engine's.
---@field workspace? "shared"|"worktree" Where the agent works: in the site's folder, or in a git worktree of its own. Default: `shared`.
---@field repo? string Repository of the worktrees; the site's by default.
---@field cwd_base? string Folder in which hooks start and below which worktrees are created.
---@field cwd_template? string Folder of an instance, created by `prepare` (`$WORKTREE_PATH`); may also use `{{cwd_base}}`.
---@field sends? string[] Addresses its agents may send to; people, agents and inboxes by default.
---@field monitor? string|wb.Kind Kind with the input `worker` of which a job watches each instance while it runs.
---@field after_turn? wb.Duration With an engine of type "stream": how long an instance without a verdict waits for another message after a turn. Default: `5m`.

---What jobs of this kind may spend per day (UTC).
---@class wb.AgentFields.Daily
---@field cost_usd? number US dollars, as the agents report them.
---@field tokens? number Tokens read and written, including cached ones.
---@field time? wb.Duration Total time of jobs from start to end.

---A long-running agent, reached at `agent:NAME`.
---@class wb.AgentFields
---@field about string Its purpose, for people.
---@field engine string|wb.Engine The engine that runs its agent.
---@field skill? string Folder of the skill, with a SKILL.md.
---@field prompt? string|fun(job: wb.PromptValues): string Its system prompt; the skill and `{{banner}}` by default.
---@field autostart? "never"|"on_message"|"always" When it is started: by a person, when a message arrives for it, or with the server. Default: `never`.
---@field restart? boolean Whether it is restarted when it ends unexpectedly. Default: `true`.
---@field on_server_loss? "kill"|"keep" Whether it keeps running for up to a day after the server ends, until the next server takes it over. Default: `keep`.
---@field probe_after? wb.Duration After which silence its process is checked, and its state is `unknown` if nothing proves it; at least 1m. Default: `30m`.
---@field asks? boolean Whether its agents may ask people for approvals (`wb-agent approval create`). Default: `false`.
---@field permission_wait? wb.Duration How long an engine with `asks` waits for a decision on a tool call before its job is parked. Default: `10m`.
---@field daily? wb.AgentFields.Daily What jobs of this kind may spend per day (UTC).
---@field sends? string[] Addresses it may send to; people, agents and inboxes by default.
---@field can_create_channel? boolean Whether it may create channels. Default: `false`.
---@field can_add_members? boolean Whether it may add members to its channel. Default: `false`.

---Jobs that are requested regularly.
---@class wb.ScheduleFields
---@field every? wb.Duration Time between two runs, counted from the first; either this or `at`.
---@field at? string Time of day; either this or `every`.
---@field days? string[] Days of the week for `at`; all by default.
---@field zone? string Time zone of `at`. Default: `local`.
---@field jitter? wb.Duration Delay of up to this long, so that not all start at once. Runs that fall due meanwhile are dropped: keep it below the interval.
---@field missed? "once"|"skip" What to do about runs missed while no server ran. Default: `once`.
---@field about? string Its purpose, for people.
---@field enqueue wb.Request|fun(time: wb.Due) The job: a kind with its inputs, or a function that requests jobs.

---Jobs requested by another program, which calls `/hooks/NAME`.
---@class wb.WebhookFields
---@field secret wb.Secret The secret that signs the calls.
---@field enqueue fun(call: wb.Call) The function that handles a call.
---@field about? string Its purpose, for people.

---The site's LinkedIn app, with which each person connects their own account.
---@class wb.AssistantFields.Linkedin
---@field client_id wb.Secret The app's client id.
---@field client_secret wb.Secret The app's secret.
---@field version string The version of LinkedIn's interface, as a year and a month. LinkedIn ends each after a year or so.
---@field redirect string Where LinkedIn leads people back to: this site's address with `/linkedin/callback`, exactly as the app lists it.
---@field reads_comments? boolean Whether the app has the permission `r_member_social`, so that comments can be read; false by default.

---Bounds of its runs.
---@class wb.AssistantFields.Limits
---@field run? wb.Duration Longest run; 45 minutes by default.
---@field idle? wb.Duration Longest silence; 90 seconds by default.
---@field prompt_kib? integer Longest prompt in KiB; 64 by default.
---@field output_kib? integer Longest answer in KiB; 1024 by default.
---@field confirm? wb.Duration How long a confirmation waits; 30m by default.
---@field tool_calls? integer Most tool calls per answer; 40 by default.
---@field steps? integer Most requests to a model per answer; 40 by default.
---@field cost_usd? number Most US dollars per answer, with an API key.
---@field running? integer Most answers in progress at once; 16 by default.
---@field running_person? integer Most answers in progress per person; 4 by default.

---Private conversations of each person with an assistant, at `/assistant`.
---@class wb.AssistantFields
---@field runtimes table<string, string|wb.Secret> The engine of each mode. `anthropic_api_key` calls a model with the site's key; `claude_code` runs Claude Code, with flags of ours, `gateway_subscription` asks a model with each person's own subscription.
---@field mode? string The default mode.
---@field fallback? boolean Whether `anthropic_api_key` answers if a person's subscription cannot be used; only before an answer has begun.
---@field persons? string[] Who may use it; everybody with write access by default.
---@field claude_code_persons? string[] Who may use the mode `claude_code`; nobody by default.
---@field tools? table<string, string|wb.Secret> Its tools, each with `allow` or `ask`; all tools by default (those of LinkedIn only with `linkedin`), none with `{}`.
---@field web_hosts? string[] Hosts whose pages `web_fetch` reads without a question; each by its whole name.
---@field linkedin? wb.AssistantFields.Linkedin The site's LinkedIn app, with which each person connects their own account.
---@field zone? string Time zone of the dates that it is told and that actions have. Default: `local`.
---@field claude_api? boolean Whether `/api/claude` exists, for clients that know only that interface.
---@field vaults? string Parent folder of the vaults, one per person, which the assistant works on; `vaults` in the data folder by default.
---@field vault_of? table<string, string|wb.Secret> Existing folders to use as vaults, by person.
---@field limits? wb.AssistantFields.Limits Bounds of its runs.

---Settings of all channels.
---@class wb.ChannelsFields
---@field primer? string A file with the introduction that an agent gets when it joins; it may use `{{channel}}`, `{{about}}`, `{{members}}`, `{{chair}}`, `{{intent}}` and `{{you}}`.
---@field footer? string Answers are cut off at this line.
---@field catch_up? integer Earlier messages shown to a new member; 1 to 50. Default: `10`.

---Default budget of a channel's agents: the channel is warned at two thirds and paused when it is used up.
---@class wb.ChannelTypeFields.Budget
---@field turns? integer Turns of its agents.
---@field tokens? number Tokens, as far as the engines report them.
---@field cost_usd? number US dollars, as far as the engines report them.

---Bounds on agents talking without a person; as in `wb.limits` by default.
---@class wb.ChannelTypeFields.Limits
---@field hops? integer Longest chain of replies to replies; 8 by default.
---@field without_person? integer Messages of agents since a person last wrote; 20 by default.
---@field per_root? integer Messages of one agent in one chain of replies; 6 by default.
---@field pair? integer Messages of one agent per minute; 10 by default.
---@field channel? integer Messages of all agents per minute; 30 by default.

---A type of channel; it replaces a built-in type of the same name.
---@class wb.ChannelTypeFields
---@field about string Its purpose.
---@field intent? string A file with the goal of its channels, for agents; `about` by default.
---@field speaks? "all"|"chair" Who may write. Default: `all`.
---@field wakes? "addressed"|"everything"|"nothing" Which messages wake an agent that is not mentioned. Default: `addressed`.
---@field budget? wb.ChannelTypeFields.Budget Default budget of a channel's agents: the channel is warned at two thirds and paused when it is used up.
---@field limits? wb.ChannelTypeFields.Limits Bounds on agents talking without a person; as in `wb.limits` by default.

---The fields of such an input.
---@class wb.TopicInput
---@field required? boolean Whether it is required. Default: `true`.
---@field about? string Its purpose, for people.

---The fields of such an input.
---@class wb.SourceInput
---@field from? string The Topic input that it is derived from.
---@field required? boolean Whether it is required. Default: `true`.
---@field about? string Its purpose, for people.
---@field new? boolean Whether it may name a Source that does not exist yet.

---The fields of such an input.
---@class wb.PersonaInput
---@field required? boolean Whether it is required. Default: `true`.
---@field about? string Its purpose, for people.

---The fields of such an input.
---@class wb.BlobInput
---@field from string The Source input whose version it is.
---@field about? string Its purpose, for people.

---The fields of such an input.
---@class wb.HashInput
---@field from string The persona input whose version it is.
---@field about? string Its purpose, for people.

---The fields of such an input.
---@class wb.LineInput
---@field required? boolean Whether it is required. Default: `true`.
---@field about? string Its purpose, for people.
---@field default? string|number|boolean The default value.

---The fields of such an input.
---@class wb.TextInput
---@field required? boolean Whether it is required. Default: `true`.
---@field about? string Its purpose, for people.
---@field default? string|number|boolean The default value.

---The fields of such an input.
---@class wb.NumberInput
---@field required? boolean Whether it is required. Default: `true`.
---@field about? string Its purpose, for people.
---@field default? string|number|boolean The default value.
---@field min? number Smallest number.
---@field max? number Largest number.

---The fields of such an input.
---@class wb.ChoiceInput
---@field choices string[] The allowed words.
---@field required? boolean Whether it is required. Default: `true`.
---@field about? string Its purpose, for people.
---@field default? string|number|boolean The default value.

---The fields of such an input.
---@class wb.FlagInput
---@field required? boolean Whether it is required. Default: `true`.
---@field about? string Its purpose, for people.
---@field default? string|number|boolean The default value.

---@class wb
local wb = {}

---@class wb.InputFunctions
wb.input = {}

---@class wb.SecretFunctions
wb.secret = {}

---@class wb.JsonFunctions
wb.json = {}

---@class wb.DateFunctions
wb.date = {}

---@class wb.LogFunctions
wb.log = {}

---Where the site's files are.
---@param fields wb.SiteFields
function wb.site(fields) end

---Author and committer of the site's commits.
---@param fields wb.IdentityFields
function wb.identity(fields) end

---Bounds on what runs and what it may spend.
---@param fields wb.LimitsFields
function wb.limits(fields) end

---How an agent is run.
---@param name string Small letters, digits, `-` and `_`.
---@return fun(fields: wb.EngineFields): wb.Engine
function wb.engine(name) end

---A kind of job.
---@param name string Small letters, digits, `-` and `_`.
---@return fun(fields: wb.KindFields): wb.Kind
function wb.kind(name) end

---Jobs started by messages: each message to `topic:TEMPLATE/NAME` starts an agent.
---@param name string TEMPLATE/NAME: letters, digits, `-` and `_`.
---@return fun(fields: wb.InboxFields): wb.Inbox
function wb.inbox(name) end

---A long-running agent, reached at `agent:NAME`.
---@param name string Small letters, digits, `-` and `_`.
---@return fun(fields: wb.AgentFields): wb.Agent
function wb.agent(name) end

---Jobs that are requested regularly.
---@param name string Small letters, digits, `-` and `_`.
---@return fun(fields: wb.ScheduleFields): wb.Schedule
function wb.schedule(name) end

---Jobs requested by another program, which calls `/hooks/NAME`.
---@param name string Small letters, digits, `-` and `_`.
---@return fun(fields: wb.WebhookFields): wb.Webhook
function wb.webhook(name) end

---Private conversations of each person with an assistant, at `/assistant`.
---@param fields wb.AssistantFields
function wb.assistant(fields) end

---Settings of all channels.
---@param fields wb.ChannelsFields
function wb.channels(fields) end

---A type of channel; it replaces a built-in type of the same name.
---@param name string Small letters, digits, `-` and `_`.
---@return fun(fields: wb.ChannelTypeFields): wb.ChannelType
function wb.channel_type(name) end

---@param fields? wb.TopicInput
---@return wb.Input
function wb.input.topic(fields) end

---@param fields? wb.SourceInput
---@return wb.Input
function wb.input.source(fields) end

---@param fields? wb.PersonaInput
---@return wb.Input
function wb.input.persona(fields) end

---@param fields wb.BlobInput
---@return wb.Input
function wb.input.blob(fields) end

---@param fields wb.HashInput
---@return wb.Input
function wb.input.hash(fields) end

---@param fields? wb.LineInput
---@return wb.Input
function wb.input.line(fields) end

---@param fields? wb.TextInput
---@return wb.Input
function wb.input.text(fields) end

---@param fields? wb.NumberInput
---@return wb.Input
function wb.input.number(fields) end

---@param fields wb.ChoiceInput
---@return wb.Input
function wb.input.choice(fields) end

---@param fields? wb.FlagInput
---@return wb.Input
function wb.input.flag(fields) end

---Declares the version of this interface that the script uses; must come first.
---@param version 1 The version.
function wb.api(version) end

---Calls a function after each event of this name.
---@param event wb.EventName The name of an event.
---@param handler fun(event: wb.Event) The function to call.
---@overload fun(event: "job_queued", handler: fun(event: wb.JobQueuedEvent))
---@overload fun(event: "job_started", handler: fun(event: wb.JobStartedEvent))
---@overload fun(event: "job_finished", handler: fun(event: wb.JobFinishedEvent))
---@overload fun(event: "job_parked", handler: fun(event: wb.JobParkedEvent))
---@overload fun(event: "topic_created", handler: fun(event: wb.TopicCreatedEvent))
---@overload fun(event: "topic_changed", handler: fun(event: wb.TopicChangedEvent))
---@overload fun(event: "topic_reattached", handler: fun(event: wb.TopicReattachedEvent))
---@overload fun(event: "message_posted", handler: fun(event: wb.MessagePostedEvent))
---@overload fun(event: "proposal_created", handler: fun(event: wb.ProposalCreatedEvent))
---@overload fun(event: "proposal_decided", handler: fun(event: wb.ProposalDecidedEvent))
---@overload fun(event: "proposal_conflicted", handler: fun(event: wb.ProposalConflictedEvent))
---@overload fun(event: "perspective_created", handler: fun(event: wb.PerspectiveCreatedEvent))
---@overload fun(event: "changes_decided", handler: fun(event: wb.ChangesDecidedEvent))
---@overload fun(event: "source_changed", handler: fun(event: wb.SourceChangedEvent))
---@overload fun(event: "sources_changed", handler: fun(event: wb.SourcesChangedEvent))
---@overload fun(event: "source_renamed", handler: fun(event: wb.SourceRenamedEvent))
---@overload fun(event: "config_reloaded", handler: fun(event: wb.ConfigReloadedEvent))
---@overload fun(event: "script_failed", handler: fun(event: wb.ScriptFailedEvent))
---@overload fun(event: "schedule_fired", handler: fun(event: wb.ScheduleFiredEvent))
---@overload fun(event: "engine_held", handler: fun(event: wb.EngineHeldEvent))
---@overload fun(event: "engine_released", handler: fun(event: wb.EngineReleasedEvent))
---@overload fun(event: "workspace_changed", handler: fun(event: wb.WorkspaceChangedEvent))
---@overload fun(event: "message_sent", handler: fun(event: wb.MessageSentEvent))
---@overload fun(event: "delivery_changed", handler: fun(event: wb.DeliveryChangedEvent))
---@overload fun(event: "agent_changed", handler: fun(event: wb.AgentChangedEvent))
---@overload fun(event: "person_changed", handler: fun(event: wb.PersonChangedEvent))
---@overload fun(event: "approval_created", handler: fun(event: wb.ApprovalCreatedEvent))
---@overload fun(event: "approval_decided", handler: fun(event: wb.ApprovalDecidedEvent))
---@overload fun(event: "chat_changed", handler: fun(event: wb.ChatChangedEvent))
---@overload fun(event: "channel_changed", handler: fun(event: wb.ChannelChangedEvent))
---@overload fun(event: "member_changed", handler: fun(event: wb.MemberChangedEvent))
---@overload fun(event: "channel_message", handler: fun(event: wb.ChannelMessageEvent))
---@overload fun(event: "turn_started", handler: fun(event: wb.TurnStartedEvent))
---@overload fun(event: "turn_ended", handler: fun(event: wb.TurnEndedEvent))
---@overload fun(event: "turn_held", handler: fun(event: wb.TurnHeldEvent))
---@overload fun(event: "handoff_changed", handler: fun(event: wb.HandoffChangedEvent))
function wb.on(event, handler) end

---Requests a job; it is queued once the function returns without an error.
---@param request wb.Request A kind with its inputs.
function wb.enqueue(request) end

---Sends a message to a person, an agent or an inbox, once the function returns without an error.
---@param message wb.Message A message.
function wb.send(message) end

---Returns the text of a file, which becomes part of the script.
---@param path string A path below the script's folder.
---@return string
function wb.file(path) end

---Returns a variable of the server's environment.
---@param name string A variable that holds no secret.
---@param default any? Returned if it is not set.
---@return any
function wb.env(name, default) end

---Refers to a secret in an environment variable, for `env` of an engine or for a webhook; read when it is used.
---@param name string A variable of the server.
---@return wb.Secret
function wb.secret.env(name) end

---Refers to a secret in a file, which is read when it is used.
---@param path string A file: absolute, or relative to the script's folder.
---@return wb.Secret
function wb.secret.file(path) end

---Encodes plain data as JSON.
---@param value any Plain data.
---@return string
function wb.json.encode(value) end

---Decodes JSON. In a list, `null` is `wb.json.null()`; as a field, it is nil.
---@param text string JSON of at most 256 KiB.
---@return any
function wb.json.decode(text) end

---Returns a new empty list: empty, it is `[]` as JSON, where `{}` is an object. Lists from JSON are like it.
---@return any[]
function wb.json.list() end

---Returns the value that stands for `null` in a list; it equals itself only.
---@return any
function wb.json.null() end

---Returns the time of the call (RFC 3339 in UTC); it does not change during the call.
---@return string
function wb.date.now() end

---Formats a time.
---@param at string A time (RFC 3339).
---@param pattern string Such as `%Y-%m-%d`, without widths.
---@param zone string? Such as `Europe/Berlin`; UTC by default.
---@return string
function wb.date.format(at, pattern, zone) end

---Adds a duration to a time.
---@param at string A time (RFC 3339).
---@param duration string Such as `1h`, or `-7d` to go back.
---@return string
function wb.date.add(at, duration) end

---Returns the seconds since 1970, for comparing times.
---@param at string A time (RFC 3339).
---@return integer
function wb.date.seconds(at) end

---Writes to the log if WB_LOG=debug is set.
---@param format any A format, as for `string.format`.
---@param ... any Values for its `%s` and `%d`.
function wb.log.debug(format, ...) end

---Writes to the server's log.
---@param format any A format, as for `string.format`.
---@param ... any Values for its `%s` and `%d`.
function wb.log.info(format, ...) end

---Writes a warning to the log.
---@param format any A format, as for `string.format`.
---@param ... any Values for its `%s` and `%d`.
function wb.log.warn(format, ...) end

---Writes an error to the log.
---@param format any A format, as for `string.format`.
---@param ... any Values for its `%s` and `%d`.
function wb.log.error(format, ...) end

return wb
