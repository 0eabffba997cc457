//! Words of a command that look like files, whether there are any of that name or not.

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

/// Endings of files that a program reads and does not run.
const DATA: [&str; 13] = [
    "cfg", "conf", "env", "ini", "json", "jsonc", "lock", "log", "md", "toml", "txt", "yaml", "yml",
];
/// Most characters of a file's ending.
const ENDING_CHARS_MAX: usize = 8;

pub(super) fn file_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Returns whether a word can be a path and nothing else, as a text or an address is.
pub(super) fn is_plain(word: &str) -> bool {
    let is_of_path = |it: char| it.is_alphanumeric() || "._-+/".contains(it);
    !word.starts_with('-') && word.chars().all(is_of_path)
}

/// Returns whether a word has the ending of a file that may be run.
pub(super) fn is_code(word: &str) -> bool {
    ending(word).is_some() && !is_data(word)
}

/// Returns whether a word has the ending of a file that is only read.
pub(super) fn is_data(word: &str) -> bool {
    ending(word).is_some_and(|it| DATA.contains(&it))
}

/// Returns the ending of a file's name; a number is the end of a version.
fn ending(word: &str) -> Option<&str> {
    let (stem, ending) = file_name(word).rsplit_once('.')?;
    let is_one = ending.starts_with(|it: char| it.is_ascii_alphabetic())
        && ending.len() <= ENDING_CHARS_MAX
        && ending.bytes().all(|it| it.is_ascii_alphanumeric());
    let is_named = !stem.is_empty() || DATA.contains(&ending);
    (is_one && is_named).then_some(ending)
}

/// Returns whether a word is a path in a folder.
pub(super) fn is_inside(word: &str, folder: &Utf8Path) -> bool {
    let path = clean(&folder.join(word));
    path != folder && path.starts_with(folder)
}

/// Returns a path without `.`, and without `..` where that is possible.
pub(super) fn clean(path: &Utf8Path) -> Utf8PathBuf {
    let mut clean = Utf8PathBuf::new();
    for part in path.components() {
        match part {
            Utf8Component::CurDir => {}
            Utf8Component::ParentDir if clean.file_name().is_some_and(|it| it != "..") => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}
