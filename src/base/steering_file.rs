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

/// The names of files and folders that steer agents, as agents spell them, for a folder that has
/// too many names to be listed.
pub const AGENT_NAMES: [&str; 19] = [
    ".agents",
    ".claude",
    ".claude-plugin",
    ".codex",
    ".env",
    ".gemini",
    ".lsp.json",
    ".mcp.json",
    ".opencode",
    ".pi",
    "AGENTS.md",
    "AGENTS.override.md",
    "CLAUDE.local.md",
    "CLAUDE.md",
    "GEMINI.md",
    "SKILL.md",
    "opencode.json",
    "opencode.jsonc",
    SKILLS,
];

/// Returns whether an entry of this name is, or may hold, a file that steers an agent.
pub fn may_steer(name: &str) -> bool {
    is_agent_file(name) || name.eq_ignore_ascii_case(SKILLS)
}

/// Returns whether a link at this path brings skills: it stands for their folder, or for one.
pub fn links_skills(path: &str) -> bool {
    let mut parts = path.rsplit('/');
    let is_skills = |it: Option<&str>| it.is_some_and(|it| it.eq_ignore_ascii_case(SKILLS));
    is_skills(parts.next()) || is_skills(parts.next())
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
    fn each_name_has_its_spelling() {
        let spelled: Vec<String> = AGENT_NAMES.iter().map(|it| it.to_lowercase()).collect();
        let known = FOLDERS.iter().chain(&FILES).chain([&SKILLS]);
        assert_eq!(known.clone().count(), spelled.len());
        for name in known {
            assert!(spelled.iter().any(|it| it == name) && may_steer(name), "{name}");
        }
    }

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
