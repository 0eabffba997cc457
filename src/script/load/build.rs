//! Builds a `Config` from the declarations of a script: references, folders, and rules across
//! fields.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

use crate::base::limit::LIVE_AGENTS_MAX;
use crate::base::{EventKind, digest_hex};
use crate::script::config::{Config, Engine, Handler, Identity, Kind, Limits};
use crate::script::lint::Lint;
use crate::script::lint::judge;
use crate::script::load::assistant::{Assistant, ChatCaps};
use crate::script::load::channel::{self, ChannelLimits};
use crate::script::load::daily;
use crate::script::load::engine::EngineBuilder;
use crate::script::load::external::{Lead, Target};
use crate::script::load::extract::{Checked, Given, check};
use crate::script::load::files::Beside;
use crate::script::load::kinds::Kinds;
use crate::script::load::node::{Declared, Draft};
use crate::script::load::request;
use crate::script::load::schedule::{self, Schedule};
use crate::script::load::webhook::{self, Webhook};
use crate::script::schema::{self, API_VERSION};
use crate::script::source::diagnostic::{Diagnostic, Findings};
use crate::script::source::location::{ScriptFile, Slot};
use crate::script::source::span::Spot;
use crate::script::vm::thread::Plan;

/// Hint for a script without an author.
const IDENTITY_NOTE: &str = "write wb.identity { author_name = \"…\", author_email = \"…\" }";

/// Default number of jobs that handlers may request per hour.
const SCRIPT_JOBS: u32 = 200;

/// Default number of long-running agents at once.
const AGENTS: u32 = 8;

/// The input and the findings of a build.
pub(crate) struct Builder<'a> {
    draft: &'a Draft,
    pub(in crate::script) folder: &'a Utf8Path,
    script: &'a Utf8Path,
    beside: Beside<'a>,
    findings: Findings,
    pub(super) leads: Vec<Lead>,
    /// Every declared name, also of invalid declarations.
    names: BTreeMap<&'static str, BTreeSet<String>>,
}

impl<'a> Builder<'a> {
    /// Starts with the result of the evaluation.
    pub(crate) fn new(draft: &'a Draft, plan: &'a Plan) -> Self {
        let mut names: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for declared in &draft.declared {
            if let Some(name) = &declared.name {
                names.entry(declared.word).or_default().insert(name.clone());
            }
        }
        let mut findings = Findings::default();
        for finding in &draft.findings {
            findings.add(finding.clone());
        }
        let Plan { folder, script, origin, .. } = plan;
        let beside = Beside::new(folder, origin);
        Builder { draft, folder, script, beside, findings, leads: Vec::new(), names }
    }

    /// Validates everything; the config is valid only if no finding is an error.
    pub(crate) fn build(mut self) -> (Config, Vec<Lead>, Vec<Diagnostic>) {
        self.check_names();
        let site = self.site();
        let identity = self.identity();
        let (limits, lane_spots) = self.limits();
        let engines = self.engines();
        let kinds = self.kinds(&engines, &limits, &site.root);
        self.folder_leads(&kinds);
        let (assistant, private) = self.assistant(&engines, &site);
        let chat = assistant.as_ref().map_or_else(ChatCaps::default, Assistant::caps);
        let site_wide = Lint {
            draft: self.draft,
            limits: &limits,
            engines: &engines,
            kinds: &kinds,
            private: &private,
            findings: &mut self.findings,
        };
        site_wide.look(&lane_spots);
        let channels =
            channel::build(self.draft, &self.beside, limits.channels, &mut self.findings);
        let schedules = self.schedules(&kinds);
        let webhooks = self.webhooks();
        let handlers = handlers(&self.draft.handlers);
        let mut files = self.draft.files.clone();
        files.extend(self.beside.take());
        let config = Config {
            digest: digest(&files),
            files,
            folder: self.folder.to_owned(),
            script: self.folder.join(self.script),
            site,
            identity,
            limits,
            chat,
            engines,
            kinds,
            assistant,
            private,
            channels,
            handlers,
            schedules,
            webhooks,
        };
        judge::look(self.draft, &config, &mut self.findings);
        let mut findings = self.findings.take();
        if !self.draft.is_whole {
            // What they name may be declared after the error that ended the script.
            findings.retain(|it| !matches!(it.code.as_ref(), "unknown-engine" | "unknown-kind"));
        }
        (config, self.leads, findings)
    }

    pub(super) fn error(&mut self, code: &'static str, message: String, spot: &Spot, note: &str) {
        self.findings.add(Diagnostic::error(code, message).at(spot).note(note));
    }

    /// Reports duplicate declarations as errors that name both lines.
    fn check_names(&mut self) {
        let mut first: BTreeMap<(&str, Option<&String>), &Spot> = BTreeMap::new();
        for declared in &self.draft.declared {
            let key = (declared.word, declared.name.as_ref());
            if let Some(before) = first.get(&key) {
                let message = format!("{} is declared twice", declared.title());
                let note = format!("first declared at {}", before.at());
                let finding = Diagnostic::error("duplicate", message).at(&declared.spot);
                self.findings.add(finding.note(note));
            } else {
                first.insert(key, &declared.spot);
            }
        }
        // Any other error may be the reason, so this is reported only without one.
        if self.draft.declared.is_empty() && self.draft.is_whole && self.findings.errors() == 0 {
            let has_wb = self.draft.files.iter().any(|file| file.text.contains("wb.api"));
            let message = "the script declares nothing".to_owned();
            let note = match has_wb {
                true => IDENTITY_NOTE.to_owned(),
                false => format!("begin with local wb = require \"wb\" and wb.api({API_VERSION})"),
            };
            self.error("empty", message, &self.top(), &note);
        }
    }

    fn top(&self) -> Spot {
        Spot::line(self.script, 1)
    }

    pub(super) fn single(&mut self, word: &str) -> Option<&'a Checked> {
        let declared = self.single_declared(word)?;
        Some(self.judge(declared))
    }

    /// Returns the only declaration of an unnamed word.
    pub(crate) fn single_declared(&self, word: &str) -> Option<&'a Declared> {
        self.draft.declared.iter().find(|it| it.word == word)
    }

    /// Returns the list of findings.
    pub(crate) fn findings(&mut self) -> &mut Findings {
        &mut self.findings
    }

    fn judge(&mut self, declared: &'a Declared) -> &'a Checked {
        declared.judge(&mut self.findings)
    }

    pub(super) fn defaults(&mut self, word: &str) -> Checked {
        let fields = schema::declaration(word).map_or(&[][..], |it| it.fields);
        let nothing = crate::script::load::node::Table::default();
        check(format_args!("{word}"), &self.top(), &nothing, fields, &mut self.findings)
    }

    fn identity(&mut self) -> Identity {
        let Some(identity) = self.single("identity") else {
            // The evaluation may have failed before it reached the declaration.
            if self.draft.is_whole && !self.draft.declared.is_empty() {
                let message = "the script has no wb.identity".to_owned();
                self.error("missing-declaration", message, &self.top(), IDENTITY_NOTE);
            }
            return Identity {
                author_name: String::new(),
                author_email: String::new(),
                committer_name: None,
                committer_email: None,
            };
        };
        let mut text = |name: &str| {
            let text = identity.text(name)?.trim().to_owned();
            let message = format!("`{name}` of identity holds `<` or `>`");
            if text.contains(['<', '>']) {
                let note = "git would not be able to tell the name from the address";
                self.error("bad-identity", message, identity.spot(name), note);
            } else if text.chars().all(|c| ".,:;\"\\' ".contains(c)) {
                // Git strips these characters at both ends and is then left with an empty name.
                let message = format!("`{name}` of identity has no letter");
                self.error("bad-identity", message, identity.spot(name), "git would refuse it");
            } else if name.ends_with("email") && text.contains(char::is_whitespace) {
                let message = format!("`{name}` of identity holds a blank");
                self.error("bad-identity", message, identity.spot(name), "");
            }
            Some(text)
        };
        Identity {
            author_name: text("author_name").unwrap_or_default(),
            author_email: text("author_email").unwrap_or_default(),
            committer_name: text("committer_name"),
            committer_email: text("committer_email"),
        }
    }

    fn limits(&mut self) -> (Limits, BTreeMap<String, Spot>) {
        let defaults;
        let limits = match self.single("limits") {
            Some(limits) => limits,
            None => {
                defaults = self.defaults("limits");
                &defaults
            }
        };
        let (mut lanes, mut spots) = (BTreeMap::new(), BTreeMap::new());
        if let Some(Given::Counts(counts)) = limits.given("lanes") {
            for (name, (count, spot)) in counts {
                lanes.insert(name.clone(), *count);
                spots.insert(name.clone(), spot.clone());
            }
        }
        let jobs = limits.count("jobs").unwrap_or(1);
        let agents = limits.count("agents").unwrap_or(AGENTS);
        if agents > LIVE_AGENTS_MAX {
            let message =
                format!("`agents` of limits is {agents}, but must be from 1 to {LIVE_AGENTS_MAX}");
            self.error("out-of-range", message, limits.spot("agents"), "lower it");
        }
        let grace = limits.duration("grace").unwrap_or(Duration::from_secs(5));
        let mut cap = |name| daily::build("limits", name, limits, &mut self.findings);
        let (daily, daily_person) = (cap("daily"), cap("daily_person"));
        let script_jobs = limits.count("script_jobs").unwrap_or(SCRIPT_JOBS);
        let (given, before) = (limits.given("channels"), ChannelLimits::default());
        let channels = channel::limits(given, before, false, &mut self.findings);
        let limits =
            Limits { jobs, agents, grace, lanes, daily, daily_person, script_jobs, channels };
        (limits, spots)
    }

    fn engines(&mut self) -> BTreeMap<String, Engine> {
        let mut engines = BTreeMap::new();
        for declared in self.draft.declared.iter().filter(|it| it.word == "engine") {
            self.judge(declared);
            let mut builder =
                EngineBuilder { findings: &mut self.findings, leads: &mut self.leads };
            if let Some(engine) = builder.build(declared) {
                engines.entry(engine.name.clone()).or_insert(engine);
            }
        }
        engines
    }

    fn kinds(
        &mut self,
        engines: &BTreeMap<String, Engine>,
        limits: &Limits,
        root: &Utf8Path,
    ) -> BTreeMap<String, Kind> {
        let judge = Kinds {
            draft: self.draft,
            beside: &self.beside,
            root,
            engines,
            engine_names: self.names.get("engine"),
            limits,
        };
        let mut kinds = BTreeMap::new();
        for kind in judge.all(&mut self.findings) {
            kinds.entry(kind.name.clone()).or_insert(kind);
        }
        kinds
    }

    /// Adds the folders that kinds name for their hooks and agents.
    fn folder_leads(&mut self, kinds: &BTreeMap<String, Kind>) {
        for declared in &self.draft.declared {
            let Some(kind) = declared.name.as_ref().and_then(|it| kinds.get(it)) else { continue };
            if kind.word() != declared.word {
                continue;
            }
            let (checked, hooks) = (declared.judge(&mut self.findings), &kind.hooks);
            for (field, path) in [("cwd_base", &hooks.cwd_base), ("repo", &hooks.repo)] {
                if let Some(path) = path.as_ref().filter(|_| checked.has(field)) {
                    let to = Target::Folder(field, path.clone());
                    self.leads.push(Lead::new(to, checked.spot(field)));
                }
            }
        }
    }

    fn schedules(&mut self, kinds: &BTreeMap<String, Kind>) -> BTreeMap<String, Schedule> {
        let mut schedules = BTreeMap::new();
        for declared in self.draft.declared.iter().filter(|it| it.word == "schedule") {
            let checked = self.judge(declared);
            let built = schedule::build(declared, checked, &mut self.findings);
            let names = self.names.get("kind");
            request::check(&built, checked, kinds, names, &mut self.findings);
            schedules.entry(built.name.clone()).or_insert(built);
        }
        schedules
    }

    fn webhooks(&mut self) -> BTreeMap<String, Webhook> {
        let mut webhooks = BTreeMap::new();
        for declared in self.draft.declared.iter().filter(|it| it.word == "webhook") {
            let checked = self.judge(declared);
            if let Some(built) = webhook::build(declared, checked) {
                let to = Target::OfWebhook(built.name.clone(), built.secret.clone());
                self.leads.push(Lead::new(to, checked.spot("secret")));
                webhooks.entry(built.name.clone()).or_insert(built);
            }
        }
        webhooks
    }
}

/// Returns the SHA-256 over all files, each with its path and lengths, so that no two sets collide.
fn digest(files: &[ScriptFile]) -> String {
    let bytes: usize =
        files.iter().map(|file| file.path.as_str().len() + file.text.len() + 32).sum();
    let mut text = String::with_capacity(bytes);
    for file in files {
        text.push_str(&format!("{}\n{}\n", file.path, file.text.len()));
        text.push_str(&file.text);
    }
    digest_hex(text)
}

/// Returns an absolute path without `.` and `..`.
pub(in crate::script) fn resolve(folder: &Utf8Path, path: &Utf8Path) -> Utf8PathBuf {
    let mut resolved = Utf8PathBuf::new();
    for part in folder.join(path).components() {
        match part {
            Utf8Component::ParentDir => drop(resolved.pop()),
            Utf8Component::CurDir => {}
            other => resolved.push(other),
        }
    }
    resolved
}

/// Names each handler apart from the others of its event: a function that makes handlers, or a
/// loop, calls `wb.on` in one line.
fn handlers(declared: &[(EventKind, Slot, String)]) -> Vec<Handler> {
    let mut seen: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    let mut all = Vec::new();
    for (event, slot, called_at) in declared {
        let count = seen.entry((event.as_str(), called_at)).or_default();
        *count += 1;
        let place = match *count {
            1 => called_at.clone(),
            number => format!("{called_at}, number {number}"),
        };
        all.push(Handler { event: *event, slot: slot.clone(), place: place.into() });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_resolved_against_the_folder() {
        let folder = Utf8Path::new("/srv/site");
        for (path, expected) in [
            (".", "/srv/site"),
            ("..", "/srv"),
            ("./data", "/srv/site/data"),
            ("../../../x", "/x"),
            ("/abs/../y", "/y"),
        ] {
            assert_eq!(resolve(folder, Utf8Path::new(path)), expected, "{path}");
        }
    }
}
