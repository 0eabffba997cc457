//! Warnings about what is written and is nil, and would be left out without a word.

use std::fmt::Arguments;

use crate::script::load::node::Plain;
use crate::script::schema::{Field, Shape};
use crate::script::source::diagnostic::{Diagnostic, Findings};
use crate::script::source::span::Spot;

/// Returns the warning about an optional field that is nil, unless nil may be meant there.
pub(super) fn field(title: Arguments<'_>, name: &str, at: &Spot) -> Option<Diagnostic> {
    let what = format!("`{name}` of {title}");
    hardly_meant(&what, &format!("{name} = "), at)
}

/// Warns about entries of a list, or of a table of names, that are nil.
pub(super) fn entries(title: Arguments<'_>, field: &Field, value: &Plain, findings: &mut Findings) {
    // A table with fields of its own is checked by them.
    let Plain::Table(table) = value else { return };
    if matches!(field.shape, Shape::Fields(_)) {
        return;
    }
    for (name, at) in &table.nils {
        let (what, before) = match name.starts_with('[') {
            true => (format!("an entry of `{}` of {title}", field.name), String::new()),
            false => (format!("`{name}` of `{}` of {title}", field.name), format!("{name} = ")),
        };
        if let Some(found) = hardly_meant(&what, &before, at) {
            findings.add(found);
        }
    }
}

fn hardly_meant(what: &str, before: &str, at: &Spot) -> Option<Diagnostic> {
    let written = at.source()?.expected(at.written()?)?;
    let written = written.split_whitespace().collect::<Vec<_>>().join(" ");
    let message = format!("{what} is nil: `{written}`");
    let is_number = written.trim_start_matches('(').starts_with("tonumber");
    let cause = match (is_number, written.contains("wb.env")) {
        (true, true) => "set the variable to a number",
        (true, false) => "make it a number",
        (false, true) => "set the variable",
        (false, false) => "correct the name",
    };
    let note = format!("{cause}; if nil is meant, write {before}{written} or nil, or leave it out");
    Some(Diagnostic::warning("nil-field", message).at(at).note(note))
}
