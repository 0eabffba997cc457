//! Every field of a kind and of an inbox: what they share is written once.

use crate::script::schema::fields::{DAILY, field, needed, with};
use crate::script::schema::functions::{LANE, RETRY, VERIFY};
use crate::script::schema::{Field, Shape};

/// Words of `kind.on_busy`.
const ON_BUSY: [&str; 2] = ["reject", "queue"];
/// Words of `kind.produces`.
const PRODUCES: [&str; 5] = ["proposal", "perspective", "message", "result", "topic"];
/// Words of `kind.sees`.
const SEES: [&str; 2] = ["inputs", "site"];
/// Words of `kind.on_server_loss`; only the first is built.
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
    needed("engine", Shape::Reference("engine"), r#""codex""#, "How its agent is run.");
const SKILL: Field =
    field("skill", Shape::Path, r#""skills/answer""#, "Folder of the skill, with a SKILL.md.");
const PRIORITY: Field = field(
    "priority",
    Shape::Number,
    "10",
    "Place among waiting jobs, -100 to 100: higher is earlier.",
);
const DAILY_CAP: Field = field(
    "daily",
    Shape::Fields(&DAILY),
    r#"{ time = "2h" }"#,
    "What jobs of this kind may spend on a day (UTC).",
);
const CHECKED_BY: Field = field(
    "verify",
    Shape::Function(&VERIFY),
    r#"function(job) return #job.produced.text > 20 or "too short" end"#,
    "A check of the result, in addition to that of `produces`.",
);
const REPEATED_BY: Field = field(
    "retry",
    Shape::Function(&RETRY),
    r#"function(job) return job.reason == "rate_limited" and "15m" end"#,
    "Whether a job that failed is repeated, and when.",
);
const IDLE: Field = field(
    "idle",
    Shape::Duration,
    r#""3m""#,
    "Longest silence outside of tool calls; 3m if the engine reads JSON.",
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
    "Longest wait of an engine with `asks` for the decision on a call; then its job is parked.",
);
const PREPARE: Field = field(
    "prepare",
    Shape::Command,
    r#""git fetch --quiet""#,
    "What runs before the agent, without a token; if it fails, so does the job.",
);
const CLEANUP: Field = field(
    "cleanup",
    Shape::Command,
    r#"{ "/bin/rm", "-rf", "scratch" }"#,
    "What runs after the agent, however it ended; also after a crash, so it may run twice.",
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
const REPO: Field = field(
    "repo",
    Shape::Path,
    r#""..""#,
    "Repository of the worktrees; that of the site by default.",
);

/// The fields of `wb.kind`.
pub(in crate::script::schema) const KIND: [Field; 27] = [
    ABOUT,
    BY_ENGINE,
    SKILL,
    field(
        "prompt",
        Shape::Prompt,
        r#""Use the {{skill}} skill on topic {{topic_id}}. Call {{wb_agent}}.""#,
        "The prompt, with `{{{{` for a literal `{{`; required unless the engine is builtin.",
    ),
    field(
        "inputs",
        Shape::Inputs,
        "{ topic_id = wb.input.topic(), tone = wb.input.line { required = false } }",
        "What a job is given.",
    ),
    field(
        "lane",
        Shape::LineOr(&LANE),
        r#""topic_id""#,
        "Input whose value is not worked on twice at once.",
    ),
    with(
        "on_busy",
        Shape::Word(&ON_BUSY),
        "queue",
        r#""reject""#,
        "What happens if the lane is taken.",
    ),
    field("max_running", Shape::Count, "2", "Most jobs of this kind at once."),
    PRIORITY,
    DAILY_CAP,
    field(
        "produces",
        Shape::Word(&PRODUCES),
        r#""message""#,
        "What a job must leave behind to be a success.",
    ),
    with(
        "sees",
        Shape::Word(&SEES),
        "inputs",
        r#""site""#,
        "What its agents can read: what they were given, or every source and topic.",
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
        "Longest wait for output; 30s if the engine reads JSON.",
    ),
    IDLE,
    LINGER,
    with(
        "on_server_loss",
        Shape::Word(&ON_SERVER_LOSS),
        "kill",
        r#""kill""#,
        "What a lost server means.",
    ),
    field(
        "was",
        Shape::Line,
        r#""review""#,
        "Name that the kind had before: its waiting jobs go on under the present one.",
    ),
    PREPARE,
    CLEANUP,
    HOOK_TIMEOUT,
    WORKSPACE,
    REPO,
];

/// The fields of `wb.inbox`. Its `start` is a command: the longest wait for a first output is
/// always that of the engine.
pub(in crate::script::schema) const INBOX: [Field; 26] = [
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
    IDLE,
    LINGER,
    with(
        "on_lost",
        Shape::Word(&ON_LOST),
        "fail",
        r#""requeue""#,
        "What happens after a crash: fail, requeue if its run had not started, or always requeue.",
    ),
    PREPARE,
    CLEANUP,
    HOOK_TIMEOUT,
    field(
        "start",
        Shape::Command,
        r#""cd \"$WORKTREE_PATH\" && exec my-agent < \"$MESSAGE_PATH\"""#,
        "What runs in place of the engine's command.",
    ),
    WORKSPACE,
    REPO,
    field(
        "cwd_base",
        Shape::Path,
        r#""/var/work/accounts""#,
        "Folder in which hooks start and below which worktrees are made.",
    ),
    field(
        "cwd_template",
        Shape::Path,
        r#""/var/work/accounts/wt-{{message_id}}""#,
        "Folder of an instance that `prepare` makes: `$WORKTREE_PATH`; knows `{{cwd_base}}` too.",
    ),
    field(
        "sends",
        Shape::Lines,
        r#"{ "person:*", "topic:accounts/*" }"#,
        "Addresses its agents may send to; people, agents and inboxes by default.",
    ),
];

/// The fields of `wb.agent`.
pub(in crate::script::schema) const AGENT: [Field; 13] = [
    needed("about", Shape::Line, r#""Knows the forge""#, "A description for people."),
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
        "When it starts: by a person, on the first message, or with the server.",
    ),
    with("restart", Shape::Flag, "true", "false", "Whether it starts again when it ends unasked."),
    with(
        "on_server_loss",
        Shape::Word(&ON_SERVER_LOSS),
        "keep",
        r#""kill""#,
        "Whether it keeps running without a server, up to a day, until the next one takes it over.",
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
    with("can_create_channel", Shape::Flag, "false", "true", "Whether it may make channels."),
    with(
        "can_add_members",
        Shape::Flag,
        "false",
        "true",
        "Whether it may add members to the channel in which it has a seat.",
    ),
];
