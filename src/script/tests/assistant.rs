//! `wb.assistant`: what it becomes, and what is said of mistakes.

use std::time::Duration;

use crate::script::Mode;
use crate::script::tests::{Site, check};

/// An engine on line 4, and an assistant with these fields from line 5 on.
fn assistant(fields: &str) -> String {
    format!(
        "wb.engine \"c\" {{ type = \"process\", command = {{ \"claude\" }}, prompt = \"stdin\", \
         reads = \"claude-stream-json\" }}\nwb.assistant {{ {fields} }}\n"
    )
}

#[test]
fn an_assistant_has_a_kind_that_no_list_has() {
    let site = Site::with_head(&assistant(
        "runtimes = { claude_code = \"c\" }, claude_code_persons = { \"ada\" }, persons = { \
         \"ada\", \"bea\" }, limits = { run = \"10m\", running = 2, output_kib = 8 }",
    ));
    let loaded = site.loaded();
    let config = &loaded.config;
    let found = config.assistant.as_ref().unwrap();
    assert_eq!(found.mode, Mode::ClaudeCode);
    assert!(found.admits("bea") && !found.admits("cleo"));
    assert!(found.admits_to(Mode::ClaudeCode, "ada") && !found.admits_to(Mode::ClaudeCode, "bea"));
    assert_eq!((found.limits.output_bytes, found.limits.prompt_bytes), (8 * 1024, 64 * 1024));
    assert_eq!((config.chat.running, config.chat.running_person), (2, 2));
    assert!(config.kinds.is_empty() && config.kind("assistant_claude_code").is_none());
    let kind = config.kind_of_job("assistant_claude_code").unwrap();
    assert_eq!((kind.timeout, kind.engine.as_str()), (Duration::from_secs(600), "c"));
    let codes: Vec<&str> = loaded.warnings.iter().map(|it| it.code).collect();
    assert_eq!(codes, ["assistant-unsandboxed"]);
}

#[test]
fn what_is_not_built_yet_is_refused_by_name() {
    let text = check(
        &assistant("runtimes = { anthropic_api_key = \"c\" }, mode = \"gateway_subscription\""),
        &["5:49 not-built-yet", "5:63 not-built-yet"],
    );
    assert!(text.contains("the mode anthropic_api_key of the assistant is not built yet"));
    assert!(text.contains("the mode gateway_subscription of the assistant is not built yet"));
}

#[test]
fn mistakes_of_an_assistant_are_told_with_their_place() {
    for (fields, expected) in [
        ("runtimes = {}", "5:16 bad-text"),
        ("runtimes = { claud_code = \"c\" }", "5:29 unknown-word"),
        ("runtimes = { claude_code = \"x\" }", "5:29 unknown-engine"),
        ("runtimes = { claude_code = \"c\" }, limits = { run = \"1d\" }", "5:63 out-of-range"),
        ("runtimes = { claude_code = \"c\" }, limits = { running = 201 }", "5:63 out-of-range"),
    ] {
        let errors = Site::with_head(&assistant(fields)).errors();
        let codes: Vec<&str> = errors.iter().map(|it| it.code).collect();
        let code = expected.split_once(' ').unwrap().1;
        assert_eq!(codes, [code], "{fields}: {}", errors[0]);
        assert_eq!(errors[0].at.as_ref().unwrap().line, 5);
    }
    let plain = "wb.engine \"e\" { type = \"process\", command = { \"cat\" }, \
        prompt = \"stdin\" }\nwb.assistant { runtimes = { claude_code = \"e\" } }\n";
    let errors = Site::with_head(plain).errors();
    assert!(errors[0].to_string().contains("reads = \"claude-stream-json\""), "{}", errors[0]);
}

#[test]
fn no_kind_takes_a_name_of_the_assistant() {
    let kind = "wb.engine \"e\" { type = \"process\", command = { \"cat\" }, \
        prompt = \"stdin\" }\nwb.kind \"assistant_mine\" { about = \"a\", engine = \"e\", \
        timeout = \"5m\", prompt = \"x\" }\n";
    let errors = Site::with_head(kind).errors();
    assert!(errors.iter().any(|it| it.code == "bad-name"), "{}", errors[0]);
}
