//! A repository whose configuration an agent has written: none of it is executed.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use camino::{Utf8Path, Utf8PathBuf};

use crate::git::support::{Site, git, path, read, site, write};

/// Writes a program that leaves a mark and fails; returns its path.
fn trap(site: &Site) -> (Utf8PathBuf, Utf8PathBuf) {
    let (trap, mark) = (site.data.join("../trap"), site.data.join("../mark"));
    write(&site.data, "../trap", format!("#!/bin/sh\necho \"$0 $@\" >> '{mark}'\nexit 1\n"));
    std::fs::set_permissions(&trap, PermissionsExt::from_mode(0o755)).unwrap();
    (trap.canonicalize_utf8().unwrap(), mark)
}

async fn use_everything(site: &Site) {
    let approval = site.propose("a.md", "new\n").await;
    assert_eq!(site.repo.list_sources().await.unwrap().len(), 3);
    site.repo.source(&path("a.md")).await.unwrap();
    site.repo.refuse_unwritable(&path("a.md")).await.unwrap();
    site.repo.history(&path("a.md"), 9).await.unwrap();
    site.approve(&approval).await.unwrap();
    site.repo.history(&path("a.md"), 9).await.unwrap();
    site.repo.list_sources().await.unwrap();
}

#[tokio::test]
async fn no_program_of_the_configuration_is_run() {
    let site = site().await;
    let (trap, mark) = trap(&site);
    let hooks = [
        "pre-commit",
        "commit-msg",
        "post-commit",
        "reference-transaction",
        "post-index-change",
        "post-checkout",
        "pre-auto-gc",
        "fsmonitor-watchman",
    ];
    for hook in hooks {
        std::fs::copy(&trap, site.top.join(".git/hooks").join(hook)).unwrap();
    }
    std::fs::create_dir(site.data.join("../hooks")).unwrap();
    std::fs::copy(&trap, site.data.join("../hooks/reference-transaction")).unwrap();
    let attributes = "b.md filter=evil diff=evil\nevil=x.md filter=a=b\n";
    write(&site.top, ".git/info/attributes", attributes);
    for key in [
        "core.fsmonitor",
        "gpg.program",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "filter.a=b.clean",
        "core.pager",
        "core.editor",
        "core.sshCommand",
        "core.askPass",
        "credential.helper",
        "core.alternateRefsCommand",
        "alias.read-tree",
        "alias.log",
        "uploadpack.packObjectsHook",
    ] {
        git(&site.top, &["config", key, trap.as_str()]);
    }
    let hooks = site.data.join("../hooks").canonicalize_utf8().unwrap();
    for (key, value) in [
        ("core.hooksPath", hooks.as_str()),
        ("filter.evil.required", "true"),
        ("commit.gpgSign", "true"),
        ("log.showSignature", "true"),
        ("submodule.recurse", "true"),
        ("core.commentChar", "A"),
        ("commit.cleanup", "strip"),
        ("i18n.commitEncoding", "latin1"),
        ("trailer.separators", "="),
        ("user.useConfigOnly", "true"),
        ("log.follow", "true"),
    ] {
        git(&site.top, &["config", key, value]);
    }
    // So that git wants to look into the filtered file again.
    let text = read(&site.top, "b.md");
    std::fs::remove_file(site.top.join("b.md")).unwrap();
    write(&site.top, "b.md", text);
    use_everything(&site).await;
    assert!(!mark.exists(), "{}", read(&site.data, "../mark"));
    let history = site.repo.history(&path("a.md"), 1).await.unwrap();
    assert_eq!(history[0].approved_by.as_deref(), Some("Ada <ada@example.org>"));
    assert_eq!(site.git(&["log", "-1", "--no-show-signature", "--format=%G?"]), "N");
}

#[tokio::test]
async fn the_working_tree_cannot_be_moved_by_configuration() {
    let site = site().await;
    let victim = site.data.join("../victim");
    write(&victim, "a.md", "one\ntwo\nthree\n");
    site.git(&["config", "core.worktree", victim.canonicalize_utf8().unwrap().as_str()]);
    site.approve(&site.propose("a.md", "new\n").await).await.unwrap();
    site.git(&["config", "--unset", "core.worktree"]);
    site.git(&["config", "core.bare", "true"]);
    site.approve(&site.propose("b.md", "new\n").await).await.unwrap();
    assert_eq!(read(&victim, "a.md"), "one\ntwo\nthree\n");
    assert_eq!(read(&site.top, "a.md"), "new\n");
}

#[tokio::test]
async fn a_missing_object_is_not_fetched() {
    let site = site().await;
    let (trap, mark) = trap(&site);
    for (key, value) in [
        ("remote.origin.url", "."),
        ("remote.origin.promisor", "true"),
        ("remote.origin.uploadpack", trap.as_str()),
        ("extensions.partialClone", "origin"),
        ("core.repositoryFormatVersion", "1"),
        ("protocol.file.allow", "always"),
    ] {
        git(&site.top, &["config", key, value]);
    }
    let blob = site.git(&["rev-parse", "HEAD:b.md"]);
    let object = site.top.join(".git/objects").join(&blob[..2]).join(&blob[2..]);
    std::fs::remove_file(object).unwrap();
    let read = site.repo.read_blob(&blob.parse().unwrap(), 100).await;
    assert!(read.is_err());
    assert!(!mark.exists());
}

#[tokio::test]
async fn a_replaced_object_does_not_change_what_is_read() {
    let site = site().await;
    let old = site.git(&["rev-parse", "HEAD:a.md"]);
    let fake = site.git(&["rev-parse", "HEAD:b.md"]);
    site.git(&["replace", &old, &fake]);
    let read = site.repo.read_blob(&old.parse().unwrap(), 100).await.unwrap();
    assert_eq!(read, b"one\ntwo\nthree\n");
    site.approve(&site.propose("a.md", "new\n").await).await.unwrap();
    assert_eq!(site.git(&["--no-replace-objects", "show", "HEAD:a.md"]), "new");
}

#[tokio::test]
async fn variables_of_git_in_the_environment_are_not_inherited() {
    // The program's environment cannot be changed inside a test: what is asked is that the folder
    // decides, also when the folder is itself inside another repository.
    let outer = site().await;
    let inner = outer.top.join("inner");
    crate::git::support::init(&inner, &[("a.md", "inner\n")]);
    let repo = crate::git::support::open(&inner).await.unwrap();
    assert_eq!(repo.source(&path("a.md")).await.unwrap().text, "inner\n");
    assert_eq!(git(Utf8Path::new(&inner), &["rev-list", "--count", "HEAD"]), "1");
}

/// A process of the same user may change the configuration at any moment, also between the look of
/// the server and its call. Fails with `WB_WITHOUT=stand_in`.
#[tokio::test]
async fn a_filter_that_comes_and_goes_is_never_run() {
    let site = site().await;
    let (trap, mark) = trap(&site);
    write(&site.top, ".git/info/attributes", "b.md filter=evil\n");
    let config = site.top.join(".git/config");
    let plain = std::fs::read_to_string(&config).unwrap();
    let evil = format!("{plain}[filter \"evil\"]\n\tclean = {trap}\n\tsmudge = {trap}\n");
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, aside) = (Arc::clone(&stop), site.data.join("../config"));
    let swapper = std::thread::spawn(move || {
        for turn in 0.. {
            std::fs::write(&aside, if turn % 2 == 0 { &evil } else { &plain }).unwrap();
            std::fs::rename(&aside, &config).unwrap();
            if stopped.load(Ordering::Relaxed) {
                return;
            }
        }
    });
    for turn in 0..6 {
        // So that git has to compare the filtered file again, each time.
        let text = read(&site.top, "b.md");
        std::fs::remove_file(site.top.join("b.md")).unwrap();
        write(&site.top, "b.md", text);
        site.repo.list_sources().await.unwrap();
        site.repo.source(&path("b.md")).await.unwrap();
        site.approve(&site.propose("a.md", &format!("{turn}\n")).await).await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    assert!(!mark.exists(), "{}", read(&site.data, "../mark"));
}

/// A graft could say that a commit is one of those before the tip, and recovery would believe it.
#[tokio::test]
async fn a_graft_does_not_change_what_is_before_a_commit() {
    let site = site().await;
    let first = site.git(&["rev-parse", "HEAD"]);
    let other = site.git(&["commit-tree", "-m", "other", "HEAD^{tree}"]);
    site.git(&["commit", "-q", "--allow-empty", "-m", "second"]);
    let tip = site.git(&["rev-parse", "HEAD"]);
    write(&site.top, ".git/info/grafts", format!("{tip} {other}\n"));
    let history = site.repo.history(&path("a.md"), 9).await.unwrap();
    assert_eq!(history.iter().map(|it| it.commit.as_str()).collect::<Vec<_>>(), [first]);
}
