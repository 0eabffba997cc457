//! The server dies after a decision, around the start of the leg that goes on with it.

use std::os::unix::process::ExitStatusExt as _;

use serde_json::{Value, json};

use super::parking::{agent, approve, asked, legs, parking_kind};
use crate::mail::turns::instance;
use crate::mail::{answer, send};
use crate::support::{Bench, Call, until};

/// Asks in its first leg; a later one leaves what it was told, and completes.
const PAYS: &str = "\
if [ \"$1\" = --session-id ]; then\n\
  cat > \"$OUT/message\"; echo \"first $2\" >> \"$OUT/ran\"; echo half > half\n\
  wb-agent approval create --channel aws --title 'Pay?' --payload '{\"budget\": 300}' \\\n\
    --and-exit > \"$OUT/id.part\" || exit 9\n\
  mv \"$OUT/id.part\" \"$OUT/id\"\n\
else\n\
  cat > \"$OUT/told\"; cat half >> \"$OUT/ran\"; echo \"later $2\" >> \"$OUT/ran\"\n\
  HOLD\n\
  wb-agent complete --reply '\"paid\"'\n\
fi";

/// Before the guard of the later leg is started.
const BEFORE: [&str; 5] =
    ["after_claim", "after_prepare", "before_workspace", "after_workspace", "run_begun"];

/// Declares an inbox whose instances ask, and the monitor of each.
fn inbox(bench: &Bench, hold: &str) {
    let hooks = bench.out.join("hooks");
    bench.raw_engine("watch", "while :; do sleep 0.2; done");
    bench.lua(
        "wb.kind \"watch\" { about = \"Watch\", engine = \"watch\", timeout = \"5m\",
  inputs = { worker = wb.input.line() }, prompt = \"Watch {{worker}}.\" }\n",
    );
    let fields = format!(
        "timeout = \"2m\", asks = true, on_lost = \"requeue\", monitor = \"watch\",
  workspace = \"worktree\", prepare = [[echo prepare >> {hooks}]],
  cleanup = [[echo cleanup >> {hooks}]]"
    );
    bench.inbox("t/pays", &fields, &PAYS.replace("HOLD", hold));
    bench.edit(with_sessions);
}

fn with_sessions(text: &str) -> String {
    let engine = "wb.engine \"t-pays\" {";
    let sessions = "session = { \"--session-id\", \"{{session}}\" }, \
                    resume = { \"--resume\", \"{{session}}\" },";
    text.replace(engine, &format!("{engine} {sessions}"))
}

/// Approves with a change; the server may be gone before it answers.
fn decide(bench: &Bench, id: &str) {
    let body = json!({"version": 1, "changes": {"budget": 100}});
    let call = Call::post(&format!("/api/approvals/{id}/approve"), body).token(&bench.operator());
    if let Some(answer) = call.try_socket(&bench.socket()) {
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

/// Parks an instance and kills its server at a point after the decision; returns its message and
/// its first job.
fn killed_at(bench: &Bench, env: &[(&str, &str)]) -> (String, String) {
    let mut server = bench.serve_with(env);
    let message = send(bench, "topic:t/pays", json!(1)).ok()["message_id"].clone();
    let id = asked(bench);
    let (_, job) = instance(bench, &message);
    bench.wait_status(&job, "parked");
    bench.quiet();
    std::fs::write(bench.base.join("armed"), "").unwrap();
    decide(bench, &id);
    let (status, _) = server.wait();
    assert_eq!(status.signal(), Some(6), "{env:?}: {}", server.log());
    (message.as_str().unwrap().to_owned(), job)
}

fn ran(bench: &Bench) -> Vec<String> {
    let text = bench.left("ran");
    text.lines().map(|it| it.split(' ').next().unwrap().to_owned()).collect()
}

fn jobs_of(bench: &Bench, kind: &str) -> Vec<Value> {
    let listed = bench.json(&["job", "list", "--kind", kind]);
    listed["items"].as_array().unwrap().clone()
}

fn goes_on(point: &str) {
    let bench = Bench::new();
    inbox(&bench, "");
    let armed = bench.base.join("armed");
    let env = [("WB_CRASH_AT", point), ("WB_CRASH_WHEN", armed.as_str())];
    let (message, job) = killed_at(&bench, &env);
    // The next server dies at the same point.
    let mut server = bench.start(&env);
    let (status, _) = server.wait();
    assert_eq!(status.signal(), Some(6), "{point}: {}", server.log());
    assert_eq!(ran(&bench), ["first"], "{point}");
    std::fs::remove_file(&armed).unwrap();

    let server = bench.serve();
    let told = answer(&bench, &message);
    assert_eq!(told["reply"], "paid", "{point}: {told:#}");
    // In the session and in the workspace of the first leg, with what was decided.
    let ran = bench.left("ran");
    let session = ran.lines().next().unwrap().replace("first ", "");
    assert_eq!(ran, format!("first {session}\nhalf\nlater {session}"), "{point}");
    assert!(bench.left("told").contains("\"budget\": 100"), "{point}: {}", bench.left("told"));
    let legs = jobs_of(&bench, "t/pays");
    assert_eq!(legs.len(), 2, "{point}: {legs:#?}");
    assert_eq!((&legs[0]["root_id"], &legs[0]["resumes"]), (&json!(job), &json!(job)));
    until("it is cleaned up", || bench.show(&job)["workspace"]["state"] == "gone");
    assert_eq!(bench.left("hooks"), "prepare\ncleanup", "{point}");
    let is_over = |it: &Value| !["queued", "running"].contains(&it["status"].as_str().unwrap());
    until("no monitor is left", || jobs_of(&bench, "watch").iter().all(is_over));
    assert_eq!(bench.get("/api/approvals?state=pending").ok()["items"], json!([]));
    server.stop();
}

/// Whatever `on_lost` says. Fails with `WB_WITHOUT=leg_put_back`.
#[test]
fn g35_a_decision_is_not_used_up_by_a_server_that_dies_before_the_leg_starts() {
    for some in BEFORE.chunks(3) {
        std::thread::scope(|scope| {
            for point in some {
                scope.spawn(|| goes_on(point));
            }
        });
    }
}

/// The guard knows whether it had started the agent: then the leg fails, and otherwise it goes on.
#[test]
fn g35_a_leg_whose_guard_was_started_runs_once_at_most() {
    let bench = Bench::new();
    inbox(&bench, "until [ -e \"$OUT/go\" ]; do sleep 0.02; done");
    let armed = bench.base.join("armed");
    let env = [("WB_CRASH_AT", "after_spawn"), ("WB_CRASH_WHEN", armed.as_str())];
    // The monitor's guard is started while its leg runs, and is not to be the one.
    bench.edit(|text| text.replace("monitor = \"watch\",", ""));
    let (message, job) = killed_at(&bench, &env);
    let database = rusqlite::Connection::open(bench.data.join("wiki.db")).unwrap();
    let leg: String = database
        .query_row("SELECT id FROM agent_jobs WHERE resumes = ?1", [&job], |row| row.get(0))
        .unwrap();
    drop(database);
    let record = bench.data.join(format!("jobs/{leg}/exit.json"));
    until("it ran or did not", || record.exists() || ran(&bench).len() == 3);
    let record = std::fs::read(record).ok();
    let record: Option<Value> = record.map(|it| serde_json::from_slice(&it).unwrap());
    let is_unbegun = record.is_some_and(|it| it["error"].is_string());
    std::fs::remove_file(&armed).unwrap();

    let server = bench.serve();
    std::fs::write(bench.out.join("go"), "").unwrap();
    let told = answer(&bench, &message);
    if is_unbegun {
        assert_eq!(told["reply"], "paid", "{told:#}");
    }
    assert_eq!(ran(&bench), ["first", "half", "later"], "{told:#}");
    assert_eq!(jobs_of(&bench, "t/pays").len(), 2);
    server.stop();
}

/// What it did before is not done again, and people are told what to do.
#[test]
fn a_leg_that_had_begun_fails_with_its_server_and_nothing_begins_from_the_start() {
    let bench = Bench::new();
    let holds = agent("exit 0").replace(
        "mv \"$OUT/resumed.part\" \"$OUT/resumed\"",
        "mv \"$OUT/resumed.part\" \"$OUT/resumed\"; until [ -e \"$OUT/go\" ]; do sleep 0.02; done",
    );
    parking_kind(&bench, "timeout = \"60s\"", &holds);
    let server = bench.serve();
    let job = bench.job("parks", json!({}));
    let id = asked(&bench);
    bench.wait_status(&job, "parked");
    approve(&bench, &id);
    bench.wait_left("resumed");
    server.kill();
    bench.quiet();
    let server = bench.serve();
    let leg = legs(&bench)[0]["id"].as_str().unwrap().to_owned();
    let ended = bench.ended(&leg);
    assert_eq!(
        (&ended["status"], &ended["reason"]),
        (&json!("failed"), &json!("server_restarted"))
    );
    let message = ended["message"].as_str().unwrap();
    assert!(message.contains("used up: see what the agent has done"), "{message}");
    assert_eq!(legs(&bench).len(), 2);
    server.stop();
}

/// It is compared with the script like any leg that waits.
#[test]
fn a_leg_that_waits_again_does_not_start_with_a_script_that_cannot_resume_it() {
    let bench = Bench::new();
    parking_kind(&bench, "timeout = \"60s\"", &agent("exit 0"));
    let armed = bench.base.join("armed");
    let env = [("WB_CRASH_AT", "after_claim"), ("WB_CRASH_WHEN", armed.as_str())];
    let mut server = bench.serve_with(&env);
    let job = bench.job("parks", json!({}));
    let id = asked(&bench);
    bench.wait_status(&job, "parked");
    std::fs::write(&armed, "").unwrap();
    decide(&bench, &id);
    server.wait();
    let resume = "resume = { \"--resume\", \"{{session}}\" },";
    bench.edit(|text| text.replace(resume, ""));
    let server = bench.serve();
    let leg = legs(&bench)[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(bench.show(&leg)["waiting"]["code"], "kind_changed", "{:#}", bench.show(&leg));
    bench.edit(|text| text.replace("session = { ", &format!("{resume} session = {{ ")));
    bench.write_script();
    bench.json(&["reload"]);
    bench.wait_left("resumed");
    assert_eq!(bench.ended(&leg)["status"], "succeeded");
    server.stop();
}
