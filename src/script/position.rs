//! Finds in the text of a script the field that a declaration is about.
//!
//! The script engine knows only the line of a call. The text is read again, and the table
//! constructor of that call is walked. A table that is built elsewhere has no constructor there:
//! then the place of the call must do.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use camino::Utf8Path;

use crate::script::diagnostic::Spot;
use crate::script::lexer::{Token, Word, tokens};
use crate::script::place::Location;
use crate::script::written::{Entry, Key, Written};

/// Deepest constructor that is walked.
const DEPTH_MAX: usize = 16;
/// Most entries of one constructor that are told apart; no declaration may have more.
const ENTRIES_MAX: usize = 2_000;

/// A text with its tokens.
pub(crate) struct Source {
    file: Arc<Utf8Path>,
    text: Rc<str>,
    tokens: Vec<Token>,
    line_starts: Vec<usize>,
    /// Names that may begin a call, by themselves and by the literal text that follows them: a
    /// script of 300 declarations asks 600 times.
    heads: Index,
    named: Index,
}

/// Tokens by a number that a text always has; others may have it too, so what is found is looked
/// at.
#[derive(Default)]
struct Index(Vec<(u64, usize)>);

impl Index {
    fn add(&mut self, text: &str, token: usize) {
        self.0.push((number(text), token));
    }

    fn get(&self, text: &str) -> impl Iterator<Item = usize> {
        let number = number(text);
        let first = self.0.partition_point(|it| it.0 < number);
        self.0[first..].iter().take_while(move |it| it.0 == number).map(|it| it.1)
    }
}

/// FNV-1a.
fn number(text: &str) -> u64 {
    let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The places of a declaration's fields.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// The call itself.
    pub(crate) call: Spot,
    /// What stands in the constructor.
    pub(crate) fields: Written,
    /// Fields that stand there twice: the name, the second place and the first.
    pub(crate) twice: Vec<(String, Spot, Spot)>,
}

/// The tokens of a call.
struct Call {
    head: usize,
    end: usize,
    open: Option<usize>,
}

impl Places {
    /// Returns the place of a call whose table stands elsewhere.
    pub(crate) fn at(call: Spot) -> Places {
        Places { call, fields: Written::default(), twice: Vec::new() }
    }
}

impl Source {
    /// Reads a text.
    pub(crate) fn new(file: Arc<Utf8Path>, text: &str) -> Source {
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        let line_starts = std::iter::once(0).chain(breaks).collect();
        let tokens = tokens(text);
        let (mut heads, mut named) = (Index::default(), Index::default());
        for (index, token) in tokens.iter().enumerate() {
            let Some(name) = token.name(text) else { continue };
            let bracket = tokens.get(index + 1).is_some_and(|it| it.is('('));
            let Some(next) = tokens.get(index + 1 + usize::from(bracket)) else { continue };
            if let Some(said) = next.literal(text) {
                named.add(said, index);
            } else if next.is('{') || next.is('(') {
                heads.add(name, index);
            }
        }
        heads.0.sort_unstable();
        named.0.sort_unstable();
        Source { file, text: Rc::from(text), tokens, line_starts, heads, named }
    }

    /// Returns its path.
    pub(crate) fn file(&self) -> Arc<Utf8Path> {
        Arc::clone(&self.file)
    }

    /// Returns the text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the words of the text.
    pub(crate) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Returns what stands at some bytes.
    pub(crate) fn slice(&self, bytes: Range<usize>) -> &str {
        self.text.get(bytes).unwrap_or("")
    }

    /// Returns the text of a line.
    pub(crate) fn line_text(&self, line: u32) -> &str {
        let first = (line as usize).saturating_sub(1);
        let start = self.line_starts.get(first).copied().unwrap_or(self.text.len());
        let end = self.line_starts.get(first + 1).copied().unwrap_or(self.text.len());
        self.slice(start..end).trim_end_matches('\n').trim_end_matches('\r')
    }

    /// Returns the places of the declaration that was called at a line.
    pub(crate) fn declaration(&self, word: &str, name: Option<&str>, line: u32) -> Option<Places> {
        let call = self.nearest_call(word, name, line)?;
        let mut places = Places::at(self.spot(call.head..call.end));
        if let Some(open) = call.open {
            places.fields = self.walk(open, 1, &mut places.twice);
        }
        Some(places)
    }

    /// Returns the place of the call of a declaration at a line, without its fields.
    pub(crate) fn call(&self, word: &str, name: Option<&str>, line: u32) -> Option<Spot> {
        let call = self.nearest_call(word, name, line)?;
        Some(self.spot(call.head..call.end))
    }

    fn nearest_call(&self, word: &str, name: Option<&str>, line: u32) -> Option<Call> {
        let (index, text) = name.map_or((&self.heads, word), |name| (&self.named, name));
        let calls = index.get(text).filter_map(|token| self.call_at(token, word, name));
        let distance = |call: &Call| {
            let first = self.line_of(self.tokens[call.head].start);
            let last = self.line_of(self.tokens[call.open.unwrap_or(call.head)].start);
            if (first..=last).contains(&line) { 0 } else { first.abs_diff(line) }
        };
        calls.min_by_key(distance)
    }

    /// Returns the place of a name in a line; for a misspelt global.
    pub(crate) fn name_in_line(&self, name: &str, line: u32) -> Option<Spot> {
        self.token_in_line(line, |token| token.name(&self.text) == Some(name))
    }

    /// Returns the place of a literal text in a line.
    pub(crate) fn text_in_line(&self, text: &str, line: u32) -> Option<Spot> {
        self.token_in_line(line, |token| token.literal(&self.text) == Some(text))
    }

    fn token_in_line(&self, line: u32, is_it: impl Fn(&Token) -> bool) -> Option<Spot> {
        let first = self.tokens.partition_point(|it| self.line_of(it.start) < line);
        let in_line = self.tokens[first..].iter().take_while(|it| self.line_of(it.start) == line);
        let step = in_line.into_iter().position(is_it)?;
        Some(self.spot(first + step..first + step + 1))
    }

    /// Returns the place of the text of a line.
    pub(crate) fn whole_line(&self, line: u32) -> Spot {
        let text = self.line_text(line);
        let blank = text.chars().take_while(|c| c.is_whitespace()).count();
        let mut spot = Spot::line(&self.file, line.max(1));
        spot.at.column = u32::try_from(blank + 1).unwrap_or(1);
        spot.len = u32::try_from(text.trim().chars().count()).unwrap_or(0);
        spot
    }

    /// Returns the place of some bytes.
    pub(crate) fn bytes(&self, bytes: Range<usize>) -> Spot {
        let line = self.line_of(bytes.start);
        let start = self.line_starts[line as usize - 1];
        let count = |range: Range<usize>| {
            let part = self.text.get(range).unwrap_or("");
            u32::try_from(part.split('\n').next().unwrap_or("").trim_end().chars().count())
                .unwrap_or(0)
        };
        let before = self.text.get(start..bytes.start).map_or(0, |part| part.chars().count());
        let column = u32::try_from(before + 1).unwrap_or(1);
        let at = Location { file: Arc::clone(&self.file), line, column };
        Spot { at, len: count(bytes), value: None, given: None, is_elsewhere: false }
    }

    /// Reads a call `word {`, `word "name" {` or `word "name"`, each also with round brackets.
    fn call_at(&self, head: usize, word: &str, name: Option<&str>) -> Option<Call> {
        let given = self.tokens[head].name(&self.text)?;
        let mut next = head + 1;
        if let Some(name) = name {
            next += usize::from(self.is_sign(next, '('));
            if self.tokens.get(next)?.literal(&self.text) != Some(name) {
                return None;
            }
            next += 1;
            next += usize::from(self.is_sign(next, ')') || self.is_sign(next, ','));
        } else if given != word {
            return None;
        }
        next += usize::from(self.is_sign(next, '('));
        let open = self.is_sign(next, '{').then_some(next);
        // `local k = wb.kind` is a fair alias, but a text after any other name is no declaration.
        let is_call = given == word || open.is_some();
        is_call.then_some(Call {
            head: self.start_of(head),
            end: open.unwrap_or(next).max(head + 1),
            open,
        })
    }

    /// Goes back from the last part of `wb.input.topic` to the first.
    fn start_of(&self, mut head: usize) -> usize {
        let is_name = |at: usize| self.tokens[at].word == Word::Name;
        while head >= 2 && self.is_sign(head - 1, '.') && is_name(head - 2) {
            head -= 2;
        }
        head
    }

    /// Walks a constructor from its bracket and returns what is written there. What stands there
    /// twice is added, with its names from here on.
    fn walk(&self, open: usize, depth: usize, twice: &mut Vec<(String, Spot, Spot)>) -> Written {
        let mut next = open + 1;
        let mut found: Vec<Entry> = Vec::new();
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        let mut item = 0;
        while let Some(token) = self.tokens.get(next)
            && found.len() < ENTRIES_MAX
        {
            if token.is('}') {
                break;
            }
            let (key, key_range, value) = self.key_at(next);
            let end = self.value_end(value);
            let mut given = None;
            let mut before = None;
            let (key, range) = match key {
                Some((from, to)) => {
                    let name = self.slice(from..to);
                    let last = self.tokens.get(end.max(value + 1) - 1);
                    given = self.tokens.get(value).zip(last).map(|(a, b)| (a.start, b.end));
                    before = names.get(name).copied();
                    names.entry(name).or_insert(found.len());
                    (Key::Name(from, to), key_range)
                }
                None => {
                    item += 1;
                    (Key::Item(item), next..end)
                }
            };
            let mut spot = Spot { given, ..self.spot(range) };
            if end == value + 1 && matches!(self.tokens[value].word, Word::Text(_)) {
                spot.value = Some((self.tokens[value].start, self.tokens[value].end));
            }
            let mut inner = Written::default();
            if let Some(open) = self.inner_constructor(value..end)
                && depth < DEPTH_MAX
            {
                let known = twice.len();
                inner = self.walk(open, depth + 1, twice);
                for (name, ..) in &mut twice[known..] {
                    *name = format!("{}.{name}", self.shown(key));
                }
            }
            if let Some(first) = before.and_then(|it| found.get_mut(it)) {
                twice.push((self.shown(key), spot.clone(), first.spot.clone()));
                // What Lua keeps is the last one.
                (first.spot, first.inner) = (spot, inner);
            } else {
                found.push(Entry { key, spot, inner });
            }
            let parted = self.is_sign(end, ',') || self.is_sign(end, ';');
            if !parted && self.is_sign(end, '}') {
                break;
            }
            next = if parted { end + 1 } else { end.max(next + 1) };
        }
        Written::new(&self.text, found)
    }

    fn shown(&self, key: Key) -> String {
        match key {
            Key::Name(from, to) => self.slice(from..to).to_owned(),
            Key::Item(number) => number.to_string(),
        }
    }

    /// Reads `name =` or `["name"] =`; returns the bytes of the name, its tokens and the value's
    /// first token.
    fn key_at(&self, at: usize) -> (Option<(usize, usize)>, Range<usize>, usize) {
        let is_equals = |index| self.is_sign(index, '=') && !self.is_sign(index + 1, '=');
        if self.tokens[at].word == Word::Name && is_equals(at + 1) {
            let name = &self.tokens[at];
            return (Some((name.start, name.end)), at..at + 1, at + 2);
        }
        if self.is_sign(at, '[')
            && let Some(Word::Text(Some((from, to)))) = self.tokens.get(at + 1).map(|it| &it.word)
            && self.is_sign(at + 2, ']')
            && is_equals(at + 3)
        {
            return (Some((*from as usize, *to as usize)), at..at + 3, at + 4);
        }
        (None, at..at, at)
    }

    /// Returns the index of the `,`, `;` or `}` after a value.
    fn value_end(&self, start: usize) -> usize {
        let mut depth = 0usize;
        for (index, token) in self.tokens.iter().enumerate().skip(start) {
            match &token.word {
                Word::Sign('}' | ',' | ';') if depth == 0 => return index,
                Word::Sign('{' | '(' | '[') => depth += 1,
                Word::Sign('}' | ')' | ']') => depth = depth.saturating_sub(1),
                Word::Name => match self.slice(token.start..token.end) {
                    "function" | "if" | "do" | "repeat" => depth += 1,
                    "end" | "until" => depth = depth.saturating_sub(1),
                    _ => {}
                },
                _ => {}
            }
        }
        self.tokens.len()
    }

    /// Returns the bracket of a value `{ … }` or `wb.input.x { … }`.
    fn inner_constructor(&self, value: Range<usize>) -> Option<usize> {
        let mut next = value.start;
        while self.tokens.get(next)?.name(&self.text).is_some_and(|name| name != "function") {
            next += 1;
            next += usize::from(self.is_sign(next, '.'));
        }
        next += usize::from(next > value.start && self.is_sign(next, '('));
        (next < value.end && self.is_sign(next, '{')).then_some(next)
    }

    fn is_sign(&self, index: usize, sign: char) -> bool {
        self.tokens.get(index).is_some_and(|token| token.is(sign))
    }

    /// Returns the place of some tokens.
    pub(crate) fn spot(&self, range: Range<usize>) -> Spot {
        let last = range.end.max(range.start + 1) - 1;
        match (self.tokens.get(range.start), self.tokens.get(last)) {
            (Some(first), Some(last)) => self.bytes(first.start..last.end),
            _ => Spot::line(&self.file, 1),
        }
    }

    /// Returns the line of a byte.
    pub(crate) fn line_of(&self, byte: usize) -> u32 {
        u32::try_from(self.line_starts.partition_point(|start| *start <= byte)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
-- wb.kind "x" { timout = 1 }
wb.kind "x" {
  about = "a } b", -- }
  ["lane"] = [[x { ]],
  prompt = function(job) if job then return { a = 1, b } end end, timout = "5m",
  inputs = { é = 1, topic_id = wb.input.topic { form = "y" }, src = wb.input.source({ a = 1 }) },
  command = { "one", two, { three = 3 } },
}
wb.site{ root = "." }
wb.site({ rot = "." })
"#;

    fn file() -> Arc<Utf8Path> {
        Arc::from(Utf8Path::new("x.lua"))
    }

    fn entry<'p>(places: &'p Places, path: &[&str]) -> &'p Entry {
        let (first, rest) = path.split_first().expect("a name");
        let of = |it: &'p Written, key: &str| match key.parse() {
            Ok(number) => it.item(number),
            Err(_) => it.get(key),
        };
        let found = of(&places.fields, first);
        let found = rest.iter().fold(found, |it, key| it.and_then(|it| of(&it.inner, key)));
        found.unwrap_or_else(|| panic!("{path:?} is not there"))
    }

    fn check(word: &str, name: Option<&str>, line: u32, path: &[&str], expected: (u32, u32, u32)) {
        let source = Source::new(file(), TEXT);
        let places = source.declaration(word, name, line).unwrap();
        let spot = &entry(&places, path).spot;
        assert_eq!((spot.at.line, spot.at.column, spot.len), expected, "{path:?}");
    }

    #[test]
    fn a_field_is_found_at_any_depth() {
        check("kind", Some("x"), 3, &["about"], (4, 3, 5));
        check("kind", Some("x"), 3, &["lane"], (5, 3, 8));
        check("kind", Some("x"), 3, &["timout"], (6, 67, 6));
        check("kind", Some("x"), 3, &["inputs", "topic_id"], (7, 21, 8));
        check("kind", Some("x"), 3, &["inputs", "topic_id", "form"], (7, 49, 4));
        check("kind", Some("x"), 3, &["inputs", "src", "a"], (7, 87, 1));
        check("kind", Some("x"), 3, &["command", "2"], (8, 22, 3));
        check("kind", Some("x"), 3, &["command", "3", "three"], (8, 29, 5));
        check("site", None, 10, &["root"], (10, 10, 4));
        check("site", None, 11, &["rot"], (11, 11, 3));
    }

    #[test]
    fn a_value_is_known_by_its_place() {
        let source = Source::new(file(), TEXT);
        let places = source.declaration("kind", Some("x"), 3).unwrap();
        let given =
            |path: &[&str]| entry(&places, path).spot.given.map(|(from, to)| &TEXT[from..to]);
        assert_eq!(given(&["timout"]), Some("\"5m\""));
        assert_eq!(given(&["inputs", "topic_id", "form"]), Some("\"y\""));
        assert_eq!(given(&["command"]), Some("{ \"one\", two, { three = 3 } }"));
        assert_eq!(given(&["command", "2"]), None);
    }

    #[test]
    fn a_literal_text_is_known_by_its_bytes() {
        let source = Source::new(file(), TEXT);
        let places = source.declaration("kind", Some("x"), 3).unwrap();
        let (from, to) = entry(&places, &["lane"]).spot.value.unwrap();
        assert_eq!(&TEXT[from..to], "[[x { ]]");
        assert_eq!(places.call.at.column, 1);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_walked_to_its_end(words in proptest::collection::vec(0..14usize, 0..60)) {
            let all = [
                "kind ", "site", "\"x\"", "{", "}", "a", "=", ",", "end ", "function ", "(", ")",
                "é", "\n",
            ];
            let text: String = words.into_iter().map(|it| all[it]).collect();
            let source = Source::new(file(), &text);
            source.declaration("kind", Some("x"), 1);
            source.declaration("site", None, 1);
            source.whole_line(3);
        }
    }
}
