//! The common part of all `new` commands: load the script, check it with the addition, and only
//! then write.

use std::collections::BTreeMap;

use camino::Utf8Path;
use serde_json::json;

use crate::base::{Error, Result};
use crate::cli::commands::Desk;
use crate::cli::new::files::{self, Item};
use crate::cli::new::folder_of;
use crate::cli::terminal::escape;
use crate::cli::terminal::screen::{Screen, Style};
use crate::script;

/// The advice about files that are in the way.
pub(super) const INSTEAD: &str = "move it, or choose another name";

/// An addition to a script.
pub(super) struct Addition<'a> {
    /// Its type, as the field of the response.
    pub(super) noun: &'static str,
    /// Its name.
    pub(super) name: &'a str,
    /// The files.
    pub(super) items: &'a [Item],
    /// The advice about files that are in the way.
    pub(super) instead: &'a str,
    /// The next steps.
    pub(super) next: &'a [String],
    /// Whether nothing is written.
    pub(super) is_dry_run: bool,
}

/// Loads the script to be extended.
///
/// # Errors
/// `invalid` with code `bad_script`.
pub(super) fn loaded(path: &Utf8Path) -> Result<script::Loaded> {
    script::load(path).map_err(|report| {
        let message = format!("{path} has {}", report.summary());
        Error::invalid(message).code("bad_script").hint("fix it first: wiki-browser check")
    })
}

impl Addition<'_> {
    /// Checks the script with the addition, writes it, and reports the files and the next steps.
    ///
    /// # Errors
    /// What is in the way; `invalid` with code `bad_script` if the script would be wrong.
    pub(super) fn add(&self, desk: &Desk, path: &Utf8Path) -> Result<()> {
        let folder = folder_of(path);
        let found = files::in_the_way(&folder, self.items);
        if !found.is_empty() {
            return Err(files::refusal(&folder, &found, self.instead));
        }
        try_out(path, self.items)?;
        let written = match self.is_dry_run {
            true => self.items.iter().map(Item::describe).collect(),
            false => files::write(&folder, self.items)?,
        };
        let value = json!({
            (self.noun): self.name, "written": written, "next": self.next,
            "dry_run": self.is_dry_run,
        });
        desk.screen.answer(&value, |screen, _| self.tell(screen, &written))
    }

    fn tell(&self, screen: &Screen, written: &[String]) -> Result<()> {
        screen.put(if self.is_dry_run { "would write:" } else { "wrote:" })?;
        for line in written {
            screen.put(&format!("  {}", escape::line(line)))?;
        }
        if self.is_dry_run {
            return Ok(());
        }
        screen.put(&screen.paint(Style::Bold, "\nnext:"))?;
        self.next.iter().try_for_each(|line| screen.put(&format!("  {line}")))
    }
}

/// Loads the extended script; an invalid one is not written.
fn try_out(path: &Utf8Path, items: &[Item]) -> Result<()> {
    let mut files = BTreeMap::new();
    for item in items {
        match item {
            Item::File(path, text) | Item::Text { path, after: text, .. } => {
                let text = text.strip_prefix('\u{feff}').unwrap_or(text);
                files.insert(path.clone(), text.to_owned());
            }
            Item::Link(..) | Item::Line(..) => {}
        }
    }
    match script::load_changed(path, files) {
        Ok(_) => Ok(()),
        Err(report) => {
            let first = report.errors.first();
            let message = first.map_or_else(String::new, script::Diagnostic::headline);
            let note = first.and_then(|it| it.note.clone()).map(|it| format!(" ({it})"));
            Err(Error::invalid(format!("the script would be wrong: {message}"))
                .code("bad_script")
                .hint(format!("nothing was written{}", note.unwrap_or_default())))
        }
    }
}
