//! Imports inside a module go one way: files that import each other in a circle are really one
//! file.

use std::collections::{BTreeMap, BTreeSet};

use super::{code, rust_files};

/// The modules with folders of their own.
const MODULES: &[&str] = &["flows", "script", "http", "jobs", "documents", "cli"];
/// Files of the largest circle that nobody has to explain.
const CIRCLE_FILES_MAX: usize = 3;

/// Larger circles that are there: one of their files, their size at most, and why.
const KNOWN: &[(&str, usize, &str)] = &[
    ("flows/channels/show", 4, "who asks for a turn again is shown the channel"),
    ("script/config", 45, "the types of some declarations stand with what judges them in `load`"),
    ("script/schema/fields", 4, "one table of declarations, in four files"),
    ("script/source/span", 4, "one reader of a declaration's text, in four files"),
    ("jobs/run/dispatch", 12, "an execution and the queue share one inner state"),
    ("documents/search/find", 5, "a search and its parts share a filter"),
    (
        "cli/args",
        54,
        "clap's arguments name those of each command, and commands are called by them",
    ),
];

/// A file's module, as the segments of its path.
type Module = Vec<String>;
type Graph = BTreeMap<Module, BTreeSet<Module>>;

/// The paths that a tree of `use` names: `a::{b, c::d}` names two.
fn named(tree: &str) -> Vec<String> {
    let Some(open) = tree.find('{') else { return vec![tree.trim().to_owned()] };
    let (head, inner) = (&tree[..open], tree[open + 1..].trim_end().trim_end_matches('}'));
    let (mut depth, mut start, mut parts) = (0_u32, 0, Vec::new());
    for (place, letter) in inner.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inner[start..place]);
                start = place + 1;
            }
            _ => (),
        }
    }
    parts.push(&inner[start..]);
    let paths = parts.into_iter().flat_map(|it| named(it.trim()));
    paths.map(|it| format!("{}{it}", head.trim())).collect()
}

/// What a text names of a module, without what it only hands on.
fn paths(text: &str, top: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let text = code(text);
    let prefix = format!("crate::{top}");
    let mut found = Vec::new();
    let mut rest = text.as_str();
    while let Some(place) = rest.find(&prefix) {
        let line = rest[..place].rsplit('\n').next().unwrap_or_default();
        let is_handed_on = line.trim_start().starts_with("pub") && line.contains("use ");
        let path = &rest[place..];
        let end = match line.trim_start().starts_with("use ") {
            true => path.find(';'),
            false => path.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':'),
        };
        let path = &path[..end.unwrap_or(path.len())];
        if !is_handed_on {
            found.extend(named(path));
        }
        rest = &rest[place + prefix.len()..];
    }
    found
}

/// Which file of a module uses which.
fn graph(top: &str) -> Graph {
    let files: Vec<(Module, String)> = rust_files(&format!("src/{top}"))
        .into_iter()
        .map(|(path, text)| {
            let name = path.as_str().trim_start_matches("src/").trim_end_matches(".rs");
            let name = name.trim_end_matches("/mod");
            (name.split('/').map(str::to_owned).collect(), text)
        })
        .collect();
    let known: BTreeSet<&Module> = files.iter().map(|(module, _)| module).collect();
    let mut graph = Graph::new();
    for (module, text) in &files {
        // The module's own file shows what is below it, and what all of it shares.
        if module.len() < 2 || module.iter().any(|it| it == "tests") {
            continue;
        }
        for path in paths(text, top) {
            let mut used: Module =
                path.split("::").skip(1).map(|it| it.trim().to_owned()).collect();
            while !used.is_empty() && !known.contains(&used) {
                used.pop();
            }
            if used.len() > 1 && used != *module {
                graph.entry(module.clone()).or_default().insert(used);
            }
        }
    }
    graph
}

/// All that a file uses, and what that uses.
fn reached(graph: &Graph, from: &Module) -> BTreeSet<Module> {
    let mut seen = BTreeSet::new();
    let mut left = vec![from.clone()];
    while let Some(next) = left.pop() {
        for used in graph.get(&next).into_iter().flatten() {
            if seen.insert(used.clone()) {
                left.push(used.clone());
            }
        }
    }
    seen
}

/// The circles of a graph, each with its files.
fn circles(graph: &Graph) -> Vec<BTreeSet<String>> {
    let all: BTreeMap<&Module, BTreeSet<Module>> =
        graph.keys().map(|it| (it, reached(graph, it))).collect();
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for (module, used) in &all {
        let back = used.iter().filter(|it| all.get(it).is_some_and(|it| it.contains(*module)));
        let circle: BTreeSet<String> = back.map(|it| it.join("/")).collect();
        if circle.len() > CIRCLE_FILES_MAX && !found.contains(&circle) {
            found.push(circle);
        }
    }
    found
}

#[test]
fn imports_inside_a_module_go_one_way() {
    let mut wrong = Vec::new();
    let mut met = BTreeSet::new();
    for top in MODULES {
        for circle in circles(&graph(top)) {
            let known = KNOWN.iter().find(|(file, _, _)| circle.contains(*file));
            met.extend(known.map(|(file, _, _)| *file));
            if known.is_none_or(|(_, most, _)| circle.len() > *most) {
                let files: Vec<&str> = circle.iter().map(String::as_str).collect();
                wrong.push(format!("{} files in a circle: {}", files.len(), files.join(" ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let stale: Vec<_> = KNOWN.iter().filter(|(file, _, _)| !met.contains(file)).collect();
    assert!(stale.is_empty(), "no circle any more: {stale:?}");
}

#[test]
fn a_tree_of_imports_names_each_path() {
    let paths = named("crate::flows::{self, jobs::{self, Bulk}, topics}");
    let expected = ["self", "jobs::self", "jobs::Bulk", "topics"];
    assert_eq!(paths, expected.map(|it| format!("crate::flows::{it}")));
}
