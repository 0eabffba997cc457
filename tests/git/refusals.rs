//! Refused approvals: each names its reason and leaves index, tree and refs unchanged.

use std::os::unix::fs::{PermissionsExt, symlink};

use wiki_browser::base::digest_hex;

use crate::git::support::{Site, init, path, read, site, site_of, try_git, write};

async fn writable(site: &Site, name: &str) -> String {
    match site.repo.refuse_unwritable(&path(name)).await {
        Ok(()) => "ok".to_owned(),
        Err(error) => error.code_str().to_owned(),
    }
}

type Change = (&'static str, fn(&Site), &'static str);

/// What a person may have done to a Source, and how that is refused.
fn changes() -> [Change; 12] {
    [
        ("not staged", |it| write(&it.top, "a.md", "mine\n"), "source_dirty"),
        ("same size", |it| write(&it.top, "a.md", "onE\ntwo\nthree\n"), "source_dirty"),
        (
            "staged",
            |it| {
                write(&it.top, "a.md", "mine\n");
                it.git(&["add", "a.md"]);
            },
            "source_dirty",
        ),
        (
            "staged and put back",
            |it| {
                write(&it.top, "a.md", "mine\n");
                it.git(&["add", "a.md"]);
                write(&it.top, "a.md", "one\ntwo\nthree\n");
            },
            "source_dirty",
        ),
        (
            "the very text, staged",
            |it| {
                write(&it.top, "a.md", "new\n");
                it.git(&["add", "a.md"]);
            },
            "source_dirty",
        ),
        ("emptied", |it| write(&it.top, "a.md", ""), "source_dirty"),
        ("deleted", |it| std::fs::remove_file(it.top.join("a.md")).unwrap(), "source_gone"),
        (
            "removed from the index",
            |it| {
                it.git(&["rm", "-q", "--cached", "a.md"]);
            },
            "not_a_source",
        ),
        (
            "executable",
            |it| {
                std::fs::set_permissions(it.top.join("a.md"), PermissionsExt::from_mode(0o755))
                    .unwrap();
            },
            "source_dirty",
        ),
        (
            "a link",
            |it| {
                std::fs::remove_file(it.top.join("a.md")).unwrap();
                symlink("b.md", it.top.join("a.md")).unwrap();
            },
            "path_is_link",
        ),
        (
            "a folder",
            |it| {
                std::fs::remove_file(it.top.join("a.md")).unwrap();
                write(&it.top, "a.md/inside", "x");
            },
            "not_a_file",
        ),
        ("renamed", |it| drop(it.git(&["mv", "a.md", "z.md"])), "source_gone"),
    ]
}

#[tokio::test]
async fn g20_a_source_with_changes_is_refused_whatever_sort_they_are() {
    for (what, change, code) in changes() {
        let site = site().await;
        let approval = site.propose("a.md", "new\n").await;
        change(&site);
        assert_eq!(writable(&site, "a.md").await, code, "{what}");
        // To an approval, what is not tracked any more is gone.
        let code = if code == "not_a_source" { "source_gone" } else { code };
        site.refuses(&approval, code).await;
    }
}

#[tokio::test]
async fn files_that_git_was_told_not_to_watch_are_refused_with_the_way_out() {
    for (set, word) in
        [("--assume-unchanged", "assume-unchanged"), ("--skip-worktree", "skip-worktree")]
    {
        let site = site().await;
        let approval = site.propose("a.md", "new\n").await;
        site.git(&["update-index", set, "a.md"]);
        write(&site.top, "a.md", "mine, unseen\n");
        site.refuses(&approval, "source_dirty").await;
        let error = site.repo.refuse_unwritable(&path("a.md")).await.unwrap_err();
        assert!(error.message().contains(word), "{error}");
        assert!(error.hint_str().unwrap().contains(&format!("--no-{word}")));
        assert_eq!(read(&site.top, "a.md"), "mine, unseen\n");
    }
}

#[tokio::test]
async fn a_change_that_git_cannot_see_by_its_times_is_found_by_its_content() {
    let site = site().await;
    let approval = site.propose("a.md", "new\n").await;
    // Same size and, by configuration, nothing but whole seconds are compared.
    site.git(&["config", "core.checkStat", "minimal"]);
    site.git(&["config", "core.trustctime", "false"]);
    let file = site.top.join("a.md");
    let old = std::fs::File::open(&file).unwrap().metadata().unwrap().modified().unwrap();
    write(&site.top, "a.md", "onE\ntwo\nthree\n");
    std::fs::File::options().write(true).open(&file).unwrap().set_modified(old).unwrap();
    let error = site.approve(&approval).await.unwrap_err();
    assert_eq!(error.code_str(), "source_dirty", "{}", error.chain());
    assert_eq!(read(&site.top, "a.md"), "onE\ntwo\nthree\n");
}

#[tokio::test]
async fn g18_what_is_not_what_was_shown_is_refused() {
    let site = site().await;
    let approval = site.propose("a.md", "new\n").await;
    let mut swapped = approval.clone();
    swapped.text = "other\n".into();
    site.refuses(&swapped, "text_changed").await;
    swapped.text_digest = digest_hex("other\n");
    site.refuses(&swapped, "text_changed").await;
    let mut swapped = approval.clone();
    swapped.proposed_blob = approval.base_blob.clone();
    site.refuses(&swapped, "text_changed").await;
    let same = site.propose("a.md", "one\ntwo\nthree\n").await;
    site.refuses(&same, "no_change").await;
    let mut nameless = approval.clone();
    nameless.author.name = " . ".into();
    site.refuses(&nameless, "bad_identity").await;
    let stale = site.propose_on("a.md", "an older text\n", "new\n").await;
    site.refuses(&stale, "stale_base").await;
    write(&site.top, "a.md", "newer\n");
    site.git(&["commit", "-qam", "newer"]);
    site.refuses(&approval, "stale_base").await;
    site.git(&["rm", "-q", "a.md"]);
    site.git(&["commit", "-qm", "gone"]);
    site.refuses(&approval, "source_gone").await;
}

#[tokio::test]
async fn an_operation_that_stopped_half_way_is_in_the_way() {
    let conflicting = async || {
        let site = site().await;
        site.git(&["switch", "-q", "-c", "side"]);
        write(&site.top, "b.md", "side\n");
        site.git(&["commit", "-qam", "side"]);
        site.git(&["switch", "-q", "main"]);
        write(&site.top, "b.md", "main\n");
        site.git(&["commit", "-qam", "main"]);
        site
    };
    for args in [
        &["merge", "side"][..],
        &["cherry-pick", "side"],
        &["rebase", "side"],
        &["revert", "--no-edit", "HEAD~1"],
        &["bisect", "start"],
        &["stash", "pop"],
    ] {
        let site = conflicting().await;
        let approval = site.propose("a.md", "new\n").await;
        if args[0] == "stash" {
            write(&site.top, "b.md", "stashed\n");
            site.git(&["stash", "-q"]);
            write(&site.top, "b.md", "committed\n");
            site.git(&["commit", "-qam", "more"]);
        }
        if args[0] == "revert" {
            write(&site.top, "b.md", "again\n");
            site.git(&["commit", "-qam", "again"]);
        }
        try_git(&site.top, args);
        // A rebase detaches the head too; what is under way is said first.
        site.refuses(&approval, "merge_in_progress").await;
        if args[0] == "stash" {
            assert_eq!(writable(&site, "b.md").await, "merge_in_progress");
        } else {
            let busy = site.repo.refuse_busy().await.unwrap_err();
            assert_eq!(busy.code_str(), "merge_in_progress", "{args:?}");
        }
    }
}

#[tokio::test]
async fn a_source_that_git_converts_is_refused() {
    let always =
        ["*.md filter=lfs", "*.md ident", "*.md eol=crlf", "*.md working-tree-encoding=UTF-16LE"];
    for attributes in always {
        let site = site().await;
        let approval = site.propose("a.md", "new\n").await;
        write(&site.top, ".git/info/attributes", format!("{attributes}\n"));
        assert_eq!(writable(&site, "a.md").await, "content_filter", "{attributes}");
        site.refuses(&approval, "content_filter").await;
    }
    let site = site().await;
    let approval = site.propose("a.md", "new\n").await;
    site.git(&["config", "core.autocrlf", "true"]);
    site.refuses(&approval, "content_filter").await;
    site.git(&["config", "core.autocrlf", "input"]);
    assert_eq!(writable(&site, "a.md").await, "ok");
    site.git(&["config", "core.safecrlf", "true"]);
    let crlf = site.propose("a.md", "one\r\ntwo\r\n").await;
    site.refuses(&crlf, "content_filter").await;
    site.approve(&approval).await.unwrap();
    assert_eq!(site.status(), "");
}

#[tokio::test]
async fn attributes_that_leave_the_text_alone_do_not_matter() {
    let site =
        site_of(&[("a.md", "a\n"), ("w.md", "w\r\n"), (".gitattributes", "w.md -text\n")]).await;
    write(&site.top, ".gitattributes", "* text=auto\nw.md -text\n");
    site.git(&["commit", "-qam", "attributes"]);
    let crlf = site.propose("a.md", "a\r\nb\r\n").await;
    site.refuses(&crlf, "content_filter").await;
    site.approve(&site.propose("a.md", "new\n").await).await.unwrap();
    site.approve(&site.propose("w.md", "w\r\nnew\r\n").await).await.unwrap();
    assert_eq!(read(&site.top, "w.md"), "w\r\nnew\r\n");
    assert_eq!(site.status(), "");
}

#[tokio::test]
async fn g22_a_file_with_a_second_name_or_behind_a_link_is_not_written() {
    let site = site().await;
    let approval = site.propose("a.md", "new\n").await;
    std::fs::hard_link(site.top.join("a.md"), site.data.join("../second")).unwrap();
    site.refuses(&approval, "hard_link").await;
    let inner = site.propose("docs/c.md", "new\n").await;
    std::fs::rename(site.top.join("docs"), site.data.join("../moved")).unwrap();
    symlink(site.data.join("../moved"), site.top.join("docs")).unwrap();
    site.refuses(&inner, "path_is_link").await;
    assert_eq!(read(&site.data, "../moved/c.md"), "c\n");
}

#[tokio::test]
async fn a_tracked_link_and_a_submodule_are_not_sources() {
    let site = site().await;
    symlink("a.md", site.top.join("link.md")).unwrap();
    init(&site.top.join("sub.md"), &[("x", "x")]);
    site.git(&["-c", "advice.addEmbeddedRepo=false", "add", "-A"]);
    site.git(&["commit", "-qm", "odd"]);
    assert!(site.git(&["ls-files", "-s", "sub.md"]).starts_with("160000"));
    assert_eq!(writable(&site, "link.md").await, "path_is_link");
    assert_eq!(writable(&site, "sub.md").await, "not_a_source");
    let error = site.repo.source(&path("sub.md")).await.unwrap_err();
    assert_eq!(error.code_str(), "not_a_source");
    assert_eq!(site.repo.list_sources().await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_locked_index_is_named_and_nothing_is_left() {
    let site = site().await;
    let approval = site.propose("a.md", "new\n").await;
    write(&site.top, ".git/index.lock", "");
    site.refuses(&approval, "index_locked").await;
    let error = site.approve(&approval).await.unwrap_err();
    assert!(error.message().contains(".git/index.lock"), "{error}");
    std::fs::remove_file(site.top.join(".git/index.lock")).unwrap();
    site.approve(&approval).await.unwrap();
}

#[tokio::test]
async fn a_locked_branch_leaves_index_and_tree_as_they_were() {
    let site = site().await;
    let approval = site.propose("a.md", "new\n").await;
    write(&site.top, ".git/refs/heads/main.lock", "");
    let head = site.git(&["rev-parse", "HEAD"]);
    let error = site.approve(&approval).await.unwrap_err();
    assert_eq!(error.code_str(), "index_locked", "{}", error.chain());
    assert!(error.message().contains("main.lock"), "{error}");
    assert_eq!((site.git(&["rev-parse", "HEAD"]), site.status()), (head, String::new()));
    assert_eq!(read(&site.top, "a.md"), "one\ntwo\nthree\n");
    assert_eq!(site.rows(&approval).await, (None, "open".into()));
    std::fs::remove_file(site.top.join(".git/refs/heads/main.lock")).unwrap();
    site.approve(&approval).await.unwrap();
    assert_eq!(site.rows(&approval).await, (Some("committed".into()), "approved".into()));
}
