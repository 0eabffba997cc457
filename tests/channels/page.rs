//! The page of a channel: who gets a seat, what is set there, and what a finished one says.

use serde_json::json;

use crate::channels::agents::{agents, say, wait_known, wait_said};
use crate::channels::{room, said};
use crate::pages::{Browser, hidden_fields};
use crate::support::{Bench, wait_for};

#[test]
fn a_channel_is_made_managed_and_finished_by_forms() {
    let bench = Bench::new();
    agents(&bench, &["robbo", "paula"]);
    let server = bench.serve();
    wait_known(&bench, 2);
    bench.post("/api/persons", json!({"name": "kim", "role": "member"})).ok();
    let browser = Browser::signed_in(&bench, &server);
    room(&bench, "Elsewhere", json!([{"agent": "robbo"}]));

    // Forms seat personas, and say beforehand which agent it will be.
    let form = browser.page("/channels/new");
    assert!(form.contains("robbo-2 starts, because robbo is in workshop-elsewhere-1"), "{form}");
    let (_, key) = hidden_fields(&form, "/channels").into_iter().find(|it| it.0 == "key").unwrap();
    let fields = [("key", key.as_str()), ("name", "Plan"), ("persona", "robbo"), ("person", "kim")];
    assert_eq!(browser.submit("/channels", &fields).status, 303);
    let path = "/channels/workshop-plan-2";
    let page = browser.page(path);
    assert!(page.contains("<a href=\"/agents/robbo-2\">"), "{page}");
    assert!(
        page.contains("<option value=\"persona:paula\">paula: paula starts</option>"),
        "{page}"
    );
    assert!(!page.contains("persona:robbo"), "it is a member");
    let add = format!("{path}/members");
    assert_eq!(browser.submit(&add, &[("who", "persona:paula")]).status, 303);

    // Budget, goal and chair; what is wrong changes nothing.
    let set = |what: &str, fields: &[(&str, &str)]| {
        browser.submit(&format!("{path}/{what}"), fields).status
    };
    for fields in [[("turns", "x")], [("turns", "0")], [("cost_usd", "-1")], [("tokens", "1.5")]] {
        assert_eq!(set("budget", &fields), 400, "{fields:?}");
    }
    assert_eq!(set("budget", &[("turns", "1"), ("tokens", ""), ("cost_usd", "")]), 303);
    assert_eq!(set("goal", &[("intent", "Decide where skills live.")]), 303);
    let shown = || bench.get("/api/channels/2").ok();
    assert_eq!(shown()["budget"], json!({"turns": 1}));
    assert_eq!(shown()["intent"], "Decide where skills live.");
    say(&bench, "workshop-plan-2", "@paula what next?");
    wait_for("the budget is used", || (shown()["paused"]["reason"] == "budget").then_some(()));
    let page = browser.page(path);
    assert!(page.contains("Used: 1 of 1 turns."), "{page}");
    assert_eq!(set("resume", &[]), 409);
    let refused = bench.post("/api/channels/2/resume", json!({}));
    assert_eq!(refused.refusal(), (409, "budget_used"));
    assert_eq!(set("resume", &[("turns", "3"), ("tokens", ""), ("cost_usd", "")]), 303);
    assert_eq!((&shown()["paused"], &shown()["budget"]), (&json!(null), &json!({"turns": 3})));
    bench.json(&["channel", "budget", "2", "--turns", "9"]);
    assert_eq!(shown()["budget"], json!({"turns": 9}));
    assert_eq!(set("members/kim/chair", &[]), 303);
    let chair =
        shown()["members"].as_array().unwrap().iter().find(|it| it["is_chair"] == true).cloned();
    assert_eq!(chair.unwrap()["handle"], "kim");

    finish(&bench, &browser, path);
    server.stop();
}

/// A finished channel begins with what it came to, and nothing is set there any more.
fn finish(bench: &Bench, browser: &Browser, path: &str) {
    say(bench, "workshop-plan-2", "@kim\nDecision: beside the <b>persona</b>\nAction: move them");
    let number = said(bench, "workshop-plan-2").len();
    bench.json(&["channel", "complete", "2"]);
    let page = browser.page(path);
    let (outcomes, lines) =
        (page.find("ch-outcomes").unwrap(), page.find("id=\"ch-lines\"").unwrap());
    assert!(outcomes < lines, "{page}");
    assert!(page.contains("Decision: beside the &#60;b&#62;persona&#60;/b&#62;"), "{page}");
    assert!(page.contains(&format!("{path}?before={}#m{number}", number + 1)), "{page}");
    assert!(!page.contains("ch-budget") && !page.contains("Make chair"), "{page}");
    let listed = bench.json(&["channel", "list", "--status", "complete", "--type", "workshop"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    let none = bench.json(&["channel", "list", "--status", "complete", "--after", "2"]);
    assert_eq!(none["items"], json!([]));
    wait_said(bench, "workshop-plan-2", number);
}
