//! Values that turned out to be nil and were hardly meant to be, judged by how they are written.
//!
//! **Invariant:** what may be nil by intention is not among them: parameters, variables of loops
//! and of blocks, results of functions, and whatever has an `or`.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::script::source::field_span::Source;
use crate::script::source::lexer::{Token, Word};

/// Names that every script has, and that such a value may begin with.
const KNOWN: [&str; 3] = ["require", "tonumber", "wb"];

impl Source {
    /// Returns the text of a value in a declaration's table, if it reads a table that is made once,
    /// a variable of the server, or a number.
    pub(crate) fn expected(&self, value: Range<usize>) -> Option<&str> {
        let index = |byte: usize| self.tokens().partition_point(|it| it.start() < byte);
        let outer = index(value.start)..index(value.end);
        let mut words = outer.clone();
        while self.is_in_brackets(&words) {
            words = words.start + 1..words.end - 1;
        }
        let is_expected =
            self.reads(words.clone()) && self.is_constant(words) && self.is_declared(outer.start);
        is_expected.then(|| self.slice(value))
    }

    /// Returns whether round brackets are around all of some words.
    fn is_in_brackets(&self, words: &Range<usize>) -> bool {
        let last = words.end.saturating_sub(1);
        words.len() > 2
            && self.is_sign(words.start, '(')
            && self.is_sign(last, ')')
            && self.opening(last) == Some(words.start)
    }

    fn word(&self, at: usize) -> Option<&str> {
        self.tokens().get(at)?.name(self.text())
    }

    /// Returns whether some words end with a field or an index, or call `wb.env` or `tonumber`.
    fn reads(&self, words: Range<usize>) -> bool {
        let Range { start, end } = words;
        let is_key = |it: &Token| matches!(it.word, Word::Text(_) | Word::Number);
        match &self.tokens()[words] {
            [_, .., dot, field] if dot.is('.') && field.word == Word::Name => true,
            [_, .., open, key, close] if open.is('[') && close.is(']') => is_key(key),
            [..] if self.word(start) == Some("tonumber") => self.is_call(start + 1..end),
            [_, dot, ..] if dot.is('.') && self.word(start) == Some("wb") => {
                self.word(start + 2) == Some("env") && self.is_call(start + 3..end)
            }
            _ => false,
        }
    }

    /// Returns whether some words are the arguments of one call.
    fn is_call(&self, words: Range<usize>) -> bool {
        match self.tokens().get(words.clone()).unwrap_or_default() {
            [text] => matches!(text.word, Word::Text(_)),
            [open, .., close] if open.is('(') && close.is(')') => {
                self.opening(words.end - 1) == Some(words.start)
            }
            _ => false,
        }
    }

    /// Returns whether some words are a chain of fields, indices and calls, and have the same value
    /// whenever they are evaluated.
    fn is_constant(&self, words: Range<usize>) -> bool {
        let mut depth = 0usize;
        for at in words {
            match self.tokens()[at].word {
                Word::Sign('(' | '[' | '{') => depth += 1,
                Word::Sign(')' | ']' | '}') => depth = depth.saturating_sub(1),
                Word::Sign('.') if !self.is_sign(at + 1, '.') => {}
                Word::Sign(_) if depth == 0 => return false,
                Word::Name if !self.is_field(at) && !self.is_known(at) => return false,
                _ => {}
            }
        }
        true
    }

    fn is_field(&self, at: usize) -> bool {
        at > 0 && self.is_sign(at - 1, '.') && !(at > 1 && self.is_sign(at - 2, '.'))
    }

    fn is_known(&self, at: usize) -> bool {
        self.word(at).is_some_and(|it| KNOWN.contains(&it) || self.constants().contains(it))
    }

    /// Returns whether a value is in the table of a `wb.` declaration that is written there.
    fn is_declared(&self, value: usize) -> bool {
        let mut inner = value;
        loop {
            let open = self.opening(inner).filter(|it| self.is_sign(*it, '{'));
            let Some(before) = open.and_then(|it| it.checked_sub(1)) else { return false };
            if self.is_sign(before, '=') {
                inner = before;
                continue;
            }
            let argument = match &self.tokens()[before].word {
                Word::Sign('(') | Word::Text(_) => Some(before),
                Word::Sign(')') => self.opening(before),
                _ => Some(before + 1),
            };
            let last = argument.and_then(|it| it.checked_sub(1));
            let Some(last) = last.filter(|it| self.word(*it).is_some()) else { return false };
            inner = self.start_of(last);
            let is_ours = self.word(inner) == Some("wb") && self.is_sign(inner + 1, '.');
            match self.word(inner + 2).filter(|_| is_ours) {
                Some("input") => {}
                word => return word.is_some(),
            }
        }
    }

    /// Returns the nearest bracket before a token that is not closed before it.
    fn opening(&self, before: usize) -> Option<usize> {
        let mut depth = 0usize;
        for at in (0..before).rev() {
            match self.tokens()[at].word {
                Word::Sign('}' | ')' | ']') => depth += 1,
                Word::Sign('{' | '(' | '[') if depth == 0 => return Some(at),
                Word::Sign('{' | '(' | '[') => depth -= 1,
                _ => {}
            }
        }
        None
    }

    /// Returns the locals of a file that are outside of all functions, loops and blocks, without
    /// those whose name something inside has, too.
    pub(super) fn outer_locals(&self) -> BTreeSet<String> {
        let (mut outer, mut inner) = (BTreeSet::new(), BTreeSet::new());
        let mut depth = 0usize;
        for at in 0..self.tokens().len() {
            match self.word(at) {
                Some("if" | "do" | "repeat") => depth += 1,
                Some("end" | "until") => depth = depth.saturating_sub(1),
                Some("function") => {
                    depth += 1;
                    let open = (at..self.tokens().len()).find(|it| self.is_sign(*it, '('));
                    inner.extend(open.into_iter().flat_map(|it| self.list(it + 1)));
                }
                Some("for") => inner.extend(self.list(at + 1)),
                Some("local") => {
                    let is_function = self.word(at + 1) == Some("function");
                    let names = self.list(at + 1 + usize::from(is_function));
                    if depth == 0 { outer.extend(names) } else { inner.extend(names) }
                }
                _ => {}
            }
        }
        outer.difference(&inner).map(|it| (*it).to_owned()).collect()
    }

    /// Returns names that are parted by commas.
    fn list(&self, first: usize) -> impl Iterator<Item = &str> {
        let is_next = move |at: &usize| *at == first || self.is_sign(at - 1, ',');
        (first..).step_by(2).take_while(is_next).map_while(|at| self.word(at))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use camino::Utf8Path;

    use super::*;

    /// Returns the value of `x`, if it is one that is expected.
    fn expected(text: &str) -> Option<String> {
        let source = Source::new(Arc::from(Utf8Path::new("x.lua")), text);
        let from = text.find("x = ").expect("x is set") + 4;
        let to = from + text[from..].find(" }").expect("the table ends");
        source.expected(from..to).map(str::to_owned)
    }

    #[test]
    fn a_read_of_what_is_made_once_is_expected_to_be_there() {
        for value in [
            "M.verfy",
            "M.a.b",
            "M['lane']",
            "M[1]",
            "M.all[1].lane",
            "require(\"lib.rules\").verfy",
            "wb.json.decode(wb.file 'plan.json').caps",
            "wb.env(\"N\")",
            "wb.env 'N'",
            "tonumber(wb.env(\"N\"))",
            "tonumber(M.n)",
            "(M.a)",
            "((tonumber(M.n)))",
        ] {
            for around in ["wb.kind \"k\" { a = 1, x = V }", "wb.site({ x = V })"] {
                let text = format!("local M = {{}}\n{}", around.replace('V', value));
                assert_eq!(expected(&text).as_deref(), Some(value), "{text}");
            }
        }
        for text in [
            "local M, N = {}\nfor _, n in ipairs { 1 } do wb.kind(n) { x = M.n } end",
            "local M = {}\nwb.kind \"k\" { daily = { x = M.n } }",
            "local M = {}\nwb.kind \"k\" { inputs = { a = wb.input.line { x = M.n } } }",
            "local M = {}\nlocal function f(n) wb.kind(n .. \"x\") { x = M.n } end",
        ] {
            assert_eq!(expected(text).as_deref(), Some("M.n"), "{text}");
        }
    }

    #[test]
    fn what_may_be_nil_by_intention_is_not() {
        for value in [
            "nil",
            "M",
            "M.a or nil",
            "M.on and M.a",
            "tonumber(wb.env(\"N\") or nil)",
            "M.f()",
            "M.s:match(\"a\")",
            "M[k]",
            "(M.a) .. (M.b)",
            "(M.a or nil)",
            "function() return M.a end",
            "wb.env(\"A\") == M.a",
            "tonumber(\"1\") - M.a",
            "M.a .. M.b",
        ] {
            let text = format!("local M, k = {{}}, 1\nwb.kind \"k\" {{ a = 1, x = {value} }}");
            assert_eq!(expected(&text), None, "{text}");
        }
        for text in [
            "local function f(o) wb.kind(o.name) { x = o.lane } end",
            "for _, k in ipairs(all) do wb.kind(k.name) { x = k.lane } end",
            "if wb then local o = {} wb.kind \"k\" { x = o.lane } end",
            "local o = {}\nfunction M.f(a, o) wb.kind \"k\" { x = o.lane } end",
            "local M = {}\nclause \"k\" { x = M.lane }",
            "local M = {}\nwb.kind \"k\" { daily = cut { x = M.n } }",
            "local M = {}\nwb.kind \"k\" (with { x = M.n })",
            "local M = {}\nlocal t = { x = M.n }",
        ] {
            assert_eq!(expected(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_judged(words in proptest::collection::vec(0..16usize, 0..40)) {
            let all = [
                "local ", "M", ".", "wb", "{", "}", "x = ", "(", ")", "[", "]", "\"k\"", ",",
                "function ", "for ", "=",
            ];
            let text: String = words.into_iter().map(|it| all[it]).collect();
            let source = Source::new(Arc::from(Utf8Path::new("x.lua")), text.as_str());
            for at in 0..=text.len() {
                source.expected(at..text.len());
            }
        }
    }
}
