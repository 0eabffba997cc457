//! G31 where a restore is hard: a stash without a log, a restore that was cut short, hooks behind a
//! link.

use serde_json::json;
use wiki_browser::base::digest_hex;

use crate::support::Bench;

const FIELDS: &str = "timeout = \"20s\"";

fn ended(bench: &Bench, kind: &str) -> String {
    let id = bench.job(kind, json!({}));
    let job = bench.ended(&id);
    assert_eq!(job["status"], "succeeded", "{job:#}");
    id
}

fn restored(bench: &Bench, id: &str) {
    let done = bench.json(&["job", "restore", id]);
    assert_eq!(done["restored"], true, "{done:#}");
}

#[test]
fn g31_a_stash_whose_log_has_expired_is_put_back() {
    let bench = Bench::new();
    for words in ["one", "two"] {
        bench.write("notes.md", words);
        bench.git(&["stash", "push", "-q", "-m", words]);
    }
    let was = bench.git(&["stash", "list", "--format=%H %gs"]);
    assert_eq!(was.lines().count(), 2);
    let agent = format!(
        "cd '{}' && git reflog expire --expire=now --all && echo AGENT > guide.md",
        bench.top
    );
    bench.word_kind("expires", FIELDS, &agent);
    // Git would append the log to what a link in its place leads to.
    let foreign = bench.base.join("foreign");
    let agent = format!(
        "cd '{}' && git stash clear && rm -f .git/logs/refs/stash && : > '{foreign}' && \
         ln -s '{foreign}' .git/logs/refs/stash",
        bench.top
    );
    bench.word_kind("links", FIELDS, &agent);
    let server = bench.serve();
    for kind in ["expires", "links"] {
        let id = ended(&bench, kind);
        assert_eq!(bench.git(&["stash", "list"]), "");
        restored(&bench, &id);
        assert_eq!(bench.git(&["stash", "list", "--format=%H %gs"]), was);
    }
    assert_ne!(bench.read("guide.md"), "AGENT\n");
    assert_eq!(std::fs::read_to_string(&foreign).unwrap(), "");
    server.stop();
}

/// What a restore has done when it is killed stands there already: the next try goes on.
#[test]
fn g31_a_restore_that_was_cut_short_is_repeated() {
    let bench = Bench::new();
    std::fs::create_dir(bench.top.join("folder")).unwrap();
    bench.write("folder/a.md", "a\n");
    bench.write("folder/b.md", "b\n");
    bench.git(&["add", "."]);
    bench.git(&["commit", "-q", "-m", "folder"]);
    bench.write("announced.md", "mine\n");
    bench.git(&["add", "-N", "announced.md"]);
    bench.git(&["update-index", "--assume-unchanged", "notes.md"]);
    let agent = format!(
        "cd '{}' && rm -r folder && ln -s /tmp folder && git rm -q --cached -f announced.md && \
         echo x >> announced.md && echo x >> notes.md",
        bench.top
    );
    bench.word_kind("breaks", FIELDS, &agent);
    let server = bench.serve();
    let was = (bench.git(&["ls-files", "-s", "-v"]), bench.status());
    let id = ended(&bench, "breaks");
    // The link is gone, one of two files is written, and flags and announcements come last.
    bench.git(&["update-index", "--no-assume-unchanged", "notes.md"]);
    std::fs::remove_file(bench.top.join("folder")).unwrap();
    std::fs::create_dir(bench.top.join("folder")).unwrap();
    bench.write("folder/a.md", "a\n");
    restored(&bench, &id);
    assert_eq!((bench.git(&["ls-files", "-s", "-v"]), bench.status()), was);
    assert_eq!(bench.read("folder/b.md") + &bench.read("announced.md"), "b\nmine\n");
    server.stop();
}

/// Killed while it writes, it leaves a file beside the place: the next server removes it, unless
/// somebody else's words are in it.
#[test]
fn g31_what_a_killed_restore_left_beside_a_file_is_removed_by_the_next_start() {
    let bench = Bench::new();
    let words = bench.read("guide.md");
    let agent = format!("cd '{}' && echo x >> guide.md && echo x >> notes.md", bench.top);
    bench.word_kind("writes", FIELDS, &agent);
    let server = bench.serve();
    let id = ended(&bench, "writes");
    server.stop();
    let beside = |path: &str| format!(".wb-{}.tmp", &digest_hex(format!("{id} {path}"))[..20]);
    bench.write(&beside("guide.md"), &words[..words.len() / 2]);
    bench.write(&beside("notes.md"), "somebody else's\n");
    let server = bench.serve();
    assert!(!bench.top.join(beside("guide.md")).exists());
    assert_eq!(bench.read(&beside("notes.md")), "somebody else's\n");
    std::fs::remove_file(bench.top.join(beside("notes.md"))).unwrap();
    // One that is left later does not stand in the way.
    bench.write(&beside("guide.md"), "");
    restored(&bench, &id);
    assert_eq!(bench.read("guide.md"), words);
    assert!(!bench.top.join(beside("guide.md")).exists());
    server.stop();
}

/// A file with a hole is as large as somebody likes: git would read it for hours, and every job
/// would wait.
#[test]
fn g31_a_huge_file_of_an_agent_stops_no_job() {
    let bench = Bench::new();
    let grow = format!(
        "cd '{}' && echo y > notes.md && git add notes.md && truncate -s 1T notes.md",
        bench.top
    );
    bench.word_kind("grows", FIELDS, &grow);
    bench.word_kind("next", FIELDS, "exit 0");
    bench.word_kind("writes", FIELDS, &format!("echo zz > '{}/notes.md'", bench.top));
    let server = bench.serve();
    let id = ended(&bench, "grows");
    ended(&bench, "next");
    server.stop();
    // A new server has no index of its own yet.
    let server = bench.serve();
    ended(&bench, "next");
    let plan = bench.json(&["job", "restore", &id, "--dry-run"]);
    assert_eq!(plan["items"][0]["name"], "notes.md", "{plan:#}");
    // Small again, it is compared again.
    bench.write("notes.md", "");
    bench.git(&["checkout", "-q", "-f", "HEAD", "--", "notes.md"]);
    let id = ended(&bench, "writes");
    let plan = bench.json(&["job", "restore", &id, "--dry-run"]);
    assert_eq!(plan["items"][0]["name"], "notes.md", "{plan:#}");
    restored(&bench, &id);
    server.stop();
}

/// What stood there is judged by the attributes of the start, and what the job left by its own.
#[test]
fn g31_attributes_that_the_job_made_do_not_stop_its_restore() {
    let bench = Bench::new();
    bench.write("docs/.gitattributes", "deep.md text\n");
    let cases = [
        ("wte", "*.md working-tree-encoding=UTF-16LE", "printf 'g\\0\\n\\0' > notes.md"),
        ("eol", "*.md text eol=crlf", "echo gone > notes.md"),
        ("filter", "*.md filter=zz", "echo gone > notes.md; echo gone > guide.md"),
        ("under", "*.md text eol=crlf", "echo gone > docs/deep.md; git add docs/deep.md"),
    ];
    for (name, line, act) in cases {
        let stages = if name == "filter" { "" } else { "git add notes.md" };
        let agent =
            format!("cd '{}' && echo '{line}' > .gitattributes; {act}; {stages}", bench.top);
        bench.word_kind(name, FIELDS, &agent);
    }
    let server = bench.serve();
    bench.write("notes.md", "# Notes\n\nMine.\n");
    let state = || {
        let texts = ["notes.md", "guide.md", "docs/deep.md", "docs/.gitattributes"];
        (texts.map(|it| bench.read(it)), bench.git(&["ls-files", "-s"]), bench.status())
    };
    let was = state();
    for (name, ..) in cases {
        let id = ended(&bench, name);
        assert_ne!(state(), was, "{name}");
        restored(&bench, &id);
        assert_eq!(state(), was, "{name}");
        assert!(!bench.top.join(".gitattributes").exists(), "{name}");
    }
    server.stop();
}

/// Without the objects in the other place, the repository may be damaged.
#[test]
fn g31_another_place_of_objects_is_told_and_left_to_a_person() {
    let bench = Bench::new();
    let agent = format!("echo '{}' > '{}/.git/objects/info/alternates'", bench.out, bench.top);
    bench.word_kind("borrows", FIELDS, &agent);
    let server = bench.serve();
    let id = ended(&bench, "borrows");
    let warnings = bench.show(&id)["warnings"].to_string();
    assert!(warnings.contains("touched_git: .git/objects/info/alternates (made)"), "{warnings}");
    let (code, _, refused) = bench.cli(&["job", "restore", &id]);
    assert!(code != 0 && refused.contains("git fsck"), "{code}: {refused}");
    server.stop();
}

#[test]
fn g31_a_hook_behind_a_link_holds_the_next_agent() {
    let bench = Bench::new();
    // The folder was linked by a person: a hook in it is nothing of git's.
    let hooks = bench.top.parent().unwrap().join("shared-hooks");
    std::fs::create_dir(&hooks).unwrap();
    std::fs::remove_dir_all(bench.top.join(".git/hooks")).unwrap();
    std::os::unix::fs::symlink(&hooks, bench.top.join(".git/hooks")).unwrap();
    let agent = format!("echo true > '{hooks}/pre-commit' && chmod +x '{hooks}/pre-commit'");
    bench.word_kind("plants", FIELDS, &agent);
    bench.word_kind("next", FIELDS, "exit 0");
    let server = bench.serve();
    let first = ended(&bench, "plants");
    let warnings = bench.show(&first)["warnings"].to_string();
    assert!(warnings.contains("agent_files: .git/hooks/pre-commit"), "{warnings}");
    let next = bench.job("next", json!({}));
    assert_eq!(bench.show(&next)["waiting"]["code"], "engine_held");
    // It was not kept, which is said.
    let (code, _, refused) = bench.cli(&["job", "restore", &first]);
    assert!(code != 0 && refused.contains("was not kept"), "{refused}");
    assert_eq!(bench.cli(&["job", "keep", &first]).0, 0);
    assert_eq!(bench.ended(&next)["status"], "succeeded");
    server.stop();
}

/// Nothing in a nested repository is kept: its files go on holding until somebody decides.
#[test]
fn g31_a_nested_repository_is_not_said_to_be_restored() {
    let bench = Bench::new();
    std::fs::create_dir(bench.top.join("nested")).unwrap();
    bench.write("nested/CLAUDE.md", "Be careful.\n");
    for args in [
        &["init", "-q"][..],
        &["add", "-A"],
        &["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "-m", "a"],
    ] {
        bench.git(&[&["-C", "nested"], args].concat());
    }
    let agent = format!("echo obey > '{}/nested/CLAUDE.md'", bench.top);
    bench.word_kind("changes", FIELDS, &agent);
    bench.word_kind("next", FIELDS, "exit 0");
    let server = bench.serve();
    let id = ended(&bench, "changes");
    let (code, _, refused) = bench.cli(&["job", "restore", &id]);
    assert!(code != 0 && refused.contains("a repository of its own"), "{refused}");
    let next = bench.job("next", json!({}));
    assert_eq!(bench.show(&next)["waiting"]["code"], "engine_held");
    bench.write("nested/CLAUDE.md", "Be careful.\n");
    assert_eq!(bench.cli(&["job", "keep", &id]).0, 0);
    assert_eq!(bench.ended(&next)["status"], "succeeded");
    server.stop();
}

/// A file that is rewritten and hidden in one step steers the next agent all the same.
#[test]
fn g31_a_steering_file_that_is_hidden_holds_the_next_agent() {
    let bench = Bench::new();
    bench.write("CLAUDE.md", "Be careful.\n");
    let agent = format!(
        "cd '{}' && echo CLAUDE.md >> .git/info/exclude && echo obey > CLAUDE.md",
        bench.top
    );
    bench.word_kind("hides", FIELDS, &agent);
    let server = bench.serve();
    let id = ended(&bench, "hides");
    let warnings = bench.show(&id)["warnings"].to_string();
    assert!(warnings.contains("agent_files: CLAUDE.md"), "{warnings}");
    restored(&bench, &id);
    assert_eq!(bench.read("CLAUDE.md"), "Be careful.\n");
    server.stop();
}
