//! Walks the table constructor of a declaration, collecting its entries and their places.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::script::source::ast::{Entry, Key, Written};
use crate::script::source::field_span::{Source, Twice};
use crate::script::source::lexer::{Token, Word};
use crate::script::source::span::{Bytes, Given, Spot};

/// Deepest constructor that is walked.
const DEPTH_MAX: usize = 16;
/// Most entries of one constructor that are recorded; no declaration may have more.
const ENTRIES_MAX: usize = 2_000;

impl Source {
    /// Walks a constructor from its bracket and returns its entries. Duplicate keys are added to
    /// the list of duplicates, with their path from here.
    pub(crate) fn walk(
        self: &Arc<Source>,
        open: usize,
        depth: usize,
        twice: &mut Vec<Twice>,
    ) -> Written {
        let tokens = self.tokens();
        let mut next = open + 1;
        let mut found: Vec<Entry> = Vec::new();
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        let mut item = 0;
        while let Some(token) = tokens.get(next)
            && found.len() < ENTRIES_MAX
        {
            if token.is('}') {
                break;
            }
            let (name, key_range, value) = self.key_at(next);
            let end = self.value_end(value);
            let is_literal = end == value + 1 && matches!(tokens[value].word, Word::Text(_));
            let given = self.extent(value..end).map(|it| Given {
                value: it,
                is_named: name.is_some(),
                is_literal,
            });
            let (key, range) = match name {
                Some(name) => (Key::Name(name), key_range),
                None => {
                    item += 1;
                    (Key::Item(item), next..end)
                }
            };
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
            let bytes = self.extent(range).unwrap_or_default();
            let entry = Entry { key, bytes, given: given.unwrap_or_default(), inner };
            let before = name.and_then(|name| {
                let first = *names.entry(self.slice(name.range())).or_insert(found.len());
                (first < found.len()).then_some(first)
            });
            match before.and_then(|it| found.get_mut(it)) {
                Some(first) => {
                    let spot = |it: &Entry| Spot::of(self, it.bytes, it.given);
                    twice.push((self.shown(key), spot(&entry), spot(first)));
                    // Lua keeps the last one.
                    *first = entry;
                }
                None => found.push(entry),
            }
            let parted = self.is_sign(end, ',') || self.is_sign(end, ';');
            if !parted && self.is_sign(end, '}') {
                break;
            }
            next = if parted { end + 1 } else { end.max(next + 1) };
        }
        Written::new(self, found)
    }

    fn shown(&self, key: Key) -> String {
        match key {
            Key::Name(name) => self.slice(name.range()).to_owned(),
            Key::Item(number) => number.to_string(),
        }
    }

    /// Reads `name =` or `["name"] =`; returns the bytes of the name, its tokens and the value's
    /// first token.
    fn key_at(&self, at: usize) -> (Option<Bytes>, Range<usize>, usize) {
        let tokens = self.tokens();
        let is_equals = |index| self.is_sign(index, '=') && !self.is_sign(index + 1, '=');
        if tokens[at].word == Word::Name && is_equals(at + 1) {
            return (Some(tokens[at].bytes), at..at + 1, at + 2);
        }
        if self.is_sign(at, '[')
            && let Some(name) = tokens.get(at + 1).and_then(Token::inner)
            && self.is_sign(at + 2, ']')
            && is_equals(at + 3)
        {
            return (Some(name), at..at + 3, at + 4);
        }
        (None, at..at, at)
    }

    /// Returns the index of the `,`, `;` or `}` after a value.
    fn value_end(&self, start: usize) -> usize {
        let mut depth = 0usize;
        for (index, token) in self.tokens().iter().enumerate().skip(start) {
            match &token.word {
                Word::Sign('}' | ',' | ';') if depth == 0 => return index,
                Word::Sign('{' | '(' | '[') => depth += 1,
                Word::Sign('}' | ')' | ']') => depth = depth.saturating_sub(1),
                Word::Name => match self.slice(token.range()) {
                    "function" | "if" | "do" | "repeat" => depth += 1,
                    "end" | "until" => depth = depth.saturating_sub(1),
                    _ => {}
                },
                _ => {}
            }
        }
        self.tokens().len()
    }

    /// Returns the bracket of a value `{ … }` or `wb.input.x { … }`.
    fn inner_constructor(&self, value: Range<usize>) -> Option<usize> {
        let mut next = value.start;
        while self.tokens().get(next)?.name(self.text()).is_some_and(|name| name != "function") {
            next += 1;
            next += usize::from(self.is_sign(next, '.'));
        }
        next += usize::from(next > value.start && self.is_sign(next, '('));
        (next < value.end && self.is_sign(next, '{')).then_some(next)
    }
}
