//! The form of a kind has a field for each input that a person gives.

use serde_json::json;

use crate::pages::Browser;
use crate::support::Bench;

const KIND: &str = r#"wb.kind "translate" {
  about = "Says it in another language", engine = "translate", timeout = "20s",
  inputs = {
    topic_id = wb.input.topic(),
    source_path = wb.input.source { from = "topic_id" },
    language = wb.input.choice { choices = { "de", "fr" }, about = "Which <one>" },
    title = wb.input.line { required = false },
    tone = wb.input.text { required = false, default = "as it is" },
    words = wb.input.number { required = false, min = 1, max = 500 },
    careful = wb.input.flag { default = true },
    loud = wb.input.flag { default = false },
  },
  prompt = [[{{topic_id}} {{source_path}} {{language}} {{title}} {{tone}}
{{words}} {{careful}} {{loud}}]],
}
"#;

#[test]
fn every_sort_of_input_is_asked_for_and_sent() {
    let bench = Bench::new();
    bench.engine("translate", "true");
    bench.lua(KIND);
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let topic = bench.topic("guide.md", "The first line.", "In German?");
    let path = format!("/topics/{}", topic.id);
    let html = browser.page(&path);
    for part in [
        "name=\"input.language\" required",
        "<option value=\"fr\">",
        "Which &#60;one&#62;",
        "type=\"number\" step=\"any\" name=\"input.words\" value=\"\" min=\"1\" max=\"500\"",
        "name=\"input.careful\" value=\"true\" checked",
        "name=\"input.loud\" value=\"true\">",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
    for given in ["topic_id", "source_path"] {
        assert!(!html.contains(&format!("input.{given}")), "{given} follows from the Topic");
    }
    let form = format!("{path}/jobs");
    let entered = [
        ("input.language", "fr"),
        ("input.title", ""),
        ("input.tone", "warm\r\nand short"),
        ("input.words", "20"),
        ("input.loud", "true"),
    ];
    let asked = browser.fill(&path, &form, &entered);
    let inputs = bench.show(asked.split_once("#job-").unwrap().1)["inputs"].clone();
    assert_eq!(
        (&inputs["language"], &inputs["tone"], &inputs["words"]),
        (&json!("fr"), &json!("warm\nand short"), &json!(20)),
        "{inputs}"
    );
    assert_eq!((&inputs["careful"], &inputs["loud"]), (&json!(false), &json!(true)));
    assert!(inputs.get("title").is_none(), "{inputs}");
    // What is wrong is refused by name, and what was typed comes back.
    let wrong = [("input.language", "fr"), ("input.words", "many"), ("input.tone", "warm")];
    let refused = browser.try_fill(&path, &form, &wrong);
    assert!(refused.status == 400 && refused.html.contains("words"), "{}", refused.html);
    assert!(refused.html.contains("warm"), "{}", refused.html);
    let beside = "id=\"wrong-translate-input.words\">must be a number<";
    assert!(refused.html.contains(beside), "{}", refused.html);
    assert!(refused.html.contains("id=\"t-messages\""), "it is the page of the Topic");
    let foreign = [("input.language", "fr"), ("input.source_path", "notes.md")];
    assert_eq!(browser.try_fill(&path, &form, &foreign).status, 400);
}

#[test]
fn a_job_on_a_topic_is_given_its_time_and_its_place() {
    let bench = Bench::new();
    bench.engine("translate", "true");
    bench.lua(KIND);
    bench.lua(&KIND.replace("\"translate\" {", "\"again\" {"));
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let topic = bench.topic("guide.md", "The first line.", "In German?");
    let path = format!("/topics/{}", topic.id);
    let form = format!("{path}/jobs");
    assert!(!browser.page(&path).contains("<details class=\"turn\" open>"), "folded away");
    let entered = |priority| {
        [("input.language", "fr"), ("not_before", "2099-03-04T05:06"), ("priority", priority)]
    };
    let refused = browser.try_fill(&path, &form, &entered("500"));
    assert_eq!(refused.status, 400, "{}", refused.html);
    let html = refused.html;
    // The first of the two.
    let [said, others] = ["again", "translate"].map(|kind| {
        let form = html.split(&format!("id=\"start-{kind}\"")).nth(1).unwrap();
        form.split("</form>").next().unwrap().to_owned()
    });
    for part in [
        "<details class=\"turn\" open>",
        "id=\"wrong-again-turn-priority\">",
        "aria-describedby=\"wrong-again-turn-priority\"",
        "value=\"2099-03-04T05:06\"",
        "value=\"500\"",
        "in <span id=\"zone-again\" data-zone data-keep>UTC</span>",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(
        others.contains("<details class=\"turn\">") && !others.contains("value=\"500\""),
        "{others}"
    );
    let asked = browser.fill(&path, &form, &entered("-5"));
    let job = bench.show(asked.split_once("#job-").unwrap().1);
    assert_eq!(job["kind"], "again");
    assert_eq!((&job["status"], &job["priority"]), (&json!("queued"), &json!(-5)));
    assert_eq!(job["not_before"], "2099-03-04T05:06:00.000Z");
}
