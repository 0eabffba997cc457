//! The script of a new site.

use crate::cli::terminal::escape::lua as quoted;

/// The script with placeholders.
const SITE: &str = include_str!("site.lua");

/// The engine with a model.
const CLAUDE: &str = r#"
-- Claude Code: install it and log in as the account that the server runs as. Nobody is there to
-- ask, so it may do all that this account may do: give the server an account of its own.
wb.engine "claude" {
  type    = "process",
  command = { "claude", "-p", "--output-format", "stream-json", "--verbose",
              "--include-partial-messages",      -- a long answer is output while it grows: `idle`
              "--strict-mcp-config",             -- no MCP server, hook or helper that is not named
              "--settings", '{"disableAllHooks":true,"apiKeyHelper":"","awsAuthRefresh":"",' ..
                            '"awsCredentialExport":"","gcpAuthRefresh":"",' ..
                            '"otelHeadersHelper":"","proxyAuthHelper":""}',
              "--dangerously-skip-permissions" },
  env     = {
    CLAUDE_CODE_MAX_RETRIES              = "5",  -- else a wrong key is tried for three minutes
    CLAUDE_CODE_DISABLE_BACKGROUND_TASKS = "1",  -- a job is over when its answer is
    CLAUDE_CODE_DISABLE_AUTO_MEMORY      = "1",  -- no job leaves notes for the next one
    DISABLE_AUTOUPDATER                  = "1",
    -- IS_SANDBOX = "1",             -- as root, and only in a container made for it
  },
  prompt  = "stdin",
  reads   = "claude-stream-json",    -- telemetry only; exit status and result decide
}
"#;

/// The other engine with a model.
const CODEX: &str = r#"
-- Codex: install it and log in as the account that the server runs as. Nobody is there to ask, so
-- it may do all that this account may do: give the server an account of its own.
wb.engine "codex" {
  type    = "process",
  command = { "codex", "exec", "--json", "--skip-git-repo-check",
              -- no MCP server, hook or plugin of the account; name a model here: "-c", "model=…"
              "--ignore-user-config", "--disable", "hooks", "--disable", "plugins",
              "--disable", "apps",
              "-c", "allow_login_shell=false",   -- else its shell forgets the PATH of wb-agent
              "--dangerously-bypass-approvals-and-sandbox", "-" },
  prompt  = "stdin",
  reads   = "codex-jsonl",           -- telemetry only; exit status and result decide
}
"#;

const OPENCODE: &str = r#"
-- opencode: install it and set it up as the account that the server runs as. Nobody is there to
-- ask, so it may do all that this account may do: give the server an account of its own. Name a
-- model here ("-m", "PROVIDER/MODEL"): opencode.json of the account is not read. No job starts
-- where this repository has opencode.json or .opencode/plugin: opencode obeys them in any case.
wb.engine "opencode" {
  type    = "process",
  command = { "opencode", "run", "--format", "json", "--pure",
              "--auto" },            -- else /tmp is refused
  env     = {
    OPENCODE_DISABLE_PROJECT_CONFIG = "1",
    XDG_CONFIG_HOME                 = "data/agents",
    OPENCODE_DISABLE_AUTOUPDATE     = "1",
  },
  prompt  = "stdin",
  reads   = "opencode-json",         -- telemetry only; exit status and result decide
}
"#;

const GEMINI: &str = r#"
-- Gemini CLI: install it and log in as the account that the server runs as. Nobody is there to ask,
-- so it may do all that this account may do: give the server an account of its own.
wb.engine "gemini" {
  type    = "process",
  command = { "gemini", "-o", "stream-json", "--approval-mode", "yolo",
              "--skip-trust",        -- works here all the same: nobody could be asked
              "-e", "none", "--allowed-mcp-server-names", "none" },  -- none of the account
  env     = {
    GEMINI_CLI_TRUST_WORKSPACE = "false",        -- no hook, tool or MCP server of .gemini
    NO_COLOR                   = "1",
  },
  prompt  = "stdin",
  reads   = "gemini-stream-json",    -- telemetry only; exit status and result decide
}
"#;

const PI: &str = r#"
-- Pi: install it and log in as the account that the server runs as. Nobody is there to ask, so it
-- may do all that this account may do: give the server an account of its own. No job starts where
-- this repository has .pi/settings.json, which names the shell of its commands.
wb.engine "pi" {
  type    = "process",
  command = { "pi", "-p", "--no-extensions", "--no-session" },
  env     = { PI_OFFLINE = "1" },    -- no look for updates at its start
  prompt  = "stdin",
  reads   = "plain",                 -- it prints at its end: no `idle`, no tokens, no cost
}
"#;

/// The options of `incorporate` for an agent.
const BY_CLAUDE: &str = r#"  engine   = "claude",
  skill    = "skills/wb-incorporate",
  timeout  = "5m",                   -- from its start to its end
  idle     = "3m",                   -- without any output, tool calls not counted
  workspace = "worktree",            -- in a checkout of its own: your files are out of its way
"#;

/// Longest time until opencode's first output.
const OPENCODE_START: &str = "  start    = \"4m\",                   -- until its first output\n";

/// What happens while another job works on the source, for an agent.
const REJECTED: &str = concat!(
    r#"  on_busy  = "reject",               "#,
    "-- 409 while one is queued or running; \"queue\" waits instead\n",
);

/// The same for the built-in engine, which needs no time and must not lose a reader's text.
const QUEUED: &str = concat!(
    r#"  on_busy  = "queue",                "#,
    "-- waits while another is queued or running; \"reject\" is a 409\n",
);

/// The options of `incorporate` for the built-in engine.
const BY_SUGGESTIONS: &str = r#"  engine   = "suggestions",
  timeout  = "30s",
"#;

/// The prompt of an agent with a skill.
const PROMPT: &str = r"  prompt = [[
Use the {{skill}} skill.

Job ID:          {{job_id}}
Topic ID:        {{topic_id}}
Source path:     {{source_path}}
Base source SHA: {{base_source_sha}}
Repo root:       {{root}}
wb-agent path:   {{wb_agent}}

When done, exit 0. On any unrecoverable error, exit non-zero — the wiki-browser
server will surface stderr to the operator.
]],
";

/// The kind without a model, next to the one with a model.
const APPLY: &str = r#"
wb.kind "apply" {
  about    = "Propose exactly what the last suggestion block of a topic says",
  engine   = "suggestions",
  timeout  = "30s",
  lane     = "source_path",
  on_busy  = "queue",
  produces = "proposal",
  inputs   = {
    topic_id        = wb.input.topic(),
    source_path     = wb.input.source { from = "topic_id" },
    base_source_sha = wb.input.blob   { from = "source_path" },
  },
}
"#;

/// The kind that shows a source to a persona.
const PERSPECTIVE: &str = r#"
wb.kind "perspective" {
  about    = "Rewrite a document from a persona's point of view",
  engine   = "claude",
  skill    = "skills/wb-perspective",
  timeout  = "5m",
  idle     = "3m",
  workspace = "worktree",
  lane     = "source_path",
  on_busy  = "reject",
  produces = "perspective",          -- for a persona of agents/; exit 0 without one is a failure
  inputs   = {
    source_path  = wb.input.source(),
    persona_name = wb.input.persona(),
    source_sha   = wb.input.blob { from = "source_path" },
    persona_sha  = wb.input.hash { from = "persona_name" },
  },
  prompt = [[
Use the {{skill}} skill.

Job ID:        {{job_id}}
Source path:   {{source_path}}
Persona name:  {{persona_name}}
Source SHA:    {{source_sha}}
Persona SHA:   {{persona_sha}}
Repo root:     {{root}}
wb-agent path: {{wb_agent}}

When done, exit 0. On any unrecoverable error, exit non-zero — the wiki-browser
server will surface stderr to the operator.
]],
}
"#;

/// The engine of `incorporate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Choice {
    /// Claude Code, which must be installed and logged in
    Claude,
    /// Codex, which must be installed and logged in
    Codex,
    /// opencode, which must be installed and set up
    Opencode,
    /// Gemini CLI, which must be installed and logged in
    Gemini,
    /// Pi, which must be installed and logged in
    Pi,
    /// The built-in one: it applies what readers write in suggestion blocks, without a model
    Suggestions,
}

impl Choice {
    /// All, in the order of the question.
    pub(super) const ALL: [Choice; 6] = [
        Choice::Claude,
        Choice::Codex,
        Choice::Opencode,
        Choice::Gemini,
        Choice::Pi,
        Choice::Suggestions,
    ];

    /// Returns the name of its engine.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Choice::Claude => "claude",
            Choice::Codex => "codex",
            Choice::Opencode => "opencode",
            Choice::Gemini => "gemini",
            Choice::Pi => "pi",
            Choice::Suggestions => "suggestions",
        }
    }

    /// Returns its description for the question.
    pub(super) fn meaning(self) -> &'static str {
        match self {
            Choice::Claude => "Claude Code, installed and logged in",
            Choice::Codex => "Codex, installed and logged in",
            Choice::Opencode => "opencode, installed and set up",
            Choice::Gemini => "Gemini CLI, installed and logged in",
            Choice::Pi => "Pi, installed and logged in",
            Choice::Suggestions => "no model: what readers write in suggestion blocks",
        }
    }
}

/// The operator's answers.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    /// The engine of `incorporate`.
    pub(super) engine: Choice,
    /// The root, as written in the script.
    pub(super) root: String,
    /// The folder of the site below the root, with a trailing slash; `None` if it is not below it.
    pub(super) below: Option<String>,
    /// The author of the commits.
    pub(super) author_name: String,
    /// Their mail address.
    pub(super) author_email: String,
}

/// Adapts the options of Claude Code to another agent. An agent that prints only at its end is
/// silent while it works, so it has no `idle`.
fn by(engine: Choice, kinds: &str) -> String {
    let kinds = kinds.replace("\"claude\",", &format!("\"{}\",", engine.as_str()));
    // While they retry what their provider refused, opencode prints nothing for 80 s, and Gemini
    // continues for more than five minutes: only an agent that ends by itself is `rate_limited`.
    let line = |line: &str| match engine {
        Choice::Pi if line.starts_with("  idle ") => String::new(),
        Choice::Opencode if line.starts_with("  idle ") => format!("{line}{OPENCODE_START}"),
        // Its settings are in `data/agents` below the folder where it starts.
        Choice::Opencode if line.starts_with("  workspace ") => String::new(),
        Choice::Gemini => line.replace("\"5m\", ", "\"10m\",").replace("\"5m\",", "\"10m\","),
        _ => line.to_owned(),
    };
    kinds.split_inclusive('\n').map(line).collect()
}

/// The site's own files for agents, which readers should not propose to change.
const OWN: [&str; 2] = ["skills/**", "agents/**"];

/// Returns the globs of a site: its own files are no documents.
fn sources(below: Option<&str>) -> String {
    let mut globs = vec![quoted("**/*.md")];
    if let Some(below) = below {
        let below = globset::escape(below);
        globs.extend(OWN.map(|it| quoted(&format!("!{below}{it}"))));
    }
    globs.join(", ")
}

/// Returns the daily cap of all jobs; an engine that does not report its cost has only a time
/// limit.
fn daily(engine: Choice) -> &'static str {
    match engine {
        Choice::Claude => "{ cost_usd = 20, time = \"8h\" }",
        _ => "{ time = \"8h\" }",
    }
}

/// Returns the script of a new site.
pub(super) fn script(answers: &Answers) -> String {
    let agent = match answers.engine {
        Choice::Claude => CLAUDE,
        Choice::Codex => CODEX,
        Choice::Opencode => OPENCODE,
        Choice::Gemini => GEMINI,
        Choice::Pi => PI,
        Choice::Suggestions => "",
    };
    let (incorporate, busy, prompt, others) = match answers.engine {
        Choice::Suggestions => (BY_SUGGESTIONS.to_owned(), QUEUED, "", String::new()),
        engine => {
            let others = by(engine, &format!("{APPLY}{PERSPECTIVE}"));
            (by(engine, BY_CLAUDE), REJECTED, PROMPT, others)
        }
    };
    // The operator's answers are inserted last, because a name may contain a placeholder.
    SITE.replace("@CLAUDE@", agent)
        .replace("@INCORPORATE@", &incorporate)
        .replace("@BUSY@", busy)
        .replace("@PROMPT@", prompt)
        .replace("@OTHERS@", &others)
        .replace("@DAILY@", daily(answers.engine))
        .split('@')
        .map(|part| match part {
            "ROOT" => quoted(&answers.root),
            "SOURCES" => sources(answers.below.as_deref()),
            "AUTHOR_NAME" => quoted(&answers.author_name),
            "AUTHOR_EMAIL" => quoted(&answers.author_email),
            other => other.to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(engine: Choice) -> Answers {
        Answers {
            engine,
            root: ".".to_owned(),
            below: Some("wiki/".to_owned()),
            author_name: "A \"B\" \\ @ROOT@".to_owned(),
            author_email: "a@b".to_owned(),
        }
    }

    #[test]
    fn the_clocks_leave_an_agent_the_time_to_give_up_by_itself() {
        let of = |engine| script(&answers(engine));
        assert_eq!(of(Choice::Opencode).matches("\n  start    = \"4m\",").count(), 2);
        let gemini = of(Choice::Gemini);
        assert_eq!(gemini.matches("\n  timeout  = \"10m\",").count(), 2, "{gemini}");
        assert!(!of(Choice::Claude).contains("start    ="));
        assert!(!of(Choice::Pi).contains("idle    "));
    }

    #[test]
    fn a_suggestion_waits_for_another_one() {
        for engine in Choice::ALL {
            let script = script(&answers(engine));
            let kinds = script.split("\nwb.kind ").skip(1);
            for kind in kinds.filter(|it| it.contains("engine   = \"suggestions\"")) {
                assert!(kind.contains("on_busy  = \"queue\","), "{engine:?}: {kind}");
            }
        }
        let claude = script(&answers(Choice::Claude));
        assert!(claude.contains("on_busy  = \"reject\",               -- 409"), "{claude}");
    }

    #[test]
    fn no_gap_stays_and_no_word_leaves_its_quotes() {
        for engine in Choice::ALL {
            let script = script(&answers(engine));
            assert!(script.contains("author_name  = \"A \\\"B\\\" \\\\ @ROOT@\","), "{script}");
            assert!(script.contains("root    = \".\","));
            assert!(script.contains(r#"{ "**/*.md", "!wiki/skills/**", "!wiki/agents/**" }"#));
            assert!(!script.replace("@ROOT@", "").replace("a@b", "").contains('@'), "{script}");
        }
        assert_eq!(quoted("a\nb"), "\"a\\u{a}b\"");
    }
}
