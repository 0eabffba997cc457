//! The fields of kinds, inboxes and agents; shared ones are defined once.

use crate::script::schema::fields::{DAILY, field, needed, with};
use crate::script::schema::functions::{LANE, RETRY, VERIFY};
use crate::script::schema::{Field, Shape};

/// Words of `kind.on_busy`.
const ON_BUSY: [&str; 2] = ["reject", "queue"];
/// Words of `kind.produces`.
const PRODUCES: [&str; 5] = ["proposal", "perspective", "message", "result", "topic"];
/// Words of `kind.sees`.
const SEES: [&str; 2] = ["inputs", "site"];
/// Words of `on_server_loss`.
const ON_SERVER_LOSS: [&str; 2] = ["kill", "keep"];
/// Words of `workspace`.
const WORKSPACES: [&str; 2] = ["shared", "worktree"];
/// Words of `agent.autostart`.
const AUTOSTART: [&str; 3] = ["never", "on_message", "always"];
/// Words of `inbox.on_lost`.
const ON_LOST: [&str; 3] = ["fail", "requeue", "requeue_always"];

const ABOUT: Field = needed(
    "about",
    Shape::Line,
    r#""Answer the last question of a topic""#,
    "What it does, for people.",
);
const BY_ENGINE: Field =
    needed("engine", Shape::Reference("engine"), r#""codex""#, "The engine that runs its agent.");
const SKILL: Field =
    field("skill", Shape::Path, r#""skills/answer""#, "Folder of the skill, with a SKILL.md.");
const PRIORITY: Field = field(
    "priority",
    Shape::Number,
    "10",
    "Priority among queued jobs, -100 to 100: higher starts earlier.",
);
const DAILY_CAP: Field = field(
    "daily",
    Shape::Fields(&DAILY),
    r#"{ time = "2h" }"#,
    "What jobs of this kind may spend per day (UTC).",
);
const CHECKED_BY: Field = field(
    "verify",
    Shape::Function(&VERIFY),
    r#"function(job) return #job.produced.text > 20 or "too short" end"#,
    "An additional check of the result, after that of `produces`.",
);
const REPEATED_BY: Field = field(
    "retry",
    Shape::Function(&RETRY),
    r#"function(job) return job.reason == "rate_limited" and "15m" end"#,
    "Whether and when a failed job is retried.",
);
const IDLE: Field = field(
    "idle",
    Shape::Duration,
    r#""3m""#,
    "Longest silence outside tool calls; 3m by default if the engine reads JSON.",
);
const LINGER: Field = with(
    "linger",
    Shape::Duration,
    "10s",
    r#""20s""#,
    "Longest wait for the exit after the final result.",
);
const ASKS: Field = with(
    "asks",
    Shape::Flag,
    "false",
    "true",
    "Whether its agents may ask people for approvals (`wb-agent approval create`).",
);
const PERMISSION_WAIT: Field = with(
    "permission_wait",
    Shape::Duration,
    "10m",
    r#""2m""#,
    "How long an engine with `asks` waits for a decision on a tool call before its job is parked.",
);
const PREPARE: Field = field(
    "prepare",
    Shape::Command,
    r#""git fetch --quiet""#,
    "Command to run before the agent, without a token; if it fails, so does the job.",
);
const CLEANUP: Field = field(
    "cleanup",
    Shape::Command,
    r#"{ "/bin/rm", "-rf", "scratch" }"#,
    "Command to run after the agent, however it ended, even after a crash; it may run twice.",
);
const HOOK_TIMEOUT: Field = with(
    "hook_timeout",
    Shape::Duration,
    "60s",
    r#""5m""#,
    "Longest run of `prepare` or `cleanup`, up to 10m.",
);
const WORKSPACE: Field = with(
    "workspace",
    Shape::Word(&WORKSPACES),
    "shared",
    r#""worktree""#,
    "Where the agent works: in the site's folder, or in a git worktree of its own.",
);
const REPO: Field =
    field("repo", Shape::Path, r#""..""#, "Repository of the worktrees; the site's by default.");

/// The fields of `wb.kind`.
pub(in crate::script::schema) const KIND: [Field; 27] = [
    ABOUT,
    BY_ENGINE,
    SKILL,
    field(
        "prompt",
        Shape::Prompt,
        r#""Use the {{skill}} skill on topic {{topic_id}}. Call {{wb_agent}}.""#,
        "The prompt, with `{{{{` for a literal `{{`; required unless the engine is built in.",
    ),
    field(
        "inputs",
        Shape::Inputs,
        "{ topic_id = wb.input.topic(), tone = wb.input.line { required = false } }",
        "The inputs of a job.",
    ),
    field(
        "lane",
        Shape::LineOr(&LANE),
        r#""topic_id""#,
        "Input whose value only one job at a time may work on.",
    ),
    with(
        "on_busy",
        Shape::Word(&ON_BUSY),
        "queue",
        r#""reject""#,
        "What happens if the lane is occupied.",
    ),
    field("max_running", Shape::Count, "2", "Most jobs of this kind that run at once."),
    PRIORITY,
    DAILY_CAP,
    field(
        "produces",
        Shape::Word(&PRODUCES),
        r#""message""#,
        "What a job must produce to succeed.",
    ),
    with(
        "sees",
        Shape::Word(&SEES),
        "inputs",
        r#""site""#,
        "What its agents may read: only their inputs, or every source and topic.",
    ),
    ASKS,
    PERMISSION_WAIT,
    CHECKED_BY,
    REPEATED_BY,
    needed("timeout", Shape::Duration, r#""5m""#, "Longest run."),
    field(
        "start",
        Shape::Duration,
        r#""30s""#,
        "Longest wait for the first output; 30s by default if the engine reads JSON, 4m for \
         opencode.",
    ),
    IDLE,
    LINGER,
    with(
        "on_server_loss",
        Shape::Word(&ON_SERVER_LOSS),
        "kill",
        r#""keep""#,
        "Whether its jobs end with the server, or go on for up to a day until the next one takes \
         them over.",
    ),
    field(
        "was",
        Shape::Line,
        r#""review""#,
        "Previous name of the kind: jobs queued under it are kept, and its caps count what ran \
         under it.",
    ),
    PREPARE,
    CLEANUP,
    HOOK_TIMEOUT,
    WORKSPACE,
    REPO,
];

/// The fields of `wb.inbox`. Its `start` is a command, so its clock is named `first_output`.
pub(in crate::script::schema) const INBOX: [Field; 30] = [
    needed("about", Shape::Line, r#""Tear an account down""#, "What it does, for people."),
    BY_ENGINE,
    SKILL,
    field(
        "prompt",
        Shape::Prompt,
        r#""{{banner}} Tear the account down: {{payload}}""#,
        "The prompt; the skill, `{{banner}}` and `{{payload}}` by default.",
    ),
    field(
        "schema",
        Shape::Path,
        r#""schemas/teardown.json""#,
        "JSON schema of the payload: a file below the script.",
    ),
    field(
        "reply_schema",
        Shape::Path,
        r#""schemas/teardown-reply.json""#,
        "JSON schema of the reply: a file below the script.",
    ),
    with("concurrency", Shape::Count, "1", "4", "Most instances at once, 1 to 64."),
    PRIORITY,
    DAILY_CAP,
    ASKS,
    PERMISSION_WAIT,
    CHECKED_BY,
    REPEATED_BY,
    with("timeout", Shape::Duration, "45m", r#""2h""#, "Longest run."),
    field(
        "first_output",
        Shape::Duration,
        r#""1m""#,
        "Longest wait for the first output; 30s by default if the engine reads JSON, 4m for \
         opencode.",
    ),
    IDLE,
    LINGER,
    with(
        "on_server_loss",
        Shape::Word(&ON_SERVER_LOSS),
        "keep",
        r#""kill""#,
        "Whether its instances go on for up to a day after the server ends, until the next one \
         takes them over; always \"kill\" for an engine of type \"stream\".",
    ),
    with(
        "on_lost",
        Shape::Word(&ON_LOST),
        "fail",
        r#""requeue""#,
        "What happens after a crash: fail, retry if the run had not started, or always retry.",
    ),
    PREPARE,
    CLEANUP,
    HOOK_TIMEOUT,
    field(
        "start",
        Shape::Command,
        r#""cd \"$WORKTREE_PATH\" && exec my-agent < \"$MESSAGE_PATH\"""#,
        "Command to run instead of the engine's.",
    ),
    WORKSPACE,
    REPO,
    field(
        "cwd_base",
        Shape::Path,
        r#""/var/work/accounts""#,
        "Folder in which hooks start and below which worktrees are created.",
    ),
    field(
        "cwd_template",
        Shape::Path,
        r#""/var/work/accounts/wt-{{message_id}}""#,
        "Folder of an instance, created by `prepare` (`$WORKTREE_PATH`); may also use \
         `{{cwd_base}}`.",
    ),
    field(
        "sends",
        Shape::Lines,
        r#"{ "person:*", "topic:accounts/*" }"#,
        "Addresses its agents may send to; people, agents and inboxes by default.",
    ),
    field(
        "monitor",
        Shape::Reference("kind"),
        r#""accounts-monitor""#,
        "Kind with the input `worker` of which a job watches each instance while it runs.",
    ),
    with(
        "after_turn",
        Shape::Duration,
        "5m",
        r#""1m""#,
        "With an engine of type \"stream\": how long an instance without a verdict waits for \
         another message after a turn.",
    ),
];

/// The fields of `wb.agent`.
pub(in crate::script::schema) const AGENT: [Field; 14] = [
    needed("about", Shape::Line, r#""Knows the forge""#, "Its purpose, for people."),
    BY_ENGINE,
    SKILL,
    field(
        "prompt",
        Shape::Prompt,
        r#""{{banner}} You look after the forge.""#,
        "Its system prompt; the skill and `{{banner}}` by default.",
    ),
    with(
        "autostart",
        Shape::Word(&AUTOSTART),
        "never",
        r#""on_message""#,
        "When it is started: by a person, when a message arrives for it, or with the server.",
    ),
    with(
        "restart",
        Shape::Flag,
        "true",
        "false",
        "Whether it is restarted when it ends unexpectedly.",
    ),
    with(
        "on_server_loss",
        Shape::Word(&ON_SERVER_LOSS),
        "keep",
        r#""kill""#,
        "Whether it keeps running for up to a day after the server ends, until the next server \
         takes it over.",
    ),
    with(
        "probe_after",
        Shape::Duration,
        "30m",
        r#""10m""#,
        "After which silence its process is checked, and its state is `unknown` if nothing proves \
         it; at least 1m.",
    ),
    ASKS,
    PERMISSION_WAIT,
    DAILY_CAP,
    field(
        "sends",
        Shape::Lines,
        r#"{ "person:*", "agent:robbo" }"#,
        "Addresses it may send to; people, agents and inboxes by default.",
    ),
    with("can_create_channel", Shape::Flag, "false", "true", "Whether it may create channels."),
    with(
        "can_add_members",
        Shape::Flag,
        "false",
        "true",
        "Whether it may add members to its channel.",
    ),
];
