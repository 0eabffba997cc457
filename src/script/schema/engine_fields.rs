//! The fields of `wb.engine`.

use crate::script::config::output::Reads;
use crate::script::load::live_agent::{Proof, Speaks};
use crate::script::schema::fields::{field, needed, with};
use crate::script::schema::{Field, Shape};

/// Words of `engine.type`.
const ENGINE_TYPES: [&str; 6] =
    ["process", "builtin", "stream", "terminal", "anthropic", "gateway"];
/// Words of `engine.speaks`.
const SPEAKS: [&str; 2] = [Speaks::ALL[0].as_str(), Speaks::ALL[1].as_str()];
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
/// Engines that are a part of this program.
pub(crate) const BUILTINS: [&str; 1] = ["suggestions"];

/// Words of `engine.on_rate_limit`.
const ON_RATE_LIMIT: [&str; 2] = ["hold", "go_on"];

pub(in crate::script::schema) const ENGINE: [Field; 26] = [
    needed(
        "type",
        Shape::Word(&ENGINE_TYPES),
        r#""process""#,
        "A program, a part of this one, a program that lives on in a pipe or in a terminal, or a \
         model that this one asks for the assistant, with a key or with subscriptions.",
    ),
    field(
        "command",
        Shape::Lines,
        r#"{ "codex", "exec", "--json" }"#,
        "Program and arguments of a process.",
    ),
    field("prompt", Shape::Word(&PROMPT_BY), r#""stdin""#, "How a process is given its prompt."),
    field("reads", Shape::Word(&READS), r#""codex-jsonl""#, "Form of the output, for telemetry."),
    field(
        "env",
        Shape::Texts,
        r#"{ LANG = "C.UTF-8", API_KEY = wb.secret.env "API_KEY" }"#,
        "Variables that are set in its environment: texts, or secrets.",
    ),
    with(
        "on_rate_limit",
        Shape::Word(&ON_RATE_LIMIT),
        "hold",
        r#""go_on""#,
        "Whether its other jobs wait when its provider takes no more.",
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
        "Arguments that go on with a session: its jobs can wait for an approval without a process.",
    ),
    field(
        "asks",
        Shape::Lines,
        r#"{ "--permission-prompt-tool=mcp__wb__permission", "--mcp-config={{mcp_config}}" }"#,
        "Arguments that make it ask people before it uses a tool, for kinds that may ask.",
    ),
    field(
        "speaks",
        Shape::Word(&SPEAKS),
        r#""lines""#,
        "How a stream is spoken to, and how it answers.",
    ),
    field(
        "proof_wait",
        Shape::Duration,
        r#""2m""#,
        "Longest wait until what lives on shows that it has what was written; 60s by default.",
    ),
    field(
        "system",
        Shape::Lines,
        r#"{ "--append-system-prompt-file", "{{system_file}}" }"#,
        "Arguments that bring what lives on what its agent is and what it may do.",
    ),
    field(
        "hooks",
        Shape::Lines,
        r#"{ "--settings", "{{hooks_file}}" }"#,
        "Arguments that bring a program in a terminal our hooks, which tell of its turns.",
    ),
    field(
        "submit",
        Shape::Lines,
        r#"{ "Enter", "C-m" }"#,
        "Keys that hand in what was typed in a terminal, the best first; these two by default.",
    ),
    field(
        "input",
        Shape::Line,
        r#""❯""#,
        "What begins the line of a terminal in which one types: nothing is pasted to a draft.",
    ),
    field(
        "ready",
        Shape::Line,
        r#""? for shortcuts""#,
        "What stands on the screen of a terminal while it can be spoken to; its first hook says \
         so without it.",
    ),
    field(
        "proof",
        Shape::Word(&PROOFS),
        r#""hooks""#,
        "What shows that a program in a terminal has what was typed: its hooks, or, of one \
         without, its screen; needs `input`.",
    ),
    field(
        "trusts",
        Shape::Lines,
        r#"{ ".opencode/plugin" }"#,
        "Files of the repository that its agent may obey, although no word of its command keeps \
         them out; without it such a file keeps its jobs from starting.",
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
        "The model that is asked, as its provider names it; it has no default.",
    ),
    field(
        "key",
        Shape::Secret,
        r#"wb.secret.env "ANTHROPIC_API_KEY""#,
        "The key to the model, which is billed for every answer.",
    ),
    field(
        "base_url",
        Shape::Line,
        r#""https://api.anthropic.com""#,
        "Where the model is asked; http only on this machine.",
    ),
    field(
        "max_output",
        Shape::Number,
        "8192",
        "Most tokens of one step of an answer, thinking included; 8192 without it.",
    ),
    field(
        "context",
        Shape::Number,
        "200000",
        "Tokens that the model reads and writes at once; 200000 without it.",
    ),
    field(
        "thinking",
        Shape::Line,
        r#""low""#,
        "How much a model thinks before it answers: `off`, `low`, `medium` or `high`, or for older \
         models the number of tokens; `off` without it.",
    ),
    field(
        "price",
        Shape::Fields(&PRICE),
        "{ input = 3, output = 15, cache_read = 0.3, cache_write = 3.75 }",
        "US dollars for a million tokens; limits of money need it.",
    ),
];

/// What a model costs.
const PRICE: [Field; 4] = [
    needed("input", Shape::Number, "3", "Tokens that are read."),
    needed("output", Shape::Number, "15", "Tokens that are written."),
    field("cache_read", Shape::Number, "0.3", "Tokens read from a cache; as `input` without it."),
    field("cache_write", Shape::Number, "3.75", "Tokens kept in a cache; as `input` without it."),
];
