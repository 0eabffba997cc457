//! The front matter of a Markdown file as plain values with their lines.
//!
//! **Invariant:** a text of any content costs at most `NODES_MAX` values: an alias is expanded only
//! as far as that, and nesting ends at `DEPTH_MAX`.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::script::load::node::{Node, Plain, Table};
use crate::script::source::field_span::Source;
use crate::script::source::span::{Bytes, Given, Spot};

/// Most values of one front matter; each use of an alias counts.
const NODES_MAX: usize = 5_000;
/// The end of the error about a repeated field.
const TWICE: &str = " occurs twice";
/// Deepest list or map.
const DEPTH_MAX: usize = 8;

/// The front matter of a file.
pub(crate) struct Front {
    /// The file's text with its path.
    pub(crate) source: Arc<Source>,
    /// The first byte after the opening line.
    from: usize,
    /// The first byte of the closing line.
    to: usize,
    /// The first byte after it.
    body: usize,
}

/// A value of YAML.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Yaml {
    /// Null.
    Null,
    /// `true` or `false`.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// Another number.
    Number(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Yaml>),
    /// Names and values in the order of the text.
    Map(Vec<(String, Yaml)>),
}

impl Front {
    /// Finds the front matter of a text: the part between two lines `---`, the first of which is
    /// the first line. `None` if there is none, or it has no end.
    pub(crate) fn find(source: Arc<Source>) -> Option<Front> {
        let text = source.text();
        let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        let mut lines = text[start..].split_inclusive('\n');
        let first = lines.next().filter(|line| line.trim_end() == "---")?;
        let from = start + first.len();
        let mut at = from;
        for line in lines {
            if line.trim_end() == "---" {
                let body = at + line.len();
                return Some(Front { source, from, to: at, body });
            }
            at += line.len();
        }
        None
    }

    /// Returns the text after it.
    pub(crate) fn body(&self) -> &str {
        &self.source.text()[self.body..]
    }

    fn text(&self) -> &str {
        &self.source.text()[self.from..self.to]
    }

    /// Returns whether a field starts a line.
    pub(crate) fn has(&self, field: &str) -> bool {
        self.lines(self.from..self.to).any(|(_, line)| is_field(line, field))
    }

    /// Reads the values.
    ///
    /// # Errors
    /// The place and the reason, if it is not YAML or exceeds a bound.
    pub(crate) fn read(&self) -> Result<Vec<(String, Yaml)>, (Spot, String)> {
        let nodes = Cell::new(0);
        let seed = Seed { nodes: &nodes, depth: 0 };
        let read = seed.deserialize(serde_norway::Deserializer::from_str(self.text()));
        match read {
            Ok(Yaml::Map(fields)) => Ok(fields),
            Ok(Yaml::Null) => Ok(Vec::new()),
            Ok(_) => Err((self.whole(), "the front matter is not a table of fields".to_owned())),
            Err(cause) => {
                let whole = cause.to_string();
                let text = whole.split(" at line ").next().unwrap_or_default();
                let line = beginning(&whole).or_else(|| cause.location().map(|it| it.line()));
                let line = line.unwrap_or(1);
                let at = self.again(text).or_else(|| {
                    let mut lines = self.lines(self.from..self.to);
                    lines.nth(line.saturating_sub(1)).map(|it| it.0)
                });
                let at = at.unwrap_or(self.from).min(self.to.saturating_sub(1));
                Err((self.line_at(at), text.to_owned()))
            }
        }
    }

    /// Returns where a top-level field is again, if that is the error: the reader reports the place
    /// of the whole table.
    fn again(&self, error: &str) -> Option<usize> {
        let name = error.strip_suffix(TWICE)?.strip_prefix('`')?.strip_suffix('`')?;
        let lines = self.lines(self.from..self.to).filter(|(_, line)| is_field(line, name));
        lines.map(|it| it.0).nth(1)
    }

    /// Returns the place of the opening line.
    pub(crate) fn whole(&self) -> Spot {
        self.line_at(self.from.saturating_sub(1))
    }

    fn line_at(&self, at: usize) -> Spot {
        let text = self.source.text();
        let mut at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let start = text[..at].rfind('\n').map_or(0, |it| it + 1);
        let end = text[start..].find('\n').map_or(text.len(), |it| start + it);
        Spot::of(&self.source, Bytes::new(start, end), Given::default())
    }

    /// Returns the lines of a byte range, each with its first byte.
    fn lines(&self, bytes: std::ops::Range<usize>) -> impl Iterator<Item = (usize, &str)> {
        let mut at = bytes.start;
        self.source.text()[bytes].split_inclusive('\n').map(move |line| {
            at += line.len();
            (at - line.len(), line)
        })
    }

    /// Returns the place of a top-level field.
    pub(crate) fn field(&self, name: &str) -> Spot {
        let found = self.lines(self.from..self.to).find(|(_, line)| is_field(line, name));
        found.map_or_else(|| self.whole(), |(at, line)| self.spot(at, line, name))
    }

    /// Returns the byte range of each item of a field's list.
    pub(crate) fn items(&self, name: &str) -> Vec<std::ops::Range<usize>> {
        let mut lines = self.lines(self.from..self.to).skip_while(|(_, it)| !is_field(it, name));
        let Some(_) = lines.next() else { return Vec::new() };
        let mut items: Vec<std::ops::Range<usize>> = Vec::new();
        let mut depth = None;
        for (at, line) in lines {
            let plain = line.trim_start();
            let indent = line.len() - plain.len();
            let is_item = plain.starts_with("- ") || plain.trim_end() == "-";
            if indent == 0 && !is_item && !plain.is_empty() && !plain.starts_with('#') {
                break;
            }
            if is_item && indent <= *depth.get_or_insert(indent) {
                items.push(at..at);
            }
            if let Some(last) = items.last_mut() {
                last.end = at + line.len();
            }
        }
        items
    }

    /// Returns the place of a field of such an item, or of the item itself.
    pub(crate) fn field_of(&self, item: Option<&std::ops::Range<usize>>, name: &str) -> Spot {
        let Some(item) = item else { return self.field("topics") };
        let text = &self.source.text()[item.clone()];
        let dash = text.find('-').unwrap_or(0);
        let indent = |line: &str| line.len() - line.trim_start().len();
        let mut lines = text.lines();
        let first = lines.next().and_then(|line| line.get(dash + 1..)).unwrap_or("");
        let mut below = lines.filter(|line| !line.trim_start().starts_with('#'));
        // The first field is after the dash, or on the first line below it.
        let column = match first.trim().is_empty() {
            false => dash + 1 + indent(first),
            true => below.find(|line| !line.trim().is_empty()).map_or(0, indent),
        };
        for (number, (at, line)) in self.lines(item.clone()).enumerate() {
            let skip = if number == 0 { column } else { indent(line) };
            let own = line.get(skip..).unwrap_or("");
            if skip == column && is_field(own, name) {
                return self.spot(at + skip, own, name);
            }
        }
        self.line_at(item.start)
    }

    fn spot(&self, at: usize, line: &str, name: &str) -> Spot {
        let quote = usize::from(line.starts_with(['"', '\'']));
        let end = 2 * quote + name.len();
        let value = line.get(end..).and_then(|it| it.trim_start().strip_prefix(':')).unwrap_or("");
        let from = at + line.len() - value.len();
        let plain = value.split(" #").next().unwrap_or("");
        let start = from + plain.len() - plain.trim_start().len();
        let given = Given {
            value: Bytes::new(start, start + plain.trim().len()),
            is_named: !plain.trim().is_empty(),
            is_literal: false,
        };
        Spot::of(&self.source, Bytes::new(at, at + end), given)
    }
}

/// Returns the line of a quote without its end, or of a name without its colon: either is noticed
/// only further down.
fn beginning(error: &str) -> Option<usize> {
    let scanned = ["a quoted scalar", "a simple key"];
    let at = scanned
        .iter()
        .find_map(|it| Some(error.split_once(&format!("while scanning {it} at line "))?.1))?;
    at.split(' ').next()?.parse().ok()
}

/// Returns whether a line begins with `NAME:`.
fn is_field(line: &str, name: &str) -> bool {
    let plain = line.strip_prefix(['"', '\'']).unwrap_or(line);
    let rest = plain.strip_prefix(name).map(|it| it.strip_prefix(['"', '\'']).unwrap_or(it));
    let rest = rest.and_then(|it| it.trim_start().strip_prefix(':'));
    rest.is_some_and(|it| it.is_empty() || it.starts_with(char::is_whitespace))
}

impl Yaml {
    /// Converts it to a value of a script; everything in it has one place.
    pub(crate) fn plain(&self, spot: &Spot) -> Plain {
        let node = |it: &Yaml| Node { spot: spot.clone(), value: it.plain(spot) };
        match self {
            Yaml::Null => Plain::Other("nothing"),
            Yaml::Flag(flag) => Plain::Flag(*flag),
            Yaml::Integer(number) => Plain::Integer(*number),
            Yaml::Number(number) => Plain::Number(*number),
            Yaml::Text(text) => Plain::Text(text.clone()),
            Yaml::List(items) => {
                Plain::Table(Table { items: items.iter().map(node).collect(), ..Table::default() })
            }
            Yaml::Map(fields) => {
                let fields = fields.iter().map(|(name, it)| (name.clone(), node(it)));
                Plain::Table(Table { fields: fields.collect(), ..Table::default() })
            }
        }
    }
}

/// Deserializes one value, within the bounds.
#[derive(Clone, Copy)]
struct Seed<'c> {
    nodes: &'c Cell<usize>,
    depth: usize,
}

impl Seed<'_> {
    fn inner<E: serde::de::Error>(self) -> Result<Self, E> {
        match self.depth < DEPTH_MAX {
            true => Ok(Seed { depth: self.depth + 1, ..self }),
            false => Err(E::custom(format!("it is nested deeper than {DEPTH_MAX}"))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Yaml;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Yaml, D::Error> {
        self.nodes.set(self.nodes.get() + 1);
        if self.nodes.get() > NODES_MAX {
            return Err(D::Error::custom(format!("it has more than {NODES_MAX} values")));
        }
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Yaml;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number, a flag, a list or a table without tags")
    }
    fn visit_unit<E>(self) -> Result<Yaml, E> {
        Ok(Yaml::Null)
    }
    fn visit_bool<E>(self, flag: bool) -> Result<Yaml, E> {
        Ok(Yaml::Flag(flag))
    }
    fn visit_i64<E>(self, number: i64) -> Result<Yaml, E> {
        Ok(Yaml::Integer(number))
    }
    fn visit_u64<E>(self, number: u64) -> Result<Yaml, E> {
        Ok(i64::try_from(number).map_or(Yaml::Number(number as f64), Yaml::Integer))
    }
    fn visit_f64<E>(self, number: f64) -> Result<Yaml, E> {
        Ok(Yaml::Number(number))
    }
    fn visit_str<E>(self, text: &str) -> Result<Yaml, E> {
        Ok(Yaml::Text(text.to_owned()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Yaml, A::Error> {
        let (inner, mut list) = (self.inner()?, Vec::new());
        while let Some(item) = items.next_element_seed(inner)? {
            list.push(item);
        }
        Ok(Yaml::List(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Yaml, A::Error> {
        let (inner, mut map) = (self.inner()?, Vec::<(String, Yaml)>::new());
        while let Some(name) = fields.next_key_seed(inner)? {
            let name = match name {
                Yaml::Text(name) => name,
                Yaml::Integer(number) => number.to_string(),
                Yaml::Flag(flag) => flag.to_string(),
                _ => return Err(A::Error::custom("a name of a field is not text")),
            };
            let value = fields.next_value_seed(inner)?;
            if map.iter().any(|(known, _)| *known == name) {
                return Err(A::Error::custom(format!("`{name}`{TWICE}")));
            }
            map.push((name, value));
        }
        Ok(Yaml::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use camino::Utf8Path;

    use super::*;

    #[test]
    fn an_error_is_at_its_line() {
        for (line, fields) in [
            (4, "engine: ln\nautostart: always\nautostart: never\n"),
            (3, "engine: ln\nabout: x: y\nidle: 5m\n"),
            (3, "engine: ln\nabout: \"x\nidle: 5m\n"),
            (4, "engine: ln\nidle: 5m\n  about: x\n"),
            (4, "engine: ln\nabout: x\nasks = true\nidle: 5m\n"),
            (5, "engine: ln\nabout: x\nidle: 5m\nsends = { \"a:*\" }\n"),
        ] {
            let text = format!("---\n{fields}---\nx");
            let source = Arc::new(Source::new(Arc::from(Utf8Path::new("a.md")), &*text));
            let (spot, fault) = Front::find(source).unwrap().read().unwrap_err();
            assert_eq!(spot.at().line, line, "{fields:?}: {fault}");
        }
    }
}
