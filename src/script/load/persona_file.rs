//! Templates: files `agents/NAME.md` next to the script whose front matter has `engine`. Their
//! topics are inboxes, validated like those of the script; a file without `engine` is a persona.
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
use crate::script::load::node::{Declared, Draft, Node, Plain, Table};
use crate::script::load::yaml::{Front, Yaml};
use crate::script::source::diagnostic::{Diagnostic, Findings, suggestion};
use crate::script::source::field_span::Source;
use crate::script::source::location::ScriptFile;
use crate::script::source::span::Spot;
use crate::script::vm::require::Origin;
use crate::script::vm::template::INBOX_PROMPT;
use crate::script::vm::thread::Plan;

/// The folder of personas and templates, next to the script.
const FOLDER: &str = "agents";
/// Fields of a template that all its topics inherit, with their names in an inbox.
const SHARED: [(&str, &str); 11] = [
    ("about", "about"),
    ("asks", "asks"),
    ("cleanup", "cleanup"),
    ("cwd_base", "cwd_base"),
    ("cwd_template", "cwd_template"),
    ("engine", "engine"),
    ("prepare", "prepare"),
    ("repo_root", "repo"),
    ("sends", "sends"),
    ("start", "start"),
    ("workspace", "workspace"),
];
/// Other fields of a template.
const OWN: [&str; 7] = ["id", "model", "name", "on_server_loss", "paths", "persistent", "topics"];

/// Returns whether a file in the folder of personas is a template.
pub fn is_template(text: &str) -> bool {
    let source = Arc::new(Source::new(Arc::from(Utf8Path::new("")), text));
    Front::find(source).is_some_and(|front| front.has("engine"))
}

/// Adds the declarations of templates to those of the script.
pub(crate) fn declare(plan: &Plan, draft: &mut Draft) {
    // If the evaluation ended with an error, the engines may not have been reached.
    if !draft.is_whole {
        return;
    }
    let mut findings = Findings::default();
    let mut count = 0;
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
        let declared = template.inboxes();
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
    let is_meant = |path: &Utf8PathBuf| {
        let name = path.file_name().unwrap_or_default();
        path.parent() == Some(Utf8Path::new(FOLDER))
            && name.ends_with(".md")
            && !name.starts_with('.')
    };
    let entries = plan.folder.join(FOLDER).read_dir_utf8();
    let entries = entries.into_iter().flatten().flatten().take(4 * PERSONAS_MAX);
    let on_disk = entries.map(|it| Utf8Path::new(FOLDER).join(it.file_name()));
    let mut files: BTreeSet<Utf8PathBuf> = on_disk.filter(is_meant).collect();
    if let Origin::Changed(changed) = &plan.origin {
        files.extend(changed.keys().filter(|path| is_meant(path)).cloned());
    }
    files
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

    /// Validates the file and returns a declaration for each topic.
    fn inboxes(&mut self) -> Vec<Declared> {
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
                self.error("bad-persona", message, &spot, "write `field: value`");
                return Vec::new();
            }
        };
        self.check_fields(&name, &fields);
        let value = |field: &str| fields.iter().find(|it| it.0 == field).map(|it| &it.1);
        let spot = self.front.field("persistent");
        let is_persistent = match value("persistent") {
            None | Some(Yaml::Flag(true)) => true,
            Some(Yaml::Flag(false)) => false,
            Some(_) => {
                let message = "`persistent` must be true or false".to_owned();
                self.error("wrong-type", message, &spot, "write persistent: false");
                return Vec::new();
            }
        };
        match (is_persistent, value("topics")) {
            (true, Some(_)) => {
                let message = format!("the template {name} has topics and is persistent");
                let note = "write persistent: false: each message to a topic starts an agent";
                self.error("broken-rule", message, &self.front.field("topics"), note);
                Vec::new()
            }
            (true, None) => self.later(&name, "an agent that lives on is declared by wb.agent"),
            (false, None) => self.later(&name, "monitors are not built yet"),
            (false, Some(topics)) => self.topics(&name, &fields, topics),
        }
    }

    fn later(&mut self, name: &str, what: &str) -> Vec<Declared> {
        let message = format!("the template {name} declares nothing: {what}");
        let note = "with persistent: false and topics it declares inboxes";
        self.warn("not-built-yet", message, &self.front.field("engine"), note);
        Vec::new()
    }

    /// Unknown fields are ignored, since files of earlier systems have more fields.
    fn check_fields(&mut self, name: &str, fields: &[(String, Yaml)]) {
        for (field, value) in fields {
            let spot = self.front.field(field);
            let is_known = SHARED.iter().any(|it| it.0 == field) || OWN.contains(&field.as_str());
            match (field.as_str(), value) {
                _ if !is_known => {
                    let message = format!("a template has no field `{}`", field.escape_debug());
                    let known = SHARED.iter().map(|it| it.0).chain(OWN);
                    self.warn("unknown-field", message, &spot, &suggestion(field, known));
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
                ("on_server_loss", Yaml::Text(word)) if word == "keep" => {
                    let message = "`on_server_loss: keep` is not built yet".to_owned();
                    self.warn("not-built-yet", message, &spot, "leave it out");
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
                let (spot, field) =
                    (place(field), if field == "repo_root" { "repo" } else { field });
                body.fields.push((field.to_owned(), Node { value: value.plain(&spot), spot }));
            }
            if let Some(at) = body.fields.iter().position(|it| it.0 == "monitor_template") {
                let (_, node) = body.fields.remove(at);
                let message = "`monitor_template` is not built yet".to_owned();
                self.warn("not-built-yet", message, &node.spot, "its instances run without one");
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
        let has = |body: &Table, field: &str| body.fields.iter().any(|it| it.0 == field);
        for (field, value) in fields {
            let Some((_, own)) = SHARED.iter().find(|it| it.0 == field) else { continue };
            if !has(body, own) && *value != Yaml::Null {
                let spot = self.front.field(field);
                let node = Node { value: value.plain(&spot), spot };
                body.fields.push(((*own).to_owned(), node));
            }
        }
        let mut texts = Vec::new();
        if !has(body, "about") {
            texts.push(("about", format!("{name} of {template}")));
        }
        let skill = if has(body, "skill") { "Use the {{skill}} skill.\n\n" } else { "" };
        if !has(body, "prompt") {
            let own = self.front.body().trim().replace("{{", "{{{{");
            let gap = if own.is_empty() { "" } else { "\n\n" };
            texts.push(("prompt", format!("{own}{gap}{skill}{INBOX_PROMPT}")));
        }
        for (field, text) in texts {
            let node = Node { spot: spot.clone(), value: Plain::Text(text) };
            body.fields.push((field.to_owned(), node));
        }
    }
}

fn is_topic_name(value: &Yaml) -> bool {
    matches!(value, Yaml::Text(name) if is_segment(name))
}
