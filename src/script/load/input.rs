//! Builds the `Input`s of a kind: types, defaults, and derivations.

use std::collections::BTreeSet;

use crate::base::is_one_line;
use crate::base::limit::LINE_BYTES_MAX;
use crate::script::config::{Input, InputType};
use crate::script::load::extract::{Given, GivenInput};
use crate::script::source::diagnostic::{Diagnostic, Findings, suggestion};

/// Validates one input.
pub(crate) fn build(
    given: &GivenInput,
    all: &[GivenInput],
    names: &[&str],
    title: &str,
    findings: &mut Findings,
) -> Input {
    let fields = &given.fields;
    let from = fields.text("from").map(str::to_owned);
    check_from(given, from.as_deref(), all, names, title, findings);
    let default = default(given, title, findings);
    let choices: Vec<String> =
        fields.lines("choices").iter().map(|(word, _)| word.clone()).collect();
    if given.ty == InputType::Choice {
        let distinct: BTreeSet<&String> = choices.iter().collect();
        let is_right = !choices.is_empty() && distinct.len() == choices.len();
        if fields.has("choices") && !fields.is_wrong("choices") && !is_right {
            let message = format!("`choices` of input \"{}\" of {title}", given.name);
            let message = format!("{message} must be different words, at least one");
            findings.add(Diagnostic::error("bad-choices", message).at(fields.spot("choices")));
        }
    }
    if let (Some(min), Some(max)) = (fields.number("min"), fields.number("max"))
        && min > max
    {
        let message = format!("`min` of input \"{}\" of {title} is above `max`", given.name);
        findings.add(Diagnostic::error("out-of-range", message).at(fields.spot("min")));
    }
    Input {
        name: given.name.clone(),
        ty: given.ty,
        required: fields.flag("required").unwrap_or(true) && default.is_none(),
        from,
        about: fields.text("about").map(str::to_owned),
        choices,
        min: fields.number("min"),
        max: fields.number("max"),
        default,
        new: is_new(given, title, findings),
    }
}

/// Returns whether a new Source is allowed; one derived from a topic exists already.
fn is_new(given: &GivenInput, title: &str, findings: &mut Findings) -> bool {
    let is_new = given.fields.flag("new").unwrap_or(false);
    if is_new && given.fields.has("from") {
        let message = format!(
            "input \"{}\" of {title} follows from `{}`: it cannot be new",
            given.name,
            given.fields.text("from").unwrap_or_default().escape_debug()
        );
        findings.add(Diagnostic::error("bad-from", message).at(given.fields.spot("new")));
    }
    is_new
}

/// Sources derive from topics, blobs from sources, and hashes from personas.
fn check_from(
    given: &GivenInput,
    from: Option<&str>,
    all: &[GivenInput],
    names: &[&str],
    title: &str,
    findings: &mut Findings,
) {
    let (Some(from), Some(needs)) = (from, given.ty.origin()) else { return };
    let spot = given.fields.spot("from");
    let finding = match all.iter().find(|input| input.name == from) {
        Some(origin) if origin.ty == needs => {
            let is_optional = origin.fields.flag("required") == Some(false);
            if !is_optional || given.fields.flag("required") == Some(false) {
                return;
            }
            let message = format!(
                "input \"{}\" of {title} follows from `{from}`, which is not required",
                given.name
            );
            Diagnostic::error("bad-from", message).note("require it")
        }
        Some(origin) => {
            let (ty, origin) = (given.ty.as_str(), origin.ty.as_str());
            let message = format!(
                "input \"{}\" of {title}: a {ty} cannot follow from `{from}`, a {origin}",
                given.name
            );
            let note = format!("it can follow from a {}", needs.as_str());
            Diagnostic::error("bad-from", message).note(note)
        }
        None if names.contains(&from) => return,
        None => {
            let message = format!(
                "input \"{}\" of {title} follows from no input: `{}`",
                given.name,
                from.escape_debug()
            );
            let others = names.iter().copied().filter(|it| *it != given.name);
            let note = suggestion(from, others.collect::<Vec<_>>());
            Diagnostic::error("unknown-input", message).note(note)
        }
    };
    findings.add(finding.at(spot));
}

/// Returns the default as text, if a person could enter it.
fn default(given: &GivenInput, title: &str, findings: &mut Findings) -> Option<String> {
    let fields = &given.fields;
    let text = match fields.given("default")? {
        Given::Text(text) => text.clone(),
        Given::Flag(flag) => flag.to_string(),
        _ => return None,
    };
    let is_right = match given.ty {
        InputType::Number => text.parse::<f64>().is_ok_and(|number| {
            number.is_finite()
                && fields.number("min").is_none_or(|min| number >= min)
                && fields.number("max").is_none_or(|max| number <= max)
        }),
        InputType::Flag => text == "true" || text == "false",
        InputType::Choice => fields.lines("choices").iter().any(|(word, _)| *word == text),
        InputType::Line => text.len() <= LINE_BYTES_MAX && is_one_line(&text),
        _ => true,
    };
    if !is_right {
        let message = format!(
            "`default` of input \"{}\" of {title} is not a value for a {}",
            given.name,
            given.ty.as_str()
        );
        findings.add(Diagnostic::error("bad-default", message).at(fields.spot("default")));
    }
    Some(text)
}

/// Sorts the inputs so that a derived one follows the one that it is derived from.
pub(crate) fn sort(
    inputs: Vec<Input>,
    given: &[GivenInput],
    title: &str,
    findings: &mut Findings,
) -> Vec<Input> {
    let mut waiting = inputs;
    let mut sorted: Vec<Input> = Vec::new();
    while !waiting.is_empty() {
        let is_free = |input: &Input| {
            let Some(from) = &input.from else { return true };
            !waiting.iter().any(|other| other.name == *from)
        };
        // Taking the first free one each time keeps the order of the text wherever possible.
        let Some(index) = waiting.iter().position(is_free) else { break };
        sorted.push(waiting.remove(index));
    }
    if let Some(first) = waiting.first() {
        let names: Vec<String> = waiting.iter().map(|input| format!("`{}`", input.name)).collect();
        let message = format!("inputs of {title} follow from each other: {}", names.join(", "));
        if let Some(one) = given.iter().find(|it| it.name == first.name) {
            findings.add(Diagnostic::error("cycle", message).at(one.fields.spot("from")));
        }
        sorted.append(&mut waiting);
    }
    sorted
}
