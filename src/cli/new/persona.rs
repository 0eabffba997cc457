//! `wiki-browser new persona`.

use serde_json::json;

use crate::base::{Error, Result};
use crate::cli::commands::Desk;
use crate::cli::new::files::{self, Item};
use crate::cli::new::{PersonaArgs, check_line, first_test, folder_of};
use crate::cli::terminal::screen::Style;
use crate::cli::terminal::{escape, question};
use crate::flows::perspectives::personas;
use crate::script;

/// Writes the file of a persona.
pub(super) fn add(desk: &Desk, args: &PersonaArgs) -> Result<()> {
    let script = desk.script()?;
    let (folder, name) = (folder_of(&script), args.name.as_str());
    if !personas::is_name(name) {
        let meant = crate::cli::new::shape::slug(name);
        return Err(Error::invalid(format!(
            "`{}` is not a valid persona name",
            name.escape_debug()
        ))
        .code("bad_name")
        .hint(format!("use letters, digits, `-` and `_`: wiki-browser new persona {meant}")));
    }
    let path = format!("agents/{name}.md");
    if folder.join(&path).exists() {
        let message = format!("persona {name} already exists: {path}");
        return Err(
            Error::conflict("exists", message).hint("choose another name, or edit the file")
        );
    }
    let default = "Wants the point first, then what to do".to_owned();
    let about = match &args.about {
        Some(about) => about.clone(),
        None if question::can(&desk.screen) => {
            question::line(&desk.screen, "Describe the reader in one line", &default, |it| {
                check_line("`about`", it)
            })?
        }
        None => default,
    };
    check_line("`about`", &about)?;
    let text = text(name, &about, &args.paths);
    personas::judge(name, &text)?;
    let mut items = vec![Item::File(path.clone().into(), text)];
    let test = format!("tests/persona-{name}.lua");
    let loaded = script::load(&script).ok();
    let tests = loaded.and_then(|it| first_test::of_persona(name, &args.paths, &it.config));
    if let Some(tests) = tests {
        items.push(Item::File(test.into(), tests));
    }
    let found = files::in_the_way(&folder, &items);
    if !found.is_empty() {
        return Err(files::refusal(&folder, &found, "move it, or choose another name"));
    }
    let written: Vec<String> = match args.dry_run {
        true => items.iter().map(Item::describe).collect(),
        false => files::write(&folder, &items)?,
    };
    let value = json!({"persona": name, "written": written, "dry_run": args.dry_run});
    desk.screen.answer(&value, |screen, _| {
        let verb = if args.dry_run { "would write" } else { "wrote" };
        for line in &written {
            screen.put(&format!("{verb} {}", escape::line(line)))?;
        }
        if args.dry_run {
            return Ok(());
        }
        screen.put(&screen.paint(Style::Bold, "\nnext:"))?;
        screen.put(&format!("  edit {path}: describe the reader, as if writing to them"))?;
        screen.put("  wiki-browser check && wiki-browser test")?;
        screen.put(&format!("  wiki-browser perspective request PATH {name}"))
    })
}

fn text(name: &str, about: &str, paths: &[String]) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let paths = match paths {
        [] => String::new(),
        paths => {
            let globs: Vec<String> = paths.iter().map(|it| quoted(it.trim())).collect();
            format!("paths: [{}]\n", globs.join(", "))
        }
    };
    format!(
        "---\nname: {name}\nabout: {}\n{paths}---\n\
         You are {name}. {}.\n\n\
         Say here, as if to this reader: what you know already, and which words you do not; \
         where and when \
         you read;\nwhat you want first, and what you can do without; which language, and how \
         long.\n",
        quoted(about.trim()),
        about.trim().trim_end_matches('.'),
    )
}
