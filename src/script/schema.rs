//! Every field of every declaration: the only source of names, types, defaults and documentation.

use crate::script::config::{InputType, Reads};
use crate::script::schedule::SCHEDULE;

/// The version of the script's interface.
pub(crate) const API_VERSION: i64 = 1;

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One line of text that is not empty.
    Line,
    /// A path.
    Path,
    /// A whole number from one.
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
    /// Names with texts.
    Texts,
    /// Names with whole numbers from one.
    Counts,
    /// A template or a function.
    Prompt,
    /// The name or the handle of a declared thing.
    Reference(&'static str),
    /// Names with `wb.input.x`.
    Inputs,
    /// A text, a number or a flag.
    Scalar,
    /// A function.
    Function,
    /// A line, or a function that answers with one.
    LineOrFunction,
    /// A kind and its inputs in one table, or a function.
    Request,
    /// A table with these fields.
    Fields(&'static [Field]),
}

impl Shape {
    /// Returns what it is, with an article.
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
            Shape::Texts => "a table of names and texts".to_owned(),
            Shape::Counts => "a table of names and whole numbers".to_owned(),
            Shape::Prompt => "a text or a function".to_owned(),
            Shape::Reference(word) => format!("the name or handle of one {word}"),
            Shape::Inputs => "a table of names and wb.input.… values".to_owned(),
            Shape::Scalar => "a text, a number or a flag".to_owned(),
            Shape::Function => "a function".to_owned(),
            Shape::LineOrFunction => "a line of text or a function".to_owned(),
            Shape::Request => "a table with `kind` and inputs, or a function".to_owned(),
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
    /// What it holds.
    pub shape: Shape,
    /// Whether a declaration without it is refused.
    pub is_required: bool,
    /// Its value if none is given, as it would be written for its shape.
    pub default: Option<&'static str>,
    /// One line for people.
    pub doc: &'static str,
}

/// Something that a script declares.
#[derive(Clone, Copy, Debug)]
pub struct Declaration {
    /// The word after `wb.`.
    pub word: &'static str,
    /// Whether there are several, by name.
    pub is_named: bool,
    /// Its fields.
    pub fields: &'static [Field],
    /// One line for people.
    pub doc: &'static str,
}

pub(crate) const fn needed(name: &'static str, shape: Shape, doc: &'static str) -> Field {
    Field { name, shape, is_required: true, default: None, doc }
}

pub(crate) const fn field(name: &'static str, shape: Shape, doc: &'static str) -> Field {
    Field { name, shape, is_required: false, default: None, doc }
}

pub(crate) const fn with(
    name: &'static str,
    shape: Shape,
    default: &'static str,
    doc: &'static str,
) -> Field {
    Field { name, shape, is_required: false, default: Some(default), doc }
}

/// All declarations.
pub const DECLARATIONS: [Declaration; 6] = [
    Declaration {
        word: "site",
        is_named: false,
        fields: &SITE,
        doc: "Where the site's things are.",
    },
    Declaration {
        word: "identity",
        is_named: false,
        fields: &IDENTITY,
        doc: "Who writes the commits that an agent's text ends in.",
    },
    Declaration { word: "limits", is_named: false, fields: &LIMITS, doc: "What may run at once." },
    Declaration { word: "engine", is_named: true, fields: &ENGINE, doc: "How an agent is run." },
    Declaration { word: "kind", is_named: true, fields: &KIND, doc: "A sort of job." },
    Declaration {
        word: "schedule",
        is_named: true,
        fields: &SCHEDULE,
        doc: "A job that is made by itself, again and again.",
    },
];

const SITE: [Field; 7] = [
    with("root", Shape::Path, ".", "Folder of the git repository that holds the Sources."),
    with("data", Shape::Path, "./data", "Folder of the database, the socket and the jobs."),
    with("listen", Shape::Line, "127.0.0.1:7180", "Loopback address and port; 0 picks a port."),
    with("sources", Shape::Lines, "**/*.md", "Globs of the tracked files that are Sources."),
    field("wb_agent", Shape::Path, "The agent's client, if not beside the running program."),
    field("public_hosts", Shape::Lines, "Host names under which a proxy publishes the site."),
    field("name", Shape::Line, "Name of the site on its pages."),
];

const IDENTITY: [Field; 4] = [
    needed("author_name", Shape::Line, "Author's name."),
    needed("author_email", Shape::Line, "Author's mail address."),
    field("committer_name", Shape::Line, "Committer's name; the author's by default."),
    field("committer_email", Shape::Line, "Committer's mail address; the author's by default."),
];

/// What can be capped on a day.
const DAILY: [Field; 3] = [
    field("cost_usd", Shape::Number, "US dollars, as the agents tell them."),
    field("tokens", Shape::Number, "Tokens read and written, those from a cache included."),
    field("time", Shape::Duration, "Time of jobs from start to end, summed up."),
];

const LIMITS: [Field; 5] = [
    with("jobs", Shape::Count, "1", "Most agents that run at once."),
    with("grace", Shape::Duration, "5s", "Whole budget from the first signal to KILL."),
    field("lanes", Shape::Counts, "Jobs at once in a lane, by the name of its input."),
    field("daily", Shape::Fields(&DAILY), "What all jobs may spend on a day (UTC)."),
    field("daily_person", Shape::Fields(&DAILY), "What each person's jobs may spend on a day."),
];

/// Words of `engine.type`.
pub(crate) const ENGINE_TYPES: [&str; 2] = ["process", "builtin"];
/// Words of `engine.prompt`.
pub(crate) const PROMPT_BY: [&str; 2] = ["stdin", "argument"];
/// Words of `engine.reads`.
pub(crate) const READS: [&str; 3] =
    [Reads::ALL[0].as_str(), Reads::ALL[1].as_str(), Reads::ALL[2].as_str()];
/// Engines that are a part of this program.
pub(crate) const BUILTINS: [&str; 1] = ["suggestions"];

/// Words of `engine.on_rate_limit`.
pub(crate) const ON_RATE_LIMIT: [&str; 2] = ["hold", "go_on"];

const ENGINE: [Field; 6] = [
    needed("type", Shape::Word(&ENGINE_TYPES), "A program, or a part of this one."),
    field("command", Shape::Lines, "Program and arguments of a process."),
    field("prompt", Shape::Word(&PROMPT_BY), "How a process is given its prompt."),
    field("reads", Shape::Word(&READS), "Form of the output, for telemetry."),
    field("env", Shape::Texts, "Variables that are set in its environment."),
    with(
        "on_rate_limit",
        Shape::Word(&ON_RATE_LIMIT),
        "hold",
        "Whether its other jobs wait when its provider takes no more.",
    ),
];

/// Words of `kind.on_busy`.
pub(crate) const ON_BUSY: [&str; 2] = ["reject", "queue"];
/// Words of `kind.produces`.
pub(crate) const PRODUCES: [&str; 4] = ["proposal", "perspective", "message", "result"];
/// Words of `kind.on_server_loss`; only the first is built.
pub(crate) const ON_SERVER_LOSS: [&str; 2] = ["kill", "keep"];

const KIND: [Field; 18] = [
    needed("about", Shape::Line, "What it does, for people."),
    needed("engine", Shape::Reference("engine"), "How its agent is run."),
    field("skill", Shape::Path, "Folder of the skill, with a SKILL.md."),
    field("prompt", Shape::Prompt, "What the agent is told; needed unless the engine is builtin."),
    field("inputs", Shape::Inputs, "What a job is given."),
    field("lane", Shape::LineOrFunction, "Input whose value is not worked on twice at once."),
    with("on_busy", Shape::Word(&ON_BUSY), "queue", "What happens if the lane is taken."),
    field("max_running", Shape::Count, "Most jobs of this kind at once."),
    field("priority", Shape::Number, "Place among waiting jobs, -100 to 100: higher is earlier."),
    field("daily", Shape::Fields(&DAILY), "What jobs of this kind may spend on a day (UTC)."),
    field("produces", Shape::Word(&PRODUCES), "What a job must leave behind to be a success."),
    field("verify", Shape::Function, "A check of the result, beside that of `produces`."),
    field("retry", Shape::Function, "Whether a job that failed is repeated, and when."),
    needed("timeout", Shape::Duration, "Longest run."),
    field("start", Shape::Duration, "Longest wait for output; 30s if the engine reads JSON."),
    field("idle", Shape::Duration, "Longest silence; 2m if the engine reads JSON."),
    with("linger", Shape::Duration, "10s", "Longest wait for the exit after the final result."),
    with("on_server_loss", Shape::Word(&ON_SERVER_LOSS), "kill", "What a lost server means."),
];

const PLAIN_INPUT: [Field; 2] = [REQUIRED, ABOUT];
const DERIVED_INPUT: [Field; 4] = [
    FROM,
    REQUIRED,
    ABOUT,
    field("new", Shape::Flag, "Whether it may be a Source that does not exist yet."),
];
const COMPUTED_INPUT: [Field; 2] =
    [needed("from", Shape::Line, "Input from which it follows."), ABOUT];
const TEXT_INPUT: [Field; 3] = [REQUIRED, ABOUT, DEFAULT];
const NUMBER_INPUT: [Field; 5] = [
    REQUIRED,
    ABOUT,
    DEFAULT,
    field("min", Shape::Number, "Smallest number."),
    field("max", Shape::Number, "Largest number."),
];
const CHOICE_INPUT: [Field; 4] =
    [needed("choices", Shape::Lines, "The words to choose from."), REQUIRED, ABOUT, DEFAULT];

const FROM: Field = field("from", Shape::Line, "Input from which it follows.");
const REQUIRED: Field = with("required", Shape::Flag, "true", "Whether a job needs it.");
const ABOUT: Field = field("about", Shape::Line, "What it is for, for people.");
const DEFAULT: Field = field("default", Shape::Scalar, "The value of a job that gives none.");

/// Returns the fields of an input.
pub fn input_fields(ty: InputType) -> &'static [Field] {
    match ty {
        InputType::Topic | InputType::Persona => &PLAIN_INPUT,
        InputType::Source => &DERIVED_INPUT,
        InputType::Blob | InputType::Hash => &COMPUTED_INPUT,
        InputType::Line | InputType::Text | InputType::Flag => &TEXT_INPUT,
        InputType::Number => &NUMBER_INPUT,
        InputType::Choice => &CHOICE_INPUT,
    }
}

/// Returns the declaration of a word.
pub(crate) fn declaration(word: &str) -> Option<&'static Declaration> {
    DECLARATIONS_REF.iter().find(|it| it.word == word)
}

const DECLARATIONS_REF: &[Declaration] = &DECLARATIONS;

/// Returns whether a name is small letters, digits, `-` and `_`, and begins with a letter.
pub(crate) fn is_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_one_name_and_a_sentence() {
        let lists = DECLARATIONS
            .iter()
            .map(|it| it.fields)
            .chain(InputType::ALL.into_iter().map(input_fields));
        for fields in lists {
            for (index, field) in fields.iter().enumerate() {
                assert!(field.doc.ends_with('.'), "{}", field.name);
                assert!(fields[..index].iter().all(|it| it.name != field.name), "{}", field.name);
                assert!(!(field.is_required && field.default.is_some()), "{}", field.name);
            }
        }
    }
}
