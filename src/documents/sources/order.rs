//! The reading order intended by the author: `SUMMARY.md` of mdBook and GitBook, `_sidebar.md` of
//! docsify, `nav` of MkDocs.
//!
//! **Invariant:** these files are hostile: their size, depth and number are limited, and entries
//! that are not documents are skipped.

use std::collections::HashMap;

use pulldown_cmark::{Event, Parser, Tag};
use serde_norway::Value;

use crate::base::SourcePath;
use crate::documents::git::Repo;
use crate::documents::sources::plain::dialect;
use crate::documents::sources::title::file_name;

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: usize = 256 * 1024;
/// Most files that are read.
const FILES_MAX: usize = 16;
/// Most entries per file.
const ENTRIES_MAX: usize = 10_000;
/// Deepest level of a `nav`.
const DEPTH_MAX: usize = 16;
/// MkDocs' default folder of documents.
const DOCS_DIR: &str = "docs";

/// The position, from 0, of each document that an author has ordered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order(HashMap<SourcePath, usize>);

impl Order {
    /// Returns the position of a document.
    pub fn place(&self, path: &SourcePath) -> Option<usize> {
        self.0.get(path).copied()
    }

    fn add(&mut self, paths: impl IntoIterator<Item = SourcePath>) {
        for path in paths.into_iter().take(ENTRIES_MAX) {
            let next = self.0.len();
            self.0.entry(path).or_insert(next);
        }
    }
}

impl Repo {
    /// Returns the order of these documents; unreadable files are skipped.
    pub async fn order(&self, paths: &[SourcePath]) -> Order {
        let mut order = Order::default();
        for name in ["mkdocs.yml", "mkdocs.yaml"] {
            let Ok(path) = name.parse::<SourcePath>() else { continue };
            if let Ok(bytes) = self.image_head(&path, FILE_BYTES_MAX).await {
                order.add(nav(&String::from_utf8_lossy(&bytes)));
            }
        }
        let is_list =
            |it: &&SourcePath| matches!(file_name(it.as_str()), "SUMMARY.md" | "_sidebar.md");
        for path in paths.iter().filter(is_list).take(FILES_MAX) {
            let Ok((_, text)) = self.text(path).await else { continue };
            let text = &text[..text.floor_char_boundary(FILE_BYTES_MAX)];
            order.add(links(folder_of(path.as_str()), text));
        }
        order
    }
}

/// Returns the linked documents of a list, in order.
fn links(folder: &str, text: &str) -> Vec<SourcePath> {
    let mut found = Vec::new();
    for event in Parser::new_ext(text, dialect()) {
        if let Event::Start(Tag::Link { dest_url, .. }) = event {
            found.extend(targets(folder, &dest_url));
        }
    }
    found.truncate(ENTRIES_MAX);
    found
}

/// Returns the documents of a `nav`, in order.
fn nav(yaml: &str) -> Vec<SourcePath> {
    let mut found = Vec::new();
    let Ok(Value::Mapping(config)) = serde_norway::from_str::<Value>(yaml) else { return found };
    let folder = config.get("docs_dir").and_then(Value::as_str).unwrap_or(DOCS_DIR);
    let folder = format!("{}/", folder.trim_matches('/'));
    if let Some(nav) = config.get("nav") {
        collect(nav, &folder, DEPTH_MAX, &mut found);
    }
    found
}

fn collect(nav: &Value, folder: &str, depth: usize, found: &mut Vec<SourcePath>) {
    if found.len() >= ENTRIES_MAX || depth == 0 {
        return;
    }
    match nav {
        Value::String(target) => found.extend(targets(folder, target)),
        Value::Sequence(items) => {
            items.iter().for_each(|it| collect(it, folder, depth - 1, found));
        }
        Value::Mapping(items) => {
            items.values().for_each(|it| collect(it, folder, depth - 1, found));
        }
        _ => {}
    }
}

/// Returns the documents that a link may mean: docsify omits `.md`, and a folder stands for its
/// README.
fn targets(folder: &str, link: &str) -> Vec<SourcePath> {
    let end = link.find(['#', '?']).unwrap_or(link.len());
    let link = link[..end].replace("%20", " ");
    if end == 0 || link.contains("://") || link.starts_with("mailto:") {
        return Vec::new();
    }
    // Relative to the top: docsify, and links with a leading slash.
    let folder = if link.starts_with('/') { "" } else { folder };
    let mut parts: Vec<&str> = folder.split('/').filter(|it| !matches!(*it, "" | ".")).collect();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => return Vec::new(),
            ".." => {}
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    let names = match link.ends_with('/') {
        true => vec![format!("{path}/README.md"), format!("{path}/index.md")],
        false if file_name(&path).contains('.') => vec![path],
        false => vec![format!("{path}.md"), format!("{path}/README.md")],
    };
    names.iter().filter_map(|it| it.trim_start_matches('/').parse().ok()).collect()
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(paths: Vec<SourcePath>) -> Vec<String> {
        paths.into_iter().map(|it| it.to_string()).collect()
    }

    #[test]
    fn a_summary_leads_to_documents_beside_it() {
        let text = "# Summary\n\n[Intro](README.md)\n\n- [One](./one.md)\n  - [Two](a/two.md#x)\n\
            - [Draft]()\n- [Out](https://example.com/x.md)\n- [Up](../up.md)\n- [No](../../no.md)\n";
        let expected = ["src/README.md", "src/one.md", "src/a/two.md", "up.md"];
        assert_eq!(names(links("src", text)), expected);
        let mut order = Order::default();
        order.add(links("src", text));
        order.add(links("src", "[Again](a/two.md)\n[Late](late.md)\n"));
        let place = |it: &str| order.place(&it.parse().unwrap());
        assert_eq!((place("src/README.md"), place("src/a/two.md")), (Some(0), Some(2)));
        assert_eq!((place("src/late.md"), place("src/other.md")), (Some(4), None));
    }

    #[test]
    fn a_sidebar_leaves_out_endings() {
        let text = "* [Home](/)\n* [Guide](/guide)\n* [Deep](deep/page.md ':ignore')\n";
        let found = names(links("", text));
        for name in ["README.md", "guide.md", "guide/README.md", "deep/page.md"] {
            assert!(found.contains(&name.to_owned()), "{name} in {found:?}");
        }
    }

    #[test]
    fn a_nav_is_read_below_its_folder() {
        let yaml = "site_name: X\nnav:\n  - index.md\n  - Guide:\n      - Start: guide/start.md\n\
            \x20     - guide/end.md\n  - Out: https://example.com\nplugins:\n  - !!python/name:a.b\n";
        assert_eq!(names(nav(yaml)), ["docs/index.md", "docs/guide/start.md", "docs/guide/end.md"]);
        let yaml = "docs_dir: ./manual/\nnav: [a.md]\n";
        assert_eq!(names(nav(yaml)), ["manual/a.md"]);
    }

    #[test]
    fn hostile_lists_are_bounded() {
        let many = "- [x](a.md)\n".repeat(ENTRIES_MAX + 9);
        assert!(links("", &many).len() <= ENTRIES_MAX);
        for yaml in
            ["nav: &a [*a]", "nav: 1", "[", "nav:\n- - - - - - - - - - - - - - - - - - - x.md"]
        {
            assert!(nav(yaml).is_empty(), "{yaml}");
        }
        let bomb = "a: &a [x.md,x.md]\n".to_owned()
            + &(0..20).map(|at| format!("b{at}: &b{at} [*a,*a]\n")).collect::<String>()
            + "nav: [*b0,*b1]\n";
        assert!(nav(&bomb).len() <= ENTRIES_MAX);
        for link in ["../../etc/passwd", "a\u{0}.md", "/..", "\\x.md", ""] {
            assert_eq!(names(targets("", link)), [""; 0], "{link}");
        }
    }
}
