//! `wiki-browser types`, and a checker from the ecosystem that reads what it writes.

use std::fs;
use std::path::Path;
use std::process::Output;

use super::init::repository;
use super::wiki_browser;

const STUBS: &str = ".wiki-browser/types/wb.lua";

#[test]
fn what_is_written_is_up_to_date_until_it_is_changed() {
    let folder = repository();
    let path = folder.path();
    wiki_browser(path).args(["init", "--engine", "suggestions"]).assert().success();
    wiki_browser(path).args(["types", "--check"]).assert().code(1);
    wiki_browser(path).arg("types").assert().success();
    wiki_browser(path).args(["types", "--check"]).assert().success();
    let stubs = fs::read_to_string(path.join(STUBS)).unwrap();
    fs::write(path.join(STUBS), format!("{stubs}\n")).unwrap();
    wiki_browser(path).args(["types", "--check", "--field", "stale.0"]).assert().code(1);
    wiki_browser(path).arg("types").assert().success();
    assert_eq!(fs::read_to_string(path.join(STUBS)).unwrap(), stubs);
    // Settings of one's own stay, and the command says what is missing in them.
    fs::write(path.join(".luarc.json"), "{}").unwrap();
    wiki_browser(path).args(["types", "--check"]).assert().code(1);
    let said = wiki_browser(path).arg("types").assert().success();
    let said = String::from_utf8_lossy(&said.get_output().stderr).into_owned();
    assert!(said.contains("\"workspace.library\": [\".wiki-browser/types\"]"), "{said}");
    assert_eq!(fs::read_to_string(path.join(".luarc.json")).unwrap(), "{}");
}

/// Tests as `new kind` writes them: what a job has left may be nothing.
const FINE: &str = "local t = require \"wb.test\"\n
t.test(\"x\", function()
  local topic = t.topic { source_path = \"guide.md\", body = \"Why?\" }
  local job = t.run(\"answer\", { topic_id = topic }, { message = \"An answer.\" })
  t.contains(job.message, \"answer\")
  t.matches(job.proposal, \"^#\")
end)
";

/// The lines that the checker names, each with its code.
fn named(folder: &Path, file: &str) -> (Vec<(usize, String)>, Output) {
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/target/tools/bin/emmylua_check");
    let mut command = assert_cmd::Command::new(tool);
    command.args([".", "--output-format", "json", "--output", "found.json"]).current_dir(folder);
    let output = command.output().expect("scripts/test installs emmylua_check into target/tools");
    let found = fs::read(folder.join("found.json")).unwrap();
    let found: serde_json::Value = serde_json::from_slice(&found).unwrap();
    let mut lines = Vec::new();
    for it in found.as_array().unwrap() {
        if !it["file"].as_str().unwrap().ends_with(file) {
            continue;
        }
        for one in it["diagnostics"].as_array().unwrap() {
            let line = one["range"]["start"]["line"].as_u64().unwrap() as usize + 1;
            lines.push((line, one["code"].as_str().unwrap_or_default().to_owned()));
        }
    }
    lines.sort();
    (lines, output)
}

#[test]
#[ignore = "long: scripts/test builds the checker first, and then runs this"]
fn an_editor_finds_nothing_in_the_example_and_every_deliberate_mistake() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::copy(root.join("wiki-browser.lua"), path.join("wiki-browser.lua")).unwrap();
    fs::copy(root.join("tests/data/mistakes.lua"), path.join("mistakes.lua")).unwrap();
    fs::create_dir(path.join("tests")).unwrap();
    fs::copy(root.join("tests/perspective.lua"), path.join("tests/perspective.lua")).unwrap();
    let wrong = path.join("tests/test-mistakes.lua");
    fs::copy(root.join("tests/data/test-mistakes.lua"), wrong).unwrap();
    wiki_browser(path).arg("types").assert().success();
    fs::write(path.join("tests/fine.lua"), FINE).unwrap();
    for file in ["wiki-browser.lua", "tests/perspective.lua", "tests/fine.lua"] {
        let (fine, output) = named(path, file);
        assert!(fine.is_empty(), "{fine:?} {}", String::from_utf8_lossy(&output.stderr));
    }
    every_mistake_is_found(path, "mistakes.lua", 15);
    every_mistake_is_found(path, "tests/test-mistakes.lua", 8);
}

/// Each line of a file that says what is found there is found, and no other one.
fn every_mistake_is_found(path: &Path, file: &str, least: usize) {
    let text = fs::read_to_string(path.join(file)).unwrap();
    let expected: Vec<(usize, String)> = text
        .lines()
        .enumerate()
        .filter_map(|(place, line)| Some((place + 1, line.split_once("-- finds ")?.1.to_owned())))
        .collect();
    assert!(expected.len() >= least);
    let (found, _) = named(path, &format!("/{file}"));
    for one in &expected {
        assert!(found.contains(one), "{one:?}: {found:?}");
    }
    // One mistake may have several names, but each is on a line that has one.
    for one in &found {
        assert!(expected.iter().any(|it| it.0 == one.0), "{one:?}");
    }
}
