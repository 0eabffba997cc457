//! Assigns places in the text to declarations, and validates them against the schema. The waiting
//! thread does this while the script runs on.

use std::collections::HashSet;
use std::sync::Arc;

use crate::script::load::node::{self, Declared, Node, Plain, title};
use crate::script::load::raw::{Bare, BareDeclared, BareTable};
use crate::script::source::ast::{Entry, Written};
use crate::script::source::diagnostic::Diagnostic;
use crate::script::source::field_span::{Places, Source};
use crate::script::source::source_map::Sources;
use crate::script::source::span::Spot;
use crate::script::vm::session::Caller;

/// What is known about the places around a value.
#[derive(Clone, Copy)]
struct Around<'p> {
    /// Where the declaration was called.
    caller: &'p Caller,
    /// The call of the declaration.
    call: &'p Spot,
    /// The nearest enclosing value that has a place.
    nearest: Option<&'p Spot>,
    /// The entries of the value's constructor, if it is written there.
    written: Option<&'p Written>,
}

/// Finds the places in the files of a script.
#[derive(Default)]
pub(crate) struct Placing {
    sources: Sources,
    /// The findings so far.
    pub(crate) findings: Vec<Diagnostic>,
}

impl Placing {
    /// Receives a file of the script and lexes it ahead of time.
    pub(crate) fn read(&mut self, source: Arc<Source>) {
        source.read_words();
        self.sources.share(source);
    }

    /// Assigns places to a declaration and validates it.
    pub(crate) fn declared(&mut self, bare: BareDeclared) -> Declared {
        let BareDeclared { word, name, caller, body } = bare;
        let places = self.sources.places(&caller, word, name.as_deref());
        let body = self.declaration(body, &caller, &places);
        for (field, second, first) in &places.twice {
            let title = title(word, name.as_deref());
            let message = format!("{title} sets `{}` twice", field.escape_debug());
            let note = format!("first set at {}", first.at());
            let finding = Diagnostic::error("duplicate-field", message).at(second).note(note);
            self.findings.push(finding);
        }
        Declared::new(word, name, places.call, body)
    }

    fn declaration(&self, body: BareTable, caller: &Caller, places: &Places) -> node::Table {
        let written = Some(&places.fields);
        self.table(body, &Around { caller, call: &places.call, nearest: None, written })
    }

    fn table(&self, bare: BareTable, around: &Around<'_>) -> node::Table {
        let mut placed = node::Table {
            items: Vec::with_capacity(bare.items.len()),
            fields: Vec::with_capacity(bare.fields.len()),
            nils: Vec::new(),
        };
        let mut written = 0;
        for (number, value) in bare.items {
            let entry = around.written.and_then(|it| it.item(number));
            written += usize::from(entry.is_some());
            let node = self.node(value, (entry, None), around);
            let is_next = usize::try_from(number).is_ok_and(|it| it == placed.items.len() + 1);
            match is_next {
                true => placed.items.push(node),
                false => placed.fields.push((format!("[{number}]"), node)),
            }
        }
        for (name, value) in bare.fields {
            let entry = around.written.and_then(|it| it.get(&name));
            written += usize::from(entry.is_some());
            let node = self.node(value, (entry, Some(&name)), around);
            placed.fields.push((name, node));
        }
        placed.fields.sort_by(|(_, a), (_, b)| a.spot.order(&b.spot));
        if let Some(all) = around.written
            && all.len() > written
        {
            let known: Vec<String> = (1..=placed.items.len()).map(|it| format!("[{it}]")).collect();
            let known = known.iter().chain(placed.fields.iter().map(|(name, _)| name));
            let known: HashSet<&String> = known.collect();
            let nils = all.named().filter(|(name, _)| !known.contains(name));
            placed.nils = nils.filter_map(|(name, it)| Some((name, all.spot(it)?))).collect();
        }
        placed
    }

    /// Assigns places to a value, given its name and the text of its constructor, if known.
    fn node(
        &self,
        value: Bare,
        (entry, name): (Option<&Entry>, Option<&str>),
        around: &Around<'_>,
    ) -> Node {
        let own = around.written.zip(entry).and_then(|(all, it)| all.spot(it));
        let nearest = own.as_ref().or(around.nearest);
        let spot = nearest.cloned().unwrap_or_else(|| {
            let named = name.and_then(|name| self.sources.named_spot(around.caller, name));
            named.unwrap_or_else(|| around.call.clone().elsewhere())
        });
        let written = entry.map(|it| &it.inner);
        let value = match value {
            Bare::Leaf(plain) => plain,
            Bare::Table(table) => {
                Plain::Table(self.table(table, &Around { nearest, written, ..*around }))
            }
            Bare::Input(ty, fields, caller) => {
                let around = Around { nearest, written, ..*around };
                Plain::Input(ty, self.input(ty.as_str(), fields, &caller, &around))
            }
        };
        Node { spot, value }
    }

    fn input(
        &self,
        word: &str,
        fields: Option<BareTable>,
        caller: &Caller,
        around: &Around<'_>,
    ) -> node::Table {
        let Some(fields) = fields else { return node::Table::default() };
        if around.written.is_some_and(|it| !it.is_empty()) {
            return self.table(fields, around);
        }
        // Built elsewhere: its own call knows better where its fields are.
        let places = self.sources.places(caller, word, None);
        self.declaration(fields, caller, &places)
    }
}
