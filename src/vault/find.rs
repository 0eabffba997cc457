//! Finds files of a vault by name and by content.

use std::time::{Duration, Instant};

use camino::Utf8PathBuf;
use globset::{GlobBuilder, GlobMatcher};

use crate::base::{Error, Result};
use crate::process::{EntryKind, Standing};
use crate::vault::files::{FILE_BYTES_MAX, list};
use crate::vault::{Vault, VaultPath};

/// Most files visited.
const FILES_MAX: usize = 20_000;
/// Longest search.
const SEARCH_MAX: Duration = Duration::from_secs(2);
/// Most characters shown of a line.
const LINE_CHARS_MAX: usize = 300;

/// The results, and whether they are complete.
#[derive(Clone, Debug)]
pub struct Found<T> {
    /// The results.
    pub items: Vec<T>,
    /// Why there may be more; `None` if complete.
    pub cut: Option<&'static str>,
    /// What was not looked at.
    pub skipped: Skipped,
}

/// How many names and files a search left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Hidden names, links, devices and invalid names.
    pub names: usize,
    /// Files of more than [`FILE_BYTES_MAX`].
    pub large: usize,
    /// Files that are not text, or cannot be read.
    pub unreadable: usize,
}

/// A matching line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The file.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The beginning of the line.
    pub text: String,
}

impl Vault {
    /// Returns the files whose paths match a glob, in order.
    ///
    /// # Errors
    /// `invalid` with code `bad_pattern`; `not_found` if the folder is not there.
    pub fn glob(
        &self,
        pattern: &str,
        folder: Option<&VaultPath>,
        most: usize,
    ) -> Result<Found<String>> {
        let glob = GlobBuilder::new(pattern).literal_separator(true).build();
        let glob = glob.map_err(|cause| {
            Error::invalid(format!("the pattern is no glob: {cause}"))
                .code("bad_pattern")
                .hint("such as **/*.md or notes/2026-*.md")
        })?;
        let matcher: GlobMatcher = glob.compile_matcher();
        let start = folder.map(|it| it.as_path().to_owned());
        let mut found = Found::new();
        (found.cut, found.skipped.names) = self.walk(start.clone(), |path| {
            // The pattern is relative to the given folder.
            let shown = start.as_ref().and_then(|it| path.strip_prefix(it).ok());
            if matcher.is_match(shown.unwrap_or(path)) {
                if found.items.len() == most {
                    return Ok(Some("there are more"));
                }
                found.items.push(path.to_string());
            }
            Ok(None)
        })?;
        Ok(found)
    }

    /// Returns the lines that contain a text, ignoring case.
    ///
    /// # Errors
    /// `invalid` with code `bad_pattern`; `not_found` if the folder is not there.
    pub fn search(
        &self,
        words: &str,
        folder: Option<&VaultPath>,
        most: usize,
    ) -> Result<Found<Hit>> {
        if words.trim().is_empty() || words.contains('\n') {
            return Err(Error::invalid("what is looked for is some words of one line")
                .code("bad_pattern")
                .hint("it is no regular expression"));
        }
        let wanted = words.to_lowercase();
        let begun = Instant::now();
        let mut found = Found::new();
        let start = folder.map(|it| it.as_path().to_owned());
        (found.cut, found.skipped.names) = self.walk(start, |path| {
            if begun.elapsed() > SEARCH_MAX {
                return Ok(Some("the search took too long"));
            }
            let Standing::File { bytes, .. } = self.root.standing(path, FILE_BYTES_MAX)? else {
                let entry = self.root.entry(path)?;
                match entry.is_some_and(|it| it.bytes > FILE_BYTES_MAX as u64) {
                    true => found.skipped.large += 1,
                    false => found.skipped.unreadable += 1,
                }
                return Ok(None);
            };
            let Ok(text) = std::str::from_utf8(&bytes) else {
                found.skipped.unreadable += 1;
                return Ok(None);
            };
            for (number, line) in text.lines().enumerate() {
                if line.to_lowercase().contains(&wanted) {
                    if found.items.len() == most {
                        return Ok(Some("there are more"));
                    }
                    let text = crate::base::truncate_chars(line, LINE_CHARS_MAX);
                    found.items.push(Hit { path: path.to_string(), line: number + 1, text });
                }
            }
            Ok(None)
        })?;
        Ok(found)
    }

    /// Returns the files below a folder that were last changed before a time, with their sizes and
    /// times; none if the folder does not exist.
    ///
    /// # Errors
    /// `unavailable` if the file system does not answer.
    pub fn files_before(
        &self,
        folder: &VaultPath,
        before_ms: i64,
        most: usize,
    ) -> Result<Found<(String, u64, i64)>> {
        let mut found = Found::new();
        if !self.is_folder(folder)? {
            return Ok(found);
        }
        let start = Some(folder.as_path().to_owned());
        (found.cut, found.skipped.names) = self.walk(start, |path| {
            let Some(entry) = self.root.entry(path)? else { return Ok(None) };
            if entry.modified_ms >= before_ms || entry.kind != EntryKind::File {
                return Ok(None);
            }
            if found.items.len() == most {
                return Ok(Some("there are more"));
            }
            found.items.push((path.to_string(), entry.bytes, entry.modified_ms));
            Ok(None)
        })?;
        Ok(found)
    }

    /// Visits all files below a folder in order, until the visitor returns a reason to stop.
    /// Returns that reason, and how many names were left out.
    fn walk(
        &self,
        start: Option<Utf8PathBuf>,
        mut visit: impl FnMut(&camino::Utf8Path) -> Result<Option<&'static str>>,
    ) -> Result<(Option<&'static str>, usize)> {
        let (mut folders, mut files, mut left_out) = (vec![start], 0, 0);
        while let Some(folder) = folders.pop() {
            let (listed, hidden) = list(&self.root, folder.as_deref())?;
            left_out += hidden;
            let at = |name: &str| match &folder {
                Some(folder) => folder.join(name),
                None => Utf8PathBuf::from(name),
            };
            let mut below = Vec::new();
            for it in &listed {
                if let Some(name) = it.name.strip_suffix('/') {
                    below.push(Some(at(name)));
                    continue;
                }
                files += 1;
                if files > FILES_MAX {
                    return Ok((Some("there are too many files"), left_out));
                }
                if let Some(why) = visit(&at(&it.name))? {
                    return Ok((Some(why), left_out));
                }
            }
            folders.extend(below.into_iter().rev());
        }
        Ok((None, left_out))
    }
}

impl<T> Found<T> {
    fn new() -> Found<T> {
        Found { items: Vec::new(), cut: None, skipped: Skipped::default() }
    }
}

impl Skipped {
    /// Returns a sentence about what was left out; `None` if nothing was.
    pub fn sentence(&self) -> Option<String> {
        let counted = [
            (self.large, "larger than 1 MiB"),
            (self.unreadable, "not readable as text"),
            (self.names, "hidden or a link"),
        ];
        let words: Vec<String> = counted
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, why)| format!("{count} {why}"))
            .collect();
        (!words.is_empty()).then(|| format!("Skipped: {}.", words.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use camino::Utf8Path;

    use super::*;

    #[test]
    fn files_are_found_by_name_and_by_words() {
        let folder = tempfile::tempdir().unwrap();
        let base = Utf8Path::from_path(folder.path()).unwrap();
        std::fs::create_dir_all(base.join("notes/.hidden")).unwrap();
        std::fs::write(base.join("top.md"), "Größe\nnothing\n").unwrap();
        std::fs::write(base.join("notes/a.md"), "first\nDie GRÖSSE, die größe\n").unwrap();
        std::fs::write(base.join("notes/b.txt"), b"\xff gr\xc3\xb6\xc3\x9fe").unwrap();
        std::fs::write(base.join("notes/.hidden/c.md"), "größe").unwrap();
        std::os::unix::fs::symlink(base, base.join("loop")).unwrap();
        let vault = Vault::open(base, &[]).unwrap();
        let notes: VaultPath = "notes".parse().unwrap();
        let glob = |pattern: &str, at: Option<&VaultPath>| {
            vault.glob(pattern, at, 10).unwrap().items.join(" ")
        };
        assert_eq!(glob("**/*.md", None), "top.md notes/a.md");
        assert_eq!(glob("*.md", None), "top.md");
        assert_eq!(glob("*", Some(&notes)), "notes/a.md notes/b.txt");
        assert_eq!(vault.glob("[", None, 10).unwrap_err().code_str(), "bad_pattern");
        assert_eq!(vault.glob("**", None, 1).unwrap().cut, Some("there are more"));
        // The link and the hidden folder.
        assert_eq!(vault.glob("**", None, 9).unwrap().skipped.names, 2);
        let hits = vault.search("größe", None, 10).unwrap();
        let shown: Vec<String> =
            hits.items.iter().map(|it| format!("{}:{} {}", it.path, it.line, it.text)).collect();
        assert_eq!(shown, ["top.md:1 Größe", "notes/a.md:2 Die GRÖSSE, die größe"]);
        assert_eq!(hits.skipped, Skipped { names: 2, large: 0, unreadable: 1 });
        std::fs::write(base.join("huge.txt"), "x".repeat(FILE_BYTES_MAX + 1)).unwrap();
        let hits = vault.search("xxx", None, 10).unwrap();
        let said = hits.skipped.sentence().unwrap();
        assert_eq!(
            said,
            "Skipped: 1 larger than 1 MiB, 1 not readable as text, 2 hidden or a link."
        );
        assert_eq!((hits.items.len(), Skipped::default().sentence()), (0, None));
        assert_eq!(vault.search(" ", None, 10).unwrap_err().code_str(), "bad_pattern");
    }
}
