//! Files in a repository that steer coding agents.

/// Folders whose files start programs for an agent, or instruct it.
const FOLDERS: [&str; 7] =
    [".agents", ".claude", ".claude-plugin", ".codex", ".gemini", ".opencode", ".pi"];
/// Files that do so in any folder.
const FILES: [&str; 11] = [
    ".env",
    ".lsp.json",
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

/// The folder of skills: each subfolder is a skill, including all files that its instructions
/// mention.
const SKILLS: &str = "skills";

/// Returns whether a coding agent started near this path obeys the file: MCP servers, hooks,
/// plugins, commands, skills and instructions.
pub fn is_agent_file(path: &str) -> bool {
    // The file system may be case-insensitive.
    let path = path.to_lowercase();
    let (folders, file) = path.rsplit_once('/').unwrap_or(("", &path));
    let mut folders = folders.split('/').chain([file]);
    FILES.contains(&file) || is_of_skill(&path) || folders.any(|it| FOLDERS.contains(&it))
}

/// Returns whether the path lies inside of a skill's own folder.
fn is_of_skill(path: &str) -> bool {
    let mut parts = path.split('/').skip_while(|it| *it != SKILLS).skip(1);
    parts.next().is_some() && parts.next().is_some()
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
            "skills/wb-incorporate/scripts/check.sh",
            "wiki/skills/wb-incorporate/more.md",
            ".pi/settings.json",
            ".env",
            "tools/md/.claude-plugin/plugin.json",
            "tools/md/.lsp.json",
        ] {
            assert!(is_agent_file(path), "{path}");
        }
        for path in
            ["guide.md", "claude/settings.json", "docs/agents/x.md", "mcp.json", "skills/a.md", ""]
        {
            assert!(!is_agent_file(path), "{path}");
        }
    }
}
