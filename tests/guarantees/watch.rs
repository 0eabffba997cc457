//! G31: what changes in the repository while a job runs is noticed and named, stands in nobody's way
//! unsaid, and can be put back.

use serde_json::{Value, json};

use crate::support::{Bench, shell};

const FIELDS: &str = "timeout = \"20s\"";
/// What every agent of this file begins with.
const OWN: &str = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.c GIT_COMMITTER_NAME=a \
                   GIT_COMMITTER_EMAIL=a@b.c GIT_EDITOR=:\n";

/// What an agent does unasked, and the beginnings of the warnings that name it.
const CASES: &[(&str, &str, &[&str])] = &[
    ("behaves", "cat guide.md > /dev/null; git status > /dev/null", &[]),
    ("edits", "echo more >> guide.md", &["touched_tree: guide.md (edited)"]),
    ("edits_mine", "echo more >> notes.md", &["touched_tree: notes.md (edited)"]),
    (
        "deletes_and_makes",
        "rm guide.md mine.txt; mkdir -p sub/deeper; echo x > sub/deeper/new.md; chmod +x notes.md",
        &["touched_tree: guide.md (deleted), mine.txt (deleted), notes.md", "(created)"],
    ),
    ("links", "rm guide.md; ln -s /etc/passwd guide.md", &["touched_tree: guide.md (edited)"]),
    ("stages", "echo x >> guide.md; git add guide.md", &["touched_tree: guide.md (edited)"]),
    ("stages_mine", "git add -A", &["touched_tree: docs/deep.md", "notes.md (staged)"]),
    (
        "commits",
        "git commit -q -a -m unasked",
        &["moved_head: refs/heads/main was ", "touched_tree: docs/deep.md"],
    ),
    ("amends", "git commit -q --amend -m other --allow-empty", &["moved_head: refs/heads/main w"]),
    ("resets", "git reset -q --hard; git clean -qfd", &["notes.md (edited)", "mine.txt (deleted)"]),
    ("detaches", "git checkout -q --detach", &["moved_head: commit "]),
    (
        "switches",
        "git checkout -q -b elsewhere; git commit -q -a -m unasked",
        &["moved_head: refs/heads/elsewhere is checked out instead of refs/heads/main"],
    ),
    ("stashes", "git stash -q -u", &["moved_head: refs/stash was made", "touched_tree: docs/dee"]),
    (
        "settles_in",
        "git config user.name agent; echo exit > .git/hooks/post-checkout; echo y > .git/info/exclude",
        &["touched_git: .git/config (changed), .git/hooks/post-checkout (made), .git/info/exclude"],
    ),
    (
        "deletes_branches",
        "git checkout -q --detach; git branch -q -D main side; git tag -d t1",
        &["moved_head: commit ", "refs/heads/main, which was "],
    ),
    ("leaves_a_lock", "touch .git/index.lock", &["touched_git: .git/index.lock (left behind)"]),
    (
        "merges",
        "git merge -q side",
        &["touched_tree: guide.md (edited)", "touched_git: .git/MERGE_HEAD (made)"],
    ),
    (
        "rebases",
        "git stash -q -u; git rebase -q side",
        &["moved_head: commit ", "touched_git: .git/rebase-merge (made)"],
    ),
    (
        "hides",
        "git update-index --assume-unchanged guide.md; echo x >> guide.md",
        &["touched_tree: guide.md (edited)"],
    ),
    ("drops_the_index", "rm .git/index", &["touched_tree: .gitignore (staged)"]),
    ("ignores", "echo '*.txt' >> .gitignore", &["touched_tree: .gitignore (edited) changed"]),
];

/// A repository with a branch that cannot be merged, and with work of the user's own of all sorts.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.git(&["checkout", "-q", "-b", "side"]);
    bench.write("guide.md", "# Guide\n\nAnother first line.\n");
    bench.git(&["commit", "-q", "-a", "-m", "side"]);
    bench.git(&["checkout", "-q", "main"]);
    bench.write("guide.md", "# Guide\n\nThe first line.\n\nThe second line, changed.\n");
    bench.git(&["commit", "-q", "-a", "-m", "second"]);
    bench.git(&["tag", "t1"]);
    bench.write("notes.md", "# Notes\n\nKeep this. Half a sentence that nobody has commit\n");
    bench.write("docs/deep.md", "staged\n");
    bench.git(&["add", "docs/deep.md"]);
    bench.write("docs/deep.md", "staged, and more\n");
    bench.write("mine.txt", "not tracked\n");
    bench
}

/// Everything of the user's, to the byte: what is checked out, refs, index, files, git's own files.
fn state(bench: &Bench) -> String {
    let top = &bench.top;
    let part = |line: &str| shell(&format!("cd '{top}' && {{ {line}; }} 2>&1 || true"));
    [
        part("cat .git/HEAD; git for-each-ref refs/heads refs/tags refs/stash"),
        part("git ls-files -s -v; git status --porcelain=v2 --branch --untracked-files=all"),
        part("find . -path ./data -prune -o -path ./.git -prune -o ! -type d -printf '%p %m %l\\n' \
              -type f -exec sha1sum {} + | sort"),
        part("cd .git && cat config info/exclude; ls -d hooks/[!a]* *_HEAD rebase* *.lock | \
              grep -v sample"),
    ]
    .join("\n")
}

fn declare(bench: &Bench) {
    for (kind, agent, _) in CASES {
        let agent = format!("{OWN}cd '{}'\n{agent}\nexit 0\n", bench.top);
        bench.word_kind(kind, FIELDS, &agent);
    }
}

fn warnings(job: &Value) -> Vec<String> {
    let all = job["warnings"].as_array().unwrap();
    all.iter().filter_map(|it| it.as_str().map(str::to_owned)).collect()
}

/// Fails with `WB_WITHOUT=watch`.
#[test]
fn g31_what_changes_unasked_is_named_and_can_be_put_back() {
    let bench = bench();
    declare(&bench);
    let server = bench.serve();
    let was = state(&bench);
    for (kind, _, want) in CASES {
        let id = bench.job(kind, json!({"word": "x"}));
        let ended = bench.ended(&id);
        assert_eq!(ended["status"], "succeeded", "{kind}: the result counts all the same");
        let told = warnings(&ended);
        for want in *want {
            assert!(told.iter().any(|it| it.contains(want)), "{kind}: {want}: {told:#?}");
        }
        if want.is_empty() {
            assert!(told.is_empty() && ended["changes"].is_null(), "{kind}: {told:?}");
            assert_eq!(state(&bench), was, "{kind}");
            continue;
        }
        let (code, shown, _) = bench.cli(&["job", "show", &id]);
        assert!(code == 0 && shown.contains(&format!("wiki-browser job restore {id}")), "{shown}");
        let changed = state(&bench);
        assert_ne!(changed, was, "{kind}");
        // Looking touches nothing.
        let looked = bench.json(&["job", "restore", &id, "--dry-run"]);
        assert_eq!((&looked["restorable"], &looked["restored"]), (&json!(true), &json!(false)));
        assert_eq!(state(&bench), changed, "{kind}");
        let done = bench.json(&["job", "restore", &id]);
        assert_eq!(done["restored"], true, "{kind}: {done:#}");
        assert_eq!(state(&bench), was, "{kind}");
        assert_eq!(bench.show(&id)["changes"]["state"], "restored");
        // What the job left is not lost either.
        bench.git(&["cat-file", "-e", &format!("refs/wiki-browser/jobs/{id}/after^{{tree}}")]);
    }
    bench.git(&["fsck", "--strict", "--no-dangling"]);
    server.stop();
}
