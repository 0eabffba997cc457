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
    // At a shell, limits that are not given stay.
    bench.json(&["channel", "budget", "2", "--turns", "9", "--tokens", "5000000"]);
    bench.json(&["channel", "pause", "2"]);
    bench.json(&["channel", "resume", "2", "--turns", "11"]);
    assert_eq!(shown()["budget"], json!({"turns": 11, "tokens": 5_000_000}));
    bench.json(&["channel", "budget", "2", "--turns", "9"]);
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
    // Who was there to the end stays a member to whoever reads it.
    let members = &page[page.find("id=\"ch-members\"").unwrap()..];
    for name in ["robbo", "paula", "kim"] {
        assert!(members.contains(name), "{name}: {members}");
    }
    let (_, text, _) = bench.cli(&["channel", "show", "2"]);
    assert!(text.contains("paula") && !text.contains("offline"), "{text}");
    let (_, text, _) = bench.cli(&["channel", "export", "2"]);
    assert!(text.contains("Members: ") && text.contains("paula"), "{text}");
    let (_, text, _) = bench.cli(&["channel", "list", "--status", "complete"]);
    assert!(text.contains("paula"), "{text}");
    let (_, _, said) = bench.cli(&["channel", "follow", "2"]);
    assert!(said.contains("read-only: it has ended") && !said.contains("join"), "{said}");
}

/// Whoever writes is told who does not receive it, why, and what to do: in the terminal, and on the
/// page, where a button does it.
#[test]
fn an_agent_that_receives_nothing_is_told_with_what_to_do() {
    let bench = Bench::new();
    agents(&bench, &["robbo", "paula"]);
    bench.lua(
        r#"wb.engine "none" { type = "stream", speaks = "lines", command = { "/bin/false" } }
wb.agent "eve" { about = "Falls", engine = "none" }
"#,
    );
    let server = bench.serve();
    wait_known(&bench, 3);
    let browser = Browser::signed_in(&bench, &server);
    let slug = room(&bench, "Silent", json!([{"agent": "robbo"}, {"agent": "paula"}]));
    let path = format!("/channels/{slug}");
    say(&bench, &slug, "First words");
    wait_said(&bench, &slug, 3);
    assert!(!browser.page(&path).contains("ch-trouble"));
    bench.json(&["agent", "stop", "robbo"]);
    crate::agents::wait_state(&bench, "robbo", "stopped");
    // One of two: the other one still listens.
    let page = browser.page(&path);
    let words = "paula reads your message when it is free. robbo doesn’t receive it now.";
    assert!(page.contains(words) && !page.contains("ch-silent"), "{page}");
    let (_, shown, _) = bench.cli(&["channel", "show", &slug]);
    assert!(shown.contains("it is stopped. To fix it: start it"), "{shown}");
    let (code, out, said) = bench.cli(&["msg", "send", &slug, "@robbo are you there?"]);
    assert_eq!((code, out.trim()), (0, format!("{slug} 4").as_str()));
    assert!(said.contains("agent:robbo is stopped, and the message waits"), "{said}");
    let shown = bench.json(&["channel", "show", &slug]);
    assert_eq!(shown["members"][1]["problem"]["what"], "it is stopped");
    // Both: what to do stands where one writes, and a button does it.
    bench.json(&["agent", "stop", "paula"]);
    crate::agents::wait_state(&bench, "paula", "stopped");
    let page = browser.page(&path);
    assert!(page.contains("No agents are listening.") && page.contains("ch-silent"), "{page}");
    assert!(page.contains("<code>wiki-browser agent start robbo</code>"), "{page}");
    assert_eq!(browser.submit(&format!("{path}/members/robbo/start"), &[]).status, 303);
    wait_said(&bench, &slug, 5);
    assert_eq!(browser.submit(&format!("{path}/members/nobody/start"), &[]).status, 404);
    // An engine that falls at each start is one failure at home, not one for each start.
    bench.json(&["channel", "add", &slug, "--agent", "eve"]);
    let page = wait_for("eve has fallen twice", || {
        let shown = bench.json(&["channel", "show", &slug]);
        let eve = shown["members"].as_array()?.iter().find(|it| it["handle"] == "eve")?.clone();
        let jobs = bench.get("/api/agent/jobs?kind=@eve&status=failed").ok();
        (eve["problem"]["what"].as_str()?.contains("/bin/false")
            && jobs["items"].as_array()?.len() > 1)
            .then(|| browser.page("/"))
    });
    let failed = &page[page.find("Failed <span").unwrap()..];
    let failed = &failed[..failed.find("</section>").unwrap()];
    assert_eq!(failed.matches("@eve").count(), 2, "a row and its button: {failed}");
    bench.json(&["agent", "stop", "eve"]);
    server.stop();
}

/// What waits in a channel awaits review at home, where the channels come first and can go on.
#[test]
fn home_begins_with_channels_and_tells_what_waits_in_them() {
    let bench = Bench::new();
    agents(&bench, &["robbo"]);
    let server = bench.serve();
    wait_known(&bench, 1);
    let browser = Browser::signed_in(&bench, &server);
    let slug = room(&bench, "Bounded", json!([{"agent": "robbo"}]));
    let home = browser.page("/");
    assert!(home.contains("Nothing awaits review."), "{home}");
    bench.json(&["channel", "budget", &slug, "--turns", "1"]);
    say(&bench, &slug, "First words");
    wait_for("its budget is used up", || {
        (bench.json(&["channel", "show", &slug])["paused"]["reason"] == "budget").then_some(())
    });
    let home = browser.page("/");
    assert!(home.contains("is paused: its budget is used up"), "{home}");
    assert!(!home.contains("Nothing awaits review."), "{home}");
    let at = |words: &str| home.find(words).unwrap_or_else(|| panic!("{words}: {home}"));
    assert!(at("id=\"home-channels\"") < at("To review"), "{home}");
    bench.json(&["channel", "resume", &slug, "--turns", "9"]);
    let home = browser.page("/");
    assert!(home.contains(&format!("action=\"/channels/{slug}/pause\"")), "{home}");
    assert_eq!(browser.submit(&format!("/channels/{slug}/pause"), &[]).status, 303);
    let home = browser.page("/");
    assert!(home.contains(&format!("action=\"/channels/{slug}/resume\"")), "{home}");
    // A chair who leaves names the one who follows.
    bench.json(&["channel", "resume", &slug]);
    bench.json(&["channel", "leave", &slug]);
    let line = "left the channel. robbo is the chair now.";
    assert!(said(&bench, &slug).iter().any(|it| it.1.contains(line)), "{:?}", said(&bench, &slug));
    server.stop();
}

#[test]
fn a_budget_that_was_used_up_since_the_backup_is_used_up_after_a_restore() {
    let bench = Bench::new();
    agents(&bench, &["robbo"]);
    let server = bench.serve();
    wait_known(&bench, 1);
    let slug = room(&bench, "Spent", json!([{"agent": "robbo"}]));
    bench.json(&["channel", "budget", &slug, "--turns", "2"]);
    let shown = || bench.get("/api/channels/1").ok();
    say(&bench, &slug, "@robbo what next?");
    wait_for("one turn is over", || (shown()["spent"]["turns"] == 1).then_some(()));
    let backup = bench.json(&["backup"])["path"].as_str().unwrap().to_owned();
    say(&bench, &slug, "@robbo and then?");
    wait_for("the budget is used", || (shown()["paused"]["reason"] == "budget").then_some(()));
    server.stop();
    bench.json(&["restore", &backup]);
    let server = bench.serve();
    assert_eq!(
        (&shown()["spent"]["turns"], &shown()["paused"]["reason"]),
        (&json!(2), &json!("budget"))
    );
    assert_eq!(bench.post("/api/channels/1/resume", json!({})).refusal(), (409, "budget_used"));
    server.stop();
}
