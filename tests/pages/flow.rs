//! Forms do what they say, once, and not from another site.

use serde_json::json;

use crate::pages::{Browser, PROPOSES, REWRITE, hidden_fields};
use crate::support::{Bench, Server, until};

fn site(bench: &Bench) -> Server {
    bench.topic_kind("rewrite", PROPOSES, REWRITE);
    bench.serve()
}

/// Opens a Topic on the first line of the guide, as a person does.
#[track_caller]
fn open(browser: &Browser) -> String {
    let entered =
        [("about", "words"), ("quote", "The first line."), ("body", "Better words\r\n\r\nPlease.")];
    browser.fill("/d/guide.md", "/topics", &entered)
}

#[test]
fn a_change_is_asked_for_made_and_committed_by_forms_alone() {
    let bench = Bench::new();
    let server = site(&bench);
    let browser = Browser::signed_in(&bench, &server);
    let topic = open(&browser);
    let said = [("body", "One more thing:\r\nkeep it short.")];
    let message = browser.fill(&topic, &format!("{topic}/messages"), &said);
    assert_eq!(message, format!("{topic}#message-2"));
    let shown = bench.get(&format!("/api{topic}")).ok();
    assert_eq!(shown["messages"][0]["body"], "Better words\n\nPlease.");
    assert_eq!(shown["messages"][1]["body"], "One more thing:\nkeep it short.");
    let asked = browser.fill(&topic, &format!("{topic}/jobs"), &[]);
    let (page, job) = asked.split_once("#job-").unwrap();
    assert_eq!(page, topic, "the job is followed where it was asked for");
    until("the job has a proposal", || browser.page(page).contains("Review the proposal"));
    let id = bench.show(job)["proposal_id"].clone();
    let proposal = format!("/proposals/{}", id.as_str().unwrap());
    let html = browser.page(&proposal);
    for part in ["better</ins> line.", "first</del> line.", "rl-changed", "Approve and commit"] {
        assert!(html.contains(part), "{part}: {html}");
    }
    let subject = [("subject", "Say it better")];
    let approve = format!("{proposal}/approve");
    assert_eq!(browser.fill(&proposal, &approve, &subject), proposal);
    assert_eq!(bench.git(&["log", "-1", "--format=%s"]), "Say it better");
    assert!(bench.read("guide.md").contains("The better line."));
    assert_eq!(bench.status(), "");
    assert!(browser.page(&proposal).contains("Approved and committed"));
    assert!(browser.page(&topic).contains("Incorporated"));
}

#[test]
fn a_proposal_is_rejected_with_a_reason_and_a_topic_is_closed_and_reopened() {
    let bench = Bench::new();
    let server = site(&bench);
    let browser = Browser::signed_in(&bench, &server);
    let topic = bench.topic("guide.md", "The first line.", "Better words");
    let shown = bench.proposal("rewrite", &topic);
    let proposal = format!("/proposals/{}", shown["proposal"]["id"].as_str().unwrap());
    let reject = format!("{proposal}/reject");
    let empty = browser.try_fill(&proposal, &reject, &[("reason", " \r\n")]);
    assert_eq!(empty.status, 400, "{}", empty.html);
    assert_eq!(browser.fill(&proposal, &reject, &[("reason", "Not <b>so</b>")]), proposal);
    assert!(browser.page(&proposal).contains("Not &#60;b&#62;so&#60;/b&#62;"));
    let path = format!("/topics/{}", topic.id);
    browser.fill(&path, &format!("{path}/discard"), &[("reason", "Not needed")]);
    let closed = browser.page(&path);
    assert!(
        closed.contains("Closed without a change") && closed.contains("Not needed"),
        "{closed}"
    );
    assert!(!closed.contains("Your message"), "nothing is offered that would be refused");
    browser.fill(&path, &format!("{path}/reopen"), &[("reason", "")]);
    assert!(browser.page(&path).contains("Your message"));
}

#[test]
fn what_was_typed_comes_back_with_the_refusal() {
    let bench = Bench::new();
    let server = site(&bench);
    let browser = Browser::signed_in(&bench, &server);
    let body = "A long\r\nmessage </textarea><script>";
    for (quote, words) in
        [("Not in the text", "What you wrote"), (" ", "choose the whole document")]
    {
        let entered = [("about", "words"), ("quote", quote), ("body", body)];
        let seen = browser.try_fill("/d/guide.md", "/topics", &entered);
        assert_eq!(seen.status, 400, "{}", seen.html);
        assert!(seen.html.contains(words), "{}", seen.html);
        assert!(seen.html.contains("message &#60;/textarea&#62;&#60;script&#62;"), "{}", seen.html);
        assert!(
            seen.html.contains("<a class=\"button\" data-way href=\"/d/guide.md\">"),
            "{}",
            seen.html
        );
    }
    // The document changes after the page was shown: its words are not looked for elsewhere.
    let html = browser.page("/d/guide.md");
    let mut fields = hidden_fields(&html, "/topics");
    bench.write("guide.md", "# Guide\n\nNew. The first line.\n");
    for (name, value) in [("about", "words"), ("quote", "The first line."), ("body", "x")] {
        fields.push((name.to_owned(), value.to_owned()));
    }
    let fields: Vec<_> =
        fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(browser.submit("/topics", &fields).status, 409);
}

#[test]
fn a_passage_over_lines_is_found_whatever_ends_them() {
    let bench = Bench::new();
    bench.write("crlf.md", "# Title\r\n\r\nOne line\r\nand another.\r\n");
    bench.git(&["-c", "core.autocrlf=false", "add", "crlf.md"]);
    bench.git(&["commit", "-q", "-m", "crlf"]);
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let entered = [("about", "words"), ("quote", "One line\r\nand another."), ("body", "Both")];
    let topic = browser.fill("/d/crlf.md", "/topics", &entered);
    let shown = bench.get(&format!("/api{topic}")).ok();
    assert_eq!(shown["topic"]["anchor"]["quote"], "One line\r\nand another.");
    let whole = [("about", "whole"), ("quote", ""), ("body", "All of it")];
    let topic = browser.fill("/d/crlf.md", "/topics", &whole);
    assert_eq!(bench.get(&format!("/api{topic}")).ok()["topic"]["is_global"], true);
}

#[test]
fn a_form_sent_twice_counts_once() {
    let bench = Bench::new();
    let server = site(&bench);
    let browser = Browser::signed_in(&bench, &server);
    let topic = open(&browser);
    let action = format!("{topic}/messages");
    let key = hidden_fields(&browser.page(&topic), &action).remove(0).1;
    let fields = [("key", key.as_str()), ("body", "Only once")];
    let places: Vec<_> = (0..2)
        .map(|_| browser.submit(&action, &fields).header("location").map(str::to_owned))
        .collect();
    assert_eq!(places, [Some(format!("{topic}#message-2")), Some(format!("{topic}#message-2"))]);
    assert_eq!(bench.get(&format!("/api{topic}")).ok()["messages"].as_array().unwrap().len(), 2);
}

#[test]
fn a_form_of_another_origin_changes_nothing() {
    let bench = Bench::new();
    let server = site(&bench);
    let browser = Browser::signed_in(&bench, &server);
    let topic = open(&browser);
    let action = format!("{topic}/messages");
    let fields = [("key", "k"), ("body", "Forged")];
    for site in ["cross-site", "same-site"] {
        let seen = browser.submit_from(site, &action, &fields);
        assert_eq!(seen.status, 403, "{}", seen.html);
    }
    let stranger = Browser::new(&server);
    assert_eq!(stranger.submit(&action, &fields).status, 401);
    assert_eq!(bench.get(&format!("/api{topic}")).ok()["messages"].as_array().unwrap().len(), 1);
    let json = bench.post(&action, json!({"body": "not a form"}));
    assert_eq!(json.status, 400);
}

#[test]
fn a_topic_is_put_on_other_words_and_loose_files_are_listed() {
    let bench = Bench::new();
    let server = site(&bench);
    let browser = Browser::signed_in(&bench, &server);
    let topic = open(&browser);
    bench.write("guide.md", "# Guide\r\n\r\nA wholly other thing\r\nof two lines.\r\n");
    bench.write("loose.md", "x");
    let anchor = format!("{topic}/anchor");
    let wrong = browser.try_fill(&topic, &anchor, &[("quote", "never there")]);
    assert_eq!(wrong.status, 400, "{}", wrong.html);
    let quote = [("quote", "other thing\r\nof two")];
    assert_eq!(browser.fill(&topic, &anchor, &quote), topic);
    let shown = bench.get(&format!("/api{topic}")).ok();
    assert_eq!(shown["topic"]["anchor"]["quote"], "other thing\r\nof two");
    assert_eq!(shown["topic"]["placement"]["method"], "reattached");
    let list = browser.page("/d");
    assert!(list.contains("loose.md") && list.contains("Not tracked"), "{list}");
    assert!(!list.contains("href=\"/d/loose.md"), "it is no document yet");
    server.stop();
}
