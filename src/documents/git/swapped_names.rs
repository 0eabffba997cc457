//! Finds names that are handed on between two commits: `b` is called `c`, and `a` is called `b`.
//!
//! **Invariant:** a Source that exists in both commits has a new name only if another one has its
//! name: whoever copies most of a document and rewrites it renames nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::base::{BlobId, Result, SourcePath};
use crate::documents::git::Repo;
use crate::documents::git::renames::{FEW, Search};
use crate::documents::seen::Moved;

/// New names by old ones.
type Names = BTreeMap<SourcePath, SourcePath>;

impl Repo {
    /// Returns the new names of Sources of which at least one exists in both commits, and has a new
    /// name nevertheless: by identical contents, or as git says that compares rewritten files, too,
    /// if they are few, and it can.
    ///
    /// # Errors
    /// `unavailable` if git fails.
    pub(super) async fn handed_on(
        &self,
        ends: (&BlobId, &BlobId),
        moved: &Moved,
        search: &mut Search,
    ) -> Result<Names> {
        let stay = moved.values().filter(|it| it.0.is_some() && it.1.is_some()).count();
        if stay == 0 || moved.len() == 1 {
            return Ok(Names::new());
        }
        let mut names = identical(moved);
        if stay <= FEW {
            let told = match self.rewritten(ends).await {
                Ok(told) => told,
                Err(cause) => {
                    search.restrict(cause)?;
                    Vec::new()
                }
            };
            let mut taken: BTreeSet<SourcePath> = names.values().cloned().collect();
            for (old, new) in told {
                let pair = self.source_path(&old).zip(self.source_path(&new));
                let Some((old, new)) = pair.filter(|it| !names.contains_key(&it.0)) else {
                    continue;
                };
                if taken.insert(new.clone()) {
                    names.insert(old, new);
                }
            }
        }
        Ok(chains(names, moved))
    }
}

/// Returns the names of those contents that exactly one changed Source had, and exactly one has.
fn identical(moved: &Moved) -> Names {
    let (mut had, mut have) = (HashMap::new(), HashMap::new());
    for (path, (old, new)) in moved {
        for (by_blob, blob) in [(&mut had, old), (&mut have, new)] {
            if let Some(blob) = blob {
                by_blob.entry(blob).or_insert_with(Vec::new).push(path);
            }
        }
    }
    let pair = |(blob, old): (&&BlobId, &Vec<&SourcePath>)| match (&old[..], &have.get(blob)?[..]) {
        ([old], [new]) => Some(((*old).clone(), (*new).clone())),
        _ => None,
    };
    had.iter().filter_map(pair).collect()
}

/// Keeps what may be: see the invariant.
fn chains(mut names: Names, moved: &Moved) -> Names {
    let stays = |it: &SourcePath| moved.get(it).is_some_and(|it| it.1.is_some());
    loop {
        let taken: BTreeSet<SourcePath> = names.values().cloned().collect();
        let before = names.len();
        names.retain(|old, _| !stays(old) || taken.contains(old));
        if names.len() == before {
            return names;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::fixture::{blob, source};

    fn moved(all: &[(&str, Option<char>, Option<char>)]) -> Moved {
        let versions = |it: &(&str, Option<char>, Option<char>)| (it.1.map(blob), it.2.map(blob));
        all.iter().map(|it| (source(it.0), versions(it))).collect()
    }

    fn told(names: &Names) -> Vec<(&str, &str)> {
        names.iter().map(|(old, new)| (old.as_str(), new.as_str())).collect()
    }

    #[test]
    fn identical_contents_tell_who_has_whose_name() {
        let chain = moved(&[
            ("a.md", Some('a'), None),
            ("b.md", Some('b'), Some('a')),
            ("c.md", None, Some('b')),
        ]);
        let names = identical(&chain);
        assert_eq!(told(&names), [("a.md", "b.md"), ("b.md", "c.md")]);
        assert_eq!(chains(names.clone(), &chain), names);
        let swap = moved(&[("a.md", Some('a'), Some('b')), ("b.md", Some('b'), Some('a'))]);
        assert_eq!(told(&chains(identical(&swap), &swap)), [("a.md", "b.md"), ("b.md", "a.md")]);
        // Two have it now: git decides.
        let two = moved(&[
            ("b.md", Some('b'), None),
            ("c.md", None, Some('b')),
            ("d.md", None, Some('b')),
        ]);
        assert!(identical(&two).is_empty());
    }

    #[test]
    fn who_was_copied_and_written_anew_keeps_its_name() {
        // The pages begin as one template; and the second one is called as a third one no more.
        let written = moved(&[
            ("a.md", Some('e'), Some('a')),
            ("b.md", None, Some('e')),
            ("c.md", Some('c'), Some('d')),
        ]);
        let mut names = identical(&written);
        assert_eq!(told(&names), [("a.md", "b.md")]);
        names.insert(source("c.md"), source("a.md"));
        assert!(chains(names, &written).is_empty());
    }
}
