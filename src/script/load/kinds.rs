//! Validates all kinds of a script.

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8Path;

use crate::script::config::{Config, Engine, InputType, Kind, Limits};
use crate::script::lint;
use crate::script::load::assistant::KIND_PREFIX;
use crate::script::load::files::Beside;
use crate::script::load::kind::KindBuilder;
use crate::script::load::node::{Declared, Draft};
use crate::script::source::diagnostic::{Diagnostic, Findings, suggestion};

/// The input by which a monitor gets the id of the instance that it watches.
pub const WORKER: &str = "worker";

/// The context for validating kinds.
pub(crate) struct Kinds<'a> {
    /// The declarations.
    pub(crate) draft: &'a Draft,
    /// Reader of files next to the script.
    pub(crate) beside: &'a Beside<'a>,
    /// Absolute folder of the site's repository.
    pub(crate) root: &'a Utf8Path,
    /// The engines that are right.
    pub(crate) engines: &'a BTreeMap<String, Engine>,
    /// The names of all engines.
    pub(crate) engine_names: Option<&'a BTreeSet<String>>,
    /// The bounds.
    pub(crate) limits: &'a Limits,
}

impl Config {
    /// Returns the kind with this name or previous name.
    pub fn kind(&self, name: &str) -> Option<&Kind> {
        let renamed = || self.kinds.values().find(|it| it.was.as_deref() == Some(name));
        self.kinds.get(name).or_else(renamed)
    }

    /// Returns the kind of a running job: one of the script, also by its previous name, or one of
    /// the assistant.
    pub fn kind_of_job(&self, name: &str) -> Option<&Kind> {
        self.kind(name).or_else(|| self.private.get(name))
    }

    /// Returns every kind that jobs may have, including those of the assistant.
    pub fn kinds_of_jobs(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.values().chain(self.private.values())
    }

    /// Returns whether any kind uses an engine.
    pub fn uses(&self, engine: &str) -> bool {
        self.kinds_of_jobs().any(|it| it.engine == engine)
    }
}

impl Kinds<'_> {
    /// Returns all kinds, including those of inboxes, in the order of their declarations; each is
    /// valid only if no finding is an error.
    pub(crate) fn all(&self, findings: &mut Findings) -> Vec<Kind> {
        let one = |declared: &Declared| {
            let errors = findings.errors();
            let checked = declared.judge(findings);
            let builder = KindBuilder {
                declared,
                checked,
                beside: self.beside,
                root: self.root,
                engines: self.engines,
                engine_names: self.engine_names,
                findings,
            };
            let kind = builder.build();
            if findings.errors() == errors {
                let engine = self.engines.get(&kind.engine);
                lint::kind(
                    declared.title(),
                    (&kind, checked, engine),
                    self.limits,
                    self.draft,
                    findings,
                );
            }
            kind
        };
        let declared = || {
            self.draft.declared.iter().filter(|it| matches!(it.word, "kind" | "inbox" | "agent"))
        };
        let kinds: Vec<Kind> = declared().map(one).collect();
        self.check_was(findings);
        self.check_monitors(&kinds, findings);
        self.check_prefix(findings);
        kinds
    }

    /// Refuses the kinds of the assistant: only `wb.assistant` creates them.
    fn check_prefix(&self, findings: &mut Findings) {
        let kinds = self.draft.declared.iter().filter(|it| it.word == "kind");
        for declared in kinds {
            let was = declared.checked().text("was");
            for name in declared.name.as_deref().into_iter().chain(was) {
                if name.starts_with(KIND_PREFIX) {
                    let message = format!("no kind can have the name `{}`", name.escape_debug());
                    let note = "names that begin with assistant_ belong to wb.assistant";
                    let finding = Diagnostic::error("bad-name", message).at(&declared.spot);
                    findings.add(finding.note(note));
                }
            }
        }
    }

    /// Refuses monitors that no instance could start.
    fn check_monitors(&self, kinds: &[Kind], findings: &mut Findings) {
        let inboxes = self.draft.declared.iter().filter(|it| it.word == "inbox");
        for declared in inboxes {
            let checked = declared.checked();
            let Some(name) = checked.text("monitor") else { continue };
            let shown = name.escape_debug();
            let Some(kind) = kinds.iter().find(|it| it.name == name) else {
                let message =
                    format!("{} names no kind as its monitor: `{shown}`", declared.title());
                let names = kinds.iter().filter(|it| it.word() == "kind");
                let note = suggestion(name, names.map(|it| it.name.as_str()));
                let finding = Diagnostic::error("unknown-kind", message);
                findings.add(finding.at(checked.spot("monitor")).note(note));
                continue;
            };
            if let Some((why, note)) = no_monitor(kind) {
                let message = format!("the monitor of {} {why}: `{shown}`", declared.title());
                let finding = Diagnostic::error("broken-rule", message);
                findings.add(finding.at(checked.spot("monitor")).note(note));
            }
        }
    }

    /// Refuses a previous name that is also the name of another kind.
    fn check_was(&self, findings: &mut Findings) {
        let mut taken: BTreeMap<&str, &Declared> = BTreeMap::new();
        let kinds = || self.draft.declared.iter().filter(|it| it.word == "kind");
        for declared in kinds() {
            let Some(before) = declared.checked().text("was") else { continue };
            let is_there = |it: &&Declared| it.name.as_deref() == Some(before);
            let other = kinds().find(is_there).or(taken.get(before).copied());
            if let Some(other) = other.filter(|it| it.name != declared.name) {
                let message = format!("`was` of {} is taken: {before}", declared.title());
                let note = match other.name.as_deref() == Some(before) {
                    true => format!("{} is still declared: leave `was` out", other.title()),
                    false => format!("{} says it too: leave one of them out", other.title()),
                };
                let finding = Diagnostic::error("duplicate", message);
                findings.add(finding.at(declared.checked().spot("was")).note(note));
            }
            taken.entry(before).or_insert(declared);
        }
    }
}

/// Returns why no job of a kind can watch an instance, and how to change that.
fn no_monitor(kind: &Kind) -> Option<(&'static str, &'static str)> {
    let is_worker = |it: &&crate::script::config::Input| {
        it.name == WORKER && it.required && matches!(it.ty, InputType::Line | InputType::Text)
    };
    let needed = || kind.inputs.iter().filter(|it| it.required && it.default.is_none());
    if kind.word() != "kind" {
        Some(("is not a kind of job", "declare it with wb.kind"))
    } else if !kind.inputs.iter().any(|it| is_worker(&it)) {
        Some((
            "lacks the input `worker`",
            "write inputs = { worker = wb.input.line() } in that kind",
        ))
    } else if needed().any(|it| it.name != WORKER) {
        Some(("needs other inputs than `worker`", "make them optional, or remove them"))
    } else if kind.produces.is_some() {
        Some(("promises a result", "remove `produces`: a monitor ends with its worker"))
    } else {
        None
    }
}
