//! Renames that git cannot search in full, and what tells that something else is checked out.

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8Path;
use wiki_browser::base::{BlobId, SourcePath};
use wiki_browser::documents::git::Repo;

use crate::git::support::{
    Site, folder, git, init, open, open_with, path, program, site_of, try_git, write, write_program,
};

/// Opens a repository with a git that fails if its words are like these.
async fn failing(site: &Site, words: &str) -> Repo {
    let (file, real) = (site.top.with_file_name("git.sh"), program());
    let text = format!(
        "#!/bin/sh\ncase \" $* \" in {words}) echo 'fatal: mmap failed' >&2; exit 128;; esac\n\
         exec '{real}' \"$@\"\n"
    );
    write_program(&file, &text);
    open_with(&site.root, file).await.unwrap()
}

#[tokio::test]
async fn what_was_renamed_unchanged_is_found_though_git_cannot_compare_the_rest() {
    let long: String = (0..30).map(|it| format!("{it}. A rule of the house.\n")).collect();
    let texts = [("a.md", "one\n"), ("b.md", "two\n"), ("c.md", "three\n"), ("e.md", &*long)];
    let site = site_of(&texts).await;
    let commit = || -> BlobId { site.git(&["rev-parse", "HEAD"]).parse().unwrap() };
    let before = commit();
    for (from, to) in
        [("a.md", "x"), ("b.md", "a.md"), ("x", "b.md"), ("c.md", "d.md"), ("e.md", "f.md")]
    {
        site.git(&["mv", from, to]);
    }
    write(&site.top, "f.md", format!("{long}One more.\n"));
    site.git(&["commit", "-qam", "other names"]);
    let followed: BTreeSet<SourcePath> = texts.iter().map(|it| path(it.0)).collect();
    let gone = ["c.md", "e.md"].map(path).into();
    let pairs = |pairs: &[(&str, &str)]| -> BTreeMap<SourcePath, SourcePath> {
        pairs.iter().map(|(from, to)| (path(from), path(to))).collect()
    };
    let exact = [("a.md", "b.md"), ("b.md", "a.md"), ("c.md", "d.md")];
    let all = pairs(&[&exact[..], &[("e.md", "f.md")]].concat());
    let after = commit();
    let found = site.repo.renames(&before, &after, &gone, &followed).await.unwrap();
    assert_eq!(found, all);
    for (words, expected) in [
        ("*--find-renames=50%*", Some(pairs(&exact))),
        ("*--break-rewrites*", Some(pairs(&exact))),
        // Not even that: then nothing is known, and whoever asks has to ask again.
        ("*--find-renames=*", None),
    ] {
        let repo = failing(&site, words).await;
        let found = repo.renames(&before, &after, &gone, &followed).await;
        assert_eq!(found.ok(), expected, "{words}");
    }
}

/// Commits to what is checked out, and expects that its marks tell.
async fn assert_told(top: &Utf8Path, what: &str) {
    let repo = open(top).await.unwrap();
    let before = repo.tip_marks();
    assert_eq!(repo.tip_marks(), before, "{what}: nothing happened");
    git(top, &["commit", "-q", "--allow-empty", "-m", "next"]);
    assert_ne!(repo.tip_marks(), before, "{what}");
}

#[tokio::test]
async fn a_commit_is_told_wherever_its_branch_is_named() {
    let (_folder, base) = folder();
    let top = base.join("wiki");
    init(&top, &[("a.md", "one\n")]);
    git(&top, &["symbolic-ref", "refs/heads/live", "refs/heads/main"]);
    git(&top, &["symbolic-ref", "HEAD", "refs/heads/live"]);
    assert_told(&top, "a branch that is another one").await;
    std::fs::remove_file(top.join(".git/HEAD")).unwrap();
    std::os::unix::fs::symlink("refs/heads/main", top.join(".git/HEAD")).unwrap();
    assert_told(&top, "a link").await;
}

#[tokio::test]
async fn a_switch_is_told_in_a_worktree_whose_references_are_in_tables() {
    let (_folder, base) = folder();
    let (top, tree) = (base.join("wiki"), base.join("tree"));
    std::fs::create_dir_all(&top).unwrap();
    if try_git(&top, &["init", "-q", "-b", "main", "--ref-format=reftable"]).0 != 0 {
        // This git has none.
        return;
    }
    write(&top, "a.md", "one\n");
    git(&top, &["add", "-A"]);
    git(&top, &["commit", "-q", "-m", "first"]);
    git(&top, &["branch", "other"]);
    git(&top, &["worktree", "add", "-q", "-b", "here", tree.as_str()]);
    let repo = open(&tree).await.unwrap();
    let before = repo.tip_marks();
    git(&tree, &["switch", "-q", "other"]);
    assert_ne!(repo.tip_marks(), before);
}
