//! Approvals over HTTP: G18 and G20.

use serde_json::{Value, json};

use crate::support::{Bench, Call, Server, Topic, shell};

const FIELDS: &str = "timeout = \"20s\", produces = \"proposal\"";
const AGENT: &str =
    "sed 's/The first line/The best line/' \"$root/$path\" | propose --summary 'better'";

/// A site with one proposal for `guide.md`.
struct Ready {
    bench: Bench,
    server: Server,
    topic: Topic,
    shown: Value,
}

fn ready() -> Ready {
    let bench = Bench::new();
    bench.topic_kind("better", FIELDS, AGENT);
    bench.topic_kind("other", FIELDS, "printf '# Other\\n' | propose");
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    let shown = bench.proposal("better", &topic);
    Ready { bench, server, topic, shown }
}

#[test]
fn g18_what_is_committed_is_what_the_approver_saw() {
    let Ready { bench, server, topic, shown } = ready();
    let done = bench.send(&bench.approval(&shown)).ok();
    assert_eq!(bench.commits()[0], done["commit"].as_str().unwrap());
    let committed = bench.git(&["cat-file", "blob", "HEAD:guide.md"]);
    assert_eq!(format!("{committed}\n"), shown["text"].as_str().unwrap());
    assert_eq!(bench.read("guide.md"), shown["text"].as_str().unwrap());
    let said = bench.git(&["log", "-1", "--format=%an <%ae>%n%cn <%ce>%n%B"]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[..2], ["Test Agent <agent@example.org>"; 2]);
    assert_eq!(lines[2], "better");
    assert!(
        said.contains("\nApproved-by: ada") && said.contains(&format!("\nTopic: {}", topic.id))
    );
    assert_eq!((bench.status(), bench.commits().len()), (String::new(), 2));
    server.stop();
}

/// The digest and the base that come with an approval are those that were shown, or it is refused.
#[test]
fn g18_a_swapped_revision_or_base_is_refused() {
    let Ready { bench, server, topic, shown } = ready();
    let other = bench.proposal("other", &topic);
    let (first, second) = (&shown["proposal"], &other["proposal"]);
    assert_eq!((&first["revision_number"], &second["revision_number"]), (&json!(1), &json!(2)));
    let target = format!("/api/proposals/{}/approve", second["id"].as_str().unwrap());
    let base = &second["base_source_sha"];
    let digest = &second["text_digest"];
    let zeros = "0".repeat(40);
    for (body, want) in [
        (json!({"text_digest": first["text_digest"], "base_source_sha": base}), "text_changed"),
        (json!({"text_digest": "", "base_source_sha": base}), "text_changed"),
        (json!({"text_digest": digest, "base_source_sha": zeros}), "stale_base"),
        (json!({"text_digest": digest, "base_source_sha": second["proposed_sha"]}), "stale_base"),
    ] {
        let answer = bench.send(&Call::post(&target, body).token(&bench.operator()));
        assert_eq!(answer.refusal(), (409, want));
    }
    for body in [json!({}), json!({"text_digest": digest}), json!({"base_source_sha": base})] {
        let answer = bench.send(&Call::post(&target, body).token(&bench.operator()));
        assert_eq!(answer.status, 400);
    }
    assert_eq!((bench.commits().len(), bench.status()), (1, String::new()));
    server.stop();
}

/// Fails with `WB_WITHOUT=approval_base` (the base is compared with the branch at the commit).
#[test]
fn g18_a_base_that_moved_is_refused() {
    let Ready { bench, server, shown, .. } = ready();
    bench.write("guide.md", "# Guide\n\nSomebody was here.\n");
    bench.git(&["commit", "-qam", "meanwhile"]);
    let answer = bench.send(&bench.approval(&shown));
    assert_eq!(answer.refusal(), (409, "stale_base"));
    assert_eq!((bench.commits().len(), bench.status()), (2, String::new()));
    server.stop();
}

#[test]
fn g18_of_two_approvals_of_one_base_exactly_one_is_committed() {
    for _ in 0..5 {
        let Ready { bench, server, shown, .. } = ready();
        // Another Topic of the same Source: neither supersedes the other.
        let second = bench.topic("guide.md", "The second line.", "Drop it.");
        let other = bench.proposal("other", &second);
        let calls = [bench.approval(&shown), bench.approval(&other)];
        let socket = bench.socket();
        let answers = std::thread::scope(|scope| {
            let sent = calls.each_ref().map(|call| scope.spawn(|| call.try_socket(&socket)));
            sent.map(|it| it.join().unwrap().unwrap())
        });
        let won: Vec<usize> = (0..2).filter(|it| answers[*it].status == 200).collect();
        assert_eq!(won.len(), 1, "{answers:?}");
        let (won, lost) = (won[0], 1 - won[0]);
        let codes = [(409, "stale_base"), (409, "already_decided")];
        assert!(codes.contains(&answers[lost].refusal()), "{:?}", answers[lost]);
        let text = [&shown, &other][won]["text"].as_str().unwrap();
        assert_eq!(bench.read("guide.md"), text);
        assert_eq!((bench.commits().len(), bench.status()), (2, String::new()));
        assert_eq!(bench.commits()[0], answers[won].body["commit"].as_str().unwrap());
        server.stop();
    }
}

#[test]
fn g18_of_many_approvals_of_one_proposal_exactly_one_is_committed() {
    let Ready { bench, server, shown, .. } = ready();
    let (call, socket) = (bench.approval(&shown), bench.socket());
    let answers: Vec<_> = std::thread::scope(|scope| {
        let sent: Vec<_> = (0..6).map(|_| scope.spawn(|| call.try_socket(&socket))).collect();
        sent.into_iter().map(|it| it.join().unwrap().unwrap()).collect()
    });
    assert_eq!(answers.iter().filter(|it| it.status == 200).count(), 1, "{answers:?}");
    for refused in answers.iter().filter(|it| it.status != 200) {
        assert_eq!(refused.refusal(), (409, "already_decided"));
    }
    assert_eq!((bench.commits().len(), bench.status()), (2, String::new()));
    server.stop();
}

/// What a user has done, and whether the approval is refused for it.
const DIRTY: &[(&str, &str, Option<&str>)] = &[
    ("the source edited", "echo mine >> guide.md", Some("source_dirty")),
    ("the source staged", "echo mine >> guide.md; git add guide.md", Some("source_dirty")),
    (
        "the source staged and put back",
        "echo mine >> guide.md; git add guide.md; git show HEAD:guide.md > guide.md",
        Some("source_dirty"),
    ),
    ("the source deleted", "rm guide.md", Some("source_gone")),
    ("the source moved", "git mv guide.md moved.md", Some("source_gone")),
    ("a mode changed", "chmod +x guide.md", Some("source_dirty")),
    ("a link instead", "rm guide.md; ln -s notes.md guide.md", Some("source_dirty")),
    ("a folder instead", "rm guide.md; mkdir guide.md; echo x > guide.md/x", Some("source_dirty")),
    (
        "assume-unchanged",
        "git update-index --assume-unchanged guide.md; echo mine >> guide.md",
        Some("source_dirty"),
    ),
    (
        "skip-worktree",
        "git update-index --skip-worktree guide.md; echo mine >> guide.md",
        Some("source_dirty"),
    ),
    ("locked", "touch .git/index.lock", Some("index_locked")),
    ("another branch unborn", "git checkout -q --orphan new", Some("unborn_head")),
    ("detached", "git checkout -q --detach", Some("detached_head")),
    ("touched", "touch -d '2001-01-01' guide.md", None),
    ("another edited", "echo mine >> notes.md", None),
    ("another staged", "echo mine >> notes.md; git add notes.md", None),
    ("another deleted", "rm notes.md", None),
    ("another moved", "git mv notes.md elsewhere.md", None),
    ("untracked", "echo mine > new.md; mkdir x; echo mine > x/y; echo '*.z' > a.z", None),
    ("ignored", "echo mine > data/mine", None),
    ("intent to add", "echo mine > new.md; git add -N new.md", None),
    ("a stash", "echo mine >> notes.md; git stash -q", None),
];

/// What of the working tree and the index is the user's: all but the Source.
fn theirs(bench: &Bench) -> String {
    let top = &bench.top;
    shell(&format!(
        "cd {top}; git status --porcelain=v1 -uall --ignored -- . ':!guide.md' ':!data';
         git diff -- . ':!guide.md'; git diff --cached -- . ':!guide.md'; git stash list;
         find . -path ./.git -prune -o -path ./data -prune -o -type f ! -name guide.md -print \
           | sort | xargs sha256sum; cat data/mine 2>/dev/null; true"
    ))
}

/// Returns all that a refusal must leave: theirs and the Source, in the index and in the tree.
fn everything(bench: &Bench) -> String {
    let mine = shell(&format!(
        "cd {}; git rev-parse -q --verify HEAD; git ls-files -s; git ls-files -v guide.md;
         stat -c '%F %a %s' guide.md; cat guide.md 2>/dev/null; ls .git/*.lock 2>/dev/null; true",
        bench.top
    ));
    theirs(bench) + &mine
}

/// Fails with `WB_WITHOUT=approval_dirty`.
#[test]
fn g20_uncommitted_work_survives_an_approval_or_refuses_it() {
    // One site for all: the repository is put back after each.
    let Ready { bench, server, shown, .. } = ready();
    let call = bench.approval(&shown);
    let copy = bench.base.join("copy");
    shell(&format!("cp -a {}/. {copy}; rm -rf {copy}/data", bench.top));
    for (what, user, refused) in DIRTY.iter().filter(|it| it.2.is_some()) {
        shell(&format!("cd {}; {user}", bench.top));
        let before = everything(&bench);
        let answer = bench.send(&call);
        assert!([400, 404, 409].contains(&answer.status), "{what}: {answer:?}");
        if answer.code() != refused.unwrap() {
            // A source that is not a plain file any more may be told apart further.
            let known = ["source_gone", "source_dirty", "path_is_link", "not_a_file"];
            assert!(known.contains(&answer.code()), "{what}: {answer:?}");
        }
        assert_eq!(before, everything(&bench), "{what}");
        assert_eq!(bench.proposal_status(&shown), "open", "{what}");
        shell(&format!(
            "cd {}; find . -mindepth 1 -maxdepth 1 ! -name data ! -name .git -exec rm -rf {{}} +;
             find .git -mindepth 1 -delete; cp -a {copy}/. .",
            bench.top
        ));
    }
    bench.send(&call).ok();
    server.stop();
}

/// The other half of the table: what is not in the way stays, and is no reason to refuse.
#[test]
fn g20_an_approval_leaves_what_is_not_its_own() {
    let Ready { bench, server, topic, shown } = ready();
    let mut shown = shown;
    for (what, user, _) in DIRTY.iter().filter(|it| it.2.is_none()) {
        shell(&format!("cd {}; {user}", bench.top));
        let before = theirs(&bench);
        let answer = bench.send(&bench.approval(&shown));
        assert_eq!(answer.status, 200, "{what}: {answer:?}");
        assert_eq!(before, theirs(&bench), "{what}");
        assert_eq!(bench.read("guide.md"), shown["text"].as_str().unwrap(), "{what}");
        shell(&format!(
            "cd {}; git stash drop -q 2>/dev/null; git reset -q --hard HEAD~1;
             git clean -qfd; rm -f data/mine",
            bench.top
        ));
        shown = bench.proposal("better", &again(&bench, &topic));
    }
    server.stop();
}

/// Opens another Topic like an incorporated one.
fn again(bench: &Bench, topic: &Topic) -> Topic {
    bench.topic(&topic.path, "The first line.", "Say it better.")
}
