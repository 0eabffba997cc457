//! What the turns of agents take, and what nobody asks an agent's start for.

use serde_json::{Value, json};

use crate::agents::{ECHO, ask, control, declare, delivery, send, show, wait_state};
use crate::support::Bench;

/// Ends each turn with what it took.
const DEAR: &str = "while :; do hear; began
took='\"cost_usd\":0.5,\"tokens\":1000'
printf '{\"turn\":\"ended\",\"id\":\"%s\",\"text\":\"ok\",%s}\\n' \"$id\" \"$took\"
done";

/// What the starts of an agent have spent.
#[track_caller]
fn spent(bench: &Bench, kind: &str) -> Value {
    let usage = bench.get("/api/usage?by=kind").ok();
    let items = usage["items"].as_array().unwrap();
    items.iter().find(|it| it["name"] == kind).cloned().unwrap_or_default()
}

#[test]
fn turns_count_at_their_end_and_a_cap_that_is_spent_holds_back_the_next() {
    let bench = Bench::new();
    let fields = "autostart = \"on_message\", daily = { cost_usd = 1 }";
    declare(&bench, "robbo", fields, DEAR);
    let server = bench.serve();
    ask(&bench, "robbo", json!("one"));
    let first = spent(&bench, "@robbo");
    assert_eq!((&first["cost_usd"], &first["input_tokens"]), (&json!(0.5), &json!(1000)));
    assert_eq!(first["jobs"], 0, "it still lives: {first}");
    ask(&bench, "robbo", json!("two"));
    let job = show(&bench, "robbo")["job_id"].as_str().unwrap().to_owned();
    let shown = bench.show(&job);
    assert_eq!((&shown["cost_usd"], &shown["usage"]["input_tokens"]), (&json!(1.0), &json!(2000)));
    // A third turn would go beyond the cap: the message waits, and whoever sends is told.
    let third = send(&bench, "robbo", json!("three"));
    crate::support::until("it is held back", || show(&bench, "robbo")["reason"] == "daily_cap");
    assert_eq!(delivery(&bench, &third).0, "queued");
    let body = json!({"to": "agent:robbo", "payload": "four"});
    let told = bench.post("/api/messages", body).ok()["waiting"].clone();
    assert!(told.as_str().unwrap().contains("a daily cap is used up"), "{told}");
    control(&bench, "robbo", "stop").ok();
    bench.ended(&job);
    let total = spent(&bench, "@robbo");
    assert_eq!((&total["cost_usd"], &total["input_tokens"]), (&json!(1.0), &json!(2000)));
    assert_eq!((&total["cancelled"], &total["failed"]), (&json!(1), &json!(0)));
    assert_eq!(bench.show(&job)["cost_usd"], json!(1.0));
    server.stop();
}

#[test]
fn an_agent_that_waits_to_be_spoken_to_spends_no_time() {
    let bench = Bench::new();
    bench.limits("daily = { time = \"1m\" }");
    bench.word_kind("plain", "timeout = \"20s\"", "exit 0");
    declare(&bench, "robbo", "autostart = \"on_message\", on_server_loss = \"keep\"", ECHO);
    let server = bench.serve();
    ask(&bench, "robbo", json!("one"));
    let job = show(&bench, "robbo")["job_id"].as_str().unwrap().to_owned();
    // It has lived for an hour.
    server.stop();
    bench.sql("UPDATE agent_jobs SET started_ms = started_ms - 3600000");
    let server = bench.serve();
    wait_state(&bench, "robbo", "idle");
    control(&bench, "robbo", "stop").ok();
    bench.ended(&job);
    let ms = spent(&bench, "@robbo")["agent_ms"].as_i64().unwrap();
    assert!((0..60_000).contains(&ms), "{ms}");
    let plain = bench.job("plain", json!({"word": "x"}));
    assert_eq!(bench.ended(&plain)["status"], "succeeded");
    let (_, out, _) = bench.cli(&["usage", "--by", "kind"]);
    let row = out.lines().find(|it| it.starts_with("@robbo")).unwrap_or_default();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[1..5], ["1", "0", "0", "1"], "jobs, ok, failed, stopped: {out}");
    server.stop();
}

/// Claude Code says that a turn began when its first message is complete.
#[test]
fn the_time_of_a_turn_counts_from_the_first_byte_of_its_messages() {
    let bench = Bench::new();
    let late = "while :; do hear; while [ ! -e \"$OUT/go\" ]; do sleep 0.1; done\n\
        began; say ok\ndone";
    declare(&bench, "robbo", "autostart = \"on_message\", on_server_loss = \"keep\"", late);
    let server = bench.serve();
    let sent = send(&bench, "robbo", json!("one"));
    crate::support::until("it is sent", || delivery(&bench, &sent).0 == "sent");
    // It has thought for half a minute.
    server.stop();
    bench.sql("UPDATE blocks SET made_ms = made_ms - 30000");
    let server = bench.serve();
    std::fs::write(bench.out.join("go"), "").unwrap();
    crate::support::until("it has answered", || delivery(&bench, &sent).0 == "confirmed");
    wait_state(&bench, "robbo", "idle");
    let ms = spent(&bench, "@robbo")["agent_ms"].as_i64().unwrap();
    assert!(ms >= 30_000, "{ms}");
    server.stop();
}

#[test]
fn nobody_asks_for_a_start_of_an_agent_as_for_a_job() {
    let bench = Bench::new();
    declare(&bench, "robbo", "autostart = \"on_message\"", ECHO);
    let server = bench.serve();
    let refused = bench.post("/api/agent/jobs", json!({"kind": "@robbo"}));
    assert_eq!((refused.status, refused.code()), (400, "takes_messages"), "{refused:?}");
    let (code, _, err) = bench.cli(&["job", "create", "@robbo"]);
    assert!(code == 2 && err.contains("send to agent:robbo"), "{err}");
    let (code, out, err) = bench.cli(&["render", "@robbo"]);
    assert!(code == 2 && err.contains("is not made of a request"), "{out}{err}");
    ask(&bench, "robbo", json!("one"));
    let job = show(&bench, "robbo")["job_id"].as_str().unwrap().to_owned();
    control(&bench, "robbo", "stop").ok();
    assert_eq!(bench.ended(&job)["status"], "cancelled");
    let again = bench.post(&format!("/api/agent/jobs/{job}/retry"), json!({}));
    assert_eq!((again.status, again.code()), (400, "takes_messages"), "{again:?}");
    let many = ["job", "retry", "--kind", "@robbo", "--status", "cancelled", "--yes"];
    let (_, out, err) = bench.cli(&many);
    assert!(format!("{out}{err}").contains("send it a message"), "{out}{err}");
    let (_, shown, _) = bench.cli(&["job", "show", &job]);
    assert!(!shown.contains("job retry") && shown.contains("agent show robbo"), "{shown}");
    let all = bench.json(&["job", "list"])["items"].clone();
    assert_eq!(all.as_array().unwrap().len(), 1, "no other start: {all:#}");
    server.stop();
}

#[test]
fn whoever_waits_for_an_agent_that_does_not_run_is_told_at_once() {
    let bench = Bench::new();
    declare(&bench, "robbo", "autostart = \"never\"", ECHO);
    let server = bench.serve();
    let sent = ["send", "agent:robbo", "--payload", "\"hello\"", "--wait", "--timeout", "1s"];
    let (code, _, err) = bench.cli(&sent);
    assert_eq!(code, 75, "{err}");
    let why = "agent:robbo is stopped, and the message waits; \
               to start it: `wiki-browser agent start robbo`";
    assert!(err.contains(why), "{err}");
    let (_, _, err) = bench.cli(&["send", "agent:robbo", "--payload", "\"hello\""]);
    assert!(err.contains(why), "{err}");
    // A reload that takes it away says what waits for it.
    bench.edit(|lua| lua[..lua.find("wb.engine \"robbo\"").unwrap()].to_owned());
    bench.write_script();
    let (_, out, _) = bench.cli(&["reload"]);
    let said = "removed  agent \"robbo\": 2 messages are waiting; dropped at the next start or \
                within an hour, unless it returns before";
    assert!(out.contains(said), "{out}");
    server.stop();
}

#[test]
fn turns_since_a_backup_count_once_after_its_restore() {
    let bench = Bench::new();
    declare(&bench, "robbo", "autostart = \"never\"", DEAR);
    let server = bench.serve();
    crate::support::until("it is known", || bench.get("/api/agents/robbo").status == 200);
    control(&bench, "robbo", "start").ok();
    ask(&bench, "robbo", json!("one"));
    let backup = bench.json(&["backup"])["path"].as_str().unwrap().to_owned();
    let job = show(&bench, "robbo")["job_id"].as_str().unwrap().to_owned();
    ask(&bench, "robbo", json!("two"));
    assert_eq!(spent(&bench, "@robbo")["cost_usd"], 1.0);
    server.stop();
    for _ in 0..2 {
        bench.json(&["restore", &backup]);
        let server = bench.serve();
        bench.ended(&job);
        let all = spent(&bench, "@robbo");
        assert_eq!((&all["cost_usd"], &all["jobs"]), (&json!(1.0), &json!(1)), "{all:#}");
        server.stop();
    }
}

/// Fails each turn as at its provider's limit, until that is over.
const LIMITED: &str = "while :; do hear; began
if [ -e \"$OUT/well\" ]; then say \"again $text\"; continue; fi
echo \"$text\" >> \"$OUT/tried\"
why='usage limit reached, try again in 2h'
printf '{\"turn\":\"ended\",\"id\":\"%s\",\"failed\":\"%s\"}\\n' \"$id\" \"$why\"
done";

#[test]
fn a_rate_limit_fails_one_message_and_the_others_wait_until_the_engine_is_released() {
    let bench = Bench::new();
    declare(&bench, "robbo", "autostart = \"on_message\"", LIMITED);
    let server = bench.serve();
    let first = ask(&bench, "robbo", json!("one"));
    assert!(first["failure"].as_str().unwrap().contains("usage limit reached"), "{first}");
    let waiting = [send(&bench, "robbo", json!("two")), send(&bench, "robbo", json!("three"))];
    crate::support::until("it is held", || show(&bench, "robbo")["reason"] == "engine_held");
    let body = json!({"to": "agent:robbo", "payload": "four"});
    let told = bench.post("/api/messages", body).ok()["waiting"].clone();
    let told = told.as_str().unwrap();
    assert!(told.contains("its provider's rate limit is reached"), "{told}");
    for message in &waiting {
        assert_eq!(delivery(&bench, message).0, "queued");
    }
    // A restart forgets nothing of it.
    server.stop();
    let server = bench.serve();
    crate::support::until("it is held", || show(&bench, "robbo")["reason"] == "engine_held");
    assert_eq!(bench.left("tried"), "one");
    std::fs::write(bench.out.join("well"), "").unwrap();
    assert_eq!(bench.cli(&["engine", "release", "robbo"]).0, 0);
    assert_eq!(crate::agents::answer(&bench, &waiting[0])["reply"], "again two");
    assert_eq!(crate::agents::answer(&bench, &waiting[1])["reply"], "again three");
    server.stop();
}

#[test]
fn an_engine_that_may_go_on_at_a_limit_is_given_what_waits() {
    let bench = Bench::new();
    declare(&bench, "robbo", "autostart = \"on_message\"", LIMITED);
    bench.edit(|lua| lua.replace("speaks = ", "on_rate_limit = \"go_on\", speaks = "));
    let server = bench.serve();
    for word in ["one", "two"] {
        let told = ask(&bench, "robbo", json!(word));
        assert!(told["failure"].as_str().unwrap().contains("usage limit reached"), "{told}");
    }
    assert_eq!(bench.left("tried"), "one\ntwo");
    server.stop();
}
