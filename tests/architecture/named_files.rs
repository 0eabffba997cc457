//! Files and modules named in ARCHITECTURE.md and in the README exist.

use std::collections::BTreeSet;
use std::fs;

use camino::Utf8Path;

use super::root;

/// All files below `folder`, from the root of the project.
fn files(folder: &Utf8Path, found: &mut BTreeSet<String>) {
    for entry in folder.read_dir_utf8().unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            files(entry.path(), found);
        } else {
            found.insert(entry.path().strip_prefix(root()).unwrap().to_string());
        }
    }
}

/// Whether `name` is a file or a module: from the root, from `src`, or by the end of its path.
fn is_there(name: &str, all: &BTreeSet<String>) -> bool {
    let name = name.trim_end_matches('/');
    let module = [format!("{name}.rs"), format!("{name}/mod.rs")];
    root().join(name).exists()
        || root().join("src").join(name).exists()
        || module.iter().any(|path| all.contains(&format!("src/{path}")))
        || (name.contains('.') && all.iter().any(|path| path.ends_with(&format!("/{name}"))))
}

#[test]
fn what_the_architecture_and_the_readme_name_is_there() {
    let mut all = BTreeSet::new();
    for folder in ["src", "tests", "scripts", "docs", "benches", "migrations"] {
        let folder = root().join(folder);
        if folder.exists() {
            files(&folder, &mut all);
        }
    }
    let modules: BTreeSet<&str> = all
        .iter()
        .filter_map(|path| path.strip_prefix("src/")?.split('/').next())
        .chain(["pages", "git", "commit", "redline"])
        .collect();
    let mut missing = Vec::new();
    let mut seen = 0;
    let lines = |file: &'static str| {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.into_iter().enumerate().map(move |(number, line)| (file, number, line))
    };
    for (file, number, line) in lines("ARCHITECTURE.md").chain(lines("README.md")) {
        for name in line.split('`').skip(1).step_by(2) {
            let is_path = name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '.' | '-'));
            let first = name.split('/').next().unwrap_or_default();
            let is_file = [".rs", ".js", ".html"].iter().any(|end| name.ends_with(end));
            if is_path && (is_file || (name.contains('/') && modules.contains(first))) {
                seen += 1;
                if !is_there(name, &all) {
                    missing.push(format!("{file}:{}: {name}", number + 1));
                }
            }
        }
    }
    assert!(seen > 50, "only {seen} names found: the test looks past them");
    assert!(missing.is_empty(), "named, but not there:\n{}", missing.join("\n"));
}
