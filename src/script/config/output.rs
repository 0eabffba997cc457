//! Formats of agents' output, and what each of them reports.

use serde::{Deserialize, Serialize};

/// Form of an agent's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Reads {
    /// One JSON object a line, as `claude --output-format stream-json` writes.
    #[serde(rename = "claude-stream-json")]
    ClaudeStreamJson,
    /// One JSON object a line, as `codex exec --json` writes.
    #[serde(rename = "codex-jsonl")]
    CodexJsonl,
    /// One JSON object a line, as `opencode run --format json` writes.
    #[serde(rename = "opencode-json")]
    OpencodeJson,
    /// One JSON object a line, as `gemini -o stream-json` writes.
    #[serde(rename = "gemini-stream-json")]
    GeminiStreamJson,
    /// Events as `pi --mode rpc` writes them: what lives on only.
    #[serde(rename = "pi-rpc")]
    PiRpc,
    /// Lines of text.
    #[serde(rename = "plain")]
    Plain,
}

impl Reads {
    /// All forms of a process, in the order of the schema's words.
    pub const ALL: [Reads; 5] = [
        Reads::ClaudeStreamJson,
        Reads::CodexJsonl,
        Reads::OpencodeJson,
        Reads::GeminiStreamJson,
        Reads::Plain,
    ];

    /// Returns the word in the script.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reads::ClaudeStreamJson => "claude-stream-json",
            Reads::CodexJsonl => "codex-jsonl",
            Reads::OpencodeJson => "opencode-json",
            Reads::GeminiStreamJson => "gemini-stream-json",
            Reads::PiRpc => "pi-rpc",
            Reads::Plain => "plain",
        }
    }

    /// Returns whether a working agent prints continuously, so that silence means it is stuck.
    pub fn is_steady(self) -> bool {
        self != Reads::Plain
    }

    /// Returns whether it reports tokens.
    pub fn tells_tokens(self) -> bool {
        self != Reads::Plain
    }

    /// Returns whether it reports the cost.
    pub fn tells_cost(self) -> bool {
        matches!(self, Reads::ClaudeStreamJson | Reads::OpencodeJson | Reads::PiRpc)
    }

    /// Returns whether it reports the end of the run.
    pub fn tells_end(self) -> bool {
        !matches!(self, Reads::OpencodeJson | Reads::PiRpc | Reads::Plain)
    }

    /// Returns whether the form with this word tells calls of tools apart from text.
    pub fn tells_steps(word: &str) -> bool {
        let mut all = Self::ALL.into_iter().chain([Reads::PiRpc]);
        all.any(|it| it.as_str() == word && it != Reads::Plain)
    }
}
