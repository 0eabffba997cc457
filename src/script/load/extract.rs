//! Validates the table of a declaration against the schema; one finding per mistake.

use std::collections::BTreeMap;
use std::fmt::Arguments;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::base::limit::parse_duration;
use crate::script::config::InputType;
use crate::script::config::secret::{EnvValue, Secret};
use crate::script::load::duration::fit_duration;
use crate::script::load::hook::{self, Command};
use crate::script::load::nil;
use crate::script::load::node::{Node, Plain, Table};
use crate::script::load::request;
use crate::script::schema::{Field, Shape, is_name};
use crate::script::source::diagnostic::{Diagnostic, Findings, expected, nearest, suggestion};
use crate::script::source::location::Slot;
use crate::script::source::span::Spot;

/// Longest line of a declaration, in characters.
const LINE_CHARS_MAX: usize = 1_000;

/// A value that is valid for its field.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    /// A line, a path, a name or a word.
    Text(String),
    /// A positive integer.
    Count(u32),
    /// A number.
    Number(f64),
    /// A flag.
    Flag(bool),
    /// A duration.
    Duration(Duration),
    /// A list of lines with their places.
    Lines(Vec<(String, Spot)>),
    /// A command.
    Command(Command),
    /// Names with texts or secrets.
    Texts(BTreeMap<String, (EnvValue, Spot)>),
    /// Names with counts.
    Counts(BTreeMap<String, (u32, Spot)>),
    /// Where a secret is.
    Secret(Secret),
    /// A template.
    Template(String),
    /// A function.
    Function(Slot),
    /// A kind and its inputs, with the place of each.
    Request(Map<String, Value>, BTreeMap<String, Spot>),
    /// Inputs.
    Inputs(Vec<GivenInput>),
    /// A table with fields of its own.
    Fields(Checked),
    /// An invalid value, which was reported.
    Wrong,
}

/// An input whose fields are valid.
#[derive(Clone, Debug)]
pub(crate) struct GivenInput {
    /// Its name.
    pub(crate) name: String,
    /// Its type.
    pub(crate) ty: InputType,
    /// Its place.
    pub(crate) spot: Spot,
    /// Its fields.
    pub(crate) fields: Checked,
}

/// The valid fields of a declaration, with defaults filled in.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    spot: Spot,
    is_empty: bool,
    values: Values,
}

/// A few dozen fields at most, by name.
#[derive(Clone, Debug, Default)]
struct Values(Vec<(&'static str, Given, Option<Spot>)>);

impl Values {
    fn get(&self, name: &str) -> Option<(&Given, Option<&Spot>)> {
        let found = self.0.iter().find(|it| it.0 == name);
        found.map(|(_, given, spot)| (given, spot.as_ref()))
    }

    /// Returns whether a field of the schema is set; compares names by address.
    fn has(&self, field: &'static Field) -> bool {
        self.0.iter().any(|it| std::ptr::eq(it.0, field.name))
    }

    /// Sets a field; replaces one that only stood for a misspelt name.
    fn set(&mut self, name: &'static str, given: Given, spot: Option<Spot>) {
        match self.0.iter_mut().find(|it| it.0 == name) {
            Some(it) => *it = (name, given, spot),
            None => self.0.push((name, given, spot)),
        }
    }
}

impl Checked {
    /// Returns whether no field was given.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Returns whether the field was given, valid or not.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(|(_, spot)| spot.is_some())
    }

    /// Returns whether the field was given and is invalid.
    pub(crate) fn is_wrong(&self, name: &str) -> bool {
        matches!(self.values.get(name), Some((Given::Wrong, _)))
    }

    /// Returns the place of a field, or of the declaration.
    pub(crate) fn spot(&self, name: &str) -> &Spot {
        self.values.get(name).and_then(|(_, spot)| spot).unwrap_or(&self.spot)
    }

    /// Returns the value of a field.
    pub(crate) fn given(&self, name: &str) -> Option<&Given> {
        self.values.get(name).map(|(given, _)| given)
    }

    /// Returns a line, path, name or word.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.given(name) {
            Some(Given::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns a count.
    pub(crate) fn count(&self, name: &str) -> Option<u32> {
        match self.given(name) {
            Some(Given::Count(count)) => Some(*count),
            _ => None,
        }
    }

    /// Returns a number.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        match self.given(name) {
            Some(Given::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// Returns a flag.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        match self.given(name) {
            Some(Given::Flag(flag)) => Some(*flag),
            _ => None,
        }
    }

    /// Returns a duration.
    pub(crate) fn duration(&self, name: &str) -> Option<Duration> {
        match self.given(name) {
            Some(Given::Duration(duration)) => Some(*duration),
            _ => None,
        }
    }

    /// Returns a list of lines.
    pub(crate) fn lines(&self, name: &str) -> &[(String, Spot)] {
        match self.given(name) {
            Some(Given::Lines(lines)) => lines,
            _ => &[],
        }
    }
}

/// Validates a table against its fields.
pub(crate) fn check(
    title: Arguments<'_>,
    spot: &Spot,
    table: &Table,
    fields: &'static [Field],
    findings: &mut Findings,
) -> Checked {
    let mut values = Values::default();
    for (name, node) in &table.fields {
        let Some(field) = fields.iter().find(|field| field.name == name) else {
            let message = format!("{title} has no field `{}`", name.escape_debug());
            let note = suggestion(name, fields.iter().map(|field| field.name));
            // One mistake gives one finding: a misspelt field is not also reported as missing.
            if let Some(meant) = nearest(name, fields.iter().map(|field| field.name))
                && values.get(meant).is_none()
            {
                values.set(meant, Given::Wrong, Some(node.spot.clone()));
            }
            findings.add(Diagnostic::error("unknown-field", message).at(&node.spot).note(note));
            continue;
        };
        nil::entries(title, field, &node.value, findings);
        let given = fit(title, field, node, findings);
        values.set(field.name, given, Some(node.spot.clone()));
    }
    for item in &table.items {
        let message = format!("{title} takes fields, not a list");
        let note = "write name = value";
        findings.add(Diagnostic::error("unknown-field", message).at(&item.spot).note(note));
    }
    for field in fields.iter().filter(|field| !values.has(field)) {
        let nil = table.nils.iter().find(|(name, _)| name == field.name).map(|it| &it.1);
        if field.is_required {
            let finding = match nil {
                Some(at) => {
                    let message = format!("`{}` of {title} is nil", field.name);
                    Diagnostic::error("nil-field", message).at(at)
                }
                None => {
                    let message = format!("{title} has no `{}`", field.name);
                    Diagnostic::error("missing-field", message).at(spot)
                }
            };
            let needs = format!("it needs {}: {}", field.shape.what(), how_to_write(field));
            findings.add(finding.note(needs));
        } else if let Some(nil) = nil.and_then(|it| nil::field(title, field.name, it)) {
            findings.add(nil);
        }
    }
    for field in fields {
        if let Some(text) = field.default.filter(|_| !values.has(field)) {
            values.set(field.name, default(field.shape, text, spot), None);
        }
    }
    Checked { spot: spot.clone(), is_empty: table.fields.is_empty(), values }
}

/// Parses the default of a field. The schema's tests check that every default parses.
fn default(shape: Shape, text: &'static str, spot: &Spot) -> Given {
    match shape {
        Shape::Duration => parse_duration(text).map_or(Given::Wrong, Given::Duration),
        Shape::Count => text.parse().map_or(Given::Wrong, Given::Count),
        Shape::Flag => Given::Flag(text == "true"),
        Shape::Lines => Given::Lines(vec![(text.to_owned(), spot.clone())]),
        _ => Given::Text(text.to_owned()),
    }
}

fn fit(title: Arguments<'_>, field: &Field, node: &Node, findings: &mut Findings) -> Given {
    let label = format_args!("`{}` of {title}", field.name);
    match (field.shape, &node.value) {
        (_, Plain::Reported) => Given::Wrong,
        (Shape::Line | Shape::Path | Shape::LineOr(_) | Shape::Reference(_), Plain::Text(text)) => {
            fit_line(label, text, &node.spot, findings).map_or(Given::Wrong, Given::Text)
        }
        (Shape::Reference(word), Plain::Handle(of, name)) if word == *of => {
            Given::Text(name.clone())
        }
        (Shape::Count, Plain::Integer(number)) => {
            fit_count(label, *number, node, findings).map_or(Given::Wrong, Given::Count)
        }
        (Shape::Number, Plain::Integer(number)) => Given::Number(*number as f64),
        (Shape::Number, Plain::Number(number)) if number.is_finite() => Given::Number(*number),
        (Shape::Flag, Plain::Flag(flag)) => Given::Flag(*flag),
        (Shape::Duration, Plain::Text(text)) => fit_duration(label, text, node, findings),
        (Shape::Duration, Plain::Integer(number)) => {
            fit_duration(label, &number.to_string(), node, findings)
        }
        (Shape::Word(words), Plain::Text(text)) if words.contains(&text.as_str()) => {
            Given::Text(text.clone())
        }
        (Shape::Word(words), Plain::Text(text)) => {
            let message = format!("{label} cannot be \"{}\"", text.escape_debug());
            let finding = Diagnostic::error("unknown-word", message).at(&node.spot);
            findings.add(finding.note(suggestion(text, words.iter().copied())));
            Given::Wrong
        }
        (Shape::Lines, Plain::Table(table)) if table.fields.is_empty() => {
            fit_lines(label, table, findings)
        }
        (Shape::Command, Plain::Text(_) | Plain::Table(_)) => {
            hook::fit(label, field, node, findings).map_or(Given::Wrong, Given::Command)
        }
        (Shape::Texts, Plain::Table(table)) if table.items.is_empty() => {
            fit_texts(label, table, findings)
        }
        (Shape::Counts, Plain::Table(table)) if table.items.is_empty() => {
            fit_counts(label, table, findings)
        }
        (Shape::Secret, Plain::Secret(secret)) => Given::Secret(secret.clone()),
        (Shape::Prompt, Plain::Text(text)) => Given::Template(text.clone()),
        (
            Shape::Prompt | Shape::Function(_) | Shape::LineOr(_) | Shape::Request(_),
            Plain::Function(slot),
        ) => Given::Function(slot.clone()),
        (Shape::Request(_), Plain::Table(table)) if table.items.is_empty() => {
            request::fit(label, table, findings)
        }
        (Shape::Inputs, Plain::Table(table)) if table.items.is_empty() => {
            Given::Inputs(fit_inputs(title, table, findings))
        }
        (Shape::Fields(fields), Plain::Table(table)) if table.items.is_empty() => {
            Given::Fields(check(label, &node.spot, table, fields, findings))
        }
        (Shape::Scalar, Plain::Text(text)) => Given::Text(text.clone()),
        (Shape::Scalar, Plain::Flag(flag)) => Given::Flag(*flag),
        (Shape::Scalar, Plain::Integer(it)) => Given::Text(it.to_string()),
        (Shape::Scalar, Plain::Number(it)) if it.is_finite() => Given::Text(it.to_string()),
        (Shape::Lines, Plain::Text(text)) => no_list(label, field, text, node, findings),
        (shape, value) => {
            let message = format!("{label} is {}, but must be {}", value.what(), shape.what());
            let finding = Diagnostic::error("wrong-type", message).at(&node.spot);
            findings.add(finding.note(how_to_write(field)));
            Given::Wrong
        }
    }
}

/// Handles a text given instead of a list of texts; a command is split at spaces.
fn no_list(
    label: Arguments<'_>,
    field: &Field,
    text: &str,
    node: &Node,
    findings: &mut Findings,
) -> Given {
    let message = format!("{label} is a text, but must be a list of texts");
    let words: Vec<String> = match field.name {
        "command" => text.split_whitespace().map(|it| format!("{it:?}")).collect(),
        _ => vec![format!("{text:?}")],
    };
    let note = format!("write {} = {{ {} }}", field.name, words.join(", "));
    findings.add(Diagnostic::error("wrong-type", message).at(&node.spot).note(note));
    Given::Wrong
}

/// Returns a valid value as a script would write it.
pub(crate) fn how_to_write(field: &Field) -> String {
    format!("write {} = {}", field.name, field.example)
}

fn wrong_type(
    label: Arguments<'_>,
    needs: &str,
    value: &Plain,
    spot: &Spot,
    findings: &mut Findings,
) {
    let message = format!("{label} is {}, but must be {needs}", value.what());
    findings.add(Diagnostic::error("wrong-type", message).at(spot));
}

fn fit_line(
    label: Arguments<'_>,
    text: &str,
    spot: &Spot,
    findings: &mut Findings,
) -> Option<String> {
    let wrong = if text.trim().is_empty() {
        "is empty"
    } else if text.chars().any(char::is_control) {
        "holds a line break or another control character"
    } else if text.chars().count() > LINE_CHARS_MAX {
        "is too long"
    } else {
        return Some(text.to_owned());
    };
    let note = match wrong.starts_with("holds") {
        true => "write it in one line; a program of several lines goes in a file of its own",
        false => "",
    };
    findings.add(Diagnostic::error("bad-text", format!("{label} {wrong}")).at(spot).note(note));
    None
}

fn fit_count(
    label: Arguments<'_>,
    number: i64,
    node: &Node,
    findings: &mut Findings,
) -> Option<u32> {
    let count = u32::try_from(number).ok().filter(|count| (1..=100_000).contains(count));
    if count.is_none() {
        let message = format!("{label} is {number}, but must be from 1 to 100000");
        let note = format!("write {}", number.clamp(1, 100_000));
        findings.add(Diagnostic::error("out-of-range", message).at(&node.spot).note(note));
    }
    count
}

fn fit_lines(label: Arguments<'_>, table: &Table, findings: &mut Findings) -> Given {
    let mut lines = Vec::new();
    let mut is_wrong = false;
    for item in &table.items {
        match &item.value {
            Plain::Text(text) => match fit_line(label, text, &item.spot, findings) {
                Some(line) => lines.push((line, item.spot.clone())),
                None => is_wrong = true,
            },
            Plain::Reported => is_wrong = true,
            other => {
                let entry = format_args!("an entry in {label}");
                wrong_type(entry, "a text", other, &item.spot, findings);
                is_wrong = true;
            }
        }
    }
    if is_wrong { Given::Wrong } else { Given::Lines(lines) }
}

fn fit_texts(label: Arguments<'_>, table: &Table, findings: &mut Findings) -> Given {
    let mut texts = BTreeMap::new();
    for (name, node) in &table.fields {
        match &node.value {
            Plain::Text(text) => {
                let value = EnvValue::Text(text.clone());
                texts.insert(name.clone(), (value, node.spot.clone()));
            }
            Plain::Secret(secret) => {
                let value = EnvValue::Secret(secret.clone());
                texts.insert(name.clone(), (value, node.spot.clone()));
            }
            Plain::Reported => {}
            other => {
                let label = format_args!("`{}` in {label}", name.escape_debug());
                wrong_type(label, "a text", other, &node.spot, findings);
            }
        }
    }
    let is_wrong = texts.is_empty() && !table.fields.is_empty();
    if is_wrong { Given::Wrong } else { Given::Texts(texts) }
}

fn fit_counts(label: Arguments<'_>, table: &Table, findings: &mut Findings) -> Given {
    let mut counts = BTreeMap::new();
    for (name, node) in &table.fields {
        let label = format_args!("`{}` in {label}", name.escape_debug());
        match &node.value {
            Plain::Integer(number) => {
                if let Some(count) = fit_count(label, *number, node, findings) {
                    counts.insert(name.clone(), (count, node.spot.clone()));
                }
            }
            Plain::Reported => {}
            other => wrong_type(label, &Shape::Count.what(), other, &node.spot, findings),
        }
    }
    Given::Counts(counts)
}

fn fit_inputs(title: Arguments<'_>, table: &Table, findings: &mut Findings) -> Vec<GivenInput> {
    let mut inputs = Vec::new();
    for (name, node) in &table.fields {
        let label = format_args!("input \"{}\" of {title}", name.escape_debug());
        if !is_name(name) {
            let message = format!("`{}` is not a name for an input", name.escape_debug());
            let note = "a name is small letters, digits, `-` and `_`, and begins with a letter";
            findings.add(Diagnostic::error("bad-name", message).at(&node.spot).note(note));
        }
        match &node.value {
            Plain::Input(ty, fields) => {
                let schema = crate::script::schema::input_fields(*ty);
                let fields = check(label, &node.spot, fields, schema, findings);
                let spot = node.spot.clone();
                inputs.push(GivenInput { name: name.clone(), ty: *ty, spot, fields });
            }
            Plain::Reported => {}
            other => {
                let message = format!("{label} is {}, but must be an input", other.what());
                let types = InputType::ALL.map(InputType::as_str);
                let note = format!("write wb.input.TYPE(), {}", expected(types));
                findings.add(Diagnostic::error("wrong-type", message).at(&node.spot).note(note));
            }
        }
    }
    inputs
}
