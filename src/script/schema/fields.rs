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
        doc: "Where the site's things are.",
    },
    Declaration {
        word: "identity",
        is_named: false,
        fields: &IDENTITY,
        doc: "Who writes the commits that an agent's text ends in.",
    },
    Declaration { word: "limits", is_named: false, fields: &LIMITS, doc: "What may run at once." },
    Declaration { word: "engine", is_named: true, fields: &ENGINE, doc: "How an agent is run." },
    Declaration { word: "kind", is_named: true, fields: &KIND, doc: "A sort of job." },
    Declaration {
        word: "inbox",
        is_named: true,
        fields: &INBOX,
        doc: "Messages as jobs: each message to `topic:TEMPLATE/NAME` starts an agent.",
    },
    Declaration {
        word: "agent",
        is_named: true,
        fields: &AGENT,
        doc: "An agent that lives on: it is spoken to at `agent:NAME`.",
    },
    Declaration {
        word: "schedule",
        is_named: true,
        fields: &SCHEDULE,
        doc: "A job that is made by itself, again and again.",
    },
    Declaration {
        word: "webhook",
        is_named: true,
        fields: &WEBHOOK,
        doc: "Calls of another program, as jobs: it is reached at `/hooks/NAME`.",
    },
    Declaration {
        word: "assistant",
        is_named: false,
        fields: &ASSISTANT,
        doc: "A conversation of each person with an agent of their own, at `/assistant`.",
    },
    Declaration {
        word: "channels",
        is_named: false,
        fields: &CHANNELS,
        doc: "What agents are told in channels.",
    },
    Declaration {
        word: "channel_type",
        is_named: true,
        fields: &CHANNEL_TYPE,
        doc: "A type of channel beside those that are there; of the same name, in place of one.",
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
        "Folder of the database, the socket and the jobs.",
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
        "Globs of the tracked files that are Sources; one with `!` before it leaves files out.",
    ),
    field(
        "wb_agent",
        Shape::Path,
        r#""/opt/wiki-browser/wb-agent""#,
        "The agent's client, if not beside the running program.",
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
        "Name of the site on its pages; the name of its folder if it is not given.",
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

/// What can be capped on a day.
pub(in crate::script::schema) const DAILY: [Field; 3] = [
    field("cost_usd", Shape::Number, "20", "US dollars, as the agents tell them."),
    field(
        "tokens",
        Shape::Number,
        "2000000",
        "Tokens read and written, those from a cache included.",
    ),
    field("time", Shape::Duration, r#""4h""#, "Time of jobs from start to end, summed up."),
];

const LIMITS: [Field; 8] = [
    with("jobs", Shape::Count, "1", "4", "Most agents that run at once."),
    with(
        "agents",
        Shape::Count,
        "8",
        "12",
        "Most agents that live on at once, beside `jobs`; 1 to 200.",
    ),
    with("grace", Shape::Duration, "5s", r#""10s""#, "Whole budget from the first signal to KILL."),
    field(
        "lanes",
        Shape::Counts,
        "{ source_path = 2 }",
        "Jobs at once in a lane, by the name of its input.",
    ),
    field(
        "daily",
        Shape::Fields(&DAILY),
        r#"{ cost_usd = 20, time = "8h" }"#,
        "What all jobs may spend on a day (UTC).",
    ),
    field(
        "daily_person",
        Shape::Fields(&DAILY),
        r#"{ time = "1h" }"#,
        "What each person's jobs may spend on a day.",
    ),
    with(
        "script_jobs",
        Shape::Count,
        "200",
        "50",
        "Jobs that handlers may ask for within an hour, all of them together.",
    ),
    field(
        "channels",
        Shape::Fields(&CHANNEL_LIMITS),
        "{ hops = 8, members = 20 }",
        "How far agents in channels go on without a person.",
    ),
];

/// Words of `schedule.missed`.
const MISSED: [&str; 2] = ["once", "skip"];
/// What a request says of its job beside the inputs.
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
        "Days of the week for `at`; all without it.",
    ),
    with("zone", Shape::Line, "local", r#""Europe/Berlin""#, "Time zone of `at`."),
    field(
        "jitter",
        Shape::Duration,
        r#""5m""#,
        "Up to this much later, so that not all start at once.",
    ),
    with(
        "missed",
        Shape::Word(&MISSED),
        "once",
        r#""skip""#,
        "What times mean that no server served.",
    ),
    field("about", Shape::Line, r#""Look at the links""#, "What it is for, for people."),
    needed(
        "enqueue",
        Shape::Request(&DUE),
        r#"{ kind = "links" }"#,
        "The job: a kind with its inputs, or a function.",
    ),
];

const WEBHOOK: [Field; 3] = [
    needed(
        "secret",
        Shape::Secret,
        r#"wb.secret.env "ISSUES_SECRET""#,
        "What the caller signs with.",
    ),
    needed(
        "enqueue",
        Shape::Function(&CALLED),
        r#"function(call) wb.enqueue { kind = "issue", title = call.body.title } end"#,
        "What is done with a call.",
    ),
    field("about", Shape::Line, r#""Issues of the tracker""#, "What it is for, for people."),
];

const ASSISTANT: [Field; 9] = [
    needed(
        "runtimes",
        Shape::Texts,
        r#"{ anthropic_api_key = "sonnet", claude_code = "claude-chat" }"#,
        "The engine of each mode. `anthropic_api_key` asks a model with the site's key, \
         `claude_code` runs Claude Code, with flags of ours, `gateway_subscription` asks a model \
         with each person's own subscription.",
    ),
    field("mode", Shape::Line, r#""claude_code""#, "The mode of people who chose none."),
    field(
        "persons",
        Shape::Lines,
        r#"{ "ada", "bea" }"#,
        "Who may use it; everybody who may write without it.",
    ),
    field(
        "claude_code_persons",
        Shape::Lines,
        r#"{ "ada" }"#,
        "Who may use the mode `claude_code`; nobody without it.",
    ),
    field(
        "tools",
        Shape::Texts,
        r#"{ read_file = "allow", write_file = "ask" }"#,
        "What it may do: each tool with `allow` or `ask`; all tools without it, none with `{}`.",
    ),
    field(
        "web_hosts",
        Shape::Lines,
        r#"{ "docs.rs", "en.wikipedia.org" }"#,
        "Hosts whose pages `web_fetch` reads without a question; each by its whole name.",
    ),
    field(
        "vaults",
        Shape::Path,
        r#""./data/vaults""#,
        "The folder in which each person gets a vault, a folder that the assistant works on; \
         `vaults` in the data folder without it.",
    ),
    field(
        "vault_of",
        Shape::Texts,
        r#"{ ada = "/srv/notes/ada" }"#,
        "Folders of your own as the vaults of persons.",
    ),
    field(
        "limits",
        Shape::Fields(&ASSISTANT_LIMITS),
        r#"{ run = "45m", running = 16 }"#,
        "Bounds of its runs.",
    ),
];

const ASSISTANT_LIMITS: [Field; 10] = [
    field("run", Shape::Duration, r#""45m""#, "Longest answer; 45 minutes without it."),
    field("idle", Shape::Duration, r#""90s""#, "Longest silence; 90 seconds without it."),
    field("prompt_kib", Shape::Count, "64", "Longest question in KiB; 64 without it."),
    field("output_kib", Shape::Count, "1024", "Longest answer in KiB; 1024 without it."),
    field("confirm", Shape::Duration, r#""30m""#, "How long a question waits; 30m without it."),
    field("tool_calls", Shape::Count, "40", "Most calls of tools in an answer; 40 without it."),
    field("steps", Shape::Count, "40", "Most requests to a model in an answer; 40 without it."),
    field("cost_usd", Shape::Number, "2", "What an answer may cost, with an API key."),
    field("running", Shape::Count, "16", "Most answers at once; 16 without it."),
    field("running_person", Shape::Count, "4", "Most answers of one person at once; 4 without it."),
];

const PLAIN_INPUT: [Field; 2] = [REQUIRED, ABOUT];
const SOURCE_INPUT: [Field; 4] = [
    field("from", Shape::Line, r#""topic_id""#, "Topic input whose Source it is."),
    REQUIRED,
    ABOUT,
    field("new", Shape::Flag, "true", "Whether it may be a Source that does not exist yet."),
];
const BLOB_INPUT: [Field; 2] =
    [needed("from", Shape::Line, r#""source_path""#, "Source input whose version it is."), ABOUT];
const HASH_INPUT: [Field; 2] =
    [needed("from", Shape::Line, r#""persona_name""#, "Persona input whose version it is."), ABOUT];
const TEXT_INPUT: [Field; 3] = [
    REQUIRED,
    ABOUT,
    field("default", Shape::Scalar, r#""plain""#, "The value of a job that gives none."),
];
const FLAG_INPUT: [Field; 3] = [
    REQUIRED,
    ABOUT,
    field("default", Shape::Scalar, "false", "The value of a job that gives none."),
];
const NUMBER_INPUT: [Field; 5] = [
    REQUIRED,
    ABOUT,
    field("default", Shape::Scalar, "3", "The value of a job that gives none."),
    field("min", Shape::Number, "1", "Smallest number."),
    field("max", Shape::Number, "10", "Largest number."),
];
const CHOICE_INPUT: [Field; 4] = [
    needed("choices", Shape::Lines, r#"{ "short", "long" }"#, "The words to choose from."),
    REQUIRED,
    ABOUT,
    field("default", Shape::Scalar, r#""short""#, "The value of a job that gives none."),
];

const REQUIRED: Field = with("required", Shape::Flag, "true", "false", "Whether a job needs it.");
const ABOUT: Field =
    field("about", Shape::Line, r#""Written in the form""#, "What it is for, for people.");

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
