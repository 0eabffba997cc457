//! Warnings about the fields of one kind: without effect, never used, or overridden.

use std::collections::BTreeSet;

use crate::script::config::output::Reads;
use crate::script::config::{Engine, Input, InputType, Kind, Lane, Limits, Produces, Prompt};
use crate::script::load::extract::{Checked, Given};
use crate::script::load::node::Draft;
use crate::script::source::diagnostic::{Diagnostic, Findings};
use crate::script::vm::template::{Piece, pieces};

/// Checks one valid kind.
pub(crate) fn kind(
    title: &str,
    (kind, checked, engine): (&Kind, &Checked, Option<&Engine>),
    limits: &Limits,
    draft: &Draft,
    findings: &mut Findings,
) {
    for (field, why) in shadowed(kind, checked, engine, limits) {
        let message = format!("`{field}` of {title} has no effect");
        findings.add(Diagnostic::warning("shadowed", message).at(checked.spot(field)).note(why));
    }
    inputs(title, kind, checked, draft, findings);
}

/// Returns the fields that are overridden by another one, and why.
fn shadowed(
    kind: &Kind,
    checked: &Checked,
    engine: Option<&Engine>,
    limits: &Limits,
) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    if checked.has("permission_wait") && engine.is_some_and(|it| it.asks.is_empty()) {
        let why = format!("engine \"{}\" has no `asks`: it asks nobody", kind.engine);
        found.push(("permission_wait", why));
    }
    if engine.is_some_and(Engine::is_builtin) {
        for field in ["prompt", "skill"] {
            if checked.has(field) {
                found.push((field, format!("engine \"{}\" is builtin: leave it out", kind.engine)));
            }
        }
    }
    if checked.has("on_busy") && kind.lane.is_none() {
        found.push(("on_busy", "without a `lane` nothing is busy: write lane = …".to_owned()));
    }
    for (field, limit) in [("start", kind.start), ("idle", kind.idle)] {
        let is_clock = field != "start" || kind.inbox.is_none();
        if is_clock && checked.has(field) && limit.is_some_and(|it| it >= kind.timeout) {
            found.push((field, "it is not shorter than `timeout`".to_owned()));
        }
    }
    if let Some(inbox) = kind.inbox.as_ref().filter(|_| checked.has("after_turn")) {
        if engine.is_some_and(|it| it.speech.is_none()) {
            let why = format!("engine \"{}\" has one turn only", kind.engine);
            found.push(("after_turn", why));
        } else if inbox.after_turn >= kind.timeout {
            found.push(("after_turn", "it is not shorter than `timeout`".to_owned()));
        }
    }
    let reads_end = engine.and_then(Engine::reads).is_some_and(Reads::tells_end);
    if checked.has("linger") && !reads_end {
        let why = format!("engine \"{}\" has no `reads` that tells the final result", kind.engine);
        found.push(("linger", why));
    }
    if kind.max_running.is_some_and(|it| it > limits.jobs) {
        let field = if kind.inbox.is_some() { "concurrency" } else { "max_running" };
        found.push((field, format!("it is above jobs = {} of limits", limits.jobs)));
    }
    found
}

/// Warns about inputs and messages that no template shows, and a skill that no prompt mentions.
fn inputs(title: &str, kind: &Kind, checked: &Checked, draft: &Draft, findings: &mut Findings) {
    let Prompt::Template(template) = &kind.prompt else { return };
    if template.is_empty() {
        return;
    }
    let mut shown: BTreeSet<&str> = BTreeSet::new();
    for (_, piece) in pieces(template) {
        if let Piece::Name(name) = piece {
            shown.insert(name);
        }
    }
    if kind.skill.is_some() && !shown.contains("skill") {
        let message = format!("the prompt of {title} does not name its skill");
        let finding = Diagnostic::warning("unused-skill", message).at(checked.spot("skill"));
        findings.add(finding.note("write Use the {{skill}} skill."));
    }
    if kind.inbox.is_some() && !shown.contains("payload") && !shown.contains("message_path") {
        let message = format!("the prompt of {title} does not show the message");
        let finding = Diagnostic::warning("unused-input", message).at(checked.spot("prompt"));
        findings.add(finding.note("write {{payload}}, or {{message_path}} for its file"));
    }
    for input in &kind.inputs {
        if !shown.contains(input.name.as_str()) && template.contains(&format!("{{{}}}", input.name))
        {
            let message =
                format!("`{{{}}}` in the prompt of {title} is not a placeholder", input.name);
            let finding = Diagnostic::warning("unused-input", message).at(checked.spot("prompt"));
            findings.add(finding.note(format!("write {{{{{}}}}}", input.name)));
            shown.insert(&input.name);
        }
    }
    let Some(Given::Inputs(given)) = checked.given("inputs") else { return };
    for input in kind.inputs.iter().filter(|it| !shown.contains(it.name.as_str())) {
        let Some(place) = given.iter().find(|it| it.name == input.name) else { continue };
        if has_other_use(kind, input) || is_read_later(draft, &input.name) {
            continue;
        }
        let message = format!("the prompt of {title} never uses input `{}`", input.name);
        let finding = Diagnostic::warning("unused-input", message).at(&place.spot);
        findings.add(finding.note(format!("write {{{{{}}}}} where it belongs", input.name)));
    }
    for one in given {
        if one.fields.has("default")
            && one.fields.flag("required") == Some(true)
            && one.fields.has("required")
        {
            let message = format!("`required` of input \"{}\" of {title} has no effect", one.name);
            let finding = Diagnostic::warning("shadowed", message).at(one.fields.spot("required"));
            findings.add(finding.note("it has a `default`: leave one of them out"));
        }
    }
}

/// Returns whether a handler seems to read an input of a job, judging by its text.
fn is_read_later(draft: &Draft, name: &str) -> bool {
    let read = format!("inputs.{name}");
    !draft.handlers.is_empty() && draft.files.iter().any(|it| it.text.contains(&read))
}

/// Returns whether an input serves the lane, another input, a function of the kind, or the required
/// output.
fn has_other_use(kind: &Kind, input: &Input) -> bool {
    // Functions receive all inputs.
    let is_function = matches!(kind.lane, Some(Lane::Function(_)));
    if is_function || kind.verify.is_some() || kind.retry.is_some() {
        return true;
    }
    let is_origin = kind.inputs.iter().any(|it| it.from.as_deref() == Some(input.name.as_str()));
    let is_needed = match kind.produces {
        Some(Produces::Proposal | Produces::Perspective) => {
            matches!(input.ty, InputType::Blob | InputType::Hash | InputType::Topic)
        }
        Some(Produces::Message) => input.ty == InputType::Topic,
        _ => false,
    };
    is_origin || is_needed || kind.lane.as_ref().and_then(Lane::input) == Some(input.name.as_str())
}
