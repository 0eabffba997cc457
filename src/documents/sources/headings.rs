//! The outline of a Markdown text: its headings and the blocks between them, by offset.
//!
//! **Invariant:** front matter is not a heading; a hostile text costs no more than a large one.

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use crate::api::sources::{BlockKind, Heading};
use crate::base::truncate_chars;
use crate::documents::sources::html::{HtmlBlock, Part, parts};
use crate::documents::sources::plain::dialect;

/// Most headings per text.
pub const HEADINGS_MAX: usize = crate::base::limit::HEADINGS_MAX;
/// Longest text of a heading, in characters.
const HEADING_CHARS_MAX: usize = 200;

/// The headings and blocks of a text, built once for all its offsets.
#[derive(Debug, Default)]
pub struct Outline {
    headings: Vec<Heading>,
    blocks: Vec<Block>,
}

#[derive(Debug)]
struct Block {
    start: u32,
    end: u32,
    /// One plus the number of the enclosing block; zero if there is none.
    parent: u32,
    kind: BlockKind,
}

impl Outline {
    /// Parses a text.
    pub fn of(text: &str) -> Outline {
        // A byte order mark would turn the first heading into a paragraph.
        let body = text.strip_prefix('\u{feff}').unwrap_or(text);
        let shift = text.len() - body.len();
        let mut outline = Outline::default();
        let mut open: Vec<u32> = Vec::new();
        let mut heading: Option<Heading> = None;
        let mut html = HtmlBlock::default();
        for (event, range) in Parser::new_ext(body, dialect()).into_offset_iter() {
            match event {
                Event::Start(tag) => {
                    if let Tag::Heading { level, .. } = tag {
                        let start = range.start + shift;
                        heading = Some(Heading { level: level as u8, text: String::new(), start });
                    }
                    if let Some(kind) = kind_of(&tag) {
                        let parent = open.last().copied().unwrap_or(0);
                        let (start, end) = (range.start + shift, range.end + shift);
                        outline.blocks.push(Block {
                            start: narrow(start),
                            end: narrow(end),
                            parent,
                            kind,
                        });
                        open.push(narrow(outline.blocks.len()));
                    }
                }
                Event::End(tag) => {
                    match tag {
                        TagEnd::Heading(_) => outline.headings.extend(heading.take()),
                        TagEnd::HtmlBlock => {
                            outline.headings.extend(headings_of(&std::mem::take(&mut html)));
                        }
                        _ => {}
                    }
                    if is_block_end(tag) {
                        open.pop();
                    }
                }
                Event::Html(line) => {
                    html.push(text, &line, range.start + shift..range.end + shift);
                }
                Event::Text(part) | Event::Code(part) => {
                    if let Some(heading) = &mut heading {
                        heading.text.push_str(&part);
                    }
                }
                Event::SoftBreak | Event::HardBreak => {
                    if let Some(heading) = &mut heading {
                        heading.text.push(' ');
                    }
                }
                _ => {}
            }
            outline.headings.truncate(HEADINGS_MAX);
        }
        for heading in &mut outline.headings {
            heading.text = truncate_chars(heading.text.trim(), HEADING_CHARS_MAX);
        }
        outline
    }

    /// Returns the headings in order.
    pub fn headings(&self) -> &[Heading] {
        &self.headings
    }

    /// Returns the texts of the headings above an offset, outermost first. A heading's own text
    /// counts as below it.
    pub fn path(&self, offset: usize) -> Vec<String> {
        let above = self.headings.partition_point(|it| it.start <= offset);
        let mut path = Vec::new();
        let mut level = u8::MAX;
        for heading in self.headings[..above].iter().rev() {
            if heading.level < level {
                level = heading.level;
                path.push(heading.text.clone());
            }
            if level == 1 {
                break;
            }
        }
        path.reverse();
        path
    }

    /// Returns the kind of block at an offset.
    pub fn kind(&self, offset: usize) -> BlockKind {
        let offset = narrow(offset);
        let mut next = narrow(self.blocks.partition_point(|it| it.start <= offset));
        let mut found = None;
        while let Some(block) = next.checked_sub(1).and_then(|it| self.blocks.get(it as usize)) {
            if offset < block.end {
                if block.kind != BlockKind::Paragraph {
                    return block.kind;
                }
                found = Some(BlockKind::Paragraph);
            }
            // The preceding block is a child of the same parents, or a parent itself.
            next = block.parent;
        }
        found.unwrap_or(BlockKind::Other)
    }
}

/// Returns the non-empty headings in a block of HTML.
fn headings_of(html: &HtmlBlock) -> Vec<Heading> {
    let mut found = Vec::new();
    let mut open: Option<Heading> = None;
    for (part, range) in parts(html.text()) {
        match part {
            Part::Tag(tag) if tag.is_block() && tag.name != "br" => {
                found.extend(open.take());
                if let Some(level) = tag.level().filter(|_| !tag.is_end) {
                    let start = html.written(&range).start;
                    open = Some(Heading { level, text: String::new(), start });
                }
            }
            Part::Words => {
                if let Some(heading) = &mut open {
                    let words = html.words(&range, false);
                    heading.text.extend(words.into_iter().map(|it| it.0));
                }
            }
            _ => {}
        }
    }
    found.extend(open);
    found.retain(|it| !it.text.trim().is_empty());
    found
}

/// Returns the headings of a text in order.
pub fn headings(text: &str) -> Vec<Heading> {
    Outline::of(text).headings
}

/// Returns the headings above an offset; for several offsets use [`Outline`].
pub fn heading_path(text: &str, offset: usize) -> Vec<String> {
    Outline::of(text).path(offset)
}

/// Returns the kind of block at an offset; for several offsets use [`Outline`].
pub fn block_kind(text: &str, offset: usize) -> BlockKind {
    Outline::of(text).kind(offset)
}

fn narrow(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

fn kind_of(tag: &Tag<'_>) -> Option<BlockKind> {
    match tag {
        Tag::Paragraph => Some(BlockKind::Paragraph),
        Tag::Heading { .. } => Some(BlockKind::Heading),
        Tag::BlockQuote(_) => Some(BlockKind::Quote),
        Tag::CodeBlock(_) => Some(BlockKind::Code),
        Tag::HtmlBlock => Some(BlockKind::Html),
        Tag::Item => Some(BlockKind::ListItem),
        Tag::FootnoteDefinition(_) => Some(BlockKind::Footnote),
        Tag::Table(_) => Some(BlockKind::Table),
        Tag::MetadataBlock(_) => Some(BlockKind::FrontMatter),
        _ => None,
    }
}

fn is_block_end(tag: TagEnd) -> bool {
    matches!(
        tag,
        TagEnd::Paragraph
            | TagEnd::Heading(_)
            | TagEnd::BlockQuote(_)
            | TagEnd::CodeBlock
            | TagEnd::HtmlBlock
            | TagEnd::Item
            | TagEnd::FootnoteDefinition
            | TagEnd::Table
            | TagEnd::MetadataBlock(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str, word: &str) -> String {
        heading_path(text, text.find(word).unwrap()).join("/")
    }

    fn kind(text: &str, word: &str) -> &'static str {
        block_kind(text, text.find(word).unwrap()).as_str()
    }

    #[test]
    fn headings_have_plain_text_and_their_offset() {
        let text = "# A *b* `c`\n\nx\n\nSet\next\n---\n\n```\n# no\n```\n> ## Q\n";
        let found: Vec<_> = headings(text).into_iter().map(|it| (it.level, it.text)).collect();
        let expected = [(1, "A b c"), (2, "Set ext"), (2, "Q")].map(|(a, b)| (a, b.to_owned()));
        assert_eq!(found, expected);
        for heading in headings(text) {
            assert!(text[heading.start..].starts_with(['#', 'S']));
        }
    }

    #[test]
    fn headings_are_those_that_the_page_shows() {
        let text = "# A ~~b~~ c\n\n> [!NOTE]\n> ---\n> [!TIP]\n> ## In it\n> - [x] done\n";
        let found: Vec<_> = headings(text).into_iter().map(|it| it.text).collect();
        assert_eq!(found, ["A b c", "In it"]);
        assert_eq!((kind(text, "[!NOTE]"), kind(text, "done")), ("quote", "list_item"));
    }

    #[test]
    fn headings_of_html_count_by_their_words() {
        let text = "# A <sup>b</sup> <!-- c -->\n\n<h1 align=\"center\">\n  T &amp; <b>U</b>\n\
            </h1>\n\n<h2><img src=x.png></h2>\n\n<div><h3>V<p>w</div>\n";
        let found = headings(text);
        let shown: Vec<_> = found.iter().map(|it| (it.level, it.text.as_str())).collect();
        assert_eq!(shown, [(1, "A b"), (1, "T & U"), (3, "V")]);
        assert!(found.iter().all(|it| text[it.start..].starts_with(['#', '<'])));
    }

    #[test]
    fn a_path_holds_the_headings_above() {
        let text = "top\n# A\na\n### C\nc\n## B\nb\n# D\nd1\n";
        assert_eq!(path(text, "top"), "");
        assert_eq!(path(text, "a\n"), "A");
        assert_eq!(path(text, "c\n"), "A/C");
        assert_eq!(path(text, "b\n"), "A/B");
        assert_eq!(path(text, "d1"), "D");
        assert_eq!(path(text, "C\n"), "A/C");
        assert_eq!(heading_path(text, usize::MAX), ["D"]);
    }

    #[test]
    fn front_matter_is_no_heading() {
        let text = "---\ntitle: x\n---\n# A\n";
        assert_eq!(headings(text).len(), 1);
        assert_eq!(kind(text, "title"), "front_matter");
        let marked = "\u{feff}# A\n\ntext\n";
        assert_eq!(headings(marked), [Heading { level: 1, text: "A".into(), start: 3 }]);
        assert_eq!(path(marked, "text"), "A");
        assert_eq!(headings("# A\r\n\r\nb\r\n")[0].text, "A");
    }

    #[test]
    fn blocks_have_kinds() {
        let text = "# head\n\npara\n\n- item\n\n  more\n  - deep\n\n  last\n\n> quo\n\n\
            |a|b|\n|-|-|\n|cell|d|\n\n    code\n\n<div>html</div>\n\n[^1]: foot\n\nx[^1]\n";
        for (word, expected) in [
            ("head", "heading"),
            ("para", "paragraph"),
            ("item", "list_item"),
            ("more", "list_item"),
            ("deep", "list_item"),
            ("last", "list_item"),
            ("quo", "quote"),
            ("cell", "table"),
            ("code", "code"),
            ("html", "html"),
            ("foot", "footnote"),
        ] {
            assert_eq!(kind(text, word), expected, "{word}");
        }
        assert_eq!(block_kind("", 0), BlockKind::Other);
        assert_eq!(block_kind("a\n\n\n\nb", 3), BlockKind::Other);
        assert_eq!(block_kind("> ```\n> x\n> ```\n", 8), BlockKind::Code);
    }

    #[test]
    fn hostile_texts_are_bounded() {
        let many = "# h\n".repeat(HEADINGS_MAX + 10);
        assert_eq!(headings(&many).len(), HEADINGS_MAX);
        assert_eq!(heading_path(&many, many.len()).len(), 1);
        let long = format!("# {}\n", "x".repeat(100_000));
        assert_eq!(headings(&long)[0].text.chars().count(), HEADING_CHARS_MAX + 1);
        for deep in
            ["> ".repeat(20_000), "- ".repeat(20_000), "[".repeat(50_000), "*".repeat(50_000)]
        {
            let text = format!("{deep}end");
            let _kind = block_kind(&text, text.len() - 1);
        }
    }
}
