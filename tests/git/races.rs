//! Approvals that meet each other, or the user at work in a terminal.

use camino::Utf8PathBuf;
use futures_util::future::join_all;

use crate::git::support::{git, read, site, site_of, write};

#[tokio::test]
async fn g18_of_two_approvals_of_one_version_exactly_one_is_committed() {
    for _ in 0..5 {
        let site = site().await;
        let first = site.propose("a.md", "first\n").await;
        let second = site.propose("a.md", "second\n").await;
        let (one, two) = tokio::join!(site.approve(&first), site.approve(&second));
        let (won, lost) = if one.is_ok() { (one, two) } else { (two, one) };
        assert_eq!(lost.unwrap_err().code_str(), "stale_base");
        assert_eq!(site.git(&["rev-parse", "HEAD"]), won.unwrap().commit.as_str());
        assert_eq!(site.git(&["rev-list", "--count", "HEAD"]), "2");
        assert_eq!(site.status(), "");
    }
}

#[tokio::test]
async fn one_proposal_is_committed_once_however_often_it_is_approved() {
    let site = site().await;
    let approval = site.propose("a.md", "new\n").await;
    let all = join_all((0..4).map(|_| site.approve(&approval))).await;
    assert_eq!(all.iter().filter(|it| it.is_ok()).count(), 1);
    for refused in all.into_iter().filter_map(Result::err) {
        assert_eq!(refused.code_str(), "already_decided");
    }
    assert_eq!(site.git(&["rev-list", "--count", "HEAD"]), "2");
}

#[tokio::test]
async fn approvals_of_different_sources_follow_each_other() {
    let names: Vec<String> = (0..6).map(|it| format!("n{it}.md")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|it| (it.as_str(), "x\n")).collect();
    let site = site_of(&files).await;
    let mut approvals = Vec::new();
    for name in &names {
        approvals.push(site.propose(name, "new\n").await);
    }
    let all = join_all(approvals.iter().map(|it| site.approve(it))).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert_eq!(site.git(&["rev-list", "--count", "--first-parent", "HEAD"]), "7");
    assert_eq!(site.status(), "");
}

#[tokio::test]
async fn a_branch_that_moved_elsewhere_gets_the_commit_on_its_new_tip() {
    let site = site().await;
    let approval = site.propose("a.md", "new\n").await;
    let top = site.top.clone();
    let meanwhile = move || {
        if read(&top, "b.md") == "b\n" {
            write(&top, "b.md", "moved\n");
            git(&top, &["commit", "-qam", "meanwhile"]);
        }
    };
    let committed = site.approve_while(&approval, meanwhile).await.unwrap();
    assert!(!committed.already);
    assert_eq!(site.git(&["log", "--format=%s"]), "Say why\nmeanwhile\nfirst");
    assert_eq!(site.git(&["show", "HEAD:b.md"]), "moved");
    assert_eq!((site.status(), read(&site.top, "a.md")), (String::new(), "new\n".into()));
    assert_eq!(site.rows(&approval).await, (Some("committed".into()), "approved".into()));
}

#[tokio::test]
async fn a_branch_that_never_stands_still_is_given_up() {
    let site = site().await;
    let approval = site.propose("a.md", "new\n").await;
    let top = site.top.clone();
    let meanwhile = move || {
        git(&top, &["commit", "-q", "--allow-empty", "-m", "again"]);
    };
    let error = site.approve_while(&approval, meanwhile).await.unwrap_err();
    assert_eq!(error.code_str(), "stale_base");
    // One round and three more.
    assert_eq!(site.git(&["rev-list", "--count", "HEAD"]), "5");
    assert_eq!(
        (site.status(), read(&site.top, "a.md")),
        (String::new(), "one\ntwo\nthree\n".into())
    );
    assert_eq!(site.rows(&approval).await, (None, "open".into()));
}

#[tokio::test]
async fn g18_a_commit_of_the_same_source_in_between_makes_it_stale() {
    let site = site().await;
    let approval = site.propose("a.md", "new\n").await;
    let top = site.top.clone();
    let meanwhile = move || {
        write(&top, "a.md", "theirs\n");
        git(&top, &["commit", "-qam", "theirs"]);
    };
    let error = site.approve_while(&approval, meanwhile).await.unwrap_err();
    assert_eq!(error.code_str(), "stale_base", "{}", error.chain());
    assert_eq!((site.status(), read(&site.top, "a.md")), (String::new(), "theirs\n".into()));
}

#[tokio::test]
async fn g20_an_edit_after_the_dry_run_is_not_overwritten() {
    type Edit = fn(&Utf8PathBuf);
    let edits: [Edit; 3] = [
        |top| write(top, "a.md", "mine\n"),
        |top| write(top, "a.md", ""),
        |top| {
            write(top, "a.md", "mine\n");
            git(top, &["add", "a.md"]);
        },
    ];
    for edit in edits {
        let site = site().await;
        let approval = site.propose("a.md", "new\n").await;
        let top = site.top.clone();
        let error = site.approve_while(&approval, move || edit(&top)).await.unwrap_err();
        assert_eq!(error.code_str(), "source_dirty", "{}", error.chain());
        assert!(["mine\n", ""].contains(&read(&site.top, "a.md").as_str()));
        assert_eq!(site.git(&["rev-list", "--count", "HEAD"]), "1");
        assert_eq!(site.rows(&approval).await, (None, "open".into()));
    }
}

#[tokio::test]
async fn a_lock_that_is_held_only_for_a_moment_is_waited_for() {
    let site = site().await;
    let approval = site.propose("a.md", "new\n").await;
    let lock = site.top.join(".git/index.lock");
    write(&site.top, ".git/index.lock", "");
    let holder = async {
        tokio::time::timeout(std::time::Duration::from_secs(10), async {
            // Lets go once an approval has built its commit and so stands before the lock.
            while !has_new_objects(&site.top) {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        })
        .await
        .unwrap();
        std::fs::remove_file(&lock).unwrap();
    };
    let (approved, ()) = tokio::join!(site.approve(&approval), holder);
    approved.unwrap();
    assert_eq!(site.status(), "");
}

fn has_new_objects(top: &Utf8PathBuf) -> bool {
    // The first commit has 5 objects (2 trees, 3 blobs) and itself.
    git(top, &["count-objects"]).split(' ').next().unwrap().parse::<u32>().unwrap() >= 9
}

#[tokio::test]
async fn g18_a_branch_that_got_the_text_already_settles_the_rows_with_its_tip() {
    // Before the approval: somebody committed the very text by hand.
    let site = site().await;
    let approval = site.propose("a.md", "new\n").await;
    write(&site.top, "a.md", "new\n");
    site.git(&["commit", "-qam", "by hand"]);
    let committed = site.approve(&approval).await.unwrap();
    assert!(committed.already);
    assert_eq!(site.git(&["rev-parse", "HEAD"]), committed.commit.as_str());
    assert_eq!(site.git(&["rev-list", "--count", "HEAD"]), "2");
    assert_eq!(site.rows(&approval).await, (Some("committed".into()), "approved".into()));
    assert_eq!(site.approve(&approval).await.unwrap_err().code_str(), "already_decided");
}

#[tokio::test]
async fn g18_a_text_that_is_pushed_in_between_is_not_committed_twice() {
    let site = site().await;
    let approval = site.propose("a.md", "new\n").await;
    let (top, clone) = (site.top.clone(), site.data.join("../clone"));
    site.git(&["config", "receive.denyCurrentBranch", "ignore"]);
    git(&site.data, &["clone", "-q", top.as_str(), clone.as_str()]);
    write(&clone, "a.md", "new\n");
    git(&clone, &["commit", "-qam", "pushed"]);
    let meanwhile = move || {
        git(&clone, &["push", "-q", "origin", "main"]);
    };
    let committed = site.approve_while(&approval, meanwhile).await.unwrap();
    assert!(committed.already);
    assert_eq!(site.git(&["log", "--format=%s"]), "pushed\nfirst");
    // The step is not undone: index and tree are right for the tip.
    assert_eq!((site.status(), read(&site.top, "a.md")), (String::new(), "new\n".into()));
}

#[tokio::test]
async fn a_branch_that_was_left_in_between_is_not_committed_to() {
    let site = site().await;
    let approval = site.propose("a.md", "new\n").await;
    site.git(&["branch", "other"]);
    let top = site.top.clone();
    let meanwhile = move || {
        git(&top, &["switch", "-q", "other"]);
    };
    let error = site.approve_while(&approval, meanwhile).await.unwrap_err();
    assert_eq!(error.code_str(), "stale_base");
    assert_eq!(site.git(&["rev-list", "--count", "--all"]), "1");
    assert_eq!(
        (site.status(), read(&site.top, "a.md")),
        (String::new(), "one\ntwo\nthree\n".into())
    );
}

#[tokio::test]
async fn g19_an_approval_goes_on_when_its_caller_leaves() {
    let site = site().await;
    let approval = site.propose("a.md", "new\n").await;
    let left = tokio::time::timeout(std::time::Duration::ZERO, site.approve(&approval)).await;
    assert!(left.is_err());
    site.repo.close().await;
    assert_eq!(site.git(&["rev-list", "--count", "HEAD"]), "2");
    assert_eq!((site.status(), read(&site.top, "a.md")), (String::new(), "new\n".into()));
    assert_eq!(site.rows(&approval).await, (Some("committed".into()), "approved".into()));
}
