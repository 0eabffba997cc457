//! Markdown as a reader sees it: the words without markup, with their source ranges.
//!
//! **Invariant:** only spaces are added: whoever shows the text escapes it.

use std::ops::Range;

use pulldown_cmark::{BlockQuoteKind, Event, Options, Parser, Tag, TagEnd};

use crate::documents::sources::html::{HtmlBlock, Part, parts};

/// The visible text of a document.
#[derive(Debug, Default)]
pub struct Plain {
    /// The visible text; a space separates blocks, cells and lines.
    pub text: String,
    runs: Vec<Run>,
}

/// Words that are contiguous both in the Markdown and in the visible text.
#[derive(Debug)]
struct Run {
    /// Its first byte in the visible text.
    at: usize,
    /// Its length in the visible text.
    bytes: usize,
    /// Its source range.
    from: Range<usize>,
    /// Whether source and visible text are byte-identical.
    is_literal: bool,
}

/// Returns the Markdown options of all pages, which also define the visible text.
pub fn dialect() -> Options {
    Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_GFM
        | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS
}

/// Returns the title of an alert, which its source only gives as a marker (`[!NOTE]`).
pub fn alert_title(kind: BlockQuoteKind) -> &'static str {
    match kind {
        BlockQuoteKind::Note => "Note",
        BlockQuoteKind::Tip => "Tip",
        BlockQuoteKind::Important => "Important",
        BlockQuoteKind::Warning => "Warning",
        BlockQuoteKind::Caution => "Caution",
    }
}

/// Returns whether a file name is that of a Markdown document.
pub fn is_markdown(path: &str) -> bool {
    let ending = path.rsplit_once('.').map_or("", |it| it.1);
    ["md", "markdown", "mdown", "mkd"].iter().any(|it| ending.eq_ignore_ascii_case(it))
}

impl Plain {
    /// Returns the visible text.
    pub fn of(text: &str) -> Plain {
        Plain::beginning(text, usize::MAX)
    }

    /// Returns the visible text up to the first words beyond a number of bytes.
    pub fn beginning(text: &str, bytes_max: usize) -> Plain {
        // A byte order mark would turn the first heading into a paragraph.
        let body = text.strip_prefix('\u{feff}').unwrap_or(text);
        let shift = text.len() - body.len();
        let mut plain = Plain::default();
        let mut html = None;
        for (event, range) in Parser::new_ext(body, dialect()).into_offset_iter() {
            plain.take(text, event, range.start + shift..range.end + shift, &mut html);
            if plain.text.len() > bytes_max {
                break;
            }
        }
        plain
    }

    fn take(
        &mut self,
        text: &str,
        event: Event<'_>,
        range: Range<usize>,
        html: &mut Option<HtmlBlock>,
    ) {
        match event {
            Event::Start(Tag::HtmlBlock) => *html = Some(HtmlBlock::default()),
            Event::End(TagEnd::HtmlBlock) => {
                self.part();
                self.push_html(text, &html.take().unwrap_or_default());
                self.part();
            }
            Event::Html(it) | Event::InlineHtml(it) | Event::Text(it) if html.is_some() => {
                if let Some(block) = html {
                    block.push(text, &it, range);
                }
            }
            Event::Html(it) | Event::InlineHtml(it) => {
                let mut tag = HtmlBlock::default();
                tag.push(text, &it, range);
                self.push_html(text, &tag);
            }
            Event::Text(it) | Event::InlineMath(it) | Event::DisplayMath(it) => {
                self.push(text, &it, range);
            }
            Event::Code(it) => {
                // The range includes the backticks, and any block quote markers inside.
                let begins = text.get(range.clone()).and_then(|code| code.find(&*it));
                let inner = begins.map(|at| range.start + at..range.start + at + it.len());
                self.push(text, &it, inner.unwrap_or(range));
            }
            Event::End(
                TagEnd::Emphasis
                | TagEnd::Strong
                | TagEnd::Strikethrough
                | TagEnd::Link
                | TagEnd::Image,
            )
            | Event::Start(Tag::Emphasis | Tag::Strong | Tag::Strikethrough)
            | Event::Start(Tag::Link { .. } | Tag::Image { .. })
            | Event::FootnoteReference(_)
            | Event::TaskListMarker(_) => {}
            _ => self.part(),
        }
    }

    /// Adds the visible text of HTML, including that of images.
    fn push_html(&mut self, text: &str, block: &HtmlBlock) {
        for (part, range) in parts(block.text()) {
            let written = block.written(&range);
            match part {
                Part::Comment => {}
                Part::Tag(tag) if tag.is_block() => self.part(),
                Part::Tag(tag) => {
                    let words = tag.value("alt").filter(|_| tag.name == "img" && !tag.is_end);
                    self.push(text, words.unwrap_or_default(), written);
                }
                Part::Odd => self.push(text, &block.text()[range], written),
                Part::Words | Part::Raw => {
                    for (shown, at) in block.words(&range, part == Part::Raw) {
                        match shown.trim().is_empty() {
                            true => self.part(),
                            false => self.push(text, &shown, at),
                        }
                    }
                }
            }
        }
    }

    fn push(&mut self, text: &str, shown: &str, from: Range<usize>) {
        if !shown.is_empty() {
            let is_literal = text.get(from.clone()) == Some(shown);
            self.runs.push(Run { at: self.text.len(), bytes: shown.len(), from, is_literal });
            self.text.push_str(shown);
        }
    }

    fn part(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with(char::is_whitespace) {
            self.text.push(' ');
        }
    }

    /// Returns the visible range of source bytes; `None` if none of them is visible.
    pub fn place_of(&self, bytes: &Range<usize>) -> Option<Range<usize>> {
        let first = self.runs.partition_point(|it| it.from.end <= bytes.start);
        let runs = self.runs[first..].iter().take_while(|it| it.from.start < bytes.end);
        let places = runs.map(|it| it.place_of(bytes));
        places.reduce(|all, it| all.start.min(it.start)..all.end.max(it.end))
    }
}

impl Run {
    fn place_of(&self, bytes: &Range<usize>) -> Range<usize> {
        let all = self.at..self.at + self.bytes;
        if !self.is_literal {
            return all;
        }
        let start = all.start + bytes.start.clamp(self.from.start, self.from.end) - self.from.start;
        let end = all.start + bytes.end.clamp(self.from.start, self.from.end) - self.from.start;
        start..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the visible text, and that each word is found at its source range.
    fn check(text: &str, seen: &str, words: &[&str]) {
        let plain = Plain::of(text);
        assert_eq!(plain.text.trim_end(), seen);
        for word in words {
            let at = text.find(word).unwrap();
            let place = plain.place_of(&(at..at + word.len())).unwrap();
            assert_eq!(&plain.text[place], *word, "{text:?}");
        }
    }

    #[test]
    fn words_stay_and_marks_go() {
        check("# Better *words*\n\n- [x] a `co*de`", "Better words a co*de", &["words", "o*d"]);
        check("**bo**ld [link](x.md \"t\") ![alt](y.png)", "bold link alt", &["ld", "lin", "alt"]);
        check("| a | b |\n|---|--:|\n| c*d* | e\\|f |\n", "a b cd e|f", &["a", "f"]);
        check("x\ny ~~z~~\\\nw&amp;v \\*u", "x y z w&v *u", &["z", "v", "*u"]);
        check("> q\n> r\n\n1. s[^n]\n\n[^n]: t\n", "q r s t", &["q", "r", "s"]);
        check("```rust\nlet x = 1;\n```\n\n    four\n", "let x = 1;\nfour", &["x = 1", "our"]);
        check("<b>x</b> <!-- y -->\n", "x", &["x"]);
        check("a<br>b <kbd>Ctrl</kbd><!-- c --> d", "a b Ctrl d", &["Ctrl", "a"]);
        check("> <p>x &amp;\n> <b>y</b>\n> <img alt='z' src=a.png></p>\n", "x & y z", &["y", "z"]);
        check("<details><summary>q</summary>\n\n*n*\n\n</details>\n", "q n", &["q", "n"]);
        check("<!-- a\n\nb -->\n\nx <my-tag> y", "x <my-tag> y", &["<my-tag>"]);
        check("<script>\nx < 1\n</script>", "<script> x < 1\n</script>", &["x < 1"]);
        check("\u{feff}# é *日本*語\r\n\r\nü", "é 日本語 ü", &["é", "本", "ü"]);
        check("---\ntitle: T\n---\n\n# H", "title: T\nH", &["T", "H"]);
        check("[a]: http://x.y\n\n``a`b`` [a]", "a`b a", &["a`b"]);
        check("", "", &[]);
    }

    #[test]
    fn what_is_not_seen_has_no_place() {
        let text = "a [b](http://c.d \"e\") **f**";
        let plain = Plain::of(text);
        for hidden in ["http", "c.d", "e\"", "**"] {
            let at = text.find(hidden).unwrap();
            assert_eq!(plain.place_of(&(at..at + hidden.len())), None, "{hidden}");
        }
        // A range across markup is found from its first to its last word.
        assert_eq!(plain.place_of(&(0..text.len())), Some(0..plain.text.trim_end().len()));
        let entity = Plain::of("x &auml; y");
        assert_eq!(entity.place_of(&(3..5)), Some(2..4), "a whole letter");
        // Code continued after a block quote marker is not byte-identical: it is found as a whole.
        let quoted = Plain::of("> é`[日\r\t>`");
        assert_eq!(quoted.place_of(&(6..10)).map(|it| &quoted.text[it]), Some("[日 "));
        assert_eq!(Plain::beginning(&"ü ".repeat(9_000), 4).text.len() / 3, 8_999);
        assert_eq!(Plain::beginning(&"ü\n\n".repeat(9_000), 4).text, "ü ü");
    }

    #[test]
    fn a_document_is_read_as_markdown_by_its_name() {
        assert!(is_markdown("a/b.MD") && !is_markdown("md") && !is_markdown("a.txt"));
    }

    proptest::proptest! {
        #[test]
        fn every_place_is_one_of_the_text(
            text in "[a&;é日 *_`~|>#\\[\\]()<\\\\:\n\r\t^!-]{0,60}",
            from in 0_usize..60, bytes in 1_usize..9,
        ) {
            let plain = Plain::of(&text);
            let from = text.floor_char_boundary(from);
            let to = text.floor_char_boundary(from + bytes);
            if let Some(place) = plain.place_of(&(from..to)) {
                proptest::prop_assert!(plain.text.get(place.clone()).is_some(), "{place:?}");
            }
        }
    }
}
