//! The recipes for agents that answer messages.

use serde_json::json;

use super::{kitchen, paste, recipe, site};
use crate::agents::terminal::{Tmux, fake};
use crate::support::{Bench, until};

/// Sends a message; returns its id and its job's.
#[track_caller]
fn send(bench: &Bench, to: &str, payload: serde_json::Value) -> (String, String) {
    let sent = bench.post("/api/messages", json!({"to": to, "payload": payload})).ok();
    let text = |name: &str| sent[name].as_str().unwrap_or_default().to_owned();
    (text("message_id"), text("job_id"))
}

#[track_caller]
fn reply(bench: &Bench, message: &str) -> serde_json::Value {
    bench.get(&format!("/api/messages/{message}/await?timeout=55")).ok()
}

#[test]
fn a_parked_account_is_opened_with_the_changed_decision_after_a_restart() {
    let bench = site(11, "exit 1");
    let server = bench.serve();
    let refused = json!({"to": "topic:accounts/open", "payload": {"team": "sales", "budget": 1}});
    assert_eq!(bench.post("/api/messages", refused).refusal(), (400, "bad_payload"));
    let order = json!({"team": "billing", "budget": 300});
    let (message, job) = send(&bench, "topic:accounts/open", order);
    let parked = bench.wait_status(&job, "parked");
    server.stop();
    let server = bench.serve();
    let id = parked["waits_for"].as_str().unwrap();
    let changes = json!({"team": "billing", "budget": 100});
    let decision = json!({"version": 1, "changes": changes, "note": "Begin small."});
    bench.post(&format!("/api/approvals/{id}/approve"), decision).ok();
    let answer = reply(&bench, &message);
    let expected = json!({"state": "amended", "payload": changes, "note": "Begin small."});
    assert_eq!(answer["reply"], expected, "{answer:#}");
    let order = json!({"team": "search", "budget": 1});
    let (message, job) = send(&bench, "topic:accounts/open", order);
    let id = bench.wait_status(&job, "parked")["waits_for"].as_str().unwrap().to_owned();
    bench.post(&format!("/api/approvals/{id}/reject"), json!({"version": 1})).ok();
    let answer = reply(&bench, &message);
    assert_eq!(answer["state"], "failed", "{answer:#}");
    assert!(answer["failure"].as_str().unwrap().contains("was not approved"), "{answer:#}");
    server.stop();
}

#[test]
fn a_page_is_tidied_in_a_worktree_and_the_work_is_saved() {
    let bench = kitchen("[ $n = 2 ] || exit 0\nsed -i 's/second/third/' guide.md");
    paste(&bench, &recipe(12));
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-qm", "tidy"]);
    let before = bench.read("guide.md");
    let server = bench.serve();
    let (message, job) = send(&bench, "topic:tidy/page", json!({"path": "guide.md"}));
    let answer = reply(&bench, &message);
    assert!(answer["reply"].as_str().unwrap().contains("guide.md"), "{answer:#}");
    let job = bench.ended(&job);
    assert_eq!((&job["status"], &job["warnings"]), (&json!("succeeded"), &json!([])), "{job:#}");
    assert_eq!(bench.read("guide.md"), before);
    let saved = job["workspace"]["kept_ref"].as_str().unwrap();
    let text = bench.git(&["show", &format!("{saved}:guide.md")]);
    assert!(text.contains("The third line."), "{text}");
    server.stop();
}

#[test]
fn a_monitor_stops_what_its_message_does_not_ask_for() {
    let bench = site(
        13,
        "case $n in\n\
           1) until wb-agent peek --worker \"$WORKER_ID\" | grep -q delete; do sleep 0.1; done ;;\n\
           2) grep -q delete \"$tmp/output\"; echo 'Stop.' > \"$tmp/message\" ;;\n\
         esac",
    );
    let server = bench.serve();
    let (message, job) = send(&bench, "topic:deploy/run", json!({"version": "1.2"}));
    let answer = reply(&bench, &message);
    assert_eq!(answer["state"], "failed", "{answer:#}");
    assert!(answer["failure"].as_str().unwrap().contains("monitor stopped it"), "{answer:#}");
    let monitor = bench.ended(&job)["monitor"]["job_id"].as_str().unwrap().to_owned();
    assert_eq!(bench.show(&monitor)["kind"], "watch-deploy");
    server.stop();
}

/// In the place of Claude Code stands a program that draws like it.
#[test]
fn an_agent_in_a_terminal_answers_whoever_writes_to_it() {
    let bench = site(14, "exit 1");
    let Some(tmux) = Tmux::of(&bench) else { return };
    bench.edit(|lua| {
        let (before, rest) = lua.split_once("  command = { \"claude\"").unwrap();
        let input = &rest[rest.find("  input ").unwrap()..];
        format!("{before}{}{input}", fake(&bench))
    });
    let server = bench.serve();
    let (message, _) = send(&bench, "agent:robbo", json!("What is new?"));
    let answer = reply(&bench, &message);
    assert_eq!(answer["state"], "replied", "{answer:#}");
    assert!(bench.left("heard").contains("What is new?"));
    until("it has a session", || tmux.sessions().len() == 1);
    assert_eq!(bench.cli(&["agent", "stop", "--all"]).0, 0);
    server.stop();
}
