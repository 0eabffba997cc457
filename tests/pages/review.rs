//! The review through forms alone: requested changes, an edit, a conflict, several Topics.

use serde_json::json;

use crate::pages::{Browser, PROPOSES, REWRITE};
use crate::support::{Bench, Server, until};

/// An agent whose prompt ends in words for a model, which are no assignments.
const AGENT: &str = "eval \"$(grep -E '^[a-z_]+=')\"
propose() { \"$wb_agent\" insert-proposal --topic-id \"$topic\" --base-sha \"$base\" \"$@\"; }
";

fn site(bench: &Bench) -> Server {
    bench.topic_kind("rewrite", PROPOSES, "");
    let file = bench.base.join("agents/rewrite.sh");
    std::fs::write(file, format!("{AGENT}{REWRITE}\n")).unwrap();
    bench.serve()
}

fn path_of(shown: &serde_json::Value) -> String {
    format!("/proposals/{}", shown["proposal"]["id"].as_str().unwrap())
}

#[test]
fn a_rework_and_an_edit_are_asked_for_by_forms() {
    let bench = Bench::new();
    let server = site(&bench);
    let browser = Browser::signed_in(&bench, &server);
    let topic = bench.topic("guide.md", "The first line.", "Better words");
    let proposal = path_of(&bench.proposal("rewrite", &topic));
    let typed = [("reason", "Finer,\r\nplease")];
    let place = browser.fill(&proposal, &format!("{proposal}/rework"), &typed);
    assert_eq!(place, proposal, "the next revision appears there");
    until("there is another revision", || browser.page(&place).contains("data-later"));
    let gone = browser.page(&proposal);
    let (_, link) = gone.split_once("data-later href=\"").unwrap();
    let next = link.split_once('"').unwrap().0.to_owned();
    let html = browser.page(&next);
    assert!(html.contains("Revised at the request of <bdi>ada</bdi>, from"), "{html}");
    assert!(browser.page(&format!("{next}?against=1")).contains("The change since revision 1"));
    let gone = browser.page(&proposal);
    assert!(gone.contains(&format!("<a href=\"{next}\">a later revision</a>")), "{gone}");
    assert!(!gone.contains("Approve and commit"), "nothing is offered that would be refused");

    let form = format!("{next}/edit");
    let html = browser.page(&form);
    assert!(html.contains(">\n# Guide\n\nThe better line."), "{html}");
    let empty = browser.try_fill(&form, &form, &[("text", " ")]);
    assert_eq!(empty.status, 400, "{}", empty.html);
    let text = "# Guide\r\n\r\nThe <b>best</b> line.\r\n\r\nThe second line.\r\n";
    let edited = browser.fill(&form, &form, &[("text", text)]);
    let html = browser.page(&edited);
    assert!(
        html.contains("Edited by <bdi>ada</bdi> from") && html.contains("Co-authors"),
        "{html}"
    );
    browser.fill(&edited, &format!("{edited}/approve"), &[("subject", "")]);
    assert_eq!(bench.read("guide.md"), text.replace("\r\n", "\n"));
    assert!(bench.git(&["log", "-1", "--format=%B"]).contains("Co-authored-by: ada"));
}

#[test]
fn a_conflict_is_shown_with_the_offer_of_a_rework() {
    let bench = Bench::new();
    let server = site(&bench);
    let browser = Browser::signed_in(&bench, &server);
    let topic = bench.topic("guide.md", "The first line.", "Better words");
    let proposal = path_of(&bench.proposal("rewrite", &topic));
    bench.write("guide.md", "# Guide\n\nThe <i>first</i> line.\n\nThe second line.\n");
    bench.git(&["commit", "-qam", "by hand"]);
    let html = browser.page(&proposal);
    for part in [
        "Conflicts",
        "The &#60;i&#62;first&#60;/i&#62; line.",
        "Request changes",
        "has changed since; 1 conflict",
        "Request changes; the agent will merge both.",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert!(!html.contains("Approve and commit"));
    assert!(browser.page("/proposals").contains("conflicts with the document"));
}

#[test]
fn of_a_closed_topic_only_what_can_be_done_is_offered() {
    let bench = Bench::new();
    let server = site(&bench);
    let browser = Browser::signed_in(&bench, &server);
    let topic = bench.topic("guide.md", "The first line.", "Better words, please");
    let proposal = path_of(&bench.proposal("rewrite", &topic));
    let html = browser.page(&proposal);
    assert!(html.contains("id=\"rework\"") && html.contains("The Topic stays open;"), "{html}");
    bench.post(&format!("/api/topics/{}/discard", topic.id), json!({})).ok();
    let html = browser.page(&proposal);
    let link = format!("<a href=\"/topics/{}\">Better words, please</a>", topic.id);
    let way = format!("<a href=\"/topics/{}#t-close\">reopen the Topic</a>", topic.id);
    let told = format!("The Topic {link} is closed.");
    for part in [told.as_str(), way.as_str(), "The Topic stays closed; your reason"] {
        assert!(html.contains(part), "{part}: {html}");
    }
    for part in ["#rework", "\"rework\"", "Request changes", "/edit", "stays open"] {
        assert!(!html.contains(part), "{part}: {html}");
    }
    // Neither would work, and a rejection does.
    let typed = [("key", "k1"), ("reason", "x")];
    let rework = browser.submit(&format!("{proposal}/rework"), &typed);
    assert_eq!(rework.status, 409, "{}", rework.html);
    browser.fill(&proposal, &format!("{proposal}/reject"), &[("reason", "Not now")]);
    assert!(browser.page(&proposal).contains("Not now"));
}

#[test]
fn several_topics_are_given_to_one_job_by_a_form() {
    let bench = Bench::new();
    let server = site(&bench);
    let browser = Browser::signed_in(&bench, &server);
    let one = bench.topic("guide.md", "The first line.", "Better words");
    let two = bench.topic("guide.md", "The second line.", "This <b>too</b>");
    let path = format!("/topics/{}", one.id);
    let html = browser.page(&path);
    assert!(html.contains(&format!("name=\"topic_ids\" value=\"{}\"", two.id)), "{html}");
    let asked = browser.fill(&path, &format!("{path}/jobs"), &[("topic_ids", two.id.as_str())]);
    let job = asked.split_once("#job-").unwrap().1;
    until("there is a proposal", || browser.page(&path).contains("Review the proposal"));
    let id = bench.show(job)["proposal_id"].clone();
    let proposal = format!("/proposals/{}", id.as_str().unwrap());
    assert!(browser.page(&proposal).contains("Also settles"));
    // Sent again without being told what it replaces, it is refused with a way on.
    let again = browser.try_fill(&path, &format!("{path}/jobs"), &[("topic_ids", two.id.as_str())]);
    assert!(again.status == 409 && again.html.contains("replace_proposals"), "{}", again.html);
    browser.fill(&proposal, &format!("{proposal}/approve"), &[]);
    let shown = bench.get(&format!("/api/topics/{}", two.id)).ok();
    assert_eq!(shown["topic"]["status"], json!("incorporated"));
}

#[test]
fn line_ends_survive_the_form_or_it_is_not_offered() {
    let bench = Bench::new();
    bench.git(&["config", "core.autocrlf", "false"]);
    bench.write("crlf.md", "The first line.\r\nkept\r\n");
    bench.write("mixed.md", "The first line.\r\nkept\n");
    bench.git(&["add", "crlf.md", "mixed.md"]);
    bench.git(&["commit", "-qm", "more"]);
    let server = site(&bench);
    let browser = Browser::signed_in(&bench, &server);
    let topic = bench.topic("crlf.md", "The first line.", "Better words");
    let form = path_of(&bench.proposal("rewrite", &topic)) + "/edit";
    let edited = browser.fill(&form, &form, &[("text", "Mine.\r\nkept\r\n")]);
    let shown = bench.get(&format!("/api{edited}")).ok();
    assert_eq!(shown["text"], "Mine.\r\nkept\r\n");
    let topic = bench.topic("mixed.md", "The first line.", "Better words");
    let proposal = path_of(&bench.proposal("rewrite", &topic));
    let seen = browser.get(&format!("{proposal}/edit"));
    assert!(seen.status == 409 && seen.html.contains("proposal edit"), "{}", seen.html);
    let html = browser.page(&proposal);
    assert!(!html.contains("/edit\"") && html.contains("mixes line endings"), "{html}");
    assert!(browser.page(&edited).contains(&format!("{edited}/edit\"")));
}

#[test]
fn a_text_is_brought_over_between_revisions_of_one_topic_alone() {
    let bench = Bench::new();
    bench.write("crlf.md", "The first line.\r\n\r\nkept\r\n\r\nlast\r\n");
    bench.git(&["config", "core.autocrlf", "false"]);
    bench.git(&["add", "crlf.md"]);
    bench.git(&["commit", "-qm", "more"]);
    let server = site(&bench);
    let browser = Browser::signed_in(&bench, &server);
    let topic = bench.topic("crlf.md", "The first line.", "Better words");
    let (first, other) = (bench.proposal("rewrite", &topic), {
        let topic = bench.topic("guide.md", "The first line.", "Better words");
        path_of(&bench.proposal("rewrite", &topic))
    });
    let id = first["proposal"]["id"].as_str().unwrap();
    let form = path_of(&first) + "/edit";
    let edited = browser.fill(&form, &form, &[("text", "Other.\r\n\r\nkept\r\n\r\nlast\r\n")]);
    let old = first["text"].as_str().unwrap();
    let mine = old.replace("last", "<b>last of all</b>");
    let over = format!("{edited}/edit?from={id}");
    let later = format!("{edited}/edit");
    let sent = |over: &str, text: &str| {
        let fields = [("key", "a-key-of-mine"), ("text_digest", "old"), ("text", text)];
        browser.submit(over, &fields)
    };
    let seen = sent(&over, &mine);
    assert_eq!(seen.status, 200, "{}", seen.html);
    assert!(seen.html.contains("Merged") && seen.html.contains("data-unsaved"));
    let both = "Other.\r\n\r\nkept\r\n\r\n&#60;b&#62;last of all&#60;/b&#62;\r\n</textarea>";
    assert!(seen.html.contains(both), "{}", seen.html);
    // Nothing was kept by that, and a text of another Topic is none of this one.
    assert_eq!(bench.get(&format!("/api{edited}")).ok()["revisions"].as_array().unwrap().len(), 2);
    let seen = sent(&format!("{other}/edit?from={id}"), &mine);
    assert!(
        seen.status == 400 && seen.html.contains("not a revision of this one"),
        "{}",
        seen.html
    );
    assert!(seen.html.contains("&#60;b&#62;last of all"), "what was typed stays: {}", seen.html);
    assert!(!browser.page(&later).contains("data-unsaved"));
    server.stop();
}
