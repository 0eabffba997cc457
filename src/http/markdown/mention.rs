//! Mentions in rendered HTML: `@handle` of members, except in code and links.

use std::collections::BTreeSet;

use crate::http::markdown::Html;

/// Elements in which an `@` is not a mention.
const APART: [&str; 3] = ["code", "pre", "a"];

/// Marks mentions of the given handles, which are in lower case. The HTML is ours, so a `<` of the
/// text is an entity in it.
pub(in crate::http) fn mark_mentions(html: &Html, handles: &BTreeSet<String>) -> Html {
    let (mut marked, mut rest) = (String::new(), html.as_str());
    let mut apart: Vec<&str> = Vec::new();
    while let Some(at) = rest.find('<') {
        push_text(&mut marked, &rest[..at], handles, apart.is_empty());
        let end = rest[at..].find('>').map_or(rest.len(), |end| at + end + 1);
        let tag = &rest[at..end];
        let name = tag.trim_start_matches(['<', '/']);
        let name = name.split([' ', '>', '\n', '/']).next().unwrap_or_default();
        if let Some(name) = APART.into_iter().find(|it| *it == name) {
            match tag.starts_with("</") {
                true => drop(apart.pop()),
                false => apart.push(name),
            }
        }
        marked.push_str(tag);
        rest = &rest[end..];
    }
    push_text(&mut marked, rest, handles, apart.is_empty());
    Html(marked)
}

fn push_text(marked: &mut String, text: &str, handles: &BTreeSet<String>, is_open: bool) {
    let mut rest = text;
    let mut before = ' ';
    while let Some(at) = rest.find('@').filter(|_| is_open) {
        before = rest[..at].chars().next_back().unwrap_or(before);
        marked.push_str(&rest[..at]);
        rest = &rest[at..];
        let is_of_handle = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let end = rest[1..].find(|c| !is_of_handle(c)).map_or(rest.len(), |end| end + 1);
        let word = rest[1..end].trim_end_matches(['-', '_']);
        let is_called = !before.is_alphanumeric() && before != '@';
        let length = match is_called && handles.contains(&word.to_ascii_lowercase()) {
            true => {
                marked.push_str(&format!("<span class=\"ch-at\">@{word}</span>"));
                1 + word.len()
            }
            false => {
                marked.push('@');
                1
            }
        };
        before = rest[..length].chars().next_back().unwrap_or(' ');
        rest = &rest[length..];
    }
    marked.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::markdown::{Links, render};

    #[test]
    fn members_are_marked_where_they_are_mentioned() {
        let handles: BTreeSet<String> = ["robbo", "all"].map(str::to_owned).into();
        let marked = |text: &str| {
            let html = render(text, &Links::of_document("")).html;
            mark_mentions(&html, &handles).to_string().trim().to_owned()
        };
        let at = |word: &str| format!("<span class=\"ch-at\">@{word}</span>");
        assert_eq!(
            marked("@Robbo, and @all."),
            format!("<p>{}, and {}.</p>", at("Robbo"), at("all"))
        );
        for text in ["@nobody", "jo@robbo", "`@robbo`", "[@robbo](https://example.org)", "@@robbo"]
        {
            assert!(!marked(text).contains("ch-at"), "{text}: {}", marked(text));
        }
        assert!(marked("```\n@robbo\n```\n\n@robbo-").ends_with(&format!("{}-</p>", at("robbo"))));
    }
}
