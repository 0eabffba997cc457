//! G31, for what git itself starts: settings and hooks that one job left would start a program in
//! the next one, whose agent runs git.

use serde_json::json;

use crate::support::Bench;

const FIELDS: &str = "timeout = \"20s\"";

/// Returns why a job waits; it must wait for a decision about another.
fn waits_for(bench: &Bench, job: &str, by: &str) -> String {
    let waiting = bench.show(job);
    assert_eq!(waiting["waiting"]["code"], "engine_held", "{waiting:#}");
    assert_eq!(waiting["waiting"]["job_id"], by);
    waiting["waiting"]["message"].as_str().unwrap().to_owned()
}

#[test]
fn g31_a_program_that_a_job_names_in_gits_settings_holds_the_next_until_somebody_decides() {
    let bench = Bench::new();
    let in_top = |words: &str| format!("cd '{}' && {words}", bench.top);
    bench.word_kind(
        "tidy",
        FIELDS,
        &in_top(
            "git config user.name a && git config branch.main.remote x && git config core.eol lf",
        ),
    );
    bench.word_kind(
        "plants",
        FIELDS,
        &in_top("git config core.fsmonitor /tmp/x && git config filter.a.clean y"),
    );
    bench.word_kind("breaks", FIELDS, &in_top("printf '[alias]\\n\\tst = !z\\n' >> .git/config"));
    bench.word_kind(
        "hooks",
        FIELDS,
        &in_top(
            "mkdir -p .git/hooks && printf '#!/bin/sh\\n' > .git/hooks/pre-commit && \
         chmod +x .git/hooks/pre-commit",
        ),
    );
    bench.word_kind("edits", FIELDS, &in_top("echo '# x' >> .husky/pre-commit"));
    bench.word_kind("includes", FIELDS, &in_top("git config -f team.gitconfig alias.x '!y'"));
    bench.word_kind("next", FIELDS, "exit 0");
    // A person's own settings: hooks in the working tree, and a file of settings.
    std::fs::create_dir_all(bench.top.join(".husky")).unwrap();
    bench.write(".husky/pre-commit", "#!/bin/sh\n");
    bench.write("team.gitconfig", "[alias]\n\tst = status\n");
    bench.git(&["config", "core.hooksPath", ".husky"]);
    bench.git(&["config", "include.path", "../team.gitconfig"]);
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-qm", "settings", "--no-verify"]);
    let server = bench.serve();
    let ended = |job: &str| assert_eq!(bench.ended(job)["status"], "succeeded", "{job}");
    let run = |kind: &str| {
        let job = bench.job(kind, json!({}));
        ended(&job);
        job
    };
    // What starts nothing is only named.
    let tidy = bench.ended(&bench.job("tidy", json!({})));
    let warnings = tidy["warnings"].to_string();
    assert!(warnings.contains("touched_git") && !warnings.contains("agent_files"), "{warnings}");
    run("next");
    for (kind, name, decision) in [
        ("plants", ".git/config (core.fsmonitor, filter.a.clean)", "restore"),
        ("breaks", ".git/config (alias.st)", "restore"),
        ("hooks", ".git/hooks/pre-commit", "keep"),
        ("edits", ".husky/pre-commit", "keep"),
        ("includes", "team.gitconfig", "restore"),
    ] {
        let job = run(kind);
        let next = bench.job("next", json!({}));
        let message = waits_for(&bench, &next, &job);
        assert!(message.contains(name), "{kind}: {message}");
        let (code, out, err) = bench.cli(&["job", decision, &job]);
        assert_eq!(code, 0, "{kind}: {out}{err}");
        ended(&next);
    }
    assert!(!bench.read(".git/config").contains("fsmonitor"));
    server.stop();
}

/// Returns a repository whose settings name files among git's own.
fn with_own_files() -> Bench {
    let bench = Bench::new();
    for folder in ["own/hooks", "sub"] {
        std::fs::create_dir_all(bench.top.join(".git").join(folder)).unwrap();
    }
    for file in ["own/hooks/post-merge", "clean.sh", "sub/further", "rules"] {
        bench.write(&format!(".git/{file}"), "# mine\n");
    }
    bench.write(".git/more", "[include]\n\tpath = sub/further\n");
    bench.git(&["worktree", "add", "-q", "--detach", bench.out.join("other").as_str()]);
    for (name, value) in [
        ("core.hooksPath", ".git/own/hooks"),
        ("filter.a.clean", ".git/clean.sh --once"),
        ("alias.last", "!cat .git/COMMIT_EDITMSG .git/HEAD .git/logs/HEAD"),
        ("include.path", "more"),
        ("includeIf.gitdir:/.path", "missing"),
    ] {
        bench.git(&["config", name, value]);
    }
    bench.git(&["config", "--add", "include.path", "missing"]);
    bench
}

/// Declares jobs that call these lines in the repository.
fn declare(bench: &Bench, kinds: &[(&str, &str)]) {
    for (kind, words) in kinds {
        bench.word_kind(kind, FIELDS, &format!("cd '{}' && {words}", bench.top));
    }
    bench.word_kind("next", FIELDS, "exit 0");
}

/// Returns the warnings of a job that succeeded.
fn warnings(bench: &Bench, job: &str) -> String {
    let ended = bench.ended(job);
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    ended["warnings"].to_string()
}

#[test]
fn g31_what_settings_name_among_gits_own_files_holds_the_next_job() {
    let bench = with_own_files();
    let kinds = [
        ("hooks", "printf '#!/bin/sh\\n' > .git/own/hooks/pre-commit"),
        ("edits", "echo true >> .git/own/hooks/post-merge"),
        ("links", "ln -sf /bin/true .git/clean.sh"),
        ("filters", "echo true >> .git/clean.sh"),
        ("includes", "git config -f .git/more alias.x '!y'"),
        ("nests", "git config -f .git/sub/further alias.x '!y'"),
        ("makes", "git config -f .git/missing alias.x '!y'"),
        ("others", "git config -f .git/worktrees/other/config.worktree alias.x '!y'"),
        ("leads", "echo /tmp > .git/worktrees/other/commondir"),
    ];
    declare(&bench, &kinds);
    let server = bench.serve();
    for (kind, name) in [
        ("hooks", "own/hooks/pre-commit"),
        ("edits", "own/hooks/post-merge"),
        ("links", "clean.sh"),
        ("filters", "clean.sh"),
        ("includes", "more"),
        ("nests", "sub/further"),
        ("makes", "missing"),
        ("others", "worktrees/other/config.worktree (alias.x)"),
        ("leads", "worktrees/other/commondir"),
    ] {
        let file = bench.top.join(".git").join(name.split(' ').next().unwrap());
        let before = std::fs::read(&file).ok();
        let job = bench.job(kind, json!({}));
        let told = warnings(&bench, &job);
        assert!(told.contains(&format!("agent_files: .git/{name} can")), "{kind}: {told}");
        let next = bench.job("next", json!({}));
        assert!(waits_for(&bench, &next, &job).contains(name), "{kind}");
        let (code, out, err) = bench.cli(&["job", "restore", &job]);
        assert_eq!(code, 0, "{kind}: {out}{err}");
        assert_eq!(std::fs::read(&file).ok(), before, "{kind}");
        assert_eq!(warnings(&bench, &next), "[]");
    }
    server.stop();
}

/// What git writes by itself, and what was there before somebody named it, or named it no more.
#[test]
fn g31_what_no_setting_names_among_gits_own_files_stays_as_it_is() {
    let bench = with_own_files();
    let own = "git -c user.name=a -c user.email=a@b.c";
    let commit = format!("{own} commit -q --allow-empty --no-verify -m x");
    let kinds = [
        ("commits", commit.as_str()),
        ("unsets", "git config --unset core.hooksPath"),
        ("sets", "git config core.attributesFile .git/rules"),
        ("adds", "git worktree add -q --detach \"$OUT/more\""),
    ];
    declare(&bench, &kinds);
    let server = bench.serve();
    for (kind, _) in kinds {
        let job = bench.job(kind, json!({}));
        let told = warnings(&bench, &job);
        for name in ["rules", "own/hooks", "COMMIT", "logs", "worktrees"] {
            assert!(!told.contains(name), "{kind}: {told}");
        }
        let (code, out, err) = bench.cli(&["job", "restore", &job, "--commits"]);
        assert!(code == 0 || kind == "adds", "{kind}: {out}{err}");
    }
    assert_eq!(bench.read(".git/rules"), "# mine\n");
    assert_eq!(bench.read(".git/own/hooks/post-merge"), "# mine\n");
    server.stop();
}
