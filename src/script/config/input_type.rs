//! Types of inputs of kinds.

use serde::Serialize;

/// The type of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InputType {
    /// The id of a Topic.
    Topic,
    /// The path of a Source.
    Source,
    /// The name of a file in `agents/`.
    Persona,
    /// The id of the blob of a Source; computed by the core.
    Blob,
    /// The id of the blob of a persona; computed by the core.
    Hash,
    /// One line of text.
    Line,
    /// Several lines of text.
    Text,
    /// A number.
    Number,
    /// One of some words.
    Choice,
    /// `true` or `false`.
    Flag,
}

impl InputType {
    /// All types, in the order of the documentation.
    pub const ALL: [InputType; 10] = [
        InputType::Topic,
        InputType::Source,
        InputType::Persona,
        InputType::Blob,
        InputType::Hash,
        InputType::Line,
        InputType::Text,
        InputType::Number,
        InputType::Choice,
        InputType::Flag,
    ];

    /// Returns the word after `wb.input.`.
    pub fn as_str(self) -> &'static str {
        match self {
            InputType::Topic => "topic",
            InputType::Source => "source",
            InputType::Persona => "persona",
            InputType::Blob => "blob",
            InputType::Hash => "hash",
            InputType::Line => "line",
            InputType::Text => "text",
            InputType::Number => "number",
            InputType::Choice => "choice",
            InputType::Flag => "flag",
        }
    }

    /// Returns the type that a derived input of this type is derived from.
    pub fn origin(self) -> Option<InputType> {
        match self {
            InputType::Source => Some(InputType::Topic),
            InputType::Blob => Some(InputType::Source),
            InputType::Hash => Some(InputType::Persona),
            _ => None,
        }
    }

    /// Returns whether only the core may compute the value.
    pub fn is_computed(self) -> bool {
        matches!(self, InputType::Blob | InputType::Hash)
    }
}
