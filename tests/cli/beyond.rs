//! Missing things that a script refers to: secrets, the repository's folder, globs, `wb-agent`.
//! `check` reports each with its line and what to type, `doctor` on a line of its own.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::init::{git, repository};
use super::wiki_browser;

/// A site whose script has these fields in `site`, these variables in its engine's `env`, and
/// these lines after it.
fn site(fields: &str, env: &str, more: &str) -> tempfile::TempDir {
    let folder = repository();
    let path = folder.path();
    fs::create_dir_all(path.join("docs")).unwrap();
    fs::write(path.join("docs/guide.md"), "# Guide\n").unwrap();
    git(path, &["add", "-A"]);
    let author = ["-c", "user.name=A", "-c", "user.email=a@b.c"];
    git(path, &[&author[..], &["commit", "-qm", "Begin"]].concat());
    let script = format!(
        "local wb = require \"wb\"\nwb.api(1)\n\
         wb.site {{ {fields} }}\n\
         wb.identity {{ author_name = \"A\", author_email = \"a@b.c\" }}\n\
         wb.engine \"one\" {{ type = \"process\", prompt = \"stdin\",\n  \
         command = {{ \"/bin/true\" }}, env = {{ {env} }},\n}}\n\
         wb.kind \"asks\" {{ about = \"A\", engine = \"one\", timeout = \"1m\", prompt = \"x\" }}\n\
         {more}\n"
    );
    fs::write(path.join("wiki-browser.lua"), script).unwrap();
    folder
}

/// Checks a script; returns its exit code, its findings, and what a person is shown.
fn check(folder: &Path, env: &[(&str, &str)]) -> (i32, Vec<Value>, String) {
    let run = |args: &[&str]| {
        let output = wiki_browser(folder).args(args).envs(env.iter().copied()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    };
    let (code, json, _) = run(&["check", "--json"]);
    let value: Value = serde_json::from_str(&json).unwrap_or_else(|_| panic!("{json}"));
    let list = |name: &str| value[name].as_array().unwrap().clone();
    let (again, out, err) = run(&["check"]);
    assert_eq!(code, again);
    (code, [list("errors"), list("warnings")].concat(), out + &err)
}

/// Returns `CODE LINE:COLUMN` of each finding.
fn short(findings: &[Value]) -> Vec<String> {
    let one = |it: &Value| {
        format!("{} {}:{}", it["code"].as_str().unwrap(), it["at"]["line"], it["at"]["column"])
    };
    findings.iter().map(one).collect()
}

fn doctor(folder: &Path, env: &[(&str, &str)], what: &str) -> Vec<(String, String, String)> {
    let mut command = wiki_browser(folder);
    let output = command.args(["doctor", "--json"]).envs(env.iter().copied()).output().unwrap();
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let word = |it: &Value, name: &str| it[name].as_str().unwrap_or_default().to_owned();
    let findings = value["findings"].as_array().unwrap().iter();
    let rows = findings.filter(|it| it["what"] == what);
    rows.map(|it| (word(it, "level"), word(it, "says"), word(it, "advice"))).collect()
}

#[test]
fn a_secret_that_is_not_there_is_a_warning_with_its_line_and_what_to_type() {
    let env = "API_KEY = wb.secret.env \"SOME_KEY\", PIN = wb.secret.file \"keys/pin\"";
    let hook = "wb.webhook \"calls\" { secret = wb.secret.env \"HOOK_KEY\",\n\
                enqueue = function() end }";
    let unused = "wb.engine \"other\" { type = \"process\", command = { \"/bin/true\" },\n\
                  prompt = \"stdin\", env = { X = wb.secret.env \"NOT_ASKED\" } }";
    let folder = site("", env, &format!("{hook}\n{unused}"));
    let path = folder.path();
    let (code, found, shown) = check(path, &[]);
    assert_eq!(code, 0, "{shown}");
    let secrets: Vec<Value> =
        found.iter().filter(|it| it["code"] == "secret-missing").cloned().collect();
    let wanted = ["secret-missing 6:38", "secret-missing 6:74", "secret-missing 9:22"];
    assert_eq!(short(&secrets), wanted, "{shown}");
    for line in [
        "engine \"one\" has no secret: the variable SOME_KEY is not set here",
        "API_KEY = wb.secret.env",
        "^^^^^^^ before wiki-browser serve, type: read -rs SOME_KEY && export SOME_KEY",
        "install -m 600 /dev/stdin '",
        "/keys/pin', then the secret, then Ctrl-D",
        "webhook \"calls\" takes no call: the variable HOOK_KEY is not set here",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(!shown.contains("NOT_ASKED"), "{shown}");
    let rows = doctor(path, &[], "secret");
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert!(rows.iter().all(|it| it.0 == "WARN" && it.1.contains("(wiki-browser.lua:")));
    assert!(rows[0].2.contains("read -rs SOME_KEY"), "{rows:?}");

    // What is there is not shown, and is no finding.
    fs::create_dir(path.join("keys")).unwrap();
    fs::write(path.join("keys/pin"), "4711-canary\n").unwrap();
    let env = [("SOME_KEY", "canary-1"), ("HOOK_KEY", "canary-2")];
    let (code, found, shown) = check(path, &env);
    assert_eq!((code, short(&found)), (0, vec!["unused 11:1".to_owned()]), "{shown}");
    let rows = doctor(path, &env, "secret");
    assert_eq!((rows.len(), rows[0].0.as_str()), (1, "OK"), "{rows:?}");
    assert!(!format!("{shown}{rows:?}").contains("canary"), "{shown} {rows:?}");
    // An empty one is as good as none.
    let (_, found, shown) = check(path, &[("SOME_KEY", ""), ("HOOK_KEY", "x")]);
    assert!(short(&found).contains(&"secret-missing 6:38".to_owned()), "{shown}");
}

#[test]
fn a_root_that_is_not_there_is_an_error() {
    let folder = site("root = \"./wiki\", data = \"./data\"", "", "");
    let (code, found, shown) = check(folder.path(), &[]);
    assert_eq!((code, short(&found)), (1, vec!["missing-root 3:11".to_owned()]), "{shown}");
    assert!(shown.contains("or type: git init '"), "{shown}");
    fs::write(folder.path().join("wiki"), "").unwrap();
    let (code, _, shown) = check(folder.path(), &[]);
    assert!(code == 1 && shown.contains("is no folder"), "{shown}");
}

#[test]
fn a_folder_of_jobs_that_is_not_there_is_a_warning() {
    let inbox = "wb.inbox \"a/b\" { about = \"A\", engine = \"one\", timeout = \"1m\",\n\
                 cwd_base = \"../wrok\", workspace = \"worktree\", repo = \"docs/guide.md\" }";
    let folder = site("", "", inbox);
    let (code, found, shown) = check(folder.path(), &[]);
    let wanted = ["missing-folder 10:1", "missing-folder 10:47"];
    let found: Vec<Value> = found.into_iter().filter(|it| it["code"] == "missing-folder").collect();
    assert_eq!((code, short(&found)), (0, wanted.map(str::to_owned).to_vec()), "{shown}");
    assert!(shown.contains("/wrok'") && shown.contains("`repo` is no folder: /"), "{shown}");
}

#[test]
fn a_glob_without_a_file_and_a_client_that_is_not_there_are_warnings() {
    let fields = "sources = { \"docs/*.md\", \"*.md\", \"doc/**\" }, wb_agent = \"./none\"";
    let folder = site(fields, "", "");
    let path = folder.path();
    let (code, found, shown) = check(path, &[]);
    let wanted = ["wb-agent-missing 3:56", "unused-glob 3:36", "unused-glob 3:44"];
    assert_eq!((code, short(&found)), (0, wanted.map(str::to_owned).to_vec()), "{shown}");
    assert!(shown.contains("^^^^^^ did you mean \"**/*.md\"?"), "{shown}");
    assert!(shown.contains("`doc/**` in `sources` matches no file below the root"), "{shown}");
    let rows = doctor(path, &[], "repository");
    assert_eq!(rows[0].0, "WARN", "{rows:?}");
    assert!(rows[0].1.contains("1 sources, none by `*.md` (wiki-browser.lua:3)"), "{rows:?}");
    // A file is enough for `check`, which starts no git.
    fs::write(path.join("top.md"), "# Top\n").unwrap();
    let (_, found, shown) = check(path, &[]);
    assert_eq!(short(&found)[1..], ["unused-glob 3:44"], "{shown}");
}

#[test]
fn a_glob_that_leaves_files_out_is_judged_by_all_files() {
    let fields = "sources = { \"**/*.md\", \"!docs/old*\" }";
    let folder = site(fields, "", "");
    let path = folder.path();
    let rows = doctor(path, &[], "repository");
    assert!(rows[0].1.contains("none by `!docs/old*`"), "{rows:?}");
    fs::write(path.join("docs/older.md"), "# Older\n").unwrap();
    git(path, &["add", "-A"]);
    let rows = doctor(path, &[], "repository");
    assert_eq!(rows[0].0, "OK", "{rows:?}");
}

#[test]
fn a_program_that_may_not_be_run_is_told_with_what_to_type() {
    let engine = "wb.engine \"two\" { type = \"process\", command = { \"./docs/guide.md\" },\n\
                  prompt = \"stdin\" }\nwb.kind \"k\" { about = \"A\", engine = \"two\", \
                  timeout = \"1m\", prompt = \"x\" }";
    let folder = site("", "", engine);
    let (_, _, shown) = check(folder.path(), &[]);
    assert!(shown.contains("`./docs/guide.md` is no executable file"), "{shown}");
    assert!(shown.contains("chmod +x '") && !shown.contains("install ./"), "{shown}");
}
