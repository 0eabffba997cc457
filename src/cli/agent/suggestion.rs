//! Suggestion blocks: what a reader wants in place of the anchored words.

/// What a message says in its last suggestion block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Suggestion {
    /// These words; none means that the anchored words go.
    Text(String),
    /// The block has no closing fence: it may be cut off.
    Open,
}

/// An open fence.
struct Fence {
    mark: u8,
    length: usize,
    indent: usize,
    is_suggestion: bool,
    content: String,
}

/// Returns the last block of a message whose info string begins with the word `suggestion`.
///
/// The rules of a fence are CommonMark's, for blocks that stand by themselves and not in a quote:
/// three or more backticks or tildes, indented by three spaces at most; the closing fence is of the
/// same mark and at least as long. Line ends inside stay as they are; the last one is not content.
pub(super) fn last(message: &str) -> Option<Suggestion> {
    let mut found = None;
    let mut open: Option<Fence> = None;
    for line in message.split_inclusive('\n') {
        match open.as_mut() {
            None => open = opening(line),
            Some(fence) if closes(fence, line) => {
                if fence.is_suggestion {
                    found = Some(Suggestion::Text(without_line_end(&fence.content).to_owned()));
                }
                open = None;
            }
            Some(fence) => {
                let indent = line.bytes().take(fence.indent).take_while(|b| *b == b' ').count();
                fence.content.push_str(&line[indent..]);
            }
        }
    }
    match open {
        Some(fence) if fence.is_suggestion => Some(Suggestion::Open),
        _ => found,
    }
}

/// Returns a suggestion's words with the line ends that the text has around `at`: a message has
/// only line feeds, whatever system it was written on.
pub(super) fn with_line_ends(words: &str, text: &str, at: usize) -> String {
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

fn opening(line: &str) -> Option<Fence> {
    let (indent, mark, length, rest) = fence(line)?;
    let info = rest.trim();
    // Backticks after backticks are code in a line of text.
    if mark == b'`' && info.contains('`') {
        return None;
    }
    let is_suggestion = info.split_whitespace().next() == Some("suggestion");
    Some(Fence { mark, length, indent, is_suggestion, content: String::new() })
}

fn closes(open: &Fence, line: &str) -> bool {
    fence(line).is_some_and(|(_, mark, length, rest)| {
        mark == open.mark
            && length >= open.length
            && rest.chars().all(|c| matches!(c, ' ' | '\t' | '\r' | '\n'))
    })
}

/// Returns indentation, mark and length of a line's fence, and what stands behind it.
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
    use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

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
            // Of a text with both, the line counts in which the words stand.
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

    /// The same by the parser that renders documents.
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
    }
}
