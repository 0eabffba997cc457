//! Everything that a refusal must leave unchanged: all rows, the git folder without its objects,
//! the working tree.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use crate::support::Bench;

/// What there is → what it is, in words that differ if one byte differs.
pub(super) type Picture = BTreeMap<String, String>;

/// Returns the rows of every table, every file of the git folders but objects, and every file,
/// link and folder of the working tree with mode, time of change and bytes.
pub(super) fn picture(bench: &Bench, git_dirs: &[Utf8PathBuf]) -> Picture {
    let mut picture = rows(&bench.data);
    for folder in git_dirs {
        collect(folder, folder, false, &mut picture);
    }
    collect(&bench.top, &bench.top, true, &mut picture);
    picture
}

/// Names what is different, for the message of a test.
pub(super) fn difference(before: &Picture, after: &Picture) -> Vec<String> {
    let names = before.keys().chain(after.keys());
    let mut named: Vec<String> = names
        .filter(|name| before.get(*name) != after.get(*name))
        .map(|name| format!("{name}: {:?} -> {:?}", before.get(name), after.get(name)))
        .collect();
    named.sort();
    named.dedup();
    named
}

/// Returns every row of the database; the file itself moves with its log.
fn rows(data: &Utf8Path) -> Picture {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let database = Connection::open_with_flags(data.join("wiki.db"), flags).unwrap();
    let names = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    let mut names = database.prepare(names).unwrap();
    let names: Vec<String> =
        names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut picture = Picture::new();
    for table in names {
        let mut all = database.prepare(&format!("SELECT * FROM \"{table}\"")).unwrap();
        // How many commits were acknowledged, also those that took a refused approval back.
        let is_told = |column: &str| (table.as_str(), column) != ("site", "commits");
        let names = all.column_names().enumerate();
        let columns: Vec<usize> = names.filter(|it| is_told(it.1)).map(|it| it.0).collect();
        let mut found = all.query([]).unwrap();
        let mut number = 0;
        while let Some(row) = found.next().unwrap() {
            let values: Vec<String> =
                columns.iter().map(|it| shown(row.get_ref(*it).unwrap())).collect();
            picture.insert(format!("table {table} {number:05}"), values.join("|"));
            number += 1;
        }
    }
    picture
}

fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Text(text) => format!("{:?}", String::from_utf8_lossy(text)),
        other => format!("{other:?}"),
    }
}

fn collect(top: &Utf8Path, folder: &Utf8Path, is_timed: bool, picture: &mut Picture) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        // A name need not be UTF-8.
        let path = entry.path();
        let Ok(meta) = path.symlink_metadata() else { continue };
        let name = format!("{top} {}", path.strip_prefix(top).unwrap().to_string_lossy());
        let is_ours = is_timed && path.parent() == Some(top.as_std_path());
        if is_ours && [".git", "data", "wiki-browser.lua"].iter().any(|it| path.ends_with(it)) {
            continue;
        }
        // Loose objects are added by a refused approval: nothing refers to them.
        if !is_timed && path.ends_with("objects") {
            continue;
        }
        let time = if is_timed && !meta.is_dir() { meta.mtime_nsec() } else { 0 };
        let about = format!("{:o} {} {time}", meta.mode(), meta.nlink());
        let content = if meta.is_symlink() {
            format!("{:?}", path.read_link().unwrap())
        } else if meta.is_file() {
            crate::git::table::digest(&std::fs::read(&path).unwrap_or_default())
        } else {
            String::new()
        };
        let about = if meta.is_dir() { format!("{:o}", meta.mode()) } else { about };
        picture.insert(name, format!("{about} {content}"));
        if let (true, Ok(path)) = (meta.is_dir(), Utf8PathBuf::from_path_buf(path)) {
            collect(top, &path, is_timed, picture);
        }
    }
}
