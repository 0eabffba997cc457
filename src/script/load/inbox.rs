//! Additional settings of kinds whose jobs are started by messages: address, schemas, hooks.

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

/// Default recipients that instances may send to.
const SENDS: [&str; 3] = ["person:*", "agent:*", "topic:*"];

/// An inbox: a kind `TEMPLATE/NAME` whose jobs are started by messages to `topic:TEMPLATE/NAME`.
#[derive(Clone, Debug, Serialize)]
pub struct Inbox {
    /// The part before the slash: the template of the instances.
    pub template: String,
    /// The part after the slash.
    pub name: String,
    /// Schema of the payload of a message.
    pub schema: Option<JsonSchema>,
    /// Schema of the reply of an instance.
    pub reply_schema: Option<JsonSchema>,
    /// What happens to an instance after a crash.
    pub on_lost: OnLost,
    /// Patterns of the addresses that its instances may send to; `*` matches any name.
    pub sends: Vec<String>,
    /// Kind of the jobs that watch its instances.
    pub monitor: Option<String>,
    /// How long an instance whose engine goes on waits for another message after a turn.
    pub after_turn: Duration,
}

/// How long that is if the declaration does not say.
const AFTER_TURN: Duration = Duration::from_secs(5 * 60);

/// What happens to an instance after a crash of the server or the guard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLost {
    /// It fails.
    #[default]
    Fail,
    /// It is retried if its run had not started; twice at most.
    Requeue,
    /// It is retried, even after its run started and after a timeout; twice at most.
    RequeueAlways,
}

/// Commands around the agent of a job, and its workspace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Hooks {
    /// Program and arguments that run before the agent.
    pub prepare: Option<Vec<String>>,
    /// Program and arguments that run after it, whatever its outcome.
    pub cleanup: Option<Vec<String>>,
    /// Program and arguments that run instead of the engine's command.
    pub start: Option<Vec<String>>,
    /// Longest run of a hook.
    pub timeout: Duration,
    /// Where the agent works.
    pub workspace: WorkspaceMode,
    /// Absolute folder in which the hooks start, and below which worktrees are created.
    pub cwd_base: Option<Utf8PathBuf>,
    /// Absolute path template of the folder of an instance, containing `{{message_id}}`.
    pub cwd_template: Option<String>,
    /// Absolute folder of the repository from which worktrees are created.
    pub repo: Option<Utf8PathBuf>,
}

impl Hooks {
    /// Returns whether its jobs need a workspace: they have a folder of their own, or hooks run
    /// before or after the agent.
    pub fn needs_workspace(&self) -> bool {
        self.prepare.is_some()
            || self.cleanup.is_some()
            || self.workspace == WorkspaceMode::Worktree
    }

    /// Returns the commands besides the engine's: the field, and the command as written.
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
    /// In a worktree of its own, which is removed once its work is saved.
    Worktree,
}

/// Builds the inbox of one declaration.
pub(crate) struct InboxBuilder<'a> {
    /// The declaration; its name has two parts, or that was reported.
    pub(crate) declared: &'a Declared,
    /// Its fields.
    pub(crate) checked: &'a Checked,
    /// The file that declares it, relative to the script's folder.
    pub(crate) file: &'a Utf8Path,
    /// Reader of files next to the script.
    pub(crate) beside: &'a Beside<'a>,
    /// The findings.
    pub(crate) findings: &'a mut Findings,
}

impl InboxBuilder<'_> {
    /// Validates the fields that only an inbox has; valid only if no finding is an error.
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
            monitor: checked.text("monitor").map(str::to_owned),
            after_turn: checked.duration("after_turn").unwrap_or(AFTER_TURN),
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
                "`{field}` of {title} is not a file below the script: {}",
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
                for (place, hint) in schema.unknown_words() {
                    let message = format!("`{field}` of {title}: {path}: no schema has {place}");
                    let finding = Diagnostic::warning("unknown-keyword", message);
                    let finding = finding.at(self.checked.spot(field));
                    self.findings.add(finding.note(hint));
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
                "`{}` in `sends` of {title} is not an address pattern",
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

/// Returns whether a text is an address, in which `*` may replace anything after the class.
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
