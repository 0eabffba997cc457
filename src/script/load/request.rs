//! A request for a job written in the script: `{ kind = "x", input = value }`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Number, Value};

use crate::base::limit::{PRIORITY_MAX, parse_duration};
use crate::base::number;
use crate::script::config::Kind;
use crate::script::load::extract::{Checked, Given};
use crate::script::load::node::{Plain, Table};
use crate::script::load::schedule::{Schedule, Wanted};
use crate::script::schema::REQUEST_FIELDS;
use crate::script::source::diagnostic::{Diagnostic, Findings, suggestion};

/// Returns the call that starts a job of an inbox or an agent, which no request does.
pub(crate) fn send_to(kind: &Kind) -> String {
    let address = kind.address().unwrap_or_default();
    format!("wb.send {{ to = \"{address}\", payload = … }}")
}

/// Returns a request as plain data.
pub(crate) fn fit(label: std::fmt::Arguments<'_>, table: &Table, findings: &mut Findings) -> Given {
    let (mut request, mut spots) = (Map::new(), BTreeMap::new());
    let mut is_wrong = false;
    for (name, node) in &table.fields {
        let value = match &node.value {
            Plain::Handle("kind", of) if name == "kind" => Value::String(of.clone()),
            Plain::Text(text) => Value::String(text.clone()),
            Plain::Flag(flag) => Value::Bool(*flag),
            Plain::Integer(number) => Value::Number((*number).into()),
            Plain::Number(number) => Number::from_f64(*number).map_or(Value::Null, Value::Number),
            Plain::Reported => {
                is_wrong = true;
                continue;
            }
            other => {
                let message = format!("`{}` in {label} is {}", name.escape_debug(), other.what());
                let finding = Diagnostic::error("wrong-type", message).at(&node.spot);
                findings.add(finding.note(match name.as_str() {
                    "payload" => {
                        "only a message has one: write enqueue = function() wb.send { to = \"…\", \
                         payload = { … } } end"
                    }
                    "inputs" => "write the inputs beside it: { kind = \"NAME\", INPUT = … }",
                    _ => "it must be a text, a number or a flag",
                }));
                is_wrong = true;
                continue;
            }
        };
        request.insert(name.clone(), value);
        spots.insert(name.clone(), node.spot.clone());
    }
    if is_wrong { Given::Wrong } else { Given::Request(request, spots) }
}

/// Validates the request of a schedule against the kind that it names.
pub(crate) fn check(
    schedule: &Schedule,
    checked: &Checked,
    kinds: &BTreeMap<String, Kind>,
    names: Option<&BTreeSet<String>>,
    findings: &mut Findings,
) {
    let Wanted::Job(request) = &schedule.enqueue else { return };
    if request.is_empty() {
        // It is invalid or missing; either was already reported.
        return;
    }
    let whole = checked.spot("enqueue");
    let spot = |name: &str| match checked.given("enqueue") {
        Some(Given::Request(_, spots)) => spots.get(name).unwrap_or(whole),
        _ => whole,
    };
    let title = format!("`enqueue` of schedule \"{}\"", schedule.name);
    let mut error = |finding: Diagnostic, note: &str| findings.add(finding.note(note));
    let Some(name) = request.get("kind").and_then(Value::as_str) else {
        let finding = Diagnostic::error("missing-field", format!("{title} has no `kind`"));
        error(finding.at(whole), "write kind = \"NAME\"");
        return;
    };
    let Some(kind) = kinds.get(name) else {
        if names.is_none_or(|names| !names.contains(name)) {
            let message = format!("{title} names no kind: `{}`", name.escape_debug());
            let known = names.into_iter().flatten().map(String::as_str);
            let finding = Diagnostic::error("unknown-kind", message).at(spot("kind"));
            error(finding, &suggestion(name, known));
        }
        return;
    };
    if kind.takes_messages() {
        let message = format!("{title} names {}, which takes messages", kind.title());
        let finding = Diagnostic::error("broken-rule", message).at(spot("kind"));
        error(finding, &format!("write enqueue = function() {} end", send_to(kind)));
        return;
    }
    for (name, value) in request {
        if let Some(expected) = refusal(kind, name, value) {
            let message = format!("{title}: `{name}` must be {expected}");
            let finding = Diagnostic::error("bad-value", message).at(spot(name));
            error(finding, "as it is, each of its jobs would be refused");
        }
    }
    let inputs = || kind.inputs.iter().filter(|it| !it.ty.is_computed());
    for name in request.keys().filter(|it| !REQUEST_FIELDS.contains(&it.as_str())) {
        if !inputs().any(|it| it.name == *name) {
            let message = format!("{title}: kind \"{}\" has no input `{name}`", kind.name);
            let known = inputs().map(|it| it.name.as_str()).chain(REQUEST_FIELDS);
            let finding = Diagnostic::error("unknown-input", message).at_name(spot(name));
            error(finding, &suggestion(name, known));
        }
    }
    for input in inputs().filter(|it| it.required && it.default.is_none() && it.from.is_none()) {
        if !request.contains_key(&input.name) {
            let message = format!("{title}: kind \"{}\" needs `{}`", kind.name, input.name);
            let finding = Diagnostic::error("missing-input", message).at(whole);
            error(finding, &format!("write {} = …", input.name));
        }
    }
}

/// Returns what a value in a request must be, if it is invalid.
pub(crate) fn refusal(kind: &Kind, name: &str, value: &Value) -> Option<String> {
    let is_time =
        |text: &str| parse_duration(text).is_ok() || text.parse::<jiff::Timestamp>().is_ok();
    let is_right = match name {
        "kind" => true,
        "priority" => number::whole(value).is_some_and(|it| it.abs() <= PRIORITY_MAX),
        "not_before" => value.as_str().is_some_and(is_time),
        "replace_proposals" => value.is_boolean(),
        _ => {
            let input = kind.input(name).filter(|it| !it.ty.is_computed())?;
            return input.refusal(value);
        }
    };
    (!is_right).then(|| match name {
        "priority" => format!("a whole number from -{PRIORITY_MAX} to {PRIORITY_MAX}"),
        "not_before" => "a duration like \"10m\", or a time with its zone".to_owned(),
        _ => "true or false".to_owned(),
    })
}
