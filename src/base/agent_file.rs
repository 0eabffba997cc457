//! Files of a repository by which coding agents are steered.

/// Folders whose files start programs for an agent, or instruct it.
const FOLDERS: [&str; 5] = [".agents", ".claude", ".codex", ".gemini", ".opencode"];
/// Files that do so wherever they are.
const FILES: [&str; 9] = [
    ".mcp.json",
    "agents.md",
    "agents.override.md",
    "claude.local.md",
    "claude.md",
    "gemini.md",
    "opencode.json",
    "opencode.jsonc",
    "skill.md",
];

/// Returns whether a coding agent that starts near a path of the repository obeys what is there:
/// MCP servers, hooks, plugins, commands, skills and instructions.
pub fn is_agent_file(path: &str) -> bool {
    // A file system may not tell cases apart.
    let path = path.to_lowercase();
    let (folders, file) = path.rsplit_once('/').unwrap_or(("", &path));
    let mut folders = folders.split('/').chain([file]);
    FILES.contains(&file) || folders.any(|it| FOLDERS.contains(&it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_steer_an_agent_are_known_wherever_they_are() {
        for path in [
            ".mcp.json",
            "wiki/.mcp.json",
            "wiki/.claude/settings.local.json",
            ".claude/hooks/a.sh",
            ".claude",
            ".Codex/config.toml",
            "docs/AGENTS.md",
            "skills/wb-incorporate/SKILL.md",
            "opencode.jsonc",
        ] {
            assert!(is_agent_file(path), "{path}");
        }
        for path in ["guide.md", "claude/settings.json", "docs/agents/x.md", "mcp.json", ""] {
            assert!(!is_agent_file(path), "{path}");
        }
    }
}
