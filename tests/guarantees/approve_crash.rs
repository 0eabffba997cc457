//! G19: an approval is one commit or none, wherever the server crashes.

use serde_json::Value;

use crate::support::{Bench, Topic, shell};

const AGENT: &str = "sed 's/The first line/The best line/' \"$root/$path\" | propose";

/// The points of an approval, and whether the commit is made when the server comes back.
pub(crate) const POINTS: [(&str, bool); 9] = [
    ("approve_built", false),
    ("approve_dry", false),
    ("approve_prepared", true),
    ("replace_spare", true),
    ("replace_exchanged", true),
    ("approve_file", true),
    ("approve_tree", true),
    ("approve_ref", true),
    ("approve_committed", true),
];

/// Returns a site, which does not run, with a proposal that waits for its approval.
pub(crate) fn proposed() -> (Bench, Topic, Value) {
    let bench = Bench::new();
    bench.topic_kind("better", "timeout = \"20s\", produces = \"proposal\"", AGENT);
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    let shown = bench.proposal("better", &topic);
    server.stop();
    (bench, topic, shown)
}

/// Approves on a server that crashes at a point; `meanwhile` is what the user does before the next
/// server starts.
fn crash(bench: &Bench, shown: &Value, point: &str, meanwhile: &str) {
    use std::os::unix::process::ExitStatusExt as _;
    let mut server = bench.serve_with(&[("WB_CRASH_AT", point)]);
    let answer = bench.approval(shown).try_socket(&bench.socket());
    assert!(answer.is_none(), "{point}: {answer:?}");
    let (status, _) = server.wait();
    assert_eq!(status.signal(), Some(6), "{point}: {}", server.log());
    shell(&format!("cd {}; {meanwhile}", bench.top));
}

fn assert_committed(bench: &Bench, topic: &Topic, shown: &Value, point: &str) {
    assert_eq!(bench.commits().len(), 2, "{point}");
    let now = bench.get(&format!("/api/topics/{}", topic.id)).ok();
    assert_eq!(now["topic"]["status"], "incorporated", "{point}");
    let proposal = &now["proposals"][0];
    assert_eq!(proposal["status"], "approved", "{point}");
    assert_eq!(proposal["commit"], bench.commits()[0], "{point}");
    let text = shown["text"].as_str().unwrap();
    assert_eq!(bench.git(&["cat-file", "blob", "HEAD:guide.md"]), text.trim_end(), "{point}");
    let again = bench.send(&bench.approval(shown));
    assert_eq!(again.refusal(), (409, "already_decided"), "{point}");
    assert_eq!(bench.commits().len(), 2, "{point}");
}

fn assert_dropped(bench: &Bench, topic: &Topic, shown: &Value, point: &str) {
    assert_eq!(bench.commits().len(), 1, "{point}");
    let now = bench.get(&format!("/api/topics/{}", topic.id)).ok();
    assert_eq!(now["topic"]["status"], "open", "{point}");
    assert_eq!(bench.proposal_status(shown), "open", "{point}");
}

/// Fails with `WB_WITHOUT=approval_recovery`.
#[test]
fn g19_after_a_crash_at_any_point_there_is_one_commit_or_none() {
    for (point, is_committed) in POINTS {
        let (bench, topic, shown) = proposed();
        crash(&bench, &shown, point, "");
        let server = bench.serve();
        assert_eq!(bench.status(), "", "{point}");
        if is_committed {
            assert_committed(&bench, &topic, &shown, point);
        } else {
            assert_dropped(&bench, &topic, &shown, point);
            bench.send(&bench.approval(&shown)).ok();
            assert_committed(&bench, &topic, &shown, point);
        }
        assert_eq!(
            (bench.status(), bench.git(&["fsck", "--strict", "--no-dangling"])),
            Default::default(),
            "{point}"
        );
        server.stop();
    }
}

/// The writer's own points: the first write of an approval is the journal's row, which is there or
/// not; either way the approval is finished, or can be repeated.
#[test]
fn g19_a_crash_around_the_journal_is_no_other() {
    for point in ["before_commit", "after_commit"] {
        let (bench, topic, shown) = proposed();
        let armed = bench.base.join("armed");
        let env = [("WB_CRASH_AT", point), ("WB_CRASH_WHEN", armed.as_str())];
        let mut server = bench.serve_with(&env);
        // The first use of the token is noted, which is a commit of its own.
        bench.get("/api/me").ok();
        std::fs::write(&armed, "").unwrap();
        let answer = bench.approval(&shown).try_socket(&bench.socket());
        assert!(answer.is_none(), "{point}: {answer:?}");
        server.wait();
        let server = bench.serve();
        assert_eq!(bench.status(), "", "{point}");
        if bench.commits().len() == 1 {
            assert_dropped(&bench, &topic, &shown, point);
            bench.send(&bench.approval(&shown)).ok();
        }
        assert_committed(&bench, &topic, &shown, point);
        server.stop();
    }
}

/// What the user does after the crash stays, and the approval is finished around it.
#[test]
fn g19_what_is_not_in_the_way_after_the_crash_stays() {
    for point in ["approve_prepared", "approve_tree"] {
        let (bench, topic, shown) = proposed();
        crash(&bench, &shown, point, "echo mine >> notes.md; echo mine > new.md");
        let server = bench.serve();
        assert_committed(&bench, &topic, &shown, point);
        assert_eq!(bench.status(), " M notes.md\n?? new.md", "{point}");
        server.stop();
    }
}

/// An edit of the Source itself stays too: before the step the approval is dropped for it, after
/// the step the commit is made beneath it.
#[test]
fn g19_an_edit_of_the_source_after_the_crash_stays() {
    let edit = "printf 'all mine\\n' > guide.md";
    let (bench, topic, shown) = proposed();
    crash(&bench, &shown, "approve_prepared", edit);
    let server = bench.serve();
    assert_dropped(&bench, &topic, &shown, "approve_prepared");
    assert_eq!(
        (bench.read("guide.md"), bench.status()),
        ("all mine\n".into(), " M guide.md".into())
    );
    assert_eq!(bench.send(&bench.approval(&shown)).refusal(), (409, "source_dirty"));
    // The proposed text itself is recognized, and the hint puts the Source back.
    bench.write("guide.md", shown["text"].as_str().unwrap());
    let answer = bench.send(&bench.approval(&shown));
    assert_eq!(answer.refusal(), (409, "source_dirty"));
    let said = answer.body.to_string();
    assert!(
        said.contains(&format!(
            "the text of proposal {}",
            shown["proposal"]["id"].as_str().unwrap()
        )),
        "{said}"
    );
    assert!(said.contains("`git checkout HEAD -- 'guide.md'`"), "{said}");
    bench.git(&["checkout", "-q", "HEAD", "--", "guide.md"]);
    bench.send(&bench.approval(&shown)).ok();
    assert_committed(&bench, &topic, &shown, "approve_prepared");
    server.stop();

    let (bench, topic, shown) = proposed();
    crash(&bench, &shown, "approve_tree", edit);
    let server = bench.serve();
    assert_committed(&bench, &topic, &shown, "approve_tree");
    assert_eq!(
        (bench.read("guide.md"), bench.status()),
        ("all mine\n".into(), " M guide.md".into())
    );
    server.stop();
}

/// The branch goes on without this Source: the approval is dropped, its step undone, and made again
/// on the new tip when it is asked for.
#[test]
fn g19_a_commit_of_the_user_after_the_crash_is_not_lost() {
    for point in ["approve_prepared", "approve_tree"] {
        let (bench, topic, shown) = proposed();
        let commit = "echo mine >> notes.md; git -c user.name=U -c user.email=u@example.org \
            commit -qm other notes.md";
        crash(&bench, &shown, point, commit);
        let server = bench.serve();
        let now = bench.get(&format!("/api/topics/{}", topic.id)).ok();
        assert_eq!(now["topic"]["status"], "open", "{point}");
        assert_eq!((bench.commits().len(), bench.status()), (2, String::new()), "{point}");
        bench.send(&bench.approval(&shown)).ok();
        assert_eq!((bench.commits().len(), bench.status()), (3, String::new()), "{point}");
        server.stop();
    }
}

/// What waits says so, and is finished as soon as nothing is in its way, without a restart.
#[test]
fn g19_an_approval_that_waits_for_a_lock_is_finished_once_it_is_gone() {
    let (bench, topic, shown) = proposed();
    crash(&bench, &shown, "approve_tree", "touch .git/refs/heads/main.lock");
    let server = bench.serve();
    let id = shown["proposal"]["id"].as_str().unwrap();
    let names_it = |said: String| assert!(said.contains("main.lock"), "{said}");
    let page = bench.get(&format!("/api/proposals/{id}")).ok();
    assert_eq!(page["approvable"]["ok"], false);
    names_it(page["approvable"].to_string());
    names_it(bench.json(&["status"])["warnings"].to_string());
    let (_, out, err) = bench.cli(&["doctor"]);
    names_it(format!("{out}{err}"));
    let reject = format!("/api/proposals/{id}/reject");
    let refused = bench.post(&reject, serde_json::json!({"reason": "no"}));
    assert_eq!(refused.refusal(), (409, "branch_busy"));
    names_it(refused.body.to_string());
    let refused = bench.send(&bench.approval(&shown));
    assert_eq!(refused.refusal(), (409, "branch_busy"));
    assert!(!refused.body.to_string().contains("git checkout"), "{refused:?}");
    std::fs::remove_file(bench.top.join(".git/refs/heads/main.lock")).unwrap();
    crate::support::until("it is finished", || bench.proposal_status(&shown) == "approved");
    assert_committed(&bench, &topic, &shown, "approve_tree");
    assert_eq!(bench.json(&["status"])["warnings"], serde_json::json!([]));
    let log = server.log();
    assert_eq!(log.matches("waits: another git process").count(), 1, "{log}");
    server.stop();
}
