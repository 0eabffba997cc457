//! Approvals without problems.

use wiki_browser::api::sources::SourceState;

use crate::git::support::{folder, git, init, path, read, site, site_in, site_of, try_git, write};

#[tokio::test]
async fn an_approved_text_becomes_one_commit_with_author_and_trailers() {
    let site = site().await;
    let approval = site.propose("a.md", "one\n2\nthree\n").await;
    let first = site.git(&["rev-parse", "HEAD"]);
    let committed = site.approve(&approval).await.unwrap();
    assert_eq!(committed.branch, "refs/heads/main");
    assert!(!committed.already);
    assert_eq!(site.git(&["rev-parse", "HEAD"]), committed.commit.as_str());
    assert_eq!(site.git(&["rev-parse", "HEAD^@"]), first);
    let log = site.git(&["log", "-1", "--format=fuller", "--date=iso-strict"]);
    for line in [
        "Author:     Wiki Agent <agent@example.org>",
        "AuthorDate: 2026-01-01T00:00:00",
        "Commit:     Wiki Agent <agent@example.org>",
        "CommitDate: 2026-01-01T00:00:00",
        "    Say why",
        "    Approved-by: Ada <ada@example.org>",
    ] {
        assert!(log.contains(line), "{line}\n{log}");
    }
    assert!(log.contains(&format!("    Topic: {}", approval.topic_id)), "{log}");
    assert_eq!(site.status(), "");
    assert_eq!(read(&site.top, "a.md"), approval.text);
    assert_eq!(site.git(&["rev-parse", "HEAD:a.md"]), approval.proposed_blob.as_str());
    let blame = site.git(&["blame", "--porcelain", "-L2,2", "a.md"]);
    assert!(blame.contains("author Wiki Agent"), "{blame}");
    let reflog = site.git(&["reflog", "-1", "HEAD"]);
    assert!(reflog.contains("incorporate: Say why"), "{reflog}");
    assert_eq!(site.git(&["fsck", "--strict"]), "");
    assert_eq!(site.rows(&approval).await, (Some("committed".into()), "approved".into()));
}

#[tokio::test]
async fn the_history_names_approver_and_topic() {
    let site = site().await;
    let approval = site.propose("a.md", "new\n").await;
    let committed = site.approve(&approval).await.unwrap();
    let history = site.repo.history(&path("a.md"), 20).await.unwrap();
    assert_eq!(history.len(), 2);
    assert_eq!(history[0].commit, committed.commit);
    assert_eq!(history[0].author, "Wiki Agent");
    assert_eq!(history[0].subject, "Say why");
    assert_eq!(history[0].approved_by.as_deref(), Some("Ada <ada@example.org>"));
    assert_eq!(history[0].topic_id, Some(approval.topic_id));
    assert_eq!(history[0].at.rfc3339(), "2026-01-01T00:00:00.000Z");
    assert_eq!((history[1].approved_by.clone(), history[1].subject.as_str()), (None, "first"));
    assert_eq!(site.repo.history(&path("a.md"), 1).await.unwrap().len(), 1);
    assert_eq!(site.repo.history(&path("none.md"), 9).await.unwrap(), Vec::new());
}

#[tokio::test]
async fn what_else_is_changed_stays_as_it_is() {
    let site = site().await;
    let approval = site.propose("a.md", "new\n").await;
    write(&site.top, "b.md", "not staged\n");
    write(&site.top, "docs/c.md", "staged\n");
    site.git(&["add", "docs/c.md"]);
    write(&site.top, "docs/c.md", "staged and changed again\n");
    write(&site.top, "untracked.md", "mine\n");
    write(&site.top, "added.md", "added\n");
    site.git(&["add", "-N", "added.md"]);
    let before = site.status();
    let staged = site.git(&["ls-files", "-s", "docs/c.md"]);
    site.approve(&approval).await.unwrap();
    assert_eq!(site.status(), before);
    assert_eq!(site.git(&["ls-files", "-s", "docs/c.md"]), staged);
    assert_eq!(read(&site.top, "b.md"), "not staged\n");
    assert_eq!(read(&site.top, "docs/c.md"), "staged and changed again\n");
    assert_eq!(read(&site.top, "untracked.md"), "mine\n");
    assert_eq!(site.git(&["show", "--format=", "--name-only", "HEAD"]), "a.md");
}

#[tokio::test]
async fn the_mode_of_a_file_is_kept() {
    use std::os::unix::fs::PermissionsExt;
    let site = site().await;
    std::fs::set_permissions(site.top.join("a.md"), PermissionsExt::from_mode(0o755)).unwrap();
    site.git(&["commit", "-qam", "executable"]);
    site.approve(&site.propose("a.md", "new\n").await).await.unwrap();
    assert!(site.git(&["ls-tree", "HEAD", "a.md"]).starts_with("100755 blob"));
    assert_eq!(site.status(), "");
    let mode = site.top.join("a.md").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111);
}

#[tokio::test]
async fn a_root_may_be_a_folder_of_the_working_tree() {
    let (folder, base) = folder();
    let top = base.join("work tree");
    init(&top, &[("docs/wiki/a.md", "a\n"), ("a.md", "other\n"), ("docs/b.md", "b\n")]);
    let site = site_in(folder, &top, &top.join("docs/wiki")).await;
    let listed = site.repo.list_sources().await.unwrap();
    assert_eq!(listed.iter().map(|it| it.path.as_str()).collect::<Vec<_>>(), ["a.md"]);
    site.approve(&site.propose("a.md", "new\n").await).await.unwrap();
    assert_eq!(site.git(&["show", "HEAD:docs/wiki/a.md"]), "new");
    assert_eq!(site.git(&["show", "HEAD:a.md"]), "other");
    assert_eq!(site.status(), "");
    assert_eq!(site.repo.history(&path("a.md"), 9).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_linked_worktree_is_committed_to_on_its_own_branch() {
    let (folder, base) = folder();
    let (main, top) = (base.join("main"), base.join("linked"));
    init(&main, &[("a.md", "a\n")]);
    git(&main, &["worktree", "add", "-q", "-b", "side", top.as_str()]);
    let site = site_in(folder, &top, &top).await;
    let committed = site.approve(&site.propose("a.md", "new\n").await).await.unwrap();
    assert_eq!(committed.branch, "refs/heads/side");
    assert_eq!(site.status(), "");
    assert_eq!(git(&main, &["show", "main:a.md"]), "a");
    assert_eq!(git(&main, &["show", "side:a.md"]), "new");
    assert_eq!(git(&main, &["status", "--porcelain"]), "");
}

#[tokio::test]
async fn a_path_may_hold_spaces_quotes_commas_and_letters_of_any_script() {
    let names = ["a b's \"q\".md", "tiefe/ä,ö.md", ":(glob)x[1]*.md", "-v.md", "日本/語?.md"];
    let files: Vec<(&str, &str)> = names.iter().map(|it| (*it, "old\n")).collect();
    let site = site_of(&files).await;
    let listed = site.repo.list_sources().await.unwrap();
    assert_eq!(listed.len(), names.len());
    for name in names {
        site.approve(&site.propose(name, "new\n").await).await.unwrap();
        assert_eq!(site.git(&["show", &format!("HEAD:{name}")]), "new", "{name}");
        assert_eq!(site.repo.history(&path(name), 9).await.unwrap().len(), 2, "{name}");
        let source = site.repo.source(&path(name)).await.unwrap();
        assert_eq!((source.state, source.text.as_str()), (SourceState::Clean, "new\n"));
    }
    assert_eq!(site.status(), "");
    assert_eq!(site.git(&["rev-list", "--count", "HEAD"]), (names.len() + 1).to_string());
}

#[tokio::test]
async fn a_sparse_checkout_stays_sparse() {
    let site = site_of(&[("in/a.md", "a\n"), ("out/b.md", "b\n")]).await;
    site.git(&["sparse-checkout", "set", "in"]);
    assert!(!site.top.join("out/b.md").exists());
    site.approve(&site.propose("in/a.md", "new\n").await).await.unwrap();
    assert!(!site.top.join("out/b.md").exists());
    assert_eq!(site.git(&["show", "HEAD:out/b.md"]), "b");
    assert_eq!((site.git(&["show", "HEAD:in/a.md"]), site.status()), ("new".into(), "".into()));
    let hidden = site.propose_on("out/b.md", "b\n", "x\n").await;
    site.refuses(&hidden, "source_gone").await;
}

#[tokio::test]
async fn a_file_that_was_only_touched_is_not_changed() {
    let site = site().await;
    let approval = site.propose("a.md", "new\n").await;
    let text = read(&site.top, "a.md");
    std::fs::remove_file(site.top.join("a.md")).unwrap();
    write(&site.top, "a.md", text);
    site.approve(&approval).await.unwrap();
    assert_eq!(site.status(), "");
}

#[tokio::test]
async fn a_repository_of_sha_256_objects_is_served_too() {
    let (folder, base) = folder();
    let top = base.join("wiki");
    std::fs::create_dir_all(&top).unwrap();
    git(&top, &["init", "-q", "-b", "main", "--object-format=sha256"]);
    write(&top, "a.md", "a\n");
    git(&top, &["add", "-A"]);
    git(&top, &["commit", "-qm", "first"]);
    let site = site_in(folder, &top, &top).await;
    let source = site.repo.source(&path("a.md")).await.unwrap();
    assert_eq!(source.blob.as_str(), site.git(&["hash-object", "a.md"]));
    assert_eq!(source.blob.as_str().len(), 64);
    site.approve(&site.propose("a.md", "new\n").await).await.unwrap();
    assert_eq!(site.status(), "");
}

#[tokio::test]
async fn refs_may_be_kept_in_tables() {
    let (folder, base) = folder();
    let top = base.join("wiki");
    std::fs::create_dir_all(&top).unwrap();
    let (code, _) = try_git(&top, &["init", "-q", "-b", "main", "--ref-format=reftable"]);
    if code != 0 {
        // This git is too old to have them.
        return;
    }
    write(&top, "a.md", "a\n");
    git(&top, &["add", "-A"]);
    git(&top, &["commit", "-qm", "first"]);
    let site = site_in(folder, &top, &top).await;
    site.approve(&site.propose("a.md", "new\n").await).await.unwrap();
    assert_eq!((site.status(), site.git(&["show", "HEAD:a.md"])), ("".into(), "new".into()));
    write(&top, "b.md", "b\n");
    git(&top, &["add", "b.md"]);
    git(&top, &["commit", "-qm", "b"]);
    git(&top, &["revert", "--no-commit", "HEAD"]);
    let busy = site.repo.refuse_busy().await.unwrap_err();
    assert_eq!(busy.code_str(), "merge_in_progress");
}
