//! Concurrent decisions: each gets a clear answer, and only one is committed.

use serde_json::{Value, json};

use super::{approval_by, bench, id_of, look, person, propose};
use crate::support::{Answer, Bench, Call, shell};

/// Sends all at once; returns the answers in the order of the calls.
fn at_once(bench: &Bench, calls: &[Call]) -> Vec<Answer> {
    let socket = bench.socket();
    let barrier = std::sync::Barrier::new(calls.len());
    std::thread::scope(|scope| {
        let send = |call: &'_ Call| {
            barrier.wait();
            call.try_socket(&socket).unwrap()
        };
        let sent: Vec<_> = calls.iter().map(|call| scope.spawn(move || send(call))).collect();
        sent.into_iter().map(|it| it.join().unwrap()).collect()
    })
}

fn decision(shown: &Value, verb: &str, body: Value, token: &str) -> Call {
    Call::post(&format!("/api/proposals/{}/{verb}", id_of(shown)), body).token(token)
}

#[test]
fn the_same_approval_again_gets_the_same_commit() {
    let bench = bench();
    let server = bench.serve();
    let bo = person(&bench, "bo", "member");
    let (_, shown) = propose(&bench);
    let call = bench.approval(&shown).header("Idempotency-Key", "k1");
    let answers = at_once(&bench, &[call.clone(), call.clone(), call.clone()]);
    let commits: Vec<_> = answers.iter().map(|it| it.clone().ok()["commit"].clone()).collect();
    assert!(commits.iter().all(|it| *it == json!(bench.commits()[0])), "{commits:?}");
    assert_eq!((bench.commits().len(), bench.status()), (2, String::new()));
    assert_eq!(bench.send(&call).ok()["proposal"]["status"], "approved");
    // Without a key, or by somebody else, it is told that it is done.
    for again in [bench.approval(&shown), approval_by(&shown, &bo).header("Idempotency-Key", "k1")]
    {
        let refused = bench.send(&again);
        assert_eq!(refused.refusal(), (409, "already_decided"));
        let message = refused.body["error"]["message"].as_str().unwrap();
        assert!(message.contains(&bench.commits()[0]), "{message}");
        assert!(!super::hint(&refused).is_empty());
    }
    // The key is not for another request.
    let mut other = shown.clone();
    other["proposal"]["text_digest"] = json!("0000");
    let other = bench.approval(&other).header("Idempotency-Key", "k1");
    assert_eq!(bench.send(&other).status, 409);
    server.stop();
}

#[test]
fn a_key_of_an_approval_that_was_refused_is_free_for_the_same_approval() {
    let bench = bench();
    let server = bench.serve();
    let (_, shown) = propose(&bench);
    let call = bench.approval(&shown).header("Idempotency-Key", "k1");
    std::fs::write(bench.top.join(".git/index.lock"), "").unwrap();
    assert_eq!(bench.send(&call).refusal(), (409, "index_locked"));
    std::fs::remove_file(bench.top.join(".git/index.lock")).unwrap();
    bench.send(&call).ok();
    assert_eq!(bench.commits().len(), 2);
    server.stop();
}

/// Of two persons who decide at once one is heard; the other is told what it is now.
#[test]
fn of_decisions_at_once_exactly_one_counts() {
    let bench = bench();
    let server = bench.serve();
    let (ada, bo) = (bench.operator(), person(&bench, "bo", "member"));
    let codes = ["already_decided", "superseded", "rework_running", "branch_busy", "topic_closed"];
    for round in 0..4 {
        bench.git(&["checkout", "-q", "-B", "main", "HEAD"]);
        let (_, shown) = propose(&bench);
        let digest = &shown["proposal"]["text_digest"];
        let text = format!("{}\nMore {round}.\n", shown["text"].as_str().unwrap());
        let calls = [
            bench.approval(&shown),
            approval_by(&shown, &bo),
            decision(&shown, "reject", json!({"reason": "No."}), &bo),
            decision(&shown, "rework", json!({"reason": "Again."}), &ada),
            decision(&shown, "edit", json!({"text": text, "text_digest": digest}), &bo),
        ];
        let before = bench.commits().len();
        let answers = at_once(&bench, &calls);
        let won: Vec<usize> = (0..5).filter(|it| answers[*it].status < 300).collect();
        for lost in answers.iter().filter(|it| it.status >= 300) {
            assert!(lost.status == 409 && codes.contains(&lost.code()), "{lost:?}");
            assert!(!super::hint(lost).is_empty(), "{lost:?}");
        }
        let now = look(&bench, id_of(&shown));
        let commits = bench.commits().len() - before;
        // A rework can be asked for, and the earlier text be rejected all the same.
        match won[..] {
            [0] | [1] => assert_eq!((&now["proposal"]["status"], commits), (&json!("approved"), 1)),
            [2] | [2, 3] => {
                assert_eq!((&now["proposal"]["status"], commits), (&json!("rejected"), 0));
            }
            [3] => assert_eq!(commits, 0),
            [4] => assert_eq!((&now["proposal"]["status"], commits), (&json!("superseded"), 0)),
            _ => panic!("{won:?}: {answers:?}"),
        }
        if won.contains(&3) {
            bench.ended(answers[3].body["job_id"].as_str().unwrap());
        }
        assert_eq!(bench.status(), "");
        commit_original(&bench);
    }
    server.stop();
}

/// Puts the guide back for the next round.
fn commit_original(bench: &Bench) {
    bench.write("guide.md", "# Guide\n\nThe first line.\n\nThe second line.\n");
    bench.git(&["add", "guide.md"]);
    bench.git(&["commit", "-q", "--allow-empty", "-m", "put back"]);
}

/// An approval and a change of the Source at the same moment: the text that was approved is
/// committed on its base, or nothing is.
#[test]
fn an_approval_and_a_commit_by_hand_never_mix() {
    let bench = bench();
    let server = bench.serve();
    for _ in 0..3 {
        let (_, shown) = propose(&bench);
        let (call, socket) = (bench.approval(&shown), bench.socket());
        let answer = std::thread::scope(|scope| {
            let sent = scope.spawn(|| call.try_socket(&socket).unwrap());
            let text = bench.read("notes.md") + "More.\n";
            bench.write("notes.md", text);
            // Git may refuse while the approval holds its lock; then the user tries again.
            let user = "-c user.name=U -c user.email=u@example.org";
            shell(&format!(
                "cd {}; until git {user} commit -qm n notes.md 2>/dev/null; do :; done",
                bench.top
            ));
            sent.join().unwrap()
        });
        assert!(answer.status == 200 || answer.status == 409, "{answer:?}");
        if answer.status == 200 {
            let held = bench.git(&["show", "HEAD:guide.md"]) + "\n";
            assert_eq!(json!(held), shown["text"]);
        }
        assert_eq!(bench.status(), "");
        commit_original(&bench);
    }
    server.stop();
}
