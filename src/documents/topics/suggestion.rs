//! Suggestions: fenced blocks in a message with a replacement for the Topic's passage.

use std::ops::Range;

use pulldown_cmark::{Event, Parser, Tag};

use crate::base::{Error, Result, truncate_chars};
use crate::documents::sources::plain::dialect;

/// Shortest fence.
const FENCE_MIN: usize = 3;
/// Longest quoted piece in a title, in characters.
const PIECE_CHARS_MAX: usize = 40;
/// Most characters of the two pieces in a title, so that it fits into the subject of a commit.
const PIECES_CHARS_MAX: usize = 56;

/// The last suggestion block of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Suggestion {
    /// The replacement; empty to delete the passage.
    Text(String),
    /// The block is not closed: it may be cut off.
    Open,
}

/// A suggestion block of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its byte range in the message, including both fences.
    pub range: Range<usize>,
    /// Its content.
    pub words: String,
}

/// An open fence.
struct Fence {
    at: usize,
    mark: u8,
    length: usize,
    indent: usize,
    is_suggestion: bool,
    content: String,
}

/// Returns the closed suggestion blocks of a message, and whether one is left open at its end.
///
/// Fences follow CommonMark, outside of quotes and lists: three or more backticks or tildes,
/// indented by at most three spaces; the closing fence uses the same character and is at least as
/// long. Line endings inside are kept; the last one is not content. The info string of a suggestion
/// begins with that word.
pub fn blocks(message: &str) -> (Vec<Block>, bool) {
    let (mut found, mut at) = (Vec::new(), 0);
    let mut open: Option<Fence> = None;
    for line in message.split_inclusive('\n') {
        let start = at;
        at += line.len();
        match open.as_mut() {
            None => open = opening(line, start),
            Some(fence) if closes(fence, line) => {
                if fence.is_suggestion {
                    let words = without_line_end(&fence.content).to_owned();
                    found.push(Block { range: fence.at..at, words });
                }
                open = None;
            }
            Some(fence) => {
                let indent = line.bytes().take(fence.indent).take_while(|b| *b == b' ').count();
                fence.content.push_str(&line[indent..]);
            }
        }
    }
    (found, open.is_some_and(|fence| fence.is_suggestion))
}

/// Returns the last suggestion of a message.
pub fn last(message: &str) -> Option<Suggestion> {
    let (mut found, is_open) = blocks(message);
    if is_open {
        return Some(Suggestion::Open);
    }
    found.pop().map(|block| Suggestion::Text(block.words))
}

/// Returns a message with a suggestion, preceded by a comment.
///
/// # Errors
/// `invalid` with code `bad_comment` if the comment would swallow the suggestion, for example by an
/// unclosed code block.
pub fn message(comment: &str, words: &str) -> Result<String> {
    let mut ticks = FENCE_MIN;
    let mut run = 0;
    for byte in words.bytes() {
        run = if byte == b'`' { run + 1 } else { 0 };
        ticks = ticks.max(run + 1);
    }
    let fence = "`".repeat(ticks);
    let comment = comment.trim();
    let gap = if comment.is_empty() { "" } else { "\n\n" };
    let end = if words.is_empty() { "" } else { "\n" };
    let message = format!("{comment}{gap}{fence}suggestion\n{words}{end}{fence}");
    if last(&message) == Some(Suggestion::Text(words.to_owned())) {
        return Ok(message);
    }
    Err(Error::invalid("the comment has an unclosed code block")
        .code("bad_comment")
        .hint("close the block with ``` on its own line"))
}

/// Returns a title for a change: the differing words.
pub fn title(old: &str, new: &str) -> String {
    let (before, after): (Vec<&str>, Vec<&str>) =
        (old.split_whitespace().collect(), new.split_whitespace().collect());
    let same = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
    let (before, after) = (&before[same..], &after[same..]);
    let tail = before.iter().rev().zip(after.iter().rev()).take_while(|(a, b)| a == b).count();
    let shown = |words: &[&str]| words.join(" ").replace(char::is_control, "");
    // One less, for the ellipsis.
    let cut = |text: &str, max: usize| match text.chars().count() > max {
        true => truncate_chars(text, max - 1),
        false => text.to_owned(),
    };
    let piece = |words: &[&str]| cut(&shown(words), PIECE_CHARS_MAX);
    match (&before[..before.len() - tail], &after[..after.len() - tail]) {
        ([], []) => "Change the spacing".to_owned(),
        ([], added) => format!("Add “{}”", piece(added)),
        (removed, []) => format!("Remove “{}”", piece(removed)),
        (removed, added) => {
            let (removed, added) = (shown(removed), shown(added));
            // What the shorter one leaves is the longer one's.
            let room = |other: &str| {
                let half = PIECES_CHARS_MAX / 2;
                PIECES_CHARS_MAX
                    - other.chars().count().clamp(PIECES_CHARS_MAX - PIECE_CHARS_MAX, half)
            };
            let (old, new) = (cut(&removed, room(&added)), cut(&added, room(&removed)));
            format!("Change “{old}” to “{new}”")
        }
    }
}

/// Returns the range in which a change of selected words is edited: the words themselves, or their
/// whole lines where the selection would split Markdown markup.
pub fn editable(text: &str, range: Range<usize>) -> Range<usize> {
    let words = &text[range.clone()];
    let is_balanced = |mark: u8| marks(text, &range, mark).is_multiple_of(2);
    let count = |mark: char| words.matches(mark).count();
    let is_plain = !words.contains('|')
        && [b'*', b'_', b'`', b'~', b'$'].into_iter().all(is_balanced)
        && count('[') == count(']')
        && count('<') == count('>')
        && !words.lines().skip(1).any(begins_block);
    if is_plain || (!words.contains('\n') && is_code(text, &range)) {
        return range;
    }
    let start = text[..range.start].rfind('\n').map_or(0, |at| at + 1);
    let end = text[range.end..].find('\n').map_or(text.len(), |at| range.end + at);
    let end = if text[..end].ends_with('\r') { end - 1 } else { end };
    start..end.max(range.end)
}

/// Returns how often a markup character occurs; an underscore between letters does not count.
fn marks(text: &str, range: &Range<usize>, mark: u8) -> usize {
    let is_letter = |it: Option<char>| it.is_some_and(char::is_alphanumeric);
    let is_inner = |at: usize| {
        is_letter(text[..at].chars().next_back()) && is_letter(text[at + 1..].chars().next())
    };
    let found = range.clone().filter(|at| text.as_bytes()[*at] == mark);
    found.filter(|at| mark != b'_' || !is_inner(*at)).count()
}

/// Returns whether the words are inside of code, where no character is markup.
fn is_code(text: &str, range: &Range<usize>) -> bool {
    Parser::new_ext(text, dialect()).into_offset_iter().any(|(event, at)| {
        let is_code = matches!(event, Event::Start(Tag::CodeBlock(_)) | Event::Code(_));
        is_code && at.start < range.start && range.end < at.end
    })
}

/// Returns whether a line is blank or begins a new block, so that it does not continue the words
/// before it.
fn begins_block(line: &str) -> bool {
    let line = line.trim_start();
    let is_numbered = || {
        let rest = line.trim_start_matches(|it: char| it.is_ascii_digit());
        rest.len() < line.len() && rest.starts_with(['.', ')'])
    };
    line.is_empty() || line.starts_with(['-', '+', '*', '#', '>', '|', '`', '~']) || is_numbered()
}

/// Returns a suggestion's words with the line endings of the text around `at`: messages only
/// contain line feeds, whatever system they come from.
pub fn with_line_ends(words: &str, text: &str, at: usize) -> String {
    let (before, after) = text.split_at(at);
    let is_crlf = |line: &str| line.ends_with("\r\n");
    let next = after.split_inclusive('\n').next().filter(|it| it.ends_with('\n'));
    let last = before.split_inclusive('\n').rfind(|it| it.ends_with('\n'));
    let plain = words.replace("\r\n", "\n");
    match next.or(last).is_some_and(is_crlf) {
        true => plain.replace('\n', "\r\n"),
        false => plain,
    }
}

fn opening(line: &str, at: usize) -> Option<Fence> {
    let (indent, mark, length, rest) = fence(line)?;
    let info = rest.trim();
    // In an info string after backticks, further backticks make it inline code.
    if mark == b'`' && info.contains('`') {
        return None;
    }
    let is_suggestion = info.split_whitespace().next() == Some("suggestion");
    Some(Fence { at, mark, length, indent, is_suggestion, content: String::new() })
}

fn closes(open: &Fence, line: &str) -> bool {
    fence(line).is_some_and(|(_, mark, length, rest)| {
        mark == open.mark
            && length >= open.length
            && rest.chars().all(|c| matches!(c, ' ' | '\t' | '\r' | '\n'))
    })
}

/// Returns indentation, character and length of a line's fence, and the text after it.
fn fence(line: &str) -> Option<(usize, u8, usize, &str)> {
    let indent = line.bytes().take_while(|b| *b == b' ').count();
    let text = &line[indent..];
    let mark = *text.as_bytes().first().filter(|b| matches!(b, b'`' | b'~'))?;
    let length = text.bytes().take_while(|b| *b == mark).count();
    (indent <= 3 && length >= 3).then(|| (indent, mark, length, &text[length..]))
}

fn without_line_end(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pulldown_cmark::{CodeBlockKind, TagEnd};

    fn text(of: &str) -> Option<Suggestion> {
        Some(Suggestion::Text(of.to_owned()))
    }

    #[test]
    fn the_last_block_counts() {
        let message = "a\n```suggestion\none\n```\nb\n~~~ suggestion  more\ntwo\n  lines\n~~~\n";
        assert_eq!(last(message), text("two\n  lines"));
        assert_eq!(last("```suggestion\n```"), text(""));
        assert_eq!(last("```suggestion\n\n```"), text(""));
        assert_eq!(last("```suggestion\n\n\n```"), text("\n"));
        assert_eq!(last("```suggestion\r\na\r\nb\r\n```\r\n"), text("a\r\nb"));
        assert_eq!(last("  ```suggestion\n  a\n    b\n c\n  ```"), text("a\n  b\nc"));
    }

    #[test]
    fn words_get_the_line_ends_of_their_surroundings() {
        let crlf = "one\r\ntwo\r\nthree";
        for (text, at, want) in [
            (crlf, 0, "a\r\nb"),
            (crlf, 5, "a\r\nb"),
            (crlf, crlf.len(), "a\r\nb"),
            ("one\ntwo\n", 0, "a\nb"),
            // In a text with both, the line that contains the words decides.
            ("one\ntwo\r\n", 0, "a\nb"),
            ("one\ntwo\r\n", 4, "a\r\nb"),
            ("one", 0, "a\nb"),
            ("", 0, "a\nb"),
        ] {
            assert_eq!(with_line_ends("a\nb", text, at), want, "{text:?} at {at}");
            assert_eq!(with_line_ends("a\r\nb", text, at), want, "{text:?} at {at}");
        }
    }

    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        for (comment, words, want) in [
            ("", "new", "```suggestion\nnew\n```"),
            ("", "", "```suggestion\n```"),
            (" Why \n", "a\n```\nb", "Why\n\n````suggestion\na\n```\nb\n````"),
        ] {
            assert_eq!(message(comment, words).unwrap(), want);
        }
        assert_eq!(message("```rust\nx", "new").unwrap_err().code_str(), "bad_comment");
        assert_eq!(message("```suggestion\nold", "new").unwrap_err().code_str(), "bad_comment");
    }

    #[test]
    fn a_title_names_what_differs() {
        for (old, new, want) in [
            ("the old words", "the new words", "Change “old” to “new”"),
            ("the words", "the new words", "Add “new”"),
            ("the old words", "the words", "Remove “old”"),
            ("the words", "", "Remove “the words”"),
            ("a  b", "a b", "Change the spacing"),
            ("a a", "a a a", "Add “a”"),
        ] {
            assert_eq!(title(old, new), want);
        }
        let (long, other) = ("x".repeat(500), "y".repeat(500));
        for (old, new) in [(&long[..], "y"), ("y", &long), (&long, &other), (&long, &other[..20])] {
            let made = title(old, new);
            assert!(made.chars().count() <= 72 && made.ends_with('”'), "{made}");
            // It is the subject of the commit as it is.
            assert_eq!(crate::documents::commit::made_subject(&made), made);
        }
        assert!(title(&other[..20], &long).contains(&format!("“{}”", "y".repeat(20))));
    }

    #[test]
    fn words_that_cut_marks_are_edited_as_whole_lines() {
        let text = "one *two three* four\r\n- five\n- six\n\n| a | b |\n";
        let part = |from: &str, to: &str| {
            let range = text.find(from).unwrap()..text.find(to).unwrap() + to.len();
            &text[editable(text, range)]
        };
        assert_eq!(part("two", "three"), "two three");
        assert_eq!(part("one", "two"), "one *two three* four");
        assert_eq!(part("*two", "three*"), "*two three*");
        assert_eq!(part("ve", "si"), "- five\n- six");
        assert_eq!(part("a |", "b"), "| a | b |");
        assert_eq!(part("a |", "a "), "| a | b |".replace("| a | b |", "a "));
    }

    #[test]
    fn underscores_within_words_and_marks_in_code_cut_nothing() {
        let text = "a snake_case word, _so_ `x_ * y`\n\n```rust\nlet a_b = *c[0];\n```\n";
        let part = |words: &str| {
            let start = text.find(words).unwrap();
            &text[editable(text, start..start + words.len())]
        };
        for whole in ["snake_case", "a snake_c", "x_ *", "a_b", "= *c[", "let a_b = *c[0];"] {
            assert_eq!(part(whole), whole);
        }
        assert_eq!(part("_s"), "a snake_case word, _so_ `x_ * y`");
    }

    #[test]
    fn only_a_fence_by_itself_is_a_block() {
        for none in [
            "",
            "suggestion",
            "```\nx\n```",
            "```suggestions\nx\n```",
            "``suggestion\nx\n``",
            "    ```suggestion\n    x\n    ```",
            "> ```suggestion\n> x\n> ```",
            "```suggestion` x\n",
            "````md\n```suggestion\nx\n```\n````",
            "~~~\n```suggestion\nx\n```\n~~~",
        ] {
            assert_eq!(last(none), None, "{none:?}");
        }
    }

    #[test]
    fn a_closing_fence_is_at_least_as_long_and_of_the_same_mark() {
        assert_eq!(last("````suggestion\n```\n~~~~\n```` x\n`````\n"), text("```\n~~~~\n```` x"));
        assert_eq!(last("```suggestion\nx\n``"), Some(Suggestion::Open));
        assert_eq!(last("```suggestion\nx\n```\n```suggestion\ny"), Some(Suggestion::Open));
    }

    /// The same, by the parser that renders documents.
    fn by_markdown(message: &str) -> Option<String> {
        let mut found = None;
        let mut inside = None;
        for event in Parser::new(message) {
            match event {
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info)))
                    if info.split_whitespace().next() == Some("suggestion") =>
                {
                    inside = Some(String::new());
                }
                Event::Text(text) => {
                    if let Some(content) = inside.as_mut() {
                        content.push_str(&text);
                    }
                }
                Event::End(TagEnd::CodeBlock) => {
                    if let Some(content) = inside.take() {
                        found = Some(without_line_end(&content).to_owned());
                    }
                }
                _ => {}
            }
        }
        found
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config::with_cases(2_000))]
        #[test]
        fn closed_blocks_are_those_of_the_markdown_parser(lines in proptest::collection::vec(
            "( {0,5}(```|````|~~~|~~~~)( ?suggestion| ?md| *|`))| {0,5}[a-c ]{0,4}", 0..12)) {
            let message = lines.join("\n");
            let ours = last(&message);
            if ours != Some(Suggestion::Open) {
                let ours = ours.map(|it| match it {
                    Suggestion::Text(text) => text,
                    Suggestion::Open => unreachable!(),
                });
                proptest::prop_assert_eq!(ours, by_markdown(&message));
            }
        }

        #[test]
        fn what_was_put_into_a_block_comes_out(content in "[^`\r]*", before in "[a-z \n]*") {
            let message = format!("{before}\n````suggestion\n{content}\n````\nthanks");
            proptest::prop_assert_eq!(last(&message), Some(Suggestion::Text(content)));
        }

        #[test]
        fn any_words_come_out_of_a_message_as_they_are(
            words in "([`~ a-z\n#>-]|```\n|~~~suggestion\n){0,12}", comment in "[a-z`~ \n]{0,20}")
        {
            if let Ok(made) = message(&comment, &words) {
                proptest::prop_assert_eq!(last(&made), Some(Suggestion::Text(words.clone())));
            }
            let made = message("Better:", &words).unwrap();
            proptest::prop_assert_eq!(last(&made), Some(Suggestion::Text(words)));
        }

        #[test]
        fn what_is_edited_holds_what_was_selected(
            text in "([a-z*`|é \n-]|\r\n){1,60}", a: usize, b: usize) {
            let at = |it: usize| text.floor_char_boundary(it % (text.len() + 1));
            let range = at(a).min(at(b))..at(a).max(at(b));
            let wide = editable(&text, range.clone());
            proptest::prop_assert!(wide.start <= range.start && wide.end >= range.end);
            proptest::prop_assert!(text.get(wide).is_some());
        }
    }
}
