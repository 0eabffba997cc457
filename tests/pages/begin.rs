//! Jobs without a Topic: the list of their kinds, and the form of each.

use serde_json::json;

use crate::pages::Browser;
use crate::support::Bench;

const KINDS: &str = r#"wb.kind "digest" {
  about = "Sums up what <happened>", engine = "quiet", timeout = "20s", produces = "result",
  inputs = {
    source_path = wb.input.source(),
    days = wb.input.number { min = 1, max = 31, about = "How many days back" },
    tone = wb.input.choice { choices = { "short", "long" } },
    loud = wb.input.flag { default = true },
    note = wb.input.text { required = false },
    blob = wb.input.blob { from = "source_path" },
  },
  prompt = [[{{source_path}} {{days}} {{tone}} {{loud}} {{note}} {{blob}}]],
}
wb.kind "sweep" {
  about = "Needs nothing", engine = "quiet", timeout = "20s", prompt = "go",
}
wb.kind "settle" {
  about = "Works on a Topic", engine = "quiet", timeout = "20s",
  inputs = { topic_id = wb.input.topic() }, prompt = [[{{topic_id}}]],
}
"#;

fn site() -> Bench {
    let bench = Bench::new();
    bench.engine("quiet", "true");
    bench.lua(KINDS);
    bench
}

#[test]
fn a_kind_without_a_topic_is_chosen_and_started() {
    let bench = site();
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    assert!(browser.page("/jobs").contains("href=\"/jobs/new\""));
    let list = browser.page("/jobs/new");
    for part in [
        "href=\"/jobs/new?kind=digest\"",
        "Sums up what &#60;happened&#62;",
        "Returns a result",
        "href=\"/jobs/new?kind=sweep\"",
        "<dt>settle</dt>",
    ] {
        assert!(list.contains(part), "{part}: {list}");
    }
    assert!(!list.contains("/jobs/new?kind=settle"), "that one needs a Topic: {list}");
    // From a document, the kinds that take one, and its path is there already.
    let document = "/jobs/new?source_path=guide.md";
    assert!(browser.page("/d/guide.md").contains(document));
    let list = browser.page(document);
    assert!(list.contains("?kind=digest&#38;source_path=guide.md") && !list.contains("kind=sweep"));
    let form = browser.page("/jobs/new?kind=digest&source_path=guide.md");
    for part in [
        "name=\"input.source_path\" value=\"guide.md\"",
        "<option value=\"notes.md\">",
        "name=\"input.loud\" value=\"true\" checked",
        "How many days back",
    ] {
        assert!(form.contains(part), "{part}: {form}");
    }
    assert!(!form.contains("input.blob"), "the server finds that out");
    let entered = [
        ("input.source_path", "guide.md"),
        ("input.days", "7"),
        ("input.tone", "long"),
        ("input.note", "two\r\nlines"),
    ];
    let at = browser.fill("/jobs/new?kind=digest", "/jobs", &entered);
    let inputs = bench.show(at.strip_prefix("/jobs/").unwrap())["inputs"].clone();
    assert_eq!(
        (&inputs["days"], &inputs["tone"], &inputs["loud"], &inputs["note"]),
        (&json!(7), &json!("long"), &json!(false), &json!("two\nlines")),
        "{inputs}"
    );
    assert!(browser.fill("/jobs/new?kind=sweep", "/jobs", &[]).starts_with("/jobs/"));
    // One that needs a Topic leads to where there are some.
    let topic = browser.page("/jobs/new?kind=settle");
    assert!(topic.contains("/topics?status=open") && !topic.contains("action=\"/jobs\""));
    assert_eq!(browser.get("/jobs/new?kind=diges").status, 400);
}

#[test]
fn what_is_wrong_stands_beside_its_field_and_nothing_is_lost() {
    let bench = site();
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let send = |entered: &[(&str, &str)]| {
        let refused = browser.try_fill("/jobs/new?kind=digest", "/jobs", entered);
        assert!(refused.status >= 400, "{}", refused.html);
        refused
    };
    let wrong = |html: &str, input: &str| {
        let (_, after) = html.split_once(&format!("id=\"wrong-digest-input.{input}\">")).unwrap();
        after.split_once('<').unwrap().0.to_owned()
    };
    let refused = send(&[
        ("input.source_path", "guide.md"),
        ("input.days", "99"),
        ("input.tone", "long"),
        ("input.note", "kept <b>"),
    ]);
    assert_eq!(refused.status, 400);
    assert_eq!(wrong(&refused.html, "days"), "must be a number from 1 to 31");
    assert_eq!(refused.html.matches("field-refusal").count(), 1, "{}", refused.html);
    for part in [
        "name=\"input.source_path\" value=\"guide.md\"",
        "<option value=\"long\" selected>",
        "name=\"input.loud\" value=\"true\">",
        "kept &#60;b&#62;",
    ] {
        assert!(refused.html.contains(part), "{part}: {}", refused.html);
    }
    let gone =
        send(&[("input.source_path", "gone.md"), ("input.days", "9"), ("input.tone", "long")]);
    assert_eq!(gone.status, 404);
    assert!(wrong(&gone.html, "source_path").contains("gone.md"), "{}", gone.html);
    let missing = send(&[("input.source_path", "guide.md"), ("input.days", "9")]);
    assert_eq!(wrong(&missing.html, "tone"), "this field is required");
    // The same by the API: the name of the input is told.
    let body = json!({"kind": "digest", "source_path": "guide.md", "days": 99, "tone": "long"});
    let refused = bench.post("/api/agent/jobs", body);
    assert_eq!(refused.body["error"]["input"], "days", "{:?}", refused.body);
    let list = bench.get("/api/agent/jobs").ok();
    assert_eq!(list["items"], json!([]), "nothing was asked for");
}

#[test]
fn a_site_without_kinds_says_what_to_type() {
    let bench = Bench::new();
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let html = browser.page("/jobs/new");
    assert!(html.contains("wiki-browser new kind"), "{html}");
}
