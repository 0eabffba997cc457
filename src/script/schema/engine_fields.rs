//! The fields of `wb.engine`.

use crate::script::config::output::Reads;
use crate::script::load::live_agent::{Proof, Speaks};
use crate::script::schema::fields::{field, needed, with};
use crate::script::schema::{Field, Shape};

/// Words of `engine.type`.
const ENGINE_TYPES: [&str; 6] =
    ["process", "builtin", "stream", "terminal", "anthropic", "gateway"];
/// Words of `engine.speaks`.
const SPEAKS: [&str; 4] = [
    Speaks::ALL[0].as_str(),
    Speaks::ALL[1].as_str(),
    Speaks::ALL[2].as_str(),
    Speaks::ALL[3].as_str(),
];
const PROOFS: [&str; 2] = [Proof::ALL[0].as_str(), Proof::ALL[1].as_str()];
/// Words of `engine.prompt`.
pub(crate) const PROMPT_BY: [&str; 2] = ["stdin", "argument"];
/// Words of `engine.reads`.
const READS: [&str; 5] = [
    Reads::ALL[0].as_str(),
    Reads::ALL[1].as_str(),
    Reads::ALL[2].as_str(),
    Reads::ALL[3].as_str(),
    Reads::ALL[4].as_str(),
];
/// Built-in engines.
pub(crate) const BUILTINS: [&str; 1] = ["suggestions"];

/// Words of `engine.on_rate_limit`.
const ON_RATE_LIMIT: [&str; 2] = ["hold", "go_on"];

pub(in crate::script::schema) const ENGINE: [Field; 26] = [
    needed(
        "type",
        Shape::Word(&ENGINE_TYPES),
        r#""process""#,
        "A program, a built-in engine, a long-running program on a pipe or in a terminal, or a \
         model that this one asks for the assistant, with a key or with subscriptions.",
    ),
    field(
        "command",
        Shape::Lines,
        r#"{ "codex", "exec", "--json" }"#,
        "Program and arguments of a process; `{{wb_agent}}` is the path of `wb-agent`.",
    ),
    field("prompt", Shape::Word(&PROMPT_BY), r#""stdin""#, "How a process receives its prompt."),
    field("reads", Shape::Word(&READS), r#""codex-jsonl""#, "Form of the output, for telemetry."),
    field(
        "env",
        Shape::Texts,
        r#"{ LANG = "C.UTF-8", API_KEY = wb.secret.env "API_KEY" }"#,
        "Environment variables to set: texts or secrets.",
    ),
    with(
        "on_rate_limit",
        Shape::Word(&ON_RATE_LIMIT),
        "hold",
        r#""go_on""#,
        "Whether its other jobs wait while its provider limits the rate.",
    ),
    field(
        "session",
        Shape::Lines,
        r#"{ "--session-id", "{{session}}" }"#,
        "Arguments that name a new session.",
    ),
    field(
        "resume",
        Shape::Lines,
        r#"{ "--resume", "{{session}}" }"#,
        "Arguments that resume a session, so that a job can wait for an approval without a \
         process.",
    ),
    field(
        "asks",
        Shape::Lines,
        r#"{ "--permission-prompt-tool=mcp__wb__permission", "--mcp-config={{mcp_config}}" }"#,
        "Arguments that make it ask for permission before it uses a tool, for kinds that may ask.",
    ),
    field(
        "speaks",
        Shape::Word(&SPEAKS),
        r#""lines""#,
        "Protocol of a stream, in both directions.",
    ),
    field(
        "proof_wait",
        Shape::Duration,
        r#""2m""#,
        "Longest wait until a long-running agent shows that it received its input; 60s by default.",
    ),
    field(
        "system",
        Shape::Lines,
        r#"{ "--append-system-prompt-file", "{{system_file}}" }"#,
        "Arguments that pass a long-running agent its system prompt.",
    ),
    field(
        "hooks",
        Shape::Lines,
        r#"{ "--settings", "{{hooks_file}}" }"#,
        "Arguments that install our hooks in a program in a terminal; they report its turns.",
    ),
    field(
        "submit",
        Shape::Lines,
        r#"{ "Enter", "C-m" }"#,
        "Keys that submit the input in a terminal, in order of preference; these two by default.",
    ),
    field(
        "input",
        Shape::Line,
        r#""❯""#,
        "Prefix of a terminal's input line: nothing is pasted into an unfinished draft.",
    ),
    field(
        "ready",
        Shape::Line,
        r#""? for shortcuts""#,
        "Text on the screen of a terminal while it accepts input; without it, its first hook \
         counts.",
    ),
    field(
        "proof",
        Shape::Word(&PROOFS),
        r#""hooks""#,
        "What confirms that a program in a terminal received its input: its hooks, or its screen \
         if it has none (needs `input`).",
    ),
    field(
        "trusts",
        Shape::Lines,
        r#"{ ".opencode/plugin" }"#,
        "Configuration files in the repository that its agent may obey, although its command \
         does not exclude them; any other such file keeps its jobs from starting.",
    ),
    field(
        "provider",
        Shape::Line,
        r#""openai-codex""#,
        "Whose subscription a gateway uses: `openai-codex` or `github-copilot`.",
    ),
    field(
        "model",
        Shape::Line,
        r#""claude-sonnet-4-5""#,
        "The provider's name for the model; it has no default.",
    ),
    field(
        "key",
        Shape::Secret,
        r#"wb.secret.env "ANTHROPIC_API_KEY""#,
        "The API key, which is billed for every answer.",
    ),
    field(
        "base_url",
        Shape::Line,
        r#""https://api.anthropic.com""#,
        "Base URL of the model's API; http only on this machine.",
    ),
    field(
        "max_output",
        Shape::Number,
        "8192",
        "Most tokens in one step of an answer, including thinking; 8192 by default.",
    ),
    field(
        "context",
        Shape::Number,
        "200000",
        "Context window of the model in tokens; 200000 by default.",
    ),
    field(
        "thinking",
        Shape::Line,
        r#""low""#,
        "How much a model thinks before it answers: `off`, `low`, `medium` or `high`, or a \
         number of tokens for older models; `off` by default.",
    ),
    field(
        "price",
        Shape::Fields(&PRICE),
        "{ input = 3, output = 15, cache_read = 0.3, cache_write = 3.75 }",
        "US dollars per million tokens; needed for limits in dollars.",
    ),
];

/// The price of a model.
const PRICE: [Field; 4] = [
    needed("input", Shape::Number, "3", "Input tokens."),
    needed("output", Shape::Number, "15", "Output tokens."),
    field("cache_read", Shape::Number, "0.3", "Tokens read from a cache; as `input` by default."),
    field(
        "cache_write",
        Shape::Number,
        "3.75",
        "Tokens written to a cache; as `input` by default.",
    ),
];
