//! Builds a `Kind` from its declaration: its inputs, their order, its skill, lane and prompt.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use camino::Utf8Path;

use crate::base::limit::PRIORITY_MAX;
use crate::script::config::output::Reads;
use crate::script::config::{
    Engine, EngineBody, Input, InputType, Kind, Lane, OnBusy, Produces, Prompt,
};
use crate::script::load::daily;
use crate::script::load::extract::{Checked, Given};
use crate::script::load::files::Beside;
use crate::script::load::hook::HookBuilder;
use crate::script::load::inbox::{Hooks, Inbox, InboxBuilder};
use crate::script::load::input;
use crate::script::load::live_agent::{self, Speaks};
use crate::script::load::node::{Declared, Plain};
use crate::script::schema::is_name;
use crate::script::source::diagnostic::{Diagnostic, Findings, suggestion};
use crate::script::source::location::Slot;
use crate::script::source::span::Spot;
use crate::script::vm::template::{
    AGENT_NAMES, AGENT_PROMPT, INBOX_NAMES, INBOX_PROMPT, PROMPT_NAMES, Piece, pieces,
};

/// Names in a request besides the inputs.
const REQUEST_NAMES: [&str; 3] = ["priority", "not_before", "replace_proposals"];

/// Default time that an engine waits for the decision on a tool call.
pub(crate) const PERMISSION_WAIT: Duration = Duration::from_secs(600);

/// Hint for a kind without a prompt.
const PROMPT_NOTE: &str =
    "write prompt = [[Use the {{skill}} skill. …]], with {{NAME}} for an input";

/// One declaration and its context.
pub(crate) struct KindBuilder<'a> {
    /// The declaration.
    pub(crate) declared: &'a Declared,
    /// Its fields.
    pub(crate) checked: &'a Checked,
    /// Reader of files next to the script.
    pub(crate) beside: &'a Beside<'a>,
    /// Absolute folder of the site's repository.
    pub(crate) root: &'a Utf8Path,
    /// The engines that are right.
    pub(crate) engines: &'a BTreeMap<String, Engine>,
    /// The names of all engines.
    pub(crate) engine_names: Option<&'a BTreeSet<String>>,
    /// The findings.
    pub(crate) findings: &'a mut Findings,
}

impl<'a> KindBuilder<'a> {
    /// Validates everything; the kind is valid only if no finding is an error.
    pub(crate) fn build(mut self) -> Kind {
        let checked = self.checked;
        let engine = self.engine();
        let reads = engine.and_then(Engine::reads);
        let is_steady = reads.is_some_and(Reads::is_steady);
        // It prints nothing before a text is complete, nor while it waits for its provider.
        let first_output = if reads == Some(Reads::OpencodeJson) { 240 } else { 30 };
        let is_builtin = engine.is_some_and(|engine| matches!(engine.body, EngineBody::Builtin(_)));
        let (skill, inputs) = (self.skill(), self.inputs());
        let lane = self.lane(&inputs);
        let produces = self.produces();
        self.check_rules(&inputs, produces);
        let on_busy = match checked.text("on_busy") {
            Some("reject") => OnBusy::Reject,
            _ => OnBusy::Queue,
        };
        let is_inbox = self.is_inbox();
        let (hooks, inbox) = self.around(is_builtin);
        let agent = (self.declared.word == "agent").then(|| {
            let engine = checked.text("engine").and_then(|it| self.engines.get(it));
            live_agent::build(self.declared, checked, engine, self.findings)
        });
        self.refuse_engine(agent.is_some());
        let is_kept = self.is_kept(agent.as_ref());
        let prompt = self.prompt(is_builtin, skill.is_some());
        // A `start` command may print nothing, so its silence means nothing.
        let is_steady = is_steady && hooks.start.is_none() && agent.is_none();
        let own = self.declared.name.clone().unwrap_or_default();
        let first = checked.duration(if is_inbox { "first_output" } else { "start" });
        let by_reads = |seconds| is_steady.then(|| Duration::from_secs(seconds));
        Kind {
            name: if agent.is_some() { live_agent::kind_of_agent(&own) } else { own },
            about: checked.text("about").unwrap_or_default().to_owned(),
            engine: checked.text("engine").unwrap_or_default().to_owned(),
            skill,
            prompt,
            inputs,
            lane,
            on_busy,
            max_running: match is_inbox {
                true => checked.count("concurrency"),
                false => checked.count("max_running"),
            },
            priority: self.priority(),
            daily: daily::build(self.declared.title(), "daily", checked, self.findings),
            produces,
            sees_site: self.checked.text("sees") == Some("site"),
            asks: self.checked.flag("asks").unwrap_or_default(),
            permission_wait: checked.duration("permission_wait").unwrap_or(PERMISSION_WAIT),
            verify: self.function("verify"),
            retry: self.function("retry"),
            timeout: checked.duration("timeout").unwrap_or_default(),
            start: first.or(by_reads(first_output)),
            idle: checked.duration("idle").or(by_reads(180)),
            linger: checked.duration("linger").unwrap_or_default(),
            hooks,
            inbox,
            agent,
            is_kept,
            was: self.was(),
            at: self.declared.spot.at(),
        }
    }

    fn produces(&self) -> Option<Produces> {
        match self.checked.text("produces")? {
            "proposal" => Some(Produces::Proposal),
            "perspective" => Some(Produces::Perspective),
            "message" => Some(Produces::Message),
            "result" => Some(Produces::Result),
            "topic" => Some(Produces::Topic),
            _ => None,
        }
    }

    /// Refuses a long-running engine for jobs that end with their answer, and an engine that only
    /// answers people.
    fn refuse_engine(&mut self, is_agent: bool) {
        let engine = self.checked.text("engine").and_then(|it| self.engines.get(it));
        let speech = engine.and_then(|it| it.speech.as_ref());
        if self.is_inbox() {
            self.check_turns(speech.map(|it| it.speaks));
        } else if !is_agent && speech.is_some() {
            let message = format!("{} names an engine that lives on", self.title());
            let note = "what lives on is declared by wb.agent";
            self.error("broken-rule", message, self.checked.spot("engine"), note);
        }
        if engine.is_some_and(|it| it.is_model()) {
            let message = format!("{} names an engine of type \"anthropic\"", self.title());
            let note = "it answers the assistant only: name one of type \"process\"";
            self.error("broken-rule", message, self.checked.spot("engine"), note);
        }
    }

    /// Refuses an engine whose turns an inbox cannot have, and a command in its place.
    fn check_turns(&mut self, speaks: Option<Speaks>) {
        let (title, checked) = (self.title(), self.checked);
        if speaks.is_some_and(|it| !it.serves_inboxes()) {
            let message = format!("{title} names an engine that only agents have");
            let note = "an inbox takes an engine of type \"process\" or \"stream\"";
            self.error("broken-rule", message, checked.spot("engine"), note);
        }
        if speaks.is_some() && checked.has("start") {
            let message = format!("`start` of {title} replaces an engine that is spoken to");
            let note = "leave it out, or name an engine of type \"process\"";
            self.error("broken-rule", message, checked.spot("start"), note);
        }
    }

    /// Returns the hooks, and the additional settings of an inbox.
    fn around(&mut self, is_builtin: bool) -> (Hooks, Option<Inbox>) {
        let (declared, checked, at) = (self.declared, self.checked, self.declared.spot.at());
        let is_inbox = self.is_inbox();
        let hooks = HookBuilder {
            title: declared.title(),
            checked,
            file: &at.file,
            beside: self.beside,
            root: self.root,
            findings: self.findings,
        };
        let hooks = hooks.build(is_inbox);
        let inbox = is_inbox.then(|| {
            let (file, beside, findings) = (&at.file, self.beside, &mut *self.findings);
            InboxBuilder { declared, checked, file, beside, findings }.build(is_builtin)
        });
        (hooks, inbox)
    }

    pub(super) fn is_inbox(&self) -> bool {
        self.declared.word == "inbox"
    }

    fn priority(&mut self) -> i64 {
        match self.checked.number("priority") {
            None => 0,
            Some(number) if number.fract() == 0.0 && number.abs() <= PRIORITY_MAX as f64 => {
                number as i64
            }
            Some(number) => {
                let message = format!(
                    "`priority` of {} is {number}, but must be a whole number from -{PRIORITY_MAX} \
                     to {PRIORITY_MAX}",
                    self.title()
                );
                self.error("out-of-range", message, self.checked.spot("priority"), "");
                0
            }
        }
    }

    fn was(&mut self) -> Option<String> {
        let before = self.checked.text("was")?;
        let own = self.declared.name.as_deref();
        if !is_name(before) || own == Some(before) {
            let message = format!("`was` of {} is not another name for a kind", self.title());
            let note = "write the name that this kind had before, as in was = \"review\"";
            self.error("bad-name", message, self.checked.spot("was"), note);
        }
        Some(before.to_owned())
    }

    pub(crate) fn title(&self) -> &'a str {
        self.declared.title()
    }

    pub(crate) fn error(&mut self, code: &'static str, message: String, spot: &Spot, note: &str) {
        self.findings.add(Diagnostic::error(code, message).at(spot).note(note));
    }

    fn engine(&mut self) -> Option<&Engine> {
        let name = self.checked.text("engine")?;
        if self.engine_names.is_none_or(|names| !names.contains(name)) {
            let message = format!("{} names no engine: `{}`", self.title(), name.escape_debug());
            let names = self.engine_names.into_iter().flatten().map(String::as_str);
            let note = match self.engine_names.is_none() {
                true => format!("declare it: wb.engine \"{}\" {{ … }}", name.escape_debug()),
                false => suggestion(name, names),
            };
            self.error("unknown-engine", message, self.checked.spot("engine"), &note);
        }
        self.engines.get(name)
    }

    fn inputs(&mut self) -> Vec<Input> {
        let Some(Given::Inputs(given)) = self.checked.given("inputs") else { return Vec::new() };
        let known = self.input_names();
        let mut inputs = Vec::new();
        let of_prompts = PROMPT_NAMES.map(|it| (it, "every prompt has a value of its own"));
        let of_requests = REQUEST_NAMES.map(|it| (it, "a request for a job says it of the job"));
        for (name, why) in of_prompts.into_iter().chain(of_requests) {
            if let Some(taken) = given.iter().find(|it| it.name == name) {
                let message = format!("an input cannot have the name `{name}`");
                self.error("bad-name", message, &taken.spot, why);
            }
        }
        for one in given {
            inputs.push(input::build(one, given, &known, self.declared.title(), self.findings));
        }
        input::sort(inputs, given, self.declared.title(), self.findings)
    }

    /// Every name in `inputs`, also of invalid ones, sorted.
    fn input_names(&self) -> Vec<&'a str> {
        let tables = self.declared.body.fields.iter().filter(|(name, _)| name == "inputs");
        let tables = tables.filter_map(|(_, node)| match &node.value {
            Plain::Table(table) => Some(table),
            _ => None,
        });
        let names = tables.flat_map(|table| table.fields.iter().map(|(name, _)| name.as_str()));
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        names
    }

    fn function(&self, name: &str) -> Option<Slot> {
        match self.checked.given(name) {
            Some(Given::Function(slot)) => Some(slot.clone()),
            _ => None,
        }
    }

    fn lane(&mut self, inputs: &[Input]) -> Option<Lane> {
        if let Some(slot) = self.function("lane") {
            return Some(Lane::Function(slot));
        }
        let name = self.checked.text("lane")?;
        let spot = self.checked.spot("lane");
        let title = self.title();
        match inputs.iter().find(|input| input.name == name) {
            Some(input) if !input.required && input.default.is_none() => {
                let message = format!("the lane of {title} is `{name}`, which is not required");
                self.error("bad-lane", message, spot, "a job without it would have no lane");
            }
            Some(input) if input.ty == InputType::Text => {
                let message = format!("the lane of {title} is `{name}`, a text of several lines");
                self.error("bad-lane", message, spot, "choose an input of one line");
            }
            Some(_) => return Some(Lane::Input(name.to_owned())),
            None if self.checked.is_wrong("inputs") || self.input_names().contains(&name) => {}
            None => {
                let message =
                    format!("the lane of {title} is not an input: `{}`", name.escape_debug());
                let note = suggestion(name, self.input_names());
                self.error("unknown-input", message, spot, &note);
            }
        }
        None
    }

    /// Checks rules that the database and the pages rely on.
    fn check_rules(&mut self, inputs: &[Input], produces: Option<Produces>) {
        if self.checked.is_wrong("inputs") || self.input_names().len() != inputs.len() {
            return;
        }
        let any = |ty| inputs.iter().any(|input| input.ty == ty);
        let named =
            |ty, name: &str| inputs.iter().any(|it| it.ty == ty && it.name == name && it.required);
        let mut wrong: Vec<_> = produces
            .and_then(|it| lacks(inputs, it))
            .map(|(what, write)| ("produces", what, write))
            .into_iter()
            .collect();
        if produces != Some(Produces::Proposal)
            && let Some(input) = inputs.iter().find(|it| it.new)
        {
            let message = format!("{}: `{}` cannot be new", self.title(), input.name);
            let note = "only a kind that produces a \"proposal\" can make a source";
            self.error("broken-rule", message, self.checked.spot("inputs"), note);
        }
        match self.declared.name.as_deref() {
            Some("incorporate") => {
                if !named(InputType::Topic, "topic_id") {
                    let needs = "this kind needs the input topic_id = wb.input.topic()";
                    wrong.push(("inputs", needs, ""));
                }
                if any(InputType::Persona) {
                    wrong.push(("inputs", "this kind cannot have a persona input", ""));
                }
                if produces != Some(Produces::Proposal) && !self.checked.is_wrong("produces") {
                    wrong.push(("produces", "this kind must produce a \"proposal\"", ""));
                }
            }
            Some("perspective") => {
                if !named(InputType::Persona, "persona_name") {
                    let needs = "this kind needs the input persona_name = wb.input.persona()";
                    wrong.push(("inputs", needs, ""));
                }
                if any(InputType::Topic) {
                    wrong.push(("inputs", "this kind cannot have a topic input", ""));
                } else if produces == Some(Produces::Proposal) {
                    wrong.push(("produces", "this kind cannot produce a \"proposal\"", ""));
                }
            }
            _ => {}
        }
        for (field, what, write) in wrong {
            let message = format!("{}: {what}", self.title());
            let spot = self.checked.spot(field).clone();
            self.error("broken-rule", message, &spot, write);
        }
    }

    fn prompt(&mut self, is_builtin: bool, has_skill: bool) -> Prompt {
        match self.checked.given("prompt") {
            Some(Given::Function(slot)) => return Prompt::Function(slot.clone()),
            Some(Given::Template(template)) => {
                self.check_template(template, has_skill);
                return Prompt::Template(template.clone());
            }
            Some(_) => {}
            None if is_builtin => {}
            None if self.declared.word == "agent" => {
                let skill = if has_skill { "Use the {{skill}} skill.\n\n" } else { "" };
                return Prompt::Template(format!("{skill}{AGENT_PROMPT}"));
            }
            None if self.is_inbox() => {
                let skill = if has_skill { "Use the {{skill}} skill.\n\n" } else { "" };
                return Prompt::Template(format!("{skill}{INBOX_PROMPT}"));
            }
            None => {
                let message = format!("{} has no `prompt`", self.title());
                let note = format!("it needs a text or a function: {PROMPT_NOTE}");
                self.error("missing-field", message, &self.declared.spot, &note);
            }
        }
        Prompt::Template(String::new())
    }

    fn check_template(&mut self, template: &str, has_skill: bool) {
        let title = self.title();
        if template.trim().is_empty() {
            let message = format!("`prompt` of {title} is empty");
            self.error("bad-text", message, self.checked.spot("prompt"), PROMPT_NOTE);
        }
        if self.checked.is_wrong("inputs") {
            return;
        }
        let names = self.input_names();
        let of_inbox = match self.declared.word {
            "inbox" => &INBOX_NAMES[..],
            "agent" => &AGENT_NAMES[..],
            _ => &[],
        };
        let known = || names.iter().copied().chain(PROMPT_NAMES).chain(of_inbox.iter().copied());
        let mut seen = BTreeSet::new();
        for (at, piece) in pieces(template) {
            match piece {
                Piece::Text(_) | Piece::Braces => {}
                Piece::Name("skill") if !has_skill && !self.checked.has("skill") => {
                    let message = format!("{title} has no skill for {{{{skill}}}}");
                    let spot = self.spot_in(template, at, "{{skill}}".len());
                    self.error("unknown-name", message, &spot, "set `skill`");
                }
                Piece::Name(name) if known().any(|it| it == name) || !seen.insert(name) => {}
                Piece::Name(name) => {
                    let message = format!("{title} has no value for {{{{{name}}}}}");
                    let note = suggestion(name, known().collect::<Vec<_>>());
                    let spot = self.spot_in(template, at, name.len() + 4);
                    self.error("unknown-name", message, &spot, &note);
                }
                Piece::Bad => {
                    let message = format!("`{{{{` in the prompt of {title} begins no name");
                    let spot = self.spot_in(template, at, 2);
                    self.error(
                        "bad-template",
                        message,
                        &spot,
                        "write {{name}} in small letters, without blanks, or {{{{ for {{ itself",
                    );
                }
            }
        }
    }

    /// Returns the place of a part of the template, if it is one literal text without escapes;
    /// otherwise the place of the field.
    fn spot_in(&self, template: &str, at: usize, len: usize) -> Spot {
        let field = self.checked.spot("prompt");
        let exact = || {
            let literal = field.literal()?;
            let source = field.source()?;
            let step = source.text().get(literal.clone())?.find(template)?;
            let start = literal.start + step + at;
            Some(source.bytes(start..start + len))
        };
        exact().unwrap_or_else(|| field.clone())
    }
}

/// Returns which inputs a job lacks for what it must produce, and what to write.
fn lacks(inputs: &[Input], produces: Produces) -> Option<(&'static str, &'static str)> {
    let follows = |ty: InputType, from: InputType| {
        let is_origin = |it: &Input, other: &Input| {
            it.from.as_ref() == Some(&other.name) && other.ty == from && other.required
        };
        inputs.iter().any(|it| it.ty == ty && inputs.iter().any(|other| is_origin(it, other)))
    };
    let topics = || inputs.iter().filter(|it| it.ty == InputType::Topic);
    let has_topic = topics().any(|it| it.required);
    let has_version = follows(InputType::Blob, InputType::Source);
    match produces {
        Produces::Proposal if has_version && (has_topic || topics().count() == 0) => None,
        Produces::Proposal => Some((
            "a proposal needs a source, the blob of that source, and, if it is about a topic, \
             that topic as inputs, all of them required",
            "write inputs = { topic_id = wb.input.topic(), source_path = wb.input.source { from = \
             \"topic_id\" }, base_source_sha = wb.input.blob { from = \"source_path\" } }",
        )),
        Produces::Perspective if has_version && follows(InputType::Hash, InputType::Persona) => {
            None
        }
        Produces::Perspective => Some((
            "a perspective needs a source, the blob of that source, a persona, and the hash of \
             that persona as inputs, all of them required",
            "write inputs = { source_path = wb.input.source(), source_sha = wb.input.blob { from \
             = \"source_path\" }, persona_name = wb.input.persona(), persona_sha = \
             wb.input.hash { from = \"persona_name\" } }",
        )),
        Produces::Message if has_topic => None,
        Produces::Message => Some((
            "a message needs a topic input: it is written there",
            "write inputs = { topic_id = wb.input.topic() }",
        )),
        Produces::Result | Produces::Topic => None,
    }
}
