//! The documents beside a document: folders that unfold, with the way to it open.
//!
//! **Invariant:** its size has a bound, however many documents there are.

use askama::Template;
use tracing::warn;

use crate::base::SourcePath;
use crate::flows::{self, Site};
use crate::http::pages::visible::{Name, Plain, Visible};
use crate::http::pages::{Frame, form, words};
use crate::people::Caller;

/// Documents up to which every folder can be unfolded; beyond it, those on the way alone.
const WHOLE_MAX: usize = 200;
/// Rows of one folder.
const ROWS_MAX: usize = 100;
/// A longer name may be cut on the page: it has its whole behind it.
const NAME_BYTES_SHORT: usize = 20;
/// Folders within folders; what is deeper is a name with slashes.
const DEPTH_MAX: usize = 8;

/// The list beside a document.
#[derive(Template)]
#[template(path = "tree.html")]
pub(super) struct Tree {
    branch: Branch,
    /// Whether this browser wants it folded.
    is_folded: bool,
    has_any: bool,
}

/// What is in one folder.
#[derive(Template)]
#[template(path = "branch.html")]
struct Branch {
    rows: Vec<Row>,
    /// How many rows are left out, and where they are listed.
    more: usize,
    all_at: String,
}

enum Row {
    Folder(Folder),
    File { name: String, at: String, is_here: bool },
}

struct Folder {
    name: String,
    /// Its path with the last slash.
    path: String,
    /// Where its documents are listed.
    at: String,
    count: usize,
    is_open: bool,
    /// Nothing if it is too much to be sent along.
    branch: Option<Branch>,
}

/// Where a branch is: the list of all documents is read from this place.
#[derive(Clone, Copy)]
struct Place<'p> {
    here: &'p str,
    is_whole: bool,
    depth: usize,
}

/// Returns the list beside a document. That git does not answer is not the document's fault: then
/// there is none.
pub(super) async fn beside(site: &Site, caller: &Caller, frame: &Frame, here: &SourcePath) -> Tree {
    let paths = flows::sources::paths(site, caller).await.unwrap_or_else(|cause| {
        warn!("no documents are listed beside {here}: {}", cause.chain());
        Vec::new().into()
    });
    Tree::new(&paths, here.as_str(), !frame.look.has_documents)
}

impl Tree {
    fn new(paths: &[SourcePath], here: &str, is_folded: bool) -> Tree {
        let place = Place { here, is_whole: paths.len() <= WHOLE_MAX, depth: 0 };
        Tree { branch: branch(paths, "", place), is_folded, has_any: paths.len() > 1 }
    }
}

/// Returns what is in the folder with this prefix, of which `paths` are all documents.
fn branch(paths: &[SourcePath], prefix: &str, place: Place<'_>) -> Branch {
    let (mut folders, mut files) = (Vec::new(), Vec::new());
    let mut rest = paths;
    while let Some(first) = rest.first() {
        let name = first.as_str().get(prefix.len()..).unwrap_or_default();
        let folder = name.split_once('/').filter(|_| place.depth < DEPTH_MAX);
        let end = match folder {
            Some((folder, _)) => {
                let below = &first.as_str()[..prefix.len() + folder.len() + 1];
                let end = rest.partition_point(|it| it.as_str().starts_with(below));
                folders.push((folder, below, &rest[..end]));
                end
            }
            None => {
                files.push((name, first.as_str()));
                1
            }
        };
        rest = &rest[end..];
    }
    let total = folders.len() + files.len();
    let is_on_way = |at: usize| match folders.get(at) {
        Some((_, below, _)) => place.here.starts_with(below),
        None => files.get(at - folders.len()).is_some_and(|(_, path)| *path == place.here),
    };
    // A part of a long list is the part where the reader is.
    let way = (0..total).find(|at| is_on_way(*at)).unwrap_or(0);
    let from = way.saturating_sub(ROWS_MAX / 2).min(total.saturating_sub(ROWS_MAX));
    let shown = from..total.min(from + ROWS_MAX);
    let rows = shown.clone().map(|at| match folders.get(at) {
        Some((name, below, of)) => Row::Folder(unfolded(name, below, of, place)),
        None => {
            let (name, path) = files[at - folders.len()];
            let at = form::document_at(path);
            Row::File { name: name.to_owned(), at, is_here: path == place.here }
        }
    });
    Branch { rows: rows.collect(), more: total - shown.len(), all_at: listed_at(prefix) }
}

fn unfolded(name: &str, below: &str, of: &[SourcePath], place: Place<'_>) -> Folder {
    let is_open = place.here.starts_with(below);
    let deeper = Place { depth: place.depth + 1, ..place };
    Folder {
        name: name.to_owned(),
        path: below.to_owned(),
        at: listed_at(below),
        count: of.len(),
        is_open,
        branch: (is_open || place.is_whole).then(|| branch(of, below, deeper)),
    }
}

fn listed_at(folder: &str) -> String {
    form::address("/d", &[("query", Some(folder).filter(|it| !it.is_empty()))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(all: &[&str]) -> Vec<SourcePath> {
        let mut paths: Vec<SourcePath> = all.iter().map(|it| it.parse().unwrap()).collect();
        paths.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        paths
    }

    /// Returns the names as they are listed: `>` before an open folder, `.` for each level.
    fn outline(branch: &Branch, level: usize) -> Vec<String> {
        let dots = ".".repeat(level);
        let mut lines = Vec::new();
        for row in &branch.rows {
            match row {
                Row::File { name, is_here, .. } => {
                    lines.push(format!("{dots}{name}{}", if *is_here { " *" } else { "" }));
                }
                Row::Folder(it) => {
                    let mark = if it.is_open { ">" } else { "+" };
                    lines.push(format!("{dots}{mark}{} {}", it.name, it.count));
                    lines.extend(it.branch.iter().flat_map(|it| outline(it, level + 1)));
                }
            }
        }
        lines
    }

    #[test]
    fn folders_come_first_and_the_way_to_the_document_is_open() {
        let all = paths(&["a.md", "b/x.md", "b/c/y.md", "b-1.md", "b/z.md", "d/e.md"]);
        let tree = Tree::new(&all, "b/x.md", false);
        let expected =
            [">b 3", ".+c 1", "..y.md", ".x.md *", ".z.md", "+d 1", ".e.md", "a.md", "b-1.md"];
        assert_eq!(outline(&tree.branch, 0), expected);
        let html = tree.render().unwrap();
        assert!(html.contains("<a href=\"/d/b/x.md\" aria-current=\"page\">x.md</a>"), "{html}");
    }

    #[test]
    fn a_large_site_sends_the_way_alone_and_a_long_folder_a_part() {
        let names: Vec<String> = (0..5_000)
            .map(|at| format!("f{}/{at:04}.md", at % 2))
            .chain(["deep/".repeat(100) + "x.md"])
            .collect();
        let all = paths(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let tree = Tree::new(&all, "f1/2501.md", false);
        let lines = outline(&tree.branch, 0);
        assert_eq!(lines[..2], ["+deep 1", "+f0 2500"]);
        assert!(lines.contains(&".2501.md *".to_owned()), "{lines:?}");
        assert_eq!(lines.len(), 3 + ROWS_MAX);
        let html = tree.render().unwrap();
        assert!(html.contains("href=\"/d?query=f0%2F\"") && html.contains("2400 more"), "{html}");
        assert!(html.len() < 16_000, "{}", html.len());
        let deep = Tree::new(&all, all[0].as_str(), false);
        assert_eq!(outline(&deep.branch, 0).len(), 3 + DEPTH_MAX);
        assert!(deep.render().unwrap().contains(">deep/deep/"));
    }

    #[test]
    fn a_name_is_text() {
        let tree = Tree::new(&paths(&["<b>.md", "\u{202e}x/<i>.md"]), "<b>.md", true);
        let html = tree.render().unwrap();
        assert!(!html.contains("<b>.md") && !html.contains("<i>"), "{html}");
        assert!(html.contains("U+202E") && html.contains(" data-folded"), "{html}");
    }
}
