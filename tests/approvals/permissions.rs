//! Permissions: an engine asks by `wb-agent mcp` whether it may use a tool.

use serde_json::{Value, json};

use super::show;
use crate::support::{Bench, Call, until, wait_for};

/// What an engine does that asks: `ask INPUT FILE` leaves in FILE what it was told.
const ASK: &str = "\
ask() {\n\
  mkfifo \"$OUT/$2.fifo\"\n\
  { printf '%s\\n' '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\
\"permission\",\"arguments\":{\"tool_name\":\"Bash\",\"input\":'\"$1\"'}}}'\n\
    cat \"$OUT/$2.fifo\"; } | \"$WB_AGENT\" mcp permission | {\n\
    read -r told; printf '%s\\n' \"$told\" > \"$OUT/$2.part\"; mv \"$OUT/$2.part\" \"$OUT/$2\"\n\
    : > \"$OUT/$2.fifo\"; }\n\
}\n";

/// A call whose words are hostile.
const CALL: &str = r#"{"command":"rm -rf build","description":"<b>x</b>"}"#;

/// Declares a kind whose engine knows sessions and asks.
fn kind(bench: &Bench, fields: &str, agent: &str) {
    bench.raw_engine("asker", &asking(agent));
    know_sessions(bench);
    bench.lua(&format!(
        "wb.kind \"asker\" {{ about = \"Asks\", engine = \"asker\", asks = true, timeout = \"60s\",
  {fields} prompt = \"Do it.\" }}\n"
    ));
}

fn asking(agent: &str) -> String {
    let wb_agent = env!("CARGO_BIN_EXE_wb-agent");
    format!("WB_AGENT={wb_agent}\n{ASK}{agent}\n")
}

/// Adds to the engine of a script how its sessions are named, and how it asks.
fn know_sessions(bench: &Bench) {
    bench.edit(|text| {
        let more = "session = { \"--session-id\", \"{{session}}\" }, \
                    resume = { \"--resume\", \"{{session}}\" },\n  \
                    asks = { \"--mcp-config\", \"{{mcp_config}}\" },\n  env = { OUT";
        text.replace("env = { OUT", more)
    });
}

fn pending(bench: &Bench) -> Value {
    wait_for("a question", || {
        bench.get("/api/approvals?state=pending").ok()["items"].get(0).cloned()
    })
}

#[track_caller]
fn decide(bench: &Bench, id: &Value, verb: &str, more: Value) {
    let mut body = json!({"version": 1});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    bench.post(&format!("/api/approvals/{}/{verb}", id.as_str().unwrap()), body).ok();
}

/// What the engine was told, as it reads it.
fn told(bench: &Bench, file: &str) -> Value {
    let line = bench.wait_left(file);
    let answer: Value = serde_json::from_str(&line).unwrap();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{line}"));
    serde_json::from_str(text).unwrap()
}

#[test]
fn g35_a_call_is_allowed_once_and_with_exactly_the_input_that_was_approved() {
    let bench = Bench::new();
    let agent = format!(
        "ask '{CALL}' one\nask '{CALL}' two\nask '{CALL}' three\n\
        printf '%s\\n' \"$@\" > \"$OUT/arguments\""
    );
    kind(&bench, "", &agent);
    bench.edit(|text| text.replace("asker.sh\" }", "asker.sh\", \"Bash({{wb_agent}}:*)\" }"));
    let server = bench.serve();
    let job = bench.job("asker", json!({}));
    let first = pending(&bench);
    assert_eq!((&first["sort"], &first["channel"]), (&json!("permission"), &json!("tools")));
    assert_eq!(first["title"], "Bash: rm -rf build");
    let call: Value = serde_json::from_str(CALL).unwrap();
    assert_eq!(show(&bench, first["id"].as_str().unwrap())["payload"], call);
    let decisions = bench.get("/api/decisions").ok();
    assert_eq!(decisions["items"][0]["what"], "permission");
    decide(&bench, &first["id"], "approve", json!({}));
    assert_eq!(told(&bench, "one"), json!({"behavior": "allow", "updatedInput": call}));
    // The next call is another question, and is done as it was changed.
    let second = pending(&bench);
    assert_ne!(first["id"], second["id"]);
    let changed = json!({"command": "rm -rf build/tmp"});
    decide(&bench, &second["id"], "approve", json!({"changes": changed}));
    assert_eq!(told(&bench, "two"), json!({"behavior": "allow", "updatedInput": changed}));
    decide(&bench, &pending(&bench)["id"], "reject", json!({"note": "Not today."}));
    let denied = told(&bench, "three");
    assert_eq!(denied["message"], "a person refused this call: Not today.");
    assert!(denied["interrupt"].is_null());
    assert_eq!(bench.ended(&job)["status"], "succeeded");
    // The engine prints the call as it was asked, so the record names the one that ran.
    let stream = bench.get(&format!("/api/agent/jobs/{job}/stream")).ok();
    let entries = stream["items"].as_array().unwrap();
    let entries: Vec<&Value> = entries.iter().filter(|it| it["type"] == "changed").collect();
    assert_eq!(entries.len(), 1, "{stream:#}");
    assert_eq!(
        (&entries[0]["name"], &entries[0]["input"]),
        (&json!("Bash"), &json!(changed.to_string()))
    );
    let arguments = bench.left("arguments");
    let config: Vec<&str> = arguments.lines().collect();
    assert_eq!(config[0], format!("Bash({}:*)", env!("CARGO_BIN_EXE_wb-agent")));
    assert_eq!(config[3], "--mcp-config");
    let config: Value = serde_json::from_str(config[4]).unwrap();
    let server_of_tools = &config["mcpServers"]["wb"];
    assert_eq!(server_of_tools["args"], json!(["mcp", "permission"]));
    assert_eq!(server_of_tools["timeout"], 780_000);
    // An engine that waits is told by its answer, and by nothing else.
    assert_eq!(bench.get("/api/messages").ok()["items"], json!([]));
    server.stop();
}

#[test]
fn a_call_that_nobody_decides_parks_its_job_and_is_allowed_once_when_it_goes_on() {
    let bench = Bench::new();
    let agent = format!(
        "if [ \"$1\" = --session-id ]; then ask '{CALL}' parked\n\
         until [ -e \"$OUT/go\" ]; do sleep 0.02; done; exit 1\n\
         else cat > \"$OUT/prompt\"; ask '{CALL}' again; ask '{CALL}' once_more; fi"
    );
    kind(&bench, "permission_wait = \"1s\",", &agent);
    let server = bench.serve();
    let job = bench.job("asker", json!({}));
    let asked = pending(&bench);
    let parked = told(&bench, "parked");
    assert_eq!((&parked["behavior"], &parked["interrupt"]), (&json!("deny"), &json!(true)));
    assert!(parked["message"].as_str().unwrap().contains("end your turn now"));
    std::fs::write(bench.out.join("go"), "").unwrap();
    assert_eq!(bench.wait_status(&job, "parked")["waits_for"], asked["id"]);
    bench.quiet();
    server.kill();
    let server = bench.serve();
    decide(&bench, &asked["id"], "approve", json!({"note": "Go on."}));
    let call: Value = serde_json::from_str(CALL).unwrap();
    assert_eq!(told(&bench, "again"), json!({"behavior": "allow", "updatedInput": call}));
    let prompt = bench.left("prompt");
    for part in ["Bash: rm -rf build", "was allowed by", "same call again", "Go on."] {
        assert!(prompt.contains(part), "{part} in {prompt}");
    }
    // It counts once.
    let next = pending(&bench);
    assert_ne!(next["id"], asked["id"]);
    decide(&bench, &next["id"], "reject", json!({}));
    assert_eq!(told(&bench, "once_more")["behavior"], "deny");
    let used = show(&bench, asked["id"].as_str().unwrap());
    assert!(used["used_at"].is_string(), "{used}");
    server.stop();
}

/// What an engine ends when a sub-agent is refused is the sub-agent's turn: its main agent goes on.
#[test]
fn who_goes_on_after_a_call_that_waits_has_no_verdict_before_the_decision() {
    let bench = Bench::new();
    let agent = format!(
        "if [ \"$1\" = --session-id ]; then ask '{CALL}' parked\n\
         wb-agent complete --reply '\"early\"' 2> \"$OUT/refused.part\"\n\
         wb-agent fail --reason 'It was refused.' 2>> \"$OUT/refused.part\"\n\
         mv \"$OUT/refused.part\" \"$OUT/refused\"; exit 0\n\
         else cat > \"$OUT/prompt\"; ask '{CALL}' again; wb-agent complete --reply '\"done\"'; fi"
    );
    bench.inbox("t/asker", "permission_wait = \"1s\"", &asking(&agent));
    know_sessions(&bench);
    let server = bench.serve();
    let sent = bench.post("/api/messages", json!({"to": "topic:t/asker", "payload": {}})).ok();
    let asked = pending(&bench);
    let refused = bench.wait_left("refused");
    assert_eq!(
        refused.matches("a person has yet to decide on a call: Bash: rm").count(),
        2,
        "{refused}"
    );
    assert!(refused.contains("end your turn now"), "{refused}");
    bench.wait_status(sent["job_id"].as_str().unwrap(), "parked");
    assert_eq!(show(&bench, asked["id"].as_str().unwrap())["state"], "pending");
    decide(&bench, &asked["id"], "approve", json!({}));
    assert_eq!(told(&bench, "again")["behavior"], "allow");
    assert!(bench.left("prompt").contains("or that of an agent you started"));
    let message = sent["message_id"].as_str().unwrap();
    let answer = bench.get(&format!("/api/messages/{message}/await?timeout=55")).ok();
    assert_eq!(answer["reply"], "done", "{answer}");
    server.stop();
}

/// Two sub-agents ask, and nobody decides in time: the job waits for one decision, and gets the
/// other one as a message.
#[test]
fn the_decision_on_each_call_that_waits_reaches_its_job() {
    let bench = Bench::new();
    let agent = "if [ \"$1\" = --session-id ]; then\n\
        echo \"$WB_TOKEN\" > \"$OUT/t\"; mv \"$OUT/t\" \"$OUT/token\"\n\
        until [ -e \"$OUT/go\" ]; do sleep 0.02; done; exit 0\n\
        else cat > \"$OUT/prompt\"; wb-agent inbox > \"$OUT/mail\"\n\
        wb-agent complete --reply '\"done\"'; fi";
    bench.inbox("t/asker", "timeout = \"60s\"", &asking(agent));
    know_sessions(&bench);
    let server = bench.serve();
    let sent = bench.post("/api/messages", json!({"to": "topic:t/asker", "payload": {}})).ok();
    let token = bench.wait_left("token");
    let as_job = |target: &str, body| bench.send(&Call::post(target, body).token(token.trim()));
    let ask = |command: &str| {
        let call = json!({"tool_name": "Bash", "input": {"command": command}});
        as_job("/api/agent/permissions", call).ok()["id"].as_str().unwrap().to_owned()
    };
    let calls = [ask("make one"), ask("make two")];
    // The second one twice: its engine may have lost the answer.
    for id in [&calls[0], &calls[1], &calls[1]] {
        let told = as_job(&format!("/api/agent/permissions/{id}/answer"), json!({})).ok();
        assert_eq!((&told["behavior"], &told["interrupt"]), (&json!("deny"), &json!(true)));
        assert_eq!(told["message"], "a person will decide later, end your turn now");
    }
    std::fs::write(bench.out.join("go"), "").unwrap();
    let job = sent["job_id"].as_str().unwrap();
    assert_eq!(bench.wait_status(job, "parked")["waits_for"], json!(calls[0]));
    decide(&bench, &json!(calls[1]), "reject", json!({"note": "Not two."}));
    assert_eq!(bench.wait_status(job, "parked")["waits_for"], json!(calls[0]));
    decide(&bench, &json!(calls[0]), "approve", json!({}));
    let message = sent["message_id"].as_str().unwrap();
    let answer = bench.get(&format!("/api/messages/{message}/await?timeout=55")).ok();
    assert_eq!(answer["reply"], "done", "{answer}");
    let (prompt, mail) = (bench.left("prompt"), bench.left("mail"));
    assert!(prompt.contains("make one") && prompt.contains("was allowed"), "{prompt}");
    assert!(mail.contains(&calls[1]) && mail.contains("Not two."), "{mail}");
    assert_eq!(mail.matches(calls[1].as_str()).count(), 1, "{mail}");
    server.stop();
}

#[test]
fn a_job_that_cannot_go_on_later_does_without() {
    let bench = Bench::new();
    let fields = "permission_wait = \"1s\", produces = \"result\",";
    kind(&bench, fields, &format!("ask '{CALL}' told; exit 0"));
    let server = bench.serve();
    bench.job("asker", json!({}));
    let denied = told(&bench, "told");
    assert!(denied["message"].as_str().unwrap().contains("nobody decided within 1s"), "{denied}");
    let withdrawn = bench.get("/api/approvals?state=withdrawn").ok();
    assert_eq!(withdrawn["items"].as_array().unwrap().len(), 1, "{withdrawn:#}");
    server.stop();
}

#[test]
fn a_call_that_is_taken_back_is_withdrawn_and_what_is_wrong_is_refused() {
    let bench = Bench::new();
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    let agent = format!(
        "mkfifo \"$OUT/in\"; \"$WB_AGENT\" mcp permission < \"$OUT/in\" > \"$OUT/said\" & \n\
         exec 3> \"$OUT/in\"\n\
         printf '%s\\n' '{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":\
{{\"name\":\"permission\",\"arguments\":{{\"tool_name\":\"Bash\",\"input\":{CALL}}}}}}}' >&3\n\
         until [ -e \"$OUT/go\" ]; do sleep 0.02; done; printf '%s\\n' '{cancel}' >&3\n\
         until [ -e \"$OUT/end\" ]; do sleep 0.02; done; exec 3>&-; wait\n\
         ask '\"text\"' wrong"
    );
    kind(&bench, "", &agent);
    let server = bench.serve();
    let job = bench.job("asker", json!({}));
    let asked = pending(&bench);
    std::fs::write(bench.out.join("go"), "").unwrap();
    let id = asked["id"].as_str().unwrap();
    until("it is withdrawn", || show(&bench, id)["state"] == "withdrawn");
    std::fs::write(bench.out.join("end"), "").unwrap();
    assert_eq!(told(&bench, "wrong")["behavior"], "deny");
    assert_eq!(bench.ended(&job)["status"], "succeeded");
    assert_eq!(bench.left("said"), "", "a call that was taken back is not answered");
    server.stop();
}

/// A question over HTTP can arrive before the line that begins its turn was read: its agent is
/// blocked all the same, so that the page leads to the question.
#[test]
fn a_question_that_overtakes_its_turn_blocks_its_agent() {
    let bench = Bench::new();
    let wb_agent = env!("CARGO_BIN_EXE_wb-agent");
    let turn = "hear; ask \"$CALL\" told1 &
        until [ -e \"$OUT/go\" ]; do sleep 0.02; done
        began; wait; say done1; hear";
    let script = format!("WB_AGENT={wb_agent}\nCALL='{CALL}'\n{ASK}{turn}");
    crate::agents::declare(&bench, "robbo", "autostart = \"on_message\"", &script);
    let server = bench.serve();
    bench.post("/api/messages", json!({"to": "agent:robbo", "payload": "do it"})).ok();
    let asked = pending(&bench);
    std::fs::write(bench.out.join("go"), "").unwrap();
    let blocked = crate::agents::wait_state(&bench, "robbo", "blocked");
    assert_eq!(
        (&blocked["approval_id"], &blocked["fact"]),
        (&asked["id"], &json!("asks_permission"))
    );
    decide(&bench, &asked["id"], "approve", json!({}));
    assert_eq!(told(&bench, "told1")["behavior"], "allow");
    server.stop();
}

/// It is not parked: its turn goes on, and it is told when somebody has decided.
#[test]
fn an_agent_that_lives_on_is_blocked_and_told_later() {
    let bench = Bench::new();
    let wb_agent = env!("CARGO_BIN_EXE_wb-agent");
    let turns = "n=0; while :; do hear; began; n=$((n+1)); ask \"$CALL\" told$n; say done$n; done";
    let script = format!("WB_AGENT={wb_agent}\nCALL='{CALL}'\n{ASK}{turns}");
    let fields = "autostart = \"on_message\", permission_wait = \"8s\"";
    crate::agents::declare(&bench, "robbo", fields, &script);
    let server = bench.serve();
    let sent = bench.post("/api/messages", json!({"to": "agent:robbo", "payload": "do it"})).ok();
    let asked = pending(&bench);
    let blocked = crate::agents::wait_state(&bench, "robbo", "blocked");
    assert_eq!(
        (&blocked["approval_id"], &blocked["fact"]),
        (&asked["id"], &json!("asks_permission"))
    );
    let denied = told(&bench, "told1");
    assert!(denied["message"].as_str().unwrap().contains("decide later"), "{denied}");
    assert!(denied["interrupt"].is_null());
    let message = sent["message_id"].as_str().unwrap();
    let answer = bench.get(&format!("/api/messages/{message}/await?timeout=20")).ok();
    assert_eq!(answer["reply"], "done1");
    // The notice begins another turn, in which the same call is allowed.
    decide(&bench, &asked["id"], "approve", json!({}));
    assert_eq!(told(&bench, "told2")["behavior"], "allow");
    crate::agents::wait_state(&bench, "robbo", "idle");
    server.stop();
}
