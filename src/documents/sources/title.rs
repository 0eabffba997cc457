//! The title of a document: the `title` of its front matter, else its first heading, else the name
//! of its file.
//!
//! **Invariant:** a title is one line of limited length without control characters.

use std::collections::HashMap;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use crate::base::{Result, SourcePath, split_front_matter, truncate_chars};
use crate::documents::git::{Repo, blocking};
use crate::documents::sources::html::{Part, parts};
use crate::documents::sources::plain::{dialect, is_markdown};

/// How much of a text is searched for its title, in bytes.
const BEGINNING_BYTES_MAX: usize = 64 * 1024;
/// Longest title, in characters.
const TITLE_CHARS_MAX: usize = 160;

/// Returns a document's own title.
pub fn title_of(path: &SourcePath, text: &str) -> Option<String> {
    if !is_markdown(path.as_str()) {
        return None;
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = &text[..text.floor_char_boundary(BEGINNING_BYTES_MAX)];
    // Front matter that is not valid YAML is shown as text; the heading counts then.
    let front = split_front_matter(text).ok().and_then(|it| it.0);
    let declared = front.as_ref().and_then(|it| it.field("title")).and_then(one_line);
    declared.or_else(|| first_heading(text))
}

/// Returns the name of a document without its own title: its file name.
pub fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

impl Repo {
    /// Returns the own titles of documents in the working tree by path, without unreadable ones.
    ///
    /// # Errors
    /// `internal` if reading them panicked.
    pub async fn titles(&self, paths: Vec<SourcePath>) -> Result<HashMap<SourcePath, String>> {
        let repo = self.clone();
        blocking(move || {
            let title = |path: SourcePath| {
                let bytes = repo.root().read_head(&path, BEGINNING_BYTES_MAX).ok()?;
                Some((title_of(&path, &String::from_utf8_lossy(&bytes))?, path))
            };
            paths.into_iter().filter_map(title).map(|(title, path)| (path, title)).collect()
        })
        .await
    }
}

fn first_heading(text: &str) -> Option<String> {
    let (mut heading, mut html) = (None::<String>, None::<String>);
    for event in Parser::new_ext(text, dialect()) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                if let Some(found) = heading.take().and_then(|it| one_line(&it)) {
                    return Some(found);
                }
            }
            Event::Text(part) | Event::Code(part) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&part);
                }
            }
            Event::InlineHtml(part) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&shown(&part));
                }
            }
            Event::SoftBreak | Event::HardBreak => {
                if let Some(heading) = &mut heading {
                    heading.push(' ');
                }
            }
            Event::Start(Tag::HtmlBlock) => html = Some(String::new()),
            Event::Html(part) => {
                if let Some(html) = &mut html {
                    html.push_str(&part);
                }
            }
            Event::End(TagEnd::HtmlBlock) => {
                if let Some(found) = html.take().and_then(|it| html_heading(&it)) {
                    return Some(found);
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns the visible text of HTML in a heading: anything that is not a known element is text,
/// such as `Vec<T>`.
fn shown(html: &str) -> String {
    let words =
        parts(html).into_iter().filter(|(part, _)| !matches!(part, Part::Tag(_) | Part::Comment));
    words.map(|(_, range)| &html[range]).collect()
}

/// Returns the text of an `<h1>`, with which many READMEs begin.
fn html_heading(html: &str) -> Option<String> {
    let lower = html.to_ascii_lowercase();
    let open = lower.find("<h1")?;
    let start = open + lower[open..].find('>')? + 1;
    let end = start + lower[start..].find("</h1")?;
    let mut text = String::new();
    let mut is_tag = false;
    for character in html[start..end].chars() {
        match character {
            '<' => is_tag = true,
            '>' if is_tag => is_tag = false,
            other if !is_tag => text.push(other),
            _ => {}
        }
    }
    for (entity, meant) in [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")] {
        text = text.replace(entity, meant);
    }
    one_line(&text)
}

fn one_line(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).collect();
    let line = words.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join(" ");
    (!line.is_empty()).then(|| truncate_chars(&line, TITLE_CHARS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(text: &str) -> Option<String> {
        title_of(&"docs/a.md".parse().unwrap(), text)
    }

    #[test]
    fn a_document_is_called_what_it_calls_itself() {
        for (text, expected) in [
            ("---\ntitle: From the front\n---\n# Heading\n", "From the front"),
            ("---\ntitle: >\n  Two\n  lines\n---\n", "Two lines"),
            ("---\ntitle: ''\n---\n# Heading\n", "Heading"),
            ("---\ntitle: [\n---\n# Heading\n", "Heading"),
            ("text\n\n## A *second* `level`\n# First\n", "A second level"),
            ("#\n# Not empty\n", "Not empty"),
            ("# The Vec<T> type<!-- x --> is <b>fast</b><br>\n", "The Vec<T> type is fast"),
            ("\u{feff}# After a mark\r\n", "After a mark"),
            ("<h1 align=\"center\"><a href=\"x\">R&amp;D</a></h1>\n\n# Later\n", "R&D"),
            ("<p>\n<b>none</b>\n</p>\n\nSet\next\n---\n", "Set ext"),
            ("# a\u{1b}[31m b\n", "a [31m b"),
        ] {
            assert_eq!(title(text).as_deref(), Some(expected), "{text}");
        }
        for none in ["", "plain words\n", "```\n# code\n```\n", "---\ntitle:\n---\n"] {
            assert_eq!(title(none), None, "{none}");
        }
        assert_eq!(title_of(&"a.toml".parse().unwrap(), "# comment\n"), None);
        assert_eq!((file_name("docs/a.md"), file_name("a.md")), ("a.md", "a.md"));
    }

    #[test]
    fn a_title_is_bounded_wherever_it_stands() {
        let long = title(&format!("# {}\n", "x".repeat(10_000))).unwrap();
        assert_eq!(long.chars().count(), TITLE_CHARS_MAX + 1);
        assert_eq!(title(&format!("{}# Late\n", "é \n".repeat(40_000))), None);
        for hostile in ["<h1", "<h1>", "<h1><h1", "<H1>İ</h1", "---\ntitle: &a [*a]\n---\n"] {
            let _title = title(hostile);
        }
    }
}
