//! Rules of the code base that a test can check: layers, crates, sizes, SQL, fences.

mod circles;
mod codes;
mod fences;
mod lookups;
mod named_files;
mod statements;
mod viewers;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use camino::{Utf8Path, Utf8PathBuf};

/// Longest file, in lines (style 2).
const FILE_LINES_MAX: usize = 500;
/// Longest function, in lines (style 2).
const FUNCTION_LINES_MAX: usize = 70;
/// Longest line, in characters (style 2).
const LINE_CHARS_MAX: usize = 100;

/// Which modules a module may use besides itself (ARCHITECTURE.md, "Layers").
const MAY_USE: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("api", &["base", "script"]),
    ("script", &["base"]),
    ("store", &["base"]),
    ("process", &["base"]),
    ("client", &["base"]),
    ("outbound", &["base"]),
    ("people", &["base", "api", "store"]),
    ("documents", &["base", "api", "store", "process"]),
    ("approvals", &["base", "api", "store"]),
    ("channels", &["base", "api", "store", "mail"]),
    ("turns", &["base", "store"]),
    ("jobs", &["base", "api", "script", "store", "process"]),
    ("mail", &["base", "api", "store"]),
    ("chat", &["base", "script", "store", "process", "documents", "jobs", "outbound"]),
    ("vault", &["base", "process"]),
    ("linkedin", &["base", "process", "outbound"]),
    (
        "flows",
        &[
            "base",
            "api",
            "script",
            "store",
            "process",
            "people",
            "documents",
            "approvals",
            "jobs",
            "mail",
            "chat",
            "vault",
            "linkedin",
            "channels",
            "turns",
            "outbound",
        ],
    ),
    (
        "http",
        &[
            "base",
            "api",
            "script",
            "store",
            "people",
            "documents",
            "approvals",
            "channels",
            "jobs",
            "flows",
        ],
    ),
    ("cli", &["base", "api", "script", "process", "client", "documents", "jobs", "flows"]),
    (
        "app",
        &[
            "base",
            "script",
            "store",
            "process",
            "people",
            "documents",
            "approvals",
            "jobs",
            "flows",
            "http",
            "client",
        ],
    ),
];

/// Which modules may say a crate's name. `bin` are the two programs.
const CRATES: &[(&str, &[&str])] = &[
    ("mlua", &["script"]),
    ("nix", &["process"]),
    ("warp", &["http"]),
    ("hyper", &["http", "client", "outbound"]),
    ("hyper_util", &["http", "client", "outbound"]),
    ("hyper_rustls", &["outbound"]),
    ("rustls", &["outbound"]),
    ("tokio_rustls", &["outbound"]),
    ("rustls_native_certs", &["outbound"]),
    ("webpki_roots", &["outbound"]),
    ("clap", &["cli"]),
    ("askama", &["http"]),
    ("imara_diff", &["documents"]),
    ("jsonschema", &["script"]),
    // The suggestions engine reads fences of messages where no server is.
    // Its table of entities shows what a foreign line is where HTML is decoded.
    ("pulldown_cmark", &["base", "documents", "http", "cli"]),
    ("syntect", &["http"]),
];

pub(crate) fn root() -> &'static Utf8Path {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files below a folder, as (path relative to the repository, text).
pub(crate) fn rust_files(folder: &str) -> Vec<(Utf8PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(next) = folders.pop() {
        for entry in next.read_dir_utf8().unwrap() {
            let path = entry.unwrap().into_path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension() == Some("rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(root()).unwrap().to_owned(), text));
            }
        }
    }
    assert!(found.len() > 3, "{folder} was not found");
    found.sort();
    found
}

/// All Rust files of the repository.
fn all_files() -> impl Iterator<Item = (Utf8PathBuf, String)> {
    ["src", "tests", "benches"].into_iter().flat_map(rust_files)
}

/// The top module of a file below `src`.
fn module(path: &Utf8Path) -> &str {
    let first = path.components().nth(1).unwrap().as_str();
    first.strip_suffix(".rs").unwrap_or(first)
}

/// The text without comments and without the contents of string literals on one line.
fn code(text: &str) -> String {
    let mut code = String::new();
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default();
        for (place, part) in line.split('"').enumerate() {
            if place % 2 == 0 {
                code.push_str(part);
            }
        }
        code.push('\n');
    }
    code
}

#[test]
fn modules_import_downwards_only() {
    let known: BTreeMap<&str, BTreeSet<&str>> =
        MAY_USE.iter().map(|(name, uses)| (*name, uses.iter().copied().collect())).collect();
    let mut wrong = Vec::new();
    for (path, text) in rust_files("src") {
        let own = module(&path);
        if matches!(own, "lib" | "bin") {
            continue;
        }
        let Some(allowed) = known.get(own) else {
            wrong.push(format!("{path}: module {own} is not in the table"));
            continue;
        };
        for (place, _) in code(&text).match_indices("crate::") {
            let rest = &code(&text)[place + "crate::".len()..];
            let used: String =
                rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            let is_module = known.contains_key(used.as_str());
            if is_module && used != own && !allowed.contains(used.as_str()) {
                wrong.push(format!("{path} uses {used}"));
            }
        }
    }
    wrong.sort();
    wrong.dedup();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_crate_has_one_owner() {
    let mut wrong = Vec::new();
    for (path, text) in rust_files("src") {
        let own = module(&path);
        let code = code(&text);
        for (name, owners) in CRATES {
            let says = [format!("{name}::"), format!("use {name};")];
            let is_said = says.iter().any(|it| {
                code.match_indices(it.as_str()).any(|(place, _)| {
                    let before = code[..place].chars().next_back();
                    !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
                })
            });
            if is_said && !owners.contains(&own) {
                wrong.push(format!("{path} says {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_the_store_opens_sqlite() {
    let wrong: Vec<String> = rust_files("src")
        .into_iter()
        .filter(|(path, text)| {
            let before_tests = text.split("#[cfg(test)]").next().unwrap_or_default();
            let is_test = path.as_str().contains("test")
                || path.as_str().contains("fixture")
                || path.as_str().ends_with("model.rs");
            module(path) != "store" && !is_test && code(before_tests).contains("Connection::open")
        })
        .map(|(path, _)| path.to_string())
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Agents of our own user can put a fifo or a link where a file is expected: `process` opens files
/// of jobs and of the repository without waiting and without following.
#[test]
fn files_that_agents_can_swap_are_opened_by_process_only() {
    let words = ["fs::read(", "fs::read_to_string(", "File::open(", "OpenOptions::new("];
    for (path, text) in rust_files("src") {
        let before_tests = text.split("#[cfg(test)]").next().unwrap_or_default();
        if matches!(module(&path), "jobs" | "flows" | "documents")
            && !path.as_str().contains("test")
        {
            for word in words {
                assert!(!code(before_tests).contains(word), "{path} says {word}");
            }
        }
    }
}

#[test]
fn unsafe_code_is_in_one_file_with_reasons() {
    for (path, text) in rust_files("src") {
        let says_unsafe = code(&text).contains("unsafe {") || code(&text).contains("unsafe fn");
        if path == "src/process/sys.rs" {
            for (number, line) in text.lines().enumerate() {
                if line.trim_start().starts_with("//") || !line.contains("unsafe {") {
                    continue;
                }
                let before: Vec<&str> = text.lines().take(number).collect();
                let has_reason = before.iter().rev().take(8).any(|it| it.contains("SAFETY:"));
                assert!(has_reason, "{path}:{} has no SAFETY: reason", number + 1);
            }
        } else {
            assert!(!says_unsafe, "{path} has unsafe code");
        }
    }
}

#[test]
fn files_functions_and_lines_are_short() {
    let mut wrong = Vec::new();
    for (path, text) in all_files() {
        let lines: Vec<&str> = text.lines().collect();
        if lines.len() > FILE_LINES_MAX {
            wrong.push(format!("{path} has {} lines", lines.len()));
        }
        for (number, line) in lines.iter().enumerate() {
            if line.chars().count() > LINE_CHARS_MAX && !line.contains("http") {
                wrong.push(format!("{path}:{} is a long line", number + 1));
            }
        }
        for (first, length) in functions(&lines) {
            if length > FUNCTION_LINES_MAX {
                wrong.push(format!("{path}:{} is a function of {length} lines", first + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The functions of a file that rustfmt has formatted: (first line, number of lines).
fn functions(lines: &[&str]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let head = line.trim_start();
        let is_function = ["fn ", "pub fn ", "async fn ", "pub async fn ", "pub(super) fn "]
            .iter()
            .any(|it| head.starts_with(it))
            || (head.starts_with("pub(") && head.contains(" fn "));
        if !is_function || head.ends_with(';') {
            continue;
        }
        let end = format!("{}}}", " ".repeat(indent));
        if let Some(length) = lines[first..].iter().position(|it| *it == end) {
            found.push((first, length + 1));
        }
    }
    found
}

#[test]
fn every_file_says_what_it_owns() {
    for (path, text) in all_files() {
        assert!(text.starts_with("//! "), "{path} does not begin with what it owns");
    }
}

#[test]
fn nothing_is_left_for_later() {
    let words = ["TODO", "FIXME", "XXX", "todo!(", "unimplemented!(", "for now"];
    for (path, text) in rust_files("src") {
        for word in words {
            assert!(!text.contains(word), "{path} says {word}");
        }
    }
}

/// A wait between two looks at a condition is fine; a sleep instead of a condition is not.
#[test]
fn tests_wait_by_condition() {
    let sleeps = ["thread::sleep(", "time::sleep("];
    for (path, text) in rust_files("tests") {
        if path == "tests/architecture/mod.rs" {
            continue;
        }
        // A long one has a shorter sibling in every run, and `scripts/test --long` runs it.
        let text = text.replace("#[ignore = \"long: ", "");
        assert!(!text.contains("#[ignore"), "{path} ignores a test");
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            if !sleeps.iter().any(|it| line.contains(it)) {
                continue;
            }
            let is_polling = lines[number.saturating_sub(12)..number].iter().any(|before| {
                let before = before.trim_start();
                before.starts_with("while ") || before.starts_with("loop {")
            });
            assert!(is_polling, "{path}:{} sleeps", number + 1);
        }
    }
}
