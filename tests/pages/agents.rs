//! The pages of agents that live on, as links and forms.

use serde_json::json;

use crate::pages::Browser;
use crate::support::{Bench, until};

#[test]
fn an_agent_is_started_written_to_and_stopped_on_pages() {
    let bench = Bench::new();
    crate::agents::declare(&bench, "robbo", "", crate::agents::ECHO);
    let server = bench.serve();
    crate::agents::wait_state(&bench, "robbo", "stopped");
    let browser = Browser::signed_in(&bench, &server);
    let list = browser.page("/agents");
    assert!(list.contains("robbo") && list.contains("stopped"), "{list}");
    let at = "/agents/robbo";
    assert!(browser.page(at).contains("No messages yet"));
    assert_eq!(browser.fill(at, "/agents/robbo/start", &[]), at);
    let hostile = "<img src=x onerror=alert(1)>";
    assert_eq!(browser.fill(at, at, &[("text", hostile)]), "/agents/robbo#messages");
    until("it has answered", || browser.page(at).matches("onerror").count() >= 2);
    let shown = browser.page(at);
    assert!(!shown.contains("<img src=x"), "{shown}");
    crate::agents::wait_state(&bench, "robbo", "idle");
    // It listens: that is no work that runs.
    let home = browser.page("/");
    assert!(!home.contains("<h2>Running") && home.contains("Nothing is running"), "{home}");
    assert_eq!(browser.fill(at, "/agents/robbo/stop", &[]), at);
    crate::agents::wait_state(&bench, "robbo", "stopped");
    let refused = browser.try_fill(at, at, &[("text", &"x".repeat(300_000))]);
    assert_eq!(refused.status, 413);
    assert_eq!(browser.get("/agents/robo").status, 404);
    let mail = bench.get("/api/messages?from=agent:robbo").ok();
    assert_eq!(mail["items"][0]["payload"], json!(format!("again {hostile}")));
    server.stop();
}

/// What nothing shows to have arrived is decided on the page of its agent.
#[test]
fn an_unconfirmed_message_is_sent_again_or_confirmed_on_the_page_of_its_agent() {
    let bench = Bench::new();
    let deaf = "while read -r line; do :; done";
    crate::agents::declare(&bench, "deaf", "autostart = \"always\"", deaf);
    bench
        .edit(|text| text.replace("speaks = \"lines\"", "speaks = \"lines\", proof_wait = \"1s\""));
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let at = "/agents/deaf";
    assert!(!browser.page(at).contains("Unconfirmed messages"));
    let message = crate::agents::send(&bench, "deaf", json!("once"));
    let state = || {
        let it = bench.get(&format!("/api/messages/{message}")).ok();
        it["deliveries"].as_array().unwrap().last().unwrap()["state"].clone()
    };
    until("it is unconfirmed", || state() == "unconfirmed");
    let shown = browser.page(at);
    assert!(shown.contains("Unconfirmed messages") && shown.contains("once"), "{shown}");
    let (resend, settle) = (format!("/mail/{message}/resend"), format!("/mail/{message}/settle"));
    assert_eq!(browser.fill(at, &resend, &[]), format!("/mail/{message}"));
    until("it is unconfirmed again", || state() == "unconfirmed");
    assert_eq!(browser.fill(at, &settle, &[]), format!("/mail/{message}"));
    assert_eq!(state(), "confirmed");
    assert!(!browser.page(at).contains("Unconfirmed messages"));
    server.stop();
}
