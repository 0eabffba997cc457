//! Every field of every declaration and of every input.

use crate::script::config::InputType;
use crate::script::schema::channel_fields::{CHANNEL_LIMITS, CHANNEL_TYPE, CHANNELS};
use crate::script::schema::engine_fields::ENGINE;
use crate::script::schema::functions::{CALLED, DUE};
use crate::script::schema::kind_fields::{AGENT, INBOX, KIND};
use crate::script::schema::{Declaration, Field, Shape};

/// A field that must be there.
pub(in crate::script::schema) const fn needed(
    name: &'static str,
    shape: Shape,
    example: &'static str,
    doc: &'static str,
) -> Field {
    Field { name, shape, is_required: true, default: None, example, doc }
}

/// A field without a default.
pub(in crate::script::schema) const fn field(
    name: &'static str,
    shape: Shape,
    example: &'static str,
    doc: &'static str,
) -> Field {
    Field { name, shape, is_required: false, default: None, example, doc }
}

/// A field with a default.
pub(in crate::script::schema) const fn with(
    name: &'static str,
    shape: Shape,
    default: &'static str,
    example: &'static str,
    doc: &'static str,
) -> Field {
    Field { name, shape, is_required: false, default: Some(default), example, doc }
}

/// All declarations.
pub const DECLARATIONS: [Declaration; 12] = [
    Declaration {
        word: "site",
        is_named: false,
        fields: &SITE,
        doc: "Where the site's files are.",
    },
    Declaration {
        word: "identity",
        is_named: false,
        fields: &IDENTITY,
        doc: "Author and committer of the site's commits.",
    },
    Declaration {
        word: "limits",
        is_named: false,
        fields: &LIMITS,
        doc: "Bounds on what runs and what it may spend.",
    },
    Declaration { word: "engine", is_named: true, fields: &ENGINE, doc: "How an agent is run." },
    Declaration { word: "kind", is_named: true, fields: &KIND, doc: "A kind of job." },
    Declaration {
        word: "inbox",
        is_named: true,
        fields: &INBOX,
        doc: "Jobs started by messages: each message to `topic:TEMPLATE/NAME` starts an agent.",
    },
    Declaration {
        word: "agent",
        is_named: true,
        fields: &AGENT,
        doc: "A long-running agent, reached at `agent:NAME`.",
    },
    Declaration {
        word: "schedule",
        is_named: true,
        fields: &SCHEDULE,
        doc: "Jobs that are requested regularly.",
    },
    Declaration {
        word: "webhook",
        is_named: true,
        fields: &WEBHOOK,
        doc: "Jobs requested by another program, which calls `/hooks/NAME`.",
    },
    Declaration {
        word: "assistant",
        is_named: false,
        fields: &ASSISTANT,
        doc: "Private conversations of each person with an assistant, at `/assistant`.",
    },
    Declaration {
        word: "channels",
        is_named: false,
        fields: &CHANNELS,
        doc: "Settings of all channels.",
    },
    Declaration {
        word: "channel_type",
        is_named: true,
        fields: &CHANNEL_TYPE,
        doc: "A type of channel; it replaces a built-in type of the same name.",
    },
];

const SITE: [Field; 7] = [
    with(
        "root",
        Shape::Path,
        ".",
        r#""..""#,
        "Folder of the git repository that holds the Sources.",
    ),
    with(
        "data",
        Shape::Path,
        "./data",
        r#""./data""#,
        "Folder of the database, the socket and the jobs. Commands find it through the script.",
    ),
    with(
        "listen",
        Shape::Line,
        "127.0.0.1:7180",
        r#""127.0.0.1:0""#,
        "Loopback address and port; 0 picks a port.",
    ),
    with(
        "sources",
        Shape::Lines,
        "**/*.md",
        r#"{ "docs/**/*.md", "README.md", "!docs/old/**" }"#,
        "Globs of the tracked files that are Sources; a leading `!` excludes files.",
    ),
    field(
        "wb_agent",
        Shape::Path,
        r#""/opt/wiki-browser/wb-agent""#,
        "The agent's client, if it is not next to the running program.",
    ),
    field(
        "public_hosts",
        Shape::Lines,
        r#"{ "wiki.example.org" }"#,
        "Host names under which a proxy publishes the site.",
    ),
    field(
        "name",
        Shape::Line,
        r#""Handbook""#,
        "Name of the site on its pages; the name of its folder by default.",
    ),
];

const IDENTITY: [Field; 4] = [
    needed("author_name", Shape::Line, r#""Wiki Agent""#, "Author's name."),
    needed("author_email", Shape::Line, r#""agent@wiki.invalid""#, "Author's mail address."),
    field(
        "committer_name",
        Shape::Line,
        r#""Wiki Server""#,
        "Committer's name; the author's by default.",
    ),
    field(
        "committer_email",
        Shape::Line,
        r#""server@wiki.invalid""#,
        "Committer's mail address; the author's by default.",
    ),
];

/// The measures of a daily cap.
pub(in crate::script::schema) const DAILY: [Field; 3] = [
    field("cost_usd", Shape::Number, "20", "US dollars, as the agents report them."),
    field("tokens", Shape::Number, "2000000", "Tokens read and written, including cached ones."),
    field("time", Shape::Duration, r#""4h""#, "Total time of jobs from start to end."),
];

const LIMITS: [Field; 8] = [
    with("jobs", Shape::Count, "1", "4", "Most jobs that run at once."),
    with(
        "agents",
        Shape::Count,
        "8",
        "12",
        "Most long-running agents at once, in addition to `jobs`; 1 to 200.",
    ),
    with("grace", Shape::Duration, "5s", r#""10s""#, "Time from the first signal to KILL."),
    field(
        "lanes",
        Shape::Counts,
        "{ source_path = 2 }",
        "Jobs that may run at once in a lane, by the name of its input.",
    ),
    field(
        "daily",
        Shape::Fields(&DAILY),
        r#"{ cost_usd = 20, time = "8h" }"#,
        "What all jobs may spend per day (UTC).",
    ),
    field(
        "daily_person",
        Shape::Fields(&DAILY),
        r#"{ time = "1h" }"#,
        "What the jobs that each person requests may spend per day (UTC). Handlers, schedules and \
         webhooks are not people.",
    ),
    with("script_jobs", Shape::Count, "200", "50", "Jobs, and messages, per handler and hour."),
    field(
        "channels",
        Shape::Fields(&CHANNEL_LIMITS),
        "{ hops = 8, members = 20 }",
        "Bounds on agents in channels talking without a person.",
    ),
];

/// Words of `schedule.missed`.
const MISSED: [&str; 2] = ["once", "skip"];
/// Fields of a message.
pub(crate) const MESSAGE_FIELDS: [&str; 5] =
    ["to", "payload", "reply_to", "in_reply_to", "category"];
/// Names in a request besides the inputs.
pub(crate) const REQUEST_FIELDS: [&str; 4] =
    ["kind", "priority", "not_before", "replace_proposals"];

const SCHEDULE: [Field; 8] = [
    field(
        "every",
        Shape::Duration,
        r#""6h""#,
        "Time between two runs, counted from the first; either this or `at`.",
    ),
    field("at", Shape::Line, r#""07:30""#, "Time of day; either this or `every`."),
    field(
        "days",
        Shape::Lines,
        r#"{ "monday", "thursday" }"#,
        "Days of the week for `at`; all by default.",
    ),
    with("zone", Shape::Line, "local", r#""Europe/Berlin""#, "Time zone of `at`."),
    field(
        "jitter",
        Shape::Duration,
        r#""5m""#,
        "Delay of up to this long, so that not all start at once. Runs that fall due meanwhile are \
         dropped: keep it below the interval.",
    ),
    with(
        "missed",
        Shape::Word(&MISSED),
        "once",
        r#""skip""#,
        "What to do about runs missed while no server ran.",
    ),
    field("about", Shape::Line, r#""Look at the links""#, "Its purpose, for people."),
    needed(
        "enqueue",
        Shape::Request(&DUE),
        r#"{ kind = "links" }"#,
        "The job: a kind with its inputs, or a function that requests jobs.",
    ),
];

const WEBHOOK: [Field; 3] = [
    needed(
        "secret",
        Shape::Secret,
        r#"wb.secret.env "ISSUES_SECRET""#,
        "The secret that signs the calls.",
    ),
    needed(
        "enqueue",
        Shape::Function(&CALLED),
        r#"function(call) wb.enqueue { kind = "issue", title = call.body.title } end"#,
        "The function that handles a call.",
    ),
    field("about", Shape::Line, r#""Issues of the tracker""#, "Its purpose, for people."),
];

const ASSISTANT: [Field; 13] = [
    needed(
        "runtimes",
        Shape::Texts,
        r#"{ anthropic_api_key = "sonnet", claude_code = "claude-chat" }"#,
        "The engine of each mode. `anthropic_api_key` calls a model with the site's key; \
         `claude_code` runs Claude Code, with flags of ours, `gateway_subscription` asks a model \
         with each person's own subscription.",
    ),
    field("mode", Shape::Line, r#""claude_code""#, "The default mode."),
    field(
        "fallback",
        Shape::Flag,
        "false",
        "Whether `anthropic_api_key` answers if a person's subscription cannot be used; only \
         before an answer has begun.",
    ),
    field(
        "persons",
        Shape::Lines,
        r#"{ "ada", "bea" }"#,
        "Who may use it; everybody with write access by default.",
    ),
    field(
        "claude_code_persons",
        Shape::Lines,
        r#"{ "ada" }"#,
        "Who may use the mode `claude_code`; nobody by default.",
    ),
    field(
        "tools",
        Shape::Texts,
        r#"{ read_file = "allow", write_file = "ask" }"#,
        "Its tools, each with `allow` or `ask`; all tools by default (those of LinkedIn only with \
         `linkedin`), none with `{}`.",
    ),
    field(
        "web_hosts",
        Shape::Lines,
        r#"{ "docs.rs", "en.wikipedia.org" }"#,
        "Hosts whose pages `web_fetch` reads without a question; each by its whole name.",
    ),
    field(
        "linkedin",
        Shape::Fields(&LINKEDIN),
        concat!(
            r#"{ client_id = wb.secret.env "LINKEDIN_ID", "#,
            r#"client_secret = wb.secret.env "LINKEDIN_SECRET", version = "202610", "#,
            r#"redirect = "https://wiki.example.org/linkedin/callback" }"#
        ),
        "The site's LinkedIn app, with which each person connects their own account.",
    ),
    with(
        "zone",
        Shape::Line,
        "local",
        r#""Europe/Berlin""#,
        "Time zone of the dates that it is told and that actions have.",
    ),
    field(
        "claude_api",
        Shape::Flag,
        "true",
        "Whether `/api/claude` exists, for clients that know only that interface.",
    ),
    field(
        "vaults",
        Shape::Path,
        r#""./data/vaults""#,
        "Parent folder of the vaults, one per person, which the assistant works on; `vaults` in \
         the data folder by default.",
    ),
    field(
        "vault_of",
        Shape::Texts,
        r#"{ ada = "/srv/notes/ada" }"#,
        "Existing folders to use as vaults, by person.",
    ),
    field(
        "limits",
        Shape::Fields(&ASSISTANT_LIMITS),
        r#"{ run = "45m", running = 16 }"#,
        "Bounds of its runs.",
    ),
];

const LINKEDIN: [Field; 5] = [
    needed("client_id", Shape::Secret, r#"wb.secret.env "LINKEDIN_ID""#, "The app's client id."),
    needed(
        "client_secret",
        Shape::Secret,
        r#"wb.secret.env "LINKEDIN_SECRET""#,
        "The app's secret.",
    ),
    needed(
        "version",
        Shape::Line,
        r#""202610""#,
        "The version of LinkedIn's interface, as a year and a month. LinkedIn ends each after a \
         year or so.",
    ),
    needed(
        "redirect",
        Shape::Line,
        r#""https://wiki.example.org/linkedin/callback""#,
        "Where LinkedIn leads people back to: this site's address with `/linkedin/callback`, \
         exactly as the app lists it.",
    ),
    field(
        "reads_comments",
        Shape::Flag,
        "true",
        "Whether the app has the permission `r_member_social`, so that comments can be read; false \
         by default.",
    ),
];

const ASSISTANT_LIMITS: [Field; 10] = [
    field("run", Shape::Duration, r#""45m""#, "Longest run; 45 minutes by default."),
    field("idle", Shape::Duration, r#""90s""#, "Longest silence; 90 seconds by default."),
    field("prompt_kib", Shape::Count, "64", "Longest prompt in KiB; 64 by default."),
    field("output_kib", Shape::Count, "1024", "Longest answer in KiB; 1024 by default."),
    field("confirm", Shape::Duration, r#""30m""#, "How long a confirmation waits; 30m by default."),
    field("tool_calls", Shape::Count, "40", "Most tool calls per answer; 40 by default."),
    field("steps", Shape::Count, "40", "Most requests to a model per answer; 40 by default."),
    field("cost_usd", Shape::Number, "2", "Most US dollars per answer, with an API key."),
    field("running", Shape::Count, "16", "Most answers in progress at once; 16 by default."),
    field(
        "running_person",
        Shape::Count,
        "4",
        "Most answers in progress per person; 4 by default.",
    ),
];

const PLAIN_INPUT: [Field; 2] = [REQUIRED, ABOUT];
const SOURCE_INPUT: [Field; 4] = [
    field("from", Shape::Line, r#""topic_id""#, "The Topic input that it is derived from."),
    REQUIRED,
    ABOUT,
    field("new", Shape::Flag, "true", "Whether it may name a Source that does not exist yet."),
];
const BLOB_INPUT: [Field; 2] = [
    needed("from", Shape::Line, r#""source_path""#, "The Source input whose version it is."),
    ABOUT,
];
const HASH_INPUT: [Field; 2] = [
    needed("from", Shape::Line, r#""persona_name""#, "The persona input whose version it is."),
    ABOUT,
];
const TEXT_INPUT: [Field; 3] =
    [REQUIRED, ABOUT, field("default", Shape::Scalar, r#""plain""#, "The default value.")];
const FLAG_INPUT: [Field; 3] =
    [REQUIRED, ABOUT, field("default", Shape::Scalar, "false", "The default value.")];
const NUMBER_INPUT: [Field; 5] = [
    REQUIRED,
    ABOUT,
    field("default", Shape::Scalar, "3", "The default value."),
    field("min", Shape::Number, "1", "Smallest number."),
    field("max", Shape::Number, "10", "Largest number."),
];
const CHOICE_INPUT: [Field; 4] = [
    needed("choices", Shape::Lines, r#"{ "short", "long" }"#, "The allowed words."),
    REQUIRED,
    ABOUT,
    field("default", Shape::Scalar, r#""short""#, "The default value."),
];

const REQUIRED: Field = with("required", Shape::Flag, "true", "false", "Whether it is required.");
const ABOUT: Field =
    field("about", Shape::Line, r#""Written in the form""#, "Its purpose, for people.");

/// Returns the fields of an input.
pub fn input_fields(ty: InputType) -> &'static [Field] {
    match ty {
        InputType::Topic | InputType::Persona => &PLAIN_INPUT,
        InputType::Source => &SOURCE_INPUT,
        InputType::Blob => &BLOB_INPUT,
        InputType::Hash => &HASH_INPUT,
        InputType::Line | InputType::Text => &TEXT_INPUT,
        InputType::Flag => &FLAG_INPUT,
        InputType::Number => &NUMBER_INPUT,
        InputType::Choice => &CHOICE_INPUT,
    }
}
