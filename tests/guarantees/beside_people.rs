//! G31, if people commit and approve while a job runs: what is put back is not theirs.

use serde_json::json;

use super::looks::{WAITS, declare, is_held};
use crate::support::{Bench, Call};

/// A person commits, and a proposal is approved on top of that.
#[test]
fn g31_no_restore_takes_an_approval_off_a_branch() {
    let bench = Bench::new();
    declare(&bench, "strays", &format!("{WAITS}\necho x > stray.txt"));
    let propose = "sed '$s/$/ And more./' \"$root/guide.md\" | propose";
    bench.topic_kind("rewrite", "produces = \"proposal\", timeout = \"20s\"", propose);
    let server = bench.serve();
    let job = bench.job("strays", json!({}));
    bench.wait_left("ready");
    bench.write("notes.md", "by hand\n");
    bench.git(&["commit", "-q", "-a", "-m", "by hand"]);
    let topic = bench.topic("guide.md", "The first line.", "x");
    let shown = bench.proposal("rewrite", &topic);
    bench.send(&bench.approval(&shown)).ok();
    std::fs::write(bench.out.join("go"), "").unwrap();
    bench.ended(&job);
    let (head, text) = (bench.git(&["rev-parse", "main"]), bench.read("guide.md"));
    assert!(text.contains("And more."), "{text}");
    let refused = bench.post(&format!("/api/agent/jobs/{job}/restore"), json!({}));
    assert_eq!(refused.refusal(), (409, "not_kept"), "{:?}", refused.body);
    // Nor does one that names it.
    let (code, said, _) = bench.cli(&["job", "restore", &job, "main", "guide.md"]);
    assert!(code == 1 && said.contains("commits of approvals"), "{code}: {said}");
    assert_eq!((bench.git(&["rev-parse", "main"]), bench.read("guide.md")), (head, text));
    bench.cli(&["job", "restore", &job, "stray.txt"]);
    assert_eq!(bench.status(), "");
    for it in ["ready", "go"] {
        std::fs::remove_file(bench.out.join(it)).unwrap();
    }
    assert_eq!(bench.proposal_status(&shown), "approved");
    // Nor is a branch removed that an approval has gone to.
    let other = bench.job("strays", json!({}));
    bench.wait_left("ready");
    bench.git(&["switch", "-q", "-c", "mine"]);
    let topic = bench.topic("guide.md", "The second line.", "x");
    bench.send(&bench.approval(&bench.proposal("rewrite", &topic))).ok();
    std::fs::write(bench.out.join("go"), "").unwrap();
    bench.ended(&other);
    let head = bench.git(&["rev-parse", "mine"]);
    let (code, said, _) = bench.cli(&["job", "restore", &other, "mine"]);
    assert!(code == 1 && said.contains("commits of approvals"), "{code}: {said}");
    assert_eq!(bench.git(&["rev-parse", "mine"]), head);
    server.stop();
}

/// Whose commits they are nobody can tell: who wants them off a branch says so.
#[test]
fn g31_no_commit_is_taken_off_a_branch_unasked() {
    let bench = Bench::new();
    declare(&bench, "strays", &format!("{WAITS}\necho x > stray.txt"));
    let server = bench.serve();
    let was = bench.git(&["rev-parse", "main"]);
    bench.git(&["tag", "t"]);
    bench.git(&["branch", "old"]);
    let job = bench.job("strays", json!({}));
    bench.wait_left("ready");
    bench.git(&["switch", "-q", "-c", "mine"]);
    bench.git(&["commit", "-q", "--allow-empty", "-m", "on a branch of their own"]);
    bench.git(&["switch", "-q", "main"]);
    bench.git(&["branch", "-q", "bare"]);
    bench.git(&["branch", "-q", "-m", "old", "new"]);
    // A name that is put back elsewhere keeps nothing.
    bench.git(&["tag", "-f", "t", "mine"]);
    bench.write("notes.md", "by hand\n");
    bench.git(&["commit", "-q", "-a", "-m", "by hand"]);
    std::fs::write(bench.out.join("go"), "").unwrap();
    bench.ended(&job);
    let all = || bench.git(&["for-each-ref", "refs/heads"]) + &bench.status();
    let before = all();
    let outcome = |commits: bool, name: &str| {
        let asked = json!({"dry_run": true, "commits": commits});
        let looked = bench.post(&format!("/api/agent/jobs/{job}/restore"), asked).ok();
        let items = looked["items"].as_array().unwrap();
        let found = items.iter().find(|it| it["name"] == name).unwrap();
        found["outcome"].as_str().unwrap().to_owned()
    };
    for name in ["refs/heads/main", "refs/heads/mine"] {
        assert_eq!(
            (outcome(false, name), outcome(true, name)),
            ("not_kept".into(), "ready".into())
        );
    }
    // Nothing is lost with a branch that has nothing of its own.
    for name in ["refs/heads/bare", "refs/heads/new", "refs/heads/old", "refs/tags/t"] {
        assert_eq!(outcome(false, name), "ready", "{name}");
    }
    let refused = bench.post(&format!("/api/agent/jobs/{job}/restore"), json!({}));
    assert_eq!(refused.refusal(), (409, "not_kept"), "{:?}", refused.body);
    let (code, _, said) = bench.cli(&["job", "restore", &job]);
    assert!(
        code != 0 && said.contains("has a commit since") && said.contains("--commits"),
        "{said}"
    );
    let page = bench.get(&format!("/jobs/{job}")).body.as_str().unwrap_or_default().to_owned();
    assert!(page.contains("Also take commits off branches"), "{page}");
    assert_eq!(all(), before);
    // The page may ask for it, too.
    let form = Call::form(&format!("/jobs/{job}/restore"), "commits=yes");
    assert_eq!(bench.send(&form.token(&bench.operator())).status, 303);
    assert_eq!(bench.show(&job)["changes"]["state"], "restored");
    assert_eq!(
        bench.git(&["for-each-ref", "--format=%(objectname) %(refname)", "refs/heads"]),
        format!("{was} refs/heads/main\n{was} refs/heads/old")
    );
    assert_eq!(bench.status(), "");
    server.stop();
}

/// Commits on a `HEAD` that is detached have no other name.
#[test]
fn g31_no_commit_of_a_detached_head_is_left_without_a_name_unasked() {
    let bench = Bench::new();
    declare(&bench, "strays", &format!("{WAITS}\ntrue"));
    let server = bench.serve();
    let job = bench.job("strays", json!({}));
    bench.wait_left("ready");
    bench.git(&["checkout", "-q", "--detach"]);
    bench.git(&["commit", "-q", "--allow-empty", "-m", "by hand"]);
    std::fs::write(bench.out.join("go"), "").unwrap();
    bench.ended(&job);
    let head = bench.git(&["rev-parse", "HEAD"]);
    let refused = bench.post(&format!("/api/agent/jobs/{job}/restore"), json!({}));
    assert_eq!(refused.refusal(), (409, "not_kept"), "{:?}", refused.body);
    assert_eq!(bench.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(bench.cli(&["job", "restore", &job, "HEAD"]).0, 0);
    assert_eq!(bench.git(&["symbolic-ref", "HEAD"]), "refs/heads/main");
    server.stop();
}

/// The command of a hold names the files of the hold.
#[test]
fn g31_what_a_hold_says_to_type_touches_only_its_files() {
    let bench = Bench::new();
    declare(&bench, "obeys", &format!("{WAITS}\necho x > AGENTS.md; echo y > \"it's CLAUDE.md\""));
    declare(&bench, "next", "true");
    let server = bench.serve();
    let job = bench.job("obeys", json!({}));
    bench.wait_left("ready");
    bench.write("notes.md", "by hand\n");
    bench.git(&["commit", "-q", "-a", "-m", "by hand"]);
    let head = bench.git(&["rev-parse", "main"]);
    std::fs::write(bench.out.join("go"), "").unwrap();
    bench.ended(&job);
    let next = bench.job("next", json!({}));
    let said = is_held(&bench, &next, &job);
    let command = format!("`wiki-browser job restore {job} AGENTS.md`");
    assert!(said.contains(&command), "{said}");
    let (code, out, err) = bench.cli(&["job", "restore", &job, "AGENTS.md"]);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(bench.ended(&next)["status"], "succeeded");
    assert_eq!(bench.git(&["rev-parse", "main"]), head);
    assert_eq!(bench.read("notes.md"), "by hand\n");
    server.stop();
}
