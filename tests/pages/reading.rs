//! What the pages show, to whom, and their empty states.

use serde_json::json;

use crate::pages::{Browser, PROPOSES, REWRITE};
use crate::support::{Bench, until};

#[test]
fn every_page_is_for_people_who_are_signed_in() {
    let bench = Bench::new();
    bench.topic_kind("rewrite", PROPOSES, REWRITE);
    bench.topic_kind("fail", "timeout = \"20s\"", "echo 'no way' >&2; exit 3");
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    assert!(browser.page("/").contains("Start here"), "an empty site says what to do");
    for (path, words) in [
        ("/topics", "No Topics yet"),
        ("/decisions", "Nothing to review."),
        ("/proposals", "No proposals found"),
        ("/jobs", "No jobs yet"),
    ] {
        assert!(browser.page(path).contains(words), "{path}");
    }
    let topic = bench.topic("guide.md", "The first line", "Say it better\n\nPlease.");
    let proposal = bench.proposal("rewrite", &topic);
    let failed = bench.ended(&bench.job_on("fail", &topic));
    let job = failed["id"].as_str().unwrap();
    let paths = [
        ("/".to_owned(), "Say it better"),
        ("/d".to_owned(), "1 Topic"),
        ("/d?query=GUIDE".to_owned(), "guide.md"),
        ("/search".to_owned(), "this exact phrase"),
        ("/d?limit=1".to_owned(), "/d?after=docs%2Fdeep.md&#38;limit=1"),
        ("/d/guide.md?text=1".to_owned(), "<mark>The first line</mark>"),
        ("/d/guide.md".to_owned(), "data-state=\"exact\" data-from=\"9:0\" data-to=\"9:14\""),
        ("/d/docs/deep.md".to_owned(), "Far below."),
        ("/topics?status=open".to_owned(), "Say it better"),
        (format!("/topics/{}", topic.id), "The passage is where it was."),
        ("/decisions".to_owned(), "Better words"),
        ("/proposals".to_owned(), "Better words"),
        (
            format!("/proposals/{}", proposal["proposal"]["id"].as_str().unwrap()),
            "better</ins> line.",
        ),
        ("/d/guide.md?history".to_owned(), "History of <bdi>Guide</bdi>"),
        ("/search?query=better".to_owned(), "Say it <mark>better</mark>"),
        ("/search?query=the*&kind=topic".to_owned(), "kind=source"),
        ("/jobs?status=failed".to_owned(), "Agent failed. See log."),
        (format!("/jobs/{job}"), "no way"),
        (format!("/jobs/{job}/prompt"), "topic="),
    ];
    let stranger = Browser::new(&server);
    for (path, words) in paths {
        let html = browser.page(&path);
        assert!(html.contains(words), "{path} does not say {words}: {html}");
        assert!(!html.contains("http-equiv"), "{path} refreshes itself for nothing");
        let seen = stranger.get(&path);
        assert_eq!(seen.status, 401, "{path}");
        assert!(seen.html.contains("wiki-browser login"), "{path}: {}", seen.html);
        assert!(!seen.html.contains(words), "{path}");
    }
}

#[test]
fn what_is_not_there_is_a_page_with_a_way_back() {
    let bench = Bench::new();
    bench.word_kind("work", "timeout = \"60s\"", "exit 0");
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let id = "01a20055-89de-75bf-86a4-afa25662a97d";
    let paths = [
        "/d/nothing.md".to_owned(),
        "/d/../etc/passwd".to_owned(),
        "/d/.gitignore".to_owned(),
        "/d/%2e%2e/x.md".to_owned(),
        format!("/topics/{id}"),
        "/topics/x".to_owned(),
        format!("/proposals/{id}"),
        format!("/jobs/{id}"),
        format!("/jobs/{id}/prompt"),
        "/nothing".to_owned(),
    ];
    for path in paths {
        let seen = browser.get(&path);
        assert_eq!(seen.status, 404, "{path}: {}", seen.html);
        assert!(seen.html.contains("Page not found"), "{path}");
        // The way to everything else stays.
        assert!(seen.html.contains("<details class=\"menu menu-work\">"), "{path}");
        assert!(seen.html.contains("<a class=\"button\" data-way href=\"/\">"), "{path}");
    }
    // The form of a Topic that is gone leads to the others, with what was typed.
    let form = format!("/topics/{id}/messages");
    let refused = browser.submit(&form, &[("key", "k"), ("body", "not lost")]);
    assert_eq!(refused.status, 404);
    for part in ["href=\"/topics\">View other Topics", "not lost"] {
        assert!(refused.html.contains(part), "{part}: {}", refused.html);
    }
    assert_eq!(browser.get("/topics?status=strange").status, 400);
    assert_eq!(browser.get("/d?unknown=1").status, 400);
    assert!(browser.page("/search?query=a*").contains("a beginning has two letters"));
    for asked in ["query", "q"] {
        let html = browser.page(&format!("/search?{asked}=absent"));
        assert!(html.contains("No results for “<bdi>absent</bdi>”"), "{html}");
    }
    assert_eq!(browser.get("/d/guide.md?history&after=x").status, 400);
}

#[test]
fn the_page_of_a_job_refreshes_itself_while_it_runs() {
    let bench = Bench::new();
    bench.topic_kind("slow", "timeout = \"60s\"", "echo working >&2; beat a");
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let topic = bench.topic("guide.md", "The first line", "Wait");
    let job = bench.job_on("slow", &topic);
    let path = format!("/jobs/{job}");
    until("the page shows the agent's words", || browser.page(&path).contains("working"));
    let html = browser.page(&path);
    for part in ["<meta http-equiv=\"refresh\"", "of at most 1 min", " max=\"60000\" value="] {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert_eq!(browser.fill(&path, &format!("{path}/cancel"), &[]), path);
    bench.wait_status(&job, "cancelled");
    let html = browser.page(&path);
    assert!(!html.contains("http-equiv") && html.contains("Cancelled by"), "{html}");
    let again = browser.fill(&path, &format!("{path}/retry"), &[]);
    let again = again.strip_prefix("/jobs/").unwrap();
    assert_eq!(bench.show(again)["retry_of"], json!(job));
    bench.post(&format!("/api/agent/jobs/{again}/cancel"), json!({})).ok();
    bench.ended(again);
}

#[test]
fn a_failure_is_as_plain_to_see_beside_a_job_at_work() {
    let bench = Bench::new();
    let red = "printf 'first\\n\\033[31mno model\\033[0m\\n' >&2; exit 3";
    bench.topic_kind("breaks", "timeout = \"20s\"", red);
    bench.topic_kind("slow", "timeout = \"60s\"", "beat a");
    let server = bench.serve();
    let browser = Browser::signed_in(&bench, &server);
    let topic = bench.topic("guide.md", "The first line", "Wait");
    let failed = bench.ended(&bench.job_on("breaks", &topic));
    let slow = bench.job_on("slow", &topic);
    let html = browser.page(&format!("/topics/{}", topic.id));
    let failed = failed["id"].as_str().unwrap();
    let (_, card) = html.split_once(&format!("id=\"job-{failed}\"")).expect("it is shown whole");
    let card = card.split_once("id=\"job-").map_or(card, |it| it.0);
    assert!(card.contains("no model") && card.contains("Try again"), "{card}");
    assert!(!card.contains("[31m") && card.contains("t-ink1"), "colors are classes: {card}");
    assert!(html.contains(&format!("id=\"job-{slow}\"")));
    // Its last words stand in lists too.
    for list in ["/", "/jobs"] {
        assert!(browser.page(list).contains("no model"), "{list}");
    }
}
