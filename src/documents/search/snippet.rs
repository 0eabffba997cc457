//! Snippets: part of a text around a match, with the hits marked.
//!
//! For Markdown a snippet shows what a reader sees. If only something invisible matches, such as a
//! URL, it shows the source text: otherwise nobody would know why it was found.
//!
//! **Invariant:** a snippet is plain text in pieces; whoever shows it escapes them and marks the
//! hits.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::documents::search::ask::{Ask, Term};
use crate::documents::search::fold::Words;
use crate::documents::sources::plain::Plain;

/// Length of a snippet, in characters.
const CHARS: usize = 240;
/// Characters before the first hit.
const CHARS_BEFORE: usize = 60;
/// Most hits examined per text.
const HITS_MAX: usize = 2_000;
/// Longest text whose Markdown is parsed completely, in bytes; a longer one is parsed around the
/// first hit.
const WHOLE_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a longer text that are parsed before and after the first hit.
const AROUND_BYTES: usize = 4 * 1024;

/// A piece of a snippet.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "TextPiece"))]
pub struct Piece {
    /// Its text: one line, without control characters.
    pub text: String,
    /// Whether this is a hit.
    pub hit: bool,
}

/// A snippet with the position of its first hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snippet {
    /// The pieces in order.
    pub pieces: Vec<Piece>,
    /// The byte at which the first hit begins; `None` without a hit.
    pub at: Option<usize>,
}

/// A match of one term.
struct Hit {
    term: usize,
    range: Range<usize>,
    /// Its first byte in the source text.
    at: usize,
}

/// A phrase of which the first words have matched.
struct Begun {
    term: usize,
    next: usize,
    start: usize,
}

/// Returns the part of a text with the most terms, or its beginning.
pub fn snippet(text: &str, is_markdown: bool, ask: &Ask) -> Snippet {
    let hits = find(text, &ask.wanted);
    if !is_markdown {
        return of_hits(text, &hits);
    }
    let read = around(text, &hits);
    let plain = Plain::of(&text[read.clone()]);
    let seen = |hit: &Hit| {
        let bytes = hit.range.start.checked_sub(read.start)?..hit.range.end - read.start;
        Some(Hit { range: plain.place_of(&bytes)?, ..*hit })
    };
    let seen: Vec<Hit> = hits.iter().filter_map(seen).collect();
    match seen.is_empty() && !hits.is_empty() {
        true => of_hits(text, &hits),
        false => of_hits(&plain.text, &seen),
    }
}

/// Returns the part of a text whose Markdown is parsed.
fn around(text: &str, hits: &[Hit]) -> Range<usize> {
    if text.len() <= WHOLE_BYTES_MAX {
        return 0..text.len();
    }
    let at = hits.get(best_window(text, hits).start).map_or(0, |it| it.at);
    let from = text.floor_char_boundary(at.saturating_sub(AROUND_BYTES));
    let to = text.floor_char_boundary(at + AROUND_BYTES);
    // Start at the beginning of a block, unless that is too far away.
    let block = text[from..at].find("\n\n").filter(|_| from > 0);
    block.map_or(from, |it| from + it)..to
}

fn of_hits(text: &str, hits: &[Hit]) -> Snippet {
    let best = best_window(text, hits);
    let Some(first) = hits.get(best.start) else {
        return Snippet { pieces: cut(text, 0, &[]), at: None };
    };
    let (at, written_at) = (first.range.start, first.at);
    let before = text[..at].char_indices().rev().take(CHARS_BEFORE);
    let start = before.last().map_or(at, |(start, _)| start);
    // Do not start within a word, if there is a space to start after.
    let start = match text[start..at].find(char::is_whitespace) {
        Some(space) if start > 0 => start + space,
        _ => start,
    };
    Snippet { pieces: cut(text, start, &hits[best.start..]), at: Some(written_at) }
}

/// Returns a complete one-line text with its hits marked.
pub fn marked(text: &str, ask: &Ask) -> Vec<Piece> {
    let hits = find(text, &ask.wanted);
    pieces(text, 0..text.len(), &hits)
}

/// Finds the terms, ordered by their ends.
fn find(text: &str, terms: &[Term]) -> Vec<Hit> {
    let (mut words, mut word) = (Words::of(text), String::new());
    let (mut hits, mut begun): (Vec<Hit>, Vec<Begun>) = (Vec::new(), Vec::new());
    while let Some(range) = words.next_into(&mut word) {
        let starts = (0..terms.len()).map(|term| Begun { term, next: 0, start: range.start });
        let mut going_on = Vec::new();
        for mut it in begun.drain(..).chain(starts) {
            let term = &terms[it.term];
            if !matches(term, it.next, &word) {
                continue;
            }
            it.next += 1;
            if it.next == term.words.len() {
                hits.push(Hit { term: it.term, range: it.start..range.end, at: it.start });
            } else {
                going_on.push(it);
            }
        }
        begun = going_on;
        if hits.len() >= HITS_MAX {
            break;
        }
    }
    hits.sort_by_key(|it| (it.range.start, it.range.end));
    hits
}

fn matches(term: &Term, at: usize, word: &str) -> bool {
    let wanted = &term.words[at];
    match term.is_prefix && at + 1 == term.words.len() {
        true => word.starts_with(wanted.as_str()),
        false => word == wanted,
    }
}

/// Returns the first group of nearby hits with the most distinct terms.
fn best_window(text: &str, hits: &[Hit]) -> Range<usize> {
    let mut best = (0, 0..0);
    let mut end = 0;
    for start in 0..hits.len() {
        end = end.max(start + 1);
        let from = hits[start].range.start;
        // A character has up to four bytes; most texts come near half of this.
        let reach = from + CHARS - CHARS_BEFORE;
        while end < hits.len() && hits[end].range.end <= reach.min(text.len()) {
            end += 1;
        }
        let mut terms: Vec<usize> = hits[start..end].iter().take(64).map(|it| it.term).collect();
        terms.sort_unstable();
        terms.dedup();
        if terms.len() > best.0 {
            best = (terms.len(), start..end);
        }
    }
    best.1
}

/// Returns the pieces of a text from a byte on, at most the length of a snippet.
fn cut(text: &str, start: usize, hits: &[Hit]) -> Vec<Piece> {
    let end = text[start..].char_indices().nth(CHARS).map_or(text.len(), |(at, _)| start + at);
    let end = match text[start..end].rfind(char::is_whitespace) {
        // Do not end within a word, unless words are very long.
        Some(space) if end < text.len() && space > (end - start) / 2 => start + space,
        _ => end,
    };
    let mut all = pieces(text, start..end, hits);
    let dots = |text: &str| Piece { text: text.to_owned(), hit: false };
    if start > 0 && !all.is_empty() {
        all.insert(0, dots("… "));
    }
    if end < text.len() && !all.is_empty() {
        all.push(dots(" …"));
    }
    all
}

fn pieces(text: &str, range: Range<usize>, hits: &[Hit]) -> Vec<Piece> {
    let mut all: Vec<Piece> = Vec::new();
    let mut at = range.start;
    for hit in hits.iter().map(|it| &it.range) {
        // Hits may overlap: a term may occur within a phrase.
        let (from, to) = (hit.start.max(at), hit.end.min(range.end));
        if from >= to {
            continue;
        }
        push(&mut all, &text[at..from], false);
        push(&mut all, &text[from..to], true);
        at = to;
    }
    push(&mut all, &text[at.min(range.end)..range.end], false);
    if let Some(first) = all.first_mut() {
        first.text = first.text.trim_start().to_owned();
    }
    if let Some(last) = all.last_mut() {
        last.text.truncate(last.text.trim_end().len());
    }
    all.retain(|it| !it.text.is_empty());
    all
}

/// Adds text as one line: whitespace collapses to a space, control characters are dropped.
fn push(all: &mut Vec<Piece>, text: &str, hit: bool) {
    let ends_in_space = all.last().is_none_or(|it| it.text.ends_with(' '));
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_whitespace() {
            let is_doubled = if line.is_empty() { ends_in_space } else { line.ends_with(' ') };
            if !is_doubled {
                line.push(' ');
            }
        } else if !c.is_control() {
            line.push(c);
        }
    }
    match all.last_mut() {
        Some(last) if last.hit == hit => last.text.push_str(&line),
        _ if line.is_empty() => {}
        _ => all.push(Piece { text: line, hit }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a snippet with its hits in brackets.
    fn shown(text: &str, asked: &str) -> String {
        in_brackets(&snippet(text, false, &Ask::parse(asked).unwrap()))
    }

    /// Like `shown`, for Markdown.
    fn read(text: &str, asked: &str) -> String {
        in_brackets(&snippet(text, true, &Ask::parse(asked).unwrap()))
    }

    fn in_brackets(found: &Snippet) -> String {
        let piece = |it: &Piece| if it.hit { format!("[{}]", it.text) } else { it.text.clone() };
        found.pieces.iter().map(piece).collect()
    }

    #[test]
    fn hits_are_told_apart() {
        assert_eq!(shown("A café, in Paris.", "CAFE par*"), "A [café], in [Paris].");
        assert_eq!(shown("one two one\n\ntwo", "\"one two\""), "[one two] [one two]");
        assert_eq!(shown("これは日本語です", "日本"), "これは[日本]語です");
        assert_eq!(shown("a b a b c", "\"a b c\" b"), "a [b] [a b c]");
        assert_eq!(shown("nothing here", "else"), "nothing here");
        assert_eq!(shown("", "else"), "");
    }

    #[test]
    fn the_part_with_most_of_what_is_asked_is_shown() {
        let far = format!("red. {} green and red {}", "word ".repeat(200), "tail ".repeat(200));
        let seen = shown(&far, "red green");
        assert!(seen.starts_with("… word") && seen.contains("[green] and [red]"), "{seen}");
        assert!(seen.ends_with("tail …") && seen.chars().count() < 320, "{seen}");
        let at = snippet(&far, false, &Ask::parse("red green").unwrap()).at.unwrap();
        assert!(far[at..].starts_with("green and red"));
    }

    #[test]
    fn what_is_no_text_is_left_out() {
        assert_eq!(shown("a\u{1}<b>\u{2}hit\u{0}\u{1b}[2J", "hit"), "a<b>[hit][2J");
    }

    #[test]
    fn markdown_is_shown_as_it_is_read() {
        let text = "# On *bridges*\n\n| what | [how **long**](http://long.example/steel) |\n\
                    |---|--:|\n| the `steel` one | 12&nbsp;m |\n\n- [x] **done** by ~~us~~\n";
        let seen = "On bridges what how [long] the [steel] one 12 m done by us";
        assert_eq!(read(text, "long steel"), seen);
        assert_eq!(read("a**b**", "b"), "a[b]");
        assert_eq!(read("x **one** [two](y)", "\"one two\""), "x [one two]");
        // An invisible match is shown in the source text.
        assert_eq!(read("x [two](http://example.org)", "example"), "x [two](http://[example].org)");
        assert_eq!(read("x **y** z", "else"), "x y z");
        assert_eq!(read("<b onclick=x>y</b>", "y"), "[y]");
        assert_eq!(read("a <!-- b --> <x-y>", "a"), "[a] <x-y>");
        // The position refers to the source text.
        let at = snippet(text, true, &Ask::parse("steel").unwrap()).at.unwrap();
        assert!(text[at..].starts_with("steel` one"), "not the address");
    }

    #[test]
    fn of_a_long_text_what_is_around_is_read() {
        let block = "Some **bold** words [here](there.md).\n\n".repeat(4_000);
        let text = format!("{block}The *zenith* of **it**.\n\n{block}");
        let seen = read(&text, "zenith");
        assert!(seen.contains("bold words here. The [zenith] of it. Some bold"), "{seen}");
        assert!(!seen.contains(['*', '(']), "{seen}");
        let at = snippet(&text, true, &Ask::parse("zenith").unwrap()).at.unwrap();
        assert_eq!(at, block.len() + "The *".len());
        assert!(read(&text, "else").starts_with("Some bold words here. Some bold"));
        read(&"é*日".repeat(40_000), "else");
    }

    proptest::proptest! {
        #[test]
        fn a_snippet_is_short_and_has_no_controls(
            text in "(?s).{0,400}|[ab*_`|>#\\[\\]()<&;\n -]{0,80}", asked in "[a-zé日 ]{1,9}",
            is_markdown: bool,
        ) {
            let Ok(ask) = Ask::parse(&asked) else { return Ok(()) };
            let found = snippet(&text, is_markdown, &ask);
            let all: String = found.pieces.iter().map(|it| it.text.as_str()).collect();
            proptest::prop_assert!(all.chars().count() <= CHARS + 4);
            proptest::prop_assert!(!all.chars().any(char::is_control));
            proptest::prop_assert!(found.pieces.iter().any(|it| it.hit) == found.at.is_some());
            if let Some(at) = found.at {
                proptest::prop_assert!(text.get(at..).is_some());
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn a_snippet_of_any_markdown_is_of_one_line(
            text in "[ab&;é日 *_`~|>#\\[\\]()<\\\\:\n\r\t^!-]{0,90}",
        ) {
            for asked in ["a", "ab*", "\"a b\"", "é日"] {
                let found = snippet(&text, true, &Ask::parse(asked).unwrap());
                let is_line = |it: &Piece| !it.text.contains(char::is_control);
                let is_whole = |it: &Piece| !it.text.is_empty() && is_line(it);
                proptest::prop_assert!(found.pieces.iter().all(is_whole), "{:?}", found.pieces);
            }
        }
    }
}
