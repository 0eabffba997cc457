//! The script of a new site.

/// The script with its gaps.
const SITE: &str = include_str!("site.lua");

/// The engine that asks a model.
const CLAUDE: &str = r#"
wb.engine "claude" {
  type    = "process",
  command = { "claude", "-p", "--output-format", "stream-json", "--verbose",
              "--dangerously-skip-permissions" },
  prompt  = "stdin",
  reads   = "claude-stream-json",    -- telemetry only; exit status and result decide
}
"#;

/// What an agent with a skill is told.
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

/// The kind that needs no model, beside the one that does.
const APPLY: &str = r#"
wb.kind "apply" {
  about    = "Propose exactly what the last suggestion block of a topic says",
  engine   = "suggestions",
  timeout  = "30s",
  lane     = "source_path",
  on_busy  = "reject",
  produces = "proposal",
  inputs   = {
    topic_id        = wb.input.topic(),
    source_path     = wb.input.source { from = "topic_id" },
    base_source_sha = wb.input.blob   { from = "source_path" },
  },
}
"#;

/// Which engine incorporates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Choice {
    /// Claude Code, which must be installed and logged in
    Claude,
    /// The built-in one: it applies what readers write in suggestion blocks, without a model
    Suggestions,
}

/// What the operator said about a new site.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    /// Which engine incorporates.
    pub(super) engine: Choice,
    /// The root, as it stands in the script.
    pub(super) root: String,
    /// Who writes the commits.
    pub(super) author_name: String,
    /// Their mail address.
    pub(super) author_email: String,
}

/// Returns the script of a new site.
pub(super) fn script(answers: &Answers) -> String {
    let skill = "  skill    = \"skills/wb-incorporate\",\n";
    let (claude, incorporate, prompt, apply) = match answers.engine {
        Choice::Claude => (
            CLAUDE,
            format!(
                "  engine   = \"claude\",\n{skill}  timeout  = \"5m\",\n  idle     = \"2m\",\n"
            ),
            PROMPT,
            APPLY,
        ),
        Choice::Suggestions => {
            ("", "  engine   = \"suggestions\",\n  timeout  = \"30s\",\n".to_owned(), "", "")
        }
    };
    // The operator's words go in last: a name may hold the mark of a gap.
    SITE.replace("@CLAUDE@", claude)
        .replace("@INCORPORATE@", &incorporate)
        .replace("@PROMPT@", prompt)
        .replace("@APPLY@", apply)
        .split('@')
        .map(|part| match part {
            "ROOT" => quoted(&answers.root),
            "AUTHOR_NAME" => quoted(&answers.author_name),
            "AUTHOR_EMAIL" => quoted(&answers.author_email),
            other => other.to_owned(),
        })
        .collect()
}

/// Returns a Lua string with this value.
fn quoted(text: &str) -> String {
    let mut lua = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => lua.extend(['\\', c]),
            c if c.is_control() => lua.extend(format!("\\u{{{:x}}}", u32::from(c)).chars()),
            c => lua.push(c),
        }
    }
    lua.push('"');
    lua
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(engine: Choice) -> Answers {
        Answers {
            engine,
            root: ".".to_owned(),
            author_name: "A \"B\" \\ @ROOT@".to_owned(),
            author_email: "a@b".to_owned(),
        }
    }

    #[test]
    fn no_gap_stays_and_no_word_leaves_its_quotes() {
        for engine in [Choice::Claude, Choice::Suggestions] {
            let script = script(&answers(engine));
            assert!(script.contains("author_name  = \"A \\\"B\\\" \\\\ @ROOT@\","), "{script}");
            assert!(script.contains("root    = \".\","));
            assert!(!script.replace("@ROOT@", "").replace("a@b", "").contains('@'), "{script}");
        }
        assert_eq!(quoted("a\nb"), "\"a\\u{a}b\"");
    }
}
