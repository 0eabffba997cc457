//! Agents that do not start: what happened, and what to type, wherever one looks.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::agents::{declare, send, show, wait_state};
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
