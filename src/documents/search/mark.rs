//! Marks: what a search is filtered and ranked by, as words in the index: folder, path, author,
//! Topic status, words of the title.
//!
//! The index itself then intersects words and marks, without reading every row that contains the
//! words.
//!
//! **Invariant:** a mark begins with a control character, which no folded word contains: nobody can
//! type one, and no mark is taken for a word.

use crate::api::topics::TopicStatus;
use crate::base::{Actor, PersonId, digest_hex};
use crate::documents::search::find::Filter;

/// The first character of every mark.
const SIGN: char = '\u{80}';
/// The mark of a part of a Source with several parts.
const LONG_MARK: &str = "\u{80}l";
/// The expression that finds it.
pub(super) const LONG: &str = "\"\u{80}l\"";
/// Hexadecimal digits of a folder's or author's digest; matches are compared again.
const DIGITS: usize = 16;
/// Most folders of a path that are marked; deeper ones are found by the last marked one.
const FOLDERS_MAX: usize = 16;
/// Bytes of a path that are marked; longer paths are cut.
const PATH_BYTES_MAX: usize = 256;

/// Returns the marks of a part of a Source, given the folded words of title and path.
pub(super) fn of_part(path: &str, named: &str, is_long: bool) -> String {
    let mut marks = of_path(path);
    marks.push_str(&of_title(named));
    if is_long {
        marks.push(' ');
        marks.push_str(LONG_MARK);
    }
    marks
}

/// Returns the marks for a path, of a Source or something written about it.
fn of_path(path: &str) -> String {
    let mut marks = path_mark(path);
    for (end, _) in path.match_indices('/').take(FOLDERS_MAX) {
        marks.push(' ');
        marks.push_str(&digest_mark('f', &path[..=end]));
    }
    marks
}

/// Returns the mark of what one person alone finds; in quotation marks it is the expression, too.
pub fn of_owner(person: &PersonId) -> String {
    digest_mark('o', person.as_str())
}

/// Returns the marks of a title's words, by which a word in the title is found without reading
/// every row that contains it anywhere.
pub(super) fn of_title(words: &str) -> String {
    words.split_whitespace().map(|it| format!(" {SIGN}t{it}")).collect()
}

/// Returns the expression for titles with this word or prefix.
pub(super) fn in_title(word: &str, is_prefix: bool) -> String {
    let star = if is_prefix { " *" } else { "" };
    format!("\"{SIGN}t{word}\"{star}")
}

/// Returns the marks of something written about a Source; without a status it matches any.
pub(super) fn of_writing(path: &str, author: &Actor, status: Option<TopicStatus>) -> String {
    let mut marks = of_path(path);
    marks.push(' ');
    marks.push_str(&digest_mark('a', &author.to_string()));
    for it in TopicStatus::ALL.iter().filter(|it| status.is_none_or(|own| own == **it)) {
        marks.push(' ');
        marks.push_str(&status_mark(*it));
    }
    marks
}

/// Returns the part of an expression that applies a filter; empty if nothing is filtered.
pub(super) fn expression(filter: &Filter) -> String {
    let mut wanted = Vec::new();
    if let Some(path) = filter.path.as_deref() {
        let folders = path.match_indices('/').take(FOLDERS_MAX).last();
        let folder = folders.map_or("", |(end, _)| &path[..=end]);
        if !folder.is_empty() {
            wanted.push(format!("\"{}\"", digest_mark('f', folder)));
        }
        if folder.len() < path.len() {
            wanted.push(format!("\"{}\" *", path_mark(path)));
        }
    }
    if let Some(author) = &filter.author {
        wanted.push(format!("\"{}\"", digest_mark('a', &author.to_string())));
    }
    if let Some(status) = filter.status {
        wanted.push(format!("\"{}\"", status_mark(status)));
    }
    wanted.iter().map(|it| format!(" AND {it}")).collect()
}

fn status_mark(status: TopicStatus) -> String {
    format!("{SIGN}s{}", status.as_str())
}

fn digest_mark(sort: char, text: &str) -> String {
    format!("{SIGN}{sort}{}", &digest_hex(text)[..DIGITS])
}

/// Returns a mark with two digits per byte: common prefixes of paths stay common prefixes of marks.
fn path_mark(path: &str) -> String {
    use std::fmt::Write as _;
    let mut mark = format!("{SIGN}p");
    for byte in path.bytes().take(PATH_BYTES_MAX) {
        // Writing to a String cannot fail.
        let _ = write!(mark, "{byte:02x}");
    }
    mark
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_wants_marks_that_what_it_lets_through_has() {
        let has = |path: &str, asked: &str| {
            let marks = of_path(path);
            let marks: Vec<&str> = marks.split(' ').collect();
            let filter = Filter { path: Some(asked.to_owned()), ..Filter::default() };
            expression(&filter).split(" AND ").filter(|it| !it.is_empty()).all(|it| {
                match it.strip_suffix(" *") {
                    Some(begins) => {
                        let begins = begins.trim_matches('"');
                        marks.iter().any(|mark| mark.starts_with(begins))
                    }
                    None => marks.contains(&it.trim_matches('"')),
                }
            })
        };
        let deep = "x/".repeat(40) + "y.md";
        let long = "n".repeat(300) + ".md";
        for path in ["a.md", "docs/a.md", "docs/é/a b.md", deep.as_str(), long.as_str()] {
            for end in (0..=path.len()).filter(|it| path.is_char_boundary(*it)) {
                assert!(has(path, &path[..end]), "{path} {end}");
            }
        }
        for (path, asked) in [("docs/a.md", "docs/b"), ("docs/a.md", "doc/"), ("a.md", "a.md.bak")]
        {
            assert!(!has(path, asked), "{path} {asked}");
        }
    }

    #[test]
    fn no_mark_is_a_word() {
        let author: Actor = "system".parse().unwrap();
        let marks = of_writing("docs/a.md", &author, None);
        for mark in marks.split(' ') {
            assert!(mark.starts_with(SIGN));
            assert_ne!(crate::documents::search::folded(mark).trim(), mark);
        }
    }
}
