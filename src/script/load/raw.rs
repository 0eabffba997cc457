//! What a script declares, as its thread has it: plain values that have no places yet.

use std::sync::Arc;

use crate::script::config::InputType;
use crate::script::load::node::{Draft, Plain};
use crate::script::source::field_span::Source;
use crate::script::vm::session::Caller;

/// A value.
pub(crate) enum Bare {
    /// One that is no table.
    Leaf(Plain),
    /// A table.
    Table(BareTable),
    /// `wb.input.x`, its fields if it was given a table, and where it was called.
    Input(InputType, Option<BareTable>, Caller),
}

/// A table.
#[derive(Default)]
pub(crate) struct BareTable {
    /// Its list, by the numbers from one.
    pub(crate) items: Vec<(i64, Bare)>,
    /// Its fields, by their names.
    pub(crate) fields: Vec<(String, Bare)>,
}

/// A declaration.
pub(crate) struct BareDeclared {
    /// `site`, `engine`, ….
    pub(crate) word: &'static str,
    /// The name, unless there can be only one.
    pub(crate) name: Option<String>,
    /// Where its table was given.
    pub(crate) caller: Caller,
    /// What was declared.
    pub(crate) body: BareTable,
}

/// What the thread of a script says while it loads.
pub(crate) enum News {
    /// It has a file, which the engine parses now.
    Read(Arc<Source>),
    /// It has declared something.
    Declared(Vec<BareDeclared>),
    /// It has come to the end.
    Loaded(Draft),
}
