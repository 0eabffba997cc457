//! Parses search queries: words, "phrases", prefixes (`wor*`), and -exclusions.
//!
//! **Invariant:** no user input reaches the index as syntax: expressions are built from folded
//! words, which only contain letters and digits.

use crate::base::limit::{SEARCH_BYTES_MAX, SEARCH_WORDS_MAX};
use crate::base::{Error, ErrorKind, Result};
use crate::documents::search::fold::{Words, stands_alone};
use crate::documents::search::mark;

/// Shortest prefix, in characters.
const PREFIX_CHARS_MIN: usize = 2;

/// A word or phrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    /// Its folded words, in order; at least one.
    pub(super) words: Vec<String>,
    /// Whether the last word is a prefix.
    pub(super) is_prefix: bool,
}

/// A parsed query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// All of these are required; at least one.
    pub(super) wanted: Vec<Term>,
    unwanted: Vec<Term>,
}

impl Ask {
    /// Parses a query. An unclosed quotation mark extends to the end.
    ///
    /// # Errors
    /// `too_large`; `invalid` with code `empty_query` without a required word, `too_many_words`, or
    /// `short_prefix`.
    pub fn parse(text: &str) -> Result<Ask> {
        if text.len() > SEARCH_BYTES_MAX {
            let message = format!("the search has more than {SEARCH_BYTES_MAX} bytes");
            return Err(Error::new(ErrorKind::TooLarge, message).hint("use fewer words"));
        }
        let mut ask = Ask { wanted: Vec::new(), unwanted: Vec::new() };
        let mut rest = text;
        loop {
            rest = rest.trim_start();
            if rest.is_empty() {
                break;
            }
            let (is_not, chunk) = match rest.strip_prefix('-') {
                Some(chunk) => (true, chunk),
                None => (false, rest),
            };
            let (said, after) = take(chunk);
            rest = after;
            if let Some(term) = term(said, &mut rest)? {
                if is_not { &mut ask.unwanted } else { &mut ask.wanted }.push(term);
            }
        }
        if ask.wanted.is_empty() {
            return Err(Error::invalid("the search has no words")
                .code("empty_query")
                .hint("use words, \"phrases\", prefixes such as wor*, and -excluded words"));
        }
        if ask.wanted.len() + ask.unwanted.len() > SEARCH_WORDS_MAX {
            let message = format!("the search has more than {SEARCH_WORDS_MAX} words");
            return Err(Error::invalid(message).code("too_many_words").hint("leave some out"));
        }
        Ok(ask)
    }

    /// Returns the required words individually, each as an expression with its words; phrases are
    /// split.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for term in &self.wanted {
            for (place, word) in term.words.iter().enumerate() {
                let is_prefix = term.is_prefix && place + 1 == term.words.len();
                let expression = Term { words: vec![word.clone()], is_prefix }.expression();
                if !words.contains(&expression) {
                    words.push(expression);
                }
            }
        }
        words
    }

    /// Returns the expression for all of these words in the title.
    pub(super) fn in_title(&self) -> String {
        let words = self.wanted.iter().flat_map(|term| {
            let last = term.words.len() - 1;
            let words = term.words.iter().enumerate();
            words.map(move |(at, word)| mark::in_title(word, term.is_prefix && at == last))
        });
        words.collect::<Vec<_>>().join(" AND ")
    }

    /// Returns the words in the order of a title, and whether the last one is a prefix; `None` if
    /// the query cannot mean a title.
    pub(super) fn as_title(&self) -> Option<(String, bool)> {
        let (last, before) = self.wanted.split_last()?;
        if !self.unwanted.is_empty() || before.iter().any(|it| it.is_prefix) {
            return None;
        }
        let words: Vec<&str> =
            self.wanted.iter().flat_map(|it| &it.words).map(String::as_str).collect();
        Some((words.join(" "), last.is_prefix))
    }

    /// Returns the full-text expression.
    pub fn expression(&self) -> String {
        let wanted = self.wanted_each().join(" AND ");
        match self.unwanted() {
            None => wanted,
            Some(unwanted) => format!("({wanted}) NOT ({unwanted})"),
        }
    }

    /// Returns one expression per required word or phrase.
    pub(super) fn wanted_each(&self) -> Vec<String> {
        self.wanted.iter().map(Term::expression).collect()
    }

    /// Returns the expression for any excluded word; `None` without exclusions.
    pub(super) fn unwanted(&self) -> Option<String> {
        let each: Vec<String> = self.unwanted.iter().map(Term::expression).collect();
        (!each.is_empty()).then(|| each.join(" OR "))
    }
}

impl Term {
    fn expression(&self) -> String {
        let star = if self.is_prefix { " *" } else { "" };
        format!("\"{}\"{star}", self.words.join(" "))
    }
}

/// Splits off one word, or a quoted phrase.
fn take(text: &str) -> (&str, &str) {
    if let Some(quoted) = text.strip_prefix('"') {
        return quoted.split_once('"').unwrap_or((quoted, ""));
    }
    let end = text.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(text.len());
    // A quotation mark right after a word begins a phrase; at position 0 it was handled above.
    text.split_at(end)
}

fn term(said: &str, rest: &mut &str) -> Result<Option<Term>> {
    let mut has_star = said.ends_with('*');
    if let Some(after) = rest.strip_prefix('*') {
        // A phrase may end in a prefix: `"some wor"*`.
        (*rest, has_star) = (after, true);
    }
    let (mut walk, mut word, mut words) = (Words::of(said), String::new(), Vec::new());
    let mut end = 0;
    while let Some(range) = walk.next_into(&mut word) {
        words.push(word.clone());
        end = range.end;
    }
    let Some(last) = words.last() else { return Ok(None) };
    // A character that is a word by itself has no prefix, and neither has `a,*`.
    let is_beginning = said[end..].trim_end_matches('*').is_empty();
    let is_prefix = has_star && is_beginning && !last.chars().all(stands_alone);
    if is_prefix && last.chars().count() < PREFIX_CHARS_MIN {
        let message = format!("`{last}*` is too short: a beginning has two letters or more");
        return Err(Error::invalid(message).code("short_prefix"));
    }
    Ok(Some(Term { words, is_prefix }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    fn expression(text: &str) -> String {
        Ask::parse(text).unwrap().expression()
    }

    #[test]
    fn what_people_type_becomes_an_expression_of_words() {
        for (typed, asked) in [
            ("Two words", "\"two\" AND \"words\""),
            ("\"A phrase\" wor*", "\"a phrase\" AND \"wor\" *"),
            ("\"a phr\"* x", "\"a phr\" * AND \"x\""),
            ("foo-bar snake_case", "\"foo bar\" AND \"snake case\""),
            ("good -bad -\"very bad\"", "(\"good\") NOT (\"bad\" OR \"very bad\")"),
            ("日本* AND NEAR(x)", "\"日 本\" AND \"and\" AND \"near x\""),
            ("a\"b c", "\"a\" AND \"b c\""),
            ("x OR title: ^y {z}", "\"x\" AND \"or\" AND \"title\" AND \"y\" AND \"z\""),
            ("end.* -", "\"end\""),
        ] {
            assert_eq!(expression(typed), asked, "{typed}");
        }
    }

    #[test]
    fn what_cannot_be_asked_is_refused_with_the_reason() {
        for (typed, code) in [
            ("", "empty_query"),
            (" \"\" * - ?", "empty_query"),
            ("-only -not", "empty_query"),
            ("a*", "short_prefix"),
            (&"w ".repeat(17), "too_many_words"),
            (&"w".repeat(SEARCH_BYTES_MAX + 1), "too_large"),
        ] {
            assert_eq!(Ask::parse(typed).unwrap_err().code_str(), code, "{typed}");
        }
    }

    const TABLE: &str = "CREATE VIRTUAL TABLE t USING fts5 (a, content='', tokenize='ascii')";

    proptest::proptest! {
        #[test]
        fn no_text_is_an_error_of_syntax(
            odd in "[\"*^:(){}+\\-a-z日 \u{0}\u{1}]{0,60}", any in "(?s).{0,60}", is_odd: bool,
        ) {
            let Ok(ask) = Ask::parse(if is_odd { &odd } else { &any }) else { return Ok(()) };
            let connection = Connection::open_in_memory().unwrap();
            connection.execute_batch(TABLE).unwrap();
            let (asked, sql) = (ask.expression(), "SELECT COUNT(*) FROM t WHERE t MATCH ?1");
            let found = connection.query_row(sql, [&asked], |row| row.get::<_, i64>(0));
            proptest::prop_assert_eq!(found.unwrap(), 0, "{}", asked);
        }
    }
}
