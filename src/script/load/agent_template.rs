//! Templates: files `agents/NAME.md` next to the script whose front matter has `engine`. They
//! declare inboxes, a long-running agent or a monitor, validated like those of the script; a file
//! without `engine` is a persona.
//!
//! **Invariant:** templates are read when the script is loaded, and their text belongs to the
//! generation: later edits have no effect until a reload.

use std::collections::BTreeSet;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::is_segment;
use crate::base::limit::{
    PERSONA_BYTES_MAX, PERSONAS_MAX, SCRIPT_DECLARED_MAX, TEMPLATE_BYTES_MAX, TEMPLATE_TOPICS_MAX,
    TEMPLATES_MAX,
};
use crate::script::config::InputType;
use crate::script::load::kinds::WORKER;
use crate::script::load::node::{Declared, Draft, Node, Plain, Table};
use crate::script::load::yaml::{Front, Yaml};
use crate::script::schema::declaration;
use crate::script::source::diagnostic::{Diagnostic, Findings, suggestion};
use crate::script::source::field_span::Source;
use crate::script::source::location::ScriptFile;
use crate::script::source::span::Spot;
use crate::script::vm::require::Origin;
use crate::script::vm::template::{AGENT_PROMPT, INBOX_PROMPT, MONITOR_PROMPT};
use crate::script::vm::thread::Plan;

/// The folder of personas and templates, next to the script.
const FOLDER: &str = "agents";
/// Fields of a template that all its topics inherit, with their names in an inbox.
const SHARED: [(&str, &str); 13] = [
    ("about", "about"),
    ("asks", "asks"),
    ("cleanup", "cleanup"),
    ("cwd_base", "cwd_base"),
    ("cwd_template", "cwd_template"),
    ("engine", "engine"),
    ("first_output", "first_output"),
    ("on_server_loss", "on_server_loss"),
    ("prepare", "prepare"),
    ("repo_root", "repo"),
    ("sends", "sends"),
    ("start", "start"),
    ("workspace", "workspace"),
];
/// Other fields of a template.
const OWN: [&str; 6] = ["id", "model", "name", "paths", "persistent", "topics"];
/// Fields of a template that declare nothing by themselves.
const UNDECLARED: [&str; 6] = ["id", "model", "name", "paths", "persistent", "topics"];
/// Fields of a template that a monitor has, with their names in a kind.
const OF_MONITOR: [(&str, &str); 12] = [
    ("about", "about"),
    ("asks", "asks"),
    ("cleanup", "cleanup"),
    ("daily", "daily"),
    ("engine", "engine"),
    ("hook_timeout", "hook_timeout"),
    ("idle", "idle"),
    ("prepare", "prepare"),
    ("repo_root", "repo"),
    ("skill", "skill"),
    ("timeout", "timeout"),
    ("workspace", "workspace"),
];
/// Longest run of a monitor whose template gives none: it ends with its instance.
const MONITOR_TIMEOUT: &str = "24h";

/// Returns whether a file in the folder of personas is a template.
pub fn is_template(text: &str) -> bool {
    let source = Arc::new(Source::new(Arc::from(Utf8Path::new("")), text));
    Front::find(source).is_some_and(|front| front.has("engine"))
}

/// Returns whether a path, relative to the script's folder, can be that of a template.
pub(crate) fn is_beside(path: &Utf8Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    path.parent() == Some(Utf8Path::new(FOLDER)) && name.ends_with(".md") && !name.starts_with('.')
}

/// Adds the declarations of templates to those of the script.
pub(crate) fn declare(plan: &Plan, draft: &mut Draft) {
    // If the evaluation ended with an error, the engines may not have been reached.
    if !draft.is_whole {
        return;
    }
    let mut findings = Findings::default();
    let mut count = 0;
    let engines = Engines::of(draft);
    for path in files(plan) {
        // An unreadable file is not a template; loading the personas reports it.
        let Ok(text) = plan.origin.read_at_most(&plan.folder, &path, PERSONA_BYTES_MAX as u64)
        else {
            continue;
        };
        let source = Arc::new(Source::new(Arc::from(&*path), &*text));
        let Some(front) = Front::find(source).filter(|it| it.has("engine")) else { continue };
        count += 1;
        draft.files.push(ScriptFile { path: path.clone(), text: Arc::from(&*text) });
        let mut template = Template { front, path: &path, findings: &mut findings };
        if count > TEMPLATES_MAX {
            let message = format!("there are more than {TEMPLATES_MAX} templates");
            template.error("too-many", message, &template.front.whole(), "remove some");
            break;
        }
        let declared = template.declarations(&engines);
        if draft.declared.len() + declared.len() > SCRIPT_DECLARED_MAX {
            let message = format!("there are more than {SCRIPT_DECLARED_MAX} declarations");
            template.error("too-many", message, &template.front.whole(), "remove some");
            break;
        }
        draft.declared.extend(declared);
    }
    draft.findings.extend(findings.take());
}

/// Returns the Markdown files in the folder, in the order of their names.
fn files(plan: &Plan) -> BTreeSet<Utf8PathBuf> {
    let is_meant = |path: &Utf8PathBuf| is_beside(path);
    if let Origin::Stored(stored) = &plan.origin {
        return stored.keys().filter(|path| is_meant(path)).cloned().collect();
    }
    let entries = plan.folder.join(FOLDER).read_dir_utf8();
    let entries = entries.into_iter().flatten().flatten().take(4 * PERSONAS_MAX);
    let on_disk = entries.map(|it| Utf8Path::new(FOLDER).join(it.file_name()));
    let mut files: BTreeSet<Utf8PathBuf> = on_disk.filter(is_meant).collect();
    if let Origin::Changed(changed) = &plan.origin {
        files.extend(changed.keys().filter(|path| is_meant(path)).cloned());
    }
    files
}

/// The names of the engines.
struct Engines {
    all: BTreeSet<String>,
    /// Those whose programs can be long-running agents.
    live: BTreeSet<String>,
}

impl Engines {
    fn of(draft: &Draft) -> Engines {
        let is_live =
            |it: &&Declared| matches!(it.checked().text("type"), Some("stream" | "terminal"));
        let engines = || draft.declared.iter().filter(|it| it.word == "engine");
        let named = |it: &Declared| it.name.clone();
        Engines {
            all: engines().filter_map(named).collect(),
            live: engines().filter(is_live).filter_map(named).collect(),
        }
    }
}

/// One template.
struct Template<'a> {
    front: Front,
    path: &'a Utf8Path,
    findings: &'a mut Findings,
}

impl Template<'_> {
    fn error(&mut self, code: &'static str, message: String, spot: &Spot, note: &str) {
        self.findings.add(Diagnostic::error(code, message).at(spot).note(note));
    }

    fn warn(&mut self, code: &'static str, message: String, spot: &Spot, note: &str) {
        self.findings.add(Diagnostic::warning(code, message).at(spot).note(note));
    }

    /// Validates the file and returns its declarations: one for each topic, or a single one.
    fn declarations(&mut self, engines: &Engines) -> Vec<Declared> {
        let name = self.path.file_stem().unwrap_or_default().to_owned();
        if self.front.source.text().len() as u64 > TEMPLATE_BYTES_MAX {
            let message = format!("{} is larger than {TEMPLATE_BYTES_MAX} bytes", self.path);
            let note = "move instructions into a skill, which its agent reads";
            self.error("bad-persona", message, &self.front.whole(), note);
            return Vec::new();
        }
        if !is_segment(&name) {
            let message = format!("`{}` is not a name for a template", name.escape_debug());
            let note = "a name is letters, digits, `-` and `_`, up to 63";
            self.error("bad-name", message, &self.front.whole(), note);
            return Vec::new();
        }
        let fields = match self.front.read() {
            Ok(fields) => fields,
            Err((spot, fault)) => {
                let message = format!("the front matter cannot be read: {fault}");
                let line = self.front.source.text().lines().nth(spot.at().line as usize - 1);
                let has_two = line.is_some_and(|it| it.matches(": ").count() > 1);
                let note = match has_two && fault.contains("mapping values are not allowed") {
                    true => "put the value in quotes: a colon before a space begins a field",
                    false => "write `field: value`",
                };
                self.error("bad-persona", message, &spot, note);
                return Vec::new();
            }
        };
        let value = |field: &str| fields.iter().find(|it| it.0 == field).map(|it| &it.1);
        let spot = self.front.field("persistent");
        let is_persistent = match value("persistent") {
            None | Some(Yaml::Flag(true)) => true,
            Some(Yaml::Flag(false)) => false,
            Some(_) => {
                self.check_fields(&name, &fields, Known::Inboxes);
                let message = "`persistent` must be true or false".to_owned();
                self.error("wrong-type", message, &spot, "write persistent: false");
                return Vec::new();
            }
        };
        let known = match (is_persistent, value("topics").is_some()) {
            (true, false) => Known::Agent,
            (false, false) => Known::Monitor,
            _ => Known::Inboxes,
        };
        self.check_fields(&name, &fields, known);
        match (is_persistent, value("topics")) {
            (true, Some(_)) => {
                let message = format!("the template {name} has topics and is persistent");
                let note = "write persistent: false: each message to a topic starts an agent";
                self.error("broken-rule", message, &self.front.field("topics"), note);
                Vec::new()
            }
            (true, None) => self.agent(&name, &fields, engines),
            (false, None) => vec![self.monitor(&name, &fields)],
            (false, Some(topics)) => self.topics(&name, &fields, topics),
        }
    }

    /// Returns the long-running agent that the file declares. Files of earlier systems do not say
    /// whether their engine lives on: then they declare nothing, with a warning.
    fn agent(&mut self, name: &str, fields: &[(String, Yaml)], engines: &Engines) -> Vec<Declared> {
        let engine = fields.iter().find(|it| it.0 == "engine").map(|it| &it.1);
        let is_live = matches!(engine, Some(Yaml::Text(it)) if engines.live.contains(it));
        let is_known = !matches!(engine, Some(Yaml::Text(it)) if !engines.all.contains(it));
        let is_asked_for = fields.iter().any(|it| it.0 == "persistent");
        // A misspelt engine is an error of the declaration.
        if !is_live && !is_asked_for && is_known {
            let message =
                format!("the template {name} declares nothing: its engine does not live on");
            let note = "name an engine of type = \"stream\" or \"terminal\" for a long-running \
                        agent; write persistent: false and topics for inboxes";
            self.warn("no-agent", message, &self.front.field("engine"), note);
            return Vec::new();
        }
        let own = |field: &str| {
            let is_of_agent = Known::Agent.has(field) && !UNDECLARED.contains(&field);
            is_of_agent.then(|| field.to_owned())
        };
        let mut body = self.body_of(fields, own);
        let spot = self.front.field("engine");
        self.add_texts(&mut body, (format!("The agent {name}"), AGENT_PROMPT), &spot);
        vec![Declared::new("agent", Some(name.to_owned()), spot, body)]
    }

    /// Returns the monitor that the file declares: a kind with the input `worker`.
    fn monitor(&self, name: &str, fields: &[(String, Yaml)]) -> Declared {
        let own =
            |field: &str| OF_MONITOR.iter().find(|it| it.0 == field).map(|it| it.1.to_owned());
        let mut body = self.body_of(fields, own);
        let spot = self.front.field("engine");
        self.add_texts(&mut body, (format!("The monitor {name}"), MONITOR_PROMPT), &spot);
        let node = |value| Node { spot: spot.clone(), value };
        if !has(&body, "timeout") {
            let timeout = node(Plain::Text(MONITOR_TIMEOUT.to_owned()));
            body.fields.push(("timeout".to_owned(), timeout));
        }
        let worker = node(Plain::Input(InputType::Line, Table::default()));
        let inputs = Table { fields: vec![(WORKER.to_owned(), worker)], ..Table::default() };
        body.fields.push(("inputs".to_owned(), node(Plain::Table(inputs))));
        Declared::new("kind", Some(name.to_owned()), spot, body)
    }

    /// Returns the fields of a declaration, by their names there.
    fn body_of(&self, fields: &[(String, Yaml)], named: impl Fn(&str) -> Option<String>) -> Table {
        let mut body = Table::default();
        for (field, value) in fields.iter().filter(|it| it.1 != Yaml::Null) {
            let Some(name) = named(field) else { continue };
            let spot = self.front.field(field);
            let node = Node { value: value.plain(&spot), spot };
            body.fields.push((name, node));
        }
        body
    }

    /// Adds the description and the prompt that a declaration does not give itself: the text of
    /// the file, then the usual prompt.
    fn add_texts(&self, body: &mut Table, (about, prompt): (String, &str), spot: &Spot) {
        let skill = if has(body, "skill") { "Use the {{skill}} skill.\n\n" } else { "" };
        let mut texts = Vec::new();
        if !has(body, "about") {
            texts.push(("about", about));
        }
        if !has(body, "prompt") {
            texts.push(("prompt", format!("{}{skill}{prompt}", self.words())));
        }
        for (field, text) in texts {
            let node = Node { spot: spot.clone(), value: Plain::Text(text) };
            body.fields.push((field.to_owned(), node));
        }
    }

    /// Returns the text of the file as the beginning of a prompt.
    fn words(&self) -> String {
        match self.front.body().trim() {
            "" => String::new(),
            text => format!("{}\n\n", text.replace("{{", "{{{{")),
        }
    }

    /// Unknown fields are ignored, since files of earlier systems have more fields.
    fn check_fields(&mut self, name: &str, fields: &[(String, Yaml)], known: Known) {
        for (field, value) in fields {
            let spot = self.front.field(field);
            match (field.as_str(), value) {
                _ if !known.has(field) => {
                    let what = known.what();
                    let message = format!("{what} has no field `{}`", field.escape_debug());
                    let note = match Known::ALL.into_iter().find(|it| it.has(field)) {
                        Some(other) => format!("{} has it; here it has no effect", other.what()),
                        None => suggestion(field, known.fields()),
                    };
                    self.warn("unknown-field", message, &spot, &note);
                }
                ("id" | "name", Yaml::Text(given)) if given == name => {}
                ("id" | "name", _) => {
                    let message = format!("`{field}` is not the name of the file");
                    self.error("bad-name", message, &spot, &format!("write {field}: {name}"));
                }
                ("model", _) => {
                    let message = "`model` is not handed to engines yet".to_owned();
                    let note = "name the model in the `command` of the engine";
                    self.warn("not-built-yet", message, &spot, note);
                }
                _ => {}
            }
        }
    }

    fn topics(
        &mut self,
        template: &str,
        fields: &[(String, Yaml)],
        topics: &Yaml,
    ) -> Vec<Declared> {
        let spot = self.front.field("topics");
        let note = "write topics: with an item - name: NAME for each";
        let list = match topics {
            Yaml::List(list) if !list.is_empty() => list,
            _ => {
                let message = "`topics` must be a list of inboxes".to_owned();
                self.error("wrong-type", message, &spot, note);
                return Vec::new();
            }
        };
        if list.len() > TEMPLATE_TOPICS_MAX {
            let message = format!("a template has at most {TEMPLATE_TOPICS_MAX} topics");
            self.error("too-many", message, &spot, "make another template");
            return Vec::new();
        }
        let items = self.front.items("topics");
        // Unless each item is on its own line, the places cannot be told apart.
        let item = |index| items.get(index).filter(|_| items.len() == list.len());
        let mut declared = Vec::new();
        for (index, topic) in list.iter().enumerate() {
            let name_spot = self.front.field_of(item(index), "name");
            let Yaml::Map(own) = topic else {
                let message = "a topic must be a table with `name`".to_owned();
                self.error("wrong-type", message, &name_spot, note);
                continue;
            };
            let name = own.iter().find(|it| it.0 == "name").map(|it| &it.1);
            let Some(Yaml::Text(name)) = name.filter(|it| is_topic_name(it)) else {
                let message = "a topic needs a `name` of letters, digits, `-` and `_`".to_owned();
                self.error("bad-name", message, &name_spot, "write name: provision");
                continue;
            };
            let place = |field: &str| self.front.field_of(item(index), field);
            let mut body = Table::default();
            for (field, value) in own.iter().filter(|it| it.0 != "name" && it.1 != Yaml::Null) {
                let spot = place(field);
                let field = match field.as_str() {
                    "repo_root" => "repo",
                    "monitor_template" => "monitor",
                    other => other,
                };
                body.fields.push((field.to_owned(), Node { value: value.plain(&spot), spot }));
            }
            self.add_shared(template, fields, &mut body, (name, &name_spot));
            let full = format!("{template}/{name}");
            declared.push(Declared::new("inbox", Some(full), name_spot, body));
        }
        declared
    }

    /// Adds to a topic what it inherits from its template: fields, and the text as its prompt.
    fn add_shared(
        &self,
        template: &str,
        fields: &[(String, Yaml)],
        body: &mut Table,
        (name, spot): (&str, &Spot),
    ) {
        for (field, value) in fields {
            let Some((_, own)) = SHARED.iter().find(|it| it.0 == field) else { continue };
            if !has(body, own) && *value != Yaml::Null {
                let spot = self.front.field(field);
                let node = Node { value: value.plain(&spot), spot };
                body.fields.push(((*own).to_owned(), node));
            }
        }
        self.add_texts(body, (format!("{name} of {template}"), INBOX_PROMPT), spot);
    }
}

/// What a template declares, as far as its fields are concerned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Its topics are inboxes.
    Inboxes,
    /// A long-running agent.
    Agent,
    /// A monitor.
    Monitor,
}

impl Known {
    const ALL: [Known; 3] = [Known::Inboxes, Known::Agent, Known::Monitor];

    fn what(self) -> &'static str {
        match self {
            Known::Inboxes => "a template with topics",
            Known::Agent => "a long-running agent",
            Known::Monitor => "a monitor",
        }
    }

    fn fields(self) -> Vec<&'static str> {
        match self {
            Known::Inboxes => SHARED.iter().map(|it| it.0).chain(OWN).collect(),
            Known::Agent => {
                let own = declaration("agent").map_or(&[][..], |it| it.fields);
                own.iter().map(|it| it.name).chain(UNDECLARED).collect()
            }
            Known::Monitor => OF_MONITOR.iter().map(|it| it.0).chain(UNDECLARED).collect(),
        }
    }

    fn has(self, field: &str) -> bool {
        self.fields().contains(&field)
    }
}

fn has(body: &Table, field: &str) -> bool {
    body.fields.iter().any(|it| it.0 == field)
}

fn is_topic_name(value: &Yaml) -> bool {
    matches!(value, Yaml::Text(name) if is_segment(name))
}
