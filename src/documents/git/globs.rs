//! Globs that select Sources.

use camino::Utf8PathBuf;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::base::{Context, Error, ErrorKind, Result};

/// The globs of a site, in any order: a file is a Source if one without `!` matches it and none
/// with `!` does.
pub struct SourceGlobs {
    included: GlobSet,
    excluded: GlobSet,
}

impl SourceGlobs {
    /// Parses the globs of a script.
    ///
    /// # Errors
    /// `invalid` with code `bad_glob`.
    pub fn of(sources: &[String]) -> Result<SourceGlobs> {
        let (mut included, mut excluded) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        for source in sources {
            let (set, glob) = match source.strip_prefix('!') {
                Some(glob) => (&mut excluded, glob),
                None => (&mut included, source.as_str()),
            };
            let glob = GlobBuilder::new(glob).literal_separator(true).build();
            set.add(glob.map_err(|cause| {
                Error::invalid(format!("`{source}` is not a glob")).code("bad_glob").source(cause)
            })?);
        }
        let built = |set: GlobSetBuilder| {
            let what = || "the globs of the sources are too large".to_owned();
            set.build().context(ErrorKind::Invalid, what)
        };
        Ok(SourceGlobs { included: built(included)?, excluded: built(excluded)? })
    }

    /// Returns whether a path below the root is a Source.
    pub fn is_match(&self, path: &str) -> bool {
        self.included.is_match(path) && !self.excluded.is_match(path)
    }
}

/// Returns whether a glob, parsed like those of Sources and without its `!`, matches one of these
/// paths below the root; an invalid glob matches nothing.
pub fn matches_any(glob: &str, paths: &[Utf8PathBuf]) -> bool {
    let glob = glob.strip_prefix('!').unwrap_or(glob);
    let globs = SourceGlobs::of(&[glob.to_owned()]);
    globs.is_ok_and(|globs| paths.iter().any(|it| globs.is_match(it.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_left_out_wherever_it_stands() {
        let all = ["**/*.md", "!skills/**", "!**/draft-*.md"].map(str::to_owned);
        for turn in 0..all.len() {
            let mut globs = all.to_vec();
            globs.rotate_left(turn);
            let globs = SourceGlobs::of(&globs).unwrap();
            for (path, expected) in [
                ("a.md", true),
                ("docs/skills/a.md", true),
                ("skills/x/SKILL.md", false),
                ("docs/draft-a.md", false),
                ("draft-a.md", false),
                ("a.txt", false),
            ] {
                assert_eq!(globs.is_match(path), expected, "{path}");
            }
        }
        assert!(!SourceGlobs::of(&["!a.md".to_owned()]).unwrap().is_match("b.md"));
    }
}
