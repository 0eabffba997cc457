//! Worktrees of instances: created at once, saved if somebody worked in them, and only then
//! removed.

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use wiki_browser::base::{BlobId, Clock, Ids, JobId};
use wiki_browser::documents::Repo;
use wiki_browser::documents::workspace::{Discard, Wanted, make, remove};

use crate::git::support::{folder, git, init, open, try_git, write};

pub(super) struct Bench {
    repo: Repo,
    pub(super) top: Utf8PathBuf,
    pub(super) below: Utf8PathBuf,
    ids: Ids,
    _folder: tempfile::TempDir,
}

/// A worktree of a job.
pub(super) struct Tree {
    job: JobId,
    pub(super) path: Utf8PathBuf,
    pub(super) base: BlobId,
}

fn wanted<'a>(folder: &'a Utf8Path, path: &'a Utf8Path, job: &'a JobId) -> Wanted<'a> {
    Wanted { folder, path, job, mark: "site" }
}

impl Bench {
    pub(super) async fn new(files: &[(&str, &str)]) -> Bench {
        let (held, base) = folder();
        let top = base.join("wiki");
        init(&top, files);
        let repo = open(&top).await.unwrap();
        let below = base.join("worktrees");
        Bench { repo, top, below, ids: Ids::new(Clock::system()), _folder: held }
    }

    pub(super) async fn make(&self) -> Tree {
        let job: JobId = self.ids.mint();
        let path = self.below.join(format!("wt-{job}"));
        let wanted = wanted(&self.top, &path, &job);
        let made = make(&self.repo, wanted).await.unwrap();
        Tree { job, path, base: made.base }
    }

    pub(super) async fn remove(
        &self,
        tree: &Tree,
        discard: Discard,
    ) -> Result<Option<String>, String> {
        let wanted = wanted(&self.top, &tree.path, &tree.job);
        remove(&self.repo, wanted, Some(&tree.base), discard)
            .await
            .map_err(|cause| cause.code_str().to_owned())
    }

    /// What git and the disk know of worktrees.
    pub(super) fn left(&self) -> (usize, bool) {
        let listed = git(&self.top, &["worktree", "list", "--porcelain"]);
        let count = listed.lines().filter(|line| line.starts_with("worktree ")).count();
        (count - 1, self.below.read_dir_utf8().is_ok_and(|it| it.count() > 0))
    }
}

#[tokio::test]
async fn a_worktree_nobody_worked_in_leaves_nothing() {
    let bench = Bench::new(&[("a.md", "one\n"), (".gitignore", "target/\n")]).await;
    let tree = bench.make().await;
    assert_eq!(std::fs::read_to_string(tree.path.join("a.md")).unwrap(), "one\n");
    assert_eq!(git(&tree.path, &["status", "--porcelain"]), "");
    let listed = git(&bench.top, &["worktree", "list", "--porcelain"]);
    assert!(listed.contains(&format!("locked wiki-browser {}", tree.job)), "{listed}");
    write(&tree.path, "target/large", "built");
    assert_eq!(bench.remove(&tree, Discard::Nothing).await, Ok(None));
    assert_eq!(bench.left(), (0, false));
    assert_eq!(git(&bench.top, &["for-each-ref", "refs/wiki-browser"]), "");
    // What is gone is gone, if a removal was interrupted; otherwise somebody else removed it.
    assert_eq!(bench.remove(&tree, Discard::Missing).await, Ok(None));
    let refused = bench.remove(&tree, Discard::Nothing).await;
    assert_eq!(refused, Err("worktree_missing".to_owned()));
}

/// Fails with `WB_WITHOUT=kept_work` in the last case.
#[tokio::test]
async fn g36_what_an_agent_left_is_kept_whether_it_committed_or_not() {
    let files = [("a.md", "one\n"), ("gone.md", "x\n"), (".gitignore", "target/\n")];
    let bench = Bench::new(&files).await;
    for commits in [false, true] {
        let tree = bench.make().await;
        write(&tree.path, "a.md", "two\n");
        if commits {
            git(&tree.path, &["commit", "-q", "-a", "-m", "mine"]);
        }
        // An index that was told to overlook it.
        git(&tree.path, &["update-index", "--assume-unchanged", "a.md"]);
        write(&tree.path, "a.md", "three\n");
        write(&tree.path, "deep/new.md", "new\n");
        write(&tree.path, "target/built", "built\n");
        std::fs::remove_file(tree.path.join("gone.md")).unwrap();
        let kept = bench.remove(&tree, Discard::Nothing).await.unwrap().unwrap();
        assert_eq!(kept, format!("refs/wiki-browser/jobs/{}/work", tree.job));
        let show = |name: &str| git(&bench.top, &["show", &format!("{kept}:{name}")]);
        assert_eq!((show("a.md"), show("deep/new.md")), ("three".into(), "new".into()));
        let names = git(&bench.top, &["ls-tree", "-r", "--name-only", &kept]);
        assert_eq!(names, ".gitignore\na.md\ndeep/new.md");
        let count = git(&bench.top, &["rev-list", "--count", &format!("{}..{kept}", tree.base)]);
        assert_eq!(count, if commits { "2" } else { "1" });
        assert_eq!(bench.left(), (0, false));
    }
    // A commit without anything else is kept as it is.
    let tree = bench.make().await;
    git(&tree.path, &["commit", "-q", "--allow-empty", "-m", "mine"]);
    let head = git(&tree.path, &["rev-parse", "HEAD"]);
    let kept = bench.remove(&tree, Discard::Nothing).await.unwrap().unwrap();
    assert_eq!(git(&bench.top, &["rev-parse", &kept]), head);
    assert_eq!(git(&bench.top, &["status", "--porcelain"]), "");

    let tree = bench.make().await;
    let large = std::fs::File::create(tree.path.join("large")).unwrap();
    large.set_len(64 * 1024 * 1024 + 1).unwrap();
    assert_eq!(bench.remove(&tree, Discard::Nothing).await, Err("not_kept".to_owned()));
    assert!(tree.path.join("large").is_file());
    assert_eq!(bench.remove(&tree, Discard::Unkept).await, Ok(None));
    assert_eq!(bench.left(), (0, false));
}

/// A file with a hole is as large as somebody likes: git would read it for hours.
#[tokio::test]
async fn a_huge_file_in_a_worktree_is_not_read() {
    let bench = Bench::new(&[("a.md", "one\n")]).await;
    for name in ["a.md", "new.md"] {
        let tree = bench.make().await;
        let file = std::fs::File::create(tree.path.join(name)).unwrap();
        file.set_len(1 << 40).unwrap();
        assert_eq!(bench.remove(&tree, Discard::Nothing).await, Err("not_kept".to_owned()));
        assert!(tree.path.join(name).is_file());
        assert_eq!(bench.remove(&tree, Discard::Unkept).await, Ok(None));
    }
    assert_eq!(bench.left(), (0, false));
}

/// Fails with `WB_WITHOUT=kept_proof`.
#[tokio::test]
async fn g36_work_is_kept_when_it_can_be_read_back() {
    let bench = Bench::new(&[("a.md", "one\n")]).await;
    // An object under the id of the agent's text: empty or cut, as after a power cut, or another.
    for (number, content) in [&b""[..], &whole("blob 8\0precious")[..9], &whole("blob 5\0evil\n")]
        .into_iter()
        .enumerate()
    {
        let text = format!("precious {number}\n");
        let object = object_file(&bench.top, &text);
        std::fs::create_dir_all(object.parent().unwrap()).unwrap();
        std::fs::write(&object, content).unwrap();
        let tree = bench.make().await;
        write(&tree.path, "b.md", &text);
        assert_eq!(bench.remove(&tree, Discard::Nothing).await, Err("not_kept".to_owned()));
        assert_eq!(std::fs::read_to_string(tree.path.join("b.md")).unwrap(), text);
        assert_eq!(git(&bench.top, &["for-each-ref", "refs/wiki-browser"]), "");
        // As its hint says.
        std::fs::remove_file(&object).unwrap();
        let kept = bench.remove(&tree, Discard::Nothing).await.unwrap().unwrap();
        assert_eq!(git(&bench.top, &["show", &format!("{kept}:b.md")]), text.trim_end());
        git(&bench.top, &["update-ref", "-d", &kept]);
        assert_eq!(bench.left(), (0, false));
    }
}

#[tokio::test]
async fn the_ref_that_holds_the_work_is_named() {
    let bench = Bench::new(&[("a.md", "one\n")]).await;
    let tree = bench.make().await;
    let name = format!("refs/wiki-browser/jobs/{}/work", tree.job);
    git(&tree.path, &["update-ref", &name, "HEAD"]);
    write(&tree.path, "b.md", "two\n");
    let kept = bench.remove(&tree, Discard::Nothing).await.unwrap().unwrap();
    assert_eq!(kept, format!("{name}-2"));
    assert_eq!(git(&bench.top, &["show", &format!("{kept}:b.md")]), "two");
}

#[tokio::test]
async fn a_worktree_that_was_renamed_is_reported_with_its_new_name() {
    let bench = Bench::new(&[("a.md", "one\n")]).await;
    let tree = bench.make().await;
    write(&tree.path, "b.md", "two\n");
    let moved = Utf8PathBuf::from(format!("{}-x", tree.path));
    std::fs::rename(&tree.path, &moved).unwrap();
    assert_eq!(bench.remove(&tree, Discard::Nothing).await, Err("not_ours".to_owned()));
    std::fs::rename(&moved, &tree.path).unwrap();
    let kept = bench.remove(&tree, Discard::Nothing).await.unwrap().unwrap();
    assert_eq!(git(&bench.top, &["show", &format!("{kept}:b.md")]), "two");
}

/// Returns the content of a loose object.
fn whole(text: &str) -> Vec<u8> {
    use std::io::Write as _;
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap()
}

/// Returns the file of a loose object with this text.
fn object_file(top: &Utf8Path, text: &str) -> Utf8PathBuf {
    let file = top.with_file_name("text");
    std::fs::write(&file, text).unwrap();
    let id = git(top, &["hash-object", file.as_str()]);
    top.join(".git/objects").join(&id[..2]).join(&id[2..])
}

#[tokio::test]
async fn a_repository_within_is_never_lost() {
    let bench = Bench::new(&[("a.md", "one\n")]).await;
    // With a commit, without one, in place of git's own file.
    for (at, commits) in [("inner", true), ("inner", false), (".", true)] {
        let tree = bench.make().await;
        let inner = tree.path.join(at);
        if at == "." {
            std::fs::remove_file(tree.path.join(".git")).unwrap();
        }
        init(&inner, &[("b.md", "b\n")]);
        if !commits {
            std::fs::remove_dir_all(inner.join(".git/refs")).unwrap();
            std::fs::create_dir(inner.join(".git/refs")).unwrap();
        }
        let refused = bench.remove(&tree, Discard::Nothing).await.unwrap_err();
        assert_eq!(refused, "not_kept", "{at} {commits}");
        assert!(inner.join(".git").is_dir() && inner.join("b.md").is_file());
        assert_eq!(bench.remove(&tree, Discard::Unkept).await, Ok(None));
    }
    // A submodule in which somebody worked.
    let (_held, other) = folder();
    init(&other.join("lib"), &[("lib.md", "x\n")]);
    let from = other.join("lib");
    let add = ["-c", "protocol.file.allow=always", "submodule", "add", "-q", from.as_str(), "sub"];
    git(&bench.top, &add);
    git(&bench.top, &["commit", "-q", "-m", "sub"]);
    let tree = bench.make().await;
    assert_eq!(bench.remove(&tree, Discard::Nothing).await, Ok(None));
    let tree = bench.make().await;
    let update = ["-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init"];
    git(&tree.path, &update);
    assert_eq!(bench.remove(&tree, Discard::Nothing).await, Err("not_kept".to_owned()));
}

#[tokio::test]
async fn nothing_of_a_users_is_removed() {
    let bench = Bench::new(&[("a.md", "one\n")]).await;
    let job: JobId = bench.ids.mint();
    let path = bench.below.join(format!("wt-{job}"));
    write(&path, "mine.md", "mine\n");
    let refused = make(&bench.repo, wanted(&bench.top, &path, &job)).await.unwrap_err();
    assert_eq!(refused.code_str(), "workspace_exists");
    let at = wanted(&bench.top, &path, &job);
    let refused = remove(&bench.repo, at, None, Discard::Unkept).await.unwrap_err();
    assert_eq!(refused.code_str(), "not_ours");
    assert!(path.join("mine.md").is_file());
    // A worktree's file `.git` that leads to the user's own tree moves nothing there.
    let tree = bench.make().await;
    write(&tree.path, ".git", format!("gitdir: {}/.git\n", bench.top));
    write(&tree.path, "a.md", "two\n");
    let before = git(&bench.top, &["rev-parse", "HEAD"]);
    let kept = bench.remove(&tree, Discard::Nothing).await.unwrap().unwrap();
    assert_eq!(git(&bench.top, &["show", &format!("{kept}:a.md")]), "two");
    assert_eq!(git(&bench.top, &["rev-parse", "HEAD"]), before);
    assert_eq!(git(&bench.top, &["status", "--porcelain"]), "");
    assert!(bench.top.join("a.md").is_file());
}

#[tokio::test]
async fn a_worktree_that_its_agent_replaced_by_a_link_is_left_alone() {
    let bench = Bench::new(&[("a.md", "one\n")]).await;
    let (_held, other) = folder();
    write(&other, "mine.md", "mine\n");
    let tree = bench.make().await;
    write(&tree.path, "a.md", "two\n");
    let aside = tree.path.with_extension("aside");
    std::fs::rename(&tree.path, &aside).unwrap();
    std::os::unix::fs::symlink(&other, &tree.path).unwrap();
    for discard in [Discard::Nothing, Discard::Unkept] {
        assert_eq!(bench.remove(&tree, discard).await, Err("not_ours".to_owned()));
    }
    assert_eq!(git(&bench.top, &["for-each-ref", "refs/wiki-browser"]), "");
    assert!(other.join("mine.md").is_file() && aside.join("a.md").is_file());
}

/// Fails with `WB_WITHOUT=worktree_mark`.
#[tokio::test]
async fn g36_a_copy_of_a_site_removes_nothing_of_the_first() {
    let bench = Bench::new(&[("a.md", "one\n")]).await;
    let tree = bench.make().await;
    let theirs = Wanted { mark: "copy", ..wanted(&bench.top, &tree.path, &tree.job) };
    for discard in [Discard::Nothing, Discard::Unkept] {
        let refused = remove(&bench.repo, theirs, Some(&tree.base), discard).await.unwrap_err();
        assert_eq!(refused.code_str(), "not_ours");
    }
    assert!(tree.path.join("a.md").is_file());
    assert_eq!(bench.remove(&tree, Discard::Nothing).await, Ok(None));
}

#[tokio::test]
async fn what_git_would_run_is_not_run() {
    let bench = Bench::new(&[("a.md", "one\n"), (".gitattributes", "*.md filter=evil\n")]).await;
    let ran = bench.top.join("ran");
    let set = |name: &str, what: &str| {
        git(&bench.top, &["config", name, &format!("touch {ran}; {what}")]);
    };
    set("filter.evil.smudge", "cat");
    set("filter.evil.clean", "cat");
    set("core.fsmonitor", "true");
    write(&bench.top, ".git/hooks/post-checkout", format!("#!/bin/sh\ntouch {ran}\n"));
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(bench.top.join(".git/hooks/post-checkout"), mode).unwrap();
    let tree = bench.make().await;
    write(&tree.path, "a.md", "two\n");
    assert!(bench.remove(&tree, Discard::Nothing).await.unwrap().is_some());
    assert!(!ran.exists());
}

#[tokio::test]
async fn a_repository_without_a_commit_is_refused() {
    let (_held, base) = folder();
    std::fs::create_dir(base.join("empty")).unwrap();
    git(&base.join("empty"), &["init", "-q"]);
    let repo = open(&base.join("empty")).await.unwrap();
    let job: JobId = Ids::new(Clock::system()).mint();
    let path = base.join(format!("wt-{job}"));
    let refused = make(&repo, wanted(&base.join("empty"), &path, &job)).await.unwrap_err();
    assert_eq!(refused.code_str(), "no_commit");
    assert!(!path.exists());
    let refused = make(&repo, wanted(&base.join("nowhere"), &path, &job)).await.unwrap_err();
    assert!(!refused.message().is_empty() && !path.exists());
}

#[tokio::test]
async fn sixteen_at_once_of_two_thousand_files() {
    let (held, base) = folder();
    let top = base.join("wiki");
    std::fs::create_dir(&top).unwrap();
    git(&top, &["init", "-q", "-b", "main"]);
    for nth in 0..2_000 {
        write(&top, &format!("docs/{}/{nth}.md", nth % 40), format!("# {nth}\n\nText.\n"));
    }
    git(&top, &["add", "-A"]);
    git(&top, &["commit", "-q", "-m", "first"]);
    let repo = open(&top).await.unwrap();
    let below = base.join("worktrees");
    let bench = Arc::new(Bench { repo, top, below, ids: Ids::new(Clock::system()), _folder: held });
    let mut tasks = tokio::task::JoinSet::new();
    for nth in 0..16 {
        let bench = Arc::clone(&bench);
        tasks.spawn(async move {
            let tree = bench.make().await;
            if nth % 2 == 0 {
                write(&tree.path, "docs/0/0.md", format!("{nth}\n"));
            }
            let kept = bench.remove(&tree, Discard::Nothing).await.unwrap();
            assert_eq!(kept.is_some(), nth % 2 == 0);
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(bench.left(), (0, false));
    assert_eq!(try_git(&bench.top, &["fsck", "--strict"]).0, 0);
    let refs = git(&bench.top, &["for-each-ref", "refs/wiki-browser"]);
    assert_eq!(refs.lines().count(), 8);
    assert!(bench.top.join(".git/wb-worktree.lock").is_file());
}

/// Commits of a worktree that its HEAD has left and no ref has, in whatever way that came about.
#[tokio::test]
async fn commits_are_kept_wherever_the_agent_left_its_head() {
    let bench = Bench::new(&[("a.md", "one\n")]).await;
    let commit = |tree: &Tree, text: &str| {
        write(&tree.path, "a.md", text);
        git(&tree.path, &["commit", "-q", "-a", "-m", text.trim()]);
        git(&tree.path, &["rev-parse", "HEAD"])
    };
    let reaches = |kept: &str, commit: &str| {
        try_git(&bench.top, &["merge-base", "--is-ancestor", commit, kept]).0 == 0
    };
    // HEAD goes back, and there is nothing else.
    let tree = bench.make().await;
    let mine = commit(&tree, "two\n");
    git(&tree.path, &["checkout", "-q", tree.base.as_str()]);
    let kept = bench.remove(&tree, Discard::Nothing).await.unwrap().unwrap();
    assert!(reaches(&kept, &mine));
    assert_eq!(git(&bench.top, &["show", &format!("{kept}:a.md")]), "one");
    // A rebase that stopped in a conflict, with files that wait to be merged.
    let tree = bench.make().await;
    let first = commit(&tree, "second\n");
    let second = commit(&tree, "three\n");
    git(&tree.path, &["checkout", "-q", tree.base.as_str()]);
    let other = commit(&tree, "four\n");
    git(&tree.path, &["checkout", "-q", &second]);
    assert!(try_git(&tree.path, &["rebase", "-q", &other]).0 != 0);
    write(&tree.path, "new.md", "uncommitted\n");
    let kept = bench.remove(&tree, Discard::Nothing).await.unwrap().unwrap();
    assert!([&first, &second, &other].into_iter().all(|it| reaches(&kept, it)), "{kept}");
    assert_eq!(git(&bench.top, &["show", &format!("{kept}:new.md")]), "uncommitted");
    // What was amended is in the log only; what a branch has needs nothing.
    let tree = bench.make().await;
    let before = commit(&tree, "six\n");
    git(&tree.path, &["commit", "-q", "--amend", "-m", "again"]);
    git(&tree.path, &["checkout", "-q", "-b", "of-the-agent"]);
    let kept = bench.remove(&tree, Discard::Nothing).await.unwrap().unwrap();
    let graph = git(&bench.top, &["log", "--graph", "--format=%H %s", &kept]);
    assert!(reaches(&kept, &before) && reaches(&kept, "of-the-agent"), "{before}: {graph}");
    // A log that is none, and names that are no commits.
    let tree = bench.make().await;
    let own = bench.top.join(".git/worktrees").join(tree.path.file_name().unwrap());
    let blob = git(&bench.top, &["rev-parse", "HEAD:a.md"]);
    let nothing = "1".repeat(40);
    std::fs::write(own.join("logs/HEAD"), format!("{blob} {nothing} x\nfoo\n\u{0}")).unwrap();
    std::fs::write(own.join("ORIG_HEAD"), format!("{}\n", tree.base)).unwrap();
    assert_eq!(bench.remove(&tree, Discard::Nothing).await, Ok(None));
    assert_eq!(bench.left(), (0, false));
    assert_eq!(git(&bench.top, &["fsck", "--no-dangling"]), "");
}

#[allow(clippy::disallowed_methods, reason = "a test copies a folder as it is")]
pub(super) fn copy(from: &Utf8Path, to: &Utf8Path) {
    let copied =
        std::process::Command::new("/bin/cp").args(["-a", from.as_str(), to.as_str()]).status();
    assert!(copied.unwrap().success());
}

#[tokio::test]
async fn commits_are_kept_when_the_folder_is_gone() {
    let bench = Bench::new(&[("a.md", "one\n")]).await;
    for moves in [false, true] {
        let tree = bench.make().await;
        write(&tree.path, "a.md", format!("moved: {moves}\n"));
        git(&tree.path, &["commit", "-q", "-a", "-m", "mine"]);
        let mine = git(&tree.path, &["rev-parse", "HEAD"]);
        match moves {
            true => std::fs::rename(&tree.path, bench.top.join("elsewhere")).unwrap(),
            false => std::fs::remove_dir_all(&tree.path).unwrap(),
        }
        let refused = bench.remove(&tree, Discard::Nothing).await;
        assert_eq!(refused, Err("worktree_missing".to_owned()));
        let kept = bench.remove(&tree, Discard::Unkept).await.unwrap().unwrap();
        assert_eq!(git(&bench.top, &["rev-parse", &kept]), mine);
        assert_eq!(bench.left(), (0, false));
        // Whoever asks again, because the server died before it was written down, is told the same.
        assert_eq!(bench.remove(&tree, Discard::Missing).await, Ok(Some(kept)));
    }
    // What was kept by a removal that was cut off is neither forgotten nor kept twice.
    let tree = bench.make().await;
    write(&tree.path, "new.md", "new\n");
    let own = bench.top.join(".git/worktrees").join(tree.path.file_name().unwrap());
    let aside = bench.below.join("own");
    copy(&own, &aside);
    let kept = bench.remove(&tree, Discard::Nothing).await.unwrap().unwrap();
    std::fs::create_dir_all(own.parent().unwrap()).unwrap();
    std::fs::rename(&aside, &own).unwrap();
    assert_eq!(bench.remove(&tree, Discard::Missing).await, Ok(Some(kept.clone())));
    let refs = git(&bench.top, &["for-each-ref", "--format=%(refname)", "refs/wiki-browser"]);
    assert_eq!(refs.lines().filter(|it| it.starts_with(&kept)).count(), 1, "{refs}");
    // A worktree that git was told to move is found by git alone: it stays as it is.
    let tree = bench.make().await;
    let to = bench.top.parent().unwrap().join("moved");
    git(&bench.top, &["worktree", "move", "-f", "-f", tree.path.as_str(), to.as_str()]);
    write(&to, "a.md", "not committed\n");
    assert_eq!(bench.remove(&tree, Discard::Nothing).await, Err("not_ours".to_owned()));
    assert_eq!(git(&to, &["status", "--porcelain"]), " M a.md");
}
