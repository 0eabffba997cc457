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

---What `wb.engine` returns; usable where the name is.
---@class wb.Engine
---@field package is_engine true

---What `wb.kind` returns; usable where the name is.
---@class wb.Kind
---@field package is_kind true

---What `wb.inbox` returns; usable where the name is.
---@class wb.Inbox
---@field package is_inbox true

---What `wb.agent` returns; usable where the name is.
---@class wb.Agent
---@field package is_agent true

---What `wb.schedule` returns; usable where the name is.
---@class wb.Schedule
---@field package is_schedule true

---What `wb.webhook` returns; usable where the name is.
---@class wb.Webhook
---@field package is_webhook true

---What `wb.channel_type` returns; usable where the name is.
---@class wb.ChannelType
---@field package is_channel_type true

---Something that has happened.
---@class wb.Event
---@field id integer The place in the log of events.
---@field at string When it happened (RFC 3339).
---@field kind wb.EventName The name of the event.
---@field subject string What it happened to: `job:ID`, `topic:ID`, `source:PATH`, ….
---@field actor string Who did it: `person:ID`, `job:ID`, `system`, ….
---@field data table Ids and states, by the event's name.
---@field job? wb.Job The job, for the events of jobs.

---A job, as it is when the handler is called.
---@class wb.Job
---@field id string The job.
---@field kind string Its kind.
---@field status wb.JobStatus Its status.
---@field source_path? string The Source it works on.
---@field topic_id? string The Topic it works on.
---@field persona_name? string The persona it speaks for.
---@field reason? wb.JobReason Why it ended so; nil for success.
---@field error_tail? string The end of its standard error; nil for success.
---@field summary? string The agent's last words.
---@field result any What the agent handed in by `finish`.
---@field inputs table<string, any> The values of its inputs.
---@field warnings string[] What should be known of a success.
---@field exit_code? integer The agent's exit status.
---@field signal? integer The signal that ended the agent.
---@field created_at string When it was accepted (RFC 3339).
---@field started_at? string When it was started.
---@field ending_at? string When its ending began.
---@field completed_at? string When it was settled.
---@field not_before? string Before this time it does not start.
---@field retry_at? string When its provider takes more, if it said so.
---@field retry_of? string The job that this one repeats.
---@field lane? string `NAME=VALUE`: jobs of one lane do not run at once.
---@field priority integer Higher starts earlier.
---@field requested_by string Who asked for it.
---@field cancelled_by? string Who cancelled it.
---@field cost_usd? number What its engine says it cost.
---@field usage? table Tokens and turns, as its engine tells.
---@field session_ref? string The engine's name for the session.
---@field config_digest string The script that it ran under.

---A job that has ended, with what it left.
---@class wb.ProducedJob: wb.Job
---@field produced wb.Produced What it left.

---What a job left, by `produces` of its kind.
---@class wb.Produced
---@field text string The text of a proposal, a perspective, a message or a reply.
---@field value any The result, or the reply of an inbox.
---@field topics wb.OpenedTopic[] The Topics that it opened.

---A Topic that a job opened.
---@class wb.OpenedTopic
---@field id string The Topic.
---@field source_path string The Source.
---@field title string What it is called.
---@field status string Whether it is open.

---A job that failed or took too long.
---@class wb.FailedJob: wb.Job
---@field attempt integer Which attempt it was, from 1.

---What a prompt can say; the inputs of the kind are there as well, each a text.
---@class wb.PromptValues
---@field job_id string The job.
---@field kind string Its kind.
---@field skill string The name of the kind's skill.
---@field root string The folder of the repository.
---@field wb_agent string The program with which an agent answers.
---@field folder string The folder of the script.
---@field [string] string

---A time of a schedule.
---@class wb.Due
---@field name string The schedule.
---@field planned string The time that was planned (RFC 3339).
---@field now string The time that it is (RFC 3339).

---A call of a webhook.
---@class wb.Call
---@field name string The webhook.
---@field event? string What the caller says has happened: `X-GitHub-Event` and its like.
---@field now string The time that it is (RFC 3339).
---@field body any The body, which is JSON.

---A job that is asked for; the inputs of its kind are there as well.
---@class wb.Request
---@field kind string|wb.Kind The kind of the job.
---@field priority? integer Higher starts earlier.
---@field not_before? string It does not start before: a time, or a duration like `10m`.
---@field replace_proposals? boolean Whether it may replace the open proposal of its Topic.
---@field [string] any

---Ids and states.
---@class wb.JobQueuedData
---@field id string The job.
---@field kind string Its kind.
---@field status wb.JobStatus Its status.
---@field source_path? string The Source it works on.
---@field topic_id? string The Topic it works on.

---What a handler of `job_queued` is given.
---@class wb.JobQueuedEvent: wb.Event
---@field kind "job_queued" Its name.
---@field data wb.JobQueuedData Ids and states.
---@field job wb.Job The job, as it is now.

---Ids and states.
---@class wb.JobStartedData
---@field id string The job.
---@field kind string Its kind.
---@field status wb.JobStatus Its status.
---@field source_path? string The Source it works on.
---@field topic_id? string The Topic it works on.

---What a handler of `job_started` is given.
---@class wb.JobStartedEvent: wb.Event
---@field kind "job_started" Its name.
---@field data wb.JobStartedData Ids and states.
---@field job wb.Job The job, as it is now.

---Ids and states.
---@class wb.JobFinishedData
---@field id string The job.
---@field kind string Its kind.
---@field status wb.JobStatus Its status.
---@field reason? wb.JobReason Why it ended so; nil for success.
---@field source_path? string The Source it works on.
---@field topic_id? string The Topic it works on.
---@field retry_at? string When its provider takes more, if it said so.

---What a handler of `job_finished` is given.
---@class wb.JobFinishedEvent: wb.Event
---@field kind "job_finished" Its name.
---@field data wb.JobFinishedData Ids and states.
---@field job wb.Job The job, as it is now.

---Ids and states.
---@class wb.JobParkedData
---@field id string The job.
---@field kind string Its kind.
---@field approval_id string What it waits for.

---What a handler of `job_parked` is given.
---@class wb.JobParkedEvent: wb.Event
---@field kind "job_parked" Its name.
---@field data wb.JobParkedData Ids and states.
---@field job wb.Job The job, as it is now.

---Ids and states.
---@class wb.TopicCreatedData
---@field topic_id string The Topic.
---@field source_path string The Source.
---@field is_global boolean Whether it is about the whole.

---What a handler of `topic_created` is given.
---@class wb.TopicCreatedEvent: wb.Event
---@field kind "topic_created" Its name.
---@field data wb.TopicCreatedData Ids and states.

---Ids and states.
---@class wb.TopicChangedData
---@field topic_id string The Topic.
---@field from string What it was.
---@field to string What it is.

---What a handler of `topic_changed` is given.
---@class wb.TopicChangedEvent: wb.Event
---@field kind "topic_changed" Its name.
---@field data wb.TopicChangedData Ids and states.

---Ids and states.
---@class wb.TopicReattachedData
---@field topic_id string The Topic.
---@field source_path string The Source.
---@field from string What it was.
---@field to string What it is.
---@field from_path? string The Source that it was about; nil for this one.

---What a handler of `topic_reattached` is given.
---@class wb.TopicReattachedEvent: wb.Event
---@field kind "topic_reattached" Its name.
---@field data wb.TopicReattachedData Ids and states.

---Ids and states.
---@class wb.MessagePostedData
---@field topic_id string The Topic.
---@field message_id string The message.
---@field sequence integer Its place in the Topic.

---What a handler of `message_posted` is given.
---@class wb.MessagePostedEvent: wb.Event
---@field kind "message_posted" Its name.
---@field data wb.MessagePostedData Ids and states.

---Ids and states.
---@class wb.ProposalCreatedData
---@field proposal_id string The proposal.
---@field topic_id string The Topic.
---@field job_id? string The job that handed it in.
---@field revision_number integer Its place among the revisions.
---@field source_path string The Source.

---What a handler of `proposal_created` is given.
---@class wb.ProposalCreatedEvent: wb.Event
---@field kind "proposal_created" Its name.
---@field data wb.ProposalCreatedData Ids and states.

---Ids and states.
---@class wb.ProposalDecidedData
---@field proposal_id string The proposal.
---@field topic_id string The Topic.
---@field status string What became of it.
---@field source_path string The Source.
---@field commit? string The commit, if it was approved.

---What a handler of `proposal_decided` is given.
---@class wb.ProposalDecidedEvent: wb.Event
---@field kind "proposal_decided" Its name.
---@field data wb.ProposalDecidedData Ids and states.

---Ids and states.
---@class wb.ProposalConflictedData
---@field proposal_id string The proposal.
---@field topic_id string The Topic.
---@field source_path string The Source.
---@field blob? string The Source's version that it conflicts with.

---What a handler of `proposal_conflicted` is given.
---@class wb.ProposalConflictedEvent: wb.Event
---@field kind "proposal_conflicted" Its name.
---@field data wb.ProposalConflictedData Ids and states.

---Ids and states.
---@class wb.PerspectiveCreatedData
---@field source_path string The Source.
---@field persona string The persona.
---@field source_sha string The Source's version.
---@field persona_sha string The persona's version.
---@field job_id string The job that made it.

---What a handler of `perspective_created` is given.
---@class wb.PerspectiveCreatedEvent: wb.Event
---@field kind "perspective_created" Its name.
---@field data wb.PerspectiveCreatedData Ids and states.

---Ids and states.
---@class wb.ChangesDecidedData
---@field id string The job.
---@field changes string `restored`, `kept` or `expired`.

---What a handler of `changes_decided` is given.
---@class wb.ChangesDecidedEvent: wb.Event
---@field kind "changes_decided" Its name.
---@field data wb.ChangesDecidedData Ids and states.

---Ids and states.
---@class wb.SourceChangedData
---@field path string The Source.
---@field blob? string Its version; nil if it is gone.
---@field commit? string The commit; nil for an edit that is not committed.
---@field branch? string The branch.
---@field proposal_id? string The proposal that was approved.

---What a handler of `source_changed` is given.
---@class wb.SourceChangedEvent: wb.Event
---@field kind "source_changed" Its name.
---@field data wb.SourceChangedData Ids and states.

---Ids and states.
---@class wb.SourcesChangedData
---@field count? integer How many, if that can be said.
---@field commit? string The commit; nil for an edit that is not committed.
---@field branch? string The branch.

---What a handler of `sources_changed` is given.
---@class wb.SourcesChangedEvent: wb.Event
---@field kind "sources_changed" Its name.
---@field data wb.SourcesChangedData Ids and states.

---Ids and states.
---@class wb.SourceRenamedData
---@field path string What it is called now.
---@field from string What it was called.
---@field commit? string The commit; nil for an edit that is not committed.
---@field branch? string The branch.
---@field topics integer How many Topics went with it.

---What a handler of `source_renamed` is given.
---@class wb.SourceRenamedEvent: wb.Event
---@field kind "source_renamed" Its name.
---@field data wb.SourceRenamedData Ids and states.

---Ids and states.
---@class wb.ConfigReloadedData
---@field generation integer The number of the generation that is in force now.
---@field digest string The digest of its files.
---@field changes string[] What is different: `kind.NAME`, `engine.NAME`, ….
---@field needs_restart string[] What takes effect after a restart only.
---@field removed_kinds string[] The kinds that are gone.

---What a handler of `config_reloaded` is given.
---@class wb.ConfigReloadedEvent: wb.Event
---@field kind "config_reloaded" Its name.
---@field data wb.ConfigReloadedData Ids and states.

---Ids and states.
---@class wb.ScriptFailedData
---@field function string `on.EVENT`, `kind.NAME.retry` or `schedule.NAME`.
---@field at string Its file and line.
---@field message string What is wrong, with file and line.
---@field cause string For what it was called.

---What a handler of `script_failed` is given.
---@class wb.ScriptFailedEvent: wb.Event
---@field kind "script_failed" Its name.
---@field data wb.ScriptFailedData Ids and states.

---Ids and states.
---@class wb.ScheduleFiredData
---@field schedule string The schedule.
---@field planned string The time that was planned.
---@field late_ms integer How much later it was served, in milliseconds.
---@field jobs string[] The jobs that were accepted.
---@field skipped? string Why the time was left out.
---@field error? string What is wrong, with file and line.

---What a handler of `schedule_fired` is given.
---@class wb.ScheduleFiredEvent: wb.Event
---@field kind "schedule_fired" Its name.
---@field data wb.ScheduleFiredData Ids and states.

---Ids and states.
---@class wb.EngineHeldData
---@field engine string The engine.
---@field until? string Until when, if that is known.
---@field job_id? string The job that was refused.

---What a handler of `engine_held` is given.
---@class wb.EngineHeldEvent: wb.Event
---@field kind "engine_held" Its name.
---@field data wb.EngineHeldData Ids and states.

---Ids and states.
---@class wb.EngineReleasedData
---@field engine string The engine.

---What a handler of `engine_released` is given.
---@class wb.EngineReleasedEvent: wb.Event
---@field kind "engine_released" Its name.
---@field data wb.EngineReleasedData Ids and states.

---Ids and states.
---@class wb.WorkspaceChangedData
---@field job_id string The job that it was made for.
---@field state string `making`, `ready`, `cleaning`, `gone` or `failed`.

---What a handler of `workspace_changed` is given.
---@class wb.WorkspaceChangedEvent: wb.Event
---@field kind "workspace_changed" Its name.
---@field data wb.WorkspaceChangedData Ids and states.

---Ids and states.
---@class wb.MessageSentData
---@field message_id string The message.
---@field to_class string Whom it is for: agent, instance, topic, person or channel.
---@field job_id? string The job that it started, if it went to an inbox.
---@field state string What became of it so far.

---What a handler of `message_sent` is given.
---@class wb.MessageSentEvent: wb.Event
---@field kind "message_sent" Its name.
---@field data wb.MessageSentData Ids and states.

---Ids and states.
---@class wb.DeliveryChangedData
---@field message_id string The message.
---@field state string What became of it.

---What a handler of `delivery_changed` is given.
---@class wb.DeliveryChangedEvent: wb.Event
---@field kind "delivery_changed" Its name.
---@field data wb.DeliveryChangedData Ids and states.

---Ids and states.
---@class wb.AgentChangedData
---@field name string The agent.
---@field state string `stopped`, `starting`, `idle`, `busy`, `blocked` or `failed`.
---@field job_id? string Its last start.

---What a handler of `agent_changed` is given.
---@class wb.AgentChangedEvent: wb.Event
---@field kind "agent_changed" Its name.
---@field data wb.AgentChangedData Ids and states.

---Ids and states.
---@class wb.PersonChangedData
---@field id string The person.
---@field change string What is different.

---What a handler of `person_changed` is given.
---@class wb.PersonChangedEvent: wb.Event
---@field kind "person_changed" Its name.
---@field data wb.PersonChangedData Ids and states.

---Ids and states.
---@class wb.ApprovalCreatedData
---@field id string The approval.
---@field channel string Its channel.
---@field sort string `request` or `permission`.
---@field job_id? string The job that asks.

---What a handler of `approval_created` is given.
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

---What a handler of `approval_decided` is given.
---@class wb.ApprovalDecidedEvent: wb.Event
---@field kind "approval_decided" Its name.
---@field data wb.ApprovalDecidedData Ids and states.

---Ids and states.
---@class wb.ChatChangedData
---@field session_id string The conversation.
---@field change string `added`, `message`, `run`, `changed`, `cleared` or `removed`.

---What a handler of `chat_changed` is given.
---@class wb.ChatChangedEvent: wb.Event
---@field kind "chat_changed" Its name.
---@field data wb.ChatChangedData Ids and states.

---Ids and states.
---@class wb.ChannelChangedData
---@field channel string The id of the channel.
---@field number integer The number of the channel.
---@field what string `created`, `changed`, `paused`, `resumed`, `complete` or `archived`.

---What a handler of `channel_changed` is given.
---@class wb.ChannelChangedEvent: wb.Event
---@field kind "channel_changed" Its name.
---@field data wb.ChannelChangedData Ids and states.

---Ids and states.
---@class wb.MemberChangedData
---@field channel string The id of the channel.
---@field number integer The number of the channel.
---@field member string `persona:NAME` or `person:ID`.
---@field state string `active`, `muted`, `left` or `chair`.

---What a handler of `member_changed` is given.
---@class wb.MemberChangedEvent: wb.Event
---@field kind "member_changed" Its name.
---@field data wb.MemberChangedData Ids and states.

---Ids and states.
---@class wb.ChannelMessageData
---@field channel string The id of the channel.
---@field number integer The number of the channel.
---@field sequence integer Its place in the channel.
---@field message_id string The message.
---@field type string `message`, `system`, `delegation` or `escalation`.

---What a handler of `channel_message` is given.
---@class wb.ChannelMessageEvent: wb.Event
---@field kind "channel_message" Its name.
---@field data wb.ChannelMessageData Ids and states.

---Ids and states.
---@class wb.TurnStartedData
---@field turn_id string The turn.
---@field agent string The agent.
---@field channel? string The id of the channel that caused it.
---@field state string `running`, `answered`, `silent`, `interrupted`, `failed` or `lost`.

---What a handler of `turn_started` is given.
---@class wb.TurnStartedEvent: wb.Event
---@field kind "turn_started" Its name.
---@field data wb.TurnStartedData Ids and states.

---Ids and states.
---@class wb.TurnEndedData
---@field turn_id string The turn.
---@field agent string The agent.
---@field channel? string The id of the channel that caused it.
---@field state string `running`, `answered`, `silent`, `interrupted`, `failed` or `lost`.

---What a handler of `turn_ended` is given.
---@class wb.TurnEndedEvent: wb.Event
---@field kind "turn_ended" Its name.
---@field data wb.TurnEndedData Ids and states.

---Ids and states.
---@class wb.TurnHeldData
---@field turn_id string The turn.
---@field agent string The agent.
---@field channel? string The id of the channel that caused it.
---@field state string `running`, `answered`, `silent`, `interrupted`, `failed` or `lost`.

---What a handler of `turn_held` is given.
---@class wb.TurnHeldEvent: wb.Event
---@field kind "turn_held" Its name.
---@field data wb.TurnHeldData Ids and states.

---Ids and states.
---@class wb.HandoffChangedData
---@field id string The handover.
---@field agent string The agent that leaves.
---@field persona string Its persona.
---@field state string `asked`, `written`, `seated` or `failed`.
---@field successor? string The agent that follows.

---What a handler of `handoff_changed` is given.
---@class wb.HandoffChangedEvent: wb.Event
---@field kind "handoff_changed" Its name.
---@field data wb.HandoffChangedData Ids and states.

---Where the site's things are.
---@class wb.SiteFields
---@field root? string Folder of the git repository that holds the Sources. Default: `.`.
---@field data? string Folder of the database, the socket and the jobs. Default: `./data`.
---@field listen? string Loopback address and port; 0 picks a port. Default: `127.0.0.1:7180`.
---@field sources? string[] Globs of the tracked files that are Sources; one with `!` before it leaves files out. Default: `**/*.md`.
---@field wb_agent? string The agent's client, if not beside the running program.
---@field public_hosts? string[] Host names under which a proxy publishes the site.
---@field name? string Name of the site on its pages; the name of its folder if it is not given.

---Who writes the commits that an agent's text ends in.
---@class wb.IdentityFields
---@field author_name string Author's name.
---@field author_email string Author's mail address.
---@field committer_name? string Committer's name; the author's by default.
---@field committer_email? string Committer's mail address; the author's by default.

---What all jobs may spend on a day (UTC).
---@class wb.LimitsFields.Daily
---@field cost_usd? number US dollars, as the agents tell them.
---@field tokens? number Tokens read and written, those from a cache included.
---@field time? wb.Duration Time of jobs from start to end, summed up.

---What each person's jobs may spend on a day.
---@class wb.LimitsFields.DailyPerson
---@field cost_usd? number US dollars, as the agents tell them.
---@field tokens? number Tokens read and written, those from a cache included.
---@field time? wb.Duration Time of jobs from start to end, summed up.

---How far agents in channels go on without a person.
---@class wb.LimitsFields.Channels
---@field hops? integer Longest chain of answers to answers; 8 without it.
---@field without_person? integer Messages of agents since a person spoke; 20 without it.
---@field per_root? integer Messages of one agent in one chain of causes; 6 without it.
---@field pair? integer Messages of one agent within a minute; 10 without it.
---@field channel? integer Messages of all agents within a minute; 30 without it.
---@field members? integer Members of a channel; 20 without it.

---What may run at once.
---@class wb.LimitsFields
---@field jobs? integer Most agents that run at once. Default: `1`.
---@field agents? integer Most agents that live on at once, beside `jobs`; 1 to 200. Default: `8`.
---@field grace? wb.Duration Whole budget from the first signal to KILL. Default: `5s`.
---@field lanes? table<string, integer> Jobs at once in a lane, by the name of its input.
---@field daily? wb.LimitsFields.Daily What all jobs may spend on a day (UTC).
---@field daily_person? wb.LimitsFields.DailyPerson What each person's jobs may spend on a day.
---@field script_jobs? integer Jobs that handlers may ask for within an hour, all of them together. Default: `200`.
---@field channels? wb.LimitsFields.Channels How far agents in channels go on without a person.

---US dollars for a million tokens; limits of money need it.
---@class wb.EngineFields.Price
---@field input number Tokens that are read.
---@field output number Tokens that are written.
---@field cache_read? number Tokens read from a cache; as `input` without it.
---@field cache_write? number Tokens kept in a cache; as `input` without it.

---How an agent is run.
---@class wb.EngineFields
---@field type "process"|"builtin"|"stream"|"terminal"|"anthropic"|"gateway" A program, a part of this one, a program that lives on in a pipe or in a terminal, or a model that this one asks for the assistant, with a key or with subscriptions.
---@field command? string[] Program and arguments of a process.
---@field prompt? "stdin"|"argument" How a process is given its prompt.
---@field reads? "claude-stream-json"|"codex-jsonl"|"opencode-json"|"gemini-stream-json"|"plain" Form of the output, for telemetry.
---@field env? table<string, string|wb.Secret> Variables that are set in its environment: texts, or secrets.
---@field on_rate_limit? "hold"|"go_on" Whether its other jobs wait when its provider takes no more. Default: `hold`.
---@field session? string[] Arguments that name a new session.
---@field resume? string[] Arguments that go on with a session: its jobs can wait for an approval without a process.
---@field asks? string[] Arguments that make it ask people before it uses a tool, for kinds that may ask.
---@field speaks? "claude-stream-json"|"lines" How a stream is spoken to, and how it answers.
---@field proof_wait? wb.Duration Longest wait until what lives on shows that it has what was written; 60s by default.
---@field system? string[] Arguments that bring what lives on what its agent is and what it may do.
---@field hooks? string[] Arguments that bring a program in a terminal our hooks, which tell of its turns.
---@field submit? string[] Keys that hand in what was typed in a terminal, the best first; these two by default.
---@field input? string What begins the line of a terminal in which one types: nothing is pasted to a draft.
---@field ready? string What stands on the screen of a terminal while it can be spoken to; its first hook says so without it.
---@field proof? "hooks"|"screen" What shows that a program in a terminal has what was typed: its hooks, or, of one without, its screen; needs `input`.
---@field trusts? string[] Files of the repository that its agent may obey, although no word of its command keeps them out; without it such a file keeps its jobs from starting.
---@field provider? string Whose subscription a gateway uses: `openai-codex` or `github-copilot`.
---@field model? string The model that is asked, as its provider names it; it has no default.
---@field key? wb.Secret The key to the model, which is billed for every answer.
---@field base_url? string Where the model is asked; http only on this machine.
---@field max_output? number Most tokens of one step of an answer, thinking included; 8192 without it.
---@field context? number Tokens that the model reads and writes at once; 200000 without it.
---@field thinking? string How much a model thinks before it answers: `off`, `low`, `medium` or `high`, or for older models the number of tokens; `off` without it.
---@field price? wb.EngineFields.Price US dollars for a million tokens; limits of money need it.

---What jobs of this kind may spend on a day (UTC).
---@class wb.KindFields.Daily
---@field cost_usd? number US dollars, as the agents tell them.
---@field tokens? number Tokens read and written, those from a cache included.
---@field time? wb.Duration Time of jobs from start to end, summed up.

---A sort of job.
---@class wb.KindFields
---@field about string What it does, for people.
---@field engine string|wb.Engine How its agent is run.
---@field skill? string Folder of the skill, with a SKILL.md.
---@field prompt? string|fun(job: wb.PromptValues): string What the agent is told, with `{{{{` for `{{` itself; needed unless the engine is builtin.
---@field inputs? table<string, wb.Input> What a job is given.
---@field lane? string|fun(inputs: table<string, any>): string? Input whose value is not worked on twice at once.
---@field on_busy? "reject"|"queue" What happens if the lane is taken. Default: `queue`.
---@field max_running? integer Most jobs of this kind at once.
---@field priority? number Place among waiting jobs, -100 to 100: higher is earlier.
---@field daily? wb.KindFields.Daily What jobs of this kind may spend on a day (UTC).
---@field produces? "proposal"|"perspective"|"message"|"result"|"topic" What a job must leave behind to be a success.
---@field sees? "inputs"|"site" What its agents may look at: what they were given, or every source and topic. Default: `inputs`.
---@field asks? boolean Whether its agents may ask people for approvals (`wb-agent approval create`). Default: `false`.
---@field permission_wait? wb.Duration Longest wait of an engine with `asks` for the decision on a call; then its job is parked. Default: `10m`.
---@field verify? fun(job: wb.ProducedJob): string|boolean|nil A check of the result, beside that of `produces`.
---@field retry? fun(job: wb.FailedJob): string|boolean|nil Whether a job that failed is repeated, and when.
---@field timeout wb.Duration Longest run.
---@field start? wb.Duration Longest wait for output; 30s if the engine reads JSON.
---@field idle? wb.Duration Longest silence outside of tool calls; 3m if the engine reads JSON.
---@field linger? wb.Duration Longest wait for the exit after the final result. Default: `10s`.
---@field on_server_loss? "kill"|"keep" What a lost server means. Default: `kill`.
---@field was? string Name that the kind had before: its waiting jobs go on under the present one.
---@field prepare? string|string[] What runs before the agent, without a token; if it fails, so does the job.
---@field cleanup? string|string[] What runs after the agent, however it ended; also after a crash, so it may run twice.
---@field hook_timeout? wb.Duration Longest run of `prepare` or `cleanup`, up to 10m. Default: `60s`.
---@field workspace? "shared"|"worktree" Where the agent works: in the site's folder, or in a git worktree of its own. Default: `shared`.
---@field repo? string Repository of the worktrees; that of the site by default.

---What jobs of this kind may spend on a day (UTC).
---@class wb.InboxFields.Daily
---@field cost_usd? number US dollars, as the agents tell them.
---@field tokens? number Tokens read and written, those from a cache included.
---@field time? wb.Duration Time of jobs from start to end, summed up.

---Messages as jobs: each message to `topic:TEMPLATE/NAME` starts an agent.
---@class wb.InboxFields
---@field about string What it does, for people.
---@field engine string|wb.Engine How its agent is run.
---@field skill? string Folder of the skill, with a SKILL.md.
---@field prompt? string|fun(job: wb.PromptValues): string What the agent is told; the skill, `{{banner}}` and `{{payload}}` by default.
---@field schema? string JSON schema of the payload: a file below the script.
---@field reply_schema? string JSON schema of the reply: a file below the script.
---@field concurrency? integer Most instances at once, 1 to 64. Default: `1`.
---@field priority? number Place among waiting jobs, -100 to 100: higher is earlier.
---@field daily? wb.InboxFields.Daily What jobs of this kind may spend on a day (UTC).
---@field asks? boolean Whether its agents may ask people for approvals (`wb-agent approval create`). Default: `false`.
---@field permission_wait? wb.Duration Longest wait of an engine with `asks` for the decision on a call; then its job is parked. Default: `10m`.
---@field verify? fun(job: wb.ProducedJob): string|boolean|nil A check of the result, beside that of `produces`.
---@field retry? fun(job: wb.FailedJob): string|boolean|nil Whether a job that failed is repeated, and when.
---@field timeout? wb.Duration Longest run. Default: `45m`.
---@field idle? wb.Duration Longest silence outside of tool calls; 3m if the engine reads JSON.
---@field linger? wb.Duration Longest wait for the exit after the final result. Default: `10s`.
---@field on_lost? "fail"|"requeue"|"requeue_always" What a crash means: it failed, or it is repeated if its run had not begun, or always. Default: `fail`.
---@field prepare? string|string[] What runs before the agent, without a token; if it fails, so does the job.
---@field cleanup? string|string[] What runs after the agent, however it ended; also after a crash, so it may run twice.
---@field hook_timeout? wb.Duration Longest run of `prepare` or `cleanup`, up to 10m. Default: `60s`.
---@field start? string|string[] What runs in place of the engine's command.
---@field workspace? "shared"|"worktree" Where the agent works: in the site's folder, or in a git worktree of its own. Default: `shared`.
---@field repo? string Repository of the worktrees; that of the site by default.
---@field cwd_base? string Folder in which hooks start and below which worktrees are made.
---@field cwd_template? string Folder of an instance that `prepare` makes: `$WORKTREE_PATH`; knows `{{cwd_base}}` too.
---@field sends? string[] Addresses its agents may send to; people, agents and inboxes by default.

---What jobs of this kind may spend on a day (UTC).
---@class wb.AgentFields.Daily
---@field cost_usd? number US dollars, as the agents tell them.
---@field tokens? number Tokens read and written, those from a cache included.
---@field time? wb.Duration Time of jobs from start to end, summed up.

---An agent that lives on: it is spoken to at `agent:NAME`.
---@class wb.AgentFields
---@field about string What it is for, for people.
---@field engine string|wb.Engine How its agent is run.
---@field skill? string Folder of the skill, with a SKILL.md.
---@field prompt? string|fun(job: wb.PromptValues): string What it is told about itself; the skill and `{{banner}}` by default.
---@field autostart? "never"|"on_message"|"always" When it is started: by a person, when something comes for it, or with the server. Default: `never`.
---@field restart? boolean Whether it starts again when it ends unasked. Default: `true`.
---@field on_server_loss? "kill"|"keep" Whether it goes on when the server ends, for a day, until the next one takes it over. Default: `keep`.
---@field asks? boolean Whether its agents may ask people for approvals (`wb-agent approval create`). Default: `false`.
---@field permission_wait? wb.Duration Longest wait of an engine with `asks` for the decision on a call; then its job is parked. Default: `10m`.
---@field daily? wb.AgentFields.Daily What jobs of this kind may spend on a day (UTC).
---@field sends? string[] Addresses it may send to; people, agents and inboxes by default.
---@field can_create_channel? boolean Whether it may make channels. Default: `false`.
---@field can_add_members? boolean Whether it may add members to the channel in which it has a seat. Default: `false`.

---A job that is made by itself, again and again.
---@class wb.ScheduleFields
---@field every? wb.Duration Time between two runs, counted from the first; either this or `at`.
---@field at? string Time of day; either this or `every`.
---@field days? string[] Days of the week for `at`; all without it.
---@field zone? string Time zone of `at`. Default: `local`.
---@field jitter? wb.Duration Up to this much later, so that not all start at once.
---@field missed? "once"|"skip" What times mean that no server served. Default: `once`.
---@field about? string What it is for, for people.
---@field enqueue wb.Request|fun(time: wb.Due) The job: a kind with its inputs, or a function.

---Calls of another program, as jobs: it is reached at `/hooks/NAME`.
---@class wb.WebhookFields
---@field secret wb.Secret What the caller signs with.
---@field enqueue fun(call: wb.Call) What is done with a call.
---@field about? string What it is for, for people.

---Bounds of its runs.
---@class wb.AssistantFields.Limits
---@field run? wb.Duration Longest answer; 45 minutes without it.
---@field idle? wb.Duration Longest silence; 90 seconds without it.
---@field prompt_kib? integer Longest question in KiB; 64 without it.
---@field output_kib? integer Longest answer in KiB; 1024 without it.
---@field confirm? wb.Duration How long a question waits; 30m without it.
---@field tool_calls? integer Most calls of tools in an answer; 40 without it.
---@field steps? integer Most requests to a model in an answer; 40 without it.
---@field cost_usd? number What an answer may cost, with an API key.
---@field running? integer Most answers at once; 16 without it.
---@field running_person? integer Most answers of one person at once; 4 without it.

---A conversation of each person with an agent of their own, at `/assistant`.
---@class wb.AssistantFields
---@field runtimes table<string, string|wb.Secret> The engine of each mode. `anthropic_api_key` asks a model with the site's key, `claude_code` runs Claude Code, with flags of ours, `gateway_subscription` asks a model with each person's own subscription.
---@field mode? string The mode of people who chose none.
---@field persons? string[] Who may use it; everybody who may write without it.
---@field claude_code_persons? string[] Who may use the mode `claude_code`; nobody without it.
---@field tools? table<string, string|wb.Secret> What it may do: each tool with `allow` or `ask`; all tools without it, none with `{}`.
---@field web_hosts? string[] Hosts whose pages `web_fetch` reads without a question; each by its whole name.
---@field vaults? string The folder in which each person gets a vault, a folder that the assistant works on; `vaults` in the data folder without it.
---@field vault_of? table<string, string|wb.Secret> Folders of your own as the vaults of persons.
---@field limits? wb.AssistantFields.Limits Bounds of its runs.

---What agents are told in channels.
---@class wb.ChannelsFields
---@field primer? string A file with what an agent is told once when it joins; it may name `{{channel}}`, `{{about}}`, `{{members}}`, `{{chair}}`, `{{intent}}` and `{{you}}`.
---@field footer? string What begins with this line is cut off the end of answers.
---@field catch_up? integer Messages that a newcomer is told; 1 to 50. Default: `10`.

---What the agents of a channel may spend, unless somebody says otherwise: it is told at two thirds, and pauses at the end.
---@class wb.ChannelTypeFields.Budget
---@field turns? integer Turns of agents.
---@field tokens? number Tokens, as far as the engines tell them.
---@field cost_usd? number US dollars, as far as the engines tell them.

---How far its agents go on without a person; otherwise as `wb.limits` says.
---@class wb.ChannelTypeFields.Limits
---@field hops? integer Longest chain of answers to answers; 8 without it.
---@field without_person? integer Messages of agents since a person spoke; 20 without it.
---@field per_root? integer Messages of one agent in one chain of causes; 6 without it.
---@field pair? integer Messages of one agent within a minute; 10 without it.
---@field channel? integer Messages of all agents within a minute; 30 without it.

---A type of channel beside those that are there; of the same name, in place of one.
---@class wb.ChannelTypeFields
---@field about string What it is for.
---@field intent? string A file with what its channels are to come to, for agents; `about` without it.
---@field speaks? "all"|"chair" Who may write. Default: `all`.
---@field wakes? "addressed"|"everything"|"nothing" Which messages wake an agent that nobody mentions. Default: `addressed`.
---@field budget? wb.ChannelTypeFields.Budget What the agents of a channel may spend, unless somebody says otherwise: it is told at two thirds, and pauses at the end.
---@field limits? wb.ChannelTypeFields.Limits How far its agents go on without a person; otherwise as `wb.limits` says.

---What is known of such an input.
---@class wb.TopicInput
---@field required? boolean Whether a job needs it. Default: `true`.
---@field about? string What it is for, for people.

---What is known of such an input.
---@class wb.SourceInput
---@field from? string Topic input whose Source it is.
---@field required? boolean Whether a job needs it. Default: `true`.
---@field about? string What it is for, for people.
---@field new? boolean Whether it may be a Source that does not exist yet.

---What is known of such an input.
---@class wb.PersonaInput
---@field required? boolean Whether a job needs it. Default: `true`.
---@field about? string What it is for, for people.

---What is known of such an input.
---@class wb.BlobInput
---@field from string Source input whose version it is.
---@field about? string What it is for, for people.

---What is known of such an input.
---@class wb.HashInput
---@field from string Persona input whose version it is.
---@field about? string What it is for, for people.

---What is known of such an input.
---@class wb.LineInput
---@field required? boolean Whether a job needs it. Default: `true`.
---@field about? string What it is for, for people.
---@field default? string|number|boolean The value of a job that gives none.

---What is known of such an input.
---@class wb.TextInput
---@field required? boolean Whether a job needs it. Default: `true`.
---@field about? string What it is for, for people.
---@field default? string|number|boolean The value of a job that gives none.

---What is known of such an input.
---@class wb.NumberInput
---@field required? boolean Whether a job needs it. Default: `true`.
---@field about? string What it is for, for people.
---@field default? string|number|boolean The value of a job that gives none.
---@field min? number Smallest number.
---@field max? number Largest number.

---What is known of such an input.
---@class wb.ChoiceInput
---@field choices string[] The words to choose from.
---@field required? boolean Whether a job needs it. Default: `true`.
---@field about? string What it is for, for people.
---@field default? string|number|boolean The value of a job that gives none.

---What is known of such an input.
---@class wb.FlagInput
---@field required? boolean Whether a job needs it. Default: `true`.
---@field about? string What it is for, for people.
---@field default? string|number|boolean The value of a job that gives none.

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

---Where the site's things are.
---@param fields wb.SiteFields
function wb.site(fields) end

---Who writes the commits that an agent's text ends in.
---@param fields wb.IdentityFields
function wb.identity(fields) end

---What may run at once.
---@param fields wb.LimitsFields
function wb.limits(fields) end

---How an agent is run.
---@param name string Small letters, digits, `-` and `_`.
---@return fun(fields: wb.EngineFields): wb.Engine
function wb.engine(name) end

---A sort of job.
---@param name string Small letters, digits, `-` and `_`.
---@return fun(fields: wb.KindFields): wb.Kind
function wb.kind(name) end

---Messages as jobs: each message to `topic:TEMPLATE/NAME` starts an agent.
---@param name string TEMPLATE/NAME: letters, digits, `-` and `_`.
---@return fun(fields: wb.InboxFields): wb.Inbox
function wb.inbox(name) end

---An agent that lives on: it is spoken to at `agent:NAME`.
---@param name string Small letters, digits, `-` and `_`.
---@return fun(fields: wb.AgentFields): wb.Agent
function wb.agent(name) end

---A job that is made by itself, again and again.
---@param name string Small letters, digits, `-` and `_`.
---@return fun(fields: wb.ScheduleFields): wb.Schedule
function wb.schedule(name) end

---Calls of another program, as jobs: it is reached at `/hooks/NAME`.
---@param name string Small letters, digits, `-` and `_`.
---@return fun(fields: wb.WebhookFields): wb.Webhook
function wb.webhook(name) end

---A conversation of each person with an agent of their own, at `/assistant`.
---@param fields wb.AssistantFields
function wb.assistant(fields) end

---What agents are told in channels.
---@param fields wb.ChannelsFields
function wb.channels(fields) end

---A type of channel beside those that are there; of the same name, in place of one.
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

---Says for which version of this interface the script is written; comes first.
---@param version 1 The version.
function wb.api(version) end

---Has a function called after each event of one name.
---@param event wb.EventName The name of an event.
---@param handler fun(event: wb.Event) What is called then.
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

---Asks for a job, which is accepted when the function has returned without an error.
---@param request wb.Request A kind with its inputs.
function wb.enqueue(request) end

---Returns the text of a file, which belongs to the script from then on.
---@param path string A path below the script's folder.
---@return string
function wb.file(path) end

---Returns a variable of the server's environment.
---@param name string A variable that holds no secret.
---@param default any? What is returned if it is not set.
---@return any
function wb.env(name, default) end

---Names a secret for `env` of an engine, or for a webhook; it is read when it is used.
---@param name string A variable of the server.
---@return wb.Secret
function wb.secret.env(name) end

---The same; the file is read when it is used.
---@param path string A file: absolute, or seen from the script's folder.
---@return wb.Secret
function wb.secret.file(path) end

---Writes plain data as JSON.
---@param value any Plain data.
---@return string
function wb.json.encode(value) end

---Reads JSON.
---@param text string JSON of at most 256 KiB.
---@return any
function wb.json.decode(text) end

---Returns the time of the call (RFC 3339 in UTC), which stands still during it.
---@return string
function wb.date.now() end

---Writes a time as people do.
---@param at string A time (RFC 3339).
---@param pattern string As in `%Y-%m-%d`, without widths.
---@param zone string? As in `Europe/Berlin`; UTC without it.
---@return string
function wb.date.format(at, pattern, zone) end

---Returns another time.
---@param at string A time (RFC 3339).
---@param duration string As in `1h`, and `-7d` to go back.
---@return string
function wb.date.add(at, duration) end

---Returns the seconds since 1970, to compare times with.
---@param at string A time (RFC 3339).
---@return integer
function wb.date.seconds(at) end

---Writes to the log if WB_LOG=debug is set.
---@param format any A text, as `string.format` takes it.
---@param ... any What stands for its `%s` and `%d`.
function wb.log.debug(format, ...) end

---Writes to the server's log.
---@param format any A text, as `string.format` takes it.
---@param ... any What stands for its `%s` and `%d`.
function wb.log.info(format, ...) end

---Writes a warning to the log.
---@param format any A text, as `string.format` takes it.
---@param ... any What stands for its `%s` and `%d`.
function wb.log.warn(format, ...) end

---Writes an error to the log.
---@param format any A text, as `string.format` takes it.
---@param ... any What stands for its `%s` and `%d`.
function wb.log.error(format, ...) end

return wb
