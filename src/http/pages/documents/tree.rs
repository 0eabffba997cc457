//! The tree of documents, in the author's order: next to a document with the path to it open, and
//! as the page of all documents.
//!
//! **Invariant:** its size has a bound, however many documents there are.

use askama::Template;
use tracing::warn;

use crate::base::{Millis, SourcePath};
use crate::flows::Site;
use crate::flows::sources::catalog::{self, Entry};
use crate::http::pages::Frame;
use crate::http::pages::parts::time::When;
use crate::http::pages::parts::visible::{Name, Plain};
use crate::http::pages::parts::{form, labels};
use crate::people::Caller;

/// Up to this many documents, every folder can be unfolded; beyond it, only the path to the current
/// document.
const WHOLE_MAX: usize = 400;
/// Rows per folder.
const ROWS_MAX: usize = 100;
/// Rows per folder on the page of all documents.
const PAGE_ROWS_MAX: usize = 300;
/// Maximum depth; deeper folders are shown as a path.
const DEPTH_MAX: usize = 8;
/// Folders with up to this many documents are open on the page of all documents.
const OPEN_MAX: usize = 40;

/// The list next to a document.
#[derive(Template)]
#[template(path = "tree.html")]
pub(in crate::http::pages) struct Tree {
    branch: Branch,
    /// Whether this browser has folded it.
    is_folded: bool,
    has_any: bool,
}

/// The content of a folder.
#[derive(Template)]
#[template(path = "branch.html")]
pub(in crate::http::pages) struct Branch {
    rows: Vec<Row>,
    /// The number of omitted rows, and where they are listed.
    more: usize,
    all_at: String,
    /// Whether it is on the page of all documents, with the documents' state and last change.
    is_page: bool,
}

enum Row {
    Folder(Folder),
    File(File),
}

struct File {
    title: String,
    path: String,
    /// Its name in its folder.
    name: String,
    at: String,
    is_here: bool,
    facts: Facts,
}

struct Folder {
    name: String,
    /// Its path with a trailing slash.
    path: String,
    /// Where its documents are listed.
    at: String,
    count: usize,
    is_open: bool,
    /// `None` if it is too much to send.
    branch: Option<Branch>,
    facts: Facts,
}

/// Open work on documents, and the time of their last change.
struct Facts {
    open_topics: i64,
    open_proposals: i64,
    changed: Option<When>,
}

/// The context of a branch.
#[derive(Clone, Copy)]
struct Place<'p> {
    here: &'p str,
    is_whole: bool,
    depth: usize,
    /// On the page of all documents: their number, and the current time.
    page: Option<(usize, Millis)>,
}

/// An entry of a folder.
struct Child<'p> {
    name: &'p str,
    /// Its path, with a trailing slash for a folder.
    path: &'p str,
    is_folder: bool,
    of: &'p [Entry],
}

impl Child<'_> {
    /// Returns its position in the author's order.
    fn place(&self) -> Option<usize> {
        self.of.iter().filter_map(|it| it.place).min()
    }
}

/// Returns the list next to a document. If git fails, there is none, because the document itself
/// can still be read.
pub(in crate::http::pages) async fn beside(
    site: &Site,
    caller: &Caller,
    frame: &Frame,
    here: &SourcePath,
) -> Tree {
    let all = catalog::names(site, caller).await.unwrap_or_else(|cause| {
        warn!("no documents are listed beside {here}: {}", cause.chain());
        Vec::new()
    });
    Tree::new(&all, here.as_str(), !frame.look.has_documents)
}

/// Returns the tree of all documents, with the requested folder open.
pub(in crate::http::pages) fn page(all: &[Entry], folder: &str, now: Millis) -> Branch {
    let is_whole = all.len() <= WHOLE_MAX;
    branch(all, "", Place { here: folder, is_whole, depth: 0, page: Some((all.len(), now)) })
}

impl Tree {
    fn new(all: &[Entry], here: &str, is_folded: bool) -> Tree {
        let place = Place { here, is_whole: all.len() <= WHOLE_MAX, depth: 0, page: None };
        Tree { branch: branch(all, "", place), is_folded, has_any: all.len() > 1 }
    }
}

/// Returns the content of the folder with this prefix; `all` are the documents.
fn branch(all: &[Entry], prefix: &str, place: Place<'_>) -> Branch {
    let children = children(all, prefix, place.depth);
    let total = children.len();
    let is_on_way = |it: &Child<'_>| match it.is_folder {
        true => place.here.starts_with(it.path),
        false => place.here == it.path,
    };
    // Of a long list, the part around the current document is shown.
    let rows_max = if place.page.is_some() { PAGE_ROWS_MAX } else { ROWS_MAX };
    let way = children.iter().position(is_on_way).unwrap_or(0);
    let from = way.saturating_sub(rows_max / 2).min(total.saturating_sub(rows_max));
    let shown = from..total.min(from + rows_max);
    let rows = children[shown.clone()].iter().map(|it| match it.is_folder {
        true => Row::Folder(unfolded(it, place)),
        false => Row::File(File {
            title: it.of[0].title.clone(),
            path: it.path.to_owned(),
            name: it.name.to_owned(),
            at: form::document_at(it.path),
            is_here: it.path == place.here,
            facts: facts(it.of, place),
        }),
    });
    Branch {
        rows: rows.collect(),
        more: total - shown.len(),
        all_at: listed_at(prefix),
        is_page: place.page.is_some(),
    }
}

/// Returns folders and documents in the author's order, with unlisted ones last; without an order,
/// folders come first, by name.
fn children<'p>(all: &'p [Entry], prefix: &str, depth: usize) -> Vec<Child<'p>> {
    let (mut folders, mut files) = (Vec::new(), Vec::new());
    let mut rest = all;
    while let Some(first) = rest.first() {
        let path = first.path.as_str();
        let name = path.get(prefix.len()..).unwrap_or_default();
        let folder = name.split_once('/').filter(|_| depth < DEPTH_MAX);
        let end = match folder {
            Some((name, _)) => {
                let below = &path[..prefix.len() + name.len() + 1];
                let end = rest.partition_point(|it| it.path.as_str().starts_with(below));
                folders.push(Child { name, path: below, is_folder: true, of: &rest[..end] });
                end
            }
            None => {
                files.push(Child { name, path, is_folder: false, of: &rest[..1] });
                1
            }
        };
        rest = &rest[end..];
    }
    folders.append(&mut files);
    folders.sort_by_cached_key(|it| it.place().unwrap_or(usize::MAX));
    folders
}

fn unfolded(child: &Child<'_>, place: Place<'_>) -> Folder {
    let count = child.of.len();
    let is_main = |total: usize| place.is_whole && (count <= OPEN_MAX || count * 2 > total);
    let is_open = place.here.starts_with(child.path) || place.page.is_some_and(|it| is_main(it.0));
    let deeper = Place { depth: place.depth + 1, ..place };
    Folder {
        name: child.name.to_owned(),
        path: child.path.to_owned(),
        at: match place.page {
            Some(_) => form::address("/d", &[("folder", Some(child.path))]),
            None => listed_at(child.path),
        },
        count,
        is_open,
        branch: (is_open || place.is_whole).then(|| branch(child.of, child.path, deeper)),
        facts: facts(child.of, place),
    }
}

fn facts(of: &[Entry], place: Place<'_>) -> Facts {
    let changed = of.iter().filter_map(|it| it.changed_at).max();
    Facts {
        open_topics: of.iter().map(|it| it.open_topics).sum(),
        open_proposals: of.iter().map(|it| it.open_proposals).sum(),
        changed: changed.zip(place.page).map(|(at, (_, now))| When { at, now }),
    }
}

/// Returns where the documents of a folder are listed row by row.
fn listed_at(folder: &str) -> String {
    match folder.is_empty() {
        true => "/d?limit=50".to_owned(),
        false => form::address("/d", &[("query", Some(folder))]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str) -> Entry {
        Entry {
            path: path.parse().unwrap(),
            title: format!("Title of {path}"),
            place: None,
            open_topics: 0,
            open_proposals: 0,
            changed_at: None,
        }
    }

    fn entries(all: &[&str]) -> Vec<Entry> {
        let mut entries: Vec<Entry> = all.iter().map(|it| entry(it)).collect();
        entries.sort_unstable_by(|a, b| a.path.as_str().cmp(b.path.as_str()));
        entries
    }

    /// Returns the names as listed: `>` before an open folder, `.` for each level.
    fn outline(branch: &Branch, level: usize) -> Vec<String> {
        let dots = ".".repeat(level);
        let mut lines = Vec::new();
        for row in &branch.rows {
            match row {
                Row::File(it) => {
                    let here = if it.is_here { " *" } else { "" };
                    lines.push(format!("{dots}{}{here}", it.name));
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
        let all = entries(&["a.md", "b/x.md", "b/c/y.md", "b-1.md", "b/z.md", "d/e.md"]);
        let tree = Tree::new(&all, "b/x.md", false);
        let expected =
            [">b 3", ".+c 1", "..y.md", ".x.md *", ".z.md", "+d 1", ".e.md", "a.md", "b-1.md"];
        assert_eq!(outline(&tree.branch, 0), expected);
        let html = tree.render().unwrap();
        let link = "<a href=\"/d/b/x.md\" title=\"b/x.md\" aria-current=\"page\">";
        assert!(html.contains(&format!("{link}<bdi>Title of b/x.md</bdi></a>")), "{html}");
    }

    #[test]
    fn what_its_author_has_put_in_order_comes_so_and_the_rest_after_it() {
        let mut all = entries(&["a.md", "b/x.md", "b/y.md", "c.md", "d/e.md", "z.md"]);
        for (path, place) in [("z.md", 0), ("b/y.md", 1), ("b/x.md", 2), ("c.md", 3)] {
            all.iter_mut().find(|it| it.path.as_str() == path).unwrap().place = Some(place);
        }
        let tree = Tree::new(&all, "b/x.md", false);
        let expected = ["z.md", ">b 2", ".y.md", ".x.md *", "c.md", "+d 1", ".e.md", "a.md"];
        assert_eq!(outline(&tree.branch, 0), expected);
    }

    #[test]
    fn a_folder_of_the_page_says_what_waits_below_it() {
        let mut all = entries(&["a.md", "b/c/x.md", "b/y.md"]);
        all[1].open_topics = 2;
        (all[2].open_topics, all[2].open_proposals) = (1, 1);
        all[1].changed_at = Some(Millis(60_000));
        all[2].changed_at = Some(Millis(120_000));
        let html = page(&all, "", Millis(180_000)).render().unwrap();
        let folder = html.split("<summary>").nth(1).unwrap().split("</summary>").next().unwrap();
        for part in ["<bdi>b</bdi>/", "2 documents", "3 Topics", "1 proposal", "1 min ago"] {
            assert!(folder.contains(part), "{part} in {folder}");
        }
    }

    #[test]
    fn a_large_site_sends_the_way_alone_and_a_long_folder_a_part() {
        let names: Vec<String> = (0..5_000)
            .map(|at| format!("f{}/{at:04}.md", at % 2))
            .chain(["deep/".repeat(100) + "x.md"])
            .collect();
        let all = entries(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let tree = Tree::new(&all, "f1/2501.md", false);
        let lines = outline(&tree.branch, 0);
        assert_eq!(lines[..2], ["+deep 1", "+f0 2500"]);
        assert!(lines.contains(&".2501.md *".to_owned()), "{lines:?}");
        assert_eq!(lines.len(), 3 + ROWS_MAX);
        let html = tree.render().unwrap();
        assert!(html.contains("href=\"/d?query=f0%2F\"") && html.contains("2400 more"), "{html}");
        assert!(html.len() < 24_000, "{}", html.len());
        let deep = Tree::new(&all, all[0].path.as_str(), false);
        assert_eq!(outline(&deep.branch, 0).len(), 3 + DEPTH_MAX);
        assert!(deep.render().unwrap().contains("deep/deep/"));
    }

    #[test]
    fn a_name_is_text() {
        let tree = Tree::new(&entries(&["<b>.md", "\u{202e}x/<i>.md"]), "<b>.md", true);
        let html = tree.render().unwrap();
        assert!(!html.contains("<b>.md") && !html.contains("<i>"), "{html}");
        assert!(html.contains("U+202E") && html.contains(" data-folded"), "{html}");
    }
}
