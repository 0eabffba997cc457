//! G31 where settings of git's decide what counts as a change: conversions of line ends, modes, and
//! names that differ in their case.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::guarantees::looks::{declare, is_held, told};
use crate::support::Bench;

fn mode(bench: &Bench, path: &str) -> u32 {
    bench.top.join(path).metadata().unwrap().permissions().mode() & 0o777
}

fn set_mode(bench: &Bench, path: &str, mode: u32) {
    let mode = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(bench.top.join(path), mode).unwrap();
}

#[track_caller]
fn restored(bench: &Bench, kind: &str) -> String {
    let job = bench.job(kind, json!({}));
    let named = told(&bench.ended(&job));
    let done = bench.json(&["job", "restore", &job]);
    assert_eq!(done["restored"], true, "{kind}: {done:#}");
    format!("{named} {done}")
}

#[test]
fn g31_a_mode_is_put_back_without_the_text() {
    let bench = Bench::new();
    bench.write("run.sh", "#!/bin/sh\necho hi\n");
    set_mode(&bench, "run.sh", 0o755);
    bench.git(&["add", "run.sh"]);
    bench.git(&["commit", "-q", "-m", "run"]);
    bench.git(&["config", "core.autocrlf", "true"]);
    bench.write("loose.md", "mine\n");
    set_mode(&bench, "loose.md", 0o600);
    declare(&bench, "modes", "chmod -x run.sh; chmod 644 loose.md");
    let server = bench.serve();
    let said = restored(&bench, "modes");
    assert!(said.contains("put its mode back"), "{said}");
    assert_eq!(bench.read("run.sh"), "#!/bin/sh\necho hi\n");
    assert_eq!((mode(&bench, "run.sh"), mode(&bench, "loose.md")), (0o755, 0o600));
    server.stop();
}

/// The settings are put back first, and files are written by those of the start.
#[test]
fn g31_line_ends_are_those_of_the_settings_of_the_start() {
    let bench = Bench::new();
    let crlf = "git config core.autocrlf true";
    let again = "rm notes.md && git checkout -q notes.md";
    declare(&bench, "setting", &format!("{crlf}; {again}"));
    let rule = "mkdir -p .git/info; echo '*.md text eol=crlf' > .git/info/attributes";
    declare(&bench, "rules", &format!("{rule}; {again}"));
    let commit = "git commit -q --no-verify -m unasked notes.md";
    declare(&bench, "commits", &format!("{crlf}; echo evil > notes.md; {commit}; {again}"));
    let server = bench.serve();
    let state = || (bench.read("notes.md"), bench.status(), bench.git(&["rev-parse", "HEAD"]));
    let was = state();
    for kind in ["setting", "rules", "commits"] {
        let job = bench.job(kind, json!({}));
        bench.ended(&job);
        assert!(bench.read("notes.md").contains("\r\n"), "{kind}");
        let plan = bench.json(&["job", "restore", &job, "--commits", "--dry-run"]).to_string();
        assert!(!plan.contains("as_before"), "{kind}: {plan}");
        let done = bench.json(&["job", "restore", &job, "--commits"]);
        assert_eq!(done["restored"], true, "{kind}: {done:#}");
        assert_eq!(state(), was, "{kind}");
    }
    server.stop();
}

#[test]
fn g31_a_hook_that_is_switched_on_holds_whatever_git_says_of_modes() {
    let bench = Bench::new();
    std::fs::create_dir(bench.top.join("tools")).unwrap();
    let hook = "tools/post-index-change";
    bench.write(hook, "#!/bin/sh\n:\n");
    bench.git(&["add", "tools"]);
    bench.git(&["commit", "-q", "-m", "tools"]);
    bench.git(&["config", "core.hooksPath", "tools"]);
    let switch = format!("chmod +x {hook}");
    declare(&bench, "sets", &format!("git config core.filemode false; {switch}"));
    declare(&bench, "mine", &switch);
    declare(&bench, "next", "exit 0");
    let server = bench.serve();
    for kind in ["sets", "mine"] {
        let job = bench.job(kind, json!({}));
        let named = told(&bench.ended(&job));
        assert!(named.contains(&format!("agent_files: {hook} can control")), "{kind}: {named}");
        let next = bench.job("next", json!({}));
        is_held(&bench, &next, &job);
        let done = bench.json(&["job", "restore", &job]);
        assert_eq!(done["restored"], true, "{kind}: {done:#}");
        assert_eq!(mode(&bench, hook), 0o644, "{kind}");
        bench.ended(&next);
        // The next time, a person has the setting.
        bench.git(&["config", "core.filemode", "false"]);
    }
    server.stop();
}

#[test]
fn g31_a_name_in_another_case_is_another_file() {
    let bench = Bench::new();
    declare(&bench, "hides", "git config core.ignorecase true; echo hidden > GUIDE.md");
    let server = bench.serve();
    let said = restored(&bench, "hides");
    assert!(said.contains("GUIDE.md (created)"), "{said}");
    assert!(!bench.top.join("GUIDE.md").exists() && bench.top.join("guide.md").exists());
    server.stop();
}
