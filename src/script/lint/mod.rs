//! Warnings about probable mistakes in a script.
//!
//! **Invariant:** a script with only warnings is valid; an invalid kind gets no warnings.

pub(in crate::script) mod answers;
pub(in crate::script) mod arguments;
pub(in crate::script) mod bytecode;
mod declarations;
pub(in crate::script) mod judge;
mod library;
pub(in crate::script) mod op;
pub(in crate::script) mod walk;

use std::collections::{BTreeMap, BTreeSet};

use crate::script::config::secret::EnvValue;
use crate::script::config::{Engine, Kind, Lane, Limits};
use crate::script::load::daily;
use crate::script::load::extract::Given;
use crate::script::load::node::Draft;
use crate::script::source::diagnostic::{Diagnostic, Findings, suggestion};
use crate::script::source::span::Spot;

pub(crate) use declarations::kind;

/// The context of the warnings.
pub(crate) struct Lint<'a> {
    /// The declarations.
    pub(crate) draft: &'a Draft,
    /// The bounds.
    pub(crate) limits: &'a Limits,
    /// The engines that are right.
    pub(crate) engines: &'a BTreeMap<String, Engine>,
    /// The kinds.
    pub(crate) kinds: &'a BTreeMap<String, Kind>,
    /// The kinds of the assistant.
    pub(crate) private: &'a BTreeMap<String, Kind>,
    /// The findings.
    pub(crate) findings: &'a mut Findings,
}

impl Lint<'_> {
    /// Checks what concerns several declarations.
    pub(crate) fn look(mut self, lanes: &BTreeMap<String, Spot>) {
        self.lanes(lanes);
        self.engines();
        self.keys();
        self.caps();
        self.slots();
    }

    /// Warns if an instance may wait for another job while it holds the only slot.
    fn slots(&mut self) {
        let first = self.draft.declared.iter().find(|it| it.word == "inbox");
        if let Some(first) = first.filter(|_| self.limits.jobs == 1) {
            let message = "one job runs at a time, and there are inboxes".to_owned();
            let spot = first.spot.clone();
            let note = "an instance that waits for another job would wait for ever: \
                        write wb.limits { jobs = 4 }";
            self.warn("one-slot", message, &spot, note);
        }
    }

    fn warn(&mut self, code: &'static str, message: String, spot: &Spot, note: &str) {
        self.findings.add(Diagnostic::warning(code, message).at(spot).note(note));
    }

    fn lanes(&mut self, spots: &BTreeMap<String, Spot>) {
        let all = || self.kinds.values().filter_map(|it| it.lane.as_ref());
        let lanes: BTreeSet<&str> = all().filter_map(Lane::input).collect();
        // A function may give a lane any name.
        let is_open = all().any(|it| it.input().is_none());
        for (name, spot) in spots {
            let capacity = self.limits.lanes.get(name).copied().unwrap_or(1);
            if !is_open && !lanes.contains(name.as_str()) {
                let message = format!("no kind has the lane `{}`", name.escape_debug());
                self.warn("unused", message, spot, &suggestion(name, lanes.iter().copied()));
            } else if capacity > self.limits.jobs {
                let message = format!("`{name}` in `lanes` is {capacity}, above `jobs` of limits");
                let note = format!("raise jobs = {}, or it has no effect", self.limits.jobs);
                self.warn("shadowed", message, spot, &note);
            }
        }
    }

    fn engines(&mut self) {
        let (draft, has_errors) = (self.draft, self.findings.errors() > 0);
        for engine in self.engines.values() {
            let mut declared = draft.declared.iter().filter(|it| it.word == "engine");
            let spot = declared.find(|it| it.spot.at() == engine.at).map(|it| it.spot.clone());
            let spot = spot.unwrap_or_else(|| Spot::line(&engine.at.file, engine.at.line));
            let mut kinds = self.kinds.values().chain(self.private.values());
            let is_used = kinds.any(|kind| kind.engine == engine.name);
            if draft.is_whole && !has_errors && !is_used && !engine.is_builtin() {
                let user = if engine.speech.is_some() { "agent" } else { "kind" };
                let message = format!("no {user} uses the engine \"{}\"", engine.name);
                let note = format!("name it in wb.{user}: engine = \"{}\"", engine.name);
                self.warn("unused", message, &spot, &note);
            }
            if let Some(word) = engine.unasked() {
                let message = format!("engine \"{}\" runs with {word}", engine.name);
                let note = match engine.asks.is_empty() {
                    true => "its agents may do all that the server's account may do",
                    false => "its `asks` has no effect: leave that word out",
                };
                self.warn("skips-permissions", message, &spot, note);
            }
        }
    }

    /// Warns about a literal API key, which is copied along with the script.
    fn keys(&mut self) {
        const BEGINNINGS: [&str; 6] = ["sk-", "sk_live_", "ghp_", "github_pat_", "xoxb-", "AKIA"];
        for declared in self.draft.declared.iter().filter(|it| it.word == "engine") {
            let Some(Given::Texts(texts)) = declared.checked().given("env") else { continue };
            for (name, (value, spot)) in texts {
                let is_key = |text: &String| {
                    text.len() >= 16 && BEGINNINGS.iter().any(|it| text.starts_with(it))
                };
                if matches!(value, EnvValue::Text(text) if is_key(text)) {
                    let message = format!("`{name}` in `env` of {} is a key", declared.title());
                    let note = format!("write {name} = wb.secret.env \"{name}\"");
                    let finding = Diagnostic::warning("secret-literal", message).at_name(spot);
                    self.findings.add(finding.note(note));
                }
            }
        }
    }

    /// Warns about caps that do not see the spending.
    fn caps(&mut self) {
        let names = self.draft.declared.iter().map(|it| ((it.word, it.name.as_deref()), &it.spot));
        let spots: BTreeMap<_, _> = names.rev().collect();
        let find = |word: &str, name: Option<&str>| spots.get(&(word, name)).copied();
        for kind in self.kinds.values().filter(|it| it.daily.is_some()) {
            let (Some(engine), Some(spot)) =
                (self.engines.get(&kind.engine), find(kind.word(), Some(kind.declared_name())))
            else {
                continue;
            };
            let title = format!("daily of {}", kind.title());
            daily::warn_unseen(&title, kind.daily.as_ref(), &[engine], spot, self.findings);
        }
        let is_used = |it: &&Engine| self.kinds.values().any(|kind| kind.engine == it.name);
        let used: Vec<&Engine> = self.engines.values().filter(is_used).collect();
        let Some(spot) = find("limits", None) else { return };
        for (title, cap) in [
            ("limits.daily", &self.limits.daily),
            ("limits.daily_person", &self.limits.daily_person),
        ] {
            daily::warn_unseen(title, cap.as_ref(), &used, spot, self.findings);
        }
    }
}
