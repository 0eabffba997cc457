//! The page of an inbox: what its instances do and wait for, and what is left of one that was
//! removed from the script.

use serde_json::{Value, json};

use crate::pages::Browser;
use crate::support::{Answer, Bench, until};

/// Works until it is written to.
const WAITS: &str = "echo up > \"$OUT/up\"\n\
    wb-agent inbox --wait 55s > /dev/null; wb-agent complete --reply '{\"done\": true}'";
/// Asks a person and ends; its next leg answers.
const PARKS: &str = "case \"$1\" in\n\
    --session-id) wb-agent approval create --channel aws --title 'Create it?' --and-exit ;;\n\
    *) wb-agent complete --reply 1 ;;\n\
    esac";

fn send(bench: &Bench, to: &str, payload: &str) -> Answer {
    bench.post("/api/messages", json!({"to": to, "payload": payload}))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a text"))
}

fn phases(instance: &Value) -> Vec<String> {
    let phases = instance["phases"].as_array().unwrap().iter();
    phases.map(|it| text(&it["phase"]).to_owned()).collect()
}

#[test]
fn the_page_of_an_inbox_shows_what_its_instances_do_and_why_they_wait() {
    let bench = Bench::new();
    let fields = "timeout = \"45m\", workspace = \"worktree\", repo = \".\", \
                  on_server_loss = \"kill\"";
    bench.inbox("lead/waits", fields, WAITS);
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let first = send(&bench, "topic:lead/waits", "first").ok();
    bench.wait_left("up");
    for later in ["second", "third"] {
        send(&bench, "topic:lead/waits", later).ok();
    }
    let (job, address) = (text(&first["job_id"]), text(&first["instance"]));
    let instance = bench.get(&format!("/api/instances/{job}")).ok();
    let path = text(&instance["workspace"]["path"]);
    let page = browser.page("/inboxes/lead/waits");
    for part in ["Working", " of 45 min", address, path, "1 of 1 running", "2 waiting"] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    // Of those that wait for their turn, the first says why.
    assert_eq!(page.matches("1 of at most 1 jobs of kind").count(), 1, "{page}");

    let shown = browser.page(&format!("/jobs/{job}"));
    let write = format!("wiki-browser send {address} --payload");
    let follow = format!("wiki-browser job follow {job}");
    for part in [address, "Prepared for ", "Working", &write, &follow] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    assert_eq!(phases(&instance), ["prepare", "run"]);
    assert_eq!(
        (&instance["message"]["payload"], &instance["answer"]),
        (&json!("first"), &json!(null))
    );
    assert_eq!((&instance["attach"], &instance["status_file"]), (&json!(follow), &json!(null)));

    send(&bench, address, "go on").ok();
    bench.ended(job);
    let instance = bench.get(&format!("/api/instances/{job}")).ok();
    assert_eq!(phases(&instance), ["prepare", "run", "cleanup"]);
    assert_eq!(instance["answer"]["payload"], json!({"done": true}));
    assert_eq!(text(&instance["status_file"]).trim(), "ok");
    let shown = browser.page(&format!("/jobs/{job}"));
    assert!(shown.contains("Cleaned up for ") && !shown.contains(&follow), "{shown}");
    let page = browser.page("/inboxes/lead/waits");
    let ended = page.split("Recently ended").nth(1).unwrap();
    assert!(ended.contains(address) && ended.contains("Done"), "{page}");
    let (code, _, err) = bench.cli(&["job", "cancel", "--kind", "lead/waits", "--yes"]);
    assert_eq!(code, 0, "{err}");

    server.stop();
}

/// Whoever decides is told that the job goes on later, and the message leads to the decision.
#[test]
fn a_decision_shows_the_used_up_daily_cap_that_its_job_waits_for() {
    let bench = Bench::new();
    bench.inbox("lead/parks", "asks = true, daily = { time = \"1ms\" }", PARKS);
    bench.edit(|lua| {
        let sessions = "session = { \"--session-id\", \"{{session}}\" }, \
                        resume = { \"--resume\", \"{{session}}\" },\n  env = { OUT";
        lua.replace("env = { OUT", sessions)
    });
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let sent = send(&bench, "topic:lead/parks", "x").ok();
    let job = text(&sent["job_id"]);
    let parked = bench.wait_status(job, "parked");
    let id = text(&parked["waits_for"]);
    let decision = format!("href=\"/approvals/{id}\"");
    for path in ["/inboxes/lead/parks", &format!("/mail/{}", text(&sent["message_id"]))] {
        let page = browser.page(path).to_lowercase();
        assert!(page.contains("parked") && page.contains(&decision), "{page}");
    }
    let later = "goes on later: the daily cap of kind";
    let page = browser.page(&format!("/approvals/{id}"));
    assert!(page.contains(later), "{page}");
    let page = browser.page("/decisions");
    assert!(page.contains("daily cap used up"), "{page}");
    let items = bench.get("/api/decisions").ok()["items"].clone();
    assert_eq!(items[0]["waiting"]["code"], "daily_cap", "{items:#}");
    let (_, out, err) = bench.cli(&["decisions"]);
    assert!(err.contains("goes on later: the daily cap of kind"), "{out}{err}");
    let (_, out, err) = bench.cli(&["approval", "show", id]);
    assert!(out.contains("later: the daily cap of kind"), "{out}{err}");
    let (_, out, err) = bench.cli(&["approval", "approve", id]);
    assert!(out.contains(later), "{out}{err}");
    let page = browser.page(&format!("/approvals/{id}"));
    assert!(page.contains("Approved") && page.contains(later), "{page}");
    server.stop();
}

#[test]
fn an_inbox_that_was_removed_is_shown_as_long_as_it_has_jobs() {
    let bench = Bench::new();
    bench.inbox("lead/waits", "on_server_loss = \"kill\"", WAITS);
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let first = send(&bench, "topic:lead/waits", "first").ok();
    bench.wait_left("up");
    let second = send(&bench, "topic:lead/waits", "second").ok();
    let script = bench.read("wiki-browser.lua");
    bench.write("wiki-browser.lua", script.split("wb.inbox").next().unwrap());
    let (code, out, err) = bench.cli(&["reload"]);
    assert_eq!(code, 0, "{out}{err}");

    let listed = bench.json(&["inbox", "list"])["items"].clone();
    let jobs = json!([first["job_id"], second["job_id"]]);
    let gone = (&listed[0]["name"], &listed[0]["is_gone"], &listed[0]["jobs"]);
    assert_eq!(gone, (&json!("lead/waits"), &json!(true), &jobs));
    let (code, out, err) = bench.cli(&["inbox", "show", "lead/waits"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("removed from the script"), "{out}");
    assert!(browser.page("/inboxes").contains("removed from the script"));
    let page = browser.page("/inboxes/lead/waits");
    assert!(page.contains("no longer declares this inbox"), "{page}");
    assert!(page.contains("Working") && page.contains("the script has no inbox"), "{page}");
    assert!(!page.contains("<form class=\"inputs\""), "{page}");
    assert_eq!(send(&bench, "topic:lead/waits", "third").refusal(), (404, "no_recipient"));
    send(&bench, text(&first["instance"]), "go on").ok();
    bench.ended(text(&first["job_id"]));
    let (code, _, err) = bench.cli(&["job", "cancel", "--kind", "lead/waits", "--yes"]);
    assert_eq!(code, 0, "{err}");
    until("it is gone", || browser.get("/inboxes/lead/waits").status == 404);
    assert_eq!(bench.json(&["inbox", "list"])["items"], json!([]));
    server.stop();
}

/// Without JavaScript, too, nothing is lost of *Approve with changes* that was refused.
#[test]
fn changes_that_are_refused_come_back_in_their_form() {
    let bench = Bench::new();
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let schema = json!({"properties": {"budget": {"type": "integer", "maximum": 500}}});
    let asked = json!({
        "channel": "aws", "title": "Create it?", "schema": schema,
        "payload": {"budget": 300, "zones": ["a"]},
    });
    let id = bench.post("/api/approvals", asked).ok()["id"].as_str().unwrap().to_owned();
    let (at, to) = (format!("/approvals/{id}"), format!("/approvals/{id}/approve"));
    let typed = |budget: &'static str, zones: &'static str| {
        [("field.budget", budget), ("field.zones", zones), ("note", "Begin small.")]
    };
    for (budget, zones, why) in [("100", "[\"b", "is not JSON"), ("900", "[]", "maximum")] {
        let seen = browser.try_fill(&at, &to, &typed(budget, zones));
        assert_eq!(seen.status, 400);
        let (_, form) = seen.html.split_once("id=\"amend\"").unwrap();
        let form = form.split("</form>").next().unwrap().replace("&#34;", "\"");
        for part in [why, "field-refusal", zones, "Begin small.", &format!("value=\"{budget}\"")] {
            assert!(form.contains(part), "{part} is not in {form}");
        }
    }
    assert_eq!(browser.fill(&at, &to, &typed("100", "[]")), at);
    let shown = bench.get(&format!("/api/approvals/{id}")).ok();
    assert_eq!(shown["changes"], json!({"budget": 100, "zones": []}));
    server.stop();
}
