//! An HTML page as text for a model: headings, paragraphs, lists and links, in the style of
//! Markdown.
//!
//! **Invariant:** the time is linear in the size of the page, and nothing in a page is run or
//! fetched.

use crate::outbound::WebUrl;

/// Elements whose content is skipped.
const SKIPPED: [&str; 11] = [
    "script", "style", "noscript", "template", "svg", "math", "iframe", "object", "canvas",
    "select", "textarea",
];
/// Block elements.
const BLOCKS: [&str; 27] = [
    "p",
    "div",
    "section",
    "article",
    "aside",
    "header",
    "footer",
    "main",
    "nav",
    "ul",
    "ol",
    "dl",
    "dt",
    "dd",
    "table",
    "blockquote",
    "figure",
    "figcaption",
    "form",
    "fieldset",
    "pre",
    "address",
    "hr",
    "details",
    "summary",
    "title",
    "head",
];
/// Named characters.
const NAMED: [(&str, char); 28] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", ' '),
    ("ndash", '–'),
    ("mdash", '—'),
    ("hellip", '…'),
    ("lsquo", '‘'),
    ("rsquo", '’'),
    ("ldquo", '“'),
    ("rdquo", '”'),
    ("bdquo", '„'),
    ("laquo", '«'),
    ("raquo", '»'),
    ("bull", '•'),
    ("middot", '·'),
    ("copy", '©'),
    ("reg", '®'),
    ("trade", '™'),
    ("euro", '€'),
    ("pound", '£'),
    ("sect", '§'),
    ("deg", '°'),
    ("times", '×'),
    ("rarr", '→'),
    ("larr", '←'),
];
/// Longest character name, in bytes.
const ENTITY_BYTES_MAX: usize = 10;

/// Returns the text of a page with this address.
pub(super) fn text_of(html: &str, base: &WebUrl) -> String {
    let mut page = Page {
        html,
        lower: html.to_ascii_lowercase(),
        at: 0,
        base,
        text: String::new(),
        pre: 0,
        link: None,
        has_quotes: true,
    };
    page.read();
    let mut text = String::with_capacity(page.text.len());
    let mut empty = 0;
    for line in page.text.lines() {
        let line = line.trim_end();
        empty = if line.is_empty() { empty + 1 } else { 0 };
        if empty < 2 {
            text.push_str(line);
            text.push('\n');
        }
    }
    text.trim_matches('\n').to_owned()
}

struct Page<'a> {
    html: &'a str,
    /// The same in lowercase, byte by byte.
    lower: String,
    at: usize,
    base: &'a WebUrl,
    text: String,
    /// Depth of elements that preserve spaces.
    pre: usize,
    /// The target of the current link, and the start of its text.
    link: Option<(String, usize)>,
    /// Whether quotes of attributes are respected: no longer after one that does not end.
    has_quotes: bool,
}

impl<'a> Page<'a> {
    fn read(&mut self) {
        while let Some(place) = self.html[self.at..].find('<') {
            let text = &self.html[self.at..self.at + place];
            self.say(text);
            self.at += place;
            if !self.markup() {
                self.say("<");
                self.at += 1;
            }
        }
        let rest = &self.html[self.at..];
        self.say(rest);
    }

    /// Reads what begins with `<`. Returns whether it is markup.
    fn markup(&mut self) -> bool {
        let rest = &self.html[self.at..];
        if rest.starts_with("<!--") {
            self.at = rest.find("-->").map_or(self.html.len(), |it| self.at + it + 3);
            return true;
        }
        let is_end = rest.starts_with("</");
        let begins = rest[1 + usize::from(is_end)..].chars().next();
        if !is_end && matches!(begins, Some('!' | '?')) {
            self.at = rest.find('>').map_or(self.html.len(), |it| self.at + it + 1);
            return true;
        }
        if !begins.is_some_and(|it| it.is_ascii_alphabetic()) {
            return false;
        }
        let start = self.at + 1 + usize::from(is_end);
        let end = self.end_of_tag(start);
        let (tag, lower) = (&self.html[start..end], &self.lower[start..end]);
        let name_end = lower.find(|it: char| !it.is_ascii_alphanumeric()).unwrap_or(lower.len());
        let (name, attributes) = (lower[..name_end].to_owned(), &tag[name_end..]);
        self.at = (end + 1).min(self.html.len());
        if !is_end && SKIPPED.contains(&name.as_str()) && !attributes.ends_with('/') {
            let close = format!("</{name}");
            self.at = self.lower[self.at..].find(&close).map_or(self.html.len(), |it| self.at + it);
            return true;
        }
        match is_end {
            true => self.close(&name),
            false => self.open(&name, attributes),
        }
        true
    }

    /// Returns the end of the current tag: its `>` outside of quotes.
    fn end_of_tag(&mut self, start: usize) -> usize {
        let (mut quote, mut first) = (None, None);
        for (place, byte) in self.html.as_bytes()[start..].iter().enumerate() {
            let (place, byte) = (start + place, *byte);
            match (byte, quote) {
                (b'>', None) => return place,
                (b'>', Some(_)) if first.is_none() => first = Some(place),
                (b'"' | b'\'', None) if self.has_quotes => quote = Some(byte),
                (byte, Some(open)) if byte == open => quote = None,
                _ => {}
            }
        }
        self.has_quotes &= quote.is_none();
        first.unwrap_or(self.html.len())
    }

    fn open(&mut self, name: &str, attributes: &str) {
        match name {
            "br" => self.text.push('\n'),
            "hr" => self.paragraph("---\n"),
            "li" => self.line("- "),
            "tr" => self.line(""),
            "td" | "th" => self.say(" | "),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                let depth = name[1..].parse().unwrap_or(1);
                self.paragraph(&format!("{} ", "#".repeat(depth)));
            }
            "a" => {
                self.close_link();
                let to = attribute(attributes, "href").and_then(|it| self.base.join(&it).ok());
                self.link = to.map(|it| (it.to_string(), self.text.len()));
            }
            "img" => {
                let about = attribute(attributes, "alt").unwrap_or_default();
                if !about.trim().is_empty() {
                    self.say(&format!(" [image: {}] ", about.trim()));
                }
            }
            "pre" => {
                self.paragraph("");
                self.pre += 1;
            }
            name if BLOCKS.contains(&name) => self.paragraph(""),
            _ => {}
        }
    }

    fn close(&mut self, name: &str) {
        match name {
            "a" => self.close_link(),
            "li" | "tr" => self.line(""),
            "pre" => {
                self.pre = self.pre.saturating_sub(1);
                self.paragraph("");
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.paragraph(""),
            name if BLOCKS.contains(&name) => self.paragraph(""),
            _ => {}
        }
    }

    fn close_link(&mut self) {
        let Some((to, from)) = self.link.take() else { return };
        // A fragment leads within the page; a link without text is dropped.
        let words = self.text.get(from..).unwrap_or_default().trim();
        if !words.is_empty() && words != to {
            self.text.push_str(&format!(" ({to})"));
        }
    }

    /// Starts a new line, unless this one is empty.
    fn line(&mut self, with: &str) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.text.push_str(with);
    }

    /// Starts a new paragraph.
    fn paragraph(&mut self, with: &str) {
        self.line("");
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
        self.text.push_str(with);
    }

    /// Adds text.
    fn say(&mut self, words: &str) {
        let mut rest = words;
        while let Some(it) = rest.chars().next() {
            let (letter, bytes) = match it {
                '&' => entity(rest).unwrap_or(('&', 1)),
                it => (it, it.len_utf8()),
            };
            rest = &rest[bytes..];
            let is_space = letter.is_whitespace();
            if letter.is_control() && !is_space {
                continue;
            }
            if self.pre > 0 || !is_space {
                self.text.push(letter);
            } else if !self.text.is_empty() && !self.text.ends_with([' ', '\n']) {
                self.text.push(' ');
            }
        }
    }
}

/// Returns the character of a `&name;` at the start of a text, and its length in bytes.
fn entity(text: &str) -> Option<(char, usize)> {
    let end = text.bytes().take(ENTITY_BYTES_MAX + 2).position(|it| it == b';')?;
    let name = text.get(1..end)?;
    let letter = match name.strip_prefix('#') {
        Some(number) => {
            let number = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(number)?
        }
        None => NAMED.iter().find(|it| it.0 == name)?.1,
    };
    Some((letter, end + 1))
}

/// Returns the value of an attribute.
fn attribute(attributes: &str, name: &str) -> Option<String> {
    let mut rest = attributes;
    loop {
        rest = rest.trim_start_matches(|it: char| it.is_whitespace() || it == '/');
        let end = rest.find(|it: char| it.is_whitespace() || it == '=').unwrap_or(rest.len());
        if end == 0 {
            // An `=` without a name.
            rest = rest.strip_prefix('=')?;
            continue;
        }
        let (key, after) = rest.split_at(end);
        let after = after.trim_start();
        let Some(value) = after.strip_prefix('=') else {
            rest = after;
            continue;
        };
        let value = value.trim_start();
        let quote = value.chars().next().filter(|it| matches!(it, '"' | '\''));
        let (value, after) = match quote {
            Some(quote) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
            None => value.split_at(value.find(char::is_whitespace).unwrap_or(value.len())),
        };
        if key.eq_ignore_ascii_case(name) {
            let mut letters = String::new();
            let mut rest = value;
            while let Some(it) = rest.chars().next() {
                let (letter, bytes) = entity(rest).unwrap_or((it, it.len_utf8()));
                letters.push(letter);
                rest = &rest[bytes..];
            }
            return Some(letters);
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(html: &str) -> String {
        text_of(html, &"https://example.org/a/b".parse().unwrap())
    }

    #[test]
    fn a_page_is_read_as_its_reader_sees_it() {
        let html = "<!DOCTYPE html><html><head><title>The  page</title><style>p { x: \"</p>\" }\
            </style><script>if (a < b) { alert('<p>no</p>') }</script></head><body>\
            <!-- <p>hidden</p> --><nav><a href='/'>Home</a></nav>\
            <h2>One &amp; two</h2><p>Some\n  <b>bold</b> w&#111;rds&nbsp;&mdash; \
            <a href=\"../c?x=1&amp;y=2\" title='a > b'>a link</a>.<br>Next</p>\
            <ul><li>first<li>second</ul><pre>a\n  b</pre>\
            <table><tr><td>1</td><td>2</td></tr></table><img src=x alt=\"a cat\">\
            <a href='javascript:alert(1)'>run</a> <a href=\"https://example.org/z\"></a></body>";
        let expected = "The page\n\nHome (https://example.org/)\n\n## One & two\n\n\
            Some bold words — a link (https://example.org/c?x=1&y=2).\nNext\n\n\
            - first\n- second\n\na\n  b\n\n| 1 | 2\n\n[image: a cat] run";
        assert_eq!(text(html), expected);
    }

    #[test]
    fn what_is_broken_ends_somewhere() {
        for (html, expected) in [
            ("a < b <3 </ <", "a < b <3 </ <"),
            ("<p", ""),
            ("x<a href=\"y>z", "xz"),
            ("<script>never", ""),
            ("<!-- never", ""),
            (
                "a&b &amp &unknown; &#0;&#xD800;&#99999999;&;",
                "a&b &amp &unknown; &#xD800;&#99999999;&;",
            ),
            ("\u{0}\u{1b}[31mred", "[31mred"),
            ("</p></a></pre>x", "x"),
            ("<A HREF=x>ü</A>", "ü (https://example.org/a/x)"),
            ("<a =x href>ü</a>", "ü"),
        ] {
            assert_eq!(text(html), expected, "{html:?}");
        }
    }

    /// With quadratic time, this would exceed the time limit of the tests.
    #[test]
    fn a_hostile_page_takes_no_longer_than_another() {
        for piece in
            ["<a \"", "<", "<a<", "&#", "<!--", "<a href='", "<script>", "</script", "<a >"]
        {
            text(&piece.repeat(256 * 1024 / piece.len()));
        }
    }
}
