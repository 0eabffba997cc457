//! `wiki-browser check` and `render`.

use std::fs;

use serde_json::Value;

use super::init::{git, repository};
use super::{envelope, wiki_browser};

#[test]
fn a_wrong_script_exits_1_and_is_told_with_its_lines() {
    let folder = tempfile::tempdir().unwrap();
    let script = "local wb = require \"wb\"\nwb.api(1)\n\
        wb.site { rooot = \".\", data = \"./data\" }\n\
        wb.identity { author_name = \"A\", author_email = \"a@b.c\" }\n";
    fs::write(folder.path().join("wiki-browser.lua"), script).unwrap();
    let assert = wiki_browser(folder.path()).arg("check").assert().code(1);
    let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    assert!(text.contains("--> wiki-browser.lua:3:"), "{text}");
    let assert = wiki_browser(folder.path()).args(["check", "--json"]).assert().code(1);
    let value: Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    assert_eq!(value["ok"], false);
    let errors = value["errors"].as_array().unwrap();
    let error = errors.iter().find(|it| it["code"] == "unknown-field").unwrap();
    assert_eq!(error["at"]["line"], 3);
    let args = ["check", "--field", "ok"];
    wiki_browser(folder.path()).args(args).assert().code(1).stdout("false\n");
    wiki_browser(folder.path()).args(["render", "incorporate"]).assert().code(1);
}

#[test]
fn what_is_not_built_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let assert = wiki_browser(folder.path()).args(["check", "--deep", "--json"]).assert().code(6);
    assert_eq!(envelope(&assert.get_output().stderr)["code"], "not_built");
}

#[test]
fn without_a_script_there_is_nothing_to_check() {
    let folder = tempfile::tempdir().unwrap();
    for args in [&["check"][..], &["check", "--config", "none.lua"], &["render", "incorporate"]] {
        wiki_browser(folder.path()).args(args).assert().code(4);
    }
}

#[test]
fn a_prompt_is_rendered_without_a_server() {
    let folder = repository();
    let path = folder.path();
    wiki_browser(path).args(["init", "--engine", "claude"]).assert().success();
    fs::write(path.join("guide.md"), "# Guide\n").unwrap();
    git(path, &["add", "guide.md"]);
    let id = "018bcfe5-6800-7000-8000-000000000000";
    let topic = format!("topic_id={id}");
    let args = ["render", "incorporate", &topic, "source_path=guide.md"];
    let assert = wiki_browser(path).args(args).assert().success();
    let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    let blob = git(path, &["hash-object", "guide.md"]);
    assert!(text.contains(&format!("Base source SHA: {blob}")), "{text}");
    assert!(
        text.contains(&format!("Topic ID:        {id}\nSource path:     guide.md\n")),
        "{text}"
    );
    assert!(text.contains("/wb-agent\n"), "{text}");
    for (args, code) in [
        (&["render", "incorporate", &topic][..], 2),
        (&["render", "incorporate", "topic_id=7f3a", "source_path=guide.md"], 2),
        (&["render", "incorporate", &topic, "source_path=none.md"], 4),
        (&["render", "incorporate", &topic, &topic], 2),
        (&["render", "nothing"], 2),
        (&["render", "incorporate", "colour=red"], 2),
    ] {
        wiki_browser(path).args(args).assert().code(code);
    }
}
