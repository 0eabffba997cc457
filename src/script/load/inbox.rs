//! What a kind has more if messages start its jobs: its address, its schemas, its hooks.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use serde::Serialize;

use crate::base::Address;
use crate::base::limit::{INBOX_CONCURRENCY_MAX, SCHEMA_BYTES_MAX};
use crate::script::config::json_schema::JsonSchema;
use crate::script::load::extract::Checked;
use crate::script::load::files::{Beside, below};
use crate::script::load::hook::shown_command;
use crate::script::load::node::Declared;
use crate::script::source::diagnostic::{Diagnostic, Findings};

/// Whom instances may write to if nothing is declared.
const SENDS: [&str; 3] = ["person:*", "agent:*", "topic:*"];

/// An inbox: a kind `TEMPLATE/NAME` whose jobs are started by messages to `topic:TEMPLATE/NAME`.
#[derive(Clone, Debug, Serialize)]
pub struct Inbox {
    /// What stands before the slash: whom the instances are instances of.
    pub template: String,
    /// What stands behind it.
    pub name: String,
    /// What the payload of a message must be.
    pub schema: Option<JsonSchema>,
    /// What the reply of an instance must be.
    pub reply_schema: Option<JsonSchema>,
    /// What happens to an instance that a crash ended.
    pub on_lost: OnLost,
    /// Patterns of the addresses that its instances may send to; `*` stands for any name.
    pub sends: Vec<String>,
}

/// What happens to an instance that a crash of server or guard ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLost {
    /// It has failed.
    #[default]
    Fail,
    /// It is repeated if its run had not begun; twice at most.
    Requeue,
    /// It is repeated, also after its run began and after a timeout; twice at most.
    RequeueAlways,
}

/// What is run before and after the agent of a job, and where.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Hooks {
    /// Program and arguments that run before the agent.
    pub prepare: Option<Vec<String>>,
    /// Program and arguments that run after it, whatever it came to.
    pub cleanup: Option<Vec<String>>,
    /// Program and arguments that run in place of the engine's command.
    pub start: Option<Vec<String>>,
    /// Longest run of a hook.
    pub timeout: Duration,
    /// Where the agent works.
    pub workspace: WorkspaceMode,
    /// Absolute folder in which the hooks start, and below which worktrees are made.
    pub cwd_base: Option<Utf8PathBuf>,
    /// Absolute path of the folder of an instance, with `{{message_id}}` in it.
    pub cwd_template: Option<String>,
    /// Absolute folder of the repository of which worktrees are made.
    pub repo: Option<Utf8PathBuf>,
}

impl Hooks {
    /// Returns whether a job of this kind is more than one process: it has a folder of its own, or
    /// something runs before or after it.
    pub fn needs_workspace(&self) -> bool {
        self.prepare.is_some()
            || self.cleanup.is_some()
            || self.workspace == WorkspaceMode::Worktree
    }

    /// Returns what is executed beside the engine: the field, and the command as it was written.
    pub fn commands(&self) -> Vec<(&'static str, String)> {
        let all = [("prepare", &self.prepare), ("start", &self.start), ("cleanup", &self.cleanup)];
        let given = all.into_iter().filter_map(|(name, argv)| Some((name, argv.as_deref()?)));
        given.map(|(name, argv)| (name, shown_command(argv))).collect()
    }
}

/// Where an agent works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceMode {
    /// In the folder that all jobs share.
    #[default]
    Shared,
    /// In a worktree of its own, which is removed when its work is kept.
    Worktree,
}

/// Makes the inbox of one declaration.
pub(crate) struct InboxBuilder<'a> {
    /// The declaration; its name has two parts unless that was reported.
    pub(crate) declared: &'a Declared,
    /// Its fields.
    pub(crate) checked: &'a Checked,
    /// The file that declares it, from the script's folder.
    pub(crate) file: &'a Utf8Path,
    /// Files beside the script.
    pub(crate) beside: &'a Beside<'a>,
    /// Where findings go.
    pub(crate) findings: &'a mut Findings,
}

impl InboxBuilder<'_> {
    /// Judges what only an inbox has; right only if no finding is an error.
    pub(crate) fn build(mut self, is_builtin: bool) -> Inbox {
        let (checked, title) = (self.checked, self.declared.title());
        if is_builtin {
            let message = format!("{title} cannot have a builtin engine");
            let note = "a builtin engine reads no messages: name one of type \"process\"";
            self.error("broken-rule", message, "engine", note);
        }
        if let Some(count) = checked.count("concurrency").filter(|it| *it > INBOX_CONCURRENCY_MAX) {
            let message = format!(
                "`concurrency` of {title} is {count}, but must be from 1 to {INBOX_CONCURRENCY_MAX}"
            );
            self.error("out-of-range", message, "concurrency", "lower it");
        }
        let whole = self.declared.name.clone().unwrap_or_default();
        let (template, name) = whole.split_once('/').unwrap_or((&whole, ""));
        Inbox {
            template: template.to_owned(),
            name: name.to_owned(),
            schema: self.schema("schema"),
            reply_schema: self.schema("reply_schema"),
            on_lost: match checked.text("on_lost") {
                Some("requeue") => OnLost::Requeue,
                Some("requeue_always") => OnLost::RequeueAlways,
                _ => OnLost::Fail,
            },
            sends: patterns(self.declared.title(), self.checked, self.findings),
        }
    }

    fn error(&mut self, code: &'static str, message: String, field: &str, note: &str) {
        let finding = Diagnostic::error(code, message).at(self.checked.spot(field));
        self.findings.add(finding.note(note));
    }

    fn schema(&mut self, field: &'static str) -> Option<JsonSchema> {
        let (title, written) = (self.declared.title(), self.checked.text(field)?);
        let Some(path) = below(written, self.file) else {
            let message = format!(
                "`{field}` of {title} is no file below the script: {}",
                written.escape_debug()
            );
            self.error("bad-path", message, field, "write \"schemas/NAME.json\"");
            return None;
        };
        let text = match self.beside.read(&path, SCHEMA_BYTES_MAX) {
            Ok(text) => text,
            Err(cause) => {
                let message = format!("`{field}` of {title}: {}", cause.message());
                let missing = format!("write {path}, as {{\"type\": \"object\"}}");
                let note = cause.hint_str().unwrap_or(&missing);
                self.error("missing-schema", message, field, note);
                return None;
            }
        };
        let compiled = match serde_json::from_str(&text) {
            Ok(json) => JsonSchema::compile(json).map_err(|cause| cause.message().to_owned()),
            Err(cause) => Err(format!("no JSON: {cause}")),
        };
        match compiled {
            Ok(schema) => {
                for (place, near) in schema.unknown_words() {
                    let message = format!("`{field}` of {title}: {path}: no schema has {place}");
                    let finding = Diagnostic::warning("unknown-keyword", message);
                    let finding = finding.at(self.checked.spot(field));
                    self.findings.add(finding.note(format!("did you mean `{near}`?")));
                }
                Some(schema)
            }
            Err(fault) => {
                let message = format!("`{field}` of {title}: {path}: {fault}");
                let note = match fault.contains("outside of the schema") {
                    true => "a schema refers to nothing outside of its file",
                    false => {
                        "for example {\"type\": \"object\", \"required\": [\"team\"], \
                              \"properties\": {\"team\": {\"type\": \"string\"}}}"
                    }
                };
                self.error("bad-schema", message, field, note);
                None
            }
        }
    }
}

/// Returns the patterns of the addresses that agents may send to.
pub(crate) fn patterns(title: &str, checked: &Checked, findings: &mut Findings) -> Vec<String> {
    if !checked.has("sends") {
        return SENDS.map(str::to_owned).to_vec();
    }
    let mut patterns = Vec::new();
    for (pattern, spot) in checked.lines("sends") {
        if !is_address_pattern(pattern) {
            let message = format!(
                "`{}` in `sends` of {title} is no pattern of addresses",
                pattern.escape_debug()
            );
            let note = "write \"person:*\", \"agent:NAME\", \"topic:TEMPLATE/*\" or \
                        \"channel:NAME\"";
            findings.add(Diagnostic::error("bad-address", message).at(spot).note(note));
        }
        patterns.push(pattern.clone());
    }
    patterns
}

/// Returns whether a text is an address, in which `*` may stand for any text behind the class.
fn is_address_pattern(pattern: &str) -> bool {
    let Some((class, name)) = pattern.split_once(':') else { return false };
    let is_recipient = |it: Address| it.class().is_some();
    match (class, name) {
        ("agent" | "topic" | "person" | "channel", "*") => true,
        _ => !class.contains('*') && pattern.replace('*', "x").parse().is_ok_and(is_recipient),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text_behind_the_class() {
        for pattern in ["person:*", "agent:lead", "topic:a-*/b*", "topic:*/b", "agent:a/*"] {
            assert!(is_address_pattern(pattern), "{pattern}");
        }
        for pattern in
            ["*", "lead", "approval:a", "approval:*", "topic:a", "person:a b", "x:*", "*:a", ""]
        {
            assert!(!is_address_pattern(pattern), "{pattern}");
        }
    }
}
