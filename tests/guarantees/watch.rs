//! G31: changes of the repository while a job runs are noticed, named and reported, and can be
//! restored.

use serde_json::{Value, json};

use crate::support::{Bench, Call, shell};

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
        "git config user.name agent; echo exit > .git/hooks/post-checkout; \
         echo y > .git/info/exclude",
        &["touched_git: .git/config (changed), .git/hooks/post-checkout (made), .git/info/exclude"],
    ),
    (
        "deletes_branches",
        "git checkout -q --detach; git branch -q -D main side; git tag -d t1",
        &["moved_head: commit ", "refs/heads/main, which was "],
    ),
    (
        "names_a_remote",
        "mkdir -p .git/remotes .git/branches; echo 'URL: /evil' > .git/remotes/origin; \
         echo /evil > .git/branches/other",
        &["touched_git: .git/branches/other (made), .git/remotes/origin (made)"],
    ),
    ("leaves_a_lock", "touch .git/index.lock", &["touched_git: .git/index.lock (left behind)"]),
    (
        "merges",
        "git stash -q -u; git merge -q side",
        &["guide.md (edited)", "touched_git: .git/MERGE_HEAD (made)"],
    ),
    (
        "rebases",
        "git stash -q -u; git rebase -q side",
        &["moved_head: commit ", ".git/rebase-merge (made)"],
    ),
    (
        "hides",
        "git update-index --assume-unchanged guide.md; echo x >> guide.md",
        &["touched_tree: guide.md (edited)"],
    ),
    (
        "stages_a_submodule",
        "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),evil",
        &["touched_tree: evil (staged"],
    ),
    ("drops_the_index", "rm .git/index", &["touched_tree: .gitignore (staged)"]),
    ("ignores", "echo '*.txt' >> .gitignore", &["touched_tree: .gitignore (edited) changed"]),
    (
        "hides_what_it_edits",
        "echo mine.txt >> .git/info/exclude; echo gone > mine.txt",
        &["touched_tree: mine.txt (edited)", "touched_git: .git/info/exclude (changed)"],
    ),
    ("puts_a_folder", "rm mine.txt; mkdir mine.txt", &["touched_tree: mine.txt (edited)"]),
    (
        "settles_and_puts_a_folder",
        "git config user.email z; rm mine.txt; mkdir mine.txt",
        &["touched_tree: mine.txt (edited)"],
    ),
    (
        "settles_and_makes",
        "git config user.email z; echo x > fresh.md",
        &["touched_tree: fresh.md (created)"],
    ),
    (
        "links_the_hooks",
        "rm -r .git/hooks; mkdir ../hooks-$$; printf 'exit' > ../hooks-$$/post-index-change; \
         ln -s ../../hooks-$$ .git/hooks",
        &["agent_files: .git/hooks", "touched_git: .git/hooks (made)"],
    ),
    ("replaces", "git replace HEAD HEAD^", &["moved_head: refs/replace/"]),
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
        part(
            "find . -path ./data -prune -o -path ./.git -prune -o ! -type d -printf '%p %m %l\\n' \
              -type f -exec sha1sum {} + | sort",
        ),
        // ORIG_HEAD is git's own memory of a reset.
        part(
            "cd .git && cat config info/exclude; find . -maxdepth 2 -name '*_HEAD' \
              -o -maxdepth 2 -name 'rebase*' -o -name hooks -type l -o -maxdepth 2 \
              -name '*.lock' -o -path './hooks/*' \
              -o -path './remotes/*' -o -path './branches/*' | \
              grep -Ev 'sample|ORIG_HEAD' | sort",
        ),
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

/// What is read of a working tree is bounded; git's own files are read all the same.
#[test]
fn g31_a_job_that_makes_very_many_files_is_blamed_for_nothing_else() {
    let bench = bench();
    let many = "mkdir many; for i in $(seq 2100); do echo $i > many/$i; done; exit 0";
    bench.word_kind("makes_many", FIELDS, &format!("cd '{}'\n{many}\n", bench.top));
    let server = bench.serve();
    let told = warnings(&bench.ended(&bench.job("makes_many", json!({}))));
    assert!(told.iter().any(|it| it.contains("many/1 (created)")), "{told:?}");
    assert!(!told.iter().any(|it| it.contains(".git/")), "{told:?}");
    server.stop();
}

/// Fails with `WB_WITHOUT=unread_files`.
#[test]
fn g31_files_of_the_users_own_are_told_from_two_thousand_others() {
    let bench = Bench::new();
    let many = "mkdir many; for i in $(seq 2000); do echo $i > many/$i; done; exit 0";
    bench.word_kind("makes_many", FIELDS, &format!("cd '{}'\n{many}\n", bench.top));
    bench.write("own.txt", "mine\n");
    bench.write("zz.txt", "mine\n");
    let server = bench.serve();
    let job = bench.job("makes_many", json!({}));
    let told = warnings(&bench.ended(&job));
    assert!(!told.iter().any(|it| it.contains("more than is written down")), "{told:?}");
    // What was not read for the number of others is not said to be somebody's since.
    let refused = bench.post(&format!("/api/agent/jobs/{job}/restore"), json!({}));
    assert_eq!(refused.refusal(), (409, "not_kept"));
    assert!(
        refused.body.to_string().contains("because too many files were changed"),
        "{refused:?}"
    );
    assert_eq!(bench.read("own.txt") + &bench.read("zz.txt"), "mine\nmine\n");
    server.stop();
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
        // Whoever waited for the job is told too.
        let (_, _, said) = bench.cli(&["job", "follow", &id]);
        assert!(said.contains(&format!("wiki-browser job restore {id}")), "{kind}: {said}");
        assert!(want.iter().all(|it| said.contains(it)), "{kind}: {said}");
        let changed = state(&bench);
        assert_ne!(changed, was, "{kind}");
        // Looking touches nothing.
        let looked = bench.json(&["job", "restore", &id, "--commits", "--dry-run"]);
        assert_eq!((&looked["restorable"], &looked["restored"]), (&json!(true), &json!(false)));
        assert_eq!(state(&bench), changed, "{kind}");
        let done = bench.json(&["job", "restore", &id, "--commits"]);
        assert_eq!(done["restored"], true, "{kind}: {done:#}");
        assert_eq!(state(&bench), was, "{kind}");
        assert_eq!(bench.show(&id)["changes"]["state"], "restored");
        // What the job left is not lost either.
        bench.git(&["cat-file", "-e", &format!("refs/wiki-browser/jobs/{id}/after^{{tree}}")]);
    }
    bench.git(&["fsck", "--strict", "--no-dangling"]);
    server.stop();
}

/// A job that proposes a text for `guide.md` and does something besides.
fn proposing(bench: &Bench, name: &str, besides: &str) {
    let agent = format!("{OWN}printf 'new\\n' | propose\ncd '{}'\n{besides}\nexit 0", bench.top);
    bench.topic_kind(name, "timeout = \"20s\", produces = \"proposal\"", &agent);
}

/// Fails with `WB_WITHOUT=restore_offer`.
#[test]
fn g31_an_approval_that_a_change_stands_in_the_way_of_names_its_job() {
    let bench = Bench::new();
    let cases = [
        ("edits", "echo x >> guide.md", "source_dirty"),
        ("stages", "echo x >> guide.md; git add guide.md", "source_dirty"),
        ("deletes", "rm guide.md", "source_gone"),
        ("commits", "echo x >> guide.md; git commit -q -a -m x", "stale_base"),
        ("locks", "touch .git/index.lock", "index_locked"),
        ("detaches", "git checkout -q --detach", "detached_head"),
        ("switches", "git checkout -q -b elsewhere", "branch_switched"),
        ("halts", "cp .git/HEAD .git/MERGE_HEAD", "merge_in_progress"),
        ("hides", "git update-index --assume-unchanged guide.md", "source_dirty"),
    ];
    for (kind, agent, _) in cases {
        proposing(&bench, kind, agent);
    }
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    for (kind, _, code) in cases {
        let shown = bench.proposal(kind, &topic);
        let id = shown["proposal"]["job_id"].as_str().unwrap();
        let refused = bench.send(&bench.approval(&shown));
        assert_eq!(refused.refusal(), (409, code), "{kind}");
        let error = refused.body["error"].to_string();
        assert!(error.contains(id) && error.contains(&format!("job restore {id}")), "{error}");
        // Nor does it keep the next job from being asked for without a word.
        let next = bench.post("/api/agent/jobs", json!({"kind": kind, "topic_id": topic.id}));
        if !["commits", "locks", "switches"].contains(&kind) {
            assert!(next.body["error"].to_string().contains(id), "{kind}: {:?}", next.body);
        } else {
            let next = next.ok()["job_id"].as_str().unwrap().to_owned();
            bench.json(&["job", "cancel", &next]);
            bench.ended(&next);
            if !bench.show(&next)["changes"].is_null() {
                bench.json(&["job", "restore", &next, "--commits"]);
            }
        }
        bench.json(&["job", "restore", id, "--commits"]);
        let now =
            bench.get(&format!("/api/proposals/{}", shown["proposal"]["id"].as_str().unwrap()));
        assert_eq!(now.ok()["approvable"]["ok"], true, "{kind}");
    }
    // The last of them can be approved; one on a branch that a person keeps as well.
    let shown = bench.proposal("switches", &topic);
    let id = shown["proposal"]["job_id"].as_str().unwrap();
    assert_eq!(bench.send(&bench.approval(&shown)).refusal(), (409, "branch_switched"));
    bench.json(&["job", "keep", id]);
    let done = bench.send(&bench.approval(&shown)).ok();
    assert_eq!(done["branch"], "refs/heads/elsewhere");
    assert_eq!(bench.show(id)["changes"]["state"], "kept");
    let again = bench.post(&format!("/api/agent/jobs/{id}/restore"), json!({}));
    assert_eq!(again.refusal(), (409, "already_decided"));
    server.stop();
}

/// Fails with `WB_WITHOUT=restore_compare`.
#[test]
fn g31_what_somebody_changed_since_is_not_put_back() {
    let bench = Bench::new();
    let agent = format!("cd '{}'; echo x >> guide.md; echo y >> notes.md; touch a.txt", bench.top);
    bench.word_kind("edits", FIELDS, &agent);
    let server = bench.serve();
    let id = bench.job("edits", json!({}));
    bench.ended(&id);
    let (guide, notes) = (bench.read("guide.md"), "My own words since.\n");
    bench.write("notes.md", notes);
    let restore = format!("/api/agent/jobs/{id}/restore");
    let refused = bench.post(&restore, json!({}));
    assert_eq!(refused.refusal(), (409, "changed_since"));
    assert!(refused.body["error"]["message"].as_str().unwrap().contains("notes.md"));
    assert_eq!((bench.read("guide.md"), bench.read("notes.md")), (guide, notes.to_owned()));
    assert_eq!(bench.post(&restore, json!({"names": ["b"]})).refusal(), (404, "no_change"));
    let done = bench.json(&["job", "restore", &id, "guide.md", "a.txt"]);
    assert_eq!(done["restored"], false, "the rest is still open");
    assert_eq!(bench.status(), " M notes.md");
    assert_eq!(bench.read("notes.md"), notes);
    // What was there when it was put back is not lost: the agent's version is in the repository.
    let held = format!("refs/wiki-browser/jobs/{id}/after:guide.md");
    assert!(bench.git(&["show", &held]).ends_with("x"), "{held}");
    bench.git(&["checkout", "-q", "notes.md"]);
    assert_eq!(bench.json(&["job", "restore", &id])["restored"], true);
    server.stop();
}

/// A job of which only the beginning was seen, because its server was killed.
#[test]
fn g31_what_changed_under_a_killed_server_is_named_by_the_next() {
    let bench = Bench::new();
    bench.write("notes.md", "half a sentence\n");
    let agent = format!(
        "cd '{}'; echo x > notes.md; echo ready > \"$OUT/ready\"; while :; do sleep 0.02; done",
        bench.top
    );
    bench.word_kind("edits", FIELDS, &agent);
    let server = bench.serve();
    let id = bench.job("edits", json!({}));
    bench.wait_left("ready");
    server.kill();
    let server = bench.serve();
    let job = bench.ended(&id);
    assert_eq!(job["reason"], "server_restarted");
    let told = warnings(&job);
    assert_eq!(told, ["touched_tree: notes.md (edited) changed while the job ran"]);
    bench.json(&["job", "restore", &id]);
    assert_eq!(bench.read("notes.md"), "half a sentence\n");
    server.stop();
}

/// Approvals and restores of this site, and other jobs, are told from what nobody asked for.
#[test]
fn g31_no_job_is_blamed_for_what_a_person_did_through_the_site() {
    let bench = Bench::new();
    proposing(&bench, "proposes", "");
    let top = &bench.top;
    bench.word_kind("edits", FIELDS, &format!("echo x >> '{top}/notes.md'"));
    let waits = "echo ready > \"$OUT/ready\"; until [ -e \"$OUT/go\" ]; do sleep 0.02; done";
    bench.word_kind("waits", FIELDS, waits);
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    let shown = bench.proposal("proposes", &topic);
    let edits = bench.job("edits", json!({}));
    bench.ended(&edits);
    let waiting = bench.job("waits", json!({}));
    bench.wait_left("ready");
    bench.send(&bench.approval(&shown)).ok();
    bench.json(&["job", "restore", &edits]);
    // This one is seen by both; each says that the other ran.
    let other = bench.job("edits", json!({}));
    bench.ended(&other);
    std::fs::write(bench.out.join("go"), "x").unwrap();
    let waited = bench.ended(&waiting);
    let told = warnings(&waited);
    assert_eq!(told[0], "touched_tree: notes.md (edited) changed while the job ran");
    assert_eq!(told[1], format!("also_running: {other} ran at the same time"));
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(bench.show(&other)["changes"]["also_running"].to_string().contains(&waiting));
    bench.json(&["job", "restore", &other]);
    assert_eq!((bench.status(), bench.read("guide.md")), (String::new(), "new\n".to_owned()));
    // The other's is put back as well by that: there is nothing left to do.
    assert_eq!(bench.json(&["job", "restore", &waiting])["restored"], true);
    server.stop();
}

/// What git collected meanwhile, or cannot read any more, is said.
#[test]
fn g31_what_is_lost_is_said_to_be() {
    let bench = Bench::new();
    bench.write("notes.md", "second\n");
    bench.git(&["commit", "-q", "-a", "-m", "second"]);
    let prunes = "git reset -q --hard HEAD~1; rm -f .git/ORIG_HEAD; \
        git reflog expire --expire=now --all; git gc -q --prune=now";
    bench.word_kind("prunes", FIELDS, &format!("cd '{}'; {prunes}", bench.top));
    bench.word_kind("breaks", FIELDS, &format!("cd '{}'; echo x > .git/index", bench.top));
    let server = bench.serve();
    let id = bench.job("prunes", json!({}));
    let told = warnings(&bench.ended(&id));
    assert!(told.iter().any(|it| it.starts_with("moved_head: refs/heads/main was ")), "{told:?}");
    assert!(told.iter().any(|it| it.starts_with("not_held: ")), "{told:?}");
    let refused = bench.post(&format!("/api/agent/jobs/{id}/restore"), json!({}));
    assert_eq!(refused.refusal(), (409, "not_kept"), "{:?}", refused.body);
    let id = bench.job("breaks", json!({}));
    let told = warnings(&bench.ended(&id));
    assert!(
        told[0].starts_with("touched_git: git could look before the job, and cannot"),
        "{told:?}"
    );
    // Until someone decides, nothing starts.
    bench.json(&["job", "keep", &id]);
    let id = bench.job("breaks", json!({}));
    let told = warnings(&bench.ended(&id));
    assert!(told[0].starts_with("unwatched: git could not look before the job"), "{told:?}");
    server.stop();
}

#[test]
fn g31_a_person_puts_back_from_the_page() {
    let bench = Bench::new();
    bench.word_kind("edits", FIELDS, &format!("echo x >> '{}/guide.md'", bench.top));
    let server = bench.serve();
    let id = bench.job("edits", json!({}));
    bench.ended(&id);
    let page = bench.get(&format!("/jobs/{id}"));
    let html = page.body.as_str().unwrap_or_default().to_owned();
    assert!(
        html.contains("<code>guide.md</code> edited") && html.contains("Restore everything"),
        "{html}"
    );
    let form =
        Call::new("POST", &format!("/jobs/{id}/restore")).header("Sec-Fetch-Site", "same-origin");
    let done = bench.send(&form.token(&bench.operator()));
    assert_eq!(done.status, 303, "{done:?}");
    assert_eq!(bench.status(), "");
    let html = bench.get(&format!("/jobs/{id}")).body.as_str().unwrap_or_default().to_owned();
    assert!(html.contains("Restored by <bdi>ada</bdi>"), "{html}");
    server.stop();
}
