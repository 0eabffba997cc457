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
