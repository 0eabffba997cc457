//! Finds Sources that have other names in a later commit.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tracing::warn;

use crate::base::limit::GIT_LISTING_BYTES_MAX;
use crate::base::{BlobId, Error, ErrorKind, Result, SourcePath};
use crate::documents::git::failure::{GIT_FAILED, REPOSITORY_DAMAGED};
use crate::documents::git::{Call, Repo};
use crate::process::COMMAND_TIMEOUT;

/// Timeout for git.
const TIME_MAX: Duration = Duration::from_millis(crate::base::limit::HISTORY_MS_MAX);
/// Most commits examined individually.
const COMMITS_MAX: &str = "--max-count=500";
/// Most files per side compared each with each: git's running time grows with the product of both,
/// and with their sizes.
pub(super) const FEW: usize = 200;
/// Rounds of looking for another new name when a file's best match is taken by another file.
const ROUNDS: usize = 4;
/// Longest list of names passed to git, in bytes.
const NAMES_BYTES_MAX: usize = 512 * 1024;
/// Minimum similarity between a file and its renamed version.
pub(super) const ALIKE: &str = "--find-renames=50%";
/// The same for identical contents, which git knows without reading them.
const IDENTICAL: &str = "--find-renames=100%";
/// What every search for renames shows.
pub(super) const FIND: &[&str] =
    &["-r", "-z", "-l1000", "--diff-filter=R", "--name-status", "--no-ext-diff", "--no-textconv"];

/// An old name with its new one.
pub(super) type Rename = (Vec<u8>, Vec<u8>);

/// What a search still compares.
#[derive(Default)]
pub(super) struct Search {
    /// Git could not compare similar contents.
    pub(super) is_exact: bool,
}

impl Search {
    /// Goes on with identical contents only, if git could not compare others.
    ///
    /// # Errors
    /// Any other error.
    pub(super) fn restrict(&mut self, cause: Error) -> Result<()> {
        if !is_too_much(&cause) {
            return Err(cause);
        }
        warn!("only what was renamed without a change is followed: {}", cause.chain());
        self.is_exact = true;
        Ok(())
    }
}

impl Repo {
    /// Returns the new names of Sources that changed between two commits: of the `gone` ones, which
    /// do not exist in `to`, and of others whose name was handed on. First the two commits are
    /// compared: identical contents always, similar ones if few files disappeared and appeared;
    /// among many, only the `followed` are searched. A followed Source that changed too much
    /// between the two, or whose name was handed on, is searched in the individual commits up to
    /// `to`, each of which may have changed it little. Names that match no glob, or do not exist in
    /// `to`, are ignored. If git cannot compare similar contents (it takes too long, or some cannot
    /// be read), those with identical contents are found.
    ///
    /// # Errors
    /// `unavailable` if git fails.
    pub async fn renames(
        &self,
        from: &BlobId,
        to: &BlobId,
        gone: &BTreeSet<SourcePath>,
        followed: &BTreeSet<SourcePath>,
    ) -> Result<BTreeMap<SourcePath, SourcePath>> {
        if let Some(papers) = self.papers() {
            return Ok(papers.renames(from, gone));
        }
        let names = |paths: &BTreeMap<SourcePath, SourcePath>| -> Vec<Rename> {
            let name = |it: &SourcePath| self.git_path(it).into_bytes();
            paths.iter().map(|(old, new)| (name(old), name(new))).collect()
        };
        let moved = self.moved(Some(from), Some(to)).await?.unwrap_or_default();
        let mut search = Search::default();
        let mut found = self.handed_on((from, to), &moved, &mut search).await?;
        let mut direct = names(&found);
        if !gone.is_empty() {
            let more = self.between((from, to), (gone, followed), &direct, &mut search).await?;
            direct.extend(more);
        }
        let is_lost = |it: &&SourcePath| {
            let name = self.git_path(it).into_bytes();
            !direct.iter().any(|(old, _)| *old == name)
        };
        let lost: Vec<&SourcePath> = followed.iter().filter(is_lost).collect();
        let is_gone = lost.iter().any(|it| gone.contains(*it));
        let mut steps = Vec::new();
        if (is_gone || self.were_away((from, to), &lost).await?) && self.has_steps(from, to).await?
        {
            let walk = ["log", "--reverse", "--first-parent", "-m", "--format=", COMMITS_MAX];
            steps = self.find(&walk, &[&format!("{from}..{to}")], &mut search).await?;
        }
        for path in gone.iter().chain(followed) {
            let old = self.git_path(path).into_bytes();
            let new = direct.iter().find(|it| it.0 == old).map(|it| &it.1[..]);
            let new = new.unwrap_or_else(|| last_name(&steps, &old));
            if let Some(new) = self.source_path(new).filter(|it| it != path) {
                found.insert(path.clone(), new);
            }
        }
        let news: Vec<SourcePath> = found.values().cloned().collect();
        let there = self.blobs_at(Some(to), &news).await?;
        found.retain(|_, new| there.contains_key(new));
        Ok(found)
    }

    /// Compares two commits. What is known goes before what git says.
    async fn between(
        &self,
        (from, to): (&BlobId, &BlobId),
        (gone, followed): (&BTreeSet<SourcePath>, &BTreeSet<SourcePath>),
        known: &[Rename],
        search: &mut Search,
    ) -> Result<Vec<Rename>> {
        let few = format!("-l{FEW}");
        let rest = [few.as_str(), from.as_str(), to.as_str()];
        let mut names = self.find(&["diff-tree"], &rest, search).await?;
        names.retain(|it| !known.iter().any(|(old, new)| *old == it.0 || *new == it.1));
        let followed = followed.intersection(gone).map(|it| self.git_path(it).into_bytes());
        let all: Vec<Rename> = known.iter().chain(&names).cloned().collect();
        let is_lost = |it: &Vec<u8>| !all.iter().any(|(old, _)| old == it);
        let rest: Vec<Vec<u8>> = followed.filter(is_lost).collect();
        if !rest.is_empty() && !search.is_exact {
            match self.among_many((from, to), rest, &all).await {
                Ok(more) => names.extend(more),
                Err(cause) => search.restrict(cause)?,
            }
        }
        Ok(names)
    }

    /// Returns whether a commit on the way to another one deleted some Sources that exist again.
    async fn were_away(
        &self,
        (from, to): (&BlobId, &BlobId),
        paths: &[&SourcePath],
    ) -> Result<bool> {
        let names: Vec<Vec<u8>> = paths.iter().map(|it| self.git_path(it).into_bytes()).collect();
        let Some(names) = names_within(&names, &[]).filter(|it| !it.is_empty()) else {
            return Ok(false);
        };
        let walk = ["log", "--first-parent", "-m", "--format=", COMMITS_MAX, "--no-renames"];
        let call = self.git().call(&walk).arg("--diff-filter=D").arg("--name-only");
        let call = call.arg(format!("{from}..{to}")).arg("--");
        let call = names.into_iter().fold(call, |call, it| call.arg(it));
        let told = call.within(TIME_MAX).output_max(GIT_LISTING_BYTES_MAX).output().await;
        match told {
            Ok(told) => Ok(!told.is_empty()),
            // Then each commit is examined.
            Err(cause) if is_too_much(&cause) => Ok(true),
            Err(cause) => Err(cause),
        }
    }

    /// Returns the new names of some files among too many to compare each with each; empty if they
    /// are few. As in git's comparison, a new file that is more similar to another missing file
    /// belongs to that one.
    async fn among_many(
        &self,
        (from, to): (&BlobId, &BlobId),
        mut rest: Vec<Vec<u8>>,
        known: &[Rename],
    ) -> Result<Vec<Rename>> {
        let list = ["diff-tree", "-r", "-z", "--no-renames", "--diff-filter=AD", "--name-status"];
        let call = self.git().call(&list).arg(from.as_str()).arg(to.as_str());
        let told = call.within(TIME_MAX).output_max(GIT_LISTING_BYTES_MAX).output().await?;
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        let mut fields = told.split(|it| *it == 0);
        while let (Some(status), Some(name)) = (fields.next(), fields.next()) {
            let is_known = known.iter().any(|(old, new)| old == name || new == name);
            match status {
                _ if is_known => {}
                b"A" => new.push(name.to_vec()),
                _ => gone.push(name.to_vec()),
            }
        }
        let mut found = Vec::new();
        if gone.len() * new.len() <= FEW * FEW {
            return Ok(found);
        }
        let alike = async |old: &[Vec<u8>], new: &[Vec<u8>]| -> Result<Vec<Rename>> {
            let Some(names) = names_within(old, new) else { return Ok(Vec::new()) };
            let call = self.finding(&["diff-tree", ALIKE]);
            let call = call.arg(from.as_str()).arg(to.as_str()).arg("--");
            self.told_renames(names.into_iter().fold(call, |call, it| call.arg(it))).await
        };
        for _ in 0..ROUNDS {
            let wanted = alike(&rest, &new).await?;
            let wanted: Vec<Rename> =
                wanted.into_iter().filter(|it| rest.contains(&it.0)).collect();
            if wanted.is_empty() {
                break;
            }
            let taken: Vec<Vec<u8>> = wanted.iter().map(|it| it.1.clone()).collect();
            let best = alike(&gone, &taken).await?;
            new.retain(|it| !taken.contains(it));
            let own: Vec<Rename> = wanted.into_iter().filter(|it| best.contains(it)).collect();
            rest.retain(|it| !own.iter().any(|(old, _)| old == it));
            gone.retain(|it| !own.iter().any(|(old, _)| old == it));
            found.extend(own);
        }
        Ok(found)
    }

    /// Returns whether more than one commit lies between two commits.
    async fn has_steps(&self, from: &BlobId, to: &BlobId) -> Result<bool> {
        let parents = ["rev-list", "--parents", "--max-count=1"];
        let told = self.git().call(&parents).arg(to.as_str()).output().await?;
        let told = String::from_utf8_lossy(&told);
        Ok(told.split_whitespace().nth(1) != Some(from.as_str()))
    }

    /// Searches for renames, and again for those without a change if git could not compare others.
    async fn find(
        &self,
        command: &[&str],
        rest: &[&str],
        search: &mut Search,
    ) -> Result<Vec<Rename>> {
        let with = |alike: &str| {
            let call = self.finding(command).arg(alike);
            rest.iter().fold(call, |call, it| call.arg(*it))
        };
        if !search.is_exact {
            match self.told_renames(with(ALIKE)).await {
                Err(cause) => search.restrict(cause)?,
                told => return told,
            }
        }
        self.told_renames(with(IDENTICAL)).await
    }

    /// Compares two commits, and what was rewritten under its name, too.
    pub(super) async fn rewritten(&self, (from, to): (&BlobId, &BlobId)) -> Result<Vec<Rename>> {
        let call = self.finding(&["diff-tree", "--break-rewrites", ALIKE]);
        let call = call.arg(format!("-l{FEW}"));
        self.told_renames(call.arg(from.as_str()).arg(to.as_str())).await
    }

    fn finding(&self, command: &[&str]) -> Call<'_> {
        FIND.iter().fold(self.git().call(command), |call, it| call.arg(*it))
    }

    async fn told_renames(&self, call: Call<'_>) -> Result<Vec<Rename>> {
        let told = call.within(TIME_MAX).output_max(GIT_LISTING_BYTES_MAX).output().await?;
        Ok(parse(&told))
    }
}

/// Returns whether git could not do this work, and may be able to do less.
fn is_too_much(cause: &Error) -> bool {
    cause.kind() == ErrorKind::TooLarge
        || matches!(cause.code_str(), COMMAND_TIMEOUT | GIT_FAILED | REPOSITORY_DAMAGED)
}

/// Returns names as arguments; `None` if they are too many. Names that are not UTF-8 are skipped:
/// they are no Sources.
fn names_within(some: &[Vec<u8>], others: &[Vec<u8>]) -> Option<Vec<String>> {
    let text = |it: &Vec<u8>| String::from_utf8(it.clone()).ok();
    let names: Vec<String> = some.iter().chain(others).filter_map(text).collect();
    let bytes: usize = names.iter().map(|it| it.len() + 1).sum();
    (bytes <= NAMES_BYTES_MAX).then_some(names)
}

/// Follows a name through renames in commit order.
fn last_name<'n>(renames: &'n [Rename], name: &'n [u8]) -> &'n [u8] {
    renames.iter().fold(name, |name, (old, new)| if old == name { new } else { name })
}

/// Parses `RNUMBER\0OLD\0NEW\0`; git separates commits by more NULs.
fn parse(told: &[u8]) -> Vec<Rename> {
    let mut renames = Vec::new();
    let mut fields = told.split(|it| *it == 0);
    while let Some(field) = fields.next() {
        let word = field.trim_ascii_start();
        let is_rename = word.first() == Some(&b'R') && word[1..].iter().all(u8::is_ascii_digit);
        if !is_rename {
            continue;
        }
        if let (Some(old), Some(new)) = (fields.next(), fields.next()) {
            renames.push((old.to_vec(), new.to_vec()));
        }
    }
    renames
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_followed_in_the_order_of_the_commits() {
        let told = b"R100\0a.md\0b.md\0\0\nR061\0b.md\0R1\0R070\0R1\0docs/c d.md\0R100\0x\0y\0";
        let renames = parse(told);
        assert_eq!(renames.len(), 4);
        assert_eq!(last_name(&renames, b"a.md"), b"docs/c d.md");
        assert_eq!(last_name(&renames, b"b.md"), b"docs/c d.md");
        assert_eq!(last_name(&renames, b"y"), b"y");
        assert_eq!(parse(b""), []);
    }
}
