//! Sources that do not exist yet: their version, and whether they can be created.
//!
//! **Invariant:** a created Source is a regular file that matches the site's globs, in this
//! repository, at a path where nothing exists and nothing is tracked.

use camino::Utf8Path;
use unicode_normalization::UnicodeNormalization as _;

use crate::base::limit::GIT_LISTING_BYTES_MAX;
use crate::base::{Error, Result, SourcePath, fault, invisible_name};
use crate::documents::git::{Repo, blocking};
use crate::documents::sources::writable::Writable;
use crate::process::{NOT_A_FILE, PATH_IS_LINK, Root, Standing};

/// The code of a new Source whose path is taken.
pub const SOURCE_EXISTS: &str = "source_exists";

/// Most names in a folder that are compared with a new Source's.
const FOLDER_NAMES_MAX: usize = 100_000;

impl Repo {
    /// Refuses a Source that cannot be created, with the reason.
    ///
    /// # Errors
    /// `not_found` with code `not_a_source` if no glob matches; `conflict` with code
    /// `source_exists`, `case_clash`, `source_ignored` or `content_filter`; `invalid` with code
    /// `path_is_link` or `not_a_file` for a part of the path.
    pub async fn refuse_uncreatable(&self, path: &SourcePath) -> Result<()> {
        refuse_unnameable(path)?;
        if let Some(papers) = self.papers() {
            self.require_match(path)?;
            return if papers.is_there(path) { Err(exists(path)) } else { Ok(()) };
        }
        self.settled().await?.creatable(path).await.map(drop)
    }

    /// Returns what an approval needs to create a Source, or refuses it like
    /// [`Repo::refuse_uncreatable`].
    pub(in crate::documents) async fn creatable(&self, path: &SourcePath) -> Result<Writable> {
        if fault::is_off("new_source") {
            return Ok(Writable { bytes: None, conversion: self.conversion(path).await? });
        }
        refuse_unnameable(path)?;
        self.require_match(path)?;
        self.refuse_way(path).await?;
        let call = self.git().call(&["ls-files", "-z"]);
        let listed = call.output_max(GIT_LISTING_BYTES_MAX).output().await?;
        let git_path = self.git_path(path);
        for name in listed.split(|it| *it == 0).filter(|it| !it.is_empty()) {
            refuse_clash(path, &git_path, &String::from_utf8_lossy(name))?;
        }
        // This command does not support literal paths; after `./` no character is special.
        let name = format!("./{git_path}");
        let call = self.git().call(&["check-ignore", "-q", "--no-index", "--", &name]);
        let call = call.env("GIT_LITERAL_PATHSPECS", "0");
        let answer = call.on_files(&*self.settings().await?).run().await?;
        match answer.code {
            0 => {
                return Err(Error::conflict("source_ignored", format!("{path} is ignored by git"))
                    .hint("remove it from .gitignore, or choose another path"));
            }
            1 => {}
            _ => drop(answer.ok()?),
        }
        let conversion = self.conversion(path).await?;
        conversion.refuse_always(path)?;
        Ok(Writable { bytes: None, conversion })
    }

    /// Refuses a path where something exists, or that leads through anything other than folders of
    /// this repository.
    async fn refuse_way(&self, path: &SourcePath) -> Result<()> {
        let (root, path) = (self.root().clone(), path.clone());
        let look = move || {
            let folders: Vec<&Utf8Path> = path.as_path().ancestors().skip(1).collect();
            refuse_neighbors(&root, &path)?;
            for folder in folders.into_iter().rev().filter(|it| !it.as_str().is_empty()) {
                match root.standing(folder, 0)? {
                    Standing::Nothing => return Ok(()),
                    Standing::Link { .. } => {
                        return Err(Error::invalid(format!("{folder} is a link"))
                            .code(PATH_IS_LINK)
                            .hint("use the folder itself; links are not followed"));
                    }
                    Standing::Other { facts } if facts.starts_with("folder") => {}
                    _ => {
                        return Err(Error::invalid(format!("{folder} is not a folder"))
                            .code(NOT_A_FILE)
                            .hint("choose another path"));
                    }
                }
                if root.standing(folder.join(".git"), 0)? != Standing::Nothing {
                    let message = format!("{folder} is another repository");
                    return Err(Error::conflict(SOURCE_EXISTS, message)
                        .hint("choose a path in the site's own repository"));
                }
            }
            match root.standing(path.as_path(), 0)? {
                Standing::Nothing => Ok(()),
                _ => Err(exists(&path)),
            }
        };
        blocking(look).await?
    }
}

/// Refuses a new path that git would not accept, or that a reader could not distinguish from
/// another. Existing documents keep their names, whatever they are.
fn refuse_unnameable(path: &SourcePath) -> Result<()> {
    let refuse = |why: String| {
        let shown: String = path.as_str().chars().take(120).flat_map(char::escape_debug).collect();
        Err(Error::invalid(format!("`{shown}` is not a path for a new document: {why}"))
            .code("bad_path")
            .hint("choose a name of letters, digits, `-` and `_`"))
    };
    for part in path.as_path() {
        // Joiners and variation selectors are part of words in some scripts, and of emoji.
        let belongs = |it: &char| matches!(it, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}');
        if let Some(what) = part.chars().filter(|it| !belongs(it)).find_map(invisible_name) {
            return refuse(format!("it holds a {what}"));
        }
        let is_seen = |it: char| invisible_name(it).is_none() && !it.is_whitespace();
        if !part.split('.').next().unwrap_or_default().chars().any(is_seen) {
            return refuse("a part of it has nothing that can be seen".to_owned());
        }
        if is_git_folder(part) {
            return refuse("some systems take a part of it for .git".to_owned());
        }
    }
    Ok(())
}

/// Returns whether NTFS or HFS+ takes a name for git's own folder; git refuses these everywhere.
fn is_git_folder(name: &str) -> bool {
    let plain: String = name.chars().filter(|it| invisible_name(*it).is_none()).collect();
    // On NTFS a colon begins the name of a stream, and trailing spaces and dots are ignored.
    let plain = plain.split(':').next().unwrap_or_default().trim_end_matches([' ', '.']);
    plain.eq_ignore_ascii_case(".git") || plain.eq_ignore_ascii_case("git~1")
}

/// Refuses a path with a part that differs from an existing entry only in ways that some systems
/// ignore, whether git tracks that entry or not.
fn refuse_neighbors(root: &Root, path: &SourcePath) -> Result<()> {
    if fault::is_off("clash_beside") {
        return Ok(());
    }
    let parts: Vec<&Utf8Path> = path.as_path().ancestors().collect();
    for part in parts.into_iter().rev().filter(|it| !it.as_str().is_empty()) {
        let (Some(above), Some(own)) = (part.parent(), part.file_name()) else { continue };
        let folder = if above.as_str().is_empty() { Utf8Path::new(".") } else { above };
        // Anything but a folder, or a link, is refused elsewhere; nothing is below it.
        let Ok(names) = root.names(folder, FOLDER_NAMES_MAX) else { return Ok(()) };
        if names.iter().any(|it| it == own) {
            continue;
        }
        match names.iter().find(|it| folded(it) == folded(own)) {
            Some(other) => return Err(clash(path, &above.join(other).into_string())),
            // Nothing exists below a missing folder.
            None => return Ok(()),
        }
    }
    Ok(())
}

/// Returns a name as seen by systems that ignore case and Unicode normalization.
fn folded(name: &str) -> String {
    name.nfd().flat_map(char::to_lowercase).nfd().collect()
}

fn clash(path: &SourcePath, other: &str) -> Error {
    let shown = crate::base::truncate_chars(other, 200);
    let message = format!(
        "{path} differs from {} by case or by how its letters are composed only",
        shown.escape_debug()
    );
    Error::conflict("case_clash", message)
        .hint("some systems cannot tell the two apart: choose another name")
}

/// Returns the error for a new Source whose path is taken.
pub(in crate::documents) fn exists(path: &SourcePath) -> Error {
    Error::conflict(SOURCE_EXISTS, format!("{path} already exists"))
        .hint("ask for a proposal that changes it (git must track it), or choose another path")
}

/// Refuses a path that is tracked, or that some systems cannot distinguish from a tracked one.
fn refuse_clash(path: &SourcePath, git_path: &str, tracked: &str) -> Result<()> {
    if tracked == git_path {
        let message = format!("{path} is tracked, and was deleted");
        return Err(Error::conflict(SOURCE_EXISTS, message)
            .hint("commit its deletion first, or restore it"));
    }
    let (mut own, mut other) = (git_path.split('/'), tracked.split('/'));
    loop {
        match (own.next(), other.next()) {
            (Some(own), Some(other)) if own == other => {}
            (Some(own), Some(other)) if folded(own) == folded(other) => {
                return Err(clash(path, tracked));
            }
            (Some(_), Some(_)) => return Ok(()),
            // A file in place of a folder, or vice versa.
            _ => return Err(exists(path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_path_can_be_read_and_checked_out() {
        let is_refused = |path: &str| match refuse_unnameable(&path.parse().unwrap()) {
            Ok(()) => false,
            Err(cause) => cause.code_str() == "bad_path",
        };
        for good in ["a.md", "a b/c.md", "\u{e9}t\u{e9}/\u{4e2d}\u{6587}.md", "git~10.md"] {
            assert!(!is_refused(good), "{good}");
        }
        // A joiner within a word, and an emoji of several characters.
        let family = "\u{1f468}\u{200d}\u{1f469}.md";
        for good in ["\u{645}\u{6cc}\u{200c}\u{62e}.md", family] {
            assert!(!is_refused(good), "{good}");
        }
        for bad in [
            "\u{202e}x.md",
            "\u{200b}.md",
            "\u{200d}.md",
            "a/\u{2066}b.md",
            " .md",
            "git~1/x.md",
            "GIT~1 ./x.md",
            "git~1:stream.md",
            "\u{200c}.git/x.md",
        ] {
            assert!(is_refused(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_path_clashes_with_what_is_tracked() {
        let clash = |git_path: &str, tracked: &str| {
            let path: SourcePath = "new.md".parse().unwrap();
            let refused = refuse_clash(&path, git_path, tracked);
            refused.map_err(|cause| cause.code_str().to_owned())
        };
        for (git_path, tracked) in
            [("a/b.md", "a/c.md"), ("a/b.md", "b.md"), ("a.md", "a.mdx"), ("a/b", "ab/B")]
        {
            assert_eq!(clash(git_path, tracked), Ok(()), "{git_path} {tracked}");
        }
        for (git_path, tracked, code) in [
            ("a/b.md", "a/b.md", "source_exists"),
            ("a/b.md", "a", "source_exists"),
            ("a.md", "a.md/b", "source_exists"),
            ("a/b.md", "a/B.md", "case_clash"),
            ("a/b.md", "A/c.md", "case_clash"),
            ("ä/b.md", "Ä/b.md", "case_clash"),
            ("caf\u{e9}.md", "cafe\u{301}.md", "case_clash"),
            ("CAFE\u{301}/x.md", "caf\u{e9}/y.md", "case_clash"),
        ] {
            assert_eq!(clash(git_path, tracked), Err(code.to_owned()), "{git_path} {tracked}");
        }
    }
}
