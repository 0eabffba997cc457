//! The block of a new kind: its inputs and its prompt, as Lua.

use crate::base::{Error, Result};
use crate::cli::terminal::escape::lua as quoted;
use crate::script::{InputType, is_name, suggestion};

/// What a job must produce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Produce {
    /// A reply in the topic
    Message,
    /// A new version of a source, for review
    Proposal,
    /// A view of a source for a persona
    Perspective,
    /// JSON stored with the job
    Result,
    /// Topics on passages of a source
    Topic,
}

impl Produce {
    /// All, in the order of the question.
    pub(super) const ALL: [Produce; 5] = [
        Produce::Message,
        Produce::Proposal,
        Produce::Perspective,
        Produce::Result,
        Produce::Topic,
    ];

    /// Returns the word in the script.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Produce::Message => "message",
            Produce::Proposal => "proposal",
            Produce::Perspective => "perspective",
            Produce::Result => "result",
            Produce::Topic => "topic",
        }
    }

    /// Returns its description for the question.
    pub(super) fn meaning(self) -> &'static str {
        match self {
            Produce::Message => "an answer in a topic",
            Produce::Proposal => "a new text of a source, which a person decides on",
            Produce::Perspective => "a view of a source for a persona",
            Produce::Result => "JSON that stays with the job",
            Produce::Topic => "topics on passages of a source",
        }
    }
}

/// A requested input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Its name.
    pub(super) name: String,
    /// Its type.
    pub(super) ty: InputType,
    /// The argument of the type: its origin, the values of a choice, or `new`.
    arg: Option<String>,
    is_optional: bool,
}

impl Wanted {
    fn new(name: &str, ty: InputType, arg: Option<&str>) -> Wanted {
        Wanted { name: name.to_owned(), ty, arg: arg.map(str::to_owned), is_optional: false }
    }

    /// Parses `NAME=TYPE` or `NAME=TYPE:ARG`, optionally with a final `?`.
    pub(super) fn parse(text: &str) -> Result<Wanted> {
        let wrong =
            |why: String, hint: String| Err(Error::invalid(why).code("bad_input").hint(hint));
        let (plain, is_optional) = match text.strip_suffix('?') {
            Some(plain) => (plain, true),
            None => (text, false),
        };
        let Some((name, ty)) = plain.split_once('=') else {
            let why = format!("`{}` is not a valid input", text.escape_debug());
            return wrong(why, format!("write NAME=TYPE: {}=line", slug(text)));
        };
        let (word, arg) = match ty.split_once(':') {
            Some((word, arg)) => (word, Some(arg)),
            None => (ty, None),
        };
        if !is_name(name) {
            let why = format!("`{}` is not a name for an input", name.escape_debug());
            return wrong(why, format!("write {}={ty}", slug(name)));
        }
        let words = InputType::ALL.map(InputType::as_str);
        let Some(ty) = InputType::ALL.into_iter().find(|it| it.as_str() == word) else {
            let why = format!("`{}` is not a type of input", word.escape_debug());
            return wrong(why, suggestion(word, words));
        };
        match (ty, arg) {
            (InputType::Choice, None) => {
                let why = format!("`{name}` has no words to choose from");
                wrong(why, format!("write {name}=choice:short/long"))
            }
            (InputType::Choice | InputType::Source | InputType::Blob | InputType::Hash, _)
            | (_, None) => {
                Ok(Wanted { name: name.to_owned(), ty, arg: arg.map(str::to_owned), is_optional })
            }
            (_, Some(_)) => {
                wrong(format!("a {word} takes nothing after `:`"), format!("write {name}={word}"))
            }
        }
    }

    /// Whether the input is optional.
    pub(super) fn is_optional(&self) -> bool {
        self.is_optional
    }

    /// Returns it as typed: `page=source:new`.
    pub(super) fn text(&self) -> String {
        let arg = self.arg.as_ref().map(|it| format!(":{it}")).unwrap_or_default();
        let optional = if self.is_optional { "?" } else { "" };
        format!("{}={}{arg}{optional}", self.name, self.ty.as_str())
    }

    /// Whether it is the path of a source that need not exist.
    pub(super) fn is_new(&self) -> bool {
        self.ty == InputType::Source && self.arg.as_deref() == Some("new")
    }

    /// Whether it is derived from another input.
    pub(super) fn follows(&self) -> bool {
        self.arg.as_deref().is_some_and(|it| it != "new")
    }

    /// Returns the values of a choice.
    pub(super) fn words(&self) -> Vec<&str> {
        self.arg.iter().flat_map(|it| it.split('/')).collect()
    }

    /// Returns `wb.input.choice { choices = { "a", "b" } }`.
    fn lua(&self, wb: &str) -> String {
        let mut fields = Vec::new();
        match (self.ty, self.arg.as_deref()) {
            (InputType::Choice, Some(words)) => {
                let words: Vec<String> = words.split('/').map(quoted).collect();
                fields.push(format!("choices = {{ {} }}", words.join(", ")));
            }
            (InputType::Source, Some("new")) => fields.push("new = true".to_owned()),
            (_, Some(from)) => fields.push(format!("from = {}", quoted(from))),
            (_, None) => {}
        }
        if self.is_optional {
            fields.push("required = false".to_owned());
        }
        let call = format!("{wb}.input.{}", self.ty.as_str());
        match fields.is_empty() {
            true => format!("{call}()"),
            false => format!("{call} {{ {} }}", fields.join(", ")),
        }
    }

    /// Returns its label in the prompt: `Topic ID`, `Base source SHA`.
    pub(super) fn label(&self) -> String {
        let mut label = String::new();
        for (place, word) in self.name.split(['_', '-']).filter(|it| !it.is_empty()).enumerate() {
            let word = match word {
                "id" | "sha" => word.to_ascii_uppercase(),
                word => word.to_owned(),
            };
            match place {
                0 => {
                    let mut letters = word.chars();
                    label.extend(letters.next().map(|it| it.to_ascii_uppercase()));
                    label.push_str(letters.as_str());
                }
                _ => label.push_str(&format!(" {word}")),
            }
        }
        label
    }
}

/// Adds the inputs required by the result, each before those derived from it.
pub(super) fn complete(produce: Produce, given: Vec<Wanted>) -> Vec<Wanted> {
    let mut inputs = given;
    let name_of =
        |inputs: &[Wanted], ty| inputs.iter().find(|it| it.ty == ty).map(|it| it.name.clone());
    let mut lead: Vec<Wanted> = Vec::new();
    let mut need = |inputs: &mut Vec<Wanted>, name: &str, ty, from: Option<&str>| {
        // Of several sources, the one derived from the topic may not be there yet.
        let is_other = ty == InputType::Source && from.is_some();
        if let Some(name) = name_of(inputs, ty).filter(|_| !is_other) {
            return name;
        }
        let wanted = Wanted::new(name, ty, from);
        lead.push(wanted.clone());
        inputs.push(wanted);
        name.to_owned()
    };
    match produce {
        Produce::Message => drop(need(&mut inputs, "topic_id", InputType::Topic, None)),
        Produce::Proposal => {
            let source = match target(&inputs) {
                Some(source) => source.name.clone(),
                None => {
                    let topic = need(&mut inputs, "topic_id", InputType::Topic, None);
                    need(&mut inputs, "source_path", InputType::Source, Some(&topic))
                }
            };
            need(&mut inputs, "base_source_sha", InputType::Blob, Some(&source));
        }
        Produce::Perspective => {
            let source = need(&mut inputs, "source_path", InputType::Source, None);
            let persona = need(&mut inputs, "persona_name", InputType::Persona, None);
            need(&mut inputs, "source_sha", InputType::Blob, Some(&source));
            need(&mut inputs, "persona_sha", InputType::Hash, Some(&persona));
        }
        Produce::Result | Produce::Topic if inputs.is_empty() => {
            need(&mut inputs, "source_path", InputType::Source, None);
        }
        Produce::Result | Produce::Topic => {}
    }
    inputs.retain(|it| !lead.contains(it));
    lead.append(&mut inputs);
    lead
}

/// Returns the source that a proposal is for, if it was requested. A kind may read other sources,
/// in any order, but not a page that need not exist.
fn target(inputs: &[Wanted]) -> Option<&Wanted> {
    let has_topic = inputs.iter().any(|it| it.ty == InputType::Topic);
    let mut sources = inputs.iter().filter(|it| it.ty == InputType::Source);
    let find = |fits: &dyn Fn(&Wanted) -> bool| sources.clone().find(|it| fits(it));
    find(&Wanted::is_new)
        .or_else(|| find(&|it| has_topic && it.follows()))
        .or_else(|| find(&|it| it.name == "source_path"))
        .or_else(|| sources.next().filter(|_| !has_topic))
}

/// A new kind.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// Its name.
    pub(super) name: String,
    /// Its description.
    pub(super) about: String,
    /// Its engine.
    pub(super) engine: String,
    /// Whether the engine is built in: it takes no prompt and no skill.
    pub(super) is_builtin: bool,
    /// What its jobs produce.
    pub(super) produce: Produce,
    /// Its inputs, all of them.
    pub(super) inputs: Vec<Wanted>,
}

impl Block {
    /// Returns the name of the input of a type.
    pub(super) fn input(&self, ty: InputType) -> Option<&Wanted> {
        self.inputs.iter().find(|it| it.ty == ty)
    }

    /// Returns the source that the job works on: the one whose version is also given, or the first
    /// one.
    pub(super) fn source(&self) -> Option<&Wanted> {
        let blob = self.input(InputType::Blob).and_then(|it| it.arg.as_deref());
        let of_blob = self.inputs.iter().find(|it| Some(it.name.as_str()) == blob);
        of_blob.or_else(|| self.input(InputType::Source))
    }

    /// Returns the Lua text; `wb` is the file's name for our table.
    pub(super) fn lua(&self, wb: &str) -> String {
        let mut text = format!("\n{wb}.kind {} {{\n", quoted(&self.name));
        let mut line = |name: &str, value: &str, comment: &str| {
            let field = format!("  {name:<8} = {value},");
            match comment {
                "" => text.push_str(&format!("{field}\n")),
                _ => text.push_str(&format!("{field:<36} -- {comment}\n")),
            }
        };
        line("about", &quoted(&self.about), "");
        line("engine", &quoted(&self.engine), "");
        if !self.is_builtin {
            let skill = quoted(&format!("skills/{}", self.name));
            line("skill", &skill, "what its agent does, step by step");
        }
        line("timeout", "\"5m\"", "from its start to its end");
        let writes = matches!(self.produce, Produce::Proposal | Produce::Perspective);
        if let (true, Some(source)) = (writes, self.source()) {
            line("lane", &quoted(&source.name), "one running job per value");
        }
        let produce = quoted(self.produce.as_str());
        line("produces", &produce, "exit 0 without it is a failure");
        if self.inputs.is_empty() {
            line("sees", "\"site\"", "it may read every source and every topic");
        }
        if self.inputs.is_empty() {
            text.push_str("  inputs   = {},\n");
        } else {
            self.lua_inputs(&mut text, wb);
        }
        if !self.is_builtin {
            text.push_str(&format!("  prompt   = [[\n{}]],\n", self.prompt()));
        }
        text.push_str("}\n");
        text
    }

    fn lua_inputs(&self, text: &mut String, wb: &str) {
        text.push_str("  inputs   = {\n");
        let width = self.inputs.iter().map(|it| it.name.len()).max().unwrap_or(0);
        for input in &self.inputs {
            let (name, value) = (key(&input.name), input.lua(wb));
            text.push_str(&format!("    {name:<width$} = {value},\n"));
        }
        text.push_str("  },\n");
    }

    /// Returns the lines of parameters, with placeholders for their values.
    pub(super) fn parameters(&self, value: impl Fn(&str) -> String) -> String {
        let mut lines: Vec<(String, String)> = vec![("Job ID".to_owned(), value("job_id"))];
        for input in self.inputs.iter().filter(|it| it.ty != InputType::Text) {
            lines.push((input.label(), value(&input.name)));
        }
        lines.push(("Repo root".to_owned(), value("root")));
        lines.push(("wb-agent path".to_owned(), value("wb_agent")));
        let width = lines.iter().map(|(label, _)| label.len() + 1).max().unwrap_or(0);
        lines
            .iter()
            .map(|(label, value)| format!("{:<width$} {value}\n", format!("{label}:")))
            .collect()
    }

    fn prompt(&self) -> String {
        let parameters = self.parameters(|name| format!("{{{{{name}}}}}"));
        let mut text = format!("Use the {{{{skill}}}} skill.\n\n{parameters}");
        // A text of several lines is last, so that nothing in it looks like a parameter.
        for input in self.inputs.iter().filter(|it| it.ty == InputType::Text) {
            text.push_str(&format!("\n{}, to the end:\n{{{{{}}}}}\n", input.label(), input.name));
        }
        text
    }
}

/// Keywords, which need brackets as the name of a field.
const RESERVED: [&str; 22] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in",
    "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
];

/// Returns a name as the key of a table.
pub(super) fn key(name: &str) -> String {
    match name.contains('-') || RESERVED.contains(&name) {
        true => format!("[{}]", quoted(name)),
        false => name.to_owned(),
    }
}

/// Returns a similar valid name.
pub(super) fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in text.to_ascii_lowercase().chars() {
        match c {
            'a'..='z' | '0'..='9' => slug.push(c),
            _ if !slug.is_empty() && !slug.ends_with('-') => slug.push('-'),
            _ => {}
        }
    }
    let slug = slug.trim_end_matches('-').trim_start_matches(|c: char| c.is_ascii_digit());
    let slug: String = slug.trim_start_matches('-').chars().take(40).collect();
    if slug.is_empty() { "name".to_owned() } else { slug }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(produce: Produce, given: &[&str]) -> Vec<String> {
        let given = given.iter().map(|it| Wanted::parse(it).unwrap()).collect();
        complete(produce, given).iter().map(|it| format!("{}={}", it.name, it.lua("wb"))).collect()
    }

    #[test]
    fn what_a_job_must_have_is_added_once() {
        assert_eq!(names(Produce::Message, &[]), ["topic_id=wb.input.topic()"]);
        assert_eq!(
            names(Produce::Proposal, &["word=line?"]),
            [
                "topic_id=wb.input.topic()",
                "source_path=wb.input.source { from = \"topic_id\" }",
                "base_source_sha=wb.input.blob { from = \"source_path\" }",
                "word=wb.input.line { required = false }",
            ]
        );
        assert_eq!(
            names(Produce::Proposal, &["page=source:new"]),
            [
                "base_source_sha=wb.input.blob { from = \"page\" }",
                "page=wb.input.source { new = true }"
            ]
        );
        // Sources that are only read may come first.
        let given = ["original=source", "page=source:new"];
        assert_eq!(
            names(Produce::Proposal, &given)[0],
            "base_source_sha=wb.input.blob { from = \"page\" }"
        );
        let all = names(Produce::Proposal, &["topic_id=topic", "original=source"]);
        assert!(all.contains(&"original=wb.input.source()".to_owned()), "{all:?}");
        assert_eq!(all[0], "source_path=wb.input.source { from = \"topic_id\" }");
        assert_eq!(names(Produce::Perspective, &[]).len(), 4);
        assert_eq!(names(Produce::Result, &[]), ["source_path=wb.input.source()"]);
        assert_eq!(
            names(Produce::Result, &["tone=choice:dry/warm"]),
            ["tone=wb.input.choice { choices = { \"dry\", \"warm\" } }"]
        );
    }

    #[test]
    fn every_wrong_input_is_told_what_to_write() {
        for (text, hint) in [
            ("word", "write NAME=TYPE: word=line"),
            ("My Word=line", "write my-word=line"),
            ("word=lien", "did you mean `line`?"),
            ("word=picture", "expected one of `topic`, `source`"),
            ("tone=choice", "write tone=choice:short/long"),
            ("word=line:x", "write word=line"),
        ] {
            let error = Wanted::parse(text).unwrap_err();
            assert!(error.hint_str().unwrap().starts_with(hint), "{text}: {error}");
        }
        assert_eq!(slug("2 My  Kind!"), "my-kind");
        assert_eq!(slug("日本"), "name");
    }

    #[test]
    fn a_label_reads_like_a_label() {
        let label = |name: &str| Wanted::new(name, InputType::Line, None).label();
        assert_eq!(label("base_source_sha"), "Base source SHA");
        assert_eq!(label("topic_id"), "Topic ID");
        assert_eq!(key("end"), "[\"end\"]");
    }
}
