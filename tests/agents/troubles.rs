//! Agents that do not start: what happened, and what to type, wherever one looks.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::agents::{ECHO, control, declare, send, show, wait_state};
use crate::support::{Bench, cli};

#[test]
fn a_missing_program_is_named_with_what_to_do() {
    let bench = Bench::new();
    // It was there when the server started.
    let program = bench.base.join("agents/claude");
    std::fs::write(&program, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    bench.lua(&format!(
        r#"wb.engine "gone" {{ type = "stream", command = {{ "{program}" }}, speaks = "lines" }}
wb.agent "robbo" {{ about = "A test", engine = "gone", restart = false }}
"#
    ));
    let server = bench.serve();
    std::fs::remove_file(&program).unwrap();
    let (code, out, err) = bench.cli(&["agent", "start", "robbo"]);
    assert_eq!(code, 6, "{out}{err}");
    for told in ["agent:robbo is failed", "agents/claude cannot be started", "correct `command`"] {
        assert!(out.contains(told), "{told}: {out}");
    }
    assert!(err.contains("agent:robbo did not start"), "{err}");
    assert!(err.contains("then start it: `wiki-browser agent start robbo`"), "{err}");
    let args = ["send", "agent:robbo", "--payload", "1", "--wait", "--timeout", "1s"];
    let (code, _, err) = cli(&bench.top, &args);
    assert_eq!(code, 75, "{err}");
    assert!(err.contains("agents/claude cannot be started"), "{err}");
    let page = bench.get("/agents/robbo").ok();
    let page = page.as_str().unwrap();
    assert!(page.contains("id=\"problem\"") && page.contains("cannot be started"), "{page}");
    server.stop();
}

#[test]
fn words_about_signing_in_lead_to_the_program_itself() {
    let bench = Bench::new();
    let script = "read -r line\necho 'Invalid API key \u{b7} Please run /login' >&2\nexit 1";
    declare(&bench, "robbo", "restart = false", script);
    let server = bench.serve();
    let (code, out, err) = bench.cli(&["agent", "start", "robbo"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("agent:robbo is idle"), "{out}");
    send(&bench, "robbo", json!("Hello"));
    let failed = wait_state(&bench, "robbo", "failed");
    let what = failed["problem"]["what"].as_str().unwrap();
    assert!(what.contains("status 1") && what.contains("Please run /login"), "{what}");
    let fix = failed["problem"]["fix"].as_str().unwrap();
    assert!(fix.starts_with("sign in once as the account of the server"), "{fix}");
    // A person who starts it again is not told of the time before.
    let again = bench.post("/api/agents/robbo/start", json!({})).ok();
    assert_eq!((&again["state"], &again["problem"]), (&json!("starting"), &json!(null)));
    wait_state(&bench, "robbo", "idle");
    assert!(show(&bench, "robbo")["problem"].is_null());
    server.stop();
}

/// Whoever waits in a terminal reads the answer on standard output, and why there is none on
/// standard error.
#[test]
fn send_and_wait_prints_the_answer_or_why_there_is_none() {
    let bench = Bench::new();
    let fails = "case $text in
  fail) printf '{\"turn\":\"ended\",\"id\":\"%s\",\"failed\":\"no such model\"}\\n' \"$id\" ;;";
    let script = ECHO.replacen("case $text in", fails, 1);
    declare(&bench, "robbo", "autostart = \"on_message\"", &script);
    let server = bench.serve();
    let send_within = |text: &str, timeout: &str| {
        let payload = format!("\"{text}\"");
        cli(&bench.top, &["send", "robbo", "--payload", &payload, "--wait", "--timeout", timeout])
    };
    let (code, out, err) = send_within("hello", "60s");
    assert_eq!((code, out.as_str()), (0, "again hello\n"), "{err}");
    for (text, why) in [
        ("fail", "agent:robbo: no such model"),
        ("fall", "agent:robbo ended before it had answered"),
    ] {
        let (code, out, err) = send_within(text, "60s");
        assert_eq!((code, out.as_str()), (1, ""), "{err}");
        let lines: Vec<&str> = err.lines().collect();
        assert!(lines[0].starts_with("wiki-browser mail wait "), "{err}");
        assert_eq!(&lines[1..], [why], "{text}");
    }
    let (code, out, err) = send_within("wait", "1s");
    assert_eq!((code, out.as_str()), (75, ""), "{err}");
    let line = err.lines().last().unwrap();
    let again = line.strip_prefix("no reply yet: wiki-browser ").unwrap();
    assert_eq!(err.lines().next().unwrap(), format!("wiki-browser {again}"));
    // The line that was printed is to be typed.
    std::fs::write(bench.out.join("go"), "").unwrap();
    let (code, out, err) = cli(&bench.top, &again.split(' ').collect::<Vec<_>>());
    assert_eq!((code, out.as_str()), (0, "waited\n"), "{err}");
    // An agent that the script does not declare any more.
    control(&bench, "robbo", "stop").ok();
    wait_state(&bench, "robbo", "stopped");
    let waits = send(&bench, "robbo", json!("hello"));
    bench.edit(|lua| lua[..lua.find("wb.engine \"robbo\"").unwrap()].to_owned());
    bench.write_script();
    assert_eq!(bench.cli(&["reload"]).0, 0);
    let (code, _, err) = bench.cli(&["mail", "wait", &waits, "--timeout", "1s"]);
    assert_eq!(code, 75, "{err}");
    let why = "agent:robbo is no longer declared; the message is dropped at the next start or \
               within an hour, unless it is declared before";
    assert!(err.contains(why), "{err}");
    let (code, out, err) = send_within("hello", "1s");
    assert_eq!((code, out.as_str()), (5, ""), "{err}");
    assert!(err.contains("agent:robbo is no longer declared; nothing was sent"), "{err}");
    assert!(err.contains("wiki-browser agent list"), "{err}");
    server.stop();
}
