//! `wiki-browser new agent`: a long-running agent, and an engine for it if the script has none.

use camino::Utf8Path;
use serde_json::json;

use crate::base::{Context, Error, ErrorKind, Result, is_segment};
use crate::cli::commands::Desk;
use crate::cli::new::addition::{Addition, INSTEAD, loaded};
use crate::cli::new::files::Item;
use crate::cli::new::kind::with_block;
use crate::cli::new::{AgentArgs, check_line, folder_of};
use crate::cli::terminal::escape::lua as quoted;
use crate::script::{Config, Engine, kind_of_agent};

/// The engine of a script that has none for long-running agents.
const ENGINE: &str = "claude-live";

/// Writes an agent, and its engine if the script has none.
pub(super) fn add(desk: &Desk, args: &AgentArgs) -> Result<()> {
    let path = desk.script()?;
    if !is_segment(&args.name) {
        let message = format!("`{}` is not a valid agent name", args.name.escape_debug());
        return Err(Error::invalid(message)
            .code("bad_name")
            .hint("use letters, digits, `-` and `_`, such as forge-lead"));
    }
    let loaded = loaded(&path)?;
    let (config, folder) = (&*loaded.config, folder_of(&path));
    if let Some(kind) = config.kinds.get(&kind_of_agent(&args.name)) {
        let message = format!("{} is already declared at {}", kind.title(), kind.at);
        return Err(Error::conflict("exists", message).hint("choose another name"));
    }
    let about = args.declared.about.clone().unwrap_or_else(|| format!("The agent {}", args.name));
    check_line("`about`", &about)?;
    let (engine, is_new) = engine(config, args.declared.engine.as_deref())?;
    let agent = Agent { name: &args.name, about, engine };
    let items = items(config, &folder, args.declared.markdown, (&agent, is_new))?;
    let mut next = Vec::new();
    if args.declared.markdown {
        next.push(format!("edit agents/{}.md: what it is for, and how it answers", args.name));
    }
    if is_new {
        next.push(
            "run `claude` once as the account of the server, and sign in there; in tests, \
             replace the engine's `command`"
                .to_owned(),
        );
    }
    next.push("wiki-browser reload, or wiki-browser serve if no server is running".to_owned());
    next.push(format!("wiki-browser send agent:{} --payload '\"Hello\"' --wait", args.name));
    let addition = Addition {
        noun: "agent",
        name: &args.name,
        items: &items,
        instead: INSTEAD,
        next: &next,
        is_dry_run: args.declared.dry_run,
    };
    addition.add(desk, &path)
}

/// Returns the engine of the agent, and whether it is to be declared.
fn engine(config: &Config, wanted: Option<&str>) -> Result<(String, bool)> {
    let is_live = |it: &&Engine| it.speech.is_some();
    let live: Vec<&str> =
        config.engines.values().filter(is_live).map(|it| it.name.as_str()).collect();
    if let Some(name) = wanted {
        return match (config.engines.get(name), live.contains(&name)) {
            (_, true) => Ok((name.to_owned(), false)),
            (None, _) if name == ENGINE => Ok((name.to_owned(), true)),
            (None, _) => {
                let message = format!("the script has no engine \"{}\"", name.escape_debug());
                Err(Error::invalid(message).code("unknown_engine").hint(format!(
                    "leave --engine out to declare \"{ENGINE}\", which runs Claude Code"
                )))
            }
            (Some(_), false) => {
                let message = format!("engine \"{}\" does not live on", name.escape_debug());
                Err(Error::invalid(message)
                    .code("bad_input")
                    .hint("name one of type = \"stream\" or \"terminal\", or leave --engine out"))
            }
        };
    }
    match live.as_slice() {
        [one] => Ok(((*one).to_owned(), false)),
        [] if config.engines.contains_key(ENGINE) => {
            let message = format!("engine \"{ENGINE}\" does not live on");
            Err(Error::invalid(message).code("bad_input").hint("rename it, or name another"))
        }
        [] => Ok((ENGINE.to_owned(), true)),
        several => {
            Err(Error::invalid(format!("which engine? the script has {}", several.join(", ")))
                .code("unknown_engine")
                .hint(format!("add --engine {}", several[0])))
        }
    }
}

/// What is to be written.
struct Agent<'a> {
    name: &'a str,
    about: String,
    engine: String,
}

impl Agent<'_> {
    /// Returns the block, by the name that its file gives our table.
    fn lua(&self, wb: &str) -> String {
        format!(
            "\n{wb}.agent {} {{\n  about     = {},\n  engine    = {},\n  \
             autostart = \"on_message\",   -- \"never\": a person starts it; \"always\": with the \
             server\n}}\n",
            quoted(self.name),
            quoted(&self.about),
            quoted(&self.engine),
        )
    }

    /// Returns the file that declares it. JSON is YAML, so that quotes are its own.
    fn markdown(&self) -> String {
        format!(
            "---\nabout: {}\npersistent: true\nengine: {}\nautostart: on_message\n---\n\n# {}\n\n\
             Say here what the agent is for. How messages reach it, and its commands, follow \
             below.\n",
            json!(self.about),
            json!(self.engine),
            self.name,
        )
    }
}

/// Returns the block of the engine that runs Claude Code.
fn claude(wb: &str) -> String {
    format!(
        r#"
{wb}.engine "{ENGINE}" {{
  type    = "stream",
  command = {{ "claude", "-p", "--input-format", "stream-json", "--output-format", "stream-json",
              "--replay-user-messages", "--verbose", "--strict-mcp-config", "--setting-sources=",
              "--permission-mode", "default" }},
  speaks  = "claude-stream-json",
  session = {{ "--session-id", "{{{{session}}}}" }}, resume = {{ "--resume", "{{{{session}}}}" }},
  system  = {{ "--append-system-prompt-file", "{{{{system_file}}}}" }},
  -- It asks a person before it uses a tool that its own rules do not allow.
  asks    = {{ "--permission-prompt-tool", "mcp__wb__permission",
              "--mcp-config", "{{{{mcp_config}}}}", "--allowedTools",
              "Bash(wb-agent:*),Bash({{{{wb_agent}}}}:*)" }},
}}
"#
    )
}

/// Returns what is written.
fn items(
    config: &Config,
    folder: &Utf8Path,
    is_markdown: bool,
    (agent, is_new): (&Agent<'_>, bool),
) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    if is_new || !is_markdown {
        let path = config.files.first().map(|it| it.path.clone()).unwrap_or_default();
        let before = std::fs::read_to_string(folder.join(&path))
            .context(ErrorKind::Unavailable, || format!("cannot read {path}"))?;
        let after = with_block(&before, |wb| {
            let engine = if is_new { claude(wb) } else { String::new() };
            let block = if is_markdown { String::new() } else { agent.lua(wb) };
            engine + &block
        });
        items.push(Item::Text { path, before: Some(before), after });
    }
    if is_markdown {
        let path = format!("agents/{}.md", agent.name);
        items.push(Item::File(path.into(), agent.markdown()));
    }
    Ok(items)
}
