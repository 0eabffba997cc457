//! `wiki-browser check`.

use std::fs;

use serde_json::Value;

use super::{envelope, wiki_browser};

#[test]
fn a_wrong_script_exits_1_and_is_told_with_its_lines() {
    let folder = tempfile::tempdir().unwrap();
    let script = "local wb = require \"wb\"\nwb.api(1)\nwb.site { rooot = \".\", data = \"./data\" }\n\
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
