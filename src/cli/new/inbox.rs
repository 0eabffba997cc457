//! `wiki-browser new inbox`: an address whose messages start agents, with schemas and a first test.

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::json;

use crate::base::{Context, Error, ErrorKind, Result, is_segment};
use crate::cli::commands::Desk;
use crate::cli::new::addition::{Addition, INSTEAD, loaded};
use crate::cli::new::files::Item;
use crate::cli::new::kind::{engine, with_block};
use crate::cli::new::{InboxArgs, check_line, folder_of};
use crate::cli::terminal::escape::lua as quoted;
use crate::script::Config;

/// Schema of the payload and of the reply, to be filled in by a person.
const SCHEMA: &str = r#"{
  "type": "object",
  "properties": { "text": { "type": "string" } },
  "required": ["text"],
  "additionalProperties": false
}
"#;

/// Writes an inbox, its schemas and a first test.
pub(super) fn add(desk: &Desk, args: &InboxArgs) -> Result<()> {
    let path = desk.script()?;
    let (template, name) = parts(&args.name)?;
    let loaded = loaded(&path)?;
    let (config, folder) = (&*loaded.config, folder_of(&path));
    if let Some(kind) = config.kinds.get(&args.name) {
        let message = format!("{} is already declared at {}", kind.title(), kind.at);
        return Err(Error::conflict("exists", message).hint("choose another name"));
    }
    let about =
        args.declared.about.clone().unwrap_or_else(|| format!("Handle {name} for {template}"));
    check_line("`about`", &about)?;
    let (engine, is_builtin) = engine(&desk.screen, config, args.declared.engine.as_deref())?;
    if is_builtin {
        let message = format!("engine \"{engine}\" is built in and reads no messages");
        return Err(Error::invalid(message).code("bad_input").hint("choose another engine"));
    }
    let inbox = Inbox { template, name, about, engine };
    let items = items(config, &folder, args, &inbox)?;
    let next = [
        format!(
            "edit {}: describe the fields of a message",
            inbox.schema(args.declared.markdown, "")
        ),
        format!("wiki-browser check && wiki-browser test {}", inbox.test()),
        "wiki-browser reload, or wiki-browser serve if no server is running".to_owned(),
    ];
    let instead = match args.declared.markdown {
        true => "add the topic to that file, or choose another name",
        false => INSTEAD,
    };
    let addition = Addition {
        noun: "inbox",
        name: &args.name,
        items: &items,
        instead,
        next: &next,
        is_dry_run: args.declared.dry_run,
    };
    addition.add(desk, &path)
}

/// Returns both parts of a name.
fn parts(name: &str) -> Result<(&str, &str)> {
    let parts = name.split_once('/').filter(|(a, b)| is_segment(a) && is_segment(b));
    parts.ok_or_else(|| {
        Error::invalid(format!("`{}` is not a valid inbox name", name.escape_debug()))
            .code("bad_name")
            .hint("use TEMPLATE/NAME with letters, digits, `-` and `_`, such as accounts/teardown")
    })
}

/// The files to write.
struct Inbox<'a> {
    template: &'a str,
    name: &'a str,
    about: String,
    engine: String,
}

impl Inbox<'_> {
    /// Returns the path of a schema; templates have theirs next to them.
    fn schema(&self, is_markdown: bool, what: &str) -> String {
        let before = if is_markdown { "agents/" } else { "" };
        format!("{before}schemas/{}/{}{what}.json", self.template, self.name)
    }

    fn test(&self) -> String {
        format!("tests/{}-{}.lua", self.template, self.name)
    }

    /// Returns the block, with the name that the file uses for our table.
    fn lua(&self, wb: &str) -> String {
        let full = format!("{}/{}", self.template, self.name);
        format!(
            "\n{wb}.inbox {} {{\n  about        = {},\n  engine       = {},\n  \
             schema       = {},\n  reply_schema = {},\n}}\n",
            quoted(&full),
            quoted(&self.about),
            quoted(&self.engine),
            quoted(&self.schema(false, "")),
            quoted(&self.schema(false, "-reply")),
        )
    }

    /// Returns the file of a template with this topic. JSON is YAML, so its quotes work.
    fn markdown(&self) -> String {
        let Inbox { template, name, .. } = self;
        format!(
            "---\nid: {template}\nabout: {}\npersistent: false\nengine: {}\ntopics:\n  \
             - name: {name}\n    schema: ./schemas/{template}/{name}.json\n    \
             reply_schema: ./schemas/{template}/{name}-reply.json\n---\n\n# {template}\n\n\
             Say here what the agent does with a message. How to answer, and the message, follow \
             below.\n",
            json!(self.about),
            json!(self.engine),
        )
    }

    fn first_test(&self) -> String {
        let full = quoted(&format!("{}/{}", self.template, self.name));
        format!(
            "-- Tests of inbox {full}: `wiki-browser test` runs them.\n\
             local t = require \"wb.test\"\n\n\
             t.test(\"{0}/{1}: the agent is told the message\", function()\n  \
             local prompt = t.render({full}, {{ payload = {{ text = \"some words\" }} }})\n  \
             t.contains(prompt, \"some words\")\nend)\n\n\
             t.test(\"{0}/{1}: a wrong message is refused\", function()\n  \
             t.fails(function() t.render({full}, {{ payload = {{}} }}) end, \"payload\")\nend)\n",
            self.template, self.name
        )
    }
}

/// Returns what is written.
fn items(
    config: &Config,
    folder: &Utf8Path,
    args: &InboxArgs,
    inbox: &Inbox<'_>,
) -> Result<Vec<Item>> {
    let file = |path: String, text: &str| Item::File(path.into(), text.to_owned());
    let is_markdown = args.declared.markdown;
    let mut items = vec![
        file(inbox.schema(is_markdown, ""), SCHEMA),
        file(inbox.schema(is_markdown, "-reply"), SCHEMA),
    ];
    if is_markdown {
        items.push(file(format!("agents/{}.md", inbox.template), &inbox.markdown()));
    } else {
        let first = config.files.first().map(|it| it.path.clone());
        let path: Utf8PathBuf = first.unwrap_or_default();
        let before = std::fs::read_to_string(folder.join(&path))
            .context(ErrorKind::Unavailable, || format!("cannot read {path}"))?;
        let after = with_block(&before, |wb| inbox.lua(wb));
        items.push(Item::Text { path, before: Some(before), after });
    }
    items.push(file(inbox.test(), &inbox.first_test()));
    Ok(items)
}
