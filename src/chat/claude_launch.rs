//! Claude Code as a runtime: its arguments and its environment.

use serde_json::{Value, json};

/// Prefix of its names for our tools: `mcp`, and the name of the server in its file.
pub(super) const TOOL_PREFIX: &str = "mcp__wb__";

/// Returns the file that declares our MCP server, `wb-agent mcp`. The token is in no file: the MCP
/// server gets it from the environment.
pub fn server_file(wb_agent: &str, call_ms: u64) -> Value {
    json!({"mcpServers": {"wb": {
        "type": "stdio", "command": wb_agent, "args": ["mcp", "assistant"], "timeout": call_ms,
    }}})
}

/// Returns a run's arguments: no tools of its own, no settings of the machine, and only our MCP
/// server with these tools.
pub fn arguments(
    system_file: &str,
    tools: Option<(&str, &[&str])>,
    (resume, cost_usd): (Option<&str>, Option<f64>),
) -> Vec<String> {
    let fixed = [
        "-p",
        "--output-format",
        "stream-json",
        "--verbose",
        "--include-partial-messages",
        "--tools",
        "",
        "--strict-mcp-config",
        "--permission-mode",
        "dontAsk",
        "--setting-sources",
        "",
        "--system-prompt-file",
        system_file,
    ];
    let mut arguments: Vec<String> = fixed.into_iter().map(str::to_owned).collect();
    if let Some((server_file, names)) = tools {
        let names: Vec<String> = names.iter().map(|it| format!("{TOOL_PREFIX}{it}")).collect();
        arguments.extend(["--mcp-config", server_file, "--allowedTools"].map(str::to_owned));
        arguments.push(names.join(","));
    }
    // It looks at its cost after each request.
    if let Some(most) = cost_usd {
        arguments.extend(["--max-budget-usd".to_owned(), most.to_string()]);
    }
    if let Some(session) = resume {
        arguments.extend(["--resume", session].map(str::to_owned));
    }
    arguments
}

/// Returns what a run is asked. The program takes a first `/` for a command of its own, which needs
/// no model and answers nothing; behind an invisible character it is text.
pub fn prompt(words: String) -> String {
    match words.trim_start().starts_with('/') {
        true => format!("\u{2060}{words}"),
        false => words,
    }
}

/// Returns whether a run inherits a variable of the server. Keys and tokens are not inherited: they
/// belong to somebody else, who would be billed.
pub fn is_inherited(name: &str) -> bool {
    const NAMES: [&str; 5] = ["PATH", "HOME", "LANG", "TZ", "TMPDIR"];
    const PROXIES: [&str; 4] = ["http_proxy", "https_proxy", "no_proxy", "all_proxy"];
    let is_proxy = PROXIES.iter().any(|it| it.eq_ignore_ascii_case(name));
    NAMES.contains(&name) || name.starts_with("LC_") || is_proxy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_that_an_answer_may_cost_is_an_argument() {
        let arguments = arguments("system.md", None, (None, Some(0.5)));
        assert!(arguments.ends_with(&["--max-budget-usd", "0.5"].map(str::to_owned)));
    }

    #[test]
    fn no_question_is_a_command_of_the_program() {
        for words in ["/help me", " /cost", "\n/etc/hosts"] {
            assert_eq!(prompt(words.to_owned()), format!("\u{2060}{words}"));
        }
        for words in ["", "help me", "and/or"] {
            assert_eq!(prompt(words.to_owned()), words);
        }
    }

    #[test]
    fn keys_of_the_server_are_not_inherited() {
        for name in ["PATH", "HOME", "LANG", "LC_ALL", "https_proxy", "HTTPS_PROXY"] {
            assert!(is_inherited(name), "{name}");
        }
        for name in ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "AWS_PROFILE", "WB_TOKEN"] {
            assert!(!is_inherited(name), "{name}");
        }
    }
}
