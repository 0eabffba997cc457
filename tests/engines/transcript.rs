//! An agent's transcript: at a shell, on its page, and in the job's row.

use serde_json::json;

use crate::cli::desk::PROPOSES;
use crate::pages::Browser;
use crate::support::Bench;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");

/// Proposes what stands there already, and hides what the server says of it.
const REFUSED: &str = "\"$wb_agent\" insert-proposal --topic-id \"$topic\" --base-sha \"$base\" \\
  < \"$root/$path\" > /dev/null 2>&1; exit 0";

#[test]
fn what_the_server_refused_stands_with_the_job_although_its_agent_hid_it() {
    let bench = Bench::new();
    let agent = format!("cat '{DATA}/claude-stream-partial.jsonl'; {REFUSED}");
    bench.topic_kind("hides", PROPOSES, &agent);
    super::reads(&bench, "hides", "claude-stream-json");
    let server = bench.serve();
    let topic = bench.topic("guide.md", "The first line.", "More.");
    let id = bench.job("hides", json!({"topic_id": topic.id}));
    let job = bench.ended(&id);
    assert_eq!(job["reason"], "no_result", "{job:#}");
    let tail = job["error_tail"].as_str().unwrap();
    let (first, refusal) = tail.split_once('\n').unwrap();
    assert_eq!(first, "agent exited 0 but produced no proposal");
    assert!(refusal.starts_with("wb-agent was refused (nothing_changed): "), "{tail}");
    assert_eq!(job["message"], "Agent finished without producing a proposal — retry.");
    let (_, shown, _) = bench.cli(&["job", "show", &id]);
    assert!(shown.contains("wb-agent was refused (nothing_changed)"), "{shown}");

    let (code, log, err) = bench.cli(&["job", "log", &id]);
    assert_eq!(code, 0, "{err}");
    for words in [
        "started: claude-",
        "\n> Skill wb-incorporate\n",
        "\n> Bash ",
        "\nrefused (nothing_changed): ",
        "\nspent: 0.2867 USD, 69827 tokens read, 372 written\n",
    ] {
        assert!(log.contains(words), "{words:?}: {log}");
    }
    assert!(!log.contains("{\"type\""), "{log}");
    let (_, raw, _) = bench.cli(&["job", "log", &id, "--raw"]);
    assert!(raw.starts_with("{\"type\":\"system\""), "{raw}");
    let (code, _, followed) = bench.cli(&["job", "follow", &id]);
    assert!(code == 1 && followed.contains("\n> Bash "), "{followed}");
    assert!(followed.contains("\n  wb-agent was refused (nothing_changed): "), "{followed}");

    let browser = Browser::signed_in(&bench, &server);
    let html = browser.page(&format!("/jobs/{id}"));
    let place = |words: &str| html.find(words).unwrap_or_else(|| panic!("{words}: {html}"));
    assert!(place("Activity") < place("Raw output"), "{html}");
    assert!(place("<code>nothing_changed</code>") < place("Raw output"), "{html}");
    assert!(html.contains("<details><summary><h2 id=\"log-title\">"), "{html}");
    server.stop();
}

#[test]
fn opencode_and_gemini_are_read_with_their_tokens() {
    let bench = Bench::new();
    for (name, form, file) in [
        ("opencode", "opencode-json", "opencode-run.jsonl"),
        ("gemini", "gemini-stream-json", "gemini-stream.jsonl"),
    ] {
        bench.word_kind(name, "timeout = \"20s\"", &format!("cat '{DATA}/{file}'"));
        super::reads(&bench, name, form);
    }
    let server = bench.serve();
    for (name, tokens, tool) in
        [("opencode", 23_531, "bash"), ("gemini", 37_659, "run_shell_command")]
    {
        let id = bench.job(name, json!({}));
        let job = bench.ended(&id);
        assert_eq!(job["status"], "succeeded", "{job:#}");
        assert_eq!(job["usage"]["input_tokens"], tokens, "{job:#}");
        let (_, log, _) = bench.cli(&["job", "log", &id]);
        assert!(
            log.contains(&format!("\n> {tool} echo one; echo two\n  one (+1 lines)\n")),
            "{log}"
        );
    }
    let usage = bench.get("/api/usage?by=engine").ok();
    assert_eq!(usage["total"]["input_tokens"], 23_531 + 37_659, "{usage}");
    server.stop();
}
