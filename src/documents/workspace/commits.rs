//! Finds commits made in a worktree that are not reachable from its HEAD in the end: only its
//! reflog and the marks of unfinished operations refer to them, and nothing will once the worktree
//! is gone.
//!
//! **Invariant:** the reflog is written by whatever the agent ran: it only says where to look, and
//! counts as far as git has such a commit.

use std::collections::BTreeSet;

use crate::base::{BlobId, Result};
use crate::documents::git::{Call, blocking};
use crate::documents::workspace::tree::{Tree, not_kept};
use crate::process::read_small;

/// Files in git's folder of a worktree that name commits.
const MARKS: [&str; 8] = [
    "ORIG_HEAD",
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "AUTO_MERGE",
    "rebase-merge/orig-head",
    "rebase-apply/orig-head",
];
/// The reflog of its HEAD.
const LOG: &str = "logs/HEAD";
/// Longest reflog that is read, in bytes.
const LOG_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Longest mark, in bytes.
const MARK_BYTES_MAX: u64 = 4 * 1024;
/// Most tips of lost histories that are kept.
const TIPS_MAX: usize = 200;
/// Output limit for the names in a reflog, in bytes.
const NAMES_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Returns the tips of histories made in a worktree that no ref will reach once it is gone: none is
/// an ancestor of another, and none is in the history of `kept`.
///
/// # Errors
/// `conflict` with code `not_kept` if there are too many; `unavailable` if git fails.
pub(super) async fn lost(tree: &Tree, kept: &[&BlobId]) -> Result<Vec<BlobId>> {
    let names = named(tree).await?;
    let commits = commits_of(tree, &names).await?;
    if commits.is_empty() {
        return Ok(Vec::new());
    }
    let mut asked: String = commits.iter().map(|it| format!("{it}\n")).collect();
    asked.extend(kept.iter().map(|it| format!("^{it}\n")));
    // Commits with a ref of their own stay. Not `--all`, which includes every worktree's HEAD and
    // private refs: those of this worktree disappear with it.
    let refs = tree.repo.git().call(&["for-each-ref", "--format=^%(objectname)"]);
    asked.extend(lines(refs).await?.iter().map(|it| format!("{it}\n")));
    let call = tree.repo.git().call(&["rev-list", "--ignore-missing", "--stdin"]);
    let unreached = lines(call.stdin(asked)).await?;
    let unreached: BTreeSet<&str> = unreached.iter().map(String::as_str).collect();
    let ends: Vec<String> =
        commits.into_iter().filter(|it| unreached.contains(it.as_str())).collect();
    let ends = match ends.len() {
        0 | 1 => ends,
        _ => {
            // More would not fit on a command line.
            if ends.len() > TIPS_MAX * 10 {
                return Err(too_many(ends.len()));
            }
            let mut call = tree.repo.git().call(&["merge-base", "--independent"]);
            for end in &ends {
                call = call.arg(end);
            }
            lines(call).await?
        }
    };
    if ends.len() > TIPS_MAX {
        return Err(too_many(ends.len()));
    }
    ends.iter().map(|it| it.parse()).collect()
}

fn too_many(count: usize) -> crate::base::Error {
    not_kept(format!("its log has {count} histories, and at most {TIPS_MAX} are joined"))
}

async fn lines(call: Call<'_>) -> Result<Vec<String>> {
    let said = call.output_max(NAMES_BYTES_MAX).output().await?;
    Ok(String::from_utf8_lossy(&said).lines().map(str::to_owned).collect())
}

/// Returns everything in a worktree's reflog and marks that looks like an object name.
async fn named(tree: &Tree) -> Result<BTreeSet<String>> {
    let own = tree.own.clone();
    let texts = blocking(move || {
        let marks = MARKS.iter().map(|it| (own.join(it), MARK_BYTES_MAX));
        marks
            .chain([(own.join(LOG), LOG_BYTES_MAX)])
            .map(|(path, bytes_max)| Ok(read_small(&path, bytes_max)?.unwrap_or_default()))
            .collect::<Result<Vec<Vec<u8>>>>()
    });
    let mut names = BTreeSet::new();
    for text in texts.await?? {
        for line in String::from_utf8_lossy(&text).lines() {
            // Each line of the reflog begins with two of them.
            let words = line.split([' ', '\t']).take(2);
            names.extend(words.filter(|it| is_name(it)).map(str::to_owned));
        }
    }
    Ok(names)
}

fn is_name(word: &str) -> bool {
    matches!(word.len(), 40 | 64)
        && word.bytes().all(|it| it.is_ascii_hexdigit())
        && word.bytes().any(|it| it != b'0')
}

/// Returns those names that are commits, and the commits of the worktree's private refs.
async fn commits_of(tree: &Tree, names: &BTreeSet<String>) -> Result<BTreeSet<String>> {
    let own = ["refs/worktree", "refs/bisect", "refs/rewritten"];
    let call = tree.repo.git().call(&["for-each-ref", "--format=%(objectname)"]);
    let call = own.iter().fold(call, |call, it| call.arg(*it));
    let mut names = names.clone();
    names.extend(lines(call.env("GIT_DIR", tree.own.as_str())).await?);
    if names.is_empty() {
        return Ok(BTreeSet::new());
    }
    let asked: String = names.iter().map(|it| format!("{it}\n")).collect();
    let check = ["cat-file", "--batch-check=%(objectname) %(objecttype)"];
    let found = lines(tree.repo.git().call(&check).stdin(asked)).await?;
    let commits = found.iter().filter_map(|it| it.strip_suffix(" commit"));
    Ok(commits.map(str::to_owned).collect())
}
