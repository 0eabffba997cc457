//! `wb.inbox`: the resulting config, and messages about mistakes.

use crate::script::tests::{Site, brief, check, values};
use crate::script::{Config, OnLost, Prompt, WorkspaceMode, prompt, shown_command};

/// An engine, on line 4.
const ENGINE: &str =
    "wb.engine \"e\" { type = \"process\", command = { \"cat\" }, prompt = \"stdin\" }\n";

/// An inbox `accounts/teardown` on line 5, with more fields on line 6.
fn inbox(more: &str) -> String {
    format!("{ENGINE}wb.inbox \"accounts/teardown\" {{ about = \"a\", engine = \"e\",\n{more} }}\n")
}

fn site(more: &str) -> Site {
    let site = Site::with_head(&inbox(more));
    site.write("schemas/in.json", r#"{"type": "object", "required": ["team"]}"#);
    site
}

fn config(site: &Site) -> std::sync::Arc<Config> {
    site.loaded().config
}

/// Expects one error at a place of a site with some files, and returns its text.
#[track_caller]
fn wrong(more: &str, files: &[(&str, &str)], expected: &str) -> String {
    let site = site(more);
    for (path, text) in files {
        site.write(path, text);
    }
    let errors = site.errors();
    assert_eq!(brief(&errors), [expected], "{}", errors[0]);
    errors[0].to_string()
}

/// Its `start` is a command: the clock has a name of its own.
#[test]
fn an_inbox_has_a_clock_for_its_first_output() {
    let start_of = |engine: &str, more: &str| {
        let text = inbox(more).replace("prompt = \"stdin\"", engine);
        let loaded = Site::with_head(&text).loaded();
        let start = loaded.config.kinds["accounts/teardown"].start.map(|it| it.as_secs());
        (start, brief(&loaded.warnings))
    };
    let reads = |word: &str| format!("prompt = \"stdin\", reads = \"{word}\"");
    let (claude, opencode) = (reads("claude-stream-json"), reads("opencode-json"));
    assert_eq!(start_of(&claude, "idle = \"2m\"").0, Some(30));
    assert_eq!(start_of(&opencode, "idle = \"2m\"").0, Some(240));
    assert_eq!(start_of(&opencode, "first_output = \"1m\"").0, Some(60));
    assert_eq!(start_of("prompt = \"stdin\"", "first_output = \"1m\"").0, Some(60));
    let (start, warned) = start_of(&claude, "start = \"4m\"");
    assert_eq!(start, None);
    assert!(warned.contains(&"6:9 bad-duration".to_owned()), "{warned:?}");
}

#[test]
fn an_inbox_is_a_kind_with_an_address() {
    let site = site(
        "schema = \"schemas/in.json\", reply_schema = \"./schemas/in.json\", concurrency = 3, \
         on_lost = \"requeue\", prepare = \"git fetch\", cleanup = { \"git\", \"gc\" }, \
         start = \"cat\", workspace = \"worktree\", cwd_base = \"work\", idle = \"2m\"",
    );
    let config = config(&site);
    let kind = &config.kinds["accounts/teardown"];
    let inbox = kind.inbox.as_ref().unwrap();
    assert_eq!((&*inbox.template, &*inbox.name), ("accounts", "teardown"));
    assert_eq!(inbox.on_lost, OnLost::Requeue);
    assert_eq!(inbox.sends, ["person:*", "agent:*", "topic:*"]);
    let schema = inbox.schema.as_ref().unwrap();
    let refused = schema.require(&serde_json::json!({}), "payload", "bad_payload").unwrap_err();
    assert!(refused.message().contains("team"), "{refused}");
    assert_eq!(kind.max_running, Some(3));
    assert_eq!(kind.timeout.as_secs(), 45 * 60);
    assert_eq!((kind.start, kind.idle.map(|it| it.as_secs())), (None, Some(120)));
    assert!(kind.inputs.is_empty() && kind.lane.is_none() && kind.produces.is_none());
    let hooks = &kind.hooks;
    assert_eq!(hooks.prepare.as_deref().unwrap(), ["/bin/sh", "-c", "git fetch"]);
    assert_eq!(hooks.cleanup.as_deref().unwrap(), ["/usr/bin/env", "git", "gc"]);
    assert_eq!(shown_command(hooks.cleanup.as_deref().unwrap()), "git gc");
    assert_eq!(hooks.start.as_deref().unwrap(), ["/bin/sh", "-c", "cat"]);
    assert_eq!((hooks.timeout.as_secs(), hooks.workspace), (60, WorkspaceMode::Worktree));
    assert_eq!(hooks.repo.as_deref(), Some(&*config.site.root), "the site's by default");
    assert_eq!(hooks.cwd_base.as_deref(), Some(&*config.folder.join("work")));
    assert!(hooks.needs_workspace());
}

#[test]
fn a_kind_has_hooks_too_and_its_start_is_a_clock() {
    let site = Site::with_head(&format!(
        "{ENGINE}wb.kind \"k\" {{ about = \"a\", engine = \"e\", timeout = \"1m\", \
         prompt = \"x\", start = \"9s\", cleanup = \"true\", hook_timeout = \"9m\", \
         workspace = \"worktree\", repo = \"sub\" }}\n"
    ));
    let config = config(&site);
    let kind = &config.kinds["k"];
    assert!(kind.inbox.is_none() && kind.hooks.start.is_none());
    assert_eq!(kind.start.map(|it| it.as_secs()), Some(9));
    assert_eq!(kind.hooks.timeout.as_secs(), 9 * 60);
    assert_eq!(kind.hooks.repo.as_deref(), Some(&*config.folder.join("sub")));
}

#[test]
fn the_text_of_a_file_is_what_runs_until_a_reload() {
    let site = site("prepare = \"./hooks/p.sh\"");
    site.write("hooks/p.sh", "#!/bin/bash -e\nmkdir x\n");
    let before = config(&site);
    let path = before.folder.join("hooks/p.sh");
    let prepare = before.kinds["accounts/teardown"].hooks.prepare.clone().unwrap();
    assert_eq!(
        prepare,
        ["/bin/bash", "-e", "-c", "#!/bin/bash -e\nmkdir x\n", path.as_str()],
        "the interpreter is given the text, not the file"
    );
    assert!(before.files.iter().any(|file| file.path == "hooks/p.sh"));
    site.write("hooks/p.sh", "mkdir y\n");
    let after = config(&site);
    assert_ne!(before.digest, after.digest);
    let prepare = after.kinds["accounts/teardown"].hooks.prepare.clone().unwrap();
    assert_eq!(prepare[..3], ["/bin/sh", "-c", "mkdir y\n"]);
}

#[test]
fn a_schema_belongs_to_the_generation() {
    let site = site("schema = \"schemas/in.json\"");
    let before = config(&site);
    site.write("schemas/in.json", "{}");
    assert_ne!(before.digest, config(&site).digest);
}

#[tokio::test]
async fn the_prompt_of_an_inbox_has_the_message() {
    let all = [
        ("banner", "You handle\none message."),
        ("payload", "{\n}"),
        ("message_id", "m"),
        ("message_path", "/m"),
        ("from", "person:ada"),
        ("reply_to", ""),
    ];
    for (more, expected) in [
        ("", "You handle\none message.\n\n{\n}"),
        ("prompt = \"{{from}}: {{payload}} {{message_path}}\"", "person:ada: {\n} /m"),
        ("prompt = function(job) return job.from .. job.message_id end", "person:adam"),
    ] {
        let loaded = site(more).loaded();
        let kind = &loaded.config.kinds["accounts/teardown"];
        assert_eq!(prompt(&loaded.vm, kind, &values(&all)).await.unwrap(), expected, "{more}");
        // Whatever a sender writes into a one-line value, it stays on one line.
        let forged = values(&[("from", "a\nb"), ("banner", ""), ("payload", "")]);
        let refused = prompt(&loaded.vm, kind, &forged).await.unwrap_err();
        assert_eq!(refused.code_str(), "bad_line", "{more}");
    }
    let with_skill = config(&site("skill = \"skills/s\""));
    let Prompt::Template(text) = &with_skill.kinds["accounts/teardown"].prompt else { panic!() };
    assert!(text.starts_with("Use the {{skill}} skill.\n\n{{banner}}"), "{text}");
}

#[test]
fn a_wrong_file_is_told_with_its_fault() {
    let text = wrong("schema = \"schemas/no.json\"", &[], "6:10 missing-schema");
    assert!(text.contains("there is no schemas/no.json"), "{text}");
    let text = wrong("schema = \"schemas/inn.json\"", &[], "6:10 missing-schema");
    assert!(text.contains("did you mean `schemas/in.json`?"), "{text}");
    let broken = [("schemas/x.json", "{\n  \"type\": ,\n}")];
    let text = wrong("schema = \"schemas/x.json\"", &broken, "6:10 bad-schema");
    assert!(text.contains("schemas/x.json: no JSON: expected value at line 2"), "{text}");
    let odd = [("schemas/x.json", r#"{"type": "team"}"#)];
    let text = wrong("reply_schema = \"schemas/x.json\"", &odd, "6:16 bad-schema");
    assert!(
        text.contains("schemas/x.json: no JSON schema: type: \"team\" is not a type"),
        "{text}"
    );
    let far = [("schemas/x.json", r#"{"$ref": "https://example.org/x"}"#)];
    wrong("schema = \"schemas/x.json\"", &far, "6:10 bad-schema");
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    wrong("schema = \"schemas/x.json\"", &[("schemas/x.json", &deep)], "6:10 bad-schema");
    let large = " ".repeat(65 * 1024);
    wrong("schema = \"schemas/x.json\"", &[("schemas/x.json", &large)], "6:10 missing-schema");
    wrong("schema = \"../x.json\"", &[], "6:10 bad-path");
    wrong("schema = \"/etc/hostname\"", &[], "6:10 bad-path");
    wrong("prepare = \"./none.sh\"", &[], "6:11 missing-hook");
    wrong("prepare = \"../none.sh\"", &[], "6:11 bad-path");
    let perl = [("p", "#!/usr/bin/perl\n")];
    let text = wrong("prepare = \"./p\"", &perl, "6:11 bad-hook");
    assert!(text.contains("write a list"), "{text}");
    let long = format!("true # {}", "x".repeat(17 * 1024));
    wrong("cleanup = \"./p\"", &[("p", &long)], "6:11 missing-hook");
}

#[test]
fn a_file_that_is_none_is_never_waited_for() {
    use std::os::unix::fs::symlink;
    let site = site("schema = \"schemas/x.json\"");
    let path = site.path().join("schemas/x.json");
    fifo(&path);
    assert_eq!(brief(&site.errors()), ["6:10 missing-schema"]);
    std::fs::remove_file(&path).unwrap();
    symlink("in.json", &path).unwrap();
    assert_eq!(brief(&site.errors()), ["6:10 missing-schema"]);
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(brief(&site.errors()), ["6:10 missing-schema"]);
    // For the script itself, not even its invalid bytes are searched for.
    let script = site.path().join("wiki-browser.lua");
    std::fs::remove_file(&script).unwrap();
    fifo(&script);
    let report = crate::script::load(&script).unwrap_err();
    assert!(format!("{report:?}").contains("is not a file"), "{report:?}");
}

/// Creates a pipe that nobody writes to.
#[allow(clippy::disallowed_methods, reason = "a test makes a pipe")]
pub(super) fn fifo(path: &camino::Utf8Path) {
    let made = std::process::Command::new("/usr/bin/mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

#[test]
fn every_mistake_has_its_place_and_what_to_type() {
    for (more, expected, note) in [
        ("concurrency = 65", "6:15 out-of-range", "lower it"),
        ("concurrency = 0", "6:15 out-of-range", "write 1"),
        ("on_lost = \"retry\"", "6:11 unknown-word", "fail"),
        ("prepare = \"\"", "6:11 bad-text", "write prepare = "),
        ("prepare = {}", "6:11 bad-text", "write prepare = "),
        ("prepare = 1", "6:11 wrong-type", "shell text"),
        ("prepare = { \"a\", 1 }", "6:11 wrong-type", "write prepare = "),
        ("prepare = { \"./a.sh\", \"x\" }", "6:11 bad-text", "\"./NAME.sh\""),
        ("prepare = \"a\\0b\"", "6:11 bad-text", "write prepare = "),
        ("prepare = \"true\", hook_timeout = \"11m\"", "6:34 out-of-range", "write \"10m\""),
        ("workspace = \"own\"", "6:13 unknown-word", "worktree"),
        ("sends = { \"everybody\" }", "6:11 bad-address", "person:*"),
        ("sends = { \"approval:aws\" }", "6:11 bad-address", "channel:NAME"),
        ("prompt = \"{{paylod}}\"", "6:11 unknown-name", "did you mean `payload`?"),
        ("inputs = {}", "6:1 unknown-field", "expected one of"),
        ("lane = \"x\"", "6:1 unknown-field", "expected one of"),
        ("max_running = 3", "6:1 unknown-field", "expected one of"),
        ("repo = \"~/x\"", "6:8 bad-path", "write the whole path"),
        ("prepare = \"x\", cwd_template = \"/w/x\"", "6:31 bad-template", "{{message_id}}"),
        (
            "prepare = \"x\", cwd_template = \"/w/{{message_id}}/{{x}}\"",
            "6:31 unknown-name",
            "{{cwd_base}}",
        ),
        (
            "prepare = \"x\", cwd_template = \"{{cwd_base}}/{{message_id}}\"",
            "6:16 missing-field",
            "write cwd_base",
        ),
        (
            "workspace = \"worktree\", prepare = \"x\", cwd_template = \"/w/{{message_id}}\"",
            "6:40 broken-rule",
            "leave one out",
        ),
    ] {
        let text = check(&inbox(more), &[expected]);
        assert!(text.contains(note), "{more}: {text}");
    }
    let twice = check(&format!("{}{}", inbox(""), &inbox("")[ENGINE.len()..]), &["7:1 duplicate"]);
    assert!(twice.contains("first declared at"), "{twice}");
}

#[test]
fn a_monitor_is_a_kind_that_is_given_its_worker() {
    let kind = |name: &str, fields: &str| {
        format!(
            "wb.kind \"{name}\" {{ about = \"a\", engine = \"e\", timeout = \"1m\", \
             prompt = \"p\", {fields} }}\n"
        )
    };
    let head = |monitor: &str| inbox(&format!("monitor = \"{monitor}\""));
    let worker = "inputs = { worker = wb.input.line() }";
    let site = Site::with_head(&format!("{}{}", head("watch"), kind("watch", worker)));
    let config = config(&site);
    let of = config.kinds["accounts/teardown"].inbox.as_ref().unwrap();
    assert_eq!(of.monitor.as_deref(), Some("watch"));
    for (monitor, fields, code, note) in [
        ("wach", worker, "unknown-kind", "did you mean `watch`?"),
        ("accounts/teardown", worker, "broken-rule", "wb.kind"),
        ("watch", "inputs = { worker = wb.input.flag() }", "broken-rule", "wb.input.line()"),
        ("watch", "", "broken-rule", "wb.input.line()"),
        (
            "watch",
            "inputs = { worker = wb.input.line(), other = wb.input.line() }",
            "broken-rule",
            "optional",
        ),
        (
            "watch",
            "inputs = { worker = wb.input.line() }, produces = \"result\"",
            "broken-rule",
            "remove `produces`",
        ),
    ] {
        let script = format!("{}{}", head(monitor), kind("watch", fields));
        let column = if code == "unknown-kind" { 11 } else { 1 };
        let text = check(&script, &[&format!("6:{column} {code}")]);
        assert!(text.contains(note), "{monitor} {fields}: {text}");
    }
}

#[test]
fn a_name_has_two_parts() {
    for name in
        ["teardown", "a/b/c", "a/", "/b", "a/b c", "-a/b", "ä/b", &format!("{}/b", "a".repeat(64))]
    {
        let text = format!("{ENGINE}wb.inbox \"{name}\" {{ about = \"a\", engine = \"e\" }}\n");
        let said = check(&text, &["5:1 bad-name"]);
        assert!(said.contains("write TEMPLATE/NAME"), "{said}");
    }
    let kind = "about = \"a\", engine = \"e\", timeout = \"1m\", prompt = \"x\"";
    check(&format!("{ENGINE}wb.kind \"a/b\" {{ {kind} }}\n"), &["5:1 bad-name"]);
}

#[test]
fn only_messages_start_its_jobs_and_only_programs_run_them() {
    let builtin = "wb.engine \"suggestions\" { type = \"builtin\" }\n\
        wb.inbox \"a/b\" { about = \"a\",\nengine = \"suggestions\" }\n";
    let text = check(builtin, &["6:1 broken-rule"]);
    assert!(text.contains("type \"process\""), "{text}");
    let scheduled = format!(
        "{}wb.schedule \"s\" {{ every = \"1h\",\nenqueue = {{ kind = \"accounts/teardown\" }} }}\n",
        inbox("")
    );
    let text = check(&scheduled, &["8:13 broken-rule"]);
    assert!(text.contains("which takes messages"), "{text}");
    let typed = "wb.send { to = \"topic:accounts/teardown\", payload = … }";
    assert!(text.contains(&format!("write enqueue = function() {typed} end")), "{text}");
    let with_payload = format!(
        "{}wb.schedule \"s\" {{ every = \"1h\",\nenqueue = {{ kind = \"accounts/teardown\", \
         payload = {{}} }} }}\n",
        inbox("")
    );
    let text = check(&with_payload, &["8:51 wrong-type"]);
    assert!(text.contains("wb.send { to = \"…\", payload = { … } }"), "{text}");
    let of_agent = "\
        wb.engine \"e\" { type = \"stream\", speaks = \"lines\", command = { \"x\" } }\n\
        wb.agent \"robbo\" { about = \"a\", engine = \"e\" }\n\
        wb.schedule \"s\" { every = \"1h\", enqueue = { kind = \"@robbo\" } }\n";
    let text = check(of_agent, &["6:45 broken-rule"]);
    assert!(text.contains("names agent \"robbo\", which takes messages"), "{text}");
    let hasty = "\
        wb.engine \"e\" { type = \"stream\", speaks = \"lines\", command = { \"x\" } }\n\
        wb.agent \"robbo\" { about = \"a\", engine = \"e\",\nprobe_after = \"59s\" }\n";
    let text = check(hasty, &["6:15 out-of-range"]);
    assert!(text.contains("must be at least 1m"), "{text}");
}

#[test]
fn an_inbox_may_be_spoken_to_in_words_that_say_when_a_turn_ends() {
    let on = |engine: &str, fields: &str| {
        format!(
            "wb.engine \"e\" {{ command = {{ \"x\" }}, {engine} }}\n\
             wb.inbox \"a/b\" {{ about = \"a\",\nengine = \"e\",\n{fields} }}\n\
             wb.limits {{ jobs = 4 }}\n"
        )
    };
    let warned = |text: &str| brief(&Site::with_head(text).loaded().warnings);
    for speaks in ["lines", "claude-stream-json", "codex-app-server", "pi-rpc"] {
        let engine = format!("type = \"stream\", speaks = \"{speaks}\"");
        assert_eq!(warned(&on(&engine, "after_turn = \"1m\"")), [""; 0]);
        assert_eq!(warned(&on(&engine, "after_turn = \"1h\"")), ["7:1 shadowed"]);
        let text = check(&on(&engine, "start = \"exec x\""), &["7:1 broken-rule"]);
        assert!(text.contains("replaces an engine that is spoken to"), "{text}");
    }
    let typed = "type = \"terminal\", hooks = { \"{{hooks_file}}\" }";
    let text = check(&on(typed, ""), &["6:1 broken-rule"]);
    assert!(text.contains("an engine of type \"process\" or \"stream\""), "{text}");
    let plain = "type = \"process\", prompt = \"stdin\"";
    assert_eq!(warned(&on(plain, "after_turn = \"1m\"")), ["7:1 shadowed"]);
}

#[test]
fn what_is_hardly_meant_is_warned_of() {
    let warned = |rest: &str| {
        let loaded = Site::with_head(rest).loaded();
        brief(&loaded.warnings)
    };
    assert_eq!(warned(&inbox("")), ["5:1 one-slot"]);
    let with = |more: &str| warned(&format!("{}wb.limits {{ jobs = 4 }}\n", inbox(more)));
    assert_eq!(with(""), [""; 0]);
    assert_eq!(with("prompt = \"Tear it down.\""), ["6:1 unused-input"]);
    assert_eq!(with("prompt = \"Read {{message_path}}.\""), [""; 0]);
    assert_eq!(with("concurrency = 5"), ["6:1 shadowed"]);
    assert_eq!(with("hook_timeout = \"5s\""), ["6:1 shadowed"]);
    assert_eq!(with("cwd_template = \"/w/{{message_id}}\""), ["6:1 shadowed"]);
    // A command, not a clock that could be longer than the run.
    assert_eq!(with("start = \"sleep 1\", timeout = \"1s\""), [""; 0]);
}

#[test]
fn a_command_that_runs_otherwise_than_it_reads_is_a_warning() {
    for (fields, expected) in [
        ("cleanup = { \"rm -rf scratch\" }", "blanks in its name"),
        ("prepare = { \"mkdir\", \"$WORKTREE_PATH\" }", "nothing fills `$WORKTREE_PATH`"),
        ("prepare = \"schemas/in.json\", cwd_base = \"work\"", "in another folder"),
        ("prepare = { \"sh\", \"-c\", \"echo $HOME\" }, cleanup = \"rm -rf a/b\"", ""),
    ] {
        let loaded = site(fields).loaded();
        let found = loaded.warnings.iter().filter(|it| it.code == "unlike-hook");
        let found: Vec<&str> = found.map(|it| it.message.as_str()).collect();
        assert_eq!(found.len(), usize::from(!expected.is_empty()), "{fields}: {found:?}");
        assert!(found.iter().all(|it| it.contains(expected)), "{fields}: {found:?}");
    }
}
