//! Which folders can be a root, and the errors for others.

use wiki_browser::documents::git::Repo;
use wiki_browser::process::Children;

use crate::git::support::{folder, git, init, open, program, site, try_git, write_program};

async fn code(root: &camino::Utf8Path) -> String {
    refusal(root).await.code_str().to_owned()
}

async fn refusal(root: &camino::Utf8Path) -> wiki_browser::base::Error {
    let error = open(root).await.map(|_| ()).unwrap_err();
    assert!(error.hint_str().is_some() || error.code_str() == "not_found", "{error}");
    error
}

#[tokio::test]
async fn a_folder_that_cannot_be_a_root_is_refused_with_the_reason() {
    let (_folder, base) = folder();
    let plain = base.join("plain");
    std::fs::create_dir_all(&plain).unwrap();
    // A repository around the temporary folder would be found otherwise.
    assert_eq!(try_git(&plain, &["rev-parse"]).0, 128);
    assert_eq!(code(&plain).await, "not_a_repository");
    let bare = base.join("bare");
    std::fs::create_dir_all(&bare).unwrap();
    git(&bare, &["init", "-q", "--bare"]);
    assert_eq!(code(&bare).await, "bare_repository");
    let top = base.join("top");
    init(&top, &[("a.md", "a\n")]);
    assert_eq!(code(&top.join(".git")).await, "not_a_repository");
    assert_eq!(code(&base.join("none")).await, "not_found");
    let elsewhere = base.join("elsewhere");
    init(&elsewhere, &[]);
    git(&elsewhere, &["config", "core.worktree", top.as_str()]);
    assert_eq!(code(&elsewhere).await, "not_a_repository");
}

/// An agent may have made it: what is approved would go there after the next start.
#[tokio::test]
async fn a_repository_in_a_folder_of_another_one_is_refused() {
    let (_folder, base) = folder();
    let top = base.join("top");
    init(&top, &[("docs/a.md", "a\n"), ("b.md", "b\n")]);
    assert!(open(&top.join("docs")).await.is_ok());
    init(&top.join("docs"), &[("a.md", "a\n")]);
    assert_eq!(code(&top.join("docs")).await, "planted_repository");
    // One that the outer one does not track is a repository like any other.
    init(&top.join("other"), &[("a.md", "a\n")]);
    assert!(open(&top.join("other")).await.is_ok());
}

/// A `commondir` is a worktree's, and leads to the repository in whose folder the worktree stands.
#[tokio::test]
async fn a_repository_that_leads_to_another_one_is_refused() {
    let (_folder, base) = folder();
    let (top, copy, tree) = (base.join("top"), base.join("copy"), base.join("tree"));
    init(&top, &[("a.md", "a\n")]);
    git(&top, &["worktree", "add", "-q", tree.as_str()]);
    assert!(open(&tree).await.is_ok());
    git(&base, &["clone", "-q", "--bare", "top", "copy"]);
    let led = [top.join(".git/commondir"), top.join(".git/worktrees/tree/commondir")];
    for (place, folder) in led.iter().zip([&top, &tree]) {
        let before = std::fs::read(place).ok();
        std::fs::write(place, format!("{copy}\n")).unwrap();
        let refusal = refusal(folder).await;
        assert_eq!(refusal.code_str(), "planted_repository", "{place}");
        // Without its `commondir`, a worktree would be none.
        let does = if before.is_some() { "write `../..` into" } else { "remove" };
        let hint = refusal.hint_str().unwrap();
        assert!(hint.starts_with(&format!("{does} {place}")), "{hint}");
        match before {
            Some(bytes) => std::fs::write(place, bytes).unwrap(),
            None => std::fs::remove_file(place).unwrap(),
        }
        assert!(open(folder).await.is_ok());
    }
}

#[tokio::test]
async fn a_git_that_is_too_old_is_named_with_its_version() {
    let (_folder, base) = folder();
    let top = base.join("top");
    init(&top, &[]);
    write_program(&base.join("git"), "#!/bin/sh\necho git version 2.30.1\n");
    let opened = Repo::open(&top, base.join("git"), &[], Children::new()).await;
    let error = opened.map(|_| ()).unwrap_err();
    assert_eq!(error.code_str(), "git_too_old");
    assert!(error.message().contains("2.30.1") && error.hint_str().unwrap().contains("2.31"));
    let bad = Repo::open(&top, program(), &["[".to_owned()], Children::new()).await;
    assert_eq!(bad.map(|_| ()).unwrap_err().code_str(), "bad_glob");
}

#[tokio::test]
async fn a_head_without_branch_or_commit_is_a_conflict() {
    let site = site().await;
    let head = site.repo.head().await.unwrap();
    assert_eq!(head.branch, "refs/heads/main");
    assert_eq!(head.commit.as_str(), site.git(&["rev-parse", "HEAD"]));
    let approval = site.propose("a.md", "new\n").await;
    site.git(&["checkout", "-q", "--detach"]);
    site.refuses(&approval, "detached_head").await;
    site.git(&["checkout", "-q", "--orphan", "fresh"]);
    site.refuses(&approval, "unborn_head").await;
    assert_eq!(site.repo.head().await.unwrap_err().code_str(), "unborn_head");
    // Reading goes on.
    assert_eq!(site.repo.list_sources().await.unwrap().len(), 3);
    let source = site.repo.source(&approval.path).await.unwrap();
    assert_eq!(source.head_blob, None);
    assert!(site.repo.history(&approval.path, 9).await.unwrap().is_empty());
}
