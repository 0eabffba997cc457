//! Declarations as the script's thread sees them: plain values without places.

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
    /// `wb.input.x`, its fields if it was given a table, and its caller.
    Input(InputType, Option<BareTable>, Caller),
}

/// A table.
#[derive(Default)]
pub(crate) struct BareTable {
    /// Its list, by index from 1.
    pub(crate) items: Vec<(i64, Bare)>,
    /// Its fields, by their names.
    pub(crate) fields: Vec<(String, Bare)>,
}

/// A declaration.
pub(crate) struct BareDeclared {
    /// `site`, `engine`, ….
    pub(crate) word: &'static str,
    /// The name, unless the word is unnamed.
    pub(crate) name: Option<String>,
    /// The caller that passed its table.
    pub(crate) caller: Caller,
    /// Its table.
    pub(crate) body: BareTable,
}

/// What the thread of a script reports while it loads.
pub(crate) enum News {
    /// It has read a file, which is being compiled.
    Read(Arc<Source>),
    /// Declarations.
    Declared(Vec<BareDeclared>),
    /// It has come to the end.
    Loaded(Draft),
}
