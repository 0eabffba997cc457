//! HTML within Markdown: which elements are shown, and how a text splits into tags and words.
//!
//! **Invariant:** an element or attribute that is not listed here is text.
//! **Invariant:** nothing here produces HTML; comments are not part of the visible text.

use std::borrow::Cow;
use std::ops::Range;

use pulldown_cmark::{Event, Parser};

/// Longest name of an element or attribute, in bytes.
const NAME_BYTES_MAX: usize = 32;
/// Most attributes parsed per tag.
const ATTRIBUTES_MAX: usize = 32;
/// Longest character reference, in bytes: `&CounterClockwiseContourIntegral;`.
const REFERENCE_BYTES_MAX: usize = 40;
/// Elements whose content browsers never parse as markup: all of it is text.
const RAW: &[&str] = &[
    "script",
    "style",
    "textarea",
    "title",
    "xmp",
    "iframe",
    "noembed",
    "noframes",
    "noscript",
    "plaintext",
    "template",
];

/// The kind of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Inline: within a line of text.
    Inline,
    /// Contains text but no blocks.
    Words,
    /// Contains blocks.
    Holder,
    /// Has no content.
    Void,
    /// Transparent: not shown itself, but its content is.
    Clear,
}

const ELEMENTS: &[(&str, Sort)] = &[
    ("a", Sort::Inline),
    ("abbr", Sort::Inline),
    ("b", Sort::Inline),
    ("blockquote", Sort::Holder),
    ("br", Sort::Void),
    ("caption", Sort::Holder),
    ("center", Sort::Holder),
    ("cite", Sort::Inline),
    ("code", Sort::Inline),
    ("dd", Sort::Holder),
    ("del", Sort::Inline),
    ("details", Sort::Holder),
    ("dfn", Sort::Inline),
    ("div", Sort::Holder),
    ("dl", Sort::Holder),
    ("dt", Sort::Holder),
    ("em", Sort::Inline),
    ("figcaption", Sort::Holder),
    ("figure", Sort::Holder),
    ("h1", Sort::Words),
    ("h2", Sort::Words),
    ("h3", Sort::Words),
    ("h4", Sort::Words),
    ("h5", Sort::Words),
    ("h6", Sort::Words),
    ("hr", Sort::Void),
    ("i", Sort::Inline),
    ("img", Sort::Void),
    ("ins", Sort::Inline),
    ("kbd", Sort::Inline),
    ("li", Sort::Holder),
    ("mark", Sort::Inline),
    ("ol", Sort::Holder),
    ("p", Sort::Words),
    ("picture", Sort::Clear),
    ("pre", Sort::Words),
    ("q", Sort::Inline),
    ("s", Sort::Inline),
    ("samp", Sort::Inline),
    ("section", Sort::Clear),
    ("small", Sort::Inline),
    ("source", Sort::Clear),
    ("span", Sort::Inline),
    ("strike", Sort::Inline),
    ("strong", Sort::Inline),
    ("sub", Sort::Inline),
    ("summary", Sort::Holder),
    ("sup", Sort::Inline),
    ("table", Sort::Holder),
    ("tbody", Sort::Holder),
    ("td", Sort::Holder),
    ("tfoot", Sort::Holder),
    ("th", Sort::Holder),
    ("thead", Sort::Holder),
    ("tr", Sort::Holder),
    ("tt", Sort::Inline),
    ("u", Sort::Inline),
    ("ul", Sort::Holder),
    ("var", Sort::Inline),
    ("wbr", Sort::Void),
];

/// A tag of an element that may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Its name in lower case.
    pub name: &'static str,
    /// Its kind.
    pub sort: Sort,
    /// Whether it is an end tag.
    pub is_end: bool,
    /// Names in lower case and values with resolved references; of duplicates the first counts.
    attributes: Vec<(String, String)>,
}

impl Tag {
    /// Returns the value of an attribute.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|it| it.0 == name).map(|it| it.1.as_str())
    }

    /// Returns whether it begins or ends a block.
    pub fn is_block(&self) -> bool {
        matches!(self.sort, Sort::Words | Sort::Holder) || matches!(self.name, "br" | "hr")
    }

    /// Returns the level, 1 to 6, of a heading.
    pub fn level(&self) -> Option<u8> {
        match self.name.as_bytes() {
            [b'h', digit @ b'1'..=b'6'] => Some(digit - b'0'),
            _ => None,
        }
    }
}

/// A part of HTML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The tag of an element that may be shown.
    Tag(Tag),
    /// A comment, which is not shown.
    Comment,
    /// A tag, processing instruction or declaration that is shown literally.
    Odd,
    /// Words with character references.
    Words,
    /// Literal words.
    Raw,
}

/// Splits HTML into parts, in order and without gaps.
pub fn parts(html: &str) -> Vec<(Part, Range<usize>)> {
    let mut parts: Vec<(Part, Range<usize>)> = Vec::new();
    let (mut at, mut words_from) = (0, 0);
    // An end that is missing once is not searched again: hostile text is scanned once.
    let mut ends = Ends::default();
    while let Some(next) = html[at..].find('<').map(|it| at + it) {
        let Some((part, end)) = part_at(html, next, &mut ends) else {
            at = next + 1;
            continue;
        };
        if next > words_from {
            parts.push((Part::Words, words_from..next));
        }
        let raw = raw_of(&html[next..end]).filter(|_| part == Part::Odd);
        parts.push((part, next..end));
        at = end;
        if let Some(name) = raw {
            let until = ends.of_raw(html, end, name);
            if until > end {
                parts.push((Part::Raw, end..until));
            }
            at = until;
        }
        words_from = at;
    }
    if words_from < html.len() {
        parts.push((Part::Words, words_from..html.len()));
    }
    parts
}

/// Returns words with resolved character references, in pieces: the text, and the source bytes.
pub fn resolved(words: &str) -> Vec<(Cow<'_, str>, Range<usize>)> {
    let mut pieces = Vec::new();
    let (mut from, mut at) = (0, 0);
    while let Some(start) = words[at..].find('&').map(|it| at + it) {
        at = start + 1;
        let Some((character, end)) = reference_at(words, start) else { continue };
        if start > from {
            pieces.push((Cow::Borrowed(&words[from..start]), from..start));
        }
        pieces.push((character, start..end));
        (from, at) = (end, end);
    }
    if from < words.len() {
        pieces.push((Cow::Borrowed(&words[from..]), from..words.len()));
    }
    pieces
}

/// Ends that are known to be missing, so that they are not searched again.
#[derive(Default)]
struct Ends {
    has_no_comment: bool,
    has_no_bracket: bool,
    raw_missing: Vec<&'static str>,
}

impl Ends {
    /// Returns the end of a comment; without one, the end of the block.
    fn of_comment(&mut self, html: &str, from: usize) -> usize {
        let found = (!self.has_no_comment).then(|| html[from..].find("-->")).flatten();
        self.has_no_comment |= found.is_none();
        found.map_or(html.len(), |it| from + it + 3)
    }

    /// Returns the end of a declaration or processing instruction.
    fn of_odd(&mut self, html: &str, from: usize) -> Option<usize> {
        let found = (!self.has_no_bracket).then(|| html[from..].find('>')).flatten();
        self.has_no_bracket |= found.is_none();
        found.map(|it| from + it + 1)
    }

    /// Returns the end of a raw element's content.
    fn of_raw(&mut self, html: &str, from: usize, name: &'static str) -> usize {
        if self.raw_missing.contains(&name) {
            return html.len();
        }
        let bytes = html.as_bytes();
        let is_end = |at: &usize| {
            let after = at + 2;
            bytes
                .get(after..after + name.len())
                .is_some_and(|it| it.eq_ignore_ascii_case(name.as_bytes()))
        };
        let found = html[from..].match_indices("</").map(|it| from + it.0).find(is_end);
        if found.is_none() {
            self.raw_missing.push(name);
        }
        found.unwrap_or(html.len())
    }
}

/// Parses what begins at a `<`, and returns its end; `None` if it is a literal character.
fn part_at(html: &str, at: usize, ends: &mut Ends) -> Option<(Part, usize)> {
    let rest = &html[at..];
    if rest.starts_with("<!--") {
        // `<!-->` is a complete comment.
        return Some((Part::Comment, ends.of_comment(html, at + 2)));
    }
    match rest.as_bytes().get(1)? {
        b'!' | b'?' => ends.of_odd(html, at).map(|end| (Part::Odd, end)),
        b'/' | b'a'..=b'z' | b'A'..=b'Z' => tag_at(rest).map(|(part, length)| (part, at + length)),
        _ => None,
    }
}

fn raw_of(tag: &str) -> Option<&'static str> {
    let name = tag.strip_prefix('<')?;
    let end = name.find(|it: char| !it.is_ascii_alphanumeric()).unwrap_or(name.len());
    RAW.iter().find(|it| it.eq_ignore_ascii_case(&name[..end])).copied()
}

/// Parses the tag at the start of a text; returns it with its length.
fn tag_at(text: &str) -> Option<(Part, usize)> {
    let mut reading = Reading { text, at: 1 };
    let is_end = reading.take('/');
    let name = reading.name()?.to_ascii_lowercase();
    let attributes = reading.attributes()?;
    let known = ELEMENTS.binary_search_by(|it| it.0.cmp(name.as_str())).ok();
    let part = match known.map(|it| ELEMENTS[it]) {
        Some((name, sort)) => Part::Tag(Tag { name, sort, is_end, attributes }),
        None => Part::Odd,
    };
    Some((part, reading.at))
}

/// Parses one tag.
struct Reading<'h> {
    text: &'h str,
    at: usize,
}

impl<'h> Reading<'h> {
    fn rest(&self) -> &'h str {
        &self.text[self.at..]
    }

    fn take(&mut self, character: char) -> bool {
        let is_there = self.rest().starts_with(character);
        self.at += if is_there { character.len_utf8() } else { 0 };
        is_there
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_ascii_start().len();
    }

    /// Parses an element name as a browser would, if it is short.
    fn name(&mut self) -> Option<&'h str> {
        let rest = self.rest();
        let is_end = |it: char| it.is_ascii_whitespace() || matches!(it, '/' | '>' | '<');
        let end = rest.find(is_end)?;
        let name = &rest[..end];
        let is_sound = name.starts_with(|it: char| it.is_ascii_alphabetic());
        self.at += end;
        (is_sound && end <= 4 * NAME_BYTES_MAX).then_some(name)
    }

    /// Parses the attributes up to the end of the tag; `None` if it does not end.
    fn attributes(&mut self) -> Option<Vec<(String, String)>> {
        let mut found: Vec<(String, String)> = Vec::new();
        loop {
            self.skip_space();
            while self.take('/') {
                self.skip_space();
            }
            if self.take('>') {
                return Some(found);
            }
            let rest = self.rest();
            // There is no tag within a tag: the first `<` is text.
            let is_end = |it: char| it.is_ascii_whitespace() || matches!(it, '=' | '>' | '/' | '<');
            let end = rest.find(is_end)?;
            if end == 0 {
                return None;
            }
            let name = rest[..end].to_ascii_lowercase();
            self.at += end;
            self.skip_space();
            let value = if self.take('=') { self.value()? } else { "" };
            let is_new = found.len() < ATTRIBUTES_MAX && found.iter().all(|it| it.0 != name);
            if is_new && name.len() <= NAME_BYTES_MAX {
                let value = resolved(value).into_iter().map(|it| it.0).collect();
                found.push((name, value));
            }
        }
    }

    fn value(&mut self) -> Option<&'h str> {
        self.skip_space();
        for quote in ['"', '\''] {
            if self.take(quote) {
                let rest = self.rest();
                let end = rest.find(quote)?;
                self.at += end + 1;
                return Some(&rest[..end]);
            }
        }
        let rest = self.rest();
        let end = rest.find(|it: char| it.is_ascii_whitespace() || matches!(it, '>' | '<'))?;
        self.at += end;
        Some(&rest[..end])
    }
}

/// Parses a character reference; returns its character and its end.
fn reference_at(words: &str, start: usize) -> Option<(Cow<'static, str>, usize)> {
    let rest = &words[start..words.floor_char_boundary(start + REFERENCE_BYTES_MAX)];
    let end = rest.find(';')? + 1;
    let reference = &rest[..end];
    let inner = &reference[1..end - 1];
    let name = inner.strip_prefix('#').unwrap_or(inner);
    if name.is_empty() || !name.bytes().all(|it| it.is_ascii_alphanumeric()) {
        return None;
    }
    let usual = match inner {
        "amp" => "&",
        "lt" => "<",
        "gt" => ">",
        "quot" => "\"",
        "nbsp" => "\u{a0}",
        _ => "",
    };
    if !usual.is_empty() {
        return Some((Cow::Borrowed(usual), start + end));
    }
    // The names are the same as in Markdown, so its parser resolves them.
    let found = Parser::new(reference).find_map(|event| match event {
        Event::Text(text) => Some(text.to_string()),
        _ => None,
    });
    let character = found.filter(|it| it != reference && it != "&")?;
    Some((Cow::Owned(character), start + end))
}

/// A block of HTML as the Markdown parser returns it: line by line, without block quote markers.
#[derive(Debug, Default)]
pub struct HtmlBlock {
    text: String,
    /// Where each line begins here, its source range, and whether it is byte-identical.
    lines: Vec<(usize, Range<usize>, bool)>,
}

impl HtmlBlock {
    /// Adds a line from `range` of `source`.
    pub fn push(&mut self, source: &str, line: &str, range: Range<usize>) {
        let is_literal = source.get(range.clone()) == Some(line);
        self.lines.push((self.text.len(), range, is_literal));
        self.text.push_str(line);
    }

    /// Returns its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the source range of a part.
    pub fn written(&self, part: &Range<usize>) -> Range<usize> {
        let place = |at: usize, is_end: bool| {
            let next = self.lines.partition_point(|it| if is_end { it.0 < at } else { it.0 <= at });
            let Some((from, range, is_literal)) = next.checked_sub(1).map(|it| &self.lines[it])
            else {
                return 0;
            };
            match (is_literal, is_end) {
                (true, _) => (range.start + at - from).min(range.end),
                (false, true) => range.end,
                (false, false) => range.start,
            }
        };
        place(part.start, false)..place(part.end, true)
    }

    /// Returns the pieces of words: the text, and its source range. No piece crosses a line end,
    /// where block quote markers may follow.
    pub fn words(&self, part: &Range<usize>, is_raw: bool) -> Vec<(Cow<'_, str>, Range<usize>)> {
        let mut pieces = Vec::new();
        let mut from = part.start;
        let first = self.lines.partition_point(|it| it.0 <= from);
        let ends = self.lines[first..].iter().map(|it| it.0).take_while(|it| *it < part.end);
        for end in ends.chain([part.end]) {
            let line = &self.text[from..end];
            let shown = match is_raw {
                true => vec![(Cow::Borrowed(line), 0..line.len())],
                false => resolved(line),
            };
            let place = |it: Range<usize>| self.written(&(from + it.start..from + it.end));
            pieces.extend(shown.into_iter().map(|(shown, at)| (shown, place(at))));
            from = end;
        }
        pieces
    }
}

#[cfg(test)]
mod tests;
