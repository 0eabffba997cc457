//! `wiki-browser new`: its files pass `check` at once, and a refusal changes nothing.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::init::repository;
use super::{envelope, wiki_browser};
use crate::support::Patience;

fn site(engine: &str) -> tempfile::TempDir {
    let folder = repository();
    wiki_browser(folder.path()).args(["init", "--engine", engine]).assert().success();
    folder
}

fn script(folder: &Path) -> String {
    fs::read_to_string(folder.join("wiki-browser.lua")).unwrap()
}

fn checked(folder: &Path) -> Value {
    let output = wiki_browser(folder).args(["check", "--print", "--json"]).unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_new_agent_brings_its_engine_once_and_passes_check() {
    let folder = site("claude");
    let path = folder.path();
    for args in [
        &["robbo", "--about", "Knows the \"forge\""][..],
        &["paula", "--markdown", "--about", "Reads: everything"],
        &["carl", "--engine", "claude-live"],
    ] {
        wiki_browser(path).args(["new", "agent"]).args(args).assert().success();
        let value = checked(path);
        assert_eq!(value["ok"], true, "{args:?}: {value:#}");
        let kind = &value["config"]["kinds"][format!("@{}", args[0])];
        assert_eq!(kind["engine"], "claude-live", "{value:#}");
        assert_eq!(kind["agent"]["autostart"], "on_message");
    }
    assert_eq!(script(path).matches("wb.engine \"claude-live\"").count(), 1);
    let kinds = checked(path)["config"]["kinds"].clone();
    assert_eq!(kinds["@robbo"]["about"], "Knows the \"forge\"");
    assert_eq!(kinds["@paula"]["about"], "Reads: everything");
    let before = script(path);
    for (args, code) in [
        (&["robbo"][..], "exists"),
        (&["paula", "--markdown"], "exists"),
        (&["a b"], "bad_name"),
        (&["dora", "--engine", "claude"], "bad_input"),
        (&["dora", "--engine", "nosuch"], "unknown_engine"),
    ] {
        let output = wiki_browser(path).args(["new", "agent"]).args(args).arg("--json").output();
        let output = output.unwrap();
        assert!(!output.status.success(), "{args:?}");
        assert_eq!(envelope(&output.stderr)["code"], code, "{args:?}");
    }
    assert_eq!(script(path), before);
}

#[test]
fn every_shape_of_a_kind_passes_check_and_test_at_once() {
    let folder = site("claude");
    let path = folder.path();
    for (name, args) in [
        ("answer", &["--produces", "message"][..]),
        ("plain", &[]),
        ("translate", &["--produces", "proposal", "--inputs", "language=choice:de/fr,hint=text?"]),
        ("page", &["--produces", "proposal", "--inputs", "source_path=source:new,word=line"]),
        ("view-as", &["--produces", "perspective", "--about", "A \"view\" \\ ]] --"]),
        ("german", &["--produces", "proposal", "--inputs", "from=source,to=source:new"]),
        ("both", &["--produces", "proposal", "--inputs", "topic_id=topic,style=source"]),
        ("links", &["--produces", "result"]),
        ("stale", &["--produces", "result", "--inputs", "none"]),
        ("whole", &["--inputs", "none"]),
        ("marks", &["--produces", "topic"]),
        ("count", &["--produces", "result", "--inputs", "end=number,deep=flag?"]),
        ("apply-2", &["--engine", "suggestions"]),
    ] {
        let before = script(path);
        wiki_browser(path).args(["new", "kind", name]).args(args).assert().success();
        assert!(script(path).starts_with(before.trim_end()), "{name}");
        let value = checked(path);
        assert_eq!(value["ok"], true, "{name}: {value:#}");
        let about_it = |it: &&Value| {
            let code = it["code"].as_str().unwrap();
            !["skips-permissions", "engine-missing"].contains(&code)
        };
        let warnings: Vec<&Value> =
            value["warnings"].as_array().unwrap().iter().filter(about_it).collect();
        assert!(warnings.is_empty(), "{name}: {warnings:?}");
        assert_eq!(value["config"]["kinds"][name]["name"], name);
    }
    let tested = wiki_browser(path).args(["test", "--json"]).assert().success();
    let tested: Value = serde_json::from_slice(&tested.get_output().stdout).unwrap();
    // Two of the site, three of each kind, and two of the one that is told nothing.
    assert_eq!(tested["passed"], 2 + 12 * 3 + 2, "{tested:#}");
    let kinds = checked(path)["config"]["kinds"].clone();
    assert_eq!(kinds["whole"]["inputs"], kinds["stale"]["inputs"]);
    assert_eq!(kinds["view-as"]["about"], "A \"view\" \\ ]] --");
    let output = wiki_browser(path).args(["render", "count", "end=3"]).unwrap();
    let prompt = String::from_utf8(output.stdout).unwrap();
    assert!(prompt.contains("Use the count skill."), "{prompt}");
    let skill = fs::read_to_string(path.join("skills/answer/SKILL.md")).unwrap();
    assert!(skill.contains("post-message --topic-id='<Topic ID>'"), "{skill}");
    let skill = fs::read_to_string(path.join("skills/german/SKILL.md")).unwrap();
    for said in ["source** if it exists: the file `<Repo root>/<To>`", "also** the file `<Repo r"] {
        assert!(skill.contains(said), "{said}: {skill}");
    }
    assert!(skill.contains("insert-proposal --source-path='<To>'"), "{skill}");
    assert_eq!(kinds["stale"]["sees_site"], true);
}

#[test]
fn what_is_refused_says_what_to_type_and_changes_nothing() {
    let folder = site("claude");
    let path = folder.path();
    fs::create_dir(path.join("skills/taken")).unwrap();
    let before = script(path);
    for (args, code, hint) in [
        (&["kind", "My Kind"][..], 2, "wiki-browser new kind my-kind"),
        (&["kind", "incorporate"], 5, "choose another name"),
        (&["kind", "taken"], 5, "mv skills/taken"),
        (&["kind", "x", "--engine", "codex"], 2, "it has claude, suggestions"),
        (&["kind", "x", "--inputs", "word"], 2, "write NAME=TYPE: word=line"),
        (&["kind", "x", "--inputs", "topic_id=line"], 2, "leave it out, or rename yours"),
        (&["kind", "x", "--inputs", "job_id=line"], 2, "nothing was written"),
        (&["kind", "x", "--inputs", "a=blob:b"], 2, "nothing was written"),
        (&["kind", "x", "--produces", "message", "--engine", "suggestions"], 2, "declare one"),
        (&["kind", "x", "--file", "other.lua"], 2, "it has wiki-browser.lua"),
        (&["kind", "x", "--about", ""], 2, "enter one line of text"),
        (&["persona", "a b"], 2, "wiki-browser new persona a-b"),
        (&["persona", "plain-reader"], 5, "choose another name"),
        (&["persona", "x", "--paths", "[z"], 2, ""),
    ] {
        let output = wiki_browser(path).arg("new").args(args).arg("--json").output().unwrap();
        let error = envelope(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        assert!(error["hint"].as_str().unwrap().contains(hint), "{args:?}: {error}");
    }
    assert_eq!(script(path), before);
    assert!(!path.join("skills/x").exists() && !path.join("agents/x.md").exists());
    fs::write(path.join("wiki-browser.lua"), format!("{before}\nwb.sit {{}}\n")).unwrap();
    let output = wiki_browser(path).args(["new", "kind", "x", "--json"]).output().unwrap();
    assert!(envelope(&output.stderr)["hint"].as_str().unwrap().contains("wiki-browser check"));
    assert!(!path.join("skills/x").exists());
}

#[test]
fn a_kind_can_stand_in_a_required_file_and_a_dry_run_writes_nothing() {
    let folder = site("claude");
    let path = folder.path();
    fs::create_dir(path.join("kinds")).unwrap();
    let module = "local w = require 'wb'\r\nlocal M = {}\r\nreturn M\r\n";
    fs::write(path.join("kinds/more.lua"), module).unwrap();
    fs::write(path.join("wiki-browser.lua"), script(path) + "require \"kinds.more\"\n").unwrap();
    let args = ["new", "kind", "x", "--file", "kinds/more.lua"];
    wiki_browser(path).args(args).arg("--dry-run").assert().success();
    assert_eq!(fs::read_to_string(path.join("kinds/more.lua")).unwrap(), module);
    wiki_browser(path).args(args).assert().success();
    let text = fs::read_to_string(path.join("kinds/more.lua")).unwrap();
    assert!(text.contains("w.kind \"x\" {\r\n") && text.ends_with("return M\r\n"), "{text}");
    assert_eq!(checked(path)["config"]["kinds"]["x"]["name"], "x");
}

#[test]
fn a_persona_passes_check_and_test_at_once() {
    let folder = site("claude");
    let path = folder.path();
    for (name, args) in [
        ("critic", &[][..]),
        ("Ops-2", &["--about", "On call: \"wants\" steps \\ only", "--paths", "docs/**,*.md"]),
    ] {
        wiki_browser(path).args(["new", "persona", name]).args(args).assert().success();
    }
    assert_eq!(checked(path)["ok"], true);
    let text = fs::read_to_string(path.join("agents/Ops-2.md")).unwrap();
    assert!(text.contains("paths: [\"docs/**\", \"*.md\"]\n"), "{text}");
    let tested = wiki_browser(path).args(["test", "--filter", "persona", "--json"]).unwrap();
    let tested: Value = serde_json::from_slice(&tested.stdout).unwrap();
    assert_eq!((&tested["ok"], &tested["passed"]), (&true.into(), &2.into()), "{tested:#}");
    // Without an agent there is no kind that shows anything to a persona, and no test of it.
    let folder = site("suggestions");
    let path = folder.path();
    wiki_browser(path).args(["new", "persona", "critic"]).assert().success();
    assert!(!path.join("tests/persona-critic.lua").exists());
    wiki_browser(path).arg("test").assert().success();
    let output = wiki_browser(path).args(["new", "kind", "x", "--json"]).output().unwrap();
    let error = envelope(&output.stderr);
    assert!(error["hint"].as_str().unwrap().contains("wb.engine \"claude\" {"), "{error}");
}

/// Runs the program on a terminal, where a person types these keys; returns the screen.
fn typed(folder: &Path, line: &str, keys: &str) -> String {
    let line = format!("exec '{}' {line}", env!("CARGO_BIN_EXE_wiki-browser"));
    let mut command = assert_cmd::Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).current_dir(folder);
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("TERM", "xterm");
    command.env("SHELL", "/bin/sh").env("LANG", "C.UTF-8");
    let output = command.write_stdin(keys).timeout(Patience::MAX).output().unwrap();
    String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n")
}

#[test]
fn a_terminal_is_asked_for_what_is_not_given() {
    let folder = repository();
    let path = folder.path();
    let keys = "magic\n6\nnowhere\n.\nAna\nAna B. <a@b.c>\n";
    let screen = typed(path, "init", keys);
    for said in ["enter a number from 1 to 6", "is not a folder", "write Wiki Agent <agent@"] {
        assert!(screen.contains(said), "{said}: {screen}");
    }
    let text = script(path);
    assert!(text.contains("author_name  = \"Ana B.\",") && !text.contains("claude"), "{text}");
    // Enter takes what is offered, and an end of the input writes nothing.
    let engine =
        "wb.engine \"cat\" { type = \"process\", command = { \"cat\" }, prompt = \"stdin\" }\n";
    fs::write(path.join("wiki-browser.lua"), text + engine).unwrap();
    let screen =
        typed(path, "new kind look", "result\n\nwords=lin\nsource_path=source,words=line\n");
    assert!(screen.contains("What does a job of \"look\" leave behind?"), "{screen}");
    assert!(screen.contains("did you mean `line`?"), "{screen}");
    let look = &checked(path)["config"]["kinds"]["look"];
    assert_eq!(
        (&look["produces"], &look["inputs"][1]["name"]),
        (&"result".into(), &"words".into())
    );
    let other = repository();
    let screen = typed(other.path(), "init", "\u{4}");
    assert!(screen.contains("nothing was written"), "{screen}");
    assert!(!other.path().join("wiki-browser.lua").exists());
}

#[test]
fn a_new_inbox_passes_check_and_test_at_once() {
    let folder = site("claude");
    let path = folder.path();
    for args in
        [&["accounts/teardown"][..], &["Lead/provision", "--markdown", "--about", "A \"b\": #c"]]
    {
        wiki_browser(path).args(["new", "inbox"]).args(args).assert().success();
        let value = checked(path);
        assert_eq!(value["ok"], true, "{args:?}: {value:#}");
        let kind = &value["config"]["kinds"][args[0]];
        assert_eq!(kind["inbox"]["schema"]["required"][0], "text", "{value:#}");
        assert!(kind["inbox"]["reply_schema"].is_object());
        // The same once more is refused, and nothing is written.
        let before = script(path);
        let refused = wiki_browser(path).args(["new", "inbox"]).args(args).assert().failure();
        let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        assert!(said.contains("is already declared"), "{said}");
        assert_eq!(script(path), before);
    }
    assert_eq!(checked(path)["config"]["kinds"]["Lead/provision"]["about"], "A \"b\": #c");
    wiki_browser(path).args(["test"]).assert().success();
    for (name, hint) in [("teardown", "TEMPLATE/NAME"), ("a/b/c", "TEMPLATE/NAME")] {
        let refused = wiki_browser(path).args(["new", "inbox", name]).assert().code(2);
        let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        assert!(said.contains(hint), "{said}");
    }
    let other = ["new", "inbox", "Lead/retire", "--markdown"];
    let refused = wiki_browser(path).args(other).assert().failure();
    let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(said.contains("add the topic to that file"), "{said}");
}
