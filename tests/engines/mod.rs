//! Engines: recorded output of Claude Code, printed by scripts that act as agents.

mod handlers;
pub(crate) mod limits;
mod silence;
mod transcript;

use serde_json::Value;

use crate::support::{Bench, shell};

/// Declares a kind whose engine is read as Claude Code is.
fn claude_kind(bench: &Bench, fields: &str, agent: &str) {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");
    let file = bench.base.join("agents/claude.sh");
    std::fs::write(&file, format!("DATA='{data}'\n{agent}\n")).unwrap();
    let out = &bench.out;
    bench.lua(&format!(
        r#"wb.engine "claude" {{
  type = "process", command = {{ "/bin/sh", "{file}" }}, prompt = "stdin",
  reads = "claude-stream-json", env = {{ OUT = "{out}" }},
}}
wb.kind "ask" {{
  about = "A test", engine = "claude", {fields},
  inputs = {{ word = wb.input.line {{ required = false, default = "none" }} }},
  prompt = [[{{{{word}}}}]],
}}
"#
    ));
}

/// Has the output of an engine read.
fn reads(bench: &Bench, name: &str, form: &str) {
    bench.edit(|declared| {
        let (before, after) =
            declared.split_at(declared.find(&format!("engine \"{name}\"")).unwrap());
        let reads = format!("prompt = \"stdin\", reads = \"{form}\",");
        format!("{before}{}", after.replacen("prompt = \"stdin\",", &reads, 1))
    });
}

fn costs(job: &Value) -> f64 {
    job["cost_usd"].as_f64().unwrap_or_default()
}

#[test]
fn why_claude_could_not_work_is_what_the_operator_reads() {
    let bench = Bench::new();
    let agent = "cat \"$DATA/claude-stream-refused.jsonl\"; exit 1";
    claude_kind(&bench, "timeout = \"20s\"", agent);
    let server = bench.serve();
    let (code, out, err) = bench.cli(&["job", "create", "ask", "--wait"]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("Agent failed. See log.\n  Invalid API key"), "{err}");
    // Once, although it is both the end of the output and the summary.
    assert_eq!(err.matches("Invalid API key").count(), 1, "{err}");
    let jobs = bench.get("/api/agent/jobs").ok();
    let job = &jobs["items"][0];
    assert_eq!(job["reason"], "exit_status");
    assert_eq!(job["error_tail"], "Invalid API key · Fix external API key");
    assert_eq!(job["usage"]["is_error"], true);
    assert_eq!(job["session_ref"].as_str().unwrap().len(), 36);
    server.stop();
}

#[test]
fn the_result_of_claude_does_not_decide_but_its_numbers_are_kept() {
    let bench = Bench::new();
    let agent = "cat \"$DATA/claude-stream-partial.jsonl\"; exit 0";
    claude_kind(&bench, "timeout = \"20s\"", agent);
    let server = bench.serve();
    let id = bench.job("ask", serde_json::json!({}));
    let job = bench.ended(&id);
    assert_eq!(job["status"], "succeeded", "{job:#}");
    assert!(costs(&job) > 0.2, "{job:#}");
    assert_eq!(job["usage"]["turns"], 6);
    let stream = bench.get(&format!("/api/agent/jobs/{id}/stream")).ok();
    let types: Vec<&str> =
        stream["items"].as_array().unwrap().iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!((types[0], types[types.len() - 1]), ("start", "done"), "{types:?}");
    assert_eq!(types.iter().filter(|it| **it == "tool_result").count(), 4);
    server.stop();
}

/// As the real one: it prints its result, with the cost, when it is interrupted.
#[test]
fn what_an_agent_cost_is_known_although_its_server_was_killed() {
    let bench = Bench::new();
    // What it starts to print its last words must not be ended before.
    bench.limits("jobs = 4, grace = \"10s\"");
    let agent = "trap 'cat \"$DATA/claude-stream-cancelled.jsonl\"; exit 0' INT\n\
        echo ready > \"$OUT/ready\"; while :; do sleep 0.05; done";
    claude_kind(&bench, "timeout = \"20s\"", agent);
    let server = bench.serve();
    let id = bench.job("ask", serde_json::json!({}));
    bench.wait_left("ready");
    server.kill();
    let server = bench.serve();
    let job = bench.ended(&id);
    assert_eq!((&job["status"], &job["reason"]), (&"failed".into(), &"server_restarted".into()));
    assert_eq!(job["message"], "Agent failed: server restarted.");
    assert!(costs(&job) > 0.0, "{job:#}");
    assert_eq!(job["session_ref"].as_str().unwrap().len(), 36);
    server.stop();
}

#[test]
fn an_agent_that_was_not_allowed_to_work_is_known_by_a_warning() {
    let bench = Bench::new();
    let line = r#"{"type":"result","is_error":false,"permission_denials":[{},{},{}]}"#;
    claude_kind(&bench, "timeout = \"20s\"", &format!("echo '{line}'"));
    let server = bench.serve();
    let job = bench.ended(&bench.job("ask", serde_json::json!({})));
    assert_eq!(job["warnings"], serde_json::json!(["permission_denials: 3"]), "{job:#}");
    server.stop();
}

#[test]
fn an_agent_inherits_the_servers_environment_but_for_the_session_of_another_agent() {
    let bench = Bench::new();
    claude_kind(&bench, "timeout = \"20s\"", "env | sort > \"$OUT/env\"");
    let secrets = [
        ("CLAUDE_CODE_MESSAGING_TOKEN", "s3cret"),
        ("CLAUDECODE", "1"),
        ("AI_AGENT", "another"),
        ("WB_TOKEN", "of another job"),
        ("CLAUDE_CODE_MAX_RETRIES", "3"),
    ];
    let server = bench.serve_with(&secrets);
    let job = bench.ended(&bench.job("ask", serde_json::json!({})));
    let env = bench.left("env");
    let value = |name: &str| {
        env.lines().find_map(|it| it.strip_prefix(&format!("{name}=")).map(str::to_owned))
    };
    assert_eq!(value("CLAUDE_CODE_MAX_RETRIES").as_deref(), Some("3"));
    assert_eq!(value("WB_JOB_ID").as_deref(), job["id"].as_str());
    assert_eq!(value("WB_SOCKET").unwrap(), bench.socket().as_str());
    assert_eq!(value("GIT_CONFIG_KEY_0").as_deref(), Some("gc.auto"));
    assert!(value("PATH").is_some() && value("HOME").is_some() && value("WB_TOKEN").is_some());
    assert!(!env.contains("another") && !env.contains("s3cret"), "{env}");
    assert_eq!(value("CLAUDECODE"), None);
    server.stop();
}

/// Claude Code puts each file into its prompt that a text names.
#[test]
fn no_word_of_a_text_makes_claude_read_a_file() {
    let bench = Bench::new();
    let agent = "cat > \"$OUT/prompt\"; echo \"$CLAUDE_CODE_DISABLE_FILE_MENTIONS\" > \"$OUT/env\"";
    claude_kind(&bench, "timeout = \"20s\"", agent);
    let server = bench.serve_with(&[("CLAUDE_CODE_DISABLE_FILE_MENTIONS", "0")]);
    let word = "@guide.md by @alice: see @/no/../etc/passwd @../../../../../../etc/passwd";
    let job = bench.ended(&bench.job("ask", serde_json::json!({"word": word})));
    assert_eq!(job["status"], "succeeded", "{job:#}");
    let whole = "\u{2060}@guide.md by @alice: see \u{2060}@/no/../etc/passwd \
                 \u{2060}@../../../../../../etc/passwd";
    assert_eq!(bench.left("prompt"), whole);
    assert_eq!(bench.left("env"), "1");
    server.stop();
}

/// Its sessions would talk past the server, take turns that nobody asked for, and move into the
/// jobs of others.
#[test]
fn claude_neither_talks_past_the_server_nor_takes_turns_by_itself() {
    let bench = Bench::new();
    let names =
        ["CLAUDE_CODE_HARBOR_KITE", "CLAUDE_CODE_DISABLE_CRON", "CLAUDE_CODE_DISABLE_AGENT_VIEW"];
    let agent = format!("echo \"${} ${} ${}\" > \"$OUT/env\"", names[0], names[1], names[2]);
    claude_kind(&bench, "timeout = \"20s\"", &agent);
    let server = bench.serve_with(&[(names[0], "1"), (names[1], "0"), (names[2], "")]);
    let ended = || bench.ended(&bench.job("ask", serde_json::json!({})));
    let job = ended();
    assert_eq!(job["status"], "succeeded", "{job:#}");
    assert_eq!(bench.left("env"), "0 1 1");
    // The script's own words count.
    bench.edit(|declared| declared.replace("env = {", &format!("env = {{ {} = \"0\",", names[1])));
    bench.write_script();
    assert_eq!(bench.cli(&["reload"]).0, 0);
    ended();
    assert_eq!(bench.left("env"), "0 0 1");
    server.stop();
}

/// Keys are in the environment of the server or of an engine; a job's folder is kept for long.
#[test]
fn no_variable_that_may_be_a_key_is_written_down() {
    let bench = Bench::new();
    claude_kind(&bench, "timeout = \"20s\"", "env > \"$OUT/env\"");
    let server = bench.serve_with(&[("ANTHROPIC_API_KEY", "sk-s3cret"), ("LC_ALL", "C")]);
    let job = bench.ended(&bench.job("ask", serde_json::json!({})));
    assert_eq!(job["status"], "succeeded", "{job:#}");
    let env = bench.left("env");
    assert!(env.contains("ANTHROPIC_API_KEY=sk-s3cret"));
    let token = env.lines().find_map(|it| it.strip_prefix("WB_TOKEN=")).unwrap();
    let folder = bench.data.join("jobs").join(job["id"].as_str().unwrap());
    let launch = std::fs::read_to_string(folder.join("launch.json")).unwrap();
    assert!(launch.contains("LC_ALL") && launch.contains("PATH"), "{launch}");
    assert!(!launch.contains("s3cret") && !launch.contains(token), "{launch}");
    let names = r#""private_names":["ANTHROPIC_API_KEY","OUT","WB_TOKEN"]"#;
    assert!(launch.contains(names), "{launch}");
    let found = shell(&format!("grep -rl s3cret '{}' || true", bench.data));
    assert_eq!(found, "");
    server.stop();
}

/// An environment that the guard cannot be told is refused, not shortened.
#[test]
fn an_environment_that_is_too_long_is_said_to_be() {
    let bench = Bench::new();
    claude_kind(&bench, "timeout = \"20s\"", "exit 0");
    let server = bench.serve_with(&[("BULK", &"x".repeat(100_000))]);
    let job = bench.ended(&bench.job("ask", serde_json::json!({})));
    assert_eq!(job["reason"], "spawn_failed");
    let tail = job["error_tail"].as_str().unwrap();
    assert!(tail.contains("the environment and the secrets of the script are too long"), "{tail}");
    server.stop();
}

#[test]
fn an_agent_is_told_who_opened_the_other_topics() {
    let bench = Bench::new();
    let agent = "\"$wb_agent\" list-open-topics --source-path \"$path\" > \"$OUT/open.json\"";
    bench.topic_kind("look", "timeout = \"20s\"", agent);
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    let job = bench.ended(&bench.job_on("look", &topic));
    assert_eq!(job["status"], "succeeded", "{job:#}");
    let open: Value = serde_json::from_str(&bench.left("open.json")).unwrap();
    assert_eq!(open[0]["topic"]["created_by_name"], "ada", "{open:#}");
    server.stop();
}

/// Why a proposal was sent back is for the next agent, as material; of many, the last ten.
#[test]
fn a_rejection_reaches_the_next_agent() {
    let bench = Bench::new();
    let fields = "timeout = \"20s\", produces = \"proposal\"";
    let agent = "\"$wb_agent\" get-topic --id \"$topic\" > \"$OUT/topic.json\"\n\
        printf \"$job\\n\" | propose --summary 'A try'";
    bench.topic_kind("tries", fields, agent);
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "Say it better.");
    for number in 1..=12 {
        let shown = bench.proposal("tries", &topic);
        let seen: Value = serde_json::from_str(&bench.left("topic.json")).unwrap();
        let earlier = seen["proposals"].as_array().unwrap();
        // Its own was not handed in yet.
        assert_eq!(earlier.len(), (number - 1).min(10), "{seen:#}");
        if let Some(last) = earlier.last() {
            assert_eq!(last["status"], "rejected");
            assert_eq!(last["reason"], format!("Not yet: {}.", number - 1));
            assert_eq!(
                (&last["summary"], &last["decided_by_name"]),
                (&"A try".into(), &"ada".into())
            );
            assert_eq!(last["revision_number"], number - 1);
            assert!(last["text"].is_null());
        }
        let id = shown["proposal"]["id"].as_str().unwrap();
        let reason = serde_json::json!({"reason": format!("Not yet: {number}.")});
        bench.post(&format!("/api/proposals/{id}/reject"), reason).ok();
    }
    server.stop();
}
