//! The pages of inboxes and mail, as links and forms.

use crate::pages::Browser;
use crate::support::Bench;

#[test]
fn an_inbox_is_written_to_and_its_reply_is_read_on_pages() {
    let bench = Bench::new();
    bench.write("team.json", r#"{"type": "object", "required": ["team"]}"#);
    let agent = "wb-agent complete --reply '{\"html\": \"<img src=x onerror=alert(1)>\"}'";
    bench.inbox("lead/provision", "schema = \"team.json\"", agent);
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    assert!(browser.page("/inboxes").contains("lead/provision"));
    let shown = browser.page("/inboxes/lead/provision");
    assert!(shown.contains("Message schema"), "{shown}");
    assert!(shown.contains("No messages yet"), "{shown}");

    let at = "/inboxes/lead/provision";
    let refused = browser.try_fill(at, at, &[("payload", "{\"taem\": 1}")]);
    assert_eq!(refused.status, 400);
    assert!(refused.html.contains("payload: ") && refused.html.contains("taem"));
    let message = browser.fill(at, at, &[("payload", "{\"team\": 1}")]);
    let id = message.strip_prefix("/mail/").unwrap();
    let told = bench.get(&format!("/api/messages/{id}/await?timeout=50")).ok();
    assert_eq!(told["state"], "replied");

    let shown = browser.page(&message);
    assert!(shown.contains("onerror") && !shown.contains("<img src=x"), "{shown}");
    let job = told["job_id"].as_str().unwrap();
    assert!(shown.contains(&format!("/jobs/{job}")), "{shown}");
    assert!(browser.page(&format!("/jobs/{job}")).contains(&message));
    let mine = browser.page("/mail");
    assert!(mine.contains("Reply") && mine.contains("Unread"), "{mine}");
    let reply = mine.split("data-key=\"").nth(1).unwrap().split('"').next().unwrap();
    let reply = format!("/mail/{reply}");
    let read = format!("{reply}/read");
    assert_eq!(browser.fill(&reply, &read, &[]), reply);
    assert!(browser.page("/mail").contains("<span>Read</span>"));
    assert_eq!(browser.get("/inboxes/lead/nothing").status, 404);
    server.stop();
}

#[test]
fn a_message_in_words_is_shown_as_markdown() {
    let bench = Bench::new();
    bench.inbox("lead/answer", "", "wb-agent complete --reply '\"- **done** <script>x</script>\"'");
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let at = "/inboxes/lead/answer";
    let message = browser.fill(at, at, &[("payload", "Do *it*.")]);
    assert!(browser.page(&message).contains("Do <em>it</em>."));
    let id = message.strip_prefix("/mail/").unwrap();
    let told = bench.get(&format!("/api/messages/{id}/await?timeout=50")).ok();
    assert_eq!(told["state"], "replied");
    let mine = browser.page("/mail");
    let reply = mine.split("data-key=\"").nth(1).unwrap().split('"').next().unwrap();
    let shown = browser.page(&format!("/mail/{reply}"));
    assert!(shown.contains("<li><strong>done</strong>"), "{shown}");
    assert!(!shown.contains("<script>x"), "{shown}");
    server.stop();
}
