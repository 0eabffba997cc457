//! Parses persona files: their front matter, and the Sources that they are for.
//!
//! The front matter is a subset of YAML parsed here: `name: value`, lists, quotes and comments.
//! Without anchors, tags and mappings nothing can expand while it is parsed, and every error has
//! its line.
//!
//! **Invariant:** nothing here reads a file; the caller passes text of at most `PERSONA_BYTES_MAX`
//! bytes.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::base::limit::{
    PERSONA_ABOUT_BYTES_MAX, PERSONA_FRONT_BYTES_MAX, PERSONA_NAME_BYTES_MAX, PERSONA_PATHS_MAX,
    SOURCE_PATH_BYTES_MAX,
};
use crate::base::{SourcePath, nearest, truncate_chars};

/// The allowed fields of a front matter.
const FIELDS: [&str; 3] = ["name", "about", "paths"];
/// The field that makes a file the template of an agent.
const ENGINE: &str = "engine";

/// A named role for an agent.
#[derive(Clone, Debug)]
pub struct Persona {
    /// Its name, also that of its file.
    pub name: String,
    /// One line for people.
    pub about: Option<String>,
    /// Globs of the Sources that it is for; empty for all.
    pub paths: Vec<String>,
    /// The instructions for its agent.
    pub body: String,
    globs: GlobSet,
}

impl Persona {
    /// Returns whether the persona is for a Source.
    pub fn is_for(&self, path: &SourcePath) -> bool {
        self.paths.is_empty() || self.globs.is_match(path.as_str())
    }
}

/// Why a file is not a valid persona.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonaFault {
    /// The line of the error, from 1.
    pub line: u32,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub hint: String,
}

/// Returns whether a text is a valid persona name: a plain file name without extension.
pub fn is_persona_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !name.is_empty() && name.len() <= PERSONA_NAME_BYTES_MAX && name.chars().all(is_plain)
}

/// Parses the file of the persona `name`.
///
/// # Errors
/// The first error, with its line.
pub fn parse_persona(name: &str, text: &str) -> Result<Persona, PersonaFault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader { name, about: None, paths: None, has_name: false, globs: None };
    let mut lines = text.split_inclusive('\n').zip(1u32..);
    let is_rule = |line: &str| line.trim_end() == "---";
    let begin = "begin the file with the lines `---`, `name: NAME`, `---`; that of an agent also \
                 has `engine: ENGINE`";
    if !lines.next().is_some_and(|(line, _)| is_rule(line)) {
        return Err(fault(1, "no front matter", begin));
    }
    let mut bytes = "---\n".len();
    let mut is_list = false;
    for (full, number) in lines {
        bytes += full.len();
        let line = full.trim_end();
        if is_rule(line) {
            let body = text.get(text.len() - rest_of(text, number).len()..).unwrap_or_default();
            return reader.finish(body, number);
        }
        if bytes > PERSONA_FRONT_BYTES_MAX {
            let message = format!("the front matter has more than {PERSONA_FRONT_BYTES_MAX} bytes");
            return Err(fault(number, message, "write the prompt below it"));
        }
        if let Some(control) = line.chars().find(|it| it.is_control()) {
            let message = format!("there is the control character U+{:04X}", u32::from(control));
            return Err(fault(number, message, "write spaces, not tabs"));
        }
        is_list = match reader.line(line, is_list) {
            Ok(is_list) => is_list,
            Err(_) if !rest_of(text, number).lines().any(is_rule) => return Err(unclosed(text)),
            Err(it) => return Err(fault(number, it.0, it.1)),
        };
    }
    Err(unclosed(text))
}

/// Returns the error about a front matter without an end, at the line that was meant as its end.
fn unclosed(text: &str) -> PersonaFault {
    let is_meant = |line: &str| {
        let dashes = line.trim_end();
        dashes.chars().count() > 1 && dashes.chars().all(|it| matches!(it, '-' | '–' | '—'))
    };
    let meant = text.lines().zip(1u32..).skip(1).find(|(line, _)| is_meant(line));
    let line = meant.map_or(1, |it| it.1);
    fault(line, "the front matter is not closed", "close it with a line `---`")
}

/// Returns the text after a line.
fn rest_of(text: &str, line: u32) -> &str {
    let lines = usize::try_from(line).unwrap_or(usize::MAX);
    let before: usize = text.split_inclusive('\n').take(lines).map(str::len).sum();
    &text[before..]
}

fn fault(line: u32, message: impl Into<String>, hint: impl Into<String>) -> PersonaFault {
    PersonaFault { line, message: message.into(), hint: hint.into() }
}

/// An error message and its hint.
type Wrong = (String, String);

fn wrong<T>(message: impl Into<String>, hint: impl Into<String>) -> Result<T, Wrong> {
    Err((message.into(), hint.into()))
}

struct Reader<'a> {
    name: &'a str,
    has_name: bool,
    about: Option<String>,
    paths: Option<Vec<String>>,
    globs: Option<GlobSetBuilder>,
}

impl Reader<'_> {
    /// Parses a line; returns whether the next one may be a list item.
    fn line(&mut self, line: &str, is_list: bool) -> Result<bool, Wrong> {
        let plain = line.trim_start();
        if plain.is_empty() || plain.starts_with('#') {
            return Ok(is_list);
        }
        if let (true, Some(item)) = (is_list, plain.strip_prefix("- ")) {
            self.path(scalar(item)?)?;
            return Ok(true);
        }
        let Some((field, value)) = line.split_once(':').filter(|(it, _)| !it.starts_with(' '))
        else {
            let shown = truncate_chars(line, 60);
            return wrong(
                format!("`{}` is not a field", shown.escape_debug()),
                "write `field: value`; only `paths` may go on in the next lines",
            );
        };
        let value = value.trim();
        match field {
            "name" if !self.has_name => self.name(scalar(value)?)?,
            "about" if self.about.is_none() => {
                let about = scalar(value)?;
                if about.len() > PERSONA_ABOUT_BYTES_MAX {
                    let message = format!("`about` has more than {PERSONA_ABOUT_BYTES_MAX} bytes");
                    return wrong(message, "say it in one short line");
                }
                self.about = Some(about);
            }
            "paths" if self.paths.is_none() => return self.paths(value),
            _ if FIELDS.contains(&field) => {
                return wrong(format!("`{field}` is given twice"), "leave one of them");
            }
            _ => {
                let shown = truncate_chars(field, 60);
                let message = format!("a persona has no field `{}`", shown.escape_debug());
                let meant = nearest(field, FIELDS.into_iter().chain([ENGINE]));
                let meant = match meant {
                    Some(ENGINE) => "did you mean `engine`, for an agent? ".to_owned(),
                    Some(it) => format!("did you mean `{it}`? "),
                    None => String::new(),
                };
                return wrong(message, format!("{meant}it may have: {}", FIELDS.join(", ")));
            }
        }
        Ok(false)
    }

    fn name(&mut self, given: String) -> Result<(), Wrong> {
        if given != self.name {
            let shown = truncate_chars(&given, 80);
            return wrong(
                format!("the name is `{}`", shown.escape_debug()),
                format!("`name` must be `{}`, as the file is called", self.name),
            );
        }
        self.has_name = true;
        Ok(())
    }

    fn paths(&mut self, value: &str) -> Result<bool, Wrong> {
        self.paths = Some(Vec::new());
        self.globs = Some(GlobSetBuilder::new());
        if value.is_empty() || value.starts_with('#') {
            return Ok(true);
        }
        for glob in items(value)? {
            self.path(glob)?;
        }
        Ok(false)
    }

    fn path(&mut self, glob: String) -> Result<(), Wrong> {
        let paths = self.paths.get_or_insert_default();
        let globs = self.globs.get_or_insert_with(GlobSetBuilder::new);
        if paths.len() >= PERSONA_PATHS_MAX || glob.len() > SOURCE_PATH_BYTES_MAX {
            let message = format!("`paths` has more than {PERSONA_PATHS_MAX} globs, or a long one");
            return wrong(message, "use `**` for all that is below a folder");
        }
        match GlobBuilder::new(&glob).literal_separator(true).build() {
            Ok(built) => {
                globs.add(built);
                paths.push(glob);
                Ok(())
            }
            Err(cause) => {
                let shown = truncate_chars(&glob, 80);
                let message = format!("`{}` is not a glob", shown.escape_debug());
                wrong(message, cause.kind().to_string())
            }
        }
    }

    fn finish(self, body: &str, line: u32) -> Result<Persona, PersonaFault> {
        if !self.has_name {
            let hint = format!("write `name: {}`", self.name);
            return Err(fault(line, "the persona has no `name`", hint));
        }
        let paths = self.paths.unwrap_or_default();
        let is_limited = self.globs.is_some();
        if is_limited && paths.is_empty() {
            let hint = "name at least one glob, or leave `paths` out: then it is for all sources";
            return Err(fault(line, "`paths` is empty", hint));
        }
        if body.trim().is_empty() {
            let hint = "write below the front matter who the persona is and how it reads";
            return Err(fault(line, "the persona says nothing", hint));
        }
        if let Some((_, above)) = body.split('\n').zip(0u32..).find(|(it, _)| it.contains('\0')) {
            return Err(fault(line + 1 + above, "there is a zero byte", "write plain text"));
        }
        let globs = self.globs.unwrap_or_else(GlobSetBuilder::new).build().map_err(|cause| {
            fault(line, "the globs of `paths` are too large together", cause.kind().to_string())
        })?;
        let body = body.to_owned();
        Ok(Persona { name: self.name.to_owned(), about: self.about, paths, body, globs })
    }
}

/// Parses a one-line value, quoted or plain.
fn scalar(text: &str) -> Result<String, Wrong> {
    let text = text.trim();
    let (value, rest) = match text.chars().next() {
        Some('"' | '\'') => quoted(text)?,
        _ => (text.split(" #").next().unwrap_or_default().trim_end().to_owned(), ""),
    };
    if !(rest.trim().is_empty() || rest.trim_start().starts_with('#')) {
        return wrong("unexpected text after the closing quote", "put all of it into the quotes");
    }
    let is_quoted = value.len() < text.len() && text.starts_with(['"', '\'']);
    if value.trim().is_empty() {
        return wrong("the value is empty", "write one, or leave the field out");
    }
    if value.chars().any(char::is_control) {
        return wrong("the value holds a control character", "it is one line of text");
    }
    // Values that YAML would interpret differently.
    let first = ['&', '*', '!', '|', '>', '%', '@', '`', '{', '}', '[', ']', ',', '#', '?'];
    let is_doubtful = value.starts_with(first)
        || value.starts_with("- ")
        || value.contains(": ")
        || value.ends_with(':');
    if !is_quoted && is_doubtful {
        return wrong("the value is not plain text", "put it into double quotes");
    }
    Ok(value)
}

/// Parses a quoted text; returns it with the text after it.
fn quoted(text: &str) -> Result<(String, &str), Wrong> {
    let unclosed = || ("a quote is not closed".to_owned(), "close it in the same line".to_owned());
    let is_double = text.starts_with('"');
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' if is_double => drop(chars.next()),
            '\'' if !is_double && chars.peek().is_some_and(|(_, next)| *next == '\'') => {
                chars.next();
            }
            '"' if is_double => {
                let value = serde_json::from_str(&text[..=at]);
                let value = value.map_err(|_| {
                    let hint = "only \\\", \\\\, \\/ and the other escapes of JSON are known";
                    ("a backslash means nothing here".to_owned(), hint.to_owned())
                })?;
                return Ok((value, &text[at + 1..]));
            }
            '\'' if !is_double => {
                return Ok((text[1..at].replace("''", "'"), &text[at + 1..]));
            }
            _ => {}
        }
    }
    Err(unclosed())
}

/// Parses a list in brackets.
fn items(text: &str) -> Result<Vec<String>, Wrong> {
    let hint = "write paths: [\"docs/**\", \"guide.md\"], all in one line, or one `- …` a line";
    let Some(mut rest) = text.strip_prefix('[').map(str::trim_start) else {
        return wrong("`paths` is not a list", hint);
    };
    let mut found = Vec::new();
    loop {
        if let Some(after) = rest.strip_prefix(']') {
            let after = after.trim();
            let is_done = after.is_empty() || after.starts_with('#');
            return if is_done { Ok(found) } else { wrong("`paths` does not end here", hint) };
        }
        let after = if rest.starts_with(['"', '\'']) {
            let (value, after) = quoted(rest)?;
            found.push(value);
            after.trim_start()
        } else {
            let end = rest.find([',', ']']).unwrap_or(rest.len());
            found.push(scalar(&rest[..end])?);
            &rest[end..]
        };
        rest = match after.strip_prefix(',') {
            Some(next) => next.trim_start(),
            None if after.starts_with(']') => after,
            None => return wrong("`paths` has no closing bracket", hint),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Persona, PersonaFault> {
        parse_persona("critic", text)
    }

    fn paths(front: &str) -> Vec<String> {
        parse(&format!("---\nname: critic\n{front}\n---\nBe strict.\n")).unwrap().paths
    }

    #[test]
    fn a_persona_is_a_front_matter_and_what_its_agent_is_told() {
        let text = "---\r\nname: 'critic' # who\r\nabout: \"A \\\"strict\\\" one\"\r\n\r\n\
            # where\r\npaths:\r\n  - docs/**\r\n  - \"*.md\"\r\n---\r\n# You\r\n---\r\n\
            Be strict.\r\n";
        let persona = parse(text).unwrap();
        assert_eq!(persona.about.as_deref(), Some("A \"strict\" one"));
        assert_eq!(persona.paths, ["docs/**", "*.md"]);
        assert_eq!(persona.body, "# You\r\n---\r\nBe strict.\r\n");
        let is_for = |path: &str| persona.is_for(&path.parse().unwrap());
        assert!(is_for("docs/a/b.txt") && is_for("a.md") && !is_for("other/a.md"));
        assert!(parse("---\nname: critic\n---\nx").unwrap().is_for(&"a".parse().unwrap()));
        assert_eq!(paths("paths: [ 'a''b', \"c,d]\", e/*.md, ]"), ["a'b", "c,d]", "e/*.md"]);
        assert_eq!(paths("paths: # list\n- a\n- b"), ["a", "b"]);
    }

    #[test]
    fn a_fault_is_told_with_its_line() {
        let long = "x".repeat(PERSONA_FRONT_BYTES_MAX);
        let many = "\n- a".repeat(PERSONA_PATHS_MAX + 1);
        for (line, text) in [
            (1, "Be strict.\n".to_owned()),
            (1, String::new()),
            (1, "---\nname: critic\nBe strict.: x\n".replace("Be strict.: x", "about: y")),
            (3, "---\nname: critic\n---\n \n".to_owned()),
            (2, "---\nname: other\n---\nx".to_owned()),
            (2, "---\nname: ../x\n---\nx".to_owned()),
            (2, "---\nnmae: critic\n---\nx".to_owned()),
            (3, "---\nname: critic\nname: critic\n---\nx".to_owned()),
            (1, "---\nabout: x\nengine: ln\nYou are.".to_owned()),
            (4, "---\nabout: x\nengine: ln\n--\nYou are.".to_owned()),
            (3, "---\nname: critic\ntools: Bash\n---\nx".to_owned()),
            (3, "---\nname: critic\n  about: x\n---\nx".to_owned()),
            (3, "---\nname: critic\nabout: |\n---\nx".to_owned()),
            (3, "---\nname: critic\nabout: a: b\n---\nx".to_owned()),
            (3, "---\nname: critic\nabout: \"a\n---\nx".to_owned()),
            (3, "---\nname: critic\nabout: \"a\" b\n---\nx".to_owned()),
            (3, "---\nname: critic\nabout: \"a\\x\"\n---\nx".to_owned()),
            (3, "---\nname: critic\nabout: \"a\\nb\"\n---\nx".to_owned()),
            (3, "---\nname: critic\nabout:\ta\u{1b}b\n---\nx".to_owned()),
            (3, format!("---\nname: critic\nabout: {}\n---\nx", "y".repeat(500))),
            (3, "---\nname: critic\npaths: docs\n---\nx".to_owned()),
            (3, "---\nname: critic\npaths: [a, b\n---\nx".to_owned()),
            (3, "---\nname: critic\npaths: [[a]]\n---\nx".to_owned()),
            (3, "---\nname: critic\npaths: [\"a{b\"]\n---\nx".to_owned()),
            (4, "---\nname: critic\npaths:\n---\nx".to_owned()),
            (4, "---\nname: critic\npaths: []\n---\nx".to_owned()),
            (2, "---\nabout: x\n---\nx".replace("about: x\n", "")),
            (6, "---\nname: critic\n---\nx\n\na\0b".to_owned()),
            (3, format!("---\nname: critic\nabout: {long}\n")),
            (68, format!("---\nname: critic\npaths:{many}\n---\nx")),
            // YAML that expands while it is parsed.
            (3, "---\nname: critic\na: &a [x, x]\nb: &b [*a, *a]\n---\nx".to_owned()),
            (3, format!("---\nname: critic\npaths: {}\n---\nx", "[".repeat(1_000))),
        ] {
            let fault = parse(&text).map(drop).unwrap_err();
            assert_eq!(fault.line, line, "{text:?}: {fault:?}");
            assert!(!fault.message.is_empty() && !fault.hint.is_empty(), "{fault:?}");
        }
    }

    #[test]
    fn a_misspelt_field_is_told_what_was_meant() {
        for (field, meant) in [("Engine", "`engine`"), ("engin", "`engine`"), ("path", "`paths`")] {
            let fault = parse(&format!("---\n{field}: x\n---\nx")).map(drop).unwrap_err();
            assert!(fault.hint.contains(meant), "{fault:?}");
        }
        for text in ["---\nabout: x\nengine: ln\nYou are.", "---\nengine: ln\n--\nYou are."] {
            let fault = parse(text).map(drop).unwrap_err();
            assert!(fault.message.contains("not closed"), "{fault:?}");
        }
    }

    #[test]
    fn a_name_is_a_plain_name_of_a_file() {
        for good in ["critic", "plain-reader", "A_1"] {
            assert!(is_persona_name(good), "{good}");
        }
        let long = "x".repeat(65);
        for bad in ["", "../x", "a/b", ".x", "a.b", "a b", "ä", "a\n", "a\0", &long] {
            assert!(!is_persona_name(bad), "{bad:?}");
        }
    }
}
