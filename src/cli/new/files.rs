//! Files to be written to a folder, all or none.
//!
//! **Invariant:** nothing that was there is changed, but for a line that is added to `.gitignore`,
//! and for a text that is replaced as a whole, only if it is still the one that was read.

use std::fs;
use std::io::Write;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::{Context, Error, ErrorKind, Result};

/// Largest `.gitignore` that is added to, in bytes.
const IGNORE_BYTES_MAX: u64 = 1024 * 1024;

/// One file to be written; the path is relative to the site's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Item {
    /// A file with this text.
    File(Utf8PathBuf, String),
    /// A link to this relative target.
    Link(Utf8PathBuf, &'static str),
    /// A line at the end of a file, unless it is already there.
    Line(Utf8PathBuf, &'static str),
    /// Replaces a text that was read; `None` if there was no file.
    Text {
        /// The file.
        path: Utf8PathBuf,
        /// The text that was read.
        before: Option<String>,
        /// The new text.
        after: String,
    },
}

impl Item {
    /// Returns its path.
    pub(in crate::cli) fn path(&self) -> &Utf8Path {
        match self {
            Item::File(path, _)
            | Item::Link(path, _)
            | Item::Line(path, _)
            | Item::Text { path, .. } => path,
        }
    }

    /// Describes it in one line.
    pub(in crate::cli) fn describe(&self) -> String {
        match self {
            Item::File(path, _) => path.to_string(),
            Item::Link(path, target) => format!("{path} -> {target}"),
            Item::Line(path, line) => format!("{path} (adds {line})"),
            Item::Text { path, before: None, .. } => path.to_string(),
            Item::Text { path, before: Some(before), after } => {
                let lines = |text: &str| text.lines().count();
                match lines(after).checked_sub(lines(before)) {
                    Some(more) if after.starts_with(before.trim_end()) => {
                        format!("{path} (adds {more} lines)")
                    }
                    _ => format!("{path} (changed)"),
                }
            }
        }
    }
}

/// Returns existing files in the way of the items.
pub(in crate::cli) fn in_the_way(folder: &Utf8Path, items: &[Item]) -> Vec<Utf8PathBuf> {
    let mut found: Vec<Utf8PathBuf> =
        items.iter().filter_map(|item| obstacle(folder, item)).collect();
    found.sort();
    found.dedup();
    found
}

fn obstacle(folder: &Utf8Path, item: &Item) -> Option<Utf8PathBuf> {
    let mut parent = Utf8PathBuf::new();
    for part in item.path().parent().into_iter().flat_map(Utf8Path::components) {
        parent.push(part);
        // Links are not followed: their target may be anywhere.
        match fs::symlink_metadata(folder.join(&parent)) {
            Ok(facts) if !facts.is_dir() => return Some(parent),
            Ok(_) => {}
            Err(_) => return None,
        }
    }
    let path = folder.join(item.path());
    let facts = fs::symlink_metadata(&path).ok()?;
    let is_fine = match item {
        Item::File(..) => false,
        Item::Link(_, target) => fs::read_link(&path).is_ok_and(|it| it.as_os_str() == *target),
        Item::Line(..) => facts.is_file() && facts.len() <= IGNORE_BYTES_MAX,
        Item::Text { before, .. } => {
            facts.is_file() && fs::read_to_string(&path).ok().as_ref() == before.as_ref()
        }
    };
    (!is_fine).then(|| item.path().to_owned())
}

/// Writes the items; returns those that were not there already. If one fails, the others are
/// removed again.
///
/// # Errors
/// `unavailable` with the name of what could not be written.
pub(in crate::cli) fn write(folder: &Utf8Path, items: &[Item]) -> Result<Vec<String>> {
    let mut undo = Undo::default();
    let mut written = Vec::new();
    for item in items {
        let done = write_item(folder, item, &mut undo)
            .context(ErrorKind::Unavailable, || format!("cannot write {}", item.path()));
        match done {
            Ok(true) => written.push(item.describe()),
            Ok(false) => {}
            Err(cause) => {
                let left = undo.run();
                return Err(match left.as_slice() {
                    [] => cause.hint("nothing was left behind"),
                    left => cause.hint(format!("left behind: {}", left.join(", "))),
                });
            }
        }
    }
    Ok(written)
}

/// How to undo a write.
#[derive(Debug, Default)]
struct Undo {
    files: Vec<Utf8PathBuf>,
    folders: Vec<Utf8PathBuf>,
    texts: Vec<(Utf8PathBuf, u64)>,
    replaced: Vec<(Utf8PathBuf, String)>,
}

impl Undo {
    /// Undoes all writes, last first; returns what is still there.
    fn run(self) -> Vec<String> {
        let mut left = Vec::new();
        let mut check = |path: &Utf8Path, done: std::io::Result<()>| {
            if done.is_err() {
                left.push(path.to_string());
            }
        };
        for (path, before) in self.replaced.iter().rev() {
            check(path, replace(path, before));
        }
        for path in self.files.iter().rev() {
            check(path, fs::remove_file(path));
        }
        for path in self.folders.iter().rev() {
            check(path, fs::remove_dir(path));
        }
        for (path, length) in &self.texts {
            let file = fs::OpenOptions::new().write(true).open(path);
            check(path, file.and_then(|file| file.set_len(*length)));
        }
        left
    }
}

fn write_item(folder: &Utf8Path, item: &Item, undo: &mut Undo) -> std::io::Result<bool> {
    let path = folder.join(item.path());
    make_folders(&path, undo)?;
    match item {
        Item::File(_, text) => {
            let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
            undo.files.push(path);
            file.write_all(text.as_bytes())?;
            Ok(true)
        }
        Item::Link(_, target) => match std::os::unix::fs::symlink(target, &path) {
            Ok(()) => {
                undo.files.push(path);
                Ok(true)
            }
            Err(cause) if cause.kind() == std::io::ErrorKind::AlreadyExists => {
                let is_same = fs::read_link(&path)?.as_os_str() == *target;
                if is_same { Ok(false) } else { Err(cause) }
            }
            Err(cause) => Err(cause),
        },
        Item::Line(_, line) => add_line(&path, line, undo),
        Item::Text { before, after, .. } => {
            if before.as_ref() == Some(after) {
                return Ok(false);
            }
            if fs::read_to_string(&path).ok() != *before {
                return Err(std::io::Error::other("it has changed in the meantime"));
            }
            replace(&path, after)?;
            match before {
                Some(before) => undo.replaced.push((path, before.clone())),
                None => undo.files.push(path),
            }
            Ok(true)
        }
    }
}

/// Replaces a file's text by one rename: readers find the old or the new one.
fn replace(path: &Utf8Path, text: &str) -> std::io::Result<()> {
    let beside = Utf8PathBuf::from(format!("{path}.new"));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&beside)?;
    let mut put = || -> std::io::Result<()> {
        if let Ok(facts) = fs::metadata(path) {
            file.set_permissions(facts.permissions())?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    put().inspect_err(|_| {
        // Returns the first error, with the names of what was left behind.
        drop(fs::remove_file(&beside));
    })
}

fn make_folders(path: &Utf8Path, undo: &mut Undo) -> std::io::Result<()> {
    let parent = path.parent().unwrap_or(Utf8Path::new("."));
    let mut missing: Vec<&Utf8Path> = parent
        .ancestors()
        .filter(|it| !it.as_str().is_empty())
        .take_while(|it| !it.exists())
        .collect();
    while let Some(folder) = missing.pop() {
        fs::create_dir(folder)?;
        undo.folders.push(folder.to_owned());
    }
    Ok(())
}

fn add_line(path: &Utf8Path, line: &str, undo: &mut Undo) -> std::io::Result<bool> {
    let old = match fs::read(path) {
        Ok(old) => Some(old),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => None,
        Err(cause) => return Err(cause),
    };
    let text = old.as_deref().unwrap_or_default();
    let bare = line.trim_matches('/');
    let has_line = text.split(|b| *b == b'\n').any(|it| {
        let it = it.trim_ascii();
        std::str::from_utf8(it).is_ok_and(|it| it.trim_matches('/') == bare)
    });
    if has_line {
        return Ok(false);
    }
    let gap = if text.is_empty() || text.ends_with(b"\n") { "" } else { "\n" };
    let mut file = fs::OpenOptions::new().append(true).create(true).open(path)?;
    match &old {
        Some(old) => undo.texts.push((path.to_owned(), old.len() as u64)),
        None => undo.files.push(path.to_owned()),
    }
    file.write_all(format!("{gap}{line}\n").as_bytes())?;
    Ok(true)
}

/// Returns the error that names everything in the way.
pub(in crate::cli) fn refusal(folder: &Utf8Path, found: &[Utf8PathBuf], advice: &str) -> Error {
    let names: Vec<&str> = found.iter().map(|it| it.as_str()).collect();
    Error::conflict("in_the_way", format!("in the way in {folder}: {}", names.join(", ")))
        .hint(format!("nothing was changed; {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, Utf8PathBuf) {
        let temp = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(temp.path().to_owned()).unwrap();
        (temp, path)
    }

    fn items() -> Vec<Item> {
        vec![
            Item::File("a/b/c.md".into(), "text".to_owned()),
            Item::Link(".x/a".into(), "../a"),
            Item::Line(".gitignore".into(), "/data/"),
        ]
    }

    #[test]
    fn what_is_there_is_in_the_way_even_below_a_link() {
        let (_temp, folder) = folder();
        assert!(in_the_way(&folder, &items()).is_empty());
        fs::create_dir_all(folder.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", folder.join("a")).unwrap();
        fs::create_dir_all(folder.join(".x/a")).unwrap();
        assert_eq!(
            in_the_way(&folder, &items()),
            ["a", ".x/a"].map(Utf8PathBuf::from).iter().rev().cloned().collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_failure_leaves_nothing_behind() {
        let (_temp, folder) = folder();
        fs::write(folder.join(".gitignore"), "target").unwrap();
        let mut items = items();
        items.push(Item::File("a/b/c.md".into(), "again".to_owned()));
        let error = write(&folder, &items).unwrap_err();
        assert_eq!(error.hint_str(), Some("nothing was left behind"));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(folder.join(".gitignore")).unwrap(), "target");
    }

    #[test]
    fn a_text_is_replaced_only_if_it_is_the_one_that_was_read() {
        let (_temp, folder) = folder();
        let text = |before: Option<&str>, after: &str| Item::Text {
            path: "a.lua".into(),
            before: before.map(str::to_owned),
            after: after.to_owned(),
        };
        assert_eq!(write(&folder, &[text(None, "one\n")]).unwrap(), ["a.lua"]);
        for stale in [text(None, "x"), text(Some("other"), "x")] {
            assert_eq!(in_the_way(&folder, std::slice::from_ref(&stale)), ["a.lua"]);
            assert!(write(&folder, &[stale]).is_err());
        }
        let longer = text(Some("one\n"), "one\ntwo\n");
        assert_eq!(longer.describe(), "a.lua (adds 1 lines)");
        let last = Item::File("b".into(), String::new());
        fs::write(folder.join("b"), "").unwrap();
        // A later item fails: the text is as before.
        assert!(write(&folder, &[longer.clone(), last]).is_err());
        assert_eq!(fs::read_to_string(folder.join("a.lua")).unwrap(), "one\n");
        write(&folder, &[longer]).unwrap();
        assert_eq!(fs::read_to_string(folder.join("a.lua")).unwrap(), "one\ntwo\n");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
    }

    #[test]
    fn a_line_is_added_once() {
        let (_temp, folder) = folder();
        fs::write(folder.join(".gitignore"), "target").unwrap();
        assert_eq!(write(&folder, &items()).unwrap().len(), 3);
        assert_eq!(fs::read_to_string(folder.join(".gitignore")).unwrap(), "target\n/data/\n");
        assert!(write(&folder, &items()[1..]).unwrap().is_empty());
        assert_eq!(fs::read_link(folder.join(".x/a")).unwrap().to_str(), Some("../a"));
    }
}
