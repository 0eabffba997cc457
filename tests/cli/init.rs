//! `wiki-browser init`.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

use super::wiki_browser;

/// Returns a repository without a commit and without any identity.
pub(crate) fn repository() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    git(folder.path(), &["init", "-q"]);
    folder
}

/// Runs git and returns what it prints.
pub(crate) fn git(folder: &Path, args: &[&str]) -> String {
    let mut git = Command::new("git");
    git.current_dir(folder).env("HOME", folder).args(args);
    String::from_utf8(git.assert().success().get_output().stdout.clone()).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(here) = waiting.pop() {
        for entry in fs::read_dir(here).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name() == ".git" {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                waiting.push(entry.path());
            } else {
                let path = entry.path();
                names.push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    names.sort();
    names
}

const WRITTEN: [&str; 8] = [
    ".agents/skills",
    ".claude/skills",
    ".gitignore",
    "agents/plain-reader.md",
    "skills/wb-incorporate/SKILL.md",
    "skills/wb-perspective/SKILL.md",
    "tests/incorporate.lua",
    "wiki-browser.lua",
];

#[test]
fn a_new_site_has_a_script_skills_and_a_persona() {
    let folder = repository();
    let output = wiki_browser(folder.path()).arg("init").unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("next:\n  git add wiki-browser.lua skills/"), "{text}");
    assert!(text.ends_with("&& git commit -m \"A wiki-browser site\"\n  wiki-browser serve\n"));
    assert_eq!(names(folder.path()), WRITTEN);
    let skill = fs::read_to_string(folder.path().join(".claude/skills/wb-incorporate/SKILL.md"));
    assert!(skill.unwrap().contains("name: wb-incorporate"));
    assert_eq!(fs::read_to_string(folder.path().join(".gitignore")).unwrap(), "/data/\n");
}

#[test]
fn a_folder_of_others_is_not_taken_for_the_data_folder() {
    let folder = repository();
    fs::create_dir_all(folder.path().join("data/agents/opencode")).unwrap();
    let output = wiki_browser(folder.path()).arg("init").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(5) && said.contains("data"), "{said}");
    assert!(!folder.path().join("wiki-browser.lua").exists());
}

#[test]
fn a_second_time_nothing_is_changed_and_everything_in_the_way_is_named() {
    let folder = repository();
    wiki_browser(folder.path()).arg("init").assert().success();
    fs::write(folder.path().join("wiki-browser.lua"), "mine").unwrap();
    let assert = wiki_browser(folder.path()).args(["init", "--json"]).assert().code(5);
    let error: Value = serde_json::from_slice(&assert.get_output().stderr).unwrap();
    assert_eq!(error["error"]["code"], "in_the_way");
    let message = error["error"]["message"].as_str().unwrap();
    for name in ["wiki-browser.lua", "agents/plain-reader.md", "skills/wb-incorporate/SKILL.md"] {
        assert!(message.contains(name), "{message}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("wiki-browser.lua")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(folder.path().join(".gitignore")).unwrap(), "/data/\n");
}

#[test]
fn files_that_the_site_would_read_as_its_own_are_in_the_way() {
    let folder = repository();
    for (path, text) in [
        ("agents/README.md", "# Our agents\n"),
        ("agents/reviewer.md", "---\nname: reviewer\ndescription: Reviews\n---\nYou review.\n"),
        ("agents/lead.md", "---\nengine: nobody\n---\nYou lead.\n"),
        ("agents/ada.md", "---\nname: ada\nabout: Reads\n---\nYou read.\n"),
        ("agents/more/x.md", "x"),
        ("tests/x_spec.lua", "describe(\"x\", function() end)\n"),
        ("tests/ours.lua", "local t = require \"wb.test\"\n"),
        ("tests/x.py", "x"),
    ] {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let init = |args: &[&str]| wiki_browser(folder.path()).arg("init").args(args).output().unwrap();
    let refused = init(&["--json"]);
    assert_eq!(refused.status.code(), Some(5));
    let error: Value = serde_json::from_slice(&refused.stderr).unwrap();
    let message = error["error"]["message"].as_str().unwrap();
    let named = "agents/README.md, agents/lead.md, agents/reviewer.md, tests/x_spec.lua";
    assert!(message.ends_with(named), "{message}");
    let hint = error["error"]["hint"].as_str().unwrap();
    assert!(hint.contains("wiki-browser init wiki --root .."), "{hint}");
    assert!(!folder.path().join("wiki-browser.lua").exists());
    // The way out works.
    assert!(init(&["wiki", "--root", ".."]).status.success());
    let checked = wiki_browser(&folder.path().join("wiki")).arg("check").output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

#[test]
fn a_dry_run_writes_nothing() {
    let folder = repository();
    let output = wiki_browser(folder.path()).args(["init", "site", "--dry-run", "--json"]).unwrap();
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["written"].as_array().unwrap().len(), WRITTEN.len());
    assert_eq!(value["dry_run"], true);
    assert!(names(folder.path()).is_empty());
    assert!(!folder.path().join("site").exists());
}

#[test]
fn a_site_needs_a_work_tree_a_root_and_an_author() {
    let folder = tempfile::tempdir().unwrap();
    let assert = wiki_browser(folder.path()).args(["init", "--json"]).assert().code(2);
    let error: Value = serde_json::from_slice(&assert.get_output().stderr).unwrap();
    assert_eq!(error["error"]["code"], "no_work_tree");
    assert!(error["error"]["hint"].as_str().unwrap().contains("git init"));
    let bare = tempfile::tempdir().unwrap();
    git(bare.path(), &["init", "-q", "--bare"]);
    let assert = wiki_browser(bare.path()).arg("init").assert().code(2);
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(said.contains("is a bare repository") && said.contains("clone it"), "{said}");
    let folder = repository();
    for args in [
        &["init", "--root", "nowhere"][..],
        &["init", "--root", "../../.."],
        &["init", "--name", ""],
        &["init", "--name", "a\nb"],
        &["init", "--email", "<a@b>"],
        &["init", ".git/x"],
        &["init", "--engine", "magic"],
    ] {
        wiki_browser(folder.path()).args(args).assert().code(2);
    }
    assert!(names(folder.path()).is_empty());
}

#[test]
fn a_site_in_its_own_folder_serves_the_repository_around_it() {
    let folder = repository();
    let args = ["init", "my wiki", "--root", "..", "--engine", "suggestions", "--name", "A \"B\""];
    let output = wiki_browser(folder.path()).args(args).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("wiki-browser serve --config 'my wiki/wiki-browser.lua'"), "{text}");
    let script = fs::read_to_string(folder.path().join("my wiki/wiki-browser.lua")).unwrap();
    assert!(script.contains("root    = \"..\","), "{script}");
    assert!(script.contains("author_name  = \"A \\\"B\\\"\","), "{script}");
    assert!(!script.contains("\"claude\""), "{script}");
}

/// Gemini's shell refuses every command that holds one.
#[test]
fn no_skill_asks_for_a_substituted_command() {
    let folder = repository();
    wiki_browser(folder.path()).arg("init").assert().success();
    for skill in ["wb-incorporate", "wb-perspective"] {
        let path = folder.path().join("skills").join(skill).join("SKILL.md");
        let text = fs::read_to_string(path).unwrap();
        assert!(!text.contains("$(") && !text.contains("<("), "{skill}");
    }
}

#[test]
fn a_new_site_passes_its_own_check() {
    for engine in ["claude", "codex", "opencode", "gemini", "pi", "suggestions"] {
        let folder = repository();
        let args = ["init", "--engine", engine, "--name", "Ü \"Q\" \\n ]] --", "--email", "a@b.c"];
        wiki_browser(folder.path()).args(args).assert().success();
        let output = wiki_browser(folder.path()).args(["check", "--print", "--json"]).unwrap();
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(value["ok"], true, "{engine}");
        for warning in value["warnings"].as_array().unwrap() {
            // What Claude Code may do is the operator's to know, and it may not be there.
            let code = warning["code"].as_str().unwrap();
            assert!(["skips-permissions", "engine-missing"].contains(&code), "{engine}: {code}");
        }
        // Its first test says nothing of where the documents of the site are.
        if engine != "suggestions" {
            let script = folder.path().join("wiki-browser.lua");
            let text = fs::read_to_string(&script).unwrap();
            let narrow = text.replace("\"**/*.md\"", "\"book/src/**/*.md\"");
            assert_ne!(text, narrow);
            fs::write(script, narrow).unwrap();
            wiki_browser(folder.path()).arg("test").assert().success();
        }
        let identity = &value["config"]["identity"];
        assert_eq!(identity["author_name"], "Ü \"Q\" \\n ]] --");
        assert_eq!(identity["author_email"], "a@b.c");
        assert_eq!(value["config"]["kinds"]["incorporate"]["engine"], engine);
    }
}
