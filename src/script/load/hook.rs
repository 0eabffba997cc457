//! Commands around an agent: shell text, a script file, or an argument list.
//!
//! **Invariant:** the text of `"./FILE"` is read when the script is loaded and passed to its
//! interpreter as an argument; later edits have no effect until a reload.

use std::fmt::Arguments;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::limit::{HOOK_BYTES_MAX, HOOK_MS_MAX, format_duration, parse_duration};
use crate::script::load::extract::{Checked, Given, how_to_write};
use crate::script::load::files::{Beside, absolute, below};
use crate::script::load::inbox::{Hooks, WorkspaceMode};
use crate::script::load::node::{Node, Plain};
use crate::script::schema::Field;
use crate::script::source::diagnostic::{Diagnostic, Findings};
use crate::script::source::span::Spot;

/// Interpreters that accept a program as an argument, with the option for it.
const INTERPRETERS: [(&str, &str); 7] = [
    ("sh", "-c"),
    ("bash", "-c"),
    ("dash", "-c"),
    ("ksh", "-c"),
    ("zsh", "-c"),
    ("python", "-c"),
    ("python3", "-c"),
];

/// A command as it is declared.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// Shell text, or `./FILE`.
    Text(String),
    /// Program and arguments.
    List(Vec<String>),
}

/// Parses a command: one text, or a list of texts.
pub(crate) fn fit(
    label: Arguments<'_>,
    field: &Field,
    node: &Node,
    findings: &mut Findings,
) -> Option<Command> {
    let command = match &node.value {
        Plain::Text(text) => Some(Command::Text(text.clone())),
        Plain::Table(table) if table.fields.is_empty() => {
            let word = |item: &Node| match &item.value {
                Plain::Text(text) => Some(text.clone()),
                _ => None,
            };
            table.items.iter().map(word).collect::<Option<Vec<_>>>().map(Command::List)
        }
        _ => None,
    };
    let wrong = match &command {
        None => Some("is neither a text nor a list of texts"),
        Some(Command::Text(text)) if text.trim().is_empty() => Some("is empty"),
        Some(Command::List(words)) if words.first().is_none_or(|it| it.trim().is_empty()) => {
            Some("has no program")
        }
        Some(Command::List(words)) if words[0].starts_with('.') => {
            Some("begins with a path that no folder belongs to")
        }
        Some(command) if command.holds_zero() => Some("holds a zero byte"),
        Some(_) => None,
    };
    let Some(wrong) = wrong else { return command };
    let code = if command.is_some() { "bad-text" } else { "wrong-type" };
    let finding = Diagnostic::error(code, format!("{label} {wrong}")).at(&node.spot);
    findings.add(finding.note(match wrong.starts_with("begins") {
        true => "a script next to the declaration is one text, \"./NAME.sh\"".to_owned(),
        false => how_to_write(field),
    }));
    None
}

impl Command {
    fn holds_zero(&self) -> bool {
        match self {
            Command::Text(text) => text.contains('\0'),
            Command::List(words) => words.iter().any(|word| word.contains('\0')),
        }
    }
}

/// Builds the hooks of one declaration.
pub(crate) struct HookBuilder<'a> {
    /// `kind "x"` or `inbox "a/b"`.
    pub(crate) title: &'a str,
    /// Its fields.
    pub(crate) checked: &'a Checked,
    /// The file that declares it, relative to the script's folder.
    pub(crate) file: &'a Utf8Path,
    /// Reader of files next to the script.
    pub(crate) beside: &'a Beside<'a>,
    /// Absolute folder of the site's repository.
    pub(crate) root: &'a Utf8Path,
    /// The findings.
    pub(crate) findings: &'a mut Findings,
}

impl HookBuilder<'_> {
    /// Validates the fields of hooks and workspace; valid only if no finding is an error.
    pub(crate) fn build(mut self, is_inbox: bool) -> Hooks {
        let checked = self.checked;
        let workspace = match checked.text("workspace") {
            Some("worktree") => WorkspaceMode::Worktree,
            _ => WorkspaceMode::Shared,
        };
        let repo = match (checked.text("repo"), workspace) {
            (Some(written), _) => Some(self.folder("repo", written)),
            (None, WorkspaceMode::Worktree) => Some(self.root.to_owned()),
            (None, WorkspaceMode::Shared) => None,
        };
        let cwd_base = checked.text("cwd_base").map(|written| self.folder("cwd_base", written));
        let hooks = Hooks {
            prepare: self.command("prepare"),
            cleanup: self.command("cleanup"),
            start: is_inbox.then(|| self.command("start")).flatten(),
            timeout: self.timeout(),
            workspace,
            cwd_template: self.cwd_template(workspace, cwd_base.as_deref()),
            cwd_base,
            repo,
        };
        let runs = hooks.prepare.is_some() || hooks.cleanup.is_some();
        if checked.has("hook_timeout") && !runs {
            let why = "it has neither `prepare` nor `cleanup`";
            self.warn_shadowed("hook_timeout", why);
        }
        if hooks.cwd_template.is_some() && hooks.prepare.is_none() && !checked.is_wrong("prepare") {
            self.warn_shadowed("cwd_template", "without `prepare` nobody makes that folder");
        }
        hooks
    }

    fn error(&mut self, code: &'static str, message: String, spot: &Spot, note: &str) {
        self.findings.add(Diagnostic::error(code, message).at(spot).note(note));
    }

    fn warn_shadowed(&mut self, field: &str, why: &str) {
        let message = format!("`{field}` of {} has no effect", self.title);
        let finding = Diagnostic::warning("shadowed", message).at(self.checked.spot(field));
        self.findings.add(finding.note(why));
    }

    fn folder(&mut self, field: &str, written: &str) -> Utf8PathBuf {
        if written.starts_with('~') {
            let message = format!("`{field}` of {} is `{}`", self.title, written.escape_debug());
            let note = "`~` is not expanded: write the whole path";
            self.error("bad-path", message, self.checked.spot(field), note);
        }
        absolute(self.beside.folder, written, self.file)
    }

    fn timeout(&mut self) -> Duration {
        let timeout = self.checked.duration("hook_timeout").unwrap_or_default();
        if timeout > Duration::from_millis(HOOK_MS_MAX) {
            let most = format_duration(Duration::from_millis(HOOK_MS_MAX));
            let message = format!("`hook_timeout` of {} is above {most}", self.title);
            let spot = self.checked.spot("hook_timeout");
            self.error("out-of-range", message, spot, &format!("write \"{most}\""));
        }
        timeout
    }

    /// Validates the template of an instance's folder, which must differ for each message.
    fn cwd_template(&mut self, mode: WorkspaceMode, base: Option<&Utf8Path>) -> Option<String> {
        let written = self.checked.text("cwd_template")?;
        let (title, spot) = (self.title, self.checked.spot("cwd_template"));
        let message_id = "{{message_id}}";
        let plain = written.replace(message_id, "").replace("{{cwd_base}}", "");
        if plain.contains("{{") {
            let message = format!("`cwd_template` of {title} has an unknown name");
            let note = "it knows {{message_id}} and {{cwd_base}}";
            self.error("unknown-name", message, spot, note);
        } else if !written.contains(message_id) {
            let message = format!("`cwd_template` of {title} has no {message_id}");
            let note = "two instances would share the folder: write …/wt-{{message_id}}";
            self.error("bad-template", message, spot, note);
        } else if mode == WorkspaceMode::Worktree {
            let message = format!("{title} has `cwd_template` and workspace = \"worktree\"");
            let note = "leave one out: worktrees are made below `cwd_base` without a hook";
            self.error("broken-rule", message, spot, note);
        } else if written.contains("{{cwd_base}}") && base.is_none() {
            let message = format!("`cwd_template` of {title} needs `cwd_base`");
            self.error("missing-field", message, spot, "write cwd_base = \"/var/work\"");
        }
        let filled = written.replace("{{cwd_base}}", base.map_or("", Utf8Path::as_str));
        Some(absolute(self.beside.folder, &filled, self.file).into_string())
    }

    fn command(&mut self, field: &'static str) -> Option<Vec<String>> {
        let Some(Given::Command(command)) = self.checked.given(field) else { return None };
        let bytes = match command {
            Command::Text(text) => text.len(),
            Command::List(words) => words.iter().map(String::len).sum(),
        };
        if bytes > HOOK_BYTES_MAX {
            let message =
                format!("`{field}` of {} has more than {HOOK_BYTES_MAX} bytes", self.title);
            let note = "write it into a file next to the declaration: \"./NAME.sh\"";
            self.error("bad-text", message, self.checked.spot(field), note);
            return None;
        }
        self.warn_unlike(field, command);
        if let Command::Text(text) = command
            && field == "start"
            && parse_duration(text.trim()).is_ok()
        {
            let message = format!("`start` of {} is a command, and `{text}` is a time", self.title);
            let note = format!("write first_output = \"{}\"", text.trim());
            let finding = Diagnostic::warning("bad-duration", message);
            self.findings.add(finding.at(self.checked.spot(field)).note(note));
        }
        match command {
            Command::List(words) if words[0].contains('/') => Some(words.clone()),
            // The guard that runs it does not search PATH, so `env` does.
            Command::List(words) => {
                let env = std::iter::once("/usr/bin/env".to_owned());
                Some(env.chain(words.iter().cloned()).collect())
            }
            Command::Text(text) if is_file(text) => self.file(field, text.trim()),
            Command::Text(text) => Some(shell("/bin/sh", text)),
        }
    }

    /// Warns of a command that would run otherwise than it reads.
    fn warn_unlike(&mut self, field: &'static str, command: &Command) {
        let title = self.title;
        let (what, note) = match command {
            Command::List(words) if words.len() == 1 && words[0].contains(' ') => {
                let what = format!("`{field}` of {title} is one program with blanks in its name");
                (what, format!("write it without the braces: \"{}\"", words[0].escape_debug()))
            }
            Command::List(words) => {
                let is_name = |it: &str| it.starts_with(|c: char| c.is_ascii_uppercase());
                let is_variable = |it: &&String| it.split('$').skip(1).any(is_name);
                let shell = ["sh", "bash", "/bin/sh", "/bin/bash"].contains(&words[0].as_str());
                let Some(word) = words.iter().find(is_variable).filter(|_| !shell) else { return };
                let what = format!("`{field}` of {title} is a list, where nothing fills `{word}`");
                (what, "write one text, which a shell runs".to_owned())
            }
            Command::Text(text) => {
                let is_path = !text.contains(char::is_whitespace) && text.contains('/');
                let is_plain = is_path && !text.starts_with(['.', '/', '$', '~']);
                let is_elsewhere = is_plain && self.checked.has("cwd_base");
                let beside = below(&format!("./{text}"), self.file).filter(|_| is_elsewhere);
                if !beside.is_some_and(|it| self.beside.folder.join(it).is_file()) {
                    return;
                }
                let what = format!("`{field}` of {title} is run by a shell, in another folder");
                (what, format!("write \"./{text}\" for the file beside the declaration"))
            }
        };
        let finding = Diagnostic::warning("unlike-hook", what).at(self.checked.spot(field));
        self.findings.add(finding.note(note));
    }

    /// Returns the interpreter of a file followed by the file's text.
    fn file(&mut self, field: &'static str, written: &str) -> Option<Vec<String>> {
        let (title, spot) = (self.title, self.checked.spot(field));
        let Some(path) = below(written, self.file) else {
            let message = format!("`{field}` of {title} is not a file below the script: {written}");
            let note = "a program elsewhere is a list: { \"/usr/local/bin/NAME\" }";
            self.error("bad-path", message, spot, note);
            return None;
        };
        let text = match self.beside.read(&path, HOOK_BYTES_MAX as u64) {
            Ok(text) => text,
            Err(cause) => {
                let message = format!("`{field}` of {title}: {}", cause.message());
                let note = cause.hint_str().unwrap_or("it begins at the file that declares it");
                self.error("missing-hook", message, spot, note);
                return None;
            }
        };
        let (first, full) = (text.lines().next().unwrap_or(""), self.beside.folder.join(&path));
        match interpreter(first).filter(|_| !text.contains('\0')) {
            Some(mut words) => {
                words.extend([text.to_string(), full.into_string()]);
                Some(words)
            }
            None => {
                let message = format!("`{field}` of {title}: {path} is not a sh or python script");
                let note = format!("write a list, which runs the file itself: {{ \"{full}\" }}");
                self.error("bad-hook", message, spot, &note);
                None
            }
        }
    }
}

/// Returns program and arguments that run a shell text.
fn shell(program: &str, text: &str) -> Vec<String> {
    vec![program.to_owned(), "-c".to_owned(), text.to_owned()]
}

/// Returns whether a command is the path of a file next to the declaration.
fn is_file(text: &str) -> bool {
    let text = text.trim();
    let begins = text.starts_with("./") || text.starts_with("../");
    begins && !text.contains(char::is_whitespace)
}

/// Returns the program of a script's shebang line, up to the option that accepts its text.
fn interpreter(first: &str) -> Option<Vec<String>> {
    let Some(line) = first.strip_prefix("#!") else {
        return Some(vec!["/bin/sh".to_owned(), "-c".to_owned()]);
    };
    let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let is_env = words.first().is_some_and(|it| it.ends_with("/env"));
    let name = words.get(usize::from(is_env)).and_then(|it| it.rsplit('/').next())?;
    let (_, option) = INTERPRETERS.iter().find(|(known, _)| *known == name)?;
    words.push((*option).to_owned());
    Some(words)
}

/// Returns a command for display; for a file, its path and text.
pub fn shown_command(argv: &[String]) -> String {
    match argv {
        [program, option, text] if program == "/bin/sh" && option == "-c" => text.clone(),
        [.., option, text, path] if option == "-c" && path.starts_with('/') => {
            format!("{path}\n{text}")
        }
        [env, words @ ..] if env == "/usr/bin/env" => words.join(" "),
        words => words.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_says_what_takes_the_text() {
        for (first, expected) in [
            ("set -e", Some("/bin/sh -c")),
            ("#!/bin/bash -eu", Some("/bin/bash -eu -c")),
            ("#!/usr/bin/env bash", Some("/usr/bin/env bash -c")),
            ("#! /usr/bin/env python3", Some("/usr/bin/env python3 -c")),
            ("#!/usr/bin/perl", None),
            ("#!", None),
            ("#!/usr/bin/env", None),
        ] {
            assert_eq!(interpreter(first).map(|it| it.join(" ")).as_deref(), expected, "{first}");
        }
    }

    #[test]
    fn a_command_is_shown_as_it_was_written() {
        let words = |list: &[&str]| list.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        assert_eq!(shown_command(&shell("/bin/sh", "a && b")), "a && b");
        assert_eq!(shown_command(&words(&["git", "-C", "x"])), "git -C x");
        let file = words(&["/bin/bash", "-e", "-c", "true\n", "/srv/p.sh"]);
        assert_eq!(shown_command(&file), "/srv/p.sh\ntrue\n");
    }
}
