//! G31, for files that steer agents: a job's change to them affects no other agent before a person
//! decides, and programs named by a repository start only if the script allows it.

use serde_json::{Value, json};

use crate::engines::limits::read_kind;
use crate::support::Bench;

const FIELDS: &str = "timeout = \"20s\"";

fn waits_for(bench: &Bench, job: &str, by: &str) -> String {
    let waiting = bench.show(job);
    assert_eq!(waiting["status"], "queued", "{waiting:#}");
    assert_eq!(waiting["waiting"]["code"], "engine_held", "{waiting:#}");
    assert_eq!(waiting["waiting"]["job_id"], by);
    assert_eq!(waiting["waiting"]["until"], Value::Null);
    waiting["waiting"]["message"].as_str().unwrap().to_owned()
}

#[test]
fn what_a_job_changed_of_an_agents_files_holds_the_next_until_somebody_decides() {
    let bench = Bench::new();
    let write = |file: &str| format!("cd '{}' && mkdir -p .claude && echo x > {file}", bench.top);
    bench.word_kind("settles", FIELDS, &write(".claude/settings.json"));
    bench.word_kind("commits", FIELDS, &format!(
        "{} && git add AGENTS.md && git -c user.name=a -c user.email=a@b commit -q -m a AGENTS.md",
        write("AGENTS.md")
    ));
    bench.word_kind("next", FIELDS, "exit 0");
    let server = bench.serve();
    let first = bench.job("settles", json!({}));
    let ended = bench.ended(&first);
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    let warnings = ended["warnings"].to_string();
    assert!(
        warnings.contains("agent_files: .claude/settings.json can control agents"),
        "{warnings}"
    );
    // Every agent waits: who it was made for is not said.
    let second = bench.job("next", json!({}));
    let message = waits_for(&bench, &second, &first);
    for part in ["engine \"next\" is on hold", ".claude/settings.json", "job restore ", "job keep "]
    {
        assert!(message.contains(part), "{message}");
    }
    let (_, list, _) = bench.cli(&["engine", "list"]);
    assert!(list.contains("someone decides") && list.contains(".claude/settings.json"), "{list}");
    let (_, state, _) = bench.cli(&["status"]);
    assert!(state.contains("held") && state.contains("job keep"), "{state}");
    for page in [format!("/jobs/{second}"), "/jobs".to_owned()] {
        let page = bench.get(&page);
        assert!(
            page.body.as_str().unwrap().contains("files that control agents changed"),
            "{page:?}"
        );
    }
    // Lifting a provider's limit is no decision about files.
    let (code, _, refused) = bench.cli(&["engine", "release", "next"]);
    assert!(code == 5 && refused.contains("job keep"), "{refused}");
    // It holds across a restart, and ends with the decision.
    server.stop();
    let server = bench.serve();
    waits_for(&bench, &second, &first);
    assert_eq!(bench.cli(&["job", "keep", &first]).0, 0);
    assert_eq!(bench.ended(&second)["status"], "succeeded");
    // The same for what an agent has committed by itself, and for putting it back.
    let third = bench.job("commits", json!({}));
    assert_eq!(bench.ended(&third)["status"], "succeeded");
    let fourth = bench.job("next", json!({}));
    assert!(waits_for(&bench, &fourth, &third).contains("AGENTS.md"));
    let (code, out, err) = bench.cli(&["job", "restore", &third, "--commits"]);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(bench.ended(&fourth)["status"], "succeeded");
    server.stop();
}

#[test]
fn an_agent_that_would_start_what_the_repository_names_is_warned_of() {
    let bench = Bench::new();
    bench.write(".mcp.json", "{}");
    bench.write("CLAUDE.md", "Be brief.");
    let program = bench.base.join("agents/claude");
    bench.word_kind("open", FIELDS, "exit 0");
    bench.edit(|declared| {
        let with = |words: &str| format!("command = {{ \"{program}\"{words} }}");
        let script = bench.base.join("agents/open.sh");
        std::fs::copy(&script, &program).unwrap();
        declared.replace(&format!("command = {{ \"/bin/sh\", \"{script}\" }}"), &with(""))
    });
    make_executable(&program);
    let server = bench.serve();
    let told = |words: &[&str]| {
        let (code, out, err) = bench.cli(words);
        (code, format!("{out}{err}"))
    };
    let (code, said) = told(&["check"]);
    assert_eq!(code, 0, "{said}");
    for part in ["[open-agent]", ".mcp.json", "\"--strict-mcp-config\"", "disableAllHooks"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(server.log().contains("starts MCP servers"), "{}", server.log());
    let warnings = bench.ended(&bench.job("open", json!({})))["warnings"].to_string();
    assert!(warnings.contains("agent_programs: ") && warnings.contains(".mcp.json"), "{warnings}");
    // The script's own words end it.
    let flags = r#", "--strict-mcp-config", "--setting-sources=""#;
    bench.edit(|declared| {
        declared.replace(&format!("\"{program}\" }}"), &format!("\"{program}\"{flags} }}"))
    });
    bench.write_script();
    let (_, said) = told(&["check"]);
    assert!(!said.contains("open-agent"), "{said}");
    // A script may let it do what the server turns off, and is told.
    let script = std::fs::read_to_string(bench.top.join("wiki-browser.lua")).unwrap();
    for (value, said) in [
        ("CLAUDE_CODE_DISABLE_FILE_MENTIONS = \"0\"", "as @PATH"),
        ("CLAUDE_CODE_HARBOR_KITE = \"1\"", "past the server"),
        ("CLAUDE_CODE_DISABLE_CRON = \"\"", "turns by itself"),
        ("CLAUDE_CODE_DISABLE_AGENT_VIEW = \"0\"", "the job of another agent"),
    ] {
        let lets = script.replacen("env = {", &format!("env = {{ {value},"), 1);
        std::fs::write(bench.top.join("wiki-browser.lua"), lets).unwrap();
        let (_, open) = told(&["check"]);
        assert_eq!(open.matches("[open-agent]").count(), 1, "{open}");
        assert!(open.contains(said), "{said}: {open}");
    }
    std::fs::write(bench.top.join("wiki-browser.lua"), script).unwrap();
    let (_, said) = told(&["doctor"]);
    assert!(said.contains("leaves out the programs of .mcp.json"), "{said}");
    assert!(said.contains("is instructed by CLAUDE.md"), "{said}");
    assert_eq!(bench.cli(&["reload"]).0, 0);
    let warnings = bench.ended(&bench.job("open", json!({})))["warnings"].to_string();
    assert!(!warnings.contains("agent_programs"), "{warnings}");
    server.stop();
}

#[test]
fn an_agent_that_would_obey_what_nothing_keeps_out_is_not_started() {
    let bench = Bench::new();
    let program = bench.base.join("agents/opencode");
    bench.word_kind("open", FIELDS, "exit 0");
    let script = bench.base.join("agents/open.sh");
    let plain = format!("command = {{ \"/bin/sh\", \"{script}\" }}");
    let command = format!("command = {{ \"{program}\", \"--pure\" }}");
    let env = "OPENCODE_DISABLE_PROJECT_CONFIG = \"1\", XDG_CONFIG_HOME = \"data/agents\", OUT";
    std::fs::copy(&script, &program).unwrap();
    make_executable(&program);
    bench.edit(|declared| declared.replace(&plain, &command).replace("OUT", env));
    let server = bench.serve();
    assert_eq!(bench.ended(&bench.job("open", json!({})))["status"], "succeeded");
    std::fs::create_dir_all(bench.top.join(".opencode/plugin")).unwrap();
    bench.write(".opencode/plugin/e.js", "");
    let refused = bench.ended(&bench.job("open", json!({})));
    assert_eq!(
        (&refused["status"], &refused["reason"]),
        (&json!("failed"), &json!("spawn_failed"))
    );
    let message = refused["message"].as_str().unwrap();
    for part in ["was not started", ".opencode/plugin", "trusts = { "] {
        assert!(message.contains(part), "{message}");
    }
    let told = |words: &[&str]| {
        let (_, out, err) = bench.cli(words);
        format!("{out}{err}")
    };
    let said = told(&["check"]);
    assert!(said.contains("[unkept-file]") && said.contains(".opencode/plugin"), "{said}");
    assert!(!said.contains("open-agent"), "{said}");
    let said = told(&["doctor"]);
    assert!(said.contains("would obey .opencode/plugin, which nothing keeps out"), "{said}");
    // The script may say that it is wanted, by name.
    let trusting = format!("{command}, trusts = {{ \".opencode/\" }}");
    bench.edit(|declared| declared.replace(&command, &trusting));
    bench.write_script();
    assert!(!told(&["check"]).contains("unkept-file"));
    assert_eq!(bench.cli(&["reload"]).0, 0);
    assert_eq!(bench.ended(&bench.job("open", json!({})))["status"], "succeeded");
    server.stop();
}

/// Gemini takes variables from the nearest `.env` on the way up, also from above the repository.
#[test]
fn gemini_is_not_started_below_a_file_of_variables() {
    let bench = Bench::new();
    let program = bench.base.join("agents/gemini");
    bench.word_kind("open", FIELDS, "exit 0");
    let apart = format!("{FIELDS}, workspace = \"worktree\", lane = \"word\"");
    bench.word_kind("apart", &apart, "exit 0");
    for kind in ["open", "apart"] {
        let script = bench.base.join(format!("agents/{kind}.sh"));
        std::fs::copy(&script, &program).unwrap();
        let plain = format!("command = {{ \"/bin/sh\", \"{script}\" }}");
        let command = format!("command = {{ \"{program}\" }}");
        bench.edit(|declared| declared.replace(&plain, &command));
    }
    make_executable(&program);
    bench.write(".git/info/exclude", ".env\ndata\n");
    // Its own home is the account's.
    let home = bench.base.join("agents");
    let server = bench.serve_with(&[("HOME", home.as_str())]);
    let ended = |kind: &str| bench.ended(&bench.job(kind, json!({"word": "x"})));
    assert_eq!(ended("open")["status"], "succeeded");
    for place in [&bench.top, &bench.base] {
        let file = place.join(".env");
        std::fs::write(&file, "GOOGLE_GEMINI_BASE_URL=http://[::1]:1\n").unwrap();
        for kind in ["open", "apart"] {
            let refused = ended(kind);
            assert_eq!(refused["reason"], "spawn_failed", "{place} {kind}: {refused:#}");
            assert!(refused["message"].as_str().unwrap().contains(".env"), "{refused:#}");
        }
        let (_, out, err) = bench.cli(&["check"]);
        assert!(format!("{out}{err}").contains("[unkept-file]"), "{place}: {out}{err}");
        std::fs::remove_file(&file).unwrap();
    }
    assert_eq!(ended("open")["status"], "succeeded");
    server.stop();
}

/// In a worktree newer versions obey the local settings of the checkout that it belongs to, which
/// git may have been told to ignore.
#[test]
fn claude_code_is_not_started_in_a_worktree_of_a_checkout_with_such_settings() {
    let bench = Bench::new();
    let program = bench.base.join("agents/claude");
    bench.word_kind("apart", "timeout = \"20s\", workspace = \"worktree\"", "exit 0");
    let script = bench.base.join("agents/apart.sh");
    let plain = format!("command = {{ \"/bin/sh\", \"{script}\" }}");
    std::fs::copy(&script, &program).unwrap();
    make_executable(&program);
    let command = format!("command = {{ \"{program}\", \"--strict-mcp-config\" }}");
    bench.edit(|declared| declared.replace(&plain, &command));
    std::fs::create_dir_all(bench.top.join(".claude")).unwrap();
    bench.write(".git/info/exclude", ".claude\ndata\n");
    let server = bench.serve();
    let ended = || bench.ended(&bench.job("apart", json!({})));
    let settings = ".claude/settings.local.json";
    bench.write(settings, r#"{"permissions": {"allow": ["Bash"]}}"#);
    assert_eq!(ended()["status"], "succeeded", "{:#}", ended());
    bench.write(settings, r#"{"env": {"ANTHROPIC_BASE_URL": "http://[::1]:1"}}"#);
    let refused = ended();
    assert_eq!(refused["reason"], "spawn_failed", "{refused:#}");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("`env` in .claude/settings.local.json"), "{message}");
    server.stop();
}

/// `env` there beats the engine's own variables: it sends the provider's key elsewhere.
#[test]
fn claude_code_is_not_started_where_its_settings_set_variables() {
    let bench = Bench::new();
    let program = bench.base.join("agents/claude");
    bench.word_kind("open", FIELDS, "exit 0");
    let script = bench.base.join("agents/open.sh");
    let plain = format!("command = {{ \"/bin/sh\", \"{script}\" }}");
    let command = format!("command = {{ \"{program}\", \"--strict-mcp-config\" }}");
    std::fs::copy(&script, &program).unwrap();
    make_executable(&program);
    bench.edit(|declared| declared.replace(&plain, &command));
    let server = bench.serve();
    let ended = || bench.ended(&bench.job("open", json!({})));
    let told = |words: &[&str]| {
        let (_, out, err) = bench.cli(words);
        format!("{out}{err}")
    };
    std::fs::create_dir_all(bench.top.join(".claude")).unwrap();
    bench.write(".claude/settings.json", r#"{"permissions": {"allow": ["Bash"]}, "env": {}}"#);
    assert_eq!(ended()["status"], "succeeded");
    assert!(!told(&["check"]).contains("unkept-file"));
    bench.write(".claude/settings.json", r#"{"env": {"ANTHROPIC_BASE_URL": "http://[::1]:1"}}"#);
    let refused = ended();
    assert_eq!(refused["reason"], "spawn_failed", "{refused:#}");
    let message = refused["message"].as_str().unwrap();
    for part in ["was not started", "`env` in ", "trusts = { \"", ".claude/settings.json\" }"] {
        assert!(message.contains(part), "{message}");
    }
    let said = told(&["check"]);
    assert!(said.contains("[unkept-file]") && said.contains("`env` in "), "{said}");
    let said = told(&["doctor"]);
    assert!(said.contains("would obey `env` in "), "{said}");
    // Words that keep all settings out do; so does the script's own word for the file.
    for words in ["command = CLAUDE, \"--setting-sources=\" }", "command = CLAUDE }, TRUSTS"] {
        let file = message.split("trusts = { \"").nth(1).unwrap().split('"').next().unwrap();
        let with = words
            .replace("CLAUDE", command.trim_start_matches("command = ").trim_end_matches(" }"))
            .replace("TRUSTS", &format!("trusts = {{ \"{file}\" }}"));
        bench.edit(|declared| declared.replace(&command, &with));
        bench.write_script();
        assert!(!told(&["check"]).contains("unkept-file"), "{words}");
        assert_eq!(bench.cli(&["reload"]).0, 0);
        assert_eq!(ended()["status"], "succeeded", "{words}");
        bench.edit(|declared| declared.replace(&with, &command));
    }
    server.stop();
}

/// Behind a program with another name, how it talks tells which agent it is.
#[test]
fn claude_code_behind_a_script_is_not_started_where_its_settings_set_variables() {
    let bench = Bench::new();
    read_kind(&bench, "open", "claude-stream-json", "", "exit 0");
    bench.word_kind("plain", FIELDS, "exit 0");
    let server = bench.serve();
    std::fs::create_dir_all(bench.top.join(".claude")).unwrap();
    bench.write(".claude/settings.json", r#"{"env": {"ANTHROPIC_BASE_URL": "http://[::1]:1"}}"#);
    let refused = bench.ended(&bench.job("open", json!({})));
    assert_eq!(refused["reason"], "spawn_failed", "{refused:#}");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("`env` in ") && message.contains("trusts = { \""), "{message}");
    let (_, out, err) = bench.cli(&["check"]);
    let said = format!("{out}{err}");
    assert_eq!(said.matches("[unkept-file]").count(), 1, "{said}");
    assert_eq!(bench.ended(&bench.job("plain", json!({})))["status"], "succeeded");
    server.stop();
}

/// A plugin in a folder of skills starts the language servers that it names, whatever the command
/// says, with the job's token in its environment.
#[test]
fn claude_code_is_not_started_where_a_skill_is_a_plugin() {
    let bench = Bench::new();
    let program = bench.base.join("agents/claude");
    bench.word_kind("open", FIELDS, "exit 0");
    let apart = format!("{FIELDS}, workspace = \"worktree\"");
    bench.word_kind("apart", &apart, "exit 0");
    let flags = "\"--strict-mcp-config\"";
    for kind in ["open", "apart"] {
        let script = bench.base.join(format!("agents/{kind}.sh"));
        std::fs::copy(&script, &program).unwrap();
        let plain = format!("command = {{ \"/bin/sh\", \"{script}\" }}");
        let command = format!("command = {{ \"{program}\", {flags} }}");
        bench.edit(|declared| declared.replace(&plain, &command));
    }
    make_executable(&program);
    let (skills, tools) = (bench.top.join(".claude/skills"), bench.top.join("tools"));
    for folder in [skills.join("plain"), tools.join("md/.claude-plugin")] {
        std::fs::create_dir_all(folder).unwrap();
    }
    bench.write(".claude/skills/plain/SKILL.md", "Be brief.");
    bench.write("tools/md/.claude-plugin/plugin.json", r#"{"name":"md","lspServers":{}}"#);
    let server = bench.serve();
    let ended = |kind: &str| bench.ended(&bench.job(kind, json!({})));
    let told = |words: &[&str]| {
        let (_, out, err) = bench.cli(words);
        format!("{out}{err}")
    };
    assert_eq!(ended("open")["status"], "succeeded", "a skill without a plugin");
    assert!(!told(&["check"]).contains("unkept-file"));
    // Also behind a link, and in a worktree.
    std::os::unix::fs::symlink("../../tools/md", skills.join("md")).unwrap();
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-qm", "a skill"]);
    for kind in ["open", "apart"] {
        let refused = ended(kind);
        assert_eq!(refused["reason"], "spawn_failed", "{kind}: {refused:#}");
        let message = refused["message"].as_str().unwrap();
        for part in ["was not started", "trusts = { \"tools/md/.claude-plugin\" }"] {
            assert!(message.contains(part), "{message}");
        }
    }
    let said = told(&["check"]);
    assert!(said.contains("[unkept-file]") && said.contains("tools/md/.claude-plugin"), "{said}");
    let said = told(&["doctor"]);
    assert!(said.contains("would obey tools/md/.claude-plugin, which nothing keeps out"), "{said}");
    // The option that hides the skills as well, and the script's own word.
    let quiet = format!("{flags}, \"--setting-sources=\"");
    bench.edit(|declared| declared.replace(flags, &quiet));
    bench.write_script();
    assert!(!told(&["check"]).contains("unkept-file"));
    assert_eq!(bench.cli(&["reload"]).0, 0);
    assert_eq!(ended("open")["status"], "succeeded");
    let trusts = format!("{flags} }}, trusts = {{ \"tools/md\" }}");
    bench.edit(|declared| declared.replace(&format!("{quiet} }}"), &trusts));
    bench.write_script();
    assert!(!told(&["check"]).contains("unkept-file"));
    assert_eq!(bench.cli(&["reload"]).0, 0);
    assert_eq!(ended("apart")["status"], "succeeded");
    server.stop();
}

#[test]
fn what_a_job_changes_of_a_plugin_behind_a_link_holds_the_next() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.top.join(".claude/skills")).unwrap();
    std::fs::create_dir_all(bench.top.join("tools/md")).unwrap();
    bench.write("tools/md/SKILL.md", "Be brief.");
    std::os::unix::fs::symlink("../../tools/md", bench.top.join(".claude/skills/md")).unwrap();
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-qm", "a skill"]);
    let plants =
        format!("cd '{}/tools/md' && mkdir .claude-plugin && echo x > .claude-plugin/p", bench.top);
    bench.word_kind("plants", FIELDS, &plants);
    bench.word_kind("next", FIELDS, "exit 0");
    let server = bench.serve();
    let first = bench.job("plants", json!({}));
    assert_eq!(bench.ended(&first)["status"], "succeeded");
    let second = bench.job("next", json!({}));
    let message = waits_for(&bench, &second, &first);
    assert!(message.contains("tools/md/.claude-plugin/p"), "{message}");
    assert_eq!(bench.cli(&["job", "restore", &first]).0, 0);
    assert_eq!(bench.ended(&second)["status"], "succeeded");
    server.stop();
}

#[test]
fn files_that_the_script_names_for_its_agents_steer_them() {
    let bench = Bench::new();
    bench.word_kind("writes", FIELDS, &format!("echo x > '{}/tools.json'", bench.top));
    let script = bench.base.join("agents/writes.sh");
    let with = format!("\"{script}\", \"--tools={}/tools.json\" }}", bench.top);
    bench.edit(|declared| declared.replace(&format!("\"{script}\" }}"), &with));
    let server = bench.serve();
    let warnings = bench.ended(&bench.job("writes", json!({})))["warnings"].to_string();
    assert!(warnings.contains("agent_files: tools.json can control agents"), "{warnings}");
    server.stop();
}

#[test]
fn no_server_serves_with_a_data_folder_that_the_repository_fills() {
    let bench = Bench::new();
    bench.word_kind("open", FIELDS, "exit 0");
    bench.write_script();
    let file = bench.data.join("agents/opencode/opencode.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "{}").unwrap();
    bench.git(&["add", "-f", file.as_str()]);
    let (code, out, err) = bench.cli(&["serve"]);
    assert_ne!(code, 0);
    assert!(err.contains("git tracks") && err.contains("opencode.json"), "{out}{err}");
    let (_, out, err) = bench.cli(&["doctor"]);
    assert!(out.contains("git tracks"), "{out}{err}");
}

fn make_executable(file: &camino::Utf8Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let text = std::fs::read_to_string(file).unwrap();
    std::fs::write(file, format!("#!/bin/sh\n{text}")).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// What a job is compared with lies where its agent can reach it: removing or changing it while no
/// server looks hides nothing. Fails with `WB_WITHOUT=before_digest`.
#[test]
fn g31_what_was_there_before_cannot_be_hidden_by_a_restart() {
    let before = "\"$WB_JOB_FOLDER/before.json\"";
    for (hides, is_planted_later) in [
        (format!("rm {before}"), false),
        ("mv \"$WB_JOB_FOLDER\" \"$WB_JOB_FOLDER.gone\"".to_owned(), false),
        (format!("echo >> {before}"), false),
        (format!("rm {before}"), true),
    ] {
        let bench = Bench::new();
        let plants = format!("echo obey > '{}/CLAUDE.md'", bench.top);
        let waits = |name: &str| format!("until [ -e \"$OUT/{name}\" ]; do sleep 0.05; done");
        let agent = match is_planted_later {
            true => format!("{hides}; echo up > \"$OUT/up\"; {}; {plants}", waits("go")),
            false => format!("echo up > \"$OUT/up\"; {}; {plants}; {hides}", waits("go")),
        };
        let fields = format!("{FIELDS}, on_server_loss = \"keep\"");
        bench.word_kind("hides", &fields, &format!("{agent}; echo done > \"$OUT/done\""));
        bench.word_kind("next", FIELDS, "exit 0");
        let proposes = format!("{FIELDS}, produces = \"proposal\"");
        bench.topic_kind("proposes", &proposes, "echo other | propose --summary other");
        let server = bench.serve();
        let topic = bench.topic("guide.md", "The first line.", "another text");
        let approval = bench.approval(&bench.proposal("proposes", &topic));
        let first = bench.job("hides", json!({}));
        bench.wait_left("up");
        server.kill();
        let go = || std::fs::write(bench.out.join("go"), "").unwrap();
        if !is_planted_later {
            go();
            bench.wait_left("done");
            bench.quiet();
        }
        let server = bench.serve();
        if is_planted_later {
            go();
        }
        let ended = bench.ended(&first);
        assert!(ended["warnings"].to_string().contains("unwatched"), "{hides}: {ended:#}");
        let second = bench.job("next", json!({}));
        waits_for(&bench, &second, &first);
        // It might be another repository.
        assert_eq!(bench.send(&approval).refusal(), (409, "planted_repository"));
        assert_eq!(bench.cli(&["job", "keep", &first]).0, 0);
        bench.send(&approval).ok();
        server.stop();
    }
}
