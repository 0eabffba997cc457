//! The pages of inboxes and mail, as links and forms.

use serde_json::json;

use crate::mail::turns::{COUNTS, instance, talk};
use crate::pages::{Browser, hidden_fields};
use crate::support::{Bench, until};

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
    // What the page and the command say can be typed as it is.
    let inbox = bench.get("/api/inboxes/lead/provision").ok();
    assert_eq!(inbox["example"], json!({"team": "text"}));
    let command = "wiki-browser send topic:lead/provision --payload '{\"team\":\"text\"}' --wait";
    assert!(shown.replace("&#34;", "\"").replace("&#39;", "'").contains(command), "{shown}");
    let (_, out, err) = bench.cli(&["inbox", "show", "lead/provision"]);
    assert!(out.contains(command), "{out}{err}");

    let at = "/inboxes/lead/provision";
    let refused = browser.try_fill(at, at, &[("payload", "{\"taem\": 1}")]);
    assert_eq!(refused.status, 400);
    assert!(refused.html.contains("payload: ") && refused.html.contains("taem"));
    let message = browser.fill(at, at, &[("payload", "{\"team\": 1}")]);
    let id = message.strip_prefix("/mail/").unwrap();
    let told = bench.get(&format!("/api/messages/{id}/await?timeout=50")).ok();
    assert_eq!(told["state"], "replied");

    let shown = browser.page(&message);
    assert!(shown.contains("<title>Message from person:ada"), "{shown}");
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

/// Its page writes to it as `wiki-browser send agent:…` does.
#[test]
fn an_instance_is_written_to_on_its_page() {
    let bench = Bench::new();
    talk(&bench, "", COUNTS);
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let body = json!({"to": "topic:t/talk", "payload": "first"});
    let sent = bench.post("/api/messages", body).ok()["message_id"].clone();
    bench.wait_left("heard");
    let (address, job) = instance(&bench, &sent);
    let at = format!("/jobs/{job}");
    let action = format!("{at}/messages");
    let shown = browser.page(&at);
    assert!(shown.contains("No messages since it started"), "{shown}");
    assert!(shown.contains(&format!("wiki-browser send {address}")), "{shown}");
    assert!(shown.contains("It gets the message as its next turn."), "{shown}");
    let hostile = "<img src=x onerror=alert(1)>";
    assert_eq!(browser.fill(&at, &action, &[("text", hostile)]), format!("{at}#messages"));
    until("it has read it", || bench.left("heard").contains(hostile));
    let shown = browser.page(&at);
    assert!(shown.contains("onerror") && !shown.contains("<img src=x"), "{shown}");
    let refused = browser.try_fill(&at, &action, &[("text", &"x".repeat(300_000))]);
    assert_eq!(refused.status, 413);
    assert!(refused.html.contains("form-refusal") && refused.html.contains("xxxx</textarea>"));
    // What was typed before it ended is not lost, and is sent to nobody.
    let key = hidden_fields(&browser.page(&at), &action).remove(0).1;
    browser.fill(&at, &action, &[("text", "last")]);
    bench.ended(&job);
    let late = browser.submit(&action, &[("key", &key), ("text", "too late")]);
    assert_eq!(late.status, 409);
    assert!(late.html.contains(&format!("{address} has ended")), "{}", late.html);
    assert!(late.html.contains(">too late</textarea>"), "{}", late.html);
    // Its page shows what was said, and no form any more.
    let shown = browser.page(&at);
    assert!(shown.contains("No reply") || shown.contains("Reply"), "{shown}");
    assert!(!shown.contains(&format!("action=\"{action}\"")), "{shown}");
    // Another kind of job has no address.
    assert_eq!(
        browser
            .submit(
                "/jobs/01998d4e-6c1a-7f00-8000-000000000001/messages",
                &[("key", &key), ("text", "x")]
            )
            .status,
        404
    );
    server.stop();
}

#[test]
fn a_message_of_an_agent_is_answered_in_place() {
    let bench = Bench::new();
    let agent = "wb-agent send person:ada 'Which team?' > /dev/null; echo up > \"$OUT/up\"\n\
        wb-agent inbox --wait 60s > \"$OUT/got\"; wb-agent complete --reply 1";
    bench.inbox("lead/asks", "timeout = \"1m\"", agent);
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    // An older one that is unread stands above what was read since.
    let body = json!({"to": "person:ada", "payload": "unread"});
    bench.post("/api/messages", body).ok();
    let at = "/inboxes/lead/asks";
    browser.fill(at, at, &[("payload", "{}")]);
    bench.wait_left("up");
    let home = browser.page("/");
    let unread = home.split_once("id=\"home-mail-head\"").map(|it| it.1);
    assert!(unread.is_some_and(|it| it.contains("Which team?")), "{home}");
    let mine = browser.page("/mail");
    let id = mine.split("data-key=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let asked = format!("/mail/{id}");
    assert!(browser.page(&asked).contains("Which team?"));
    let answer = format!("{asked}/answer");
    assert_eq!(browser.fill(&asked, &answer, &[("text", "Billing.")]), asked);
    bench.wait_left("got");
    let got: serde_json::Value = serde_json::from_str(&bench.left("got")).unwrap();
    assert_eq!((&got[0]["payload"], &got[0]["in_reply_to"]), (&json!("Billing."), &json!(id)));
    let mine = browser.page("/mail");
    let (unread, read) = (mine.find(">unread<").unwrap(), mine.find("Which team?").unwrap());
    assert!(unread < read, "{mine}");
    let reply = browser.page(&asked);
    assert!(reply.contains("Billing."), "{reply}");
    let home = browser.page("/");
    assert!(home.contains("home-mail") && !home.contains("Which team?"), "{home}");
    server.stop();
}
