//! Parking: an agent requests an approval, ends, and is resumed in the same session with the
//! decision.

use serde_json::{Value, json};

use super::show;
use crate::pages::Browser;
use crate::support::{Bench, until, wait_for};

/// A kind whose engine knows sessions: it is told a new one's name, or which one it goes on with.
pub(super) fn parking_kind(bench: &Bench, fields: &str, agent: &str) {
    bench.raw_engine("parks", agent);
    bench.edit(|text| {
        let sessions = "session = { \"--session-id\", \"{{session}}\" }, \
                        resume = { \"--resume\", \"{{session}}\" },\n  env = { OUT";
        text.replace("env = { OUT", sessions)
    });
    bench.lua(&format!(
        "wb.kind \"parks\" {{ about = \"Asks\", engine = \"parks\", asks = true, {fields},
  inputs = {{ word = wb.input.line {{ required = false, default = \"none\" }} }},
  prompt = [[\njob={{{{job_id}}}}\nword={{{{word}}}}\nwb_agent={{{{wb_agent}}}}\n]] }}\n"
    ));
}

/// The first leg asks and ends; a later one leaves what it was told. The prompt of that is a text
/// and no list of assignments.
const AGENT: &str = "\
if [ \"$1\" = --session-id ]; then\n\
  eval \"$(cat)\"; echo \"$2\" > \"$OUT/session\"\n\
  \"$wb_agent\" approval create --channel aws --title 'Create it?' --and-exit \\\n\
    --payload '{\"budget\": 300}' > \"$OUT/id.part\" 2> \"$OUT/refused\" || exit 9\n\
  mv \"$OUT/id.part\" \"$OUT/id\"\n\
  AFTER\n\
else\n\
  echo \"$1 $2\" > \"$OUT/resumed.part\"; mv \"$OUT/resumed.part\" \"$OUT/resumed\"\n\
fi";

pub(super) fn agent(after: &str) -> String {
    AGENT.replace("AFTER", after)
}

pub(super) fn asked(bench: &Bench) -> String {
    wait_for("the agent asks", || {
        let text = std::fs::read_to_string(bench.out.join("id")).ok()?;
        Some(text.trim().to_owned()).filter(|it| it.len() == 36)
    })
}

pub(super) fn legs(bench: &Bench) -> Vec<Value> {
    let listed = bench.get("/api/agent/jobs?kind=parks").ok();
    listed["items"].as_array().unwrap().clone()
}

#[track_caller]
pub(super) fn approve(bench: &Bench, id: &str) {
    let body = json!({"version": 1, "changes": {"budget": 100}, "note": "Begin small."});
    bench.post(&format!("/api/approvals/{id}/approve"), body).ok();
}

/// Declares a kind whose jobs park, for tests of others.
pub(crate) fn declare(bench: &Bench) {
    parking_kind(bench, "timeout = \"60s\"", &agent("exit 0"));
}

/// Parks such a job, and lets it go on to its end.
#[track_caller]
pub(crate) fn park(bench: &Bench) {
    let job = bench.job("parks", json!({}));
    let id = asked(bench);
    bench.wait_status(&job, "parked");
    approve(bench, &id);
    bench.wait_left("resumed");
    until("all legs end", || legs(bench).iter().all(|it| it["status"] == "succeeded"));
}

#[test]
fn g35_a_parked_job_goes_on_with_the_answer_also_after_kill_9() {
    let bench = Bench::new();
    parking_kind(&bench, "timeout = \"60s\"", &agent("exit 0"));
    let server = bench.serve();
    let job = bench.job("parks", json!({}));
    let id = asked(&bench);
    let parked = bench.wait_status(&job, "parked");
    assert_eq!((&parked["waits_for"], &parked["reason"]), (&json!(id), &Value::Null));
    bench.quiet();
    server.kill();
    let server = bench.serve();
    assert_eq!(bench.show(&job)["status"], "parked");
    approve(&bench, &id);
    bench.wait_left("resumed");
    let session = bench.left("session");
    assert_eq!(bench.left("resumed").trim(), format!("--resume {}", session.trim()));
    until("the next leg ends", || legs(&bench).iter().all(|it| it["status"] == "succeeded"));
    let legs = legs(&bench);
    assert_eq!(legs.len(), 2);
    assert_eq!((&legs[1]["id"], &legs[1]["reason"]), (&json!(job), &json!("resumed")));
    assert_eq!((&legs[0]["root_id"], &legs[0]["resumes"]), (&json!(job), &json!(job)));
    let leg = legs[0]["id"].as_str().unwrap();
    // From each run the other one is found, and the decision between them.
    let page = Browser::signed_in(&bench, &server).page(&format!("/jobs/{leg}"));
    assert!(page.contains(&format!("href=\"/jobs/{job}\"")), "{page}");
    assert!(page.contains(&format!("href=\"/approvals/{id}\"")), "{page}");
    let runs = bench.show(&job)["legs"].clone();
    assert_eq!((&runs[0]["waits_for"], &runs[1]["id"]), (&json!(id), &json!(leg)));
    let prompt = bench.get(&format!("/api/agent/jobs/{leg}/prompt")).ok();
    let prompt = prompt["prompt"].as_str().unwrap();
    for part in ["Create it?", "with changes", "Begin small.", "\"budget\": 100", "Go on"] {
        assert!(prompt.contains(part), "{part} in {prompt}");
    }
}

#[test]
fn a_decision_does_not_go_on_with_another_document_of_the_same_name() {
    let bench = Bench::new();
    parking_kind(&bench, "timeout = \"60s\"", &agent("exit 0"));
    bench.edit(|lua| {
        lua.replace("wb.input.line { required = false, default = \"none\" }", "wb.input.source {}")
    });
    bench.write_script();
    let server = bench.serve();
    crate::places::ready(&bench);
    let job = bench.job("parks", json!({"word": "guide.md"}));
    let id = asked(&bench);
    bench.wait_status(&job, "parked");
    for moved in [["rm", "-q", "guide.md"], ["mv", "notes.md", "guide.md"]] {
        bench.git(&moved);
        bench.git(&["commit", "-q", "-m", "moved"]);
    }
    let is_told = |it: &Value| it["path"] == "guide.md" && it["from"] == "notes.md";
    until("it is seen", || crate::places::events(&bench, "source_renamed").iter().any(is_told));
    approve(&bench, &id);
    let leg = legs(&bench)[0]["id"].as_str().unwrap().to_owned();
    let is_held = || {
        let held = bench.show(&leg)["waiting"].clone();
        let why = "guide.md was notes.md, and has taken the name of its document";
        assert_eq!(held["code"], "kind_changed");
        assert!(held.to_string().contains(why), "{held}");
    };
    is_held();
    bench.json(&["reload"]);
    is_held();
    bench.json(&["reload", "--drop"]);
    assert_eq!(bench.show(&leg)["status"], "cancelled");
    assert!(!bench.out.join("resumed").exists());
    server.stop();
}

/// The replaced database still has it parked: nothing happened to it since the backup. One that was
/// answered since is not asked about again.
#[test]
fn a_restore_keeps_the_request_of_a_job_that_is_still_parked() {
    let bench = Bench::new();
    parking_kind(&bench, "timeout = \"60s\"", &agent("exit 0"));
    let server = bench.serve();
    let job = bench.job("parks", json!({}));
    let id = asked(&bench);
    bench.wait_status(&job, "parked");
    let backup = bench.json(&["backup"])["path"].as_str().unwrap().to_owned();
    server.stop();
    let report = bench.json(&["restore", &backup]);
    assert_eq!(report["jobs_cancelled"], json!([]), "{report:#}");
    let server = bench.serve();
    assert_eq!(bench.show(&job)["status"], "parked");
    // Parked jobs count where a reload would leave them without their kind.
    let script = bench.read("wiki-browser.lua");
    bench.write("wiki-browser.lua", script.split("wb.kind").next().unwrap());
    let (_, out, err) = bench.cli(&["reload", "--dry-run"]);
    assert!(out.contains("removed  kind \"parks\": 1 job is parked"), "{out}{err}");
    bench.write("wiki-browser.lua", script);
    approve(&bench, &id);
    bench.wait_left("resumed");
    until("the next leg ends", || legs(&bench).iter().all(|it| it["status"] == "succeeded"));
    server.stop();
    let report = bench.json(&["restore", &backup]);
    assert_eq!(report["jobs_cancelled"], json!([job]), "{report:#}");
    assert_eq!(report["approvals_withdrawn"], 1, "{report:#}");
}

/// Its hooks run once, and nobody cleans up between its legs, also after a kill.
#[test]
fn a_parked_job_keeps_its_worktree_until_its_last_leg_has_ended() {
    let bench = Bench::new();
    let hooks = bench.out.join("hooks");
    let fields = format!(
        "timeout = \"60s\", workspace = \"worktree\",
        prepare = [[echo prepare >> {hooks}; echo prepared > made]],
        cleanup = [[echo cleanup >> {hooks}]]"
    );
    let agent = agent("echo half > half; exit 0")
        .replace("echo \"$1 $2\" >", "cat half made > \"$OUT/worked\"; echo \"$1 $2\" >");
    parking_kind(&bench, &fields, &agent);
    let server = bench.serve();
    let job = bench.job("parks", json!({}));
    let id = asked(&bench);
    bench.wait_status(&job, "parked");
    assert_eq!(bench.show(&job)["workspace"]["state"], "ready");
    assert_eq!(bench.left("hooks"), "prepare");
    server.kill();
    let server = bench.serve();
    assert_eq!(bench.show(&job)["workspace"]["state"], "ready");
    approve(&bench, &id);
    bench.wait_left("resumed");
    until("the next leg ends", || legs(&bench).iter().all(|it| it["status"] == "succeeded"));
    assert_eq!(bench.left("worked"), "half\nprepared");
    assert_eq!(bench.left("hooks"), "prepare\ncleanup");
    let workspace = bench.show(&job)["workspace"].clone();
    assert_eq!(workspace["state"], "gone");
    let kept = workspace["kept_ref"].as_str().unwrap();
    assert_eq!(bench.git(&["show", &format!("{kept}:half")]).trim(), "half");
    server.stop();
}

#[test]
fn g35_an_answer_that_comes_before_the_end_is_not_lost() {
    let bench = Bench::new();
    let after = "until [ -e \"$OUT/go\" ]; do sleep 0.02; done";
    parking_kind(&bench, "timeout = \"60s\"", &agent(after));
    let _server = bench.serve();
    let job = bench.job("parks", json!({}));
    let id = asked(&bench);
    approve(&bench, &id);
    assert_eq!(bench.show(&job)["status"], "running");
    std::fs::write(bench.out.join("go"), "").unwrap();
    bench.wait_left("resumed");
    until("all have ended", || legs(&bench).iter().all(|it| it["status"] == "succeeded"));
    assert_eq!(legs(&bench).len(), 2);
}

#[test]
fn a_server_that_dies_while_the_agent_ends_parks_the_job() {
    let bench = Bench::new();
    let after = "until [ -e \"$OUT/go\" ]; do sleep 0.02; done";
    parking_kind(&bench, "timeout = \"60s\"", &agent(after));
    let server = bench.serve();
    let job = bench.job("parks", json!({}));
    let id = asked(&bench);
    server.kill();
    let _server = bench.serve();
    bench.wait_status(&job, "parked");
    approve(&bench, &id);
    bench.wait_left("resumed");
}

#[test]
fn a_parked_job_holds_no_slot_and_a_cancel_withdraws_its_question() {
    let bench = Bench::new();
    bench.limits("jobs = 1, grace = \"1s\"");
    parking_kind(&bench, "timeout = \"60s\"", &agent("exit 0"));
    bench.word_kind("other", "timeout = \"20s\"", "echo done > \"$OUT/other\"");
    let _server = bench.serve();
    let job = bench.job("parks", json!({}));
    let id = asked(&bench);
    bench.wait_status(&job, "parked");
    assert_eq!(bench.ended(&bench.job("other", json!({})))["status"], "succeeded");
    bench.post(&format!("/api/agent/jobs/{job}/cancel"), json!({})).ok();
    let cancelled = bench.show(&job);
    assert_eq!(
        (&cancelled["status"], &show(&bench, &id)["state"]),
        (&json!("cancelled"), &json!("withdrawn"))
    );
    let late = bench.post(&format!("/api/approvals/{id}/approve"), json!({"version": 1}));
    assert_eq!(late.refusal(), (409, "approval_decided"));
    assert_eq!(legs(&bench).len(), 1);
}

/// An engine that forgets its sessions is named as the cause.
#[test]
fn a_leg_whose_session_is_gone_says_so() {
    let bench = Bench::new();
    let forgets = agent("exit 0").replace(
        "echo \"$1 $2\"",
        "\
        echo \"No conversation found with session ID: $2\" >&2; exit 1; echo \"$1 $2\"",
    );
    parking_kind(&bench, "timeout = \"60s\"", &forgets);
    let server = bench.serve();
    let job = bench.job("parks", json!({}));
    let id = asked(&bench);
    bench.wait_status(&job, "parked");
    approve(&bench, &id);
    until("the next leg ends", || legs(&bench).len() == 2 && legs(&bench)[0]["status"] == "failed");
    assert_eq!(legs(&bench)[0]["reason"], "session_lost");
    server.stop();
}

/// Whoever waits in the last place keeps all others waiting: it is told at once to park instead.
/// One that cannot be parked waits, and so does everybody while there is another place.
#[test]
fn a_wait_in_the_last_place_is_refused_with_the_way_to_park() {
    let waits = "eval \"$(cat)\"\n\
        id=$(\"$wb_agent\" approval create --channel aws --title 'Create it?')\n\
        echo \"$id\" > \"$OUT/id\"\n\
        \"$wb_agent\" approval await \"$id\" --timeout 500ms > \"$OUT/printed\" 2> \"$OUT/said\"\n\
        echo $? > \"$OUT/first\"\n\
        grep -q and-exit \"$OUT/said\" && exit 0\n\
        \"$wb_agent\" approval await \"$id\" --timeout none; echo $? > \"$OUT/code\"";
    for (places, can_park) in [(1, true), (2, true), (1, false)] {
        let bench = Bench::new();
        bench.limits(&format!("jobs = {places}, grace = \"1s\""));
        parking_kind(&bench, "timeout = \"60s\"", waits);
        if !can_park {
            bench.edit(|lua| lua.replace("resume = { \"--resume\", \"{{session}}\" },", ""));
        }
        let server = bench.serve();
        let job = bench.job("parks", json!({}));
        let id = asked(&bench);
        assert_eq!(bench.wait_left("first"), "75");
        let (said, is_refused) = (bench.left("said"), places == 1 && can_park);
        assert_eq!(said.contains("approval create … --and-exit"), is_refused, "{said}");
        if !is_refused {
            bench.post(&format!("/api/approvals/{id}/approve"), json!({"version": 1})).ok();
            assert_eq!(bench.wait_left("code"), "0");
        }
        bench.ended(&job);
        server.stop();
    }
}

#[test]
fn an_expiry_goes_on_too_and_what_cannot_go_on_is_refused() {
    let bench = Bench::new();
    let soon = agent("exit 0").replace("--and-exit", "--and-exit --expires 500ms");
    parking_kind(&bench, "timeout = \"60s\"", &soon);
    bench.word_kind(
        "mute",
        "asks = true, timeout = \"20s\"",
        "\"$wb_agent\" approval create --channel aws --title 'Create it?' --and-exit \\\n\
         2> \"$OUT/why.part\"; mv \"$OUT/why.part\" \"$OUT/why\"",
    );
    let _server = bench.serve();
    bench.job("parks", json!({}));
    let id = asked(&bench);
    bench.wait_left("resumed");
    assert_eq!(show(&bench, &id)["state"], "expired");
    bench.ended(&bench.job("mute", json!({})));
    assert!(bench.left("why").contains("cannot end and go on later"), "{}", bench.left("why"));
    assert_eq!(bench.get("/api/approvals?state=pending").ok()["items"], json!([]));
}

/// Its workspace is not left until somebody sweeps.
#[test]
fn what_a_parked_job_has_left_is_cleaned_up_when_it_is_cancelled() {
    let bench = Bench::new();
    let hooks = bench.out.join("hooks");
    let fields = format!(
        "timeout = \"60s\", workspace = \"worktree\", cleanup = [[echo cleanup >> {hooks}]]"
    );
    parking_kind(&bench, &fields, &agent("echo half > half; exit 0"));
    let server = bench.serve();
    let job = bench.job("parks", json!({}));
    asked(&bench);
    bench.wait_status(&job, "parked");
    bench.json(&["job", "cancel", &job]);
    until("it is gone", || bench.show(&job)["workspace"]["state"] == "gone");
    assert_eq!(bench.left("hooks"), "cleanup");
    server.stop();
}

/// The decision would be used up by a leg that cannot run.
#[test]
fn a_decision_whose_job_cannot_go_on_is_refused_until_it_can() {
    let bench = Bench::new();
    parking_kind(&bench, "timeout = \"60s\"", &agent("exit 0"));
    let server = bench.serve();
    let job = bench.job("parks", json!({}));
    let id = asked(&bench);
    bench.wait_status(&job, "parked");
    let resume = "resume = { \"--resume\", \"{{session}}\" },";
    bench.edit(|text| text.replace(resume, ""));
    bench.write_script();
    bench.json(&["reload"]);
    for verb in ["approve", "reject"] {
        let path = format!("/api/approvals/{id}/{verb}");
        let refused = bench.post(&path, json!({"version": 1}));
        assert_eq!(refused.refusal(), (409, "cannot_resume"), "{verb}");
        let hint = refused.body["error"]["hint"].as_str().unwrap();
        assert!(hint.contains(&format!("job cancel {job}")), "{hint}");
    }
    assert_eq!(show(&bench, &id)["state"], "pending");
    bench.edit(|text| text.replace("session = { ", &format!("{resume} session = {{ ")));
    bench.write_script();
    bench.json(&["reload"]);
    approve(&bench, &id);
    bench.wait_left("resumed");
    server.stop();
}

/// A person may take longer than an agent may be silent: its idle clock stands still meanwhile.
#[test]
fn an_agent_that_waits_for_a_person_is_not_idle() {
    let bench = Bench::new();
    // A word before each program that it starts: a slow machine is no silent agent.
    let waits = "ID=$(\"$wb_agent\" approval create --channel aws --title 'Create it?'); \
        echo \"$ID\" > \"$OUT/id.part\"; mv \"$OUT/id.part\" \"$OUT/id\"; echo asked; \
        \"$wb_agent\" approval await \"$ID\" --timeout none > \"$OUT/told\"";
    let fields = "timeout = \"60s\", idle = \"4s\"";
    parking_kind(
        &bench,
        fields,
        &format!("eval \"$(cat)\"; echo begun; [ \"$word\" = none ] || exec sleep 60; {waits}"),
    );
    let server = bench.serve();
    let waiting = bench.job("parks", json!({}));
    let id = asked(&bench);
    // Begun later and silent as well: this one runs out of time.
    let idle = bench.job("parks", json!({"word": "idle"}));
    assert_eq!(bench.ended(&idle)["reason"], "idle_timeout");
    assert_eq!(bench.show(&waiting)["status"], "running");
    approve(&bench, &id);
    bench.wait_left("told");
    assert_eq!(bench.ended(&waiting)["status"], "succeeded");
    server.stop();
}
