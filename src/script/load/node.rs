//! Declarations as a plain tree with places: the border between the script engine and the code that
//! validates declarations.

use std::sync::Arc;

use camino::Utf8Path;

use crate::base::EventKind;
use crate::script::config::InputType;
use crate::script::config::secret::Secret;
use crate::script::lint::judge::Code;
use crate::script::load::extract::{Checked, check};
use crate::script::schema::declaration;
use crate::script::source::diagnostic::{Diagnostic, Findings};
use crate::script::source::location::{Location, ScriptFile, Slot};
use crate::script::source::span::Spot;

/// A value with its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The field's name, or the entry of the list.
    pub(crate) spot: Spot,
    /// The value.
    pub(crate) value: Plain,
}

/// A value of a script.
#[derive(Clone, Debug)]
pub(crate) enum Plain {
    /// `true` or `false`.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// Another number.
    Number(f64),
    /// A text.
    Text(String),
    /// A table.
    Table(Table),
    /// A function.
    Function(Slot),
    /// `wb.secret.x`.
    Secret(Secret),
    /// The handle of a declaration.
    Handle(&'static str, String),
    /// `wb.input.x`.
    Input(InputType, Table),
    /// An invalid value, which was already reported.
    Reported,
    /// A value of a type that no field accepts, by the name of its type.
    Other(&'static str),
}

/// A table: its list and its fields, in the order of the text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// Entries 1, 2, ….
    pub(crate) items: Vec<Node>,
    /// Named entries.
    pub(crate) fields: Vec<(String, Node)>,
    /// Names, or `[1]` in a list, that are written but whose value is nil.
    pub(crate) nils: Vec<(String, Spot)>,
}

impl Plain {
    /// Returns a description of its type, with an article.
    pub(crate) fn what(&self) -> String {
        match self {
            Plain::Flag(_) => "a flag".to_owned(),
            Plain::Integer(_) | Plain::Number(_) => "a number".to_owned(),
            Plain::Text(_) => "a text".to_owned(),
            Plain::Table(table) => match (table.items.is_empty(), table.fields.is_empty()) {
                (false, true) => "a list".to_owned(),
                (false, false) => "a list with fields".to_owned(),
                _ => "a table".to_owned(),
            },
            Plain::Function(_) => "a function".to_owned(),
            Plain::Secret(_) => "a secret".to_owned(),
            Plain::Handle(word, name) => format!("the {word} \"{name}\""),
            Plain::Input(ty, _) => format!("`wb.input.{}`", ty.as_str()),
            Plain::Reported => "something unknown".to_owned(),
            Plain::Other(what) => (*what).to_owned(),
        }
    }
}

/// One declaration.
#[derive(Debug)]
pub(crate) struct Declared {
    /// `site`, `engine`, ….
    pub(crate) word: &'static str,
    /// The name, unless the word is unnamed.
    pub(crate) name: Option<String>,
    /// The call.
    pub(crate) spot: Spot,
    /// Its table.
    pub(crate) body: Table,
    /// `kind "incorporate"` or `site`, for messages.
    title: String,
    checked: Checked,
    found: Findings,
}

impl Declared {
    /// Returns a declaration that is validated against the fields of its word.
    pub(crate) fn new(word: &'static str, name: Option<String>, spot: Spot, body: Table) -> Self {
        let title = title(word, name.as_deref());
        let fields = declaration(word).map_or(&[][..], |it| it.fields);
        let mut found = Findings::default();
        let checked = check(format_args!("{title}"), &spot, &body, fields, &mut found);
        Declared { word, name, spot, body, title, checked, found }
    }

    /// Returns `kind "incorporate"` or `site`.
    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// Returns its fields.
    pub(crate) fn checked(&self) -> &Checked {
        &self.checked
    }

    /// Returns its valid fields, and adds findings about the others.
    pub(crate) fn judge(&self, findings: &mut Findings) -> &Checked {
        self.found.iter().for_each(|it| findings.add(it.clone()));
        &self.checked
    }
}

/// Returns `kind "incorporate"` or `site`.
pub(crate) fn title(word: &str, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{word} \"{name}\""),
        None => word.to_owned(),
    }
}

/// The result of evaluating a script.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// The files that were read, the script itself first.
    pub(crate) files: Vec<ScriptFile>,
    /// Declarations in their order.
    pub(crate) declared: Vec<Declared>,
    /// `wb.on`, in their order.
    pub(crate) handlers: Vec<(EventKind, Slot, String)>,
    /// Where each function is declared, indexed by slot.
    pub(crate) slots: Vec<Location>,
    /// The compiled code of each file.
    pub(crate) code: Vec<Code>,
    /// The findings so far.
    pub(crate) findings: Vec<Diagnostic>,
    /// Whether the evaluation ran to the end.
    pub(crate) is_whole: bool,
}

impl Draft {
    /// Returns the text of a file.
    pub(crate) fn text_of(&self, path: &Utf8Path) -> Option<&Arc<str>> {
        self.files.iter().find(|file| file.path == path).map(|file| &file.text)
    }
}
