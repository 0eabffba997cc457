//! Both programs as a person or an agent calls them, without a server.

mod agent;
mod backup;
mod beyond;
pub(crate) mod desk;
mod doctor;
mod field;
mod follow;
mod init;
mod job;
mod many;
mod new;
mod operations;
mod people;
mod proposal;
mod restore;
mod restored;
mod script;
mod serve;
mod site;
mod suggestions;
mod terminal;
mod topic;
mod types;

use assert_cmd::Command;
use serde_json::Value;

/// Returns the operator's program in a folder, with a clean environment.
pub(crate) fn wiki_browser(folder: &std::path::Path) -> Command {
    program(env!("CARGO_BIN_EXE_wiki-browser"), folder)
}

/// Returns the agent's program in a folder, with a clean environment.
pub(crate) fn wb_agent(folder: &std::path::Path) -> Command {
    program(env!("CARGO_BIN_EXE_wb-agent"), folder)
}

fn program(path: &str, folder: &std::path::Path) -> Command {
    let mut command = Command::new(path);
    command.current_dir(folder);
    for name in ["WB_SOCKET", "WB_TOKEN", "WB_JOB_ID"] {
        command.env_remove(name);
    }
    command.timeout(std::time::Duration::from_secs(20));
    command
}

pub(crate) fn envelope(bytes: &[u8]) -> Value {
    let value: Value = serde_json::from_slice(bytes)
        .unwrap_or_else(|_| panic!("not JSON: {}", String::from_utf8_lossy(bytes)));
    value["error"].clone()
}

#[test]
fn every_command_explains_itself() {
    let folder = tempfile::tempdir().unwrap();
    let mut waiting: Vec<Vec<String>> = vec![Vec::new()];
    let mut seen = 0;
    while let Some(path) = waiting.pop() {
        let output = wiki_browser(folder.path()).args(&path).arg("--help").unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(help.contains("Usage: wiki-browser"), "{path:?}: {help}");
        seen += 1;
        let commands = help.split("Commands:\n").nth(1).unwrap_or_default();
        for line in commands.lines().take_while(|line| line.starts_with("  ")) {
            let Some(name) = line.split_whitespace().next().filter(|name| *name != "help") else {
                continue;
            };
            if line.starts_with("   ") {
                continue;
            }
            waiting.push(path.iter().cloned().chain([name.to_owned()]).collect());
        }
    }
    assert!(seen >= 30, "{seen}");
    // What a command refuses it does not offer.
    let output = wiki_browser(folder.path()).args(["serve", "--help"]).unwrap();
    assert!(!String::from_utf8_lossy(&output.stdout).contains("--data"));
    for args in [&["serve", "--data", "x"][..], &["--data", "x", "serve"]] {
        let assert = wiki_browser(folder.path()).args(args).assert().code(2);
        let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(said.contains("serve takes no --data"), "{args:?}: {said}");
    }
    let args = ["topic", "create", "--source", "a.md", "--body", "x"];
    let assert = wiki_browser(folder.path()).args(args).assert().code(2);
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(said.contains("--quote") && said.contains("--global"), "{said}");
    wb_agent(folder.path()).arg("--help").assert().success();
}

#[test]
fn without_a_server_every_request_exits_6_and_says_how_to_start_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("wiki-browser.lua"), "").unwrap();
    let id = "018bcfe5-6800-7000-8000-000000000000";
    for args in [
        &["status"][..],
        &["login"],
        &["events"],
        &["job", "list"],
        &["job", "show", "7f3a"],
        &["job", "follow", id],
        &["job", "create", "incorporate", "topic_id=7f3a"],
        &["topic", "list", "--source", "a.md"],
        &["topic", "create", "--source", "a.md", "--global", "--body", "x"],
        &["proposal", "approve", id, "--yes"],
        &["proposal", "diff", id],
        &["source", "show", "a.md"],
    ] {
        let assert = wiki_browser(folder.path()).args(args).assert().code(6);
        let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(text.starts_with("error: no server is running"), "{args:?}: {text}");
        assert!(text.contains("\nhint: start it with: wiki-browser serve"), "{args:?}: {text}");
        let assert = wiki_browser(folder.path()).args(args).arg("--json").assert();
        if !args.contains(&"approve") {
            let error = envelope(&assert.code(6).get_output().stderr);
            assert_eq!(error["code"], "no_server", "{args:?}");
        }
    }
}

#[test]
fn what_is_wrong_with_the_arguments_exits_2() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("wiki-browser.lua"), "").unwrap();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    let server = r#"{"socket":"wb.sock"}"#;
    std::fs::write(folder.path().join("data/server.json"), server).unwrap();
    std::fs::write(folder.path().join("data/operator.token"), "t").unwrap();
    for args in [
        &["frobnicate"][..],
        &["job", "list", "--limit", "0"],
        &["job", "list", "--status", "done"],
        &["job", "show", "xyz"],
        &["job", "create", "incorporate", "topic"],
        &["topic", "create", "--source", "../a.md", "--global", "--body", "x"],
        &["topic", "create", "--source", "a.md", "--body", "x"],
        &["topic", "create", "--source", "a.md", "--global", "--quote", "x"],
        &["source", "show", "/etc/passwd"],
        &["proposal", "reject", "7f3a"],
        &["proposal", "approve", "7f3a"],
        &["status", "--field", "x", "--json"],
        &["serve", "--data", "x"],
    ] {
        let assert = wiki_browser(folder.path()).args(args).assert().code(2);
        let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        let start = if args.contains(&"--json") { "{\"error\":{" } else { "error: " };
        assert!(text.starts_with(start), "{args:?}: {text}");
    }
    let assert = wiki_browser(folder.path()).args(["frobnicate", "--json"]).assert().code(2);
    assert_eq!(envelope(&assert.get_output().stderr)["code"], "usage");
}

#[test]
fn outside_of_a_site_the_operator_is_told_where_to_go() {
    let folder = tempfile::tempdir().unwrap();
    let assert = wiki_browser(folder.path()).args(["status", "--json"]).assert().code(4);
    let error = envelope(&assert.get_output().stderr);
    assert_eq!(error["code"], "no_site");
    assert!(error["hint"].as_str().unwrap().contains("wiki-browser init"));
    wiki_browser(folder.path()).args(["serve"]).assert().code(4);
}

#[test]
fn an_agent_without_a_token_exits_3_and_without_a_server_6() {
    let folder = tempfile::tempdir().unwrap();
    let id = "--id=018bcfe5-6800-7000-8000-000000000000";
    let assert = wb_agent(folder.path()).args(["get-topic", id]).assert().code(3);
    let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(text.starts_with("error: no token: wb-agent works inside a job\nhint: "), "{text}");
    let mut command = wb_agent(folder.path());
    command.env("WB_TOKEN", "t").env("WB_SOCKET", folder.path().join("wb.sock"));
    let assert = command.args(["get-topic", id, "--json"]).assert().code(6);
    assert_eq!(envelope(&assert.get_output().stderr)["code"], "no_server");
    let mut command = wb_agent(folder.path());
    let assert = command.env("WB_TOKEN", "t").args(["get-topic", id]).assert().code(4);
    assert!(String::from_utf8_lossy(&assert.get_output().stderr).contains("wiki-browser.lua"));
}

#[test]
fn an_agents_text_is_checked_before_it_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let base = "a".repeat(40);
    let id = "018bcfe5-6800-7000-8000-000000000000";
    let insert = ["insert-proposal", "--topic-id", id, "--base-sha", &base];
    let huge = vec![b'x'; 8 * 1024 * 1024 + 1];
    for (stdin, why) in
        [(&b""[..], "is empty"), (b"a\xff", "not UTF-8 at byte 1"), (&huge, "longer than 8388608")]
    {
        let mut command = wb_agent(folder.path());
        command.env("WB_TOKEN", "t").env("WB_SOCKET", folder.path().join("wb.sock"));
        let assert = command.args(insert).write_stdin(stdin).assert().code(2);
        let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(text.contains(why), "{text}");
    }
    for args in [&["get-topic", "--id=../x"][..], &["get-topic"], &["nothing"], &[]] {
        wb_agent(folder.path()).env("WB_TOKEN", "t").args(args).assert().code(2);
    }
}

#[test]
fn the_verbs_are_told_as_json_without_a_job() {
    let folder = tempfile::tempdir().unwrap();
    let output = wb_agent(folder.path()).args(["help", "--json"]).unwrap();
    let table: Value = serde_json::from_slice(&output.stdout).unwrap();
    let verbs: Vec<&str> =
        table["verbs"].as_array().unwrap().iter().map(|it| it["verb"].as_str().unwrap()).collect();
    for verb in ["get-topic", "list-open-topics", "insert-proposal", "post-message", "finish"] {
        assert!(verbs.contains(&verb), "{verbs:?}");
    }
    assert!(!verbs.iter().any(|verb| verb.starts_with("__")));
    wb_agent(folder.path()).args(["help", "finish"]).assert().success();
    wb_agent(folder.path()).args(["help", "nothing"]).assert().code(2);
}

/// What the parser's own search for similar names does not find.
#[test]
fn a_verb_without_its_noun_and_half_an_option_are_recognized() {
    let folder = tempfile::tempdir().unwrap();
    for (line, tip) in [
        (&["discard", "81bc"][..], "did you mean `wiki-browser topic discard`?"),
        (&["person", "add", "bo", "--name", "Bo"], "did you mean `--display-name`?"),
    ] {
        let run = |args: &[&str]| {
            let mut command = program(env!("CARGO_BIN_EXE_wiki-browser"), folder.path());
            let assert = command.args(args).assert().code(2).stdout("");
            String::from_utf8(assert.get_output().stderr.clone()).unwrap()
        };
        let said = run(line);
        assert!(said.contains(tip), "{said}");
        let json = run(&[line, &["--json"]].concat());
        assert_eq!(envelope(json.as_bytes())["hint"], tip, "{json}");
    }
}
