//! Turns git's error messages into errors with code and hint.
//!
//! Only complete line endings that contain the system's messages, and beginnings without names, are
//! matched: a file name cannot imitate either.

use crate::base::{DISK_FULL, Error, ErrorKind, READ_ONLY};
use crate::process::SOURCE_DIRTY;

/// The code of a failure of git with an unknown cause.
pub const GIT_FAILED: &str = "git_failed";
/// The code of an index that another git process holds.
pub const INDEX_LOCKED: &str = "index_locked";
/// The code of a repository in the middle of a merge or rebase.
pub const MERGE_IN_PROGRESS: &str = "merge_in_progress";
/// The code of a repository that git refuses because of its owner.
pub(in crate::documents::git) const UNSAFE_REPOSITORY: &str = "unsafe_repository";
/// The code of a damaged repository.
pub const REPOSITORY_DAMAGED: &str = "repository_damaged";

/// Beginnings of git's messages about unreadable objects or index.
const DAMAGED: &[&str] = &[
    "error: bad signature 0x",
    "error: bad index file sha1 signature",
    "error: bad index version",
    "error: inflate: ",
    "error: unable to unpack ",
    "error: object file ",
    "error: garbage at end of loose object",
    "fatal: index file corrupt",
    "fatal: loose object ",
    "fatal: bad object ",
    "fatal: bad tree object ",
    "fatal: unable to read tree",
    "fatal: failed to unpack tree object",
    "fatal: unable to read ",
    "fatal: Could not read ",
    "fatal: unordered stage entries",
    "error: invalid object ",
    "error: Could not read ",
    "error: Could not get object info about ",
    "fatal: No such ref: HEAD",
];
/// Endings of such messages.
const DAMAGED_ENDS: &[&str] = &["index file smaller than expected", "index file open failed"];

/// The beginning of git's message about a file that it could not write. During a checkout it omits
/// the system's message; for an object that follows.
const UNWRITTEN: &str = "error: unable to write file ";
/// Endings of such a line that indicate something other than a full disk.
const OTHER_CAUSES: &[&str] = &[
    NOT_THERE,
    ": Not a directory",
    ": Is a directory",
    ": File exists",
    ": Input/output error",
    ": Stale file handle",
    ": Too many open files",
    ": Read-only file system",
    ": Permission denied",
    ": Operation not permitted",
];
const NOT_THERE: &str = ": No such file or directory";

/// Returns the meaning of a failure. `what` is the command, `said` its standard error.
pub(in crate::documents::git) fn failure(what: &str, code: i32, said: &str) -> Error {
    meaning(what, said).source(format!("git {what} (exit {code}): {}", said.trim_end()))
}

fn meaning(what: &str, said: &str) -> Error {
    let ends = |words: &[&str]| {
        said.lines().any(|line| {
            let line = line.trim_end().trim_end_matches('.');
            words.iter().any(|it| line.ends_with(it))
        })
    };
    let starts =
        |words: &[&str]| said.lines().any(|line| words.iter().any(|it| line.starts_with(it)));
    let is_full =
        is_unwritten(said, None) || (said.contains("': couldn't write '") && ends(&[".lock'"]));
    if is_full || ends(&["No space left on device", "Disk quota exceeded", "Out of diskspace"]) {
        return disk_full();
    }
    // The last one is the error for an immutable file or folder.
    if ends(&["Read-only file system", "Permission denied", "Operation not permitted"])
        || said.contains("insufficient permission for adding an object")
    {
        return read_only("the repository");
    }
    if starts(&["error: Invalid path '", "error: invalid path '"]) {
        return Error::invalid("git does not accept this file name")
            .code("bad_path")
            .hint("choose another name");
    }
    if ends(&[".lock': File exists"]) {
        let lock = said.split('\'').find(|it| it.ends_with(".lock")).unwrap_or("a file");
        return Error::conflict(INDEX_LOCKED, format!("another git process holds {lock}"))
            .hint("try again when it has ended; if none is running, remove that file");
    }
    if ends(&["Cannot merge", "Cannot update sparse checkout"]) {
        return Error::conflict(SOURCE_DIRTY, "git refuses to overwrite changes")
            .hint("commit, stash or undo those changes first");
    }
    if ends(&["need to resolve your current index first"]) {
        return Error::conflict(MERGE_IN_PROGRESS, "the index has merge conflicts")
            .hint("resolve them first");
    }
    if let Some((_, rest)) = said.split_once("detected dubious ownership") {
        return of_another_user(rest.split('\'').nth(1).unwrap_or("FOLDER"));
    }
    if starts(&["fatal: not a git repository"]) {
        return Error::unavailable("the repository no longer exists")
            .code("not_a_repository")
            .hint("restore `.git`; if you have moved it, restart the server");
    }
    if starts(&["fatal: unknown repository extension", "fatal: Expected git repo version"]) {
        return Error::unavailable("this git version does not support the repository's format")
            .code("not_a_repository")
            .hint("install a newer git, or remove `extensions.…` from `.git/config`");
    }
    if starts(&["fatal: bad config line", "fatal: bad numeric config", "fatal: bad boolean config"])
    {
        return Error::unavailable("git cannot read its configuration")
            .code("not_a_repository")
            .hint("fix `.git/config`; `git config --list` shows the line");
    }
    if starts(DAMAGED) || ends(DAMAGED_ENDS) {
        return damaged("git cannot read all of the repository");
    }
    let failed = Error::new(ErrorKind::Unavailable, format!("git {what} failed")).code(GIT_FAILED);
    if is_unwritten(said, Some(NOT_THERE)) {
        return failed
            .hint("another git process (such as `git gc`) may have interfered; try again");
    }
    failed.hint("the server's log has what git said; `git status` and `git fsck` may say more")
}

/// Returns whether git could not write a file for this cause, or, without one, for an unnamed
/// cause, which means a full disk.
fn is_unwritten(said: &str, cause: Option<&str>) -> bool {
    said.lines().filter(|it| it.starts_with(UNWRITTEN)).any(|line| match cause {
        Some(cause) => line.trim_end().ends_with(cause),
        None => !OTHER_CAUSES.iter().any(|it| line.trim_end().ends_with(it)),
    })
}

fn of_another_user(folder: &str) -> Error {
    let trust = format!("git config --global --add safe.directory '{folder}'");
    Error::unavailable("the repository belongs to another user")
        .code(UNSAFE_REPOSITORY)
        .hint(format!("run `{trust}` as the server's user"))
}

/// Returns the error for a full disk.
pub(in crate::documents::git) fn disk_full() -> Error {
    Error::unavailable("the disk is full")
        .code(DISK_FULL)
        .hint("free some space and try again; nothing was committed")
}

/// Returns the error for missing write permission.
pub(in crate::documents::git) fn read_only(what: &str) -> Error {
    Error::unavailable(format!("{what} cannot be written"))
        .code(READ_ONLY)
        .hint("give the server's user write access to the repository and its files")
}

/// Returns the error for a repository with missing or broken objects.
pub(in crate::documents::git) fn damaged(message: impl Into<String>) -> Error {
    Error::unavailable(message)
        .code(REPOSITORY_DAMAGED)
        .hint("run `git fsck` at the top of the tree and fix what it reports")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_another_user_is_named() {
        let said = "fatal: detected dubious ownership in repository at '/srv/wiki'\nTo add an";
        let error = failure("status", 128, said);
        let hint = error.hint_str().unwrap();
        assert!(hint.contains("safe.directory '/srv/wiki'`"), "{hint}");
    }

    #[test]
    fn what_git_says_is_recognized_by_the_ends_of_its_lines() {
        for (said, expected) in [
            ("fatal: unable to write loose object file: No space left on device", "disk_full"),
            ("fatal: sha1 file '/w/.git/index.lock' write error. Out of diskspace", "disk_full"),
            ("error: unable to write file a.md", "disk_full"),
            (
                "error: unable to write file .git/objects/31/44a5: No space left on device",
                "disk_full",
            ),
            // `git gc` has removed the folder meanwhile.
            (
                "error: unable to write file .git/objects/31/44a5: No such file or directory",
                "git_failed",
            ),
            ("error: unable to write file .git/objects/31/44a5: Permission denied", "read_only"),
            ("error: unable to write file .git/objects/31/44a5: Input/output error", "git_failed"),
            (
                "fatal: prepare: cannot update ref 'refs/x': couldn't write '/w/refs/x.lock'",
                "disk_full",
            ),
            (
                "error: unable to create temporary file: Read-only file system\nfatal: x",
                "read_only",
            ),
            ("fatal: Unable to create '/w/.git/index.lock': Permission denied", "read_only"),
            ("error: unable to create temporary file: Operation not permitted", "read_only"),
            ("error: Invalid path 'git~1/x.md'", "bad_path"),
            (
                "error: insufficient permission for adding an object to repository database .git",
                "read_only",
            ),
            (
                "fatal: Unable to create '/w/.git/index.lock': File exists.\n\nAnother git process",
                "index_locked",
            ),
            ("error: Entry 'a.md' not uptodate. Cannot merge.", "source_dirty"),
            ("fatal: You need to resolve your current index first", "merge_in_progress"),
            ("error: Entry 'No space left on device' is odd", "git_failed"),
            ("fatal: bad object 1234", "repository_damaged"),
            ("fatal: .git/index: index file smaller than expected", "repository_damaged"),
            ("fatal: not a git repository: '/w/.git'", "not_a_repository"),
            ("fatal: unknown repository extension found:\n\tx", "not_a_repository"),
            ("fatal: something new", "git_failed"),
        ] {
            let error = failure("read-tree", 128, said);
            assert_eq!(error.code_str(), expected, "{said}");
            assert!(error.hint_str().is_some(), "{said}");
        }
    }
}
