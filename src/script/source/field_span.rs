//! Finds the text of a declaration's field.
//!
//! The script engine reports only the line of a call. So the text is parsed again, and the table
//! constructor of that call is walked. A table built elsewhere has no constructor there; then the
//! place of the call is used.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use camino::Utf8Path;

use crate::script::source::ast::Written;
use crate::script::source::lexer::{Token, Word, tokens};
use crate::script::source::location::Location;
use crate::script::source::span::{Bytes, Given, Spot};

/// Most words of a line that are searched: a table built elsewhere may have thousands of names, and
/// each of them is looked up.
const WORDS_OF_A_LINE_MAX: usize = 1_000;

/// A text with its tokens, which are lexed on first use.
pub(crate) struct Source {
    file: Arc<Utf8Path>,
    text: Arc<str>,
    words: OnceLock<Words>,
    constants: OnceLock<BTreeSet<String>>,
}

/// The tokens of a text, with indices for lookup.
struct Words {
    tokens: Vec<Token>,
    line_starts: Vec<usize>,
    /// Names that may begin a call, by name and by the literal text after it: a script of 300
    /// declarations makes 600 lookups.
    heads: Index,
    named: Index,
}

/// Tokens by the hash of their text; matches must be compared, since hashes collide.
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

/// The places of a declaration and its fields.
pub(crate) struct Places {
    /// The call itself.
    pub(crate) call: Spot,
    /// The entries of its constructor.
    pub(crate) fields: Written,
    /// Duplicate fields: the name, the second place and the first.
    pub(crate) twice: Vec<Twice>,
}

/// A name, its second place and its first.
pub(crate) type Twice = (String, Spot, Spot);

/// The tokens of a call.
struct Call {
    head: usize,
    end: usize,
    open: Option<usize>,
}

impl Places {
    /// Returns the place of a call whose table is built elsewhere.
    pub(crate) fn at(call: Spot) -> Places {
        Places { call, fields: Written::default(), twice: Vec::new() }
    }
}

impl Words {
    fn of(text: &str) -> Words {
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
        Words { tokens, line_starts, heads, named }
    }
}

impl Source {
    /// Creates a text that is not lexed yet.
    pub(crate) fn new(file: Arc<Utf8Path>, text: impl Into<Arc<str>>) -> Source {
        Source { file, text: text.into(), words: OnceLock::new(), constants: OnceLock::new() }
    }

    /// Lexes the text, unless that was done; concurrent callers wait.
    pub(crate) fn read_words(&self) {
        self.words();
    }

    fn words(&self) -> &Words {
        self.words.get_or_init(|| Words::of(&self.text))
    }

    /// Returns the names of what is made once, when the file is loaded.
    pub(crate) fn constants(&self) -> &BTreeSet<String> {
        self.constants.get_or_init(|| self.outer_locals())
    }

    /// Returns its path.
    pub(crate) fn file(&self) -> Arc<Utf8Path> {
        Arc::clone(&self.file)
    }

    /// Returns the text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the tokens.
    pub(crate) fn tokens(&self) -> &[Token] {
        &self.words().tokens
    }

    /// Returns a range of the text.
    pub(crate) fn slice(&self, bytes: Range<usize>) -> &str {
        self.text.get(bytes).unwrap_or("")
    }

    /// Returns the text of a line.
    pub(crate) fn line_text(&self, line: u32) -> &str {
        let first = (line as usize).saturating_sub(1);
        let start = self.words().line_starts.get(first).copied().unwrap_or(self.text.len());
        let end = self.words().line_starts.get(first + 1).copied().unwrap_or(self.text.len());
        self.slice(start..end).trim_end_matches('\n').trim_end_matches('\r')
    }

    /// Returns the places of the declaration called on a line.
    pub(crate) fn declaration(
        self: &Arc<Source>,
        word: &str,
        name: Option<&str>,
        line: u32,
    ) -> Option<Places> {
        let call = self.nearest_call(word, name, line)?;
        let mut places = Places::at(self.spot(call.head..call.end));
        if let Some(open) = call.open {
            places.fields = self.walk(open, 1, &mut places.twice);
        }
        Some(places)
    }

    /// Returns the place of a declaration's call on a line, without its fields.
    pub(crate) fn call(
        self: &Arc<Source>,
        word: &str,
        name: Option<&str>,
        line: u32,
    ) -> Option<Spot> {
        let call = self.nearest_call(word, name, line)?;
        Some(self.spot(call.head..call.end))
    }

    fn nearest_call(&self, word: &str, name: Option<&str>, line: u32) -> Option<Call> {
        let (index, text) =
            name.map_or((&self.words().heads, word), |name| (&self.words().named, name));
        let calls = index.get(text).filter_map(|token| self.call_at(token, word, name));
        let distance = |call: &Call| {
            let first = self.line_of(self.tokens()[call.head].start());
            let last = self.line_of(self.tokens()[call.open.unwrap_or(call.head)].start());
            if (first..=last).contains(&line) { 0 } else { first.abs_diff(line) }
        };
        let found = calls.min_by_key(distance);
        found.or_else(|| name.and_then(|_| self.computed_call(word, line)))
    }

    /// Returns the only call `word(…) {` on a line, for a name that is computed.
    fn computed_call(&self, word: &str, line: u32) -> Option<Call> {
        let first = self.tokens().partition_point(|it| self.line_of(it.start()) < line);
        let in_line = self.tokens()[first..].iter().take(WORDS_OF_A_LINE_MAX);
        let in_line = in_line.take_while(|it| self.line_of(it.start()) == line);
        let mut calls = in_line.enumerate().filter_map(|(step, token)| {
            let head = first + step;
            let is_it = token.name(&self.text) == Some(word) && self.is_sign(head + 1, '(');
            let open = Some(head + 1).filter(|_| is_it).and_then(|it| self.closing(it))? + 1;
            let end = Some(open).filter(|it| self.is_sign(*it, '{'))?;
            Some(Call { head: self.start_of(head), end, open: Some(open) })
        });
        let call = calls.next()?;
        calls.next().is_none().then_some(call)
    }

    /// Returns the bracket that closes one.
    fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0usize;
        for (step, token) in self.tokens().get(open..)?.iter().enumerate() {
            match token.word {
                Word::Sign('(' | '[' | '{') => depth += 1,
                Word::Sign(')' | ']' | '}') if depth <= 1 => return Some(open + step),
                Word::Sign(')' | ']' | '}') => depth -= 1,
                _ => {}
            }
        }
        None
    }

    /// Returns the place of a name in a line, for an unknown global.
    pub(crate) fn name_in_line(self: &Arc<Source>, name: &str, line: u32) -> Option<Spot> {
        self.token_in_line(line, |token| token.name(&self.text) == Some(name))
    }

    /// Returns the place of a literal text in a line.
    pub(crate) fn text_in_line(self: &Arc<Source>, text: &str, line: u32) -> Option<Spot> {
        self.token_in_line(line, |token| token.literal(&self.text) == Some(text))
    }

    fn token_in_line(
        self: &Arc<Source>,
        line: u32,
        is_it: impl Fn(&Token) -> bool,
    ) -> Option<Spot> {
        let first = self.tokens().partition_point(|it| self.line_of(it.start()) < line);
        let in_line = self.tokens()[first..].iter().take(WORDS_OF_A_LINE_MAX);
        let in_line = in_line.take_while(|it| self.line_of(it.start()) == line);
        let step = in_line.into_iter().position(is_it)?;
        Some(self.spot(first + step..first + step + 1))
    }

    /// Returns the place of a line, without surrounding whitespace.
    pub(crate) fn whole_line(self: &Arc<Source>, line: u32) -> Spot {
        let first = (line.max(1) as usize) - 1;
        let Some(start) = self.words().line_starts.get(first).copied() else {
            return Spot::line(&self.file, line.max(1));
        };
        let text = self.line_text(line.max(1));
        let from = start + (text.len() - text.trim_start().len());
        self.bytes(from..from + text.trim().len())
    }

    /// Returns the place of a byte range.
    pub(crate) fn bytes(self: &Arc<Source>, bytes: Range<usize>) -> Spot {
        Spot::of(self, Bytes::new(bytes.start, bytes.end), Given::default())
    }

    /// Returns the place of a byte.
    pub(crate) fn location(&self, byte: usize) -> Location {
        let line = self.line_of(byte);
        let start = self.words().line_starts.get(line as usize - 1).copied().unwrap_or(0);
        let before = self.text.get(start..byte).map_or(0, |part| part.chars().count());
        let column = u32::try_from(before + 1).unwrap_or(1);
        Location { file: Arc::clone(&self.file), line, column }
    }

    /// Parses a call `word {`, `word "name" {` or `word "name"`, each also with parentheses.
    fn call_at(&self, head: usize, word: &str, name: Option<&str>) -> Option<Call> {
        let given = self.tokens()[head].name(&self.text)?;
        let mut next = head + 1;
        if let Some(name) = name {
            next += usize::from(self.is_sign(next, '('));
            if self.tokens().get(next)?.literal(&self.text) != Some(name) {
                return None;
            }
            next += 1;
            next += usize::from(self.is_sign(next, ')') || self.is_sign(next, ','));
        } else if given != word {
            return None;
        }
        next += usize::from(self.is_sign(next, '('));
        let open = self.is_sign(next, '{').then_some(next);
        // `local k = wb.kind` is a valid alias, but a text after any other name is no declaration.
        let is_call = given == word || open.is_some();
        is_call.then_some(Call {
            head: self.start_of(head),
            end: open.unwrap_or(next).max(head + 1),
            open,
        })
    }

    /// Goes back from the last part of `wb.input.topic` to the first.
    pub(crate) fn start_of(&self, mut head: usize) -> usize {
        let is_name = |at: usize| self.tokens()[at].word == Word::Name;
        while head >= 2 && self.is_sign(head - 1, '.') && is_name(head - 2) {
            head -= 2;
        }
        head
    }

    pub(crate) fn is_sign(&self, index: usize, sign: char) -> bool {
        self.tokens().get(index).is_some_and(|token| token.is(sign))
    }

    /// Returns the place of a token range.
    pub(crate) fn spot(self: &Arc<Source>, range: Range<usize>) -> Spot {
        match self.extent(range) {
            Some(bytes) => Spot::of(self, bytes, Given::default()),
            None => Spot::line(&self.file, 1),
        }
    }

    /// Returns the byte range of a token range, which has at least one token.
    pub(crate) fn extent(&self, range: Range<usize>) -> Option<Bytes> {
        let last = range.end.max(range.start + 1) - 1;
        let (first, last) = (self.tokens().get(range.start)?, self.tokens().get(last)?);
        Some(Bytes { from: first.bytes.from, to: last.bytes.to })
    }

    /// Returns the line of a byte.
    pub(crate) fn line_of(&self, byte: usize) -> u32 {
        u32::try_from(self.words().line_starts.partition_point(|start| *start <= byte))
            .unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::source::ast::Entry;

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
        let source = Arc::new(Source::new(file(), TEXT));
        let places = source.declaration(word, name, line).unwrap();
        let spot = places.fields.spot(entry(&places, path)).unwrap();
        assert_eq!((spot.at().line, spot.at().column, spot.len()), expected, "{path:?}");
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
        let source = Arc::new(Source::new(file(), TEXT));
        let places = source.declaration("kind", Some("x"), 3).unwrap();
        let given = |path: &[&str]| {
            let value = places.fields.spot(entry(&places, path)).unwrap().value();
            value.map(|it| &TEXT[it])
        };
        assert_eq!(given(&["timout"]), Some("\"5m\""));
        assert_eq!(given(&["inputs", "topic_id", "form"]), Some("\"y\""));
        assert_eq!(given(&["command"]), Some("{ \"one\", two, { three = 3 } }"));
        assert_eq!(given(&["command", "2"]), None);
    }

    #[test]
    fn a_literal_text_is_known_by_its_bytes() {
        let source = Arc::new(Source::new(file(), TEXT));
        let places = source.declaration("kind", Some("x"), 3).unwrap();
        let spot = places.fields.spot(entry(&places, &["lane"])).unwrap();
        assert_eq!(&TEXT[spot.literal().unwrap()], "[[x { ]]");
        assert_eq!(places.call.at().column, 1);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_walked_to_its_end(words in proptest::collection::vec(0..14usize, 0..60)) {
            let all = [
                "kind ", "site", "\"x\"", "{", "}", "a", "=", ",", "end ", "function ", "(", ")",
                "é", "\n",
            ];
            let text: String = words.into_iter().map(|it| all[it]).collect();
            let source = Arc::new(Source::new(file(), text));
            source.declaration("kind", Some("x"), 1);
            source.declaration("site", None, 1);
            source.whole_line(3);
        }
    }
}
