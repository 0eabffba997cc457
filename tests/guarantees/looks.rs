//! G31, if somebody hides a change: manipulated index times, names that are not UTF-8, links,
//! nested repositories, an unreadable repository, or a job that is still running.

use serde_json::{Value, json};
use sha1::{Digest as _, Sha1};

use crate::support::{Bench, shell, until};

const FIELDS: &str = "timeout = \"30s\"";
pub(super) const WAITS: &str =
    "echo ready > \"$OUT/ready\"; until [ -e \"$OUT/go\" ]; do sleep 0.02; done";
const OWN: &str = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.c GIT_COMMITTER_NAME=a \
                   GIT_COMMITTER_EMAIL=a@b.c\n";

pub(super) fn declare(bench: &Bench, kind: &str, agent: &str) {
    bench.word_kind(kind, FIELDS, &format!("{OWN}cd '{}'\n{agent}\n", bench.top));
}

pub(super) fn is_held(bench: &Bench, job: &str, by: &str) -> String {
    until("it is held", || bench.show(job)["waiting"]["code"] == "engine_held");
    let shown = bench.show(job);
    assert_eq!(shown["waiting"]["job_id"], by, "{shown:#}");
    shown["waiting"]["message"].as_str().unwrap().to_owned()
}

pub(super) fn told(ended: &Value) -> String {
    ended["warnings"].to_string()
}

fn in_top(bench: &Bench, line: &str) -> String {
    shell(&format!("cd '{}' && {{ {line}; }} 2>&1", bench.top))
}

/// Writes into the index that a file is as it was looked at, whatever its content.
fn forge(bench: &Bench, name: &str) {
    use std::os::unix::fs::MetadataExt as _;
    let path = bench.top.join(".git/index");
    let mut index = std::fs::read(&path).unwrap();
    let place = index.windows(name.len()).position(|it| it == name.as_bytes()).unwrap() - 62;
    let meta = bench.top.join(name).metadata().unwrap();
    let low = |it: i64| u32::try_from(it & 0xffff_ffff).unwrap();
    let facts = [
        low(meta.ctime()),
        low(meta.ctime_nsec()),
        low(meta.mtime()),
        low(meta.mtime_nsec()),
        low(meta.dev().cast_signed()),
        low(meta.ino().cast_signed()),
        meta.mode() & 0o100_777,
        meta.uid(),
        meta.gid(),
        low(meta.size().cast_signed()),
    ];
    for (at, fact) in facts.into_iter().enumerate() {
        index[place + 4 * at..place + 4 * at + 4].copy_from_slice(&fact.to_be_bytes());
    }
    let end = index.len() - 20;
    let sum = Sha1::digest(&index[..end]);
    index[end..].copy_from_slice(&sum);
    std::fs::write(&path, index).unwrap();
}

#[test]
fn g31_an_index_that_lies_about_times_hides_nothing() {
    let bench = Bench::new();
    bench.write("AGENTS.md", "good\n");
    bench.git(&["add", "AGENTS.md"]);
    bench.git(&["commit", "-q", "-m", "agents"]);
    declare(
        &bench,
        "edits",
        &format!(
            // Git reads a file that is as new as its index, whatever that says.
            "echo evil > AGENTS.md; touch -d '1 hour ago' AGENTS.md\n{WAITS}"
        ),
    );
    let server = bench.serve();
    let job = bench.job("edits", json!({}));
    bench.wait_left("ready");
    forge(&bench, "AGENTS.md");
    assert_eq!(bench.status(), "", "git itself believes it");
    std::fs::write(bench.out.join("go"), "").unwrap();
    let ended = bench.ended(&job);
    assert!(told(&ended).contains("agent_files: AGENTS.md can control agents"), "{ended:#}");
    let next = bench.job("edits", json!({}));
    is_held(&bench, &next, &job);
    // It would write again as soon as it may start.
    bench.json(&["job", "cancel", &next]);
    assert_eq!(bench.json(&["job", "restore", &job])["restored"], true);
    assert_eq!(bench.read("AGENTS.md"), "good\n");
    server.stop();
}

#[test]
fn g31_who_breaks_the_repository_holds_all_until_it_can_be_read() {
    let bench = Bench::new();
    declare(&bench, "breaks", "mv .git/HEAD .git/aside; echo evil > AGENTS.md");
    declare(&bench, "next", "cat AGENTS.md > \"$OUT/read\"; true");
    let server = bench.serve();
    let job = bench.job("breaks", json!({}));
    let ended = bench.ended(&job);
    assert!(told(&ended).contains("touched_git: git could look before the job"), "{ended:#}");
    let next = bench.job("next", json!({}));
    let message = is_held(&bench, &next, &job);
    assert!(message.contains("are unknown until git can read the repository"), "{message}");
    assert_ne!(bench.cli(&["job", "restore", &job]).0, 0);
    // It holds across a restart, and what changed is named once git can look.
    server.stop();
    in_top(&bench, "mv .git/aside .git/HEAD");
    let server = bench.serve();
    until("it is named", || is_held(&bench, &next, &job).contains("AGENTS.md"));
    assert_eq!(bench.json(&["job", "restore", &job])["restored"], true);
    assert_eq!(bench.ended(&next)["status"], "succeeded");
    assert_eq!(bench.left("read"), "");
    // A person may also say that it is well as it is, whatever it is.
    let job = bench.job("breaks", json!({}));
    bench.ended(&job);
    let next = bench.job("next", json!({}));
    is_held(&bench, &next, &job);
    bench.json(&["job", "keep", &job]);
    assert_eq!(bench.ended(&next)["status"], "succeeded");
    server.stop();
}

#[test]
fn g31_every_entry_of_the_stash_is_put_back() {
    let bench = Bench::new();
    for text in ["one", "two", "three"] {
        bench.write("notes.md", format!("{text}\n"));
        bench.git(&["stash", "push", "-q", "-m", text]);
    }
    declare(&bench, "clears", "git stash clear");
    declare(&bench, "drops", "git stash drop -q 'stash@{1}'");
    declare(&bench, "adds", "git stash drop -q; echo x >> notes.md; git stash -q");
    let list = || in_top(&bench, "git stash list --format='%H %gd %gs'");
    let was = list();
    let server = bench.serve();
    for kind in ["clears", "drops", "adds"] {
        let job = bench.job(kind, json!({}));
        let ended = bench.ended(&job);
        assert!(told(&ended).contains("refs/stash"), "{kind}: {ended:#}");
        assert_ne!(list(), was, "{kind}");
        let done = bench.json(&["job", "restore", &job]);
        assert_eq!(done["restored"], true, "{kind}: {done:#}");
        assert_eq!(list(), was, "{kind}");
    }
    in_top(&bench, "git stash drop -q 'stash@{2}' && git stash pop -q");
    assert_eq!(bench.read("notes.md"), "three\n");
    server.stop();
}

#[test]
fn g31_names_that_are_no_text_are_watched_and_put_back() {
    let bench = Bench::new();
    let name = |octal: &str| format!("\"$(printf '{octal}')\"");
    let (loose, tracked) = (name("un\\377.md"), name("tr\\377.md"));
    in_top(&bench, &format!("echo one > {tracked}; git add {tracked}; git commit -q -m odd"));
    in_top(&bench, &format!("echo mine > {loose}; echo two >> {tracked}"));
    let state = || {
        in_top(
            &bench,
            "git status -z | tr '\\0' '\\n' | cat -v; cat tr*.md un*.md; git ls-files -s",
        )
    };
    declare(&bench, "removes", &format!("rm {loose}; echo evil > {tracked}; rm guide.md"));
    declare(
        &bench,
        "steers",
        &format!("d={}; mkdir \"$d\"; echo x > \"$d/CLAUDE.md\"", name("d\\377")),
    );
    let server = bench.serve();
    let was = state();
    let job = bench.job("removes", json!({}));
    let ended = bench.ended(&job);
    for part in ["un\\\\xff.md (deleted)", "tr\\\\xff.md (edited)", "guide.md (deleted)"] {
        assert!(told(&ended).contains(part), "{part}: {ended:#}");
    }
    assert_eq!(bench.json(&["job", "restore", &job, "un\\xff.md"])["restorable"], true);
    let done = bench.json(&["job", "restore", &job]);
    assert_eq!(done["restored"], true, "{done:#}");
    assert_eq!(state(), was);
    let job = bench.job("steers", json!({}));
    assert!(told(&bench.ended(&job)).contains("agent_files: d\\\\xff/CLAUDE.md"));
    let next = bench.job("removes", json!({}));
    is_held(&bench, &next, &job);
    assert_eq!(bench.json(&["job", "restore", &job])["restored"], true);
    bench.ended(&next);
    server.stop();
}

/// What the rehearsal says is what happens.
#[test]
fn g31_what_stands_in_the_place_of_a_file_goes_whatever_it_is() {
    let bench = Bench::new();
    bench.git(&["branch", "side"]);
    let cases = [
        ("folder", "rm guide.md; mkdir -p guide.md/deep; echo x > guide.md/deep/inner"),
        ("empty", "rm guide.md; mkdir guide.md"),
        ("fifo", "rm guide.md; mkfifo guide.md"),
        ("large", "head -c 9000000 /dev/zero > guide.md; rm notes.md"),
        (
            "branches",
            "git checkout -q -b fix/x; git update-ref -d refs/heads/main; \
             git update-ref refs/heads/main/sub HEAD; git config x.y evil",
        ),
    ];
    for (kind, agent) in cases {
        declare(&bench, kind, agent);
    }
    declare(&bench, "nests", "mkdir .claude; git init -q .claude");
    let server = bench.serve();
    let state = || {
        in_top(
            &bench,
            "cat .git/HEAD .git/config; git for-each-ref refs/heads; git status --short
             for it in *.md; do [ ! -f $it ] || cat $it; done",
        )
    };
    let was = state();
    for (kind, _) in cases {
        let job = bench.job(kind, json!({}));
        bench.ended(&job);
        assert_ne!(state(), was, "{kind}");
        let looked = bench.json(&["job", "restore", &job, "--dry-run"]);
        assert_eq!(looked["restorable"], true, "{kind}: {looked:#}");
        let done = bench.json(&["job", "restore", &job]);
        assert_eq!(done["restored"], true, "{kind}: {done:#}");
        assert_eq!(state(), was, "{kind}");
        let left = in_top(&bench, "ls -A");
        assert!(!left.contains(".wb-"), "{kind}: {left}");
    }
    // Somebody's own file in the folder stays, and so does everything else.
    let job = bench.job("folder", json!({}));
    bench.ended(&job);
    bench.write("guide.md/deep/mine", "mine\n");
    let changed = state();
    let looked = bench.json(&["job", "restore", &job, "--dry-run"]);
    assert_eq!(looked["restorable"], false, "{looked:#}");
    let refused = bench.post(&format!("/api/agent/jobs/{job}/restore"), json!({}));
    assert_eq!(refused.refusal(), (409, "changed_since"));
    assert_eq!(state(), changed);
    std::fs::remove_file(bench.top.join("guide.md/deep/mine")).unwrap();
    assert_eq!(bench.json(&["job", "restore", &job])["restored"], true);
    // A repository within is nobody's to remove.
    let job = bench.job("nests", json!({}));
    bench.ended(&job);
    let looked = bench.json(&["job", "restore", &job, "--dry-run"]);
    assert_eq!(looked["restorable"], false, "{looked:#}");
    let refused = bench.post(&format!("/api/agent/jobs/{job}/restore"), json!({}));
    assert_eq!(refused.refusal(), (409, "not_kept"));
    std::fs::remove_dir_all(bench.top.join(".claude")).unwrap();
    assert_eq!(bench.json(&["job", "restore", &job])["restored"], true);
    server.stop();
}

#[test]
fn g31_no_agent_starts_while_a_job_that_runs_has_changed_what_it_would_obey() {
    let bench = Bench::new();
    bench.limits("jobs = 4");
    declare(&bench, "plants", &format!("echo evil > CLAUDE.md\n{WAITS}"));
    declare(&bench, "next", "cat CLAUDE.md > \"$OUT/read\"; true");
    let server = bench.serve();
    let job = bench.job("plants", json!({}));
    bench.wait_left("ready");
    let next = bench.job("next", json!({}));
    assert!(is_held(&bench, &next, &job).contains("CLAUDE.md"));
    // What is as it was again holds nobody.
    std::fs::remove_file(bench.top.join("CLAUDE.md")).unwrap();
    assert_eq!(bench.ended(&next)["status"], "succeeded");
    assert_eq!(bench.left("read"), "");
    // A person may want it, also while the job runs.
    bench.write("CLAUDE.md", "mine\n");
    let next = bench.job("next", json!({}));
    is_held(&bench, &next, &job);
    let refused = bench.post(&format!("/api/agent/jobs/{job}/restore"), json!({}));
    assert_eq!(refused.refusal(), (409, "job_running"));
    bench.json(&["job", "keep", &job]);
    assert_eq!(bench.ended(&next)["status"], "succeeded");
    assert_eq!(bench.left("read"), "mine");
    std::fs::write(bench.out.join("go"), "").unwrap();
    let ended = bench.ended(&job);
    assert!(!told(&ended).contains("agent_files"), "{ended:#}");
    let next = bench.job("next", json!({}));
    assert_eq!(bench.ended(&next)["status"], "succeeded");
    server.stop();
}

/// A job whose look has to wait for that of another says so.
#[cfg(feature = "faults")]
#[test]
fn a_job_that_waits_for_a_look_says_so() {
    let bench = Bench::new();
    bench.limits("jobs = 2");
    declare(&bench, "next", "exit 0");
    let armed = bench.base.join("armed");
    std::fs::write(&armed, "").unwrap();
    let server = bench.serve_with(&[("WB_FAIL_AT", "look"), ("WB_CRASH_WHEN", armed.as_str())]);
    let waits = |job: &str| until("it says so", || bench.show(job)["waiting"]["code"] == "look");
    let first = bench.job("next", json!({}));
    waits(&first);
    assert!(bench.show(&first)["waiting"]["job_id"].is_null());
    let second = bench.job("next", json!({}));
    waits(&second);
    let why = bench.show(&second)["waiting"].clone();
    assert_eq!(why["job_id"], first.as_str(), "{why:#}");
    assert!(why["message"].as_str().unwrap().contains(&format!("job {first} is first")), "{why}");
    std::fs::remove_file(&armed).unwrap();
    for job in [first, second] {
        assert!(bench.ended(&job)["waiting"].is_null());
    }
    server.stop();
}

/// Fails with `WB_WITHOUT=one_decision`.
#[test]
fn g31_what_is_kept_for_one_job_is_kept_for_all_that_saw_the_same() {
    let bench = Bench::new();
    bench.limits("jobs = 8");
    bench.write("CLAUDE.md", "good\n");
    bench.git(&["add", "CLAUDE.md"]);
    bench.git(&["commit", "-q", "-m", "agents"]);
    let stays = "echo ready > \"$OUT/$WB_JOB_ID\"; until [ -e \"$OUT/go\" ]; do sleep 0.02; done";
    declare(&bench, "stays", stays);
    declare(&bench, "ends", &stays.replace("/go", "/end"));
    declare(&bench, "next", "cat CLAUDE.md > \"$OUT/read\"; true");
    let server = bench.serve();
    let jobs = ["stays", "stays", "stays", "ends", "ends"].map(|it| bench.job(it, json!({})));
    jobs.iter().for_each(|it| drop(bench.wait_left(it)));
    // Somebody commits a change while all of them run, and two of them end.
    bench.write("CLAUDE.md", "better\n");
    bench.git(&["commit", "-q", "-a", "-m", "better"]);
    std::fs::write(bench.out.join("end"), "").unwrap();
    for job in &jobs[3..] {
        assert!(told(&bench.ended(job)).contains("agent_files: CLAUDE.md"));
    }
    let next = bench.job("next", json!({}));
    until("it is held", || bench.show(&next)["waiting"]["code"] == "engine_held");
    let first = bench.show(&next)["waiting"]["job_id"].as_str().unwrap().to_owned();
    bench.json(&["job", "keep", &first]);
    assert_eq!(bench.ended(&next)["status"], "succeeded");
    assert_eq!(bench.left("read"), "better");
    for job in &jobs[3..] {
        assert_eq!(bench.show(job)["changes"]["state"], "kept");
    }
    // Another change is another decision, and one for a job that runs is one for the others.
    bench.write("CLAUDE.md", "other\n");
    let next = bench.job("next", json!({}));
    until("it is held", || bench.show(&next)["waiting"]["code"] == "engine_held");
    bench.json(&["job", "keep", &jobs[1]]);
    assert_eq!(bench.ended(&next)["status"], "succeeded");
    std::fs::write(bench.out.join("go"), "").unwrap();
    for job in &jobs[..3] {
        let ended = bench.ended(job);
        assert!(!told(&ended).contains("agent_files"), "{ended:#}");
    }
    assert_eq!(bench.ended(&bench.job("next", json!({})))["status"], "succeeded");
    server.stop();
}

/// The job begins to end while a person's decision looks at the repository.
#[cfg(feature = "faults")]
#[test]
fn g31_what_is_kept_for_a_job_that_is_ending_stays_kept() {
    let bench = Bench::new();
    bench.limits("jobs = 8");
    bench.write("CLAUDE.md", "good\n");
    bench.git(&["add", "CLAUDE.md"]);
    bench.git(&["commit", "-q", "-m", "agents"]);
    let stays = "echo ready > \"$OUT/$WB_JOB_ID\"; until [ -e \"$OUT/go\" ]; do sleep 0.02; done";
    declare(&bench, "stays", stays);
    declare(&bench, "next", "exit 0");
    let armed = bench.base.join("armed");
    let server = bench.serve_with(&[("WB_FAIL_AT", "look"), ("WB_CRASH_WHEN", armed.as_str())]);
    let jobs = ["stays", "stays"].map(|it| bench.job(it, json!({})));
    jobs.iter().for_each(|it| drop(bench.wait_left(it)));
    bench.write("CLAUDE.md", "better\n");
    let next = bench.job("next", json!({}));
    until("both hold", || bench.show(&next)["waiting"]["code"] == "engine_held");
    std::fs::write(&armed, "").unwrap();
    let (top, id) = (bench.top.clone(), jobs[0].clone());
    let keeping = std::thread::spawn(move || crate::support::cli(&top, &["job", "keep", &id]));
    until("somebody looks", || !std::fs::read(&armed).unwrap().is_empty());
    std::fs::write(bench.out.join("go"), "").unwrap();
    for job in &jobs {
        until("it ends", || bench.show(job)["waiting"]["code"] == "look");
    }
    std::fs::remove_file(&armed).unwrap();
    let kept = keeping.join().unwrap();
    assert_eq!(kept.0, 0, "{kept:?}");
    for job in &jobs {
        let ended = bench.ended(job);
        assert!(!told(&ended).contains("agent_files"), "{ended:#}");
    }
    assert_eq!(bench.ended(&next)["status"], "succeeded");
    server.stop();
}

#[test]
fn g31_links_and_repositories_within_lead_around_nothing() {
    let bench = Bench::new();
    bench.write("guide.txt", "good\n");
    std::os::unix::fs::symlink("hop", bench.top.join("CLAUDE.md")).unwrap();
    std::os::unix::fs::symlink("guide.txt", bench.top.join("hop")).unwrap();
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "links"]);
    in_top(&bench, "git init -q within; echo x > within/plain");
    declare(&bench, "edits", "echo evil > guide.txt");
    declare(&bench, "bends", "ln -sfn notes.md hop");
    declare(&bench, "within", "mkdir within/sub; echo evil > within/sub/CLAUDE.md");
    let server = bench.serve();
    for (kind, file) in [("edits", "guide.txt"), ("bends", "hop"), ("within", "within/")] {
        let job = bench.job(kind, json!({}));
        let ended = bench.ended(&job);
        let want = format!("agent_files: {file} can control agents");
        assert!(told(&ended).contains(&want), "{kind}: {ended:#}");
        match kind {
            "within" => bench.json(&["job", "keep", &job]),
            _ => bench.json(&["job", "restore", &job]),
        };
    }
    // What is within and steers nobody is not looked at.
    declare(&bench, "plain", "echo y > within/plain");
    bench.write_script();
    assert_eq!(bench.cli(&["reload"]).0, 0);
    let ended = bench.ended(&bench.job("plain", json!({})));
    assert_eq!(ended["warnings"], json!([]), "{ended:#}");
    server.stop();
}

#[test]
fn g31_what_is_kept_is_kept_in_a_folder_of_ours() {
    let bench = Bench::new();
    let victim = bench.base.join("victim");
    std::fs::create_dir(&victim).unwrap();
    std::fs::write(victim.join("old.md"), "theirs\n").unwrap();
    shell(&format!("touch -d '30 days ago' '{}'", victim.join("old.md")));
    bench.write("notes.md", "half a sentence\n");
    let data = &bench.data;
    declare(
        &bench,
        "links",
        &format!("mv '{data}/kept' '{data}/other'; ln -s '{victim}' '{data}/kept'"),
    );
    declare(&bench, "fills", &format!("mkdir -p '{data}/kept/odd/deep'; rm notes.md"));
    let server = bench.serve();
    bench.ended(&bench.job("links", json!({})));
    let job = bench.job("fills", json!({}));
    bench.ended(&job);
    assert_eq!(bench.json(&["job", "restore", &job])["restored"], true);
    assert_eq!(bench.read("notes.md"), "half a sentence\n");
    shell(&format!("touch -d '30 days ago' '{data}/kept/odd' '{data}'/kept/*"));
    server.stop();
    let server = bench.serve();
    bench.json(&["cleanup"]);
    assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 1);
    assert!(data.join("kept/odd").is_dir());
    assert!(!server.log().contains("Is a directory"), "{}", server.log());
    server.stop();
}

#[test]
fn g31_what_was_only_announced_to_git_is_announced_again() {
    let bench = Bench::new();
    bench.write("mine.md", "not yet\n");
    bench.write("empty.md", "");
    bench.git(&["add", "-N", "mine.md"]);
    bench.git(&["add", "empty.md"]);
    declare(&bench, "resets", "git reset -q; rm mine.md");
    declare(&bench, "stages", "git add mine.md");
    declare(&bench, "drops", "rm .git/index; git reset -q");
    let server = bench.serve();
    let was = bench.status();
    assert_eq!(was, "A  empty.md\n A mine.md");
    for kind in ["resets", "stages", "drops"] {
        let job = bench.job(kind, json!({}));
        let ended = bench.ended(&job);
        assert!(told(&ended).contains("mine.md"), "{kind}: {ended:#}");
        assert!(!told(&ended).contains("not_held"), "{kind}: {ended:#}");
        let done = bench.json(&["job", "restore", &job]);
        assert_eq!(done["restored"], true, "{kind}: {done:#}");
        assert_eq!(bench.status(), was, "{kind}");
    }
    assert_eq!(bench.read("mine.md"), "not yet\n");
    server.stop();
}
