//! Which Sources have other names in a later commit.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::base::limit::GIT_LISTING_BYTES_MAX;
use crate::base::{BlobId, Result, SourcePath};
use crate::documents::git::{Call, Repo};

/// How long git may look.
const TIME_MAX: Duration = Duration::from_millis(crate::base::limit::HISTORY_MS_MAX);
/// How many commits are looked at one by one.
const COMMITS_MAX: &str = "--max-count=500";
/// How many files on each side are compared, where nothing hangs on those that are gone: how long
/// git looks grows with the product of both.
const FEW: &str = "-l200";
/// What a file shares at least with what it was, if it was renamed.
pub(super) const FIND: &[&str] = &[
    "-r",
    "-z",
    "--find-renames=50%",
    "-l1000",
    "--diff-filter=R",
    "--name-status",
    "--no-ext-diff",
    "--no-textconv",
];

impl Repo {
    /// Returns what some Sources of one commit that another has not are called there. First the two
    /// commits are compared. One of those that are `followed` and have changed too much between
    /// them is looked for in the commits of the second one, each of which may have changed little.
    /// A name that no glob names, or that the second commit has not, is none.
    ///
    /// # Errors
    /// `unavailable` if git cannot say, or not soon.
    pub async fn renames(
        &self,
        from: &BlobId,
        to: &BlobId,
        gone: &BTreeSet<SourcePath>,
        followed: &BTreeSet<SourcePath>,
    ) -> Result<BTreeMap<SourcePath, SourcePath>> {
        if gone.is_empty() {
            return Ok(BTreeMap::new());
        }
        if let Some(papers) = self.papers() {
            return Ok(papers.renames(from, gone));
        }
        let call = FIND.iter().fold(self.git().call(&["diff-tree"]), |call, it| call.arg(*it));
        let call = if followed.is_empty() { call.arg(FEW) } else { call };
        let mut names = self.told_renames(call.arg(from.as_str()).arg(to.as_str())).await?;
        let known: BTreeSet<Vec<u8>> = names.iter().map(|it| it.0.clone()).collect();
        if followed.iter().any(|it| !known.contains(self.git_path(it).as_bytes())) {
            let walk = ["log", "--reverse", "--first-parent", "-m", "--format=", COMMITS_MAX];
            let call = FIND.iter().fold(self.git().call(&walk), |call, it| call.arg(*it));
            let steps = self.told_renames(call.arg(format!("{from}..{to}"))).await?;
            names.extend(steps.into_iter().filter(|it| !known.contains(&it.0)));
        }
        let mut found = BTreeMap::new();
        for path in gone {
            let old = self.git_path(path).into_bytes();
            let new = last_name(&names, &old);
            if let Some(new) = self.source_path(new).filter(|it| it != path) {
                found.insert(path.clone(), new);
            }
        }
        let news: Vec<SourcePath> = found.values().cloned().collect();
        let there = self.blobs_at(Some(to), &news).await?;
        found.retain(|_, new| there.contains_key(new));
        Ok(found)
    }

    async fn told_renames(&self, call: Call<'_>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let told = call.within(TIME_MAX).output_max(GIT_LISTING_BYTES_MAX).output().await?;
        Ok(parse(&told))
    }
}

/// Follows a name through renames in the order of their commits.
fn last_name<'n>(renames: &'n [(Vec<u8>, Vec<u8>)], name: &'n [u8]) -> &'n [u8] {
    renames.iter().fold(name, |name, (old, new)| if old == name { new } else { name })
}

/// Parses `RNUMBER\0OLD\0NEW\0`; between two commits git puts more separators.
fn parse(told: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
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
