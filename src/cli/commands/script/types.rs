//! `wiki-browser types`: type annotations of the script's functions for editors.

use std::fs;

use camino::Utf8Path;
use clap::Args;
use serde_json::json;

use crate::base::Result;
use crate::cli::commands::Desk;
use crate::cli::new::files::{self, Item};
use crate::cli::terminal::screen::Style;
use crate::script::{EDITOR_SETTINGS, stubs, test_stubs};

/// The path of the annotations, relative to the script.
const STUBS: &str = ".wiki-browser/types/wb.lua";
/// The same for test files.
const TEST_STUBS: &str = ".wiki-browser/types/wb/test.lua";
/// The folder named in an editor's settings.
const LIBRARY: &str = ".wiki-browser/types";
/// Settings of the Lua language server and of EmmyLua.
const SETTINGS: &str = ".luarc.json";

/// `types`.
#[derive(Args, Debug)]
#[command(after_help = "\
Editors with the Lua language server or EmmyLua complete and check the script by these files; the
server does not read them. A .luarc.json of your own is left as it is. Run it again after an update.

Examples:
  wiki-browser types
  wiki-browser types --check        for CI: exits 1 if the files are not those of this version")]
pub(in crate::cli) struct TypesArgs {
    /// Write nothing; exit 1 if files are missing or from another version
    #[arg(long)]
    pub(in crate::cli) check: bool,
}

/// Writes or checks the files next to the script; returns 0 or 1.
pub(in crate::cli) fn types(desk: &Desk, args: &TypesArgs) -> Result<u8> {
    let script = desk.script()?;
    let folder = script.parent().filter(|it| !it.as_str().is_empty());
    let folder = folder.unwrap_or(Utf8Path::new("."));
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let settings = read(SETTINGS);
    let is_own = settings.as_ref().is_some_and(|it| it != EDITOR_SETTINGS);
    let is_named = settings.as_ref().is_none_or(|it| it.contains(LIBRARY));
    let stub =
        |path: &str, after: String| Item::Text { path: path.into(), before: read(path), after };
    let mut items = vec![stub(STUBS, stubs()), stub(TEST_STUBS, test_stubs())];
    if !is_own {
        let after = EDITOR_SETTINGS.to_owned();
        items.push(Item::Text { path: SETTINGS.into(), before: settings, after });
    }
    let advice = format!("{SETTINGS} exists: add \"workspace.library\": [\"{LIBRARY}\"] to it");
    let stale: Vec<&Item> = items.iter().filter(|it| !is_there(it)).collect();
    if args.check {
        let names: Vec<&str> = stale.iter().map(|it| it.path().as_str()).collect();
        let is_fine = names.is_empty() && is_named;
        let value = json!({"ok": is_fine, "stale": names, "settings": is_named});
        desk.screen.answer(&value, |screen, _| {
            for name in &names {
                screen.put(&format!("{name} is from another version; run wiki-browser types"))?;
            }
            if !is_named {
                screen.put(&advice)?;
            }
            if is_fine { screen.put(&screen.paint(Style::Green, "up to date")) } else { Ok(()) }
        })?;
        return Ok(u8::from(!is_fine));
    }
    let found = files::in_the_way(folder, &items);
    if !found.is_empty() {
        return Err(files::refusal(folder, &found, "move them, then run it again"));
    }
    let written = files::write(folder, &items)?;
    let value = json!({"folder": folder.as_str(), "written": written, "settings": is_named});
    desk.screen.answer(&value, |screen, _| {
        for line in &written {
            screen.put(line)?;
        }
        if written.is_empty() {
            screen.put("up to date")?;
        }
        if !is_named {
            screen.note(&advice);
        }
        Ok(())
    })?;
    Ok(0)
}

fn is_there(item: &Item) -> bool {
    matches!(item, Item::Text { before: Some(before), after, .. } if before == after)
}
