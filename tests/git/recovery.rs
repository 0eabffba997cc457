//! Each state in which a crash can leave an approval, created by hand, and its recovery.

use std::sync::Arc;

use wiki_browser::api::topics::TopicStatus;
use wiki_browser::base::{Actor, BlobId, Error};
use wiki_browser::documents::commit::{Approval, Outcome, Settle, recover};
use wiki_browser::documents::proposals::attempt::{self, Attempt};
use wiki_browser::documents::proposals::proposal;
use wiki_browser::documents::topics::topic;

use crate::git::support::{Site, forge, git, read, settle, site, write};

/// An approval whose journal's row is written and whose commit exists.
struct Half {
    site: Site,
    approval: Approval,
    base: BlobId,
    new: BlobId,
}

async fn prepared() -> Half {
    let site = site().await;
    let approval = site.propose("a.md", "one\n2\nthree\n").await;
    let base = site.git(&["rev-parse", "HEAD"]);
    // The commit is made in a clone, so that nothing here is touched.
    let clone = site.data.join("../clone");
    git(&site.data, &["clone", "-q", site.top.as_str(), clone.as_str()]);
    write(&clone, "a.md", &approval.text);
    git(&clone, &["commit", "-qam", "Incorporate"]);
    site.git(&["fetch", "-q", clone.as_str(), "main"]);
    std::fs::remove_file(site.top.join(".git/FETCH_HEAD")).unwrap();
    let new = git(&clone, &["rev-parse", "HEAD"]);
    let row = Attempt {
        id: approval.attempt.clone(),
        proposal_id: approval.proposal_id.clone(),
        topic_id: approval.topic_id.clone(),
        approver: approval.approver.clone(),
        text_digest: approval.text_digest.clone(),
        base_commit: base.parse().unwrap(),
        branch: "refs/heads/main".into(),
        commit: new.parse().unwrap(),
    };
    site.store.write(move |tx| attempt::prepare(tx, &row)).await.unwrap();
    write(&site.data, &format!("approve-{}.index", approval.attempt), "left over");
    Half { site, approval, base: base.parse().unwrap(), new: new.parse().unwrap() }
}

impl Half {
    fn git(&self, args: &[&str]) -> String {
        self.site.git(args)
    }

    fn make_step(&self) {
        self.git(&["read-tree", "-m", "-u", self.base.as_str(), self.new.as_str()]);
    }

    fn text(&self) -> String {
        read(&self.site.top, "a.md")
    }

    async fn recover(&self) -> Outcome {
        let mut all = recover(&self.site.repo, &self.site.store, settle()).await.unwrap();
        assert_eq!(all.len(), 1);
        let again = recover(&self.site.repo, &self.site.store, settle()).await.unwrap();
        let outcome = all.remove(0).outcome;
        assert_eq!(again.is_empty(), !matches!(outcome, Outcome::Waiting { .. }));
        outcome
    }

    /// Recovers to one commit; index and tree are as it has them.
    async fn is_settled(&self) {
        let Outcome::Settled(committed) = self.recover().await else { panic!("not settled") };
        assert_eq!((&committed.commit, committed.already), (&self.new, false));
        assert_eq!(self.git(&["rev-parse", "main"]), self.new.as_str());
        assert_eq!(self.git(&["rev-list", "--count", "main"]), "2");
        let rows = self.site.rows(&self.approval).await;
        assert_eq!(rows, (Some("committed".into()), "approved".into()));
        let index = self.site.data.join(format!("approve-{}.index", self.approval.attempt));
        assert!(!index.exists());
    }

    /// Recovers to no commit of ours.
    async fn is_dropped(&self) -> String {
        let Outcome::Dropped { note } = self.recover().await else { panic!("not dropped") };
        let (code, _) = crate::git::support::try_git(
            &self.site.top,
            &["merge-base", "--is-ancestor", self.new.as_str(), "HEAD"],
        );
        assert_ne!(code, 0);
        let rows = self.site.rows(&self.approval).await;
        assert_eq!(rows, (Some("dropped".into()), "open".into()));
        note
    }
}

#[tokio::test]
async fn g19_before_the_step_the_rest_is_made() {
    let half = prepared().await;
    half.is_settled().await;
    assert_eq!((half.site.status(), half.text()), (String::new(), half.approval.text.clone()));
}

#[tokio::test]
async fn g19_after_the_step_the_rest_is_made() {
    let half = prepared().await;
    half.make_step();
    half.is_settled().await;
    assert_eq!((half.site.status(), half.text()), (String::new(), half.approval.text.clone()));
}

#[tokio::test]
async fn g19_after_the_branch_moved_the_rows_follow() {
    let half = prepared().await;
    half.make_step();
    half.git(&["update-ref", "refs/heads/main", half.new.as_str(), half.base.as_str()]);
    half.is_settled().await;
    assert_eq!((half.site.status(), half.text()), (String::new(), half.approval.text.clone()));
}

#[tokio::test]
async fn g19_after_the_branch_went_on_the_rows_follow() {
    let half = prepared().await;
    half.make_step();
    half.git(&["update-ref", "refs/heads/main", half.new.as_str(), half.base.as_str()]);
    half.git(&["commit", "-q", "--allow-empty", "-m", "later"]);
    let Outcome::Settled(committed) = half.recover().await else { panic!("not settled") };
    assert_eq!((committed.commit, committed.already), (half.new.clone(), false));
    assert_eq!(half.git(&["rev-list", "--count", "main"]), "3");
}

#[tokio::test]
async fn g19_a_step_that_was_cut_in_the_middle_is_mended() {
    // What git leaves between removing the old file and writing the index.
    let torn: [Option<&str>; 4] = [None, Some(""), Some("one\n2"), Some("one\n2\nthree\n")];
    for written in torn {
        let half = prepared().await;
        std::fs::remove_file(half.site.top.join("a.md")).unwrap();
        if let Some(text) = written {
            write(&half.site.top, "a.md", text);
        }
        half.is_settled().await;
        assert_eq!((half.site.status(), half.text()), (String::new(), half.approval.text.clone()));
    }
}

#[tokio::test]
async fn g20_an_edit_after_the_crash_is_kept_and_the_approval_dropped() {
    let half = prepared().await;
    write(&half.site.top, "a.md", "mine\n");
    half.is_dropped().await;
    assert_eq!((half.text(), half.site.status()), ("mine\n".into(), " M a.md".into()));
    assert_eq!(half.git(&["rev-parse", "main"]), half.base.as_str());
}

#[tokio::test]
async fn g20_an_edit_on_top_of_the_step_is_kept() {
    let half = prepared().await;
    half.make_step();
    write(&half.site.top, "a.md", "one\n2\nthree\nmine\n");
    half.is_settled().await;
    assert_eq!(half.text(), "one\n2\nthree\nmine\n");
    assert_eq!(half.site.status(), " M a.md");
}

#[tokio::test]
async fn g19_a_branch_that_moved_elsewhere_has_the_step_undone() {
    for is_stepped in [false, true] {
        let half = prepared().await;
        if is_stepped {
            half.make_step();
        }
        write(&half.site.top, "b.md", "moved\n");
        half.git(&["commit", "-qm", "other", "--only", "b.md"]);
        let note = half.is_dropped().await;
        assert_eq!(note.contains("put back"), is_stepped, "{note}");
        assert_eq!((half.site.status(), half.text()), (String::new(), "one\ntwo\nthree\n".into()));
        // The proposal can be approved as before.
        let mut again = half.approval.clone();
        again.attempt = half.site.propose("b.md", "x\n").await.attempt;
        half.site.approve(&again).await.unwrap();
        assert_eq!(half.site.status(), "");
    }
}

#[tokio::test]
async fn g19_a_user_who_committed_our_index_has_committed_the_proposal() {
    let half = prepared().await;
    half.make_step();
    half.git(&["commit", "-qm", "user"]);
    let tip = half.git(&["rev-parse", "HEAD"]);
    let Outcome::Settled(committed) = half.recover().await else { panic!("not settled") };
    assert_eq!((committed.commit.as_str(), committed.already), (tip.as_str(), true));
    assert_eq!((half.site.status(), half.text()), (String::new(), half.approval.text.clone()));
    let rows = half.site.rows(&half.approval).await;
    assert_eq!(rows, (Some("committed".into()), "approved".into()));
}

#[tokio::test]
async fn g20_what_a_user_made_of_the_file_after_a_move_is_left() {
    let half = prepared().await;
    half.make_step();
    write(&half.site.top, "b.md", "moved\n");
    half.git(&["commit", "-qm", "other", "--only", "b.md"]);
    write(&half.site.top, "a.md", "mine\n");
    let note = half.is_dropped().await;
    assert!(note.contains("left as it is") && note.contains("the index was put back"), "{note}");
    assert_eq!((half.text(), half.site.status()), ("mine\n".into(), " M a.md".into()));
}

impl Half {
    /// Makes the first half of the step only.
    fn write_file(&self) {
        write(&self.site.top, "a.md", &self.approval.text);
    }
}

/// The file has the new text, the index has not: between the two the server died.
#[tokio::test]
async fn g19_a_file_that_was_written_before_the_index_goes_back() {
    type Meanwhile = (&'static str, fn(&Half), &'static str);
    let moved: [Meanwhile; 4] = [
        (
            "another commit",
            |half| {
                write(&half.site.top, "b.md", "moved\n");
                half.git(&["commit", "-qm", "other", "--only", "b.md"]);
            },
            "",
        ),
        (
            "another branch",
            |half| {
                half.git(&["switch", "-q", "-c", "other"]);
            },
            "",
        ),
        (
            "out of the index",
            |half| {
                half.git(&["rm", "-q", "--cached", "a.md"]);
            },
            "D  a.md\n?? a.md",
        ),
        (
            "all of it pruned",
            |half| {
                half.git(&["reflog", "expire", "--expire=now", "--all"]);
                half.git(&["gc", "-q", "--prune=now"]);
            },
            "",
        ),
    ];
    for is_staged in [false, true] {
        for (what, meanwhile, status) in moved {
            let half = prepared().await;
            match is_staged {
                true => half.make_step(),
                false => half.write_file(),
            }
            meanwhile(&half);
            let note = half.is_dropped().await;
            let now = (half.text(), half.site.status());
            assert_eq!(now, ("one\ntwo\nthree\n".into(), status.into()), "{what}, {is_staged}");
            let both = is_staged && what != "out of the index";
            let said =
                if both { "index and working tree were put back" } else { "the file was put back" };
            assert!(note.ends_with(said), "{what}, {is_staged}: {note}");
        }
    }
}

/// Fails with `WB_WITHOUT=object_proof`.
#[tokio::test]
async fn g18_a_commit_that_was_forged_after_the_crash_is_not_taken() {
    let half = prepared().await;
    forge(&half.site.top, &half.approval.proposed_blob, "forged\n");
    let note = half.is_dropped().await;
    assert!(note.contains(half.approval.proposed_blob.as_str()), "{note}");
    assert_eq!((half.site.status(), half.text()), (String::new(), "one\ntwo\nthree\n".into()));
    assert_eq!(half.git(&["rev-parse", "main"]), half.base.as_str());
}

#[tokio::test]
async fn g19_another_branch_is_never_committed_to() {
    for is_stepped in [false, true] {
        let half = prepared().await;
        if is_stepped {
            half.make_step();
        }
        half.git(&["switch", "-q", "-c", "other"]);
        half.is_dropped().await;
        assert_eq!((half.site.status(), half.text()), (String::new(), "one\ntwo\nthree\n".into()));
        for branch in ["main", "other"] {
            assert_eq!(half.git(&["rev-parse", branch]), half.base.as_str());
        }
    }
    let half = prepared().await;
    half.git(&["switch", "-q", "-c", "other"]);
    half.git(&["branch", "-D", "main"]);
    half.is_dropped().await;
}

#[tokio::test]
async fn a_commit_that_is_gone_is_not_waited_for() {
    let half = prepared().await;
    half.git(&["reflog", "expire", "--expire=now", "--all"]);
    half.git(&["gc", "-q", "--prune=now"]);
    let note = half.is_dropped().await;
    assert!(note.contains("is gone"), "{note}");
    assert_eq!(half.site.status(), "");
}

#[tokio::test]
async fn g19_nothing_else_decides_what_is_being_approved() {
    let half = prepared().await;
    let (id, topic_id) = (half.approval.proposal_id.clone(), half.approval.topic_id.clone());
    let rejected = half.site.store.write(move |tx| {
        proposal::mark_stale(tx, &id)?;
        proposal::reject(tx, &id, &Actor::System, "no")
    });
    assert_eq!(rejected.await.unwrap_err().code_str(), "branch_busy");
    let (open, gone) = (TopicStatus::Open, TopicStatus::Discarded);
    let closed = half
        .site
        .store
        .write(move |tx| topic::set_status(tx, &topic_id, open, gone, &Actor::System));
    assert_eq!(closed.await.unwrap_err().code_str(), "branch_busy");
    let id = half.approval.proposal_id.clone();
    half.site.store.write(move |tx| proposal::mark_stale(tx, &id)).await.unwrap();
    half.is_settled().await;
}

#[tokio::test]
async fn a_lock_makes_recovery_wait_and_the_branch_busy_until_it_is_gone() {
    let half = prepared().await;
    write(&half.site.top, ".git/index.lock", "");
    let other = half.site.propose("b.md", "new\n").await;
    let Outcome::Waiting { why } = half.recover_once().await else { panic!("not waiting") };
    assert!(why.contains("index.lock") && why.contains("remove that file"), "{why}");
    let error = half.site.approve(&other).await.unwrap_err();
    assert_eq!(error.code_str(), "branch_busy");
    assert!(error.hint_str().unwrap().contains("index.lock"));
    std::fs::remove_file(half.site.top.join(".git/index.lock")).unwrap();
    // The next approval finishes what was left, then commits on top of it.
    half.site.approve(&other).await.unwrap();
    assert_eq!(half.git(&["rev-parse", "HEAD~1"]), half.new.as_str());
    let rows = half.site.rows(&half.approval).await;
    assert_eq!(rows, (Some("committed".into()), "approved".into()));
    assert_eq!(half.site.status(), "");
}

/// The database takes no row once the branch has the commit: that is no refusal, and is said as
/// what it is. The same approval again writes it down, and makes no second commit.
#[tokio::test]
async fn g19_a_commit_that_is_not_written_down_is_not_called_refused() {
    let site = site().await;
    let approval = site.propose("a.md", "one\n2\nthree\n").await;
    let full: Settle = Arc::new(|_, _| {
        Err(Error::unavailable("the disk is full").code("disk_full").hint("free some space"))
    });
    let error = site.approve_settling(&approval, full).await.unwrap_err();
    let commit = site.git(&["rev-parse", "HEAD"]);
    assert_eq!(error.code_str(), "committed_unsettled", "{}", error.chain());
    assert!(error.message().contains(&commit) && error.message().contains("the disk is full"));
    assert!(error.hint_str().unwrap().contains("no second commit"));
    assert_eq!(site.git(&["show", "HEAD:a.md"]), "one\n2\nthree");
    assert_eq!(site.rows(&approval).await, (Some("prepared".into()), "open".into()));
    let again = site.approve(&approval).await.unwrap_err();
    assert_eq!(again.code_str(), "already_decided", "{}", again.chain());
    assert_eq!(site.rows(&approval).await, (Some("committed".into()), "approved".into()));
    assert_eq!((site.git(&["rev-parse", "HEAD"]), site.status()), (commit, String::new()));
}

impl Half {
    async fn recover_once(&self) -> Outcome {
        let mut all = recover(&self.site.repo, &self.site.store, settle()).await.unwrap();
        all.remove(0).outcome
    }
}
