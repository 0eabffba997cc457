//! The vocabulary of scripts: fields, functions, and arguments of the script's functions. It is the
//! only source of the validator, the editor stubs, the reference and "expected one of" messages.
//!
//! **Invariant:** tables of data. Rules across declarations are checked in `build`.

mod channel_fields;
mod engine_fields;
mod events;
mod fields;
mod functions;
mod kind_fields;
mod lab;
mod lab_records;
pub(in crate::script) mod stubs;

pub(crate) use engine_fields::{BUILTINS, PROMPT_BY};
pub(crate) use events::{ALIASES, RECORDS, event_data};
#[cfg(test)]
pub(crate) use events::{JOB_REASON, JOB_STATUS};
pub use fields::{DECLARATIONS, input_fields};
pub(crate) use fields::{MESSAGE_FIELDS, REQUEST_FIELDS};
pub(crate) use functions::PROMPT;
#[cfg(test)]
pub(crate) use functions::{BASE, CALLBACKS};
pub use functions::{FUNCTIONS, Function, When};
pub use lab::TEST_FUNCTIONS;
pub(crate) use lab_records::{ANSWERS, ASKS, DOES, PROPOSES, TEST_RECORDS, TOPIC};

use crate::base::is_segment;

/// The version of the script's interface.
pub(crate) const API_VERSION: i64 = 1;

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One line of text that is not empty.
    Line,
    /// A path.
    Path,
    /// A positive integer.
    Count,
    /// A number.
    Number,
    /// `true` or `false`.
    Flag,
    /// A text like `"30s"`.
    Duration,
    /// One of some words.
    Word(&'static [&'static str]),
    /// A list of lines.
    Lines,
    /// A command: shell text, `"./FILE"` or program and arguments.
    Command,
    /// Names with texts or secrets.
    Texts,
    /// Names with positive integers.
    Counts,
    /// `wb.secret.env` or `wb.secret.file`.
    Secret,
    /// A template, or a function with this signature.
    Prompt,
    /// A function with this signature.
    Function(&'static Callback),
    /// A line, or a function with this signature that returns one.
    LineOr(&'static Callback),
    /// A kind and its inputs in one table, or a function with this signature.
    Request(&'static Callback),
    /// The name or the handle of a declaration.
    Reference(&'static str),
    /// Names with `wb.input.x`.
    Inputs,
    /// A text, a number or a flag.
    Scalar,
    /// A table with these fields.
    Fields(&'static [Field]),
}

impl Shape {
    /// Returns a description, with an article.
    pub fn what(self) -> String {
        match self {
            Shape::Line => "a line of text".to_owned(),
            Shape::Path => "a path".to_owned(),
            Shape::Count => "a whole number from 1".to_owned(),
            Shape::Number => "a number".to_owned(),
            Shape::Flag => "true or false".to_owned(),
            Shape::Duration => "a duration like \"30s\"".to_owned(),
            Shape::Word(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
                words.join(" or ")
            }
            Shape::Lines => "a list of texts".to_owned(),
            Shape::Command => "shell text, a \"./FILE\" or a list of texts".to_owned(),
            Shape::Texts => "a table of names with texts or secrets".to_owned(),
            Shape::Counts => "a table of names and whole numbers".to_owned(),
            Shape::Secret => "a secret".to_owned(),
            Shape::Prompt => "a text or a function".to_owned(),
            Shape::Function(_) => "a function".to_owned(),
            Shape::LineOr(_) => "a line of text or a function".to_owned(),
            Shape::Request(_) => "a table with `kind` and inputs, or a function".to_owned(),
            Shape::Reference(word) => format!("the name or handle of one {word}"),
            Shape::Inputs => "a table of names and wb.input.… values".to_owned(),
            Shape::Scalar => "a text, a number or a flag".to_owned(),
            Shape::Fields(fields) => {
                let names: Vec<&str> = fields.iter().map(|it| it.name).collect();
                format!("a table with {}", names.join(", "))
            }
        }
    }
}

/// A field of a declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub shape: Shape,
    /// Whether it is required.
    pub is_required: bool,
    /// Its default value, as a script would write it.
    pub default: Option<&'static str>,
    /// A value as a script would write it, on one line.
    pub example: &'static str,
    /// One line for people.
    pub doc: &'static str,
}

/// A word that declares something.
#[derive(Clone, Copy, Debug)]
pub struct Declaration {
    /// The word after `wb.`.
    pub word: &'static str,
    /// Whether it takes a name and can be used several times.
    pub is_named: bool,
    /// Its fields.
    pub fields: &'static [Field],
    /// One line for people.
    pub doc: &'static str,
}

/// A parameter or return value of a function, or a member of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: &'static str,
    /// Its type, as editors write it: `string`, `integer?`, `wb.Job`.
    pub ty: &'static str,
    /// One line for people.
    pub doc: &'static str,
}

/// A table passed to a function of the script.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Its type's name: `wb.Job`.
    pub name: &'static str,
    /// The type whose names it has as well.
    pub base: Option<&'static str>,
    /// The type of all other names, if they are allowed.
    pub others: Option<&'static str>,
    /// Its members.
    pub members: &'static [Member],
    /// One line for people.
    pub doc: &'static str,
}

/// The signature of a function of the script that the program calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Callback {
    /// Its parameters, in order.
    pub params: &'static [Member],
    /// Its return type; `None` if the value is ignored.
    pub returns: Option<&'static str>,
    /// One line for people.
    pub doc: &'static str,
}

impl Callback {
    /// Returns the signature as editors write it: `fun(job: wb.PromptValues): string`.
    pub fn signature(&self) -> String {
        let params: Vec<String> =
            self.params.iter().map(|it| format!("{}: {}", it.name, it.ty)).collect();
        let returns = self.returns.map(|it| format!(": {it}")).unwrap_or_default();
        format!("fun({}){returns}", params.join(", "))
    }
}

/// Returns the declaration of a word.
pub(crate) fn declaration(word: &str) -> Option<&'static Declaration> {
    DECLARATIONS_REF.iter().find(|it| it.word == word)
}

const DECLARATIONS_REF: &[Declaration] = &DECLARATIONS;

/// Returns whether a text names a declaration of this word.
pub(crate) fn is_name_of(word: &str, name: &str) -> bool {
    match (word, name.split_once('/')) {
        ("inbox", Some((template, name))) => is_segment(template) && is_segment(name),
        ("inbox", None) => false,
        _ => is_name(name),
    }
}

/// Returns the rule for names of this word.
pub(crate) fn name_note(word: &str) -> &'static str {
    match word {
        "inbox" => {
            "write TEMPLATE/NAME, each of letters, digits, `-` and `_`, as in \"accounts/teardown\""
        }
        _ => "a name is small letters, digits, `-` and `_`, and begins with a letter",
    }
}

/// Returns whether a name is small letters, digits, `-` and `_`, and begins with a letter.
pub fn is_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::EventKind;
    use crate::script::config::InputType;

    #[test]
    fn every_field_has_one_name_a_sentence_and_an_example() {
        let lists = DECLARATIONS
            .iter()
            .map(|it| it.fields)
            .chain(InputType::ALL.into_iter().map(input_fields));
        for fields in lists {
            for (index, field) in fields.iter().enumerate() {
                assert!(field.doc.ends_with('.'), "{}", field.name);
                assert!(fields[..index].iter().all(|it| it.name != field.name), "{}", field.name);
                assert!(!(field.is_required && field.default.is_some()), "{}", field.name);
                assert!(!field.example.is_empty() && !field.example.contains('|'));
            }
        }
    }

    #[test]
    fn what_a_handler_is_given_has_the_names_of_the_event() {
        for kind in EventKind::ALL {
            let names: Vec<String> = event_data(kind)
                .iter()
                .map(|it| {
                    let is_rare = kind.fields().contains(&format!("{}?", it.name).as_str());
                    if is_rare { format!("{}?", it.name) } else { it.name.to_owned() }
                })
                .collect();
            assert_eq!(names, kind.fields(), "{}", kind.as_str());
        }
    }

    #[test]
    fn every_function_says_what_it_does() {
        for function in FUNCTIONS.iter().chain(&BASE) {
            assert!(function.doc.ends_with('.'), "{}", function.name);
            assert!(!function.example.is_empty(), "{}", function.name);
        }
        for record in RECORDS {
            assert!(record.doc.ends_with('.') && record.name.starts_with("wb."), "{}", record.name);
            assert!(record.members.iter().all(|it| it.doc.ends_with('.')), "{}", record.name);
        }
    }
}
